#include "report/order.h"
#include "report/grid.h"

#include <stdlib.h>
#include <string.h>

/* Every node that is reached from the root, each before its children, in order of appearance. */
static void list_all(const struct tree_node *node, order_nodes *out)
{
    for (uint32_t at = 0; at != TRACE_NONE;) {
        VEC_PUSH(out, at);
        uint32_t next = node[at].first_child;
        for (; next == TRACE_NONE && at; at = node[at].parent)
            next = node[at].next_sibling;
        at = next;
    }
}

static uint64_t *turnover_of(const struct order *order, enum tree_what what, const struct tree_node *node, const order_nodes *all,
                             size_t count)
{
    uint64_t *turnover = memory_zero(count, sizeof *turnover);
    for (size_t i = all->n; i-- > 0;) {
        uint32_t at = all->at[i];
        turnover[at] +=
            grid_size(tree_base(order->tree, at, what, order->metric)) + grid_size(tree_folded(order->tree, at, what, order->metric));
        if (at)
            turnover[node[at].parent] += turnover[at];
    }
    return turnover;
}

void order_init(struct order *order)
{
    size_t count;
    const struct tree_node *node = tree_nodes(order->tree, &count);
    order->samples = memory_zero(count, sizeof *order->samples);
    order->is_seen = memory_zero(count, sizeof *order->is_seen);
    order_nodes all = {0};
    list_all(node, &all);
    for (size_t i = all.n; i-- > 0;) {
        uint32_t at = all.at[i];
        order->samples[at] += tree_samples(order->tree, at, order->metric);
        order->is_seen[at] |= order->samples[at] || tree_passed(order->tree, at, order->metric);
        if (at) {
            order->samples[node[at].parent] += order->samples[at];
            order->is_seen[node[at].parent] |= order->is_seen[at];
        }
    }
    for (enum tree_what what = TREE_EVENTS; what <= TREE_SAMPLES && order->min_share > 0; what++) {
        order->turnover[what] = turnover_of(order, what, node, &all, count);
        order->least[what] = order->min_share * (double)order->turnover[what][0];
    }
    VEC_FREE(&all);
}

void order_deinit(struct order *order)
{
    free(order->samples);
    free(order->is_seen);
    free(order->turnover[TREE_EVENTS]);
    free(order->turnover[TREE_SAMPLES]);
    order->turnover[TREE_EVENTS] = order->turnover[TREE_SAMPLES] = NULL;
    order->samples = NULL;
    order->is_seen = NULL;
}

enum tree_what order_what(const struct order *order, uint32_t node)
{
    if (order->which != ORDER_ALL)
        return order->which == ORDER_EVENTS ? TREE_EVENTS : TREE_SAMPLES;
    size_t count;
    return tree_nodes(order->tree, &count)[node].is_sampled ? TREE_SAMPLES : TREE_EVENTS;
}

bool order_has(const struct order *order, uint32_t node)
{
    size_t count;
    return order->which == ORDER_SAMPLES  ? order->is_seen[node] || !node
           : order->which == ORDER_EVENTS ? !tree_nodes(order->tree, &count)[node].is_sampled
                                          : true;
}

bool order_is_small(const struct order *order, uint32_t node)
{
    enum tree_what what = order_what(order, node);
    return node && order->turnover[what] && (double)order->turnover[what][node] < order->least[what];
}

/* ---- sorting ---- */

static int64_t sort_key(const struct order *order, uint32_t number)
{
    size_t count;
    const struct tree_node *node = &tree_nodes(order->tree, &count)[number];
    enum tree_what what = order_what(order, number);
    switch (order->sort) {
    case REPORT_SORT_CUM:
        return tree_cum(order->tree, number, what, order->metric);
    case REPORT_SORT_BASE:
        return tree_base(order->tree, number, what, order->metric);
    case REPORT_SORT_CALLS:
        return (int64_t)(what == TREE_EVENTS ? node->calls : tree_samples(order->tree, number, order->metric));
    case REPORT_SORT_ELAPSED:
        return tree_elapsed(order->tree, number, order->metric);
    default:
        return 0;
    }
}

struct keyed {
    int64_t key;
    const char *name;
    uint32_t position, node;
};

static int compare_keys(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    int order = x->name ? strcmp(x->name, y->name) : 0;
    return order ? order : x->position < y->position ? -1 : x->position > y->position;
}

static void sort_siblings(const struct order *order, uint32_t *node, size_t n)
{
    if (order->sort == REPORT_SORT_DEFAULT || order->sort == REPORT_SORT_ORDER || n < 2)
        return;
    size_t count;
    const struct tree_node *all = tree_nodes(order->tree, &count);
    struct keyed *keyed = memory_alloc(n * sizeof *keyed);
    for (uint32_t i = 0; i < n; i++) {
        const char *name = order->sort == REPORT_SORT_NAME ? tree_routine(order->set, all[node[i]].routine) : NULL;
        keyed[i] = (struct keyed){sort_key(order, node[i]), name, i, node[i]};
    }
    qsort(keyed, n, sizeof *keyed, compare_keys);
    for (size_t i = 0; i < n; i++)
        node[i] = keyed[i].node;
    free(keyed);
}

size_t order_children(const struct order *order, uint32_t parent, order_nodes *out)
{
    size_t count, first = out->n;
    const struct tree_node *node = tree_nodes(order->tree, &count);
    for (uint32_t child = node[parent].first_child; child != TRACE_NONE; child = node[child].next_sibling)
        if (order_has(order, child) && !order_is_small(order, child))
            VEC_PUSH(out, child);
    sort_siblings(order, out->at + first, out->n - first);
    return out->n - first;
}

uint64_t order_walk(const struct order *order, order_nodes *out)
{
    order_nodes waiting = {0};
    size_t first = out->n;
    VEC_PUSH(&waiting, 0);
    while (waiting.n) {
        uint32_t node = waiting.at[--waiting.n];
        VEC_PUSH(out, node);
        size_t from = waiting.n, n = order_children(order, node, &waiting);
        for (size_t i = 0; i < n / 2; i++) { /* the first child is to be taken first */
            uint32_t swapped = waiting.at[from + i];
            waiting.at[from + i] = waiting.at[from + n - 1 - i];
            waiting.at[from + n - 1 - i] = swapped;
        }
    }
    VEC_FREE(&waiting);
    size_t count;
    order_nodes all = {0};
    list_all(tree_nodes(order->tree, &count), &all);
    uint64_t wanted = 0;
    for (size_t i = 0; i < all.n; i++)
        wanted += order_has(order, all.at[i]);
    VEC_FREE(&all);
    return wanted - (out->n - first);
}
