/* A trace that was read: the trees of the chosen threads, and counts of what their records were. */
#ifndef REPORT_PROFILE_H
#define REPORT_PROFILE_H

#include "report/report.h"

struct profile_thread {
    uint32_t thread;
    struct tree *tree; /* belongs to the set */
    char *name;        /* "pid.tid", with the thread's name where it has one */
    uint64_t events, samples, switches;
    bool is_tree;          /* its tree was built while recording: events were not counted */
    uint64_t cpu_ns;       /* while it ran, as the kernel's account or else switches tell; without them what samples stand for, or else its
                              elapsed time */
    uint64_t estimated_ns; /* of that: when it was is estimated */
    uint64_t first_ns, last_ns; /* its first and last record */
};

struct profile {
    const char *path; /* the caller's */
    struct trace *trace;
    const struct trace_info *info;
    struct tree_source source;
    struct tree_set *set;
    VEC(struct profile_thread) thread; /* the chosen ones that have records, in order of their numbers */
    struct tree *sum;                  /* of all of them; NULL until profile_sum() */
    enum tree_what what;
    unsigned metric;
    const struct trace_metric *metrics;
    size_t metric_count;
    uint64_t cut_stacks; /* of an export: stacks that are given in part, */
    size_t cut_to;       /* so many of their innermost functions */
    uint64_t left_out;   /* likewise: values below 0, which its format does not have */
};

/* Reads all records of the chosen threads into trees, unless `is_streamed`: then only the threads are chosen and `what` is found out. */
struct err *profile_open(const struct report_options *options, const char *path, bool is_streamed, struct profile **out);
void profile_close(struct profile *profile);
/* Says so when the trace is cut, which may show only when all of it was read. */
void profile_warn(const struct profile *profile, FILE *messages);

/* The threads' trees as one. */
struct tree *profile_sum(struct profile *profile);

/* Whether it has trees that were built while recording, instead of records. */
bool profile_is_tree(const struct profile *profile);

/* Calls `each` with batches of the thread's records, in order of time; it returns false to end. */
typedef bool profile_records_fn(void *context, const struct trace_record *records, size_t count);
struct err *profile_read(const struct profile *profile, uint32_t thread, profile_records_fn *each, void *context);

/* What is odd or missing, as lines for people (several, each ends with a newline); "" when all is well. The caller frees it. */
char *profile_notes(const struct profile *profile);

#endif
