/* Shared by the files of climb/ only. */
#ifndef CLIMB_INTERNAL_H
#define CLIMB_INTERNAL_H

#include "base/names.h"
#include "climb/climb.h"

/* program.c: what hooks do. */
enum { CLIMB_ENTER, CLIMB_LEAVE, CLIMB_CLAUSES };
struct climb_enter {
    uint64_t return_va, sp;
    uint64_t value; /* the argument that counts */
    int64_t quota;  /* 1: nothing is told of calls that begin later */
};
struct climb_leave {
    uint64_t sp;
};

/* A code range of the process, by address. */
struct climb_range {
    uint64_t start_va, end_va, bias;
    struct load_module *module;   /* valid until the process's modules are looked at again */
    const struct load_code *code; /* NULL: it can not be read. Lives as long as the session */
    uint32_t path;                /* number of its name */
};

/* The places of one function, which keep their numbers however often it is hooked. */
struct climb_place {
    uint64_t func_va, func_size, va; /* of the file */
    uint32_t number;                 /* of the process */
    int32_t armed;                   /* the quota that it was given last */
    bool taken;
    bool cannot; /* it was refused, or would need a trap: far too dear */
};
struct climb_hook {
    uint32_t function;
    uint32_t enter_places; /* the first so many of `place` */
    VEC(struct climb_place) place;
    bool is_live;
    uint64_t since_ns; /* when it was hooked last ... */
    uint64_t armed_ns; /* ... and given its quota */
    uint64_t over_ns;  /* when it had done its part last */
    uint64_t calls;    /* told by it */
    uint32_t cuts;     /* how many of its places have told of all that they had a quota for */
    unsigned bursts;   /* that it has had */
    /* climb_weigh()'s: what was executed when it looked last, and the share of a processor that the hook takes even if it tells nothing */
    uint64_t seen_hits, seen_ns;
    double share;
};

/* A call that is open on a thread. */
struct climb_call {
    uint32_t function;
    uint32_t caller; /* index in the function's callers */
    uint64_t sp, enter_ns;
    uint64_t off_before_ns;            /* the thread's off_ns when it began */
    uint64_t inside_ns, inside_cpu_ns; /* of calls of the same function inside of it */
    bool is_cut;                       /* ... but some of them may not have been told */
};

struct climb_thread {
    uint32_t tid;
    VEC(struct climb_call) call; /* outermost first */
    uint64_t off_ns;             /* all that it was off the processors, as far as that is over */
    uint64_t off_since_ns;       /* 0: it runs, as far as is known */
    uint32_t waits_in;           /* function in which it was seen waiting last; CLIMB_NONE: never */
    uint64_t next_stack_ns;      /* from when on a stack of it is welcome */
};

/* What happened, in order of time. */
enum climb_event_kind {
    CLIMB_HIT_ENTER,
    CLIMB_HIT_LEAVE,
    CLIMB_SAMPLE,
    CLIMB_WAIT,
    CLIMB_WAIT_ON,
    CLIMB_IN,
    CLIMB_OUT,
    CLIMB_UNHOOKED,
};
struct climb_event {
    uint64_t time_ns;
    uint8_t kind; /* enum climb_event_kind */
    uint32_t tid;
    uint32_t function; /* of hooks and hits */
    uint64_t va, sp;   /* return address of an entry; pc of a sample */
    uint64_t weight;   /* ns of a sample; value of an entry */
    bool is_last;      /* entry: the hook's quota is used up */
};
struct climb_queue {
    VEC(struct climb_event) event;
    size_t done;
    bool is_mixed; /* not in order of time: rings are read one after the other */
};

