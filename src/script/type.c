#include "script/type.h"
#include "base/memory.h"
#include "script/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct script_type *make(struct script_types *types, enum script_type_kind kind, uint64_t bytes, uint32_t align)
{
    struct script_type *type = arena_alloc(&types->arena, sizeof *type);
    type->kind = kind;
    type->bytes = bytes;
    type->align = align;
    return type;
}

enum script_model script_types_model(const struct script_types *types)
{
    return types->model;
}

struct arena *script_types_arena(struct script_types *types)
{
    return &types->arena;
}

/* ---- built-in and derived types ---- */

const struct script_type *script_type_plain(struct script_types *types, enum script_type_kind kind)
{
    static const uint8_t bytes[] = {
        [SCRIPT_T_BOOL] = 1, [SCRIPT_T_COUNT] = 8,  [SCRIPT_T_SUM] = 8,     [SCRIPT_T_AVG] = 16,       [SCRIPT_T_MIN] = 8,
        [SCRIPT_T_MAX] = 8,  [SCRIPT_T_STATS] = 16, [SCRIPT_T_SYMBOL] = 16, [SCRIPT_T_TIMESTAMP] = 16, [SCRIPT_T_MAC] = 8,
        [SCRIPT_T_NAME] = 8, [SCRIPT_T_INET] = 24,  [SCRIPT_T_STACK] = 8};
    uint64_t size = kind < sizeof bytes ? bytes[kind] : 0;
    return make(types, kind, size, size >= 8 ? 8 : 1);
}

const struct script_type *script_type_int(struct script_types *types, unsigned bytes, bool is_signed)
{
    /* i386 psABI, table 2.1: a long long is aligned to 4. */
    uint32_t align = bytes > 4 && types->model == SCRIPT_ILP32 ? 4 : bytes;
    struct script_type *type = make(types, SCRIPT_T_INT, bytes, align);
    type->is_signed = is_signed;
    return type;
}

const struct script_type *script_type_char(struct script_types *types)
{
    struct script_type *type = make(types, SCRIPT_T_INT, 1, 1);
    type->is_signed = type->is_char = true;
    return type;
}

const struct script_type *script_type_double(struct script_types *types, unsigned bytes)
{
    return make(types, SCRIPT_T_DOUBLE, bytes, bytes > 4 && types->model == SCRIPT_ILP32 ? 4 : bytes);
}

const struct script_type *script_type_string(struct script_types *types, uint64_t bytes)
{
    return make(types, SCRIPT_T_STRING, bytes, 1);
}

const struct script_type *script_type_buffer(struct script_types *types, uint64_t bytes)
{
    return make(types, SCRIPT_T_BUFFER, bytes, 8);
}

const struct script_type *script_type_pointer(struct script_types *types, const struct script_type *to)
{
    unsigned bytes = types->model == SCRIPT_ILP32 ? 4 : 8;
    struct script_type *type = make(types, SCRIPT_T_POINTER, bytes, bytes);
    type->to = to;
    return type;
}

const struct script_type *script_type_array(struct script_types *types, const struct script_type *of, uint64_t count)
{
    bool is_flexible = count == SCRIPT_FLEXIBLE;
    uint64_t bytes;
    if (of->kind == SCRIPT_T_VOID || of->kind == SCRIPT_T_FUNCTION || (of->kind == SCRIPT_T_RECORD && !of->record->is_complete) ||
        __builtin_mul_overflow(of->bytes, is_flexible ? 0 : count, &bytes) || bytes > SCRIPT_LARGEST)
        return NULL;
    struct script_type *type = make(types, SCRIPT_T_ARRAY, bytes, of->align);
    type->to = of;
    type->count = is_flexible ? 0 : count;
    type->is_flexible = is_flexible;
    return type;
}

const struct script_type *script_type_tuple(struct script_types *types, const struct script_type *const *list, size_t n)
{
    struct script_item *items = arena_alloc(&types->arena, n * sizeof *items);
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        /* Independent of the model: a tuple may go into a map, which both share. */
        uint64_t bytes = type_value_bytes(list[i]);
        uint64_t align = bytes >= 8 && list[i]->kind != SCRIPT_T_STRING ? 8 : 1;
        while (align < bytes && align < 8 && list[i]->kind != SCRIPT_T_STRING)
            align *= 2;
        at = (at + align - 1) / align * align;
        items[i] = (struct script_item){.type = list[i], .offset = at};
        at += bytes;
    }
    struct script_type *type = make(types, SCRIPT_T_TUPLE, (at + 7) & ~UINT64_C(7), 8);
    type->items = items;
    type->count = n;
    return type;
}

