/* One line for each thread. */
#include "report/view.h"

static const struct grid_column column[] = {
    {"cpu", "Cpu", GRID_TIME},        {"estimated", "Estimated", GRID_TIME}, {"elapsed", "Elapsed", GRID_TIME},
    {"events", "Events", GRID_COUNT}, {"samples", "Samples", GRID_COUNT},    {"lost", "Lost", GRID_COUNT},
};

void view_threads(struct view *view)
{
    const struct profile *profile = view->profile;
    struct grid grid = {.column = column, .column_count = sizeof column / sizeof column[0]};
    size_t count;
    const struct trace_thread *definition = trace_threads(profile->trace, &count);
    uint64_t largest = 0;
    for (size_t i = 0; i < profile->thread.n; i++) {
        const struct profile_thread *thread = &profile->thread.at[i];
        const struct trace_thread *about = &definition[thread->thread];
        uint64_t from_ns = about->start_ns && about->start_ns < thread->first_ns ? about->start_ns : thread->first_ns;
        uint64_t to_ns = about->end_ns > thread->last_ns ? about->end_ns : thread->last_ns;
        const struct tree_oddities *odd = tree_oddities(thread->tree);
        uint64_t lost = odd->lost_calls + odd->lost_samples + odd->lost_stacks;
        largest = to_ns - from_ns > largest ? to_ns - from_ns : largest;
        VEC_PUSH(&grid.row, (struct grid_row){.name = thread->name,
                                              .cell = {(int64_t)thread->cpu_ns, (int64_t)thread->estimated_ns, (int64_t)(to_ns - from_ns),
                                                       thread->is_tree ? GRID_NONE : (int64_t)thread->events, (int64_t)thread->samples,
                                                       (int64_t)lost}});
    }
    view_begin(view, 0, largest);
    if (profile->thread.n)
        view_part(view, &grid);
    view_end(view);
    grid_deinit(&grid);
}
