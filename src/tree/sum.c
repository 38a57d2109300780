/* Several trees: all as one, or two side by side. */
#include "tree/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- merging ---- */

static void add_numbers(struct tree *to, uint32_t to_node, const struct tree *from, uint32_t from_node)
{
    const struct tree_node *node = &from->node[from_node];
    struct tree_node *sum = &to->node[to_node];
    sum->calls += node->calls;
    sum->samples += node->samples;
    sum->elapsed_ns += node->elapsed_ns;
    sum->folded_calls += node->folded_calls;
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++)
        for (unsigned c = 0; from->metric[m] && c < COLUMNS; c++)
            if (from->metric[m]->at[c])
                to->metric[m]->at[c][to_node] += from->metric[m]->at[c][from_node];
}

static void add_oddities(struct tree *to, const struct tree *from)
{
    uint64_t *sum = (uint64_t *)&to->oddities;
    const uint64_t *more = (const uint64_t *)&from->oddities;
    for (size_t i = 0; i < sizeof to->oddities / sizeof *sum; i++)
        sum[i] += more[i];
}

static void add_columns(struct tree *to, const struct tree *from)
{
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++)
        for (unsigned c = 0; from->metric[m] && c < COLUMNS; c++)
            if (from->metric[m]->at[c])
                tree_column(to, m, c);
}

/* There is room, and `to` has the columns. */
static void add_nodes(struct tree *to, const struct tree *from)
{
    uint32_t *place = memory_alloc(from->n * sizeof *place);
    for (uint32_t i = 0; i < from->n; i++) {
        const struct tree_node *node = &from->node[i];
        place[i] = i ? tree_add_child(to, place[node->parent], node->routine, node->is_sampled) : 0;
        add_numbers(to, place[i], from, i);
    }
    free(place);
}

static void add_tree(struct tree *to, const struct tree *from)
{
    add_columns(to, from);
    add_nodes(to, from);
    add_oddities(to, from);
}

/* ---- one tree for many ---- */

struct tree *tree_sum_begin(struct tree_set *set, uint32_t number, const char *name)
{
    struct tree *sum = tree_of_thread(set, number, name);
    sum->node[0].calls = 0;
    return sum;
}

/* Room for so many more nodes, as things are. */
static bool has_room(struct tree *tree, size_t nodes)
{
    size_t room = tree->n + nodes;
    if (room <= tree->room)
        return true;
    size_t bytes = (room - tree->room) * tree_node_bytes(tree) + tree->room * sizeof *tree->node;
    if (room > UINT32_MAX / 8 || !tree_fits(tree, bytes))
        return false;
    tree_resize(tree, (uint32_t)room);
    return true;
}

void tree_sum_add(struct tree *sum, const struct tree *ended)
{
    sum->last_ns = ended->last_ns > sum->last_ns ? ended->last_ns : sum->last_ns;
    add_columns(sum, ended);
    /* Folding also takes half of what is to be added; a root has room. */
    for (uint32_t before = 0; !has_room(sum, ended->n - 1) && before != ended->n + sum->n;) {
        before = ended->n + sum->n;
        tree_fold_set(sum->set);
    }
    if (has_room(sum, ended->n - 1)) {
        add_nodes(sum, ended);
    } else {
        add_numbers(sum, 0, ended, 0);
        for (uint32_t i = 1; i < ended->n; i++)
            tree_give(sum, 0, ended, i);
    }
    add_oddities(sum, ended);
}

/* ---- all of a set ---- */

struct tree *tree_merge_some(struct tree_set *set, struct tree *const *trees, size_t count, const char *name)
{
    struct tree *sum = tree_new(set, TRACE_NONE, tree_root_routine(set, name), true);
    sum->node[0].calls = 0;
    for (size_t i = 0; i < count; i++)
        add_tree(sum, trees[i]);
    sum->is_ended = true;
    tree_derive(sum);
    VEC_PUSH(&set->sums, sum);
    return sum;
}

struct tree *tree_merge(struct tree_set *set, const char *name)
{
    return tree_merge_some(set, set->trees.at, set->trees.n, name);
}

/* ---- comparing ---- */

/* Numbers that two sets have in common: equal names have equal numbers, and so have equal names of equal modules. */
struct common {
    struct names names, wholes;
    VEC(uint32_t) name[2], whole[2]; /* by routine of each set */
};

static void number_routines(struct common *common, int side, const struct tree_set *set)
{
    for (uint32_t i = 0; i < set->routines.n; i++) {
        const char *module = tree_routine_module(set, i);
        char *whole = memory_format("%s\n%s", module ? module : "", tree_routine(set, i));
        VEC_PUSH(&common->name[side], names_number(&common->names, tree_routine(set, i)));
        VEC_PUSH(&common->whole[side], names_number(&common->wholes, whole));
        free(whole);
    }
}

/* Children of b that wait for a partner, by number and kind. */
struct waiting {
    uint64_t *stamp; /* [2 * numbers]: of which pair the list is */
    uint32_t *first, *last;
    uint32_t *next; /* by node of b */
    uint64_t now;
};

static void waiting_init(struct waiting *waiting, size_t numbers, size_t nodes)
{
    waiting->stamp = memory_zero(2 * numbers, sizeof *waiting->stamp);
    waiting->first = memory_alloc(2 * numbers * sizeof *waiting->first);
    waiting->last = memory_alloc(2 * numbers * sizeof *waiting->last);
    waiting->next = memory_alloc(nodes * sizeof *waiting->next);
    waiting->now = 0;
}