const struct script_type *script_type_enum(struct script_types *types, unsigned bytes, bool is_signed,
                                           const struct script_enum *enumeration)
{
    struct script_type *type = make(types, SCRIPT_T_INT, bytes, bytes > 4 && types->model == SCRIPT_ILP32 ? 4 : bytes);
    type->is_signed = is_signed;
    type->enumeration = enumeration;
    return type;
}

uint64_t script_type_value_bytes(const struct script_type *type)
{
    return type_value_bytes(type);
}

uint64_t type_value_bytes(const struct script_type *type)
{
    return type->kind == SCRIPT_T_POINTER || type->kind == SCRIPT_T_DOUBLE ? 8
           : type->kind == SCRIPT_T_BUFFER                                 ? type->bytes + 8
                                                                           : type->bytes;
}

/* ---- names ---- */

static const struct script_type *basic_type(struct script_types *types, const char *name)
{
    static const struct {
        const char *name;
        enum script_type_kind kind;
        uint8_t lp64, ilp32; /* bytes */
        bool is_signed;
    } basic[] = {
        {"void", SCRIPT_T_VOID, 0, 0, false},
        {"bool", SCRIPT_T_BOOL, 1, 1, false},
        {"_Bool", SCRIPT_T_BOOL, 1, 1, false},
        {"float", SCRIPT_T_DOUBLE, 4, 4, false},
        {"double", SCRIPT_T_DOUBLE, 8, 8, false},
        {"long double", SCRIPT_T_DOUBLE, 16, 12, false},
        {"char", SCRIPT_T_INT, 1, 1, true},
        {"signed char", SCRIPT_T_INT, 1, 1, true},
        {"unsigned char", SCRIPT_T_INT, 1, 1, false},
        {"short", SCRIPT_T_INT, 2, 2, true},
        {"unsigned short", SCRIPT_T_INT, 2, 2, false},
        {"int", SCRIPT_T_INT, 4, 4, true},
        {"unsigned", SCRIPT_T_INT, 4, 4, false},
        {"unsigned int", SCRIPT_T_INT, 4, 4, false},
        {"long", SCRIPT_T_INT, 8, 4, true},
        {"unsigned long", SCRIPT_T_INT, 8, 4, false},
        {"long long", SCRIPT_T_INT, 8, 8, true},
        {"unsigned long long", SCRIPT_T_INT, 8, 8, false},
        {"__int128", SCRIPT_T_INT, 16, 16, true},
        {"unsigned __int128", SCRIPT_T_INT, 16, 16, false},
        {"int8", SCRIPT_T_INT, 1, 1, true},
        {"int16", SCRIPT_T_INT, 2, 2, true},
        {"int32", SCRIPT_T_INT, 4, 4, true},
        {"int64", SCRIPT_T_INT, 8, 8, true},
        {"uint8", SCRIPT_T_INT, 1, 1, false},
        {"uint16", SCRIPT_T_INT, 2, 2, false},
        {"uint32", SCRIPT_T_INT, 4, 4, false},
        {"uint64", SCRIPT_T_INT, 8, 8, false},
        /* What every C program has, also without an include. */
        {"int8_t", SCRIPT_T_INT, 1, 1, true},
        {"int16_t", SCRIPT_T_INT, 2, 2, true},
        {"int32_t", SCRIPT_T_INT, 4, 4, true},
        {"int64_t", SCRIPT_T_INT, 8, 8, true},
        {"uint8_t", SCRIPT_T_INT, 1, 1, false},
        {"uint16_t", SCRIPT_T_INT, 2, 2, false},
        {"uint32_t", SCRIPT_T_INT, 4, 4, false},
        {"uint64_t", SCRIPT_T_INT, 8, 8, false},
        {"size_t", SCRIPT_T_INT, 8, 4, false},
        {"ssize_t", SCRIPT_T_INT, 8, 4, true},
        {"intptr_t", SCRIPT_T_INT, 8, 4, true},
        {"uintptr_t", SCRIPT_T_INT, 8, 4, false},
        {"ptrdiff_t", SCRIPT_T_INT, 8, 4, true},
        {"off_t", SCRIPT_T_INT, 8, 4, true},
        {"time_t", SCRIPT_T_INT, 8, 4, true},
        {"pid_t", SCRIPT_T_INT, 4, 4, true},
        {"uid_t", SCRIPT_T_INT, 4, 4, false},
        {"gid_t", SCRIPT_T_INT, 4, 4, false},
        {"mode_t", SCRIPT_T_INT, 4, 4, false},
        {"_Float128", SCRIPT_T_DOUBLE, 16, 16, false},
        {"__float128", SCRIPT_T_DOUBLE, 16, 16, false},
        {"_Float64x", SCRIPT_T_DOUBLE, 16, 12, false},
        {"_Float64", SCRIPT_T_DOUBLE, 8, 8, false},
        {"_Float32x", SCRIPT_T_DOUBLE, 8, 8, false},
        {"_Float32", SCRIPT_T_DOUBLE, 4, 4, false},
    };
    for (size_t i = 0; i < sizeof basic / sizeof *basic; i++)
        if (strcmp(basic[i].name, name) == 0) {
            unsigned bytes = types->model == SCRIPT_ILP32 ? basic[i].ilp32 : basic[i].lp64;
            if (basic[i].kind == SCRIPT_T_INT)
                return strcmp(name, "char") == 0 ? script_type_char(types) : script_type_int(types, bytes, basic[i].is_signed);
            if (basic[i].kind == SCRIPT_T_DOUBLE)
                return script_type_double(types, bytes);
            return script_type_plain(types, basic[i].kind);
        }
    return NULL;
}

