/* How long a writer waits for room in a ring, by a clock of the test's own: as long as a controller takes that is at work, ten seconds for
 * one that is held up or that comes by without making room, two for one that is dead; and with few waits, since thousands may wait at
 * once. (S2.2, issue 13.15) */
#include "stream/port.h"
#include "stream/ring.h"
#include "test/check.h"

#include <stdio.h>
#include <string.h>

enum { RING_BYTES = 4096, RECORD_BYTES = sizeof(struct wire_record) + 8 };
#define SECOND_NS 1000000000ull

static struct {
    struct wire_session head;
    struct wire_state state;
    struct wire_ring ring;
    char data[RING_BYTES];
} memory;

/* What the controller does in each tenth of a second, and when it empties the ring. */
static struct {
    bool beats, works, comes_by;
    uint64_t room_ns;
} controller;
static uint64_t now_ns, waits;

uint64_t port_ctx(struct wire_fire *fire, uint32_t what)
{
    (void)fire;
    return what == WIRE_CTX_NSECS ? now_ns : 1;
}

uint64_t port_time(const struct wire_fire *fire)
{
    (void)fire;
    return now_ns;
}

bool port_wait(const struct wire_fire *fire, uint32_t seen, uint32_t most_ns)
{
    (void)fire, (void)seen;
    uint64_t tenths = (now_ns + most_ns) / (SECOND_NS / 10) - now_ns / (SECOND_NS / 10);
    now_ns += most_ns;
    waits++;
    memory.state.beat += controller.beats ? (uint32_t)tenths : 0;
    memory.state.work += controller.works ? (uint32_t)tenths : 0;
    memory.state.reader += controller.comes_by ? (uint32_t)tenths : 0;
    if (now_ns >= controller.room_ns) {
        memory.ring.tail = memory.ring.head;
        memory.state.reader++;
    }
    return true;
}

/* Seconds that a writer waits before a full ring. *lost: records, of two. */
static double wait_for(bool beats, bool works, bool comes_by, double room_s, uint64_t *lost)
{
    struct wire_fire fire = {.session_va = (uintptr_t)&memory, .pid = 1, .tid = 1};
    uint64_t payload = 0;
    memset(&memory, 0, sizeof memory);
    memory.head.ring_count = 1;
    memory.head.ring_bytes = RING_BYTES;
    memory.head.ring_stride = sizeof memory.ring + RING_BYTES;
    memory.head.rings_offset = (uint64_t)((char *)&memory.ring - (char *)&memory);
    memory.head.state_offset = (uint64_t)((char *)&memory.state - (char *)&memory);
    controller.room_ns = UINT64_MAX;
    now_ns = waits = 0;
    while (memory.ring.head + RECORD_BYTES <= RING_BYTES)
        stream_ring_write(&fire, 0, &payload, sizeof payload);
    CHECK(!waits, "a ring with room is waited for");
    controller.beats = beats;
    controller.works = works;
    controller.comes_by = comes_by;
    controller.room_ns = (uint64_t)(room_s * 1e9);
    stream_ring_write(&fire, 0, &payload, sizeof payload);
    double waited_s = (double)now_ns / 1e9;
    stream_ring_write(&fire, 0, &payload, sizeof payload);
    CHECK((double)now_ns / 1e9 - waited_s < 0.5, "what was given up is waited for again, for %.1f s", (double)now_ns / 1e9 - waited_s);
    *lost = memory.state.lost[WIRE_LOSS_RING];
    return waited_s;
}

int main(void)
{
    uint64_t lost;
    double waited_s = wait_for(true, true, false, 100, &lost);
    CHECK(!lost && waited_s < 101, "a controller at work: %llu lost after %.1f s", (unsigned long long)lost, waited_s);
    CHECK(waits < 1000, "a controller at work: %llu waits in %.1f s", (unsigned long long)waits, waited_s);
    waited_s = wait_for(true, true, true, 5, &lost);
    CHECK(!lost && waited_s < 6, "a controller that makes room late: %llu lost after %.1f s", (unsigned long long)lost, waited_s);
    waited_s = wait_for(true, false, false, 100, &lost);
    CHECK(lost == 2 && waited_s > 9 && waited_s < 12, "a controller that is held up: %llu lost after %.1f s", (unsigned long long)lost,
          waited_s);
    waited_s = wait_for(true, true, true, 100, &lost);
    CHECK(lost == 2 && waited_s > 9 && waited_s < 12, "a ring that does not move: %llu lost after %.1f s", (unsigned long long)lost,
          waited_s);
    waited_s = wait_for(false, false, false, 100, &lost);
    CHECK(lost == 2 && waited_s > 1.9 && waited_s < 3, "a controller that is dead: %llu lost after %.1f s", (unsigned long long)lost,
          waited_s);
    printf("%lu checks, %d failures\n", checks, failures);
    return failures != 0;
}
