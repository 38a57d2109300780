/* Without -p and a command, a script means every process that maps one of its files, now or later. */
#include "live/run.h"

#include <stdlib.h>
#include <unistd.h>

enum { LOOK_EVERY_NS = 100000000 };

static int by_pid(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return x < y ? -1 : x > y;
}

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

/* A process that can not be traced does not matter to others; that samples are forbidden does. */
static struct err *look_at(struct live_run *run, pid_t pid)
{
    if (pid == getpid() || !maps_one(run, pid))
        return NULL;
    run->sampling_failed = false;
    struct err *error = load_session_attach(run->session, pid);
    if (run->sampling_failed && error->code != ERR_NO_PROCESS)
        return error;
    if (error && run->options->verbose)
        fprintf(run->print.err, "probity: %s\n", error->message);
    err_free(error);
    return NULL;
}

struct err *live_look_for_processes(struct live_run *run)
{
    uint64_t now_ns = live_now_ns();
    if (run->options->n_pids || run->options->command || !run->script->spec.n || now_ns < run->next_look_ns)
        return NULL;
    run->next_look_ns = now_ns + LOOK_EVERY_NS;
    target_pids now = {0};
    target_all_pids(&now);
    struct err *error = NULL;
    for (size_t i = 0; i < now.n && !error; i++)
        if (!run->seen.n || !bsearch(&now.at[i], run->seen.at, run->seen.n, sizeof *run->seen.at, by_pid))
            error = look_at(run, now.at[i]);
    VEC_FREE(&run->seen);
    run->seen.at = now.at;
    run->seen.n = now.n;
    run->seen.room = now.room;
    return error;
}
