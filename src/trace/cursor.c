#include "trace/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK_RECORDS = 256 };

/* A channel while it is read. */
struct source {
    enum trace_stream stream;
    const struct trace_event *event;
    size_t event_count;
    struct trace_position position; /* after the packet in the buffer */
    uint64_t packet, packet_offset; /* of the packet in the buffer: its sequence, its place */
    uint8_t *buffer;                /* what follows its head */
    size_t at, size;                /* of the buffer: read so far, there */
    bool is_short;                  /* the file ends inside of the packet */
    bool is_done;
    uint64_t time_ns, end_ns;     /* of the last record; of the packet */
    size_t block_at, block_count; /* of what is decoded and not handed out */
    struct trace_record block[BLOCK_RECORDS];
};

struct trace_cursor {
    struct trace *trace;
    uint32_t thread;
    struct source source[2]; /* calls, samples */
};

static void damaged(struct trace_cursor *cursor, struct source *source, uint64_t packet, uint64_t offset, const char *why)
{
    char name[TRACE_NAME_ROOM];
    trace_file_name(source->stream, cursor->thread, name);
    trace_cut(cursor->trace, "%s: packet %llu, byte %llu: %s", name, (unsigned long long)packet, (unsigned long long)offset, why);
    source->is_done = true;
}

/* ---- packets ---- */

static void read_packet(struct trace_cursor *cursor, struct source *source, int fd)
{
    struct trace_packet head;
    uint8_t bytes[TRACE_HEAD_CHANNEL];
    uint64_t offset = source->position.offset;
    ssize_t size = trace_file_read(fd, bytes, sizeof bytes, offset);
    if (size == 0) {
        source->is_done = true;
        return;
    }
    const char *why =
        size < 0 ? strerror(errno)
                 : trace_packet_check(cursor->trace, bytes, (size_t)size, source->stream, cursor->thread, &source->position, &head);
    size_t content = why ? 0 : head.packet_bits / 8 - sizeof bytes;
    if (!why) {
        source->buffer = memory_resize(source->buffer, content, 1);
        size = trace_file_read(fd, source->buffer, content, offset + sizeof bytes);
        why = size < 0 ? strerror(errno) : NULL;
    }
    if (why) {
        damaged(cursor, source, source->position.sequence, offset, why);
        return;
    }
    source->at = 0;
    source->size = (size_t)size;
    source->is_short = (size_t)size < content;
    source->packet = source->position.sequence;
    source->packet_offset = offset;
    source->time_ns = head.begin_ns;
    source->end_ns = head.end_ns;
    source->position = (struct trace_position){offset + head.packet_bits / 8, source->position.sequence + 1, head.end_ns};
}

/* The next packet. No descriptor is kept: there may be thousands of cursors. */
static void next_packet(struct trace_cursor *cursor, struct source *source)
{
    if (source->is_short) {
        damaged(cursor, source, source->packet, source->packet_offset + TRACE_HEAD_CHANNEL + source->at, "ends inside of a packet");
        return;
    }
    char name[TRACE_NAME_ROOM];
    trace_file_name(source->stream, cursor->thread, name);
    int fd = trace_file_open(cursor->trace, name);
    if (fd < 0 && errno == ENOENT && !source->position.sequence) {
        source->is_done = true;
    } else if (fd < 0) {
        damaged(cursor, source, source->position.sequence, source->position.offset, strerror(errno));
    } else {
        read_packet(cursor, source, fd);
        close(fd);
    }
}

/* ---- records ---- */

