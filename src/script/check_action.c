/* Calls that the host carries out (print, time, exit, ...) and those on maps. */
#include "script/check.h"

#include <string.h>

static const struct script_type *nothing(struct checker *c)
{
    return script_types_find(c->types, "void");
}

static struct script_expr *finish(struct checker *c, struct script_expr *expr, struct script_action action)
{
    action.call = expr->call;
    action.span = expr->span;
    action.list = (const struct script_expr *const *)expr->list;
    action.n_list = expr->n_list;
    expr->action = action_add(c, action);
    return expr;
}

/* ---- print ---- */

static struct script_expr *print_map(struct checker *c, const struct node *node)
{
    const struct node *target = node->list[0];
    struct map_entry *map = map_of(c, target);
    if (!map)
        return expr_bad(c, node->span);
    map->is_used = true;
    if (map->map.value->kind == SCRIPT_T_UNKNOWN) {
        if (c->is_last) {
            struct near near = {.wanted = map->map.name};
            for (size_t i = 0; i < c->program->maps.n; i++)
                if (c->program->maps.at[i].is_assigned)
                    near_try(&near, c->program->maps.at[i].map.name);
            report(c->program, true, target->span, near_hint(&near, c->arena), "Undefined map: %s", map->map.name);
        }
        return expr_bad(c, node->span);
    }
    struct script_action action = {.map = map_index(c, map), .is_map = true};
    uint64_t *const limits[] = {&action.top, &action.divide};
    for (size_t i = 1; i < node->n_list; i++) {
        int64_t value;
        if (!constant_int(c, node->list[i], &value) || value < 0)
            return FAIL(c, node->list[i]->span, "print: the %s must be a constant above 0", i == 1 ? "number of entries (top)" : "divisor");
        *limits[i - 1] = (uint64_t)value;
    }
    struct script_expr *expr = call_new(c, SCRIPT_C_PRINT, node->span, nothing(c), 0);
    expr->map = action.map;
    return finish(c, expr, action);
}

static struct script_expr *check_print(struct checker *c, const struct node *node)
{
    const struct node *first = node->list[0];
    struct map_entry *map = first->kind == N_MAP && first->n_list == 0 ? map_of(c, first) : NULL;
    if (map)
        return print_map(c, node);
    if (node->n_list > 1)
        return FAIL(c, node->span, "Non-map print() only takes 1 argument, %zu found", node->n_list);
    bool is_args = first->kind == N_NAME && strcmp(first->text, "args") == 0;
    struct script_expr *value = first->kind == N_MAP ? check_map(c, first, true)
                                : is_args            ? check_all_args(c, first->span)
                                                     : check_expr(c, first);
    if (is_bad(value))
        return value;
    if (value->type->kind == SCRIPT_T_VOID || value->type->kind == SCRIPT_T_FUNCTION)
        return FAIL(c, first->span, "print: an expression without a value can not be printed");
    struct script_expr *expr = call_new(c, SCRIPT_C_PRINT, node->span, nothing(c), 1);
    expr->list[0] = value;
    return finish(c, expr, (struct script_action){0});
}

/* ---- other actions ---- */

static struct script_expr *check_join(struct checker *c, const struct node *node)
{
    struct script_expr *value = check_raw(c, node->list[0]);
    struct script_action action = {.text = " ", .length = 1};
    if (is_bad(value))
        return value;
    if (value->type->kind != SCRIPT_T_POINTER && value->type->kind != SCRIPT_T_INT && value->type->kind != SCRIPT_T_ARRAY)
        return FAIL(c, node->list[0]->span, "join() expects an array or a pointer of strings (%s provided)", type_text(c, value->type));
    if (node->n_list > 1 && !constant_text(c, node->list[1], &action.text, &action.length))
        return FAIL(c, node->list[1]->span, "join() expects a string literal as its separator");
    struct script_expr *expr = call_new(c, SCRIPT_C_JOIN, node->span, nothing(c), 1);
    expr->list[0] = value->type->kind == SCRIPT_T_ARRAY ? value : to_int(c, value, false);
    return finish(c, expr, action);
}

