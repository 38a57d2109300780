/* Scripts: text -> tokens -> tree -> checked, typed tree.
 *
 * What enters: the text of a script in bpftrace's language, the words after it on the command line, and, for each place where a clause
 * is to fire, a struct script_env that answers what only a binary's debug information knows.
 * What leaves: clauses with their probes (struct script_clause), and for each clause, data model and environment a checked tree
 * (struct script_checked) that the next stage turns into code; diagnostics that show the place in the text.
 *
 *   struct script_program *program;
 *   script_parse(text, length, &options, &program)         the text, once
 *   script_check(program, contexts, n)                     every clause x model x environment; infers the types of maps over all of them
 *   contexts[i].checked                                    the trees
 *   script_check_late(program, &context)                   one more, for a place found later; the maps' types are fixed by then
 *   script_diagnostics(program)                            what to print
 *
 * Invariants:
 *  1. The text is parsed once. A checked tree belongs to one model: its types, offsets and sizeofs are that model's.
 *  2. Maps are global and 64-bit. Keys and values have one type for all clauses and models: integers have 8 bytes, pointers too (and
 *     know no model), strings the largest size assigned anywhere, tuples are made of these.
 *  3. A finished tree has no node of type SCRIPT_T_UNKNOWN, no unresolved name, and no implicit conversion.
 *  4. A tree exists only if the program has no error.
 *  5. Everything is owned by the program and lives until script_destroy(); trees of a context until then, too.
 *  6. All input is hostile: depth, size and number of everything are bounded (LIMIT_ in internal.h), with an error at the place.
 *
 * The preprocessor runs only when the text has a line that begins with `#` (other than `#!`), once per model. */
#ifndef SCRIPT_SCRIPT_H
#define SCRIPT_SCRIPT_H

#include "base/err.h"
#include "script/type.h"

/* ---- parsing ---- */

struct script_options {
    const char *name;             /* of the script in messages: its path, or "stdin" for -e, as bpftrace has it */
    const char *const *arguments; /* the words after the script: $1, $2, ...; `--name=value` for getopt() */
    size_t n_arguments;
    const char *const *include_dirs; /* -I */
    size_t n_include_dirs;
    const char *const *include_files; /* --include */
    size_t n_include_files;
    bool allow_unsafe;
    bool no_files;       /* neither import nor the preprocessor: for text that is not trusted */
    unsigned max_strlen; /* 0: 1024, or what the script's config says. Not 0: wins over the config */
};

struct script_program;

/* Never fails as such: a text that is wrong gives a program with errors among its diagnostics. `text` is copied. */
struct script_program *script_parse(const char *text, size_t length, const struct script_options *options);
void script_destroy(struct script_program *program);

/* The types of the script's declarations, for the tests of layouts and for building types in an environment. */
struct script_types *script_program_types(struct script_program *program, enum script_model model);

/* ---- diagnostics ---- */

/* The number of errors so far. */
size_t script_errors(const struct script_program *program);
/* All errors and warnings so far, in the order of the text, as bpftrace prints them:
 *   NAME:LINE:COLUMN-END: ERROR: message
 *   the source line
 *   ~~~ under the place
 * The caller frees. Empty text when there are none. */
char *script_diagnostics(const struct script_program *program);

/* ---- clauses ---- */

enum script_point_kind {
    SCRIPT_P_BEGIN,
    SCRIPT_P_END,
    SCRIPT_P_UPROBE,
    SCRIPT_P_URETPROBE,
    SCRIPT_P_USDT,
    SCRIPT_P_INTERVAL,
    SCRIPT_P_PROFILE,
    SCRIPT_P_SIGNAL, /* self:signal:SIGUSR1 */
};

struct script_span {
    uint32_t file, begin, end; /* index of the source, bytes */
};

