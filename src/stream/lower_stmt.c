#include "stream/lower_internal.h"

/* ---- assignments ---- */

static void map_target(struct lowering *emit, const struct script_expr *target, uint32_t *map, uint32_t *key)
{
    bool thread = target->kind == SCRIPT_E_THREAD;
    *key = thread ? lower_thread_key(emit) : lower_key(emit, target->key);
    *map = thread ? emit->builder->thread_map + target->slot : target->map;
}

static void assign_map(struct lowering *emit, const struct script_expr *target, const struct script_expr *value)
{
    /* The value first: it may use the map itself. */
    bool scalar = lower_is_scalar(value->type);
    uint8_t reg = 0;
    uint32_t from = 0, map, key;
    if (scalar) {
        reg = lower_scalar(emit, value);
    } else {
        from = lower_room(emit, lower_whole_bytes(value->type));
        lower_whole(emit, value, from);
    }
    map_target(emit, target, &map, &key);
    struct wire_insn *insn = lower_put(emit, scalar ? WIRE_MSET : WIRE_MSETV);
    insn->a = reg;
    insn->h = (uint16_t)map;
    insn->j = key;
    insn->i = (int32_t)from;
    if (scalar)
        emit->depth--;
}

static void assign(struct lowering *emit, const struct script_expr *target, const struct script_expr *value)
{
    if (target->kind != SCRIPT_E_SCRATCH) {
        assign_map(emit, target, value);
        return;
    }
    uint32_t offset = emit->slot_offset[target->slot];
    if (lower_is_scalar(target->type)) {
        uint8_t reg = lower_scalar(emit, value);
        struct wire_insn *insn = lower_put(emit, WIRE_FST);
        insn->a = reg;
        insn->k = (uint8_t)(lower_size(target->type) & ~WIRE_SIGNED);
        insn->j = offset;
        emit->depth--;
        return;
    }
    /* By way of a copy: the value may be made of the variable's old one. */
    uint32_t from = lower_located(emit, value);
    if (from == offset)
        return;
    struct wire_insn *insn = lower_put(emit, WIRE_FCPY);
    insn->j = offset;
    insn->i = (int32_t)from;
    insn->h = (uint16_t)lower_value_bytes(target->type);
}

static void aggregate(struct lowering *emit, const struct script_stmt *stmt)
{
    uint8_t reg, times = 0;
    if (stmt->value) {
        reg = lower_scalar(emit, stmt->value);
    } else {
        reg = lower_push(emit);
        lower_constant(emit, reg, 1);
    }
    if (stmt->weight)
        times = lower_scalar(emit, stmt->weight);
    uint32_t key = lower_key(emit, stmt->target->key);
    struct wire_insn *insn = lower_put(emit, stmt->weight ? WIRE_MAGGN : WIRE_MAGG);
    insn->a = reg;
    insn->b = times;
    insn->h = (uint16_t)stmt->target->map;
    insn->j = key;
    emit->depth -= stmt->weight ? 2 : 1;
}

/* ---- loops ---- */

static void put_loop(struct lowering *emit, uint32_t head)
{
    lower_put(emit, WIRE_LOOP)->j = head;
}

/* Aims the continues (or the breaks) since `first` at the next instruction. */
static void land_jumps(struct lowering *emit, size_t first, bool is_break)
{
    for (size_t i = first; i < emit->jump.n; i++)
        if (emit->jump.at[i].is_break == is_break)
            lower_land(emit, emit->jump.at[i].insn);
    if (is_break)
        emit->jump.n = first;
}

static void loop_while(struct lowering *emit, const struct script_stmt *stmt)
{
    size_t jumps = emit->jump.n;
    uint32_t head = lower_here(emit);
    uint8_t reg = lower_scalar(emit, stmt->condition);
    uint32_t out = lower_jump(emit, WIRE_JZ, reg);
    emit->depth--;
    lower_statements(emit, stmt->body);
    land_jumps(emit, jumps, false);
    put_loop(emit, head);
    lower_land(emit, out);
    land_jumps(emit, jumps, true);
}

