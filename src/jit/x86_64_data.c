/* The frame: 64-bit code. */
#include "jit/x86_64.h"

/* ---- the frame ---- */

static void load_extended(struct jit *jit, const struct emit_memory *memory, uint32_t code)
{
    struct emit *emit = &jit->emit;
    switch (code) {
    case 1:
        emit_rm(emit, false, 0x0fb6, AX, memory);
        break;
    case 2:
        emit_rm(emit, false, 0x0fb7, AX, memory);
        break;
    case 4:
        emit_rm(emit, false, 0x8b, AX, memory);
        break;
    case 1 | WIRE_SIGNED:
        emit_rm(emit, true, 0x0fbe, AX, memory);
        break;
    case 2 | WIRE_SIGNED:
        emit_rm(emit, true, 0x0fbf, AX, memory);
        break;
    case 4 | WIRE_SIGNED:
        emit_rm(emit, true, 0x63, AX, memory);
        break;
    default:
        emit_rm(emit, true, 0x8b, AX, memory);
    }
}

static void store_rax(struct jit *jit, const struct emit_memory *memory, uint32_t size)
{
    emit_rm(&jit->emit, size == 8, size == 1 ? 0x88 : size == 2 ? 0x6689 : 0x89, AX, memory);
}

/* The largest piece that fits. */
static uint32_t piece_of(uint32_t bytes)
{
    return bytes >= 8 ? 8 : bytes >= 4 ? 4 : bytes >= 2 ? 2 : 1;
}

static bool move_op(struct jit *jit, const struct wire_insn *insn)
{
    uint32_t bytes = insn->op == WIRE_FZERO ? (uint32_t)insn->i : insn->h, piece;
    if (bytes > JIT_INLINE_BYTES)
        return false;
    struct emit_memory to = jit64_in_frame(jit, insn->j), from = to;
    from.displacement += insn->i - (int32_t)insn->j;
    if (insn->op == WIRE_FZERO)
        EMIT(&jit->emit, 0x31, 0xc0); /* xor %eax,%eax */
    for (uint32_t done = 0; done < bytes; done += piece) {
        piece = piece_of(bytes - done);
        if (insn->op == WIRE_FCPY)
            load_extended(jit, &from, piece);
        else if (insn->op == WIRE_FDATA)
            emit_constant(&jit->emit, AX, jit_data(jit, (uint32_t)insn->i + done, piece));
        store_rax(jit, &to, piece);
        from.displacement += (int32_t)piece;
        to.displacement += (int32_t)piece;
    }
    jit->cached = -1;
    return true;
}

/* rax = the operation's a, which is below `count`, at most 1 << 31. */
static void check_bound(struct jit *jit, const struct wire_insn *insn, uint32_t count)
{
    jit64_load_first(jit, insn);
    emit_rr(&jit->emit, true, 0x81, 7, AX); /* cmp */
    emit_u32(&jit->emit, count - 1);
    jit_lead_to_error(jit, emit_jump_if(&jit->emit, IF_ABOVE), WIRE_ERROR_BOUNDS, true);
}

bool jit64_frame_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit_memory memory;
    switch (insn->op) {
    case WIRE_FLD:
        memory = jit64_in_frame(jit, insn->j);
        load_extended(jit, &memory, insn->k);
        jit64_result(jit, insn);
        return true;
    case WIRE_FST:
        jit64_load_first(jit, insn);
        memory = jit64_in_frame(jit, insn->j);
        store_rax(jit, &memory, insn->k);
        return true;
    case WIRE_FLDX:
        check_bound(jit, insn, (uint32_t)insn->i / (insn->k & 15u));
        memory = jit64_in_frame(jit, insn->j);
        memory.index = AX;
        memory.scale = insn->k & 15;
        load_extended(jit, &memory, insn->k);
        jit64_result(jit, insn);
        return true;
    case WIRE_BOUND:
        check_bound(jit, insn, (uint32_t)insn->i);
        jit64_result(jit, insn);
        return true;
    case WIRE_FCPY:
    case WIRE_FZERO:
    case WIRE_FDATA:
        return move_op(jit, insn);
    default:
        return false;
    }
}
