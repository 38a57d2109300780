#include "load/live.h"

#include "base/memory.h"
#include "base/sealed.h"
#include "wire/shared.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* All but what `memory` leads to is ours alone. */
struct load_live {
    struct wire_live *memory;
    int fd;
    uint64_t bytes, places_offset, block_bytes;
    uint32_t counter_room;
    uint32_t shard_mask;
    uint32_t answered; /* what load_live_answer() answered last; read by several threads */
};

/* ---- where things lie ---- */

/* Counters come in blocks, each with a shard for every processor that exists, fewer in a 32-bit process, where address space is dear. */
static void lay_out(struct load_live *live, uint32_t counter_room, int width)
{
    enum { PAGE = 4096, NARROW_LIMIT = 64 << 20, SHARD_BYTES = 1 << WIRE_SHARD_SHIFT };
    uint32_t blocks = (counter_room + WIRE_BLOCK_COUNTERS - 1) / WIRE_BLOCK_COUNTERS;
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    uint32_t shards = 1;
    while ((long)shards < processors && (width == 64 || (uint64_t)blocks * shards * 2 * SHARD_BYTES <= NARROW_LIMIT))
        shards *= 2;
    live->counter_room = counter_room;
    live->shard_mask = shards - 1;
    live->block_bytes = (uint64_t)shards * SHARD_BYTES;
    live->places_offset = WIRE_LIVE_BYTES + blocks * live->block_bytes;
    live->bytes = (live->places_offset + counter_room * sizeof(struct wire_place) + PAGE - 1) / PAGE * PAGE;
}

struct err *load_live_create(const char *name, uint32_t counter_room, int width, struct load_live **out)
{
    struct load_live *live = memory_zero(1, sizeof *live);
    void *memory;
    lay_out(live, counter_room, width);
    struct err *error = sealed_create(name, live->bytes, SEALED_WRITERS, &live->fd, &memory);
    live->memory = memory;
    if (error)
        free(live);
    else
        *out = live;
    return error;
}

void load_live_destroy(struct load_live *live)
{
    if (!live)
        return;
    munmap(live->memory, live->bytes);
    close(live->fd);
    free(live);
}

int load_live_fd(const struct load_live *live)
{
    return live->fd;
}

uint64_t load_live_bytes(const struct load_live *live)
{
    return live->bytes;
}

struct load_live_places load_live_at(const struct load_live *live, uint64_t va)
{
    return (struct load_live_places){.va = va,
                                     .bytes = live->bytes,
                                     .counters_va = va + WIRE_LIVE_BYTES,
                                     .places_va = va + live->places_offset,
                                     .scratch_va = va + offsetof(struct wire_live, scratch),
                                     .block_bytes = live->block_bytes,
                                     .shard_mask = live->shard_mask};
}

uint64_t load_live_places_offset(const struct load_live *live)
{
    return live->places_offset;
}

uint64_t load_live_counters_bytes(const struct load_live *live, uint32_t counters)
{
    return (counters + WIRE_BLOCK_COUNTERS - 1ull) / WIRE_BLOCK_COUNTERS * live->block_bytes;
}

/* ---- counters and places ---- */

/* NULL: there is none of that number. */
static uint64_t *counter_at(const struct load_live *live, uint32_t shard, uint32_t counter)
{
    if (shard > live->shard_mask || counter >= live->counter_room)
        return NULL;
    uint64_t offset = wire_counter_offset(counter, live->block_bytes) + ((uint64_t)shard << WIRE_SHARD_SHIFT);
    return (uint64_t *)((char *)live->memory + WIRE_LIVE_BYTES + offset);
}

/* A 32-bit process adds the halves separately: read again while the upper half moves, which it does once in 4 billion hits. */
static uint64_t read_shard(const uint64_t *shard)
{
    enum { ATTEMPTS = 100 };
    const uint32_t *half = (const uint32_t *)shard;
    uint32_t high = 0, low = 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        high = __atomic_load_n(&half[1], __ATOMIC_ACQUIRE);
        low = __atomic_load_n(&half[0], __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&half[1], __ATOMIC_ACQUIRE) == high)
            break;
    }
    return (uint64_t)high << 32 | low;
}

uint64_t load_live_counter(const struct load_live *live, uint32_t counter)
{
    uint64_t sum = 0;
    for (uint32_t shard = 0; shard <= live->shard_mask; shard++) {
        const uint64_t *at = counter_at(live, shard, counter);
        sum += at ? read_shard(at) : 0;
    }
    return sum;
}

void load_live_take_back(struct load_live *live, uint32_t counter)
{
    uint64_t *at = counter_at(live, 0, counter);
    if (at)
        __atomic_sub_fetch(at, 1, __ATOMIC_RELAXED);
}

