#include "trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FIRST_BUFFER = 4096, BUFFERS_MAX = 64 << 20 };

static void fail(struct trace_writer *writer, struct err *error)
{
    if (!error)
        return;
    if (writer->error)
        err_free(error);
    else
        writer->error = error;
    for (size_t i = 0; i < writer->channel.n; i++)
        writer->channel.at[i].limit = 0;
}

/* ---- files ---- */

/* All or nothing: what a full disk took of the packet is taken back, so that the file ends with a whole one. */
static struct err *append(int fd, const char *path, const char *name, uint64_t at, const uint8_t *bytes, size_t size)
{
    /* Past the limit of file sizes there is a signal, whose action is not ours to change. */
    struct rlimit limit;
    int number = 0;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && at + size > limit.rlim_cur)
        number = EFBIG;
    for (size_t done = 0; !number && done < size;) {
        ssize_t part = pwrite(fd, bytes + done, size - done, (off_t)(at + done));
        if (part > 0)
            done += (size_t)part;
        else if (part == 0 || errno != EINTR)
            number = part ? errno : ENOSPC;
    }
    if (!number)
        return NULL;
    struct err *error = err_errno(ERR_SYSTEM, number, "trace: %s/%s", path, name);
    if (ftruncate(fd, (off_t)at)) {
        /* Then it ends with a part of a packet, which readers know. */
    }
    return error;
}

static struct err *close_file(const char *path, const char *name, int fd)
{
    return close(fd) && errno != EINTR ? err_errno(ERR_SYSTEM, errno, "trace: %s/%s", path, name) : NULL;
}

static struct err *open_file(struct trace_writer *writer, const char *name, bool is_new, int *fd)
{
    *fd = openat(writer->directory.fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (is_new ? O_CREAT | O_EXCL : 0), 0600);
    return *fd < 0 ? err_errno(ERR_SYSTEM, errno, "trace: %s/%s", writer->path, name) : NULL;
}

static struct err *close_slot(struct trace_writer *writer, size_t slot)
{
    if (!writer->open[slot].channel)
        return NULL;
    char name[TRACE_NAME_ROOM];
    uint32_t channel = writer->open[slot].channel - 1;
    trace_file_name(TRACE_CALLS + channel % 2, channel / 2, name);
    writer->open[slot].channel = 0;
    return close_file(writer->path, name, writer->open[slot].fd);
}

/* The channel's descriptor: few are open, however many threads there are. */
static struct err *channel_descriptor(struct trace_writer *writer, uint32_t channel, const char *name, int *fd)
{
    size_t slot = channel % TRACE_DESCRIPTORS;
    if (writer->open[slot].channel != channel + 1) {
        ERR_TRY(close_slot(writer, slot));
        ERR_TRY(open_file(writer, name, !writer->channel.at[channel].packets, &writer->open[slot].fd));
        writer->open[slot].channel = channel + 1;
    }
    *fd = writer->open[slot].fd;
    return NULL;
}

static struct err *write_whole(struct trace_writer *writer, const char *name, const void *bytes, size_t size)
{
    int fd;
    ERR_TRY(open_file(writer, name, true, &fd));
    struct err *error = append(fd, writer->path, name, 0, bytes, size);
    struct err *late = close_file(writer->path, name, fd);
    if (error)
        err_free(late);
    return error ? error : late;
}

/* ---- packets ---- */

static struct err *write_definitions(struct trace_writer *writer)
{
    struct trace_file *file = &writer->definitions;
    int fd;
    ERR_TRY(open_file(writer, "definitions", !file->packets, &fd));
    struct err *error = append(fd, writer->path, "definitions", file->bytes, file->buffer, file->used);
    struct err *late = close_file(writer->path, "definitions", fd);
    if (error)
        err_free(late);
    return error ? error : late;
}

static struct err *write_channel(struct trace_writer *writer, struct trace_file *file)
{
    uint32_t channel = (uint32_t)(file - writer->channel.at);
    char name[TRACE_NAME_ROOM];
    trace_file_name(TRACE_CALLS + channel % 2, channel / 2, name);
    int fd;
    ERR_TRY(channel_descriptor(writer, channel, name, &fd));
    return append(fd, writer->path, name, file->bytes, file->buffer, file->used);
}

