/* What the files of script/ share: sources and diagnostics, tokens, the tree as parsed, and the limits. */
#ifndef SCRIPT_INTERNAL_H
#define SCRIPT_INTERNAL_H

#include "base/arena.h"
#include "base/memory.h"
#include "base/table.h"
#include "script/script.h"

/* Bounds on hostile input. */
enum {
    LIMIT_TEXT = 4 << 20,   /* bytes of one source */
    LIMIT_DEPTH = 200,      /* nesting of expressions, statements and declarators */
    LIMIT_NESTING = 64,     /* of types in types */
    LIMIT_SOURCES = 64,     /* the script and its imports */
    LIMIT_DIAGNOSTICS = 50, /* errors and warnings kept */
    LIMIT_UNROLL = 100,     /* times; bpftrace's bound */
    LIMIT_NODES = 200000,   /* nodes that checking one clause may make, with macros expanded */
    LIMIT_MACRO_DEPTH = 64, /* macros in macros */
    LIMIT_VARIABLES = 4096, /* of one clause */
    LIMIT_MAPS = 1024,      /* of a script; also its macros, and its thread-local variables */
    LIMIT_STRING = 1 << 20, /* bytes of one string value */
};

/* ---- types.c, layout.c ---- */

struct script_types {
    enum script_model model;
    struct arena arena;
    struct table names;       /* name -> const struct script_type * */
    struct table constants;   /* name -> int64_t * */
    struct table enumerators; /* name -> const struct script_type * of its enumeration */
    struct table bodies;      /* macros of the script that are expressions: name -> const struct script_span * */
    struct table paths;       /* macros that are members of members, as sa_handler is: name -> NUL-terminated `a.b` */
    struct table texts;       /* macros that are strings: name -> NUL-terminated text, unescaped */
    unsigned n_unnamed;
};

struct script_types *types_create(enum script_model model);
void types_destroy(struct script_types *types);
/* The bytes that a value takes inside a tuple or a map. */
uint64_t type_value_bytes(const struct script_type *type);

/* ---- report.c: sources and diagnostics ---- */

/* A byte of a source, for people. */
struct place {
    const char *name;
    size_t name_length;
    unsigned line, column;
    size_t line_begin, line_end; /* bytes in the source */
};

struct source {
    const char *name;
    const char *text; /* NUL-terminated */
    size_t length;
    bool is_preprocessed; /* has lines `# LINE "FILE"`, which say where the text comes from */
    struct place last;    /* what was asked for last, where the next search begins: most are in order. Without a name: nothing yet */
};

struct diagnostic {
    struct script_span span;
    bool is_error;
    const char *text;
    const char *hint; /* or NULL */
};

