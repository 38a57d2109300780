#include "stream/ring.h"

#include "stream/port.h"

/* In a traced process a thread that has reserved a record and not committed it is in code of this section: nothing is called between. */
#define RING __attribute__((section(".text.ring")))

RING static struct wire_ring *ring_of(struct wire_session *session, uint32_t tid)
{
    uint32_t number = (tid * WIRE_RING_FACTOR >> WIRE_RING_SHIFT) & (session->ring_count - 1);
    return (struct wire_ring *)((char *)session + session->rings_offset + number * session->ring_stride);
}

/* The oldest record of the ring is reserved by the thread. */
RING static bool is_oldest_mine(const struct wire_fire *fire, const struct wire_session *session, const struct wire_ring *ring,
                                uint32_t tail, uint64_t *fire_va)
{
    const struct wire_record *oldest = (const struct wire_record *)((const char *)(ring + 1) + (tail & (session->ring_bytes - 1)));
    if (tail % 8 || (__atomic_load_n(&oldest->state, __ATOMIC_ACQUIRE) & 3) != WIRE_RECORD_RESERVED)
        return false;
    *fire_va = oldest->time;
    return oldest->tid == fire->tid && oldest->pid == fire->pid;
}

/* A ring that fills up may do so because the thread has jumped out of the writing of its oldest record: the reader is told. True: it still
 * writes it, and is interrupted. */
RING static bool tell_left(const struct wire_fire *fire, const struct wire_session *session, struct wire_ring *ring, uint32_t tail)
{
    uint64_t fire_va;
    if (!is_oldest_mine(fire, session, ring, tail, &fire_va))
        return false;
    if (!wire_was_left(fire, fire_va))
        return true;
    __atomic_store_n(&ring->left, tail + 1, __ATOMIC_RELEASE);
    return false;
}

