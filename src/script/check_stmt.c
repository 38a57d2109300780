/* Statements: assignment, control flow, blocks. */
#include "script/check.h"

#include <string.h>

/* ---- assignment ---- */

static uint32_t binary_of(uint32_t op) /* += to + */
{
    return op >> 16 ? op & 0xffff : op & 0xff;
}

static struct script_stmt *assign(struct checker *c, struct script_span span, struct script_expr *target, struct script_expr *value)
{
    struct script_stmt *stmt = stmt_new(c, SCRIPT_S_ASSIGN, span);
    stmt->target = target;
    stmt->value = value;
    return stmt;
}

static struct script_stmt *nothing(struct checker *c, struct script_span span)
{
    return stmt_new(c, SCRIPT_S_BLOCK, span);
}

static struct script_stmt *assign_variable(struct checker *c, const struct node *node, struct script_expr *value)
{
    const struct node *target = node->list[0];
    const struct frame *frame;
    const struct node *real = variable_follow(c, target, &frame);
    struct variable *variable = variable_find(c, real->text, frame);
    if (!variable)
        variable = variable_declare(c, real->text, frame, target->span);
    uint32_t slot = variable->slot;
    variable->is_assigned = true;
    if (is_bad(value))
        return nothing(c, node->span);
    if (value->type->kind == SCRIPT_T_VOID || value->type->kind == SCRIPT_T_FUNCTION) {
        ERROR(c->program, value->span, "an expression without a value can not be assigned to $%s", real->text);
        return nothing(c, node->span);
    }
    const struct script_type *old = c->slots.at[slot], *type = variable_type(c, slot, value->type);
    if (!type) {
        ERROR(c->program, node->span, "Type mismatch for $%s: trying to assign value of type '%s' when variable already has a type '%s'",
              real->text, type_text(c, value->type), type_text(c, old));
        return nothing(c, node->span);
    }
    struct script_expr *left = expr_new(c, SCRIPT_E_SCRATCH, target->span, type);
    left->slot = slot;
    return assign(c, node->span, left, convert(c, value, type));
}

bool define_thread(struct checker *c, struct script_span span, const char *name, const struct script_type *type)
{
    size_t i = 0;
    while (i < c->program->threads.n && strcmp(c->program->threads.at[i].name, name) != 0)
        i++;
    if (i == LIMIT_MAPS) {
        ERROR(c->program, span, "too many thread-local variables (limit %d)", LIMIT_MAPS);
        return false;
    }
    if (i == c->program->threads.n) {
        struct script_thread_variable variable = {.name = name, .type = widen(c, type)};
        VEC_PUSH(&c->program->threads, variable);
        c->program->maps_changed = true;
    }
    return true;
}

static struct script_stmt *assign_thread(struct checker *c, const struct node *node, struct script_expr *value)
{
    const char *name = node->list[0]->text;
    if (is_bad(value))
        return nothing(c, node->span);
    if (!define_thread(c, node->span, name, value->type))
        return nothing(c, node->span);
    size_t i = 0;
    while (strcmp(c->program->threads.at[i].name, name) != 0)
        i++;
    const struct script_type *old = c->program->threads.at[i].type, *type = unify(c, old, widen(c, value->type));
    if (!type || type->kind == SCRIPT_T_VOID) {
        ERROR(c->program, node->span,
              "Type mismatch for self->%s: trying to assign value of type '%s' when variable already has a type '%s'", name,
              type_text(c, value->type), type_text(c, old));
        return nothing(c, node->span);
    }
    if (!c->program->maps_fixed && type->bytes != old->bytes) {
        c->program->threads.at[i].type = type;
        c->program->maps_changed = true;
    }
    struct script_expr *left = expr_new(c, SCRIPT_E_THREAD, node->list[0]->span, c->program->threads.at[i].type);
    left->slot = (uint32_t)i;
    return assign(c, node->span, left, convert(c, value, left->type));
}

