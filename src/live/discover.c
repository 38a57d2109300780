/* Without -p and a command, a script means every process that maps one of its files, now or later. */
#include "live/run.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_EVERY_NS = 100000000 };

static int by_pid(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return x < y ? -1 : x > y;
}

static bool maps_one(const struct live_run *run, pid_t pid)
{
    char path[64], line[4352];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *in = fopen(path, "re");
    bool found = false;
    while (in && !found && fgets(line, sizeof line, in)) {
        char *file = strchr(line, '/');
        if (!file || !strstr(line, "r-xp"))
            continue;
        file[strcspn(file, "\n")] = 0;
        for (size_t i = 0; i < run->script->spec.n && !found; i++)
            found = spec_matches_module(&run->script->spec.at[i], file);
    }
    if (in)
        fclose(in);
    return found;
}

static void look_at(struct live_run *run, pid_t pid)
{
    if (pid == getpid() || !maps_one(run, pid))
        return;
    struct err *error = load_session_attach(run->session, pid);
    if (error && run->options->verbose)
        fprintf(run->print.err, "probity: %s\n", error->message);
    err_free(error);
}

struct err *live_look_for_processes(struct live_run *run)
{
    uint64_t now_ns = live_now_ns();
    if (run->options->n_pids || run->options->command || !run->script->spec.n || now_ns < run->next_look_ns)
        return NULL;
    run->next_look_ns = now_ns + LOOK_EVERY_NS;
    DIR *dir = opendir("/proc");
    if (!dir)
        return NULL;
    VEC(pid_t) now = {0};
    for (struct dirent *entry; (entry = readdir(dir));)
        if (isdigit((unsigned char)entry->d_name[0]))
            VEC_PUSH(&now, atoi(entry->d_name));
    closedir(dir);
    if (now.n)
        qsort(now.at, now.n, sizeof *now.at, by_pid);
    for (size_t i = 0; i < now.n; i++)
        if (!run->seen.n || !bsearch(&now.at[i], run->seen.at, run->seen.n, sizeof *run->seen.at, by_pid))
            look_at(run, now.at[i]);
    VEC_FREE(&run->seen);
    run->seen.at = now.at;
    run->seen.n = now.n;
    run->seen.room = now.room;
    return NULL;
}
