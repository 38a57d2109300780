/* Nodes of deleted keys are used again.
 *
 * Writers find nodes through chains to which other writers only add at the head, so they need no lock, but a node can not be given another
 * key while one of them may still look at it. In four steps:
 *
 *  1. guard    once for each map: from now on writers change the states of nodes by compare-and-swap only, and each adds one to a count
 *              before it looks and takes it back afterwards. All of them know when every thread was outside of the code that works on
 *              maps at some time since, which is the caller's to see.
 *  2. retire   DEAD becomes RETIRED by compare-and-swap, which a writer that brings the key back to life may win. Nobody brings a retired
 *              node back. It is taken out of its chain, and keeps its own link: whoever stands on it goes on.
 *  3. wait     until every thread was outside at some time since. Then none has the node.
 *  4. free     the node joins the free list.
 *
 * Waiting goes by the counts. There are two sides, so that new writers do not keep a count from ever being 0: the unused one must be 0
 * (whoever read the side before the last change has left), then they change roles, and what is now unused must become 0. Where a writer
 * was killed in between, that never happens: then it is the caller who sees threads outside, every time. That a writer pays for all this
 * only when keys are many and never come again is why maps are not guarded from the start.
 *
 * The memory is the processes' to write: nothing read from it leads outside of the map, and every walk is bounded. */
#include "drain/maps.h"

#include "stream/map.h"

#include <stdlib.h>

static struct wire_node *node_at(const struct drain_session *session, const struct wire_map *map, uint32_t number)
{
    return (struct wire_node *)((char *)session->memory + map->nodes_offset + (uint64_t)number * map->node_bytes);
}

static struct wire_map_state *state_of(const struct drain_session *session, const struct wire_map *map)
{
    return (struct wire_map_state *)((char *)session->memory + map->state_offset);
}

/* Dead nodes are worth the work when they take up so much of the room that is left. The first time takes longer, so it begins earlier. */
static bool is_worth_it(const struct drain_session *session, uint32_t number)
{
    enum { USUALLY = 2, AT_FIRST = 16 };
    const struct wire_map *map = &session->map[number];
    const struct wire_map_state *state = state_of(session, map);
    uint64_t used = __atomic_load_n(&state->used, __ATOMIC_RELAXED), dead = 0, living = 0;
    used = used < map->nodes ? used : map->nodes;
    if (!map->type.key_bytes || !__atomic_load_n(&state->deleted, __ATOMIC_RELAXED) || used * AT_FIRST < map->nodes)
        return false;
    for (uint32_t i = 0; i < used; i++) {
        uint32_t one = __atomic_load_n(&node_at(session, map, i)->state, __ATOMIC_RELAXED);
        dead += one == WIRE_NODE_DEAD;
        living += one == WIRE_NODE_LIVE || one == WIRE_NODE_RISING;
    }
    uint64_t left = living + dead < map->nodes ? map->nodes - living - dead : 0;
    return dead && dead * (session->guard[number] == DRAIN_MAP_GUARDED ? USUALLY : AT_FIRST) >= left;
}

/* `number` from 0. False: it is in no chain where it should be, and is left alone for good. *left: how many steps a
 * round may still make, which is more than chains of keys that nobody has chosen to be in one take. */
