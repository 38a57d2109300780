/* Hot spots by executions (CLIMB_HOT_CALLS): which functions are called most.
 *
 * To count all calls of a program all the time is what a climb avoids, so counting probes (LOAD_COUNT: they tell nothing, they add one)
 * come for short rounds and go. There are two kinds of rounds.
 *
 * The survey counts every function that the process has mapped, a slice of them at a time, each slice until the process has used the
 * processor for a while. A few functions have nearly all the calls: those that have had many are shed, which is to say that their probes go
 * before the round is over, so that a survey costs about the same whatever is called. The functions with the highest rates are the leaders.
 *
 * Leaders are counted together, and with them the functions where most samples are, in rounds that are spread over time. Their rates in
 * these rounds are what makes functions hot.
 *
 * A survey sees little of what a program does. It goes on with the functions of modules that are mapped later, and is repeated now and
 * then. What is called often only after a survey is mostly sampled then, too, so that it is counted long before the next survey. pace.c
 * says what all this may cost.
 *
 * Rules
 *  1. Between two rounds there is no counting probe. A round ends after some time, some processor time, or some executions, whatever is
 *     first, and is ended whether there is anything left to spend or not.
 *  2. While a slice is planned and counted no function is hooked: it takes long to plan one.
 *  3. Rates are executions in a second of processor time, so rounds compare whatever else the machine does. */
#include "climb/internal.h"

#include "base/clock.h"
#include "load/resolve.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Functions counted at a time: in a survey; leaders; with them, by samples. */
enum { SLICE = 2048, LEADERS = 64, SAMPLED = 64 };
/* A round is over after so much of the process's processor time, or of the clock's; or after so many executions. */
enum { SURVEY_CPU_NS = 50000000, LEADERS_CPU_NS = 20000000, ROUND_MOST_NS = 1000000000, SURVEY_HITS = 500000, LEADERS_HITS = 30000 };
/* Whenever there were so many executions in the survey's round, functions that have had one of SHED_PART of them are shed. */
enum { SHED_HITS = 100000, SHED_PART = 200 };
/* From the end of one to the next, and not less than so many times what it took. */
enum { SURVEY_REST_NS = 2000000000, LEADERS_REST_NS = 100000000, REST_TIMES = 3 };
/* A process is left alone until it has used the processor. What a command does at first, it does only once. */
enum { SAMPLES_LEAST = 1, SAMPLES_OF_COMMAND = 30 };

static uint64_t cpu_ns_of(pid_t pid)
{
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &time))
        return 0;
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- candidates ---- */

static void add_candidates(struct climb_census *census, const struct load_code *code)
{
    size_t count;
    const struct symbol_func *func = symbol_file_funcs(code->file, &count);
    uint64_t last_va = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        struct load_resolved entry = {0};
        if (func[i].source == SYMBOL_FROM_PLT || func[i].is_fragment || func[i].va == last_va)
            continue;
        last_va = func[i].va;
        load_resolve_func(code, &func[i], SPEC_ENTRY, &entry);
        if (entry.place.n)
            VEC_PUSH(&census->candidate, (struct climb_candidate){.code = code,
                                                                  .func_va = entry.place.at[0].func_va,
                                                                  .func_size = entry.place.at[0].func_size,
                                                                  .va = entry.place.at[0].va});
        load_resolved_deinit(&entry);
    }
}

void climb_census_look(struct climb *climb)
{
    struct climb_census *census = &climb->census;
    for (size_t i = 0; i < climb->range.n && climb_counts_executions(climb); i++) {
        const struct climb_range *range = &climb->range.at[i];
        bool is_known = !range->code || range->module->is_vdso;
        for (size_t k = 0; k < census->code.n && !is_known; k++)
            is_known = census->code.at[k].code == range->code;
        if (is_known)
            continue;
        struct climb_counted_code counted = {.code = range->code, .first = census->candidate.n};
        add_candidates(census, range->code);
        counted.count = census->candidate.n - counted.first;
        VEC_PUSH(&census->code, counted);
    }
}

