/* The hash table through which the agent finds the site at an address of the program (wire/shared.h). The agent reads it at any time, so
 * each change of it is one store, and a cell that others are found behind is marked, not freed. */
#include "load/internal.h"

static uint32_t *cells(const struct load_process *process)
{
    return (void *)((char *)process->shared + process->shared->index_offset);
}

static uint64_t last_unit(const struct wire_site *site)
{
    return (site->va + (site->extent ? site->extent - 1u : 0)) >> WIRE_INDEX_UNIT_SHIFT;
}

static void store(uint32_t *cell, uint32_t value)
{
    __atomic_store_n(cell, value, __ATOMIC_RELEASE);
}

bool load_index_add(struct load_process *process, uint32_t slot)
{
    const struct wire_site *site = &load_shared_sites(process->shared)[slot];
    uint32_t mask = process->shared->index_mask, *cell = cells(process);
    uint64_t first = site->va >> WIRE_INDEX_UNIT_SHIFT, last = last_unit(site);
    if (process->index_used + (last - first + 1) > mask / 4 * 3)
        return false;
    for (uint64_t unit = first; unit <= last; unit++) {
        uint32_t at = wire_index_cell((uint32_t)unit) & mask;
        while (cell[at] && cell[at] != WIRE_INDEX_GONE)
            at = (at + 1) & mask;
        store(&cell[at], slot + 1);
        process->index_used++;
    }
    return true;
}

void load_index_remove(struct load_process *process, uint32_t slot)
{
    const struct wire_site *site = &load_shared_sites(process->shared)[slot];
    uint32_t mask = process->shared->index_mask, *cell = cells(process);
    for (uint64_t unit = site->va >> WIRE_INDEX_UNIT_SHIFT; unit <= last_unit(site); unit++) {
        uint32_t at = wire_index_cell((uint32_t)unit) & mask;
        while (cell[at] && cell[at] != slot + 1)
            at = (at + 1) & mask;
        if (!cell[at])
            continue;
        process->index_used--;
        store(&cell[at], WIRE_INDEX_GONE);
        /* Nothing is found behind marks that a free cell follows. */
        for (; !cell[(at + 1) & mask] && cell[at] == WIRE_INDEX_GONE; at = (at - 1) & mask)
            store(&cell[at], 0);
    }
}
