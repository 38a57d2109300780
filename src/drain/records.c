/* Rings → records, merged by time, or each ring by itself in batches.
 *
 * A pass takes what was written before it began. Each ring is read in order, so a thread's records stay in order; between rings the earlier
 * time goes first. A record that is reserved but never committed (its thread was killed in the middle) would hold up its ring: it is
 * skipped once its thread is gone, or says that it has jumped out of it, or when the run is over. */
#include "base/clock.h"
#include "drain/session.h"
#include "stream/stream.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct reader {
    struct wire_ring *ring;
    struct drain_session *session;
    uint32_t number; /* of the ring */
    char *data;
    uint32_t size;      /* of the data */
    uint32_t tail, end; /* what this pass may read */
    bool ready;         /* `head` is the next record */
    bool over;          /* nobody writes what is there any more */
    bool in_hole;       /* what comes next may be the rest of what was never written */
    struct wire_record head;
    uint32_t told; /* `tail` when writers were last told of room; batches only */
};

/* How long records are handed over at most, so that the caller has its turn whatever is written and whatever it does with a record. */
enum { PASS_NS = 50000000 };

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
    reader->session->tail[reader->number] = reader->tail; /* what stands in the ring is for writers */
    reader->session->read_bytes += bytes;
    __atomic_store_n(&reader->ring->tail, reader->tail, __ATOMIC_RELEASE);
}

static bool thread_is_gone(const struct drain_session *session, const struct wire_record *record)
{
    return !session->has_strangers && syscall(SYS_tgkill, record->pid, record->tid, 0) < 0 && errno == ESRCH;
}

/* Whether the bytes at the tail are a record whose size can be believed. In a hole an id may stand where a size is looked for; what follows
 * it there is nothing. */
static bool sane(const struct reader *reader, const struct wire_record *record, uint32_t state)
{
    uint32_t bytes = state >> 2, room = reader->size - (reader->tail & (reader->size - 1));
    if (bytes % 8 || bytes > room || bytes > reader->end - reader->tail)
        return false;
    if ((state & 3) == WIRE_RECORD_PADDING)
        return bytes == room;
    return bytes >= sizeof *record && (!reader->in_hole || (record->pid && record->tid));
}

void drain_count_lost(struct drain_session *session)
{
    __atomic_add_fetch(&wire_state(session->memory)->lost[WIRE_LOSS_RING], 1, __ATOMIC_RELAXED);
}

/* A writer went before it could say how much it reserved: at least a record's head, in which there may be an id already, and then nothing.
 * What is padding reaches to the end of the ring. */
static void skip_hole(struct drain_session *session, struct reader *reader)
{
    uint32_t bytes = 8, left = reader->size - (reader->tail & (reader->size - 1));
    if (!reader->in_hole) {
        drain_count_lost(session);
        bytes = sizeof(struct wire_record);
    }
    bytes = bytes < left ? bytes : left;
    reader->in_hole = true;
    release(reader, bytes < reader->end - reader->tail ? bytes : reader->end - reader->tail);
}

/* Finds the next committed record of the ring. */
static void advance(struct drain_session *session, struct reader *reader)
{
    while (!reader->ready && reader->tail != reader->end) {
        struct wire_record *record = (struct wire_record *)(reader->data + (reader->tail & (reader->size - 1)));
        uint32_t state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
        switch (state & 3) {
        case WIRE_RECORD_COMMITTED:
            if (!sane(reader, record, state))
                break;
            reader->in_hole = false;
            reader->head = *record;
            reader->head.state = state;
            reader->ready = true;
            return;
        case WIRE_RECORD_PADDING:
            if (!sane(reader, record, state))
                break;
            release(reader, state >> 2);
            continue;
        case WIRE_RECORD_RESERVED:
            if (!sane(reader, record, state))
                break;
            if (!reader->over && __atomic_load_n(&reader->ring->left, __ATOMIC_ACQUIRE) != reader->tail + 1 &&
                !thread_is_gone(session, record))
                return;
            if (__atomic_load_n(&record->state, __ATOMIC_ACQUIRE) != state)
                continue; /* it was committed before its thread went */
            reader->in_hole = false;
            drain_count_lost(session);
            release(reader, state >> 2);
            continue;
        default:
            if (!reader->over)
                return; /* reserved this instant */
            skip_hole(session, reader);
            continue;
        }
        /* Somebody wrote nonsense: look for the next record. */
        release(reader, 8);
    }
}

static uint32_t payload_of(const struct wire_stream *stream, const struct wire_record *head)
{
    if (head->type == WIRE_RECORD_ERROR)
        return sizeof(struct wire_error_payload);
    return head->type < stream->record_count ? stream_records(stream)[head->type].payload_bytes : UINT32_MAX;
}

