#include "record/run.h"

#include "base/clock.h"
#include "base/interrupt.h"

#include "base/escape.h"
#include "live/live.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECOND_NS = 1000000000, RINGS_BYTES = 32 << 20, CLIMB_RING_BYTES = 1 << 17 };

/* ---- setting up ---- */

static char *command_line(char *const *command)
{
    char *text = memory_text("");
    for (; command && *command; command++) {
        char *longer = memory_format("%s%s%s", text, *text ? " " : "", *command);
        free(text);
        text = longer;
    }
    return text;
}

/* Perf events may be forbidden: asked on ourselves. */
static bool may_sample(const struct record_options *options)
{
    struct sample_set *set =
        sample_set_create(&(struct sample_options){.want_switches = record_wants_accounts(options), .want_tasks = true});
    struct err *error = sample_set_add(set, getpid());
    bool may = !error;
    err_free(error);
    sample_set_destroy(set);
    return may;
}

static struct err *create_writer(struct record_run *run)
{
    struct utsname system = {0};
    struct timespec day;
    char *command = command_line(run->options->command);
    uname(&system);
    clock_gettime(CLOCK_REALTIME, &day);
    run->start_ns = clock_now_ns();
    struct trace_about about = {.host = system.nodename,
                                .command = *command ? command : NULL,
                                .start_ns = run->start_ns,
                                .start_realtime_ns = (uint64_t)day.tv_sec * SECOND_NS + (uint64_t)day.tv_nsec,
                                .period_ns = run->options->hz ? SECOND_NS / run->options->hz : 0,
                                .has_switches = record_has_switches(run),
                                .has_off_cpu = run->options->is_wall};
    struct err *error = trace_writer_create(run->options->path, &about, &run->writer);
    free(command);
    return error;
}

static void add_call_specs(struct record_run *run, enum spec_point point)
{
    for (size_t i = 0; i < run->options->n_calls; i++) {
        struct spec spec = run->options->call[i];
        if (point == SPEC_RETURN && (spec.excludes || run->options->entries_only))
            continue;
        spec.point = point;
        VEC_PUSH(&run->spec, spec);
        VEC_PUSH(&run->spec_clause, UINT32_MAX);
    }
}

static void show_progress(void *context, const char *module, size_t places, size_t total)
{
    struct record_run *run = context;
    if (total < 2000 || run->options->quiet)
        return;
    fputs("probity: ", run->options->messages);
    escape_plain(run->options->messages, module);
    fprintf(run->options->messages, ": placing %zu probes\n", places);
}

/* What there is of a process, now: itself, its code, its threads (S1.8). */
static void look_at(struct record_run *run, pid_t pid)
{
    uint64_t now_ns = clock_now_ns();
    record_read_mappings(run, record_process_of(run, (uint32_t)pid, 0, now_ns), now_ns);
    target_pids tids = {0};
    err_free(target_all_threads(pid, &tids)); /* it may have ended */
    for (size_t i = 0; i < tids.n; i++)
        record_thread_of(run, (uint32_t)pid, (uint32_t)tids.at[i], now_ns);
    VEC_FREE(&tids);
}

/* What is there at the start is all told before anything is recorded of it, by probes or by the kernel. */
static void complete_start(struct record_run *run)
{
    if (!run->has_start)
        trace_start_complete(run->writer, clock_now_ns());
    run->has_start = true;
}

/* A command that is to be recorded stands before its first instruction. */
static struct err *joined(void *context, pid_t pid)
{
    struct record_run *run = context;
    look_at(run, pid);
    complete_start(run);
    return run->samples ? record_queue_add(run->samples, pid) : NULL;
}

static struct err *look_at_all(struct record_run *run)
{
    for (size_t i = 0; i < run->options->n_pids; i++) {
        ERR_TRY(target_check_pid(run->options->pid[i]));
        look_at(run, run->options->pid[i]);
    }
    if (run->options->n_pids)
        complete_start(run);
    return NULL;
}

static void make_room(void *context)
{
    record_empty_rings(context);
}

