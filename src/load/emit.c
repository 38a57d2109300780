#include "load/emit.h"

#include <stdlib.h>
#include <string.h>

enum { INT3 = 0xcc };

/* A 32-bit distance in the code to a 64-bit word behind it. */
struct literal {
    size_t at; /* where the distance is */
    uint64_t value;
};

struct emitter {
    const struct load_fire_context *fire;
    uint64_t va; /* of the trampoline */
    struct load_trampoline *out;
    VEC(struct literal) literal;
};

void load_trampoline_deinit(struct load_trampoline *trampoline)
{
    VEC_FREE(&trampoline->code);
    VEC_FREE(&trampoline->pc);
}

static uint64_t here(const struct emitter *emit)
{
    return emit->va + emit->out->code.n;
}

static void put(struct emitter *emit, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        VEC_PUSH(&emit->out->code, bytes[i]);
}

static void note_pc(struct emitter *emit, uint64_t va, uint64_t origin_va, enum wire_pc_kind kind, unsigned sp_undo, uint32_t value)
{
    VEC_PUSH(&emit->out->pc, (struct wire_pc){va, origin_va, (uint16_t)kind, (uint16_t)sp_undo, value});
}

static void encode_jmp(uint64_t from_va, uint64_t to_va, uint8_t out[5])
{
    uint32_t relative = (uint32_t)(to_va - (from_va + 5));
    out[0] = 0xe9;
    memcpy(out + 1, &relative, 4);
}

static bool reaches(enum insn_mode mode, uint64_t from_va, uint64_t to_va)
{
    int64_t distance = (int64_t)(to_va - (from_va + 5));
    return mode == INSN_MODE_32 || distance == (int32_t)distance;
}

static enum insn_reason put_jmp(struct emitter *emit, uint64_t to_va)
{
    uint8_t bytes[5];
    if (!reaches(emit->fire->mode, here(emit), to_va))
        return INSN_OUT_OF_REACH;
    note_pc(emit, here(emit), to_va, WIRE_PC_COPY, 0, 0);
    encode_jmp(here(emit), to_va, bytes);
    put(emit, bytes, sizeof bytes);
    return INSN_OK;
}

static void put_clause(struct emitter *emit, const struct load_probe *probe)
{
    uint8_t bytes[FIRE_MAX_BYTES];
    size_t literal, start = emit->out->code.n;
    size_t size = fire_clause_emit(emit->fire->mode, here(emit), probe->body_va, probe->counter, bytes, &literal);
    if (literal)
        VEC_PUSH(&emit->literal, (struct literal){start + literal, probe->body_va});
    put(emit, bytes, size);
}

static void put_fire(struct emitter *emit, const struct load_probe *probe, uint64_t origin_va)
{
    static const uint32_t function[] = {[LOAD_CALL_LOAD_EVENT] = WIRE_AGENT_LOAD_EVENT, [LOAD_CALL_ACTION] = WIRE_AGENT_ACTION,
                                        [LOAD_CALL_ENTER] = WIRE_AGENT_ENTER,           [LOAD_CALL_LEAVE] = WIRE_AGENT_LEAVE,
                                        [LOAD_CALL_GO_ON] = WIRE_AGENT_GO_ON,           [LOAD_CALL_GO_ON_BARE] = WIRE_AGENT_GO_ON_BARE};
    const struct load_fire_context *fire = emit->fire;
    uint8_t bytes[FIRE_MAX_BYTES];
    size_t length;
    switch ((enum load_action)probe->action) {
    case LOAD_COUNT:
        note_pc(emit, here(emit), origin_va, WIRE_PC_FIRE, 0, probe->counter);
        put(emit, bytes,
            fire_count_emit(fire->mode, fire->counters_va + wire_counter_offset(probe->counter, fire->block_bytes), fire->shard_mask,
                            WIRE_SHARD_SHIFT, bytes));
        break;
    case LOAD_CLAUSE:
        note_pc(emit, here(emit), origin_va, WIRE_PC_CLAUSE, 0, probe->counter);
        put_clause(emit, probe);
        break;
    default:
        note_pc(emit, here(emit), origin_va, WIRE_PC_CALL, 0, function[probe->action]);
        length = fire_call_emit(fire->mode, fire->agent_va + function[probe->action], fire->shared_va, bytes);
        if (probe->action == LOAD_CALL_GO_ON_BARE)
            fire_call_make_bare(fire->mode, bytes, length);
        put(emit, bytes, length);
    }
}

/* The addresses that the code reads go behind it. */
static void put_literals(struct emitter *emit)
{
    for (size_t i = 0; i < emit->literal.n; i++) {
        const struct literal *literal = &emit->literal.at[i];
        uint32_t distance = (uint32_t)(emit->out->code.n - (literal->at + 4));
        memcpy(&emit->out->code.at[literal->at], &distance, sizeof distance);
        put(emit, (const uint8_t *)&literal->value, sizeof literal->value);
    }
}

static void put_copy(struct emitter *emit, const struct insn *insn, const struct insn_copy *copy)
{
    for (unsigned i = 0; i < copy->step_count; i++)
        note_pc(emit, here(emit) + copy->step[i].offset, copy->step[i].pc_va, WIRE_PC_COPY, copy->step[i].sp_undo,
                copy->step[i].pc_va == insn->va);
    put(emit, copy->bytes, copy->length);
}

