#include "live/points.h"
#include "base/regular.h"
#include "symbol/address.h"
#include "target/target.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

bool live_runs_here(enum script_point_kind kind)
{
    return kind == SCRIPT_P_BEGIN || kind == SCRIPT_P_END || kind == SCRIPT_P_INTERVAL || kind == SCRIPT_P_SIGNAL;
}

/* ---- units ---- */

/* Where the names of a unit's symbols are looked for. */
struct symbol_home {
    struct live_script *script;
    const struct script_point *point;
};

/* For uaddr(): the file that the unit's trace points are in. Names of a file that was deleted are not looked up. */
static bool find_symbol(void *cookie, enum wire_model model, const char *name, uint64_t *va)
{
    const struct symbol_home *home = cookie;
    const char *path = home->point->path ? home->point->path : "";
    int width = model == WIRE_LP64 ? 64 : 32;
    struct live_files *files = &home->script->files;
    char *const *paths = live_paths(files, path);
    bool found = !live_path_has_width(files, path, width); /* then the clause never fires in that model */
    *va = 0;
    for (size_t i = 0; paths[i] && !found; i++)
        if (live_path_has_width(files, paths[i], width)) {
            struct err *error = symbol_address(paths[i], name, va);
            found = !error;
            err_free(error);
        }
    return found;
}

static uint32_t add_unit(struct live_script *script, size_t clause, const struct script_point *point)
{
    const char **name = memory_alloc(sizeof *name);
    *name = point->text;
    VEC_PUSH(&script->owned, name);
    struct symbol_home *home = memory_alloc(sizeof *home);
    *home = (struct symbol_home){script, point};
    VEC_PUSH(&script->owned, home);
    VEC_PUSH(&script->unit, (struct stream_unit){.points = name, .n_points = 1, .find_symbol = find_symbol, .cookie = home});
    VEC_PUSH(&script->live_unit, (struct live_unit){.clause = clause});
    VEC_PUSH(&script->point, (struct live_point){point, (uint32_t)script->unit.n - 1});
    return (uint32_t)script->unit.n - 1;
}

static void add_context(struct live_script *script, uint32_t unit, enum wire_model model, struct live_env *env)
{
    VEC_PUSH(&script->context, (struct script_context){.clause = script->live_unit.at[unit].clause,
                                                       .model = model == WIRE_LP64 ? SCRIPT_LP64 : SCRIPT_ILP32,
                                                       .env = env ? &env->env : NULL});
    if (env)
        VEC_PUSH(&script->env, env);
    script->live_unit.at[unit].context[model] = (uint32_t)script->context.n;
}

static struct spec *add_spec(struct live_script *script, const struct script_point *point, const char *module, uint32_t unit)
{
    VEC_PUSH(&script->spec, (struct spec){.text = memory_text(point->text), .module = memory_text(module)});
    VEC_PUSH(&script->spec_clause, unit);
    return &script->spec.at[script->spec.n - 1];
}

static void add_problem(struct live_script *script, struct err *error)
{
    VEC_PUSH(&script->problem, memory_text(error->message));
    err_free(error);
}

/* ---- functions and addresses ---- */

static const char *module_of(const struct script_point *point)
{
    return point->path ? point->path : "*";
}

/* What a clause may use that is another thing in another file: nothing, addresses of symbols, or what differs between functions, too. */
enum need { NEED_NOTHING, NEED_SYMBOLS, NEED_ARGUMENTS };

/* One unit for both models, of which each process takes its own. A clause that looks at arguments is only for models of which there is a
 * file: another model's arguments can not be known. */
static void add_function(struct live_script *script, size_t clause, const struct script_point *point, const char *module,
                         const char *function, enum need need)
{
    uint32_t unit = add_unit(script, clause, point);
    bool is_return = point->kind == SCRIPT_P_URETPROBE;
    struct spec *spec = add_spec(script, point, module, unit);
    spec->no_deleted = need != NEED_NOTHING;
    spec->function = function ? memory_text(function) : NULL;
    spec->offset = point->has_address ? point->address : point->offset;
    spec->point = point->has_address ? SPEC_ADDRESS : is_return ? SPEC_RETURN : point->offset ? SPEC_OFFSET : SPEC_ENTRY;
    for (int model = WIRE_MODELS; model-- > 0;) { /* what is wrong in both models is said of LP64 */
        int width = model == WIRE_LP64 ? 64 : 32;
        if (need != NEED_ARGUMENTS || live_path_has_width(&script->files, module, width))
            add_context(script, unit, model,
                        live_env_create(&script->files, module, width, point->text, function, spec->offset, point->has_address, is_return));
    }
}

