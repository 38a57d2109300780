/* From symbols, PLT stubs and FDEs to functions whose ranges do not overlap.
 *
 *  1. All names at one address share one range, the largest that any of them claims.
 *  2. A range ends where the next function starts.
 *  3. Where no symbol gives a size: the end of the covering FDE, else the next symbol or FDE, in any case the end of the section.
 *  4. An FDE whose start no range holds becomes a function of its own.
 */
#include "symbol/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_va_name(const void *left, const void *right)
{
    const struct symbol_candidate *a = left, *b = right;
    if (a->va != b->va)
        return a->va < b->va ? -1 : 1;
    int order = strcmp(a->name, b->name);
    return order ? order : (int)a->source - (int)b->source;
}

static int by_range(const void *left, const void *right)
{
    uint64_t a = ((const struct symbol_range *)left)->va, b = ((const struct symbol_range *)right)->va;
    return a < b ? -1 : a > b;
}

typedef VEC(struct symbol_range) range_vec;

/* Executable sections, for the ends of symbols without a size; overlaps do not matter here. */
static void executable_sections(const struct symbol_elf *elf, range_vec *out)
{
    for (size_t i = 0; i < elf->sections.n; i++) {
        const struct symbol_section *section = &elf->sections.at[i];
        if ((section->flags & SHF_EXECINSTR) && section->type != SHT_NOBITS && section->size && section->size <= UINT64_MAX - section->va)
            VEC_PUSH(out, (struct symbol_range){section->va, section->va + section->size});
    }
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, by_range);
}

static const struct symbol_range *range_at(const struct symbol_range *ranges, size_t count, uint64_t va)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low && va < ranges[low - 1].end ? &ranges[low - 1] : NULL;
}

const struct symbol_range *symbol_file_code_at(const struct symbol_file *file, uint64_t va)
{
    return range_at(file->code.at, file->code.n, va);
}

/* Assemblers leave labels without a type. They count as functions only where nothing better names the code: a label inside a
 * typed function is the target of a loop or a table, and splitting there would tear the function apart. */
static void drop_labels(struct symbol_file *file)
{
    range_vec taken = {0}; /* [va, end) of FDEs that hold a typed symbol, by va */
    for (size_t i = 0; i < file->candidates.n; i++) {
        const struct symbol_candidate *candidate = &file->candidates.at[i];
        const struct symbol_fde *fde = candidate->is_notype ? NULL : symbol_file_fde_at(file, candidate->va);
        if (fde && (!taken.n || taken.at[taken.n - 1].va != fde->va))
            VEC_PUSH(&taken, (struct symbol_range){fde->va, fde->va + fde->size});
    }
    size_t kept = 0;
    uint64_t typed_end = 0; /* end of the typed symbols so far */
    for (size_t i = 0; i < file->candidates.n; i++) {
        struct symbol_candidate candidate = file->candidates.at[i];
        bool keep = true;
        if (candidate.is_notype && candidate.va != file->elf.entry_va) {
            const struct symbol_fde *fde = symbol_file_fde_at(file, candidate.va);
            if (fde && fde->va == candidate.va)
                keep = true;
            else if (candidate.va < typed_end)
                keep = candidate.size > 0;
            else
                keep = candidate.size > 0 || (fde && !range_at(taken.at, taken.n, candidate.va));
        } else if (!candidate.is_notype && candidate.size <= UINT64_MAX - candidate.va && candidate.va + candidate.size > typed_end) {
            typed_end = candidate.va + candidate.size;
        }
        if (keep)
            file->candidates.at[kept++] = candidate;
    }
    file->candidates.n = kept;
    VEC_FREE(&taken);
}

static void sort_and_unite(struct symbol_file *file)
{
    if (!file->candidates.n)
        return;
    qsort(file->candidates.at, file->candidates.n, sizeof *file->candidates.at, by_va_name);
    size_t kept = 0;
    for (size_t i = 0; i < file->candidates.n; i++) {
        struct symbol_candidate *last = kept ? &file->candidates.at[kept - 1] : NULL;
        struct symbol_candidate *candidate = &file->candidates.at[i];
        if (last && last->va == candidate->va && strcmp(last->name, candidate->name) == 0) {
            if (candidate->size > last->size)
                last->size = candidate->size;
            last->is_ifunc |= candidate->is_ifunc;
            last->is_notype &= candidate->is_notype;
        } else {
            file->candidates.at[kept++] = *candidate;
        }
    }
    file->candidates.n = kept;
}

