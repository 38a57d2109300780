#include "jit/internal.h"

#include "stream/op.h"
#include "stream/stream.h"

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

/* ---- before emitting ---- */

static uint32_t bit(uint32_t reg)
{
    return 1u << reg;
}

static uint32_t reads_of(const struct wire_insn *insn)
{
    return (stream_op_has(insn->op, 'A') ? bit(insn->a) : 0) | (stream_op_has(insn->op, 'B') ? bit(insn->b) : 0);
}

static uint32_t writes_of(const struct wire_insn *insn)
{
    return stream_op_has(insn->op, 'D') ? bit(insn->d) : 0;
}

static void find_targets(struct jit *jit)
{
    for (uint32_t i = 0; i < jit->count; i++)
        if (stream_op_has(jit->insns[i].op, 'J') || stream_op_has(jit->insns[i].op, 'L'))
            jit->is_target[jit->insns[i].j] = 1;
}

/* Registers in use, and from the last instruction to the first what is read behind each. */
static void find_live(struct jit *jit)
{
    uint16_t *before = memory_zero(jit->count + 1, sizeof *before);
    for (uint32_t i = jit->count; i-- > 0;) {
        const struct wire_insn *insn = &jit->insns[i];
        uint32_t after = before[i + 1];
        switch (insn->op) {
        case WIRE_JMP:
            after = before[insn->j];
            break;
        case WIRE_JZ:
        case WIRE_JNZ:
            after |= before[insn->j];
            break;
        case WIRE_LOOP:
            after = (1u << WIRE_REGS) - 1; /* what is read there is not known yet */
            jit->loops = true;
            break;
        case WIRE_END:
            after = 0;
            break;
        case WIRE_SPECSET:
            jit->speculates = true;
            break;
        }
        jit->live[i] = (uint16_t)after;
        before[i] = (uint16_t)((after & ~writes_of(insn)) | (jit->is_repeated[i] ? 0 : reads_of(insn)));
        jit->regs |= reads_of(insn) | writes_of(insn);
    }
    free(before);
}

/* Nothing but its result shows that it ran. */
static bool is_pure(const struct wire_insn *insn)
{
    switch (insn->op) {
    case WIRE_MGETV:
    case WIRE_MDEL:
    case WIRE_MNEXT:
    case WIRE_SPECNEW:
    case WIRE_USTACK:
        return false;
    case WIRE_CTX:
        return insn->i != WIRE_CTX_RAND && insn->i != WIRE_CTX_QUOTA;
    }
    return stream_op_has(insn->op, 'D') && !stream_op_has(insn->op, 'X');
}

static bool is_comparison(uint32_t op)
{
    return (op >= WIRE_EQ && op <= WIRE_LES) || (op >= WIRE_EQI && op <= WIRE_GTSI) || op == WIRE_LNOT;
}

/* The comparison in work need not give a number: the next instruction jumps by it and nothing else reads it. */
static bool is_fused(const struct jit *jit)
{
    const struct wire_insn *insn = &jit->insns[jit->at], *next = insn + 1;
    return jit->at + 1 < jit->count && is_comparison(insn->op) && !jit->is_target[jit->at + 1] &&
           (next->op == WIRE_JZ || next->op == WIRE_JNZ || next->op == WIRE_ENDZ) && next->a == insn->d &&
           !(jit->live[jit->at + 1] & bit(insn->d));
}

bool jit_uses_result(const struct jit *jit)
{
    return jit->live[jit->at] & bit(jit->insns[jit->at].d);
}

bool jit_must_store(const struct jit *jit)
{
    const struct wire_insn *insn = &jit->insns[jit->at], *next = insn + 1;
    if (!jit_uses_result(jit))
        return false;
    if (jit->at + 1 == jit->count || jit->is_target[jit->at + 1] || !stream_op_has(next->op, 'A') || next->a != insn->d ||
        !jit->arch->takes_first(next->op) || (stream_op_has(next->op, 'B') && next->b == insn->d))
        return true;
    return (jit->live[jit->at + 1] & bit(insn->d)) && !(writes_of(next) & bit(insn->d));
}

/* ---- what the architectures ask ---- */

const struct wire_map *jit_map(const struct jit *jit, uint32_t map)
{
    const struct wire_session *session = jit->process->session;
    return (const struct wire_map *)((const char *)session + session->maps_offset) + map;
}

bool jit_has_rdpid(void)
{
    static int answer = -1; /* asked once: in a virtual machine cpuid is dear */
    unsigned a, b, c, d;
    if (answer < 0)
        answer = __get_cpuid_count(7, 0, &a, &b, &c, &d) && c >> 22 & 1;
    return answer;
}

bool jit_emits_inline(const struct jit *jit, const struct wire_insn *insn)
{
    const struct wire_session *session = jit->process->session;
    return session->tsc_mult && !jit->speculates && jit->frame_offset >= 0 && insn->j <= JIT_INLINE_BYTES &&
           sizeof(struct wire_record) + insn->j <= session->ring_bytes / 2 && session->ring_stride <= INT32_MAX;
}

