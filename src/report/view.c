#include "report/view.h"

#include "base/escape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool view_is_each(const struct view *view, bool is_default)
{
    enum report_threads threads = view->options->threads;
    return threads == REPORT_THREADS_AUTO ? is_default : threads == REPORT_THREADS_EACH;
}

void view_fill_name(struct grid_row *row, const struct tree_set *set, uint32_t routine)
{
    row->name = tree_routine(set, routine);
    row->module = tree_routine_module(set, routine);
    row->file = tree_routine_file(set, routine, &row->line);
    if (!row->file)
        row->line = 0;
}

/* ---- JSON around the parts: doc/report-json.md ---- */

static const char *const by_name[] = {"function", "line", "module"};

static void json_begin(const struct view *view)
{
    const struct profile *profile = view->profile;
    const struct trace_metric *metric = &profile->metrics[profile->metric];
    FILE *out = view->out;
    fprintf(out, "{\"probity\": 1, \"view\": \"%s\", \"by\": \"%s\", \"data\": \"%s\",\n \"metric\": {\"name\": ",
            report_view_name(view->options->view), by_name[view->options->by], profile->what == TREE_EVENTS ? "events" : "samples");
    escape_json(out, metric->name);
    fputs(", \"unit\": ", out);
    escape_json(out, metric->unit);
    fputs("},\n \"clock_unit\": ", out);
    escape_json(out, profile->metrics[0].unit);
    fputs(",\n \"trace\": {\"path\": ", out);
    escape_json(out, profile->path);
    fputs(", \"host\": ", out);
    escape_json(out, profile->info->about.host ? profile->info->about.host : "");
    fputs(", \"command\": ", out);
    escape_json(out, profile->info->about.command ? profile->info->about.command : "");
    fprintf(out, ", \"start_realtime_ns\": %" PRIu64 ", \"cut\": %s},\n \"parts\": [", profile->info->about.start_realtime_ns,
            profile->info->is_cut ? "true" : "false");
}

static void json_end(const struct view *view, const char *notes)
{
    fputs("],\n \"notes\": [", view->out);
    for (const char *line = notes; *line;) {
        size_t length = strcspn(line, "\n");
        char *copy = memory_format("%.*s", (int)length, line);
        fputs(line == notes ? "" : ", ", view->out);
        escape_json(view->out, copy);
        free(copy);
        line += length + (line[length] == '\n');
    }
    fputs("]}\n", view->out);
}

/* ---- parts ---- */

uint64_t view_largest(const struct tree *tree, enum tree_what what, unsigned metric)
{
    size_t count;
    uint64_t largest = 0;
    tree_nodes(tree, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t size = grid_size(tree_cum(tree, i, what, metric));
        largest = size > largest ? size : largest;
    }
    return largest;
}

void view_begin(struct view *view, uint64_t largest_value, uint64_t largest_time_ns)
{
    const struct profile *profile = view->profile;
    const char *unit = profile->metrics[profile->metric].unit, *time_unit = profile->metrics[0].unit;
    bool is_raw = view->options->is_raw;
    if (!strcmp(unit, time_unit)) /* the two kinds of time are read side by side */
        largest_value = largest_time_ns = largest_value > largest_time_ns ? largest_value : largest_time_ns;
    view->style.value = grid_unit(unit, largest_value, is_raw);
    view->style.time = grid_unit(time_unit, largest_time_ns, is_raw);
    view->style.has_shares = view->style.value.divide != 1; /* numbers that are shown exactly are shown alone */
    view->style.is_colour = view->options->is_colour;
    if (view->options->format == REPORT_JSON)
        json_begin(view);
}

void view_part(struct view *view, const struct grid *grid)
{
    if (view->options->format == REPORT_JSON) {
        fputs(view->part_count ? ",\n " : "", view->out);
        grid_json(view->out, grid);
    } else {
        fputs(view->part_count ? "\n" : "", view->out);
        grid_text(view->out, grid, &view->style);
    }
    view->part_count++;
}

static void text_end(const struct view *view, const char *notes)
{
    if (!view->part_count)
        fputs("nothing was recorded\n", view->out);
    for (const char *line = notes; *line;) {
        size_t length = strcspn(line, "\n");
        fprintf(view->out, "%snote: %.*s\n", line == notes ? "\n" : "", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

void view_end(struct view *view)
{
    char *notes = profile_notes(view->profile);
    if (view->options->format == REPORT_JSON)
        json_end(view, notes);
    else
        text_end(view, notes);
    free(notes);
}
