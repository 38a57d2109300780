#include "climb/climb.h"

#include "base/clock.h"
#include "climb/internal.h"
#include "unwind/space.h"

#include <stdlib.h>

/* Records and samples are looked at again after half the time that the youngest hook has been there, within limits: a function that is
 * called a million times a second has told enough in a moment. */
enum { TICK_LEAST_NS = 100000, TICK_MOST_NS = 2000000, IDLE_TICK_NS = 10000000, FADE_NS = 100000000 };
/* Heat halves in about two seconds. */
#define FADE 0.966

const struct climb_options climb_usual = {
    .threshold = 0.02, .top = 5, .hooks = 16, .period_calls = 2000, .period_ns = 500000000, .sample_ns = 1000000000 / 127};

struct climb *climb_create(const struct climb_options *options, struct load_session *session, const struct climb_numbering *numbering)
{
    struct climb *climb = memory_zero(1, sizeof *climb);
    climb->options = *options;
    climb->session = session;
    climb->numbering = *numbering;
    climb->tables = unwind_tables_create();
    return climb;
}

/* The process as it is now: a command that executes another program is followed. */
static struct load_process *find_process(const struct climb *climb)
{
    for (size_t i = 0; i < load_session_live(climb->session); i++) {
        struct load_process *process = load_session_process(climb->session, i);
        struct err *gone = target_pid(load_process_target(process)) == climb->pid ? load_process_check(process) : NULL;
        if (target_pid(load_process_target(process)) == climb->pid && !gone)
            return process;
        err_free(gone);
    }
    return NULL;
}

/* Its code is another one now. What is the same again, by file and address, may be called by others: it is measured anew. */
static void forget_hooks(struct climb *climb)
{
    for (size_t i = 0; i < climb->function.n; i++) {
        struct climb_function *function = climb->function.at[i];
        bool anew = function->state == CLIMB_HOOKED || (climb->process && function->state != CLIMB_CANNOT);
        function->hook = CLIMB_NONE;
        function->live_ns = function->rest_until_ns = 0;
        function->state = anew ? CLIMB_UNSEEN : function->state;
    }
    climb->stacks_taken = 0;
    climb_census_forget(climb);
    climb_free_hooks(climb);
    climb_free_events(climb);
    unwind_process_close(climb->unwind);
    climb->unwind = NULL;
}

static struct err *read_code(struct climb *climb)
{
    ERR_TRY(climb_read_ranges(climb));
    climb_find_valued(climb);
    climb_census_look(climb);
    return NULL;
}

struct err *climb_begin(struct climb *climb, pid_t pid)
{
    climb->pid = pid;
    climb->start_ns = climb->last_fade_ns = clock_now_ns();
    climb->process = find_process(climb);
    if (!climb->process)
        return NULL;
    ERR_TRY(read_code(climb));
    climb->start_ns = climb->last_fade_ns = clock_now_ns();
    climb_begin_pace(climb, load_session_command(climb->session) == pid);
    climb->free_ns = climb->totals.stopped_ns;
    return NULL;
}

/* ---- running ---- */

static void fade(struct climb *climb, uint64_t now_ns)
{
    for (; now_ns - climb->last_fade_ns >= FADE_NS; climb->last_fade_ns += FADE_NS) {
        climb->heat *= FADE;
        for (size_t i = 0; i < climb->function.n; i++)
            climb->function.at[i]->heat *= FADE;
    }
}

/* What can not stay goes at once: to prepare what comes takes longer. While executions are counted nothing else comes, and while a survey
 * is to go on no hooks. */