static const char *check_numbers(const struct trace *trace, const struct trace_record *record)
{
    bool has_stack = record->number < trace->stack.n || (record->minor == TRACE_PLACE && record->number == TRACE_NONE);
    switch (record->major) {
    case TRACE_CALL:
        return record->number < trace->function.n ? NULL : "a function is not defined";
    case TRACE_SAMPLE:
        return !has_stack ? "a stack is not defined" : record->metric < trace->metric.n ? NULL : "a metric is not defined";
    case TRACE_THREAD:
        if (record->minor == TRACE_RAN)
            return record->number < TRACE_ACCOUNTS ? NULL : "there is no such account";
        return record->number <= 1 ? NULL : "there is no such reason";
    case TRACE_LOSS:
        return record->number < TRACE_LOSSES ? NULL : "there is no such loss";
    default:
        return NULL;
    }
}

static const char *take_items(const uint8_t *at, enum trace_shape shape, struct trace_record *record)
{
    uint32_t metric = 0, minor = record->minor;
    switch (shape) {
    case TRACE_SHAPE_NOTHING:
    case TRACE_SHAPES:
        break;
    case TRACE_SHAPE_NUMBER:
    case TRACE_SHAPE_REASON:
        record->number = trace_load32(at);
        break;
    case TRACE_SHAPE_SHORT:
        record->number = trace_load32(at);
        record->value = trace_load32(at + 4);
        break;
    case TRACE_SHAPE_MEASURE:
        record->number = trace_load32(at);
        metric = trace_load32(at + 4);
        record->value = trace_load64(at + 8);
        break;
    case TRACE_SHAPE_LOSS:
    case TRACE_SHAPE_ACCOUNT:
        record->number = trace_load32(at);
        record->value = trace_load64(at + 4);
        break;
    case TRACE_SHAPE_TREE:
        minor = trace_load32(at);
        metric = trace_load32(at + 4);
        record->number = trace_load32(at + 8);
        record->value = trace_load64(at + 12);
        break;
    }
    if (metric > UINT16_MAX || minor > UINT8_MAX)
        return "a metric or code is out of range";
    record->metric = (uint16_t)metric;
    record->minor = (uint8_t)minor;
    return NULL;
}

/* One record of the packet in the buffer, which has bytes left; false: it is damaged, or not wholly there. */
static bool decode_one(struct trace_cursor *cursor, struct source *source, struct trace_record *record)
{
    const uint8_t *at = source->buffer + source->at;
    size_t left = source->size - source->at, used = 4;
    const char *why = NULL;
    uint32_t word = left >= 4 ? trace_load32(at) : 0;
    unsigned id = word & ((1u << TRACE_ID_BITS) - 1);
    uint64_t time_ns = source->time_ns + (((word >> TRACE_ID_BITS) - (uint32_t)source->time_ns) & ((1u << TRACE_TIME_BITS) - 1));
    if (left >= 4 && id == TRACE_EXTENDED) {
        used = TRACE_EXTENDED_BYTES;
        id = word >> TRACE_ID_BITS;
        time_ns = left >= used ? trace_load64(at + 4) : source->time_ns;
    }
    if (left >= used && id >= source->event_count)
        why = "there is no such record";
    else if (left < used || left - used < trace_shape_bytes[source->event[id].shape])
        why = source->is_short ? "ends inside of a packet" : "ends inside of a record";
    else if (time_ns < source->time_ns || time_ns > source->end_ns)
        why = "a time makes no sense";
    if (!why) {
        const struct trace_event *event = &source->event[id];
        *record = (struct trace_record){.time_ns = time_ns, .major = event->major, .minor = event->minor};
        why = take_items(at + used, event->shape, record);
        if (!why)
            why = check_numbers(cursor->trace, record);
        used += trace_shape_bytes[event->shape];
    }
    if (why) {
        damaged(cursor, source, source->packet, source->packet_offset + TRACE_HEAD_CHANNEL + source->at, why);
        return false;
    }
    source->time_ns = time_ns;
    source->at += used;
    return true;
}

