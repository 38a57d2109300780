#include "load/internal.h"

#include "base/clock.h"
#include "load/agent_blob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

/* A file by what tells it from every other, also from one that took its place or was written over it. */
struct cached_file {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed, modified;
    uint8_t *image; /* of the kernel's code, which each process can write for itself: all of it, `size` bytes; else NULL */
    struct load_code *code;
};

struct load_cache {
    VEC(struct cached_file) file;
};

struct load_cache *load_cache_create(void)
{
    return memory_zero(1, sizeof(struct load_cache));
}

void load_cache_destroy(struct load_cache *cache)
{
    if (!cache)
        return;
    for (size_t i = 0; i < cache->file.n; i++) {
        load_code_destroy(cache->file.at[i].code);
        free(cache->file.at[i].image);
    }
    VEC_FREE(&cache->file);
    free(cache);
}

/* The kernel's code has no file: one is made of it. */
static struct err *copy_image(struct load_process *process, const struct load_module *module, int *fd)
{
    size_t size = module->end_va - module->start_va;
    uint8_t *bytes = memory_alloc(size);
    struct err *error = target_read(process->target, module->start_va, bytes, size);
    *fd = error ? -1 : memfd_create("vdso", MFD_CLOEXEC);
    if (!error && (*fd < 0 || write(*fd, bytes, size) != (ssize_t)size)) {
        error = err_errno(ERR_SYSTEM, errno, "%s: copy", module->path);
        if (*fd >= 0)
            close(*fd);
    }
    free(bytes);
    return error;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* `image` is NULL but for the kernel's code. */
static struct load_code *find_code(const struct load_cache *cache, const struct stat *status, const uint8_t *image)
{
    for (size_t i = 0; i < cache->file.n; i++) {
        const struct cached_file *file = &cache->file.at[i];
        if (file->inode == status->st_ino && file->device == status->st_dev && file->size == status->st_size &&
            is_same_time(&file->changed, &status->st_ctim) && is_same_time(&file->modified, &status->st_mtim) && !file->image == !image &&
            (!image || !memcmp(file->image, image, (size_t)file->size)))
            return file->code;
    }
    return NULL;
}

/* *image: what was read of the kernel's code, to be kept with it or freed. */
static struct err *read_code(struct load_process *process, struct load_module *module, int fd, bool only_known, uint8_t **image)
{
    struct symbol_file *file;
    struct stat status = {0};
    if (fstat(fd, &status))
        return err_errno(ERR_FILE, errno, "%s", module->path);
    if (module->is_vdso) { /* made just now; the kernel has one for each width */
        status = (struct stat){.st_size = status.st_size, .st_dev = (dev_t)target_width(process->target)};
        *image = memory_alloc((size_t)status.st_size);
        if (pread(fd, *image, (size_t)status.st_size, 0) != status.st_size)
            return err_errno(ERR_FILE, errno, "%s", module->path);
    }
    module->code = find_code(process->cache, &status, *image);
    if (module->code || only_known)
        return NULL;
    ERR_TRY(symbol_file_open_fd(fd, module->path, &file));
    if (symbol_file_width(file) != target_width(process->target)) {
        symbol_file_close(file);
        return err_new(ERR_FILE, "%s: is for another architecture than the process", module->path);
    }
    module->code = load_code_create(file);
    VEC_PUSH(&process->cache->file,
             (struct cached_file){status.st_dev, status.st_ino, status.st_size, status.st_ctim, status.st_mtim, *image, module->code});
    *image = NULL;
    return NULL;
}

static struct err *open_module(struct load_process *process, struct load_module *module, bool only_known)
{
    int fd;
    struct target_map map = {.path = module->path, .start_va = module->start_va, .end_va = module->first_end_va, .inode = module->inode};
    if (module->is_vdso)
        ERR_TRY(copy_image(process, module, &fd));
    else
        ERR_TRY(target_open_mapped_file(process->target, &map, &fd));
    uint8_t *image = NULL;
    struct err *error = read_code(process, module, fd, only_known, &image);
    free(image);
    close(fd);
    if (error || !module->code)
        return error;
    load_claims_init(&module->claims, module->code);
    size_t count;
    const struct symbol_segment *segment = symbol_file_segments(module->code->file, &count);
    for (size_t i = 0; i < count; i++)
        if (segment[i].file_offset < 4096) {
            module->bias = module->start_va - (segment[i].va - segment[i].file_offset);
            break;
        }
    return NULL;
}

struct err *load_module_open(struct load_process *process, struct load_module *module)
{
    struct err *error = module->code ? NULL : open_module(process, module, false);
    if (error && error->code == ERR_SYSTEM && !process->shortage)
        process->shortage = err_new(error->code, "%s", error->message);
    return error;
}

struct err *load_process_shortage(struct load_process *process)
{
    struct err *shortage = process->shortage;
    process->shortage = NULL;
    return shortage;
}

bool load_module_open_known(struct load_process *process, struct load_module *module)
{
    if (!module->code)
        err_free(open_module(process, module, true)); /* what can not be read is not known */
    return module->code;
}

/* ---- modules ---- */

static void destroy_module(struct load_module *module)
{
    for (size_t i = 0; i < module->function.n; i++)
        load_function_destroy(module->function.at[i]);
    VEC_FREE(&module->function);
    load_claims_deinit(&module->claims);
    free(module->path);
    free(module);
}

struct load_module *load_vdso(struct load_process *process)
{
    for (size_t i = 0; i < process->module.n; i++)
        if (process->module.at[i]->is_vdso)
            return process->module.at[i];
    struct target_maps maps;
    struct err *error = target_maps_read(process->target, &maps);
    struct load_module *module = NULL;
    for (size_t i = 0; !error && i < maps.map.n && !module; i++)
        if (!strcmp(maps.map.at[i].path, "[vdso]")) {
            module = memory_zero(1, sizeof *module);
            *module = (struct load_module){.path = memory_text("[vdso]"),
                                           .start_va = maps.map.at[i].start_va,
                                           .end_va = maps.map.at[i].end_va,
                                           .resolved = true,
                                           .scanned = true,
                                           .is_vdso = true};
        }
    if (!error)
        target_maps_deinit(&maps);
    err_free(error);
    if (module)
        VEC_PUSH(&process->module, module);
    return module;
}

/* The module is not mapped as it was. What is left of its patched code, because the program has copied or moved it, stays known until we
 * detach; trampolines of the rest go once a stop has found nobody in them. */
static void drop_module(struct load_process *process, struct load_module *module, const struct target_maps *maps)
{
    bool is_left = false;
    load_signals_forget(process, module->start_va, module->end_va);
    for (size_t f = 0; f < module->function.n; f++) {
        struct load_function *function = module->function.at[f];
        size_t kept = 0;
        for (size_t s = 0; s < function->site.n; s++) {
            if (load_site_is_there(process, function->site.at[s], maps))
                function->site.at[kept++] = function->site.at[s];
            else
                load_limbo_enter(process, function->site.at[s]);
        }
        function->site.n = kept;
        is_left |= kept;
    }
    module->is_gone = false;
    if (is_left)
        VEC_PUSH(&process->ghost, module);
    else
        destroy_module(module);
}

/* A module is a run of mappings of one file, from the one that maps its first page. What was unmapped and mapped again at the same place
 * has lost its patches and is another one. */
static void note_module(struct load_process *process, const struct target_maps *maps, size_t first, size_t last)
{
    enum { PATIENCE = 5 }; /* what is never as its file says, though it is mapped, is left alone */
    const struct target_map *start = &maps->map.at[first];
    uint8_t times_gone = 0;
    for (size_t i = 0; i < process->module.n; i++) {
        struct load_module *known = process->module.at[i];
        if (known->is_vdso || !load_module_is_mapped(known, maps) || known->start_va != start->start_va)
            continue;
        if (!known->is_gone && load_module_is_patched(process, known, maps)) {
            known->end_va = maps->map.at[last].end_va;
            known->first_end_va = start->end_va;
            known->seen = true;
            return;
        }
        times_gone = known->times_gone + known->is_gone;
    }
    struct load_module *module = memory_zero(1, sizeof *module);
    module->path = memory_text(start->path);
    module->inode = start->inode;
    module->device = start->device;
    module->start_va = start->start_va;
    module->first_end_va = start->end_va;
    module->end_va = maps->map.at[last].end_va;
    module->seen = true;
    module->times_gone = times_gone;
    module->resolved = module->scanned = times_gone >= PATIENCE;
    VEC_PUSH(&process->module, module);
}

bool load_process_is_stale(const struct load_process *process)
{
    for (size_t i = 0; i < process->module.n; i++)
        if (process->module.at[i]->is_gone)
            return true;
    return false;
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* A memfd may hold a library, unless it is one of probity's own, or is mapped shared, as code generators do: the kernel lets nobody patch
 * such a mapping. */
static bool is_file_map(const struct target_map *map)
{
    static const char memfd[] = "/memfd:";
    if (!map->inode || map->path[0] != '/')
        return false;
    if (begins(map->path, memfd))
        return !map->shared && !begins(map->path + strlen(memfd), WIRE_MEMFD_NAME);
    return (!begins(map->path, "/dev/") || begins(map->path, "/dev/shm/")) && !begins(map->path, "/SYSV");
}

struct err *load_process_refresh(struct load_process *process)
{
    struct target_maps maps;
    ERR_TRY(target_maps_read(process->target, &maps));
    for (size_t i = 0; i < process->module.n; i++)
        process->module.at[i]->seen = process->module.at[i]->is_vdso;
    for (size_t i = 0; i < maps.map.n; i++) {
        const struct target_map *map = &maps.map.at[i];
        if (!is_file_map(map) || map->file_offset)
            continue;
        size_t last = i;
        bool executable = map->executable;
        for (size_t k = i + 1; k < maps.map.n; k++) {
            const struct target_map *next = &maps.map.at[k];
            if (next->inode != map->inode || next->device != map->device || !next->file_offset)
                break;
            last = k;
            executable |= next->executable;
        }
        if (executable)
            note_module(process, &maps, i, last);
    }
    size_t kept = 0;
    for (size_t i = 0; i < process->module.n; i++) {
        if (process->module.at[i]->seen)
            process->module.at[kept++] = process->module.at[i];
        else
            drop_module(process, process->module.at[i], &maps);
    }
    target_maps_deinit(&maps);
    if (kept != process->module.n) {
        process->module.n = kept;
        if (process->trap.n)
            load_traps_collect(process, NULL, 0);
    }
    return NULL;
}

size_t load_process_module_count(const struct load_process *process)
{
    return process->module.n;
}

struct load_module *load_process_module(struct load_process *process, size_t index)
{
    return process->module.at[index];
}

/* ---- counters ---- */

bool load_process_is_ours(const struct load_process *process, uint64_t va)
{
    const struct wire_region *region = load_shared_regions(process->shared);
    for (uint32_t i = 0; i < process->shared->region_count; i++)
        if (va - region[i].va < region[i].bytes)
            return true;
    return false;
}

struct err *load_process_new_number(struct load_process *process, uint32_t *counter)
{
    if (process->next_counter == process->counter_room)
        return err_new(ERR_PLACE, "process %d: more than %u trace points", target_pid(process->target), process->counter_room);
    *counter = process->next_counter++;
    return NULL;
}

struct err *load_process_new_counter(struct load_process *process, uint32_t *counter)
{
    ERR_TRY(load_process_new_number(process, counter));
    return load_extent_need(process, LOAD_EXTENT_COUNTERS, load_live_counters_bytes(process->live, *counter + 1));
}

uint64_t load_process_counter(const struct load_process *process, uint32_t counter)
{
    return load_live_counter(process->live, counter);
}

/* ---- life ---- */

static struct err *place_agent(struct load_process *process)
{
    bool wide = target_width(process->target) == 64;
    const uint8_t *blob = wide ? load_agent64 : load_agent32;
    size_t bytes = wide ? load_agent64_bytes : load_agent32_bytes;
    uint64_t start_va = 0, end_va = 0, va;
    if (process->module.n) {
        start_va = process->module.at[0]->start_va;
        end_va = process->module.at[0]->end_va;
    }
    ERR_TRY(load_region_alloc(process, start_va, end_va, bytes, 0, &va));
    process->fire.agent_va = process->shared->agent_va = va;
    uint32_t range[4];
    memcpy(range, blob + WIRE_AGENT_RANGES, sizeof range);
    process->agent_wait_va = va + range[0];
    process->agent_show_va = va + range[1];
    process->agent_show_end_va = va + range[2];
    process->agent_clause_va = va + range[2];
    process->agent_ring_end_va = va + range[3];
    process->agent_clause_end_va = va + bytes;
    ERR_TRY(target_write(process->target, va, blob, bytes));
    return target_write(process->target, va + WIRE_AGENT_SHARED, &process->shared->shared_va, sizeof process->shared->shared_va);
}

static struct err *prepare(struct load_process *process, uint32_t counter_room)
{
    ERR_TRY(target_stop_one(process->target));
    ERR_TRY(load_shared_create(process, counter_room));
    ERR_TRY(load_process_map_private(process));
    ERR_TRY(load_process_refresh(process));
    return place_agent(process);
}

static void free_process(struct load_process *process)
{
    err_free(process->shortage);
    for (size_t i = 0; i < process->module.n; i++)
        destroy_module(process->module.at[i]);
    VEC_FREE(&process->module);
    for (size_t i = 0; i < process->ghost.n; i++)
        destroy_module(process->ghost.at[i]);
    VEC_FREE(&process->ghost);
    for (size_t i = 0; i < process->child.n; i++)
        target_close(process->child.at[i]);
    VEC_FREE(&process->child);
    for (size_t i = 0; i < process->executed.n; i++)
        target_close(process->executed.at[i]);
    VEC_FREE(&process->executed);
    VEC_FREE(&process->trap);
    load_bodies_deinit(process);
    free(process->stand.pc);
    VEC_FREE(&process->table);
    VEC_FREE(&process->table_place);
    VEC_FREE(&process->region);
    VEC_FREE(&process->far_page);
    VEC_FREE(&process->far_island);
    VEC_FREE(&process->go_on);
    load_limbo_deinit(process);
    VEC_FREE(&process->free_chunk);
    VEC_FREE(&process->free_pcs);
    VEC_FREE(&process->free_sites);
    VEC_FREE(&process->followed);
    if (process->shared)
        munmap(process->shared, process->shared->shared_bytes);
    load_live_destroy(process->live);
    target_close(process->target);
    free(process);
}

struct err *load_process_create(struct target *target, struct load_cache *cache, uint32_t counter_room, struct load_process **out)
{
    struct load_process *process = memory_zero(1, sizeof *process);
    process->target = target;
    process->cache = cache;
    process->program_mark = target_program_mark(target_pid(target));
    bool hold = target_thread_count(target) != 0; /* a command that was just started stays stopped */
    process->was_held = hold;
    struct err *error = load_recover(target);
    uint64_t start_ns = clock_now_ns();
    if (!error)
        error = prepare(process, counter_room);
    if (!error && !hold)
        error = target_resume(target);
    process->pause_ns = clock_now_ns() - start_ns;
    if (!error) {
        *out = process;
        return NULL;
    }
    load_process_destroy(process);
    return error;
}

struct err *load_process_check(struct load_process *process)
{
    return target_check(process->target);
}

/* Whether it has our journal where the process has it, as what it forked does: others may have called something the same. */
static bool has_journal(const struct load_process *process, pid_t pid)
{
    struct target_maps maps;
    struct err *error = target_peek_maps(pid, &maps);
    bool found = false;
    for (size_t i = 0; !error && i < maps.map.n && !found; i++)
        found = maps.map.at[i].start_va == process->shared->shared_va && maps.map.at[i].inode == process->memfd_inode &&
                target_map_is_memfd(&maps.map.at[i], process->memfd_name);
    if (!error)
        target_maps_deinit(&maps);
    err_free(error);
    return found;
}

/* Nothing is to be done for a process that has ended, or that has executed another program since. One that has unmapped the journal still
 * has its probes. */
static struct err *revert_one(struct load_process *process, struct target *target)
{
    if (target_ended(target))
        return NULL;
    pid_t pid = target_pid(target);
    struct err *error = NULL;
    if (has_journal(process, pid) || target_program_mark(pid) == process->program_mark)
        error = load_revert(process, target);
    if (error && error->code == ERR_NO_PROCESS) {
        err_free(error);
        return NULL;
    }
    return error;
}

/* Children that were forked since have their own copy of the probes. */
static struct err *revert_children(struct load_process *process)
{
    char *name = memory_format("/memfd:%s ", process->memfd_name);
    target_pids pids = {0};
    struct err *first = NULL;
    /* Who follows a process from its first instruction is told of every child. */
    if (!process->follow || !process->was_held || target_has_forked(process->target))
        target_find_by_map(name, target_pid(process->target), &pids);
    for (size_t i = 0; i < pids.n; i++) {
        struct target *child = NULL;
        pid_t parent;
        if (!has_journal(process, pids.at[i]))
            continue;
        if (target_is_vforked(pids.at[i], &parent))
            continue; /* its memory is its parent's, and dealt with there */
        struct err *error = target_open(pids.at[i], &child);
        if (!error)
            error = load_revert(process, child);
        target_close(child);
        if (error && error->code != ERR_NO_PROCESS && !first)
            first = error;
        else
            err_free(error);
    }
    free(name);
    VEC_FREE(&pids);
    return first;
}

struct err *load_process_detach(struct load_process *process)
{
    struct err *error = NULL;
    target_hold(process->target, false);
    if (process->shared && process->shared->shared_va && !process->detached) {
        process->detached = true;
        load_traps_adopt(process); /* children that hold their parent up are served from now on */
        target_be_patient(process->target);
        error = revert_one(process, process->target);
        for (size_t i = 0; load_traps_adopt(process), i < process->child.n; i++) {
            struct err *child_error = revert_one(process, process->child.at[i]);
            if (!error)
                error = child_error;
            else
                err_free(child_error);
        }
        struct err *children = revert_children(process);
        if (!error)
            error = children;
        else
            err_free(children);
    }
    return error;
}

void load_process_destroy(struct load_process *process)
{
    err_free(load_process_detach(process));
    free_process(process);
}

struct target *load_process_target(struct load_process *process)
{
    return process->target;
}

uint64_t load_process_pause_ns(const struct load_process *process)
{
    return process->pause_ns;
}

size_t load_process_trap_count(const struct load_process *process)
{
    return process->trap.n;
}