static struct err *work(struct climb *climb, uint64_t now_ns)
{
    static const climb_functions none = {0};
    struct climb_plan plan = {0};
    struct err *error = NULL;
    enum climb_step step = climb_census_next(climb, now_ns);
    climb_pick_over(climb, now_ns, &plan);
    bool has_to_wait = step == CLIMB_STEP_SLICE && climb->totals.hooks_now;
    if (plan.is_urgent) {
        error = climb_change_hooks(climb, &plan.remove, &none);
    } else if (step && !has_to_wait) {
        error = climb_census_do(climb, step);
    } else if (!climb->census.in.n && climb_spent(climb, now_ns) <= 1) {
        climb_end_hurry(climb);
        if (!has_to_wait)
            climb_pick_next(climb, now_ns, &plan);
        climb_want_stacks(climb, plan.wants_stacks, now_ns);
        /* We may come here seldom: then stacks are always due, and take turns with changes. */
        bool has_changes = plan.remove.n || plan.add.n;
        bool is_stop = climb_has_to_stop(climb, &plan, now_ns) && !(has_changes && climb->was_stop);
        if (is_stop)
            error = climb_stop_for_stacks(climb, now_ns);
        else if (has_changes)
            error = climb_change_hooks(climb, &plan.remove, &plan.add);
        climb->was_stop = is_stop;
    }
    VEC_FREE(&plan.remove);
    VEC_FREE(&plan.add);
    return error;
}

struct err *climb_look(struct climb *climb)
{
    struct load_process *before = climb->process;
    climb->process = find_process(climb);
    if (climb->process != before) {
        climb_take_events(climb, UINT64_MAX); /* of the code that it had */
        climb_settle_hits(climb);
        forget_hooks(climb);
    }
    if (climb->process && climb->process != before) {
        climb_begin_pace(climb, true);
        climb->since_ns = clock_now_ns();
        climb->is_executed = false;
    }
    return climb->process ? read_code(climb) : NULL;
}

struct err *climb_work(struct climb *climb, uint64_t until_ns)
{
    climb_take_events(climb, until_ns);
    uint64_t now_ns = clock_now_ns();
    if (climb->process)
        climb->end_ns = now_ns;
    fade(climb, now_ns);
    if (climb->process && climb->is_executed)
        return err_new(ERR_NO_PROCESS, "process %d: has executed another program", climb->pid);
    if (!climb->process)
        return NULL;
    struct err *error = work(climb, now_ns);
    climb_count_hits(climb);
    return error;
}

bool climb_has_probes(const struct climb *climb)
{
    return climb->totals.hooks_now || climb->census.in.n;
}

uint64_t climb_wait_ns(const struct climb *climb)
{
    uint64_t now_ns = clock_now_ns(), wait_ns = climb_has_probes(climb) ? TICK_MOST_NS : IDLE_TICK_NS;
    if (climb->census.in.n && (now_ns - climb->census.since_ns) / 2 < wait_ns)
        wait_ns = (now_ns - climb->census.since_ns) / 2;
    for (size_t i = 0; i < climb->hook.n; i++)
        if (climb->hook.at[i].is_live && (now_ns - climb->hook.at[i].armed_ns) / 2 < wait_ns)
            wait_ns = (now_ns - climb->hook.at[i].armed_ns) / 2;
    return wait_ns < TICK_LEAST_NS ? TICK_LEAST_NS : wait_ns;
}

/* ---- ending ---- */

void climb_end(struct climb *climb)
{
    climb_settle_hits(climb);
    climb_census_forget(climb);
    climb->process = NULL;
    climb->totals.hooks_now = 0;
    climb_take_events(climb, UINT64_MAX);
}

void climb_destroy(struct climb *climb)
{
    if (!climb)
        return;
    unwind_process_close(climb->unwind);
    unwind_tables_destroy(climb->tables);
    climb_free_hooks(climb);
    climb_free_events(climb);
    climb_census_free(climb);
    climb_free_functions(climb);
    VEC_FREE(&climb->child);
    free(climb);
}

bool climb_is_live(const struct climb *climb)
{
    return climb->process;
}

void climb_note_lost(struct climb *climb, uint64_t samples, uint64_t hits)
{
    climb->totals.samples_lost = samples;
    climb->totals.hits_lost = hits;
}

bool climb_has_value(const struct climb *climb)
{
    return climb->valued.n;
}

enum climb_metric climb_metric(const struct climb *climb)
{
    return climb->options.metric;
}

bool climb_counts_executions(const struct climb *climb)
{
    return climb->options.hot == CLIMB_HOT_CALLS && climb->options.metric != CLIMB_VALUE;
}

pid_t climb_pid(const struct climb *climb)
{
    return climb->pid;
}

void climb_totals(const struct climb *climb, struct climb_totals *out)
{
    *out = climb->totals;
    out->hits += climb->live_hits;
    out->elapsed_ns = climb->end_ns - climb->start_ns;
}
