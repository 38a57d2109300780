/* Collecting deleted keys while threads use the map: a map of few nodes, four writers whose keys never come again, and some keys that all
 * of them make and delete. Every value is what its writer wrote, no key is there twice, and no node is lost: while the map is open, when it
 * is guarded, and when a writer was killed that had counted itself in. timeout: 120 */
#include "drain/maps.h"
#include "stream/map.h"
#include "test/check.h"
#include "test/unit/map_bodies.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITERS = 4, ROUNDS = 6000, SESSIONS = 50, SHARED_KEYS = 5 };

static uint64_t outside[WRITERS]; /* counts up whenever the writer is in no call */
static uint64_t refused, done[WRITERS];
static uint32_t running;

static void step_outside(int writer)
{
    __atomic_add_fetch(&outside[writer], 1, __ATOMIC_SEQ_CST);
}

/* ---- what writers do ---- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* By the functions that the agent has: half of the writers. */
static bool set_by_call(uint64_t key, uint64_t value)
{
    return stream_map_set(session.memory, KEYS, &key, (int64_t)value);
}

static void take_by_call(uint64_t key, uint64_t value)
{
    CHECK(stream_map_get(session.memory, KEYS, &key) == (int64_t)value, "key %llx", (unsigned long long)key);
    CHECK(stream_map_delete(session.memory, KEYS, &key), "key %llx", (unsigned long long)key);
}

static void delete_by_call(uint64_t key)
{
    stream_map_delete(session.memory, KEYS, &key);
}

/* By bodies: the others. */
static bool set_by_body(uint64_t key, uint64_t value)
{
    is_refused = false;
    call_body(SET, key, value);
    return !is_refused;
}

static void take_by_body(uint64_t key, uint64_t value)
{
    call_body(TAKE, key, value);
}

static void delete_by_body(uint64_t key)
{
    call_body(DELETE, key, 0);
}

static const struct way {
    bool (*set)(uint64_t key, uint64_t value);
    void (*take)(uint64_t key, uint64_t value); /* reads it, which must give the value, and deletes it */
    void (*delete)(uint64_t key);
} ways[] = {{set_by_call, take_by_call, delete_by_call}, {set_by_body, take_by_body, delete_by_body}};

/* ---- writers ---- */

static void *write_keys(void *argument)
{
    int writer = (int)(intptr_t)argument;
    const struct way *way = &ways[writer & 1];
    uint64_t random = 88172645463325252ull + (uint64_t)writer;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        uint64_t key = (uint64_t)(writer + 1) << 40 | i, shared = next_random(&random) % SHARED_KEYS;
        while (!way->set(key, i)) {
            __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
            step_outside(writer);
            sched_yield();
        }
        step_outside(writer);
        if (i & 1)
            way->set(shared, shared + 1000);
        else
            way->delete (shared);
        int64_t value = stream_map_get(session.memory, KEYS, &shared);
        CHECK(!value || value == (int64_t)shared + 1000, "shared key %llu: %lld", (unsigned long long)shared, (long long)value);
        step_outside(writer);
        way->take(key, i);
        CHECK(!stream_map_has(session.memory, KEYS, &key), "writer %d, %llu", writer, (unsigned long long)i);
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

/* One that was killed while it worked on the map. */
static void leave_one_counted(void)
{
    struct wire_guard *guard = (struct wire_guard *)((char *)session.memory + session.layout.guards_offset);
    __atomic_add_fetch(&guard[5].count[0], 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&guard[5].count[1], 1, __ATOMIC_SEQ_CST);
}

static uint64_t all, freed_counted, freed_uncounted;

static void collect(void)
{
    if (drain_maps_guard(&session)) {
        CHECK(!session.retired.n, "%zu nodes of an open map", session.retired.n);
        wait_until_seen_outside();
        drain_maps_guarded(&session);
    }
    if (!drain_maps_retire(&session))
        return;
    uint64_t *freed = session.guards_broken ? &freed_uncounted : &freed_counted;
    if (session.guards_broken)
        wait_until_seen_outside();
    else
        while (!drain_maps_left(&session))
            sched_yield();
    *freed += session.retired.n;
    drain_maps_free(&session);
    if (!session.guards_broken && __atomic_load_n(&done[0], __ATOMIC_RELAXED) > ROUNDS / 2 &&
        __atomic_load_n(&done[1], __ATOMIC_RELAXED) > ROUNDS / 2) {
        leave_one_counted();
        while (!drain_maps_retire(&session) && __atomic_load_n(&running, __ATOMIC_SEQ_CST) == WRITERS)
            sched_yield();
        CHECK(!session.retired.n || !drain_maps_left(&session), "a writer that is in is not seen");
        drain_maps_uncount(&session);
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

static struct err *run_session(void)
{
    pthread_t thread[WRITERS];
    ERR_TRY(make_session());
    memset(done, 0, sizeof done);
    running = WRITERS;
    for (intptr_t i = 0; i < WRITERS; i++)
        pthread_create(&thread[i], NULL, write_keys, (void *)i);
    while (__atomic_load_n(&running, __ATOMIC_SEQ_CST) == WRITERS)
        collect();
    while (__atomic_load_n(&running, __ATOMIC_SEQ_CST)) {
        collect();
        sched_yield();
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(thread[i], NULL);
        all += done[i];
    }
    check_nodes();
    int64_t wrong = stream_map_get(session.memory, WRONG, NULL);
    CHECK(!wrong, "bodies found %lld values wrong", (long long)wrong);
    destroy_session();
    return NULL;
}

int main(void)
{
    for (int i = 0; i < SESSIONS && !failures; i++) {
        struct err *error = run_session();
        if (error) {
            printf("%s\n", error->message);
            return 1;
        }
    }
    CHECK(all == (uint64_t)SESSIONS * WRITERS * ROUNDS, "%llu", (unsigned long long)all);
    CHECK(freed_counted > all / 8 && freed_uncounted > all / 8, "freed %llu and %llu of %llu", (unsigned long long)freed_counted,
          (unsigned long long)freed_uncounted, (unsigned long long)all);
    printf("%llu keys through %d nodes, %llu and %llu collected, %llu waits for room, %d failures\n", (unsigned long long)all, NODES,
           (unsigned long long)freed_counted, (unsigned long long)freed_uncounted, (unsigned long long)refused, failures);
    return failures != 0;
}
