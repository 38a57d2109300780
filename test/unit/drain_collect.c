/* Collecting deleted keys while threads use the map: a map of few nodes, four writers whose keys never come again, and some keys that all
 * of them make and delete. Every value is what its writer wrote, no key is there twice, and no node is lost: while the map is open, when it
 * is guarded, and when a writer was killed that had counted itself in. timeout: 120 */
#include "drain/maps.h"
#include "jit/jit.h"
#include "stream/eval.h"
#include "stream/map.h"
#include "test/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { KEYS, WRONG, MAPS };
enum { SET, TAKE, DELETE, CLAUSES }; /* take: reads it, adds to WRONG when that does not give arg1, and deletes it */
enum { NODES = 256, CAPACITY = 64, CODE_BYTES = 4096 };

static struct drain_session session;
static uint8_t *bodies;
static struct jit_body body[CLAUSES];
static _Thread_local bool is_refused; /* by a body: there was no room */

#define KEY_OF_ARG0                                                                                                                        \
    {.op = WIRE_ARG, .d = 1},                                                                                                              \
    {                                                                                                                                      \
        .op = WIRE_FST, .a = 1, .k = 8                                                                                                     \
    }

static struct {
    struct wire_stream head;
    struct wire_clause clause[CLAUSES];
    struct wire_map_type map[MAPS];
    struct wire_insn insn[16];
} stream = {
    .map = {{.kind = WIRE_MAP_INT, .key_bytes = 8, .value_bytes = 8, .capacity = CAPACITY},
            {.kind = WIRE_MAP_INT, .value_bytes = 8, .capacity = 1}},
    .insn = {{.op = WIRE_ARG, .i = 1},
             KEY_OF_ARG0,
             {.op = WIRE_MSET, .h = KEYS},
             /* take */
             KEY_OF_ARG0,
             {.op = WIRE_MGET, .h = KEYS},
             {.op = WIRE_ARG, .d = 2, .i = 1},
             {.op = WIRE_NE, .b = 2},
             {.op = WIRE_MADD, .h = WRONG},
             KEY_OF_ARG0,
             {.op = WIRE_MDEL, .h = KEYS},

             /* delete */
             KEY_OF_ARG0,
             {.op = WIRE_MDEL, .h = KEYS}},
};

static void describe_stream(void)
{
    static const struct wire_code code[CLAUSES] = {{0, 4}, {4, 9}, {13, 3}};
    stream.head = (struct wire_stream){.magic = WIRE_STREAM_MAGIC,
                                       .bytes = sizeof stream,
                                       .clause_offset = offsetof(typeof(stream), clause),
                                       .clause_count = CLAUSES,
                                       .map_offset = offsetof(typeof(stream), map),
                                       .map_count = MAPS};
    stream.head.code_offset[WIRE_LP64] = offsetof(typeof(stream), insn);
    stream.head.code_count[WIRE_LP64] = sizeof stream.insn / sizeof *stream.insn;
    for (int i = 0; i < CLAUSES; i++) {
        stream.clause[i] = (struct wire_clause){.has_model = 1u << WIRE_LP64};
        stream.clause[i].predicate[WIRE_LP64].first = code[i].first;
        stream.clause[i].action[WIRE_LP64] = code[i];
        stream.clause[i].frame_bytes[WIRE_LP64] = 8;
    }
}

static void on_error(struct wire_fire *fire)
{
    is_refused = fire->error == WIRE_ERROR_MAP_FULL;
}

static struct err *make_session(void)
{
    struct drain_options options = {.ring_bytes = 4096};
    describe_stream();
    ERR_TRY(drain_session_create(&stream.head, &options, &session));
    session.map[KEYS].nodes = stream_map(session.memory, KEYS)->nodes = NODES;
    struct jit_process process = {
        .session_va = (uintptr_t)session.memory, .session = session.memory, .op_va = (uintptr_t)eval_op, .error_va = (uintptr_t)on_error};
    bodies = mmap(NULL, CLAUSES * CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint32_t i = 0; i < CLAUSES; i++) {
        ERR_TRY(jit_compile(&stream.head, i, WIRE_LP64, &process, (uintptr_t)(bodies + i * CODE_BYTES), &body[i]));
        if (body[i].code.n > CODE_BYTES)
            return err_new(ERR_REFUSED, "a body of %zu bytes", body[i].code.n);
        memcpy(bodies + i * CODE_BYTES, body[i].code.at, body[i].code.n);
    }
    return NULL;
}

static void destroy_session(void)
{
    for (uint32_t i = 0; i < CLAUSES; i++)
        jit_body_deinit(&body[i]);
    munmap(bodies, CLAUSES * CODE_BYTES);
    drain_session_destroy(&session);
}

static void call_body(uint32_t clause, uint64_t arg0, uint64_t arg1)
{
    __asm__ volatile("sub $128,%%rsp\n\tpush $0\n\tcall *%0\n\tlea 136(%%rsp),%%rsp"
                     :
                     : "r"(bodies + clause * CODE_BYTES), "D"(arg0), "S"(arg1)
                     : "memory", "cc");
}

enum { WRITERS = 4, ROUNDS = 6000, SESSIONS = 50, SHARED_KEYS = 5 };

static uint64_t outside[WRITERS]; /* counts up whenever the writer is in no call */
static bool ended[WRITERS];
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
    __atomic_store_n(&ended[writer], true, __ATOMIC_SEQ_CST);
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
        while (__atomic_load_n(&outside[i], __ATOMIC_SEQ_CST) == before[i] && !__atomic_load_n(&ended[i], __ATOMIC_SEQ_CST))
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
    memset(ended, 0, sizeof ended);
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