struct script_point {
    enum script_point_kind kind;
    const char *text;     /* as written, with a short kind spelled out: "uprobe:/bin/bash:readline" */
    const char *path;     /* uprobe, uretprobe, usdt: file, library name or glob; NULL: the traced process's own */
    const char *function; /* uprobe, uretprobe: name or glob, NULL with an address or a line; usdt: the probe's name */
    const char *provider; /* usdt; NULL: any */
    const char *file;     /* path@file:line, else NULL */
    uint32_t line;
    uint64_t offset;  /* func+offset */
    uint64_t address; /* uprobe:path:0xADDRESS, when has_address */
    bool has_address;
    bool is_cpp;        /* uprobe:path:cpp:name: name without parameters, of any C++ overload */
    uint64_t period_ns; /* interval, profile */
    uint64_t hertz;     /* profile:hz:N, interval:hz:N, else 0 */
    struct script_span span;
};

struct script_clause {
    const struct script_point *points;
    size_t n_points;
    struct script_span span;
};

size_t script_n_clauses(const struct script_program *program);
const struct script_clause *script_clause_at(const struct script_program *program, size_t index);
/* "line:column" of a span's start in its source, for run-time messages; *name is the source's name. */
void script_place(const struct script_program *program, struct script_span span, const char **name, unsigned *line, unsigned *column);
/* The value of a config variable: the script's, else NULL. name: lower case, without BPFTRACE_. */
const char *script_config(const struct script_program *program, const char *name);
/* The bytes that str() gives room for, with the NUL. */
unsigned script_max_strlen(const struct script_program *program);
/* The names, defaults and descriptions of getopt() calls, for --help, as lines of text. The caller frees. */
char *script_help(const struct script_program *program);

/* ---- what only a binary knows ---- */

/* A parameter of the traced function, or a local variable at the place. */
struct script_argument {
    const char *name;
    const struct script_type *type; /* built in the `types` that the call was given */
    uint64_t cookie;                /* the environment's own: which location; carried to the next stage unchanged */
};

/* The answers for one probe in one binary. Any function may be NULL: nothing is known. Built types live in `types`. */
struct script_env {
    void *cookie;
    const char *name; /* of the probe, for messages: "uprobe:/bin/bash:readline" */
    /* The parameters in order; *list lives at least as long as the program. */
    size_t (*arguments)(void *cookie, struct script_types *types, const struct script_argument **list);
    /* A local variable (or parameter) by name; false: there is none. */
    bool (*local)(void *cookie, struct script_types *types, const char *name, struct script_argument *out);
    /* A type by name: "struct foo", "foo_t"; complete. NULL: none. */
    const struct script_type *(*type)(void *cookie, struct script_types *types, const char *name);
    /* The type of the return value. NULL: unknown (uint64). */
    const struct script_type *(*retval)(void *cookie, struct script_types *types);
    /* An enumeration constant or global name. */
    bool (*constant)(void *cookie, const char *name, int64_t *value);
};

/* ---- the checked tree ---- */

enum script_expr_kind {
#define EXPR(name, fields) SCRIPT_E_##name,
#include "script/nodes.def"
};

enum script_stmt_kind {
#define STMT(name, fields) SCRIPT_S_##name,
#include "script/nodes.def"
};

enum script_call {
#define CALL(id, name, fewest, most, flags) SCRIPT_C_##id,
#include "script/calls.def"
    SCRIPT_CALLS,
};

enum script_builtin {
#define BUILTIN(id, name, type) SCRIPT_B_##id,
#include "script/builtins.def"
    SCRIPT_BUILTINS,
};

enum script_op {
    SCRIPT_O_ADD,
    SCRIPT_O_SUB,
    SCRIPT_O_MUL,
    SCRIPT_O_DIV, /* by zero: an error record, the clause ends */
    SCRIPT_O_MOD,
    SCRIPT_O_AND,
    SCRIPT_O_OR,
    SCRIPT_O_XOR,
    SCRIPT_O_SHL,
    SCRIPT_O_SHR, /* arithmetic if the left operand is signed */
    SCRIPT_O_LT,
    SCRIPT_O_LE,
    SCRIPT_O_GT,
    SCRIPT_O_GE,
    SCRIPT_O_EQ,
    SCRIPT_O_NE,
    SCRIPT_O_NEG, /* unary */
    SCRIPT_O_INV,
    SCRIPT_O_NOT,
};

