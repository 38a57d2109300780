/* A record that is reserved and never committed, by a thread that lives on, holds up its ring until the caller says that nobody will commit
 * it; then it is counted as lost and what is behind it is read. What is reserved later is left alone. (S0.7) */
#include "drain/session.h"
#include "stream/ring.h"
#include "stream/stream.h"
#include "test/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static struct wire_ring *ring_with(struct drain_session *session, const struct wire_record *record)
{
    uint64_t at = (uint64_t)((const char *)record - (char *)session->memory) - session->layout.rings_offset;
    return (struct wire_ring *)((char *)session->memory + session->layout.rings_offset +
                                at / session->layout.ring_stride * session->layout.ring_stride);
}

/* The thread says itself that it has left a record: when another run of it is where that one was, and its ring fills up. */
static void told(struct drain_session *session, const struct wire_stream *stream)
{
    struct wire_fire fire[3] = {0};
    for (int i = 0; i < 3; i++)
        fire[i] = (struct wire_fire){.session_va = (uintptr_t)session->memory, .pid = (uint32_t)getpid(), .tid = (uint32_t)gettid()};
    uint64_t value = 77;
    stream_ring_write(&fire[1], 0, &value, sizeof value);
    struct wire_record *left = find_record(session, 77);
    struct wire_ring *ring = ring_with(session, left);
    left->state = (left->state & ~3u) | WIRE_RECORD_RESERVED;
    left->time = (uintptr_t)&fire[2]; /* above: what a handler would have interrupted */
    uint64_t lost = drain_session_lost(session, WIRE_LOSS_RING);
    for (value = 0; ring->head - ring->tail <= session->layout.ring_bytes / 2; value++)
        stream_ring_write(&fire[1], 0, &value, sizeof value);
    count = 0;
    stream_ring_write(&fire[1], 0, &value, sizeof value);
    CHECK(!drain_records(session, stream, false, take, NULL), "a record whose writer is interrupted was skipped");
    left->time = (uintptr_t)&fire[1];
    stream_ring_write(&fire[1], 0, &value, sizeof value);
    CHECK(drain_records(session, stream, false, take, NULL) == value + 2, "%zu read behind a record that was left", count);
    CHECK(drain_session_lost(session, WIRE_LOSS_RING) == lost + 1, "it was not counted");
}

/* A writer that went before it could say how much it had reserved, with an id that looks like the size of a record: what is behind it is
 * read, all of it. */
static void hole(struct drain_session *session, const struct wire_stream *stream, uint32_t state)
{
    struct wire_fire fire = {.session_va = (uintptr_t)session->memory, .pid = (uint32_t)getpid(), .tid = (uint32_t)gettid()};
    enum { HOLE = 1000, HOLES = 2, BEHIND = 6 };
    for (uint64_t value = HOLE; value < HOLE + HOLES + BEHIND; value++)
        stream_ring_write(&fire, 0, &value, sizeof value);
    for (uint64_t value = HOLE + HOLES; value-- > HOLE;) {
        struct wire_record *left = find_record(session, value);
        memset(left, 0, sizeof *left + 8); /* the later one first: what is behind is not found any more */
        left->pid = state;
        left->tid = (uint32_t)gettid();
    }
    count = 0;
    drain_records(session, stream, true, take, NULL);
    CHECK(count == BEHIND && taken[0] == HOLE + HOLES && taken[BEHIND - 1] == HOLE + HOLES + BEHIND - 1,
          "%zu read behind a hole with %u, from %llu on", count, state, (unsigned long long)taken[0]);
}

/* A frame that is not given back while all threads were outside is taken back; one that was claimed anew meanwhile is not. */
static void frames(struct drain_session *session)
{
    struct wire_frame *frame[3];
    for (uint32_t i = 0; i < 3; i++) {
        frame[i] = (void *)((char *)session->memory + session->layout.frames_offset + i * session->layout.frame_stride);
        *frame[i] = (struct wire_frame){.owner = 100 + i, .claim = 5, .fire_va = 1234};
    }
    CHECK(!drain_begin_frames(session), "nobody has missed one");
    wire_state(session->memory)->lost[WIRE_LOSS_FRAME]++;
    CHECK(drain_begin_frames(session), "somebody has missed one");
    *frame[1] = (struct wire_frame){.owner = 101, .claim = 6, .fire_va = 1234};
    frame[2]->owner = 0;
    CHECK(drain_end_frames(session) == 1, "not one was taken back");
    CHECK(!frame[0]->owner && frame[0]->claim == 5 && !frame[0]->fire_va, "the first was not");
    CHECK(frame[1]->owner == 101 && frame[1]->fire_va, "one in use was");
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
    CHECK(!drain_begin_abandon(&session, now_ns() - 1000000000, 0), "it stands still for a second already");
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    CHECK(drain_begin_abandon(&session, now_ns(), 0), "it does not stand still");
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
    told(&session, &stream.head);
    for (uint32_t kind = WIRE_RECORD_RESERVED; kind <= WIRE_RECORD_PADDING; kind++)
        for (uint32_t bytes = 8; bytes <= 160; bytes += 8)
            hole(&session, &stream.head, bytes << 2 | kind);
    frames(&session);
    drain_session_destroy(&session);
    printf("%d failures\n", failures);
    return failures != 0;
}
