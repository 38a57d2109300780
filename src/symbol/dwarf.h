/* What a file's DWARF says: types, functions with their parameters, lines, variables in scope.
 *
 * In: a path or descriptor; the DWARF (versions 2 to 5, both ELF classes) is in the file itself or in its separate debug file, found by
 * build-id or .gnu_debuglink, with what dwz moved to a common file (.gnu_debugaltlink). Out: plain values that live until
 * symbol_dwarf_close().
 *
 * Invariants
 *  1. Addresses are the file's own, before any load bias. Sizes and offsets are DWARF's, so those of a 32-bit file are ILP32's.
 *  2. Types are made when they are asked for. What a pointer points to and what a struct holds is read on request only, so a type that
 *     leads to itself costs nothing; const, volatile, restrict and _Atomic are left out.
 *  3. The file is untrusted. Each call has a budget of work that is a small multiple of the debug information's size; memory is bounded
 *     by that size. What makes no sense is SYMBOL_TYPE_UNKNOWN, a place of SYMBOL_PLACE_NONE with the reason, or ERR_FILE.
 *  4. A reader is used by one thread at a time.
 *
 * Not read: split DWARF (.dwo, .dwp).
 */
#ifndef SYMBOL_DWARF_H
#define SYMBOL_DWARF_H

#include "base/err.h"
#include "symbol/location.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol_dwarf;

/* ERR_NO_MATCH means that the file is good and has no debug info: the caller may do without. ERR_FILE, ERR_PERMISSION, ERR_SYSTEM else.
 * Cheap when there is none: headers are read, no contents. */
struct err *symbol_dwarf_open(const char *path, struct symbol_dwarf **out);
/* As symbol_dwarf_open(), on an open descriptor (which stays the caller's); `path` is for messages and debug links. */
struct err *symbol_dwarf_open_fd(int fd, const char *path, struct symbol_dwarf **out);
void symbol_dwarf_close(struct symbol_dwarf *dwarf);      /* accepts NULL */
int symbol_dwarf_width(const struct symbol_dwarf *dwarf); /* 32 or 64 */

/* ---- types ---- */

enum symbol_type_kind {
    SYMBOL_TYPE_UNKNOWN, /* `reason` says why; size_bytes may be known all the same */
    SYMBOL_TYPE_VOID,
    SYMBOL_TYPE_BOOL,
    SYMBOL_TYPE_CHAR, /* char, signed char, unsigned char, char16_t ...: shown as a character */
    SYMBOL_TYPE_INT,
    SYMBOL_TYPE_FLOAT,   /* float, double, long double (x87, 12 or 16 bytes), _Float128 when is_float128 */
    SYMBOL_TYPE_COMPLEX, /* two FLOATs of half the size */
    SYMBOL_TYPE_POINTER, /* also C++ references */
    SYMBOL_TYPE_ARRAY,
    SYMBOL_TYPE_STRUCT, /* also C++ classes */
    SYMBOL_TYPE_UNION,
    SYMBOL_TYPE_ENUM,
    SYMBOL_TYPE_TYPEDEF,
    SYMBOL_TYPE_FUNCTION,       /* what a function pointer points to */
    SYMBOL_TYPE_MEMBER_POINTER, /* C++ pointer to a member: one word, of functions two */
};

struct symbol_type {
    enum symbol_type_kind kind;
    const char *name;                    /* tag, typedef or base type name; NULL when it has none */
    uint64_t size_bytes;                 /* 0 for void, functions and what is not known */
    uint64_t count;                      /* ARRAY: elements; 0 with is_open. Others: the reader's own */
    uint32_t align_bytes;                /* where the program asked for more than the natural alignment, else 0 */
    bool is_signed;                      /* BOOL, CHAR, INT, ENUM */
    bool is_float128;                    /* FLOAT, COMPLEX: IEEE quad, not x87 */
    bool is_vector;                      /* ARRAY: a SIMD vector */
    bool is_open;                        /* ARRAY: [] or a length known only at run time */
    bool is_incomplete;                  /* STRUCT, UNION, ENUM: declared in this file, never defined */
    bool is_reference;                   /* POINTER: C++ & or && */
    bool by_reference;                   /* the reader's own: DW_CC_pass_by_reference */
    const char *reason;                  /* UNKNOWN: why; static or owned by the reader */
    const struct symbol_type *target;    /* TYPEDEF: what it names; ARRAY: an element (never NULL); else NULL */
    void *die;                           /* the reader's own */
    const struct symbol_member *members; /* the reader's own: use symbol_dwarf_members() */
};

struct symbol_member {
    const char *name; /* NULL: an anonymous struct or union, or a base class */
    const struct symbol_type *type;
    uint64_t offset_bytes; /* from the start of the struct; of a bit-field the byte that holds its lowest bit */
    uint8_t bit_offset;    /* bit-fields: lowest bit in that byte, 0 to 7, the least significant being 0 */
    uint8_t bit_size;      /* bit-fields: 1 to 64; else 0 */
    bool is_base;          /* a C++ base class */
    uint32_t align_bytes;  /* where the program asked for more than the natural alignment, else 0 */
};

struct symbol_enumerator {
    const char *name;
    int64_t value; /* of an unsigned enum to be read as uint64_t */
};

