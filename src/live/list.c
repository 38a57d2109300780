/* -l: the places that trace points mean, one on a line. */
#include "base/escape.h"
#include "live/match.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

struct lines {
    VEC(char *) line;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- functions ---- */

static void put_arguments(FILE *out, struct live_file *file, const struct symbol_func *func)
{
    const struct symbol_dwarf_func *known;
    struct symbol_dwarf *dwarf = live_file_dwarf(file);
    struct err *error = dwarf ? symbol_dwarf_func_at(dwarf, func->va, &known) : NULL;
    for (size_t i = 0; dwarf && !error && i < known->param_count; i++) {
        fprintf(out, "\n    ");
        live_put_declaration(out, dwarf, known->params[i].type, known->params[i].name);
    }
    err_free(error);
}

/* "cpp:name(parameters)" for names that are not C's. */
static void put_function(FILE *out, const char *kind, const char *path, const struct symbol_func *func)
{
    if (func->demangled == func->name)
        fprintf(out, "%s:%s:%s", kind, path, func->name);
    else
        fprintf(out, "%s:%s:cpp:\"%s\"", kind, path, func->demangled);
}

static void add_functions(struct lines *lines, struct live_file *file, const struct script_point *point, bool verbose)
{
    const char *kind = point->kind == SCRIPT_P_UPROBE ? "uprobe" : "uretprobe";
    struct spec spec = {.text = (char *)point->text, .module = (char *)point->path, .function = (char *)point->function};
    size_t count;
    const struct symbol_func *func = symbol_file_funcs(file->symbols, &count);
    for (size_t i = 0; i < count; i++) {
        if (func[i].source == SYMBOL_FROM_EH_FRAME || !spec_matches_func(&spec, &func[i]))
            continue;
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        if (!out)
            return;
        put_function(out, kind, file->path, &func[i]);
        if (verbose)
            put_arguments(out, file, &func[i]);
        fclose(out);
        VEC_PUSH(&lines->line, text);
    }
}

/* ---- USDT ---- */

static void add_usdt(struct lines *lines, struct live_file *file, const struct script_point *point, bool verbose)
{
    size_t count = 0;
    const struct symbol_usdt_probe *probe = live_file_usdt(file) ? symbol_usdt_probes(file->usdt, &count) : NULL;
    for (size_t i = 0; i < count; i++) {
        if ((point->provider && fnmatch(point->provider, probe[i].provider, 0)) ||
            (point->function && fnmatch(point->function, probe[i].name, 0)))
            continue;
        bool shows = verbose && *probe[i].arguments;
        VEC_PUSH(&lines->line, memory_format("usdt:%s:%s:%s%s%s", file->path, probe[i].provider, probe[i].name, shows ? "\n    " : "",
                                             shows ? probe[i].arguments : ""));
    }
}

/* ---- all ---- */

static void add_point(struct lines *lines, struct live_files *files, const struct script_point *point, bool verbose)
{
    bool is_usdt = point->kind == SCRIPT_P_USDT;
    if (!is_usdt && point->kind != SCRIPT_P_UPROBE && point->kind != SCRIPT_P_URETPROBE) {
        VEC_PUSH(&lines->line, memory_text(point->text));
        return;
    }
    if (!is_usdt && !point->function) {
        VEC_PUSH(&lines->line, memory_text(point->text));
        return;
    }
    char *const *paths = live_paths(files, point->path ? point->path : "*");
    for (size_t i = 0; paths[i]; i++) {
        struct live_file *file = live_files_open(files, paths[i]);
        if (file && is_usdt)
            add_usdt(lines, file, point, verbose);
        else if (file)
            add_functions(lines, file, point, verbose);
    }
}

static void print_lines(struct lines *lines, FILE *out)
{
    const char *last = "";
    if (lines->line.n)
        qsort(lines->line.at, lines->line.n, sizeof *lines->line.at, by_text);
    for (size_t i = 0; i < lines->line.n; i++) {
        if (strcmp(lines->line.at[i], last)) {
            escape_lines(out, lines->line.at[i]);
            fputc('\n', out);
        }
        last = lines->line.at[i];
    }
}

struct err *live_list(const struct live_options *options, bool verbose, char **diagnostics)
{
    struct script_options parse = {.name = options->name, .arguments = options->arguments, .n_arguments = options->n_arguments};
    struct script_program *program = script_parse(options->text, options->length, &parse);
    struct live_files files = {.pid = options->pid, .n_pids = options->n_pids};
    struct lines lines = {0};
    *diagnostics = script_diagnostics(program);
    for (size_t i = 0; i < script_n_clauses(program) && !script_errors(program); i++)
        for (size_t k = 0; k < script_clause_at(program, i)->n_points; k++)
            add_point(&lines, &files, &script_clause_at(program, i)->points[k], verbose);
    print_lines(&lines, options->out);
    for (size_t i = 0; i < lines.line.n; i++)
        free(lines.line.at[i]);
    VEC_FREE(&lines.line);
    live_files_deinit(&files);
    script_destroy(program);
    return NULL;
}
