/* Which ranges of .eh_frame are functions, whether each begins as a function does, and its LSDA. */
#include "symbol/cfi.h"

#include <stdlib.h>

struct entry_rule {
    int width;
    bool is_entry;
};

static bool look_at_first(void *context, const struct symbol_cfi_row *row)
{
    struct entry_rule *rule = context;
    rule->is_entry =
        !row->cfa_expression && (rule->width == 64 ? row->cfa_reg == 7 && row->cfa_offset == 8 : row->cfa_reg == 4 && row->cfa_offset == 4);
    return false;
}

static void add_fde(struct symbol_file *file, const struct symbol_cfi *cfi, struct symbol_cfi_fde *fde)
{
    const struct symbol_range *range = symbol_file_code_at(file, fde->va);
    struct entry_rule rule = {.width = cfi->width};
    if (!range)
        return;
    if (fde->size > range->end - fde->va)
        fde->size = range->end - fde->va;
    symbol_cfi_rows(cfi, fde, look_at_first, &rule);
    VEC_PUSH(&file->fdes, (struct symbol_fde){.va = fde->va,
                                              .size = fde->size,
                                              .lsda_va = fde->lsda_va,
                                              .is_entry_rule = rule.is_entry,
                                              .is_signal = cfi->cies.at[fde->cie].is_signal});
}

static int by_va(const void *left, const void *right)
{
    const struct symbol_fde *a = left, *b = right;
    if (a->va != b->va)
        return a->va < b->va ? -1 : 1;
    return a->size > b->size ? -1 : a->size < b->size;
}

void symbol_load_fdes(struct symbol_file *file)
{
    struct symbol_cfi cfi;
    struct symbol_cfi_fde fde;
    if (!symbol_cfi_open(&file->elf, ".eh_frame", file->elf.got_va, &cfi))
        return;
    for (uint64_t offset = 0; symbol_cfi_next(&cfi, &offset, &fde);)
        add_fde(file, &cfi, &fde);
    symbol_cfi_deinit(&cfi);
    if (!file->fdes.n)
        return;
    qsort(file->fdes.at, file->fdes.n, sizeof *file->fdes.at, by_va);
    size_t kept = 1;
    for (size_t i = 1; i < file->fdes.n; i++)
        if (file->fdes.at[i].va != file->fdes.at[kept - 1].va)
            file->fdes.at[kept++] = file->fdes.at[i];
    file->fdes.n = kept;
}

const struct symbol_fde *symbol_file_fde_at(const struct symbol_file *file, uint64_t va)
{
    size_t low = 0, high = file->fdes.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (file->fdes.at[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low && va - file->fdes.at[low - 1].va < file->fdes.at[low - 1].size ? &file->fdes.at[low - 1] : NULL;
}
