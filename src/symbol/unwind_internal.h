/* Shared by unwind.c and unwind_*.c only. */
#ifndef SYMBOL_UNWIND_INTERNAL_H
#define SYMBOL_UNWIND_INTERNAL_H

#include "symbol/cfi.h"
#include "symbol/unwind.h"
#include "wire/stream.h"

/* A range of code: one FDE, or code with one rule. */
struct symbol_unwind_piece {
    uint64_t va, end;
    struct wire_unwind_rule rule; /* cfi NULL: of all of it */
    const struct symbol_cfi *cfi;
    uint64_t fde_offset; /* in its section */
};
typedef VEC(struct symbol_unwind_piece) symbol_unwind_pieces;

struct symbol_unwind_row {
    uint64_t va, end;
    struct wire_unwind_rule rule;
};
typedef VEC(struct symbol_unwind_row) symbol_unwind_rows;

/* The rule that a row of call frame information becomes; WIRE_CFA_NONE when the table has no form for it. */
struct wire_unwind_rule symbol_unwind_rule(const struct symbol_cfi_row *row, const struct symbol_cie *cie, int width);
/* The rule of code whose frame is nothing but the return address, `offset` bytes above which the CFA is. */
struct wire_unwind_rule symbol_unwind_plain(int width, int32_t offset);
/* The rule of code with a struct sigcontext at the stack pointer + offset. */
struct wire_unwind_rule symbol_unwind_signal(int width, int32_t offset);

/* Adds known code between `va` and `end`, which must be executable contents. */
void symbol_unwind_find_known(struct symbol_file *file, uint64_t va, uint64_t end, symbol_unwind_pieces *out);
/* Adds the stubs and functions of sections whose shape is known. */
void symbol_unwind_find_sections(struct symbol_file *file, symbol_unwind_pieces *out);

/* Sets rows of one FDE of 32-bit code right that can not be. */
void symbol_unwind_repair(struct symbol_file *file, symbol_unwind_rows *rows);
/* `size` bytes of code at `va`, or NULL. */
const uint8_t *symbol_unwind_code(struct symbol_file *file, uint64_t va, uint64_t size);

#endif
