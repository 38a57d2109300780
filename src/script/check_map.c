/* Maps: one table for all clauses and models, whose types grow until they are stable. */
#include "script/check.h"

#include <string.h>

static struct map_entry *find_map(struct script_program *program, const char *name)
{
    for (size_t i = 0; i < program->maps.n; i++)
        if (strcmp(program->maps.at[i].map.name, name) == 0)
            return &program->maps.at[i];
    return NULL;
}

/* Follows @parameters of macros. NULL: reported. */
static const char *map_name(struct checker *c, const struct node *node)
{
    const struct frame *frame = c->frame;
    const char *name = node->text;
    while (frame) {
        const struct node *argument = NULL;
        for (size_t i = 0; i < frame->macro->n_params; i++)
            if (frame->macro->params[i]->kind == N_MAP && strcmp(frame->macro->params[i]->text, name) == 0)
                argument = frame->arguments[i];
        if (!argument) {
            ERROR(c->program, node->span, "Unhygienic access to map %s in macro '%s': pass it as a parameter", name, frame->macro->name);
            return NULL;
        }
        name = argument->text;
        frame = frame->caller;
    }
    return name;
}

struct map_entry *map_of(struct checker *c, const struct node *node)
{
    const char *name = map_name(c, node);
    if (!name)
        return NULL;
    struct map_entry *map = find_map(c->program, name);
    if (!map) {
        if (c->program->maps_fixed) {
            ERROR(c->program, node->span, "Undefined map: %s", name);
            return NULL;
        }
        if (c->program->maps.n >= LIMIT_MAPS) {
            ERROR(c->program, node->span, "too many maps (limit %d)", LIMIT_MAPS);
            return NULL;
        }
        struct map_entry entry = {.map = {.name = name, .value = script_type_plain(c->program->types[SCRIPT_LP64], SCRIPT_T_UNKNOWN)},
                                  .defined = node->span};
        VEC_PUSH(&c->program->maps, entry);
        c->program->maps_changed = true;
        map = &c->program->maps.at[c->program->maps.n - 1];
    }
    return map;
}

uint32_t map_index(const struct checker *c, const struct map_entry *map)
{
    return (uint32_t)(map - c->program->maps.at);
}

static bool same(const struct script_type *a, const struct script_type *b)
{
    return script_type_equal(a, b) && a->bytes == b->bytes;
}

static bool can_be_key(const struct script_type *type)
{
    switch (type->kind) {
    case SCRIPT_T_UNKNOWN:
    case SCRIPT_T_BOOL:
    case SCRIPT_T_INT:
    case SCRIPT_T_STRING:
    case SCRIPT_T_BUFFER:
    case SCRIPT_T_POINTER:
    case SCRIPT_T_ARRAY:
    case SCRIPT_T_RECORD:
    case SCRIPT_T_SYMBOL:
    case SCRIPT_T_NAME:
    case SCRIPT_T_MAC:
    case SCRIPT_T_INET:
    case SCRIPT_T_STACK:
        return true;
    case SCRIPT_T_TUPLE:
        for (uint64_t i = 0; i < type->count; i++)
            if (!can_be_key(type->items[i].type))
                return false;
        return true;
    default:
        return false;
    }
}

static bool has_unknown(const struct script_type *type)
{
    if (type->kind == SCRIPT_T_TUPLE)
        for (uint64_t i = 0; i < type->count; i++)
            if (has_unknown(type->items[i].type))
                return true;
    return type->kind == SCRIPT_T_UNKNOWN;
}

/* Merges a key's type; `value` NULL: used without a key. */
bool map_key_of(struct checker *c, struct map_entry **at, struct script_span span, struct script_expr *value, struct script_expr **key)
{
    struct map_entry *map = *at;
    *key = NULL;
    if (!value) {
        if (map->has_keys_known && map->map.key) {
            ERROR(c->program, span,
                  "%s used as a map without an explicit key (scalar map), previously used with an explicit key (non-scalar map)",
                  map->map.name);
            return false;
        }
        map->has_keys_known = true;
        return true;
    }
    if (is_bad(value) || has_unknown(value->type))
        return false;
    if (!can_be_key(value->type)) {
        ERROR(c->program, value->span, "a value of type '%s' can not be part of a map key", type_text(c, value->type));
        return false;
    }
    if (map->has_keys_known && !map->map.key) {
        ERROR(c->program, span,
              "%s used as a map with an explicit key (non-scalar map), previously used without an explicit key (scalar map)",
              map->map.name);
        return false;
    }
    const struct script_type *wide = widen(c, value->type), *both = map->map.key ? unify(c, map->map.key, wide) : wide;
    if (!both || (c->program->maps_fixed && !can_convert(wide, map->map.key))) {
        ERROR(c->program, span, "Argument mismatch for %s: trying to access with arguments: '%s' when map expects arguments: '%s'",
              map->map.name, type_text(c, wide), type_text(c, map->map.key));
        return false;
    }
    if (!c->program->maps_fixed) {
        if (!map->map.key || !same(map->map.key, both))
            c->program->maps_changed = true;
        map->map.key = both;
    }
    map->has_keys_known = true;
    *key = convert(c, value, map->map.key);
    return true;
}