static void store(struct lowering *emit, uint8_t reg, uint32_t offset)
{
    struct wire_insn *insn = lower_put(emit, WIRE_FST);
    insn->a = reg;
    insn->k = 8;
    insn->j = offset;
}

static uint8_t load(struct lowering *emit, uint32_t offset)
{
    uint8_t reg = lower_push(emit);
    struct wire_insn *insn = lower_put(emit, WIRE_FLD);
    insn->d = reg;
    insn->k = 8;
    insn->j = offset;
    return reg;
}

static void add_one(struct lowering *emit, uint32_t offset)
{
    uint8_t reg = load(emit, offset);
    struct wire_insn *insn = lower_put(emit, WIRE_ADDI);
    insn->d = insn->a = reg;
    insn->i = 1;
    store(emit, reg, offset);
    emit->depth--;
}

/* From the word at `counter` up to, not including, that at `end`. `variable`: gets the counter's value first; NULL for none. */
static void loop_count(struct lowering *emit, uint32_t counter, uint32_t end, const struct script_expr *variable,
                       const struct script_stmt *body)
{
    size_t jumps = emit->jump.n;
    uint32_t head = lower_here(emit);
    uint8_t now = load(emit, counter), last = load(emit, end);
    struct wire_insn *less = lower_put(emit, WIRE_LTS);
    less->d = last;
    less->a = now;
    less->b = last;
    uint32_t out = lower_jump(emit, WIRE_JZ, last);
    if (variable) {
        struct wire_insn *insn = lower_put(emit, WIRE_FST);
        insn->a = now;
        insn->k = (uint8_t)(lower_size(variable->type) & ~WIRE_SIGNED);
        insn->j = emit->slot_offset[variable->slot];
    }
    emit->depth -= 2;
    lower_statements(emit, body);
    land_jumps(emit, jumps, false);
    add_one(emit, counter);
    put_loop(emit, head);
    lower_land(emit, out);
    land_jumps(emit, jumps, true);
}

static void loop_range(struct lowering *emit, const struct script_stmt *stmt)
{
    uint32_t counter = lower_room(emit, 8), end = lower_room(emit, 8);
    lower_whole(emit, stmt->low, counter);
    lower_whole(emit, stmt->high, end);
    loop_count(emit, counter, end, stmt->target, stmt->body);
}

static void loop_repeat(struct lowering *emit, const struct script_stmt *stmt)
{
    uint32_t counter = lower_room(emit, 8), end = lower_room(emit, 8);
    uint8_t reg = lower_push(emit);
    lower_constant(emit, reg, 0);
    store(emit, reg, counter);
    lower_constant(emit, reg, stmt->count);
    store(emit, reg, end);
    emit->depth--;
    loop_count(emit, counter, end, NULL, stmt->body);
}

/* The pair of key and value of the variable, from the key in the frame. */
static void fill_pair(struct lowering *emit, const struct script_expr *pair, uint32_t map, uint32_t key)
{
    uint32_t at = emit->slot_offset[pair->slot];
    const struct script_item *item = pair->type->items;
    for (int i = 0; i < 2; i++) {
        uint32_t to = at + (uint32_t)item[i].offset, from = key;
        if (lower_is_scalar(item[i].type)) {
            uint8_t reg = i ? lower_map_scalar(emit, map, key, item[i].type) : load(emit, key);
            struct wire_insn *insn = lower_put(emit, WIRE_FST);
            insn->a = reg;
            insn->k = (uint8_t)(lower_size(item[i].type) & ~WIRE_SIGNED);
            insn->j = to;
            emit->depth--;
            continue;
        }
        if (i) {
            from = lower_room(emit, emit->builder->map.at[map].value_bytes);
            lower_map_bytes(emit, map, key, from);
        }
        struct wire_insn *insn = lower_put(emit, WIRE_FCPY);
        insn->j = to;
        insn->i = (int32_t)from;
        insn->h = (uint16_t)lower_value_bytes(item[i].type);
    }
}

