/* The types of scripts and of the C declarations in them, laid out for one data model.
 *
 * Types are immutable once built (a record is complete once its layout is closed) and are compared by structure with type_equal(), never
 * by address. They live as long as the struct script_types they were built in. */
#ifndef SCRIPT_TYPE_H
#define SCRIPT_TYPE_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The data model of the process in which a clause fires. */
enum script_model { SCRIPT_LP64, SCRIPT_ILP32, SCRIPT_MODELS };

enum script_type_kind {
    SCRIPT_T_UNKNOWN, /* while maps are inferred: nothing has been assigned yet. Never in a finished clause */
    SCRIPT_T_VOID,
    SCRIPT_T_BOOL,    /* one byte, 0 or 1 */
    SCRIPT_T_INT,     /* also enumerations */
    SCRIPT_T_DOUBLE,  /* bytes = 4 (float), 8 (double), 12 or 16 (long double) in memory; a value in a script is always a double */
    SCRIPT_T_STRING,  /* bytes = room, with the final NUL */
    SCRIPT_T_BUFFER,  /* bytes = most bytes kept; the value has a length of its own */
    SCRIPT_T_POINTER, /* bytes = 4 or 8 in memory and sizeof; a value in a script is always 64 bits */
    SCRIPT_T_RECORD,  /* struct or union */
    SCRIPT_T_ARRAY,
    SCRIPT_T_FUNCTION, /* only behind a pointer */
    SCRIPT_T_TUPLE,
    SCRIPT_T_COUNT, /* the aggregations: only as the value of a map */
    SCRIPT_T_SUM,
    SCRIPT_T_AVG,
    SCRIPT_T_MIN,
    SCRIPT_T_MAX,
    SCRIPT_T_STATS,
    SCRIPT_T_HIST,      /* power of two, 2^bits linear steps in each */
    SCRIPT_T_LHIST,     /* linear */
    SCRIPT_T_TSERIES,   /* a value per interval of time */
    SCRIPT_T_SYMBOL,    /* an address and the process it belongs to: printed as a name. 16 bytes: u64 address, u32 pid, u32 0 */
    SCRIPT_T_TIMESTAMP, /* a time printed through strftime. 16 bytes: u64 nanoseconds, u32 clock, u32 index into the clause's formats */
    SCRIPT_T_MAC,       /* 8 bytes: six of address, two 0 */
    SCRIPT_T_NAME,      /* a text that is looked up when it is printed. 8 bytes: u32 number, u32 enum script_name */
    SCRIPT_T_INET,      /* 24 bytes: u32 address family, u32 0, sixteen of address */
    SCRIPT_T_STACK,     /* 8 bytes: u32 number of the stack, 0: none; u16 frames; u16 enum script_stack */
};

/* What the number of a NAME counts. */
enum script_name {
    SCRIPT_NAME_FUNCTION,
    SCRIPT_NAME_PROBE,
    SCRIPT_NAME_PROBETYPE,
    SCRIPT_NAME_USER,
    SCRIPT_NAME_ERROR,
    SCRIPT_NAME_PROCESS
};

/* How a STACK is shown: names; addresses, names and files; addresses. */
enum script_stack { SCRIPT_STACK_BPFTRACE, SCRIPT_STACK_PERF, SCRIPT_STACK_RAW };

struct script_member {
    const char *name; /* NULL: anonymous struct or union, whose members are looked up as if they were the outer's */
    const struct script_type *type;
    uint64_t offset;    /* bytes from the start of the record; a bit-field: of the byte that holds its lowest bit */
    uint8_t bit_offset; /* bit-fields: of that lowest bit in its byte, 0 to 7 */
    uint8_t bit_size;   /* 0: not a bit-field */
};

struct script_record {
    const char *name; /* with its keyword: "struct foo", "union bar"; "struct " and a number if it has no tag */
    bool is_union;
    bool is_complete; /* false: declared only, no member can be used */
    struct script_member *members;
    size_t n_members;
};

struct script_constant {
    const char *name;
    int64_t value;
};

struct script_enum {
    const char *name; /* "enum foo" */
    struct script_constant *constants;
    size_t n_constants;
};

struct script_item {
    const struct script_type *type;
    uint64_t offset; /* within the tuple; the same for both models */
};