const struct script_type *script_types_find(struct script_types *types, const char *name)
{
    const struct script_type *found = table_get(&types->names, name);
    if (!found) {
        found = basic_type(types, name);
        if (found)
            script_types_define(types, name, found);
    }
    return found;
}

void script_types_define(struct script_types *types, const char *name, const struct script_type *type)
{
    table_put(&types->names, arena_text(&types->arena, name, strlen(name)), (void *)type);
}

bool script_types_constant(const struct script_types *types, const char *name, int64_t *value)
{
    const int64_t *found = table_get(&types->constants, name);
    if (found)
        *value = *found;
    return found != NULL;
}

void script_types_define_constant(struct script_types *types, const char *name, int64_t value)
{
    int64_t *kept = arena_alloc(&types->arena, sizeof *kept);
    *kept = value;
    table_put(&types->constants, arena_text(&types->arena, name, strlen(name)), kept);
}

struct script_types *types_create(enum script_model model)
{
    struct script_types *types = memory_zero(1, sizeof *types);
    types->model = model;
    return types;
}

void types_destroy(struct script_types *types)
{
    if (!types)
        return;
    table_deinit(&types->names);
    table_deinit(&types->constants);
    table_deinit(&types->enumerators);
    table_deinit(&types->bodies);
    table_deinit(&types->paths);
    table_deinit(&types->texts);
    arena_deinit(&types->arena);
    free(types);
}

static bool find_member(const struct script_type *type, const char *name, struct script_member *out, unsigned depth)
{
    if (type->kind != SCRIPT_T_RECORD || depth > LIMIT_NESTING)
        return false;
    const struct script_record *record = type->record;
    for (size_t i = 0; i < record->n_members; i++) {
        const struct script_member *member = &record->members[i];
        if (member->name && strcmp(member->name, name) == 0) {
            *out = *member;
            return true;
        }
        if (!member->name && !member->bit_size && find_member(member->type, name, out, depth + 1)) {
            out->offset += member->offset;
            return true;
        }
    }
    return false;
}

bool script_type_member(const struct script_type *type, const char *name, struct script_member *out)
{
    return find_member(type, name, out, 0);
}

