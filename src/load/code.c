#include "load/code.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Decodes from the start of the function. Where that fails there is data in the function, and anything may be code. */
bool load_code_is_boundary(const struct load_code *code, uint64_t va)
{
    const struct symbol_func *func = symbol_file_func_at(code->file, va);
    if (!func)
        return true;
    for (uint64_t at = func->va; at < va;) {
        struct insn insn;
        size_t available;
        const uint8_t *bytes = symbol_file_text(code->file, at, &available);
        if (!bytes || insn_decode(code->mode, bytes, available, at, &insn) != INSN_OK)
            return true;
        at += insn.length;
        if (at > va)
            return false;
    }
    return true;
}

static size_t first_branch_to(const struct load_code *code, uint64_t va)
{
    size_t low = 0;
    for (size_t high = code->branch_count; low < high;) {
        size_t middle = (low + high) / 2;
        if (code->branch[middle].target_va < va)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void load_code_seal(struct load_code *code, uint64_t va, uint64_t end_va)
{
    if (load_code_is_sealed(code, va + 1))
        return;
    VEC_PUSH(&code->sealed, (struct load_range){va, end_va});
    load_code_forget_flows(code, va, end_va);
}

bool load_code_is_sealed(const struct load_code *code, uint64_t va)
{
    for (size_t i = 0; i < code->sealed.n; i++)
        if (va > code->sealed.at[i].va && va < code->sealed.at[i].end_va)
            return true;
    return false;
}

bool load_code_is_target(const struct load_code *code, uint64_t va, uint64_t low_va, uint64_t high_va)
{
    const struct load_segment *segment = segment_at(code, va);
    if (!segment)
        return false;
    if (segment->target_bits[(va - segment->va) / 8] >> (va - segment->va) % 8 & 1)
        return true;
    for (size_t i = first_branch_to(code, va); i < code->branch_count && code->branch[i].target_va == va; i++) {
        struct load_branch *branch = &code->branch[i];
        if (branch->from_va >= low_va && branch->from_va < high_va)
            continue;
        if (!branch->known)
            branch->known = load_code_is_boundary(code, branch->from_va) ? 1 : 2;
        if (branch->known == 1)
            return true;
    }
    return false;
}

/* What lea forms may be the address of code, or of a jump table. */
static void mark_lea(void *context, uint64_t from_va, uint64_t va)
{
    (void)from_va;
    struct load_code *code = context;
    if (segment_at(code, va))
        mark_target(code, va);
    else if (va % 4 == 0)
        symbol_file_jump_table(code->file, va, mark_target, code);
}

struct branch_list {
    const struct load_code *code;
    VEC(struct load_branch) found;
};

static void note_branch(void *context, uint64_t from_va, uint64_t target_va)
{
    struct branch_list *list = context;
    if (segment_at(list->code, target_va))
        VEC_PUSH(&list->found, (struct load_branch){target_va, from_va, 0});
}

static int by_target(const void *a, const void *b)
{
    const struct load_branch *x = a, *y = b;
    return x->target_va < y->target_va ? -1 : x->target_va > y->target_va;
}

/* Branches that stay in their function need not be kept: whoever plans the function decodes it. */
static void keep_branches(struct load_code *code, struct branch_list *list)
{
    size_t count, at = 0, kept = 0;
    const struct symbol_func *func = symbol_file_funcs(code->file, &count);
    for (size_t i = 0; i < list->found.n; i++) { /* still in order of from_va within a segment */
        const struct load_branch *branch = &list->found.at[i];
        if (i && branch->from_va < list->found.at[i - 1].from_va)
            at = 0;
        while (at + 1 < count && func[at + 1].va <= branch->from_va)
            at++;
        bool inside = at < count && branch->from_va - func[at].va < func[at].size && branch->target_va - func[at].va < func[at].size;
        if (!inside)
            list->found.at[kept++] = *branch;
    }
    if (kept)
        qsort(list->found.at, kept, sizeof *list->found.at, by_target);
    code->branch = list->found.at;
    code->branch_count = kept;
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

/* ---- restartable sequences ---- */

static void note_sequence(void *context, uint64_t start_va, uint64_t end_va, uint64_t abort_va)
{
    enum { SIGNATURE_BYTES = 4 }; /* in front of where it is aborted: the kernel looks at them then */
    struct load_code *code = context;
    mark_target(code, abort_va);
    VEC_PUSH(&code->sequence, (struct load_range){start_va, end_va});
    VEC_PUSH(&code->sequence, (struct load_range){abort_va - SIGNATURE_BYTES, abort_va});
}

static int by_start(const void *a, const void *b)
{
    const struct load_range *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

static void find_sequences(struct load_code *code)
{
    size_t kept = 0;
    symbol_file_sequences(code->file, note_sequence, code);
    if (code->sequence.n)
        qsort(code->sequence.at, code->sequence.n, sizeof *code->sequence.at, by_start);
    for (size_t i = 0; i < code->sequence.n; i++) {
        struct load_range *last = kept ? &code->sequence.at[kept - 1] : NULL, one = code->sequence.at[i];
        if (!last || one.va > last->end_va)
            code->sequence.at[kept++] = one;
        else if (one.end_va > last->end_va)
            last->end_va = one.end_va;
    }
    code->sequence.n = kept;
}

bool load_code_is_restartable(const struct load_code *code, uint64_t va, uint64_t end_va)
{
    size_t low = 0;
    for (size_t high = code->sequence.n; low < high;) {
        size_t middle = (low + high) / 2;
        if (code->sequence.at[middle].va <= end_va)
            low = middle + 1;
        else
            high = middle;
    }
    return low && (va < code->sequence.at[low - 1].end_va);
}

/* ---- all ---- */

struct load_code *load_code_create(struct symbol_file *file)
{
    struct load_code *code = memory_zero(1, sizeof *code);
    code->unwind_fd = -1;
    code->file = file;
    code->mode = symbol_file_width(file) == 64 ? INSN_MODE_64 : INSN_MODE_32;
    code->has_small_stacks = symbol_file_has_small_stacks(file);
    size_t count;
    const struct symbol_segment *segment = symbol_file_segments(file, &count);
    code->segment = memory_zero(count, sizeof *code->segment);
    for (size_t i = 0; i < count; i++)
        if (segment[i].executable)
            code->segment[code->segment_count++] =
                (struct load_segment){segment[i].va, segment[i].size, segment[i].bytes, memory_zero(segment[i].size / 8 + 1, 1)};
    symbol_file_code_pointers(file, mark_target, code);
    struct branch_list list = {.code = code};
    for (size_t i = 0; i < code->segment_count; i++) {
        struct load_segment *s = &code->segment[i];
        insn_scan_branches(s->bytes, s->size, s->va, code->mode, note_branch, &list);
        insn_scan_lea(s->bytes, s->size, s->va, code->mode, mark_lea, code);
    }
    keep_branches(code, &list);
    const struct symbol_func *func = symbol_file_funcs(file, &count);
    for (size_t i = 0; i < count; i++)
        mark_target(code, func[i].va);
    collect_fragments(code, func, count);
    find_sequences(code);
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
    load_code_free_flows(code);
    VEC_FREE(&code->hook);
    VEC_FREE(&code->sealed);
    VEC_FREE(&code->sequence);
    free(code->segment);
    free(code->fragment);
    free(code->branch);
    free(code->unwind);
    if (code->unwind_fd >= 0)
        close(code->unwind_fd);
    symbol_file_close(code->file);
    free(code);
}

/* ---- padding between functions ---- */

enum { PADDING_LIMIT = 64 };

static size_t first_function_from(const struct load_code *code, uint64_t va)
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
    return low;
}

void load_code_unit(const struct load_code *code, const struct symbol_func *func, uint64_t *va, uint64_t *size)
{
    enum { JMP_BYTES = 5, UNIT_LIMIT = 4096 };
    size_t count;
    const struct symbol_func *all = symbol_file_funcs(code->file, &count);
    uint64_t start_va = func->va, end_va = func->va + func->size, last_size = func->size;
    for (size_t i = first_function_from(code, start_va); i-- > 0 && func->va - start_va < UNIT_LIMIT;) {
        if (all[i].va == start_va)
            continue;
        if (all[i].size >= JMP_BYTES || all[i].va + all[i].size != start_va)
            break;
        start_va = all[i].va;
    }
    for (size_t i = first_function_from(code, end_va); last_size < JMP_BYTES && i < count && end_va - func->va < UNIT_LIMIT;) {
        if (all[i].va != end_va)
            break;
        last_size = all[i].size;
        end_va += last_size;
        i = first_function_from(code, end_va);
    }
    *va = start_va;
    *size = end_va - start_va;
}

static uint64_t next_function(const struct load_code *code, uint64_t va)
{
    size_t count, index = first_function_from(code, va);
    const struct symbol_func *func = symbol_file_funcs(code->file, &count);
    return index < count ? func[index].va : UINT64_MAX;
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
    while (va < limit && !load_code_is_target(code, va, 0, 0)) {
        struct insn insn;
        const uint8_t *bytes = segment->bytes + (va - segment->va);
        if (insn_decode(code->mode, bytes, limit - va, va, &insn) != INSN_OK || (insn.kind != INSN_NOP && bytes[0] != 0xcc))
            break;
        va += insn.length;
    }
    return va;
}
