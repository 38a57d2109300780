/* Batches: whatever is written, by several threads into rings that wrap and fill up, is handed over once and in the order of each thread,
 * payloads with it; what had no room is counted. A record that is not committed holds up its own ring only. (S4.1) */
#include "drain/session.h"
#include "stream/ring.h"
#include "stream/stream.h"
#include "test/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, RECORDS = 100000, FIRST_TID = 1000 };

static struct {
    struct wire_stream head;
    struct wire_clause clause;
    struct wire_record_type record[3];
} stream = {.head = {.magic = WIRE_STREAM_MAGIC, .bytes = sizeof stream, .clause_count = 1, .record_count = 3},
            .record = {{.payload_bytes = 0}, {.payload_bytes = 8}, {.payload_bytes = 48}}};
static struct drain_session session;
static int running = THREADS;

/* Record n of a thread: its place is n, its type n % 3, and every word of its payload is n * tid. */
static void *write_records(void *argument)
{
    uint32_t tid = (uint32_t)(uintptr_t)argument;
    struct wire_fire fire = {.session_va = (uintptr_t)session.memory, .pid = 77, .tid = tid};
    for (uint32_t n = 0; n < RECORDS; n++) {
        uint64_t payload[6];
        for (int i = 0; i < 6; i++)
            payload[i] = (uint64_t)n * tid;
        fire.place = n;
        stream_ring_write(&fire, n % 3, payload, stream.record[n % 3].payload_bytes);
    }
    __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

struct seen {
    uint64_t count[THREADS], last[THREADS], batches; /* last: place + 1 */
};

static void take(void *context, const struct drain_record *record, size_t count)
{
    struct seen *seen = context;
    seen->batches++;
    for (size_t i = 0; i < count; i++, record++) {
        uint32_t thread = record->head.tid - FIRST_TID, place = record->head.place;
        if (thread >= THREADS) {
            CHECK(false, "a thread %u", record->head.tid);
            continue;
        }
        CHECK(place >= seen->last[thread], "thread %u: record %u after %llu", thread, place, (unsigned long long)seen->last[thread]);
        CHECK(record->head.type == place % 3 && record->payload_bytes == stream.record[place % 3].payload_bytes,
              "record %u: of type %u, %u bytes", place, record->head.type, record->payload_bytes);
        for (uint32_t at = 0; at < record->payload_bytes / 8; at++)
            CHECK(((const uint64_t *)record->payload)[at] == (uint64_t)place * record->head.tid, "record %u: payload", place);
        seen->count[thread]++;
        seen->last[thread] = place + 1u;
    }
}

/* Every ring, a few records at a time. */
static void drain(bool all, size_t most, drain_batch_fn *take_batch, void *context)
{
    size_t taken;
    do {
        taken = 0;
        for (uint32_t i = 0; i < session.layout.ring_count; i++) {
            bool is_empty;
            size_t count = drain_ring(&session, &stream.head, i, all, most, take_batch, context, &is_empty);
            CHECK(count <= most, "%zu of at most %zu", count, most);
            CHECK(!all || is_empty || count == most, "%zu of a ring that has more", count);
            taken += count;
        }
    } while (all && taken);
}

/* With `room` a ring can hold all that is written. */
static void check_threads(bool room)
{
    struct drain_options options = {.ring_bytes = room ? 32 << 20 : 4096};
    struct seen seen = {0};
    struct err *error = drain_session_create(&stream.head, &options, &session);
    pthread_t thread[THREADS];
    if (error) {
        puts(error->message);
        exit(1);
    }
    session.has_strangers = true; /* whether threads of these ids live is not to be asked */
    running = THREADS;
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, write_records, (void *)(uintptr_t)(FIRST_TID + i));
    while (__atomic_load_n(&running, __ATOMIC_SEQ_CST))
        drain(false, 5000, take, &seen);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    drain(true, 5000, take, &seen);
    uint64_t lost = drain_session_lost(&session, WIRE_LOSS_RING), got = 0;
    for (uint32_t i = 0; i < THREADS; i++)
        got += seen.count[i];
    CHECK(got + lost == (uint64_t)THREADS * RECORDS, "%llu handed over, %llu lost", (unsigned long long)got, (unsigned long long)lost);
    CHECK(room ? lost == 0 : got > 0, "%llu lost", (unsigned long long)lost);
    printf("%s: %llu records in %llu batches, %llu lost\n", room ? "large rings" : "small rings", (unsigned long long)got,
           (unsigned long long)seen.batches, (unsigned long long)lost);
    drain_session_destroy(&session);
}

static void count_records(void *context, const struct drain_record *record, size_t count)
{
    (void)record;
    *(size_t *)context += count;
}

/* The only record of the ring that tid 1000 writes to is not committed; what another ring has is read. */
static void check_held_up(void)
{
    struct drain_options options = {.ring_bytes = 4096};
    struct wire_fire fire = {.pid = 77, .tid = FIRST_TID};
    size_t count = 0;
    struct err *error = drain_session_create(&stream.head, &options, &session);
    if (error) {
        puts(error->message);
        exit(1);
    }
    session.has_strangers = true;
    fire.session_va = (uintptr_t)session.memory;
    stream_ring_write(&fire, 0, NULL, 0);
    struct wire_record *held = NULL;
    uint32_t ring = 0;
    for (; !held; ring++) {
        struct wire_ring *at =
            (struct wire_ring *)((char *)session.memory + session.layout.rings_offset + ring * session.layout.ring_stride);
        held = at->head ? (struct wire_record *)(at + 1) : NULL;
    }
    held->state = sizeof *held << 2 | WIRE_RECORD_RESERVED;
    stream_ring_write(&fire, 0, NULL, 0);
    uint32_t number = FIRST_TID * WIRE_RING_FACTOR >> WIRE_RING_SHIFT & (session.layout.ring_count - 1);
    CHECK(number == ring - 1, "the record is in ring %u", ring - 1);
    do
        fire.tid++;
    while ((fire.tid * WIRE_RING_FACTOR >> WIRE_RING_SHIFT & (session.layout.ring_count - 1)) == number);
    stream_ring_write(&fire, 0, NULL, 0);
    drain(false, 0, count_records, &count);
    CHECK(count == 0, "%zu read, though none was asked for", count);
    CHECK(drain_is_stuck(&session), "nobody says that a ring is held up");
    drain(false, SIZE_MAX, count_records, &count);
    CHECK(count == 1, "%zu read while one ring is held up", count);
    held->state = sizeof *held << 2 | WIRE_RECORD_COMMITTED;
    drain(false, SIZE_MAX, count_records, &count);
    CHECK(count == 3, "%zu read in all", count);
    CHECK(!drain_is_stuck(&session), "a ring is said to be held up");
    /* A size that is not the record's makes it nobody's. */
    stream_ring_write(&fire, 0, NULL, 0);
    for (uint32_t i = 0; i < session.layout.ring_count; i++) {
        struct wire_ring *at = (struct wire_ring *)((char *)session.memory + session.layout.rings_offset + i * session.layout.ring_stride);
        if (at->head != at->tail)
            ((struct wire_record *)((char *)(at + 1) + at->tail))->type = 1;
    }
    drain(false, SIZE_MAX, count_records, &count);
    CHECK(count == 3, "a record whose size is not that of its type was handed over");
    drain_session_destroy(&session);
}

int main(void)
{
    stream.head.clause_offset = offsetof(typeof(stream), clause);
    stream.head.record_offset = offsetof(typeof(stream), record);
    check_threads(true);
    check_threads(false);
    check_held_up();
    printf("%d failures\n", failures);
    return failures != 0;
}
