/* What to do next: hooks that have done their part go, the most promising functions come. */
#include "climb/internal.h"

#include <stdlib.h>

/* A burst is this part of the calls that are wanted; then a function that is called often rests, so that bursts are spread over time. One
 * that is over sooner than this goes on until then, for so many times of the calls at most: where calls are short, whatever disturbs some
 * of them weighs much in few. */
enum { BURSTS = 5, BURST_NS = 3000000, BURST_TIMES = 4, REST_NS = 60000000, FEW_SAMPLES = 30 };
/* Some whole stacks are taken in any case: they show who is on the stack all the time. How much of the time that is, they tell to within a
 * few points. */
enum { STACKS_LEAST = 150 };
/* Shares of a processor: a hook that takes less stays where it is for all its bursts; hooks that take more are worth a stop of their own.
 * So are those that have done their part and wait to go, once they have taken as much for nothing as a stop takes. Hooks on functions whose
 * calls have a value can not rest, so all go together when they have cost so many times of what may be spent. */
#define STAYS 0.0005
#define URGENT 0.01
enum { URGENT_NS = 300000 };
#define VALUED_SPENT 1.5

static uint64_t burst_calls(const struct climb *climb)
{
    return climb->options.period_calls > BURSTS ? climb->options.period_calls / BURSTS : 1;
}

uint64_t climb_burst_quota(const struct climb *climb)
{
    return BURST_TIMES * burst_calls(climb);
}

/* ---- what is over ---- */

/* Whether its burst is; a hook that can stay for it has the next one. */
static bool has_had_burst(struct climb *climb, struct climb_hook *hook, uint64_t now_ns)
{
    bool is_short = now_ns < hook->armed_ns + BURST_NS;
    if (!climb_has_told(climb, hook, is_short ? climb_burst_quota(climb) : burst_calls(climb)))
        return false;
    hook->bursts++;
    if (hook->share > STAYS || hook->bursts >= BURSTS)
        return true;
    climb_arm(climb, hook, climb_burst_quota(climb));
    return false;
}

static bool is_over(struct climb *climb, struct climb_hook *hook, uint64_t now_ns)
{
    const struct climb_function *function = climb->function.at[hook->function];
    return function->state != CLIMB_HOOKED || function->live_ns + (now_ns - hook->since_ns) >= climb->options.period_ns ||
           has_had_burst(climb, hook, now_ns);
}

/* Nearly all calls of some bursts have come from one place: more of them would tell nothing new. */
static bool has_one_caller(const struct climb *climb, const struct climb_hook *hook)
{
    enum { BURSTS_ENOUGH = 2, OF_HUNDRED = 99 };
    const struct climb_function *function = climb->function.at[hook->function];
    uint64_t most = 0;
    for (size_t i = 0; i < function->caller.n; i++)
        most = function->caller.at[i].calls > most ? function->caller.at[i].calls : most;
    return hook->bursts >= BURSTS_ENOUGH && function->calls >= BURSTS_ENOUGH * burst_calls(climb) &&
           most * 100 >= function->calls * OF_HUNDRED;
}

static void end_burst(struct climb *climb, struct climb_hook *hook, uint64_t now_ns)
{
    struct climb_function *function = climb->function.at[hook->function];
    if (function->state != CLIMB_HOOKED)
        return;
    hook->over_ns = now_ns;
    bool enough = hook->bursts >= BURSTS || has_one_caller(climb, hook);
    bool long_enough = function->live_ns + (now_ns - hook->since_ns) >= climb->options.period_ns;
    function->rest_until_ns = now_ns + REST_NS;
    if (enough || long_enough)
        function->state = hook->calls ? CLIMB_KNOWN : CLIMB_STILL;
    else
        function->state = CLIMB_RESTING;
}

/* Functions whose calls have a value are hooked as long as others are, which are measured by it. */
static bool is_needed(const struct climb *climb, const struct climb_hook *hook)
{
    if (!climb_is_valued(climb, hook->function) || climb->function.at[hook->function]->state == CLIMB_CANNOT)
        return false;
    for (size_t i = 0; i < climb->hook.n; i++)
        if (climb->hook.at[i].is_live && !climb_is_valued(climb, climb->hook.at[i].function))
            return true;
    return false;
}

/* ---- what is next ---- */

struct wish {
    uint32_t function;
    double weight;
};
typedef VEC(struct wish) wishes;

static void add_wish(wishes *list, uint32_t function, double weight)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i].function == function) {
            list->at[i].weight += weight;
            return;
        }
    VEC_PUSH(list, (struct wish){function, weight});
}

