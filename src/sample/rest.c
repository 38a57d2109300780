/* Threads that switch too often for events to be on them: see sample.h.
 *
 * Closing an event also takes it from all threads that have inherited it. So when one of them is laid to rest the others get events of
 * their own; what the old ones wrote up to then still counts (former_root). */
#include "base/clock.h"
#include "sample/internal.h"
#include "target/target.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CHECK_NS = 100000000,
    STOPS_CHECK_NS = 20000000, /* where nothing else tells of new threads */
    TOO_OFTEN_HZ = 2000,
    MUCH_TOO_OFTEN = 2 * TOO_OFTEN_HZ / (1000000000 / CHECK_NS), /* before it is time to check */
    SWITCH_NS = 11000,                                           /* what a timer makes a switch dearer */
    WINDOW_SHARE = 50,                                           /* of the time, 1 part goes to windows at most, of all threads together */
    WINDOW_NS = 5000000,                                         /* at least */
    WINDOW_SAMPLES = 32,                                         /* about that many are expected in a window */
    GLANCE_NS = 9000000,                                         /* at least, between two stops of a thread */
    WINDOWS = 8,                                                 /* at a time */
    CALM_CHECKS = 10,
};

/* ---- windows ---- */

static void open_window(struct sample_set *set, struct sample_thread *thread, uint64_t now_ns)
{
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    size_t first = set->event.n;
    for (int cpu = 0; cpu < processors; cpu++) /* without them its time is given out when it ends */
        err_free(sample_set_open_event(set, SAMPLE_BRIEF_TIMER, (pid_t)thread->pid, (pid_t)thread->tid, cpu));
    thread->in_window = true;
    thread->window_ns = now_ns;
    thread->part_ns = thread->run_ns / WINDOW_SAMPLES;
    set->windows++;
    sample_set_enable(set, first);
}

static void close_window(struct sample_set *set, struct sample_thread *thread, uint64_t now_ns, uint64_t switches_hz)
{
    sample_set_close_events(set, thread->tid);
    uint64_t cost_ns = (now_ns - thread->window_ns) / 1000 * switches_hz * SWITCH_NS / 1000000;
    thread->in_window = false;
    thread->window_ns = now_ns + cost_ns * WINDOW_SHARE * set->resting;
    set->windows--;
}

/* ---- resting and waking ---- */

void sample_set_lay_to_rest(struct sample_set *set, struct sample_thread *thread)
{
    uint64_t now_ns = clock_now_ns();
    struct target_usage usage = {0};
    target_thread_usage((pid_t)thread->pid, (pid_t)thread->tid, &usage);
    thread->rests = true;
    set->resting++;
    thread->used_run_ns = usage.run_ns;
    thread->used_delay_ns = usage.delay_ns;
    thread->used_times = usage.times;
    thread->checked_ns = thread->window_ns = thread->looked_ns = now_ns;
    thread->program = target_program_mark((pid_t)thread->pid);
    thread->calm = 0;
    uint64_t told_ns = sample_set_tell(set, SAMPLE_UNTOLD, thread);
    sample_set_tell_ran(set, thread, told_ns, usage.run_ns);
}

static void wake(struct sample_set *set, struct sample_thread *thread, uint64_t now_ns)
{
    size_t first = set->event.n;
    bool found;
    if (thread->in_window)
        close_window(set, thread, now_ns, 0);
    err_free(sample_set_open_events(set, (pid_t)thread->pid, (pid_t)thread->tid, &found));
    thread->rests = false;
    set->resting--;
    thread->state = SAMPLE_UNSEEN;
    thread->stands = thread->outs = thread->switches = 0;
    thread->looked_at = false;
    sample_set_tell(set, SAMPLE_TOLD, thread);
    sample_set_enable(set, first);
    sample_set_tell_account(set, thread, false);
    sample_set_tell_state(set, thread);
}

