#include "live/live.h"
#include "stream/stream.h"

#include <stdlib.h>
#include <string.h>

static bool in_host(enum script_point_kind kind)
{
    return kind == SCRIPT_P_BEGIN || kind == SCRIPT_P_END || kind == SCRIPT_P_INTERVAL || kind == SCRIPT_P_PROFILE ||
           kind == SCRIPT_P_SIGNAL;
}

/* ---- trace points ---- */

static void add_spec(struct live_script *script, const struct script_point *point, uint32_t unit)
{
    struct spec spec = {.text = memory_text(point->text),
                        .module = memory_text(point->path ? point->path : "*"),
                        .function = point->function ? memory_text(point->function) : NULL};
    if (point->has_address) {
        spec.point = SPEC_ADDRESS;
        spec.offset = point->address;
    } else if (point->kind == SCRIPT_P_URETPROBE) {
        spec.point = SPEC_RETURN;
    } else if (point->offset) {
        spec.point = SPEC_OFFSET;
        spec.offset = point->offset;
    }
    VEC_PUSH(&script->spec, spec);
    VEC_PUSH(&script->spec_clause, unit);
}

/* One unit for each clause: its trees and its points. */
static void add_clause(struct live_script *script, size_t index)
{
    const struct script_clause *clause = script_clause_at(script->program, index);
    uint32_t unit = (uint32_t)script->unit.n;
    bool host = true;
    const char **names = memory_alloc((clause->n_points + 1) * sizeof *names);
    for (size_t i = 0; i < clause->n_points; i++) {
        const struct script_point *point = &clause->points[i];
        names[i] = point->text;
        VEC_PUSH(&script->point, (struct live_point){point, unit});
        if (in_host(point->kind))
            continue;
        host = false;
        add_spec(script, point, unit);
    }
    VEC_PUSH(&script->owned, (char *)names);
    VEC_PUSH(&script->unit, (struct stream_unit){.points = names, .n_points = clause->n_points});
    VEC_PUSH(&script->context, (struct script_context){.clause = index, .model = SCRIPT_LP64});
    if (!host)
        VEC_PUSH(&script->context, (struct script_context){.clause = index, .model = SCRIPT_ILP32});
}

/* ---- compiling ---- */

static void take_trees(struct live_script *script)
{
    for (size_t i = 0; i < script->context.n; i++) {
        const struct script_context *context = &script->context.at[i];
        enum wire_model model = context->model == SCRIPT_LP64 ? WIRE_LP64 : WIRE_ILP32;
        script->unit.at[context->clause].checked[model] = context->checked;
    }
}

static uint32_t map_keys(const struct script_program *program)
{
    const char *text = script_config(program, "max_map_keys");
    unsigned long keys = text ? strtoul(text, NULL, 0) : 0;
    return keys < 1u << 24 ? (uint32_t)keys : 1u << 24;
}

static struct err *compile(struct live_script *script, const struct live_options *options)
{
    struct stream_options stream = {.map_keys = map_keys(script->program), .unsafe = options->unsafe};
    take_trees(script);
    ERR_TRY(stream_lower(script->program, script->unit.at, script->unit.n, &stream, &script->built));
    return stream_verify(script->built.stream, script->built.stream->bytes);
}

static bool check(struct live_script *script)
{
    if (script_errors(script->program))
        return false;
    for (size_t i = 0; i < script_n_clauses(script->program); i++)
        add_clause(script, i);
    return !script_check(script->program, script->context.at, script->context.n);
}

struct err *live_script_create(const struct live_options *options, struct live_script **out, char **diagnostics)
{
    struct live_script *script = memory_zero(1, sizeof *script);
    struct script_options parse = {.name = options->name,
                                   .arguments = options->arguments,
                                   .n_arguments = options->n_arguments,
                                   .include_dirs = options->include_dirs,
                                   .n_include_dirs = options->n_include_dirs,
                                   .include_files = options->include_files,
                                   .n_include_files = options->n_include_files,
                                   .allow_unsafe = options->unsafe};
    *out = NULL;
    script->program = script_parse(options->text, options->length, &parse);
    bool good = check(script);
    *diagnostics = script_diagnostics(script->program);
    struct err *error = good ? compile(script, options) : NULL;
    if (good && !error) {
        *out = script;
        return NULL;
    }
    live_script_destroy(script);
    return error;
}

void live_script_destroy(struct live_script *script)
{
    for (size_t i = 0; i < script->spec.n; i++)
        spec_deinit(&script->spec.at[i]);
    for (size_t i = 0; i < script->owned.n; i++)
        free(script->owned.at[i]);
    VEC_FREE(&script->spec);
    VEC_FREE(&script->spec_clause);
    VEC_FREE(&script->owned);
    VEC_FREE(&script->point);
    VEC_FREE(&script->unit);
    VEC_FREE(&script->context);
    stream_built_deinit(&script->built);
    script_destroy(script->program);
    free(script);
}
