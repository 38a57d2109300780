/* Loaded and unloaded by v_dlopen; counts its calls in memory of the host. */
#include "victim.h"

struct plugin_counts {
    uint64_t loads, unloads, calls;
};
static struct plugin_counts *counts;
static uint32_t seed;

__attribute__((constructor)) void plugin_load(void)
{
    seed = 42;
}

__attribute__((destructor)) void plugin_unload(void)
{
    if (counts)
        counts->unloads++;
}

TRACED void plugin_start(struct plugin_counts *host_counts)
{
    counts = host_counts;
    counts->loads++;
}

TRACED uint32_t plugin_work(uint32_t a)
{
    counts->calls++;
    seed = mix(seed, a);
    return seed;
}
