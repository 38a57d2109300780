/* Maps: 64-bit code. A map without a key has one node, whose address is known. The node of an 8-byte key is found in place when it is the
 * first in its chain and the map is not guarded (drain/collect.c); anything else is left to eval_op(), which does it all over. rdx holds
 * the node and is gone with the operation, unless others behind it use the same one (reuse.c): then the stack has it.
 *
 * Setting and deleting. While a map is not guarded nobody takes a node out of it, so that LIVE and DEAD may become each other by plain
 * stores, where a locked instruction costs as much as all the rest. Of sets and deletions of one key that happen at the same time any may
 * then be the last, as they may with locks. What needs more has them: a deletion that has to say whether it was the one, and a set in a map
 * to which is also added, since what is added to a node that rises must not be lost. */
#include "jit/x86_64.h"

#include "stream/map.h"

/* ---- finding ---- */

static int32_t value_offset(const struct wire_map *map)
{
    return (int32_t)(sizeof(struct wire_node) + map->type.key_bytes);
}

/* What hash_key() in stream/map.c gives for the 8-byte key in rsi: into ecx. Uses rdi. */
static void hash(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    emit_rr(emit, false, 0x69, CX, SI); /* imul */
    emit_u32(emit, STREAM_MAP_FACTOR_LOW);
    emit_rr(emit, true, 0x89, SI, DI);
    emit_rr(emit, true, 0xc1, 5, DI); /* shr $32,%rdi */
    EMIT(emit, 32);
    emit_rr(emit, false, 0x69, DI, DI);
    emit_u32(emit, STREAM_MAP_FACTOR_HIGH);
    emit_rr(emit, false, 0x31, DI, CX);
    emit_rr(emit, false, 0x89, CX, DI);
    emit_rr(emit, false, 0xc1, 5, DI);
    EMIT(emit, STREAM_MAP_HASH_SHIFT);
    emit_rr(emit, false, 0x31, DI, CX);
}

static int32_t node_slot(const struct jit *jit)
{
    return jit->node_offset + 8 * (jit->node[jit->at].slot - 1);
}

/* rdx = the node that an operation before has found; if it has not, this one is left to eval_op(), too. */
static void load_found(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    jit64_use(jit, DX);
    jit64_op_sp(jit, true, 0x8b, DX, node_slot(jit));
    emit_rr(emit, true, 0x85, DX, DX);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO));
}

/* rdx = the node of the 8-byte key. Its address is that of the first node + number * node_bytes, and numbers in chains start with 1. An
 * empty chain leads to *absent. Uses rcx, rsi, rdi. */
static void look_up(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map, size_t *absent)
{
    struct emit *emit = &jit->emit;
    uint64_t session_va = jit->process->session_va;
    struct emit_memory key = jit64_in_frame(jit, insn->j);
    jit64_use(jit, CX);
    jit64_use(jit, DX);
    jit64_use(jit, SI);
    jit64_use(jit, DI);
    emit_rm(emit, true, 0x8b, SI, &key);
    emit_constant(emit, DX, session_va + map->state_offset);
    jit64_op_at(jit, false, 0x83, 7, DX, -1, 1, offsetof(struct wire_map_state, guarded)); /* cmpl $0 */
    EMIT(emit, 0);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO | IF_NOT));
    hash(jit);
    emit_rr(emit, false, 0x81, 4, CX); /* and */
    emit_u32(emit, map->bucket_mask);
    emit_constant(emit, DI, session_va + map->buckets_offset);
    jit64_op_at(jit, false, 0x8b, CX, DI, CX, 4, 0);
    emit_rr(emit, false, 0x83, 5, CX); /* sub $1: a borrow when the chain is empty */
    EMIT(emit, 1);
    *absent = emit_jump_if(emit, IF_BELOW);
    emit_rr(emit, false, 0x81, 7, CX); /* cmp: the memory is not to be trusted */
    emit_u32(emit, map->nodes);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_BELOW | IF_NOT));
    emit_rr(emit, true, 0x69, CX, CX);
    emit_u32(emit, map->node_bytes);
    emit_constant(emit, DX, session_va + map->nodes_offset);
    emit_rr(emit, true, 0x01, CX, DX);
    jit64_op_at(jit, true, 0x3b, SI, DX, -1, 1, sizeof(struct wire_node)); /* cmp */
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO | IF_NOT));
}