static struct script_stmt *assign_map(struct checker *c, const struct node *node, struct script_expr *value)
{
    const struct node *target = node->list[0];
    struct map_entry *map = map_of(c, target);
    struct script_expr *key;
    if (map)
        map->is_target = true;
    if (!map || !map_key(c, &map, target, &key) || is_bad(value) || !map_value(c, map, target->span, value->type))
        return nothing(c, node->span);
    struct script_expr *left = expr_new(c, SCRIPT_E_MAP, target->span, map->map.value);
    left->map = map_index(c, map);
    left->key = key;
    return assign(c, node->span, left, convert(c, value, map->map.value));
}

/* ---- aggregations ---- */

static bool range_fits(struct checker *c, const struct node *call, struct script_type *type)
{
    static const char *const names[] = {"", "min", "max", "step"};
    int64_t values[4] = {0};
    for (size_t i = 1; i < 4; i++)
        if (!constant_int(c, call->list[i], &values[i])) {
            ERROR(c->program, call->list[i]->span, "lhist: the %s must be an integer constant", names[i]);
            return false;
        }
    type->low = values[1];
    type->high = values[2];
    type->step = values[3];
    if (type->step <= 0)
        ERROR(c->program, call->list[3]->span, "lhist() step must be >= 1 (%lld provided)", (long long)type->step);
    else if (type->low < 0)
        ERROR(c->program, call->list[1]->span, "lhist() min must be non-negative (provided min %lld)", (long long)type->low);
    else if (type->low >= type->high)
        ERROR(c->program, call->span, "lhist() min must be less than max (provided min %lld and max %lld)", (long long)type->low,
              (long long)type->high);
    else if ((type->high - type->low) / type->step > 1000)
        ERROR(c->program, call->span, "lhist() too many buckets, must be <= 1000 (would need %lld)",
              (long long)((type->high - type->low) / type->step));
    else
        return true;
    return false;
}

static bool series_fits(struct checker *c, const struct node *call, struct script_type *type)
{
    static const struct {
        const char *name;
        enum script_type_kind kind;
    } joins[] = {{"avg", SCRIPT_T_AVG}, {"max", SCRIPT_T_MAX}, {"min", SCRIPT_T_MIN}, {"sum", SCRIPT_T_SUM}};
    type->step = SCRIPT_T_VOID;
    if (!constant_int(c, call->list[1], &type->low) || !constant_int(c, call->list[2], &type->high) || type->low <= 0 || type->high <= 0 ||
        type->high > 2000) {
        ERROR(c->program, call->span,
              "tseries: expected tseries(value, interval, intervals[, \"avg\"|\"max\"|\"min\"|\"sum\"]) with constants above 0, and at "
              "most 2000 intervals");
        return false;
    }
    if (call->n_list < 4)
        return true;
    const char *text;
    size_t length;
    if (constant_text(c, call->list[3], &text, &length))
        for (size_t i = 0; i < sizeof joins / sizeof *joins; i++)
            if (strcmp(joins[i].name, text) == 0) {
                type->step = joins[i].kind;
                return true;
            }
    ERROR(c->program, call->list[3]->span, "tseries: expected \"avg\", \"max\", \"min\" or \"sum\"");
    return false;
}