static uint32_t find_candidate(const struct climb_census *census, const struct load_code *code, uint64_t va)
{
    size_t low = 0, high = 0;
    for (size_t i = 0; i < census->code.n && !high; i++)
        if (census->code.at[i].code == code) {
            low = census->code.at[i].first;
            high = low + census->code.at[i].count;
        }
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (census->candidate.at[middle].va == va)
            return (uint32_t)middle;
        if (census->candidate.at[middle].va < va)
            low = middle + 1;
        else
            high = middle;
    }
    return CLIMB_NONE;
}

/* Where the candidate's module is mapped now; NULL: it is not. */
static const struct climb_range *range_of(const struct climb *climb, const struct climb_candidate *candidate)
{
    for (size_t i = 0; i < climb->range.n; i++)
        if (climb->range.at[i].code == candidate->code)
            return &climb->range.at[i];
    return NULL;
}

/* ---- reading ---- */

/* The process can write its counters: what goes back is nothing. */
static void read_counters(struct climb *climb)
{
    struct climb_census *census = &climb->census;
    uint64_t hits = 0;
    for (size_t i = 0; i < census->in.n; i++) {
        struct climb_counting *in = &census->in.at[i];
        uint64_t seen = load_process_counter(climb->process, in->counter), more = seen > in->seen ? seen - in->seen : 0;
        in->seen = seen;
        in->hits += more;
        hits += more;
    }
    census->hits += hits;
    census->read_ns = clock_now_ns();
    census->read_cpu_ns = cpu_ns_of(climb->pid);
    climb_pay_counting(climb, hits);
}

static uint64_t round_cpu_ns(const struct climb_census *census)
{
    return census->read_cpu_ns > census->since_cpu_ns ? census->read_cpu_ns - census->since_cpu_ns : 0;
}

static double rate_of(const struct climb_census *census, const struct climb_counting *in)
{
    const double least_ns = 1e6; /* less than that says nothing about a second */
    double cpu_ns = (double)round_cpu_ns(census);
    return (double)in->hits / (cpu_ns > least_ns ? cpu_ns : least_ns) * 1e9;
}

/* A function that was called often when it was counted before stays a candidate for a while. */
static void settle_survey(struct climb_census *census, const struct climb_counting *in)
{
    struct climb_candidate *candidate = &census->candidate.at[in->candidate];
    double rate = rate_of(census, in);
    candidate->rate = rate > candidate->rate / 2 ? rate : candidate->rate / 2;
}

static void settle_leader(struct climb *climb, const struct climb_counting *in)
{
    const struct climb_census *census = &climb->census;
    const struct climb_candidate *candidate = &census->candidate.at[in->candidate];
    const struct climb_range *range = range_of(climb, candidate);
    uint32_t number = range ? climb_find(climb, candidate->va + range->bias) : CLIMB_NONE;
    double rate = rate_of(census, in);
    climb->rate += rate / census->part;
    climb->heat += rate / census->part;
    if (number == CLIMB_NONE)
        return;
    climb->function.at[number]->rate += rate;
    climb->function.at[number]->heat += rate;
}

static void settle(struct climb *climb)
{
    struct climb_census *census = &climb->census;
    for (size_t i = 0; i < census->in.n; i++)
        if (census->round == CLIMB_SURVEY)
            settle_survey(census, &census->in.at[i]);
        else
            settle_leader(climb, &census->in.at[i]);
    climb->rate_rounds += census->in.n && census->round == CLIMB_LEADERS;
    climb->totals.counting_ns += census->in.n ? census->read_ns - census->since_ns : 0;
    census->in.n = 0;
    climb->totals.counting_now = 0;
}

/* ---- leaders ---- */

static int highest_first(const void *a, const void *b, void *context)
{
    const struct climb_census *census = context;
    double x = census->candidate.at[*(const uint32_t *)a].rate, y = census->candidate.at[*(const uint32_t *)b].rate;
    return x > y ? -1 : x < y;
}

