/* What the files of print/ share: text that grows, and values on their way into it. */
#ifndef PRINT_INTERNAL_H
#define PRINT_INTERNAL_H

#include "print/print.h"

/* ---- text.c ---- */

void text_bytes(struct print_text *text, const void *bytes, size_t n);
void text_string(struct print_text *text, const char *string);
void text_char(struct print_text *text, char c);
void text_fill(struct print_text *text, char c, size_t n);
void text_format(struct print_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What text_format() would make of %lld or %llu, but several times as fast: numbers are most of what scripts print. */
void text_int(struct print_text *text, uint64_t number, bool is_signed);
/* What a process said, made fit for a terminal. */
void text_visible(struct print_text *text, const char *bytes, size_t n);
/* A JSON string with its quotes. With `for_terminal`, what a terminal would act on is escaped, too. */
void text_json(struct print_text *text, const char *bytes, size_t n, bool for_terminal);
/* A number that JSON readers, which use doubles, may not be able to hold: then, in 0.26, a string. */
void text_json_int(struct print_text *text, uint64_t value, bool is_signed, enum print_dialect dialect);
/* Writes it out and empties it. */
void text_write(struct print_text *text, FILE *out);

/* ---- value.c ---- */

/* Where a value's bytes come from; see print.h. */
enum encoding { ALONE, IN_TUPLE, IN_MEMORY };

struct value {
    const struct script_type *type;
    const uint8_t *at;
    size_t n; /* bytes that are there; may be more or fewer than the type has */
    enum encoding encoding;
    uint8_t bit_offset, bit_size; /* bit_size != 0: a bit-field */
};

/* How to put it down. */
struct style {
    bool json;
    bool is_key;       /* of a map */
    bool for_terminal; /* of text: escape; of JSON: see text_json() */
    uint64_t divide;   /* integers are divided by this; 0 and 1: not */
};

void value_put(struct print *print, struct print_text *text, const struct value *value, const struct style *style);
/* BOOL, INT and POINTER, extended; a DOUBLE cut to an integer; 0 for others. */
uint64_t value_int(const struct value *value);
double value_double(const struct value *value);
bool value_is_number(const struct script_type *type);
/* The bytes of a string that is a STRING or an array of char. False: it is none. */
bool value_string(const struct value *value, const char **bytes, size_t *n);
/* The bytes of a BUFFER that are there. */
const uint8_t *value_buffer(const struct value *value, size_t *n);
/* The bytes that a value alone takes, a multiple of 8. */
size_t value_bytes(const struct script_type *type);
/* The item of a tuple. */
struct value value_item(const struct value *tuple, uint64_t index);
/* A BUFFER's bytes. Mode: 0 for %r, 'x' for %rx, 'h' for %rh. */
void value_put_buffer(struct print_text *text, const uint8_t *at, size_t n, char mode);
/* 8 bytes, a u32 number and a u32 enum print_name, shown as the name that the number stands for. */
void value_put_name(struct print *print, struct print_text *text, const struct value *value, const struct style *style);
/* What a process or a name table said. */
void value_put_said(struct print_text *text, const char *bytes, size_t n, const struct style *style);
/* Less than, equal to or greater than 0, as a sorts before, with, after b; both of the same type. */
int value_compare(const struct value *a, const struct value *b);

/* ---- stack.c ---- */

/* What a value of type STACK has in its 8 bytes: see script/type.h. */
void stack_put(struct print *print, struct print_text *text, uint64_t stack, const struct style *style);

/* ---- format.c ---- */

/* The values of a payload, in order. */
struct values {
    const struct script_action *action;
    const uint8_t *at;
    size_t left;
    size_t next; /* index into action->list */
};
void values_init(struct values *values, const struct print_event *event);
bool values_next(struct values *values, struct value *out);

/* The format with its values. for_terminal: values are escaped, the format's own text is not. */
void format_put(struct print *print, struct print_text *text, const struct print_event *event, bool for_terminal);

/* ---- time.c ---- */

/* strftime() with bpftrace's additions, local time. */
void time_put(struct print *print, struct print_text *text, const char *format, uint64_t wall_ns);
uint64_t time_wall_ns(const struct print *print, uint32_t clock, uint64_t ns);

/* ---- histogram.c, series.c ---- */

void histogram_put(struct print *print, struct print_text *text, const struct script_type *type, const uint64_t *slot, size_t n,
                   uint64_t divide);
void series_put(struct print *print, struct print_text *text, const struct print_point *points, size_t n, bool is_signed);

/* ---- map.c ---- */

/* Whether what the script prints has to be made fit for a terminal. */
struct style style_of(const struct print *print);
/* A map's name with one key: "@x[1, a]". */
void map_put_name(struct print *print, struct print_text *text, const struct script_map *map, const void *key, size_t bytes);
/* A key as the name of a member in JSON. */
void map_put_json_key(struct print *print, struct print_text *text, const struct script_map *map, const void *key, size_t bytes);
/* {"type": "map", "data": {"@x": */
void json_open(struct print_text *text, const char *type, const char *name);

#endif