static void waiting_deinit(struct waiting *waiting)
{
    free(waiting->stamp);
    free(waiting->first);
    free(waiting->last);
    free(waiting->next);
}

static void put(struct waiting *waiting, size_t key, uint32_t node)
{
    waiting->next[node] = TRACE_NONE;
    if (waiting->stamp[key] == waiting->now && waiting->first[key] != TRACE_NONE)
        waiting->next[waiting->last[key]] = node;
    else
        waiting->first[key] = node;
    waiting->stamp[key] = waiting->now;
    waiting->last[key] = node;
}

static uint32_t take(struct waiting *waiting, size_t key)
{
    if (waiting->stamp[key] != waiting->now || waiting->first[key] == TRACE_NONE)
        return TRACE_NONE;
    uint32_t node = waiting->first[key];
    waiting->first[key] = waiting->next[node];
    return node;
}

struct comparison {
    const struct tree_set *set[2];
    const struct tree *tree[2];
    struct common common;
    struct waiting waiting;
    uint32_t *partner[2]; /* by node */
    tree_differences *out;
};

static void pair_children_by(struct comparison *c, const uint32_t *number_a, const uint32_t *number_b, uint32_t a, uint32_t b)
{
    const struct tree_node *node_a = c->tree[0]->node, *node_b = c->tree[1]->node;
    c->waiting.now++;
    for (uint32_t i = node_b[b].first_child; i != TRACE_NONE; i = node_b[i].next_sibling)
        if (c->partner[1][i] == TRACE_NONE)
            put(&c->waiting, 2 * (size_t)number_b[node_b[i].routine] + node_b[i].is_sampled, i);
    for (uint32_t i = node_a[a].first_child; i != TRACE_NONE; i = node_a[i].next_sibling) {
        if (c->partner[0][i] != TRACE_NONE)
            continue;
        uint32_t found = take(&c->waiting, 2 * (size_t)number_a[node_a[i].routine] + node_a[i].is_sampled);
        c->partner[0][i] = found;
        if (found != TRACE_NONE)
            c->partner[1][found] = i;
    }
}

static void append(struct comparison *c, uint32_t parent, uint32_t *last, uint32_t a, uint32_t b)
{
    int side = a == TRACE_NONE;
    const struct tree_node *node = &c->tree[side]->node[side ? b : a];
    uint32_t number = (uint32_t)c->out->n;
    VEC_PUSH(c->out, (struct tree_difference){.parent = parent,
                                              .first_child = TRACE_NONE,
                                              .next_sibling = TRACE_NONE,
                                              .level = node->level,
                                              .name = tree_routine(c->set[side], node->routine),
                                              .node_a = a,
                                              .node_b = b});
    if (*last != TRACE_NONE)
        c->out->at[*last].next_sibling = number;
    else if (parent != TRACE_NONE)
        c->out->at[parent].first_child = number;
    *last = number;
}

/* The children of a pair: those of a with their partners in order, then those of b alone. */
static void append_children(struct comparison *c, uint32_t parent)
{
    uint32_t a = c->out->at[parent].node_a, b = c->out->at[parent].node_b, last = TRACE_NONE;
    if (a != TRACE_NONE && b != TRACE_NONE) {
        pair_children_by(c, c->common.whole[0].at, c->common.whole[1].at, a, b);
        pair_children_by(c, c->common.name[0].at, c->common.name[1].at, a, b);
    }
    if (a != TRACE_NONE)
        for (uint32_t i = c->tree[0]->node[a].first_child; i != TRACE_NONE; i = c->tree[0]->node[i].next_sibling)
            append(c, parent, &last, i, c->partner[0][i]);
    if (b != TRACE_NONE)
        for (uint32_t i = c->tree[1]->node[b].first_child; i != TRACE_NONE; i = c->tree[1]->node[i].next_sibling)
            if (c->partner[1][i] == TRACE_NONE)
                append(c, parent, &last, TRACE_NONE, i);
}

void tree_compare(const struct tree_set *set_a, const struct tree *a, const struct tree_set *set_b, const struct tree *b,
                  tree_differences *out)
{
    struct comparison c = {.set = {set_a, set_b}, .tree = {a, b}, .out = out};
    memset(out, 0, sizeof *out);
    number_routines(&c.common, 0, set_a);
    number_routines(&c.common, 1, set_b);
    waiting_init(&c.waiting, c.common.wholes.text.n, b->n);
    for (int side = 0; side < 2; side++) {
        c.partner[side] = memory_alloc(c.tree[side]->n * sizeof **c.partner);
        memset(c.partner[side], 0xff, c.tree[side]->n * sizeof **c.partner);
    }
    uint32_t last = TRACE_NONE;
    append(&c, TRACE_NONE, &last, 0, 0);
    for (uint32_t i = 0; i < out->n; i++)
        append_children(&c, i);
    for (int side = 0; side < 2; side++) {
        free(c.partner[side]);
        VEC_FREE(&c.common.name[side]);
        VEC_FREE(&c.common.whole[side]);
    }
    names_deinit(&c.common.names);
    names_deinit(&c.common.wholes);
    waiting_deinit(&c.waiting);
}
