/* Trampolines of sites that are gone, until no thread is in them any more.
 *
 * A thread in a clause returns to the trampoline that called it. Where probes are dense, or threads wait in clauses for room in a ring,
 * some thread is in one at any time, and to wait until none is could take for ever. So the program's bytes are put back, or lead to a new
 * trampoline, at once; the old one stays, and its part of the pc map with it, until a stop in which nobody is in it. Whoever is in it goes
 * on behind the old window as ever, which is why no new window may lie around that place (apply.c sees to it). */
#include "load/internal.h"

#include <stdlib.h>

bool load_site_has(const struct load_site *site, uint64_t va)
{
    return va - site->trampoline_va < site->trampoline_bytes || va == site->island_va;
}

bool load_limbo_has(const struct load_process *process, uint64_t va)
{
    for (size_t i = 0; i < process->limbo.n; i++)
        if (load_site_has(process->limbo.at[i], va))
            return true;
    return false;
}

void load_limbo_enter(struct load_process *process, struct load_site *site)
{
    load_journal_remove_sites(process, site);
    VEC_PUSH(&process->limbo, site);
}

void load_limbo_sweep(struct load_process *process)
{
    for (size_t i = process->limbo.n; i-- > 0;) {
        struct load_site *site = process->limbo.at[i];
        if (site->is_occupied)
            continue;
        load_trampoline_release(process, site);
        load_site_destroy(site);
        process->limbo.at[i] = process->limbo.at[--process->limbo.n];
    }
}

void load_limbo_deinit(struct load_process *process)
{
    for (size_t i = 0; i < process->limbo.n; i++)
        load_site_destroy(process->limbo.at[i]);
    VEC_FREE(&process->limbo);
}
