/* Formats that hold each stack from one end to the other grow with the square of the depth: 300,000 calls in each other would be 45,000
 * million names. The deepest stacks are cut so that all of them together stay within bounds. */
#include "report/export.h"

#include <stdlib.h>

enum { NAMES_MOST = 1 << 25, DEPTH_LEAST = 128 };

void export_depth_count(struct export_depth *depth, size_t levels)
{
    while (depth->stacks.n <= levels)
        VEC_PUSH(&depth->stacks, 0);
    depth->stacks.at[levels]++;
}

size_t export_depth_most(struct export_depth *depth, struct profile *profile)
{
    uint64_t deeper = 0, names = 0;
    for (size_t i = 1; i < depth->stacks.n; i++)
        deeper += depth->stacks.at[i];
    size_t most = 0;
    /* `deeper` stacks have a name at level most + 1. */
    while (deeper && (most < DEPTH_LEAST || names + deeper <= NAMES_MOST)) {
        names += deeper;
        most++;
        deeper -= most < depth->stacks.n ? depth->stacks.at[most] : 0;
    }
    profile->cut_stacks += deeper;
    profile->cut_to = deeper ? most : profile->cut_to;
    VEC_FREE(&depth->stacks);
    return most;
}