/* A record whose size is that of its type, of a clause that there is. */
static bool makes_sense(const struct wire_stream *stream, const struct wire_record *head, uint32_t bytes)
{
    return payload_of(stream, head) == bytes - sizeof *head && head->clause < stream->clause_count;
}

static bool hand_over(struct reader *reader, const struct wire_stream *stream, drain_record_fn *take, void *context)
{
    struct drain_record record = {.head = reader->head, .payload_bytes = payload_of(stream, &reader->head)};
    uint32_t bytes = reader->head.state >> 2;
    bool good = makes_sense(stream, &reader->head, bytes);
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

/* Writers that wait are woken only where they may find room: there may be thousands of them. */
static void tell_writers(struct drain_session *session, bool has_room)
{
    __atomic_add_fetch(&wire_state(session->memory)->reader, 1, __ATOMIC_SEQ_CST);
    if (has_room && __atomic_load_n(&wire_state(session->memory)->writers, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &wire_state(session->memory)->reader, FUTEX_WAKE, 0x7fffffff, NULL, NULL, 0);
}

/* Since when the ring stands still before a record that is not committed. */
static void note_stuck(struct drain_session *session, uint32_t number, const struct reader *reader)
{
    struct drain_stuck *stuck = &session->stuck[number];
    bool is_stuck = reader->tail != reader->end && !reader->ready;
    if (is_stuck && stuck->tail == reader->tail && stuck->since_ns)
        return;
    *stuck = (struct drain_stuck){.tail = reader->tail, .since_ns = is_stuck ? clock_now_ns() : 0};
}

bool drain_is_stuck(const struct drain_session *session)
{
    for (uint32_t i = 0; i < session->layout.ring_count; i++)
        if (session->stuck[i].since_ns)
            return true;
    return false;
}

/* Heads that no writer of ours leaves are some process's doing. */
static bool is_possible(const struct drain_session *session, uint32_t head, uint32_t tail)
{
    return head - tail <= session->layout.ring_bytes && head % 8 == 0;
}

bool drain_begin_abandon(struct drain_session *session, uint64_t before_ns, uint64_t full_before_ns)
{
    bool any = false;
    for (uint32_t i = 0; i < session->layout.ring_count; i++) {
        struct drain_stuck *stuck = &session->stuck[i];
        stuck->head = __atomic_load_n(&ring_at(session, i)->head, __ATOMIC_ACQUIRE);
        bool is_half_full = stuck->head - stuck->tail > session->layout.ring_bytes / 2;
        stuck->is_asked = stuck->since_ns && is_possible(session, stuck->head, stuck->tail) &&
                          stuck->since_ns < (is_half_full ? full_before_ns : before_ns);
        any |= stuck->is_asked;
    }
    return any;
}

void drain_end_abandon(struct drain_session *session)
{
    for (uint32_t i = 0; i < session->layout.ring_count; i++)
        session->stuck[i].is_abandoned = session->stuck[i].is_asked;
}

/* A ring whose head makes no sense begins anew, empty: it may be that of other processes, too. */
static void clear_ring(struct drain_session *session, struct wire_ring *ring, uint32_t tail)
{
    drain_count_lost(session);
    memset(ring + 1, 0, session->layout.ring_bytes);
    __atomic_store_n(&ring->head, tail, __ATOMIC_RELEASE);
}

/* `over`: the run is, and nobody writes any more. */
static struct reader begin_reading(struct drain_session *session, uint32_t number, bool over)
{
    struct wire_ring *ring = ring_at(session, number);
    uint32_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), tail = session->tail[number];
    if (__atomic_load_n(&ring->tail, __ATOMIC_RELAXED) != tail)
        __atomic_store_n(&ring->tail, tail, __ATOMIC_RELEASE);
    if (!is_possible(session, head, tail)) {
        clear_ring(session, ring, tail);
        head = tail;
    }
    struct reader reader = {.ring = ring,
                            .session = session,
                            .number = number,
                            .data = (char *)(ring + 1),
                            .size = session->layout.ring_bytes,
                            .tail = tail,
                            .told = tail,
                            .end = head,
                            .over = over};
    if (session->stuck[number].is_abandoned && session->stuck[number].head - tail <= head - tail) {
        reader.end = session->stuck[number].head;
        reader.over = true;
    }
    return reader;
}

size_t drain_records(struct drain_session *session, const struct wire_stream *stream, bool all, drain_record_fn *take, void *context)
{
    enum { TELL_EVERY = 4096 };
    uint32_t count = session->layout.ring_count;
    struct reader reader[count];
    for (uint32_t i = 0; i < count; i++) {
        reader[i] = begin_reading(session, i, all);
        advance(session, &reader[i]);
    }
    size_t taken = 0;
    uint64_t end_ns = clock_now_ns() + PASS_NS;
    do {
        struct reader *first = NULL;
        for (uint32_t i = 0; i < count; i++)
            if (reader[i].ready && (!first || reader[i].head.time < first->head.time))
                first = &reader[i];
        if (!first)
            break;
        taken += hand_over(first, stream, take, context);
        if (taken % TELL_EVERY == 0)
            tell_writers(session, true);
        advance(session, first);
    } while (clock_now_ns() < end_ns);
    bool has_room = false;
    for (uint32_t i = 0; i < count; i++)
        has_room |= reader[i].tail != reader[i].told;
    tell_writers(session, has_room);
    for (uint32_t i = 0; i < count; i++)
        note_stuck(session, i, &reader[i]);
    return taken;
}

uint64_t drain_backlog(const struct drain_session *session)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < session->layout.ring_count; i++) {
        uint32_t head = __atomic_load_n(&ring_at(session, i)->head, __ATOMIC_ACQUIRE);
        bytes += is_possible(session, head, session->tail[i]) ? head - session->tail[i] : 0;
    }
    return bytes;
}