/* The instruction as it is in the process. */
static struct insn with_bias(const struct insn *insn, uint64_t bias)
{
    struct insn moved = *insn;
    moved.va += bias;
    if (moved.target_va)
        moved.target_va += bias;
    if (moved.flags & INSN_PC_RELATIVE)
        moved.memory_va += bias;
    if (moved.mode == INSN_MODE_32) {
        moved.va = (uint32_t)moved.va;
        moved.target_va = (uint32_t)moved.target_va;
    }
    return moved;
}

/* A conditional branch with probes on its taken side: those fire behind a detour that ends in the jump. */
static enum insn_reason put_taken(struct emitter *emit, const struct insn *insn, const struct load_probe *probe, size_t probe_count)
{
    struct insn_copy copy;
    /* First with a guess, for its length; the detour lies behind the jump that skips it. */
    enum insn_reason reason = insn_relocate_taken(insn, here(emit), here(emit) + 64, &copy);
    if (reason == INSN_OK)
        reason = insn_relocate_taken(insn, here(emit), here(emit) + copy.length + 5, &copy);
    if (reason != INSN_OK)
        return reason;
    put_copy(emit, insn, &copy);
    uint64_t skip_va = here(emit);
    size_t skip = emit->out->code.n;
    put(emit, (const uint8_t[5]){0}, 5);
    note_pc(emit, skip_va, insn->va + insn->length, WIRE_PC_COPY, 0, 0);
    for (size_t i = 0; i < probe_count; i++)
        if (probe[i].taken)
            put_fire(emit, &probe[i], insn->va);
    reason = put_jmp(emit, insn->target_va);
    encode_jmp(skip_va, here(emit), &emit->out->code.at[skip]);
    return reason;
}

static enum insn_reason put_insn(struct emitter *emit, const struct insn *insn, const struct load_probe *probe, size_t probe_count,
                                 bool *falls_through)
{
    bool taken = false;
    for (size_t i = 0; i < probe_count; i++) {
        taken |= probe[i].taken;
        if (!probe[i].taken)
            put_fire(emit, &probe[i], insn->va);
    }
    *falls_through = true;
    if (taken)
        return put_taken(emit, insn, probe, probe_count);
    struct insn_copy copy;
    enum insn_reason reason = insn_relocate(insn, here(emit), &copy);
    if (reason == INSN_OK) {
        put_copy(emit, insn, &copy);
        *falls_through = copy.falls_through;
    }
    return reason;
}

static enum insn_reason put_window(struct emitter *emit, const struct load_flow *flow, const struct load_window *window,
                                   const struct load_probe *probe, size_t probe_count, uint64_t bias)
{
    bool falls_through = true;
    size_t done = 0;
    for (uint32_t i = 0; i < window->count; i++) {
        const struct insn *insn = &flow->insn[window->first + i];
        size_t here_count = 0;
        while (done + here_count < probe_count && probe[done + here_count].va == insn->va)
            here_count++;
        struct insn moved = with_bias(insn, bias);
        enum insn_reason reason = put_insn(emit, &moved, probe + done, here_count, &falls_through);
        if (reason != INSN_OK)
            return reason;
        done += here_count;
    }
    return falls_through ? put_jmp(emit, window->end_va + bias) : INSN_OK;
}

enum insn_reason load_emit(const struct load_fire_context *fire, const struct load_flow *flow, const struct load_window *window,
                           const struct load_probe *probe, size_t probe_count, uint64_t bias, uint64_t va, struct load_trampoline *out)
{
    struct emitter emit = {.fire = fire, .va = va, .out = out};
    out->code.n = out->pc.n = 0;
    enum insn_reason reason = put_window(&emit, flow, window, probe, probe_count, bias);
    if (reason == INSN_OK)
        put_literals(&emit);
    VEC_FREE(&emit.literal);
    return reason;
}

void load_emit_patch(const struct load_window *window, uint64_t bias, uint64_t trampoline_va, uint64_t far_island_va, uint8_t patch[8],
                     uint8_t island[8])
{
    uint64_t va = window->va + bias, island_va = window->island_va + bias;
    if (window->kind == LOAD_TRAP) {
        patch[0] = INT3;
    } else if (window->kind != LOAD_ISLAND) {
        encode_jmp(va, trampoline_va, patch);
    } else if (window->far_span) {
        encode_jmp(va, far_island_va, patch); /* only its first bytes are written; the rest is there already */
    } else {
        patch[0] = 0xeb;
        patch[1] = (uint8_t)(island_va - (va + 2));
        encode_jmp(island_va, trampoline_va, island);
    }
}

void load_emit_far_island(enum insn_mode mode, uint64_t island_va, uint64_t trampoline_va, uint8_t out[LOAD_FAR_ISLAND_BYTES])
{
    memset(out, INT3, LOAD_FAR_ISLAND_BYTES);
    if (mode == INSN_MODE_32) {
        encode_jmp(island_va, trampoline_va, out);
        return;
    }
    memcpy(out, (const uint8_t[]){0xff, 0x25, 0, 0, 0, 0}, 6); /* jmp *0(%rip) */
    memcpy(out + 6, &trampoline_va, 8);
}
