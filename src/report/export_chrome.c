/* Trace Event Format of Chrome and Perfetto: calls are B and E, samples instants with their stack, both of all that the trace has. Times
 * are microseconds since the start. */
#include "report/export.h"

#include "base/escape.h"

#include <inttypes.h>
#include <string.h>

struct writing {
    const struct profile *profile;
    FILE *out;
    struct export_calls calls;
    uint32_t pid, tid;
    uint64_t end_ns;
    bool has_first;
};

static void begin_event(struct writing *writing, const char *kind)
{
    fprintf(writing->out, "%s{\"ph\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32, writing->has_first ? ",\n" : "\n", kind, writing->pid,
            writing->tid);
    writing->has_first = true;
}

static void put_time(const struct writing *writing, uint64_t time_ns)
{
    uint64_t start_ns = writing->profile->info->about.start_ns, ns = time_ns > start_ns ? time_ns - start_ns : 0;
    fprintf(writing->out, ",\"ts\":%" PRIu64 ".%03" PRIu64, ns / 1000, ns % 1000);
}

static void put_name(const struct writing *writing, uint32_t number)
{
    size_t count;
    const struct trace_function *function = &trace_functions(writing->profile->trace, &count)[number];
    fputs(",\"name\":", writing->out);
    escape_json(writing->out, function->name);
}

static void put_enter(void *context, uint32_t function, uint64_t time_ns)
{
    struct writing *writing = context;
    begin_event(writing, "B");
    put_time(writing, time_ns);
    put_name(writing, function);
    fputs(",\"cat\":\"call\"}", writing->out);
}

static void put_leave(void *context, uint32_t function, uint64_t time_ns)
{
    struct writing *writing = context;
    begin_event(writing, "E");
    put_time(writing, time_ns);
    put_name(writing, function); /* speedscope wants to be told */
    fputs(",\"cat\":\"call\"}", writing->out);
}

static void put_sample(struct writing *writing, const struct trace_record *record)
{
    static const char *const kind[] = {[TRACE_TIMER] = "timer",
                                       [TRACE_OFF_CPU] = "off-cpu",
                                       [TRACE_PLACE] = "place",
                                       [TRACE_PC] = "pc",
                                       [TRACE_OFF_CPU_PC] = "off-cpu pc"};
    size_t count;
    const struct trace *trace = writing->profile->trace;
    if (record->number == TRACE_NONE || record->minor < TRACE_TIMER || record->minor > TRACE_OFF_CPU_PC)
        return;
    const struct trace_stack *stack = &trace_stacks(trace, &count)[record->number];
    begin_event(writing, "i");
    put_time(writing, record->time_ns);
    put_name(writing, trace_frames(trace, &count)[stack->frame].function);
    fprintf(writing->out, ",\"cat\":\"sample\",\"s\":\"t\",\"sf\":%" PRIu32 ",\"args\":{\"kind\":\"%s\",\"metric\":", record->number,
            kind[record->minor]);
    escape_json(writing->out, record->metric < writing->profile->metric_count ? writing->profile->metrics[record->metric].name : "");
    fprintf(writing->out, ",\"value\":%" PRId64 "}}", (int64_t)record->value);
}

static bool put_records(void *context, const struct trace_record *record, size_t count)
{
    struct writing *writing = context;
    for (size_t i = 0; i < count; i++) {
        if (record[i].major == TRACE_CALL)
            export_call(&writing->calls, &record[i]);
        else if (record[i].major == TRACE_SAMPLE)
            put_sample(writing, &record[i]);
    }
    writing->end_ns = record[count - 1].time_ns;
    return true;
}

static void put_thread_name(struct writing *writing, const char *what, const char *name)
{
    if (!name || !*name)
        return;
    begin_event(writing, "M");
    fprintf(writing->out, ",\"name\":\"%s\",\"args\":{\"name\":", what);
    escape_json(writing->out, name);
    fputs("}}", writing->out);
}

static struct err *put_thread(struct writing *writing, uint32_t number)
{
    size_t count;
    const struct trace_thread *thread = &trace_threads(writing->profile->trace, &count)[number];
    const struct trace_process *process = &trace_processes(writing->profile->trace, &count)[thread->process];
    writing->pid = process->pid;
    writing->tid = thread->tid;
    put_thread_name(writing, "process_name", process->name);
    put_thread_name(writing, "thread_name", thread->name);
    writing->calls = (struct export_calls){.enter = put_enter, .leave = put_leave, .context = writing};
    export_calls_init(&writing->calls, writing->profile->trace);
    struct err *error = profile_read(writing->profile, number, put_records, writing);
    export_calls_end(&writing->calls, writing->end_ns);
    return error;
}

/* Stacks by number, as the trace has them: the frame, and who called it. */
static void put_stacks(const struct trace *trace, FILE *out)
{
    size_t count, ignored;
    const struct trace_function *function = trace_functions(trace, &ignored);
    const struct trace_frame *frame = trace_frames(trace, &ignored);
    const struct trace_module *module = trace_modules(trace, &ignored);
    const struct trace_stack *stack = trace_stacks(trace, &count);
    for (size_t i = 0; i < count; i++) {
        const struct trace_function *in = &function[frame[stack[i].frame].function];
        fprintf(out, "%s\"%zu\":{\"name\":", i ? ",\n" : "\n", i);
        escape_json(out, in->name);
        if (in->module != TRACE_NONE) {
            fputs(",\"category\":", out);
            escape_json(out, module[in->module].path);
        }
        if (stack[i].parent != TRACE_NONE)
            fprintf(out, ",\"parent\":%" PRIu32, stack[i].parent);
        putc_unlocked('}', out);
    }
}

struct err *export_chrome(struct profile *profile, const struct report_options *options, FILE *out)
{
    struct writing writing = {.profile = profile, .out = out};
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out);
    for (size_t i = 0; i < profile->thread.n; i++)
        ERR_TRY(put_thread(&writing, profile->thread.at[i].thread));
    fputs("],\"stackFrames\":{", out);
    put_stacks(profile->trace, out);
    fprintf(out, "},\"otherData\":{\"program\":\"%s\",\"command\":", options->program);
    escape_json(out, profile->info->about.command ? profile->info->about.command : "");
    fputs("}}\n", out);
    return NULL;
}
