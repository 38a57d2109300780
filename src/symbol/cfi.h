/* Call frame information of .eh_frame (LSB Core, Exception Frames) and .debug_frame (DWARF 5, 6.4), of both classes: entries, and the rows
 * that their instructions make. Shared by the files of symbol/ only.
 *
 * Nothing here keeps a count of work: CIEs are read once, bodies of FDEs do not overlap, and a row costs the instructions that make it.
 * What FDEs share is the initial instructions of their CIE, which are run again for each: CIEs with more than a few are not accepted. */
#ifndef SYMBOL_CFI_H
#define SYMBOL_CFI_H

#include "symbol/internal.h"

enum { SYMBOL_CFI_REGS = 17 }; /* registers that rows speak of, by DWARF number: 16 and the return address; in 32 bit 8 and it */

struct symbol_cie {
    uint64_t offset;              /* in the section */
    struct symbol_cursor initial; /* instructions */
    uint64_t code_align, return_reg;
    int64_t data_align;
    uint8_t fde_encoding, lsda_encoding;
    bool has_augmentation, is_signal;
};

struct symbol_cfi {
    const uint8_t *bytes; /* of the section */
    uint64_t size, va;
    uint64_t got_va; /* what DW_EH_PE_datarel counts from */
    int width;
    bool is_eh;                  /* .eh_frame, else .debug_frame */
    VEC(struct symbol_cie) cies; /* by offset */
};

struct symbol_cfi_fde {
    uint64_t va, size;
    uint64_t lsda_va; /* 0 when it has none */
    uint32_t cie;     /* index */
    struct symbol_cursor program;
};

/* Reads the CIEs of section `name` (.eh_frame or .debug_frame). False when there is no such section; there is then nothing to deinit.
 * `got_va` is the program's, which a separate debug file does not know. */
bool symbol_cfi_open(struct symbol_elf *elf, const char *name, uint64_t got_va, struct symbol_cfi *out);
void symbol_cfi_deinit(struct symbol_cfi *cfi);
/* The FDE at or behind *offset, which becomes that of the next entry. False when there is none. */
bool symbol_cfi_next(const struct symbol_cfi *cfi, uint64_t *offset, struct symbol_cfi_fde *out);

enum symbol_cfi_how {
    SYMBOL_CFI_UNSAID,         /* the ABI says: what a callee keeps is kept */
    SYMBOL_CFI_UNDEFINED,      /* lost; for the return address: there is no caller */
    SYMBOL_CFI_SAME,           /* has the caller's value */
    SYMBOL_CFI_OFFSET,         /* saved at CFA + value */
    SYMBOL_CFI_VAL_OFFSET,     /* is CFA + value */
    SYMBOL_CFI_REGISTER,       /* in register `value` */
    SYMBOL_CFI_EXPRESSION,     /* saved where the expression says */
    SYMBOL_CFI_VAL_EXPRESSION, /* is what the expression says */
};

struct symbol_cfi_rule {
    int64_t value;
    const uint8_t *expression;
    uint32_t expression_size;
    uint8_t how; /* enum symbol_cfi_how */
};

struct symbol_cfi_row {
    uint64_t va, end;
    uint64_t cfa_reg;
    int64_t cfa_offset;
    const uint8_t *cfa_expression; /* NULL: cfa_reg + cfa_offset */
    uint32_t cfa_expression_size;
    struct symbol_cfi_rule reg[SYMBOL_CFI_REGS]; /* by DWARF number */
};

/* Calls `found` with the rows of an FDE, ascending and never empty, until it returns false. False when an instruction is not known or makes
 * no sense: what comes behind it is then unknown. */
typedef bool symbol_cfi_row_fn(void *context, const struct symbol_cfi_row *row);
bool symbol_cfi_rows(const struct symbol_cfi *cfi, const struct symbol_cfi_fde *fde, symbol_cfi_row_fn *found, void *context);

#endif