/* ---- each ring by itself ---- */

enum { BATCH_RECORDS = 1024, BATCH_BYTES = 64 << 10 };
_Static_assert((int)BATCH_BYTES >= (int)WIRE_FRAME_MAX, "any record has room in an empty batch");

struct batch {
    const struct wire_stream *stream;
    drain_batch_fn *take;
    void *context;
    size_t count, payload_bytes;
    struct drain_record record[BATCH_RECORDS];
    uint64_t payload[BATCH_BYTES / 8];
};

/* Copies the committed record at `at` of the ring into the batch. What makes no sense to the stream is left out, so that no record is too
 * large for an empty batch. False: there is no room. */
static bool put_record(struct batch *batch, const char *at, uint32_t state)
{
    struct drain_record *record = &batch->record[batch->count];
    record->head = *(const struct wire_record *)at;
    record->head.state = state;
    record->payload_bytes = (state >> 2) - (uint32_t)sizeof record->head;
    if (!makes_sense(batch->stream, &record->head, state >> 2))
        return true;
    if (record->payload_bytes > BATCH_BYTES - batch->payload_bytes)
        return false;
    record->payload = memcpy((char *)batch->payload + batch->payload_bytes, at + sizeof record->head, record->payload_bytes);
    batch->payload_bytes += record->payload_bytes;
    batch->count++;
    return true;
}

/* The records from the ring's tail on, as far as they are committed, lie in one piece and have room in the batch; at most so many. They are
 * released before they are handed over, so that writers can go on. False: there was none. */
static bool take_run(struct drain_session *session, struct reader *reader, struct batch *batch, size_t most)
{
    struct reader ahead = *reader;
    batch->count = batch->payload_bytes = 0;
    while (batch->count < BATCH_RECORDS && batch->count < most && ahead.tail != ahead.end) {
        const char *at = ahead.data + (ahead.tail & (ahead.size - 1));
        uint32_t state = __atomic_load_n(&((const struct wire_record *)at)->state, __ATOMIC_ACQUIRE), bytes = state >> 2;
        if ((state & 3) != WIRE_RECORD_COMMITTED || !sane(&ahead, (const struct wire_record *)at, state) || !put_record(batch, at, state))
            break;
        ahead.tail += bytes;
        if (!(ahead.tail & (ahead.size - 1)))
            break; /* the ring's end */
    }
    if (ahead.tail == reader->tail)
        return false;
    release(reader, ahead.tail - reader->tail);
    /* A writer that waits is to find room for a while when it wakes. */
    if (reader->tail - reader->told >= reader->size / 4) {
        reader->told = reader->tail;
        tell_writers(session, true);
    }
    if (batch->count)
        batch->take(batch->context, batch->record, batch->count);
    return true;
}

size_t drain_ring(struct drain_session *session, const struct wire_stream *stream, uint32_t number, bool all, size_t most,
                  drain_batch_fn *take, void *context, bool *is_empty)
{
    static struct batch *batch; /* one at a time is handed out */
    size_t taken = 0;
    if (!batch)
        batch = memory_alloc(sizeof *batch);
    batch->stream = stream;
    batch->take = take;
    batch->context = context;
    struct reader reader = begin_reading(session, number, all);
    do {
        while (taken < most && take_run(session, &reader, batch, most - taken))
            taken += batch->count;
        reader.ready = false;
        advance(session, &reader);
    } while (reader.ready && taken < most);
    tell_writers(session, reader.tail != reader.told);
    note_stuck(session, number, &reader);
    *is_empty = reader.tail == reader.end;
    return taken;
}
