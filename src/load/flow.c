/* One function's instructions.
 *
 * A linear sweep gives them all, unless the function holds data: then a branch lands between two instructions of the sweep or something
 * does not decode, and only what direct control flow reaches from the entry is believed. */
#include "base/memory.h"
#include "load/code.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t *text(const struct load_code *code, uint64_t va, size_t *available)
{
    return symbol_file_text(code->file, va, available);
}

static bool decode_at(const struct load_code *code, uint64_t va, uint64_t end_va, struct insn *out)
{
    size_t available;
    const uint8_t *bytes = text(code, va, &available);
    if (!bytes)
        return false;
    if (available > end_va - va)
        available = end_va - va;
    return insn_decode(code->mode, bytes, available, va, out) == INSN_OK;
}

static bool falls_through(const struct insn *insn)
{
    return insn->kind != INSN_JMP && insn->kind != INSN_JMP_INDIRECT && insn->kind != INSN_RET && insn->kind != INSN_STOP;
}

static bool has_target(const struct insn *insn)
{
    return insn->kind == INSN_JMP || insn->kind == INSN_JCC || insn->kind == INSN_LOOP;
}

static bool sweep(struct load_flow *flow, const struct load_code *code)
{
    for (uint64_t va = flow->va; va < flow->end_va; va += flow->insn[flow->count++].length)
        if (!decode_at(code, va, flow->end_va, &flow->insn[flow->count]))
            return false;
    return true;
}

long load_flow_find(const struct load_flow *flow, uint64_t va)
{
    size_t low = 0;
    for (size_t high = flow->count; low < high;) {
        size_t middle = (low + high) / 2;
        if (flow->insn[middle].va < va)
            low = middle + 1;
        else
            high = middle;
    }
    return low < flow->count && flow->insn[low].va == va ? (long)low : -1;
}

/* Jumping over a lock prefix is an idiom of libc's atomics, not a sign of data. */
static bool skips_lock_prefix(const struct load_flow *flow, uint64_t va)
{
    long before = load_flow_find(flow, va - 1);
    return before >= 0 && flow->insn[before].bytes[0] == 0xf0;
}

static bool branches_hit_boundaries(const struct load_flow *flow)
{
    for (size_t i = 0; i < flow->count; i++) {
        const struct insn *insn = &flow->insn[i];
        if (has_target(insn) && insn->target_va - flow->va < flow->end_va - flow->va && load_flow_find(flow, insn->target_va) < 0 &&
            !skips_lock_prefix(flow, insn->target_va))
            return false;
    }
    return true;
}

