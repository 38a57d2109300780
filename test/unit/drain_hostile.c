/* A process that writes what it likes into the session's memory: whatever stands in rings and maps, each call of drain/ and each run of a
 * clause in the controller comes back, touches nothing outside, and hands over nothing that is out of range. Every case runs in a child
 * process with a time limit many times what it takes. timeout: 240 */
#include "drain/maps.h"
#include "drain/session.h"
#include "stream/eval.h"
#include "stream/map.h"
#include "stream/ring.h"
#include "stream/stack.h"
#include "stream/stream.h"
#include "test/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TID = 1000, RING_BYTES = 1 << 20, LIMIT_S = 20, CAPACITY = 200000 };
enum { NUMBERS, COUNTS, MAPS };

static struct {
    struct wire_stream head;
    struct wire_clause clause;
    struct wire_map_type map[MAPS];
    struct wire_record_type record[2];
    struct wire_insn insn[16];
} stream = {.map = {{.kind = WIRE_MAP_INT, .key_bytes = 8, .value_bytes = 8, .capacity = CAPACITY},
                    {.kind = WIRE_MAP_COUNT, .value_bytes = 8, .capacity = 1}},
            .record = {{.payload_bytes = 8}, {.payload_bytes = 48}},
            .insn = {{.op = WIRE_MOVI, .d = 1, .i = 5},
                     {.op = WIRE_FST, .a = 1, .k = 8},
                     /* some thousand times */
                     {.op = WIRE_MOVI, .d = 2, .i = 60000},
                     {.op = WIRE_MGET, .d = 3, .h = NUMBERS},
                     {.op = WIRE_MAGG, .a = 1, .h = COUNTS},
                     {.op = WIRE_ADDI, .d = 2, .a = 2, .i = -1},
                     {.op = WIRE_JZ, .a = 2, .j = 8},
                     {.op = WIRE_LOOP, .j = 3},
                     {.op = WIRE_MSET, .a = 1, .h = NUMBERS}}};
static struct drain_session session;
static uint64_t frame[8];

static void die_of(struct err *error)
{
    if (!error)
        return;
    puts(error->message);
    exit(1);
}

static void begin(void)
{
    stream.head = (struct wire_stream){.magic = WIRE_STREAM_MAGIC,
                                       .bytes = sizeof stream,
                                       .clause_offset = offsetof(typeof(stream), clause),
                                       .clause_count = 1,
                                       .map_offset = offsetof(typeof(stream), map),
                                       .map_count = MAPS,
                                       .record_offset = offsetof(typeof(stream), record),
                                       .record_count = 2};
    struct drain_options options = {.ring_bytes = RING_BYTES};
    die_of(drain_session_create(&stream.head, &options, &session));
    session.has_strangers = true; /* whether threads of the ids live is not to be asked */
}

static struct wire_ring *ring_at(uint32_t number)
{
    return (struct wire_ring *)((char *)session.memory + session.layout.rings_offset + number * session.layout.ring_stride);
}

static uint32_t ring_of(uint32_t tid)
{
    return tid * WIRE_RING_FACTOR >> WIRE_RING_SHIFT & (session.layout.ring_count - 1);
}

static void write_good(uint32_t count)
{
    struct wire_fire fire = {.session_va = (uintptr_t)session.memory, .pid = 77, .tid = TID};
    for (uint64_t i = 0; i < count; i++)
        stream_ring_write(&fire, 0, &i, sizeof i);
}

static size_t taken;

static void check_record(const struct drain_record *record)
{
    bool is_error = record->head.type == WIRE_RECORD_ERROR;
    CHECK(is_error || record->head.type < 2, "a record of type %u", record->head.type);
    uint32_t bytes = is_error ? sizeof(struct wire_error_payload) : stream.record[record->head.type & 1].payload_bytes;
    CHECK(record->payload_bytes == bytes && !record->head.clause, "%u bytes of clause %u", record->payload_bytes, record->head.clause);
    taken++;
}

static void take(void *context, const struct drain_record *record)
{
    (void)context;
    check_record(record);
}

static void take_batch(void *context, const struct drain_record *record, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        check_record(&record[i]);
}

