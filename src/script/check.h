/* Checking one clause: what the check_*.c files share. */
#ifndef SCRIPT_CHECK_H
#define SCRIPT_CHECK_H

#include "script/internal.h"

struct variable {
    const char *name;
    const struct frame *frame; /* of the macro whose body declared it; NULL: the clause's own */
    uint32_t slot;
    bool is_assigned, is_used;
    struct script_span span;
};

/* A macro being expanded: names in its body are its parameters' or its own. */
struct frame {
    const struct macro *macro;
    struct node **arguments;
    const struct frame *caller; /* NULL: the clause */
    unsigned depth;
};

struct checker {
    struct script_program *program;
    struct script_types *types; /* the model's */
    enum script_model model;
    const struct script_env *env; /* or NULL */
    const struct parsed_clause *clause;
    struct arena *arena; /* of the trees */
    const struct frame *frame;
    VEC(struct variable) variables;        /* in scope, innermost last */
    VEC(const struct script_type *) slots; /* by slot, of this pass */
    VEC(struct script_span) places;        /* by slot: where it was declared */
    VEC(const struct script_type *) wider; /* by slot, as the pass before found it */
    VEC(struct script_span) wider_places;
    VEC(struct script_action) actions;
    bool slots_changed;
    unsigned depth, loops;
    size_t n_nodes;
    bool is_last;      /* the pass that gives trees and messages */
    bool in_sizeof;    /* the expression is not evaluated */
    bool is_exhausted; /* LIMIT_NODES was reached and reported */
};

/* ---- nodes ---- */

struct script_expr *expr_new(struct checker *c, enum script_expr_kind kind, struct script_span span, const struct script_type *type);
struct script_stmt *stmt_new(struct checker *c, enum script_stmt_kind kind, struct script_span span);
struct script_expr *expr_bad(struct checker *c, struct script_span span);
struct script_expr *expr_int(struct checker *c, struct script_span span, const struct script_type *type, uint64_t value);
static inline bool is_bad(const struct script_expr *expr)
{
    return expr->type->kind == SCRIPT_T_UNKNOWN;
}
const char *type_text(struct checker *c, const struct script_type *type);
#define FAIL(c, node_span, ...) (ERROR((c)->program, node_span, __VA_ARGS__), expr_bad(c, node_span))

/* ---- convert.c ---- */

const struct script_type *int64_type(struct checker *c, bool is_signed);
const struct script_type *bool_type(struct checker *c);
bool is_number(const struct script_type *type); /* INT or BOOL */
/* Explicit conversion nodes; types must be ones that CONVERT allows. Folds constants. */
struct script_expr *convert(struct checker *c, struct script_expr *expr, const struct script_type *type);
/* As a condition. Reports when the type has no truth value. */
struct script_expr *to_bool(struct checker *c, struct script_expr *expr, const char *where);
struct script_expr *to_int(struct checker *c, struct script_expr *expr, bool is_signed);
/* A value of type `from` can be assigned to `to`: implicit conversion exists. */
bool can_convert(const struct script_type *from, const struct script_type *to);
/* Widened to what a map holds. */
const struct script_type *widen(struct checker *c, const struct script_type *type);
/* The type that holds both, or NULL. */
const struct script_type *unify(struct checker *c, const struct script_type *old, const struct script_type *new);
/* Folds operations on constants; returns expr itself when it can not. */
struct script_expr *fold(struct checker *c, struct script_expr *expr);

/* ---- check_expr.c ---- */

struct script_expr *check_expr(struct checker *c, const struct node *node); /* arrays of char are strings */
struct script_expr *check_raw(struct checker *c, const struct node *node);  /* they are arrays */
struct script_expr *decay(struct checker *c, struct script_expr *expr);
struct script_expr *check_binary(struct checker *c, uint32_t op, struct script_span span, struct script_expr *left,
                                 struct script_expr *right);
const struct script_type *resolve_spelling(struct checker *c, const struct spelling *spelling);
/* ---- check_memory.c ---- */
/* args as a whole: a record of all that have a name. */
struct script_expr *check_all_args(struct checker *c, struct script_span span);
struct script_expr *check_field(struct checker *c, const struct node *node);
struct script_expr *check_item(struct checker *c, const struct node *node);
struct script_expr *check_index(struct checker *c, const struct node *node);
struct script_expr *check_deref(struct checker *c, struct script_span span, struct script_expr *pointer);
struct script_expr *pointer_add(struct checker *c, struct script_span span, struct script_expr *pointer, struct script_expr *index,
                                bool is_minus);