/* The place of a record of `need` bytes, reserved, or 0 when there is no room. */
RING static struct wire_record *reserve(const struct wire_fire *fire, struct wire_session *session, struct wire_ring *ring, uint32_t need)
{
    uint32_t size = session->ring_bytes, head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED), tail, at, padding, used;
    char *data = (char *)(ring + 1);
    int tries = 0;
    do {
        tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
        used = head - tail;
        if (used > size / 2)
            tell_left(fire, session, ring, tail);
        at = head & (size - 1);
        padding = at + need > size ? size - at : 0;
        if (used > size || padding + need > size - used || head % 8 || tries++ == WIRE_TRIES)
            return 0;
        /* A page that is not there yet is fetched before anything is reserved: signals wait for such a moment. */
        *(volatile char *)(data + at);
        *(volatile char *)(data + (padding ? 0 : at));
        *(volatile char *)(data + (padding ? 0 : at) + need - 1);
    } while (!__atomic_compare_exchange_n(&ring->head, &head, head + padding + need, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (padding) {
        __atomic_store_n(&((struct wire_record *)(data + at))->state, padding << 2 | WIRE_RECORD_PADDING, __ATOMIC_RELEASE);
        at = 0;
    }
    struct wire_record *record = (struct wire_record *)(data + at);
    record->pid = fire->pid;
    record->tid = fire->tid;
    record->time = (uintptr_t)fire;
    __atomic_store_n(&record->state, need << 2 | WIRE_RECORD_RESERVED, __ATOMIC_RELEASE);
    return record;
}

/* How long is waited for room. Of each wait at most twice as long as it was to take counts: where one takes much longer, the processors
 * have so much to do that the controller may wait for its turn, too. Waits become longer, so that thousands of threads that wait leave the
 * processors to the controller. */
enum { FIRST_WAIT_NS = 10000000, LONGEST_WAIT_NS = 160000000 };
#define SILENCE_MOST_NS 2000000000ull
#define WAIT_MOST_NS 10000000000ull

/* Waits, where that is wanted, until the controller has made room. That is given up where it shows no sign of life, because it has died or
 * is stopped; or where it lives, but does not move on in this ring for long, because what it writes to takes nothing, or because the
 * oldest record's writer does not finish it. A controller that is at work, and so does not come by any ring, is waited for as long as that
 * takes. What is given up was waited for once, not at every record; and not at all by the oldest record's writer, whom a signal has
 * interrupted. A run that ends meanwhile takes the record with it: it is of an event from before the end. */
RING static struct wire_record *reserve_waiting(struct wire_fire *fire, struct wire_session *session, struct wire_ring *ring, uint32_t need)
{
    struct wire_state *state = wire_state(session);
    uint64_t silent_ns = 0, waited_ns = 0;
    uint32_t last_tail = 0, last_reader = 0, last_beat = 0, last_work = 0, wait_ns = FIRST_WAIT_NS;
    do {
        uint32_t reader = __atomic_load_n(&state->reader, __ATOMIC_ACQUIRE), tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
        uint32_t beat = __atomic_load_n(&state->beat, __ATOMIC_RELAXED), work = __atomic_load_n(&state->work, __ATOMIC_RELAXED);
        struct wire_record *record = reserve(fire, session, ring, need);
        if (record)
            return record;
        uint64_t before_ns = port_ctx(fire, WIRE_CTX_NSECS);
        if (tell_left(fire, session, ring, tail) || __atomic_load_n(&ring->stalled, __ATOMIC_RELAXED) == tail + 1 ||
            !port_wait(fire, reader, wait_ns))
            return 0;
        uint64_t took_ns = port_ctx(fire, WIRE_CTX_NSECS) - before_ns;
        took_ns = took_ns < 2 * wait_ns ? took_ns : 2 * wait_ns;
        wait_ns = wait_ns < LONGEST_WAIT_NS ? 2 * wait_ns : wait_ns;
        bool is_at_work = reader == last_reader && work != last_work;
        waited_ns = tail == last_tail && !is_at_work ? waited_ns + took_ns : 0;
        silent_ns = beat == last_beat && reader == last_reader ? silent_ns + took_ns : 0;
        last_tail = tail;
        last_reader = reader;
        last_beat = beat;
        last_work = work;
    } while (silent_ns < SILENCE_MOST_NS && waited_ns < WAIT_MOST_NS);
    __atomic_store_n(&ring->stalled, last_tail + 1, __ATOMIC_RELAXED);
    return 0;
}

RING static void lose(struct wire_session *session, struct wire_ring *ring)
{
#ifdef __i386__
    uint32_t *low = (uint32_t *)&ring->lost;
    __asm__ volatile("lock addl $1,%0\n lock adcl $0,%1" : "+m"(low[0]), "+m"(low[1]) : : "cc");
    low = (uint32_t *)&wire_state(session)->lost[WIRE_LOSS_RING];
    __asm__ volatile("lock addl $1,%0\n lock adcl $0,%1" : "+m"(low[0]), "+m"(low[1]) : : "cc");
#else
    __atomic_add_fetch(&ring->lost, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&wire_state(session)->lost[WIRE_LOSS_RING], 1, __ATOMIC_RELAXED);
#endif
}

RING void stream_ring_write(struct wire_fire *fire, uint32_t type, const void *payload, uint32_t bytes)
{
    struct wire_session *session = (void *)(uintptr_t)fire->session_va;
    uint32_t need = (uint32_t)sizeof(struct wire_record) + bytes;
    if (__atomic_load_n(&wire_state(session)->off, __ATOMIC_RELAXED))
        return;
    if (!fire->tid)
        fire->tid = (uint32_t)port_ctx(fire, WIRE_CTX_TID);
    if (!fire->pid)
        fire->pid = (uint32_t)port_ctx(fire, WIRE_CTX_PID);
    struct wire_ring *ring = ring_of(session, fire->tid);
    uint64_t time = port_time(fire);
    uint32_t place = (uint32_t)port_ctx(fire, WIRE_CTX_ROW);
    struct wire_record *record = 0;
    if (need <= session->ring_bytes / 2)
        record = reserve_waiting(fire, session, ring, need);
    if (!record) {
        lose(session, ring);
        return;
    }
    record->type = (uint16_t)type;
    record->clause = (uint16_t)fire->clause;
    record->place = place;
    record->speculation = fire->speculation;
    volatile uint64_t *to = (uint64_t *)(record + 1);
    const volatile uint64_t *from = payload;
    for (uint32_t i = 0; i < bytes / 8; i++)
        to[i] = from[i];
    record->time = time; /* last: until then it is known whose it is */
    __atomic_store_n(&record->state, need << 2 | WIRE_RECORD_COMMITTED, __ATOMIC_RELEASE);
}

RING void stream_ring_write_error(struct wire_fire *fire)
{
    struct wire_error_payload payload = {.error = fire->error, .insn = fire->error_insn, .value = fire->error_value, .model = fire->model};
    uint32_t speculation = fire->speculation;
    fire->speculation = 0;
    stream_ring_write(fire, WIRE_RECORD_ERROR, &payload, sizeof payload);
    fire->speculation = speculation;
}
