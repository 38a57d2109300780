#include "trace/importer.h"
#include "trace/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- lines ---- */

struct err *trace_importer_error(const struct trace_importer *importer, size_t column, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    struct err *error = err_new(ERR_FILE, "%s:%llu:%zu: %s", importer->file, (unsigned long long)importer->line, column, text ? text : "");
    free(text);
    return error;
}

/* More bytes behind those that are there. */
static struct err *fill(struct trace_importer *importer)
{
    if (importer->start) {
        memmove(importer->buffer, importer->buffer + importer->start, importer->end - importer->start);
        importer->end -= importer->start;
        importer->start = 0;
    }
    if (importer->end + 1 >= importer->room) {
        importer->room = importer->room ? importer->room * 2 : 64 * 1024;
        importer->buffer = memory_resize(importer->buffer, importer->room, 1);
    }
    ssize_t part;
    do
        part = read(importer->fd, importer->buffer + importer->end, importer->room - importer->end - 1);
    while (part < 0 && errno == EINTR);
    if (part < 0)
        return err_errno(ERR_SYSTEM, errno, "%s", importer->file);
    importer->is_at_end = part == 0;
    importer->end += (size_t)part;
    return NULL;
}

struct err *trace_importer_line(struct trace_importer *importer, char **line)
{
    size_t seen = 0;
    char *end;
    importer->line++;
    while (!(end = importer->end > importer->start + seen
                       ? memchr(importer->buffer + importer->start + seen, '\n', importer->end - importer->start - seen)
                       : NULL) &&
           !importer->is_at_end) {
        seen = importer->end - importer->start;
        if (seen > TRACE_LINE_MAX)
            return trace_importer_error(importer, TRACE_LINE_MAX, "the line is longer than %d bytes", TRACE_LINE_MAX);
        ERR_TRY(fill(importer));
    }
    if (!end && importer->start == importer->end) {
        *line = NULL;
        return NULL;
    }
    *line = importer->buffer + importer->start;
    size_t length = (size_t)((end ? end : importer->buffer + importer->end) - *line);
    importer->start += length + (end ? 1 : 0);
    char *zero = memchr(*line, 0, length);
    if (zero)
        return trace_importer_error(importer, (size_t)(zero - *line) + 1, "there is a zero byte: this is no text");
    if (length && (*line)[length - 1] == '\r')
        length--;
    (*line)[length] = 0;
    importer->count.lines++;
    return NULL;
}

/* ---- numbers ---- */

