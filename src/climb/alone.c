#include "climb/alone.h"

#include "base/clock.h"
#include "base/memory.h"
#include "climb/internal.h"
#include "load/program.h"
#include "stream/stream.h"
#include "target/target.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>

/* Stacks are sampled nineteen times in a second that a thread runs. */
enum { RING_BYTES = 1 << 19, STACK_BYTES = 32 << 10, STACK_PERIOD_NS = 1000000000 / 19 };

struct climb_alone {
    struct climb *climb;
    struct wire_stream *stream;
    struct drain_session memory;
    struct load_program program;
    struct load_session *session;
    struct sample_set *samples;
    pid_t pid;
    bool is_stopped;
};

struct err *climb_alone_create(const struct climb_options *options, const struct drain_clock *clock, struct climb_alone **out)
{
    struct climb_alone *alone = memory_zero(1, sizeof *alone);
    struct climb_numbering numbering;
    alone->stream = climb_program(NULL, options->value_argument, &numbering);
    struct drain_options drain = {.clock = *clock, .ring_bytes = RING_BYTES};
    struct err *error = stream_verify(alone->stream, alone->stream->bytes);
    if (!error)
        error = drain_session_create(alone->stream, &drain, &alone->memory);
    if (error) {
        free(alone->stream);
        free(alone);
        return error;
    }
    alone->program = (struct load_program){
        .stream = alone->stream, .memory = alone->memory.memory, .memory_fd = alone->memory.fd, .touches_rings = true};
    alone->session = load_session_create(NULL, 0, &alone->program, NULL, NULL);
    /* Threads that wait have no samples of stacks: where they count, too, all stacks are taken at stops. */
    bool is_wall = options->metric == CLIMB_WALL;
    alone->samples = sample_set_create(&(struct sample_options){.period_ns = options->sample_ns,
                                                                .clock = is_wall ? SAMPLE_WALL : SAMPLE_CPU,
                                                                .stack_bytes = is_wall ? 0 : STACK_BYTES,
                                                                .stack_period_ns = is_wall ? 0 : STACK_PERIOD_NS,
                                                                .want_switches = true,
                                                                .want_tasks = true,
                                                                .follow_exec = true});
    alone->climb = climb_create(options, alone->session, &numbering);
    alone->climb->may_hurry = true;
    *out = alone;
    return NULL;
}

static struct err *joined(void *context, pid_t pid)
{
    struct climb_alone *alone = context;
    if (alone->pid && alone->pid != pid)
        return NULL; /* a child has executed a program */
    alone->pid = pid;
    return sample_set_add(alone->samples, pid);
}

struct err *climb_alone_attach(struct climb_alone *alone, pid_t pid)
{
    ERR_TRY(target_check_pid(pid));
    load_session_on_join(alone->session, joined, alone);
    ERR_TRY(load_session_attach(alone->session, pid));
    return climb_begin(alone->climb, pid);
}

struct err *climb_alone_start(struct climb_alone *alone, char *const argv[])
{
    load_session_follow(alone->session);
    load_session_on_join(alone->session, joined, alone);
    ERR_TRY(load_session_start(alone->session, argv));
    return climb_begin(alone->climb, alone->pid);
}

/* ---- running ---- */

static void take_sample(void *context, const struct sample *sample)
{
    struct climb *climb = ((struct climb_alone *)context)->climb;
    (sample->stack_only ? climb_walk : climb_take_sample)(climb, sample);
}

static void take_news(void *context, const struct sample_news *news)
{
    climb_take_news(((struct climb_alone *)context)->climb, news);
}

static void take_record(void *context, const struct drain_record *record)
{
    struct climb_alone *alone = context;
    climb_take_record(alone->climb, record, drain_session_ns(&alone->memory, record->head.time));
}

static void read_all(struct climb_alone *alone)
{
    sample_set_drain(alone->samples, take_sample, take_news, alone);
    drain_records(&alone->memory, alone->stream, false, take_record, alone);
    climb_note_lost(alone->climb, sample_set_lost(alone->samples), drain_session_lost(&alone->memory, WIRE_LOSS_RING));
}

static struct err *handle(struct climb_alone *alone)
{
    struct err *error = load_session_handle(alone->session), *later = climb_look(alone->climb);
    if (!error && (!later || later->code != ERR_NO_PROCESS))
        return later;
    err_free(later); /* it is about to end: the next time finds that it has */
    return error;
}

static struct err *step(struct climb_alone *alone, int wake_fd, bool *woken)
{
    struct timespec wait = {.tv_nsec = (long)climb_wait_ns(alone->climb)};
    size_t live = load_session_live(alone->session), events = 0;
    struct pollfd fd[live + 2];
    fd[0] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
    fd[1] = (struct pollfd){.fd = load_session_event_fd(alone->session), .events = POLLIN};
    for (size_t i = 0; i < live; i++)
        fd[i + 2] = (struct pollfd){.fd = load_session_process_fd(alone->session, i), .events = POLLIN};
    if (climb_has_probes(alone->climb))
        climb_begin_hurry(alone->climb);
    ppoll(fd, live + 2, &wait, NULL);
    *woken = fd[0].revents;
    for (size_t i = 1; i < live + 2; i++)
        events += fd[i].revents != 0;
    read_all(alone);
    if (events) {
        climb_end_hurry(alone->climb);
        ERR_TRY(handle(alone));
    }
    struct err *error = climb_work(alone->climb, sample_set_until(alone->samples));
    sample_set_want_stacks(alone->samples, climb_wants_stacks(alone->climb));
    if (!error || error->code != ERR_NO_PROCESS)
        return error;
    err_free(error); /* it ended under our hands */
    return handle(alone);
}

/* A command that executes another program is there again soon. */
static bool is_over(const struct climb_alone *alone)
{
    bool is_followed = load_session_command(alone->session) && load_session_live(alone->session);
    return !climb_is_live(alone->climb) && (!is_followed || load_session_status(alone->session) >= 0);
}

struct err *climb_alone_run(struct climb_alone *alone, uint64_t ns, int wake_fd, bool *over)
{
    uint64_t start_ns = clock_now_ns();
    struct err *error = NULL;
    for (bool woken = false; !error && !woken && !is_over(alone) && clock_now_ns() - start_ns < ns;)
        error = step(alone, wake_fd, &woken);
    climb_end_hurry(alone->climb);
    *over = is_over(alone);
    return error;
}

/* ---- ending ---- */

struct err *climb_alone_stop(struct climb_alone *alone)
{
    if (alone->is_stopped)
        return NULL;
    alone->is_stopped = true;
    struct err *error = load_session_detach(alone->session);
    sample_set_stop(alone->samples);
    read_all(alone);
    climb_end(alone->climb);
    return error;
}

void climb_alone_destroy(struct climb_alone *alone)
{
    if (!alone)
        return;
    err_free(climb_alone_stop(alone));
    climb_destroy(alone->climb);
    err_free(load_session_destroy(alone->session));
    sample_set_destroy(alone->samples);
    drain_session_destroy(&alone->memory);
    free(alone->stream);
    free(alone);
}

struct climb *climb_alone_climb(struct climb_alone *alone)
{
    return alone->climb;
}

int climb_alone_status(const struct climb_alone *alone)
{
    return load_session_status(alone->session);
}