/* A value belongs to the call that it is an argument or a result of: entries fire before metrics, returns after them. */
static struct err *create_probes(struct record_run *run)
{
    bool has_probes = run->options->n_calls || run->options->n_metrics;
    if (!has_probes && !run->options->climb)
        return NULL;
    add_call_specs(run, SPEC_ENTRY);
    ERR_TRY(record_metrics_create(run));
    add_call_specs(run, SPEC_RETURN);
    ERR_TRY(record_program_build(run->script ? run->script->built.stream : NULL, run->options->climb, &run->program));
    for (size_t i = 0; i < run->spec_clause.n; i++)
        if (run->spec_clause.at[i] == UINT32_MAX)
            run->spec_clause.at[i] = run->program.clause;
    /* A climb alone can do without a hit or two; nobody waits for it. */
    struct drain_options options = {
        .clock = run->options->clock, .ring_bytes = has_probes ? 0 : CLIMB_RING_BYTES, .rings_bytes = RINGS_BYTES, .lossless = has_probes};
    ERR_TRY(drain_session_create(run->program.stream, &options, &run->memory));
    record_clock_init(&run->clock, &run->memory, &run->options->clock);
    run->load = (struct load_program){.stream = run->program.stream,
                                      .memory = run->memory.memory,
                                      .memory_fd = run->memory.fd,
                                      .clause = run->spec_clause.at,
                                      .has_once = true,
                                      .once = run->program.clause};
    run->session = load_session_create(run->spec.at, run->spec.n, &run->load, show_progress, run);
    load_session_on_join(run->session, joined, run);
    load_session_on_wait(run->session, make_room, run);
    if (run->options->follow)
        load_session_follow(run->session);
    if (run->options->traps)
        load_session_allow_traps(run->session);
    if (run->options->climb)
        record_climb_create(run);
    return NULL;
}

/* ---- processes ---- */

static struct err *attach_plainly(struct record_run *run)
{
    for (size_t i = 0; i < run->options->n_pids; i++) {
        pid_t pid = run->options->pid[i];
        int fd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (fd < 0)
            return err_errno(errno == ESRCH || errno == EINVAL ? ERR_NO_PROCESS : ERR_SYSTEM, errno, "process %d", pid);
        VEC_PUSH(&run->pidfd, fd);
        ERR_TRY(joined(run, pid));
    }
    if (!run->options->command)
        return NULL;
    ERR_TRY(target_start(run->options->command, &run->target));
    run->command_pid = target_pid(run->target);
    struct err *error = joined(run, run->command_pid);
    if (error) {
        kill(run->command_pid, SIGKILL); /* it was started to be recorded */
        return error;
    }
    return target_resume(run->target);
}

static struct err *attach(struct record_run *run)
{
    ERR_TRY(look_at_all(run));
    if (!run->session)
        return attach_plainly(run);
    for (size_t i = 0; i < run->options->n_pids; i++)
        ERR_TRY(load_session_attach(run->session, run->options->pid[i]));
    if (run->options->command)
        ERR_TRY(load_session_start(run->session, run->options->command));
    return run->climb ? record_climb_begin(run) : NULL;
}

static bool has_ended(int pidfd)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

static bool is_alive(struct record_run *run)
{
    if (run->session)
        return load_session_live(run->session);
    bool alive = run->target && !target_ended(run->target);
    for (size_t i = 0; i < run->pidfd.n; i++)
        alive |= !has_ended(run->pidfd.at[i]);
    return alive;
}

pid_t record_command(const struct record_run *run)
{
    return run->session ? load_session_command(run->session) : run->command_pid;
}

static int command_status(struct record_run *run)
{
    if (run->session)
        return load_session_status(run->session);
    return run->target && target_ended(run->target) ? target_exit_status(run->target) : -1;
}

/* ---- the loop ---- */

static struct err *serve(struct record_run *run, int signal_fd, uint64_t wait_ns)
{
    size_t live = run->session ? load_session_live(run->session) : run->pidfd.n, n = 0;
    struct pollfd fds[live + 4];
    fds[n++] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
    if (run->session)
        fds[n++] = (struct pollfd){.fd = load_session_event_fd(run->session), .events = POLLIN};
    if (run->target)
        fds[n++] = (struct pollfd){.fd = target_pidfd(run->target), .events = POLLIN};
    for (size_t i = 0; i < live && run->session; i++)
        fds[n++] = (struct pollfd){.fd = load_session_process_fd(run->session, i), .events = POLLIN};
    int ready = ppoll(fds, n, &(struct timespec){.tv_nsec = (long)wait_ns}, NULL);
    if (ready < 0 && errno != EINTR)
        return err_errno(ERR_SYSTEM, errno, "poll");
    struct signalfd_siginfo info;
    if (ready > 0 && fds[0].revents && read(signal_fd, &info, sizeof info) == sizeof info)
        run->stop_signal = (int)info.ssi_signo;
    if (ready <= 0 || !run->session)
        return NULL;
    record_drain_samples(run); /* while it is known what the code of a process that has ended was */
    struct err *error = load_session_handle(run->session), *later = record_climb_look(run);
    if (!error)
        return later;
    err_free(later);
    return error;
}

