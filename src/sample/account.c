/* The kernel's account of a thread against what was told of it (invariant 4 of sample.h). */
#include "base/clock.h"
#include "sample/internal.h"
#include "target/target.h"

#include <time.h>

/* What a thread has run is added to its account when it leaves the processor, and else at least so often. */
uint64_t sample_tick_ns(void)
{
    struct timespec tick = {.tv_nsec = 10000000};
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    return (uint64_t)tick.tv_nsec;
}

/* ---- what was told ---- */

void sample_thread_tell(struct sample_thread *thread, uint64_t time_ns, bool runs)
{
    if (thread->told_runs && time_ns > thread->told_since_ns)
        thread->told_ns += time_ns - thread->told_since_ns;
    if (!thread->told_runs)
        thread->came_in_ns = time_ns;
    thread->is_due |= thread->told_runs != runs;
    thread->told_since_ns = time_ns;
    thread->told_runs = runs;
}

/* ---- the account ---- */

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

uint64_t sample_thread_reconcile(struct sample_thread *thread, uint64_t time_ns, uint64_t run_ns, uint64_t doubt_ns)
{
    sample_thread_tell(thread, time_ns, thread->told_runs);
    if (thread->is_another || run_ns < thread->ran_before_ns)
        thread->ran_before_ns = less(run_ns, thread->told_ns);
    thread->is_another = false;
    uint64_t ran_ns = run_ns - thread->ran_before_ns, tick = sample_tick_ns(), stint_ns = less(time_ns, thread->came_in_ns);
    uint64_t least_ns = less(ran_ns, thread->before_doubt_ns + doubt_ns), most_ns = ran_ns + doubt_ns;
    uint64_t behind_ns = !thread->told_runs || thread->is_told_wrong ? 0 : stint_ns < tick ? stint_ns : tick;
    uint64_t found_ns = thread->told_ns;
    if (thread->told_ns < least_ns)
        found_ns = least_ns;
    else if (thread->told_ns > most_ns + behind_ns) /* then what was told says nothing of this either: half of it errs least */
        found_ns = most_ns + behind_ns / 2;
    thread->estimated_ns += less(found_ns, thread->told_ns) + less(thread->told_ns, found_ns);
    thread->told_ns = found_ns;
    if (!thread->told_runs && thread->before_doubt_ns) {
        thread->ran_before_ns = less(run_ns, found_ns);
        thread->before_doubt_ns = 0;
    }
    return found_ns;
}

void sample_set_begin_account(struct sample_thread *thread, bool is_new)
{
    struct target_usage usage = {0};
    struct target_rest rest;
    thread->ran_before_ns = 0;
    if (is_new || !target_thread_usage((pid_t)thread->pid, (pid_t)thread->tid, &usage))
        return;
    thread->ran_before_ns = usage.run_ns;
    thread->before_doubt_ns = target_thread_at_rest((pid_t)thread->pid, (pid_t)thread->tid, &rest) ? 0 : sample_tick_ns();
}

static void tell_account(struct sample_set *set, const struct sample_thread *thread, uint64_t time_ns, uint64_t run_ns, uint64_t doubt_ns)
{
    struct sample_record record = {.kind = SAMPLE_NEWS, .doubt_ns = doubt_ns, .news = {.kind = SAMPLE_RAN, .ran_ns = run_ns}};
    record.sample = (struct sample){.time_ns = time_ns, .pid = thread->pid, .tid = thread->tid};
    sample_records_add(&set->fresh, &record, NULL);
}

bool sample_set_tell_account(struct sample_set *set, const struct sample_thread *thread, bool at_once)
{
    enum { DOUBT_MOST_NS = 200000, TRIES = 3 };
    for (int i = 0; i < TRIES; i++) {
        struct target_usage usage;
        uint64_t before_ns = clock_now_ns();
        if (!target_thread_usage((pid_t)thread->pid, (pid_t)thread->tid, &usage))
            return false;
        uint64_t doubt_ns = clock_now_ns() - before_ns;
        if (doubt_ns > DOUBT_MOST_NS && !(at_once && i + 1 == TRIES))
            continue; /* somebody else ran meanwhile, and perhaps the thread did */
        tell_account(set, thread, before_ns, usage.run_ns, doubt_ns);
        break;
    }
    return true;
}

/* Of those that have run since then, not so many at a time that it would cost much. */
void sample_set_compare_accounts(struct sample_set *set)
{
    enum { LOOKS_MOST = 128 };
    size_t count = set->thread.n, looks = 0;
    for (size_t i = 0; i < count && looks < LOOKS_MOST; i++) {
        set->next_account = set->next_account + 1 < count ? set->next_account + 1 : 0;
        struct sample_thread *thread = &set->thread.at[set->next_account];
        if (thread->rests || !(thread->is_due || thread->told_runs || !thread->is_accounted))
            continue;
        bool is_gone = !sample_set_tell_account(set, thread, false);
        if (is_gone && thread->is_gone)
            sample_set_tell(set, SAMPLE_END, thread); /* nothing else does */
        thread->is_gone = is_gone;
        thread->is_due = false;
        looks++;
    }
}

void sample_set_tell_ran(struct sample_set *set, const struct sample_thread *thread, uint64_t time_ns, uint64_t run_ns)
{
    tell_account(set, thread, time_ns, run_ns, 0);
}
