#include "agent/x87.h"
#include "stream/eval.h"
#include "stream/map.h"
#include "stream/port.h"
#include "stream/ring.h"
#include "stream/softfloat.h"
#include "test/stream/equal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <x86intrin.h>

enum { RING_BYTES = 8192, CAPACITY = 3, PAGE = 4096, STACK_NODES = 48, STACK_BUCKETS = 16 };
#define NSECS 0x123456789abcdefu

struct wire_map_type world_maps[MAPS_MAX];
uint32_t world_map_count;
const uint32_t world_payload[RECORDS] = {0, 8, 48, 128};
struct world world_interpreted, world_jitted, *world;
uint8_t *world_target;
struct wire_process *world_process;
uint32_t world_cpu;
_Thread_local uint32_t world_tid = 4711;
bool world_live, world_ticks;
static uint64_t place_pcs[PLACES];
static struct wire_place places[PLACES];

/* ---- the stream ---- */

static void add_map(uint32_t kind, uint32_t key_bytes, uint32_t value_bytes, uint32_t is_signed, int64_t p0, int64_t p1, int64_t p2)
{
    struct wire_map_type *map = &world_maps[world_map_count++];
    *map = (struct wire_map_type){
        .kind = kind, .key_bytes = key_bytes, .capacity = CAPACITY, .param = {p0, p1, p2}, .is_signed = is_signed, .name_bytes = 2};
    map->value_bytes = value_bytes ? value_bytes : (uint32_t)wire_map_value_bytes(kind, map->param);
}

static void make_maps(void)
{
    for (uint32_t key = 0; key <= 16; key += 8)
        add_map(WIRE_MAP_INT, key, 0, 1, 0, 0, 0);
    add_map(WIRE_MAP_INT, 8, 0, 0, 0, 0, 0);
    add_map(WIRE_MAP_VALUE, 0, 16, 0, 0, 0, 0);
    add_map(WIRE_MAP_VALUE, 8, 24, 0, 0, 0, 0);
    for (uint32_t kind = WIRE_MAP_COUNT; kind <= WIRE_MAP_STATS; kind++) {
        add_map(kind, 0, 0, kind & 1, 0, 0, 0);
        add_map(kind, 8, 0, 1, 0, 0, 0);
    }
    add_map(WIRE_MAP_MIN, 0, 0, 0, 0, 0, 0);
    for (uint32_t is_signed = 0; is_signed < 2; is_signed++) {
        add_map(WIRE_MAP_HIST, 0, 0, is_signed, 0, 0, 0);
        add_map(WIRE_MAP_LHIST, 0, 0, is_signed, 0, 100, 10);
        add_map(WIRE_MAP_LHIST, 0, 0, is_signed, -1000, 1000, 64);
        add_map(WIRE_MAP_LHIST, 0, 0, is_signed, INT64_MIN, INT64_MAX, INT64_MAX / 7);
        add_map(WIRE_MAP_LHIST, 0, 0, is_signed, -70, -5, 3);
    }
    add_map(WIRE_MAP_HIST, 0, 0, 1, 2, 0, 0);
    add_map(WIRE_MAP_HIST, 8, 0, 0, 0, 0, 0);
    add_map(WIRE_MAP_LHIST, 8, 0, 1, 0, 7, 2);
}

static uint32_t put(char *to, uint32_t *at, const void *from, uint32_t bytes)
{
    uint32_t offset = *at;
    memcpy(to + offset, from, bytes);
    *at = (offset + bytes + 7) & ~7u;
    return offset;
}

