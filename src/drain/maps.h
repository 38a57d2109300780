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

/* ---- garbage (collect.c): nodes of keys that were deleted, when they are many ---- */

/* Asks the writers of such maps to be careful from now on; not while it is not certain that they know of earlier ones. False: there are
 * none to be told. */
bool drain_maps_guard(struct drain_session *session);
/* Every thread that can write has been seen outside of the code that works on maps since drain_maps_guard() has asked: they know. */
void drain_maps_guarded(struct drain_session *session);
/* Takes nodes out of the chains of guarded maps; not while earlier ones wait. False: there are none to free. */
bool drain_maps_retire(struct drain_session *session);
/* Whether every writer that may have found one of those that wait has left, as the writers count themselves. To be called again until it
 * has. */
bool drain_maps_left(struct drain_session *session);
/* No writer has one of those that wait: they may be used again. */
void drain_maps_free(struct drain_session *session);
/* A writer that came in will never leave (it was killed): from now on nobody counts. */
void drain_maps_uncount(struct drain_session *session);

#endif
