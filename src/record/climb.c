/* A climb as a part of the recording, which feeds it: one session in the process, one set of rings, one set of samples. */
#include "record/run.h"

#include "base/clock.h"

#include <stdlib.h>

enum { CLIMB_TID = 0 }; /* no thread of a program has it */

void record_climb_create(struct record_run *run)
{
    struct climb_options options = *run->options->climb;
    options.metric = options.hot == CLIMB_HOT_CALLS ? CLIMB_CALLS : run->options->is_wall ? CLIMB_WALL : CLIMB_CPU;
    options.sample_ns = 1000000000u / run->options->hz;
    run->climb = climb_create(&options, run->session, &run->program.climb);
}

struct err *record_climb_begin(struct record_run *run)
{
    run->climb_pid = run->options->command ? record_command(run) : run->options->pid[0];
    return climb_begin(run->climb, run->climb_pid);
}

struct err *record_climb_look(struct record_run *run)
{
    return run->climb_pid ? climb_look(run->climb) : NULL;
}

struct err *record_climb_work(struct record_run *run)
{
    if (!run->climb)
        return NULL;
    struct err *error = climb_work(run->climb, run->samples_until_ns);
    if (!error || error->code != ERR_NO_PROCESS)
        return error;
    err_free(error); /* it ended under our hands */
    record_drain_samples(run);
    ERR_TRY(load_session_handle(run->session));
    return climb_look(run->climb);
}

uint64_t record_climb_wait_ns(const struct record_run *run, uint64_t most_ns)
{
    uint64_t wait_ns = run->climb ? climb_wait_ns(run->climb) : most_ns;
    return wait_ns < most_ns ? wait_ns : most_ns;
}

/* ---- the chains ---- */

struct writing {
    struct record_run *run;
    struct record_thread *thread;
    uint64_t time_ns;
    uint16_t metric;
};

/* The same function as in samples and calls. */
static uint32_t write_frame(void *context, const struct climb_function *function)
{
    struct writing *writing = context;
    const struct load_row row = {.module = function->module, .function = function->name, .va = function->va};
    struct trace_frame frame = {.function = record_function_of_row(writing->run, &row), .offset = function->va};
    return record_define_frame(writing->run, &frame);
}

static uint32_t write_stack(void *context, uint32_t parent, uint32_t frame)
{
    return record_define_stack(((struct writing *)context)->run, parent, frame);
}

/* It was asked for, whatever codes were chosen. */
static void write_sample(void *context, uint32_t stack, uint64_t value_ns)
{
    struct writing *writing = context;
    struct trace_record record = {.time_ns = writing->time_ns,
                                  .major = TRACE_SAMPLE,
                                  .minor = TRACE_TIMER,
                                  .metric = writing->metric,
                                  .number = stack,
                                  .value = value_ns};
    if (writing->run->trees)
        record_tree_add(writing->run, writing->thread, &record);
    else
        trace_write(writing->run->writer, writing->thread->number, &record);
}

/* Also one that has ended. */
static struct record_process *find_process(const struct record_run *run)
{
    for (size_t i = run->process.n; i-- > 0;)
        if (run->process.at[i]->pid == (uint32_t)run->climb_pid)
            return run->process.at[i];
    return NULL;
}

void record_climb_finish(struct record_run *run)
{
    struct writing writing = {.run = run, .time_ns = clock_now_ns()};
    struct record_process *process = run->climb_pid ? find_process(run) : NULL;
    if (!process)
        return;
    climb_note_lost(run->climb, run->summary.lost_samples, drain_session_lost(&run->memory, WIRE_LOSS_RING));
    climb_end(run->climb);
    climb_totals(run->climb, &run->summary.climb);
    climb_numbers hot = {0};
    climb_hot_spots(run->climb, &hot);
    run->summary.hot_spots = hot.n;
    VEC_FREE(&hot);
    const char *unit = climb_counts_executions(run->climb) ? "calls" : "ns";
    writing.metric = (uint16_t)trace_define_metric(run->writer, &(struct trace_metric){"climb", unit});
    writing.thread = record_add_thread(run, process, CLIMB_TID, writing.time_ns, "climb");
    record_thread_number(run, writing.thread, writing.time_ns); /* it has a tree of its own */
    climb_tell_chains(run->climb, CLIMB_LEAST, &(struct climb_sink){write_frame, write_stack, write_sample, &writing});
    writing.thread->end_ns = writing.time_ns; /* no time of its own */
    writing.thread->has_ended = true;
}
