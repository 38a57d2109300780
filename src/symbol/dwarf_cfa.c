/* The canonical frame address at an instruction, from .eh_frame of the program's file or .debug_frame (DWARF 5, 6.4). Only the rule for
 * the CFA is wanted; libdw would also make room for as many registers as the file names. Entries are read once and sorted. */
#include "symbol/cfi.h"
#include "symbol/dwarf_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_REG = 63 };

enum { FROM_EH, FROM_DEBUG, SOURCES };

struct frame {
    struct symbol_cfi_fde fde;
    int from;
};

struct symbol_dw_frames {
    struct symbol_cfi cfi[SOURCES];
    VEC(struct frame) frames; /* by va */
};

/* ---- reading the sections ---- */

static int by_va(const void *left, const void *right)
{
    const struct frame *a = left, *b = right;
    return a->fde.va < b->fde.va ? -1 : a->fde.va > b->fde.va;
}

static void load(struct symbol_dwarf *dwarf)
{
    struct symbol_dw_frames *frames = dwarf->frames = memory_zero(1, sizeof *dwarf->frames);
    struct symbol_elf *elf[SOURCES] = {&dwarf->main, dwarf->debug ? dwarf->debug : &dwarf->main};
    const char *name[SOURCES] = {".eh_frame", ".debug_frame"};
    for (int from = 0; from < SOURCES; from++) {
        if (!symbol_cfi_open(elf[from], name[from], dwarf->main.got_va, &frames->cfi[from]))
            continue;
        struct frame frame = {.from = from};
        for (uint64_t offset = 0; symbol_dw_spend(dwarf, 16) && symbol_cfi_next(&frames->cfi[from], &offset, &frame.fde);)
            VEC_PUSH(&frames->frames, frame);
    }
    if (frames->frames.n)
        qsort(frames->frames.at, frames->frames.n, sizeof *frames->frames.at, by_va);
}

void symbol_dw_cfa_free(struct symbol_dwarf *dwarf)
{
    if (!dwarf->frames)
        return;
    for (int from = 0; from < SOURCES; from++)
        symbol_cfi_deinit(&dwarf->frames->cfi[from]);
    VEC_FREE(&dwarf->frames->frames);
    free(dwarf->frames);
}

/* ---- the row ---- */

struct wanted {
    uint64_t va;
    bool is_found;
    struct symbol_cfi_row row;
};

static bool look(void *context, const struct symbol_cfi_row *row)
{
    struct wanted *wanted = context;
    if (wanted->va >= row->end)
        return true;
    wanted->is_found = wanted->va >= row->va;
    wanted->row = *row;
    return false;
}

/* `register + offset`, read from memory: what functions have that align their stack. */
static bool run_expression(const struct symbol_cfi_row *row, struct symbol_piece *out)
{
    struct symbol_cursor cursor = {row->cfa_expression, row->cfa_expression + row->cfa_expression_size, 0, false};
    uint8_t op = (uint8_t)symbol_cursor_fixed(&cursor, 1);
    if (cursor.failed || op < DW_OP_breg0 || op > DW_OP_breg31)
        return false;
    out->reg = (int16_t)(op - DW_OP_breg0);
    out->offset = symbol_cursor_sleb(&cursor);
    while (cursor.at < cursor.end && !cursor.failed) {
        op = (uint8_t)symbol_cursor_fixed(&cursor, 1);
        if (op == DW_OP_deref && out->deref_count < SYMBOL_MAX_DEREFS)
            out->deref_count++;
        else if (op == DW_OP_plus_uconst && out->deref_count)
            out->deref_offset[out->deref_count - 1] += (int64_t)(symbol_cursor_uleb(&cursor) & INT32_MAX);
        else
            return false;
    }
    return !cursor.failed;
}

bool symbol_dw_cfa_at(struct symbol_dwarf *dwarf, uint64_t va, struct symbol_piece *out)
{
    if (!dwarf->frames)
        load(dwarf);
    const struct symbol_dw_frames *frames = dwarf->frames;
    size_t low = 0, high = frames->frames.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (frames->frames.at[middle].fde.va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return false;
    const struct frame *frame = &frames->frames.at[low - 1];
    struct wanted wanted = {.va = va};
    symbol_cfi_rows(&frames->cfi[frame->from], &frame->fde, look, &wanted);
    if (!wanted.is_found)
        return false;
    *out = (struct symbol_piece){.place = SYMBOL_PLACE_VALUE};
    if (wanted.row.cfa_expression)
        return run_expression(&wanted.row, out);
    if (wanted.row.cfa_reg > MAX_REG)
        return false;
    out->reg = (int16_t)wanted.row.cfa_reg;
    out->offset = wanted.row.cfa_offset;
    return true;
}