static int heaviest_first(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;
    return x->weight > y->weight ? -1 : x->weight < y->weight;
}

/* A function is wanted as much as the hot spots' time that comes through it. */
static void wish_for_chains(struct climb *climb, uint32_t hot, wishes *list, struct climb_plan *plan)
{
    enum { STACKS_MOST = 200 };
    climb_links links = {0};
    double heat = climb->heat > 0 ? climb->function.at[hot]->heat / climb->heat : 1;
    climb_chains(climb, hot, climb->options.threshold / 2 / (heat > climb->options.threshold ? heat : climb->options.threshold), &links);
    for (size_t i = 0; i < links.n; i++) {
        add_wish(list, links.at[i].function, heat * links.at[i].share);
        /* A recursion that nothing leads into was entered before anybody looked. */
        plan->wants_stacks |= links.at[i].end == CLIMB_RECURSION && climb->stacks_taken < STACKS_MOST;
    }
    VEC_FREE(&links);
}

static bool is_wanted(const struct climb *climb, const struct climb_function *function, uint64_t now_ns)
{
    if (function->hook != CLIMB_NONE && climb->hook.at[function->hook].is_live)
        return false; /* it is about to go */
    return function->state == CLIMB_UNSEEN || (function->state == CLIMB_RESTING && now_ns >= function->rest_until_ns);
}

static void want_again(const struct climb *climb, uint32_t number, climb_functions *add)
{
    const struct climb_function *function = climb->function.at[number];
    bool is_there = function->state == CLIMB_CANNOT || (function->hook != CLIMB_NONE && climb->hook.at[function->hook].is_live);
    for (size_t i = 0; i < add->n; i++)
        is_there |= add->at[i] == number;
    if (!is_there)
        VEC_PUSH(add, number);
}

void climb_pick_over(struct climb *climb, uint64_t now_ns, struct climb_plan *plan)
{
    bool is_dear = climb->options.metric == CLIMB_VALUE && climb_spent(climb, now_ns) > VALUED_SPENT;
    double share = 0, idle_ns = 0;
    for (size_t i = 0; i < climb->hook.n; i++) {
        struct climb_hook *hook = &climb->hook.at[i];
        if (!hook->is_live)
            continue;
        climb_weigh(climb, hook, now_ns);
        if (is_dear || (!is_needed(climb, hook) && is_over(climb, hook, now_ns))) {
            end_burst(climb, hook, now_ns);
            share += hook->share;
            idle_ns += hook->share * (double)(now_ns - hook->over_ns);
            VEC_PUSH(&plan->remove, hook->function);
        } else {
            plan->live++;
            if (climb_has_told(climb, hook, climb_burst_quota(climb)))
                climb_arm(climb, hook, climb->options.period_calls);
        }
    }
    plan->is_urgent = is_dear ? plan->remove.n : share > URGENT || idle_ns > URGENT_NS;
}

/* Enough is known to say what is hot. */
static bool has_heat(const struct climb *climb)
{
    double least = climb_counts_executions(climb) ? 1e-9 : (double)FEW_SAMPLES * (double)climb->options.sample_ns;
    return climb->options.metric == CLIMB_VALUE || climb->heat >= least;
}

void climb_pick_next(struct climb *climb, uint64_t now_ns, struct climb_plan *plan)
{
    unsigned live = plan->live;
    climb_numbers hot = {0};
    wishes list = {0};
    if (has_heat(climb))
        climb_hot_now(climb, &hot);
    for (size_t i = 0; i < hot.n; i++)
        wish_for_chains(climb, hot.at[i], &list, plan);
    if (list.n)
        qsort(list.at, list.n, sizeof *list.at, heaviest_first);
    for (size_t i = 0; i < list.n; i++)
        plan->needs_stacks |= climb_needs_stacks(climb->function.at[list.at[i].function]);
    plan->wants_stacks |= plan->needs_stacks || (hot.n && climb->stacks_taken < STACKS_LEAST);
    bool others = false;
    for (size_t i = 0; i < list.n && live + climb->valued.n < climb->options.hooks; i++)
        if (is_wanted(climb, climb->function.at[list.at[i].function], now_ns)) {
            VEC_PUSH(&plan->add, list.at[i].function);
            others |= !climb_is_valued(climb, list.at[i].function);
            live++;
        }
    for (size_t i = 0; i < climb->valued.n && others; i++)
        want_again(climb, climb->valued.at[i], &plan->add);
    VEC_FREE(&list);
    VEC_FREE(&hot);
}
