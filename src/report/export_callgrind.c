/* callgrind.out: for each function what it costs itself, and for each function that it calls how often and what that costs.
 *
 * callgrind_annotate takes the inclusive cost of a function to be the sum of what calls of it cost. With recursion that would count for
 * each level; so calls of a function that is on the stack already are counted but cost nothing, as ArcFlow's rParent rows do not add to
 * Cum: the sum is what was spent while the function was on the stack. */
#include "report/export.h"
#include "report/order.h"

#include "base/escape.h"
#include "base/names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Routines are numbered here as they appear in the tree, whatever order its threads were read in. */
struct arc {
    uint32_t caller, callee;
    uint64_t calls;
    int64_t cost;
};

struct callgrind {
    struct profile *profile;
    const struct tree *tree;
    const struct tree_node *node;
    struct order order;
    order_nodes nodes;         /* each before its children */
    uint32_t *number;          /* by routine of the set: its number here; TRACE_NONE: none yet */
    VEC(uint32_t) routine;     /* by number here */
    int64_t *self;             /* by number, as what follows */
    VEC(struct arc) arc;       /* sorted */
    struct names object, file; /* that were written out: once each */
    bool *function_is_told;
    FILE *out;
};

static int compare_arcs(const void *a, const void *b)
{
    const struct arc *x = a, *y = b;
    if (x->caller != y->caller)
        return x->caller < y->caller ? -1 : 1;
    return x->callee < y->callee ? -1 : x->callee > y->callee;
}

static uint32_t number_of(struct callgrind *callgrind, uint32_t routine)
{
    if (callgrind->number[routine] == TRACE_NONE) {
        callgrind->number[routine] = (uint32_t)callgrind->routine.n;
        VEC_PUSH(&callgrind->routine, routine);
    }
    return callgrind->number[routine];
}

static void add(int64_t *sum, int64_t value)
{
    *sum = (int64_t)((uint64_t)*sum + (uint64_t)value);
}

static void collect(struct callgrind *callgrind)
{
    const struct profile *profile = callgrind->profile;
    const struct tree_node *node = callgrind->node;
    for (size_t i = 0; i < callgrind->nodes.n; i++) {
        uint32_t at = callgrind->nodes.at[i];
        uint32_t number = number_of(callgrind, node[at].routine);
        add(&callgrind->self[number], export_value(profile, callgrind->tree, at));
        if (!at)
            continue;
        uint64_t calls = profile->what == TREE_EVENTS ? node[at].calls : callgrind->order.samples[at];
        int64_t cost = node[at].recursion > 1 ? 0 : tree_cum(callgrind->tree, at, profile->what, profile->metric);
        VEC_PUSH(&callgrind->arc, (struct arc){number_of(callgrind, node[node[at].parent].routine), number, calls, cost});
    }
    if (callgrind->arc.n)
        qsort(callgrind->arc.at, callgrind->arc.n, sizeof *callgrind->arc.at, compare_arcs);
    size_t kept = 0;
    for (size_t i = 0; i < callgrind->arc.n; i++) {
        struct arc *last = kept ? &callgrind->arc.at[kept - 1] : NULL;
        if (last && !compare_arcs(last, &callgrind->arc.at[i])) {
            last->calls += callgrind->arc.at[i].calls;
            add(&last->cost, callgrind->arc.at[i].cost);
        } else {
            callgrind->arc.at[kept++] = callgrind->arc.at[i];
        }
    }
    callgrind->arc.n = kept;
}

/* ---- writing ---- */

/* Costs have no sign. */
static void put_cost(struct callgrind *callgrind, int64_t cost)
{
    callgrind->profile->left_out += cost < 0;
    fprintf(callgrind->out, "%" PRId64 "\n", cost < 0 ? 0 : cost);
}

/* "key=(1) name", and "key=(1)" from the second time on. */
static void put_text(struct callgrind *callgrind, const char *key, struct names *known, const char *text)
{
    size_t known_before = known->text.n;
    uint32_t number = names_number(known, text);
    fprintf(callgrind->out, "%s=(%" PRIu32 ")", key, number + 1);
    if (number == known_before) {
        putc_unlocked(' ', callgrind->out);
        escape_plain(callgrind->out, text);
    }
    putc_unlocked('\n', callgrind->out);
}

