/* Climbing from hot spots to their causes, with few hooks, on a live process (S3).
 *
 * In: a process of a load session whose program has the clauses of hooks; its samples and switches; the records of hooks. Out: changes of
 * hooks; the hot spots of the process, and for each the chains of callers above it with what every level costs. Whose the session, the
 * samples and the rings are is not the climber's: alone.h owns them all for a climb that is alone, record/climb.c joins a recording's.
 *
 * How. The pc is sampled all the time: functions that hold more than a share of the samples are hot spots; or executions are counted now
 * and then, and functions that have more than a share of these are (census.c) (S3.1). A function of interest is hooked at its entry and its
 * exits for a short while, and then is not any more. Each call tells who called, by its return address (S3.2); how long it took, by the
 * clock; and which hot spots were sampled while it was open on that thread. When a function has been measured, its hooks go, and its most
 * promising callers are next (S3.3, S3.4). So at any moment few functions are hooked (S3.5), and each only once for all the chains that it
 * is part of.
 *
 * Rules
 *  1. At most `hooks` functions are hooked at a time. A hook tells of some hundred calls, or thousand where they come within some
 *     milliseconds, and no more. A function that is called often is measured in bursts: its hooks go then and come back later, so that
 *     what is measured is spread over time. Whatever is done is paid from a budget, see pace.c.
 *  2. What a function costs in the name of a hot spot is what was measured on the threads where both were seen, never a guess from call
 *     counts alone where there is something better.
 *  3. A function that is on the stack and is not entered meanwhile (main, a thread's loop) can not be measured: whole stacks of a few
 *     samples tell its callers.
 *  4. Whatever ends the climb, every hook is removed and what was learnt is reported. */
#ifndef CLIMB_CLIMB_H
#define CLIMB_CLIMB_H

#include "base/err.h"
#include "base/memory.h"
#include "drain/session.h"
#include "load/session.h"
#include "sample/sample.h"
#include "symbol/spec.h"
#include "unwind/walk.h"
#include "wire/stream.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CLIMB_NONE UINT32_MAX

enum climb_metric {
    CLIMB_CPU,   /* processor time */
    CLIMB_WALL,  /* time, waiting included */
    CLIMB_CALLS, /* hot spots by processor time, callers by how often they call */
    CLIMB_VALUE, /* the hot spot is given; what counts is an argument of its calls */
};

enum climb_hot {
    CLIMB_HOT_SAMPLES, /* hot spots are where samples are */
    CLIMB_HOT_CALLS,   /* hot spots are what is executed most */
};

struct climb_options {
    enum climb_metric metric; /* what is climbed for */
    enum climb_hot hot;       /* not looked at with CLIMB_VALUE */
    double threshold;         /* share of the samples or executions that makes a function a hot spot; also what a caller must account for to
                                 be climbed */
    unsigned top;             /* when no function has that share: the hottest so many */
    const struct spec *value_spec; /* CLIMB_VALUE: the function ... */
    unsigned value_argument;       /* ... and which argument, from 0 */
    unsigned hooks;                /* functions hooked at a time, at most */
    uint64_t period_calls;         /* a function is measured for so many calls, or some more where they come fast ... */
    uint64_t period_ns;            /* ... or for so long, whatever comes first */
    uint64_t sample_ns;            /* of a thread's processor time, from one sample to the next */
};
/* As is usual; and chains that account for less of a hot spot's time are left out. */
extern const struct climb_options climb_usual;
#define CLIMB_LEAST 0.01

enum climb_state {
    CLIMB_UNSEEN, /* nothing is known of its callers */
    CLIMB_HOOKED,
    CLIMB_RESTING, /* between bursts */
    CLIMB_KNOWN,
    CLIMB_STILL,  /* on the stack all the time, never entered */
    CLIMB_CANNOT, /* its entry can not be hooked */
};

enum { CLIMB_WALL_STEPS = 8, CLIMB_WALL_SLOTS = 64 * CLIMB_WALL_STEPS };

/* How much of a hot spot was sampled while calls from one caller were open. */
struct climb_seen {
    uint32_t hot; /* function */
    uint64_t ns;
};

