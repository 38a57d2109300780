#include "live/match.h"
#include "live/points.h"
#include "stream/stream.h"

#include <stdlib.h>
#include <string.h>

/* ---- compiling ---- */

static void take_trees(struct live_script *script)
{
    for (size_t i = 0; i < script->live_unit.n; i++)
        for (int model = 0; model < WIRE_MODELS; model++) {
            uint32_t context = script->live_unit.at[i].context[model];
            script->unit.at[i].checked[model] = context ? script->context.at[context - 1].checked : NULL;
        }
}

static uint32_t map_keys(const struct live_script *script, const struct live_options *options)
{
    unsigned long keys = strtoul(live_setting(script, NULL, "max_map_keys", "0"), NULL, 0);
    if (options->max_map_keys)
        return options->max_map_keys;
    return keys < 1u << 24 ? (uint32_t)keys : 1u << 24;
}

static struct err *compile(struct live_script *script, const struct live_options *options)
{
    struct stream_options stream = {
        .map_keys = map_keys(script, options), .has_child = options->command != NULL, .unsafe = options->unsafe};
    take_trees(script);
    ERR_TRY(stream_lower(script->program, script->unit.at, script->unit.n, &stream, &script->built));
    return stream_verify(script->built.stream, script->built.stream->bytes);
}

static bool check(struct live_script *script, const struct live_options *options)
{
    if (script_errors(script->program))
        return false;
    for (size_t i = 0; i < script_n_clauses(script->program); i++)
        live_add_clause(script, options, i);
    return !script_check(script->program, script->context.at, script->context.n);
}

/* 0: the script's config, or the default of script/, which is 0.26's. */
static unsigned max_strlen(const struct live_options *options)
{
    enum { OF_17 = 64 };
    return options->max_strlen ? options->max_strlen : options->dialect == PRINT_17 ? OF_17 : 0;
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
                                   .allow_unsafe = options->unsafe,
                                   .max_strlen = max_strlen(options)};
    *out = NULL;
    script->files.pid = options->pid;
    script->files.n_pids = options->n_pids;
    script->program = script_parse(options->text, options->length, &parse);
    bool good = check(script, options);
    *diagnostics = script_diagnostics(script->program);
    struct err *error = !good ? NULL : script->problem.n ? err_new(ERR_NO_MATCH, "%s", script->problem.at[0]) : compile(script, options);
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
    for (size_t i = 0; i < script->problem.n; i++)
        free(script->problem.at[i]);
    VEC_FREE(&script->spec);
    VEC_FREE(&script->spec_clause);
    VEC_FREE(&script->owned);
    VEC_FREE(&script->point);
    VEC_FREE(&script->unit);
    VEC_FREE(&script->context);
    stream_built_deinit(&script->built);
    script_destroy(script->program);
    for (size_t i = 0; i < script->env.n; i++)
        live_env_destroy(script->env.at[i]);
    VEC_FREE(&script->env);
    VEC_FREE(&script->live_unit);
    VEC_FREE(&script->problem);
    live_files_deinit(&script->files);
    free(script);
}
