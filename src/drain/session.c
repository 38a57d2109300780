#include "drain/session.h"

#include "base/clock.h"
#include "base/sealed.h"
#include "drain/beat.h"
#include "stream/stream.h"

#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

/* ---- time ---- */

void drain_clock_read(struct drain_clock *clock)
{
    /* The reading that took least time tells best what time it was. */
    uint64_t best = 0;
    for (int i = 0; i < 16; i++) {
        uint64_t before = __rdtsc(), ns = clock_now_ns(), after = __rdtsc();
        if (!i || after - before < best) {
            best = after - before;
            *clock = (struct drain_clock){before + (after - before) / 2, ns};
        }
    }
}

static bool tsc_is_steady(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1;
}

static bool has_rdpid(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c >> 22 & 1;
}

static void set_clock(struct wire_session *memory, const struct drain_clock *first)
{
    enum { LEAST_NS = 10000000 };
    struct drain_clock last;
    drain_clock_read(&last);
    memory->start_ns = last.ns;
    if (!tsc_is_steady())
        return;
    struct drain_clock start = *first;
    if (!start.tsc || last.ns - start.ns < LEAST_NS) {
        if (!start.tsc)
            start = last;
        uint64_t wait = LEAST_NS - (last.ns - start.ns);
        nanosleep(&(struct timespec){.tv_nsec = (long)wait}, NULL);
        drain_clock_read(&last);
    }
    if (last.tsc <= start.tsc)
        return;
    double ns_per_tick = (double)(last.ns - start.ns) / (double)(last.tsc - start.tsc);
    unsigned shift = 32;
    while (shift && ns_per_tick * (double)(1ull << shift) >= 4294967295.0)
        shift--;
    memory->tsc_base = last.tsc;
    memory->ns_base = last.ns;
    memory->tsc_shift = shift;
    memory->tsc_mult = (uint32_t)(ns_per_tick * (double)(1ull << shift) + 0.5);
}

uint64_t drain_session_ns(const struct drain_session *session, uint64_t time)
{
    const struct wire_session *layout = &session->layout;
    if (!layout->tsc_mult)
        return time;
    int64_t ticks = (int64_t)(time - layout->tsc_base);
    return layout->ns_base + (uint64_t)(int64_t)((__int128)ticks * layout->tsc_mult >> layout->tsc_shift);
}

/* ---- layout ---- */

static uint64_t round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

static uint32_t power_from(uint32_t least)
{
    uint32_t power = 1;
    while (power < least)
        power *= 2;
    return power;
}

/* For keys that were deleted, until they are collected; memory that is not used takes no room but addresses. */
static uint32_t spare_nodes(uint32_t node_bytes, uint32_t map_count)
{
    enum { FEWEST = 64, MOST = 1 << 18, BYTES = 64 << 20, BYTES_OF_ONE = 16 << 20 };
    uint32_t share = BYTES / map_count, count = (share < BYTES_OF_ONE ? share : BYTES_OF_ONE) / node_bytes;
    return count < FEWEST ? FEWEST : count > MOST ? MOST : count;
}

static void lay_out_map(struct wire_map *map, const struct wire_map_type *type, uint32_t processors, uint32_t map_count,
                        uint64_t state_offset, uint64_t *end)
{
    enum { LINE = 64, SHARDS_MOST = 64, KEYED_SHARDS_MOST = 4, SMALL = 16 };
    bool aggregates = type->kind != WIRE_MAP_INT && type->kind != WIRE_MAP_VALUE && type->kind != WIRE_MAP_TSERIES, keyed = type->key_bytes;
    uint32_t most = !aggregates ? 1 : !keyed ? SHARDS_MOST : type->value_bytes <= SMALL ? KEYED_SHARDS_MOST : 1;
    *map = (struct wire_map){.type = *type, .state_offset = state_offset};
    map->shards = processors < most ? processors : most;
    map->value_stride = keyed ? type->value_bytes : (uint32_t)round_up(type->value_bytes, LINE);
    map->node_bytes = (uint32_t)(sizeof(struct wire_node) + type->key_bytes + (uint64_t)map->shards * map->value_stride);
    map->type.capacity = keyed ? type->capacity : 1;
    map->nodes = keyed ? map->type.capacity + spare_nodes(map->node_bytes, map_count) : 1;
    map->bucket_mask = power_from(map->nodes) - 1;
    *end = round_up(*end, LINE);
    map->buckets_offset = *end;
    *end = round_up(*end + (keyed ? (map->bucket_mask + 1ull) * sizeof(uint32_t) : 0), LINE);
    map->nodes_offset = *end;
    *end += (uint64_t)map->nodes * map->node_bytes;
}

static bool has_op(const struct wire_stream *stream, enum wire_op op)
{
    for (int m = 0; m < WIRE_MODELS; m++) {
        const struct wire_insn *code = (const void *)((const char *)stream + stream->code_offset[m]);
        for (uint32_t i = 0; i < stream->code_count[m]; i++)
            if (code[i].op == op)
                return true;
    }
    return false;
}

static void lay_out_stacks(struct wire_session *layout, uint32_t nodes, uint64_t *end)
{
    enum { NODES = 1 << 20, NODES_MOST = 1 << 26, LINE = 64 };
    layout->stack_nodes = nodes ? nodes < NODES_MOST ? nodes : NODES_MOST : NODES;
    layout->stack_bucket_mask = power_from(layout->stack_nodes) - 1;
    layout->stack_buckets_offset = round_up(*end, LINE);
    layout->stacks_offset = layout->stack_buckets_offset + (layout->stack_bucket_mask + 1ull) * sizeof(uint32_t);
    *end = layout->stacks_offset + (uint64_t)layout->stack_nodes * sizeof(struct wire_stack_node);
}