uint64_t jit_data(const struct jit *jit, uint32_t offset, uint32_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, stream_data(jit->stream) + offset, bytes);
    return value;
}

int32_t jit_saved_offset(const struct jit *jit, int reg)
{
    return jit->saved_offset + (int32_t)jit->arch->word_bytes * __builtin_popcount(jit->saved >> reg >> 1);
}

void jit_lead_to(struct jit *jit, size_t where, uint32_t to)
{
    VEC_PUSH(&jit->fixup, (struct jit_fixup){where, to});
}

void jit_lead_to_call(struct jit *jit, size_t where)
{
    jit->cold_calls = true;
    VEC_PUSH(&jit->cold, (struct jit_cold){.from = where, .insn = jit->at});
}

void jit_lead_to_error(struct jit *jit, size_t where, uint32_t error, bool has_value)
{
    jit->cold_calls = true;
    VEC_PUSH(&jit->cold, (struct jit_cold){.from = where, .insn = jit->at, .error = error, .has_value = has_value});
}

void jit_note_depth(struct jit *jit, int32_t bytes)
{
    VEC_PUSH(&jit->depth, (struct jit_depth){.from = (uint32_t)jit->emit.code.n, .bytes = bytes, .holds = jit->holds});
}

void jit_note_holds(struct jit *jit, enum jit_holds holds)
{
    jit->holds = holds;
    jit_note_depth(jit, jit_depth(jit));
}

int32_t jit_depth(const struct jit *jit)
{
    return jit->place_offset - (int32_t)jit->arch->word_bytes;
}

bool jit_is_own(const struct jit *jit)
{
    return jit->process->stacks.va;
}

int32_t jit_owner_offset(const struct jit *jit)
{
    return jit->place_offset + (int32_t)jit->arch->word_bytes;
}

uint64_t jit_lost_frames_va(const struct jit *jit)
{
    const struct wire_session *session = jit->process->session;
    return jit->process->session_va + session->state_offset + offsetof(struct wire_state, lost) + WIRE_LOSS_FRAME * sizeof(uint64_t);
}

void jit_refer(struct jit *jit, size_t where, const struct wire_insn *insn)
{
    VEC_PUSH(&jit->constant, *insn);
    VEC_PUSH(&jit->reference, (struct jit_reference){where, (uint32_t)jit->constant.n - 1});
}

/* ---- emitting ---- */

/* `known`: this is the second time. */
static void lay_out(struct jit *jit, bool known)
{
    const struct jit_arch *arch = jit->arch;
    int32_t at = 0, word = (int32_t)arch->word_bytes;
    jit->calls = !known || jit->hot_calls || jit->cold_calls;
    jit->saved = 1u << AX | (known ? jit->used : arch->caller_saved);
    if (jit->hot_calls)
        jit->saved |= arch->caller_saved;
    if (jit_is_own(jit))
        jit->saved |= 1u << CX;
    for (uint32_t i = 0; i < WIRE_REGS; i++) {
        jit->slot_offset[i] = jit->calls ? (int32_t)(offsetof(struct wire_fire, reg) + 8 * i) : at;
        at += jit->regs & bit(i) ? 8 : 0;
    }
    if (jit->calls)
        at = (int32_t)offsetof(struct wire_fire, reg) + 8 * (jit->regs ? 32 - __builtin_clz(jit->regs) : 0);
    jit->node_offset = at;
    at += 8 * (int32_t)jit->node_slots;
    jit->frame_offset = at;
    if (jit->frame_bytes > JIT_STACK_FRAME_MAX)
        jit->frame_offset = -1;
    else
        at += (int32_t)jit->frame_bytes;
    jit->locals_bytes = at;
    at += word; /* the flags as lahf and seto give them */
    jit->flags_offset = at;
    at += jit->whole_flags ? word : 0;
    jit->saved_offset = at;
    at += word * __builtin_popcount(jit->saved);
    jit->place_offset = at + word; /* over the return address */
    jit->sp_offset = jit->place_offset + (int32_t)arch->skipped_bytes;
}

static void emit_insns(struct jit *jit)
{
    for (jit->at = 0; jit->at < jit->count; jit->at++) {
        const struct wire_insn *insn = &jit->insns[jit->at];
        size_t cold = jit->cold.n;
        jit->position[jit->at] = jit->emit.code.n;
        if (jit->is_target[jit->at])
            jit->cached = -1;
        if (jit->is_repeated[jit->at] || (is_pure(insn) && !jit_uses_result(jit) && !jit->node[jit->at].last))
            continue;
        if (is_fused(jit)) {
            jit->arch->compare_and_jump(jit, insn, insn + 1);
            jit->position[++jit->at] = jit->emit.code.n;
        } else if (!jit->arch->op(jit, insn)) {
            jit->hot_calls = true;
            jit->arch->call_op(jit, insn, jit->at);
            jit->cached = -1;
        }
        for (; cold < jit->cold.n; cold++)
            jit->cold.at[cold].back = jit->emit.code.n;
    }
}