/* Compact calls, of which there are millions; stops at the first thing that is something else. */
static size_t decode_calls(const struct trace *trace, struct source *source, struct trace_record *records, size_t room)
{
    const uint8_t *at = source->buffer + source->at, *end = source->buffer + source->size;
    uint64_t time_ns = source->time_ns, end_ns = source->end_ns, functions = trace->function.n;
    size_t n = 0;
    for (; n < room && end - at >= 8; at += 8, n++) {
        uint64_t words = trace_load64(at);
        unsigned id = words & ((1u << TRACE_ID_BITS) - 1);
        uint64_t next_ns = time_ns + (((uint32_t)(words >> TRACE_ID_BITS) - (uint32_t)time_ns) & ((1u << TRACE_TIME_BITS) - 1));
        if (id >= TRACE_ENTER_TAIL || next_ns > end_ns || words >> 32 >= functions)
            break;
        records[n] =
            (struct trace_record){.time_ns = next_ns, .major = TRACE_CALL, .minor = (uint8_t)(id + 1), .number = (uint32_t)(words >> 32)};
        time_ns = next_ns;
    }
    source->at = (size_t)(at - source->buffer);
    source->time_ns = time_ns;
    return n;
}

static size_t decode(struct trace_cursor *cursor, struct source *source, struct trace_record *records, size_t room)
{
    size_t n = 0;
    while (n < room && !source->is_done) {
        if (source->at == source->size)
            next_packet(cursor, source);
        else if (source->stream == TRACE_CALLS)
            n += decode_calls(cursor->trace, source, records + n, room - n);
        if (n < room && !source->is_done && source->at < source->size)
            n += decode_one(cursor, source, &records[n]);
    }
    return n;
}

/* ---- the two channels ---- */

static size_t hand_out(struct source *source, struct trace_record *records, size_t room)
{
    size_t left = source->block_count - source->block_at, count = left < room ? left : room;
    memcpy(records, source->block + source->block_at, count * sizeof *records);
    source->block_at += count;
    return count;
}

static bool fill_block(struct trace_cursor *cursor, struct source *source)
{
    if (source->block_at == source->block_count) {
        source->block_at = 0;
        source->block_count = decode(cursor, source, source->block, BLOCK_RECORDS);
    }
    return source->block_count > 0;
}

size_t trace_next(struct trace_cursor *cursor, struct trace_record *records, size_t room)
{
    struct source *calls = &cursor->source[0], *samples = &cursor->source[1];
    size_t n = 0;
    while (n < room) {
        bool has_calls = fill_block(cursor, calls), has_samples = fill_block(cursor, samples);
        if (!has_calls || !has_samples) {
            struct source *only = has_calls ? calls : samples;
            n += hand_out(only, records + n, room - n);
            return n + decode(cursor, only, records + n, room - n);
        }
        while (n < room && calls->block_at < calls->block_count && samples->block_at < samples->block_count) {
            struct source *first = calls->block[calls->block_at].time_ns <= samples->block[samples->block_at].time_ns ? calls : samples;
            records[n++] = first->block[first->block_at++];
        }
    }
    return n;
}

/* ---- life ---- */

struct err *trace_cursor_open(struct trace *trace, uint32_t thread, struct trace_cursor **out)
{
    *out = NULL;
    if (thread >= trace->thread.n)
        return err_new(ERR_FILE, "trace: %s: there is no thread number %u", trace->path, thread);
    struct trace_cursor *cursor = memory_zero(1, sizeof *cursor);
    cursor->trace = trace;
    cursor->thread = thread;
    for (int i = 0; i < 2; i++) {
        cursor->source[i].stream = TRACE_CALLS + i;
        cursor->source[i].event = trace_events(TRACE_CALLS + i, &cursor->source[i].event_count);
    }
    *out = cursor;
    return NULL;
}

void trace_cursor_close(struct trace_cursor *cursor)
{
    if (!cursor)
        return;
    for (int i = 0; i < 2; i++)
        free(cursor->source[i].buffer);
    free(cursor);
}

uint64_t trace_cursor_bytes(const struct trace_cursor *cursor)
{
    return cursor->source[0].position.offset + cursor->source[1].position.offset;
}