static struct wire_place *place_at(const struct load_live *live, uint32_t place)
{
    if (place >= live->counter_room)
        return NULL;
    return (struct wire_place *)((char *)live->memory + live->places_offset) + place;
}

void load_live_set_place(struct load_live *live, uint32_t place, const struct wire_place *meaning)
{
    struct wire_place *at = place_at(live, place);
    if (at)
        *at = *meaning;
}

int32_t load_live_quota(const struct load_live *live, uint32_t place)
{
    const struct wire_place *at = place_at(live, place);
    return at ? __atomic_load_n(&at->quota, __ATOMIC_RELAXED) : 0;
}

int32_t load_live_set_quota(struct load_live *live, uint32_t place, int32_t quota)
{
    struct wire_place *at = place_at(live, place);
    return at ? __atomic_exchange_n(&at->quota, quota, __ATOMIC_RELAXED) : 0;
}

/* ---- events ---- */

bool load_live_event(const struct load_live *live, uint32_t *event)
{
    *event = __atomic_load_n(&live->memory->load_events, __ATOMIC_ACQUIRE);
    return *event != __atomic_load_n(&live->answered, __ATOMIC_ACQUIRE);
}

void load_live_answer(struct load_live *live, uint32_t event)
{
    __atomic_store_n(&live->answered, event, __ATOMIC_RELEASE);
    __atomic_store_n(&live->memory->load_answers, event, __ATOMIC_RELEASE);
    syscall(SYS_futex, &live->memory->load_answers, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void load_live_wait(const struct load_live *live, uint32_t event, uint64_t ns)
{
    syscall(SYS_futex, &live->memory->load_events, FUTEX_WAIT, event, &(struct timespec){.tv_nsec = (long)ns}, NULL, 0);
}

void load_live_wake(const struct load_live *live)
{
    syscall(SYS_futex, &live->memory->load_events, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void load_live_beat(struct load_live *live)
{
    __atomic_add_fetch(&live->memory->heartbeat, 1, __ATOMIC_RELAXED);
}

void load_live_release(struct load_live *live)
{
    __atomic_store_n(&live->memory->agent_off, 1, __ATOMIC_SEQ_CST);
}

/* ---- signal handlers ---- */

bool load_live_handler(const struct load_live *live, int index, struct load_handler *out)
{
    if (index < 0 || index >= WIRE_HANDLER_ROOM)
        return false;
    const struct wire_handler *entry = &live->memory->handler[index];
    uint32_t state = __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);
    if (state < WIRE_HANDLER_WANTED || state > WIRE_HANDLER_KNOWN)
        return false;
    *out = (struct load_handler){.handler = {__atomic_load_n(&entry->va, __ATOMIC_RELAXED)},
                                 .restorer = {__atomic_load_n(&entry->restorer_va, __ATOMIC_RELAXED)},
                                 .is_info = __atomic_load_n(&entry->is_info, __ATOMIC_RELAXED) != 0,
                                 .state = (enum wire_handler_state)state};
    return true;
}

static bool has_handler(const struct load_live *live, uint64_t va, uint64_t restorer_va, bool is_info)
{
    struct load_handler known;
    for (int i = 0; i < WIRE_HANDLER_ROOM; i++)
        if (load_live_handler(live, i, &known) && known.handler.va == va && known.restorer.va == restorer_va && known.is_info == is_info)
            return true;
    return false;
}

void load_live_want_handler(struct load_live *live, uint64_t va, uint64_t restorer_va, bool is_info)
{
    for (int i = 0; i < WIRE_HANDLER_ROOM && !has_handler(live, va, restorer_va, is_info); i++) {
        struct wire_handler *entry = &live->memory->handler[i];
        uint32_t expected = WIRE_HANDLER_FREE;
        if (!__atomic_compare_exchange_n(&entry->state, &expected, WIRE_HANDLER_BUSY, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&entry->va, va, __ATOMIC_RELAXED);
        __atomic_store_n(&entry->restorer_va, restorer_va, __ATOMIC_RELAXED);
        __atomic_store_n(&entry->is_info, is_info, __ATOMIC_RELAXED);
        __atomic_store_n(&entry->state, WIRE_HANDLER_WANTED, __ATOMIC_RELEASE);
        return;
    }
}

void load_live_set_handler(struct load_live *live, int index, enum wire_handler_state state)
{
    if (index >= 0 && index < WIRE_HANDLER_ROOM)
        __atomic_store_n(&live->memory->handler[index].state, state, __ATOMIC_RELEASE);
}
