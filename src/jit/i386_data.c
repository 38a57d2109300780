/* The frame, and maps without a key: 32-bit code. */
#include "jit/i386.h"

/* ---- the frame ---- */

static struct emit_memory high_of(struct emit_memory memory)
{
    memory.displacement += 4;
    return memory;
}

static void load_extended(struct jit *jit, const struct wire_insn *insn, const struct emit_memory *memory)
{
    struct emit *emit = &jit->emit;
    uint32_t size = insn->k & ~(uint32_t)WIRE_SIGNED;
    bool is_signed = insn->k & WIRE_SIGNED;
    struct emit_memory high = high_of(*memory);
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
        high = high_of(memory);
        store_eax(jit, &memory, insn->k);
        if (insn->k == 8)
            emit_rm(&jit->emit, false, 0x89, DX, &high);
        return true;
    case WIRE_FLDX:
        jit32_load_first(jit, insn);
        jit32_op_rr(jit, 0x85, DX, DX);
        jit_lead_to_error(jit, emit_jump_if(&jit->emit, IF_ZERO | IF_NOT), WIRE_ERROR_BOUNDS, true);
        jit32_op_constant(jit, 7, AX, (uint32_t)insn->i - (insn->k & ~(uint32_t)WIRE_SIGNED));
        jit_lead_to_error(jit, emit_jump_if(&jit->emit, IF_ABOVE), WIRE_ERROR_BOUNDS, true);
        memory = jit32_in_frame(jit, insn->j);
        memory.index = AX;
        load_extended(jit, insn, &memory);
        return true;
    case WIRE_FCPY:
    case WIRE_FZERO:
    case WIRE_FDATA:
        return move_op(jit, insn);
    default:
        return false;
    }
}

/* ---- maps without a key ---- */

/* eax = the slot of the value in edx:eax. */
static void hist_slot(struct jit *jit, const struct wire_map_type *type)
{
    struct emit *emit = &jit->emit;
    size_t negative = 0, low, zero, done, done_low, done_zero = 0;
    jit32_op_rr(jit, 0x85, DX, DX);
    if (type->is_signed)
        negative = emit_jump_if(emit, IF_SIGN);
    low = emit_jump_if(emit, IF_ZERO);
    jit32_op_rr(jit, 0x0fbd, AX, DX); /* bsr */
    EMIT(emit, 0x83, 0xc0, 0x22);     /* add $34,%eax */
    done = emit_jump(emit);
    emit_patch(emit, low, emit->code.n);
    jit32_op_rr(jit, 0x0fbd, AX, AX);
    zero = emit_jump_if(emit, IF_ZERO);
    EMIT(emit, 0x83, 0xc0, 0x02); /* add $2,%eax */
    done_low = emit_jump(emit);
    emit_patch(emit, zero, emit->code.n);
    emit_constant(emit, AX, 1);
    if (type->is_signed) {
        done_zero = emit_jump(emit);
        emit_patch(emit, negative, emit->code.n);
        EMIT(emit, 0x31, 0xc0);
        emit_patch(emit, done_zero, emit->code.n);
    }
    emit_patch(emit, done, emit->code.n);
    emit_patch(emit, done_low, emit->code.n);
}

/* The word at `va`, and with carry the one above it: each change is whole in the end, whoever else makes others. */
static void locked_increment(struct jit *jit, uint64_t va, int index)
{
    int scale = index == AX ? 8 : 1;
    struct emit_memory memory = {CX, index, scale, (int32_t)va}, high = high_of(memory);
    emit_rm(&jit->emit, false, 0xf083, 0, &memory); /* lock addl $1 */
    EMIT(&jit->emit, 1);
    emit_rm(&jit->emit, false, 0xf083, 2, &high); /* lock adcl $0 */
    EMIT(&jit->emit, 0);
}

static void locked_add(struct jit *jit, uint64_t va)
{
    struct emit_memory memory = {CX, -1, 1, (int32_t)va}, high = high_of(memory);
    emit_rm(&jit->emit, false, 0xf001, AX, &memory);
    emit_rm(&jit->emit, false, 0xf011, DX, &high);
}

bool jit32_map_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    uint64_t node_va, value_va;
    const struct wire_map *map = jit_map(jit, insn->h);
    if (insn->op != WIRE_MAGG || map->type.key_bytes || map->type.kind == WIRE_MAP_TSERIES)
        return false;
    uint32_t kind = map->type.kind;
    bool hist = kind == WIRE_MAP_HIST, counts = kind != WIRE_MAP_SUM, adds = !hist && kind != WIRE_MAP_COUNT;
    if (kind == WIRE_MAP_MIN || kind == WIRE_MAP_MAX || kind == WIRE_MAP_LHIST || (hist && map->type.param[0]))
        return false;
    node_va = jit->process->session_va + map->nodes_offset;
    value_va = node_va + sizeof(struct wire_node);
    jit32_op_va(jit, 0x83, 7, node_va + offsetof(struct wire_node, state), -1, 1); /* cmpl $LIVE: else it is left to eval_op() */
    EMIT(emit, WIRE_NODE_LIVE);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO | IF_NOT));
    if (hist || adds)
        jit32_load_first(jit, insn);
    if (hist)
        hist_slot(jit, &map->type);
    if (map->shards == 1) {
        emit_constant(emit, CX, 0);
    } else {
        jit32_processor(jit, CX);
        jit32_op_constant(jit, 4, CX, map->shards - 1);
        jit32_op_rr(jit, 0x69, CX, CX); /* imul */
        emit_u32(emit, map->value_stride);
    }
    if (counts)
        locked_increment(jit, value_va, hist ? AX : -1);
    if (adds)
        locked_add(jit, value_va + (counts ? 8 : 0));
    jit->cached = -1;
    return true;
}
