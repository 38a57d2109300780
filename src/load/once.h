/* What a session has placed in a module already, so that a place that several names or specifications mean fires once. */
#ifndef LOAD_ONCE_H
#define LOAD_ONCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum load_once_kind { LOAD_ONCE_ENTRY, LOAD_ONCE_RETURN, LOAD_ONCE_EXCLUDED };

/* All zero is an empty set. */
struct load_once {
    uint64_t *slot; /* key + 1; 0: free */
    size_t n, room; /* room: 0 or a power of two */
};

/* False when it was there. `va`: an instruction; of LOAD_ONCE_EXCLUDED, a function. */
bool load_once_add(struct load_once *once, uint64_t va, enum load_once_kind kind);
bool load_once_has(const struct load_once *once, uint64_t va, enum load_once_kind kind);
void load_once_deinit(struct load_once *once);

#endif
