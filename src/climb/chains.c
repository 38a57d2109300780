/* From what was measured to chains: who accounts for a hot spot's time, level by level. */
#include "climb/internal.h"

#include <stdlib.h>

/* Enough samples to say more than the clock does. */
enum { SEEN_ENOUGH = 100 };

static uint64_t seen_of(const struct climb_caller *caller, uint32_t hot)
{
    for (size_t i = 0; i < caller->seen.n; i++)
        if (caller->seen.at[i].hot == hot)
            return caller->seen.at[i].ns;
    return 0;
}

/* Which number tells callers apart best: samples of the hot spot inside of calls, time, calls; of a function that is never entered,
 * stacks. */
enum basis { BY_VALUE, BY_SEEN, BY_CPU, BY_WALL, BY_CALLS, BY_STACKS };

static enum basis basis_of(const struct climb *climb, const struct climb_function *function, uint32_t hot)
{
    uint64_t seen = 0, cpu = 0, wall = 0, calls = 0, value = 0;
    for (size_t i = 0; i < function->caller.n; i++) {
        seen += seen_of(&function->caller.at[i], hot);
        cpu += function->caller.at[i].cpu_ns;
        wall += function->caller.at[i].wall_ns;
        calls += function->caller.at[i].calls;
        value += function->caller.at[i].value;
    }
    if (climb->options.metric == CLIMB_VALUE && value)
        return BY_VALUE;
    if (climb->options.metric == CLIMB_CALLS && calls)
        return BY_CALLS;
    if (seen >= SEEN_ENOUGH * climb->options.sample_ns)
        return BY_SEEN;
    if (climb->options.metric == CLIMB_CPU && cpu)
        return BY_CPU;
    return wall ? BY_WALL : calls ? BY_CALLS : BY_STACKS;
}

static double weight(const struct climb_caller *caller, enum basis basis, uint32_t hot)
{
    switch (basis) {
    case BY_VALUE:
        return (double)caller->value;
    case BY_SEEN:
        return (double)seen_of(caller, hot);
    case BY_CPU:
        return (double)caller->cpu_ns;
    case BY_WALL:
        return (double)caller->wall_ns;
    case BY_CALLS:
        return (double)caller->calls;
    case BY_STACKS:
        return (double)caller->stacks;
    }
    return 0;
}

/* Of the whole stacks that show the function, how many; and of these, those with a caller from which no call was measured: it is on the
 * stack all the time, like a loop that everything runs in. */
static uint64_t still_stacks(const struct climb_function *function, uint64_t *all)
{
    uint64_t still = 0;
    *all = 0;
    for (size_t i = 0; i < function->caller.n; i++) {
        *all += function->caller.at[i].stacks;
        still += function->caller.at[i].calls ? 0 : function->caller.at[i].stacks;
    }
    return still;
}

double climb_part(const struct climb *climb, const struct climb_function *function, size_t caller, uint32_t hot)
{
    enum { STACKS_ENOUGH = 10 };
    enum basis basis = basis_of(climb, function, hot);
    double all = 0;
    for (size_t i = 0; i < function->caller.n; i++)
        all += weight(&function->caller.at[i], basis, hot);
    double part = all > 0 ? weight(&function->caller.at[caller], basis, hot) / all : 0;
    uint64_t stacks, still = still_stacks(function, &stacks);
    if (basis == BY_STACKS || stacks < STACKS_ENOUGH)
        return part;
    if (!function->caller.at[caller].calls)
        return (double)function->caller.at[caller].stacks / (double)stacks;
    return part * (double)(stacks - still) / (double)stacks;
}

/* The same for a call that has another one of the function inside of it: whole stacks tell, where there are some. */
static double outer_part(const struct climb *climb, const struct climb_function *function, size_t caller, uint32_t hot)
{
    enum { ENOUGH = 5 };
    uint64_t all = 0;
    for (size_t i = 0; i < function->caller.n; i++)
        all += function->caller.at[i].outer_stacks;
    return all >= ENOUGH ? (double)function->caller.at[caller].outer_stacks / (double)all : climb_part(climb, function, caller, hot);
}

static bool is_on_path(const climb_links *links, uint32_t link, uint32_t function)
{
    for (; link != CLIMB_NONE; link = links->at[link].parent)
        if (links->at[link].function == function)
            return true;
    return false;
}

/* Who is above a function, by share, when what is on the way up already is passed through: mass that reaches a function of the way goes on
 * to that one's callers, until all of it has left. So a recursion is climbed out of, wherever it is left. */
struct above {
    uint32_t function;
    double share;
};
typedef VEC(struct above) aboves;

