/* Recording: what processes do, as a trace.
 *
 * In: processes or a command, and what is wanted of them: samples, calls, other resources. Out: a trace directory (trace/trace.h), and the
 * processes as they were.
 *
 *   probes ─ load/ ─► rings ─ drain/ ─► calls.c ──┐
 *   perf events ─ sample/ ─► sample.c (unwind/) ──┼─► trace/, or tree/ with live_tree
 *              └─► news ─► task.c ────────────────┘
 *
 * Rules
 *  1. Calls come with the stack pointer. An open call whose stack pointer is not above that of a later entry, or that is below that of a
 *     return, is over: it was left by a jump (longjmp, an exception, an exit that has no probe). Its return is written then, so that calls
 *     nest in the trace whatever the program does. Stack pointers far apart are of different stacks and say nothing about each other.
 *  2. A thread is who has a process id and a thread id from one time to another: ids are used again.
 *  3. Times are CLOCK_MONOTONIC. The TSC of calls is converted by readings of both clocks shortly before and after.
 *  4. Threads wait when there is no room for their calls as long as we read, so that no call is lost; samples are dropped instead, and
 *     counted.
 *  5. Without calls, other probes or a climb nothing is put into the processes.
 *  6. What a climb has learnt is samples of a thread "climb" with the id 0, which no thread of a program has, under the metric "climb": so
 *     time is not counted twice, and its chains lie in the same tree as the recording's own samples when threads are added up. */
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include "base/err.h"
#include "climb/climb.h"
#include "drain/session.h"
#include "symbol/spec.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* Another resource than time: the value of a script's expression at a trace point. It is charged to the calls that are open or, where no
 * calls are recorded, to the stack. */
enum record_sign {
    RECORD_TAKES, /* values above 0; others are no amounts, but errors that a function returned */
    RECORD_GIVES, /* likewise, and they are subtracted */
    RECORD_BOTH,  /* any value, with its sign */
};
struct record_metric {
    const char *name; /* NULL: no value, only the stack is wanted. Several of one name are one metric */
    enum record_sign sign;
    const char *probe;      /* "uprobe:libc:malloc" */
    const char *expression; /* "arg0" */
};

struct record_options {
    const char *path; /* of the trace */
    const pid_t *pid;
    size_t n_pids;
    char *const *command;    /* NULL: none */
    uint32_t hz;             /* samples of a thread's second; 0: none */
    bool is_wall;            /* threads that wait are sampled, too */
    const struct spec *call; /* functions whose calls are recorded: entries only; see struct spec.excludes */
    size_t n_calls;
    const struct record_metric *metric;
    size_t n_metrics;
    const struct trace_codes *codes;   /* what is recorded, by code; NULL: all. What is not selected is not paid for either */
    bool is_pc_only;                   /* samples are of the pc alone: no stack is copied or walked */
    bool entries_only;                 /* returns of calls have no probes: set where their code is not selected */
    bool live_tree;                    /* trees are built while recording, and only these are written */
    size_t memory_bytes;               /* live_tree: for their nodes, and stacks; 0: as is usual */
    const struct climb_options *climb; /* a climb in the process, which is the only one, or in the command; NULL: none */
    double duration_s;                 /* 0: until the processes end */
    bool traps;                        /* places that take nothing but a trap get one */
    bool follow;                       /* also what processes execute, and what their children execute, has probes */
    bool quiet, verbose;
    FILE *messages;           /* for people */
    struct drain_clock clock; /* read when the program started */
};

/* What was recorded. */
struct record_summary {
    uint64_t calls, samples, switches, measures; /* calls: entries */
    uint64_t lost_calls, lost_samples, lost_stacks;
    uint64_t lost_news;   /* switches of threads and the like, where no samples are taken; else they are among lost_samples */
    uint64_t cut_stacks;  /* samples whose stack could not be followed to its end */
    uint64_t left_calls;  /* that ended by a jump: see rule 1 */
    uint64_t odd_returns; /* of functions that were entered before the recording */
    uint64_t functions, partial_functions, refused_functions; /* with probes; of those, with an exit that has none; without any */
    uint64_t trap_only;                                       /* of the last two, those where only a trap would fit */
    uint64_t bytes, records;                                  /* of the trace */
    uint64_t hot_spots;                                       /* of the climb */
    struct climb_totals climb;
    uint64_t duration_ns;
    int exit_code; /* the command's; 0 without one */
};

struct err *record_run(const struct record_options *options, struct record_summary *out);

#endif