static bool take_out(struct drain_session *session, const struct wire_map *map, uint32_t number, uint64_t *left)
{
    const struct wire_node *node = node_at(session, map, number);
    uint32_t *link = (uint32_t *)((char *)session->memory + map->buckets_offset) + (node->hash & map->bucket_mask);
    uint32_t *bucket = link, next = __atomic_load_n(&node->next, __ATOMIC_ACQUIRE);
    for (; *left; --*left) {
        uint32_t at = __atomic_load_n(link, __ATOMIC_ACQUIRE);
        if (at == number + 1) {
            /* Only the bucket is changed by others, too: a node may have come before this one. */
            if (__atomic_compare_exchange_n(link, &at, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                return true;
            link = bucket;
            continue;
        }
        if (!at || at > map->nodes)
            return false;
        link = &node_at(session, map, at - 1)->next;
    }
    return false;
}

static void retire_map(struct drain_session *session, uint32_t number)
{
    const struct wire_map *map = &session->map[number];
    enum { STEPS_A_NODE = 64 };
    uint32_t used = __atomic_load_n(&state_of(session, map)->used, __ATOMIC_ACQUIRE);
    uint64_t left = (uint64_t)map->nodes * STEPS_A_NODE;
    for (uint32_t i = 0; i < used && i < map->nodes && left; i++) {
        uint32_t dead = WIRE_NODE_DEAD;
        uint32_t *state = &node_at(session, map, i)->state;
        if (__atomic_load_n(state, __ATOMIC_RELAXED) != dead ||
            !__atomic_compare_exchange_n(state, &dead, WIRE_NODE_RETIRED, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        if (take_out(session, map, i, &left))
            VEC_PUSH(&session->retired, (struct drain_retired){number, i});
    }
}

static void set_guarded(struct drain_session *session, uint32_t number)
{
    uint32_t *guarded = &state_of(session, &session->map[number])->guarded;
    __atomic_store_n(guarded, session->guards_broken ? WIRE_MAP_UNCOUNTED : WIRE_MAP_COUNTED, __ATOMIC_SEQ_CST);
}

bool drain_maps_guard(struct drain_session *session)
{
    bool asked = false;
    for (uint32_t i = 0; i < session->layout.map_count; i++)
        asked |= session->guard[i] == DRAIN_MAP_ASKED;
    if (asked)
        return true;
    for (uint32_t i = 0; i < session->layout.map_count; i++) {
        if (session->guard[i] != DRAIN_MAP_OPEN || !is_worth_it(session, i))
            continue;
        set_guarded(session, i);
        session->guard[i] = DRAIN_MAP_ASKED;
        asked = true;
    }
    return asked;
}

void drain_maps_guarded(struct drain_session *session)
{
    for (uint32_t i = 0; i < session->layout.map_count; i++)
        if (session->guard[i] == DRAIN_MAP_ASKED)
            session->guard[i] = DRAIN_MAP_GUARDED;
}

bool drain_maps_retire(struct drain_session *session)
{
    if (session->retired.n)
        return true;
    session->guard_flipped = false;
    for (uint32_t i = 0; i < session->layout.map_count; i++)
        if (session->guard[i] == DRAIN_MAP_GUARDED && is_worth_it(session, i))
            retire_map(session, i);
    return session->retired.n;
}

static bool is_side_empty(const struct drain_session *session, uint32_t side)
{
    const struct wire_guard *guard = (const void *)((char *)session->memory + session->layout.guards_offset);
    for (uint32_t i = 0; i < WIRE_GUARDS; i++)
        if (__atomic_load_n(&guard[i].count[side], __ATOMIC_SEQ_CST))
            return false;
    return true;
}

bool drain_maps_left(struct drain_session *session)
{
    uint32_t *side = &wire_state(session->memory)->guard_side, now = session->guard_side;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!session->guard_flipped) {
        if (!is_side_empty(session, !now))
            return false;
        session->guard_side = now = !now;
        __atomic_store_n(side, now, __ATOMIC_SEQ_CST);
        session->guard_flipped = true;
    }
    return is_side_empty(session, !now);
}

void drain_maps_free(struct drain_session *session)
{
    for (size_t i = 0; i < session->retired.n; i++)
        stream_map_give(session->memory, &session->map[session->retired.at[i].map], session->retired.at[i].number + 1);
    session->retired.n = 0;
}

void drain_maps_uncount(struct drain_session *session)
{
    session->guards_broken = true;
    for (uint32_t i = 0; i < session->layout.map_count; i++)
        if (session->guard[i] != DRAIN_MAP_OPEN)
            set_guarded(session, i);
}