/* Likewise. *absent is 0 where an empty chain leads nowhere. */
static void find_keyed(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map, size_t *absent)
{
    const struct jit_node *node = &jit->node[jit->at];
    *absent = 0;
    if (node->is_found) {
        load_found(jit);
        return;
    }
    if (node->slot) {
        jit64_op_sp(jit, true, 0xc7, 0, node_slot(jit)); /* movq $0 */
        emit_u32(&jit->emit, 0);
    }
    look_up(jit, insn, map, absent);
    if (node->slot)
        jit64_op_sp(jit, true, 0x89, DX, node_slot(jit));
}

/* rdx = the node, for an operation that gives the map a value where there is none: unless there is one, it is left to eval_op(). */
static void find(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    size_t absent;
    if (map->type.key_bytes) {
        find_keyed(jit, insn, map, &absent);
        if (absent)
            jit_lead_to_call(jit, absent);
    } else {
        jit64_use(jit, DX);
        emit_constant(&jit->emit, DX, jit->process->session_va + map->nodes_offset);
    }
}

/* Compares the state of the node in rdx. */
static void compare_state(struct jit *jit, uint8_t state)
{
    jit64_op_at(jit, false, 0x83, 7, DX, -1, 1, offsetof(struct wire_node, state)); /* cmpl */
    EMIT(&jit->emit, state);
}

static void find_live(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    find(jit, insn, map);
    compare_state(jit, WIRE_NODE_LIVE);
    jit_lead_to_call(jit, emit_jump_if(&jit->emit, IF_ZERO | IF_NOT));
}

/* The node in rdx goes from the state in eax to that in ecx; otherwise the flags say so. */
static void change_state(struct jit *jit, uint32_t from, uint32_t to)
{
    jit64_use(jit, CX);
    emit_constant(&jit->emit, AX, from);
    emit_constant(&jit->emit, CX, to);
    jit64_op_at(jit, false, 0xf00fb1, CX, DX, -1, 1, offsetof(struct wire_node, state)); /* lock cmpxchg */
}

/* ---- aggregations ---- */

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

static void aggregate(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    bool slots = map->type.kind == WIRE_MAP_HIST || map->type.kind == WIRE_MAP_LHIST;
    bool counts = map->type.kind != WIRE_MAP_SUM, adds = !slots && map->type.kind != WIRE_MAP_COUNT;
    if (slots || adds)
        jit64_load_first(jit, insn);
    if (map->type.kind == WIRE_MAP_HIST)
        hist_slot(jit, &map->type);
    if (map->type.kind == WIRE_MAP_LHIST)
        lhist_slot(jit, &map->type);
    find_live(jit, insn, map);
    own_shard(jit, map);
    if (counts) /* lock incq */
        jit64_op_at(jit, true, 0xf0ff, 0, DX, slots ? AX : -1, 8, value_offset(map));
    if (adds) /* lock add %rax */
        jit64_op_at(jit, true, 0xf001, AX, DX, -1, 1, value_offset(map) + (counts ? 8 : 0));
    jit->cached = -1;
}

/* ---- integers ---- */

/* The result is 0 unless the map has a value there. A node that is going away has none, and none with its key is behind it. */
static void get(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    struct emit *emit = &jit->emit;
    size_t absent = 0;
    emit_constant(emit, AX, 0);
    if (map->type.key_bytes)
        find_keyed(jit, insn, map, &absent);
    else
        find(jit, insn, map);
    compare_state(jit, WIRE_NODE_LIVE);
    size_t dead = emit_jump_if(emit, IF_ZERO | IF_NOT);
    if (insn->op == WIRE_MGET)
        jit64_op_at(jit, true, 0x8b, AX, DX, -1, 1, value_offset(map));
    else
        EMIT(emit, 0xff, 0xc0); /* MHAS: inc %eax */
    emit_patch(emit, dead, emit->code.n);
    if (absent)
        emit_patch(emit, absent, emit->code.n);
    jit64_result(jit, insn);
}

/* movl $state into that of the node in rdx. */
static void store_state(struct jit *jit, uint32_t state)
{
    jit64_op_at(jit, false, 0xc7, 0, DX, -1, 1, offsetof(struct wire_node, state));
    emit_u32(&jit->emit, state);
}