struct climb_caller {
    uint32_t function; /* CLIMB_NONE: code of no known function */
    uint64_t calls;
    uint64_t wall_ns, cpu_ns; /* of calls that ended, without calls of the same function inside of them */
    uint64_t value;           /* CLIMB_VALUE: of the hot spot, in calls by this one */
    uint64_t stacks;          /* whole stacks that showed it above the function's innermost call ... */
    uint64_t outer_stacks;    /* ... and above others, further out: a recursion */
    VEC(struct climb_seen) seen;
};

struct climb_function {
    char *module; /* path */
    char *name;   /* for people */
    uint64_t va;  /* of the file */
    enum climb_state state;
    const char *reason; /* CANNOT: why */
    bool exits_missing; /* some exit can not be hooked: calls, not times */
    bool recurses;      /* as seen */
    uint64_t samples;   /* with the pc in it */
    uint64_t self_ns;   /* what they stand for */
    double heat;        /* the same, or what `rate` has, fading: of the last seconds */
    double rate;    /* CLIMB_HOT_CALLS: executions in a second of processor time, summed over the rounds in which leaders were counted */
    uint64_t calls; /* measured */
    uint64_t ended; /* of them, those whose end was seen; the rest is of these */
    uint64_t wall_ns, wall_min_ns, wall_max_ns, cpu_ns;
    uint32_t wall_slot[CLIMB_WALL_SLOTS]; /* how long ended calls took: powers of two, in steps */
    uint64_t live_ns;                     /* how long it was hooked */
    VEC(struct climb_caller) caller;
    /* the climber's own */
    uint32_t hook;
    uint64_t rest_until_ns;
    uint64_t seen; /* climb.looks when it was found on a thread's stack of calls last */
};

/* ---- climbing ---- */

/* Where the clauses of hooks and their records are in a stream. */
struct climb_numbering {
    uint32_t clause, record; /* the first of each */
};
/* A stream of what `base` has (it may be NULL) and the clauses of hooks, which read that argument. The caller frees and verifies it. */
struct wire_stream *climb_program(const struct wire_stream *base, unsigned argument, struct climb_numbering *out);
/* Whether a record is a hook's. */
bool climb_has_record(const struct climb_numbering *numbering, uint32_t type);

struct climb;

/* `session` fires a stream that climb_program() has made; it is the caller's and outlives the climber. */
struct climb *climb_create(const struct climb_options *options, struct load_session *session, const struct climb_numbering *numbering);
void climb_destroy(struct climb *climb);

/* Climbs in this process, which is one of the session's. */
struct err *climb_begin(struct climb *climb, pid_t pid);
/* To be called after load_session_handle(): libraries may have come or gone, the process may have executed another program or ended. */
struct err *climb_look(struct climb *climb);
/* What happened, each in order of time for a thread. Samples and news may be of other processes, too. */
void climb_take_sample(struct climb *climb, const struct sample *sample);
void climb_take_news(struct climb *climb, const struct sample_news *news);
void climb_take_record(struct climb *climb, const struct drain_record *record, uint64_t time_ns);
/* Whether whole stacks would help. Those that come with samples cost the process less than those for which it has to stop. */
bool climb_wants_stacks(const struct climb *climb);
/* A walk of the stack of a sample: climb_walk() is one. */
void climb_take_stack(struct climb *climb, const struct sample *sample, const uint64_t *pcs, const struct unwind_result *result);
void climb_walk(struct climb *climb, const struct sample *sample);
/* Learns from what happened before `until_ns`, all of which has been handed over, and changes hooks. ERR_NO_PROCESS: it has ended or has
 * executed another program, as load_session_handle() and then climb_look() will find. After another error the process can only be detached
 * from. */
struct err *climb_work(struct climb *climb, uint64_t until_ns);
/* How soon climb_work() is to be called again, and the rings to be read before that. */
uint64_t climb_wait_ns(const struct climb *climb);
/* All has been handed over, and the process has been detached from. What was learnt stays readable. */
void climb_end(struct climb *climb);
/* There is a process to climb in: it has not ended. One that has executed another program is there again when the session follows it. */
bool climb_is_live(const struct climb *climb);
/* What its owner knows to be missing. */
void climb_note_lost(struct climb *climb, uint64_t samples, uint64_t hits);
enum climb_metric climb_metric(const struct climb *climb);
bool climb_counts_executions(const struct climb *climb); /* CLIMB_HOT_CALLS, and nothing else says what is hot */
/* CLIMB_VALUE: the function has been found. Of a command it may be in a library that comes later. */
bool climb_has_value(const struct climb *climb);
pid_t climb_pid(const struct climb *climb);