static void show_state(const struct record_run *run, uint64_t now_ns)
{
    if (run->options->quiet || !isatty(fileno(run->options->messages)))
        return;
    struct trace_written written = trace_writer_written(run->writer);
    fprintf(run->options->messages, "\rprobity: %llu s, %llu calls, %llu samples, %.1f MB ",
            (unsigned long long)((now_ns - run->start_ns) / SECOND_NS), (unsigned long long)run->summary.calls,
            (unsigned long long)run->summary.samples, (double)written.bytes / 1e6);
    fflush(run->options->messages);
}

static bool is_missing(const struct record_run *run, size_t spec)
{
    return !run->spec.at[spec].excludes && run->spec.at[spec].point != SPEC_RETURN && !load_session_matches(run->session, spec);
}

/* Once, when the libraries of the processes are there: others may come, but who mistyped a name should not wait for the end. */
static void warn_of_missing(struct record_run *run)
{
    for (size_t i = 0; run->session && !run->has_warned && !run->options->quiet && i < run->spec.n; i++)
        if (is_missing(run, i)) {
            fputs("probity: ", run->options->messages);
            escape_plain(run->options->messages, run->spec.at[i].text);
            fputs(": no process has it so far; what is loaded later is looked at, too\n", run->options->messages);
        }
    run->has_warned = true;
}

/* Once a second: what was recorded so far is safe, whatever happens to us. */
static struct err *keep_house(struct record_run *run, uint64_t *next_ns)
{
    uint64_t now_ns = clock_now_ns();
    record_note_lost(run);
    record_end_gone(run, false);
    if (now_ns < *next_ns)
        return NULL;
    if (*next_ns)
        warn_of_missing(run);
    *next_ns = now_ns + SECOND_NS;
    record_refresh_mappings(run);
    show_state(run, now_ns);
    return trace_writer_flush(run->writer);
}

static struct err *loop(struct record_run *run, int signal_fd)
{
    enum { IDLE_NS = 10000000 };
    uint64_t end_ns = run->options->duration_s > 0 ? clock_now_ns() + (uint64_t)(run->options->duration_s * 1e9) : UINT64_MAX, house_ns = 0;
    for (;;) {
        bool alive = is_alive(run);
        record_drain_samples(run);
        size_t calls = record_drain_calls(run, false);
        record_trees_advance(run);
        ERR_TRY(keep_house(run, &house_ns));
        if (run->stop_signal || !alive || clock_now_ns() >= end_ns)
            return NULL;
        record_abandon(run);
        ERR_TRY(record_climb_work(run));
        ERR_TRY(serve(run, signal_fd, calls ? 0 : record_climb_wait_ns(run, IDLE_NS)));
    }
}

/* ---- the end ---- */

static void print_refusal(const struct record_run *run, const struct load_row *row, bool is_entry)
{
    FILE *out = run->options->messages;
    fputs("probity: ", out);
    escape_plain(out, row->module);
    fputc(':', out);
    escape_plain(out, row->function);
    fprintf(out, " at 0x%llx: no probe at %s: %s\n", (unsigned long long)row->va, is_entry ? "its entry" : "an exit",
            insn_reason_text(row->reason));
}

/* What could be probed. */
static void count_functions(struct record_run *run)
{
    size_t rows = load_session_row_count(run->session);
    if (load_session_unreadable(run->session) && !run->options->quiet) {
        fputs("probity: ", run->options->messages);
        escape_plain(run->options->messages, load_session_unreadable(run->session));
        fputc('\n', run->options->messages);
    }
    for (size_t i = 0; i < rows; i++) {
        const struct load_row *row = load_session_row(run->session, i);
        bool is_entry = !strcmp(row->point, "entry"), is_refused = row->reason != INSN_OK && row->reason != INSN_NO_RETURN;
        run->summary.functions += is_entry && row->places;
        run->summary.refused_functions += is_entry && !row->places && is_refused;
        run->summary.partial_functions += !is_entry && is_refused;
        run->summary.trap_only += row->trap_only && (!is_entry || !row->places);
        if (run->options->verbose && is_refused && (!is_entry || !row->places))
            print_refusal(run, row, is_entry);
    }
}

static struct err *check_matches(const struct record_run *run)
{
    for (size_t i = 0; i < run->spec.n; i++)
        if (is_missing(run, i) && load_session_unreadable(run->session))
            return err_new(ERR_PERMISSION, "%s: not found; %s", run->spec.at[i].text, load_session_unreadable(run->session));
        else if (is_missing(run, i))
            return err_new(ERR_NO_MATCH, "%s: no process that was recorded has it", run->spec.at[i].text);
    return NULL;
}