void trace_writer_packet(struct trace_writer *writer, struct trace_file *file)
{
    bool is_channel = file != &writer->definitions;
    if (!file->used)
        return;
    /* Invariant 2. */
    if (is_channel)
        trace_writer_packet(writer, &writer->definitions);
    uint32_t channel = is_channel ? (uint32_t)(file - writer->channel.at) : 0;
    struct trace_packet head = {
        .magic = TRACE_MAGIC,
        .stream = is_channel ? TRACE_CALLS + channel % 2 : TRACE_DEFINITIONS,
        .begin_ns = file->begin_ns,
        .end_ns = file->last_ns,
        .content_bits = (uint64_t)file->used * 8,
        .packet_bits = (uint64_t)file->used * 8,
        .discarded = file->discarded,
        .sequence = file->packets,
        .thread = channel / 2,
        .pid = is_channel ? writer->thread.at[channel / 2].pid : 0,
        .tid = is_channel ? writer->thread.at[channel / 2].tid : 0,
    };
    memcpy(head.uuid, writer->uuid, sizeof head.uuid);
    memcpy(file->buffer, &head, is_channel ? TRACE_HEAD_CHANNEL : TRACE_HEAD_DEFINITIONS);
    struct err *error = writer->error ? NULL : is_channel ? write_channel(writer, file) : write_definitions(writer);
    if (!error && !writer->error) {
        file->bytes += file->used;
        file->packets++;
        writer->written.bytes += file->used;
    }
    file->used = file->limit = 0;
    fail(writer, error);
}

/* A buffer starts small and grows as long as all of them together are not large: there may be thousands of threads. */
static bool grow_buffer(struct trace_writer *writer, struct trace_file *file)
{
    bool is_channel = file != &writer->definitions;
    uint32_t most = is_channel ? TRACE_PACKET_MAX : TRACE_DEFINITIONS_MAX, room = file->room ? file->room * 2 : FIRST_BUFFER;
    if (room > most || (is_channel && file->room && writer->buffer_bytes + room > BUFFERS_MAX))
        return false;
    file->buffer = memory_resize(file->buffer, room, 1);
    if (is_channel)
        writer->buffer_bytes += room - file->room;
    file->room = room;
    return true;
}

bool trace_writer_room(struct trace_writer *writer, struct trace_file *file, size_t bytes, uint64_t time_ns)
{
    size_t head = file == &writer->definitions ? TRACE_HEAD_DEFINITIONS : TRACE_HEAD_CHANNEL, need = bytes + TRACE_EXTENDED_BYTES;
    while (!writer->error && (file->used ? file->used : head) + need > file->room)
        if (!grow_buffer(writer, file))
            trace_writer_packet(writer, file);
    if (writer->error)
        return false;
    if (!file->used) {
        file->used = (uint32_t)head;
        file->begin_ns = file->last_ns = time_ns;
    }
    file->limit = file->room;
    return true;
}

void trace_writer_head(struct trace_file *file, unsigned id, uint64_t time_ns)
{
    uint8_t *at = file->buffer + file->used;
    if (time_ns - file->last_ns < 1u << TRACE_TIME_BITS) {
        trace_store32(at, id | (uint32_t)time_ns << TRACE_ID_BITS);
        file->used += 4;
    } else {
        trace_store32(at, TRACE_EXTENDED | id << TRACE_ID_BITS);
        trace_store64(at + 4, time_ns);
        file->used += TRACE_EXTENDED_BYTES;
    }
    file->last_ns = time_ns;
}

/* ---- records ---- */

