#include "live/match.h"
#include "base/escape.h"
#include "target/target.h"

#include <stdlib.h>
#include <string.h>

const char *live_setting(const struct live_script *script, const char *given, const char *name, const char *otherwise)
{
    const char *value = given ? given : script_config(script->program, name);
    return value ? value : otherwise;
}

static bool is_pattern(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

/* ---- files ---- */

/* Those that the traced processes have mapped already, else those that the name means. */
static void find_paths(struct live_files *files, const struct live_options *options, const struct spec *spec, target_paths *out)
{
    target_paths mapped = {0};
    for (size_t i = 0; i < options->n_pids; i++)
        target_executable_files(options->pid[i], &mapped);
    for (size_t i = 0; i < mapped.n; i++)
        if (spec_matches_module(spec, mapped.at[i]))
            VEC_PUSH(out, memory_text(mapped.at[i]));
    target_paths_deinit(&mapped);
    if (out->n)
        return;
    char *const *paths = live_paths(files, spec->module);
    for (size_t i = 0; paths[i]; i++)
        VEC_PUSH(out, memory_text(paths[i]));
}

static size_t count_functions(const struct spec *spec, const struct live_file *file)
{
    size_t count, found = 0;
    const struct symbol_func *func = symbol_file_funcs(file->symbols, &count);
    for (size_t i = spec_next_match(spec, func, count, 0); i < count; i = spec_next_match(spec, func, count, i + 1))
        found += !i || strcmp(func[i - 1].name, func[i].name); /* several versions of a function are one */
    return found && !is_pattern(spec->function) ? 1 : found;
}

/* ---- trace points ---- */

/* *known false: what it means shows only in the processes. */
static struct err *match_spec(struct live_script *script, const struct live_options *options, const struct spec *spec, size_t *found,
                              bool *known)
{
    *found = 0;
    *known = strcmp(spec->module, "*") != 0;
    if (!*known)
        return NULL;
    target_paths paths = {0};
    find_paths(&script->files, options, spec, &paths);
    if (!paths.n && !strchr(spec->module, '/')) {
        *known = false; /* a library that only the program knows where to find */
        return NULL;
    }
    struct err *problem = paths.n ? NULL : err_new(ERR_NO_MATCH, "No probes to attach: %s: no such file", spec->text);
    for (size_t i = 0; i < paths.n; i++) {
        struct live_file *file = live_files_open(&script->files, paths.at[i]);
        if (!file && !options->n_pids && !problem) {
            problem = err_new(ERR_FILE, "No probes to attach: %s: %s is no program or library that can be read", spec->text, paths.at[i]);
        } else if (!file || !spec->function) {
            *found += 1;
        } else {
            size_t here = count_functions(spec, file);
            char *near = here || problem ? NULL : spec_near_names(spec, file->symbols);
            *found += here;
            if (!here && !problem)
                problem = err_new(ERR_NO_MATCH, "No probes to attach: %s: %s has no function %s%s%s", spec->text, paths.at[i],
                                  spec->function, near ? "; did you mean " : "", near ? near : "");
            free(near);
        }
    }
    target_paths_deinit(&paths);
    if (!*found)
        return problem;
    err_free(problem);
    return NULL;
}

struct err *live_match(struct live_script *script, const struct live_options *options, uint64_t *places)
{
    const char *missing = live_setting(script, options->missing_probes, "missing_probes", "error");
    bool is_error = !strcmp(missing, "error"), is_warning = !strcmp(missing, "warn") && !options->no_warnings;
    size_t matched = 0;
    *places = 0;
    for (size_t i = 0; i < script->spec.n; i++) {
        size_t found;
        bool known;
        struct err *error = match_spec(script, options, &script->spec.at[i], &found, &known);
        if (error && is_error)
            return error;
        if (error && is_warning) {
            fputs("WARNING: ", stderr);
            escape_plain(stderr, error->message);
            fputc('\n', stderr);
        }
        err_free(error);
        matched += found || !known;
        *places += found;
    }
    bool has_others = script->point.n > script->spec.n;
    return script->spec.n && !matched && !has_others ? err_new(ERR_NO_MATCH, "No probes to attach") : NULL;
}
