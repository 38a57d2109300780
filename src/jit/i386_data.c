/* The frame: 32-bit code. */
#include "jit/i386.h"

/* ---- the frame ---- */

static void load_extended(struct jit *jit, const struct wire_insn *insn, const struct emit_memory *memory)
{
    struct emit *emit = &jit->emit;
    uint32_t size = insn->k & ~(uint32_t)WIRE_SIGNED;
    bool is_signed = insn->k & WIRE_SIGNED;
    struct emit_memory high = jit32_high_of(*memory);
    if (size == 8)
        emit_rm(emit, false, 0x8b, DX, &high);
    emit_rm(emit, false, size >= 4 ? 0x8b : size == 2 ? (is_signed ? 0x0fbf : 0x0fb7) : (is_signed ? 0x0fbe : 0x0fb6), AX, memory);
    if (size < 8 && is_signed)
        EMIT(emit, 0x99);
    else if (size < 8)
        EMIT(emit, 0x31, 0xd2);
    jit32_result(jit, insn);
}

static void store_eax(struct jit *jit, const struct emit_memory *memory, uint32_t size)
{
    emit_rm(&jit->emit, false, size == 1 ? 0x88 : size == 2 ? 0x6689 : 0x89, AX, memory);
}

static bool move_op(struct jit *jit, const struct wire_insn *insn)
{
    uint32_t bytes = insn->op == WIRE_FZERO ? (uint32_t)insn->i : insn->h, piece;
    if (bytes > JIT_INLINE_BYTES)
        return false;
    struct emit_memory to = jit32_in_frame(jit, insn->j), from = to;
    from.displacement += insn->i - (int32_t)insn->j;
    if (insn->op == WIRE_FZERO)
        EMIT(&jit->emit, 0x31, 0xc0); /* xor %eax,%eax */
    for (uint32_t done = 0; done < bytes; done += piece) {
        piece = bytes - done >= 4 ? 4 : bytes - done >= 2 ? 2 : 1;
        if (insn->op == WIRE_FCPY)
            emit_rm(&jit->emit, false, piece == 4 ? 0x8b : piece == 2 ? 0x0fb7 : 0x0fb6, AX, &from);
        else if (insn->op == WIRE_FDATA)
            emit_constant(&jit->emit, AX, jit_data(jit, (uint32_t)insn->i + done, piece));
        store_eax(jit, &to, piece);
        from.displacement += (int32_t)piece;
        to.displacement += (int32_t)piece;
    }
    jit->cached = -1;
    return true;
}

/* edx:eax = the operation's a, which is below `count`. */
static void check_bound(struct jit *jit, const struct wire_insn *insn, uint32_t count)
{
    jit32_load_first(jit, insn);
    jit32_op_rr(jit, 0x85, DX, DX);
    jit_lead_to_error(jit, emit_jump_if(&jit->emit, IF_ZERO | IF_NOT), WIRE_ERROR_BOUNDS, true);
    jit32_op_constant(jit, 7, AX, count - 1);
    jit_lead_to_error(jit, emit_jump_if(&jit->emit, IF_ABOVE), WIRE_ERROR_BOUNDS, true);
}

bool jit32_frame_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit_memory memory, high;
    switch (insn->op) {
    case WIRE_FLD:
        memory = jit32_in_frame(jit, insn->j);
        load_extended(jit, insn, &memory);
        return true;
    case WIRE_FST:
        jit32_load_first(jit, insn);
        memory = jit32_in_frame(jit, insn->j);
        high = jit32_high_of(memory);
        store_eax(jit, &memory, insn->k);
        if (insn->k == 8)
            emit_rm(&jit->emit, false, 0x89, DX, &high);
        return true;
    case WIRE_FLDX:
        check_bound(jit, insn, (uint32_t)insn->i / (insn->k & 15u));
        memory = jit32_in_frame(jit, insn->j);
        memory.index = AX;
        memory.scale = insn->k & 15;
        load_extended(jit, insn, &memory);
        return true;
    case WIRE_BOUND:
        check_bound(jit, insn, (uint32_t)insn->i);
        jit32_result(jit, insn);
        return true;
    case WIRE_FCPY:
    case WIRE_FZERO:
    case WIRE_FDATA:
        return move_op(jit, insn);
    default:
        return false;
    }
}