/* Both ways of reading, a few times each. */
static void read_all(bool by_ring, bool all)
{
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; by_ring && i < session.layout.ring_count; i++) {
            bool is_empty;
            drain_ring(&session, &stream.head, i, all, SIZE_MAX, take_batch, NULL, &is_empty);
        }
        if (!by_ring)
            drain_records(&session, &stream.head, all, take, NULL);
        if (drain_begin_abandon(&session, UINT64_MAX, UINT64_MAX))
            drain_end_abandon(&session);
    }
}

/* ---- cases: rings ---- */

static int variant;

/* Heads that no writer leaves. */
static void heads(void)
{
    static const uint32_t by[] = {4100, 1, 4, 12, 36, RING_BYTES, RING_BYTES + 8, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        write_good(10);
        ring_at(ring_of(TID))->head += by[i];
        read_all(variant & 1, variant & 2);
    }
}

/* Tails are the controller's. */
static void tails(void)
{
    write_good(10);
    for (uint32_t tail = 1; tail < 50; tail += 3) {
        ring_at(ring_of(TID))->tail = tail * (tail & 1 ? 1 : 0x10001);
        read_all(variant & 1, variant & 2);
    }
    CHECK(taken == 10, "%zu of 10 records", taken);
}

/* A committed record that is as large as the ring and of no type; good ones behind it are read. */
static void large(void)
{
    struct wire_ring *ring = ring_at(ring_of(TID));
    uint32_t bytes = RING_BYTES / 2;
    *(struct wire_record *)(ring + 1) = (struct wire_record){.state = bytes << 2 | WIRE_RECORD_COMMITTED, .pid = 77, .tid = TID};
    ring->head = bytes;
    write_good(10);
    read_all(variant & 1, variant & 2);
    CHECK(taken == 10, "%zu of 10 records", taken);
}

/* Random words, and heads that fit. */
static void noise(void)
{
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < session.layout.ring_count; i++) {
            uint32_t *word = (uint32_t *)(ring_at(i) + 1);
            for (uint32_t k = 0; k < RING_BYTES / 4; k++)
                word[k] = (uint32_t)random() % 3 ? (uint32_t)random() & 0x3ff : (uint32_t)random();
            ring_at(i)->head = ring_at(i)->tail + RING_BYTES - (uint32_t)random() % 4096 * 8;
        }
        read_all(variant & 1, variant & 2);
    }
}

static int over;

/* Records as fast as there is room for them, without end. */
static void *flood(void *argument)
{
    (void)argument;
    struct wire_fire fire = {.session_va = (uintptr_t)session.memory, .pid = 77, .tid = TID};
    for (uint64_t i = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED); i++) {
        fire.tid = TID + (i >> 8) % 64;
        stream_ring_write(&fire, 0, &i, sizeof i);
    }
    return NULL;
}

static void endless(void)
{
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, flood, NULL);
    while (taken < 1000)
        read_all(variant & 1, false);
    read_all(variant & 1, true);
    over = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
}

/* A clause of the controller prints while the ring's head is anything. */
static void prints(void)
{
    struct wire_fire fire = {.session_va = (uintptr_t)session.memory, .pid = 77, .tid = TID};
    for (int i = 0; i < 100000; i++) {
        ring_at(ring_of(TID))->head = (uint32_t)random();
        ring_at(ring_of(TID))->tail = ring_at(ring_of(TID))->head - (uint32_t)random() % RING_BYTES;
        stream_ring_write(&fire, 1, frame, 48);
    }
}

/* ---- cases: maps ---- */

static struct wire_node *node_at(uint32_t number)
{
    const struct wire_map *map = stream_map(session.memory, NUMBERS);
    return (struct wire_node *)((char *)session.memory + map->nodes_offset + (uint64_t)number * map->node_bytes);
}

