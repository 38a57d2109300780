/* Where a value is when a thread stands at an instruction: registers, memory, or known without looking. Plain values.
 *
 * A value is one piece, or several in ascending order of their bytes (a struct in two registers). A piece computes a word:
 *
 *     x = (reg == SYMBOL_NO_REG ? 0 : contents of reg) + offset
 *     for each i below deref_count: x = (word in memory at x) + deref_offset[i]
 *
 * words and sums being as wide as the process's pointers. Registers have DWARF's numbers, which differ between x86-64 and i386.
 */
#ifndef SYMBOL_LOCATION_H
#define SYMBOL_LOCATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* DWARF register numbers: System V psABI x86-64 3.6.2, i386 2.4.2. */
enum {
    SYMBOL_REG_64_RAX = 0,
    SYMBOL_REG_64_RDX = 1,
    SYMBOL_REG_64_RCX = 2,
    SYMBOL_REG_64_RBX = 3,
    SYMBOL_REG_64_RSI = 4,
    SYMBOL_REG_64_RDI = 5,
    SYMBOL_REG_64_RBP = 6,
    SYMBOL_REG_64_RSP = 7,
    SYMBOL_REG_64_R8 = 8, /* to r15 = 15 */
    SYMBOL_REG_64_RIP = 16,
    SYMBOL_REG_64_XMM0 = 17, /* to xmm15 = 32 */
    SYMBOL_REG_64_ST0 = 33,  /* to st7 = 40 */
    SYMBOL_REG_32_EAX = 0,
    SYMBOL_REG_32_ECX = 1,
    SYMBOL_REG_32_EDX = 2,
    SYMBOL_REG_32_EBX = 3,
    SYMBOL_REG_32_ESP = 4,
    SYMBOL_REG_32_EBP = 5,
    SYMBOL_REG_32_ESI = 6,
    SYMBOL_REG_32_EDI = 7,
    SYMBOL_REG_32_EIP = 8,
    SYMBOL_REG_32_ST0 = 11,  /* to st7 = 18 */
    SYMBOL_REG_32_XMM0 = 21, /* to xmm7 = 28 */
    SYMBOL_NO_REG = -1,
};

enum symbol_place {
    SYMBOL_PLACE_NONE,     /* nowhere, or not to be found: the location's `reason` */
    SYMBOL_PLACE_REGISTER, /* in the low bytes of `reg`, as they are; an x87 register has 10 bytes whatever the type */
    SYMBOL_PLACE_MEMORY,   /* in memory at x */
    SYMBOL_PLACE_VALUE,    /* it is x */
    SYMBOL_PLACE_CONSTANT, /* it is `bytes` */
};

enum { SYMBOL_MAX_DEREFS = 2, SYMBOL_MAX_PIECES = 8 };

struct symbol_piece {
    uint8_t place;       /* enum symbol_place; NONE: these bytes of the value are not known */
    uint8_t deref_count; /* at most SYMBOL_MAX_DEREFS */
    bool is_file_va;     /* reg is SYMBOL_NO_REG and `offset` an address of the file: add the load bias */
    bool is_entry;       /* `reg` (or, as REGISTER, the value) is what the register held when the function was entered */
    int16_t reg;         /* DWARF number or SYMBOL_NO_REG */
    uint32_t size_bytes; /* of the value's bytes; 0: all of them */
    int64_t offset;
    int64_t deref_offset[SYMBOL_MAX_DEREFS];
    const uint8_t *bytes; /* CONSTANT: size_bytes bytes */
};

struct symbol_location {
    unsigned piece_count; /* 0: nowhere */
    struct symbol_piece pieces[SYMBOL_MAX_PIECES];
    const char *reason; /* when piece_count is 0 or a piece is NONE: why, as in "optimised out"; else NULL */
    bool is_convention; /* from the calling convention, not from DWARF */
};

#endif
