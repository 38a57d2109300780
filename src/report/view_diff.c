/* Two traces side by side: what costs more, what less. */
#include "report/view.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 6 };
static const struct grid_column event_column[] = {
    {"level", "Lv", GRID_COUNT},   {"calls_a", "CallsA", GRID_COUNT}, {"calls_b", "CallsB", GRID_COUNT},
    {"cum_a", "CumA", GRID_VALUE}, {"cum_b", "CumB", GRID_VALUE},     {"change", "Change", GRID_CHANGE},
};
static const struct grid_column sample_column[] = {
    {"level", "Lv", GRID_COUNT},   {"samples_a", "SamplesA", GRID_COUNT}, {"samples_b", "SamplesB", GRID_COUNT},
    {"cum_a", "CumA", GRID_VALUE}, {"cum_b", "CumB", GRID_VALUE},         {"change", "Change", GRID_CHANGE},
};

struct side {
    const struct tree *tree;
    const struct tree_node *node;
    enum tree_what what;
    unsigned metric;
};

struct comparing {
    const tree_differences *all;
    struct side a, b;
    enum report_sort sort;
    double least; /* cum below which an item is left out */
};

static int64_t cum_of(const struct side *side, uint32_t node)
{
    return node == TRACE_NONE ? 0 : tree_cum(side->tree, node, side->what, side->metric);
}

static int64_t count_of(const struct side *side, uint32_t node)
{
    return node == TRACE_NONE          ? GRID_NONE
           : side->what == TREE_EVENTS ? (int64_t)side->node[node].calls
                                       : (int64_t)tree_samples(side->tree, node, side->metric);
}

static int64_t change_of(int64_t from, int64_t to)
{
    return (int64_t)((uint64_t)to - (uint64_t)from);
}

static uint64_t larger(int64_t a, int64_t b)
{
    return grid_size(a) > grid_size(b) ? grid_size(a) : grid_size(b);
}

/* Of events, only nodes that were called; of samples, only what samples saw: the other account's nodes are 0 on both sides. */
static bool is_wanted(const struct comparing *comparing, const struct tree_difference *item)
{
    int64_t a = cum_of(&comparing->a, item->node_a), b = cum_of(&comparing->b, item->node_b);
    bool has_count = (item->node_a != TRACE_NONE && count_of(&comparing->a, item->node_a)) ||
                     (item->node_b != TRACE_NONE && count_of(&comparing->b, item->node_b));
    return !item->level || ((a | b || has_count) && (double)larger(a, b) >= comparing->least);
}

static uint64_t sort_key(const struct comparing *comparing, const struct tree_difference *item)
{
    int64_t a = cum_of(&comparing->a, item->node_a), b = cum_of(&comparing->b, item->node_b);
    return comparing->sort == REPORT_SORT_CUM || comparing->sort == REPORT_SORT_BASE ? grid_size(change_of(a, b)) : 0;
}

static int compare(const void *x, const void *y, void *context)
{
    const struct comparing *comparing = context;
    uint32_t i = *(const uint32_t *)x, k = *(const uint32_t *)y;
    const struct tree_difference *p = &comparing->all->at[i], *q = &comparing->all->at[k];
    uint64_t a = sort_key(comparing, p), b = sort_key(comparing, q);
    if (a != b)
        return a < b ? 1 : -1;
    int order = comparing->sort == REPORT_SORT_NAME ? strcmp(p->name, q->name) : 0;
    return order ? order : i < k ? -1 : i > k;
}

static void add_row(const struct comparing *comparing, uint32_t number, struct grid *grid)
{
    const struct tree_difference *item = &comparing->all->at[number];
    int64_t a = cum_of(&comparing->a, item->node_a), b = cum_of(&comparing->b, item->node_b);
    VEC_PUSH(&grid->row, (struct grid_row){.name = item->name,
                                           .level = item->level,
                                           .cell = {item->level, count_of(&comparing->a, item->node_a),
                                                    count_of(&comparing->b, item->node_b), item->node_a == TRACE_NONE ? GRID_NONE : a,
                                                    item->node_b == TRACE_NONE ? GRID_NONE : b, change_of(a, b)}});
}

static void add_rows(struct comparing *comparing, struct grid *grid)
{
    order_nodes waiting = {0}, children = {0};
    if (comparing->all->n)
        VEC_PUSH(&waiting, 0);
    while (waiting.n) {
        uint32_t number = waiting.at[--waiting.n];
        add_row(comparing, number, grid);
        children.n = 0;
        for (uint32_t child = comparing->all->at[number].first_child; child != TRACE_NONE; child = comparing->all->at[child].next_sibling)
            if (is_wanted(comparing, &comparing->all->at[child]))
                VEC_PUSH(&children, child);
        if (children.n && comparing->sort != REPORT_SORT_DEFAULT)
            qsort_r(children.at, children.n, sizeof *children.at, compare, comparing);
        for (size_t i = children.n; i-- > 0;)
            VEC_PUSH(&waiting, children.at[i]);
    }
    VEC_FREE(&waiting);
    VEC_FREE(&children);
}

static struct side side_of(struct profile *profile, enum tree_what what)
{
    size_t count;
    struct tree *tree = profile_sum(profile);
    return (struct side){tree, tree_nodes(tree, &count), what, profile->metric};
}

void view_diff(struct view *view, struct profile *other)
{
    struct profile *profile = view->profile;
    struct comparing comparing = {.a = side_of(profile, profile->what), .b = side_of(other, profile->what), .sort = view->options->sort};
    uint64_t a = view_largest(comparing.a.tree, profile->what, profile->metric),
             b = view_largest(comparing.b.tree, profile->what, other->metric), largest = a > b ? a : b;
    tree_differences all = {0};
    tree_compare(profile->set, comparing.a.tree, other->set, comparing.b.tree, &all);
    comparing.all = &all;
    comparing.least = 0;
    struct grid complete = {0},
                grid = {.column = profile->what == TREE_EVENTS ? event_column : sample_column, .column_count = COLUMNS, .title = ""};
    add_rows(&comparing, &complete);
    comparing.least = view->options->min_share * (double)larger(cum_of(&comparing.a, 0), cum_of(&comparing.b, 0));
    add_rows(&comparing, &grid);
    grid.hidden = complete.row.n - grid.row.n;
    view_begin(view, largest, largest);
    view_part(view, &grid);
    view_end(view);
    grid_deinit(&complete);
    grid_deinit(&grid);
    VEC_FREE(&all);
}