static void choose_leaders(struct climb_census *census)
{
    census->rate = 0;
    census->leader.n = 0;
    for (uint32_t i = 0; i < census->candidate.n; i++)
        if (census->candidate.at[i].rate > 0) {
            VEC_PUSH(&census->leader, i);
            census->rate += census->candidate.at[i].rate;
        }
    if (census->leader.n)
        qsort_r(census->leader.at, census->leader.n, sizeof *census->leader.at, highest_first, census);
    census->leader.n = census->leader.n < LEADERS ? census->leader.n : LEADERS;
}

static int most_samples_first(const void *a, const void *b, void *context)
{
    const struct climb *climb = context;
    uint64_t x = climb->function.at[*(const uint32_t *)a]->samples, y = climb->function.at[*(const uint32_t *)b]->samples;
    return x > y ? -1 : x < y;
}

/* The leaders of the survey, and functions where most samples are. */
static void list_leaders(struct climb *climb, climb_numbers *out)
{
    struct climb_census *census = &climb->census;
    climb_numbers sampled = {0};
    for (size_t i = 0; i < census->leader.n; i++)
        VEC_PUSH(out, census->leader.at[i]);
    for (uint32_t i = 0; i < climb->function.n; i++)
        if (climb->function.at[i]->samples)
            VEC_PUSH(&sampled, i);
    if (sampled.n)
        qsort_r(sampled.at, sampled.n, sizeof *sampled.at, most_samples_first, climb);
    for (size_t i = 0; i < sampled.n && i < SAMPLED; i++) {
        const struct climb_function *function = climb->function.at[sampled.at[i]];
        const struct climb_range *range = climb_range_of(climb, function);
        uint32_t candidate = range ? find_candidate(census, range->code, function->va) : CLIMB_NONE;
        bool is_there = candidate == CLIMB_NONE || census->candidate.at[candidate].cannot;
        for (size_t k = 0; k < census->leader.n && !is_there; k++)
            is_there = census->leader.at[k] == candidate;
        if (!is_there)
            VEC_PUSH(out, candidate);
    }
    VEC_FREE(&sampled);
}

/* ---- rounds ---- */

static struct load_request request_of(const struct climb_candidate *candidate, const struct climb_range *range, uint32_t counter,
                                      bool remove)
{
    return (struct load_request){.module = range->module,
                                 .func_va = candidate->func_va,
                                 .func_size = candidate->func_size,
                                 .remove = remove,
                                 .probe = {.va = candidate->va, .counter = counter, .action = LOAD_COUNT, .no_trap = true}};
}

static struct err *change(struct climb *climb, load_requests *list, bool adds)
{
    struct climb_census *census = &climb->census;
    uint64_t before_ns = climb->totals.stopped_ns;
    climb_begin_stop(climb);
    struct err *error = list->n ? climb_change_in_hurry(climb, list->at, list->n, adds) : NULL;
    climb_note_stopped(climb);
    uint64_t stopped_ns = climb->totals.stopped_ns - before_ns;
    *(census->was_surveyed ? &census->cost[census->round].stopped_ns : &climb->free_ns) += stopped_ns;
    return error;
}

/* Counters are used again by every round: the process has so many of them from now on. */
static struct err *enough_counters(struct climb *climb, size_t count)
{
    while (climb->census.counter.n < count) {
        uint32_t counter;
        ERR_TRY(load_process_new_counter(climb->process, &counter));
        VEC_PUSH(&climb->census.counter, counter);
    }
    return NULL;
}

/* What was refused a probe is not counted, now or later. */
static void keep_placed(struct climb *climb, const load_requests *done)
{
    struct climb_census *census = &climb->census;
    size_t kept = 0;
    for (size_t i = 0; i < census->in.n; i++) {
        struct climb_counting in = census->in.at[i];
        struct climb_candidate *candidate = &census->candidate.at[in.candidate];
        candidate->cannot = done->at[i].kind == LOAD_REFUSED;
        climb->totals.uncounted += candidate->cannot;
        climb->totals.counted += !candidate->cannot && !candidate->is_counted;
        candidate->is_counted = !candidate->cannot;
        if (!candidate->cannot)
            census->in.at[kept++] = in;
    }
    census->in.n = kept;
}