static bool equal(const struct script_type *a, const struct script_type *b, unsigned depth)
{
    if (a == b || depth > LIMIT_NESTING)
        return true;
    if (!a || !b || a->kind != b->kind)
        return false;
    switch (a->kind) {
    case SCRIPT_T_INT:
        return a->bytes == b->bytes && a->is_signed == b->is_signed;
    case SCRIPT_T_DOUBLE:
    case SCRIPT_T_STRING:
    case SCRIPT_T_BUFFER:
        return a->bytes == b->bytes;
    case SCRIPT_T_POINTER:
        return equal(a->to, b->to, depth + 1);
    case SCRIPT_T_ARRAY:
        return a->count == b->count && equal(a->to, b->to, depth + 1);
    case SCRIPT_T_RECORD:
        return a->record == b->record || strcmp(a->record->name, b->record->name) == 0;
    case SCRIPT_T_TUPLE:
        for (uint64_t i = 0; i < a->count && a->count == b->count; i++)
            if (!equal(a->items[i].type, b->items[i].type, depth + 1))
                return false;
        return a->count == b->count;
    case SCRIPT_T_HIST:
        return a->low == b->low;
    case SCRIPT_T_LHIST:
    case SCRIPT_T_TSERIES:
        return a->low == b->low && a->high == b->high && a->step == b->step;
    default:
        return true;
    }
}

bool script_type_equal(const struct script_type *a, const struct script_type *b)
{
    return equal(a, b, 0);
}

static const char *name_of(struct arena *arena, const struct script_type *type, unsigned depth);

static const char *tuple_name(struct arena *arena, const struct script_type *type, unsigned depth)
{
    const char *text = "(";
    for (uint64_t i = 0; i < type->count; i++)
        text = arena_format(arena, "%s%s%s", text, i ? "," : "", name_of(arena, type->items[i].type, depth));
    return arena_format(arena, "%s)", text);
}

static const char *name_of(struct arena *arena, const struct script_type *type, unsigned depth)
{
    static const char *const plain[] = {[SCRIPT_T_UNKNOWN] = "none",      [SCRIPT_T_VOID] = "void",     [SCRIPT_T_BOOL] = "bool",
                                        [SCRIPT_T_FUNCTION] = "function", [SCRIPT_T_COUNT] = "count_t", [SCRIPT_T_SUM] = "sum_t",
                                        [SCRIPT_T_AVG] = "avg_t",         [SCRIPT_T_MIN] = "min_t",     [SCRIPT_T_MAX] = "max_t",
                                        [SCRIPT_T_STATS] = "stats_t",     [SCRIPT_T_HIST] = "hist_t",   [SCRIPT_T_LHIST] = "lhist_t",
                                        [SCRIPT_T_TSERIES] = "tseries_t", [SCRIPT_T_SYMBOL] = "usym_t", [SCRIPT_T_TIMESTAMP] = "timestamp",
                                        [SCRIPT_T_MAC] = "mac_address",   [SCRIPT_T_NAME] = "name",     [SCRIPT_T_INET] = "inet",
                                        [SCRIPT_T_STACK] = "ustack"};
    if (!type)
        return "none";
    if (depth > LIMIT_NESTING)
        return "...";
    switch (type->kind) {
    case SCRIPT_T_INT:
        if (type->enumeration)
            return type->enumeration->name;
        return arena_format(arena, "%sint%u", type->is_signed ? "" : "u", (unsigned)type->bytes * 8);
    case SCRIPT_T_DOUBLE:
        return type->bytes == 4 ? "float" : type->bytes == 8 ? "double" : "long double";
    case SCRIPT_T_STRING:
        return arena_format(arena, "string[%llu]", (unsigned long long)type->bytes);
    case SCRIPT_T_BUFFER:
        return arena_format(arena, "buffer[%llu]", (unsigned long long)type->bytes);
    case SCRIPT_T_POINTER: {
        const char *to = name_of(arena, type->to, depth + 1);
        return arena_format(arena, "%s%s*", to, to[strlen(to) - 1] == '*' ? "" : " ");
    }
    case SCRIPT_T_RECORD:
        return type->record->name;
    case SCRIPT_T_ARRAY:
        return arena_format(arena, "%s[%llu]", name_of(arena, type->to, depth + 1), (unsigned long long)type->count);
    case SCRIPT_T_TUPLE:
        return tuple_name(arena, type, depth + 1);
    default:
        return plain[type->kind];
    }
}

const char *script_type_name(struct arena *arena, const struct script_type *type)
{
    return name_of(arena, type, 0);
}