/* A type by name: `struct x`, `union x`, `enum x`, `class x`, or the name of a typedef or base type in any C spelling (`unsigned long`).
 * A bare name that is none of these may be a tag. C++ names with their namespaces (`a::b`), or without if nothing else has the name. Of
 * many definitions the first. ERR_NO_MATCH when there is none; of a tag that is only declared the incomplete type. */
struct err *symbol_dwarf_type(struct symbol_dwarf *dwarf, const char *name, const struct symbol_type **out);
/* What a pointer points to, what a typedef names, what an array holds, what a function returns. */
struct err *symbol_dwarf_target(struct symbol_dwarf *dwarf, const struct symbol_type *type, const struct symbol_type **out);
/* Skips typedefs; a struct, union or enum that is only declared here becomes its definition in another unit where there is one. */
const struct symbol_type *symbol_dwarf_resolve(struct symbol_dwarf *dwarf, const struct symbol_type *type);
/* Of a STRUCT or UNION (or a typedef of one), in the order of the source. Static members and virtual bases are left out. ERR_NO_MATCH when
 * the type is incomplete. */
struct err *symbol_dwarf_members(struct symbol_dwarf *dwarf, const struct symbol_type *type, const struct symbol_member **out,
                                 size_t *count);
struct err *symbol_dwarf_enumerators(struct symbol_dwarf *dwarf, const struct symbol_type *type, const struct symbol_enumerator **out,
                                     size_t *count);

/* ---- functions and variables ---- */

struct symbol_variable {
    const char *name; /* "" when it has none */
    const struct symbol_type *type;
    struct symbol_location location; /* at the address that was asked for */
    bool is_parameter;
    bool is_artificial;    /* made by the compiler, such as `this` */
    unsigned inline_depth; /* locals: 0 in the function that the source shows at the address, 1 in the one it is inlined into, ... */
};

struct symbol_dwarf_func {
    const char *name;         /* as in the source */
    const char *linkage_name; /* mangled, or NULL */
    uint64_t entry_va;
    const struct symbol_type *result;       /* VOID when it returns nothing */
    struct symbol_location result_location; /* right after its `ret`; of a void function SYMBOL_PLACE_NONE */
    const struct symbol_variable *params;   /* in the order of the source */
    size_t param_count;
    bool is_variadic;
    bool is_changed; /* the compiler changed how it is called: no parameter is located by the calling convention, nor are most results */
};

/* Entries of all out-of-line instances of the functions named `name` (as in the source or mangled). ERR_NO_MATCH when there is none. */
struct err *symbol_dwarf_entries(struct symbol_dwarf *dwarf, const char *name, const uint64_t **out, size_t *count);
/* The function whose code holds `va`, with its parameters as they can be found when the program is about to execute the instruction
 * there. At its entry, parameters whose DWARF location does not hold yet (slots that the prologue fills) or is missing are located by
 * the calling convention (callconv.h), unless the DWARF shows that the function does not follow it. ERR_NO_MATCH when no DWARF describes
 * the address. */
struct err *symbol_dwarf_func_at(struct symbol_dwarf *dwarf, uint64_t va, const struct symbol_dwarf_func **out);
/* The variables in scope at `va`, innermost block first, parameters with the block they belong to, inlined functions included. A name
 * that occurs again further out is hidden by the first. C's scope ends where inline_depth becomes 1. */
struct err *symbol_dwarf_locals(struct symbol_dwarf *dwarf, uint64_t va, const struct symbol_variable **out, size_t *count);

/* ---- lines ---- */

struct symbol_line {
    const char *path; /* as the compiler noted it */
    unsigned line;    /* from 1 */
    uint64_t va;      /* first instruction of the row */
};

/* Where the code of FILE:LINE starts: one address for each block of code that the line has, by address. `file` is a path or its last
 * components. A line without code means the next one that has some, as in gdb; the lines in *out say which. ERR_NO_MATCH when there is no
 * such file, or no code at or behind the line; the message names a near one. */
struct err *symbol_dwarf_line_places(struct symbol_dwarf *dwarf, const char *file, unsigned line, const struct symbol_line **out,
                                     size_t *count);
/* The row of the line table that covers `va`. */
struct err *symbol_dwarf_line_at(struct symbol_dwarf *dwarf, uint64_t va, struct symbol_line *out);

/* ---- inlined functions ---- */

enum { SYMBOL_INLINES_MAX = 64 };

/* One of the functions that the source shows at an address. */
struct symbol_inline {
    const char *name;          /* as symbol_func.demangled; without a mangled name to read it from, as the source has it, with its scopes.
                                  NULL: not known */
    const char *path;          /* of the place in this function: of the address, or of what is inlined. NULL: not known */
    unsigned line;             /* likewise; 0: not known */
    const char *declared_path; /* where the function itself stands, or NULL */
    unsigned declared_line;    /* 0: not known */
    uint64_t copy_va;          /* inlined: entry of an out-of-line copy of the same function, which no clone is; 0: none is known */
    bool is_inlined;           /* into the next one */
};

/* The functions at `va`, innermost first: those that are inlined there, each into the next, and at last the function whose code it is.
 * Returns how many; 0 when debug info says nothing of the address. A place with a line but no function is one without a name. Quick when
 * the function was asked for before. */
size_t symbol_dwarf_inlines(struct symbol_dwarf *dwarf, uint64_t va, struct symbol_inline out[SYMBOL_INLINES_MAX]);

#endif