static struct script_stmt *aggregate(struct checker *c, const struct node *node, enum script_call call)
{
    const struct node *target = node->list[0], *function = node->list[1];
    struct script_type *type = arena_alloc(script_types_arena(c->program->types[SCRIPT_LP64]), sizeof *type);
    *type = *script_type_plain(c->program->types[SCRIPT_LP64], (enum script_type_kind)(SCRIPT_T_COUNT + (call - SCRIPT_C_COUNT)));
    struct script_expr *value = NULL, *weight = NULL;
    size_t weight_at = call == SCRIPT_C_HIST ? 2 : call == SCRIPT_C_LHIST ? 4 : SIZE_MAX;
    if (function->n_list) {
        value = check_expr(c, function->list[0]);
        if (is_bad(value))
            return nothing(c, node->span);
        if (!is_number(value->type) && value->type->kind != SCRIPT_T_DOUBLE && value->type->kind != SCRIPT_T_POINTER) {
            ERROR(c->program, function->span, "%s() only supports integer and floating-point arguments (%s provided)",
                  script_call_name(call), type_text(c, value->type));
            return nothing(c, node->span);
        }
        type->is_signed = value->type->kind == SCRIPT_T_INT && value->type->is_signed;
        bool is_hist = call == SCRIPT_C_HIST || call == SCRIPT_C_LHIST;
        if (value->type->kind == SCRIPT_T_DOUBLE)
            value = is_hist ? to_int(c, value, true) : convert(c, value, script_types_find(c->types, "double"));
        else
            value = to_int(c, value, type->is_signed);
    }
    if (call == SCRIPT_C_HIST && function->n_list > 1 &&
        (!constant_int(c, function->list[1], &type->low) || type->low < 0 || type->low > 5)) {
        ERROR(c->program, function->list[1]->span, "hist() bits must be a constant from 0 to 5");
        return nothing(c, node->span);
    }
    if ((call == SCRIPT_C_LHIST && !range_fits(c, function, type)) || (call == SCRIPT_C_TSERIES && !series_fits(c, function, type)))
        return nothing(c, node->span);
    if (function->n_list > weight_at) {
        weight = check_expr(c, function->list[weight_at]);
        if (!is_bad(weight) && !is_number(weight->type)) {
            ERROR(c->program, weight->span, "%s(): the number of times must be an integer", script_call_name(call));
            return nothing(c, node->span);
        }
        weight = to_int(c, weight, false);
    }
    struct map_entry *map = map_of(c, target);
    struct script_expr *key;
    if (!map || !map_key(c, &map, target, &key) || !map_value(c, map, target->span, type))
        return nothing(c, node->span);
    struct script_stmt *stmt = stmt_new(c, SCRIPT_S_AGGREGATE, node->span);
    stmt->target = expr_new(c, SCRIPT_E_MAP, target->span, map->map.value);
    stmt->target->map = map_index(c, map);
    stmt->target->key = key;
    stmt->value = value;
    stmt->weight = weight;
    return stmt;
}

static struct script_stmt *check_assign(struct checker *c, const struct node *node)
{
    const struct node *target = node->list[0], *from = node->list[1];
    enum script_call call;
    if (from->kind == N_CALL && call_find(from->text, from->n_list, &call) && call_has(call, 'G') && !find_macro(c, from->text)) {
        if (target->kind == N_MAP && node->op == '=')
            return count_fits(c, call, from) ? aggregate(c, node, call) : nothing(c, node->span);
        ERROR(c->program, from->span, "%s() should be directly assigned to a map", from->text);
        return nothing(c, node->span);
    }
    struct script_expr *value = check_expr(c, from);
    if (node->op != '=') {
        /* @x += 1 may define @x. */
        struct script_expr *old;
        struct map_entry *map = target->kind == N_MAP ? map_of(c, target) : NULL;
        if (map && !is_bad(value) && map->map.value->kind == SCRIPT_T_UNKNOWN)
            map_value(c, map, target->span, is_number(value->type) ? int64_type(c, value->type->is_signed) : value->type);
        old = check_expr(c, target);
        value = check_binary(c, binary_of(node->op), node->span, old, value);
    }
    if (!is_bad(value) && value->type->kind == SCRIPT_T_VOID && from->kind == N_CALL && node->op == '=') {
        ERROR(c->program, from->span, "%s() should not be used in an assignment or as a map key", from->text);
        return nothing(c, node->span);
    }
    switch (target->kind) {
    case N_VARIABLE:
        return assign_variable(c, node, value);
    case N_MAP:
        return assign_map(c, node, value);
    case N_SELF:
        return assign_thread(c, node, value);
    default:
        ERROR(c->program, target->span, "only variables ($x), maps (@x) and self->x can be assigned to: the traced process is not changed");
        return nothing(c, node->span);
    }
}