/* By what it did since switches were last counted, which is long ago where nobody had time to look. */
static bool is_restless(const struct sample_thread *thread, uint64_t elapsed_ns)
{
    uint64_t most = elapsed_ns < CHECK_NS ? MUCH_TOO_OFTEN : TOO_OFTEN_HZ * (elapsed_ns / 1000000) / 1000;
    return !thread->rests && thread->switches > most;
}

/* Every thread that has the root's events gets its own, or none. */
static void split(struct sample_set *set, uint32_t root, uint64_t elapsed_ns)
{
    uint64_t now_ns = clock_now_ns();
    sample_set_close_events(set, root);
    for (size_t i = 0; i < set->thread.n; i++) {
        struct sample_thread *thread = &set->thread.at[i];
        if (thread->root != root || thread->rests)
            continue;
        thread->former_root = root;
        thread->root = thread->tid;
        thread->moved_ns = now_ns;
        size_t first = set->event.n;
        bool found;
        if (is_restless(thread, elapsed_ns)) {
            sample_set_lay_to_rest(set, thread);
            continue;
        }
        err_free(sample_set_open_events(set, (pid_t)thread->pid, (pid_t)thread->tid, &found));
        sample_set_enable(set, first);
    }
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void find_restless(struct sample_set *set, uint64_t elapsed_ns)
{
    VEC(uint32_t) roots = {0};
    for (size_t i = 0; i < set->thread.n; i++)
        if (is_restless(&set->thread.at[i], elapsed_ns))
            VEC_PUSH(&roots, set->thread.at[i].root);
    if (roots.n)
        qsort(roots.at, roots.n, sizeof *roots.at, by_number);
    for (size_t i = 0; i < roots.n; i++)
        if (!i || roots.at[i] != roots.at[i - 1])
            split(set, roots.at[i], elapsed_ns);
    VEC_FREE(&roots);
}

/* ---- looking ---- */

/* It has run so long in all, and waited for a processor so long. The account is behind by up to a tick, and makes up for that later. What
 * it ran since the last look is told as its last part; as its first part of a thread that has ended, as it was not there for all of that.
 */
static void use(struct sample_set *set, struct sample_thread *thread, uint64_t total_run_ns, uint64_t total_delay_ns, uint64_t now_ns,
                bool has_ended)
{
    uint64_t passed_ns = now_ns - thread->looked_ns, since_ns = thread->looked_ns;
    /* Another thread has taken its place by executing a program. */
    if (total_run_ns < thread->used_run_ns || total_run_ns - thread->used_run_ns > passed_ns + 2 * sample_tick_ns())
        thread->used_run_ns = total_run_ns;
    uint64_t run_ns = total_run_ns - thread->used_run_ns;
    run_ns = run_ns < passed_ns ? run_ns : passed_ns;
    sample_thread_used(thread, run_ns, total_delay_ns - thread->used_delay_ns, now_ns);
    thread->used_share = passed_ns ? (double)run_ns / (double)passed_ns : 0;
    thread->looked_ns = now_ns;
    thread->used_run_ns += run_ns;
    thread->used_delay_ns = total_delay_ns;
    if (!run_ns)
        return;
    uint64_t from_ns = has_ended ? since_ns : now_ns - run_ns;
    sample_set_tell_switch(set, SAMPLE_IN, thread, from_ns);
    sample_set_tell_switch(set, SAMPLE_OUT, thread, from_ns + run_ns);
}

/* Whether it is still there. */
static bool look(struct sample_set *set, struct sample_thread *thread)
{
    enum { DOUBT_MOST_NS = 200000, TRIES = 3 };
    struct target_usage usage;
    uint64_t now_ns = 0, read_ns = UINT64_MAX;
    for (int i = 0; i < TRIES && read_ns - now_ns > DOUBT_MOST_NS; i++) { /* else somebody else ran meanwhile, and perhaps the thread did */
        now_ns = clock_now_ns();
        if (!target_thread_usage((pid_t)thread->pid, (pid_t)thread->tid, &usage))
            return false;
        read_ns = clock_now_ns();
    }
    use(set, thread, usage.run_ns, usage.delay_ns, now_ns, false);
    thread->state = SAMPLE_UNSEEN;
    if (set->options.clock == SAMPLE_WALL)
        sample_thread_look(thread, &set->options, true, now_ns, &set->fresh);
    thread->stands = 0;
    uint64_t elapsed_ms = (now_ns - thread->checked_ns) / 1000000;
    if (elapsed_ms < CHECK_NS / 1000000)
        return true;
    uint64_t switches_hz = (usage.times - thread->used_times) * 1000 / elapsed_ms;
    thread->used_times = usage.times;
    thread->checked_ns = now_ns;
    thread->calm = switches_hz < TOO_OFTEN_HZ / 2 ? thread->calm + 1 : 0;
    thread->switches = (uint32_t)switches_hz;
    return true;
}

/* ---- threads that have ended ---- */

/* Of the process's threads: what those have run that are there, and how many are gone, which ran for *gone_ns up to the last look. */
static uint64_t look_at_living(const struct sample_set *set, uint32_t pid, uint64_t *gone_ns, uint64_t *gone)
{
    uint64_t living_ns = 0;
    *gone_ns = *gone = 0;
    for (size_t i = 0; i < set->thread.n; i++) {
        const struct sample_thread *thread = &set->thread.at[i];
        struct target_usage usage;
        if (thread->pid != pid || thread->has_ended)
            continue;
        if (target_thread_usage((pid_t)pid, (pid_t)thread->tid, &usage)) {
            living_ns += usage.run_ns;
        } else {
            *gone_ns += thread->used_run_ns;
            ++*gone;
        }
    }
    return living_ns;
}

static struct sample_process *find_process(struct sample_set *set, uint32_t pid)
{
    for (size_t i = 0; i < set->process.n; i++)
        if (set->process.at[i].pid == pid)
            return &set->process.at[i];
    return NULL;
}

void sample_set_note_process(struct sample_set *set, pid_t pid)
{
    uint64_t total_ns, gone_ns, gone;
    if (find_process(set, (uint32_t)pid) || !target_process_usage(pid, &total_ns))
        return;
    uint64_t living_ns = look_at_living(set, (uint32_t)pid, &gone_ns, &gone);
    struct sample_process process = {.pid = (uint32_t)pid, .ended_ns = total_ns > living_ns ? total_ns - living_ns : 0};
    VEC_PUSH(&set->process, process);
}

static void forget_process(struct sample_set *set, struct sample_process *process)
{
    size_t at = (size_t)(process - set->process.at);
    memmove(process, process + 1, (--set->process.n - at) * sizeof *process);
}

/* How long the thread, which is gone, has run since it was last looked at: what the process has run and no other thread that is known has;
 * or, when the process is gone, too, as if the thread had ended in the middle of that time and run as it did before. The latter is closer
 * when the look was not long ago: the accounts of the other threads are up to a tick old. */
static uint64_t estimate_last(struct sample_set *set, const struct sample_thread *thread, uint64_t passed_ns)
{
    enum { LONG_AGO_NS = 40000000 };
    const struct sample_process *process = find_process(set, thread->pid);
    uint64_t total_ns, gone_ns, gone, last_ns = (uint64_t)((double)(passed_ns / 2) * thread->used_share);
    if (passed_ns < LONG_AGO_NS || !process || !target_process_usage((pid_t)thread->pid, &total_ns))
        return last_ns;
    uint64_t known_ns = process->ended_ns + look_at_living(set, thread->pid, &gone_ns, &gone) + gone_ns;
    last_ns = gone && total_ns > known_ns ? (total_ns - known_ns) / gone : 0;
    return last_ns < passed_ns ? last_ns : passed_ns;
}

/* It has ended since the last look; when it ran until then nobody knows any more, and how long not everywhere. */
static void bury(struct sample_set *set, struct sample_thread *thread, uint64_t now_ns)
{
    struct sample_end end = {.run_ns = thread->used_run_ns};
    struct sample_process *process = find_process(set, thread->pid);
    sample_ends_read(set);
    thread->has_final = sample_ends_take(set, thread->tid, &end);
    if (!thread->has_final)
        end.run_ns += estimate_last(set, thread, now_ns - thread->looked_ns);
    uint64_t total_ns;
    if (process && target_process_usage((pid_t)thread->pid, &total_ns))
        process->ended_ns += end.run_ns;
    else if (process)
        forget_process(set, process);
    thread->final_ns = end.run_ns;
    use(set, thread, end.run_ns, thread->used_delay_ns, now_ns, true);
    if (thread->in_window)
        close_window(set, thread, now_ns, 0);
    sample_set_tell(set, SAMPLE_END, thread); /* that removes it */
    thread->has_ended = true;
}

static void take_turn(struct sample_set *set, struct sample_thread *thread, uint64_t now_ns)
{
    if (set->by_stops && thread->run_ns && thread->state != SAMPLE_WAITS && now_ns >= thread->window_ns + GLANCE_NS)
        sample_set_glance(set, thread, now_ns);
    else if (set->by_stops)
        return;
    else if (thread->calm >= CALM_CHECKS)
        wake(set, thread, now_ns);
    else if (thread->in_window && now_ns - thread->window_ns >= WINDOW_NS)
        close_window(set, thread, now_ns, thread->switches);
    else if (!thread->in_window && now_ns >= thread->window_ns && set->windows < WINDOWS)
        open_window(set, thread, now_ns);
}

/* What no event tells. */
static void look_around(struct sample_set *set, struct sample_thread *thread, target_pids *processes)
{
    pid_t pid = (pid_t)thread->pid, tid = (pid_t)thread->tid;
    char name[TARGET_NAME];
    target_thread_name(pid, tid, name);
    uint64_t program = target_program_mark(pid);
    if (program && program != thread->program) {
        thread->program = program;
        memcpy(thread->name, name, sizeof thread->name);
        sample_set_tell(set, SAMPLE_EXEC, thread);
        if (set->by_stops)
            sample_set_reopen_target(set, pid);
    } else if (name[0] && strcmp(name, thread->name)) {
        memcpy(thread->name, name, sizeof thread->name);
        sample_set_tell(set, SAMPLE_NAME, thread);
    }
    VEC_PUSH(processes, pid);
    if (set->options.follow_exec)
        target_children(pid, tid, processes);
}

/* Each look has its own time: others may have the processor for long between two of them. */
static void look_at_resting(struct sample_set *set, bool is_check)
{
    target_pids processes = {0};
    for (size_t i = 0; i < set->thread.n; i++) {
        struct sample_thread *thread = &set->thread.at[i];
        if (!thread->rests || thread->has_ended)
            continue;
        if (!look(set, thread)) {
            bury(set, thread, clock_now_ns());
            continue;
        }
        take_turn(set, thread, thread->looked_ns);
        if (is_check)
            look_around(set, thread, &processes);
    }
    for (size_t i = 0; i < processes.n; i++)
        err_free(sample_set_cover(set, processes.at[i], true));
    VEC_FREE(&processes);
}

void sample_set_end_resting(struct sample_set *set)
{
    look_at_resting(set, false);
}

void sample_set_calm(struct sample_set *set)
{
    uint64_t now_ns = clock_now_ns(), elapsed_ns = now_ns - set->calmed_ns;
    bool is_check = elapsed_ns >= (set->by_stops ? STOPS_CHECK_NS : CHECK_NS);
    look_at_resting(set, is_check);
    set->looked_ns = now_ns;
    if (set->calmed_ns && !set->by_stops)
        find_restless(set, elapsed_ns);
    if (!is_check)
        return;
    set->calmed_ns = now_ns;
    sample_set_compare_accounts(set);
    for (size_t i = 0; i < set->thread.n; i++)
        if (!set->thread.at[i].rests)
            set->thread.at[i].switches = 0;
    sample_set_forget_closed(set);
}
