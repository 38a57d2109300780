/* Structured samples: each stack with how often it was seen; or, in order of the run, each sample. */
#include "report/stacks.h"
#include "report/view.h"

#include "base/escape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- each stack once ---- */

static const struct grid_column column[] = {
    {"number", "No", GRID_COUNT}, {"samples", "Samples", GRID_COUNT}, {"value", "Value", GRID_VALUE}, {"share", "Share", GRID_SHARE}};

struct tally {
    uint64_t samples;
    int64_t value;
    uint32_t path;
};

struct tallying {
    const struct stacks *stacks;
    struct tally *tally; /* by path */
    unsigned metric;
};

static bool tally_records(void *context, const struct trace_record *record, size_t count)
{
    struct tallying *tallying = context;
    for (size_t i = 0; i < count; i++)
        if (record[i].major == TRACE_SAMPLE && record[i].metric == tallying->metric && record[i].number != TRACE_NONE) {
            struct tally *tally = &tallying->tally[tallying->stacks->of_stack.at[record[i].number]];
            tally->samples++;
            tally->value = (int64_t)((uint64_t)tally->value + record[i].value);
        }
    return true;
}

static int compare_tallies(const void *a, const void *b)
{
    const struct tally *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    if (x->samples != y->samples)
        return x->samples < y->samples ? 1 : -1;
    return x->path < y->path ? -1 : x->path > y->path;
}

static int64_t total_of(const struct tally *tally, size_t count, uint64_t *largest)
{
    uint64_t total = 0;
    *largest = 0;
    for (size_t i = 0; i < count; i++) {
        total += (uint64_t)tally[i].value;
        *largest = grid_size(tally[i].value) > *largest ? grid_size(tally[i].value) : *largest;
    }
    *largest = grid_size((int64_t)total) > *largest ? grid_size((int64_t)total) : *largest;
    return (int64_t)total;
}

/* ---- trees that were built while recording: there are no records ---- */

/* Paths of the tree's nodes, as if they had been stacks. */
static struct tally *tally_tree(struct profile *profile, struct stacks *stacks)
{
    const struct tree *tree = profile_sum(profile);
    size_t count;
    const struct tree_node *node = tree_nodes(tree, &count);
    struct tally *tally = memory_zero(count + 1, sizeof *tally);
    stacks_deinit(stacks);
    for (uint32_t i = 0; i < count; i++) { /* parents come before children */
        uint32_t name = names_number(&stacks->names, tree_routine(profile->set, node[i].routine));
        VEC_PUSH(&stacks->path, (struct stacks_path){i && node[i].parent ? node[i].parent : TRACE_NONE, name});
        tally[i].samples = tree_samples(tree, i, profile->metric);
        tally[i].value = tree_base(tree, i, TREE_SAMPLES, profile->metric);
    }
    return tally;
}

static void tally_part(struct view *view, const struct stacks *stacks, struct tally *tally)
{
    size_t count = stacks->path.n;
    uint64_t largest;
    int64_t total = total_of(tally, count, &largest);
    for (uint32_t i = 0; i < count; i++)
        tally[i].path = i;
    if (count)
        qsort(tally, count, sizeof *tally, compare_tallies);
    struct grid grid = {.column = column, .column_count = sizeof column / sizeof column[0]};
    for (size_t i = 0, number = 0; i < count; i++) {
        if (!tally[i].samples)
            continue;
        number++;
        if ((double)grid_size(tally[i].value) < view->options->min_share * (double)grid_size(total)) {
            grid.hidden++;
            continue;
        }
        VEC_PUSH(&grid.row, (struct grid_row){
                                .name = stacks_text(stacks, tally[i].path),
                                .cell = {(int64_t)number, (int64_t)tally[i].samples, tally[i].value, grid_share(tally[i].value, total)}});
    }
    view_begin(view, largest, largest);
    if (grid.row.n || grid.hidden)
        view_part(view, &grid);
    view_end(view);
    for (size_t i = 0; i < grid.row.n; i++)
        free((char *)grid.row.at[i].name);
    grid_deinit(&grid);
}

