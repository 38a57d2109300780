#include "load/code.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- targets of the whole file ---- */

static struct load_segment *segment_at(const struct load_code *code, uint64_t va)
{
    for (size_t i = 0; i < code->segment_count; i++)
        if (va - code->segment[i].va < code->segment[i].size)
            return &code->segment[i];
    return NULL;
}

static void mark_target(void *context, uint64_t va)
{
    struct load_segment *segment = segment_at(context, va);
    if (segment)
        segment->target_bits[(va - segment->va) / 8] |= (uint8_t)(1u << (va - segment->va) % 8);
}

bool load_code_is_target(const struct load_code *code, uint64_t va)
{
    const struct load_segment *segment = segment_at(code, va);
    return segment && segment->target_bits[(va - segment->va) / 8] >> (va - segment->va) % 8 & 1;
}

/* What lea forms may be the address of code, or of a jump table. */
static void mark_lea(void *context, uint64_t va)
{
    struct load_code *code = context;
    if (segment_at(code, va))
        mark_target(code, va);
    else if (va % 4 == 0)
        symbol_file_jump_table(code->file, va, mark_target, code);
}

static int by_parent(const void *a, const void *b)
{
    const struct symbol_func *x = *(const struct symbol_func *const *)a, *y = *(const struct symbol_func *const *)b;
    if (x->parent_va != y->parent_va)
        return x->parent_va < y->parent_va ? -1 : 1;
    return x->va < y->va ? -1 : x->va > y->va;
}

static void collect_fragments(struct load_code *code, const struct symbol_func *func, size_t count)
{
    VEC(const struct symbol_func *) list = {0};
    for (size_t i = 0; i < count; i++)
        if (func[i].is_fragment && func[i].parent_va != func[i].va && !(i && func[i - 1].va == func[i].va))
            VEC_PUSH(&list, &func[i]);
    if (list.n)
        qsort(list.at, list.n, sizeof *list.at, by_parent);
    code->fragment = list.at;
    code->fragment_count = list.n;
}

struct load_code *load_code_create(struct symbol_file *file)
{
    struct load_code *code = memory_zero(1, sizeof *code);
    code->file = file;
    code->mode = symbol_file_width(file) == 64 ? INSN_MODE_64 : INSN_MODE_32;
    size_t count;
    const struct symbol_segment *segment = symbol_file_segments(file, &count);
    code->segment = memory_zero(count, sizeof *code->segment);
    for (size_t i = 0; i < count; i++)
        if (segment[i].executable)
            code->segment[code->segment_count++] = (struct load_segment){segment[i].va, segment[i].size, segment[i].bytes,
                                                                         memory_zero(segment[i].size / 8 + 1, 1)};
    symbol_file_code_pointers(file, mark_target, code);
    for (size_t i = 0; i < code->segment_count; i++) {
        struct load_segment *s = &code->segment[i];
        insn_scan_branches(s->bytes, s->size, s->va, code->mode, mark_target, code);
        insn_scan_lea(s->bytes, s->size, s->va, code->mode, mark_lea, code);
    }
    const struct symbol_func *func = symbol_file_funcs(file, &count);
    for (size_t i = 0; i < count; i++)
        mark_target(code, func[i].va);
    collect_fragments(code, func, count);
    return code;
}

const struct symbol_func *const *load_code_fragments(const struct load_code *code, uint64_t va, size_t *count)
{
    size_t low = 0;
    for (size_t high = code->fragment_count; low < high;) {
        size_t middle = (low + high) / 2;
        if (code->fragment[middle]->parent_va < va)
            low = middle + 1;
        else
            high = middle;
    }
    *count = 0;
    while (low + *count < code->fragment_count && code->fragment[low + *count]->parent_va == va)
        ++*count;
    return code->fragment + low;
}

void load_code_destroy(struct load_code *code)
{
    if (!code)
        return;
    for (size_t i = 0; i < code->segment_count; i++)
        free(code->segment[i].target_bits);
    free(code->segment);
    free(code->fragment);
    symbol_file_close(code->file);
    free(code);
}

/* ---- padding between functions ---- */

enum { PADDING_LIMIT = 64 };

static uint64_t next_function(const struct load_code *code, uint64_t va)
{
    size_t count, low = 0;
    const struct symbol_func *func = symbol_file_funcs(code->file, &count);
    for (size_t high = count; low < high;) {
        size_t middle = (low + high) / 2;
        if (func[middle].va < va)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count ? func[low].va : UINT64_MAX;
}

/* int3 and nops that nothing jumps to. Zero bytes are padding only up to the alignment that follows, which hand-written data would not
 * respect: they are left alone. */
uint64_t load_code_padding_end(const struct load_code *code, uint64_t end_va)
{
    const struct load_segment *segment = segment_at(code, end_va);
    if (!segment)
        return end_va;
    uint64_t limit = next_function(code, end_va), va = end_va;
    if (limit > segment->va + segment->size)
        limit = segment->va + segment->size;
    if (limit > end_va + PADDING_LIMIT)
        limit = end_va + PADDING_LIMIT;
    while (va < limit && !load_code_is_target(code, va)) {
        struct insn insn;
        const uint8_t *bytes = segment->bytes + (va - segment->va);
        if (insn_decode(code->mode, bytes, limit - va, va, &insn) != INSN_OK || (insn.kind != INSN_NOP && bytes[0] != 0xcc))
            break;
        va += insn.length;
    }
    return va;
}