static struct script_stmt *check_let(struct checker *c, const struct node *node)
{
    const struct node *target = node->list[0];
    for (size_t i = c->variables.n; i-- > 0;)
        if (c->variables.at[i].frame == c->frame && strcmp(c->variables.at[i].name, target->text) == 0) {
            WARN(c->program, node->span, "Variable $%s was already declared", target->text);
            break;
        }
    const struct script_type *type = node->spelling ? resolve_spelling(c, node->spelling) : NULL;
    struct script_expr *value = node->n_list > 1 ? check_expr(c, node->list[1]) : NULL;
    struct variable *variable = variable_declare(c, target->text, c->frame, target->span);
    uint32_t slot = variable->slot;
    if (type) {
        if (value && !is_bad(value) && !can_convert(value->type, type)) {
            ERROR(c->program, node->span,
                  "Type mismatch for $%s: trying to assign value of type '%s' when variable already has a type '%s'", target->text,
                  type_text(c, value->type), type_text(c, type));
            return nothing(c, node->span);
        }
        c->slots.at[slot] = type;
    }
    if (!value)
        return nothing(c, node->span);
    if (type && !is_bad(value))
        value = convert(c, value, type);
    return assign_variable(c, node, value);
}

/* ---- control flow ---- */

static struct script_stmt *check_if(struct checker *c, const struct node *node)
{
    struct script_stmt *stmt = stmt_new(c, SCRIPT_S_IF, node->span);
    stmt->condition = to_bool(c, check_expr(c, node->list[0]), "if");
    /* A branch that can not be taken is not checked: `if comptime` and parameters choose code that fits. */
    bool is_known = stmt->condition->kind == SCRIPT_E_INT && !is_bad(stmt->condition);
    bool skip_body = is_known && !stmt->condition->value, skip_other = is_known && stmt->condition->value;
    if (!skip_body)
        stmt->body = check_block(c, node->list[1]);
    if (node->n_list > 2 && !skip_other) {
        const struct node *other = node->list[2];
        stmt->other = other->kind == N_IF ? check_if(c, other) : check_block(c, other);
    }
    if (is_known) {
        struct script_stmt *block = stmt_new(c, SCRIPT_S_BLOCK, node->span);
        block->body = stmt->condition->value ? stmt->body : stmt->other;
        return block;
    }
    return stmt;
}

static struct script_stmt *loop_body(struct checker *c, const struct node *node)
{
    c->loops++;
    struct script_stmt *body = check_block(c, node);
    c->loops--;
    return body;
}

static struct script_stmt *check_while(struct checker *c, const struct node *node)
{
    struct script_stmt *stmt = stmt_new(c, SCRIPT_S_WHILE, node->span);
    stmt->condition = to_bool(c, check_expr(c, node->list[0]), "while");
    stmt->body = loop_body(c, node->list[1]);
    return stmt;
}

static struct script_stmt *check_unroll(struct checker *c, const struct node *node)
{
    struct script_stmt *stmt = stmt_new(c, SCRIPT_S_REPEAT, node->span);
    int64_t count = 0;
    if (!constant_int(c, node->list[0], &count))
        ERROR(c->program, node->list[0]->span, "unroll: expected an integer constant");
    else if (count < 1 || count > LIMIT_UNROLL)
        ERROR(c->program, node->list[0]->span, "unroll value must be between 1 and %d (%lld provided)", LIMIT_UNROLL, (long long)count);
    stmt->count = (uint64_t)count;
    stmt->body = loop_body(c, node->list[1]);
    return stmt;
}

static struct script_expr *loop_variable(struct checker *c, const struct node *node, const struct script_type *type)
{
    struct variable *variable = variable_declare(c, node->text, c->frame, node->span);
    variable->is_assigned = true;
    struct script_expr *target = expr_new(c, SCRIPT_E_SCRATCH, node->span, type);
    target->slot = variable->slot;
    c->slots.at[variable->slot] = type;
    return target;
}

static struct script_stmt *check_range(struct checker *c, const struct node *node)
{
    struct script_stmt *stmt = stmt_new(c, SCRIPT_S_RANGE, node->span);
    struct script_expr *low = check_expr(c, node->list[1]), *high = check_expr(c, node->list[2]);
    const struct script_expr *ends[] = {low, high};
    for (int i = 0; i < 2; i++)
        if (!is_bad(ends[i]) && !is_number(ends[i]->type))
            ERROR(c->program, ends[i]->span, "for: the range's ends must be integers, found '%s'", type_text(c, ends[i]->type));
    size_t scope = c->variables.n;
    stmt->low = to_int(c, low, true);
    stmt->high = to_int(c, high, true);
    stmt->target = loop_variable(c, node->list[0], int64_type(c, true));
    stmt->body = loop_body(c, node->list[3]);
    c->variables.n = scope;
    return stmt;
}

