#include "report/report.h"

#include "report/export.h"
#include "report/view.h"

#include <string.h>

/* ---- names ---- */

static int find(const char *const *name, size_t count, const char *wanted)
{
    for (size_t i = 0; i < count; i++)
        if (name[i] && !strcmp(name[i], wanted))
            return (int)i;
    return -1;
}

static const char *const view_name[] = {"tree", "flat", "arcflow", "merged", "samples", "threads", "diff"};

int report_view_number(const char *name)
{
    return find(view_name, sizeof view_name / sizeof view_name[0], name);
}

const char *report_view_name(enum report_view view)
{
    return view_name[view];
}

int report_format_number(const char *name)
{
    static const char *const names[] = {"text", "json", "folded", "pprof", "callgrind", "speedscope", "chrome"};
    return find(names, sizeof names / sizeof names[0], name);
}

int report_sort_number(const char *name)
{
    static const char *const names[] = {NULL, "order", "cum", "base", "calls", "elapsed", "name"};
    return find(names, sizeof names / sizeof names[0], name);
}

/* ---- writing ---- */

typedef struct err *export_fn(struct profile *profile, const struct report_options *options, FILE *out);

static struct err *no_records(const char *path)
{
    return err_new(ERR_USAGE,
                   "report: %s: this trace has trees that were built while recording, but no records: use the formats text, json, "
                   "folded, pprof or callgrind",
                   path);
}

static struct err *write_export(const struct report_options *options, const char *path, FILE *out, FILE *messages)
{
    static export_fn *const export[] = {[REPORT_FOLDED] = export_folded,
                                        [REPORT_PPROF] = export_pprof,
                                        [REPORT_CALLGRIND] = export_callgrind,
                                        [REPORT_SPEEDSCOPE] = export_speedscope,
                                        [REPORT_CHROME] = export_chrome};
    bool is_streamed = options->format == REPORT_SPEEDSCOPE || options->format == REPORT_CHROME;
    struct profile *profile;
    ERR_TRY(profile_open(options, path, is_streamed, &profile));
    struct err *error = is_streamed && profile_is_tree(profile) ? no_records(path) : export[options->format](profile, options, out);
    profile_warn(profile, messages);
    profile_close(profile);
    return error;
}

static struct err *write_view(struct view *view)
{
    switch (view->options->view) {
    case REPORT_FLAT:
        view_flat(view);
        return NULL;
    case REPORT_ARCFLOW:
        view_arcflow(view);
        return NULL;
    case REPORT_SAMPLES:
        return view_samples(view);
    case REPORT_THREADS:
        view_threads(view);
        return NULL;
    default:
        view_tree(view);
        return NULL;
    }
}

static struct err *write_difference(struct view *view, const char *path, FILE *messages)
{
    struct profile *other;
    ERR_TRY(profile_open(view->options, path, false, &other));
    view_diff(view, other);
    profile_warn(other, messages);
    profile_close(other);
    return NULL;
}

struct err *report_write(const struct report_options *options, const char *path, const char *other_path, FILE *out, FILE *messages)
{
    if (options->format != REPORT_TEXT && options->format != REPORT_JSON)
        return write_export(options, path, out, messages);
    struct view view = {.options = options, .out = out};
    ERR_TRY(profile_open(options, path, false, &view.profile));
    struct err *error = options->view == REPORT_DIFF ? write_difference(&view, other_path, messages) : write_view(&view);
    profile_warn(view.profile, messages);
    profile_close(view.profile);
    return error;
}