/* ---- each sample ---- */

struct telling {
    struct view *view;
    const struct stacks *stacks;
    const struct profile_thread *thread;
    uint64_t before, told; /* samples: of other threads, of this one */
};

static void tell(struct telling *telling, const struct trace_record *record)
{
    struct view *view = telling->view;
    uint64_t start_ns = view->profile->info->about.start_ns;
    uint64_t number = telling->before + telling->told + 1;
    uint64_t time_ns = record->time_ns > start_ns ? record->time_ns - start_ns : 0;
    char *stack =
        record->number == TRACE_NONE ? memory_text("") : stacks_text(telling->stacks, telling->stacks->of_stack.at[record->number]);
    if (view->options->format == REPORT_JSON) {
        fprintf(view->out, "%s{\"name\": ", telling->told ? ",\n  " : "\n  ");
        escape_json(view->out, stack);
        fprintf(view->out, ", \"number\": %" PRIu64 ", \"time\": %" PRIu64 ", \"value\": %" PRId64 "}", number, time_ns,
                (int64_t)record->value);
    } else {
        fprintf(view->out, "%" PRIu64 " ", number);
        grid_put_value(view->out, (int64_t)time_ns, &view->style.time);
        putc_unlocked(' ', view->out);
        grid_put_value(view->out, (int64_t)record->value, &view->style.value);
        putc_unlocked(' ', view->out);
        escape_plain(view->out, stack);
        putc_unlocked('\n', view->out);
    }
    telling->told++;
    free(stack);
}

static bool tell_records(void *context, const struct trace_record *record, size_t count)
{
    struct telling *telling = context;
    for (size_t i = 0; i < count; i++)
        if (record[i].major == TRACE_SAMPLE && record[i].metric == telling->view->profile->metric)
            tell(telling, &record[i]);
    return true;
}

/* A part of its own making: there may be a row for each record. */
static struct err *tell_thread(struct view *view, const struct stacks *stacks, const struct profile_thread *thread, uint64_t *told)
{
    struct telling telling = {view, stacks, thread, *told, 0};
    bool is_json = view->options->format == REPORT_JSON;
    if (is_json) {
        fputs(view->part_count ? ",\n {\"name\": " : "{\"name\": ", view->out);
        escape_json(view->out, thread->name);
        fputs(", \"hidden\": 0, \"rows\": [", view->out);
    } else {
        fputs(view->part_count ? "\n" : "", view->out);
        escape_plain(view->out, thread->name);
        fprintf(view->out, ": No Time%s Value%s Stack\n", view->style.time.suffix, view->style.value.suffix);
    }
    struct err *error = profile_read(view->profile, thread->thread, tell_records, &telling);
    fputs(is_json ? "]}" : "", view->out);
    view->part_count++;
    *told += telling.told;
    return error;
}

struct err *view_samples(struct view *view)
{
    const struct profile *profile = view->profile;
    struct stacks stacks;
    stacks_init(&stacks, profile->trace, view->options->by);
    struct err *error = NULL;
    if (profile_is_tree(profile)) {
        struct tally *tally = tally_tree(view->profile, &stacks);
        tally_part(view, &stacks, tally);
        free(tally);
    } else if (view->options->sort == REPORT_SORT_ORDER) {
        uint64_t told = 0;
        uint64_t length_ns = profile->info->end_ns - profile->info->about.start_ns;
        view_begin(view, length_ns, length_ns);
        for (size_t i = 0; i < profile->thread.n && !error; i++)
            error = tell_thread(view, &stacks, &profile->thread.at[i], &told);
        if (!error)
            view_end(view);
    } else {
        struct tallying tallying = {&stacks, memory_zero(stacks.path.n + 1, sizeof *tallying.tally), profile->metric};
        for (size_t i = 0; i < profile->thread.n && !error; i++)
            error = profile_read(profile, profile->thread.at[i].thread, tally_records, &tallying);
        if (!error)
            tally_part(view, &stacks, tallying.tally);
        free(tallying.tally);
    }
    stacks_deinit(&stacks);
    return error;
}