/* CLIMB_HOT_CALLS: a function that may be counted. */
struct climb_candidate {
    const struct load_code *code;    /* lives as long as the session */
    uint64_t func_va, func_size, va; /* of the file */
    bool is_counted, cannot;         /* by some round; it takes no probe */
    double rate;                     /* executions in a second of processor time */
};
/* The candidates of one file, in order of address. */
struct climb_counted_code {
    const struct load_code *code;
    size_t first, count;
};
/* A counting probe that is in place. */
struct climb_counting {
    uint32_t candidate, counter;
    uint64_t seen, hits; /* what the counter had when it was read last; executions in this round */
};
enum climb_round { CLIMB_SURVEY, CLIMB_LEADERS, CLIMB_ROUNDS };
/* census.c's. */
struct climb_census {
    VEC(struct climb_candidate) candidate;
    VEC(struct climb_counted_code) code;
    size_t next;           /* candidate with which the survey goes on; behind the last: it is over */
    VEC(uint32_t) leader;  /* candidates */
    double rate, part;     /* of all candidates, by the survey; and what is counted in a round with leaders has of it */
    VEC(uint32_t) counter; /* of the process, used again and again */
    VEC(struct climb_counting) in;
    enum climb_round round;          /* that has begun last */
    uint64_t since_ns, since_cpu_ns; /* its start; the second in processor time of the process */
    uint64_t read_ns, read_cpu_ns;   /* when it was looked at last */
    uint64_t hits, shed_hits;        /* executions in it; ... when probes were last taken out before its end */
    uint64_t next_ns[CLIMB_ROUNDS];  /* from when on there is another one */
    uint64_t survey_ns;              /* when the survey that is not over began; 0: there is none */
    uint64_t samples_before;         /* of a program that the process had before */
    bool was_surveyed;               /* once */
    struct {
        uint64_t stopped_ns, hits_ns;
    } cost[CLIMB_ROUNDS]; /* but for the first survey's */
};

struct climb {
    struct climb_options options;
    struct climb_numbering numbering;
    struct load_session *session; /* the owner's */
    struct unwind_tables *tables;
    struct unwind_process *unwind; /* NULL until a stack was wanted */
    bool wants_stacks;             /* or wanted them a moment ago */
    uint64_t wanted_ns;            /* when it wanted them last */
    uint64_t fed_ns;               /* when a sample brought one last, or they began to be wanted */
    uint64_t stop_ns;              /* when the process was stopped for them last */
    bool was_stop;                 /* ... instead of changing hooks, the last time that there was something to spend */
    uint64_t next_stacks_ns;       /* from when on they are counted again */
    unsigned stacks_taken;         /* how often */
    struct load_process *process;  /* NULL once it has ended */
    pid_t pid;
    uint64_t since_ns;   /* since when `process` has been that of the pid, if it was another one before */
    bool is_executed;    /* the process executes another program, of which nothing is known yet */
    VEC(uint32_t) child; /* processes that it forked and that have not executed a program: their code is its own */
    bool may_hurry;      /* whoever calls does little else: see pace.c */
    bool in_hurry;
    uint64_t start_ns, last_fade_ns, end_ns;
    uint64_t cpu_ns;          /* of the process, as sampled */
    uint64_t paid_ns;         /* of it, in hooks, but for those that are live and were not armed again */
    uint64_t live_hits;       /* executions of hooks that are live, which totals.hits does not have yet */
    uint64_t free_ns;         /* that it stood still before the climb began, and for the first survey */
    uint64_t stopped_seen_ns; /* of target_stopped_ns(), the part that totals.stopped_ns has */

    struct names path;
    VEC(struct climb_range) range; /* by address */
    VEC(struct climb_function *) function;
    VEC(uint32_t) bucket; /* function number + 1, by path and address */
    VEC(struct climb_hook) hook;
    VEC(struct climb_thread) thread;
    uint64_t looks;          /* how often a thread's calls were gone through, from the innermost on */
    struct climb_queue told; /* by the kernel: samples, switches */
    struct climb_queue hit;  /* by hooks */
    struct climb_totals totals;
    double heat, rate;    /* of all functions */
    unsigned rate_rounds; /* that `rate` is the sum of */
    struct climb_census census;
    VEC(uint32_t) valued; /* CLIMB_VALUE: functions whose calls have a value */
};

/* graph.c */
/* The function at an address of the process, made when it is first seen; CLIMB_NONE: no module is there. */
uint32_t climb_find(struct climb *climb, uint64_t va);
struct err *climb_read_ranges(struct climb *climb);
/* CLIMB_VALUE: finds the functions that are meant, in what is loaded now. */
void climb_find_valued(struct climb *climb);
bool climb_is_valued(const struct climb *climb, uint32_t function);
const struct climb_range *climb_range_of(const struct climb *climb, const struct climb_function *function);
/* Index of the caller in the function's list. */
uint32_t climb_caller_index(struct climb_function *function, uint32_t caller);
void climb_free_functions(struct climb *climb);