/* rax becomes the value of the node in rdx, which is LIVE then. */
static void set_plainly(struct jit *jit, const struct wire_map *map)
{
    struct emit *emit = &jit->emit;
    _Static_assert(WIRE_NODE_DEAD == WIRE_NODE_LIVE + 1, "one comparison");
    jit64_use(jit, CX);
    jit64_op_at(jit, false, 0x8b, CX, DX, -1, 1, offsetof(struct wire_node, state));
    emit_rr(emit, false, 0x83, 5, CX); /* sub */
    EMIT(emit, WIRE_NODE_LIVE);
    emit_rr(emit, false, 0x83, 7, CX); /* cmp */
    EMIT(emit, WIRE_NODE_DEAD - WIRE_NODE_LIVE);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ABOVE));
    jit64_op_at(jit, true, 0x89, AX, DX, -1, 1, value_offset(map));
    store_state(jit, WIRE_NODE_LIVE);
    jit->cached = -1;
}

/* A key that was deleted comes back with its value, as in raise_node() and risen() of stream/map.c. */
static void set(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    struct emit *emit = &jit->emit;
    jit64_load_first(jit, insn);
    if (!map->type.key_bytes) {
        find_live(jit, insn, map);
        jit64_op_at(jit, true, 0x89, AX, DX, -1, 1, value_offset(map));
        jit->cached = -1;
        return;
    }
    find(jit, insn, map);
    if (!jit->is_added_to[insn->h]) {
        set_plainly(jit, map);
        return;
    }
    jit64_use(jit, SI);
    emit_rr(emit, true, 0x89, AX, SI);
    compare_state(jit, WIRE_NODE_LIVE);
    size_t dead = emit_jump_if(emit, IF_ZERO | IF_NOT);
    jit64_op_at(jit, true, 0x89, SI, DX, -1, 1, value_offset(map));
    size_t done = emit_jump(emit);
    emit_patch(emit, dead, emit->code.n);
    change_state(jit, WIRE_NODE_DEAD, WIRE_NODE_RISING);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO | IF_NOT));
    jit64_op_at(jit, true, 0x89, SI, DX, -1, 1, value_offset(map));
    store_state(jit, WIRE_NODE_LIVE);
    emit_patch(emit, done, emit->code.n);
    jit->cached = -1;
}

static void add(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    struct emit *emit = &jit->emit;
    jit64_load_first(jit, insn);
    find_live(jit, insn, map);
    jit64_use(jit, CX);
    emit_rr(emit, true, 0x89, AX, CX);
    jit64_op_at(jit, true, 0xf00fc1, AX, DX, -1, 1, value_offset(map)); /* lock xadd */
    emit_rr(emit, true, 0x01, CX, AX);
    jit64_result(jit, insn);
}

static void delete_key(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    struct emit *emit = &jit->emit;
    size_t absent;
    find_keyed(jit, insn, map, &absent);
    /* The first deletion of all is eval_op()'s. */
    jit64_use(jit, DI);
    emit_constant(emit, DI, jit->process->session_va + map->state_offset);
    jit64_op_at(jit, false, 0x83, 7, DI, -1, 1, offsetof(struct wire_map_state, deleted)); /* cmpl $0 */
    EMIT(emit, 0);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO));
    if (!jit_uses_result(jit)) {
        compare_state(jit, WIRE_NODE_LIVE);
        size_t dead = emit_jump_if(emit, IF_ZERO | IF_NOT);
        store_state(jit, WIRE_NODE_DEAD);
        emit_patch(emit, dead, emit->code.n);
        if (absent)
            emit_patch(emit, absent, emit->code.n);
        jit->cached = -1;
        return;
    }
    change_state(jit, WIRE_NODE_LIVE, WIRE_NODE_DEAD);
    EMIT(emit, 0x0f, 0x94, 0xc0, 0x0f, 0xb6, 0xc0); /* setz %al; movzbl %al,%eax */
    if (absent) {
        size_t done = emit_jump(emit);
        emit_patch(emit, absent, emit->code.n);
        emit_constant(emit, AX, 0);
        emit_patch(emit, done, emit->code.n);
    }
    jit64_result(jit, insn);
}

const struct jit_map_arch jit_map_x86_64 = {
    .aggregate = aggregate,
    .set = set,
    .add = add,
    .delete_key = delete_key,
    .get = get,
    .has_lhist = true,
};
