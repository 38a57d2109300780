/* Routines over all of a tree: flat numbers, and who called whom (ArcFlow). */
#include "tree/internal.h"

#include <stdlib.h>
#include <string.h>

/* What is looked at: one metric, of events or of samples. */
struct view {
    const struct tree_set *set;
    const struct tree *tree;
    enum tree_what what;
    unsigned metric;
    uint64_t *seen; /* by node: samples that were taken in it or passed it, and below; NULL: events */
};

static void view_init(struct view *view)
{
    const struct tree *tree = view->tree;
    if (view->what == TREE_EVENTS)
        return;
    view->seen = memory_zero(tree->n, sizeof *view->seen);
    for (uint32_t i = 0; i < tree->n; i++)
        for (enum column column = COLUMN_SAMPLES; column <= COLUMN_FOLDED_PASSED; column++)
            if (column != COLUMN_SAMPLED_FOLDED)
                view->seen[i] += tree_value(tree, i, view->metric, column);
    for (uint32_t i = tree->n; i-- > 1;)
        view->seen[tree->node[i].parent] += view->seen[i];
}

/* Whether the node is part of the view: calls, or what some sample saw. */
static bool is_seen(const struct view *view, uint32_t node)
{
    return view->seen ? view->seen[node] > 0 : !view->tree->node[node].is_sampled;
}

/* A trace can say anything: sums of values go round. */
static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* ---- flat ---- */

/* By routine; a routine that is not seen has `is_seen` false. */
struct total {
    struct tree_flat flat;
    bool is_seen;
};

static struct total *total_up(const struct view *view)
{
    const struct tree *tree = view->tree;
    struct total *totals = memory_zero(view->set->routines.n, sizeof *totals);
    for (uint32_t i = 0; i < tree->n; i++) {
        if (i && !is_seen(view, i))
            continue;
        const struct tree_node *node = &tree->node[i];
        struct total *total = &totals[node->routine];
        struct tree_flat *flat = &total->flat;
        int64_t cum = tree_cum(tree, i, view->what, view->metric);
        bool is_outermost = node->recursion == 1;
        total->is_seen = true;
        flat->routine = node->routine;
        flat->is_root = !i;
        flat->is_recursive |= !is_outermost;
        flat->calls += node->calls;
        flat->samples += tree_samples(tree, i, view->metric);
        flat->base = plus(flat->base, tree_base(tree, i, view->what, view->metric));
        flat->folded = plus(flat->folded, tree_folded(tree, i, view->what, view->metric));
        flat->cum = plus(flat->cum, is_outermost ? cum : 0);
        flat->cum2 = plus(flat->cum2, cum);
        flat->elapsed = plus(flat->elapsed, is_outermost ? tree_elapsed(tree, i, view->metric) : 0);
    }
    return totals;
}

static int compare_flat(const void *a, const void *b, void *set)
{
    const struct tree_flat *left = a, *right = b;
    if (left->is_root != right->is_root)
        return left->is_root ? -1 : 1;
    if (left->cum != right->cum)
        return left->cum < right->cum ? 1 : -1;
    if (left->base != right->base)
        return left->base < right->base ? 1 : -1;
    int order = strcmp(tree_routine(set, left->routine), tree_routine(set, right->routine));
    if (order)
        return order;
    return left->routine < right->routine ? -1 : left->routine > right->routine;
}

static void flatten(const struct view *view, tree_flats *out)
{
    struct total *totals = total_up(view);
    for (size_t i = 0; i < view->set->routines.n; i++)
        if (totals[i].is_seen)
            VEC_PUSH(out, totals[i].flat);
    free(totals);
    if (out->n)
        qsort_r(out->at, out->n, sizeof *out->at, compare_flat, (void *)(uintptr_t)view->set);
}

void tree_flatten(const struct tree_set *set, const struct tree *tree, enum tree_what what, unsigned metric, tree_flats *out)
{
    struct view view = {set, tree, what, metric, NULL};
    memset(out, 0, sizeof *out);
    view_init(&view);
    flatten(&view, out);
    free(view.seen);
}

/* ---- ArcFlow ---- */

/* Instances of `child` that `parent` called: [0] the outermost on their stacks, [1] the others. */
struct link {
    uint32_t parent, child;
    bool has[2];
    struct tree_arc arc[2]; /* routine and is_recursive are set when it is handed out */
};

