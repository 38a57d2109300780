/* Routines, each over all its stacks; and ArcFlow, which breaks each down by who called it and what it called. */
#include "report/view.h"

#include <stdlib.h>
#include <string.h>

enum { FLAT_COLUMNS = 6, ARC_COLUMNS = 5 };
static const struct grid_column event_column[] = {
    {"calls", "Calls", GRID_COUNT}, {"base", "Base", GRID_VALUE},        {"cum", "Cum", GRID_VALUE},
    {"cum2", "Cum2", GRID_VALUE},   {"base_share", "Base%", GRID_SHARE}, {"cum_share", "Cum%", GRID_SHARE},
};
static const struct grid_column sample_column[] = {
    {"samples", "Samples", GRID_COUNT}, {"base", "Base", GRID_VALUE},        {"cum", "Cum", GRID_VALUE},
    {"cum2", "Cum2", GRID_VALUE},       {"base_share", "Base%", GRID_SHARE}, {"cum_share", "Cum%", GRID_SHARE},
};
static const struct grid_column event_arc_column[] = {
    {"calls", "Calls", GRID_COUNT}, {"base", "Base", GRID_VALUE},      {"cum", "Cum", GRID_VALUE},
    {"cum2", "Cum2", GRID_VALUE},   {"cum_share", "Cum%", GRID_SHARE},
};
static const struct grid_column sample_arc_column[] = {
    {"samples", "Samples", GRID_COUNT}, {"base", "Base", GRID_VALUE},      {"cum", "Cum", GRID_VALUE},
    {"cum2", "Cum2", GRID_VALUE},       {"cum_share", "Cum%", GRID_SHARE},
};

/* ---- order ---- */

struct comparison {
    const struct tree_set *set;
    enum report_sort sort;
    enum tree_what what;
};

static int64_t sort_key(const struct tree_flat *flat, const struct comparison *by)
{
    switch (by->sort) {
    case REPORT_SORT_CUM:
        return flat->cum;
    case REPORT_SORT_BASE:
        return flat->base;
    case REPORT_SORT_CALLS:
        return (int64_t)(by->what == TREE_EVENTS ? flat->calls : flat->samples);
    case REPORT_SORT_ELAPSED:
        return flat->elapsed;
    case REPORT_SORT_ORDER:
        return UINT32_MAX - flat->routine; /* routines are numbered as they appear */
    default:
        return 0;
    }
}

static int compare(const struct tree_flat *x, const struct tree_flat *y, const struct comparison *by)
{
    int64_t a = sort_key(x, by), b = sort_key(y, by);
    if (x->is_root != y->is_root)
        return x->is_root ? -1 : 1;
    if (a != b)
        return a < b ? 1 : -1;
    int order = strcmp(tree_routine(by->set, x->routine), tree_routine(by->set, y->routine));
    return order ? order : x->routine < y->routine ? -1 : x->routine > y->routine;
}

static int compare_flats(const void *a, const void *b, void *by)
{
    return compare(a, b, by);
}

static int compare_stanzas(const void *a, const void *b, void *by)
{
    const struct tree_stanza *x = a, *y = b;
    return compare(&x->self, &y->self, by);
}

/* ---- parts ---- */

static int64_t total_of(const struct view *view, const struct tree *tree)
{
    return tree_cum(tree, 0, view->profile->what, view->profile->metric);
}

static bool is_small(const struct view *view, const struct tree_flat *flat, int64_t total)
{
    return !flat->is_root && (double)grid_size(flat->cum) < view->options->min_share * (double)grid_size(total);
}

static void flat_part(struct view *view, const struct tree *tree, const char *title)
{
    const struct profile *profile = view->profile;
    bool is_events = profile->what == TREE_EVENTS;
    int64_t total = total_of(view, tree);
    tree_flats flats = {0};
    tree_flatten(profile->set, tree, profile->what, profile->metric, &flats);
    if (view->options->sort && flats.n)
        qsort_r(flats.at, flats.n, sizeof *flats.at, compare_flats, &(struct comparison){profile->set, view->options->sort, profile->what});
    struct grid grid = {
        .column = is_events ? event_column : sample_column, .column_count = FLAT_COLUMNS, .title = title, .is_titled = *title};
    for (size_t i = 0; i < flats.n; i++) {
        const struct tree_flat *flat = &flats.at[i];
        if (is_small(view, flat, total)) {
            grid.hidden++;
            continue;
        }
        struct grid_row row = {.cell = {(int64_t)(is_events ? flat->calls : flat->samples), flat->base, flat->cum,
                                        flat->is_recursive ? flat->cum2 : GRID_NONE, grid_share(flat->base, total),
                                        grid_share(flat->cum, total)},
                               .is_root = flat->is_root};
        view_fill_name(&row, profile->set, flat->routine);
        VEC_PUSH(&grid.row, row);
    }
    view_part(view, &grid);
    grid_deinit(&grid);
    VEC_FREE(&flats);
}