const struct wire_stream *world_stream(const struct program *program)
{
    static char bytes[64 << 10] __attribute__((aligned(8)));
    static const struct wire_source sources[PROGRAM_MAX + 1];
    static const struct wire_insn first = {.op = WIRE_END};
    struct wire_stream *stream = (struct wire_stream *)bytes;
    struct wire_clause clause[2] = {{.has_model = 1u << MODEL, .point_count = 1}, {.has_model = 1u << MODEL, .point_count = 1}};
    struct wire_record_type record[RECORDS] = {0};
    uint32_t at = sizeof *stream;
    clause[0].action[MODEL].count = 1;
    clause[1].predicate[MODEL] = (struct wire_code){1, program->predicate_count};
    clause[1].action[MODEL] = (struct wire_code){1 + program->predicate_count, program->count - program->predicate_count};
    clause[1].frame_bytes[MODEL] = program->frame_bytes;
    for (int i = 0; i < RECORDS; i++)
        record[i].payload_bytes = world_payload[i];
    *stream = (struct wire_stream){.magic = WIRE_STREAM_MAGIC, .flags = WIRE_STREAM_UNSAFE, .clause_count = 2, .point_count = 1};
    stream->clause_offset = put(bytes, &at, clause, sizeof clause);
    stream->point_offset = put(bytes, &at, &(struct wire_point){0, 4}, sizeof(struct wire_point));
    stream->map_count = world_map_count;
    stream->map_offset = put(bytes, &at, world_maps, world_map_count * sizeof *world_maps);
    stream->record_count = RECORDS;
    stream->record_offset = put(bytes, &at, record, sizeof record);
    stream->code_offset[0] = stream->code_offset[1] = at;
    stream->code_count[MODEL] = 1 + program->count;
    put(bytes, &at, &first, sizeof first);
    put(bytes, &at, program->insn, program->count * sizeof *program->insn);
    stream->source_offset = put(bytes, &at, sources, (program->count + 1) * (uint32_t)sizeof *sources);
    stream->data_bytes = DATA_BYTES;
    stream->data_offset = put(bytes, &at, program->data, DATA_BYTES);
    stream->bytes = at;
    return stream;
}

/* ---- session memory ---- */

static bool lay_out(struct wire_session *session, const struct wire_stream *stream, uint32_t shards)
{
    char *memory = (char *)session;
    uint64_t need = sizeof *session + sizeof(struct wire_state) + sizeof(struct wire_ring) + RING_BYTES + 192 + stream->data_bytes +
                    STACK_NODES * sizeof(struct wire_stack_node) + STACK_BUCKETS * sizeof(uint32_t);
    for (uint32_t i = 0; i < stream->map_count; i++) {
        const struct wire_map_type *type = &stream_maps(stream)[i];
        uint64_t node = sizeof(struct wire_node) + type->key_bytes + shards * (type->value_bytes + 64ull);
        need += sizeof(struct wire_map) + sizeof(struct wire_map_state) + 16 + (type->key_bytes ? type->capacity : 1) * node;
    }
    if (need > SESSION_BYTES)
        return false;
    memset(memory, 0, session->bytes);
    *session = (struct wire_session){.magic = WIRE_SESSION_MAGIC,
                                     .ring_count = 1,
                                     .ring_bytes = RING_BYTES,
                                     .map_count = stream->map_count,
                                     .data_bytes = stream->data_bytes,
                                     .frame_count = 1,
                                     .shard_mask = shards - 1,
                                     .start_ns = 12345};
    uint32_t at = sizeof *session;
    session->maps_offset = at;
    at += stream->map_count * (uint32_t)sizeof(struct wire_map);
    session->data_offset = put(memory, &at, stream_data(stream), stream->data_bytes);
    session->state_offset = at;
    at += sizeof(struct wire_state);
    uint32_t states = at;
    at += stream->map_count * (uint32_t)sizeof(struct wire_map_state);
    session->rings_offset = at = (at + 63) & ~63u;
    at += sizeof(struct wire_ring) + RING_BYTES;
    for (uint32_t i = 0; i < stream->map_count; i++) {
        struct wire_map *map = (struct wire_map *)(memory + session->maps_offset) + i;
        map->type = stream_maps(stream)[i];
        bool aggregates = map->type.kind >= WIRE_MAP_COUNT, keyed = map->type.key_bytes;
        map->type.capacity = keyed ? map->type.capacity : 1;
        map->shards = aggregates ? shards : 1;
        map->value_stride = keyed ? map->type.value_bytes : (map->type.value_bytes + 63) & ~63u;
        map->node_bytes = (uint32_t)sizeof(struct wire_node) + map->type.key_bytes + map->shards * map->value_stride;
        map->bucket_mask = 3;
        map->nodes = map->type.capacity;
        map->state_offset = states + i * (uint32_t)sizeof(struct wire_map_state);
        map->buckets_offset = at;
        at += 4 * 4;
        map->nodes_offset = at;
        at += map->type.capacity * map->node_bytes;
    }
    session->stack_nodes = STACK_NODES;
    session->stack_bucket_mask = STACK_BUCKETS - 1;
    session->stack_buckets_offset = at = (at + 63) & ~63u;
    session->stacks_offset = at += STACK_BUCKETS * (uint32_t)sizeof(uint32_t);
    session->bytes = at + STACK_NODES * sizeof(struct wire_stack_node);
    return true;
}

