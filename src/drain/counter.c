#include "drain/counter.h"

/* A 32-bit process adds the halves separately: read again while the upper half moves. */
static uint64_t read_shard(const uint64_t *shard)
{
    const uint32_t *half = (const uint32_t *)shard;
    for (;;) {
        uint32_t high = __atomic_load_n(&half[1], __ATOMIC_ACQUIRE);
        uint32_t low = __atomic_load_n(&half[0], __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&half[1], __ATOMIC_ACQUIRE) == high)
            return (uint64_t)high << 32 | low;
    }
}

uint64_t drain_counter(const struct wire_shared *shared, uint32_t counter)
{
    uint64_t sum = 0;
    for (uint32_t shard = 0; shard <= shared->shard_mask; shard++)
        sum += read_shard((const uint64_t *)((const char *)shared + shared->counters_offset + ((uint64_t)shard << shared->shard_shift)) +
                          counter);
    return sum;
}
