/* Records: 32-bit code, as in 64-bit code. */
#include "jit/i386.h"

#define RING(field) ((int32_t)offsetof(struct wire_ring, field))
#define RECORD(field) ((int32_t)offsetof(struct wire_record, field))
#define PROCESS(field) offsetof(struct wire_process, field)

static void op_at(struct jit *jit, uint32_t opcode, int reg, int base, int index, int32_t offset)
{
    emit_rm(&jit->emit, false, opcode, reg, &(struct emit_memory){base, index, 1, offset});
}

/* movl $value,offset(%base) */
static void put_word(struct jit *jit, int base, int32_t offset, uint32_t value)
{
    op_at(jit, 0xc7, 0, base, -1, offset);
    emit_u32(&jit->emit, value);
}

static void lead_to_call_if_zero(struct jit *jit, int reg)
{
    jit32_op_rr(jit, 0x85, reg, reg);
    jit_lead_to_call(jit, emit_jump_if(&jit->emit, IF_ZERO));
}

/* esi = pid, edi = tid. */
static void who(struct jit *jit)
{
    const struct jit_process *process = jit->process;
    uint64_t off_va = process->session_va + process->session->state_offset + offsetof(struct wire_state, off);
    jit32_op_va(jit, 0x83, 7, off_va, -1, 1); /* cmpl $0 */
    EMIT(&jit->emit, 0);
    jit_lead_to_call(jit, emit_jump_if(&jit->emit, IF_ZERO | IF_NOT));
    jit32_op_va(jit, 0x8b, SI, process->process_va + PROCESS(pid), -1, 1);
    lead_to_call_if_zero(jit, SI);
    jit32_op_va(jit, 0x8b, DI, process->process_va + PROCESS(tid_offset), -1, 1);
    lead_to_call_if_zero(jit, DI);
    EMIT(&jit->emit, 0x65, 0x8b, 0x3f); /* mov %gs:(%edi),%edi */
}

/* ecx = the ring of the thread in edi. */
static void find_ring(struct jit *jit)
{
    const struct wire_session *session = jit->process->session;
    jit32_op_rr(jit, 0x69, CX, DI); /* imul $...,%edi,%ecx */
    emit_u32(&jit->emit, WIRE_RING_FACTOR);
    jit32_op_rr(jit, 0xc1, 5, CX); /* shr */
    EMIT(&jit->emit, WIRE_RING_SHIFT);
    jit32_op_constant(jit, 4, CX, session->ring_count - 1);
    jit32_op_rr(jit, 0x69, CX, CX);
    emit_u32(&jit->emit, (uint32_t)session->ring_stride);
    jit32_op_constant(jit, 0, CX, (uint32_t)(jit->process->session_va + session->rings_offset));
}

/* ecx = where `need` bytes of the ring in ecx are reserved. Uses eax, edx and ebx. */
static void reserve(struct jit *jit, uint32_t need)
{
    struct emit *emit = &jit->emit;
    uint32_t size = jit->process->session->ring_bytes;
    op_at(jit, 0x8b, AX, CX, -1, RING(head));
    size_t again = emit->code.n;
    jit32_op_rr(jit, 0x89, AX, DX);
    op_at(jit, 0x2b, DX, CX, -1, RING(tail));
    jit32_op_constant(jit, 7, DX, size - need); /* no room */
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ABOVE));
    jit32_op_rr(jit, 0x89, AX, DX);
    jit32_op_constant(jit, 4, DX, size - 1);
    jit32_op_constant(jit, 7, DX, size - need); /* not in one piece */
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ABOVE));
    op_at(jit, 0x8d, BX, AX, -1, (int32_t)need);
    op_at(jit, 0xf00fb1, BX, CX, -1, RING(head)); /* lock cmpxchg */
    jit_note_holds(jit, JIT_RECORD);
    emit_patch(emit, emit_jump_if(emit, IF_ZERO | IF_NOT), again);
    op_at(jit, 0x8d, CX, CX, DX, sizeof(struct wire_ring));
    op_at(jit, 0x0f0d, 1, CX, -1, JIT_FETCH_BYTES); /* prefetchw */
}

bool jit32_ring_op(struct jit *jit, const struct wire_insn *insn)
{
    uint32_t need = (uint32_t)sizeof(struct wire_record) + insn->j;
    if (insn->op != WIRE_EMIT || !jit_emits_inline(jit, insn))
        return false;
    jit->used |= 1u << BX | 1u << SI | 1u << DI;
    who(jit);
    EMIT(&jit->emit, 0x0f, 0x31); /* rdtsc, kept where no error is now */
    jit32_op_sp(jit, 0x89, AX, FIRE(error_value));
    jit32_op_sp(jit, 0x89, DX, FIRE(error_value) + 4);
    find_ring(jit);
    reserve(jit, need);
    op_at(jit, 0x89, SI, CX, -1, RECORD(pid));
    op_at(jit, 0x89, DI, CX, -1, RECORD(tid));
    op_at(jit, 0x89, SP, CX, -1, RECORD(time)); /* whose it is, until the time is there; its upper half is zero */
    put_word(jit, CX, RECORD(state), need << 2 | WIRE_RECORD_RESERVED);
    put_word(jit, CX, RECORD(type), insn->h | jit->clause << 16);
    jit32_op_sp(jit, 0x8b, AX, jit->place_offset);
    jit32_op_rr(jit, 0xc1, 4, AX); /* shl */
    EMIT(&jit->emit, (uint8_t)__builtin_ctz(sizeof(struct wire_place)));
    jit32_op_va(jit, 0x03, AX, jit->process->process_va + PROCESS(places_va), -1, 1);
    op_at(jit, 0x8b, AX, AX, -1, offsetof(struct wire_place, row));
    op_at(jit, 0x89, AX, CX, -1, RECORD(place));
    put_word(jit, CX, RECORD(speculation), 0);
    for (uint32_t at = 0; at < insn->j; at += 4) {
        jit32_op_sp(jit, 0x8b, AX, jit->frame_offset + insn->i + (int32_t)at);
        op_at(jit, 0x89, AX, CX, -1, (int32_t)(sizeof(struct wire_record) + at));
    }
    for (int32_t at = 4; at >= 0; at -= 4) {
        jit32_op_sp(jit, 0x8b, AX, FIRE(error_value) + at);
        op_at(jit, 0x89, AX, CX, -1, RECORD(time) + at);
    }
    put_word(jit, CX, RECORD(state), need << 2 | WIRE_RECORD_COMMITTED);
    jit_note_holds(jit, JIT_NOTHING);
    jit->cached = -1;
    return true;
}