/* Which fields are used by which kind: nodes.def. */
struct script_expr {
    enum script_expr_kind kind;
    enum script_op op;
    const struct script_type *type;
    struct script_span span;
    uint64_t value; /* also what STEP adds and ADDRESS multiplies by */
    double number;
    const char *text;
    size_t length;
    uint32_t slot;
    uint32_t map;    /* index into the maps table */
    uint32_t action; /* CALL with an action: index into the clause's actions */
    enum script_builtin builtin;
    enum script_call call;
    bool is_post;
    uint64_t offset, bytes;
    uint64_t bound; /* that an index must be below; 0: it may be anything */
    uint8_t bit_offset, bit_size;
    const struct script_argument *argument;
    struct script_expr *left, *right, *condition, *target;
    struct script_expr *key;   /* of exactly the map's key type; NULL for a map without keys */
    struct script_expr **list; /* operands of a TUPLE or CALL */
    size_t n_list;
    struct script_stmt *body;
};

struct script_stmt {
    enum script_stmt_kind kind;
    struct script_span span;
    struct script_stmt *next; /* in its block */
    struct script_expr *target, *value, *weight, *condition, *low, *high;
    struct script_stmt *body, *other;
    uint64_t count;
    uint32_t map;
};

/* What the host does when an action's record arrives. The record carries the values of the CALL's list, of the types in `list`. */
struct script_action {
    enum script_call call;
    struct script_span span;
    const char *text; /* format of printf and its like, of time and strftime; the message of assert; the separator of join */
    size_t length;
    uint32_t map; /* print, clear, zero of a map; print: is_map */
    bool is_map;
    uint64_t top, divide; /* print(map, top, divide); 0: not given */
    bool has_code;        /* exit() is given one */
    const struct script_expr *const *list;
    size_t n_list;
};

/* One clause for one model and environment. */
struct script_checked {
    size_t clause;
    enum script_model model;
    struct script_expr *predicate; /* of type BOOL, or NULL */
    struct script_stmt *body;
    const struct script_type **slots; /* the types of the scratch variables */
    size_t n_slots;
    struct script_action *actions;
    size_t n_actions;
};

/* A clause to check, for a model and an environment (NULL: nothing is known; for BEGIN, END and interval, which are always LP64). Only
 * models that occur should be asked for: declarations and headers may be wrong for ILP32 alone, which matters only if it is used. */
struct script_context {
    size_t clause;
    enum script_model model;
    const struct script_env *env;
    struct script_checked *checked; /* out; NULL after an error */
};

/* Returns the number of errors; see the diagnostics. May be called once. */
size_t script_check(struct script_program *program, struct script_context *contexts, size_t n);
/* After script_check(): a context that appeared later. Maps keep their types. */
size_t script_check_late(struct script_program *program, struct script_context *context);

/* ---- maps and thread-local variables ---- */

struct script_map {
    const char *name;              /* with the @ */
    const struct script_type *key; /* NULL: no key. Several keys: a TUPLE */
    const struct script_type *value;
    uint64_t entries; /* of `let @x = hash(N)`, else 0: config max_map_keys */
    const char *kind; /* hash, lruhash, percpuhash, ... of that declaration, else NULL */
};

size_t script_n_maps(const struct script_program *program);
const struct script_map *script_map_at(const struct script_program *program, size_t index);
struct script_thread_variable {
    const char *name;
    const struct script_type *type;
};
size_t script_n_thread_variables(const struct script_program *program);
const struct script_thread_variable *script_thread_variable_at(const struct script_program *program, size_t index);

/* Whether a clause speculates; whether one asks for cpid. */
bool script_uses_speculation(const struct script_program *program);
bool script_uses_cpid(const struct script_program *program);

/* ---- for people ---- */

/* The tree as indented text; the caller frees. */
char *script_dump(const struct script_program *program, const struct script_checked *checked);
/* "pid", "printf"; for messages. */
const char *script_builtin_name(enum script_builtin builtin);
const char *script_call_name(enum script_call call);

#endif
