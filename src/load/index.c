/* The hash table through which the agent finds the site at an address of the program (wire/shared.h). The agent reads it at any time, so
 * each change of it is one store, and a cell that others are found behind is marked, not freed. */
#include "load/internal.h"

#include <stddef.h>

static uint32_t *cells(const struct load_process *process)
{
    return (void *)((char *)process->shared + process->index_offset);
}

static uint64_t last_unit(const struct wire_site *site)
{
    return (site->va + (site->extent ? site->extent - 1u : 0)) >> WIRE_INDEX_UNIT_SHIFT;
}

static void store(uint32_t *cell, uint32_t value)
{
    __atomic_store_n(cell, value, __ATOMIC_RELEASE);
}

uint64_t load_index_word(const struct load_process *process)
{
    uint64_t shift = 0;
    while (1u << shift < process->index_cells)
        shift++;
    return process->index_offset | shift;
}

static void add(struct load_process *process, uint32_t slot)
{
    const struct wire_site *site = &load_shared_sites(process->shared)[slot];
    uint32_t mask = process->index_cells - 1, *cell = cells(process);
    for (uint64_t unit = site->va >> WIRE_INDEX_UNIT_SHIFT, last = last_unit(site); unit <= last; unit++) {
        uint32_t at = wire_index_cell((uint32_t)unit) & mask;
        while (cell[at] && cell[at] != WIRE_INDEX_GONE)
            at = (at + 1) & mask;
        store(&cell[at], slot + 1);
        process->index_used++;
    }
}

/* Everything is put into the next table, which is twice as large; then the process is told of it. */
static struct err *grow(struct load_process *process)
{
    uint64_t bytes = process->index_cells * sizeof(uint32_t), offset = process->index_offset + bytes;
    ERR_TRY(load_extent_need(process, LOAD_EXTENT_INDEX, offset - process->extent[LOAD_EXTENT_INDEX].offset + 2 * bytes));
    process->index_offset = offset;
    process->index_cells *= 2;
    process->index_used = 0;
    for (uint32_t i = 0; i < process->shared->site_count; i++)
        if (load_shared_sites(process->shared)[i].length)
            add(process, i);
    uint64_t word = load_index_word(process);
    return target_write(process->target, process->process_va + offsetof(struct wire_process, index), &word, sizeof word);
}

struct err *load_index_add(struct load_process *process, uint32_t slot)
{
    const struct wire_site *site = &load_shared_sites(process->shared)[slot];
    uint64_t units = last_unit(site) - (site->va >> WIRE_INDEX_UNIT_SHIFT) + 1;
    if (process->index_used + units > process->index_cells / 4 * 3)
        return grow(process); /* the slot's site among all others */
    add(process, slot);
    return NULL;
}

void load_index_remove(struct load_process *process, uint32_t slot)
{
    const struct wire_site *site = &load_shared_sites(process->shared)[slot];
    uint32_t mask = process->index_cells - 1, *cell = cells(process);
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
