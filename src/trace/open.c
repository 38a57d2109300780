#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

void trace_cut(struct trace *trace, const char *format, ...)
{
    if (trace->cut_where)
        return;
    va_list args;
    va_start(args, format);
    if (vasprintf(&trace->cut_where, format, args) < 0)
        trace->cut_where = NULL;
    va_end(args);
    trace->info.is_cut = true;
    trace->info.cut_where = trace->cut_where ? trace->cut_where : "damaged";
}

/* ---- files ---- */

int trace_file_open(const struct trace *trace, const char *name)
{
    int fd = openat(trace->directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || (!fstat(fd, &status) && S_ISREG(status.st_mode)))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

ssize_t trace_file_read(int fd, uint8_t *bytes, size_t size, uint64_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t part = offset + done > INT64_MAX ? 0 : pread(fd, bytes + done, size - done, (off_t)(offset + done));
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return -1;
        if (!part)
            break;
        done += (size_t)part;
    }
    return (ssize_t)done;
}

const char *trace_packet_check(const struct trace *trace, const uint8_t *bytes, size_t size, enum trace_stream stream, uint32_t thread,
                               const struct trace_position *position, struct trace_packet *head)
{
    size_t head_bytes = stream == TRACE_DEFINITIONS ? TRACE_HEAD_DEFINITIONS : TRACE_HEAD_CHANNEL;
    uint64_t most = stream == TRACE_DEFINITIONS ? TRACE_DEFINITIONS_MAX : TRACE_PACKET_MAX;
    if (size < head_bytes)
        return "ends inside of a packet's head";
    *head = (struct trace_packet){0};
    memcpy(head, bytes, head_bytes);
    if (head->magic != TRACE_MAGIC)
        return "no packet starts here";
    if (memcmp(head->uuid, trace->uuid, sizeof head->uuid))
        return "the packet is of another trace";
    if (head->stream != stream || (stream != TRACE_DEFINITIONS && head->thread != thread))
        return "the packet is of another file";
    if (head->sequence != position->sequence)
        return "packets are missing";
    if (head->content_bits != head->packet_bits || head->packet_bits % 8 || head->packet_bits / 8 < head_bytes ||
        head->packet_bits / 8 > most)
        return "the packet's size makes no sense";
    if (head->begin_ns > head->end_ns || head->begin_ns < position->end_ns || head->end_ns > INT64_MAX)
        return "the packet's time makes no sense";
    return NULL;
}

/* ---- metadata ---- */

static struct err *bad_metadata(const struct trace *trace, const char *what)
{
    return err_new(ERR_FILE, "trace: %s/metadata: %s", trace->path, what);
}

static struct err *read_metadata(struct trace *trace, char **out, size_t *size)
{
    int fd = trace_file_open(trace, "metadata");
    if (fd < 0 && (errno == ENOENT || errno == EINVAL || errno == ELOOP))
        return err_new(ERR_FILE, "trace: %s: no trace: there is no metadata in it", trace->path);
    if (fd < 0)
        return err_errno(errno == EACCES ? ERR_PERMISSION : ERR_SYSTEM, errno, "trace: %s/metadata", trace->path);
    char *text = memory_alloc(TRACE_METADATA_MAX);
    ssize_t done = trace_file_read(fd, (uint8_t *)text, TRACE_METADATA_MAX - 1, 0);
    int number = errno;
    close(fd);
    if (done < 0) {
        free(text);
        return err_errno(ERR_SYSTEM, number, "trace: %s/metadata", trace->path);
    }
    text[done] = 0;
    *out = text;
    *size = (size_t)done;
    return NULL;
}