/* The event's id in its channel; -1: there is no such record, or it uses a number that is not defined. */
static int choose_event(const struct trace_writer *writer, const struct trace_record *record, enum trace_stream *stream)
{
    bool has_metric = record->metric < writer->known[TRACE_METRICS].end.n;
    bool has_stack = record->number < writer->known[TRACE_STACKS].end.n;
    enum trace_shape shape = TRACE_SHAPES;
    *stream = TRACE_SAMPLES;
    switch (record->major) {
    case TRACE_CALL:
        *stream = TRACE_CALLS;
        shape = record->number < writer->known[TRACE_FUNCTIONS].end.n ? TRACE_SHAPE_NUMBER : TRACE_SHAPES;
        break;
    case TRACE_SAMPLE:
        *stream = record->minor == TRACE_PLACE ? TRACE_CALLS : TRACE_SAMPLES;
        if (has_metric && (has_stack || (record->minor == TRACE_PLACE && record->number == TRACE_NONE)))
            shape = (record->minor == TRACE_TIMER || record->minor == TRACE_PC) && !record->metric && record->value <= UINT32_MAX
                        ? TRACE_SHAPE_SHORT
                        : TRACE_SHAPE_MEASURE;
        break;
    case TRACE_THREAD:
        if (record->minor == TRACE_RAN)
            shape = record->number < TRACE_ACCOUNTS ? TRACE_SHAPE_ACCOUNT : TRACE_SHAPES;
        else
            shape = record->minor == TRACE_SWITCH_IN ? TRACE_SHAPE_NOTHING : record->number <= 1 ? TRACE_SHAPE_REASON : TRACE_SHAPES;
        break;
    case TRACE_TREE:
        *stream = TRACE_CALLS;
        shape = TRACE_SHAPE_TREE;
        break;
    case TRACE_LOSS:
        *stream = record->number == TRACE_LOSS_CALLS ? TRACE_CALLS : TRACE_SAMPLES;
        shape = record->number < TRACE_LOSSES ? TRACE_SHAPE_LOSS : TRACE_SHAPES;
        break;
    }
    size_t count;
    const struct trace_event *event = trace_events(*stream, &count);
    for (size_t id = 0; id < count; id++)
        if (event[id].major == record->major && event[id].shape == shape && (!event[id].minor || event[id].minor == record->minor))
            return (int)id;
    return -1;
}

static void append_items(struct trace_file *file, const struct trace_record *record, enum trace_shape shape)
{
    uint8_t *at = file->buffer + file->used;
    switch (shape) {
    case TRACE_SHAPE_NOTHING:
    case TRACE_SHAPES:
        break;
    case TRACE_SHAPE_NUMBER:
    case TRACE_SHAPE_REASON:
        trace_store32(at, record->number);
        break;
    case TRACE_SHAPE_SHORT:
        trace_store32(at, record->number);
        trace_store32(at + 4, (uint32_t)record->value);
        break;
    case TRACE_SHAPE_MEASURE:
        trace_store32(at, record->number);
        trace_store32(at + 4, record->metric);
        trace_store64(at + 8, record->value);
        break;
    case TRACE_SHAPE_LOSS:
        trace_store32(at, record->number);
        trace_store64(at + 4, record->value);
        file->discarded += record->value;
        break;
    case TRACE_SHAPE_ACCOUNT:
        trace_store32(at, record->number);
        trace_store64(at + 4, record->value);
        break;
    case TRACE_SHAPE_TREE:
        trace_store32(at, record->minor);
        trace_store32(at + 4, record->metric);
        trace_store32(at + 8, record->number);
        trace_store64(at + 12, record->value);
        break;
    }
    file->used += trace_shape_bytes[shape];
}

static __attribute__((noinline)) void write_any(struct trace_writer *writer, uint32_t thread, const struct trace_record *record)
{
    enum trace_stream stream;
    int id = thread < writer->thread.n && record->time_ns <= INT64_MAX ? choose_event(writer, record, &stream) : -1;
    if (id < 0 || writer->error) {
        writer->written.dropped++;
        return;
    }
    size_t count;
    enum trace_shape shape = trace_events(stream, &count)[id].shape;
    struct trace_file *file = &writer->channel.at[thread * 2 + stream - TRACE_CALLS];
    bool goes_back = record->time_ns < file->last_ns;
    uint64_t time_ns = goes_back ? file->last_ns : record->time_ns;
    if (!trace_writer_room(writer, file, trace_shape_bytes[shape], time_ns)) {
        writer->written.dropped++;
        return;
    }
    trace_writer_head(file, (unsigned)id, time_ns);
    append_items(file, record, shape);
    writer->written.records++;
    writer->written.raised += goes_back;
}

/* Of records.def: the ids that the fast path writes. */
enum {
#define RECORD(stream, name, major, minor, shape, number) ID_##stream##_##name,
#include "trace/records.def"
};
_Static_assert(ID_CALLS_enter == TRACE_ENTER - 1 && ID_CALLS_return == TRACE_RETURN - 1 && ID_CALLS_enter_tail == TRACE_ENTER_TAIL - 1,
               "ids of calls follow their minor codes");

