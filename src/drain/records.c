/* Rings → records, merged by time.
 *
 * A pass takes what was written before it began. Each ring is read in order, so a thread's records stay in order; between rings the earlier
 * time goes first. A record that is reserved but never committed (its thread was killed in the middle) would hold up its ring: it is
 * skipped once its thread is gone, or when the run is over. */
#include "drain/session.h"
#include "stream/stream.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct reader {
    struct wire_ring *ring;
    char *data;
    uint32_t size;      /* of the data */
    uint32_t tail, end; /* what this pass may read */
    bool ready;         /* `head` is the next record */
    bool over;          /* nobody writes what is there any more */
    struct wire_record head;
};

static uint64_t *copy_buffer(void)
{
    static uint64_t *buffer; /* one record at a time is handed out */
    if (!buffer)
        buffer = memory_alloc(WIRE_FRAME_MAX + sizeof(struct wire_error_payload));
    return buffer;
}

static struct wire_ring *ring_at(const struct drain_session *session, uint32_t number)
{
    return (struct wire_ring *)((char *)session->memory + session->layout.rings_offset + number * session->layout.ring_stride);
}

/* What was read becomes free: zero, and room for writers. */
static void release(struct reader *reader, uint32_t bytes)
{
    memset(reader->data + (reader->tail & (reader->size - 1)), 0, bytes);
    reader->tail += bytes;
    __atomic_store_n(&reader->ring->tail, reader->tail, __ATOMIC_RELEASE);
}

static bool thread_is_gone(const struct drain_session *session, const struct wire_record *record)
{
    return !session->has_strangers && syscall(SYS_tgkill, record->pid, record->tid, 0) < 0 && errno == ESRCH;
}

/* Whether the bytes at the tail are a record whose size can be believed. */
static bool sane(const struct reader *reader, uint32_t state, uint32_t least)
{
    uint32_t bytes = state >> 2, at = reader->tail & (reader->size - 1);
    return bytes >= least && bytes % 8 == 0 && bytes <= reader->size - at && bytes <= reader->end - reader->tail;
}

/* Finds the next committed record of the ring. */
static void advance(struct drain_session *session, struct reader *reader)
{
    while (!reader->ready && reader->tail != reader->end) {
        struct wire_record *record = (struct wire_record *)(reader->data + (reader->tail & (reader->size - 1)));
        uint32_t state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
        switch (state & 3) {
        case WIRE_RECORD_COMMITTED:
            if (!sane(reader, state, sizeof *record))
                break;
            reader->head = *record;
            reader->head.state = state;
            reader->ready = true;
            return;
        case WIRE_RECORD_PADDING:
            if (!sane(reader, state, 8))
                break;
            release(reader, state >> 2);
            continue;
        case WIRE_RECORD_RESERVED:
            if (!sane(reader, state, sizeof *record))
                break;
            if (!reader->over && !thread_is_gone(session, record))
                return;
            if (__atomic_load_n(&record->state, __ATOMIC_ACQUIRE) != state)
                continue; /* it was committed before its thread went */
            __atomic_add_fetch(&wire_state(session->memory)->lost[WIRE_LOSS_RING], 1, __ATOMIC_RELAXED);
            release(reader, state >> 2);
            continue;
        default:
            if (!reader->over)
                return; /* reserved this instant */
        }
        /* A writer that was killed before it could say how much it reserved, or one that wrote nonsense: look for the next record. */
        release(reader, 8);
    }
}

static uint32_t payload_of(const struct wire_stream *stream, const struct wire_record *head)
{
    if (head->type == WIRE_RECORD_ERROR)
        return sizeof(struct wire_error_payload);
    return head->type < stream->record_count ? stream_records(stream)[head->type].payload_bytes : UINT32_MAX;
}

static bool hand_over(struct reader *reader, const struct wire_stream *stream, drain_record_fn *take, void *context)
{
    struct drain_record record = {.head = reader->head, .payload_bytes = payload_of(stream, &reader->head)};
    uint32_t bytes = reader->head.state >> 2;
    bool good = record.payload_bytes == bytes - sizeof(struct wire_record) && reader->head.clause < stream->clause_count;
    if (good) {
        record.payload =
            memcpy(copy_buffer(), reader->data + (reader->tail & (reader->size - 1)) + sizeof(struct wire_record), record.payload_bytes);
    }
    release(reader, bytes);
    reader->ready = false;
    if (good)
        take(context, &record);
    return good;
}

static void tell_writers(struct drain_session *session)
{
    __atomic_add_fetch(&wire_state(session->memory)->reader, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&wire_state(session->memory)->writers, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &wire_state(session->memory)->reader, FUTEX_WAKE, 0x7fffffff, NULL, NULL, 0);
}

/* Since when each ring stands still before a record that is not committed. */
static void note_stuck(struct drain_session *session, const struct reader *reader)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (uint32_t i = 0; i < session->layout.ring_count; i++) {
        struct drain_stuck *stuck = &session->stuck[i];
        bool is_stuck = reader[i].tail != reader[i].end;
        if (!is_stuck || stuck->tail != reader[i].tail || !stuck->since_ns)
            *stuck = (struct drain_stuck){.tail = reader[i].tail,
                                          .since_ns = is_stuck ? (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec : 0};
    }
}

bool drain_begin_abandon(struct drain_session *session, uint64_t before_ns)
{
    bool any = false;
    for (uint32_t i = 0; i < session->layout.ring_count; i++) {
        struct drain_stuck *stuck = &session->stuck[i];
        stuck->is_asked = stuck->since_ns && stuck->since_ns < before_ns;
        stuck->head = __atomic_load_n(&ring_at(session, i)->head, __ATOMIC_ACQUIRE);
        any |= stuck->is_asked;
    }
    return any;
}

void drain_end_abandon(struct drain_session *session)
{
    for (uint32_t i = 0; i < session->layout.ring_count; i++)
        session->stuck[i].is_abandoned = session->stuck[i].is_asked;
}

static size_t one_pass(struct drain_session *session, const struct wire_stream *stream, bool over, drain_record_fn *take, void *context)
{
    enum { TELL_EVERY = 4096 };
    uint32_t count = session->layout.ring_count;
    struct reader reader[count];
    for (uint32_t i = 0; i < count; i++) {
        struct wire_ring *ring = ring_at(session, i);
        uint32_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), tail = __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
        reader[i] = (struct reader){
            .ring = ring, .data = (char *)(ring + 1), .size = session->layout.ring_bytes, .tail = tail, .end = head, .over = over};
        if (head - tail > reader[i].size || tail % 8)
            reader[i].end = tail; /* nonsense */
        if (session->stuck[i].is_abandoned && session->stuck[i].head - tail <= head - tail) {
            reader[i].end = session->stuck[i].head;
            reader[i].over = true;
        }
        advance(session, &reader[i]);
    }
    size_t taken = 0;
    for (;;) {
        struct reader *first = NULL;
        for (uint32_t i = 0; i < count; i++)
            if (reader[i].ready && (!first || reader[i].head.time < first->head.time))
                first = &reader[i];
        if (!first)
            break;
        taken += hand_over(first, stream, take, context);
        if (taken % TELL_EVERY == 0)
            tell_writers(session);
        advance(session, first);
    }
    tell_writers(session);
    note_stuck(session, reader);
    return taken;
}

size_t drain_records(struct drain_session *session, const struct wire_stream *stream, bool all, drain_record_fn *take, void *context)
{
    size_t total = 0, taken;
    do
        total += taken = one_pass(session, stream, all, take, context);
    while (all && taken);
    return total;
}
