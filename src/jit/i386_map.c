/* Maps: 32-bit code. As in 64-bit code (x86_64_map.c), where the reasons are; esi holds the node. Integers are two words here. One is set
 * by cmpxchg8b, which needs no lock to be seen by others as a whole. It is read by cmpxchg8b with a lock, or, when the key is the
 * thread's own id, so that nobody else sets it, word by word. */
#include "jit/i386.h"

#include "stream/map.h"

/* ---- finding ---- */

static struct emit_memory in_node(int32_t offset)
{
    return (struct emit_memory){SI, -1, 1, offset};
}

static void op_node(struct jit *jit, uint32_t opcode, int reg, int32_t offset)
{
    struct emit_memory memory = in_node(offset);
    emit_rm(&jit->emit, false, opcode, reg, &memory);
}

static int32_t value_offset(const struct wire_map *map)
{
    return (int32_t)(sizeof(struct wire_node) + map->type.key_bytes);
}

static int32_t node_slot(const struct jit *jit)
{
    return jit->node_offset + 8 * (jit->node[jit->at].slot - 1);
}

/* What hash_key() in stream/map.c gives for the 8-byte key in edx:eax: into ecx. Uses ebx. */
static void hash(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    jit32_op_rr(jit, 0x69, CX, AX); /* imul */
    emit_u32(emit, STREAM_MAP_FACTOR_LOW);
    jit32_op_rr(jit, 0x69, BX, DX);
    emit_u32(emit, STREAM_MAP_FACTOR_HIGH);
    jit32_op_rr(jit, 0x31, BX, CX);
    jit32_op_rr(jit, 0x89, CX, BX);
    jit32_op_rr(jit, 0xc1, 5, BX); /* shr */
    EMIT(emit, STREAM_MAP_HASH_SHIFT);
    jit32_op_rr(jit, 0x31, BX, CX);
}

/* esi = the node of the 8-byte key; an empty chain leads to *absent. Uses the other registers. */
static void look_up(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map, size_t *absent)
{
    struct emit *emit = &jit->emit;
    uint64_t session_va = jit->process->session_va;
    struct emit_memory key = jit32_in_frame(jit, insn->j), high = jit32_high_of(key);
    jit->used |= 1u << BX;
    emit_rm(emit, false, 0x8b, AX, &key);
    emit_rm(emit, false, 0x8b, DX, &high);
    jit32_op_va(jit, 0x83, 7, session_va + map->state_offset + offsetof(struct wire_map_state, guarded), -1, 1); /* cmpl $0 */
    EMIT(emit, 0);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO | IF_NOT));
    hash(jit);
    jit32_op_constant(jit, 4, CX, map->bucket_mask); /* and */
    jit32_op_va(jit, 0x8b, CX, session_va + map->buckets_offset, CX, 4);
    jit32_op_rr(jit, 0x83, 5, CX); /* sub $1: a borrow when the chain is empty */
    EMIT(emit, 1);
    *absent = emit_jump_if(emit, IF_BELOW);
    jit32_op_constant(jit, 7, CX, map->nodes); /* cmp: the memory is not to be trusted */
    jit_lead_to_call(jit, emit_jump_if(emit, IF_BELOW | IF_NOT));
    jit32_op_rr(jit, 0x69, SI, CX); /* imul */
    emit_u32(emit, map->node_bytes);
    jit32_op_constant(jit, 0, SI, (uint32_t)(session_va + map->nodes_offset)); /* add */
    op_node(jit, 0x3b, AX, sizeof(struct wire_node));                          /* cmp */
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO | IF_NOT));
    op_node(jit, 0x3b, DX, sizeof(struct wire_node) + 4);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO | IF_NOT));
}

/* Likewise, or the one that an operation before has found, or the only one; then *absent is 0. The accumulator is lost. */
static void find(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map, size_t *absent)
{
    const struct jit_node *node = &jit->node[jit->at];
    jit->used |= 1u << SI;
    jit->cached = -1;
    *absent = 0;
    if (!map->type.key_bytes) {
        emit_constant(&jit->emit, SI, jit->process->session_va + map->nodes_offset);
        return;
    }
    if (node->is_found) {
        jit32_op_sp(jit, 0x8b, SI, node_slot(jit));
        jit32_op_rr(jit, 0x85, SI, SI);
        jit_lead_to_call(jit, emit_jump_if(&jit->emit, IF_ZERO));
        return;
    }
    if (node->slot) {
        jit32_op_sp(jit, 0xc7, 0, node_slot(jit)); /* movl $0 */
        emit_u32(&jit->emit, 0);
    }
    look_up(jit, insn, map, absent);
    if (node->slot)
        jit32_op_sp(jit, 0x89, SI, node_slot(jit));
}

/* For an operation that gives the map a value where there is none: unless there is one, it is left to eval_op(). */
static void find_one(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    size_t absent;
    find(jit, insn, map, &absent);
    if (absent)
        jit_lead_to_call(jit, absent);
}

