/* Text that other programs write, as traces. */
#ifndef TRACE_IMPORT_H
#define TRACE_IMPORT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum trace_format {
    TRACE_FROM_EVENTS,      /* TIME PID.TID enter|return NAME, TIME PID.TID sample NAME;NAME... (outermost first),
                               TIME PID.TID use METRIC AMOUNT (by the call that is open; given back where it is negative) */
    TRACE_FROM_FOLDED,      /* NAME;NAME... COUNT */
    TRACE_FROM_PERF_SCRIPT, /* what `perf script` prints */
};

struct trace_import_options {
    enum trace_format format;
    uint64_t unit_ns;   /* of TIME in events; 0: units of no known length, which count as 1 ns on the trace's clock */
    const char *period; /* of events: what a sample stands for, a TIME; NULL: one unit */
    bool has_weights;   /* of folded: a line is one sample that weighs COUNT, not COUNT samples */
};

struct trace_imported {
    uint64_t lines, calls, samples, values;
    uint64_t raised; /* times that went back */
    uint64_t finer;  /* times that had decimals finer than 1 ns, which were cut off */
};

/* Makes a trace of a file; "-" is the standard input. ERR_FILE with file:line:column for what makes no sense: then no trace is left. */
struct err *trace_import(const char *file, const struct trace_import_options *options, const char *directory, struct trace_imported *out);

#endif
