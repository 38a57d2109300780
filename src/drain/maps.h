/* A map's contents at one moment, with the shards of its aggregations added up. */
#ifndef DRAIN_MAPS_H
#define DRAIN_MAPS_H

#include "drain/session.h"

struct drain_entry {
    const uint8_t *key;   /* type.key_bytes */
    const uint64_t *word; /* what the kind says: INT, COUNT, SUM, MIN, MAX one; AVG, STATS count and sum; HIST, LHIST a count for each
                             slot; VALUE type.value_bytes bytes */
};

struct drain_contents {
    const struct wire_map_type *type;
    VEC(struct drain_entry) entry; /* in no order */
    VEC(void *) owned;
};

void drain_map_read(struct drain_session *session, uint32_t map, struct drain_contents *out);
void drain_contents_deinit(struct drain_contents *contents);
/* What the script's clear() and zero() do. */
void drain_map_clear(struct drain_session *session, uint32_t map);
void drain_map_zero(struct drain_session *session, uint32_t map);
/* Insertions that found no room so far. */
uint64_t drain_map_refused(const struct drain_session *session, uint32_t map);

#endif
