/* What follows from the nodes once they are complete, and copies of trees that are not. */
#include "tree/internal.h"

#include <stdlib.h>
#include <string.h>

/* Children come after their parents, so going backwards each has all of its own before it is added. */
static void sum_up(const struct tree *tree, const uint64_t *base, const uint64_t *folded, uint64_t *cum)
{
    if (!base)
        return;
    for (uint32_t i = 0; i < tree->n; i++)
        cum[i] = base[i] + (folded ? folded[i] : 0);
    for (uint32_t i = tree->n; i-- > 1;)
        cum[tree->node[i].parent] += cum[i];
}

static uint64_t size_of(uint64_t value)
{
    return (int64_t)value < 0 ? 0 - value : value;
}

static void add_turnover(const struct tree *tree, const uint64_t *base, const uint64_t *folded, uint64_t *turnover)
{
    if (!base)
        return;
    for (uint32_t i = 0; i < tree->n; i++)
        turnover[i] = size_of(base[i]) + (folded ? size_of(folded[i]) : 0);
    for (uint32_t i = tree->n; i-- > 1;)
        turnover[tree->node[i].parent] += turnover[i];
}

void tree_compute_turnover(struct tree *tree)
{
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++) {
        if (!tree->metric[m])
            continue;
        uint64_t *const *at = tree->metric[m]->at;
        add_turnover(tree, at[COLUMN_BASE], at[COLUMN_FOLDED], at[COLUMN_CUM]);
        add_turnover(tree, at[COLUMN_SAMPLED_BASE], at[COLUMN_SAMPLED_FOLDED], at[COLUMN_SAMPLED_CUM]);
    }
}

void tree_compute_cum(struct tree *tree)
{
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++) {
        if (!tree->metric[m])
            continue;
        uint64_t *const *at = tree->metric[m]->at;
        sum_up(tree, at[COLUMN_BASE], at[COLUMN_FOLDED], at[COLUMN_CUM]);
        sum_up(tree, at[COLUMN_SAMPLED_BASE], at[COLUMN_SAMPLED_FOLDED], at[COLUMN_SAMPLED_CUM]);
    }
}

/* By a walk along the links, which needs no stack of its own. `count` is by routine, all 0 before and after. */
static void compute_recursion(struct tree *tree, uint32_t *count)
{
    struct tree_node *node = tree->node;
    uint32_t at = 0;
    for (;;) {
        node[at].recursion = ++count[node[at].routine];
        if (node[at].first_child != TRACE_NONE) {
            at = node[at].first_child;
            continue;
        }
        while (at && node[at].next_sibling == TRACE_NONE) {
            count[node[at].routine]--;
            at = node[at].parent;
        }
        count[node[at].routine]--;
        if (!at)
            return;
        at = node[at].next_sibling;
    }
}

static void link_instances(struct tree *tree, uint32_t *next)
{
    memset(next, 0xff, tree->set->routines.n * sizeof *next);
    for (uint32_t i = tree->n; i-- > 0;) {
        tree->node[i].next_instance = next[tree->node[i].routine];
        next[tree->node[i].routine] = i;
    }
}

void tree_derive(struct tree *tree)
{
    tree_compute_cum(tree);
    uint32_t *by_routine = memory_zero(tree->set->routines.n, sizeof *by_routine);
    compute_recursion(tree, by_routine);
    link_instances(tree, by_routine);
    free(by_routine);
    for (uint32_t i = 0; i < tree->n; i++)
        tree->node[i].folded_base = tree_value(tree, i, 0, COLUMN_FOLDED);
}

/* ---- snapshots ---- */

static void *copy(const void *from, size_t count, size_t bytes)
{
    return from ? memcpy(memory_alloc(count * bytes), from, count * bytes) : NULL;
}

struct tree *tree_snapshot(const struct tree *tree, uint64_t now_ns)
{
    struct tree *snapshot = copy(tree, 1, sizeof *tree);
    snapshot->is_on_top = true;
    snapshot->known = NULL;
    snapshot->known_n = snapshot->known_room = 0;
    snapshot->passed = NULL;
    snapshot->passed_n = snapshot->passed_room = 0;
    snapshot->loading = NULL;
    memset(&snapshot->loaded, 0, sizeof snapshot->loaded);
    snapshot->room = tree->n;
    snapshot->node = copy(tree->node, tree->n, sizeof *tree->node);
    snapshot->last_child = copy(tree->last_child, tree->n, sizeof *tree->last_child);
    /* Nothing will be looked for. */
    snapshot->slot = NULL;
    snapshot->slots = 0;
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++) {
        snapshot->metric[m] = copy(tree->metric[m], 1, sizeof **tree->metric);
        for (unsigned c = 0; tree->metric[m] && c < COLUMNS; c++)
            snapshot->metric[m]->at[c] = copy(tree->metric[m]->at[c], tree->n, sizeof(uint64_t));
    }
    snapshot->open = copy(tree->open, tree->open_n, sizeof *tree->open);
    snapshot->open_room = tree->open_n;
    snapshot->names = copy(tree->names, tree->names_room, sizeof *tree->names);
    tree_end(snapshot, now_ns);
    return snapshot;
}

void tree_destroy_snapshot(struct tree *tree)
{
    if (tree)
        tree_free(tree);
}