static void loop_each(struct lowering *emit, const struct script_stmt *stmt)
{
    uint32_t iterator = lower_room(emit, 8), key = lower_room(emit, emit->builder->map.at[stmt->map].key_bytes);
    struct wire_insn *zero = lower_put(emit, WIRE_FZERO);
    zero->j = iterator;
    zero->i = 8;
    size_t jumps = emit->jump.n;
    uint32_t head = lower_here(emit);
    uint8_t reg = lower_push(emit);
    struct wire_insn *next = lower_put(emit, WIRE_MNEXT);
    next->d = reg;
    next->h = (uint16_t)stmt->map;
    next->j = key;
    next->i = (int32_t)iterator;
    uint32_t out = lower_jump(emit, WIRE_JZ, reg);
    emit->depth--;
    fill_pair(emit, stmt->target, stmt->map, key);
    lower_statements(emit, stmt->body);
    land_jumps(emit, jumps, false);
    put_loop(emit, head);
    lower_land(emit, out);
    land_jumps(emit, jumps, true);
}

/* ---- statements ---- */

static void branch(struct lowering *emit, const struct script_stmt *stmt)
{
    uint8_t reg = lower_scalar(emit, stmt->condition);
    uint32_t other = lower_jump(emit, WIRE_JZ, reg);
    emit->depth--;
    lower_statements(emit, stmt->body);
    if (!stmt->other) {
        lower_land(emit, other);
        return;
    }
    uint32_t end = lower_jump(emit, WIRE_JMP, 0);
    lower_land(emit, other);
    lower_statements(emit, stmt->other);
    lower_land(emit, end);
}

/* An expression for its effect. */
static void effect(struct lowering *emit, const struct script_expr *expr)
{
    emit->span = expr->span;
    if (expr->kind == SCRIPT_E_CALL && expr->type->kind == SCRIPT_T_VOID) {
        lower_call_action(emit, expr);
    } else if (expr->kind == SCRIPT_E_BLOCK && !expr->left) {
        lower_statements(emit, expr->body);
    } else if (expr->kind == SCRIPT_E_CHOOSE && expr->type->kind == SCRIPT_T_VOID) {
        uint8_t reg = lower_scalar(emit, expr->condition);
        uint32_t other = lower_jump(emit, WIRE_JZ, reg);
        emit->depth--;
        effect(emit, expr->left);
        uint32_t end = lower_jump(emit, WIRE_JMP, 0);
        lower_land(emit, other);
        effect(emit, expr->right);
        lower_land(emit, end);
    } else if (lower_is_scalar(expr->type)) {
        lower_scalar(emit, expr);
        emit->depth--;
    } else {
        lower_located(emit, expr);
    }
}

static void statement(struct lowering *emit, const struct script_stmt *stmt)
{
    emit->span = stmt->span;
    switch (stmt->kind) {
    case SCRIPT_S_EXPR:
        effect(emit, stmt->value);
        break;
    case SCRIPT_S_ASSIGN:
        assign(emit, stmt->target, stmt->value);
        break;
    case SCRIPT_S_AGGREGATE:
        aggregate(emit, stmt);
        break;
    case SCRIPT_S_IF:
        branch(emit, stmt);
        break;
    case SCRIPT_S_WHILE:
        loop_while(emit, stmt);
        break;
    case SCRIPT_S_RANGE:
        loop_range(emit, stmt);
        break;
    case SCRIPT_S_EACH:
        loop_each(emit, stmt);
        break;
    case SCRIPT_S_REPEAT:
        loop_repeat(emit, stmt);
        break;
    case SCRIPT_S_BREAK:
    case SCRIPT_S_CONTINUE: {
        uint32_t insn = lower_jump(emit, WIRE_JMP, 0);
        VEC_PUSH(&emit->jump, (struct lower_jump){insn, stmt->kind == SCRIPT_S_BREAK});
        break;
    }
    case SCRIPT_S_RETURN:
        lower_put(emit, WIRE_END);
        break;
    case SCRIPT_S_BLOCK:
        lower_statements(emit, stmt->body);
        break;
    }
}

void lower_statements(struct lowering *emit, const struct script_stmt *stmt)
{
    for (; stmt; stmt = stmt->next) {
        uint32_t frame = emit->frame_used;
        statement(emit, stmt);
        emit->frame_used = frame;
    }
}
