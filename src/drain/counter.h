/* Aggregates out of shared memory. */
#ifndef DRAIN_COUNTER_H
#define DRAIN_COUNTER_H

#include "wire/shared.h"

/* The sum over all shards. Exact when no thread adds to it meanwhile; else some value it had since the call began. */
uint64_t drain_counter(const struct wire_shared *shared, uint32_t counter);

#endif
