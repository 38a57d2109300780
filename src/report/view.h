/* Views: trees as rows, in one or several parts. */
#ifndef REPORT_VIEW_H
#define REPORT_VIEW_H

#include "report/grid.h"
#include "report/order.h"
#include "report/profile.h"

struct view {
    const struct report_options *options;
    struct profile *profile;
    FILE *out;
    struct grid_style style;
    size_t part_count;
};

/* ---- view.c ---- */

/* The size of the largest cum. */
uint64_t view_largest(const struct tree *tree, enum tree_what what, unsigned metric);
/* The largest value there will be decides on the unit. */
void view_begin(struct view *view, uint64_t largest_value, uint64_t largest_time_ns);
void view_part(struct view *view, const struct grid *grid);
/* With what there is to say about the profile. */
void view_end(struct view *view);
void view_fill_name(struct grid_row *row, const struct tree_set *set, uint32_t routine);
/* Whether each thread is a part. */
bool view_is_each(const struct view *view, bool is_default);

/* ---- one file each ---- */

void view_tree(struct view *view);
void view_flat(struct view *view);
void view_arcflow(struct view *view);
void view_threads(struct view *view);
void view_diff(struct view *view, struct profile *other);
struct err *view_samples(struct view *view);

#endif