static struct script_expr *check_signal(struct checker *c, enum script_call call, const struct node *node)
{
    struct script_expr *value = check_expr(c, node->list[0]);
    if (is_bad(value))
        return value;
    if (value->kind == SCRIPT_E_STRING) {
        const char *name = strncmp(value->text, "SIG", 3) == 0 ? value->text + 3 : value->text;
        int number = 0;
        for (int i = 1; i < 32; i++)
            if (sigabbrev_np(i) && strcmp(sigabbrev_np(i), name) == 0)
                number = i;
        if (!number)
            return FAIL(c, node->list[0]->span, "'%s' is not a signal", value->text);
        value = expr_int(c, value->span, int64_type(c, false), (uint64_t)number);
    }
    if (!is_number(value->type))
        return FAIL(c, node->list[0]->span, "%s() expects a signal's name or number (%s provided)", script_call_name(call),
                    type_text(c, value->type));
    if (value->kind == SCRIPT_E_INT && (value->value < 1 || value->value > 64))
        return FAIL(c, node->list[0]->span, "%lld is not a valid signal, allowed range: [1,64]", (long long)value->value);
    struct script_expr *expr = call_new(c, call, node->span, nothing(c), 1);
    expr->list[0] = to_int(c, value, false);
    return expr;
}

struct script_expr *check_action(struct checker *c, enum script_call call, const struct node *node)
{
    struct script_action action = {0};
    switch (call) {
    case SCRIPT_C_PRINT:
        return check_print(c, node);
    case SCRIPT_C_JOIN:
        return check_join(c, node);
    case SCRIPT_C_SIGNAL:
    case SCRIPT_C_SIGNAL_THREAD:
        return check_signal(c, call, node);
    case SCRIPT_C_TIME:
        action.text = "%H:%M:%S\n";
        action.length = strlen(action.text);
        if (node->n_list && !constant_text(c, node->list[0], &action.text, &action.length))
            return FAIL(c, node->list[0]->span, "time() expects a string literal as its format");
        return finish(c, call_new(c, call, node->span, nothing(c), 0), action);
    case SCRIPT_C_EXIT: {
        struct script_expr *code = node->n_list ? check_expr(c, node->list[0]) : expr_int(c, node->span, int64_type(c, true), 0);
        if (!is_bad(code) && !is_number(code->type))
            return FAIL(c, code->span, "exit() expects an integer (%s provided)", type_text(c, code->type));
        struct script_expr *expr = call_new(c, call, node->span, nothing(c), 1);
        expr->list[0] = to_int(c, code, true);
        action.has_code = node->n_list;
        return is_bad(code) ? code : finish(c, expr, action);
    }
    case SCRIPT_C_ASSERT: {
        struct script_expr *condition = to_bool(c, check_expr(c, node->list[0]), "assert");
        if (!constant_text(c, node->list[1], &action.text, &action.length))
            return FAIL(c, node->list[1]->span, "assert() expects a string literal as its message");
        struct script_expr *expr = call_new(c, call, node->span, nothing(c), 1);
        expr->list[0] = condition;
        return is_bad(condition) ? condition : finish(c, expr, action);
    }
    default: /* speculate, commit, discard */
        c->program->speculates = true;
        return call_new(c, call, node->span, nothing(c), 0);
    }
}

/* ---- maps ---- */

/* delete(@x), delete(@x[k]), delete(@x, k), has_key(@x, k), find(@x, k, $v) */
/* { $variable = @map[key]; true }, the second half of find(). */
static struct script_expr *find_value(struct checker *c, const struct script_expr *has, const struct script_type *read, uint32_t slot,
                                      const struct script_type *type)
{
    struct script_expr *value = expr_new(c, SCRIPT_E_MAP, has->span, read);
    value->map = has->map;
    value->key = has->key;
    struct script_stmt *assign = stmt_new(c, SCRIPT_S_ASSIGN, has->span);
    assign->target = expr_new(c, SCRIPT_E_SCRATCH, has->span, type);
    assign->target->slot = slot;
    assign->value = convert(c, value, type);
    struct script_expr *block = expr_new(c, SCRIPT_E_BLOCK, has->span, bool_type(c));
    block->body = assign;
    block->left = expr_int(c, has->span, block->type, 1);
    return block;
}

