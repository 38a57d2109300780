#include "live/env.h"

#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

enum { NESTING_MOST = 32 };

static const struct script_type *convert(struct live_env *env, struct script_types *types, const struct symbol_type *type, unsigned depth);

static const char *record_name(struct live_env *env, const struct symbol_type *type)
{
    return type->name ? arena_format(&env->arena, "%s %s", type->kind == SYMBOL_TYPE_UNION ? "union" : "struct", type->name) : NULL;
}

static const struct script_type *convert_record(struct live_env *env, struct script_types *types, const struct symbol_type *type,
                                                unsigned depth)
{
    const char *name = record_name(env, type);
    const struct script_type *known = name ? script_types_find(types, name) : NULL;
    const struct symbol_member *member;
    size_t count;
    if (known && known->kind == SCRIPT_T_RECORD && known->record->is_complete)
        return known;
    const struct script_type *record = script_record_open(types, name, type->kind == SYMBOL_TYPE_UNION);
    struct err *error = symbol_dwarf_members(env->file->dwarf, type, &member, &count);
    if (error) {
        err_free(error);
        return record; /* declared only */
    }
    struct script_field *field = memory_zero(count + 1, sizeof *field);
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const struct script_type *of = convert(env, types, member[i].type, depth + 1);
        if (!of || !of->bytes)
            continue;
        field[n++] = (struct script_field){.name = member[i].name,
                                           .type = of,
                                           .offset = member[i].offset_bytes,
                                           .bit_offset = member[i].bit_offset,
                                           .bit_size = member[i].bit_size};
    }
    bool closed = script_record_close(types, record, field, n, false, 0, type->size_bytes);
    free(field);
    return closed ? record : NULL;
}

/* What a pointer leads to: a record is made when one of its members is asked for. */
static const struct script_type *convert_behind(struct live_env *env, struct script_types *types, const struct symbol_type *type,
                                                unsigned depth)
{
    const struct symbol_type *to;
    struct err *error = symbol_dwarf_target(env->file->dwarf, type, &to);
    if (error) {
        err_free(error);
        return script_type_plain(types, SCRIPT_T_VOID);
    }
    to = symbol_dwarf_resolve(env->file->dwarf, to);
    bool is_record = to->kind == SYMBOL_TYPE_STRUCT || to->kind == SYMBOL_TYPE_UNION;
    if (is_record && to->name) {
        const char *name = record_name(env, to);
        const struct script_type *known = script_types_find(types, name);
        return known ? known : script_record_open(types, name, to->kind == SYMBOL_TYPE_UNION);
    }
    const struct script_type *found = convert(env, types, to, depth + 1);
    return found ? found : script_type_plain(types, SCRIPT_T_VOID);
}

static const struct script_type *convert_enum(struct live_env *env, struct script_types *types, const struct symbol_type *type)
{
    const struct symbol_enumerator *list;
    size_t count = 0;
    struct err *error = symbol_dwarf_enumerators(env->file->dwarf, type, &list, &count);
    struct arena *arena = script_types_arena(types);
    struct script_constant *constants = arena_alloc(arena, (count + 1) * sizeof *constants);
    for (size_t i = 0; !error && i < count; i++)
        constants[i] = (struct script_constant){arena_text(arena, list[i].name, strlen(list[i].name)), list[i].value};
    struct script_enum *of = arena_alloc(arena, sizeof *of);
    *of = (struct script_enum){type->name ? arena_format(arena, "enum %s", type->name) : "enum", constants, error ? 0 : count};
    err_free(error);
    unsigned bytes = type->size_bytes ? (unsigned)type->size_bytes : 4;
    return script_type_enum(types, bytes, type->is_signed, of);
}

static const struct script_type *convert(struct live_env *env, struct script_types *types, const struct symbol_type *type, unsigned depth)
{
    if (depth > NESTING_MOST)
        return NULL;
    type = symbol_dwarf_resolve(env->file->dwarf, type);
    unsigned bytes = type->size_bytes <= 16 ? (unsigned)type->size_bytes : 0;
    const struct script_type *of;
    switch (type->kind) {
    case SYMBOL_TYPE_VOID:
        return script_type_plain(types, SCRIPT_T_VOID);
    case SYMBOL_TYPE_BOOL:
        return script_type_plain(types, SCRIPT_T_BOOL);
    case SYMBOL_TYPE_CHAR:
        return bytes == 1 && type->name && !strcmp(type->name, "char") ? script_type_char(types)
                                                                       : script_type_int(types, bytes ? bytes : 1, type->is_signed);
    case SYMBOL_TYPE_INT:
        return bytes ? script_type_int(types, bytes, type->is_signed) : NULL;
    case SYMBOL_TYPE_FLOAT:
        return type->is_float128 ? NULL : script_type_double(types, bytes);
    case SYMBOL_TYPE_ENUM:
        return convert_enum(env, types, type);
    case SYMBOL_TYPE_POINTER:
        return script_type_pointer(types, convert_behind(env, types, type, depth));
    case SYMBOL_TYPE_ARRAY:
        of = convert(env, types, type->target, depth + 1);
        return of && of->bytes ? script_type_array(types, of, type->is_open ? SCRIPT_FLEXIBLE : type->count) : NULL;
    case SYMBOL_TYPE_STRUCT:
    case SYMBOL_TYPE_UNION:
        return convert_record(env, types, type, depth);
    case SYMBOL_TYPE_FUNCTION:
        return script_type_plain(types, SCRIPT_T_FUNCTION);
    default:
        return NULL;
    }
}