/* Puts counting probes on these candidates, as far as their modules are mapped. */
static struct err *begin_round(struct climb *climb, enum climb_round round, const uint32_t *candidate, size_t count)
{
    struct climb_census *census = &climb->census;
    load_requests list = {0};
    census->round = round;
    climb_end_hurry(climb);
    struct err *error = enough_counters(climb, count);
    for (size_t i = 0; i < count && !error; i++) {
        uint32_t counter = census->counter.at[i];
        const struct climb_range *range = range_of(climb, &census->candidate.at[candidate[i]]);
        if (!range)
            continue;
        VEC_PUSH(&census->in, (struct climb_counting){candidate[i], counter, load_process_counter(climb->process, counter), 0});
        VEC_PUSH(&list, request_of(&census->candidate.at[candidate[i]], range, counter, false));
    }
    if (!error)
        error = change(climb, &list, true);
    if (!error)
        keep_placed(climb, &list);
    else
        census->in.n = 0;
    VEC_FREE(&list);
    census->hits = census->shed_hits = 0;
    census->since_ns = census->read_ns = clock_now_ns();
    census->since_cpu_ns = census->read_cpu_ns = cpu_ns_of(climb->pid);
    climb->totals.rounds += census->in.n > 0;
    climb->totals.counting_now = (unsigned)census->in.n;
    if (climb->totals.counting_most < climb->totals.counting_now)
        climb->totals.counting_most = climb->totals.counting_now;
    return error;
}

static struct err *begin_slice(struct climb *climb)
{
    struct climb_census *census = &climb->census;
    VEC(uint32_t) slice = {0};
    if (census->next == census->candidate.n)
        census->next = 0;
    if (!census->survey_ns)
        census->survey_ns = clock_now_ns();
    for (; census->next < census->candidate.n && slice.n < SLICE; census->next++)
        if (!census->candidate.at[census->next].cannot)
            VEC_PUSH(&slice, (uint32_t)census->next);
    struct err *error = begin_round(climb, CLIMB_SURVEY, slice.at, slice.n);
    VEC_FREE(&slice);
    return error;
}

static struct err *begin_leaders(struct climb *climb)
{
    climb_numbers list = {0};
    list_leaders(climb, &list);
    climb->census.part = 0;
    for (size_t i = 0; i < list.n; i++)
        climb->census.part += climb->census.candidate.at[list.at[i]].rate / climb->census.rate;
    struct err *error = begin_round(climb, CLIMB_LEADERS, list.at, list.n);
    VEC_FREE(&list);
    return error;
}

static uint64_t after_rest(uint64_t since_ns, uint64_t now_ns, uint64_t least_ns)
{
    uint64_t rest_ns = REST_TIMES * (now_ns - since_ns);
    return now_ns + (rest_ns > least_ns ? rest_ns : least_ns);
}

/* Takes out what has had at least so many executions. */
static struct err *take_out(struct climb *climb, uint64_t least)
{
    struct climb_census *census = &climb->census;
    load_requests list = {0};
    for (size_t i = 0; i < census->in.n; i++) {
        const struct climb_candidate *candidate = &census->candidate.at[census->in.at[i].candidate];
        const struct climb_range *range = census->in.at[i].hits >= least ? range_of(climb, candidate) : NULL;
        if (range)
            VEC_PUSH(&list, request_of(candidate, range, census->in.at[i].counter, true));
    }
    struct err *error = change(climb, &list, false);
    VEC_FREE(&list);
    return error;
}

static uint64_t shed_least(const struct climb_census *census)
{
    return (census->hits - census->shed_hits) / SHED_PART;
}

static struct err *shed(struct climb *climb)
{
    struct climb_census *census = &climb->census;
    uint64_t least = shed_least(census);
    size_t kept = 0;
    ERR_TRY(take_out(climb, least));
    for (size_t i = 0; i < census->in.n; i++) {
        struct climb_counting in = census->in.at[i];
        if (in.hits >= least)
            settle_survey(census, &in);
        else
            census->in.at[kept++] = in;
    }
    climb->totals.counting_ns += kept ? 0 : census->read_ns - census->since_ns;
    census->in.n = kept;
    census->shed_hits = census->hits;
    climb->totals.counting_now = (unsigned)kept;
    return NULL;
}

