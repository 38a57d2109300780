/* Trees as records, and back. What is read is not trusted: a node whose parent or function does not exist is left out, with all below it.
 */
#include "tree/internal.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct tree_oddities) % sizeof(uint64_t) == 0, "oddities are a row of numbers");
enum { ODDITIES = sizeof(struct tree_oddities) / sizeof(uint64_t) };

/* ---- writing ---- */

struct output {
    tree_emit_fn *emit;
    void *context;
    uint64_t time_ns;
};

static void emit(const struct output *output, enum tree_item item, uint32_t number, uint64_t value)
{
    struct trace_record record = {
        .time_ns = output->time_ns, .major = TRACE_TREE, .minor = TRACE_NODE, .metric = item, .number = number, .value = value};
    output->emit(output->context, &record);
}

static void emit_value(const struct output *output, enum tree_item item, uint32_t number, uint64_t value)
{
    if (value)
        emit(output, item, number, value);
}

static const struct {
    enum tree_item item;
    enum column column;
} column_items[] = {
    {TREE_ITEM_BASE, COLUMN_BASE},
    {TREE_ITEM_FOLDED, COLUMN_FOLDED},
    {TREE_ITEM_SAMPLED_BASE, COLUMN_SAMPLED_BASE},
    {TREE_ITEM_SAMPLES, COLUMN_SAMPLES},
    {TREE_ITEM_FOLDED_SAMPLED, COLUMN_SAMPLED_FOLDED},
    {TREE_ITEM_FOLDED_SAMPLES, COLUMN_FOLDED_SAMPLES},
    {TREE_ITEM_PASSED, COLUMN_PASSED},
    {TREE_ITEM_FOLDED_PASSED, COLUMN_FOLDED_PASSED},
};
enum { COLUMN_ITEMS = sizeof column_items / sizeof *column_items };

static void emit_node(const struct output *output, const struct tree *tree, uint32_t number)
{
    const struct tree_node *node = &tree->node[number];
    const struct routine *routine = &tree->set->routines.at[node->routine];
    if (number) {
        enum tree_item item = TREE_ITEM_EVENT;
        if (node->is_sampled)
            item = routine->kind == ROUTINE_LINE ? TREE_ITEM_SAMPLED_FRAME : TREE_ITEM_SAMPLED;
        emit(output, item, routine->number, node->parent);
    }
    emit_value(output, TREE_ITEM_CALLS, 0, node->calls);
    emit_value(output, TREE_ITEM_ELAPSED, 0, node->elapsed_ns);
    emit_value(output, TREE_ITEM_FOLDED_CALLS, 0, node->folded_calls);
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++)
        for (unsigned i = 0; tree->metric[m] && i < COLUMN_ITEMS; i++)
            emit_value(output, column_items[i].item, m, tree_value(tree, number, m, column_items[i].column));
    for (unsigned m = 1; m < TREE_METRICS_MAX; m++)
        emit_value(output, TREE_ITEM_ELAPSED, m, tree_value(tree, number, m, COLUMN_ELAPSED));
}

void tree_serialise(const struct tree *tree, tree_emit_fn *emit_fn, void *context)
{
    struct output output = {emit_fn, context, tree->last_ns};
    emit(&output, TREE_ITEM_BEGIN, tree->n, 0);
    for (uint32_t i = 0; i < tree->n; i++)
        emit_node(&output, tree, i);
    uint64_t oddity[ODDITIES];
    memcpy(oddity, &tree->oddities, sizeof oddity);
    for (unsigned i = 0; i < ODDITIES; i++)
        emit_value(&output, TREE_ITEM_ODDITY, i, oddity[i]);
    emit(&output, TREE_ITEM_DONE, 0, 0);
}

/* ---- reading ---- */

static void begin(struct tree *tree)
{
    if (tree->loading)
        tree_free(tree->loading);
    tree->loading = tree_new(tree->set, tree->thread, tree->node[0].routine, true);
    tree->loading->node[0].calls = 0;
    VEC_PUSH(&tree->loading->loaded, 0);
}

static bool add_node(struct tree *tree, const struct trace_record *record)
{
    struct tree_set *set = tree->set;
    bool is_frame = record->metric == TREE_ITEM_SAMPLED_FRAME, is_sampled = record->metric != TREE_ITEM_EVENT;
    uint32_t parent = record->value < tree->loaded.n ? tree->loaded.at[record->value] : TRACE_NONE, node = TRACE_NONE;
    struct tree_ids ids = is_frame ? tree_frame_ids(set, record->number) : tree_function_ids(set, record->number);
    /* Calls are never below samples. */
    bool is_good = parent != TRACE_NONE && ids.ident != TRACE_NONE && (is_sampled || !tree->node[parent].is_sampled);
    if (is_good && set->options.by == TREE_BY_MODULE && parent && tree->node[parent].routine == ids.routine)
        node = parent;
    else if (is_good)
        node = tree_add_child(tree, parent, ids.routine, is_sampled);
    tree->is_inner = node == parent;
    VEC_PUSH(&tree->loaded, node);
    return node != TRACE_NONE;
}

