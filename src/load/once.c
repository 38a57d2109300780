#include "load/once.h"

#include "base/memory.h"

#include <stdlib.h>

static uint64_t key_of(uint64_t va, enum load_once_kind kind)
{
    return (va << 2 | kind) + 1;
}

/* Where the key is, or a free slot. There is always one. */
static size_t find(const struct load_once *once, uint64_t key)
{
    size_t at = key * 0x9e3779b97f4a7c15u >> 32 & (once->room - 1);
    while (once->slot[at] && once->slot[at] != key)
        at = (at + 1) & (once->room - 1);
    return at;
}

static void grow(struct load_once *once)
{
    struct load_once larger = {.n = once->n, .room = once->room ? once->room * 2 : 64};
    larger.slot = memory_zero(larger.room, sizeof *larger.slot);
    for (size_t i = 0; i < once->room; i++)
        if (once->slot[i])
            larger.slot[find(&larger, once->slot[i])] = once->slot[i];
    free(once->slot);
    *once = larger;
}

bool load_once_add(struct load_once *once, uint64_t va, enum load_once_kind kind)
{
    uint64_t key = key_of(va, kind);
    if (once->n * 2 >= once->room)
        grow(once);
    size_t at = find(once, key);
    if (once->slot[at])
        return false;
    once->slot[at] = key;
    once->n++;
    return true;
}

bool load_once_has(const struct load_once *once, uint64_t va, enum load_once_kind kind)
{
    return once->room && once->slot[find(once, key_of(va, kind))];
}

void load_once_deinit(struct load_once *once)
{
    free(once->slot);
    *once = (struct load_once){0};
}