bool world_reset(const struct wire_stream *stream, uint32_t shards, bool ticks)
{
    struct wire_session *a = world_interpreted.session, *b = world_jitted.session;
    world_interpreted = (struct world){.session = a};
    world_jitted = (struct world){.session = b};
    for (uint32_t i = 0; i < PLACES; i++)
        places[i].quota = world_interpreted.quota[i] = (int32_t[]){1, 0, -1, 2, INT32_MAX, INT32_MIN, 1000, 3}[i];
    world_ticks = ticks;
    if (!lay_out(a, stream, shards) || !lay_out(b, stream, shards))
        return false;
    if (ticks) {
        a->tsc_mult = b->tsc_mult = 1;
        a->tsc_shift = b->tsc_shift = 32;
        a->tsc_base = b->tsc_base = __rdtsc();
        a->ns_base = b->ns_base = NSECS;
    }
    return true;
}

bool world_has_equal_quotas(void)
{
    for (uint32_t i = 0; i < PLACES; i++)
        if (places[i].quota != world_interpreted.quota[i])
            return false;
    return true;
}

bool world_is_late(void)
{
    return world_ticks && (__rdtsc() - world_jitted.session->tsc_base) >> 32;
}

void *world_pages(size_t bytes, int protection)
{
    /* The same each time, so that a seed gives the same run again. */
    static uintptr_t next = (uintptr_t)(MODEL == WIRE_LP64 ? 0x7e0000000000 : 0x20000000);
    void *memory = mmap((void *)next, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    next += 1 << 24;
    return memory;
}

void world_init(void)
{
    world_interpreted.session = world_pages(SESSION_BYTES, PROT_READ | PROT_WRITE);
    world_jitted.session = world_pages(SESSION_BYTES, PROT_READ | PROT_WRITE);
    world_target = world_pages(TARGET_BYTES, PROT_READ | PROT_WRITE);
    world_process = world_pages(sizeof *world_process, PROT_READ | PROT_WRITE);
    *world_process = (struct wire_process){.place_pcs_va = (uintptr_t)place_pcs,
                                           .places_va = (uintptr_t)places,
                                           .place_count = PLACES,
                                           .session_va = (uintptr_t)world_jitted.session};
    for (uint32_t i = 0; i < PLACES; i++) {
        place_pcs[i] = MODEL == WIRE_LP64 ? 0x7f0012345678 + i * 77 : 0x8049000 + i * 77;
        places[i] = (struct wire_place){.row = i * 3, .func = i ^ 5, .probe = 100 + i};
    }
    make_maps();
}

/* ---- the port ---- */

static bool is_within(uint64_t va, uint32_t bytes, uint64_t start, uint64_t end)
{
    return va >= start && va <= end && end - va >= bytes;
}

bool port_read(struct wire_fire *fire, uint64_t va, void *to, uint32_t bytes)
{
    uint64_t target = (uintptr_t)world_target;
    if (!is_within(va, bytes, target, target + TARGET_BYTES) && !is_within(va, bytes, fire->sp, (fire->sp / PAGE + 1) * PAGE))
        return false;
    const volatile uint8_t *from = (const uint8_t *)(uintptr_t)va;
    for (uint32_t i = 0; i < bytes; i++)
        ((volatile uint8_t *)to)[i] = from[i];
    return true;
}

uint64_t port_ctx(struct wire_fire *fire, uint32_t what)
{
    switch (what) {
    case WIRE_CTX_PID:
        return 1234;
    case WIRE_CTX_TID:
        return world_tid;
    case WIRE_CTX_UID:
        return 1000;
    case WIRE_CTX_GID:
        return 100;
    case WIRE_CTX_CPU:
        return world_cpu;
    case WIRE_CTX_NSECS:
        return NSECS;
    case WIRE_CTX_RAND:
        return world->random = world->random * 1664525u + 1013904223u;
    case WIRE_CTX_PC:
        return place_pcs[fire->place];
    case WIRE_CTX_ROW:
        return places[fire->place].row;
    case WIRE_CTX_FUNC:
        return places[fire->place].func;
    case WIRE_CTX_PROBE:
        return places[fire->place].probe;
    case WIRE_CTX_QUOTA:
        return (uint64_t)(int64_t)__atomic_fetch_sub(&world->quota[fire->place], 1, __ATOMIC_RELAXED);
    }
    return 0xbad;
}

void port_comm(struct wire_fire *fire, bool of_process, char to[16])
{
    (void)fire;
    for (int i = 0; i < 16; i++)
        ((volatile char *)to)[i] = i < 9 ? (char)((of_process ? 'A' : 'a') + i) : 0;
}

void port_signal(struct wire_fire *fire, int number)
{
    (void)fire;
    world->signals++;
    world->signal_sum = world->signal_sum * 31 + (uint32_t)number;
}

uint64_t port_time(const struct wire_fire *fire)
{
    (void)fire;
    return world_ticks ? __rdtsc() : ++world->time;
}

bool port_goes_on(uint32_t steps)
{
    (void)steps;
    return true;
}

bool port_wait(const struct wire_fire *fire, uint32_t seen, uint32_t most_ns)
{
    (void)fire, (void)seen, (void)most_ns;
    return false;
}

/* The registers, as if they were frames. */
uint32_t port_stack(struct wire_fire *fire, uint64_t *walk, uint64_t *pcs, uint32_t room, uint64_t *root)
{
    const uint64_t *machine = (const uint64_t *)(uintptr_t)fire->machine_va;
    uint32_t sp = MODEL == WIRE_LP64 ? WIRE_REG64_SP : WIRE_REG32_SP, count = 0;
    for (uint32_t i = 0; i < MACHINE_REGS && count < room; i++)
        pcs[count++] = (uintptr_t)(i == sp ? fire->sp : machine[i]);
    /* It is there to be used up. */
    for (uint32_t i = 0; i < WIRE_WALK_BYTES / 8; i++)
        ((volatile uint64_t *)walk)[i] = i;
    *root = fire->place;
    return count;
}

/* JIT code reads these itself. */
uint64_t port_xmm(struct wire_fire *fire, uint32_t number, uint32_t bytes)
{
    const uint32_t *low = (const uint32_t *)&equal_in.fx[160 + 16 * number];
    (void)fire;
    if (bytes == 4)
        return softfloat_from_float(*low);
    return *(const uint64_t *)low;
}

/* In a body they are still the program's: nothing here uses them. */
uint64_t port_st0(struct wire_fire *fire)
{
    uint16_t status = (uint16_t)(equal_in.fx[2] | equal_in.fx[3] << 8);
    (void)fire;
    if (world_live)
        return agent_st0();
    if (!(equal_in.fx[4] >> (status >> 11 & 7) & 1))
        return SOFTFLOAT_NAN;
    return softfloat_from_x87(*(const uint64_t *)(equal_in.fx + 32), *(const uint16_t *)(equal_in.fx + 40));
}

/* ---- what bodies call besides eval_op() ---- */

static void error_out(struct wire_fire *fire)
{
    world->errors++;
    stream_ring_write_error(fire);
}

static uint8_t frame[FRAME_MAX + 16] __attribute__((aligned(16)));

static uint64_t claim(struct wire_fire *fire)
{
    if (world_process->quiet || !fire->session_va) /* quiet: here, the pool is empty */
        return 0;
    world->frames++;
    return (uintptr_t)frame;
}

static void release(struct wire_fire *fire, uint64_t frame_va)
{
    (void)fire;
    world->frames -= frame_va == (uintptr_t)frame;
}

void world_describe(struct jit_process *process)
{
    uintptr_t thread;
#ifdef __x86_64__
    __asm__("mov %%fs:0,%0" : "=r"(thread));
#else
    __asm__("mov %%gs:0,%0" : "=r"(thread));
#endif
    world_process->tid_offset = (int32_t)((uintptr_t)&world_tid - thread);
    *process = (struct jit_process){.session_va = (uintptr_t)world_jitted.session,
                                    .session = world_jitted.session,
                                    .process_va = (uintptr_t)world_process,
                                    .op_va = (uintptr_t)eval_op,
                                    .error_va = (uintptr_t)error_out,
                                    .claim_va = (uintptr_t)claim,
                                    .release_va = (uintptr_t)release};
}
