/* Files of other programs' formats. What is written of a trace is what its profile has chosen: events or samples. */
#ifndef REPORT_EXPORT_H
#define REPORT_EXPORT_H

#include "report/profile.h"

/* What a thread spent in no call that is known. */
#define EXPORT_OUTSIDE "[outside of calls]"

/* flamegraph.pl: "a;b;c VALUE", of the trees. */
struct err *export_folded(struct profile *profile, const struct report_options *options, FILE *out);
/* profile.proto, compressed. Samples with their places and inlined functions, events by function. */
struct err *export_pprof(struct profile *profile, const struct report_options *options, FILE *out);
/* callgrind_annotate, KCachegrind. */
struct err *export_callgrind(struct profile *profile, const struct report_options *options, FILE *out);
/* Streamed: the profile is not read into trees. */
struct err *export_speedscope(struct profile *profile, const struct report_options *options, FILE *out);
struct err *export_chrome(struct profile *profile, const struct report_options *options, FILE *out);

/* What was spent in exactly this stack, and in what was folded into it. */
static inline int64_t export_value(const struct profile *profile, const struct tree *tree, uint32_t node)
{
    return (int64_t)((uint64_t)tree_base(tree, node, profile->what, profile->metric) +
                     (uint64_t)tree_folded(tree, node, profile->what, profile->metric));
}

/* ---- what these share: how much of deep stacks is given (export_depth.c) ---- */

/* The outermost name of a stack that was cut. */
#define EXPORT_CUT "[cut]"

struct export_depth {
    VEC(uint64_t) stacks; /* by how many names they have */
};
void export_depth_count(struct export_depth *depth, size_t levels);
/* How many names, from the innermost, are given of each stack that was counted; the profile says so where it is not all. Deinits. */
size_t export_depth_most(struct export_depth *depth, struct profile *profile);

/* ---- what these share: open calls of a stream of records (export_calls.c) ---- */

/* Records of calls as other programs want them: every opening has its closing, in order. */
struct export_calls {
    VEC(uint32_t) open; /* functions, outermost first */
    uint32_t *open_of;  /* how often each function is among them */
    void (*enter)(void *context, uint32_t function, uint64_t time_ns);
    void (*leave)(void *context, uint32_t function, uint64_t time_ns);
    void *context;
};
void export_calls_init(struct export_calls *calls, const struct trace *trace); /* with the functions set */
/* Rule 1 of tree/tree.h. */
void export_call(struct export_calls *calls, const struct trace_record *record);
/* Closes what is open, and deinits. */
void export_calls_end(struct export_calls *calls, uint64_t time_ns);

#endif
