/* Maps. A node, once in its chain, stays there with its key until the controller takes it out, so a writer that found it may use it.
 * Deleting marks it dead; using the key again brings it back to life, or, if the controller has retired it meanwhile, takes another node.
 * What was taken out is used again only when no writer can have found it before (drain/collect.c). Where keys come and go for good, writers
 * count themselves in and out, so that the controller can see that. Bodies do some of this in place, and while nothing is taken out of a
 * map with plain stores (jit/x86_64_map.c).
 *
 * A node that comes to life is RISING for a few instructions, in which one writer gives it its first value. Another that meets it waits a
 * little, and then counts what it wanted to do as refused rather than waiting for a writer that may be stopped, or below it on its own
 * stack. */
#include "stream/map.h"

#include "stream/port.h"

/* Some tens of milliseconds: a writer that lost its processor in those few instructions has it back by then. */
enum { SPINS = 1 << 21 };
/* Longer than chains of keys that nobody has chosen to be in one. */
enum { LONG_CHAIN = 256 };
/* How many turns of waiting, and steps along what is longer, are told of at once. */
enum { SPINS_TOLD = 1024 };

/* ---- 64-bit words, in 32-bit code too ---- */

static uint64_t load64(const uint64_t *at)
{
#ifdef __i386__
    /* A compare-and-swap of zero with zero is the load that general registers can do in one go. */
    return __sync_val_compare_and_swap((uint64_t *)(uintptr_t)at, 0, 0);
#else
    return __atomic_load_n(at, __ATOMIC_RELAXED);
#endif
}

static bool swap64(uint64_t *at, uint64_t old, uint64_t new)
{
    return __sync_bool_compare_and_swap(at, old, new);
}

static void store64(uint64_t *at, uint64_t value)
{
#ifdef __i386__
    for (uint64_t old = *(volatile uint64_t *)at, seen; (seen = __sync_val_compare_and_swap(at, old, value)) != old; old = seen)
        ;
#else
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
#endif
}

static uint64_t add64(uint64_t *at, uint64_t value)
{
#ifdef __i386__
    uint64_t old = *(volatile uint64_t *)at;
    for (uint64_t seen; (seen = __sync_val_compare_and_swap(at, old, old + value)) != old; old = seen)
        ;
    return old + value;
#else
    return __atomic_add_fetch(at, value, __ATOMIC_RELAXED);
#endif
}

/* ---- where things are ---- */

struct wire_map *stream_map(struct wire_session *session, uint32_t map)
{
    return (struct wire_map *)((char *)session + session->maps_offset) + map;
}

static struct wire_map_state *state_of(struct wire_session *session, const struct wire_map *map)
{
    return (struct wire_map_state *)((char *)session + map->state_offset);
}

static struct wire_node *node_at(struct wire_session *session, const struct wire_map *map, uint32_t number)
{
    return (struct wire_node *)((char *)session + map->nodes_offset + (uint64_t)number * map->node_bytes);
}

static char *key_of(struct wire_node *node)
{
    return (char *)(node + 1);
}

static uint64_t *value_of(struct wire_node *node, const struct wire_map *map, uint32_t shard)
{
    return (uint64_t *)(key_of(node) + map->type.key_bytes + (size_t)(shard & (map->shards - 1)) * map->value_stride);
}

static uint32_t *bucket_of(struct wire_session *session, const struct wire_map *map, uint32_t hash)
{
    return (uint32_t *)((char *)session + map->buckets_offset) + (hash & map->bucket_mask);
}

/* The same in both data models: they share the maps. */
static uint32_t hash_key(const void *key, uint32_t bytes)
{
    const uint32_t *word = key;
    uint32_t hash = 0x811c9dc5u;
    if (bytes == 8) { /* most keys: two products side by side */
        hash = word[0] * STREAM_MAP_FACTOR_LOW ^ word[1] * STREAM_MAP_FACTOR_HIGH;
        return hash ^ hash >> STREAM_MAP_HASH_SHIFT;
    }
    for (uint32_t i = 0; i < bytes / 4; i++) {
        hash = (hash ^ word[i]) * 0x9e3779b1u;
        hash ^= hash >> 15;
    }
    return hash;
}

