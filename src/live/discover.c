/* Without -p and a command, a script means every process that maps one of its files, now or later. One that was started a moment ago may
 * not have executed its program yet, and is looked at again and again; the others may load a library, or execute a program, at any time. */
#include "base/escape.h"
#include "live/run.h"

#include "base/clock.h"

#include <stdlib.h>
#include <unistd.h>

enum { LOOK_EVERY_NS = 100000000, LOOK_NS = LOOK_EVERY_NS / 100, YOUNG_NS = 1000000000 };

static bool maps_one(const struct live_run *run, pid_t pid)
{
    target_paths paths = {0};
    bool found = false;
    target_executable_files(pid, &paths);
    for (size_t i = 0; i < paths.n && !found; i++)
        for (size_t k = 0; k < run->script->spec.n && !found; k++)
            found = spec_matches_module(&run->script->spec.at[k], paths.at[i]);
    target_paths_deinit(&paths);
    return found;
}

static bool is_traced(const struct live_run *run, pid_t pid)
{
    for (size_t i = 0; i < load_session_live(run->session); i++)
        if (target_pid(load_process_target(load_session_process(run->session, i))) == pid)
            return true;
    return false;
}

/* A process that can not be traced does not matter to others; that samples are forbidden does. */
static struct err *judge(const struct live_run *run, struct err *error)
{
    if (run->sampling_failed && error && error->code != ERR_NO_PROCESS)
        return error;
    if (error && run->options->verbose) {
        fputs("probity: ", run->print.err);
        escape_plain(run->print.err, error->message);
        fputc('\n', run->print.err);
    }
    err_free(error);
    return NULL;
}

static struct err *look_at(struct live_run *run, struct live_seen *seen)
{
    if (seen->pid == getpid() || is_traced(run, seen->pid) || !maps_one(run, seen->pid))
        return NULL;
    uint64_t program = target_program_mark(seen->pid);
    if (seen->refused && seen->refused == program)
        return NULL;
    run->sampling_failed = false;
    struct err *error = load_session_attach(run->session, seen->pid);
    if (error && error->code != ERR_NO_PROCESS)
        seen->refused = program;
    return judge(run, error);
}

/* Takes the processes that there are now, in order, with what is known of them. */
static void update(struct live_run *run, uint64_t now_ns)
{
    target_pids now = {0};
    VEC(struct live_seen) seen = {0};
    target_all_pids(&now);
    for (size_t i = 0, k = 0; i < now.n; i++) {
        while (k < run->seen.n && run->seen.at[k].pid < now.at[i])
            k++;
        bool is_known = k < run->seen.n && run->seen.at[k].pid == now.at[i];
        VEC_PUSH(&seen, is_known ? run->seen.at[k] : (struct live_seen){.pid = now.at[i], .since_ns = run->seen.n ? now_ns : 0});
    }
    VEC_FREE(&now);
    VEC_FREE(&run->seen);
    run->seen.at = seen.at;
    run->seen.n = seen.n;
    run->seen.room = seen.room;
}

/* The others, in turn, for so long. */
static struct err *look_at_old(struct live_run *run, uint64_t now_ns)
{
    size_t first = 0;
    while (first < run->seen.n && run->seen.at[first].pid <= run->last_looked_at)
        first++;
    for (size_t i = 0; i < run->seen.n && clock_now_ns() - now_ns < LOOK_NS; i++) {
        struct live_seen *seen = &run->seen.at[(first + i) % run->seen.n];
        run->last_looked_at = seen->pid;
        if (now_ns - seen->since_ns >= YOUNG_NS)
            ERR_TRY(look_at(run, seen));
    }
    return NULL;
}

static bool is_wanted(const struct live_run *run)
{
    return !run->options->n_pids && !run->options->command && run->script->spec.n;
}

/* Libraries are not executed, so nobody is ever caught with one. */
void live_open_gate(struct live_run *run)
{
    target_paths files = {0};
    for (size_t i = 0; i < run->script->spec.n && is_wanted(run); i++) {
        char **paths;
        struct err *error = spec_find_files(&run->script->spec.at[i], &paths);
        for (size_t k = 0; !error && paths[k]; k++)
            VEC_PUSH(&files, paths[k]);
        if (!error)
            free(paths);
        err_free(error);
    }
    if (files.n)
        run->gate = target_gate_create(files.at, files.n);
    target_paths_deinit(&files);
}

struct err *live_serve_gate(struct live_run *run)
{
    VEC(struct target *) caught = {0};
    struct target *target;
    struct err *first = NULL;
    pid_t late;
    /* All of them first: it takes a while until one has its probes. */
    while (target_gate_next(run->gate, &target, &late)) {
        if (target)
            VEC_PUSH(&caught, target);
        if (late)
            fprintf(run->print.err, "probity: process %d: it was started while there was no time for it: its beginning is not seen\n",
                    late);
    }
    for (size_t i = 0; i < caught.n; i++) {
        run->sampling_failed = false;
        struct err *error = judge(run, load_session_admit(run->session, caught.at[i]));
        if (!first)
            first = error;
        else
            err_free(error);
    }
    VEC_FREE(&caught);
    return first;
}

struct err *live_look_for_processes(struct live_run *run)
{
    uint64_t now_ns = clock_now_ns();
    if (!is_wanted(run) || now_ns < run->next_look_ns)
        return NULL;
    run->next_look_ns = now_ns + LOOK_EVERY_NS;
    bool is_first = !run->seen.n;
    update(run, now_ns);
    for (size_t i = 0; i < run->seen.n; i++)
        if (is_first || now_ns - run->seen.at[i].since_ns < YOUNG_NS)
            ERR_TRY(look_at(run, &run->seen.at[i]));
    return look_at_old(run, clock_now_ns());
}
