/* What was learnt as a trace: each chain above a hot spot is a stack, and what it accounts for is a sample with it. */
#include "base/clock.h"
#include "climb/internal.h"
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- chains as stacks ---- */

struct telling {
    const struct climb *climb;
    const struct climb_sink *sink;
    double least;
    VEC(uint32_t) frame; /* by function: its number + 1 */
};

static uint32_t frame_of(struct telling *telling, uint32_t number)
{
    while (telling->frame.n <= number)
        VEC_PUSH(&telling->frame, 0);
    if (!telling->frame.at[number])
        telling->frame.at[number] = telling->sink->frame(telling->sink->context, telling->climb->function.at[number]) + 1;
    return telling->frame.at[number] - 1;
}

/* Links are found from the hot spot upwards, so the way down from a link is its stack, outermost first. */
static uint32_t stack_of(struct telling *telling, const climb_links *links, uint32_t link)
{
    uint32_t stack = TRACE_NONE;
    for (; link != CLIMB_NONE; link = links->at[link].parent)
        stack = telling->sink->stack(telling->sink->context, stack, frame_of(telling, links->at[link].function));
    return stack;
}

static void tell_hot_spot(struct telling *telling, uint32_t hot)
{
    const struct climb_function *function = telling->climb->function.at[hot];
    uint64_t all = climb_counts_executions(telling->climb) ? climb_executions(telling->climb, function) : function->self_ns;
    climb_links links = {0};
    climb_chains(telling->climb, hot, telling->least, &links);
    for (uint32_t i = 0; i < links.n; i++) {
        double left = links.at[i].share;
        for (uint32_t k = i + 1; k < links.n; k++)
            left -= links.at[k].parent == i ? links.at[k].share : 0;
        uint64_t value = left > 0 ? (uint64_t)(left * (double)all) : 0;
        if (value)
            telling->sink->sample(telling->sink->context, stack_of(telling, &links, i), value);
    }
    VEC_FREE(&links);
}

void climb_tell_chains(const struct climb *climb, double least, const struct climb_sink *sink)
{
    struct telling telling = {.climb = climb, .sink = sink, .least = least};
    climb_numbers hot = {0};
    climb_hot_spots(climb, &hot);
    for (size_t i = 0; i < hot.n; i++)
        tell_hot_spot(&telling, hot.at[i]);
    VEC_FREE(&hot);
    VEC_FREE(&telling.frame);
}

/* ---- a trace of them alone ---- */

struct writing {
    struct trace_writer *writer;
    uint32_t thread;
    uint64_t time_ns;
};

static uint32_t write_frame(void *context, const struct climb_function *function)
{
    struct writing *writing = context;
    struct trace_module module = {.path = function->module};
    struct trace_function named = {.module = trace_define_module(writing->writer, &module), .offset = function->va, .name = function->name};
    struct trace_frame frame = {.function = trace_define_function(writing->writer, &named), .offset = function->va};
    return trace_define_frame(writing->writer, &frame);
}

static uint32_t write_stack(void *context, uint32_t parent, uint32_t frame)
{
    struct writing *writing = context;
    return trace_define_stack(writing->writer, &(struct trace_stack){parent, frame});
}

static void write_sample(void *context, uint32_t stack, uint64_t value_ns)
{
    struct writing *writing = context;
    struct trace_record record = {
        .time_ns = writing->time_ns, .major = TRACE_SAMPLE, .minor = TRACE_TIMER, .number = stack, .value = value_ns};
    trace_write(writing->writer, writing->thread, &record);
}

struct err *climb_write(const struct climb *climb, const char *path, const char *command, int status, double least)
{
    struct timespec now;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    clock_gettime(CLOCK_REALTIME, &now);
    struct writing writing = {.time_ns = climb->end_ns};
    struct trace_about about = {.host = host,
                                .command = command,
                                .start_ns = climb->start_ns,
                                .start_realtime_ns =
                                    (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - (clock_now_ns() - climb->start_ns),
                                .period_ns = climb->options.sample_ns,
                                .has_off_cpu = climb->options.metric == CLIMB_WALL};
    if (climb_counts_executions(climb))
        about.metric = (struct trace_metric){"calls", "calls"};
    ERR_TRY(trace_writer_create(path, &about, &writing.writer));
    struct trace_process process = {
        .pid = (uint32_t)climb->pid, .parent = TRACE_NONE, .name = command, .start_ns = climb->start_ns, .status = status};
    struct trace_thread thread = {.process = trace_define_process(writing.writer, climb->start_ns, &process),
                                  .tid = (uint32_t)climb->pid,
                                  .name = command,
                                  .start_ns = climb->start_ns};
    writing.thread = trace_define_thread(writing.writer, climb->start_ns, &thread);
    trace_start_complete(writing.writer, climb->start_ns);
    climb_tell_chains(climb, least, &(struct climb_sink){write_frame, write_stack, write_sample, &writing});
    return trace_writer_close(writing.writer);
}