static void stop_command(struct record_run *run)
{
    pid_t pid = record_command(run);
    if (run->options->command && pid > 0 && command_status(run) < 0)
        kill(pid, run->stop_signal ? run->stop_signal : SIGTERM);
}

static struct err *finish(struct record_run *run)
{
    struct err *error = NULL;
    if (run->samples)
        record_queue_stop(run->samples);
    record_drain_samples(run);
    run->samples_until_ns = UINT64_MAX;
    if (run->session) {
        __atomic_store_n(&wire_state(run->memory.memory)->off, 1, __ATOMIC_SEQ_CST);
        record_empty_rings(run);
        error = load_session_detach(run->session);
        __atomic_store_n(&wire_state(run->memory.memory)->off, 0, __ATOMIC_SEQ_CST);
        record_drain_calls(run, true);
        count_functions(run);
    }
    stop_command(run);
    record_note_lost(run);
    record_end_gone(run, true);
    record_climb_finish(run);
    record_trees_finish(run);
    uint64_t now_ns = clock_now_ns();
    int status = command_status(run);
    pid_t pid = record_command(run);
    struct record_process *command = pid > 0 ? record_find_process(run, (uint32_t)pid) : NULL;
    if (command && (status >= 0 || command->end_ns))
        record_end_process(run, command, command->end_ns ? command->end_ns : now_ns, status);
    run->summary.duration_ns = now_ns - run->start_ns;
    if (status >= 0)
        run->summary.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return error;
}

static struct err *record(struct record_run *run)
{
    int signal_fd = interrupt_fd(0);
    signal(SIGXFSZ, SIG_IGN); /* the trace is too large: write() says so */
    run->tables = unwind_tables_create();
    bool wants_kernel = record_wants_kernel(run->options);
    run->has_switches = wants_kernel && may_sample(run->options);
    if (wants_kernel && !run->has_switches && !run->options->quiet)
        fputs("probity: perf events are not permitted here: when threads run is not known, and time is elapsed time\n",
              run->options->messages);
    struct err *error = create_writer(run);
    if (!error && run->options->live_tree)
        record_trees_create(run);
    if (!error)
        run->unknown_frame = record_unknown_frame(run, "[unknown]");
    if (!error && wants_kernel && (run->has_switches || run->options->hz))
        error = record_samples_create(run);
    if (!error)
        error = create_probes(run);
    if (!error)
        error = attach(run);
    bool attached = !error;
    if (attached) {
        record_drain_samples(run);
        error = trace_writer_publish(run->writer);
        if (!run->options->command)
            warn_of_missing(run);
        if (!error)
            error = loop(run, signal_fd);
    }
    if (run->writer) {
        struct err *later = finish(run);
        if (!error && run->session && attached)
            error = check_matches(run);
        if (error)
            err_free(later);
        else
            error = later;
    }
    close(signal_fd);
    return error;
}

static struct err *close_writer(struct record_run *run, bool is_empty)
{
    if (!run->writer)
        return NULL;
    struct err *error = NULL;
    if (is_empty)
        trace_writer_discard(run->writer);
    else
        error = trace_writer_close(run->writer);
    return error;
}

static void deinit(struct record_run *run)
{
    climb_destroy(run->climb);
    if (run->session)
        err_free(load_session_destroy(run->session));
    record_samples_destroy(run);
    record_trees_destroy(run);
    record_tasks_deinit(run);
    unwind_tables_destroy(run->tables);
    record_names_deinit(run);
    record_metrics_destroy(run);
    if (run->memory.memory)
        drain_session_destroy(&run->memory);
    record_program_deinit(&run->program);
    for (size_t i = 0; i < run->pidfd.n; i++)
        close(run->pidfd.at[i]);
    VEC_FREE(&run->pidfd);
    target_close(run->target);
    VEC_FREE(&run->row);
    record_held_deinit(run);
    VEC_FREE(&run->spec);
    VEC_FREE(&run->spec_clause);
}

struct err *record_run(const struct record_options *options, struct record_summary *out)
{
    struct record_options selected = *options;
    struct record_run run = {.options = &selected, .memory.fd = -1};
    struct err *error = record_select(&selected);
    if (!error)
        error = record(&run);
    if (run.writer) {
        struct trace_written written = trace_writer_written(run.writer);
        bool is_empty = error && !run.summary.calls && !run.summary.samples;
        struct err *late = close_writer(&run, is_empty);
        run.summary.bytes = written.bytes;
        run.summary.records = written.records;
        if (error)
            err_free(late);
        else
            error = late;
    }
    *out = run.summary;
    deinit(&run);
    return error;
}