/* Of keys, which have 8 bytes at least. */
static bool same_key(const void *a, const void *b, uint32_t bytes)
{
    const uint64_t *x = a, *y = b;
    if (x[0] != y[0])
        return false;
    for (uint32_t i = 1; i < bytes / 8; i++)
        if (x[i] != y[i])
            return false;
    return true;
}

static void copy_words(void *to, const void *from, uint32_t bytes)
{
    volatile uint64_t *x = to;
    const volatile uint64_t *y = from;
    for (uint32_t i = 0; i < bytes / 8; i++)
        x[i] = y[i];
}

static void zero_words(void *to, uint32_t bytes)
{
    volatile uint64_t *x = to;
    for (uint32_t i = 0; i < bytes / 8; i++)
        x[i] = 0;
}

/* ---- guards ---- */

/* Which guard: threads have stacks of their own. */
static uint32_t *enter(struct wire_session *session, const struct wire_map *map)
{
    char here;
    if (!map->type.key_bytes || __atomic_load_n(&state_of(session, map)->guarded, __ATOMIC_RELAXED) != WIRE_MAP_COUNTED)
        return 0;
    struct wire_guard *guard = (struct wire_guard *)((char *)session + session->guards_offset);
    uint32_t number = ((uint32_t)((uintptr_t)&here >> 14) * 0x9e3779b1u >> 16) & (WIRE_GUARDS - 1);
    uint32_t *count = &guard[number].count[__atomic_load_n(&wire_state(session)->guard_side, __ATOMIC_RELAXED) & 1];
    __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
    return count;
}

static void leave(uint32_t **count)
{
    if (*count)
        __atomic_sub_fetch(*count, 1, __ATOMIC_RELEASE);
}

/* From here to the end of the block, what is found in the map stays there. */
#define GUARD(session, map) uint32_t *guard __attribute__((cleanup(leave), unused)) = enter(session, map)

/* ---- finding ---- */

/* The node of the key in the chain from `first` up to but not including `last`, whatever its state unless it is going away. The length of
 * the walk is bounded by the map's room: the memory is not to be trusted. */
static inline __attribute__((always_inline)) struct wire_node *find_in_chain(struct wire_session *session, const struct wire_map *map,
                                                                             uint32_t first, uint32_t last, uint32_t hash, const void *key)
{
    uint32_t steps = 0;
    for (uint32_t number = first; number && number != last && number <= map->nodes && steps <= map->nodes; steps++) {
        struct wire_node *node = node_at(session, map, number - 1);
        if (node->hash == hash && same_key(key_of(node), key, map->type.key_bytes) &&
            __atomic_load_n(&node->state, __ATOMIC_ACQUIRE) != WIRE_NODE_RETIRED)
            return node;
        if (steps % LONG_CHAIN == LONG_CHAIN - 1 && !port_goes_on(LONG_CHAIN))
            return 0;
        number = __atomic_load_n(&node->next, __ATOMIC_ACQUIRE);
    }
    return 0;
}

static struct wire_node *find(struct wire_session *session, struct wire_map *map, const void *key)
{
    struct wire_node *node;
    if (!map->type.key_bytes) {
        node = node_at(session, map, 0);
    } else {
        uint32_t hash = hash_key(key, map->type.key_bytes);
        node = find_in_chain(session, map, __atomic_load_n(bucket_of(session, map, hash), __ATOMIC_ACQUIRE), 0, hash, key);
    }
    return node && __atomic_load_n(&node->state, __ATOMIC_ACQUIRE) == WIRE_NODE_LIVE ? node : 0;
}

/* ---- adding ---- */

