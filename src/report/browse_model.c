#include "report/browse.h"
#include "report/view.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- trees ---- */

const struct tree *browse_tree(const struct browse *browse)
{
    struct profile *profile = browse->profile;
    return browse->tree_at ? profile->thread.at[browse->tree_at - 1].tree : profile_sum(profile);
}

static bool *open_nodes(struct browse *browse)
{
    bool **open = &browse->open[browse->tree_at];
    if (!*open) {
        size_t count;
        tree_nodes(browse_tree(browse), &count);
        *open = memory_zero(count, sizeof **open);
        (*open)[0] = true;
    }
    return *open;
}

bool browse_is_open(const struct browse *browse, uint32_t node)
{
    const bool *open = browse->open[browse->tree_at];
    return open ? open[node] : !node;
}

void browse_set_open(struct browse *browse, uint32_t node, bool is_open)
{
    open_nodes(browse)[node] = is_open;
}

/* ---- rows ---- */

static bool has_children(struct browse *browse, uint32_t node, order_nodes *scratch)
{
    scratch->n = 0;
    return order_children(&browse->order, node, scratch) > 0;
}

static void list_rows(struct browse *browse)
{
    order_nodes waiting = {0}, children = {0};
    browse->row.n = 0;
    VEC_PUSH(&waiting, 0);
    while (waiting.n) {
        uint32_t node = waiting.at[--waiting.n];
        bool is_parent = has_children(browse, node, &children);
        VEC_PUSH(&browse->row, (struct browse_row){node, is_parent});
        if (browse_is_open(browse, node))
            for (size_t i = children.n; i-- > 0;)
                VEC_PUSH(&waiting, children.at[i]);
    }
    VEC_FREE(&waiting);
    VEC_FREE(&children);
}

static bool select_node(struct browse *browse, uint32_t node)
{
    for (size_t i = 0; i < browse->row.n; i++)
        if (browse->row.at[i].node == node) {
            browse->selected = i;
            return true;
        }
    return false;
}

void browse_list(struct browse *browse, uint32_t node)
{
    size_t count;
    const struct tree_node *all = tree_nodes(browse_tree(browse), &count);
    list_rows(browse);
    while (!select_node(browse, node) && node)
        node = all[node].parent;
    browse->pane_selected = browse->pane_top = 0;
}

static void choose_unit(struct browse *browse)
{
    const struct tree *tree = browse_tree(browse);
    uint64_t events = view_largest(tree, TREE_EVENTS, browse->metric), samples = view_largest(tree, TREE_SAMPLES, browse->metric);
    browse->unit = grid_unit(browse->profile->metrics[browse->metric].unit, events > samples ? events : samples, false);
}

void browse_look(struct browse *browse, uint32_t node)
{
    order_deinit(&browse->order);
    browse->order = (struct order){
        .set = browse->profile->set, .tree = browse_tree(browse), .which = browse->which, .sort = browse->sort, .metric = browse->metric};
    order_init(&browse->order);
    browse->has_stanzas = false;
    choose_unit(browse);
    browse_list(browse, node);
}

uint32_t browse_selected_node(const struct browse *browse)
{
    return browse->row.at[browse->selected].node;
}

void browse_reveal(struct browse *browse, uint32_t node)
{
    size_t count;
    const struct tree_node *all = tree_nodes(browse_tree(browse), &count);
    for (uint32_t at = all[node].parent; node && at != TRACE_NONE; at = all[at].parent)
        browse_set_open(browse, at, true);
    browse_list(browse, node);
}

/* ---- callers and callees ---- */

const struct tree_stanza *browse_stanza(struct browse *browse)
{
    size_t count;
    uint32_t selected = browse_selected_node(browse);
    uint32_t routine = tree_nodes(browse_tree(browse), &count)[selected].routine;
    enum tree_what what = order_what(&browse->order, selected);
    if (!browse->has_stanzas || browse->stanzas_what != what) {
        tree_stanzas_free(&browse->stanzas);
        tree_arcflow(browse->profile->set, browse_tree(browse), what, browse->metric, &browse->stanzas);
        browse->has_stanzas = true;
        browse->stanzas_what = what;
    }
    for (size_t i = 0; i < browse->stanzas.n; i++)
        if (browse->stanzas.at[i].self.routine == routine)
            return &browse->stanzas.at[i];
    return NULL;
}

size_t browse_pane_rows(const struct tree_stanza *stanza)
{
    return stanza ? stanza->parent.n + 1 + stanza->child.n : 0;
}

const struct tree_arc *browse_pane_arc(const struct tree_stanza *stanza, size_t row)
{
    return row < stanza->parent.n    ? &stanza->parent.at[row]
           : row == stanza->parent.n ? NULL
                                     : &stanza->child.at[row - stanza->parent.n - 1];
}

/* ---- life ---- */

void browse_say(struct browse *browse, const char *format, ...)
{
    char *text = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0)
        text = NULL;
    va_end(list);
    free(browse->message);
    browse->message = text;
}

struct browse *browse_create(struct profile *profile, bool is_utf8)
{
    struct browse *browse = memory_zero(1, sizeof *browse);
    browse->profile = profile;
    browse->is_utf8 = is_utf8;
    browse->which = profile->what == TREE_EVENTS ? ORDER_EVENTS : ORDER_SAMPLES;
    browse->metric = profile->metric;
    browse->sort = REPORT_SORT_CUM;
    browse->open = memory_zero(profile->thread.n + 1, sizeof *browse->open);
    browse_look(browse, 0);
    return browse;
}

void browse_destroy(struct browse *browse)
{
    for (size_t i = 0; i <= browse->profile->thread.n; i++)
        free(browse->open[i]);
    free(browse->open);
    for (size_t i = 0; i < browse->line.n; i++)
        free(browse->line.at[i].text);
    VEC_FREE(&browse->line);
    VEC_FREE(&browse->row);
    VEC_FREE(&browse->question);
    tree_stanzas_free(&browse->stanzas);
    order_deinit(&browse->order);
    free(browse->sought);
    free(browse->message);
    free(browse);
}
