/* Where the System V calling conventions put arguments and results: x86-64 psABI 3.2.3, i386 psABI 2.2.3 (cdecl, as gcc has it on Linux).
 *
 * In: the values in order, each reduced to what the conventions look at. Out: locations, valid at the function's first instruction
 * (arguments) or right after its `ret` (results). Pure: no allocation, no globals.
 *
 * What can not be known from types, and is therefore wrong here if used: regparm, fastcall, vectorcall and ms_abi functions, static
 * functions whose convention the compiler changed (callers should believe DWARF locations where there are some), -freg-struct-return and
 * -mregparm programs.
 */
#ifndef SYMBOL_CALLCONV_H
#define SYMBOL_CALLCONV_H

#include "symbol/location.h"

enum symbol_leaf_class {
    SYMBOL_LEAF_INT,      /* integers, pointers, enums, bool, bit-fields */
    SYMBOL_LEAF_FLOAT,    /* float, double */
    SYMBOL_LEAF_X87,      /* long double */
    SYMBOL_LEAF_FLOAT128, /* IEEE quad */
    SYMBOL_LEAF_VECTOR,   /* a SIMD vector */
};

enum { SYMBOL_MAX_LEAVES = 32 };

/* A scalar inside a value. */
struct symbol_leaf {
    uint8_t leaf_class; /* enum symbol_leaf_class */
    uint32_t offset;    /* bytes from the value's start */
    uint32_t size;      /* bytes; of a bit-field those it touches */
};

/* A value as the conventions see it. */
struct symbol_passed {
    uint64_t size;  /* bytes */
    uint32_t align; /* bytes, at least 1 */
    bool is_void;
    bool is_aggregate; /* struct, union, array: not a scalar or a complex number */
    bool is_complex;
    bool by_reference; /* C++: the value is in memory of the caller's, a pointer is passed */
    bool is_memory;    /* x86-64: a part of it goes to memory (a member that is not aligned, as in packed types), and so the whole */
    bool has_16;       /* it is aligned to 16 for a FLOAT128 or VECTOR inside */
    bool is_unknown;   /* can not be classified; nothing behind it can be located */
    unsigned leaf_count;
    struct symbol_leaf leaves[SYMBOL_MAX_LEAVES]; /* only of values up to 32 bytes */
};

/* Locates `count` arguments of a function that returns `result`. `width` is 32 or 64. */
void symbol_callconv_arguments(int width, const struct symbol_passed *result, const struct symbol_passed *arguments, size_t count,
                               struct symbol_location *out);
/* Whether a value, or a part of one, goes to memory on x86-64 because of what it is, not for want of registers. */
bool symbol_callconv_is_memory(const struct symbol_passed *value);
void symbol_callconv_result(int width, const struct symbol_passed *result, struct symbol_location *out);

#endif
