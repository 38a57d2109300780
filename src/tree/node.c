/* The nodes of a tree: arrays that grow together, the table that finds children, and what they may take. */
#include "tree/internal.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 8 };

/* ---- memory ---- */

void *tree_memory(struct tree *tree, void *old, size_t old_bytes, size_t bytes)
{
    struct tree_set *set = tree->set;
    if (!tree->is_on_top) {
        /* While an array moves there are two of it. */
        if (bytes > old_bytes && set->bytes + bytes > set->peak_bytes)
            set->peak_bytes = set->bytes + bytes;
        set->bytes = set->bytes - old_bytes + bytes;
    }
    if (!bytes) {
        free(old);
        return NULL;
    }
    return memory_resize(old, bytes, 1);
}

static bool has_limit(const struct tree *tree)
{
    return tree->set->options.memory_bytes && !tree->is_on_top;
}

bool tree_fits(const struct tree *tree, size_t bytes)
{
    size_t limit = tree->set->options.memory_bytes;
    return !has_limit(tree) || (bytes <= limit && tree->set->bytes <= limit - bytes);
}

static size_t count_nodes(const struct tree_set *set)
{
    size_t count = 0;
    for (size_t i = 0; i < set->trees.n; i++)
        count += set->trees.at[i]->n;
    return count;
}

/* Folding looks at every node. When it did not help much it is not tried again before as many wishes were refused as pay for it. */
static bool try_folding(struct tree_set *set)
{
    if (set->refusals) {
        set->refusals--;
        return false;
    }
    tree_fold_set(set);
    if (set->bytes > set->options.memory_bytes / 4 * 3)
        set->refusals = count_nodes(set) / 4 + 16;
    return true;
}

bool tree_make_room(struct tree *tree, size_t bytes)
{
    return tree_fits(tree, bytes) || (try_folding(tree->set) && tree_fits(tree, bytes));
}

size_t tree_node_bytes(const struct tree *tree)
{
    size_t bytes = sizeof *tree->node + sizeof *tree->last_child + 2 * sizeof *tree->slot;
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++)
        for (unsigned c = 0; tree->metric[m] && c < COLUMNS; c++)
            bytes += tree->metric[m]->at[c] ? sizeof(uint64_t) : 0;
    return bytes;
}

/* ---- arrays ---- */

static void insert(struct tree *tree, uint32_t number)
{
    const struct tree_node *node = &tree->node[number];
    uint64_t hash = tree_hash(node->parent, node->routine, node->is_sampled);
    uint32_t at = (uint32_t)((hash >> 32) * tree->slots >> 32);
    while (tree->slot[at].node != TRACE_NONE)
        at = at + 1 == tree->slots ? 0 : at + 1;
    tree->slot[at] = (struct child_slot){number, (uint32_t)hash};
}

static void rehash(struct tree *tree)
{
    memset(tree->slot, 0xff, tree->slots * sizeof *tree->slot);
    for (uint32_t i = 1; i < tree->n; i++)
        insert(tree, i);
}

void tree_resize(struct tree *tree, uint32_t room)
{
    size_t old = tree->room;
    tree->slot = tree_memory(tree, tree->slot, tree->slots * sizeof *tree->slot, 0);
    tree->node = tree_memory(tree, tree->node, old * sizeof *tree->node, room * sizeof *tree->node);
    tree->last_child = tree_memory(tree, tree->last_child, old * sizeof *tree->last_child, room * sizeof *tree->last_child);
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++)
        for (unsigned c = 0; tree->metric[m] && c < COLUMNS; c++)
            if (tree->metric[m]->at[c])
                tree->metric[m]->at[c] = tree_memory(tree, tree->metric[m]->at[c], old * sizeof(uint64_t), room * sizeof(uint64_t));
    tree->room = room;
    tree->slots = 2 * room;
    tree->slot = tree_memory(tree, NULL, 0, tree->slots * sizeof *tree->slot);
    rehash(tree);
}

/* Room for one more node. */
static bool grow(struct tree *tree)
{
    if (tree->room >= SAMPLE_UNMATCHED / 4)
        return false;
    size_t each = tree_node_bytes(tree), moving = tree->room * sizeof *tree->node;
    uint32_t more[] = {tree->room, tree->room / 4 + ROOM_MIN};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (tree_fits(tree, more[i] * each + moving)) {
            tree_resize(tree, tree->room + more[i]);
            return true;
        }
    /* Folding leaves some room in every tree. */
    try_folding(tree->set);
    return tree->n < tree->room;
}

static uint32_t append(struct tree *tree, uint32_t parent, uint32_t routine, bool is_sampled)
{
    uint32_t number = tree->n++;
    tree->node[number] = (struct tree_node){.routine = routine,
                                            .parent = parent,
                                            .first_child = TRACE_NONE,
                                            .next_sibling = TRACE_NONE,
                                            .next_instance = TRACE_NONE,
                                            .level = parent == TRACE_NONE ? 0 : tree->node[parent].level + 1,
                                            .recursion = 1,
                                            .is_sampled = is_sampled};
    tree->last_child[number] = TRACE_NONE;
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++)
        for (unsigned c = 0; tree->metric[m] && c < COLUMNS; c++)
            if (tree->metric[m]->at[c])
                tree->metric[m]->at[c][number] = 0;
    return number;
}