static double *share_of(aboves *list, uint32_t function)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i].function == function)
            return &list->at[i].share;
    VEC_PUSH(list, (struct above){function, 0});
    return &list->at[list->n - 1].share;
}

static void find_above(const struct climb *climb, const climb_links *links, uint32_t at, aboves *out)
{
    enum { ROUNDS = 200 };
    uint32_t hot = links->at[0].function;
    aboves inside = {0};
    *share_of(&inside, links->at[at].function) = 1;
    double left = 1;
    for (int round = 0; round < ROUNDS && left > 1e-4; round++) {
        aboves next = {0};
        left = 0;
        for (size_t i = 0; i < inside.n; i++) {
            const struct climb_function *function = climb->function.at[inside.at[i].function];
            for (size_t k = 0; k < function->caller.n; k++) {
                uint32_t caller = function->caller.at[k].function;
                double share = inside.at[i].share * (round ? outer_part : climb_part)(climb, function, k, hot);
                if (caller == CLIMB_NONE || !is_on_path(links, at, caller)) {
                    *share_of(out, caller) += share;
                } else {
                    *share_of(&next, caller) += share;
                    left += share;
                }
            }
        }
        VEC_FREE(&inside);
        inside.at = next.at;
        inside.n = next.n;
        inside.room = next.room;
    }
    VEC_FREE(&inside);
    double all = 0;
    for (size_t i = 0; i < out->n; i++)
        all += out->at[i].share;
    if (all <= 0)
        out->n = 0;
    for (size_t i = 0; i < out->n; i++)
        out->at[i].share /= all;
}

void climb_chains(const struct climb *climb, uint32_t hot, double least, climb_links *out)
{
    enum { LEVELS = 256, LINKS = 20000 };
    VEC_PUSH(out, (struct climb_link){.function = hot, .parent = CLIMB_NONE, .share = 1});
    for (uint32_t at = 0; at < out->n; at++) {
        struct climb_link link = out->at[at];
        aboves above = {0};
        find_above(climb, out, at, &above);
        bool any = climb->function.at[link.function]->caller.n;
        out->at[at].end = !any ? CLIMB_OPEN : !above.n ? CLIMB_RECURSION : CLIMB_SMALL;
        for (size_t i = 0; i < above.n; i++) {
            double share = link.share * above.at[i].share;
            if (above.at[i].function == CLIMB_NONE && above.at[i].share > 0.5)
                out->at[at].end = CLIMB_ROOT;
            if (above.at[i].function != CLIMB_NONE && share >= least && link.level < LEVELS && out->n < LINKS)
                VEC_PUSH(out, (struct climb_link){.function = above.at[i].function, .parent = at, .level = link.level + 1, .share = share});
        }
        VEC_FREE(&above);
    }
}

/* ---- hot spots ---- */

struct ranked {
    uint32_t function;
    double share;
};

static int hottest_first(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->share > y->share ? -1 : x->share < y->share;
}

double climb_hot_share(const struct climb *climb, const struct climb_function *function)
{
    if (climb_counts_executions(climb))
        return climb->rate > 0 ? function->rate / climb->rate : 0;
    return climb->totals.sampled_ns ? (double)function->self_ns / (double)climb->totals.sampled_ns : 0;
}

uint64_t climb_executions(const struct climb *climb, const struct climb_function *function)
{
    return climb->rate_rounds ? (uint64_t)(function->rate / climb->rate_rounds * (double)climb->cpu_ns / 1e9) : 0;
}

static void rank(const struct climb *climb, bool now, climb_numbers *out)
{
    for (size_t i = 0; i < climb->valued.n; i++)
        VEC_PUSH(out, climb->valued.at[i]);
    if (climb->options.metric == CLIMB_VALUE)
        return;
    VEC(struct ranked) list = {0};
    for (uint32_t i = 0; i < climb->function.n; i++) {
        const struct climb_function *function = climb->function.at[i];
        double heat_share = climb->heat > 0 ? function->heat / climb->heat : 0;
        double share = now ? heat_share : climb_hot_share(climb, function);
        if (share > 0)
            VEC_PUSH(&list, (struct ranked){i, share});
    }
    if (list.n)
        qsort(list.at, list.n, sizeof *list.at, hottest_first);
    bool any = list.n && list.at[0].share >= climb->options.threshold;
    for (size_t i = 0; i < list.n && (any ? list.at[i].share >= climb->options.threshold : i < climb->options.top); i++)
        VEC_PUSH(out, list.at[i].function);
    VEC_FREE(&list);
}

void climb_hot_spots(const struct climb *climb, climb_numbers *out)
{
    rank(climb, false, out);
}

void climb_hot_now(const struct climb *climb, climb_numbers *out)
{
    rank(climb, true, out);
}
