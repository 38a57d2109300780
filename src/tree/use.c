/* What the threads of a process use together, and elapsed of metrics other than time: how much that grew from a call's entry to its return.
 *
 * It is subtracted from the node's column at the entry and added at the return, in sums of 64 bits that may wrap meanwhile: an open call
 * needs no memory for it, however many metrics there are. Of a metric that nobody has used at the entry there is nothing to subtract, so
 * the column need not be there before. */
#include "tree/internal.h"

#include <stdlib.h>
#include <string.h>

/* Where the process's is, or belongs. */
static size_t find_use(const struct tree_set *set, uint32_t process)
{
    size_t low = 0, high = set->uses.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->uses.at[middle]->process < process)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct process_use *get_use(struct tree_set *set, uint32_t process)
{
    size_t at = find_use(set, process);
    if (at < set->uses.n && set->uses.at[at]->process == process)
        return set->uses.at[at];
    struct process_use *use = memory_zero(1, sizeof *use);
    use->process = process;
    VEC_PUSH(&set->uses, use);
    memmove(&set->uses.at[at + 1], &set->uses.at[at], (set->uses.n - 1 - at) * sizeof *set->uses.at);
    set->uses.at[at] = use;
    return use;
}

void tree_leave_use(struct tree *tree)
{
    struct tree_set *set = tree->set;
    if (!tree->use || tree->is_on_top || --tree->use->trees)
        return;
    size_t at = find_use(set, tree->use->process);
    memmove(&set->uses.at[at], &set->uses.at[at + 1], (--set->uses.n - at) * sizeof *set->uses.at);
    free(tree->use);
    tree->use = NULL;
}

void tree_join(struct tree *tree, uint32_t process)
{
    struct process_use *use = get_use(tree->set, process);
    use->trees++;
    tree_leave_use(tree);
    tree->use = use;
}

/* ---- what is used ---- */

static inline bool is_counted(const struct trace_record *record)
{
    return record->major == TRACE_SAMPLE && record->minor == TRACE_PLACE && record->number == TRACE_NONE && record->metric &&
           record->metric < TREE_METRICS_MAX;
}

void tree_count_use(struct process_use *use, const struct trace_record *record)
{
    use->used[record->metric] += record->value;
    if (use->used_n <= record->metric)
        use->used_n = record->metric + 1u;
}

void tree_use(struct tree_set *set, uint32_t process, const struct trace_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_counted(&records[i]))
            tree_count_use(get_use(set, process), &records[i]);
}

/* ---- elapsed ---- */

void tree_begin_elapsed(struct tree *tree, uint32_t index)
{
    for (unsigned m = 1; m < tree->use->used_n; m++)
        if (tree->use->used[m]) {
            uint64_t *elapsed = tree_column(tree, m, COLUMN_ELAPSED);
            elapsed[tree->open[index].node] -= tree->use->used[m];
        }
}

void tree_end_elapsed(struct tree *tree, uint32_t index)
{
    for (unsigned m = 1; m < tree->use->used_n; m++)
        if (tree->use->used[m]) {
            uint64_t *elapsed = tree_column(tree, m, COLUMN_ELAPSED);
            elapsed[tree->open[index].node] += tree->use->used[m];
        }
}