/* events.c: what hooks and the kernel say. */
struct climb_thread *climb_thread(struct climb *climb, uint32_t tid);
/* A sample is of the process as it is now, or of a child with the same code. */
bool climb_is_ours(const struct climb *climb, const struct sample *sample);
/* Looks at all of them before that time. */
void climb_take_events(struct climb *climb, uint64_t before_ns);
void climb_note_unhooked(struct climb *climb, uint32_t function);
void climb_free_events(struct climb *climb);

/* hooks.c: one change of the process for all that goes and comes. */
typedef VEC(uint32_t) climb_functions;
struct err *climb_change_hooks(struct climb *climb, const climb_functions *remove, const climb_functions *add);
unsigned climb_live_hooks(const struct climb *climb);
void climb_free_hooks(struct climb *climb);
/* Hooks or counting probes are in place. */
bool climb_has_probes(const struct climb *climb);

/* pace.c: what climbing costs, and whether there is anything left to spend. */
void climb_begin_pace(struct climb *climb, bool is_held);
/* Around what stops the process. */
void climb_begin_stop(struct climb *climb);
void climb_note_stopped(struct climb *climb);
/* In parts of what may be spent; and of what may be spent for rounds of that kind. */
double climb_spent(const struct climb *climb, uint64_t now_ns);
double climb_spent_for(const struct climb *climb, enum climb_round round, uint64_t now_ns);
/* Counting probes have been executed. */
void climb_pay_counting(struct climb *climb, uint64_t hits);
/* Notes how often the hooks that are live have been executed, and adds that up when they are about to be forgotten. */
void climb_count_hits(struct climb *climb);
void climb_settle_hits(struct climb *climb);
/* How many calls a hook tells of at most before something else has its turn. */
uint64_t climb_burst_quota(const struct climb *climb);
/* The hook tells of so many calls from now on. */
void climb_arm(struct climb *climb, struct climb_hook *hook, uint64_t calls);
/* Since then each of its entries has been executed so often. */
bool climb_has_told(const struct climb *climb, const struct climb_hook *hook, uint64_t calls);
/* Finds out what it costs. */
void climb_weigh(const struct climb *climb, struct climb_hook *hook, uint64_t now_ns);
/* While there are hooks we go first in looking at them, to be there when they have to go; also right after they have been added. */
struct err *climb_change_in_hurry(struct climb *climb, struct load_request *request, size_t count, bool adds);
void climb_begin_hurry(struct climb *climb);
void climb_end_hurry(struct climb *climb);

/* pick.c */
/* What to do now. The first says which hooks have done their part, the second which functions are next, and whether whole stacks would
 * help.
 */
struct climb_plan {
    climb_functions remove, add;
    unsigned live;  /* hooks that stay */
    bool is_urgent; /* what is to be removed costs too much to stay until there is something to spend */
    bool wants_stacks;
    bool needs_stacks; /* some function will not be known without */
};
void climb_pick_over(struct climb *climb, uint64_t now_ns, struct climb_plan *plan);
void climb_pick_next(struct climb *climb, uint64_t now_ns, struct climb_plan *plan);

/* census.c: what is executed most. */
/* The modules are others than before. */
void climb_census_look(struct climb *climb);
/* What is to be done now. A slice of the survey waits until no function is hooked. */
enum climb_step { CLIMB_STEP_NONE, CLIMB_STEP_END, CLIMB_STEP_SHED, CLIMB_STEP_LEADERS, CLIMB_STEP_SLICE };
enum climb_step climb_census_next(struct climb *climb, uint64_t now_ns);
struct err *climb_census_do(struct climb *climb, enum climb_step step);
/* The process has gone, with its probes. */
void climb_census_forget(struct climb *climb);
void climb_census_free(struct climb *climb);

/* stacks.c */
bool climb_needs_stacks(const struct climb_function *function);
void climb_want_stacks(struct climb *climb, bool wanted, uint64_t now_ns);
/* Whether they are worth a stop. */
bool climb_has_to_stop(const struct climb *climb, const struct climb_plan *plan, uint64_t now_ns);
struct err *climb_stop_for_stacks(struct climb *climb, uint64_t now_ns);

#endif
