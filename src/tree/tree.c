/* Sets of trees, and looking at a tree. tree.h has the rules; this is how they are kept.
 *
 * In: records by tree_add() (add.c: calls and time; sample.c: samples; item.c: trees that were written as records). Out: nodes and their
 * numbers, after tree_end() (end.c), and sums over them (sum.c, flat.c).
 *
 * A tree is a flat array of nodes, appended in the order in which they appear, and arrays of numbers beside it ("columns", two groups for
 * each metric that occurs). One table of the tree finds a child by (parent, routine, sampled or not). The calls that are open are a stack
 * of their own, each with the node it belongs to; time is added there and reaches the node when the call ends.
 *
 * Invariants
 *  1. parent < child, always: sums over subtrees are one pass backwards, and whatever needs parents first is one pass forwards. Folding
 *     (fold.c) keeps it by closing up the arrays, in order. So node numbers are good only while nothing is added.
 *  2. An open call's node, and tree.pin, survive folding; their numbers are kept up.
 *  3. Numbers that follow from others (cum, recursion, instances, folded_base) are computed by tree_derive() and never kept up meanwhile;
 *     folding uses `recursion` and `next_instance` as scratch memory, because it must not take memory.
 *  4. All memory that grows with nodes or calls goes through tree_memory(), which counts it for its set. tree_make_room() is asked first.
 */
#include "tree/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- sets ---- */

struct tree_set *tree_set_create(const struct tree_source *source, const struct tree_options *options)
{
    struct tree_set *set = memory_zero(1, sizeof *set);
    set->source = *source;
    set->options = *options;
    return set;
}

void tree_set_destroy(struct tree_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->trees.n; i++)
        tree_free(set->trees.at[i]);
    for (size_t i = 0; i < set->sums.n; i++)
        tree_free(set->sums.at[i]);
    for (size_t i = 0; i < set->uses.n; i++)
        free(set->uses.at[i]);
    VEC_FREE(&set->uses);
    VEC_FREE(&set->trees);
    VEC_FREE(&set->sums);
    VEC_FREE(&set->frames);
    VEC_FREE(&set->same);
    VEC_FREE(&set->places);
    VEC_FREE(&set->matched);
    tree_routines_deinit(set);
    free(set);
}

size_t tree_set_memory(const struct tree_set *set, size_t *peak_bytes)
{
    if (peak_bytes)
        *peak_bytes = set->peak_bytes;
    return set->bytes;
}

/* Where the thread's tree is, or belongs. */
static size_t find_thread(const struct tree_set *set, uint32_t thread)
{
    size_t low = 0, high = set->trees.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->trees.at[middle]->thread < thread)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct tree *tree_of_thread(struct tree_set *set, uint32_t thread, const char *name)
{
    size_t at = find_thread(set, thread);
    if (at < set->trees.n && set->trees.at[at]->thread == thread)
        return set->trees.at[at];
    struct tree *tree = tree_new(set, thread, tree_root_routine(set, name), false);
    tree_reset_open(tree);
    tree_join(tree, TRACE_NONE);
    VEC_PUSH(&set->trees, tree);
    memmove(&set->trees.at[at + 1], &set->trees.at[at], (set->trees.n - 1 - at) * sizeof *set->trees.at);
    set->trees.at[at] = tree;
    return tree;
}

void tree_forget(struct tree_set *set, struct tree *tree)
{
    size_t at = find_thread(set, tree->thread);
    memmove(&set->trees.at[at], &set->trees.at[at + 1], (set->trees.n - 1 - at) * sizeof *set->trees.at);
    set->trees.n--;
    tree_free(tree);
}

void tree_forget_stacks(struct tree_set *set)
{
    for (size_t i = 0; i < set->trees.n; i++)
        tree_forget_samples(set->trees.at[i]);
}

size_t tree_count(const struct tree_set *set)
{
    return set->trees.n;
}

struct tree *tree_at(const struct tree_set *set, size_t index)
{
    return index < set->trees.n ? set->trees.at[index] : NULL;
}

/* ---- one tree ---- */

uint32_t tree_thread(const struct tree *tree)
{
    return tree->thread;
}

const struct tree_node *tree_nodes(const struct tree *tree, size_t *count)
{
    *count = tree->n;
    return tree->node;
}

int64_t tree_base(const struct tree *tree, uint32_t node, enum tree_what what, unsigned metric)
{
    return (int64_t)tree_value(tree, node, metric, what == TREE_EVENTS ? COLUMN_BASE : COLUMN_SAMPLED_BASE);
}

int64_t tree_cum(const struct tree *tree, uint32_t node, enum tree_what what, unsigned metric)
{
    return (int64_t)tree_value(tree, node, metric, what == TREE_EVENTS ? COLUMN_CUM : COLUMN_SAMPLED_CUM);
}

int64_t tree_elapsed(const struct tree *tree, uint32_t node, unsigned metric)
{
    return (int64_t)(metric ? tree_value(tree, node, metric, COLUMN_ELAPSED) : tree->node[node].elapsed_ns);
}

int64_t tree_folded(const struct tree *tree, uint32_t node, enum tree_what what, unsigned metric)
{
    return (int64_t)tree_value(tree, node, metric, what == TREE_EVENTS ? COLUMN_FOLDED : COLUMN_SAMPLED_FOLDED);
}

uint64_t tree_samples(const struct tree *tree, uint32_t node, unsigned metric)
{
    return tree_value(tree, node, metric, COLUMN_SAMPLES);
}

uint64_t tree_passed(const struct tree *tree, uint32_t node, unsigned metric)
{
    return tree_value(tree, node, metric, COLUMN_PASSED);
}

uint64_t tree_passed_folded(const struct tree *tree, uint32_t node, unsigned metric)
{
    return tree_value(tree, node, metric, COLUMN_FOLDED_PASSED);
}

bool tree_has(const struct tree *tree, enum tree_what what, unsigned metric)
{
    return metric < TREE_METRICS_MAX && tree->metric[metric] &&
           tree->metric[metric]->at[what == TREE_EVENTS ? COLUMN_BASE : COLUMN_SAMPLED_BASE];
}

const struct tree_oddities *tree_oddities(const struct tree *tree)
{
    return &tree->oddities;
}