static uint32_t largest_frame(const struct wire_stream *stream)
{
    uint32_t largest = 64;
    for (uint32_t i = 0; i < stream->clause_count; i++)
        for (int m = 0; m < WIRE_MODELS; m++)
            if (stream_clauses(stream)[i].frame_bytes[m] > largest)
                largest = stream_clauses(stream)[i].frame_bytes[m];
    return largest;
}

/* What a stream does not use takes little room: without records of its own its rings have those of errors only. */
static void lay_out(struct drain_session *session, const struct wire_stream *stream, const struct drain_options *options)
{
    enum { PAGE = 4096, RING_BYTES = 4 << 20, ERROR_RING_BYTES = 1 << 20, RINGS_MOST = 16, FRAMES = 128 };
    uint32_t processors = power_from((uint32_t)sysconf(_SC_NPROCESSORS_CONF));
    struct wire_session *layout = &session->layout;
    *layout = (struct wire_session){
        .magic = WIRE_SESSION_MAGIC,
        .ring_count = processors * 2 < RINGS_MOST ? processors * 2 : RINGS_MOST,
        .ring_bytes = options->ring_bytes         ? options->ring_bytes
                      : has_op(stream, WIRE_EMIT) ? RING_BYTES
                                                  : ERROR_RING_BYTES,
        .map_count = stream->map_count,
        .data_bytes = stream->data_bytes,
        .frame_count = FRAMES,
        .frame_bytes = largest_frame(stream),
        .shard_mask = processors - 1,
        .lossless = options->lossless,
        .has_rdpid = has_rdpid(),
    };
    if (!options->ring_bytes && options->rings_bytes / layout->ring_count > layout->ring_bytes)
        layout->ring_bytes = options->rings_bytes / layout->ring_count;
    layout->maps_offset = round_up(sizeof *layout, 64);
    layout->data_offset = round_up(layout->maps_offset + (uint64_t)layout->map_count * sizeof(struct wire_map), 64);
    uint64_t end = round_up(layout->data_offset + layout->data_bytes, PAGE);
    layout->state_offset = end;
    uint64_t map_states = round_up(end + sizeof(struct wire_state), 64);
    end = round_up(map_states + layout->map_count * 64ull, PAGE);
    layout->ring_stride = round_up(sizeof(struct wire_ring) + layout->ring_bytes, PAGE);
    layout->rings_offset = end;
    end += layout->ring_count * layout->ring_stride;
    layout->guards_offset = end;
    end += WIRE_GUARDS * sizeof(struct wire_guard);
    layout->frame_stride = round_up(sizeof(struct wire_frame) + layout->frame_bytes, 64);
    layout->frames_offset = end;
    end = round_up(end + layout->frame_count * layout->frame_stride, PAGE);
    session->map = memory_zero(layout->map_count, sizeof *session->map);
    session->stuck = memory_zero(layout->ring_count, sizeof *session->stuck);
    session->tail = memory_zero(layout->ring_count, sizeof *session->tail);
    session->frame = memory_zero(layout->frame_count, sizeof *session->frame);
    session->guard = memory_zero(layout->map_count, sizeof *session->guard);
    for (uint32_t i = 0; i < layout->map_count; i++)
        lay_out_map(&session->map[i], &stream_maps(stream)[i], processors, layout->map_count, map_states + i * 64, &end);
    if (has_op(stream, WIRE_USTACK))
        lay_out_stacks(layout, options->stack_nodes, &end);
    layout->bytes = round_up(end, PAGE);
}

static void fill_constants(struct drain_session *session, const struct wire_stream *stream)
{
    char *memory = (char *)session->memory;
    memcpy(memory + session->layout.maps_offset, session->map, session->layout.map_count * sizeof *session->map);
    memcpy(memory + session->layout.data_offset, stream_data(stream), session->layout.data_bytes);
    *session->memory = session->layout;
}

struct err *drain_session_create(const struct wire_stream *stream, const struct drain_options *options, struct drain_session *out)
{
    *out = (struct drain_session){.fd = -1};
    lay_out(out, stream, options);
    set_clock(&out->layout, &options->clock);
    out->bytes = out->layout.bytes;
    char name[64];
    snprintf(name, sizeof name, WIRE_SESSION_NAME "-%d", getpid());
    void *memory;
    ERR_TRY(sealed_create(name, out->bytes, SEALED_WRITERS, &out->fd, &memory));
    out->memory = memory;
    fill_constants(out, stream);
    /* The same again in memory of our own, in the place of what the processes see. */
    if (mmap(memory, out->layout.state_offset, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return err_errno(ERR_SYSTEM, errno, "session memory: map");
    fill_constants(out, stream);
    return options->lossless ? drain_beat_start(out->memory, &out->beat) : NULL;
}

void drain_session_destroy(struct drain_session *session)
{
    drain_beat_stop(session->beat);
    if (session->memory)
        munmap(session->memory, session->bytes);
    if (session->fd >= 0)
        close(session->fd);
    free(session->map);
    free(session->stuck);
    free(session->tail);
    free(session->frame);
    free(session->guard);
    VEC_FREE(&session->retired);
    *session = (struct drain_session){.fd = -1};
}

uint64_t drain_session_lost(const struct drain_session *session, enum wire_loss cause)
{
    return __atomic_load_n(&wire_state(session->memory)->lost[cause], __ATOMIC_RELAXED);
}
