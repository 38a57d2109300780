/* The indented tree, and the merged one, in which what samples saw hangs below what was called. */
#include "report/view.h"

#include <stdlib.h>
#include <string.h>

static const struct grid_column event_column[] = {
    {"level", "Lv", GRID_COUNT}, {"recursion", "RL", GRID_COUNT},   {"calls", "Calls", GRID_COUNT},    {"base", "Base", GRID_VALUE},
    {"cum", "Cum", GRID_VALUE},  {"elapsed", "Elapsed", GRID_TIME}, {"cum_share", "Cum%", GRID_SHARE},
};
/* Of another metric than time, elapsed is of that metric, and the time is told besides. */
static const struct grid_column used_column[] = {
    {"level", "Lv", GRID_COUNT}, {"recursion", "RL", GRID_COUNT},         {"calls", "Calls", GRID_COUNT}, {"base", "Base", GRID_VALUE},
    {"cum", "Cum", GRID_VALUE},  {"elapsed_used", "Elapsed", GRID_VALUE}, {"elapsed", "Time", GRID_TIME}, {"cum_share", "Cum%", GRID_SHARE},
};
static const struct grid_column sample_column[] = {
    {"level", "Lv", GRID_COUNT},  {"recursion", "RL", GRID_COUNT}, {"samples", "Samples", GRID_COUNT},
    {"base", "Base", GRID_VALUE}, {"cum", "Cum", GRID_VALUE},      {"cum_share", "Cum%", GRID_SHARE},
};
static const struct grid_column merged_column[] = {
    {"level", "Lv", GRID_COUNT},        {"recursion", "RL", GRID_COUNT},   {"calls", "Calls", GRID_COUNT},
    {"samples", "Samples", GRID_COUNT}, {"passed", "Passed", GRID_COUNT},  {"base", "Base", GRID_VALUE},
    {"cum", "Cum", GRID_VALUE},         {"elapsed", "Elapsed", GRID_TIME}, {"cum_share", "Cum%", GRID_SHARE},
};

static const struct grid_column merged_used_column[] = {
    {"level", "Lv", GRID_COUNT},        {"recursion", "RL", GRID_COUNT},         {"calls", "Calls", GRID_COUNT},
    {"samples", "Samples", GRID_COUNT}, {"passed", "Passed", GRID_COUNT},        {"base", "Base", GRID_VALUE},
    {"cum", "Cum", GRID_VALUE},         {"elapsed_used", "Elapsed", GRID_VALUE}, {"elapsed", "Time", GRID_TIME},
    {"cum_share", "Cum%", GRID_SHARE},
};

struct columns {
    const struct grid_column *column;
    size_t count;
};

static struct columns columns_of(enum order_which which, unsigned metric)
{
    if (which == ORDER_SAMPLES)
        return (struct columns){sample_column, sizeof sample_column / sizeof *sample_column};
    if (which == ORDER_EVENTS)
        return metric ? (struct columns){used_column, sizeof used_column / sizeof *used_column}
                      : (struct columns){event_column, sizeof event_column / sizeof *event_column};
    return metric ? (struct columns){merged_used_column, sizeof merged_used_column / sizeof *merged_used_column}
                  : (struct columns){merged_column, sizeof merged_column / sizeof *merged_column};
}

static void fill_cells(const struct order *order, uint32_t number, struct grid_row *row)
{
    size_t count;
    const struct tree_node *node = &tree_nodes(order->tree, &count)[number];
    enum tree_what what = order_what(order, number);
    unsigned metric = order->metric;
    int64_t base = tree_base(order->tree, number, what, metric), cum = tree_cum(order->tree, number, what, metric), *cell = row->cell;
    *cell++ = node->level;
    *cell++ = node->recursion;
    if (order->which != ORDER_SAMPLES)
        *cell++ = node->is_sampled ? GRID_NONE : (int64_t)node->calls;
    if (order->which != ORDER_EVENTS)
        *cell++ = (int64_t)tree_samples(order->tree, number, metric);
    if (order->which == ORDER_ALL)
        *cell++ = (int64_t)tree_passed(order->tree, number, metric);
    *cell++ = base;
    *cell++ = cum;
    if (order->which != ORDER_SAMPLES && metric)
        *cell++ = node->is_sampled ? GRID_NONE : tree_elapsed(order->tree, number, metric);
    if (order->which != ORDER_SAMPLES)
        *cell++ = node->is_sampled ? GRID_NONE : (int64_t)node->elapsed_ns;
    *cell = grid_share(cum, tree_cum(order->tree, 0, what, metric));
    row->level = node->level;
    row->mark = node->is_sampled && order->which == ORDER_ALL ? GRID_SAMPLED : GRID_PLAIN;
    view_fill_name(row, order->set, node->routine);
}

