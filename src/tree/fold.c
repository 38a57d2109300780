/* Folding: the nodes that matter least give way (rule 4).
 *
 * A node's share is the greatest part that its turnover has of its parent's, over all metrics, or that of its parent where that is less: so
 * a subtree goes as a whole. Turnover is cum, but what is given back counts as what is taken does. Shares are sorted into classes, and
 * classes are folded from the least upwards until half of the nodes of the set are left; so the threshold is what the set asks for at the
 * time. Nodes of the class at the threshold go in the order of their age, as many as needed. Then the arrays close up.
 *
 * Each folding looks at every node and takes out half of them, so every node that was made has paid for looking at four. */
#include "tree/internal.h"

#include <string.h>

/* The class of a share is its exponent and 4 bits of its mantissa. */
enum { CLASS_SHIFT = 19, CLASS_WHOLE = 0x3f800000 >> CLASS_SHIFT, CLASSES };
#define PINNED 0x80000000u /* beside the class: it must stay */
#define FOLDED 0x80000000u

static uint32_t class_of(float share)
{
    uint32_t bits;
    if (!(share > 0))
        return 0;
    if (share > 1)
        share = 1;
    memcpy(&bits, &share, sizeof bits);
    return bits >> CLASS_SHIFT;
}

static float greatest_share(const struct tree *tree, uint32_t node)
{
    uint32_t parent = tree->node[node].parent;
    float greatest = 0;
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++) {
        if (!tree->metric[m])
            continue;
        const uint64_t *columns[] = {tree->metric[m]->at[COLUMN_CUM], tree->metric[m]->at[COLUMN_SAMPLED_CUM]};
        for (unsigned c = 0; c < 2; c++) {
            if (!columns[c] || !columns[c][node])
                continue;
            float share = (float)columns[c][node] / (float)columns[c][parent];
            greatest = share > greatest ? share : greatest;
        }
    }
    return greatest;
}

/* Classes, in `recursion`; counts only those that may go. A call that is open stays, but what is below it is worth no more than it. */
static void classify(struct tree *tree, size_t count[CLASSES])
{
    struct tree_node *node = tree->node;
    tree_settle(tree);
    tree_compute_turnover(tree);
    for (uint32_t i = 0; i < tree->n; i++)
        node[i].recursion = 0;
    for (uint32_t i = 0; i < tree->open_n; i++)
        node[tree->open[i].node].recursion = PINNED;
    for (uint32_t i = tree->pin; i != TRACE_NONE; i = node[i].parent)
        node[i].recursion = PINNED;
    node[0].recursion = PINNED | CLASS_WHOLE;
    for (uint32_t i = 1; i < tree->n; i++) {
        uint32_t own = class_of(greatest_share(tree, i)), above = node[node[i].parent].recursion & ~PINNED;
        node[i].recursion |= own < above ? own : above;
        if (!(node[i].recursion & PINNED))
            count[node[i].recursion]++;
    }
}

struct threshold {
    uint32_t class;
    size_t quota; /* nodes of that very class that are to go */
};

static struct threshold choose(const size_t count[CLASSES], size_t surplus)
{
    struct threshold threshold = {0, 0};
    while (threshold.class < CLASSES && count[threshold.class] < surplus)
        surplus -= count[threshold.class ++];
    threshold.quota = threshold.class < CLASSES ? surplus : 0;
    return threshold;
}

void tree_give(struct tree *tree, uint32_t to, const struct tree *from_tree, uint32_t from)
{
    const struct tree_node *node = &from_tree->node[from];
    tree->node[to].folded_calls += node->calls + node->folded_calls;
    tree->oddities.folded_nodes++;
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++) {
        if (!from_tree->metric[m])
            continue;
        uint64_t *const *at = tree->metric[m]->at, *const *give = from_tree->metric[m]->at;
        if (give[COLUMN_BASE])
            at[COLUMN_FOLDED][to] += give[COLUMN_BASE][from] + give[COLUMN_FOLDED][from];
        if (give[COLUMN_SAMPLED_BASE]) {
            at[COLUMN_SAMPLED_FOLDED][to] += give[COLUMN_SAMPLED_BASE][from] + give[COLUMN_SAMPLED_FOLDED][from];
            at[COLUMN_FOLDED_SAMPLES][to] += give[COLUMN_SAMPLES][from] + give[COLUMN_FOLDED_SAMPLES][from];
            at[COLUMN_FOLDED_PASSED][to] += give[COLUMN_PASSED][from] + give[COLUMN_FOLDED_PASSED][from];
        }
    }
}

static void move(struct tree *tree, uint32_t from, uint32_t to)
{
    if (from == to)
        return;
    tree->node[to] = tree->node[from];
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++)
        for (unsigned c = 0; tree->metric[m] && c < COLUMNS; c++)
            if (tree->metric[m]->at[c])
                tree->metric[m]->at[c][to] = tree->metric[m]->at[c][from];
}

static void relink(struct tree *tree)
{
    struct tree_node *node = tree->node;
    for (uint32_t i = 0; i < tree->n; i++) {
        node[i].first_child = node[i].next_sibling = tree->last_child[i] = TRACE_NONE;
        if (!i)
            continue;
        uint32_t parent = node[i].parent;
        if (tree->last_child[parent] == TRACE_NONE)
            node[parent].first_child = i;
        else
            node[tree->last_child[parent]].next_sibling = i;
        tree->last_child[parent] = i;
    }
}

/* `new` has for each old number where the node went, or with FOLDED its nearest ancestor that stays; it is kept in last_child, which
 * relink() makes anew. Nodes only move down, and after their parents. */
static void fold_tree(struct tree *tree, struct threshold *threshold)
{
    uint32_t *new = tree->last_child, kept = 0;
    for (uint32_t i = 0; i < tree->n; i++) {
        uint32_t class = tree->node[i].recursion, parent = i ? new[tree->node[i].parent] : TRACE_NONE;
        bool is_chosen = class < threshold->class || (class == threshold->class && threshold->quota);
        if (!(class & PINNED) && (is_chosen || parent & FOLDED)) {
            if (class == threshold->class && threshold->quota)
                threshold->quota--;
            tree_give(tree, parent & ~FOLDED, tree, i);
            new[i] = parent | FOLDED;
            continue;
        }
        move(tree, i, kept);
        tree->node[kept].parent = parent;
        new[i] = kept++;
    }
    for (uint32_t i = 0; i < tree->open_n; i++) {
        tree->open[i].node = new[tree->open[i].node];
        tree->open[i].recent_routine = TRACE_NONE;
    }
    if (tree->pin != TRACE_NONE)
        tree->pin = new[tree->pin];
    tree->n = kept;
    relink(tree);
}

static void shrink(struct tree *tree)
{
    uint32_t room = tree->n + tree->n / 4 + 8;
    tree_resize(tree, room < tree->room ? room : tree->room);
}

void tree_fold_set(struct tree_set *set)
{
    size_t count[CLASSES] = {0}, total = 0;
    for (size_t i = 0; i < set->trees.n; i++) {
        tree_forget_samples(set->trees.at[i]);
        classify(set->trees.at[i], count);
        total += set->trees.at[i]->n;
    }
    struct threshold threshold = choose(count, total / 2);
    /* The first one pays for the class at the threshold: each in its turn. */
    set->folds++;
    for (size_t i = 0; i < set->trees.n; i++) {
        struct tree *tree = set->trees.at[(i + set->folds) % set->trees.n];
        fold_tree(tree, &threshold);
        shrink(tree);
        if (tree->is_ended)
            tree_derive(tree);
    }
}
