/* https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources: one profile for each thread. Calls are openings and closings;
 * samples are two arrays, stacks and weights, for which the records are read twice. */
#include "report/export.h"

#include "base/escape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct writing {
    struct profile *profile;
    FILE *out;
    struct export_calls calls;
    bool has_first; /* something of the array was written */
    uint64_t start_ns, end_ns, total;
    VEC(uint32_t) frame; /* of a stack */
};

static void put_frames(const struct trace *trace, FILE *out)
{
    size_t count;
    const struct trace_function *function = trace_functions(trace, &count);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ",\n{\"name\":" : "\n{\"name\":", out);
        escape_json(out, function[i].name);
        if (function[i].file) {
            fputs(",\"file\":", out);
            escape_json(out, function[i].file);
        }
        if (function[i].file && function[i].line)
            fprintf(out, ",\"line\":%" PRIu32, function[i].line);
        putc_unlocked('}', out);
    }
}

static const char *speedscope_unit(const char *unit)
{
    return !strcmp(unit, "ns") ? "nanoseconds" : !strcmp(unit, "bytes") ? "bytes" : "none";
}

/* ---- calls ---- */

static void put_event(struct writing *writing, char type, uint32_t function, uint64_t time_ns)
{
    fprintf(writing->out, "%s{\"type\":\"%c\",\"frame\":%" PRIu32 ",\"at\":%" PRIu64 "}", writing->has_first ? ",\n" : "\n", type, function,
            time_ns - writing->start_ns);
    writing->has_first = true;
}

static void put_enter(void *context, uint32_t function, uint64_t time_ns)
{
    put_event(context, 'O', function, time_ns);
}

static void put_leave(void *context, uint32_t function, uint64_t time_ns)
{
    put_event(context, 'C', function, time_ns);
}

static bool put_calls(void *context, const struct trace_record *record, size_t count)
{
    struct writing *writing = context;
    for (size_t i = 0; i < count; i++)
        if (record[i].major == TRACE_CALL)
            export_call(&writing->calls, &record[i]);
    writing->end_ns = record[count - 1].time_ns;
    return true;
}

/* ---- samples ---- */

static bool is_wanted(const struct writing *writing, const struct trace_record *record)
{
    return record->major == TRACE_SAMPLE && record->metric == writing->profile->metric && record->number != TRACE_NONE &&
           (int64_t)record->value >= 0;
}

static void put_stack(struct writing *writing, uint32_t number)
{
    size_t count;
    const struct trace_stack *stack = trace_stacks(writing->profile->trace, &count);
    const struct trace_frame *frame = trace_frames(writing->profile->trace, &count);
    writing->frame.n = 0;
    for (; number != TRACE_NONE; number = stack[number].parent)
        VEC_PUSH(&writing->frame, frame[stack[number].frame].function);
    fputs(writing->has_first ? ",\n[" : "\n[", writing->out);
    for (size_t i = writing->frame.n; i-- > 0;)
        fprintf(writing->out, "%" PRIu32 "%s", writing->frame.at[i], i ? "," : "");
    putc_unlocked(']', writing->out);
    writing->has_first = true;
}

static bool put_stacks(void *context, const struct trace_record *record, size_t count)
{
    struct writing *writing = context;
    for (size_t i = 0; i < count; i++)
        if (is_wanted(writing, &record[i])) {
            put_stack(writing, record[i].number);
            writing->total += record[i].value;
        } else if (record[i].major == TRACE_SAMPLE && record[i].metric == writing->profile->metric) {
            writing->profile->left_out += (int64_t)record[i].value < 0;
        }
    return true;
}

static bool put_weights(void *context, const struct trace_record *record, size_t count)
{
    struct writing *writing = context;
    for (size_t i = 0; i < count; i++)
        if (is_wanted(writing, &record[i])) {
            fprintf(writing->out, "%s%" PRIu64, writing->has_first ? "," : "", record[i].value);
            writing->has_first = true;
        }
    return true;
}

/* ---- threads ---- */

static bool find_limits(void *context, const struct trace_record *record, size_t count)
{
    struct writing *writing = context;
    if (!writing->has_first)
        writing->start_ns = record[0].time_ns;
    writing->has_first = true;
    writing->end_ns = record[count - 1].time_ns;
    return true;
}

static struct err *put_evented(struct writing *writing, const struct profile_thread *thread)
{
    writing->has_first = false;
    writing->calls = (struct export_calls){.enter = put_enter, .leave = put_leave, .context = writing};
    export_calls_init(&writing->calls, writing->profile->trace);
    fprintf(writing->out, ",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":%" PRIu64 ",\"events\":[",
            writing->end_ns - writing->start_ns);
    struct err *error = profile_read(writing->profile, thread->thread, put_calls, writing);
    export_calls_end(&writing->calls, writing->end_ns);
    fputs("]}", writing->out);
    return error;
}

static struct err *put_sampled(struct writing *writing, const struct profile_thread *thread)
{
    const struct profile *profile = writing->profile;
    writing->has_first = false;
    fprintf(writing->out, ",\"unit\":\"%s\",\"startValue\":0,\"samples\":[", speedscope_unit(profile->metrics[profile->metric].unit));
    ERR_TRY(profile_read(profile, thread->thread, put_stacks, writing));
    writing->has_first = false;
    fputs("],\"weights\":[", writing->out);
    ERR_TRY(profile_read(profile, thread->thread, put_weights, writing));
    fprintf(writing->out, "],\"endValue\":%" PRIu64 "}", writing->total);
    return NULL;
}

static struct err *put_thread(struct profile *profile, const struct profile_thread *thread, size_t *written, FILE *out)
{
    struct writing writing = {.profile = profile, .out = out};
    ERR_TRY(profile_read(profile, thread->thread, find_limits, &writing));
    if (!writing.has_first)
        return NULL;
    bool is_events = profile->what == TREE_EVENTS;
    fprintf(out, "%s{\"type\":\"%s\",\"name\":", (*written)++ ? ",\n" : "\n", is_events ? "evented" : "sampled");
    escape_json(out, thread->name);
    struct err *error = is_events ? put_evented(&writing, thread) : put_sampled(&writing, thread);
    VEC_FREE(&writing.frame);
    return error;
}

struct err *export_speedscope(struct profile *profile, const struct report_options *options, FILE *out)
{
    size_t written = 0;
    fprintf(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"%s\",\"name\":", options->program);
    escape_json(out, profile->info->about.command ? profile->info->about.command : profile->path);
    fputs(",\"activeProfileIndex\":0,\"shared\":{\"frames\":[", out);
    put_frames(profile->trace, out);
    fputs("]},\"profiles\":[", out);
    for (size_t i = 0; i < profile->thread.n; i++)
        ERR_TRY(put_thread(profile, &profile->thread.at[i], &written, out));
    fputs("]}\n", out);
    return NULL;
}
