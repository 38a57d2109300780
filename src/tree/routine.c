/* What the nodes are called. A routine has one number in a set, whatever trace numbers lead to it. */
#include "tree/internal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t text_number(struct tree_set *set, const char *text)
{
    return text ? names_number(&set->texts, text) : TRACE_NONE;
}

static const char *text_of(const struct tree_set *set, uint32_t number)
{
    return number == TRACE_NONE ? NULL : names_text(&set->texts, number);
}

static uint64_t hash_routine(const struct routine *key)
{
    uint64_t hash = key->kind;
    const uint32_t part[] = {key->name, key->module, key->kind == ROUTINE_LINE ? key->file : 0, key->kind == ROUTINE_LINE ? key->line : 0};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        hash = (hash ^ part[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

static bool is_same_routine(const struct routine *a, const struct routine *b)
{
    return a->kind == b->kind && a->name == b->name && a->module == b->module &&
           (a->kind != ROUTINE_LINE || (a->file == b->file && a->line == b->line));
}

static size_t find_slot(const struct tree_set *set, const struct routine *key)
{
    size_t at = hash_routine(key) & (set->routine_slots - 1);
    while (set->routine_slot[at] && !is_same_routine(&set->routines.at[set->routine_slot[at] - 1], key))
        at = (at + 1) & (set->routine_slots - 1);
    return at;
}

static void grow_slots(struct tree_set *set)
{
    free(set->routine_slot);
    set->routine_slots = set->routine_slots ? set->routine_slots * 2 : 64;
    set->routine_slot = memory_zero(set->routine_slots, sizeof *set->routine_slot);
    for (size_t i = 0; i < set->routines.n; i++)
        set->routine_slot[find_slot(set, &set->routines.at[i])] = (uint32_t)i + 1;
}

static uint32_t routine_number(struct tree_set *set, const struct routine *key)
{
    if (2 * (set->routines.n + 1) > set->routine_slots)
        grow_slots(set);
    size_t at = find_slot(set, key);
    if (!set->routine_slot[at]) {
        VEC_PUSH(&set->routines, *key);
        set->routine_slot[at] = (uint32_t)set->routines.n;
    }
    struct routine *routine = &set->routines.at[set->routine_slot[at] - 1];
    if (routine->file == TRACE_NONE) {
        routine->file = key->file;
        routine->line = key->line;
    }
    return set->routine_slot[at] - 1;
}

uint32_t tree_root_routine(struct tree_set *set, const char *name)
{
    struct routine key = {ROUTINE_ROOT, text_number(set, name), TRACE_NONE, TRACE_NONE, 0, TRACE_NONE};
    return routine_number(set, &key);
}

/* Keeps ids by number. Only numbers that have a definition come here, so memory grows with these. */
#define KEEP(vec, number, ids)                                                                                                             \
    do {                                                                                                                                   \
        while ((vec)->n <= (number))                                                                                                       \
            VEC_PUSH(vec, (struct tree_ids){TRACE_NONE, TRACE_NONE, false});                                                               \
        (vec)->at[number] = (ids);                                                                                                         \
    } while (0)

struct tree_ids tree_resolve_function(struct tree_set *set, uint32_t number)
{
    const struct tree_source *source = &set->source;
    const struct trace_function *function = source->function(source->context, number);
    if (!function)
        return (struct tree_ids){TRACE_NONE, TRACE_NONE, false};
    struct routine key = {ROUTINE_FUNCTION, text_number(set, function->name ? function->name : "[unknown]"),
                          TRACE_NONE,       text_number(set, function->file),
                          function->line,   number};
    /* What the source returned is gone with the next question. */
    uint32_t module_number = function->module;
    const struct trace_module *module = module_number == TRACE_NONE ? NULL : source->module(source->context, module_number);
    if (module)
        key.module = text_number(set, module->path);
    struct tree_ids ids = {.is_inlined = false};
    ids.ident = ids.routine = routine_number(set, &key);
    if (set->options.by == TREE_BY_MODULE) {
        const char *path = text_of(set, key.module);
        struct routine whole = {ROUTINE_MODULE, text_number(set, path ? path : "[no module]"), key.module, TRACE_NONE, 0, number};
        ids.routine = routine_number(set, &whole);
    }
    KEEP(&set->function_ids, number, ids);
    return ids;
}

/* The name of a line; NULL when the place is not known. */
static char *line_name(const struct tree_set *set, uint32_t function, const struct trace_frame *frame)
{
    if (!frame->file || !frame->line)
        return NULL;
    const char *slash = strrchr(frame->file, '/');
    return memory_format("%s (%s:%u)", text_of(set, set->routines.at[function].name), slash ? slash + 1 : frame->file, frame->line);
}

struct tree_ids tree_resolve_frame(struct tree_set *set, uint32_t number)
{
    const struct tree_source *source = &set->source;
    const struct trace_frame *frame = source->frame(source->context, number);
    if (!frame)
        return (struct tree_ids){TRACE_NONE, TRACE_NONE, false};
    bool is_inlined = frame->is_inlined;
    struct tree_ids ids = tree_function_ids(set, frame->function);
    if (ids.ident == TRACE_NONE)
        return ids;
    ids.is_inlined = is_inlined;
    if (set->options.by == TREE_BY_LINE) {
        frame = source->frame(source->context, number);
        char *name = frame ? line_name(set, ids.ident, frame) : NULL;
        if (name) {
            struct routine key = {
                ROUTINE_LINE, text_number(set, name), set->routines.at[ids.ident].module, text_number(set, frame->file), frame->line,
                number};
            ids.routine = routine_number(set, &key);
            free(name);
        }
    }
    KEEP(&set->frame_ids, number, ids);
    return ids;
}

void tree_routines_deinit(struct tree_set *set)
{
    names_deinit(&set->texts);
    VEC_FREE(&set->routines);
    free(set->routine_slot);
    VEC_FREE(&set->function_ids);
    VEC_FREE(&set->frame_ids);
}

/* ---- looking ---- */

const char *tree_routine(const struct tree_set *set, uint32_t routine)
{
    return routine < set->routines.n ? text_of(set, set->routines.at[routine].name) : NULL;
}

const char *tree_routine_module(const struct tree_set *set, uint32_t routine)
{
    return routine < set->routines.n ? text_of(set, set->routines.at[routine].module) : NULL;
}

const char *tree_routine_file(const struct tree_set *set, uint32_t routine, uint32_t *line)
{
    *line = routine < set->routines.n ? set->routines.at[routine].line : 0;
    return routine < set->routines.n ? text_of(set, set->routines.at[routine].file) : NULL;
}

size_t tree_routine_count(const struct tree_set *set)
{
    return set->routines.n;
}
