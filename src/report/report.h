/* Reports: what is in a trace, for people and for other programs (S4.6).
 *
 * In: a trace directory (trace/trace.h), of which call-stack trees are made (tree/tree.h). Out: text, JSON, files of other programs'
 * formats, or the browser.
 *
 *   profile.c    trace directory -> trees of the chosen threads, and what there is to say about each
 *   view_*.c     trees -> rows (grid.h), which grid.c prints as text or as JSON
 *   export_*.c   trees or records -> files of others
 *   browse_*.c   trees -> lines of a screen, and keys -> other lines; screen.c shows them with curses
 *
 * Rules
 *  1. No numbers are made up here: they are the trees', or counts of records. Shares of a total are for text only.
 *  2. Every text out of a trace is hostile: it is escaped for where it goes.
 *  3. Memory grows with the trees and the definitions, not with the records; what has a line for each record is streamed.
 *  4. What is wrong with a trace is said and the rest is shown: cut, lost records, odd calls. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/err.h"
#include "tree/tree.h"

#include <stdio.h>

enum report_view { REPORT_TREE, REPORT_FLAT, REPORT_ARCFLOW, REPORT_MERGED, REPORT_SAMPLES, REPORT_THREADS, REPORT_DIFF };
enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_FOLDED, REPORT_PPROF, REPORT_CALLGRIND, REPORT_SPEEDSCOPE, REPORT_CHROME };
/* DEFAULT: in order of appearance for trees, of cum for the rest. */
enum report_sort {
    REPORT_SORT_DEFAULT,
    REPORT_SORT_ORDER, /* of appearance; of samples: of the run, each on its own */
    REPORT_SORT_CUM,
    REPORT_SORT_BASE,
    REPORT_SORT_CALLS, /* or samples, where there are no calls */
    REPORT_SORT_ELAPSED,
    REPORT_SORT_NAME,
};
/* AUTO: events where there are any, else samples. */
enum report_data { REPORT_DATA_AUTO, REPORT_DATA_EVENTS, REPORT_DATA_SAMPLES };
/* AUTO: each thread on its own for trees, all together for the rest. */
enum report_threads { REPORT_THREADS_AUTO, REPORT_THREADS_EACH, REPORT_THREADS_SUM };

struct report_options {
    enum report_view view;
    enum report_format format;
    enum tree_by by;
    enum report_sort sort;
    enum report_data data;
    enum report_threads threads;
    double min_share;                                            /* subtrees with less of the total are left out; 0: none are */
    const char *metric;                                          /* name; NULL: the first, time */
    const char *const *chosen_threads, *const *chosen_processes; /* numbers, or patterns of names; ends with NULL; NULL: all */
    bool is_raw;                                                 /* whole numbers of the metric's unit, without shares */
    bool is_colour;                                              /* text with colours */
    const char *program;                                         /* name and version, for files that say who made them */
};

/* Writes a report of the trace at `path` to `out`; of DIFF, `other_path` against it. Warnings go to `messages`, one a line. Of
 * `out` only what can be written is an error here; the caller flushes and looks. */
struct err *report_write(const struct report_options *options, const char *path, const char *other_path, FILE *out, FILE *messages);

/* The browser, on the terminal that is standard input and output. Returns at `q`; a signal that would end the program ends it, with the
 * terminal put back. */
struct err *report_browse(const struct report_options *options, const char *path, FILE *messages);

/* Names as people type them: -1 when there is none. */
int report_view_number(const char *name);
const char *report_view_name(enum report_view view);
int report_format_number(const char *name);
int report_sort_number(const char *name);

#endif