/* All nodes in one chain, the last one first, which all buckets lead to. */
static void make_chain(uint32_t state, bool is_circle)
{
    const struct wire_map *map = stream_map(session.memory, NUMBERS);
    uint32_t *bucket = (uint32_t *)((char *)session.memory + map->buckets_offset);
    struct wire_map_state *all = (struct wire_map_state *)((char *)session.memory + map->state_offset);
    for (uint32_t i = 0; i < map->nodes; i++) {
        uint64_t key = i + 1000;
        struct wire_node *node = node_at(i);
        node->next = i || !is_circle ? i : map->nodes;
        node->state = state;
        memcpy(node + 1, &key, sizeof key);
    }
    for (uint32_t i = 0; i <= map->bucket_mask; i++)
        bucket[i] = map->nodes;
    all->used = map->nodes;
    all->deleted = 1;
}

static void run_clause(void)
{
    struct wire_fire fire = {
        .session_va = (uintptr_t)session.memory, .frame_va = (uintptr_t)frame, .model = WIRE_LP64, .pid = 77, .tid = TID};
    drain_run_clause(&fire, stream.insn, sizeof stream.insn / sizeof *stream.insn);
}

static void chains(void)
{
    make_chain(WIRE_NODE_LIVE, variant & 1);
    run_clause();
}

/* The key's node never gets its value. */
static void rising(void)
{
    run_clause();
    for (uint32_t i = 0; i < 4; i++)
        node_at(i)->state = WIRE_NODE_RISING;
    run_clause();
}

static void *flicker(void *argument)
{
    const struct wire_map *map = stream_map(session.memory, NUMBERS);
    uint32_t *bucket = (uint32_t *)((char *)session.memory + map->buckets_offset);
    (void)argument;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        for (uint32_t i = 0; i < 4096; i++) {
            __atomic_store_n(&node_at(0)->state, i & 1 ? WIRE_NODE_RETIRED : WIRE_NODE_DEAD, __ATOMIC_RELAXED);
            for (uint32_t k = 0; i % 64 == 0 && k <= map->bucket_mask; k += 977)
                __atomic_store_n(&bucket[k], (uint32_t)random(), __ATOMIC_RELAXED);
        }
    return NULL;
}

static void races(void)
{
    pthread_t thread;
    run_clause();
    pthread_create(&thread, NULL, flicker, NULL);
    for (int i = 0; i < 20; i++)
        run_clause();
    over = 1;
    pthread_join(thread, NULL);
}

/* Reading, clearing and zeroing maps; collecting their dead. */
static void walks(void)
{
    make_chain(WIRE_NODE_LIVE, variant & 1);
    struct drain_contents contents;
    drain_map_read(&session, NUMBERS, &contents);
    CHECK(contents.entry.n <= session.map[NUMBERS].nodes, "%zu entries", contents.entry.n);
    drain_contents_deinit(&contents);
    drain_map_zero(&session, NUMBERS);
    drain_map_clear(&session, NUMBERS);
}

static void collects(void)
{
    make_chain(WIRE_NODE_DEAD, variant & 1);
    for (int round = 0; round < 3; round++) {
        drain_maps_guard(&session);
        drain_maps_guarded(&session);
        drain_maps_retire(&session);
        wire_state(session.memory)->guard_side = (uint32_t)random();
        if (drain_maps_left(&session))
            drain_maps_free(&session);
    }
}

/* ---- all ---- */

static void run(const char *name, void (*one)(void), int variants)
{
    for (variant = 0; variant < variants; variant++) {
        int status;
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            failures = 0;
            setrlimit(RLIMIT_CPU, &(struct rlimit){LIMIT_S, LIMIT_S});
            alarm(10 * LIMIT_S);
            begin();
            one();
            drain_session_destroy(&session);
            fflush(stdout);
            _exit(failures != 0);
        }
        waitpid(child, &status, 0);
        CHECK(!status, "%s, variant %d: %s %d", name, variant, WIFSIGNALED(status) ? "signal" : "code",
              WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

int main(void)
{
    run("heads", heads, 4);
    run("tails", tails, 4);
    run("a large record", large, 4);
    run("noise", noise, 4);
    run("records without end", endless, 2);
    run("a clause that prints", prints, 1);
    run("chains", chains, 2);
    run("a key without a value", rising, 1);
    run("states that change", races, 1);
    run("reading maps", walks, 2);
    run("collecting", collects, 2);
    printf("%d failures\n", failures);
    return failures != 0;
}
