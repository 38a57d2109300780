#include "load/internal.h"

#include <stddef.h>
#include <string.h>

static struct err *full(const struct load_process *process)
{
    return err_new(ERR_PLACE, "process %d: too many probes for the shared memory that was set up (%u counters)",
                   target_pid(process->target), process->counter_room);
}

uint32_t load_site_limit(const struct load_process *process)
{
    return (uint32_t)(process->extent[LOAD_EXTENT_SITES].bytes / sizeof(struct wire_site));
}

static struct err *need_sites(struct load_process *process, uint32_t count)
{
    uint32_t before = load_site_limit(process);
    ERR_TRY(load_extent_need(process, LOAD_EXTENT_SITES, count * sizeof(struct wire_site)));
    uint32_t limit = load_site_limit(process);
    if (limit == before)
        return NULL;
    return target_write(process->target, process->process_va + offsetof(struct wire_process, site_limit), &limit, sizeof limit);
}

static struct err *take_site(struct load_process *process, uint64_t va, uint64_t trampoline_va, const uint8_t *original,
                             const uint8_t *patch, unsigned length, unsigned extent, uint32_t *slot)
{
    struct wire_shared *shared = process->shared;
    if (process->free_sites.n)
        *slot = process->free_sites.at[--process->free_sites.n];
    else if (shared->site_count < shared->site_room)
        *slot = shared->site_count;
    else
        return full(process);
    ERR_TRY(need_sites(process, *slot + 1));
    struct wire_site *site = &load_shared_sites(shared)[*slot];
    site->va = va;
    site->trampoline_va = trampoline_va;
    site->extent = (uint8_t)extent;
    memcpy(site->original, original, length);
    memcpy(site->patched, patch, length);
    __atomic_store_n(&site->length, (uint8_t)length, __ATOMIC_RELEASE);
    if (*slot == shared->site_count)
        __atomic_store_n(&shared->site_count, shared->site_count + 1, __ATOMIC_RELEASE);
    return load_index_add(process, *slot);
}

static void give_site(struct load_process *process, uint32_t slot)
{
    load_index_remove(process, slot);
    load_shared_sites(process->shared)[slot].length = 0;
    VEC_PUSH(&process->free_sites, slot);
}

/* As reuse_chunk() of region.c. */
static bool reuse_pcs(struct load_process *process, uint32_t count, bool any, uint32_t *first)
{
    for (size_t i = process->free_pcs.n; i-- > 0 && (any || i + 64 > process->free_pcs.n);) {
        struct load_pc_block *block = &process->free_pcs.at[i];
        if (any ? block->count < count : block->count != count)
            continue;
        *first = block->first;
        block->first += count;
        block->count -= count;
        if (!block->count)
            *block = process->free_pcs.at[--process->free_pcs.n];
        return true;
    }
    return false;
}

static struct err *take_pcs(struct load_process *process, const struct wire_pc *pc, uint32_t count, uint32_t *first)
{
    struct wire_shared *shared = process->shared;
    bool fresh = !reuse_pcs(process, count, false, first);
    if (fresh && shared->pc_count + count > shared->pc_room) {
        if (!reuse_pcs(process, count, true, first))
            return full(process);
        fresh = false;
    }
    if (fresh) {
        *first = shared->pc_count;
        ERR_TRY(load_extent_need(process, LOAD_EXTENT_PCS, (*first + count) * sizeof(struct wire_pc)));
    }
    memcpy(load_shared_pcs(shared) + *first, pc, count * sizeof *pc);
    if (fresh)
        __atomic_store_n(&shared->pc_count, shared->pc_count + count, __ATOMIC_RELEASE);
    return NULL;
}

struct err *load_journal_add(struct load_process *process, struct load_site *site, uint64_t bias, const struct load_trampoline *trampoline)
{
    const struct load_window *window = &site->window;
    uint64_t end_va = window->end_va > window->va + window->length ? window->end_va : window->va + window->length;
    process->stand_is_old = true;
    site->pc_count = (uint32_t)trampoline->pc.n;
    ERR_TRY(take_pcs(process, trampoline->pc.at, site->pc_count, &site->pc_first));
    ERR_TRY(take_site(process, window->va + bias, site->trampoline_va, site->original, site->patch, window->length,
                      (unsigned)(end_va - window->va), &site->journal));
    if (window->island_va)
        ERR_TRY(take_site(process, window->island_va + bias, site->trampoline_va, site->island_original, site->island_patch, 5, 0,
                          &site->island_journal));
    return NULL;
}

void load_journal_remove_sites(struct load_process *process, struct load_site *site)
{
    give_site(process, site->journal);
    if (site->window.island_va)
        give_site(process, site->island_journal);
}

void load_journal_remove_pcs(struct load_process *process, struct load_site *site)
{
    process->stand_is_old = true;
    memset(load_shared_pcs(process->shared) + site->pc_first, 0, site->pc_count * sizeof(struct wire_pc));
    VEC_PUSH(&process->free_pcs, (struct load_pc_block){site->pc_first, site->pc_count});
}
