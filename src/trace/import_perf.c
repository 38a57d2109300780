/* `perf script` prints, for each sample, a line
 *
 *     COMM PID/TID [CPU] TIME: PERIOD EVENT: [ADDRESS NAME+0xOFFSET (FILE)]
 *
 * of which PID/, [CPU], PERIOD and what follows EVENT: may be missing, then its frames from the innermost on,
 *
 *         ADDRESS NAME+0xOFFSET (FILE)
 *       SOURCE:LINE
 *
 * of which the second line may be missing, with "inlined" as the file of what was inlined into the next frame, and an empty line. COMM may
 * have blanks, as may names and files. Other records (PERF_RECORD_...) are left out. */
#include "trace/importer.h"

#include <stdlib.h>
#include <string.h>

struct header {
    char *comm;
    uint32_t pid, tid;
    uint64_t time_ns, period;
    char *event; /* NULL: the line is no sample */
    char *rest;  /* what follows the event */
};

struct frame {
    char *name, *file; /* own copies; file: of its source, or NULL */
    uint32_t module, line;
    bool is_inlined;
};

struct perf {
    struct trace_importer *importer;
    bool is_open; /* a sample's frames are being read */
    uint32_t thread;
    struct trace_record sample;
    VEC(struct frame) frame; /* innermost first */
};

/* ---- the first line ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static char *skip_blanks(char *at)
{
    return at + strspn(at, " \t");
}

static char *skip_digits(char *at)
{
    while (is_digit(*at))
        at++;
    return at;
}

/* Whether [PID/]TID [CPU] TIME: is at `at`; then *time is where the time is. */
static bool is_identity(char *at, char **time)
{
    char *end = skip_digits(at);
    if (end == at)
        return false;
    if (*end == '/') {
        char *tid = end + 1;
        end = skip_digits(tid);
        if (end == tid)
            return false;
    }
    if (*end != ' ' && *end != '\t')
        return false;
    end = skip_blanks(end);
    if (*end == '[') {
        char *cpu = end + 1;
        end = skip_digits(cpu);
        if (end == cpu || *end != ']')
            return false;
        end = skip_blanks(end + 1);
    }
    *time = end;
    char *dot = skip_digits(end);
    if (dot == end || *dot != '.')
        return false;
    end = skip_digits(dot + 1);
    return end > dot + 1 && *end == ':';
}

/* The first word of a line at which that is, or NULL. */
static char *find_identity(char *line, char **time)
{
    for (char *word = skip_blanks(line); *word; word = skip_blanks(word + strcspn(word, " \t")))
        if (is_identity(word, time))
            return word;
    return NULL;
}

static struct err *take_identity(struct trace_importer *importer, char *line, struct header *header, char **after)
{
    char *time, *at = find_identity(line, &time);
    if (!at)
        return trace_importer_error(importer, 1, "this is not COMM PID/TID TIME: ..., nor a frame");
    char *end = at;
    const char *number = at;
    uint64_t pid, tid;
    ERR_TRY(trace_importer_number(importer, line, &number, UINT32_MAX, "the process", &pid));
    tid = pid;
    if (*number == '/') {
        number++;
        ERR_TRY(trace_importer_number(importer, line, &number, UINT32_MAX, "the thread", &tid));
    }
    header->pid = (uint32_t)pid;
    header->tid = (uint32_t)tid;
    number = time;
    ERR_TRY(trace_importer_time(importer, line, &number, 1000000000, &header->time_ns));
    *after = line + (number - line) + 1;
    while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = 0;
    return NULL;
}

static struct err *take_header(struct trace_importer *importer, char *line, struct header *header)
{
    char *at = line;
    *header = (struct header){.period = 1};
    ERR_TRY(take_identity(importer, line, header, &at));
    header->comm = skip_blanks(line); /* which perf moves right */
    at = skip_blanks(at);
    if (!strncmp(at, "PERF_RECORD_", 12))
        return NULL;
    char *end = skip_digits(at);
    if (end > at && (*end == ' ' || *end == '\t')) {
        const char *number = at;
        ERR_TRY(trace_importer_number(importer, line, &number, INT64_MAX / 4, "the period", &header->period));
        at = skip_blanks(end);
    }
    end = at + strcspn(at, " \t");
    if (end == at || end[-1] != ':')
        return trace_importer_error(importer, (size_t)(at - line) + 1, "the event's name and a colon are missing");
    header->rest = skip_blanks(end);
    header->event = at;
    end[-1] = 0;
    return NULL;
}

