/* A record that is reserved and never committed, by a thread that lives on, holds up its ring until the caller says that nobody will commit
 * it; then it is counted as lost and what is behind it is read. What is reserved later is left alone. (S0.7) */
#include "drain/session.h"
#include "stream/ring.h"
#include "stream/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int failures;
#define CHECK(condition, ...)                                                                                                              \
    ((condition) ? (void)0 : (failures++, printf("%s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__), (void)putchar('\n')))

static uint64_t taken[8];
static size_t count;

static void take(void *context, const struct drain_record *record)
{
    (void)context;
    if (count < 8)
        taken[count++] = *(const uint64_t *)record->payload;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The ring that the last record went to, and that record. */
static struct wire_record *find_record(struct drain_session *session, uint64_t payload)
{
    for (uint32_t i = 0; i < session->layout.ring_count; i++) {
        struct wire_ring *ring =
            (struct wire_ring *)((char *)session->memory + session->layout.rings_offset + i * session->layout.ring_stride);
        for (uint32_t at = ring->tail; at != ring->head;) {
            struct wire_record *record = (struct wire_record *)((char *)(ring + 1) + (at & (session->layout.ring_bytes - 1)));
            if (*(uint64_t *)(record + 1) == payload)
                return record;
            at += record->state >> 2;
        }
    }
    return NULL;
}

int main(void)
{
    struct {
        struct wire_stream head;
        struct wire_clause clause;
        struct wire_record_type record;
    } stream = {.head = {.magic = WIRE_STREAM_MAGIC, .bytes = sizeof stream, .clause_count = 1, .record_count = 1},
                .record = {.payload_bytes = 8}};
    stream.head.clause_offset = offsetof(typeof(stream), clause);
    stream.head.record_offset = offsetof(typeof(stream), record);
    struct drain_options options = {.ring_bytes = 4096};
    struct drain_session session;
    struct err *error = drain_session_create(&stream.head, &options, &session);
    if (error) {
        puts(error->message);
        return 1;
    }
    struct wire_fire fire = {.session_va = (uintptr_t)session.memory, .pid = (uint32_t)getpid(), .tid = (uint32_t)gettid()};
    for (uint64_t value = 1; value <= 3; value++)
        stream_ring_write(&fire, 0, &value, sizeof value);
    struct wire_record *left = find_record(&session, 2);
    CHECK(left, "the second record is not there");
    left->state = (left->state & ~3u) | WIRE_RECORD_RESERVED;

    CHECK(drain_records(&session, &stream.head, false, take, NULL) == 1 && taken[0] == 1, "%zu read before the one that is reserved",
          count);
    CHECK(!drain_begin_abandon(&session, now_ns() - 1000000000), "it stands still for a second already");
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    CHECK(drain_begin_abandon(&session, now_ns()), "it does not stand still");
    uint64_t value = 4;
    stream_ring_write(&fire, 0, &value, sizeof value);
    struct wire_record *later = find_record(&session, 4);
    later->state = (later->state & ~3u) | WIRE_RECORD_RESERVED;
    CHECK(drain_records(&session, &stream.head, false, take, NULL) == 0, "it was skipped before anybody said so");
    drain_end_abandon(&session);
    drain_records(&session, &stream.head, false, take, NULL);
    CHECK(count == 2 && taken[1] == 3, "%zu read in all, the last is %llu", count, (unsigned long long)taken[count - 1]);
    CHECK(drain_session_lost(&session, WIRE_LOSS_RING) == 1, "%llu lost", (unsigned long long)drain_session_lost(&session, WIRE_LOSS_RING));
    drain_records(&session, &stream.head, false, take, NULL);
    CHECK(count == 2, "what was reserved later was not left alone");
    later->state = (later->state & ~3u) | WIRE_RECORD_COMMITTED;
    drain_records(&session, &stream.head, false, take, NULL);
    CHECK(count == 3 && taken[2] == 4, "what was reserved later is not read");
    drain_session_destroy(&session);
    printf("%d failures\n", failures);
    return failures != 0;
}
