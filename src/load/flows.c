/* Decoded functions that are kept with their file, because every process that maps it needs the same. */
#include "base/memory.h"
#include "load/code.h"

#include <stdlib.h>

/* Where the flow is, or a free slot. There is always one. */
static size_t find(const struct load_code *code, uint64_t va, uint64_t end_va)
{
    size_t at = va * 0x9e3779b97f4a7c15u >> 32 & (code->flow_room - 1);
    while (code->flow[at] && (code->flow[at]->va != va || code->flow[at]->end_va != end_va))
        at = (at + 1) & (code->flow_room - 1);
    return at;
}

/* Puts all flows that hold into a new table; the others are set aside. */
static void rebuild(struct load_code *code, size_t room, uint64_t va, uint64_t end_va)
{
    struct load_flow **old = code->flow;
    size_t old_room = code->flow_room;
    code->flow = memory_zero(room, sizeof *code->flow);
    code->flow_room = room;
    code->flow_count = 0;
    for (size_t i = 0; i < old_room; i++) {
        struct load_flow *flow = old[i];
        if (!flow)
            continue;
        const struct insn *last = flow->count ? &flow->insn[flow->count - 1] : NULL;
        if (last && flow->insn[0].va < end_va && last->va + last->length > va) {
            VEC_PUSH(&code->old_flow, flow);
            continue;
        }
        code->flow[find(code, flow->va, flow->end_va)] = flow;
        code->flow_count++;
    }
    free(old);
}

const struct load_flow *load_code_flow(struct load_code *code, uint64_t va, uint64_t size)
{
    enum { FIRST_ROOM = 64 };
    if (code->flow_count * 2 >= code->flow_room)
        rebuild(code, code->flow_room ? code->flow_room * 2 : FIRST_ROOM, 0, 0);
    size_t at = find(code, va, va + size);
    if (!code->flow[at]) {
        code->flow[at] = memory_alloc(sizeof *code->flow[at]);
        load_flow_init(code->flow[at], code, va, size);
        code->flow_count++;
    }
    return code->flow[at];
}

void load_code_forget_flows(struct load_code *code, uint64_t va, uint64_t end_va)
{
    if (code->flow_room)
        rebuild(code, code->flow_room, va, end_va);
}

static void free_flow(struct load_flow *flow)
{
    if (flow)
        load_flow_deinit(flow);
    free(flow);
}

void load_code_free_flows(struct load_code *code)
{
    for (size_t i = 0; i < code->flow_room; i++)
        free_flow(code->flow[i]);
    for (size_t i = 0; i < code->old_flow.n; i++)
        free_flow(code->old_flow.at[i]);
    VEC_FREE(&code->old_flow);
    free(code->flow);
}