static void emit_body(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    jit->cached = -1;
    jit->holds = JIT_NOTHING;
    jit->kept_until = 0;
    jit_note_depth(jit, 0);
    jit->arch->prologue(jit);
    jit_note_depth(jit, jit_depth(jit));
    emit_insns(jit);
    for (size_t i = 0; i < jit->fixup.n; i++)
        emit_patch(emit, jit->fixup.at[i].where, jit->position[jit->fixup.at[i].to]);
    jit->exit_position = emit->code.n;
    for (size_t i = 0; i < jit->exits.n; i++)
        emit_patch(emit, jit->exits.at[i], emit->code.n);
    jit->arch->epilogue(jit);
    /* Where to it comes back, a node may be used that was found before. */
    jit_note_holds(jit, jit->node_slots ? JIT_NODE : JIT_NOTHING);
    for (size_t i = 0; i < jit->cold.n; i++) {
        emit_patch(emit, jit->cold.at[i].from, emit->code.n);
        jit->arch->cold(jit, &jit->cold.at[i]);
    }
    if (jit->calls)
        jit->arch->subroutines(jit);
    while (emit->code.n % 16)
        EMIT(emit, 0xcc);
    for (size_t i = 0; i < jit->reference.n; i++)
        jit->arch->refer(jit, jit->reference.at[i].where, emit->code.n + jit->reference.at[i].number * sizeof(struct wire_insn));
    emit_bytes(emit, jit->constant.at, jit->constant.n * sizeof(struct wire_insn));
}

static void reset(struct jit *jit)
{
    jit->emit.code.n = 0;
    jit->fixup.n = jit->exits.n = jit->outs.n = jit->errors.n = jit->cold.n = jit->constant.n = jit->reference.n = jit->depth.n = 0;
}

static void deinit(struct jit *jit)
{
    free(jit->is_target);
    free(jit->is_repeated);
    free(jit->node);
    if (!jit->process->added_to)
        free((void *)jit->is_added_to);
    free(jit->live);
    free(jit->position);
    VEC_FREE(&jit->emit.code);
    VEC_FREE(&jit->fixup);
    VEC_FREE(&jit->exits);
    VEC_FREE(&jit->outs);
    VEC_FREE(&jit->errors);
    VEC_FREE(&jit->cold);
    VEC_FREE(&jit->constant);
    VEC_FREE(&jit->depth);
    VEC_FREE(&jit->reference);
}

void jit_body_deinit(struct jit_body *body)
{
    VEC_FREE(&body->code);
    VEC_FREE(&body->depth);
}

struct err *jit_compile(const struct wire_stream *stream, uint32_t clause, enum wire_model model, const struct jit_process *process,
                        uint64_t va, struct jit_body *out)
{
    struct jit jit = {.arch = model == WIRE_LP64 ? &jit_x86_64 : &jit_i386,
                      .stream = stream,
                      .process = process,
                      .clause = clause,
                      .model = model,
                      .va = va};
    *out = (struct jit_body){0};
    if (!(stream_clauses(stream)[clause].has_model >> model & 1))
        return err_new(ERR_REFUSED, "jit: clause %u: it has no code for this model", clause);
    jit.insns = stream_code(stream, clause, model, &jit.count);
    jit.frame_bytes = stream_clauses(stream)[clause].frame_bytes[model];
    jit.is_target = memory_zero(jit.count, sizeof *jit.is_target);
    jit.is_repeated = memory_zero(jit.count, sizeof *jit.is_repeated);
    jit.node = memory_zero(jit.count, sizeof *jit.node);
    jit.is_added_to = process->added_to ? process->added_to : jit_find_added_to(stream);
    jit.live = memory_zero(jit.count, sizeof *jit.live);
    jit.position = memory_zero(jit.count, sizeof *jit.position);
    jit.emit.wide = model == WIRE_LP64;
    find_targets(&jit);
    jit_find_repeated(&jit);
    find_live(&jit);
    jit.hot_calls = jit.frame_bytes > JIT_STACK_FRAME_MAX;
    lay_out(&jit, false);
    emit_body(&jit);
    reset(&jit);
    lay_out(&jit, true);
    emit_body(&jit);
    for (int reg = 0; reg < 16; reg++)
        out->clobbers |= jit.saved >> reg & 1 ? 1u << jit.arch->numbers[reg] : 0;
    out->calls = jit.calls;
    for (size_t i = 0; i < jit.emit.code.n; i++)
        VEC_PUSH(&out->code, jit.emit.code.at[i]);
    for (size_t i = 0; i < jit.depth.n; i++)
        VEC_PUSH(&out->depth, jit.depth.at[i]);
    deinit(&jit);
    return NULL;
}