/* ---- what was learnt ---- */

size_t climb_function_count(const struct climb *climb);
const struct climb_function *climb_function(const struct climb *climb, uint32_t number);
/* Functions that are hot spots by all samples so far, hottest first. */
typedef VEC(uint32_t) climb_numbers;
void climb_hot_spots(const struct climb *climb, climb_numbers *out);
/* Of them, those of the last seconds. */
void climb_hot_now(const struct climb *climb, climb_numbers *out);

struct climb_totals {
    uint64_t samples, samples_lost;
    uint64_t sampled_ns;            /* what they stand for */
    uint64_t value;                 /* CLIMB_VALUE: all that was seen */
    uint64_t hook_ns;               /* besides, in the code of hooks */
    uint64_t hits;                  /* executions of hooks, also those that told nothing */
    uint64_t hits_lost;             /* records for which there was no room */
    unsigned hooks_now, hooks_most; /* functions */
    unsigned hooked;                /* how often one was hooked */
    uint64_t elapsed_ns;
    uint64_t stopped_ns; /* in all, that the process stood still, for attaching to it and since */
    /* CLIMB_HOT_CALLS: */
    unsigned counted, uncounted;          /* functions that counting probes were put on, and those that take none */
    unsigned counting_now, counting_most; /* counting probes */
    unsigned rounds;                      /* in which some were there */
    uint64_t counting_ns;                 /* that they were there, in all */
    uint64_t executions;                  /* that they counted */
};
void climb_totals(const struct climb *climb, struct climb_totals *out);

/* A hot spot's part of all samples, or of all executions. */
double climb_hot_share(const struct climb *climb, const struct climb_function *function);
/* ... and of its executions in the run, as estimated: the mean rate, for all the processor time. CLIMB_HOT_CALLS. */
uint64_t climb_executions(const struct climb *climb, const struct climb_function *function);

/* A caller's part of what a hot spot costs when it is reached through `function`: 0 to 1. The parts of all callers add up to 1 where
 * anything is known. */
double climb_part(const struct climb *climb, const struct climb_function *function, size_t caller, uint32_t hot);

/* The chains above a hot spot: a tree whose root is the hot spot and whose children are callers. */
struct climb_link {
    uint32_t function;
    uint32_t parent; /* link below it, nearer to the hot spot; CLIMB_NONE: the hot spot */
    uint32_t level;
    double share;                                                      /* of the hot spot's time */
    enum { CLIMB_OPEN, CLIMB_ROOT, CLIMB_RECURSION, CLIMB_SMALL } end; /* why nothing is above it, when nothing is */
};
typedef VEC(struct climb_link) climb_links;
/* Links below `least` of the hot spot's time are left out. */
void climb_chains(const struct climb *climb, uint32_t hot, double least, climb_links *out);

/* The chains of all hot spots as stacks, with the time that each accounts for; CLIMB_HOT_CALLS: with the executions. */
struct climb_sink {
    uint32_t (*frame)(void *context, const struct climb_function *function); /* the number of a frame, asked once for each function */
    uint32_t (*stack)(void *context, uint32_t parent, uint32_t frame);       /* of a stack; `parent`: TRACE_NONE or one of these numbers */
    void (*sample)(void *context, uint32_t stack, uint64_t value);
    void *context;
};
void climb_tell_chains(const struct climb *climb, double least, const struct climb_sink *sink);
/* Writes them as a trace, which `probity report` reads: see trace/trace.h. `status`: waitpid's of a command that has ended, else -1. */
struct err *climb_write(const struct climb *climb, const char *path, const char *command, int status, double least);

/* Quantile of the measured wall times, in ns. */
uint64_t climb_wall_quantile(const struct climb_function *function, double quantile);

#endif
