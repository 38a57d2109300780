/* What code processes map, and when: S1.2. Trees do not need it: with live trees it stays out of the trace. */
#include "record/run.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* The mapping that holds `va`, or the first one above it. */
static size_t place_of(const struct record_process *process, uint64_t va)
{
    size_t low = 0;
    for (size_t high = process->mapping.n; low < high;) {
        size_t middle = (low + high) / 2;
        if (process->mapping.at[middle].map.end_va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_same(const struct record_mapping *mapping, const struct target_map *map)
{
    return mapping->map.start_va == map->start_va && mapping->map.end_va == map->end_va && mapping->map.file_offset == map->file_offset &&
           !strcmp(mapping->module->path, map->path);
}

static void remove_at(struct record_run *run, struct record_process *process, size_t at, uint64_t time_ns)
{
    const struct target_map *map = &process->mapping.at[at].map;
    if (!run->trees)
        trace_define_unmapping(run->writer, time_ns, process->number, map->start_va, map->end_va);
    memmove(&process->mapping.at[at], &process->mapping.at[at + 1], (--process->mapping.n - at) * sizeof *process->mapping.at);
}

/* Memory of no file, as code is put into that is made while the program runs; ours is, too. */
static bool is_nothing(const char *path)
{
    return !path[0] || !strcmp(path, "//anon");
}

static const char *name_of(const struct target_map *map)
{
    return is_nothing(map->path) ? "[generated]" : map->path;
}

static void insert(struct record_run *run, struct record_process *process, const struct target_map *map, uint64_t time_ns)
{
    struct unwind_found found = {0};
    bool is_found = process->unwind && unwind_process_find(process->unwind, map->start_va, &found);
    if (process->unwind && !is_found && !process->has_ended && !is_nothing(map->path)) {
        err_free(unwind_process_refresh(process->unwind));
        is_found = unwind_process_find(process->unwind, map->start_va, &found);
    }
    struct record_mapping mapping = {.map = *map, .is_seen = true};
    mapping.module = record_module_of(run, name_of(map), is_found ? found.build_id : NULL, is_found ? found.build_id_size : 0);
    mapping.map.path = mapping.module->path;
    mapping.bias = found.bias;
    mapping.has_bias = is_found && found.has_table;
    struct trace_mapping definition = {.process = process->number,
                                       .module = mapping.module->number,
                                       .start_va = map->start_va,
                                       .end_va = map->end_va,
                                       .file_offset = map->file_offset,
                                       .from_ns = time_ns};
    if (!run->trees)
        trace_define_mapping(run->writer, &definition);
    size_t at = place_of(process, map->start_va);
    VEC_PUSH(&process->mapping, mapping);
    memmove(&process->mapping.at[at + 1], &process->mapping.at[at], (process->mapping.n - 1 - at) * sizeof mapping);
    process->mapping.at[at] = mapping;
}

static void add(struct record_run *run, struct record_process *process, const struct target_map *map, uint64_t time_ns)
{
    size_t at = place_of(process, map->start_va);
    if (at < process->mapping.n && is_same(&process->mapping.at[at], map)) {
        process->mapping.at[at].is_seen = true;
        return;
    }
    while (at < process->mapping.n && process->mapping.at[at].map.start_va < map->end_va)
        remove_at(run, process, at, time_ns);
    insert(run, process, map, time_ns);
}

void record_add_mapping(struct record_run *run, struct record_process *process, const struct sample_map *map, uint64_t time_ns)
{
    struct target_map as_map = {.start_va = map->start_va,
                                .end_va = map->end_va,
                                .file_offset = map->file_offset,
                                .inode = map->inode,
                                .readable = true,
                                .executable = true,
                                .path = is_nothing(map->path) ? "" : map->path};
    if (map->start_va >= map->end_va)
        return;
    /* Where the kernel gives a build-id it has no inode, and the process is asked: it may be gone. */
    if (process->unwind && (map->inode || is_nothing(map->path)))
        unwind_process_map(process->unwind, &as_map);
    else if (process->unwind)
        err_free(unwind_process_refresh(process->unwind));
    add(run, process, &as_map, time_ns);
}

void record_read_mappings(struct record_run *run, struct record_process *process, uint64_t time_ns)
{
    struct target_maps maps = {0};
    struct err *error = target_peek_maps((pid_t)process->pid, &maps);
    if (error || !maps.map.n) {
        err_free(error); /* it has ended: what it mapped stays known */
        target_maps_deinit(&maps);
        return;
    }
    for (size_t i = 0; i < process->mapping.n; i++)
        process->mapping.at[i].is_seen = false;
    for (size_t i = 0; i < maps.map.n; i++)
        if (maps.map.at[i].executable)
            add(run, process, &maps.map.at[i], time_ns);
    for (size_t i = process->mapping.n; i-- > 0;)
        if (!process->mapping.at[i].is_seen)
            remove_at(run, process, i, time_ns);
    target_maps_deinit(&maps);
}

void record_refresh_mappings(struct record_run *run)
{
    uint64_t now_ns = clock_now_ns();
    for (size_t i = 0; i < run->process.n; i++)
        if (!run->process.at[i]->has_ended)
            record_read_mappings(run, run->process.at[i], now_ns);
}

/* ---- addresses ---- */

/* Where no unwind table told it: by the segment of the file that lies there. */
static void find_bias(struct record_mapping *mapping)
{
    size_t count = 0;
    const struct symbol_segment *segment = mapping->module->file ? symbol_file_segments(mapping->module->file, &count) : NULL;
    for (size_t i = 0; i < count && !mapping->has_bias; i++) {
        uint64_t offset = mapping->map.file_offset, start = segment[i].file_offset & ~4095ull;
        if (!segment[i].executable || offset < start || offset >= segment[i].file_offset + segment[i].size)
            continue;
        mapping->bias = mapping->map.start_va - (segment[i].va + offset - segment[i].file_offset);
        mapping->has_bias = true;
    }
}

struct record_mapping *record_mapping_at(struct record_process *process, uint64_t va)
{
    size_t at = place_of(process, va);
    if (at == process->mapping.n || va < process->mapping.at[at].map.start_va)
        return NULL;
    struct record_mapping *mapping = &process->mapping.at[at];
    record_module_open(mapping->module, (pid_t)process->pid, &mapping->map);
    if (!mapping->has_bias)
        find_bias(mapping);
    return mapping;
}

void record_mappings_deinit(struct record_process *process)
{
    VEC_FREE(&process->mapping);
}