static void compare_state(struct jit *jit, uint8_t state)
{
    op_node(jit, 0x83, 7, offsetof(struct wire_node, state)); /* cmpl */
    EMIT(&jit->emit, state);
}

static void check_live(struct jit *jit)
{
    compare_state(jit, WIRE_NODE_LIVE);
    jit_lead_to_call(jit, emit_jump_if(&jit->emit, IF_ZERO | IF_NOT));
}

static void store_state(struct jit *jit, uint32_t state)
{
    op_node(jit, 0xc7, 0, offsetof(struct wire_node, state)); /* movl */
    emit_u32(&jit->emit, state);
}

/* ---- aggregations ---- */

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

/* Adds one to the word, and what it carries to the one above it: each change is whole in the end, whoever else makes others. */
static void locked_increment(struct jit *jit, const struct emit_memory *memory)
{
    struct emit *emit = &jit->emit;
    struct emit_memory high = jit32_high_of(*memory);
    emit_rm(emit, false, 0xf083, 0, memory); /* lock addl $1 */
    EMIT(emit, 1);
    size_t done = emit_jump_if(emit, IF_BELOW | IF_NOT);
    emit_rm(emit, false, 0xf083, 0, &high);
    EMIT(emit, 1);
    emit_patch(emit, done, emit->code.n);
}

/* Likewise edx:eax. */
static void locked_add(struct jit *jit, const struct emit_memory *memory)
{
    struct emit *emit = &jit->emit;
    struct emit_memory high = jit32_high_of(*memory);
    emit_rm(emit, false, 0xf001, AX, memory); /* lock add */
    EMIT(emit, 0x83, 0xd2, 0x00);             /* adc $0,%edx */
    size_t done = emit_jump_if(emit, IF_ZERO);
    emit_rm(emit, false, 0xf001, DX, &high);
    emit_patch(emit, done, emit->code.n);
}

/* Where this processor's value is: of the node in esi, or of that of a map without a key. */
static struct emit_memory own_value(struct jit *jit, const struct wire_map *map)
{
    uint64_t first_va = jit->process->session_va + map->nodes_offset;
    struct emit_memory value = {-1, -1, 1, (int32_t)(first_va + (uint64_t)value_offset(map))};
    if (map->shards > 1) {
        jit32_processor(jit, CX);
        jit32_op_constant(jit, 4, CX, map->shards - 1);
        jit32_op_rr(jit, 0x69, CX, CX); /* imul */
        emit_u32(&jit->emit, map->value_stride);
        value.base = CX;
    }
    if (!map->type.key_bytes)
        return value;
    if (map->shards > 1)
        jit32_op_rr(jit, 0x01, CX, SI);
    return in_node(value_offset(map));
}

static void aggregate(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    uint32_t kind = map->type.kind;
    bool hist = kind == WIRE_MAP_HIST, counts = kind != WIRE_MAP_SUM, adds = !hist && kind != WIRE_MAP_COUNT;
    if (map->type.key_bytes) {
        find_one(jit, insn, map);
        compare_state(jit, WIRE_NODE_LIVE);
    } else {
        uint64_t node_va = jit->process->session_va + map->nodes_offset;
        jit32_op_va(jit, 0x83, 7, node_va + offsetof(struct wire_node, state), -1, 1); /* cmpl */
        EMIT(&jit->emit, WIRE_NODE_LIVE);
    }
    jit_lead_to_call(jit, emit_jump_if(&jit->emit, IF_ZERO | IF_NOT));
    if (hist || adds)
        jit32_load_first(jit, insn);
    if (hist)
        hist_slot(jit, &map->type);
    struct emit_memory value = own_value(jit, map), slot = value;
    if (hist) {
        slot.index = AX;
        slot.scale = 8;
    }
    if (counts)
        locked_increment(jit, &slot);
    if (counts)
        value.displacement += 8;
    if (adds)
        locked_add(jit, &value);
    jit->cached = -1;
}

/* ---- integers ---- */

/* edx:eax = the integer of the node. */
static void load_value(struct jit *jit, int32_t offset)
{
    struct emit *emit = &jit->emit;
    if (jit->node[jit->at].is_own) {
        op_node(jit, 0x8b, DX, offset + 4);
        op_node(jit, 0x8b, AX, offset);
        op_node(jit, 0x3b, DX, offset + 4); /* cmp: a thread of another namespace can have the same id */
        jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO | IF_NOT));
        return;
    }
    static const uint8_t registers[] = {AX, DX, CX, BX};
    for (size_t i = 0; i < sizeof registers; i++)
        jit32_op_rr(jit, 0x31, registers[i], registers[i]); /* xor */
    op_node(jit, 0xf00fc7, 1, offset);                      /* lock cmpxchg8b: zero becomes zero */
}