struct script_expr *check_offsetof(struct checker *c, const struct node *node);
struct script_expr *check_cast(struct checker *c, const struct node *node);
/* ---- check_name.c ---- */
struct script_expr *check_name(struct checker *c, const struct node *node);
/* check_stack.c. The node of ustack without arguments has no list. */
struct script_expr *check_stack(struct checker *c, const struct node *node);
struct script_expr *check_stack_length(struct checker *c, const struct node *node);
struct script_expr *check_builtin(struct checker *c, struct script_span span, const char *name); /* NULL: no such builtin */
struct script_expr *check_macro(struct checker *c, const struct macro *macro, const struct node *node, bool *found);
const struct macro *find_macro(const struct checker *c, const char *name);
bool clause_has(const struct checker *c, unsigned kinds);
#define POINT(kind) (1u << (kind))
#define POINTS_OF_PROCESS (POINT(SCRIPT_P_UPROBE) | POINT(SCRIPT_P_URETPROBE) | POINT(SCRIPT_P_USDT) | POINT(SCRIPT_P_PROFILE))

/* ---- check_call.c, check_action.c, check_text.c ---- */
struct script_expr *check_call(struct checker *c, const struct node *node);
bool call_has(enum script_call call, char flag);
bool count_fits(struct checker *c, enum script_call call, const struct node *node);
bool call_find(const char *name, size_t n, enum script_call *call);
struct script_expr *check_format(struct checker *c, enum script_call call, const struct node *node);
struct script_expr *check_action(struct checker *c, enum script_call call, const struct node *node);
struct script_expr *check_text_call(struct checker *c, enum script_call call, const struct node *node);
struct script_expr *check_map_call(struct checker *c, enum script_call call, const struct node *node);
struct script_expr *check_compile_time(struct checker *c, enum script_call call, const struct node *node);
struct script_expr *call_new(struct checker *c, enum script_call call, struct script_span span, const struct script_type *type, size_t n);
uint32_t action_add(struct checker *c, struct script_action action);
/* A string known now: a literal or a parameter. */
bool constant_text(struct checker *c, const struct node *node, const char **text, size_t *length);
bool constant_int(struct checker *c, const struct node *node, int64_t *value);

/* ---- check_stmt.c ---- */
struct script_stmt *check_block(struct checker *c, const struct node *node);
struct script_stmt *check_statements(struct checker *c, const struct node *node, size_t n);

/* ---- check_map.c ---- */
/* The table's entry for the map that a node names, through macro parameters. NULL: reported. */
struct map_entry *map_of(struct checker *c, const struct node *node);
uint32_t map_index(const struct checker *c, const struct map_entry *map);
/* Checks the keys (tuple or NULL), merging their types into the map's. False: reported or unknown yet. */
bool map_key(struct checker *c, struct map_entry **map, const struct node *node, struct script_expr **key);
bool map_key_of(struct checker *c, struct map_entry **map, struct script_span span, struct script_expr *value, struct script_expr **key);
/* Merges the type of an assigned value. False: reported. */
bool map_value(struct checker *c, struct map_entry *map, struct script_span span, const struct script_type *type);
const struct script_type *map_read_type(struct checker *c, const struct map_entry *map);
struct script_expr *check_map(struct checker *c, const struct node *node, bool keep_aggregate);

/* ---- variables, check.c ---- */
struct variable *variable_find(struct checker *c, const char *name, const struct frame *frame);
struct variable *variable_declare(struct checker *c, const char *name, const struct frame *frame, struct script_span span);
/* Merges a type into the slot's. NULL: they do not fit. */
const struct script_type *variable_type(struct checker *c, uint32_t slot, const struct script_type *type);
/* Follows a $parameter of a macro to the variable it stands for. */
const struct node *variable_follow(struct checker *c, const struct node *node, const struct frame **frame);
bool enter(struct checker *c, struct script_span span);
void leave(struct checker *c);

/* check_stmt.c: self->NAME exists from now on, with at least this type. */
bool define_thread(struct checker *c, struct script_span span, const char *name, const struct script_type *type);

#endif