/* ---- frames ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Cuts "+0x12" off the end. */
static void cut_offset(char *name)
{
    char *plus = strrchr(name, '+');
    if (plus && plus > name && plus[1] == '0' && plus[2] == 'x' && is_hex(plus[3]) &&
        plus[3 + strspn(plus + 3, "0123456789abcdefABCDEF")] == 0)
        *plus = 0;
}

/* Cuts " (FILE)" off the end and returns FILE, or NULL. */
static char *cut_file(char *text)
{
    size_t length = strlen(text);
    if (!length || text[length - 1] != ')')
        return NULL;
    char *open = NULL, *limit = text + length;
    static const char deleted[] = " (deleted))";
    if (length > strlen(deleted) && !strcmp(limit - strlen(deleted), deleted))
        limit -= strlen(deleted);
    for (char *at = limit - 1; at > text && !open; at--)
        if (*at == '(' && at[-1] == ' ')
            open = at;
    if (!open && text[0] == '(')
        open = text;
    if (!open)
        return NULL;
    text[length - 1] = 0;
    char *end = open;
    while (end > text && end[-1] == ' ')
        end--;
    *end = 0;
    return open + 1;
}

/* Whether a frame starts here: an address, then a blank or the end. */
static bool is_frame(const char *at)
{
    size_t digits = 0;
    while (is_hex(at[digits]))
        digits++;
    return digits && (at[digits] == ' ' || at[digits] == '\t' || !at[digits]);
}

static struct err *take_frame(struct perf *perf, char *line, char *at)
{
    if (perf->frame.n >= TRACE_DEPTH_MAX)
        return trace_importer_error(perf->importer, (size_t)(at - line) + 1, "the stack has more than %d frames", TRACE_DEPTH_MAX);
    char *name = at + strcspn(at, " \t"), *address = at;
    if (*name) {
        *name++ = 0;
        name = skip_blanks(name);
    }
    char *file = cut_file(name);
    cut_offset(name);
    struct frame frame = {.module = TRACE_NONE, .is_inlined = file && !strcmp(file, "inlined")};
    bool has_file = file && !frame.is_inlined && strcmp(file, "[unknown]") != 0;
    if (!*name)
        frame.name = memory_format("[0x%s]", address);
    else if (has_file && !strcmp(name, "[unknown]"))
        frame.name = memory_format("[%s]", base_name(file));
    else
        frame.name = memory_text(name);
    if (has_file)
        frame.module = trace_define_module(perf->importer->writer, &(struct trace_module){.path = file});
    VEC_PUSH(&perf->frame, frame);
    return NULL;
}

/* SOURCE:LINE of the frame before it, with "(inlined)" where that belongs to the frame. */
static void take_source(struct perf *perf, char *at)
{
    if (!perf->frame.n)
        return;
    struct frame *frame = &perf->frame.at[perf->frame.n - 1];
    char *file = cut_file(at);
    frame->is_inlined |= file && !strcmp(file, "inlined");
    char *colon = strrchr(at, ':');
    if (!colon || colon == at || !is_digit(colon[1]) || frame->file || at[0] == '?')
        return;
    frame->line = (uint32_t)strtoul(colon + 1, NULL, 10);
    *colon = 0;
    frame->file = memory_text(at);
}

/* ---- samples ---- */

static bool is_clock(const char *event)
{
    static const char *const clocks[] = {"cpu-clock", "task-clock"};
    size_t length = strcspn(event, ":");
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++)
        if (strlen(clocks[i]) == length && !strncmp(event, clocks[i], length))
            return true;
    return false;
}