static void get(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    struct emit *emit = &jit->emit;
    size_t absent;
    jit->used |= 1u << BX;
    find(jit, insn, map, &absent);
    compare_state(jit, WIRE_NODE_LIVE);
    size_t dead = emit_jump_if(emit, IF_ZERO | IF_NOT);
    if (insn->op == WIRE_MGET)
        load_value(jit, value_offset(map));
    else
        jit32_constant_pair(jit, 1);
    size_t done = emit_jump(emit);
    emit_patch(emit, dead, emit->code.n);
    if (absent)
        emit_patch(emit, absent, emit->code.n);
    jit32_constant_pair(jit, 0);
    emit_patch(emit, done, emit->code.n);
    jit32_result(jit, insn);
}

/* A node that is neither is left to eval_op(). */
static void check_live_or_dead(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    _Static_assert(WIRE_NODE_DEAD == WIRE_NODE_LIVE + 1, "one comparison");
    op_node(jit, 0x8b, CX, offsetof(struct wire_node, state));
    jit32_op_rr(jit, 0x83, 5, CX); /* sub */
    EMIT(emit, WIRE_NODE_LIVE);
    jit32_op_rr(jit, 0x83, 7, CX); /* cmp */
    EMIT(emit, WIRE_NODE_DEAD - WIRE_NODE_LIVE);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ABOVE));
}

/* edx:eax = the integer of the node, read word by word: cmpxchg8b tells if it was not that. */
static void load_words(struct jit *jit, const struct wire_map *map)
{
    op_node(jit, 0x8b, AX, value_offset(map));
    op_node(jit, 0x8b, DX, value_offset(map) + 4);
}

static void set(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    struct emit *emit = &jit->emit;
    bool may_rise = map->type.key_bytes && !jit->is_added_to[insn->h];
    jit->used |= 1u << BX;
    find_one(jit, insn, map);
    if (may_rise)
        check_live_or_dead(jit);
    else
        check_live(jit);
    jit32_op_sp(jit, 0x8b, BX, jit->slot_offset[insn->a]);
    jit32_op_sp(jit, 0x8b, CX, jit->slot_offset[insn->a] + 4);
    load_words(jit, map);
    size_t again = emit->code.n;
    op_node(jit, 0x0fc7, 1, value_offset(map)); /* cmpxchg8b */
    emit_patch(emit, emit_jump_if(emit, IF_ZERO | IF_NOT), again);
    if (may_rise)
        store_state(jit, WIRE_NODE_LIVE);
}

static void add(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    struct emit *emit = &jit->emit;
    jit->used |= 1u << BX;
    find_one(jit, insn, map);
    check_live(jit);
    load_words(jit, map);
    size_t again = emit->code.n;
    jit32_op_rr(jit, 0x89, AX, BX);
    jit32_op_rr(jit, 0x89, DX, CX);
    jit32_op_sp(jit, 0x03, BX, jit->slot_offset[insn->a]);     /* add */
    jit32_op_sp(jit, 0x13, CX, jit->slot_offset[insn->a] + 4); /* adc */
    op_node(jit, 0xf00fc7, 1, value_offset(map));              /* lock cmpxchg8b */
    emit_patch(emit, emit_jump_if(emit, IF_ZERO | IF_NOT), again);
    jit32_op_rr(jit, 0x89, BX, AX);
    jit32_op_rr(jit, 0x89, CX, DX);
    jit32_result(jit, insn);
}

static void delete_key(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map)
{
    struct emit *emit = &jit->emit;
    size_t absent;
    find(jit, insn, map, &absent);
    /* The first deletion of all is eval_op()'s. */
    jit32_op_va(jit, 0x83, 7, jit->process->session_va + map->state_offset + offsetof(struct wire_map_state, deleted), -1, 1); /* cmpl $0 */
    EMIT(emit, 0);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO));
    if (!jit_uses_result(jit)) {
        compare_state(jit, WIRE_NODE_LIVE);
        size_t dead = emit_jump_if(emit, IF_ZERO | IF_NOT);
        store_state(jit, WIRE_NODE_DEAD);
        emit_patch(emit, dead, emit->code.n);
        if (absent)
            emit_patch(emit, absent, emit->code.n);
        return;
    }
    emit_constant(emit, AX, WIRE_NODE_LIVE);
    emit_constant(emit, CX, WIRE_NODE_DEAD);
    op_node(jit, 0xf00fb1, CX, offsetof(struct wire_node, state)); /* lock cmpxchg */
    EMIT(emit, 0x0f, 0x94, 0xc0, 0x0f, 0xb6, 0xc0);                /* setz %al; movzbl %al,%eax */
    if (absent) {
        size_t done = emit_jump(emit);
        emit_patch(emit, absent, emit->code.n);
        emit_constant(emit, AX, 0);
        emit_patch(emit, done, emit->code.n);
    }
    jit32_word_result(jit, insn);
}

const struct jit_map_arch jit_map_i386 = {
    .aggregate = aggregate,
    .set = set,
    .add = add,
    .delete_key = delete_key,
    .get = get,
    .has_lhist = false,
};
