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

struct arc {
    uint32_t caller, callee;
    uint64_t calls, cost;
};

struct callgrind {
    const struct profile *profile;
    const struct tree *tree;
    const struct tree_node *node;
    struct order order;
    order_nodes nodes;         /* each before its children */
    uint64_t *self;            /* by routine */
    VEC(struct arc) arc;       /* sorted */
    struct names object, file; /* that were written out: once each */
    bool *function_is_told;    /* by routine: likewise */
    FILE *out;
};

static int compare_arcs(const void *a, const void *b)
{
    const struct arc *x = a, *y = b;
    if (x->caller != y->caller)
        return x->caller < y->caller ? -1 : 1;
    return x->callee < y->callee ? -1 : x->callee > y->callee;
}

static void collect(struct callgrind *callgrind)
{
    const struct profile *profile = callgrind->profile;
    const struct tree_node *node = callgrind->node;
    for (size_t i = 0; i < callgrind->nodes.n; i++) {
        uint32_t at = callgrind->nodes.at[i];
        callgrind->self[node[at].routine] += tree_base(callgrind->tree, at, profile->what, profile->metric) +
                                             tree_folded(callgrind->tree, at, profile->what, profile->metric);
        if (!at)
            continue;
        uint64_t calls = profile->what == TREE_EVENTS ? node[at].calls : callgrind->order.samples[at];
        uint64_t cost = node[at].recursion > 1 ? 0 : tree_cum(callgrind->tree, at, profile->what, profile->metric);
        VEC_PUSH(&callgrind->arc, (struct arc){node[node[at].parent].routine, node[at].routine, calls, cost});
    }
    if (callgrind->arc.n)
        qsort(callgrind->arc.at, callgrind->arc.n, sizeof *callgrind->arc.at, compare_arcs);
    size_t kept = 0;
    for (size_t i = 0; i < callgrind->arc.n; i++) {
        struct arc *last = kept ? &callgrind->arc.at[kept - 1] : NULL;
        if (last && !compare_arcs(last, &callgrind->arc.at[i])) {
            last->calls += callgrind->arc.at[i].calls;
            last->cost += callgrind->arc.at[i].cost;
        } else {
            callgrind->arc.at[kept++] = callgrind->arc.at[i];
        }
    }
    callgrind->arc.n = kept;
}

/* ---- writing ---- */

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

static void put_function(struct callgrind *callgrind, uint32_t routine, bool is_called)
{
    const struct tree_set *set = callgrind->profile->set;
    uint32_t line = 0;
    const char *module = tree_routine_module(set, routine), *file = tree_routine_file(set, routine, &line);
    put_text(callgrind, is_called ? "cob" : "ob", &callgrind->object, module ? module : "???");
    put_text(callgrind, is_called ? "cfi" : "fl", &callgrind->file, file ? file : "???");
    fprintf(callgrind->out, "%s=(%" PRIu32 ")", is_called ? "cfn" : "fn", routine + 1);
    if (!callgrind->function_is_told[routine]) {
        callgrind->function_is_told[routine] = true;
        putc_unlocked(' ', callgrind->out);
        escape_plain(callgrind->out, tree_routine(set, routine));
    }
    putc_unlocked('\n', callgrind->out);
}

static uint32_t line_of(const struct callgrind *callgrind, uint32_t routine)
{
    uint32_t line = 0;
    return tree_routine_file(callgrind->profile->set, routine, &line) ? line : 0;
}

static void put_functions(struct callgrind *callgrind)
{
    FILE *out = callgrind->out;
    size_t routines = tree_routine_count(callgrind->profile->set), next = 0;
    for (uint32_t routine = 0; routine < routines; routine++) {
        size_t first = next;
        while (next < callgrind->arc.n && callgrind->arc.at[next].caller == routine)
            next++;
        if (first == next && !callgrind->self[routine])
            continue;
        putc_unlocked('\n', out);
        put_function(callgrind, routine, false);
        fprintf(out, "%" PRIu32 " %" PRIu64 "\n", line_of(callgrind, routine), callgrind->self[routine]);
        for (size_t i = first; i < next; i++) {
            const struct arc *arc = &callgrind->arc.at[i];
            put_function(callgrind, arc->callee, true);
            fprintf(out, "calls=%" PRIu64 " %" PRIu32 "\n%" PRIu32 " %" PRIu64 "\n", arc->calls, line_of(callgrind, arc->callee),
                    line_of(callgrind, routine), arc->cost);
        }
    }
}

static void put_head(const struct callgrind *callgrind, const char *program)
{
    const struct profile *profile = callgrind->profile;
    const struct trace_metric *metric = &profile->metrics[profile->metric];
    FILE *out = callgrind->out;
    fprintf(out, "# callgrind format\nversion: 1\ncreator: %s\ncmd: ", program);
    escape_plain(out, profile->info->about.command ? profile->info->about.command : "");
    fputs("\npositions: line\nevents: ", out);
    for (const char *at = metric->name; *at; at++) /* a word of letters, digits and _ */
        putc_unlocked((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ? *at : '_', out);
    fprintf(out, "\nsummary: %" PRIu64 "\n", tree_cum(callgrind->tree, 0, profile->what, profile->metric));
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
    callgrind.self = memory_zero(routines + 1, sizeof *callgrind.self);
    callgrind.function_is_told = memory_zero(routines + 1, sizeof *callgrind.function_is_told);
    collect(&callgrind);
    put_head(&callgrind, options->program);
    put_functions(&callgrind);
    fprintf(out, "\ntotals: %" PRIu64 "\n", tree_cum(callgrind.tree, 0, profile->what, profile->metric));
    free(callgrind.self);
    free(callgrind.function_is_told);
    names_deinit(&callgrind.object);
    names_deinit(&callgrind.file);
    VEC_FREE(&callgrind.arc);
    VEC_FREE(&callgrind.nodes);
    order_deinit(&callgrind.order);
    return NULL;
}