static uint64_t next_fde_va(const struct symbol_file *file, uint64_t va)
{
    size_t low = 0, high = file->fdes.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (file->fdes.at[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low < file->fdes.n ? file->fdes.at[low].va : UINT64_MAX;
}

/* Gives all candidates of one address the same size; see the rules above. `next_va` is where the next function starts. */
static uint64_t range_end(const struct symbol_file *file, const range_vec *sections, uint64_t va, uint64_t size, uint64_t next_va)
{
    const struct symbol_range *code = symbol_file_code_at(file, va);
    uint64_t end = code->end < next_va ? code->end : next_va;
    if (size)
        return size < end - va ? va + size : end;
    const struct symbol_range *section = range_at(sections->at, sections->n, va);
    if (section && section->end < end)
        end = section->end;
    const struct symbol_fde *fde = symbol_file_fde_at(file, va);
    uint64_t limit = fde ? fde->va + fde->size : next_fde_va(file, va);
    return limit < end ? limit : end;
}

static void settle_sizes(struct symbol_file *file)
{
    range_vec sections = {0};
    executable_sections(&file->elf, &sections);
    struct symbol_candidate *at = file->candidates.at;
    for (size_t first = 0, last; first < file->candidates.n; first = last) {
        uint64_t size = 0;
        for (last = first; last < file->candidates.n && at[last].va == at[first].va; last++)
            size = at[last].size > size ? at[last].size : size;
        uint64_t next_va = last < file->candidates.n ? at[last].va : UINT64_MAX;
        uint64_t end = range_end(file, &sections, at[first].va, size, next_va);
        for (size_t i = first; i < last; i++)
            at[i].size = end - at[i].va;
    }
    VEC_FREE(&sections);
}

static bool is_in_plt(const range_vec *plts, uint64_t va)
{
    return range_at(plts->at, plts->n, va) != NULL;
}

/* Adds the FDEs that no candidate covers, after the candidates (whose count stays the caller's `named`). */
static void add_nameless(struct symbol_file *file)
{
    size_t named = file->candidates.n, next = 0;
    uint64_t covered_end = 0;
    range_vec plts = {0};
    for (size_t i = 0; i < file->elf.sections.n; i++) {
        const struct symbol_section *section = &file->elf.sections.at[i];
        if (symbol_is_plt(section) && section->size <= UINT64_MAX - section->va)
            VEC_PUSH(&plts, (struct symbol_range){section->va, section->va + section->size});
    }
    if (plts.n)
        qsort(plts.at, plts.n, sizeof *plts.at, by_range);
    for (size_t i = 0; i < file->fdes.n; i++) {
        const struct symbol_fde *fde = &file->fdes.at[i];
        while (next < named && file->candidates.at[next].va <= fde->va) {
            covered_end = file->candidates.at[next].va + file->candidates.at[next].size;
            next++;
        }
        if (fde->va < covered_end || is_in_plt(&plts, fde->va))
            continue;
        uint64_t end = fde->va + fde->size;
        if (i + 1 < file->fdes.n && file->fdes.at[i + 1].va < end)
            end = file->fdes.at[i + 1].va;
        if (next < named && file->candidates.at[next].va < end)
            end = file->candidates.at[next].va;
        /* The FDE of a signal trampoline starts a byte early, for unwinders that look up the return address minus one. */
        if (fde->is_signal && end - fde->va == 1)
            continue;
        char name[32];
        int length = snprintf(name, sizeof name, "sub_%llx", (unsigned long long)fde->va);
        const char *text = symbol_file_keep(file, name, (size_t)length, "");
        VEC_PUSH(&file->candidates, (struct symbol_candidate){fde->va, end - fde->va, text, SYMBOL_FROM_EH_FRAME, false, false});
    }
    VEC_FREE(&plts);
}

void symbol_build_funcs(struct symbol_file *file)
{
    sort_and_unite(file);
    drop_labels(file);
    settle_sizes(file);
    size_t named = file->candidates.n;
    add_nameless(file);
    /* Two sorted runs, merged; a nameless function never shares its address with a named one. */
    file->func_count = file->candidates.n;
    file->funcs = memory_zero(file->func_count, sizeof *file->funcs);
    for (size_t i = 0, left = 0, right = named; i < file->func_count; i++) {
        bool take_left = left < named && (right == file->func_count || file->candidates.at[left].va < file->candidates.at[right].va);
        const struct symbol_candidate *candidate = &file->candidates.at[take_left ? left++ : right++];
        file->funcs[i] = (struct symbol_func){.va = candidate->va,
                                              .size = candidate->size,
                                              .name = candidate->name,
                                              .demangled = candidate->name,
                                              .source = candidate->source,
                                              .is_ifunc = candidate->is_ifunc,
                                              .parent_va = candidate->va};
    }
    VEC_FREE(&file->candidates);
}