uint32_t tree_add_child(struct tree *tree, uint32_t parent, uint32_t routine, bool is_sampled)
{
    uint32_t number = tree_find_slot(tree, parent, routine, is_sampled)->node;
    if (number != TRACE_NONE)
        return number;
    if (tree->n == tree->room) {
        uint32_t pin = tree->pin;
        tree->pin = parent;
        bool has_room = grow(tree);
        parent = tree->pin;
        /* The pin of the caller, if any, is the parent. */
        tree->pin = pin == TRACE_NONE ? TRACE_NONE : parent;
        if (!has_room)
            return TRACE_NONE;
    }
    number = append(tree, parent, routine, is_sampled);
    if (tree->last_child[parent] == TRACE_NONE)
        tree->node[parent].first_child = number;
    else
        tree->node[tree->last_child[parent]].next_sibling = number;
    tree->last_child[parent] = number;
    insert(tree, number);
    return number;
}

/* ---- columns ---- */

static const uint8_t group_of[COLUMNS] = {0, 0, 1, 2, 2, 2, 2, 3, 3, 3, 4};

static bool is_wanted(const struct tree *tree, enum column column, enum column because)
{
    if (group_of[column] == group_of[because])
        return true;
    /* Where nodes may be folded the account for it comes along: there is no room for it later. */
    return tree->set->options.memory_bytes && group_of[column] / 2 == group_of[because] / 2;
}

uint64_t *tree_column(struct tree *tree, unsigned metric, enum column column)
{
    if (tree->metric[metric] && tree->metric[metric]->at[column])
        return tree->metric[metric]->at[column];
    if (!tree->metric[metric]) {
        tree->metric[metric] = tree_memory(tree, NULL, 0, sizeof **tree->metric);
        memset(tree->metric[metric], 0, sizeof **tree->metric);
    }
    uint64_t **at = tree->metric[metric]->at;
    size_t missing = 0, before;
    for (unsigned c = 0; c < COLUMNS; c++)
        missing += is_wanted(tree, c, column) && !at[c];
    /* For all of them at once: folding must not meet half of a group. */
    do {
        before = tree->n;
        /* A value must be kept somewhere; small trees are not worth folding all others for. */
        if (tree->n > ROOM_MIN)
            tree->set->refusals = 0;
    } while (!tree_make_room(tree, missing * tree->room * sizeof **at) && tree->n < before);
    for (unsigned c = 0; c < COLUMNS; c++)
        if (is_wanted(tree, c, column) && !at[c]) {
            at[c] = tree_memory(tree, NULL, 0, tree->room * sizeof **at);
            memset(at[c], 0, tree->room * sizeof **at);
        }
    return tree->metric[metric]->at[column];
}

/* ---- a tree ---- */

struct tree *tree_new(struct tree_set *set, uint32_t thread, uint32_t root_routine, bool is_on_top)
{
    struct tree *tree = memory_zero(1, sizeof *tree);
    tree->set = set;
    tree->thread = thread;
    tree->is_on_top = is_on_top;
    tree->pin = TRACE_NONE;
    if (!is_on_top)
        set->bytes += sizeof *tree;
    if (set->bytes > set->peak_bytes)
        set->peak_bytes = set->bytes;
    tree_make_room(tree, ROOM_MIN * tree_node_bytes(tree));
    tree_resize(tree, ROOM_MIN);
    append(tree, TRACE_NONE, root_routine, false);
    tree->node[0].calls = 1;
    tree_column(tree, 0, COLUMN_BASE);
    return tree;
}

void tree_free(struct tree *tree)
{
    if (tree->loading)
        tree_free(tree->loading);
    VEC_FREE(&tree->loaded);
    tree_forget_samples(tree);
    tree_leave_use(tree);
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++) {
        for (unsigned c = 0; tree->metric[m] && c < COLUMNS; c++)
            tree_memory(tree, tree->metric[m]->at[c], tree->metric[m]->at[c] ? tree->room * sizeof(uint64_t) : 0, 0);
        tree_memory(tree, tree->metric[m], tree->metric[m] ? sizeof **tree->metric : 0, 0);
    }
    tree_memory(tree, tree->open, tree->open_room * sizeof *tree->open, 0);
    tree->set->open_room -= tree->is_on_top ? 0 : tree->open_room;
    tree_memory(tree, tree->names, tree->names_room * sizeof *tree->names, 0);
    tree_memory(tree, tree->node, tree->room * sizeof *tree->node, 0);
    tree_memory(tree, tree->last_child, tree->room * sizeof *tree->last_child, 0);
    tree_memory(tree, tree->slot, tree->slots * sizeof *tree->slot, 0);
    if (!tree->is_on_top)
        tree->set->bytes -= sizeof *tree;
    free(tree);
}