static struct err *check_layout(const struct trace *trace, const char *text, unsigned long *out)
{
    static const char mark[] = "\n\tprobity_layout = ";
    const char *found = strncmp(text, "/* CTF 1.8 */", 13) ? NULL : strstr(text, mark);
    char *end;
    unsigned long layout = found ? strtoul(found + strlen(mark), &end, 10) : 0;
    if (!found || *end != ';')
        return bad_metadata(trace, "no trace of probity's; `babeltrace2` may read it");
    if (layout < TRACE_LAYOUT_LEAST || layout > TRACE_LAYOUT)
        return err_new(ERR_FILE,
                       "trace: %s: layout %lu, this probity reads %d to %d: use the version of probity that made it, or record again",
                       trace->path, layout, TRACE_LAYOUT_LEAST, TRACE_LAYOUT);
    *out = layout;
    return NULL;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static struct err *find_uuid(struct trace *trace, const char *text)
{
    static const char mark[] = "\n\tuuid = \"";
    const char *at = strstr(text, mark);
    if (!at)
        return bad_metadata(trace, "ends early, or is damaged: it has no uuid");
    at += strlen(mark);
    for (int i = 0; i < TRACE_UUID_BYTES; i++) {
        at += *at == '-';
        int high = hex_digit(at[0]), low = high < 0 ? -1 : hex_digit(at[1]);
        if (low < 0)
            return bad_metadata(trace, "ends early, or is damaged: in its uuid");
        trace->uuid[i] = (uint8_t)(high << 4 | low);
        at += 2;
    }
    return NULL;
}

/* What other readers go by must be what we go by; of earlier layouts it is looked for its end only. */
static void check_constant(struct trace *trace, const char *text, size_t size, unsigned long layout)
{
    size_t own;
    char *expected = trace_metadata(&(struct trace_about){0}, trace->uuid, &own);
    const char *constant = layout == TRACE_LAYOUT ? expected + own : strstr(expected, TRACE_METADATA_END);
    size_t constant_size = strlen(constant);
    if (size < constant_size || memcmp(text + size - constant_size, constant, constant_size))
        trace_cut(trace, "metadata ends early, or is damaged");
    free(expected);
}

static struct err *take_metadata(struct trace *trace)
{
    char *text = NULL;
    size_t size = 0;
    ERR_TRY(read_metadata(trace, &text, &size));
    unsigned long layout = 0;
    struct err *error = check_layout(trace, text, &layout);
    if (!error)
        error = find_uuid(trace, text);
    if (!error)
        check_constant(trace, text, size, layout);
    trace->info.bytes += size;
    free(text);
    return error;
}

/* ---- channels ---- */

static uint64_t file_bytes(const struct trace *trace, const char *name)
{
    struct stat status;
    return fstatat(trace->directory, name, &status, AT_SYMLINK_NOFOLLOW) || status.st_size < 0 ? 0 : (uint64_t)status.st_size;
}

/* How far a channel goes that nobody closed. */
static void find_end(struct trace *trace, enum trace_stream stream, uint32_t thread, const char *name)
{
    int fd = trace_file_open(trace, name);
    if (fd < 0)
        return;
    struct trace_position position = {0};
    struct trace_packet head;
    uint8_t bytes[TRACE_HEAD_CHANNEL];
    for (;;) {
        ssize_t size = trace_file_read(fd, bytes, sizeof bytes, position.offset);
        if (size < (ssize_t)sizeof bytes || trace_packet_check(trace, bytes, sizeof bytes, stream, thread, &position, &head))
            break;
        position = (struct trace_position){position.offset + head.packet_bits / 8, position.sequence + 1, head.end_ns};
    }
    close(fd);
    if (position.end_ns > trace->info.end_ns)
        trace->info.end_ns = position.end_ns;
}

static void check_channels(struct trace *trace)
{
    for (uint32_t i = 0; i < trace->channel.n; i++) {
        char name[TRACE_NAME_ROOM];
        trace_file_name(TRACE_CALLS + i % 2, i / 2, name);
        uint64_t bytes = file_bytes(trace, name);
        trace->info.bytes += bytes;
        if (!trace->is_complete && bytes)
            find_end(trace, TRACE_CALLS + i % 2, i / 2, name);
        else if (trace->is_complete && bytes != trace->channel.at[i].bytes)
            trace_cut(trace, "%s has %llu bytes instead of %llu", name, (unsigned long long)bytes,
                      (unsigned long long)trace->channel.at[i].bytes);
    }
}

/* ---- life ---- */

static struct err *take(struct trace *trace)
{
    trace->directory = open(trace->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (trace->directory < 0)
        return errno == ENOTDIR ? err_new(ERR_FILE, "trace: %s: no trace: it is no directory", trace->path)
                                : err_errno(errno == EACCES || errno == EPERM ? ERR_PERMISSION : ERR_FILE, errno, "trace: %s", trace->path);
    ERR_TRY(take_metadata(trace));
    trace_read_definitions(trace);
    trace->info.bytes += file_bytes(trace, "definitions");
    if (!trace->has_about || !trace->metric.n)
        return err_new(ERR_FILE, "trace: %s: nothing can be read: %s", trace->path,
                       trace->info.cut_where ? trace->info.cut_where : "definitions is empty");
    trace->info.about.metric = trace->metric.at[0];
    check_channels(trace);
    if (!trace->is_complete && !trace->info.is_cut) {
        /* Less than any damage that is found later says. */
        trace->info.is_cut = true;
        trace->info.cut_where = "it was not closed: who recorded it was killed, or could not write on";
    }
    return NULL;
}

struct err *trace_open(const char *path, struct trace **out)
{
    struct trace *trace = memory_zero(1, sizeof *trace);
    trace->path = memory_text(path);
    struct err *error = take(trace);
    *out = error ? NULL : trace;
    if (error)
        trace_close(trace);
    return error;
}

void trace_close(struct trace *trace)
{
    if (!trace)
        return;
    for (size_t i = 0; i < trace->open.n; i++)
        VEC_FREE(&trace->open.at[i].mapping);
    VEC_FREE(&trace->process);
    VEC_FREE(&trace->open);
    VEC_FREE(&trace->thread);
    VEC_FREE(&trace->channel);
    VEC_FREE(&trace->module);
    VEC_FREE(&trace->mapping);
    VEC_FREE(&trace->function);
    VEC_FREE(&trace->frame);
    VEC_FREE(&trace->stack);
    VEC_FREE(&trace->metric);
    arena_deinit(&trace->arena);
    if (trace->directory >= 0)
        close(trace->directory);
    free(trace->cut_where);
    free(trace->path);
    free(trace);
}

const struct trace_info *trace_info(const struct trace *trace)
{
    return &trace->info;
}

#define TABLE(function, type, member)                                                                                                      \
    const struct type *function(const struct trace *trace, size_t *count)                                                                  \
    {                                                                                                                                      \
        *count = trace->member.n;                                                                                                          \
        return trace->member.at;                                                                                                           \
    }
TABLE(trace_processes, trace_process, process)
TABLE(trace_threads, trace_thread, thread)
TABLE(trace_modules, trace_module, module)
TABLE(trace_mappings, trace_mapping, mapping)
TABLE(trace_functions, trace_function, function)
TABLE(trace_frames, trace_frame, frame)
TABLE(trace_stacks, trace_stack, stack)
TABLE(trace_metrics, trace_metric, metric)
