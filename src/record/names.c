/* Modules, functions and frames: from addresses to definitions of the trace, each made once. */
#include "record/run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is known of an address. */
struct record_cell {
    uint64_t key;          /* 0: free */
    uint32_t first, count; /* frames: in the module's list; a function: its number */
};
/* So many places of a module are remembered. */
enum { FRAMES_MOST = 1 << 15 };

/* ---- tables ---- */

/* The cell of the key, or a free one. */
static struct record_cell *cell_of(const struct record_table *table, uint64_t key)
{
    size_t at = key * 0x9e3779b97f4a7c15u >> 32 & (table->room - 1);
    while (table->cell[at].key && table->cell[at].key != key)
        at = (at + 1) & (table->room - 1);
    return &table->cell[at];
}

/* The same, with room for one more. */
static struct record_cell *cell_to_fill(struct record_table *table, uint64_t key)
{
    struct record_table old = *table;
    if (old.count * 2 < old.room)
        return cell_of(table, key);
    table->room = old.room ? old.room * 2 : 64;
    table->cell = memory_zero(table->room, sizeof *table->cell);
    for (size_t i = 0; i < old.room; i++)
        if (old.cell[i].key)
            *cell_of(table, old.cell[i].key) = old.cell[i];
    free(old.cell);
    return cell_of(table, key);
}

/* ---- modules ---- */

struct record_module *record_module_of(struct record_run *run, const char *path, const uint8_t *build_id, size_t build_id_bytes)
{
    for (size_t i = 0; i < run->module.n; i++) {
        struct record_module *module = run->module.at[i];
        if (module->build_id_bytes == build_id_bytes && !strcmp(module->path, path) &&
            (!build_id_bytes || !memcmp(module->build_id, build_id, build_id_bytes)))
            return module;
    }
    struct record_module *module = memory_zero(1, sizeof *module);
    module->path = memory_text(path);
    if (build_id_bytes) {
        module->build_id = memory_alloc(build_id_bytes);
        module->build_id_bytes = build_id_bytes;
        memcpy(module->build_id, build_id, build_id_bytes);
    }
    struct trace_module definition = {path, module->build_id, (uint32_t)build_id_bytes};
    module->number = record_define_module(run, &definition);
    VEC_PUSH(&run->module, module);
    return module;
}

/* A file that was replaced since it was mapped would give wrong names. */
static bool is_the_one(const struct record_module *module)
{
    size_t size;
    const uint8_t *build_id = symbol_file_build_id(module->file, &size);
    return !module->build_id_bytes || (size == module->build_id_bytes && !memcmp(build_id, module->build_id, size));
}

static void open_fd(struct record_module *module, int fd)
{
    err_free(symbol_file_open_fd(fd, module->path, &module->file));
    if (module->file && is_the_one(module))
        err_free(symbol_dwarf_open_fd(fd, module->path, &module->dwarf));
}

void record_module_open(struct record_module *module, pid_t pid, const struct target_map *map)
{
    int fd = -1;
    if (module->is_opened)
        return;
    module->is_opened = true;
    if (module->path[0] == '[')
        return;
    if (pid)
        err_free(target_peek_file(pid, map, &fd));
    if (fd >= 0) {
        open_fd(module, fd);
        close(fd);
    } else {
        err_free(symbol_file_open(module->path, &module->file));
        if (module->file && is_the_one(module))
            err_free(symbol_dwarf_open(module->path, &module->dwarf));
    }
    if (module->file && !is_the_one(module)) {
        symbol_file_close(module->file);
        module->file = NULL;
    }
}