/* ---- the place ---- */

static bool find_file(struct live_env *env)
{
    if (!env->looked_for_file)
        env->file = live_files_find(env->files, env->path, env->width);
    env->looked_for_file = true;
    return env->file && live_file_dwarf(env->file);
}

/* The address of the place, by the function's name. */
static bool find_place(struct live_env *env)
{
    const uint64_t *entry;
    size_t count;
    if (!find_file(env))
        return false;
    if (env->has_va)
        return true;
    if (!env->function)
        return false;
    struct err *error = symbol_dwarf_entries(env->file->dwarf, env->function, &entry, &count);
    if (error || !count) {
        err_free(error);
        return false;
    }
    env->va = entry[0] + env->offset;
    env->has_va = true;
    return true;
}

static bool make_argument(struct live_env *env, struct script_types *types, const struct symbol_variable *variable,
                          struct script_argument *out)
{
    const struct script_type *type = convert(env, types, variable->type, 0);
    if (!type)
        return false;
    struct stream_location *location = arena_alloc(&env->arena, sizeof *location);
    live_location(&variable->location, env->width, type->bytes, location);
    *out = (struct script_argument){arena_text(&env->arena, variable->name, strlen(variable->name)), type, (uintptr_t)location};
    return true;
}

/* ---- what the checker asks ---- */

static size_t list_arguments(void *cookie, struct script_types *types, const struct script_argument **list)
{
    struct live_env *env = cookie;
    const struct symbol_dwarf_func *func;
    *list = env->arguments;
    if (env->has_arguments)
        return env->n_arguments;
    env->has_arguments = true;
    struct err *error = find_place(env) ? symbol_dwarf_func_at(env->file->dwarf, env->va, &func) : NULL;
    if (!env->has_va || error) {
        err_free(error);
        return 0;
    }
    struct script_argument *found = arena_alloc(&env->arena, (func->param_count + 1) * sizeof *found);
    for (size_t i = 0; i < func->param_count; i++)
        env->n_arguments += make_argument(env, types, &func->params[i], &found[env->n_arguments]);
    *list = env->arguments = found;
    return env->n_arguments;
}

static bool find_local(void *cookie, struct script_types *types, const char *name, struct script_argument *out)
{
    struct live_env *env = cookie;
    const struct symbol_variable *variable;
    size_t count;
    if (!find_place(env))
        return false;
    struct err *error = symbol_dwarf_locals(env->file->dwarf, env->va, &variable, &count);
    if (error) {
        err_free(error);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        if (!strcmp(variable[i].name, name))
            return make_argument(env, types, &variable[i], out);
    return false;
}

static const struct script_type *find_type(void *cookie, struct script_types *types, const char *name)
{
    struct live_env *env = cookie;
    const struct symbol_type *type;
    if (!find_file(env))
        return NULL;
    struct err *error = symbol_dwarf_type(env->file->dwarf, name, &type);
    if (error) {
        err_free(error);
        return NULL;
    }
    return convert(env, types, type, 0);
}

static const struct script_type *find_retval(void *cookie, struct script_types *types)
{
    struct live_env *env = cookie;
    const struct symbol_dwarf_func *func;
    if (!find_place(env))
        return NULL;
    struct err *error = symbol_dwarf_func_at(env->file->dwarf, env->va, &func);
    if (error) {
        err_free(error);
        return NULL;
    }
    const struct script_type *type = convert(env, types, func->result, 0);
    bool is_scalar = type && (type->kind == SCRIPT_T_INT || type->kind == SCRIPT_T_BOOL || type->kind == SCRIPT_T_POINTER ||
                              (type->kind == SCRIPT_T_DOUBLE && type->bytes <= 8));
    return is_scalar ? type : NULL;
}

/* ---- life ---- */

struct live_env *live_env_create(struct live_files *files, const char *path, int width, const char *name, const char *function,
                                 uint64_t offset, bool is_address, bool is_return)
{
    struct live_env *env = memory_zero(1, sizeof *env);
    env->files = files;
    env->path = memory_text(path);
    env->width = width;
    env->function = function ? memory_text(function) : NULL;
    env->offset = is_address ? 0 : offset;
    env->va = offset;
    env->has_va = is_address;
    env->is_return = is_return;
    env->env = (struct script_env){.cookie = env,
                                   .name = name,
                                   .arguments = is_return ? NULL : list_arguments,
                                   .local = is_return ? NULL : find_local,
                                   .type = find_type,
                                   .retval = is_return ? find_retval : NULL};
    return env;
}

void live_env_destroy(struct live_env *env)
{
    arena_deinit(&env->arena);
    free(env->path);
    free(env->function);
    free(env);
}
