/* A heap: which of many comes next. Equal keys come in order of their items. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>

struct heap_entry {
    uint64_t key;
    uint32_t item;
};
typedef VEC(struct heap_entry) heap_entries;

static inline bool heap_is_before(const struct heap_entry *a, const struct heap_entry *b)
{
    return a->key != b->key ? a->key < b->key : a->item < b->item;
}

static inline void heap_sink(heap_entries *heap, size_t at)
{
    struct heap_entry entry = heap->at[at];
    for (size_t child; (child = 2 * at + 1) < heap->n; at = child) {
        child += child + 1 < heap->n && heap_is_before(&heap->at[child + 1], &heap->at[child]);
        if (!heap_is_before(&heap->at[child], &entry))
            break;
        heap->at[at] = heap->at[child];
    }
    heap->at[at] = entry;
}

static inline void heap_put(heap_entries *heap, uint64_t key, uint32_t item)
{
    struct heap_entry entry = {key, item};
    VEC_PUSH(heap, entry);
    size_t at = heap->n - 1;
    for (; at && heap_is_before(&entry, &heap->at[(at - 1) / 2]); at = (at - 1) / 2)
        heap->at[at] = heap->at[(at - 1) / 2];
    heap->at[at] = entry;
}

/* The first one's key is another now: it goes where that belongs. */
static inline void heap_change_first(heap_entries *heap, uint64_t key)
{
    heap->at[0].key = key;
    heap_sink(heap, 0);
}

static inline void heap_drop_first(heap_entries *heap)
{
    heap->at[0] = heap->at[--heap->n];
    if (heap->n)
        heap_sink(heap, 0);
}

/* Whether the first one, with this key, would still come before all others. */
static inline bool heap_stays_first(const heap_entries *heap, uint64_t key)
{
    struct heap_entry entry = {key, heap->at[0].item};
    return (heap->n < 2 || heap_is_before(&entry, &heap->at[1])) && (heap->n < 3 || heap_is_before(&entry, &heap->at[2]));
}

#endif
