/* C declarations: what declare.c, declare_record.c and constant.c share. */
#ifndef SCRIPT_DECLARE_H
#define SCRIPT_DECLARE_H

#include "script/internal.h"

struct c_parser {
    struct script_program *program;
    struct script_types *types;
    struct token *tokens;
    size_t at, n;
    unsigned depth;
};

/* What __attribute__ and _Alignas said. */
struct c_attributes {
    bool is_packed;
    uint32_t align;  /* 0: nothing */
    unsigned mode;   /* bytes of __mode__, 0: nothing */
    bool is_unknown; /* changes the layout in a way that is not understood */
};

const struct token *c_peek(const struct c_parser *c, size_t ahead);
bool c_is(const struct c_parser *c, uint32_t op);
bool c_is_name(const struct c_parser *c, const char *name);
bool c_accept(struct c_parser *c, uint32_t op);
void c_skip_balanced(struct c_parser *c);
/* Reports an error at the current token if it stands in the script itself; always false. */
bool c_error(struct c_parser *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Consumes attributes, qualifiers and other words that mean nothing here. */
void c_attributes(struct c_parser *c, struct c_attributes *out);
/* Types: NULL when not understood. */
const struct script_type *c_specifiers(struct c_parser *c, struct c_attributes *attributes, bool *is_typedef);
const struct script_type *c_declarator(struct c_parser *c, const struct script_type *base, struct c_attributes *attributes,
                                       const char **name);
const struct script_type *c_type_name(struct c_parser *c);
bool c_starts_type(const struct c_parser *c, size_t ahead);
/* declare_record.c */
const struct script_type *c_record(struct c_parser *c);
const struct script_type *c_enum(struct c_parser *c);
/* constant.c */
bool c_constant(struct c_parser *c, int64_t *value);
/* report.c: whether the place is in the script, not in a header. */
bool source_is_own(const struct script_program *program, struct script_span span);

#endif
