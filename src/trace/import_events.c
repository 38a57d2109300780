#include "trace/importer.h"

#include <string.h>

struct events {
    struct trace_importer *importer;
    uint64_t unit_ns;
    uint64_t period_ns; /* what a sample stands for */
};

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " \t");
}

static struct err *expect_blank(struct trace_importer *importer, const char *line, const char **at, const char *after)
{
    if (**at != ' ' && **at != '\t')
        return trace_importer_error(importer, (size_t)(*at - line) + 1, "a blank is missing after %s", after);
    skip_blanks(at);
    return NULL;
}

/* PID.TID */
static struct err *take_thread(struct trace_importer *importer, const char *line, const char **at, uint64_t time_ns, uint32_t *thread)
{
    uint64_t pid, tid;
    ERR_TRY(trace_importer_number(importer, line, at, UINT32_MAX, "the process (PID.TID)", &pid));
    if (**at != '.')
        return trace_importer_error(importer, (size_t)(*at - line) + 1, "a dot is missing in PID.TID");
    ++*at;
    ERR_TRY(trace_importer_number(importer, line, at, UINT32_MAX, "the thread (PID.TID)", &tid));
    uint32_t index = trace_importer_thread(importer, time_ns, (uint32_t)pid, (uint32_t)tid, NULL);
    *thread = importer->thread.at[index].number;
    return NULL;
}

static bool take_word(const char **at, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*at, word, length) || ((*at)[length] != ' ' && (*at)[length] != '\t' && (*at)[length]))
        return false;
    *at += length;
    skip_blanks(at);
    return true;
}

/* NAME AMOUNT: what the open call used, or gave back */
static struct err *take_use(struct trace_importer *importer, const char *line, char *name, struct trace_record *record)
{
    enum { METRICS_MOST = 1 << 12 };
    char *end = name + strcspn(name, " \t");
    const char *at = end;
    uint64_t amount;
    if (!*end)
        return trace_importer_error(importer, (size_t)(end - line) + 1, "an amount is missing");
    skip_blanks(&at);
    *end = 0;
    bool is_given = *at == '-';
    at += is_given;
    ERR_TRY(trace_importer_number(importer, line, &at, INT64_MAX, "the amount", &amount));
    if (*at)
        return trace_importer_error(importer, (size_t)(at - line) + 1, "the amount is a whole number, perhaps with a minus");
    uint32_t metric = trace_define_metric(importer->writer, &(struct trace_metric){name, name});
    if (metric >= METRICS_MOST)
        return trace_importer_error(importer, (size_t)(name - line) + 1, "there are too many metrics");
    record->major = TRACE_SAMPLE;
    record->minor = TRACE_PLACE;
    record->metric = (uint16_t)metric;
    record->number = TRACE_NONE;
    record->value = is_given ? 0 - amount : amount;
    importer->count.values++;
    return NULL;
}

static struct err *take_event(struct events *events, char *line, const char *at)
{
    struct trace_importer *importer = events->importer;
    uint32_t thread = 0;
    struct trace_record record = {0};
    ERR_TRY(trace_importer_time(importer, line, &at, events->unit_ns, &record.time_ns));
    ERR_TRY(expect_blank(importer, line, &at, "the time"));
    ERR_TRY(take_thread(importer, line, &at, record.time_ns, &thread));
    ERR_TRY(expect_blank(importer, line, &at, "PID.TID"));
    bool is_sample = false, is_use = false;
    size_t column = (size_t)(at - line) + 1;
    record.major = TRACE_CALL;
    if (take_word(&at, "enter"))
        record.minor = TRACE_ENTER;
    else if (take_word(&at, "return"))
        record.minor = TRACE_RETURN;
    else if (take_word(&at, "sample"))
        is_sample = true;
    else if (take_word(&at, "use"))
        is_use = true;
    else
        return trace_importer_error(importer, column, "this is none of enter, return, sample, use");
    if (!*at)
        return trace_importer_error(importer, (size_t)(at - line) + 1, "a name is missing");
    if (is_use) {
        ERR_TRY(take_use(importer, line, line + (at - line), &record));
    } else if (is_sample) {
        record.major = TRACE_SAMPLE;
        record.minor = TRACE_TIMER;
        record.value = events->period_ns;
        ERR_TRY(trace_importer_stack(importer, line, line + (at - line), &record.number));
        importer->count.samples++;
    } else {
        record.number = trace_define_function(importer->writer, &(struct trace_function){.module = TRACE_NONE, .name = at});
        importer->count.calls++;
    }
    trace_write(importer->writer, thread, &record);
    return NULL;
}

static void trim_end(char *line)
{
    size_t length = strlen(line);
    while (length && (line[length - 1] == ' ' || line[length - 1] == '\t'))
        line[--length] = 0;
}

struct err *trace_import_events(struct trace_importer *importer)
{
    const struct trace_import_options *options = importer->options;
    struct events events = {importer, options->unit_ns ? options->unit_ns : 1, options->unit_ns ? options->unit_ns : 1};
    if (options->period) {
        const char *at = options->period;
        struct err *error = trace_importer_time(importer, at, &at, events.unit_ns, &events.period_ns);
        if (error || *at || !events.period_ns) {
            err_free(error);
            return err_new(ERR_USAGE, "%s: no period: a decimal number of units, above 0", options->period);
        }
    }
    ERR_TRY(trace_importer_start(importer, 0, events.period_ns, (struct trace_metric){"time", options->unit_ns ? "ns" : "units"}));
    for (;;) {
        char *line;
        ERR_TRY(trace_importer_line(importer, &line));
        if (!line)
            return NULL;
        trim_end(line);
        size_t indent = strspn(line, " \t");
        if (line[indent] && line[indent] != '#')
            ERR_TRY(take_event(&events, line, line + indent));
        if (trace_writer_error(importer->writer))
            return NULL; /* which closing the writer tells */
    }
}