static size_t column_of(const char *line, const char *at)
{
    return (size_t)(at - line) + 1;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

struct err *trace_importer_number(struct trace_importer *importer, const char *line, const char **at, uint64_t most, const char *what,
                                  uint64_t *number)
{
    const char *digit = *at;
    uint64_t value = 0;
    if (!is_digit(*digit))
        return trace_importer_error(importer, column_of(line, digit), "%s is missing", what);
    for (; is_digit(*digit); digit++) {
        uint64_t next = value * 10 + (uint64_t)(*digit - '0');
        if (value > most / 10 || next > most)
            return trace_importer_error(importer, column_of(line, *at), "%s is too large", what);
        value = next;
    }
    *number = value;
    *at = digit;
    return NULL;
}

struct err *trace_importer_time(struct trace_importer *importer, const char *line, const char **at, uint64_t unit_ns, uint64_t *time_ns)
{
    /* Far from where clocks end, whatever is added. */
    uint64_t most = INT64_MAX / 4 / unit_ns, units, fraction_ns = 0;
    ERR_TRY(trace_importer_number(importer, line, at, most, "the time", &units));
    uint64_t whole_ns = units * unit_ns;
    if (**at == '.') {
        bool is_finer = false;
        for (++*at; is_digit(**at); ++*at) {
            unit_ns /= 10;
            fraction_ns += unit_ns * (uint64_t)(**at - '0');
            is_finer |= !unit_ns && **at != '0';
        }
        importer->count.finer += is_finer;
    }
    *time_ns = whole_ns + fraction_ns;
    return NULL;
}

/* ---- threads and stacks ---- */

struct err *trace_importer_start(struct trace_importer *importer, uint64_t start_ns, uint64_t period_ns, struct trace_metric metric)
{
    char *command = memory_format("imported from %s", importer->file);
    struct trace_about about = {.command = command, .start_ns = start_ns, .period_ns = period_ns, .metric = metric};
    struct err *error = trace_writer_create(importer->directory, &about, &importer->writer);
    free(command);
    if (!error)
        trace_start_complete(importer->writer, start_ns);
    return error;
}

static uint32_t find_process(struct trace_importer *importer, uint64_t time_ns, uint32_t pid, const char *name)
{
    bool is_new;
    uint32_t index = trace_numbers_find(&importer->processes, (const uint8_t *)&pid, sizeof pid, &is_new);
    if (is_new) {
        struct trace_process process = {.pid = pid, .parent = TRACE_NONE, .name = name, .start_ns = time_ns, .status = -1};
        VEC_PUSH(&importer->process, trace_define_process(importer->writer, time_ns, &process));
    }
    return importer->process.at[index];
}

uint32_t trace_importer_thread(struct trace_importer *importer, uint64_t time_ns, uint32_t pid, uint32_t tid, const char *name)
{
    if (importer->last_thread && importer->last_pid == pid && importer->last_tid == tid)
        return importer->last_thread - 1;
    bool is_new;
    uint32_t key[2] = {pid, tid};
    uint32_t index = trace_numbers_find(&importer->threads, (const uint8_t *)key, sizeof key, &is_new);
    if (is_new) {
        struct trace_thread thread = {.process = find_process(importer, time_ns, pid, name), .tid = tid, .name = name, .start_ns = time_ns};
        VEC_PUSH(&importer->thread,
                 (struct trace_imported_thread){trace_define_thread(importer->writer, time_ns, &thread), name ? memory_text(name) : NULL});
    }
    importer->last_pid = pid;
    importer->last_tid = tid;
    importer->last_thread = index + 1;
    return index;
}

static uint32_t define_level(struct trace_importer *importer, uint32_t parent, const char *name)
{
    struct trace_function function = {.module = TRACE_NONE, .name = name};
    struct trace_frame frame = {.function = trace_define_function(importer->writer, &function)};
    return trace_define_stack(importer->writer, &(struct trace_stack){parent, trace_define_frame(importer->writer, &frame)});
}

struct err *trace_importer_stack(struct trace_importer *importer, const char *line, char *text, uint32_t *stack)
{
    bool is_new;
    uint32_t index = trace_numbers_find(&importer->stacks, (const uint8_t *)text, strlen(text), &is_new), depth = 0;
    if (!is_new) {
        *stack = importer->stack.at[index];
        return NULL;
    }
    *stack = TRACE_NONE;
    for (char *name = text, *end; name; name = end ? end + 1 : NULL) {
        end = strchr(name, ';');
        if (!*name || end == name)
            return trace_importer_error(importer, column_of(line, name), "a name is missing");
        if (++depth > TRACE_DEPTH_MAX)
            return trace_importer_error(importer, column_of(line, name), "the stack has more than %d names", TRACE_DEPTH_MAX);
        if (end)
            *end = 0;
        *stack = define_level(importer, *stack, name);
    }
    VEC_PUSH(&importer->stack, *stack);
    return NULL;
}

/* ---- all of it ---- */

static struct err *import_file(struct trace_importer *importer)
{
    switch (importer->options->format) {
    case TRACE_FROM_EVENTS:
        ERR_TRY(trace_import_events(importer));
        break;
    case TRACE_FROM_FOLDED:
        ERR_TRY(trace_import_folded(importer));
        break;
    case TRACE_FROM_PERF_SCRIPT:
        ERR_TRY(trace_import_perf_script(importer));
        break;
    }
    if (!importer->count.calls && !importer->count.samples && !importer->count.values)
        return err_new(ERR_FILE, "%s: holds nothing to import", importer->file);
    importer->count.raised = trace_writer_written(importer->writer).raised;
    struct trace_writer *writer = importer->writer;
    importer->writer = NULL;
    return trace_writer_close(writer);
}

static struct err *open_input(struct trace_importer *importer, const char *file)
{
    bool is_input = !strcmp(file, "-");
    struct stat status;
    importer->file = is_input ? "standard input" : file;
    importer->fd = is_input ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    if (importer->fd < 0)
        return err_errno(errno == EACCES ? ERR_PERMISSION : ERR_FILE, errno, "%s", file);
    if (!fstat(importer->fd, &status) && S_ISDIR(status.st_mode))
        return err_new(ERR_FILE, "%s: is a directory", file);
    return NULL;
}

struct err *trace_import(const char *file, const struct trace_import_options *options, const char *directory, struct trace_imported *out)
{
    uint64_t secret = 0;
    if (getrandom(&secret, sizeof secret, 0) != sizeof secret)
        return err_errno(ERR_SYSTEM, errno, "random numbers");
    struct trace_importer importer = {.options = options, .directory = directory, .fd = -1};
    trace_numbers_init(&importer.processes, secret);
    trace_numbers_init(&importer.threads, secret);
    trace_numbers_init(&importer.stacks, secret);
    struct err *error = open_input(&importer, file);
    if (!error)
        error = import_file(&importer);
    if (importer.writer)
        trace_writer_discard(importer.writer);
    *out = importer.count;
    if (importer.fd > STDIN_FILENO)
        close(importer.fd);
    for (size_t i = 0; i < importer.thread.n; i++)
        free(importer.thread.at[i].name);
    trace_numbers_deinit(&importer.processes);
    trace_numbers_deinit(&importer.threads);
    trace_numbers_deinit(&importer.stacks);
    VEC_FREE(&importer.process);
    VEC_FREE(&importer.thread);
    VEC_FREE(&importer.stack);
    free(importer.buffer);
    return error;
}