struct links {
    VEC(struct link) link; /* in the order of their first appearance */
    uint32_t *slot;        /* number + 1 */
    size_t slots;          /* a power of two */
};

static size_t find_link(const struct links *links, uint32_t parent, uint32_t child)
{
    uint64_t key = ((uint64_t)parent << 32 | child) * 0x9e3779b97f4a7c15u;
    size_t mask = links->slots - 1, at = (key ^ key >> 29) >> 16 & mask;
    for (; links->slot[at]; at = (at + 1) & mask) {
        const struct link *link = &links->link.at[links->slot[at] - 1];
        if (link->parent == parent && link->child == child)
            break;
    }
    return at;
}

static void grow_links(struct links *links)
{
    free(links->slot);
    links->slots = links->slots ? 2 * links->slots : 64;
    links->slot = memory_zero(links->slots, sizeof *links->slot);
    for (size_t i = 0; i < links->link.n; i++)
        links->slot[find_link(links, links->link.at[i].parent, links->link.at[i].child)] = (uint32_t)i + 1;
}

static struct link *get_link(struct links *links, uint32_t parent, uint32_t child)
{
    if (2 * (links->link.n + 1) > links->slots)
        grow_links(links);
    size_t at = find_link(links, parent, child);
    if (!links->slot[at]) {
        VEC_PUSH(&links->link, (struct link){.parent = parent, .child = child});
        links->slot[at] = (uint32_t)links->link.n;
    }
    return &links->link.at[links->slot[at] - 1];
}

static void collect_links(const struct view *view, struct links *links)
{
    const struct tree *tree = view->tree;
    for (uint32_t i = 1; i < tree->n; i++) {
        const struct tree_node *node = &tree->node[i];
        if (!is_seen(view, i))
            continue;
        struct link *link = get_link(links, tree->node[node->parent].routine, node->routine);
        bool is_recursive = node->recursion > 1;
        struct tree_arc *arc = &link->arc[is_recursive];
        link->has[is_recursive] = true;
        arc->calls += view->what == TREE_EVENTS ? node->calls : tree_samples(tree, i, view->metric);
        arc->base = plus(arc->base, tree_base(tree, i, view->what, view->metric));
        arc->cum = plus(arc->cum, tree_cum(tree, i, view->what, view->metric));
    }
}

static void hand_out(const struct link *link, struct tree_stanza *parent, struct tree_stanza *child)
{
    for (int r = 0; r < 2; r++) {
        if (!link->has[r])
            continue;
        struct tree_arc arc = link->arc[r];
        arc.is_recursive = r;
        arc.routine = link->parent;
        VEC_PUSH(&child->parent, arc);
        arc.routine = link->child;
        VEC_PUSH(&parent->child, arc);
    }
}

void tree_arcflow(const struct tree_set *set, const struct tree *tree, enum tree_what what, unsigned metric, tree_stanzas *out)
{
    struct view view = {set, tree, what, metric, NULL};
    memset(out, 0, sizeof *out);
    view_init(&view);
    tree_flats flats = {0};
    flatten(&view, &flats);
    uint32_t *place = memory_alloc(set->routines.n * sizeof *place);
    memset(place, 0xff, set->routines.n * sizeof *place);
    for (size_t i = 0; i < flats.n; i++) {
        VEC_PUSH(out, (struct tree_stanza){.self = flats.at[i]});
        place[flats.at[i].routine] = (uint32_t)i;
    }
    struct links links = {0};
    collect_links(&view, &links);
    for (size_t i = 0; i < links.link.n; i++) {
        const struct link *link = &links.link.at[i];
        hand_out(link, &out->at[place[link->parent]], &out->at[place[link->child]]);
    }
    VEC_FREE(&links.link);
    free(links.slot);
    free(place);
    VEC_FREE(&flats);
    free(view.seen);
}

void tree_stanzas_free(tree_stanzas *stanzas)
{
    for (size_t i = 0; i < stanzas->n; i++) {
        VEC_FREE(&stanzas->at[i].parent);
        VEC_FREE(&stanzas->at[i].child);
    }
    VEC_FREE(stanzas);
}
