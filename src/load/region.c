/* Memory for trampolines. In a 64-bit process it must lie within 2 GB of the code it serves; in a 32-bit one anywhere. */
#include "load/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, REGION_MIN = 64 << 10, REGION_MAX = 64 << 20 };
#define REACH 0x7ff00000ull
/* Kept free towards neighbours, for what grows: a heap upwards, a stack downwards. */
#define GUARD 0x100000ull

static bool in_reach(const struct load_process *process, uint64_t va, uint64_t bytes, uint64_t start_va, uint64_t end_va)
{
    if (process->fire.mode == INSN_MODE_32)
        return true;
    uint64_t low = va < start_va ? va : start_va, high = va + bytes > end_va ? va + bytes : end_va;
    return high - low < REACH;
}

/* The free range nearest below the module, else the highest above it that is in reach. */
static uint64_t find_gap(const struct load_process *process, const struct target_maps *maps, uint64_t bytes, uint64_t start_va,
                         uint64_t end_va)
{
    uint64_t best = 0, before = 0x10000;
    for (size_t i = 0; i <= maps->map.n; i++) {
        uint64_t next = i < maps->map.n ? maps->map.at[i].start_va : before;
        uint64_t room = next > before ? next - before : 0;
        if (room >= bytes + 2 * PAGE && next <= start_va) {
            uint64_t guard = room > bytes + 2 * GUARD ? GUARD : PAGE;
            uint64_t va = (next - guard - bytes) & ~(uint64_t)(PAGE - 1);
            if (in_reach(process, va, bytes, start_va, end_va))
                best = va; /* the last such is the nearest */
        } else if (!best && room >= bytes + 2 * GUARD && before >= end_va) {
            uint64_t high = next - GUARD < start_va + REACH ? next - GUARD : start_va + REACH;
            uint64_t va = (high - bytes) & ~(uint64_t)(PAGE - 1);
            if (va > before + GUARD && in_reach(process, va, bytes, start_va, end_va))
                best = va;
        }
        if (i < maps->map.n)
            before = maps->map.at[i].end_va;
    }
    return best;
}

struct err *load_region_map_at(struct load_process *process, uint64_t va, uint64_t bytes)
{
    struct target *target = process->target;
    struct wire_shared *shared = process->shared;
    if (shared->region_count == shared->region_room)
        return err_new(ERR_PLACE, "process %d: too many pieces of code memory", target_pid(target));
    bool was_running = target_is_running(target);
    ERR_TRY(target_stop_one(target));
    load_shared_regions(shared)[shared->region_count] = (struct wire_region){va, bytes};
    shared->region_count++;
    uint64_t got = 0;
    struct err *error = load_remote_mmap(target, va, bytes, PROT_READ | PROT_EXEC,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, &got);
    if (error)
        shared->region_count--;
    struct err *resume = was_running ? target_resume(target) : NULL;
    if (error)
        err_free(resume);
    return error ? error : resume;
}

/* Keeps those that were mapped, in the journal and in the list. */
static void keep_mapped(struct load_process *process, struct load_mappings *list, const struct target_call *call, uint32_t first)
{
    struct wire_region *region = load_shared_regions(process->shared);
    size_t kept = 0;
    for (size_t i = 0; i < list->n; i++) {
        if (!call[i].result || (call[i].result < 0 && call[i].result > -4096))
            continue;
        list->at[kept] = region[first + kept] = list->at[i];
        kept++;
    }
    list->n = kept;
    process->shared->region_count = first + (uint32_t)kept;
}

struct err *load_region_map_all(struct load_process *process, struct load_mappings *list)
{
    struct target *target = process->target;
    struct wire_shared *shared = process->shared;
    uint32_t first = shared->region_count;
    if (list->n > shared->region_room - first)
        list->n = shared->region_room - first;
    if (!list->n)
        return NULL;
    bool was_running = target_is_running(target);
    ERR_TRY(target_stop_one(target));
    struct target_call *call = memory_zero(list->n, sizeof *call);
    for (size_t i = 0; i < list->n; i++) {
        load_shared_regions(shared)[first + i] = list->at[i];
        load_remote_mmap_call(target, list->at[i].va, list->at[i].bytes, PROT_READ | PROT_EXEC,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0, &call[i]);
    }
    shared->region_count = first + (uint32_t)list->n;
    struct err *error = target_syscalls(target, call, list->n);
    if (!error)
        keep_mapped(process, list, call, first);
    free(call);
    struct err *resume = was_running ? target_resume(target) : NULL;
    if (error)
        err_free(resume);
    return error ? error : resume;
}