static void add_arc(struct grid *grid, const struct tree_set *set, const struct tree_arc *arc, const char *label, int64_t total)
{
    struct grid_row row = {.label = label, .cell = {(int64_t)arc->calls, arc->base, arc->cum, GRID_BLANK, grid_share(arc->cum, total)}};
    view_fill_name(&row, set, arc->routine);
    VEC_PUSH(&grid->row, row);
}

static void add_stanza(struct grid *grid, const struct view *view, const struct tree_stanza *stanza, int64_t total)
{
    const struct tree_set *set = view->profile->set;
    const struct tree_flat *self = &stanza->self;
    size_t first = grid->row.n;
    for (size_t i = 0; i < stanza->parent.n; i++)
        add_arc(grid, set, &stanza->parent.at[i], stanza->parent.at[i].is_recursive ? "rParent" : "Parent", total);
    struct grid_row row = {.label = "Self",
                           .mark = GRID_STRONG,
                           .is_root = self->is_root,
                           .cell = {(int64_t)(view->profile->what == TREE_EVENTS ? self->calls : self->samples), self->base, self->cum,
                                    self->is_recursive ? self->cum2 : GRID_NONE, grid_share(self->cum, total)}};
    view_fill_name(&row, set, self->routine);
    VEC_PUSH(&grid->row, row);
    for (size_t i = 0; i < stanza->child.n; i++)
        add_arc(grid, set, &stanza->child.at[i], stanza->child.at[i].is_recursive ? "rChild" : "Child", total);
    grid->row.at[first].has_gap = first > 0;
}

static void arcflow_part(struct view *view, const struct tree *tree, const char *title)
{
    const struct profile *profile = view->profile;
    int64_t total = total_of(view, tree);
    tree_stanzas stanzas = {0};
    tree_arcflow(profile->set, tree, profile->what, profile->metric, &stanzas);
    if (view->options->sort && stanzas.n)
        qsort_r(stanzas.at, stanzas.n, sizeof *stanzas.at, compare_stanzas,
                &(struct comparison){profile->set, view->options->sort, profile->what});
    struct grid grid = {.column = profile->what == TREE_EVENTS ? event_arc_column : sample_arc_column,
                        .column_count = ARC_COLUMNS,
                        .title = title,
                        .is_titled = *title};
    for (size_t i = 0; i < stanzas.n; i++) {
        const struct tree_stanza *stanza = &stanzas.at[i];
        if (is_small(view, &stanza->self, total))
            grid.hidden += 1 + stanza->parent.n + stanza->child.n;
        else
            add_stanza(&grid, view, stanza, total);
    }
    view_part(view, &grid);
    grid_deinit(&grid);
    tree_stanzas_free(&stanzas);
}

static void each_part(struct view *view, void (*part)(struct view *, const struct tree *, const char *))
{
    struct profile *profile = view->profile;
    bool is_each = view_is_each(view, false);
    uint64_t largest = 0;
    for (size_t i = 0; is_each && i < profile->thread.n; i++) {
        uint64_t size = view_largest(profile->thread.at[i].tree, profile->what, profile->metric);
        largest = size > largest ? size : largest;
    }
    if (!is_each && profile->thread.n)
        largest = view_largest(profile_sum(profile), profile->what, profile->metric);
    view_begin(view, largest, largest);
    for (size_t i = 0; is_each && i < profile->thread.n; i++)
        part(view, profile->thread.at[i].tree, profile->thread.at[i].name);
    if (!is_each && profile->thread.n)
        part(view, profile_sum(profile), "");
    view_end(view);
}

void view_flat(struct view *view)
{
    each_part(view, flat_part);
}

void view_arcflow(struct view *view)
{
    each_part(view, arcflow_part);
}