void trace_write(struct trace_writer *writer, uint32_t thread, const struct trace_record *record)
{
    /* Calls are almost all there is where speed matters. */
    if (record->major == TRACE_CALL && thread < writer->thread.n && record->number < writer->known[TRACE_FUNCTIONS].end.n) {
        struct trace_file *file = &writer->channel.at[thread * 2];
        unsigned id = record->minor - 1u;
        if (id <= ID_CALLS_enter_tail && record->time_ns - file->last_ns < 1u << TRACE_TIME_BITS && file->used + 8 <= file->limit) {
            uint64_t words = (uint64_t)record->number << 32 | (uint32_t)(record->time_ns << TRACE_ID_BITS) | id;
            trace_store64(file->buffer + file->used, words);
            file->used += 8;
            file->last_ns = record->time_ns;
            writer->written.records++;
            return;
        }
    }
    write_any(writer, thread, record);
}

/* ---- life ---- */

static struct err *copy_error(const struct trace_writer *writer)
{
    return writer->error ? err_new(writer->error->code, "%s", writer->error->message) : NULL;
}

struct err *trace_writer_flush(struct trace_writer *writer)
{
    trace_writer_packet(writer, &writer->definitions);
    for (size_t i = 0; i < writer->channel.n; i++) {
        struct trace_file *file = &writer->channel.at[i];
        if (file->used) {
            trace_writer_packet(writer, file);
        } else if (file->room) { /* silent since the last time */
            writer->buffer_bytes -= file->room;
            free(file->buffer);
            file->buffer = NULL;
            file->room = 0;
        }
    }
    return copy_error(writer);
}

const struct err *trace_writer_error(const struct trace_writer *writer)
{
    return writer->error;
}

struct trace_written trace_writer_written(const struct trace_writer *writer)
{
    return writer->written;
}

static void destroy(struct trace_writer *writer)
{
    for (size_t i = 0; i < TRACE_DESCRIPTORS; i++)
        err_free(close_slot(writer, i));
    for (size_t i = 0; i < writer->channel.n; i++)
        free(writer->channel.at[i].buffer);
    for (int kind = 0; kind < TRACE_KINDS; kind++)
        trace_numbers_deinit(&writer->known[kind]);
    free(writer->definitions.buffer);
    free(writer->scratch);
    VEC_FREE(&writer->pid);
    VEC_FREE(&writer->thread);
    VEC_FREE(&writer->channel);
    err_free(writer->error);
    trace_directory_deinit(&writer->directory);
    free(writer->path);
    free(writer);
}

static struct err *start(struct trace_writer *writer, const struct trace_about *about)
{
    uint64_t secret;
    if (getrandom(writer->uuid, sizeof writer->uuid, 0) != sizeof writer->uuid || getrandom(&secret, sizeof secret, 0) != sizeof secret)
        return err_errno(ERR_SYSTEM, errno, "trace: random numbers");
    writer->uuid[6] = (uint8_t)((writer->uuid[6] & 0x0f) | 0x40); /* RFC 4122: version 4, random */
    writer->uuid[8] = (uint8_t)((writer->uuid[8] & 0x3f) | 0x80);
    for (int kind = 0; kind < TRACE_KINDS; kind++)
        trace_numbers_init(&writer->known[kind], secret);
    ERR_TRY(trace_directory_create(writer->path, &writer->directory));
    size_t constant;
    char *text = trace_metadata(about, writer->uuid, &constant);
    struct err *error = write_whole(writer, "metadata", text, strlen(text));
    writer->written.bytes += strlen(text);
    free(text);
    if (error)
        return error;
    trace_define_about(writer, about);
    return trace_writer_flush(writer);
}

struct err *trace_writer_create(const char *path, const struct trace_about *about, struct trace_writer **out)
{
    struct trace_writer *writer = memory_zero(1, sizeof *writer);
    writer->path = memory_text(path);
    writer->directory.fd = -1;
    struct err *error = start(writer, about);
    *out = error ? NULL : writer;
    if (error)
        trace_writer_discard(writer);
    return error;
}

struct err *trace_writer_publish(struct trace_writer *writer)
{
    return trace_directory_publish(&writer->directory);
}

struct err *trace_writer_close(struct trace_writer *writer)
{
    err_free(trace_writer_flush(writer));
    for (size_t i = 0; i < TRACE_DESCRIPTORS; i++)
        fail(writer, close_slot(writer, i));
    if (!writer->error) {
        trace_define_end(writer);
        trace_writer_packet(writer, &writer->definitions);
    }
    if (!writer->error)
        fail(writer, trace_writer_publish(writer));
    struct err *error = copy_error(writer);
    if (writer->directory.beside)
        trace_directory_discard(&writer->directory);
    destroy(writer);
    return error;
}

void trace_writer_discard(struct trace_writer *writer)
{
    trace_directory_discard(&writer->directory);
    destroy(writer);
}