static int by_address(const void *a, const void *b)
{
    const struct insn *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

/* Follows direct control flow from the entry. Paths that overlap each other's instructions are cut where they meet. */
static void descend(struct load_flow *flow, const struct load_code *code)
{
    uint64_t size = flow->end_va - flow->va;
    uint8_t *seen = memory_zero(size, 1); /* 1: a byte of a decoded instruction */
    VEC(uint64_t) work = {0};
    VEC_PUSH(&work, flow->va);
    flow->count = 0;
    while (work.n) {
        uint64_t va = work.at[--work.n];
        while (va - flow->va < size && !seen[va - flow->va]) {
            struct insn *insn = &flow->insn[flow->count];
            if (!decode_at(code, va, flow->end_va, insn))
                break;
            memset(seen + (va - flow->va), 1, insn->length);
            flow->count++;
            if (has_target(insn))
                VEC_PUSH(&work, insn->target_va);
            if (!falls_through(insn))
                break;
            va += insn->length;
        }
    }
    free(seen);
    VEC_FREE(&work);
    qsort(flow->insn, flow->count, sizeof *flow->insn, by_address);
}

/* ---- marks ---- */

static void mark_internal(struct load_flow *flow, uint64_t va)
{
    long index = load_flow_find(flow, va);
    if (index >= 0)
        flow->mark[index] |= LOAD_MARK_TARGET;
    index = load_flow_find(flow, va - 1); /* over a lock prefix */
    if (index >= 0 && flow->insn[index].length > 1)
        flow->mark[index] |= LOAD_MARK_INSIDE;
}

struct neighbours {
    struct load_flow *flow;
    const struct load_code *code;
};

static void mark_found(void *context, uint64_t from_va, uint64_t target_va)
{
    const struct neighbours *neighbours = context;
    struct load_flow *flow = neighbours->flow;
    if (target_va - flow->va < flow->end_va - flow->va && load_code_is_boundary(neighbours->code, from_va))
        mark_internal(flow, target_va);
}

/* Short branches from neighbouring functions: hand-written code jumps so. */
static void mark_from_neighbours(struct load_flow *flow, const struct load_code *code)
{
    enum { REACH = 130 };
    struct neighbours neighbours = {flow, code};
    size_t available;
    const uint8_t *bytes = text(code, flow->va - REACH, &available);
    if (bytes && available >= REACH)
        insn_scan_short_branches(bytes, REACH, flow->va - REACH, code->mode, mark_found, &neighbours);
    bytes = text(code, flow->end_va, &available);
    if (bytes)
        insn_scan_short_branches(bytes, available < REACH ? available : REACH, flow->end_va, code->mode, mark_found, &neighbours);
}

static bool is_short_nop(const struct insn *insn)
{
    return insn->kind == INSN_NOP && insn->length == 1;
}

static void mark_targets(struct load_flow *flow, const struct load_code *code)
{
    flow->mark[0] |= LOAD_MARK_TARGET;
    /* The function's own branches are known exactly, unless it holds data. */
    uint64_t low_va = flow->has_gaps ? 0 : flow->va, high_va = flow->has_gaps ? 0 : flow->end_va;
    for (size_t i = 0; i < flow->count; i++) {
        const struct insn *insn = &flow->insn[i];
        for (unsigned byte = 0; byte < insn->length; byte++)
            if (load_code_is_target(code, insn->va + byte, low_va, high_va))
                flow->mark[i] |= byte ? LOAD_MARK_INSIDE : LOAD_MARK_TARGET;
        if (has_target(insn) || insn->kind == INSN_CALL)
            mark_internal(flow, insn->target_va);
        /* Where a call returns to: threads may be in the callee now. */
        bool calls = insn->kind == INSN_CALL || insn->kind == INSN_CALL_INDIRECT;
        if (calls && i + 1 < flow->count)
            flow->mark[i + 1] |= LOAD_MARK_TARGET;
    }
    /* Go's runtime starts goroutines so that they return behind the nop that goexit begins with: a nop, a call and a nop. */
    for (size_t i = 0; i + 2 < flow->count; i++)
        if (is_short_nop(&flow->insn[i]) && flow->insn[i + 1].kind == INSN_CALL && is_short_nop(&flow->insn[i + 2]) &&
            symbol_file_func_at(code->file, flow->insn[i].va) && symbol_file_func_at(code->file, flow->insn[i].va)->va == flow->insn[i].va)
            flow->mark[i + 1] |= LOAD_MARK_TARGET;
    mark_from_neighbours(flow, code);
    for (size_t i = 0; i < flow->count; i++)
        if (load_code_is_sealed(code, flow->insn[i].va))
            flow->mark[i] = 0;
}

static void mark_padding(struct load_flow *flow)
{
    for (size_t i = 1; i < flow->count; i++) {
        const struct insn *before = &flow->insn[i - 1];
        bool adjacent = before->va + before->length == flow->insn[i].va;
        bool dead = adjacent && ((flow->mark[i - 1] & LOAD_MARK_PADDING) || !falls_through(before));
        bool filler = flow->insn[i].kind == INSN_NOP || flow->insn[i].bytes[0] == 0xcc;
        if (dead && filler && !(flow->mark[i] & (LOAD_MARK_TARGET | LOAD_MARK_INSIDE)))
            flow->mark[i] |= LOAD_MARK_PADDING;
    }
}

/* Code that no known path reaches is reached by one that is not known, a computed jump say, and that may lead to any instruction of it. */
static void mark_unreached(struct load_flow *flow)
{
    uint8_t *reached = memory_zero(flow->count, 1);
    VEC(size_t) work = {0};
    for (size_t i = 0; i < flow->count; i++)
        if (flow->mark[i] & LOAD_MARK_TARGET)
            VEC_PUSH(&work, i);
    while (work.n) {
        for (size_t i = work.at[--work.n]; i < flow->count && !reached[i]; i++) {
            const struct insn *insn = &flow->insn[i];
            reached[i] = 1;
            if (!falls_through(insn) || i + 1 == flow->count || flow->insn[i + 1].va != insn->va + insn->length)
                break;
        }
    }
    for (size_t i = 0; i < flow->count; i++)
        if (!reached[i] && flow->insn[i].kind != INSN_NOP && flow->insn[i].bytes[0] != 0xcc)
            flow->mark[i] |= LOAD_MARK_TARGET;
    VEC_FREE(&work);
    free(reached);
}

static void refuse_sequences(struct load_flow *flow, const struct load_code *code)
{
    for (size_t i = 0; i < flow->count && code->sequence.n; i++)
        if (load_code_is_restartable(code, flow->insn[i].va, flow->insn[i].va + flow->insn[i].length))
            flow->insn[i].refusal = INSN_RESTARTABLE;
}

void load_flow_init(struct load_flow *flow, const struct load_code *code, uint64_t va, uint64_t size)
{
    uint64_t padding_end = load_code_padding_end(code, va + size);
    *flow = (struct load_flow){.va = va, .end_va = va + size};
    flow->insn = memory_alloc((padding_end - va + 1) * sizeof *flow->insn);
    flow->has_gaps = !sweep(flow, code) || !branches_hit_boundaries(flow);
    if (flow->has_gaps)
        descend(flow, code);
    for (uint64_t at = flow->end_va; at < padding_end && decode_at(code, at, padding_end, &flow->insn[flow->count]);)
        at += flow->insn[flow->count++].length;
    flow->mark = memory_zero(flow->count, 1);
    if (!flow->count)
        return;
    refuse_sequences(flow, code);
    mark_targets(flow, code);
    mark_unreached(flow);
    mark_padding(flow);
    flow->insn = memory_resize(flow->insn, flow->count, sizeof *flow->insn);
}

void load_flow_deinit(struct load_flow *flow)
{
    free(flow->insn);
    free(flow->mark);
    memset(flow, 0, sizeof *flow);
}
