/* What climbing may cost the process, and what it has cost: the time that it stood still, and the time that it spent in hooks. Both are
 * paid from one budget, a share of the process's time, so that whatever is to be done is done as fast as the process can afford and no
 * faster.
 *
 * A hook limits itself: it tells of as many calls as it has a quota for, and is then nothing but a jump there and back, until it is given
 * another one or goes. Setting a quota takes no stop.
 *
 * Counting probes (census.c) are paid from the same budget, surveys with a quarter of it at most and rounds of leaders with half. The first
 * survey of a program is not: without it there is nothing to climb from. */
#include "climb/internal.h"

#include "base/clock.h"
#include "base/hurry.h"

#include <limits.h>

/* One execution of a hook, as measured: one that tells, one that does not; one of a counting probe. And what may be spent, in all and for
 * the rounds in which executions are counted. */
enum { TELL_NS = 30, PASS_NS = 8, COUNT_NS = 10 };
#define BUDGET 0.008
static const double rounds_budget[CLIMB_ROUNDS] = {[CLIMB_SURVEY] = BUDGET / 4, [CLIMB_LEADERS] = BUDGET / 2};

/* ---- quotas ---- */

/* A quota only ever becomes less; what a process makes more of it is nothing. */
static int64_t executed_of(const struct climb_place *place, int32_t left)
{
    return left < place->armed ? (int64_t)place->armed - left : 0;
}

/* What the place has executed since it was armed, and the new quota. */
static int64_t arm_place(struct climb *climb, struct climb_place *place, int32_t quota)
{
    int64_t executed = executed_of(place, load_process_set_quota(climb->process, place->number, quota));
    int64_t told = executed < place->armed ? executed : place->armed;
    climb->totals.hits += (uint64_t)executed;
    climb->paid_ns += (uint64_t)(told * TELL_NS + (executed - told) * PASS_NS);
    place->armed = quota;
    return executed;
}

void climb_arm(struct climb *climb, struct climb_hook *hook, uint64_t calls)
{
    /* Calls that began before are left, too, and those that are open in a recursion are left later. */
    enum { MOST = INT_MAX / 2 };
    int32_t quota = calls < MOST ? (int32_t)calls : MOST;
    for (size_t i = 0; i < hook->place.n; i++)
        arm_place(climb, &hook->place.at[i], i < hook->enter_places ? quota : 2 * quota);
    hook->cuts = 0;
    hook->armed_ns = hook->seen_ns = clock_now_ns();
    hook->seen_hits = 0;
}

static uint64_t executed(const struct climb *climb, const struct climb_place *place)
{
    return (uint64_t)executed_of(place, load_process_quota(climb->process, place->number));
}

static uint64_t live_hits(const struct climb *climb)
{
    uint64_t hits = 0;
    for (size_t i = 0; i < climb->hook.n; i++)
        for (size_t k = 0; k < climb->hook.at[i].place.n && climb->hook.at[i].is_live; k++)
            hits += executed(climb, &climb->hook.at[i].place.at[k]);
    return hits;
}

void climb_count_hits(struct climb *climb)
{
    climb->live_hits = live_hits(climb);
}

void climb_settle_hits(struct climb *climb)
{
    climb->totals.hits += climb->live_hits;
    climb->live_hits = 0;
}

bool climb_has_told(const struct climb *climb, const struct climb_hook *hook, uint64_t calls)
{
    for (size_t i = 0; i < hook->enter_places; i++)
        if (executed(climb, &hook->place.at[i]) < calls)
            return false;
    return true;
}

static double share(uint64_t hits, uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)hits * PASS_NS / (double)(to_ns - from_ns) : 0;
}

void climb_weigh(const struct climb *climb, struct climb_hook *hook, uint64_t now_ns)
{
    uint64_t hits = 0;
    for (size_t i = 0; i < hook->place.n; i++)
        hits += executed(climb, &hook->place.at[i]);
    /* A function may have been called all the time, or begin to be called now. */
    double always = share(hits, hook->armed_ns, now_ns), now = share(hits - hook->seen_hits, hook->seen_ns, now_ns);
    hook->share = always > now ? always : now;
    hook->seen_hits = hits;
    hook->seen_ns = now_ns;
}

/* ---- going first ---- */

struct err *climb_change_in_hurry(struct climb *climb, struct load_request *request, size_t count, bool adds)
{
    if (!adds || !climb->may_hurry || climb->in_hurry)
        return load_process_change(climb->process, request, count);
    struct err *error = load_process_change_in_hurry(climb->process, request, count);
    climb->in_hurry = !error;
    return error;
}

void climb_begin_hurry(struct climb *climb)
{
    if (!climb->in_hurry)
        hurry_begin();
    climb->in_hurry = true;
}

void climb_end_hurry(struct climb *climb)
{
    if (climb->in_hurry)
        hurry_end();
    climb->in_hurry = false;
}

/* ---- the budget ---- */

/* Another process: that it is held before its first instruction costs it nothing. */
void climb_begin_pace(struct climb *climb, bool is_held)
{
    climb->stopped_seen_ns = 0;
    if (is_held)
        climb_begin_stop(climb);
    climb_note_stopped(climb);
}

/* What it stood still for others, who use the same session, is not ours. */
void climb_begin_stop(struct climb *climb)
{
    climb->stopped_seen_ns = target_stopped_ns(load_process_target(climb->process));
}

void climb_note_stopped(struct climb *climb)
{
    uint64_t stopped_ns = target_stopped_ns(load_process_target(climb->process));
    climb->totals.stopped_ns += stopped_ns - climb->stopped_seen_ns;
    climb->stopped_seen_ns = stopped_ns;
}

double climb_spent(const struct climb *climb, uint64_t now_ns)
{
    double elapsed_ns = (double)(now_ns - climb->start_ns) + 1, hooks_ns = (double)climb->paid_ns + (double)live_hits(climb) * PASS_NS;
    /* Everybody waits while it stands still; hooks only slow down who runs. What it took to get into the process is not counted: nothing
     * can be done about it any more. */
    return ((double)(climb->totals.stopped_ns - climb->free_ns) / elapsed_ns + hooks_ns / ((double)climb->cpu_ns + 1)) / BUDGET;
}

double climb_spent_for(const struct climb *climb, enum climb_round round, uint64_t now_ns)
{
    double elapsed_ns = (double)(now_ns - climb->start_ns) + 1;
    double stopped_ns = (double)climb->census.cost[round].stopped_ns, hits_ns = (double)climb->census.cost[round].hits_ns;
    return (stopped_ns / elapsed_ns + hits_ns / ((double)climb->cpu_ns + 1)) / rounds_budget[round];
}

void climb_pay_counting(struct climb *climb, uint64_t hits)
{
    struct climb_census *census = &climb->census;
    climb->totals.executions += hits;
    if (!census->was_surveyed)
        return;
    climb->paid_ns += hits * COUNT_NS;
    census->cost[census->round].hits_ns += hits * COUNT_NS;
}