static struct script_stmt *check_each(struct checker *c, const struct node *node)
{
    const struct node *over = node->list[1];
    if (over->kind != N_MAP || over->n_list) {
        ERROR(c->program, over->span, "for: expected a map without key (for ($kv : @map)) or a range (for ($i : 0..10))");
        return nothing(c, node->span);
    }
    struct map_entry *map = map_of(c, over);
    if (!map)
        return nothing(c, node->span);
    map->is_used = true;
    if (map->has_keys_known && !map->map.key) {
        ERROR(c->program, over->span, "%s has no explicit keys (scalar map), and cannot be used for iteration", map->map.name);
        return nothing(c, node->span);
    }
    if (!map->map.key || map->map.value->kind == SCRIPT_T_UNKNOWN) {
        if (c->is_last)
            ERROR(c->program, over->span, "Undefined map: %s", map->map.name);
        return nothing(c, node->span);
    }
    struct script_stmt *stmt = stmt_new(c, SCRIPT_S_EACH, node->span);
    stmt->map = map_index(c, map);
    const struct script_type *items[] = {map->map.key, map_read_type(c, map)};
    size_t scope = c->variables.n;
    stmt->target = loop_variable(c, node->list[0], script_type_tuple(c->types, items, 2));
    stmt->body = loop_body(c, node->list[2]);
    c->variables.n = scope;
    return stmt;
}

static struct script_stmt *check_jump(struct checker *c, const struct node *node)
{
    bool is_break = node->kind == N_BREAK;
    if (c->loops == 0)
        ERROR(c->program, node->span, "'%s' statement not in a loop", is_break ? "break" : "continue");
    return stmt_new(c, is_break ? SCRIPT_S_BREAK : SCRIPT_S_CONTINUE, node->span);
}

static struct script_stmt *check_value(struct checker *c, const struct node *node)
{
    struct script_stmt *stmt = stmt_new(c, SCRIPT_S_EXPR, node->span);
    enum script_call call;
    if (node->kind == N_CALL && call_find(node->text, node->n_list, &call) && call_has(call, 'G') && !find_macro(c, node->text)) {
        ERROR(c->program, node->span, "%s() should be directly assigned to a map", node->text);
        return nothing(c, node->span);
    }
    stmt->value = check_expr(c, node);
    return stmt;
}

static struct script_stmt *check_statement(struct checker *c, const struct node *node)
{
    switch (node->kind) {
    case N_ASSIGN:
        return check_assign(c, node);
    case N_LET:
        return check_let(c, node);
    case N_IF:
        return check_if(c, node);
    case N_WHILE:
        return check_while(c, node);
    case N_UNROLL:
        return check_unroll(c, node);
    case N_RANGE:
        return check_range(c, node);
    case N_EACH:
        return check_each(c, node);
    case N_BREAK:
    case N_CONTINUE:
        return check_jump(c, node);
    case N_RETURN:
        if (node->n_list)
            check_expr(c, node->list[0]);
        return stmt_new(c, SCRIPT_S_RETURN, node->span);
    case N_BLOCK:
        return check_block(c, node);
    case N_DISCARD:
        return check_value(c, node->list[0]);
    default:
        return check_value(c, node);
    }
}

struct script_stmt *check_statements(struct checker *c, const struct node *node, size_t n)
{
    struct script_stmt *first = NULL, **end = &first;
    for (size_t i = 0; i < n; i++) {
        if (!enter(c, node->list[i]->span))
            break;
        *end = check_statement(c, node->list[i]);
        leave(c);
        if (*end)
            end = &(*end)->next;
    }
    return first;
}

struct script_stmt *check_block(struct checker *c, const struct node *node)
{
    size_t scope = c->variables.n;
    struct script_stmt *stmt = stmt_new(c, SCRIPT_S_BLOCK, node->span);
    stmt->body = check_statements(c, node, node->n_list);
    c->variables.n = scope;
    return stmt;
}