static bool add_to_column(struct tree *tree, const struct trace_record *record, uint32_t node)
{
    if (record->number >= TREE_METRICS_MAX)
        return false;
    for (unsigned i = 0; i < COLUMN_ITEMS; i++)
        if (record->metric == column_items[i].item) {
            if (column_items[i].column > COLUMN_FOLDED)
                tree_column(tree, record->number, COLUMN_SAMPLED_BASE);
            else
                tree_column(tree, record->number, COLUMN_BASE);
            tree_column(tree, record->number, column_items[i].column)[node] += record->value;
            if (column_items[i].item == TREE_ITEM_SAMPLES)
                tree->node[node].samples += record->value;
            return true;
        }
    return false;
}

/* A value of the newest node. */
static bool add_value(struct tree *tree, const struct trace_record *record)
{
    uint32_t node = tree->loaded.at[tree->loaded.n - 1];
    if (node == TRACE_NONE)
        return false;
    struct tree_node *to = &tree->node[node];
    bool is_inner = tree->is_inner; /* by module: only calls from outside count */
    switch (record->metric) {
    case TREE_ITEM_CALLS:
        to->calls += is_inner ? 0 : record->value;
        return true;
    case TREE_ITEM_ELAPSED:
        if (record->number >= TREE_METRICS_MAX)
            return false;
        if (!record->number)
            to->elapsed_ns += is_inner ? 0 : record->value;
        else if (!is_inner)
            tree_column(tree, record->number, COLUMN_ELAPSED)[node] += record->value;
        return true;
    case TREE_ITEM_FOLDED_CALLS:
        to->folded_calls += record->value;
        return true;
    default:
        return add_to_column(tree, record, node);
    }
}

static bool add_oddity(struct tree *tree, const struct trace_record *record)
{
    if (record->number >= ODDITIES)
        return false;
    uint64_t oddity[ODDITIES];
    memcpy(oddity, &tree->oddities, sizeof oddity);
    oddity[record->number] += record->value;
    memcpy(&tree->oddities, oddity, sizeof oddity);
    return true;
}

/* The tree becomes the one that was read, and counts from now on. */
static void adopt(struct tree *tree)
{
    struct tree *loaded = tree->loading, old = *tree;
    struct tree_set *set = tree->set;
    tree->loading = NULL;
    set->bytes -= old.room * tree_node_bytes(&old);
    tree->node = loaded->node;
    tree->last_child = loaded->last_child;
    tree->slot = loaded->slot;
    tree->n = loaded->n;
    tree->room = loaded->room;
    tree->slots = loaded->slots;
    tree->oddities = loaded->oddities;
    loaded->node = old.node;
    loaded->last_child = old.last_child;
    loaded->slot = old.slot;
    for (unsigned m = 0; m < TREE_METRICS_MAX; m++) {
        set->bytes += (loaded->metric[m] ? sizeof **old.metric : 0) - (old.metric[m] ? sizeof **old.metric : 0);
        tree->metric[m] = loaded->metric[m];
        loaded->metric[m] = old.metric[m];
    }
    set->bytes += tree->room * tree_node_bytes(tree);
    set->peak_bytes = set->bytes > set->peak_bytes ? set->bytes : set->peak_bytes;
    tree_free(loaded);
    tree_forget_samples(tree);
    tree_reset_open(tree);
    tree->is_root_entered = false;
    for (size_t before = 0; before != tree->n && !tree_make_room(tree, 0);)
        before = tree->n;
}

static bool add_item(struct tree *tree, const struct trace_record *record)
{
    switch (record->metric) {
    case TREE_ITEM_EVENT:
    case TREE_ITEM_SAMPLED:
    case TREE_ITEM_SAMPLED_FRAME:
        return add_node(tree, record);
    case TREE_ITEM_ODDITY:
        return add_oddity(tree, record);
    default:
        return add_value(tree, record);
    }
}

void tree_load_item(struct tree *tree, const struct trace_record *record)
{
    if (record->minor == TRACE_NODE && record->metric == TREE_ITEM_BEGIN) {
        begin(tree);
    } else if (record->minor != TRACE_NODE || record->metric >= TREE_ITEMS || !tree->loading) {
        tree->oddities.ignored_records++;
    } else if (record->metric == TREE_ITEM_DONE) {
        adopt(tree);
        tree->has_loaded = true;
    } else if (!add_item(tree->loading, record)) {
        tree->loading->oddities.ignored_records++;
    }
}

void tree_load_end(struct tree *tree)
{
    if (!tree->loading)
        return;
    if (!tree->has_loaded) {
        adopt(tree);
        return;
    }
    tree_free(tree->loading);
    tree->loading = NULL;
}