static void forget_frames(struct perf *perf)
{
    for (size_t i = 0; i < perf->frame.n; i++) {
        free(perf->frame.at[i].name);
        free(perf->frame.at[i].file);
    }
    perf->frame.n = 0;
}

/* What is inlined is in the module of what it is inlined into. */
static uint32_t define_stack(struct perf *perf)
{
    struct trace_writer *writer = perf->importer->writer;
    uint32_t stack = TRACE_NONE, module = TRACE_NONE;
    for (size_t i = perf->frame.n; i-- > 0;) {
        struct frame *from = &perf->frame.at[i];
        module = from->is_inlined ? module : from->module;
        struct trace_function function = {.module = module, .name = from->name};
        struct trace_frame frame = {
            .function = trace_define_function(writer, &function), .file = from->file, .line = from->line, .is_inlined = from->is_inlined};
        stack = trace_define_stack(writer, &(struct trace_stack){stack, trace_define_frame(writer, &frame)});
    }
    return stack;
}

static void end_sample(struct perf *perf)
{
    if (perf->is_open) {
        if (!perf->frame.n)
            VEC_PUSH(&perf->frame, (struct frame){.name = memory_text("[unknown]"), .module = TRACE_NONE});
        perf->sample.number = define_stack(perf);
        trace_write(perf->importer->writer, perf->thread, &perf->sample);
        perf->importer->count.samples++;
    }
    perf->is_open = false;
    forget_frames(perf);
}

static void name_thread(struct trace_importer *importer, uint32_t index, uint64_t time_ns, const char *name)
{
    struct trace_imported_thread *thread = &importer->thread.at[index];
    if (thread->name && !strcmp(thread->name, name))
        return;
    trace_rename_thread(importer->writer, time_ns, thread->number, name);
    free(thread->name);
    thread->name = memory_text(name);
}

static struct err *start_sample(struct perf *perf, char *line)
{
    struct trace_importer *importer = perf->importer;
    struct header header;
    ERR_TRY(take_header(importer, line, &header));
    if (!header.event)
        return NULL;
    struct trace_metric metric =
        is_clock(header.event) ? (struct trace_metric){"time", "ns"} : (struct trace_metric){header.event, "events"};
    if (!importer->writer)
        ERR_TRY(trace_importer_start(importer, header.time_ns, 0, metric));
    uint32_t number = trace_define_metric(importer->writer, &metric);
    if (number > UINT16_MAX)
        return trace_importer_error(importer, 1, "there are too many different events");
    uint32_t index = trace_importer_thread(importer, header.time_ns, header.pid, header.tid, header.comm);
    name_thread(importer, index, header.time_ns, header.comm);
    perf->thread = importer->thread.at[index].number;
    perf->sample = (struct trace_record){
        .time_ns = header.time_ns, .major = TRACE_SAMPLE, .minor = TRACE_TIMER, .metric = (uint16_t)number, .value = header.period};
    perf->is_open = true;
    return is_frame(header.rest) ? take_frame(perf, line, header.rest) : NULL;
}

/* A line that starts with a blank may be a first line all the same, with COMM moved right. */
static struct err *take_line(struct perf *perf, char *line)
{
    char *at = skip_blanks(line);
    char *time;
    if (!*at) {
        end_sample(perf);
        return NULL;
    }
    if (*line == '#')
        return NULL;
    if (at == line || find_identity(line, &time)) {
        end_sample(perf);
        return start_sample(perf, line);
    }
    if (!perf->is_open)
        return NULL; /* of a record that was left out */
    if (is_frame(at))
        return take_frame(perf, line, at);
    take_source(perf, at);
    return NULL;
}

struct err *trace_import_perf_script(struct trace_importer *importer)
{
    struct perf perf = {.importer = importer};
    struct err *error = NULL;
    for (char *line; !error;) {
        error = trace_importer_line(importer, &line);
        if (error || !line || (importer->writer && trace_writer_error(importer->writer)))
            break;
        error = take_line(&perf, line);
    }
    if (!error)
        end_sample(&perf);
    forget_frames(&perf);
    VEC_FREE(&perf.frame);
    return error;
}