static void put_function(struct callgrind *callgrind, uint32_t number, bool is_called)
{
    const struct tree_set *set = callgrind->profile->set;
    uint32_t line = 0, routine = callgrind->routine.at[number];
    const char *module = tree_routine_module(set, routine), *file = tree_routine_file(set, routine, &line);
    put_text(callgrind, is_called ? "cob" : "ob", &callgrind->object, module ? module : "???");
    put_text(callgrind, is_called ? "cfi" : "fl", &callgrind->file, file ? file : "???");
    fprintf(callgrind->out, "%s=(%" PRIu32 ")", is_called ? "cfn" : "fn", number + 1);
    if (!callgrind->function_is_told[number]) {
        callgrind->function_is_told[number] = true;
        putc_unlocked(' ', callgrind->out);
        escape_plain(callgrind->out, tree_routine(set, routine));
    }
    putc_unlocked('\n', callgrind->out);
}

static uint32_t line_of(const struct callgrind *callgrind, uint32_t number)
{
    uint32_t line = 0;
    return tree_routine_file(callgrind->profile->set, callgrind->routine.at[number], &line) ? line : 0;
}

static void put_functions(struct callgrind *callgrind)
{
    FILE *out = callgrind->out;
    size_t next = 0;
    for (uint32_t number = 0; number < callgrind->routine.n; number++) {
        size_t first = next;
        while (next < callgrind->arc.n && callgrind->arc.at[next].caller == number)
            next++;
        if (first == next && !callgrind->self[number])
            continue;
        putc_unlocked('\n', out);
        put_function(callgrind, number, false);
        fprintf(out, "%" PRIu32 " ", line_of(callgrind, number));
        put_cost(callgrind, callgrind->self[number]);
        for (size_t i = first; i < next; i++) {
            const struct arc *arc = &callgrind->arc.at[i];
            put_function(callgrind, arc->callee, true);
            fprintf(out, "calls=%" PRIu64 " %" PRIu32 "\n%" PRIu32 " ", arc->calls, line_of(callgrind, arc->callee),
                    line_of(callgrind, number));
            put_cost(callgrind, arc->cost);
        }
    }
}

static void put_head(struct callgrind *callgrind, const char *program)
{
    const struct profile *profile = callgrind->profile;
    const struct trace_metric *metric = &profile->metrics[profile->metric];
    FILE *out = callgrind->out;
    fprintf(out, "# callgrind format\nversion: 1\ncreator: %s\ncmd: ", program);
    escape_plain(out, profile->info->about.command ? profile->info->about.command : "");
    fputs("\npositions: line\nevents: ", out);
    for (const char *at = metric->name; *at; at++) /* a word of letters, digits and _ */
        putc_unlocked((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ? *at : '_', out);
    fputs("\nsummary: ", out);
    put_cost(callgrind, tree_cum(callgrind->tree, 0, profile->what, profile->metric));
}

struct err *export_callgrind(struct profile *profile, const struct report_options *options, FILE *out)
{
    struct callgrind callgrind = {.profile = profile, .tree = profile_sum(profile), .out = out};
    size_t count, routines = tree_routine_count(profile->set);
    callgrind.node = tree_nodes(callgrind.tree, &count);
    callgrind.order = (struct order){.set = profile->set,
                                     .tree = callgrind.tree,
                                     .which = profile->what == TREE_EVENTS ? ORDER_EVENTS : ORDER_SAMPLES,
                                     .metric = profile->metric};
    order_init(&callgrind.order);
    order_walk(&callgrind.order, &callgrind.nodes);
    callgrind.number = memory_alloc((routines + 1) * sizeof *callgrind.number);
    memset(callgrind.number, 0xff, (routines + 1) * sizeof *callgrind.number);
    callgrind.self = memory_zero(routines + 1, sizeof *callgrind.self);
    callgrind.function_is_told = memory_zero(routines + 1, sizeof *callgrind.function_is_told);
    collect(&callgrind);
    put_head(&callgrind, options->program);
    put_functions(&callgrind);
    int64_t total = tree_cum(callgrind.tree, 0, profile->what, profile->metric);
    fprintf(out, "\ntotals: %" PRId64 "\n", total < 0 ? 0 : total);
    free(callgrind.self);
    free(callgrind.number);
    VEC_FREE(&callgrind.routine);
    free(callgrind.function_is_told);
    names_deinit(&callgrind.object);
    names_deinit(&callgrind.file);
    VEC_FREE(&callgrind.arc);
    VEC_FREE(&callgrind.nodes);
    order_deinit(&callgrind.order);
    return NULL;
}