static struct script_expr *check_keyed(struct checker *c, enum script_call call, const struct node *node)
{
    const struct node *target = node->list[0];
    struct map_entry *map = map_of(c, target);
    struct script_expr *key;
    if (!map)
        return expr_bad(c, node->span);
    map->is_used = true;
    if (node->n_list > 1) {
        if (target->n_list)
            return FAIL(c, target->span, "%s() expects a map without a key as its first argument: %s(%s, key)", script_call_name(call),
                        script_call_name(call), map->map.name);
        uint32_t index = map_index(c, map);
        struct script_expr *value = check_expr(c, node->list[1]);
        map = &c->program->maps.at[index];
        if (!map_key_of(c, &map, node->span, value, &key))
            return expr_bad(c, node->span);
    } else {
        if (target->n_list == 0 && map->map.key)
            return FAIL(c, node->span, "call to delete() expects a map without explicit keys (scalar map), or a key: delete(%s, key)",
                        map->map.name);
        if (!map_key(c, &map, target, &key))
            return expr_bad(c, node->span);
    }
    uint32_t index = map_index(c, map);
    struct script_expr *expr = call_new(c, call == SCRIPT_C_FIND ? SCRIPT_C_HAS_KEY : call, node->span, bool_type(c), 0);
    expr->map = index;
    expr->key = key;
    if (call != SCRIPT_C_FIND)
        return expr;
    const struct node *result = node->list[2];
    const struct script_type *type = map_read_type(c, map);
    const struct frame *frame;
    if (result->kind != N_VARIABLE)
        return FAIL(c, result->span, "find() expects a variable for the value as its last argument");
    result = variable_follow(c, result, &frame);
    struct variable *variable = variable_find(c, result->text, frame);
    if (!variable)
        variable = variable_declare(c, result->text, frame, result->span);
    variable->is_assigned = true;
    uint32_t slot = variable->slot;
    if (type->kind == SCRIPT_T_UNKNOWN)
        return expr_bad(c, node->span);
    type = variable_type(c, slot, type);
    if (!type)
        return FAIL(c, node->span, "Type mismatch for $%s: the value of %s has the type '%s'", result->text, map->map.name,
                    type_text(c, map_read_type(c, map)));
    struct script_expr *both = expr_new(c, SCRIPT_E_AND, node->span, bool_type(c));
    both->left = expr;
    both->right = find_value(c, expr, map_read_type(c, map), slot, type);
    return both;
}

struct script_expr *check_map_call(struct checker *c, enum script_call call, const struct node *node)
{
    const struct node *target = node->list[0];
    if (target->kind != N_MAP)
        return FAIL(c, node->list[0]->span, "%s() expects a map to be provided", script_call_name(call));
    if (call == SCRIPT_C_DELETE || call == SCRIPT_C_HAS_KEY || call == SCRIPT_C_FIND)
        return check_keyed(c, call, node);
    if (target->n_list)
        return FAIL(c, target->span, "The map passed to %s() should not be indexed by a key", script_call_name(call));
    struct map_entry *map = map_of(c, target);
    if (!map)
        return expr_bad(c, node->span);
    map->is_used = true;
    if (c->is_last && map->map.value->kind == SCRIPT_T_UNKNOWN)
        return FAIL(c, target->span, "Undefined map: %s", map->map.name);
    struct script_expr *expr = call_new(c, call, node->span, nothing(c), 0);
    expr->map = map_index(c, map);
    return finish(c, expr, (struct script_action){.map = expr->map, .is_map = true});
}