/* A node nobody else has, or 0. */
static uint32_t take_node(struct wire_session *session, const struct wire_map *map)
{
    struct wire_map_state *state = state_of(session, map);
    int tries = 0;
    for (uint64_t free = load64(&state->free); (uint32_t)free && (uint32_t)free <= map->nodes && tries++ < WIRE_TRIES;
         free = load64(&state->free)) {
        uint64_t rest = ((free >> 32) + 1) << 32 | __atomic_load_n(&node_at(session, map, (uint32_t)free - 1)->next_free, __ATOMIC_RELAXED);
        if (swap64(&state->free, free, rest))
            return (uint32_t)free;
    }
    /* The spare ones are for the dead, if there ever were any. */
    uint32_t most = __atomic_load_n(&state->deleted, __ATOMIC_RELAXED) ? map->nodes : map->type.capacity;
    for (uint32_t used = __atomic_load_n(&state->used, __ATOMIC_RELAXED); used < most && tries++ < WIRE_TRIES;)
        if (__atomic_compare_exchange_n(&state->used, &used, used + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return used + 1;
    return 0;
}

void stream_map_give(struct wire_session *session, const struct wire_map *layout, uint32_t number)
{
    struct wire_map_state *state = state_of(session, layout);
    struct wire_node *node = node_at(session, layout, number - 1);
    uint64_t free = load64(&state->free);
    for (int tries = 0; tries < WIRE_TRIES; tries++) {
        __atomic_store_n(&node->next_free, (uint32_t)free, __ATOMIC_RELAXED);
        if (swap64(&state->free, free, ((free >> 32) + 1) << 32 | number))
            return;
        free = load64(&state->free);
    }
}

static void refuse(struct wire_session *session, const struct wire_map *map)
{
    add64(&state_of(session, map)->refused, 1);
    add64(&wire_state(session)->lost[WIRE_LOSS_MAP], 1);
}

/* RAISED: it had no value, is RISING, and the caller must give it one and then call risen(). GONE: the controller takes it out. */
enum raised { IS_LIVE, RAISED, GONE, NOT_NOW };

/* Makes a node whose key is in the map one that has a value. */
static enum raised raise_node(struct wire_node *node)
{
    for (int spin = 0; spin < SPINS; spin++) {
        uint32_t state = __atomic_load_n(&node->state, __ATOMIC_ACQUIRE);
        if (state == WIRE_NODE_LIVE)
            return IS_LIVE;
        if (state == WIRE_NODE_RETIRED)
            return GONE;
        if (state != WIRE_NODE_RISING &&
            __atomic_compare_exchange_n(&node->state, &state, WIRE_NODE_RISING, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return RAISED;
        if (spin % SPINS_TOLD == SPINS_TOLD - 1 && !port_goes_on(SPINS_TOLD))
            break;
        __builtin_ia32_pause();
    }
    return NOT_NOW;
}

static void risen(struct wire_node *node)
{
    __atomic_store_n(&node->state, WIRE_NODE_LIVE, __ATOMIC_RELEASE);
}

/* A node with the key, RISING, in no chain yet. 0: there is none. */
static uint32_t make_node(struct wire_session *session, const struct wire_map *map, uint32_t hash, const void *key)
{
    uint32_t number = take_node(session, map);
    if (!number)
        return 0;
    struct wire_node *node = node_at(session, map, number - 1);
    copy_words(key_of(node), key, map->type.key_bytes);
    node->hash = hash;
    __atomic_store_n(&node->state, WIRE_NODE_RISING, __ATOMIC_RELAXED);
    return number;
}

/* The node of the key, RISING and with any values when it is *fresh. 0: no room, which has been counted. */
static struct wire_node *find_or_add(struct wire_session *session, struct wire_map *map, const void *key, bool *fresh)
{
    struct wire_node *node;
    uint32_t number = 0, seen = 0;
    uint32_t hash = map->type.key_bytes ? hash_key(key, map->type.key_bytes) : 0;
    uint32_t *bucket = map->type.key_bytes ? bucket_of(session, map, hash) : 0;
    for (int tries = 0; tries < WIRE_TRIES && port_goes_on(0); tries++) {
        uint32_t first = bucket ? __atomic_load_n(bucket, __ATOMIC_ACQUIRE) : 0;
        node = bucket ? find_in_chain(session, map, first, seen, hash, key) : node_at(session, map, 0);
        if (node) {
            if (number) {
                stream_map_give(session, map, number);
                number = 0;
            }
            enum raised raised = raise_node(node);
            *fresh = raised == RAISED;
            if (raised == IS_LIVE || raised == RAISED)
                return node;
            if (raised == NOT_NOW)
                break;
            seen = 0;
            continue;
        }
        seen = first;
        if (!number && !(number = make_node(session, map, hash, key)))
            break;
        node = node_at(session, map, number - 1);
        __atomic_store_n(&node->next, first, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(bucket, &first, number, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
            *fresh = true;
            return node;
        }
    }
    if (number)
        stream_map_give(session, map, number);
    refuse(session, map);
    return 0;
}

/* The same, whose values are zero when it is *fresh. */
static struct wire_node *find_or_add_zero(struct wire_session *session, struct wire_map *map, const void *key, bool *fresh)
{
    struct wire_node *node = find_or_add(session, map, key, fresh);
    if (node && *fresh)
        zero_words(value_of(node, map, 0), map->value_stride * map->shards);
    return node;
}

/* ---- integers and values ---- */

int64_t stream_map_get(struct wire_session *session, uint32_t map, const void *key)
{
    struct wire_map *m = stream_map(session, map);
    GUARD(session, m);
    struct wire_node *node = find(session, m, key);
    return node ? (int64_t)load64(value_of(node, m, 0)) : 0;
}

bool stream_map_set(struct wire_session *session, uint32_t map, const void *key, int64_t value)
{
    struct wire_map *m = stream_map(session, map);
    GUARD(session, m);
    bool fresh;
    struct wire_node *node = find_or_add(session, m, key, &fresh);
    if (!node)
        return false;
    store64(value_of(node, m, 0), (uint64_t)value);
    if (fresh)
        risen(node);
    return true;
}

bool stream_map_add(struct wire_session *session, uint32_t map, const void *key, int64_t value, int64_t *sum)
{
    struct wire_map *m = stream_map(session, map);
    GUARD(session, m);
    bool fresh;
    struct wire_node *node = find_or_add_zero(session, m, key, &fresh);
    *sum = 0;
    if (!node)
        return false;
    *sum = (int64_t)add64(value_of(node, m, 0), (uint64_t)value);
    if (fresh)
        risen(node);
    return true;
}

bool stream_map_get_value(struct wire_session *session, uint32_t map, const void *key, void *value)
{
    struct wire_map *m = stream_map(session, map);
    GUARD(session, m);
    struct wire_node *node = find(session, m, key);
    if (node)
        copy_words(value, value_of(node, m, 0), m->type.value_bytes);
    else
        zero_words(value, m->type.value_bytes);
    return node;
}

bool stream_map_set_value(struct wire_session *session, uint32_t map, const void *key, const void *value)
{
    struct wire_map *m = stream_map(session, map);
    GUARD(session, m);
    bool fresh;
    struct wire_node *node = find_or_add(session, m, key, &fresh);
    if (!node)
        return false;
    copy_words(value_of(node, m, 0), value, m->type.value_bytes);
    if (fresh)
        risen(node);
    return true;
}

bool stream_map_delete(struct wire_session *session, uint32_t map, const void *key)
{
    struct wire_map *m = stream_map(session, map);
    GUARD(session, m);
    struct wire_node *node = find(session, m, key);
    uint32_t live = WIRE_NODE_LIVE, *deleted = &state_of(session, m)->deleted;
    if (!node || !__atomic_compare_exchange_n(&node->state, &live, WIRE_NODE_DEAD, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    if (!__atomic_load_n(deleted, __ATOMIC_RELAXED))
        __atomic_store_n(deleted, 1, __ATOMIC_RELAXED);
    return true;
}

bool stream_map_has(struct wire_session *session, uint32_t map, const void *key)
{
    struct wire_map *m = stream_map(session, map);
    GUARD(session, m);
    return find(session, m, key);
}

/* Keeping count would cost every insertion and every deletion more than looking costs those who ask. */
uint32_t stream_map_length(struct wire_session *session, uint32_t map)
{
    struct wire_map *m = stream_map(session, map);
    uint32_t used = m->type.key_bytes ? __atomic_load_n(&state_of(session, m)->used, __ATOMIC_ACQUIRE) : 1, length = 0;
    for (uint32_t i = 0; i < used && i < m->nodes; i++)
        length += __atomic_load_n(&node_at(session, m, i)->state, __ATOMIC_RELAXED) == WIRE_NODE_LIVE;
    return length;
}

bool stream_map_next(struct wire_session *session, uint32_t map, uint64_t *iterator, void *key)
{
    struct wire_map *m = stream_map(session, map);
    GUARD(session, m);
    uint32_t used = m->type.key_bytes ? __atomic_load_n(&state_of(session, m)->used, __ATOMIC_ACQUIRE) : 1;
    while (*iterator < used && *iterator < m->nodes) {
        struct wire_node *node = node_at(session, m, (uint32_t)(*iterator)++);
        if (__atomic_load_n(&node->state, __ATOMIC_ACQUIRE) != WIRE_NODE_LIVE)
            continue;
        copy_words(key, key_of(node), m->type.key_bytes);
        return true;
    }
    return false;
}

/* ---- aggregations ---- */

/* Least and most are kept so that zero means none and the larger word wins. */
static bool wants_least(const struct wire_map_type *type)
{
    return type->kind == WIRE_MAP_MIN || (type->kind == WIRE_MAP_TSERIES && type->param[2] == WIRE_SERIES_MIN);
}

static uint64_t as_rank(const struct wire_map_type *type, int64_t value)
{
    uint64_t rank = (uint64_t)value ^ (type->is_signed ? 1ull << 63 : 0);
    return wants_least(type) ? ~rank : rank;
}

static void raise_to(uint64_t *word, uint64_t rank)
{
    int tries = 0;
    for (uint64_t old = load64(word); old < rank && !swap64(word, old, rank) && tries++ < WIRE_TRIES; old = load64(word))
        ;
}

int64_t stream_rank_value(const struct wire_map_type *type, uint64_t rank)
{
    rank = wants_least(type) ? ~rank : rank;
    return (int64_t)(rank ^ (type->is_signed ? 1ull << 63 : 0));
}

static uint32_t log2_of(uint64_t value)
{
    uint32_t high = (uint32_t)(value >> 32);
    return high ? 63 - (uint32_t)__builtin_clz(high) : 31 - (uint32_t)__builtin_clz((uint32_t)value);
}

/* Quotient of numbers of which the divisor is less than 2^63; 32-bit code has no such instruction. */
static uint64_t divide(uint64_t a, uint64_t b)
{
#ifdef __i386__
    uint64_t quotient = 0, rest = 0;
    if (!(a >> 32) && !(b >> 32))
        return (uint32_t)a / (uint32_t)b;
    for (int bit = 63; bit >= 0; bit--) {
        rest = rest << 1 | (a >> bit & 1);
        quotient <<= 1;
        if (rest >= b) {
            rest -= b;
            quotient |= 1;
        }
    }
    return quotient;
#else
    return a / b;
#endif
}

uint32_t stream_hist_slot(const struct wire_map_type *type, int64_t value)
{
    if (type->kind == WIRE_MAP_LHIST) {
        uint32_t slots = type->value_bytes / 8;
        bool below = type->is_signed || type->param[0] < 0 ? value < type->param[0] : (uint64_t)value < (uint64_t)type->param[0];
        bool above = type->is_signed || type->param[1] < 0 ? value >= type->param[1] : (uint64_t)value >= (uint64_t)type->param[1];
        return below ? 0 : above ? slots - 1 : 1 + (uint32_t)divide((uint64_t)value - (uint64_t)type->param[0], (uint64_t)type->param[2]);
    }
    uint32_t bits = (uint32_t)type->param[0];
    if (value < 0 && type->is_signed)
        return 0;
    uint64_t plain = (uint64_t)value;
    if (plain >> bits == 0)
        return 1 + (uint32_t)plain;
    uint32_t power = log2_of(plain) - bits;
    return 1 + (1u << bits) + (power << bits) + (uint32_t)(plain >> power) - (1u << bits);
}

bool stream_map_aggregate(struct wire_session *session, uint32_t map, const void *key, int64_t value, uint64_t times, uint32_t shard)
{
    struct wire_map *m = stream_map(session, map);
    GUARD(session, m);
    bool fresh;
    struct wire_node *node = find_or_add_zero(session, m, key, &fresh);
    if (!node)
        return false;
    uint64_t *word = value_of(node, m, shard);
    switch (m->type.kind) {
    case WIRE_MAP_COUNT:
        add64(word, 1);
        break;
    case WIRE_MAP_SUM:
        add64(word, (uint64_t)value);
        break;
    case WIRE_MAP_AVG:
    case WIRE_MAP_STATS:
        add64(word, 1);
        add64(word + 1, (uint64_t)value);
        break;
    case WIRE_MAP_MIN:
    case WIRE_MAP_MAX:
        raise_to(word, as_rank(&m->type, value));
        break;
    case WIRE_MAP_HIST:
    case WIRE_MAP_LHIST:
        add64(word + stream_hist_slot(&m->type, value), times);
        break;
    }
    if (fresh)
        risen(node);
    return true;
}

static int64_t average(const struct wire_map_type *type, uint64_t sum, uint64_t count)
{
    if (!count || count >> 63)
        return 0;
    if (type->is_signed && sum >> 63)
        return (int64_t)(0 - divide(0 - sum, count));
    return (int64_t)divide(sum, count);
}

/* ---- time series ---- */

/* Makes the slot that of interval number `wanted` - 1, empty if it was another's. False: another writer is about it for too long. */
static bool turn_slot(struct wire_slot *slot, uint64_t wanted)
{
    for (int spin = 0; spin < SPINS; spin++) {
        uint64_t interval = load64(&slot->interval);
        if (interval == wanted || (interval > wanted && interval < WIRE_SLOT_BUSY))
            return interval == wanted;
        if (interval < WIRE_SLOT_BUSY && swap64(&slot->interval, interval, wanted | WIRE_SLOT_BUSY)) {
            store64(&slot->count, 0);
            store64(&slot->value, 0);
            store64(&slot->interval, wanted);
            return true;
        }
        if (spin % SPINS_TOLD == SPINS_TOLD - 1 && !port_goes_on(SPINS_TOLD))
            break;
        __builtin_ia32_pause();
    }
    return false;
}

bool stream_map_add_point(struct wire_session *session, uint32_t map, const void *key, int64_t value, uint64_t now_ns)
{
    struct wire_map *m = stream_map(session, map);
    GUARD(session, m);
    bool fresh;
    struct wire_node *node = find_or_add_zero(session, m, key, &fresh);
    if (!node)
        return false;
    if (fresh)
        risen(node);
    uint64_t interval = divide(now_ns, (uint64_t)m->type.param[0]), turns = divide(interval, (uint64_t)m->type.param[1]);
    struct wire_slot *slot = (struct wire_slot *)value_of(node, m, 0) + (interval - turns * (uint64_t)m->type.param[1]);
    if (!turn_slot(slot, interval + 1)) {
        refuse(session, m);
        return true; /* counted as a loss; the clause goes on */
    }
    switch (m->type.param[2]) {
    case WIRE_SERIES_LAST:
        store64(&slot->value, (uint64_t)value);
        break;
    case WIRE_SERIES_MIN:
    case WIRE_SERIES_MAX:
        raise_to(&slot->value, as_rank(&m->type, value));
        break;
    default:
        add64(&slot->value, (uint64_t)value);
    }
    add64(&slot->count, 1);
    return true;
}

int64_t stream_slot_value(const struct wire_map_type *type, const struct wire_slot *slot)
{
    switch (type->param[2]) {
    case WIRE_SERIES_MIN:
    case WIRE_SERIES_MAX:
        return stream_rank_value(type, slot->value);
    case WIRE_SERIES_AVG:
        return average(type, slot->value, slot->count);
    default:
        return (int64_t)slot->value;
    }
}

int64_t stream_map_reduce(struct wire_session *session, uint32_t map, const void *key, uint32_t reduce)
{
    struct wire_map *m = stream_map(session, map);
    GUARD(session, m);
    struct wire_node *node = find(session, m, key);
    if (!node)
        return 0;
    uint64_t first = 0, second = 0, most = 0;
    for (uint32_t shard = 0; shard < m->shards; shard++) {
        const uint64_t *word = value_of(node, m, shard);
        uint64_t value = load64(word);
        first += value;
        second += m->type.value_bytes > 8 ? load64(word + 1) : 0;
        most = value > most ? value : most;
    }
    bool ranked = m->type.kind == WIRE_MAP_MIN || m->type.kind == WIRE_MAP_MAX,
         pair = m->type.kind == WIRE_MAP_AVG || m->type.kind == WIRE_MAP_STATS;
    if (ranked)
        return most ? stream_rank_value(&m->type, most) : 0;
    switch (reduce) {
    case WIRE_REDUCE_AVG:
        return pair ? average(&m->type, second, first) : (int64_t)first;
    case WIRE_REDUCE_SUM:
        return (int64_t)(pair ? second : first);
    default:
        return (int64_t)first;
    }
}