struct script_type {
    enum script_type_kind kind;
    bool is_signed;                        /* T_INT; T_SUM, T_AVG, T_MIN, T_MAX, T_STATS: of the values */
    bool is_char;                          /* T_INT: plain C char: an array of it is a string */
    bool is_flexible;                      /* T_ARRAY without a length: the last member of a record */
    uint32_t align;                        /* bytes, in a record of its model */
    uint64_t bytes;                        /* sizeof */
    const struct script_type *to;          /* T_POINTER, T_ARRAY: what is behind, or an element */
    uint64_t count;                        /* T_ARRAY: elements; T_TUPLE: items */
    struct script_record *record;          /* T_RECORD */
    const struct script_enum *enumeration; /* T_INT of an enumeration, else NULL */
    const struct script_item *items;       /* T_TUPLE */
    int64_t low, high, step; /* T_LHIST: range and step; T_HIST: low = bits; T_TSERIES: low = interval in ns, high = intervals kept,
                                step = enum script_type_kind of how values in one interval are joined, or T_VOID: the last one */
};

/* The types of one model: its built-in ones, the script's declarations, and those that a caller built. */
struct script_types;

enum script_model script_types_model(const struct script_types *types);

/* The bytes that a value takes inside a tuple; alone or in a map it is rounded up to 8. */
uint64_t script_type_value_bytes(const struct script_type *type);

/* ---- built-in and derived types ---- */

const struct script_type *script_type_plain(struct script_types *types, enum script_type_kind kind);
/* bytes: 1, 2, 4, 8, or 16 (__int128, which can be a member but not a value). */
const struct script_type *script_type_int(struct script_types *types, unsigned bytes, bool is_signed);
const struct script_type *script_type_char(struct script_types *types);
const struct script_type *script_type_double(struct script_types *types, unsigned bytes);
const struct script_type *script_type_string(struct script_types *types, uint64_t bytes);
const struct script_type *script_type_buffer(struct script_types *types, uint64_t bytes);
const struct script_type *script_type_pointer(struct script_types *types, const struct script_type *to);
/* count: SCRIPT_FLEXIBLE for an array without a length. NULL when the size overflows or the element has none. */
#define SCRIPT_FLEXIBLE UINT64_MAX
const struct script_type *script_type_array(struct script_types *types, const struct script_type *of, uint64_t count);
const struct script_type *script_type_tuple(struct script_types *types, const struct script_type *const *items, size_t n);
/* An integer type that knows its constants. `enumeration` and what it points to must live as long as `types` (script_types_arena). */
const struct script_type *script_type_enum(struct script_types *types, unsigned bytes, bool is_signed,
                                           const struct script_enum *enumeration);
struct arena *script_types_arena(struct script_types *types);

/* ---- records: open, members in order, close; layout is what gcc does for the model ---- */

/* name: "struct foo" or "union foo", or NULL for one without a tag. A name that exists and is incomplete is opened again. */
const struct script_type *script_record_open(struct script_types *types, const char *name, bool is_union);
/* Either the layout is computed (offset = SCRIPT_COMPUTED), or it is known, as from debug information. bit_size 0: not a bit-field;
 * SCRIPT_ZERO_WIDTH: `int : 0;`. align: of an aligned attribute, else 0. */
#define SCRIPT_COMPUTED UINT64_MAX
#define SCRIPT_ZERO_WIDTH 255
struct script_field {
    const char *name; /* NULL: anonymous */
    const struct script_type *type;
    uint64_t offset;     /* bytes, or SCRIPT_COMPUTED */
    unsigned bit_offset; /* with a known offset */
    unsigned bit_size;
    uint32_t align;
    bool is_packed; /* of this member */
};
/* fields are copied. `bytes`: SCRIPT_COMPUTED, or the known size. align: of the record's aligned attribute, else 0. False when the record
 * would be larger than SCRIPT_LARGEST or a member has no size. */
#define SCRIPT_LARGEST (UINT64_C(1) << 40)
bool script_record_close(struct script_types *types, const struct script_type *record, const struct script_field *fields, size_t n,
                         bool is_packed, uint32_t align, uint64_t bytes);

/* ---- names ---- */

/* "struct foo", "union foo", "enum foo", a typedef's name, or a C or script type name ("unsigned long", "uint32"). NULL: unknown. */
const struct script_type *script_types_find(struct script_types *types, const char *name);
void script_types_define(struct script_types *types, const char *name, const struct script_type *type);
/* Enumeration constants and macros that are integers. */
bool script_types_constant(const struct script_types *types, const char *name, int64_t *value);
void script_types_define_constant(struct script_types *types, const char *name, int64_t value);

/* The member called `name`, also inside anonymous members; *out is a copy whose offset counts from the start of `type`. */
bool script_type_member(const struct script_type *type, const char *name, struct script_member *out);
bool script_type_equal(const struct script_type *a, const struct script_type *b);
/* As messages spell it: "int64", "struct foo *", "(int64,string[16])". Lives in `arena`. */
const char *script_type_name(struct arena *arena, const struct script_type *type);

#endif