void report(struct script_program *program, bool is_error, struct script_span span, const char *hint, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* What was held back about ILP32 is shown, and counts, from now on. */
void report_deferred(struct script_program *program);
#define ERROR(program, span, ...) report(program, true, span, NULL, __VA_ARGS__)
#define WARN(program, span, ...) report(program, false, span, NULL, __VA_ARGS__)
/* The index of a new source that holds a copy of text. */
uint32_t source_add(struct script_program *program, const char *name, const char *text, size_t length);
struct script_span span_join(struct script_span first, struct script_span last);

/* ---- near.c ---- */

struct near {
    const char *wanted;
    const char *best; /* NULL: nothing is near */
    unsigned distance;
};
void near_try(struct near *near, const char *candidate);
/* "did you mean 'x'?" in arena, or NULL. */
const char *near_hint(const struct near *near, struct arena *arena);

/* ---- lex.c ---- */

enum token_kind {
    TOKEN_END,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_STRING,
    TOKEN_NAME,
    TOKEN_VARIABLE, /* $x; text without the $ */
    TOKEN_MAP,      /* @x; text with the @ */
    TOKEN_PARAM,    /* $1 */
    TOKEN_COUNT,    /* $# */
    TOKEN_PUNCT,    /* op = its characters, first in the lowest byte */
    TOKEN_BAD,      /* reported already */
};

/* A punctuator's code: OP('<', '<', '=') */
#define OP1(a) ((uint32_t)(a))
#define OP2(a, b) (OP1(a) | (uint32_t)(b) << 8)
#define OP3(a, b, c) (OP2(a, b) | (uint32_t)(c) << 16)

struct token {
    enum token_kind kind;
    uint32_t op;
    struct script_span span;
    const char *text; /* names, strings (unescaped) */
    size_t length;
    uint64_t value;
    double number;
};

struct lexer {
    struct script_program *program;
    struct arena *arena;
    uint32_t file;
    size_t at, end;
    bool is_c;      /* C declarations: character constants, # lines are skipped, no $ and @ */
    bool after_dot; /* `.0.1` are two tuple indexes, not a number with a fraction */
    bool is_quiet;  /* errors are not reported */
};

void lexer_init(struct lexer *lexer, struct script_program *program, struct arena *arena, uint32_t file, size_t begin, size_t end);
struct token lexer_next(struct lexer *lexer);
const char *token_describe(struct arena *arena, const struct token *token);

/* ---- the tree ---- */

enum node_kind {
    N_BAD, /* an error was reported here */
    N_INT,
    N_FLOAT,
    N_STRING,
    N_BOOL,
    N_NAME,
    N_VARIABLE,
    N_MAP,   /* text; list = keys */
    N_PARAM, /* $1 */
    N_PARAM_COUNT,
    N_SELF, /* self->text */
    N_CALL,
    N_UNARY, /* op: - ~ ! * & */
    N_STEP,  /* op: ++ --; value: 1 = after */
    N_BINARY,
    N_CHOOSE,
    N_CAST,     /* spelling */
    N_SIZEOF,   /* spelling, or list[0] */
    N_OFFSETOF, /* spelling or list[0]; text = a.b.c */
    N_FIELD,
    N_ITEM, /* .value */
    N_INDEX,
    N_TUPLE,
    N_BLOCK,    /* list = statements; value: 1 = the last is its value */
    N_COMPTIME, /* list[0] */
    N_ASSIGN,   /* op, list[0], list[1] */
    N_IF,       /* condition, then, else or absent */
    N_WHILE,
    N_RANGE, /* variable, low, high, body */
    N_EACH,  /* variable, map, body */
    N_UNROLL,
    N_BREAK,
    N_CONTINUE,
    N_RETURN,
    N_LET,     /* variable, value or absent; spelling or NULL */
    N_DISCARD, /* _ = list[0] */
};

/* A type as written in an expression: resolved when it is checked, per model. */
struct spelling {
    struct script_span span;
    const char *name; /* "struct foo", "unsigned long", "uint8" */
    unsigned pointers;
    unsigned n_dimensions;
    uint64_t dimensions[4]; /* SCRIPT_FLEXIBLE: [] */
};

struct node {
    enum node_kind kind;
    uint32_t op;
    struct script_span span;
    const char *text;
    size_t length;
    uint64_t value;
    double number;
    struct node **list;
    size_t n_list;
    const struct spelling *spelling;
};

struct macro {
    const char *name;
    struct script_span span;
    struct node **params; /* N_VARIABLE, N_MAP or N_NAME */
    size_t n_params;
    struct node *body;
};

struct parsed_clause {
    struct script_clause clause;
    struct node *predicate; /* or NULL */
    struct node *body;
};

struct setting {
    const char *name, *value;
};

struct map_declaration {
    const char *name, *kind;
    uint64_t entries;
    struct script_span span;
};

struct option_use {
    const char *name, *fallback, *help;
};

/* A map during inference: like struct script_map, with what is known so far. */
struct map_entry {
    struct script_map map;
    struct script_span defined;                  /* the first assignment */
    const struct script_type *to[SCRIPT_MODELS]; /* values that are pointers: the type behind, per model */
    bool is_assigned, is_used, has_keys_known;
    bool is_target; /* something is assigned to it, of whatever type */
};

struct script_program {
    struct arena arena;
    struct script_options options;
    VEC(struct source) sources;
    VEC(struct diagnostic) diagnostics;
    size_t n_errors;
    VEC(struct diagnostic) deferred; /* of declarations for ILP32: they count when a clause is checked for that model */
    bool is_deferred;
    bool is_tentative; /* diagnostics are dropped unless the pass is the last */
    bool is_narrow;    /* what is reported now holds for 32-bit processes; what holds for both was reported before */
    struct script_types *types[SCRIPT_MODELS];
    struct table typedefs; /* names that are types in either model; value is not NULL */
    VEC(struct parsed_clause) clauses;
    VEC(struct macro) macros;
    VEC(struct setting) settings;
    VEC(struct map_declaration) declared;
    VEC(struct option_use) option_uses;
    VEC(struct map_entry) maps;
    VEC(struct script_thread_variable) threads;
    bool maps_changed, maps_fixed, is_checked, speculates, uses_cpid;
    unsigned max_strlen;
    const char **positional; /* arguments that are not --name */
    size_t n_positional;
};

/* ---- split.c ---- */

enum item_kind { ITEM_C, ITEM_DIRECTIVE, ITEM_CONFIG, ITEM_LET, ITEM_MACRO, ITEM_FN, ITEM_IMPORT, ITEM_CLAUSE };

struct item {
    enum item_kind kind;
    size_t begin, end; /* bytes of the source */
};

struct items {
    VEC(struct item) list;
};

/* Splits a source into its top-level items. */
void split_source(struct script_program *program, uint32_t file, struct items *out);

/* ---- declare.c, preprocess.c ---- */

/* Parses C declarations from the source into types; what is not understood is skipped, with an error if it stands in the script itself. */
void declare_types(struct script_program *program, uint32_t file, struct script_types *types);
/* Runs the C preprocessor for a model over text whose lines are those of the script. NULL: failed, reported. The caller frees. */
char *preprocess(struct script_program *program, enum script_model model, uint32_t file, const char *text);
/* Defines the macros in `#define` lines of preprocessed text that are integer constants or strings. */
void declare_macros(struct script_program *program, uint32_t file, struct script_types *types);

/* ---- parse ---- */

struct parser {
    struct script_program *program;
    struct token *tokens;
    size_t at, n;
    unsigned depth;
    bool in_predicate; /* a `/` before `{` ends the expression */
    bool failed;       /* the item is given up */
};

void parse_source(struct script_program *program, uint32_t file);
struct node *parse_expression(struct parser *parser);
/* The expression that a part of a source is. NULL: it is none. */
struct node *parse_part(struct script_program *program, struct script_span span);
struct node *parse_block(struct parser *parser);
bool parse_spelling(struct parser *parser, struct spelling *out);
bool parse_is_type(const struct parser *parser, size_t at);
struct node *node_new(struct parser *parser, enum node_kind kind, struct script_span span);
void node_add(struct parser *parser, struct node *node, struct node *child);
const struct token *parser_peek(const struct parser *parser, size_t ahead);
/* Of a binary operator, as in C: 1 (||) to 10 (* / %); 0: it is none. */
unsigned token_precedence(const struct token *token);
const struct token *parser_next(struct parser *parser);
bool parser_is(const struct parser *parser, uint32_t op);
bool parser_is_name(const struct parser *parser, const char *name);
bool parser_accept(struct parser *parser, uint32_t op);
bool parser_expect(struct parser *parser, uint32_t op);
void parser_unexpected(struct parser *parser, const char *expected);
bool parser_enter(struct parser *parser);
void parser_leave(struct parser *parser);
bool parse_points(struct script_program *program, uint32_t file, size_t *at, size_t end, struct script_clause *clause);

#endif
