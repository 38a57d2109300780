#include "stream/stack.h"

#include <stdbool.h>

enum { STEPS_MOST = 4096 }; /* along a chain: more can only be one that somebody has spoilt */

/* Where a walk through the tree is. A node that was taken and then not needed, because another writer was first, serves the next frame. */
struct climb {
    struct wire_session *session;
    uint32_t spare; /* 0: none */
};

static struct wire_stack_node *node_at(const struct wire_session *session, uint32_t number)
{
    return (struct wire_stack_node *)((char *)session + session->stacks_offset) + (number - 1);
}

static uint32_t *bucket_of(const struct wire_session *session, uint32_t parent, uint64_t pc)
{
    uint32_t hash = ((uint32_t)pc ^ (uint32_t)(pc >> 32) * 0x85ebca6bu ^ parent * 0x9e3779b1u) * 0xc2b2ae35u;
    hash ^= hash >> 15;
    return (uint32_t *)((char *)session + session->stack_buckets_offset) + (hash & session->stack_bucket_mask);
}

/* Looks from node `from` on, up to node `until`. *spoilt: the chain makes no sense. */
static uint32_t find(const struct wire_session *session, uint32_t from, uint32_t until, uint32_t parent, uint64_t pc, bool *spoilt)
{
    uint32_t number = from;
    for (uint32_t steps = 0; number && number != until; steps++) {
        if (number > session->stack_nodes || steps == STEPS_MOST) {
            *spoilt = true;
            return 0;
        }
        const struct wire_stack_node *node = node_at(session, number);
        if (node->pc == pc && node->parent == parent)
            return number;
        number = __atomic_load_n(&node->next, __ATOMIC_RELAXED);
    }
    return 0;
}

static uint32_t take_node(struct climb *climb)
{
    struct wire_state *state = wire_state(climb->session);
    if (climb->spare)
        return climb->spare;
    /* The first look keeps the number from going round. */
    if (__atomic_load_n(&state->stacks_used, __ATOMIC_RELAXED) >= climb->session->stack_nodes)
        return 0;
    uint32_t number = __atomic_add_fetch(&state->stacks_used, 1, __ATOMIC_RELAXED);
    return number <= climb->session->stack_nodes ? number : 0;
}

static uint32_t step(struct climb *climb, uint32_t parent, uint64_t pc)
{
    struct wire_session *session = climb->session;
    uint32_t *bucket = bucket_of(session, parent, pc), first = __atomic_load_n(bucket, __ATOMIC_ACQUIRE);
    bool spoilt = false;
    uint32_t found = find(session, first, 0, parent, pc, &spoilt);
    if (found || spoilt)
        return found;
    uint32_t number = take_node(climb);
    if (!number)
        return 0;
    climb->spare = number;
    struct wire_stack_node *node = node_at(session, number);
    node->parent = parent;
    node->pc = pc;
    for (int tries = 0; tries < WIRE_TRIES; tries++) {
        uint32_t seen = first;
        node->next = first;
        if (__atomic_compare_exchange_n(bucket, &first, number, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            climb->spare = 0;
            return number;
        }
        found = find(session, first, seen, parent, pc, &spoilt);
        if (found || spoilt)
            return found;
    }
    return 0;
}

uint32_t stream_stack_add(struct wire_session *session, uint64_t root, const uint64_t *pcs, uint32_t count)
{
    struct climb climb = {.session = session};
    uint32_t number = session->stack_nodes ? step(&climb, 0, root) : 0;
    for (uint32_t i = count; number && i-- > 0;)
        number = step(&climb, number, pcs[i]);
    if (!number) {
        uint32_t *lost = (uint32_t *)&wire_state(session)->lost[WIRE_LOSS_STACK];
        __asm__ volatile("lock addl $1,%0\n lock adcl $0,%1" : "+m"(lost[0]), "+m"(lost[1]) : : "cc");
    }
    return number;
}
