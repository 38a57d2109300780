/* Maps in the session's memory. Freestanding, for writers (called while firing) and for the controller. `map` is a number below
 * session->map_count. Keys are type.key_bytes bytes; NULL for a map without a key. */
#ifndef STREAM_MAP_H
#define STREAM_MAP_H

#include "wire/session.h"

#include <stdbool.h>

/* The hash of an 8-byte key, its halves times these, which JIT code computes too. */
#define STREAM_MAP_FACTOR_LOW 0x9e3779b1u
#define STREAM_MAP_FACTOR_HIGH 0x85ebca6bu
enum { STREAM_MAP_HASH_SHIFT = 15 };

struct wire_map *stream_map(struct wire_session *session, uint32_t map);

/* Writers. False: there was no room, which has been counted. */
int64_t stream_map_get(struct wire_session *session, uint32_t map, const void *key);
bool stream_map_set(struct wire_session *session, uint32_t map, const void *key, int64_t value);
bool stream_map_add(struct wire_session *session, uint32_t map, const void *key, int64_t value, int64_t *sum);
bool stream_map_get_value(struct wire_session *session, uint32_t map, const void *key, void *value);
bool stream_map_set_value(struct wire_session *session, uint32_t map, const void *key, const void *value);
bool stream_map_delete(struct wire_session *session, uint32_t map, const void *key);
bool stream_map_has(struct wire_session *session, uint32_t map, const void *key);
uint32_t stream_map_length(struct wire_session *session, uint32_t map);
/* `times`: how often, for histograms; others take the value once. `shard`: any number. */
bool stream_map_aggregate(struct wire_session *session, uint32_t map, const void *key, int64_t value, uint64_t times, uint32_t shard);
/* The same for a time series. */
bool stream_map_add_point(struct wire_session *session, uint32_t map, const void *key, int64_t value, uint64_t now_ns);
/* The value of a slot that has one. */
int64_t stream_slot_value(const struct wire_map_type *type, const struct wire_slot *slot);
int64_t stream_map_reduce(struct wire_session *session, uint32_t map, const void *key, uint32_t reduce);
/* The next key after *iterator (0 at first) into `key`. False at the end. */
bool stream_map_next(struct wire_session *session, uint32_t map, uint64_t *iterator, void *key);

/* A node in no chain, by its number + 1, may be used again. `layout` is the map's. */
void stream_map_give(struct wire_session *session, const struct wire_map *layout, uint32_t number);

/* Which slot of a histogram counts the value. */
uint32_t stream_hist_slot(const struct wire_map_type *type, int64_t value);

/* The number behind the word of a MIN or MAX map. */
int64_t stream_rank_value(const struct wire_map_type *type, uint64_t rank);

#endif