static bool has_function(struct live_files *files, const char *path, const struct script_point *point, const char *function)
{
    struct live_file *file = live_files_open(files, path);
    struct spec spec = {.text = (char *)point->text, .module = (char *)path, .function = (char *)function};
    size_t count = 0;
    const struct symbol_func *func = file ? symbol_file_funcs(file->symbols, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        if (!function || spec_matches_func(&spec, &func[i]))
            return true;
    return false;
}

/* A unit of its own for each file that was deleted, because the arguments are those of that file. */
static void add_known_function(struct live_script *script, size_t clause, const struct script_point *point, const char *function)
{
    char *const *paths = live_paths(&script->files, module_of(point));
    size_t others = 0, added = 0;
    for (size_t i = 0; paths[i]; i++) {
        if (!regular_is_deleted(paths[i])) {
            others++;
        } else if (has_function(&script->files, paths[i], point, function)) {
            add_function(script, clause, point, paths[i], function, NEED_ARGUMENTS);
            added++;
        }
    }
    if (others || !added)
        add_function(script, clause, point, module_of(point), function, NEED_ARGUMENTS);
}

static enum need find_need(const struct live_options *options, const struct script_clause *clause)
{
    const char *text = options->text + clause->span.begin;
    size_t length = clause->span.end - clause->span.begin;
    if (clause->span.file || clause->span.end > options->length)
        return NEED_NOTHING;
    return memmem(text, length, "args", 4) ? NEED_ARGUMENTS : memmem(text, length, "uaddr", 5) ? NEED_SYMBOLS : NEED_NOTHING;
}

/* A pattern for functions, with a clause that looks at their arguments: each function by itself. */
static void add_each_function(struct live_script *script, size_t clause, const struct script_point *point)
{
    enum { MOST = 2000 };
    struct spec pattern = {.text = (char *)point->text, .module = (char *)module_of(point), .function = (char *)point->function};
    char *const *paths = live_paths(&script->files, module_of(point));
    size_t added = 0;
    const char *last = "";
    for (size_t p = 0; paths[p]; p++) {
        struct live_file *file = live_files_open(&script->files, paths[p]);
        size_t count = 0;
        const struct symbol_func *func = file ? symbol_file_funcs(file->symbols, &count) : NULL;
        for (size_t i = 0; i < count && added < MOST; i++) {
            if (!spec_matches_func(&pattern, &func[i]) || !strcmp(func[i].name, last))
                continue;
            add_function(script, clause, point, regular_is_deleted(paths[p]) ? paths[p] : module_of(point), func[i].name, NEED_ARGUMENTS);
            last = func[i].name;
            added++;
        }
    }
    if (!added)
        add_known_function(script, clause, point, point->function);
}

/* ---- lines ---- */

static void add_address(struct live_script *script, size_t clause, const struct script_point *point, struct live_file *file, uint64_t va)
{
    uint32_t unit = add_unit(script, clause, point);
    int width = symbol_file_width(file->symbols);
    struct spec *spec = add_spec(script, point, file->path, unit);
    spec->no_deleted = true;
    spec->point = SPEC_ADDRESS;
    spec->offset = va;
    spec->label = memory_text(point->text);
    add_context(script, unit, width == 64 ? WIRE_LP64 : WIRE_ILP32,
                live_env_create(&script->files, file->path, width, point->text, NULL, va, true, false));
}

static void add_line(struct live_script *script, size_t clause, const struct script_point *point)
{
    char *const *paths = live_paths(&script->files, module_of(point));
    struct err *problem = paths[0] ? NULL : err_new(ERR_NO_MATCH, "%s: no such file", point->text);
    size_t added = 0;
    for (size_t i = 0; paths[i]; i++) {
        struct live_file *file = live_files_open(&script->files, paths[i]);
        const struct symbol_line *line;
        size_t count = 0;
        if (!file || !live_file_dwarf(file)) {
            if (!problem)
                problem = err_new(ERR_NO_MATCH, "%s: %s has no debug info", point->text, paths[i]);
            continue;
        }
        struct err *error = symbol_dwarf_line_places(file->dwarf, point->file, point->line, &line, &count);
        for (size_t k = 0; !error && k < count; k++, added++)
            add_address(script, clause, point, file, line[k].va);
        if (error && !problem)
            problem = error;
        else
            err_free(error);
    }
    if (!added && problem)
        add_problem(script, problem);
    else
        err_free(problem);
}

/* ---- USDT ---- */

static void add_site(struct live_script *script, size_t clause, const struct script_point *point, struct live_file *file,
                     const struct symbol_usdt_probe *probe)
{
    uint32_t unit = add_unit(script, clause, point);
    int width = symbol_file_width(file->symbols);
    enum wire_model model = width == 64 ? WIRE_LP64 : WIRE_ILP32;
    struct spec *spec = add_spec(script, point, file->path, unit);
    spec->no_deleted = true;
    spec->point = SPEC_ADDRESS;
    spec->offset = probe->va;
    spec->semaphore_va = probe->semaphore_va;
    spec->label = memory_format("usdt:%s:%s:%s", file->path, probe->provider, probe->name);
    struct stream_location *location = memory_zero(probe->arg_count + 1, sizeof *location);
    for (size_t i = 0; i < probe->arg_count; i++)
        live_usdt_location(&probe->args[i], width, &location[i]);
    VEC_PUSH(&script->owned, location);
    script->unit.at[unit].args[model] = location;
    script->unit.at[unit].n_args[model] = probe->arg_count;
    add_context(script, unit, model, live_env_create(&script->files, file->path, width, point->text, NULL, probe->va, true, false));
}

static bool matches(const char *pattern, const char *text)
{
    return !pattern || !fnmatch(pattern, text, 0);
}

static size_t add_sites(struct live_script *script, size_t clause, const struct script_point *point, const char *path)
{
    struct live_file *file = live_files_open(&script->files, path);
    size_t count = 0, added = 0;
    const struct symbol_usdt_probe *probe = file && live_file_usdt(file) ? symbol_usdt_probes(file->usdt, &count) : NULL;
    for (size_t i = 0; i < count; i++) {
        if (!matches(point->provider, probe[i].provider) || !matches(point->function, probe[i].name))
            continue;
        add_site(script, clause, point, file, &probe[i]);
        added++;
    }
    return added;
}

/* Without a path: the files of the processes that are traced. */
static size_t add_sites_of_process(struct live_script *script, size_t clause, const struct script_point *point, pid_t pid)
{
    target_paths paths = {0};
    size_t added = 0;
    target_executable_files(pid, &paths);
    for (size_t i = 0; i < paths.n; i++)
        added += add_sites(script, clause, point, paths.at[i]);
    target_paths_deinit(&paths);
    return added;
}

static void add_usdt(struct live_script *script, const struct live_options *options, size_t clause, const struct script_point *point)
{
    size_t added = 0;
    if (point->path && strcmp(point->path, "*")) {
        char *const *paths = live_paths(&script->files, point->path);
        for (size_t i = 0; paths[i]; i++)
            added += add_sites(script, clause, point, paths[i]);
    } else {
        for (size_t i = 0; i < options->n_pids; i++)
            added += add_sites_of_process(script, clause, point, options->pid[i]);
    }
    if (!added)
        add_problem(script, err_new(ERR_NO_MATCH, "%s: no such USDT probe", point->text));
}

/* ---- clauses ---- */

/* Which models the sampled processes have shows when they are sampled. */
static void add_profile(struct live_script *script, size_t clause, const struct script_point *point)
{
    uint32_t unit = add_unit(script, clause, point);
    for (int model = 0; model < WIRE_MODELS; model++)
        add_context(script, unit, model, NULL);
}

void live_add_clause(struct live_script *script, const struct live_options *options, size_t index)
{
    const struct script_clause *clause = script_clause_at(script->program, index);
    enum need need = find_need(options, clause);
    for (size_t i = 0; i < clause->n_points; i++) {
        const struct script_point *point = &clause->points[i];
        if (point->kind == SCRIPT_P_PROFILE)
            add_profile(script, index, point);
        else if (live_runs_here(point->kind))
            add_context(script, add_unit(script, index, point), WIRE_LP64, NULL);
        else if (point->kind == SCRIPT_P_USDT)
            add_usdt(script, options, index, point);
        else if (point->file)
            add_line(script, index, point);
        else if (point->function && strpbrk(point->function, "*?[") && need == NEED_ARGUMENTS)
            add_each_function(script, index, point);
        else if (need == NEED_ARGUMENTS)
            add_known_function(script, index, point, point->function);
        else
            add_function(script, index, point, module_of(point), point->function, need);
    }
}