bool map_key(struct checker *c, struct map_entry **map, const struct node *node, struct script_expr **key)
{
    if (node->n_list == 0)
        return map_key_of(c, map, node->span, NULL, key);
    uint32_t index = map_index(c, *map);
    struct script_expr *value;
    if (node->n_list == 1) {
        value = check_expr(c, node->list[0]);
    } else {
        struct node tuple = *node;
        tuple.kind = N_TUPLE;
        value = check_expr(c, &tuple);
    }
    *map = &c->program->maps.at[index]; /* checking the key may have added maps */
    return map_key_of(c, map, node->span, value, key);
}

bool map_value(struct checker *c, struct map_entry *map, struct script_span span, const struct script_type *type)
{
    if (has_unknown(type))
        return false;
    if (type->kind == SCRIPT_T_VOID || type->kind == SCRIPT_T_FUNCTION) {
        ERROR(c->program, span, "a value of type '%s' can not be kept in %s", type_text(c, type), map->map.name);
        return false;
    }
    const struct script_type *wide = widen(c, type), *both = unify(c, map->map.value, wide);
    if (!both || (c->program->maps_fixed && !can_convert(wide, map->map.value))) {
        ERROR(c->program, span, "Type mismatch for %s: trying to assign value of type '%s' when map already contains a value of type '%s'",
              map->map.name, type_text(c, wide), type_text(c, map->map.value));
        return false;
    }
    if (!c->program->maps_fixed) {
        if (!same(map->map.value, both))
            c->program->maps_changed = true;
        map->map.value = both;
        if (type->kind == SCRIPT_T_POINTER && map->to[c->model] != type->to && !map->to[c->model]) {
            map->to[c->model] = type->to;
            c->program->maps_changed = true;
        }
    }
    map->is_assigned = true;
    return true;
}

/* The type behind a pointer that a clause of the other model stored: by name, in this model. */
static const struct script_type *behind(struct checker *c, const struct map_entry *map)
{
    if (map->to[c->model])
        return map->to[c->model];
    const struct script_type *to = map->map.value->to, *found = NULL;
    if (to->kind == SCRIPT_T_RECORD)
        found = script_types_find(c->types, to->record->name);
    else if (to->kind == SCRIPT_T_INT || to->kind == SCRIPT_T_BOOL || to->kind == SCRIPT_T_DOUBLE)
        found = to;
    return found ? found : script_types_find(c->types, "void");
}

const struct script_type *map_read_type(struct checker *c, const struct map_entry *map)
{
    const struct script_type *value = map->map.value;
    switch (value->kind) {
    case SCRIPT_T_COUNT:
        return int64_type(c, false);
    case SCRIPT_T_SUM:
    case SCRIPT_T_MIN:
    case SCRIPT_T_MAX:
    case SCRIPT_T_AVG:
        return int64_type(c, value->is_signed);
    case SCRIPT_T_POINTER:
        return script_type_pointer(c->types, behind(c, map));
    default:
        return value;
    }
}

struct script_expr *check_map(struct checker *c, const struct node *node, bool keep_aggregate)
{
    struct map_entry *map = map_of(c, node);
    if (!map)
        return expr_bad(c, node->span);
    struct script_expr *key;
    if (!map_key(c, &map, node, &key))
        return expr_bad(c, node->span);
    map->is_used = true;
    const struct script_type *type = keep_aggregate ? map->map.value : map_read_type(c, map);
    if (type->kind == SCRIPT_T_UNKNOWN) {
        if (c->is_last) {
            struct near near = {.wanted = map->map.name};
            for (size_t i = 0; i < c->program->maps.n; i++)
                if (c->program->maps.at[i].is_assigned)
                    near_try(&near, c->program->maps.at[i].map.name);
            report(c->program, true, node->span, near_hint(&near, c->arena), "Undefined map: %s", map->map.name);
        }
        return expr_bad(c, node->span);
    }
    if (!keep_aggregate &&
        (type->kind == SCRIPT_T_HIST || type->kind == SCRIPT_T_LHIST || type->kind == SCRIPT_T_STATS || type->kind == SCRIPT_T_TSERIES))
        return FAIL(c, node->span, "Map value '%s' cannot be used as a value: it can be printed with print(%s)", type_text(c, type),
                    map->map.name);
    struct script_expr *expr = expr_new(c, SCRIPT_E_MAP, node->span, type);
    expr->map = map_index(c, map);
    expr->key = key;
    return expr;
}
