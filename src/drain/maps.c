#include "drain/maps.h"

#include "stream/map.h"

#include <stdlib.h>
#include <string.h>

/* Which entries of a map are there is for the processes to say; where they can be is not. */
static struct wire_node *node_at(const struct drain_session *session, const struct wire_map *map, uint32_t number)
{
    return (struct wire_node *)((char *)session->memory + map->nodes_offset + (uint64_t)number * map->node_bytes);
}

static uint32_t nodes_used(const struct drain_session *session, const struct wire_map *map)
{
    const struct wire_map_state *state = (const void *)((char *)session->memory + map->state_offset);
    uint32_t used = map->type.key_bytes ? __atomic_load_n(&state->used, __ATOMIC_ACQUIRE) : 1;
    return used < map->nodes ? used : map->nodes;
}

static const uint64_t *shard_of(const struct wire_node *node, const struct wire_map *map, uint32_t shard)
{
    return (const uint64_t *)((const char *)(node + 1) + map->type.key_bytes + (size_t)shard * map->value_stride);
}

static uint64_t *add_up(const struct wire_node *node, const struct wire_map *map)
{
    uint32_t words = map->type.value_bytes / 8;
    bool ranked = map->type.kind == WIRE_MAP_MIN || map->type.kind == WIRE_MAP_MAX;
    uint64_t *sum = memory_zero(words ? words : 1, sizeof *sum);
    for (uint32_t shard = 0; shard < map->shards; shard++) {
        const uint64_t *word = shard_of(node, map, shard);
        for (uint32_t i = 0; i < words; i++) {
            uint64_t value = __atomic_load_n(&word[i], __ATOMIC_RELAXED);
            if (ranked)
                sum[i] = value > sum[i] ? value : sum[i];
            else
                sum[i] += value;
        }
    }
    if (ranked)
        sum[0] = (uint64_t)stream_rank_value(&map->type, sum[0]);
    return sum;
}

void drain_map_read(struct drain_session *session, uint32_t number, struct drain_contents *out)
{
    const struct wire_map *map = &session->map[number];
    *out = (struct drain_contents){.type = &map->type};
    for (uint32_t i = 0, used = nodes_used(session, map); i < used; i++) {
        const struct wire_node *node = node_at(session, map, i);
        if (__atomic_load_n(&node->state, __ATOMIC_ACQUIRE) != WIRE_NODE_LIVE)
            continue;
        uint8_t *key = memory_zero(map->type.key_bytes + 1, 1);
        memcpy(key, node + 1, map->type.key_bytes);
        uint64_t *word = add_up(node, map);
        VEC_PUSH(&out->owned, key);
        VEC_PUSH(&out->owned, word);
        VEC_PUSH(&out->entry, (struct drain_entry){key, word});
    }
}

void drain_contents_deinit(struct drain_contents *contents)
{
    for (size_t i = 0; i < contents->owned.n; i++)
        free(contents->owned.at[i]);
    VEC_FREE(&contents->owned);
    VEC_FREE(&contents->entry);
}

void drain_map_clear(struct drain_session *session, uint32_t number)
{
    const struct wire_map *map = &session->map[number];
    drain_begin_steps();
    for (uint32_t i = 0, used = nodes_used(session, map); i < used; i++)
        if (__atomic_load_n(&node_at(session, map, i)->state, __ATOMIC_ACQUIRE) == WIRE_NODE_LIVE)
            stream_map_delete(session->memory, number, node_at(session, map, i) + 1);
    drain_end_steps();
}

void drain_map_zero(struct drain_session *session, uint32_t number)
{
    const struct wire_map *map = &session->map[number];
    for (uint32_t i = 0, used = nodes_used(session, map); i < used; i++) {
        struct wire_node *node = node_at(session, map, i);
        for (uint32_t k = 0; k < map->shards * map->value_stride / 8; k++)
            __atomic_store_n((uint64_t *)shard_of(node, map, 0) + k, 0, __ATOMIC_RELAXED);
    }
}

uint64_t drain_map_refused(const struct drain_session *session, uint32_t number)
{
    const struct wire_map_state *state = (const void *)((char *)session->memory + session->map[number].state_offset);
    return __atomic_load_n(&state->refused, __ATOMIC_RELAXED);
}
