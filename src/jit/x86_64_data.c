/* The frame, and maps without a key: 64-bit code. */
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
        jit64_load_first(jit, insn);
        emit_rr(&jit->emit, true, 0x81, 7, AX); /* cmp */
        emit_u32(&jit->emit, (uint32_t)insn->i - (insn->k & ~(uint32_t)WIRE_SIGNED));
        jit_lead_to_error(jit, emit_jump_if(&jit->emit, IF_ABOVE), WIRE_ERROR_BOUNDS, true);
        memory = jit64_in_frame(jit, insn->j);
        memory.index = AX;
        load_extended(jit, &memory, insn->k);
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

/* ---- maps without a key ---- */

enum { NODE_VALUE = sizeof(struct wire_node) };

/* rdx = the map's node; one that has no value yet is left to eval_op(). */
static void live_node(struct jit *jit, uint64_t node_va, int condition_of_other, size_t *other)
{
    jit64_use(jit, DX);
    emit_constant(&jit->emit, DX, node_va);
    jit64_op_at(jit, false, 0x83, 7, DX, -1, 1, offsetof(struct wire_node, state)); /* cmpl $LIVE */
    EMIT(&jit->emit, WIRE_NODE_LIVE);
    *other = emit_jump_if(&jit->emit, condition_of_other);
}

/* rdx += where this processor's value is. */
static void own_shard(struct jit *jit, const struct wire_map *map)
{
    if (map->shards == 1)
        return;
    jit64_processor(jit, CX);
    emit_rr(&jit->emit, false, 0x81, 4, CX); /* and */
    emit_u32(&jit->emit, map->shards - 1);
    emit_rr(&jit->emit, true, 0x69, CX, CX); /* imul */
    emit_u32(&jit->emit, map->value_stride);
    emit_rr(&jit->emit, true, 0x01, CX, DX);
}

/* rax = the slot of the value in rax. */
static void hist_slot(struct jit *jit, const struct wire_map_type *type)
{
    struct emit *emit = &jit->emit;
    jit64_use(jit, CX);
    if (type->is_signed) {
        jit64_use(jit, DX);
        emit_rr(emit, true, 0x89, AX, DX);
    }
    emit_constant(emit, CX, UINT32_MAX);
    emit_rr(emit, true, 0x0fbd, AX, AX);  /* bsr: zero has no such bit */
    emit_rr(emit, false, 0x0f44, AX, CX); /* cmovz %ecx,%eax */
    EMIT(emit, 0x83, 0xc0, 0x02);         /* add $2,%eax */
    if (type->is_signed) {
        emit_constant(emit, CX, 0);
        emit_rr(emit, true, 0x85, DX, DX);
        emit_rr(emit, false, 0x0f48, AX, CX); /* cmovs */
    }
}

static void lhist_slot(struct jit *jit, const struct wire_map_type *type)
{
    struct emit *emit = &jit->emit;
    uint64_t step = (uint64_t)type->param[2];
    jit64_use(jit, CX);
    emit_constant(emit, CX, (uint64_t)type->param[0]);
    emit_rr(emit, true, 0x39, CX, AX);
    size_t below = emit_jump_if(emit, type->is_signed || type->param[0] < 0 ? IF_LESS : IF_BELOW);
    emit_constant(emit, CX, (uint64_t)type->param[1]);
    emit_rr(emit, true, 0x39, CX, AX);
    size_t above = emit_jump_if(emit, (type->is_signed || type->param[1] < 0 ? IF_LESS : IF_BELOW) | IF_NOT);
    emit_constant(emit, CX, (uint64_t)type->param[0]);
    emit_rr(emit, true, 0x29, CX, AX);
    if (step & (step - 1)) {
        jit64_use(jit, DX);
        emit_constant(emit, CX, step);
        EMIT(emit, 0x31, 0xd2);           /* xor %edx,%edx */
        emit_rr(emit, true, 0xf7, 6, CX); /* div */
    } else {
        jit64_shift(jit, 5, (uint32_t)__builtin_ctzll(step));
    }
    EMIT(emit, 0xff, 0xc0); /* inc %eax */
    size_t done = emit_jump(emit);
    emit_patch(emit, below, emit->code.n);
    EMIT(emit, 0x31, 0xc0);
    size_t done_below = emit_jump(emit);
    emit_patch(emit, above, emit->code.n);
    emit_constant(emit, AX, type->value_bytes / 8 - 1);
    emit_patch(emit, done, emit->code.n);
    emit_patch(emit, done_below, emit->code.n);
}

static bool aggregate(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map, uint64_t node_va)
{
    bool slots = map->type.kind == WIRE_MAP_HIST || map->type.kind == WIRE_MAP_LHIST;
    bool counts = map->type.kind != WIRE_MAP_SUM, adds = !slots && map->type.kind != WIRE_MAP_COUNT;
    size_t other;
    if (map->type.kind == WIRE_MAP_MIN || map->type.kind == WIRE_MAP_MAX || (map->type.kind == WIRE_MAP_HIST && map->type.param[0]))
        return false;
    if (slots || adds)
        jit64_load_first(jit, insn);
    if (map->type.kind == WIRE_MAP_HIST)
        hist_slot(jit, &map->type);
    if (map->type.kind == WIRE_MAP_LHIST)
        lhist_slot(jit, &map->type);
    live_node(jit, node_va, IF_ZERO | IF_NOT, &other);
    jit_lead_to_call(jit, other);
    own_shard(jit, map);
    if (counts) /* lock incq */
        jit64_op_at(jit, true, 0xf0ff, 0, DX, slots ? AX : -1, 8, NODE_VALUE);
    if (adds) /* lock add %rax */
        jit64_op_at(jit, true, 0xf001, AX, DX, -1, 1, NODE_VALUE + (counts ? 8 : 0));
    jit->cached = -1;
    return true;
}

bool jit64_map_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    uint64_t node_va;
    size_t other;
    if (insn->op != WIRE_MGET && insn->op != WIRE_MSET && insn->op != WIRE_MADD && insn->op != WIRE_MAGG)
        return false;
    const struct wire_map *map = jit_plain_map(jit, insn->h, &node_va);
    if (!map)
        return false;
    switch (insn->op) {
    case WIRE_MAGG:
        return aggregate(jit, insn, map, node_va);
    case WIRE_MGET:
        emit_constant(emit, AX, 0);
        live_node(jit, node_va, IF_ZERO | IF_NOT, &other);
        jit64_op_at(jit, true, 0x8b, AX, DX, -1, 1, NODE_VALUE);
        emit_patch(emit, other, emit->code.n);
        jit64_result(jit, insn);
        return true;
    case WIRE_MSET:
        jit64_load_first(jit, insn);
        live_node(jit, node_va, IF_ZERO | IF_NOT, &other);
        jit_lead_to_call(jit, other);
        jit64_op_at(jit, true, 0x89, AX, DX, -1, 1, NODE_VALUE);
        jit->cached = -1;
        return true;
    default: /* MADD */
        jit64_load_first(jit, insn);
        live_node(jit, node_va, IF_ZERO | IF_NOT, &other);
        jit_lead_to_call(jit, other);
        jit64_use(jit, CX);
        emit_rr(emit, true, 0x89, AX, CX);
        jit64_op_at(jit, true, 0xf00fc1, AX, DX, -1, 1, NODE_VALUE); /* lock xadd */
        emit_rr(emit, true, 0x01, CX, AX);
        jit64_result(jit, insn);
        return true;
    }
}