/* What a tree is shown by, unless a metric was chosen: a thread that has nothing of the first one is shown by another of the same unit, if
 * it has samples of one. That is the thread of a climb (record/record.h), beside those of the program. */
static unsigned metric_of(const struct view *view, const struct tree *tree)
{
    const struct profile *profile = view->profile;
    unsigned metric = profile->metric;
    if (view->options->metric || view->options->format != REPORT_TEXT || tree_cum(tree, 0, TREE_EVENTS, metric) ||
        tree_cum(tree, 0, TREE_SAMPLES, metric))
        return metric;
    for (unsigned i = 0; i < profile->metric_count && i < TREE_METRICS_MAX; i++)
        if (tree_has(tree, TREE_SAMPLES, i) && !strcmp(profile->metrics[i].unit, profile->metrics[metric].unit))
            return i;
    return metric;
}

static void one_tree(struct view *view, const struct tree *tree, enum order_which which)
{
    unsigned metric = metric_of(view, tree);
    if (metric != view->profile->metric && which == ORDER_EVENTS)
        which = ORDER_SAMPLES;
    struct order order = {.set = view->profile->set,
                          .tree = tree,
                          .which = which,
                          .sort = view->options->sort,
                          .metric = metric,
                          .min_share = view->options->min_share};
    order_init(&order);
    order_nodes nodes = {0};
    struct columns columns = columns_of(which, metric);
    struct grid grid = {.column = columns.column, .column_count = columns.count};
    grid.hidden = order_walk(&order, &nodes);
    for (size_t i = 0; i < nodes.n; i++) {
        struct grid_row row = {0};
        fill_cells(&order, nodes.at[i], &row);
        VEC_PUSH(&grid.row, row);
    }
    grid.title = grid.row.at[0].name;
    view_part(view, &grid);
    grid_deinit(&grid);
    VEC_FREE(&nodes);
    order_deinit(&order);
}

static void enlarge(uint64_t *largest, uint64_t value)
{
    *largest = value > *largest ? value : *largest;
}

static void measure(const struct tree *tree, unsigned metric, uint64_t *value, uint64_t *time_ns)
{
    size_t count;
    const struct tree_node *node = tree_nodes(tree, &count);
    enlarge(value, view_largest(tree, TREE_EVENTS, metric));
    enlarge(value, view_largest(tree, TREE_SAMPLES, metric));
    for (uint32_t i = 0; i < count; i++) {
        enlarge(time_ns, node[i].elapsed_ns);
        enlarge(value, metric ? grid_size(tree_elapsed(tree, i, metric)) : 0);
    }
}

void view_tree(struct view *view)
{
    struct profile *profile = view->profile;
    bool is_each = view_is_each(view, true) || profile->thread.n < 2;
    enum order_which which = view->options->view == REPORT_MERGED ? ORDER_ALL : profile->what == TREE_EVENTS ? ORDER_EVENTS : ORDER_SAMPLES;
    uint64_t value = 0, time_ns = 0;
    for (size_t i = 0; is_each && i < profile->thread.n; i++)
        measure(profile->thread.at[i].tree, metric_of(view, profile->thread.at[i].tree), &value, &time_ns);
    if (!is_each)
        measure(profile_sum(profile), profile->metric, &value, &time_ns);
    view_begin(view, value, time_ns);
    for (size_t i = 0; is_each && i < profile->thread.n; i++)
        one_tree(view, profile->thread.at[i].tree, which);
    if (!is_each)
        one_tree(view, profile_sum(profile), which);
    view_end(view);
}