/* ---- functions ---- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static uint32_t define_function(struct record_run *run, struct record_module *module, uint64_t va, const char *name)
{
    struct record_cell *cell = cell_to_fill(&module->functions, va + 1);
    if (cell->key)
        return cell->first;
    struct symbol_line line = {0};
    if (module->dwarf)
        err_free(symbol_dwarf_line_at(module->dwarf, va, &line));
    struct trace_function definition = {.module = module->number, .offset = va, .name = name, .file = line.path, .line = line.line};
    *cell = (struct record_cell){va + 1, record_define_function(run, &definition), 1};
    module->functions.count++;
    return cell->first;
}

uint32_t record_function_at(struct record_run *run, struct record_module *module, uint64_t va)
{
    const struct symbol_func *func = module->file ? symbol_file_func_at(module->file, va) : NULL;
    if (func && func->is_fragment) {
        const struct symbol_func *whole = symbol_file_func_at(module->file, func->parent_va);
        func = whole ? whole : func;
    }
    if (func)
        return define_function(run, module, func->va, symbol_file_usual_name(module->file, func)->demangled);
    char name[512];
    bool is_no_file = module->path[0] == '[';
    if (is_no_file)
        snprintf(name, sizeof name, "%s", module->path);
    else
        snprintf(name, sizeof name, "[%s+0x%llx]", last_part(module->path), (unsigned long long)va);
    return define_function(run, module, is_no_file ? 0 : va, name);
}

/* The module as load/ knows it: by path. */
uint32_t record_function_of_row(struct record_run *run, const struct load_row *row)
{
    struct record_module *module = NULL;
    for (size_t i = run->module.n; i-- > 0 && !module;)
        if (!strcmp(run->module.at[i]->path, row->module))
            module = run->module.at[i];
    if (!module)
        module = record_module_of(run, row->module, NULL, 0);
    record_module_open(module, 0, NULL);
    bool has_name = module->file && symbol_file_func_at(module->file, row->va);
    return has_name ? record_function_at(run, module, row->va) : define_function(run, module, row->va, row->function);
}

/* ---- frames ---- */

static void forget_frames(struct record_module *module)
{
    memset(module->frames.cell, 0, module->frames.room * sizeof *module->frames.cell);
    module->frames.count = module->frame.n = 0;
}

/* A function that is inlined: the same as its out-of-line copy, where there is one. */
static uint32_t inlined_function(struct record_run *run, struct record_module *module, const struct symbol_inline *inlined)
{
    const struct symbol_func *copy = inlined->copy_va && module->file ? symbol_file_func_at(module->file, inlined->copy_va) : NULL;
    if (copy && copy->va == inlined->copy_va)
        return record_function_at(run, module, copy->va);
    struct trace_function definition = {.module = module->number,
                                        .name = inlined->name ? inlined->name : "[inlined]",
                                        .file = inlined->declared_path,
                                        .line = inlined->declared_line};
    return record_define_function(run, &definition);
}

/* Adds the frames of a place to the module's list. `va` is what frames are said to be at, `meant_va` what is looked up. */
static void define_frames(struct record_run *run, struct record_module *module, uint64_t va, uint64_t meant_va)
{
    struct symbol_inline inlines[SYMBOL_INLINES_MAX];
    size_t count = module->dwarf ? symbol_dwarf_inlines(module->dwarf, meant_va, inlines) : 0;
    if (!count)
        inlines[count++] = (struct symbol_inline){0};
    for (size_t i = 0; i < count; i++) {
        const struct symbol_inline *at = &inlines[i];
        struct trace_frame frame = {.offset = va, .file = at->path, .line = at->line, .is_inlined = at->is_inlined};
        frame.function = at->is_inlined ? inlined_function(run, module, at) : record_function_at(run, module, meant_va);
        VEC_PUSH(&module->frame, record_define_frame(run, &frame));
    }
}

const uint32_t *record_frames_at(struct record_run *run, struct record_module *module, uint64_t va, bool is_after, size_t *count)
{
    if (module->frames.count >= FRAMES_MOST)
        forget_frames(module);
    struct record_cell *cell = cell_to_fill(&module->frames, (va << 1 | is_after) + 1);
    if (!cell->key) {
        size_t first = module->frame.n;
        define_frames(run, module, va, is_after ? va - 1 : va);
        *cell = (struct record_cell){(va << 1 | is_after) + 1, (uint32_t)first, (uint32_t)(module->frame.n - first)};
        module->frames.count++;
    }
    *count = cell->count;
    return module->frame.at + cell->first;
}

uint32_t record_unknown_frame(struct record_run *run, const char *name)
{
    struct trace_function function = {.module = TRACE_NONE, .name = name};
    struct trace_frame frame = {.function = record_define_function(run, &function)};
    return record_define_frame(run, &frame);
}

void record_names_deinit(struct record_run *run)
{
    for (size_t i = 0; i < run->module.n; i++) {
        struct record_module *module = run->module.at[i];
        symbol_file_close(module->file);
        symbol_dwarf_close(module->dwarf);
        free(module->path);
        free(module->build_id);
        free(module->frames.cell);
        free(module->functions.cell);
        VEC_FREE(&module->frame);
        free(module);
    }
    VEC_FREE(&run->module);
}
