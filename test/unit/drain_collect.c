/* Collecting deleted keys while threads use the map: a map of few nodes, four writers whose keys never come again, and some keys that all
 * of them make and delete. Every value is what its writer wrote, no key is there twice, and no node is lost. timeout: 120 */
#include "drain/maps.h"
#include "stream/map.h"
#include "test/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITERS = 4, ROUNDS = 300000, NODES = 256, CAPACITY = 64, SHARED_KEYS = 5 };

static struct drain_session session;
static uint64_t outside[WRITERS]; /* counts up whenever the writer is in no call */
static uint64_t refused, done[WRITERS];
static uint32_t running;

static void step_outside(int writer)
{
    __atomic_add_fetch(&outside[writer], 1, __ATOMIC_SEQ_CST);
}

/* ---- writers ---- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void set(int writer, uint64_t key, int64_t value)
{
    while (!stream_map_set(session.memory, 0, &key, value)) {
        __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
        step_outside(writer);
        sched_yield();
    }
}

static void *write_keys(void *argument)
{
    int writer = (int)(intptr_t)argument;
    uint64_t random = 88172645463325252ull + (uint64_t)writer;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        uint64_t key = (uint64_t)(writer + 1) << 40 | i, shared = next_random(&random) % SHARED_KEYS;
        int64_t sum;
        set(writer, key, (int64_t)i);
        step_outside(writer);
        CHECK(stream_map_get(session.memory, 0, &key) == (int64_t)i, "writer %d, %llu", writer, (unsigned long long)i);
        CHECK(stream_map_add(session.memory, 0, &key, 7, &sum) && sum == (int64_t)i + 7, "%lld", (long long)sum);
        step_outside(writer);
        if (i & 1)
            set(writer, shared, 1);
        else
            stream_map_delete(session.memory, 0, &shared);
        CHECK(stream_map_get(session.memory, 0, &key) == (int64_t)i + 7, "writer %d, %llu", writer, (unsigned long long)i);
        CHECK(stream_map_delete(session.memory, 0, &key), "writer %d, %llu", writer, (unsigned long long)i);
        CHECK(!stream_map_has(session.memory, 0, &key), "writer %d, %llu", writer, (unsigned long long)i);
        done[writer]++;
        step_outside(writer);
    }
    __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* ---- the collector ---- */

/* What stopping the processes tells. */
static void wait_until_seen_outside(void)
{
    uint64_t before[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        before[i] = __atomic_load_n(&outside[i], __ATOMIC_SEQ_CST);
    for (int i = 0; i < WRITERS; i++)
        while (__atomic_load_n(&outside[i], __ATOMIC_SEQ_CST) == before[i] && __atomic_load_n(&running, __ATOMIC_SEQ_CST) == WRITERS)
            sched_yield();
}

static void collect(uint64_t *freed)
{
    if (drain_maps_retire(&session, false)) {
        wait_until_seen_outside();
        *freed += session.retired[0].n;
        drain_maps_free(&session, false);
    }
    if (drain_maps_retire(&session, true)) {
        while (!drain_maps_left(&session))
            sched_yield();
        *freed += session.retired[1].n;
        drain_maps_free(&session, true);
    }
}

/* ---- afterwards ---- */

static void check_nodes(void)
{
    const struct wire_map *map = &session.map[0];
    const struct wire_map_state *state = (const void *)((char *)session.memory + map->state_offset);
    uint32_t count[WIRE_NODE_RISING + 1] = {0}, free_nodes = 0, found = 0;
    for (uint32_t i = 0; i < state->used; i++) {
        const struct wire_node *node = (const void *)((char *)session.memory + map->nodes_offset + i * map->node_bytes);
        count[node->state]++;
    }
    for (uint32_t at = (uint32_t)state->free; at && free_nodes <= NODES; free_nodes++)
        at = ((const struct wire_node *)((char *)session.memory + map->nodes_offset + (at - 1) * map->node_bytes))->next_free;
    CHECK(count[WIRE_NODE_LIVE] == stream_map_length(session.memory, 0), "%u live", count[WIRE_NODE_LIVE]);
    CHECK(count[WIRE_NODE_LIVE] + count[WIRE_NODE_DEAD] + free_nodes == state->used, "%u + %u + %u of %u", count[WIRE_NODE_LIVE],
          count[WIRE_NODE_DEAD], free_nodes, state->used);
    uint64_t iterator = 0, key, seen = 0;
    while (stream_map_next(session.memory, 0, &iterator, &key)) {
        CHECK(key < SHARED_KEYS && !(seen >> key & 1), "key %llx", (unsigned long long)key);
        CHECK(stream_map_has(session.memory, 0, &key), "key %llx", (unsigned long long)key);
        seen |= 1ull << (key & 63);
        found++;
    }
    CHECK(found == count[WIRE_NODE_LIVE], "%u found of %u", found, count[WIRE_NODE_LIVE]);
}

int main(void)
{
    struct {
        struct wire_stream head;
        struct wire_map_type map;
    } stream = {.head = {.magic = WIRE_STREAM_MAGIC, .bytes = sizeof stream, .map_count = 1, .map_offset = sizeof stream.head},
                .map = {.kind = WIRE_MAP_INT, .key_bytes = 8, .value_bytes = 8, .capacity = CAPACITY}};
    struct drain_options options = {.ring_bytes = 4096};
    pthread_t thread[WRITERS];
    uint64_t freed = 0, all = 0;
    struct err *error = drain_session_create(&stream.head, &options, &session);
    if (error) {
        printf("%s\n", error->message);
        return 1;
    }
    session.map[0].nodes = stream_map(session.memory, 0)->nodes = NODES;
    running = WRITERS;
    for (intptr_t i = 0; i < WRITERS; i++)
        pthread_create(&thread[i], NULL, write_keys, (void *)i);
    while (__atomic_load_n(&running, __ATOMIC_SEQ_CST) == WRITERS)
        collect(&freed);
    while (__atomic_load_n(&running, __ATOMIC_SEQ_CST)) {
        collect(&freed);
        sched_yield();
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(thread[i], NULL);
        all += done[i];
    }
    check_nodes();
    CHECK(all == (uint64_t)WRITERS * ROUNDS, "%llu", (unsigned long long)all);
    CHECK(session.guarded[0] && freed > all / 2, "%llu freed of %llu", (unsigned long long)freed, (unsigned long long)all);
    printf("%llu keys through %d nodes, %llu collected, %llu waits for room, %d failures\n", (unsigned long long)all, NODES,
           (unsigned long long)freed, (unsigned long long)refused, failures);
    drain_session_destroy(&session);
    return failures != 0;
}