static struct err *try_map_region(struct load_process *process, uint64_t bytes, uint64_t start_va, uint64_t end_va, bool *is_full)
{
    struct target *target = process->target;
    struct target_maps maps;
    ERR_TRY(target_maps_read(target, &maps));
    uint64_t hint = find_gap(process, &maps, bytes, start_va, end_va);
    target_maps_deinit(&maps);
    *is_full = !hint;
    if (!hint)
        return err_new(ERR_PLACE, "process %d: no free address range within reach of the code at 0x%llx", target_pid(target),
                       (unsigned long long)start_va);
    ERR_TRY(load_region_map_at(process, hint, bytes));
    VEC_PUSH(&process->region, (struct load_region){hint, bytes, 0});
    return NULL;
}

/* The process runs and maps things, too: what was free may be taken when its turn comes. */
static struct err *map_region(struct load_process *process, uint64_t bytes, uint64_t start_va, uint64_t end_va)
{
    bool is_full = false;
    for (int attempt = 0;; attempt++) {
        struct err *error = try_map_region(process, bytes, start_va, end_va, &is_full);
        if (!error || error->code != ERR_PLACE || is_full || attempt == LOAD_MAP_ATTEMPTS)
            return error;
        err_free(error);
    }
}

/* A freed piece of the right size among those freed last; with `any`, any that is large enough, the rest of which stays free. */
static bool reuse_chunk(struct load_process *process, uint64_t start_va, uint64_t end_va, size_t size, bool any, uint64_t *va)
{
    for (size_t i = process->free_chunk.n; i-- > 0 && (any || i + 64 > process->free_chunk.n);) {
        struct load_chunk *chunk = &process->free_chunk.at[i];
        if ((any ? chunk->bytes < size : chunk->bytes != size) || !in_reach(process, chunk->va, size, start_va, end_va))
            continue;
        *va = chunk->va;
        chunk->va += size;
        chunk->bytes -= (uint32_t)size;
        if (!chunk->bytes)
            *chunk = process->free_chunk.at[--process->free_chunk.n];
        return true;
    }
    return false;
}

static bool take_fresh(struct load_process *process, uint64_t start_va, uint64_t end_va, size_t size, uint64_t *va)
{
    for (size_t i = process->region.n; i-- > 0;) {
        struct load_region *region = &process->region.at[i];
        if (region->bytes - region->used < size || !in_reach(process, region->va, region->bytes, start_va, end_va))
            continue;
        *va = region->va + region->used;
        region->used += size;
        return true;
    }
    return false;
}

uint64_t load_region_next(const struct load_process *process, uint64_t start_va, uint64_t end_va)
{
    enum { LEAST = 4096 }; /* more than a trampoline takes */
    for (size_t i = process->region.n; i-- > 0 && !process->free_chunk.n;) {
        const struct load_region *region = &process->region.at[i];
        if (region->bytes - region->used >= LEAST && in_reach(process, region->va, region->bytes, start_va, end_va))
            return region->va + region->used;
    }
    return 0;
}

struct err *load_region_alloc(struct load_process *process, uint64_t start_va, uint64_t end_va, size_t bytes, size_t more_to_come,
                              uint64_t *va)
{
    size_t size = (bytes + LOAD_CHUNK_STEP - 1) / LOAD_CHUNK_STEP * LOAD_CHUNK_STEP;
    if (reuse_chunk(process, start_va, end_va, size, false, va) || take_fresh(process, start_va, end_va, size, va) ||
        reuse_chunk(process, start_va, end_va, size, true, va))
        return NULL;
    uint64_t wanted = size + more_to_come;
    wanted = wanted < REGION_MIN ? REGION_MIN : wanted > REGION_MAX ? REGION_MAX : (wanted + PAGE - 1) / PAGE * PAGE;
    ERR_TRY(map_region(process, wanted, start_va, end_va));
    if (take_fresh(process, start_va, end_va, size, va))
        return NULL;
    return err_new(ERR_PLACE, "process %d: code memory could not be had", target_pid(process->target));
}

void load_region_free(struct load_process *process, uint64_t va, size_t bytes)
{
    VEC_PUSH(&process->free_chunk, (struct load_chunk){va, (uint32_t)((bytes + LOAD_CHUNK_STEP - 1) / LOAD_CHUNK_STEP * LOAD_CHUNK_STEP)});
}