static struct err *end_round(struct climb *climb)
{
    struct climb_census *census = &climb->census;
    ERR_TRY(take_out(climb, 0));
    read_counters(climb);
    settle(climb);
    if (census->round == CLIMB_LEADERS) {
        census->next_ns[CLIMB_LEADERS] = after_rest(census->since_ns, census->read_ns, LEADERS_REST_NS);
    } else if (census->next == census->candidate.n) {
        census->next_ns[CLIMB_SURVEY] = after_rest(census->survey_ns, census->read_ns, SURVEY_REST_NS);
        census->survey_ns = 0;
        census->was_surveyed = true;
        choose_leaders(census);
    }
    return NULL;
}

/* ---- what is next ---- */

static bool is_round_over(const struct climb_census *census)
{
    bool surveys = census->round == CLIMB_SURVEY;
    uint64_t most_cpu_ns = surveys ? SURVEY_CPU_NS : LEADERS_CPU_NS, most_hits = surveys ? SURVEY_HITS : LEADERS_HITS;
    return census->hits >= most_hits || round_cpu_ns(census) >= most_cpu_ns || census->read_ns - census->since_ns >= ROUND_MOST_NS;
}

static bool is_survey_due(const struct climb *climb, uint64_t now_ns)
{
    const struct climb_census *census = &climb->census;
    bool is_command = load_session_command(climb->session) == climb->pid;
    if (climb->totals.samples - census->samples_before < (is_command ? SAMPLES_OF_COMMAND : SAMPLES_LEAST))
        return false;
    if (census->next == census->candidate.n && now_ns < census->next_ns[CLIMB_SURVEY])
        return false;
    return !census->was_surveyed || climb_spent_for(climb, CLIMB_SURVEY, now_ns) <= 1;
}

enum climb_step climb_census_next(struct climb *climb, uint64_t now_ns)
{
    struct climb_census *census = &climb->census;
    if (!climb_counts_executions(climb))
        return CLIMB_STEP_NONE;
    if (census->in.n) {
        read_counters(climb);
        bool has_many = census->round == CLIMB_SURVEY && census->hits - census->shed_hits >= SHED_HITS;
        return is_round_over(census) ? CLIMB_STEP_END : has_many ? CLIMB_STEP_SHED : CLIMB_STEP_NONE;
    }
    bool is_leaders_turn = census->leader.n && now_ns >= census->next_ns[CLIMB_LEADERS];
    if (is_leaders_turn && climb_spent_for(climb, CLIMB_LEADERS, now_ns) <= 1)
        return CLIMB_STEP_LEADERS;
    return census->candidate.n && is_survey_due(climb, now_ns) ? CLIMB_STEP_SLICE : CLIMB_STEP_NONE;
}

struct err *climb_census_do(struct climb *climb, enum climb_step step)
{
    struct climb_census *census = &climb->census;
    struct err *error = NULL;
    if (step == CLIMB_STEP_SLICE)
        error = begin_slice(climb);
    else if (step == CLIMB_STEP_LEADERS)
        error = begin_leaders(climb);
    else if (step == CLIMB_STEP_SHED)
        error = shed(climb);
    /* A round of which nothing is left is over. */
    return error || (census->in.n && step != CLIMB_STEP_END) ? error : end_round(climb);
}

/* ---- ending ---- */

void climb_census_forget(struct climb *climb)
{
    settle(climb);
    climb_census_free(climb);
    climb->census = (struct climb_census){.samples_before = climb->totals.samples};
}

void climb_census_free(struct climb *climb)
{
    VEC_FREE(&climb->census.candidate);
    VEC_FREE(&climb->census.code);
    VEC_FREE(&climb->census.leader);
    VEC_FREE(&climb->census.counter);
    VEC_FREE(&climb->census.in);
}
