/* Records: 64-bit code. What stream_ring_write() does when nothing is unusual; whatever is, is left to it. */
#include "jit/x86_64.h"

#define RING(field) ((int32_t)offsetof(struct wire_ring, field))
#define RECORD(field) ((int32_t)offsetof(struct wire_record, field))
#define PROCESS(field) ((int32_t)offsetof(struct wire_process, field))

/* movl $value,offset(%base) */
static void put_word(struct jit *jit, int base, int32_t offset, uint32_t value)
{
    jit64_op_at(jit, false, 0xc7, 0, base, -1, 1, offset);
    emit_u32(&jit->emit, value);
}

static void lead_to_call_if_zero(struct jit *jit, int reg)
{
    emit_rr(&jit->emit, false, 0x85, reg, reg);
    jit_lead_to_call(jit, emit_jump_if(&jit->emit, IF_ZERO));
}

/* esi = pid, edi = tid, eax = the row of the place. */
static void who_and_where(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    const struct jit_process *process = jit->process;
    emit_constant(emit, CX, process->session_va + process->session->state_offset + offsetof(struct wire_state, off));
    jit64_op_at(jit, false, 0x83, 7, CX, -1, 1, 0); /* cmpl $0 */
    EMIT(emit, 0);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO | IF_NOT));
    emit_constant(emit, CX, process->process_va);
    jit64_op_at(jit, false, 0x8b, SI, CX, -1, 1, PROCESS(pid));
    lead_to_call_if_zero(jit, SI);
    jit64_op_at(jit, true, 0x63, DI, CX, -1, 1, PROCESS(tid_offset)); /* movslq */
    lead_to_call_if_zero(jit, DI);
    EMIT(emit, 0x64, 0x8b, 0x3f); /* mov %fs:(%rdi),%edi */
    jit64_op_sp(jit, false, 0x8b, AX, jit->place_offset);
    emit_rr(emit, true, 0xc1, 4, AX); /* shl */
    EMIT(emit, (uint8_t)__builtin_ctz(sizeof(struct wire_place)));
    jit64_op_at(jit, true, 0x8b, CX, CX, -1, 1, PROCESS(places_va));
    jit64_op_at(jit, false, 0x8b, AX, CX, AX, 1, offsetof(struct wire_place, row));
}

/* rcx = the ring of the thread in edi. Uses rdx. */
static void find_ring(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    const struct wire_session *session = jit->process->session;
    emit_rr(emit, false, 0x69, CX, DI); /* imul $...,%edi,%ecx */
    emit_u32(emit, WIRE_RING_FACTOR);
    emit_rr(emit, false, 0xc1, 5, CX); /* shr */
    EMIT(emit, WIRE_RING_SHIFT);
    emit_rr(emit, false, 0x81, 4, CX); /* and */
    emit_u32(emit, session->ring_count - 1);
    emit_rr(emit, true, 0x69, CX, CX);
    emit_u32(emit, (uint32_t)session->ring_stride);
    emit_constant(emit, DX, jit->process->session_va + session->rings_offset);
    emit_rr(emit, true, 0x01, DX, CX);
}

/* rcx = where `need` bytes of the ring in rcx are reserved. Uses rax, rdx and r9. */
static void reserve(struct jit *jit, uint32_t need)
{
    struct emit *emit = &jit->emit;
    uint32_t size = jit->process->session->ring_bytes;
    jit64_op_at(jit, false, 0x8b, AX, CX, -1, 1, RING(head));
    size_t again = emit->code.n;
    emit_rr(emit, false, 0x89, AX, DX);
    jit64_op_at(jit, false, 0x2b, DX, CX, -1, 1, RING(tail));
    emit_rr(emit, false, 0x81, 7, DX); /* cmp: no room */
    emit_u32(emit, size - need);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ABOVE));
    emit_rr(emit, false, 0x89, AX, DX);
    emit_rr(emit, false, 0x81, 4, DX); /* and */
    emit_u32(emit, size - 1);
    emit_rr(emit, false, 0x81, 7, DX); /* cmp: not in one piece */
    emit_u32(emit, size - need);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ABOVE));
    jit64_op_at(jit, false, 0x8d, R9, AX, -1, 1, (int32_t)need);
    jit64_op_at(jit, false, 0xf00fb1, R9, CX, -1, 1, RING(head)); /* lock cmpxchg */
    jit_note_holds(jit, JIT_RECORD);
    emit_patch(emit, emit_jump_if(emit, IF_ZERO | IF_NOT), again);
    jit64_op_at(jit, true, 0x8d, CX, CX, DX, 1, sizeof(struct wire_ring));
    jit64_op_at(jit, false, 0x0f0d, 1, CX, -1, 1, JIT_FETCH_BYTES); /* prefetchw */
}

bool jit64_ring_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    uint32_t need = (uint32_t)sizeof(struct wire_record) + insn->j;
    if (insn->op != WIRE_EMIT || !jit_emits_inline(jit, insn))
        return false;
    static const uint8_t used[] = {AX, CX, DX, SI, DI, R8, R9, R10};
    for (size_t i = 0; i < sizeof used; i++)
        jit64_use(jit, used[i]);
    who_and_where(jit);
    emit_rr(emit, false, 0x89, AX, R10);
    EMIT(emit, 0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0); /* rdtsc; shl $32,%rdx; or %rdx,%rax */
    emit_rr(emit, true, 0x89, AX, R8);
    find_ring(jit);
    reserve(jit, need);
    jit64_op_at(jit, false, 0x89, SI, CX, -1, 1, RECORD(pid));
    jit64_op_at(jit, false, 0x89, DI, CX, -1, 1, RECORD(tid));
    jit64_op_at(jit, true, 0x89, SP, CX, -1, 1, RECORD(time)); /* whose it is, until the time is there */
    put_word(jit, CX, RECORD(state), need << 2 | WIRE_RECORD_RESERVED);
    put_word(jit, CX, RECORD(type), insn->h | jit->clause << 16);
    jit64_op_at(jit, true, 0x89, R10, CX, -1, 1, RECORD(place)); /* and no speculation */
    for (uint32_t at = 0; at < insn->j; at += 8) {
        jit64_op_sp(jit, true, 0x8b, AX, jit->frame_offset + insn->i + (int32_t)at);
        jit64_op_at(jit, true, 0x89, AX, CX, -1, 1, (int32_t)(sizeof(struct wire_record) + at));
    }
    jit64_op_at(jit, true, 0x89, R8, CX, -1, 1, RECORD(time));
    put_word(jit, CX, RECORD(state), need << 2 | WIRE_RECORD_COMMITTED);
    jit_note_holds(jit, JIT_NOTHING);
    jit->cached = -1;
    return true;
}
