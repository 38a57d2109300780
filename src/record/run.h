/* The state of a recording; shared by the files of record/ only. */
#ifndef RECORD_RUN_H
#define RECORD_RUN_H

#include "climb/climb.h"
#include "load/program.h"
#include "load/session.h"
#include "record/record.h"
#include "sample/sample.h"
#include "symbol/dwarf.h"
#include "target/target.h"
#include "trace/trace.h"
#include "tree/tree.h"
#include "unwind/space.h"

/* ---- clock.c ---- */

/* The TSC against CLOCK_MONOTONIC: the rate from one reading to another, the time from the last one. */
struct record_clock {
    bool is_tsc;                     /* times of records are the TSC's, else nanoseconds */
    struct drain_clock before, last; /* the rate is that from one to the other */
    struct drain_clock kept;         /* to become `before` */
    double ns_per_tick;
};
void record_clock_init(struct record_clock *clock, const struct drain_session *session, const struct drain_clock *first);
/* Another reading; to be made before rings are read. */
void record_clock_update(struct record_clock *clock);

static inline uint64_t record_clock_ns(const struct record_clock *clock, uint64_t time)
{
    if (!clock->is_tsc)
        return time;
    /* Years away: no clock's. The product has to stay a number of 64 bits. */
    const int64_t most = INT64_C(1) << 60;
    int64_t ticks = (int64_t)(time - clock->last.tsc);
    if (ticks > most || ticks < -most)
        return clock->last.ns;
    return clock->last.ns + (uint64_t)(int64_t)((double)ticks * clock->ns_per_tick);
}

/* ---- names.c: modules, functions, frames ---- */

/* Cells by key, hashed. */
struct record_table {
    struct record_cell *cell;
    size_t count, room;
};

struct record_module {
    char *path;
    uint8_t *build_id;
    size_t build_id_bytes;
    uint32_t number;          /* in the trace */
    bool is_opened, is_other; /* is_other: the file is not the one that was mapped */
    struct symbol_file *file; /* NULL: it has no names */
    struct symbol_dwarf *dwarf;
    struct record_table frames;    /* by address in the file */
    VEC(uint32_t) frame;           /* numbers in the trace */
    struct record_table functions; /* by address of the entry */
};

struct record_run;

struct record_module *record_module_of(struct record_run *run, const char *path, const uint8_t *build_id, size_t build_id_bytes);
/* Reads its names. `pid`, `map`: a process that maps it and where, as long as it lives; may be 0 and NULL. */
void record_module_open(struct record_module *module, pid_t pid, const struct target_map *map);
/* The number of the function that holds the address of the module's file; NULL: of no module. */
uint32_t record_function_at(struct record_run *run, struct record_module *module, uint64_t va);
/* Calls that fire in the row of the load session. */
uint32_t record_function_of_row(struct record_run *run, const struct load_row *row);
/* The frames of a place, innermost first: functions that are inlined there, then the function itself. `va`: address in the file.
 * `is_after`: it is behind a call, which is meant. Valid until the next call. */
const uint32_t *record_frames_at(struct record_run *run, struct record_module *module, uint64_t va, bool is_after, size_t *count);
uint32_t record_unknown_frame(struct record_run *run, const char *name);
void record_names_deinit(struct record_run *run);

/* ---- task.c: processes and threads ---- */

struct record_mapping {
    struct target_map map; /* its path is the module's */
    struct record_module *module;
    uint64_t bias; /* address - address in the file */
    bool has_bias, is_seen;
};

struct record_process {
    uint32_t pid;
    uint32_t number; /* in the trace; TRACE_NONE: not told yet */
    char *name;
    bool is_renamed; /* since the trace was told */
    struct record_process *parent;
    struct unwind_process *unwind; /* NULL: it could not be looked at */
    uint32_t width;
    uint32_t threads, living; /* that there are here; of these, that have not ended */
    bool has_ended;
    uint64_t start_ns, end_ns;          /* end_ns: of the command already when its status is still awaited */
    VEC(struct record_mapping) mapping; /* executable ones, as they were last seen, by address */
};

struct record_call {
    uint32_t function;
    uint64_t sp;
};

/* The outer parts of a thread's stack as they were when its samples were looked at: the last time, and the time before. */
struct record_outside {
    struct unwind_seen seen[2];
    uint64_t read_ns[2]; /* when that began; 0: never */
    unsigned last;       /* the later one */
};

struct record_thread {
    uint64_t ids;    /* pid << 32 | tid */
    uint32_t number; /* in the trace; TRACE_NONE: not told yet */
    char name[TARGET_NAME];
    bool is_renamed; /* since the trace was told */
    struct record_process *process;
    uint64_t start_ns, last_ns; /* last_ns: of its last call or sample */
    bool is_told;               /* there are news of it */
    bool is_untold;             /* there were none when it was added: it is one of run->untold_threads */
    bool has_ended;
    uint64_t end_ns;
    struct record_thread *older;    /* that had the same ids */
    VEC(struct record_call) call;   /* open ones, outermost first */
    struct record_outside *outside; /* NULL: nothing yet */
    uint32_t stack[2];              /* last one that was sampled: on a processor, off it; TRACE_NONE: none */
    struct record_tree *tree;       /* when trees are built live */
};

/* The process; it is new if there is none with that pid. `parent`: 0 when that is not known. */
struct record_process *record_process_of(struct record_run *run, uint32_t pid, uint32_t parent, uint64_t time_ns);
/* The thread that had these ids at that time; it is new if there is none. */
struct record_thread *record_thread_of(struct record_run *run, uint32_t pid, uint32_t tid, uint64_t time_ns);
/* The same for ids that a process has told, which may be anybody's. NULL: only such tell of so many threads that this is no one's. */
struct record_thread *record_told_thread(struct record_run *run, uint32_t pid, uint32_t tid, uint64_t time_ns);
/* A thread that is new. `name`: as the kernel has it when NULL. */
struct record_thread *record_add_thread(struct record_run *run, struct record_process *process, uint32_t tid, uint64_t time_ns,
                                        const char *name);
/* NULL when there is none. */
struct record_process *record_find_process(const struct record_run *run, uint32_t pid);
/* Ends those of which nobody says that they ended; now and then, or at once. */
void record_end_gone(struct record_run *run, bool at_once);
void record_take_news(struct record_run *run, const struct sample_news *news);
/* Its number in the trace, which is told of it now if it was not before, or of its new name. */
uint32_t record_thread_number(struct record_run *run, struct record_thread *thread, uint64_t time_ns);
/* It has ended, nothing more will come of it, and its tree is gone. */
void record_forget_thread(struct record_run *run, struct record_thread *thread);
void record_forget_processes(struct record_run *run);
void record_end_process(struct record_run *run, struct record_process *process, uint64_t time_ns, int32_t status);
void record_tasks_deinit(struct record_run *run);

/* ---- mapping.c: code of processes ---- */

/* Looks what code is mapped now. */
void record_read_mappings(struct record_run *run, struct record_process *process, uint64_t time_ns);
void record_refresh_mappings(struct record_run *run);
void record_add_mapping(struct record_run *run, struct record_process *process, const struct sample_map *map, uint64_t time_ns);
/* Where the address lies; NULL: nowhere. Its module is open. */
struct record_mapping *record_mapping_at(struct record_process *process, uint64_t va);
void record_mappings_deinit(struct record_process *process);

/* ---- define.c: definitions, of the trace or of the trees ---- */

struct record_definitions;
struct record_definitions *record_definitions_create(size_t memory_bytes);
struct tree_source record_definitions_source(struct record_definitions *definitions);
uint32_t record_define_module(struct record_run *run, const struct trace_module *module);
uint32_t record_define_function(struct record_run *run, const struct trace_function *function);
uint32_t record_define_frame(struct record_run *run, const struct trace_frame *frame);
uint32_t record_define_stack(struct record_run *run, uint32_t parent, uint32_t frame);
/* Forgets stacks that nobody uses when there are many. To be called before a stack is defined, frame by frame. */
void record_trim_stacks(struct record_run *run);
void record_definitions_destroy(struct record_definitions *definitions);

/* ---- tree.c: trees that are built while recording ---- */

struct record_tree {
    struct tree *tree;
    VEC(struct trace_record) part[2]; /* what waits: calls, and the rest */
    size_t done[2];                   /* of these, that are in the tree already */
};

struct record_trees {
    struct tree_set *set;
    struct record_definitions *definitions;
    uint32_t threads;       /* that had a tree so far */
    uint32_t written;       /* of those that have ended */
    struct tree *others;    /* of those that ended after that many; NULL: none yet */
    uint32_t others_number; /* its thread in the trace; TRACE_NONE: not told yet */
    uint64_t next_writing_ns;
};
void record_trees_create(struct record_run *run);
void record_tree_add(struct record_run *run, struct record_thread *thread, const struct trace_record *record);
/* Puts into the trees what is old enough; writes those of threads that have ended, and now and then all. */
void record_trees_advance(struct record_run *run);
void record_trees_finish(struct record_run *run);
void record_trees_destroy(struct record_run *run);

/* ---- program.c: what probes do ---- */

struct record_program {
    struct wire_stream *stream; /* owned */
    uint32_t clause;            /* of calls */
    uint16_t record;            /* that it writes: struct record_event */
    struct climb_numbering climb;
};
/* Payload of a call. */
struct record_event {
    uint64_t sp;
};
/* With the clauses of `base`, which keep their numbers; it may be NULL. */
struct err *record_program_build(const struct wire_stream *base, bool climbs, struct record_program *out);
void record_program_deinit(struct record_program *program);

/* ---- calls.c ---- */

/* What a row means. */
struct record_row {
    uint32_t function; /* TRACE_NONE: not known yet */
    bool is_return;
};
/* `all`: nobody writes any more, and all news are known. */
size_t record_drain_calls(struct record_run *run, bool all);
/* Takes records out of the rings, to be looked at later: there is room again. */
void record_empty_rings(struct record_run *run);
/* Losses since the last time become records. */
void record_note_lost(struct record_run *run);

/* ---- queue.c ---- */

struct record_queue;
/* Takes the set over. `has_thread`: it is read by a thread of its own. */
struct record_queue *record_queue_create(struct sample_set *set, bool has_thread);
struct err *record_queue_add(struct record_queue *queue, pid_t pid);
/* *until_ns: what happened before that has been handed over. */
size_t record_queue_drain(struct record_queue *queue, sample_fn *take, sample_news_fn *tell, void *context, uint64_t *until_ns);
/* Less of the stacks from now on, or as much as in the beginning. */
void record_queue_copy_less(struct record_queue *queue, bool less);
uint64_t record_queue_lost(struct record_queue *queue);
/* No more samples are taken; what there is can still be drained. */
void record_queue_stop(struct record_queue *queue);
void record_queue_destroy(struct record_queue *queue);

/* ---- sample.c ---- */

struct err *record_samples_create(struct record_run *run);
/* The number of the stack of addresses, innermost first; all but the first are return addresses. */
uint32_t record_stack_of(struct record_run *run, struct record_process *process, const uint64_t *pcs, uint32_t count);
/* Samples and news. */
size_t record_drain_samples(struct record_run *run);
void record_samples_destroy(struct record_run *run);

/* ---- metric.c ---- */

struct live_script;
/* Compiles the metrics' scripts. */
struct err *record_metrics_create(struct record_run *run);
/* What a record of the stream means. */
struct record_amount {
    uint16_t metric; /* or one of these */
    enum record_sign sign;
};
enum { RECORD_NO_METRIC = 0xfffe /* a stack without a value */, RECORD_NOTHING = 0xffff };
void record_take_measure(struct record_run *run, struct record_thread *thread, uint64_t time_ns, const struct drain_record *record);
void record_metrics_destroy(struct record_run *run);

/* ---- climb.c: a climb as a part of the recording. All but the first two may be called without one ---- */

void record_climb_create(struct record_run *run);
/* The process is there. */
struct err *record_climb_begin(struct record_run *run);
/* After load_session_handle(). */
struct err *record_climb_look(struct record_run *run);
/* After samples and calls were drained. */
struct err *record_climb_work(struct record_run *run);
/* Nanoseconds until it wants to work again, at most `most_ns`. */
uint64_t record_climb_wait_ns(const struct record_run *run, uint64_t most_ns);
/* What was learnt becomes part of the trace. The processes have been detached from. */
void record_climb_finish(struct record_run *run);

/* ---- select.c ---- */

/* What is left of the options when only what has their codes is wanted. ERR_USAGE: nothing. */
struct err *record_select(struct record_options *options);
/* Whether it is wanted how long threads run. */
bool record_wants_accounts(const struct record_options *options);
/* Whether it is recorded when threads run. */
bool record_has_switches(const struct record_run *run);
/* Whether the kernel is asked for anything: samples, switches, or what code is mapped where, for stacks. */
bool record_wants_kernel(const struct record_options *options);

/* ---- abandon.c ---- */

/* Reads on behind records that nobody will commit. */
void record_abandon(struct record_run *run);

/* ---- run.c ---- */

/* Records that were taken out of a ring and not looked at yet. */
struct record_held {
    VEC(struct drain_record) record; /* their payload: where it is in `word` */
    VEC(uint64_t) word;
    size_t done;       /* the first so many have been */
    uint64_t until_ns; /* what was written before has been taken out */
};
void record_held_deinit(struct record_run *run);

struct record_run {
    const struct record_options *options;
    struct record_summary summary;
    struct trace_writer *writer;
    struct record_trees *trees; /* NULL: records go to the trace */
    struct record_clock clock;
    uint64_t start_ns;
    /* probes; session is NULL without any */
    struct record_program program;
    struct live_script *script;       /* of the metrics */
    char *metric_text;                /* of the script */
    VEC(struct record_amount) metric; /* by record of the stream */
    struct drain_session memory;
    struct load_program load;
    VEC(struct spec) spec;
    VEC(uint32_t) spec_clause;
    struct load_session *session;
    struct climb *climb; /* NULL: none */
    pid_t climb_pid;     /* 0 until it has begun */
    VEC(struct record_row) row;
    VEC(struct record_held) held;                   /* by ring */
    struct record_thread *last_thread;              /* that had a call */
    size_t open_calls;                              /* of all threads */
    VEC(uint32_t) taken_stack;                      /* by number of a stack that the agent took: its number in the trace, or TRACE_NONE */
    uint64_t lost_calls, lost_samples, lost_stacks; /* as far as they were noted */
    /* samples */
    struct record_queue *samples; /* NULL: none, and no news either */
    struct unwind_tables *tables;
    uint32_t walks, new_walks; /* since it was last thought about how much of the stacks to copy; those that found other outer callers */
    struct record_thread *last_sampled;
    uint64_t samples_until_ns, calls_until_ns; /* what happened before has been taken */
    /* without probes: the command, if there is one */
    struct target *target;
    pid_t command_pid;
    VEC(int) pidfd;                             /* of processes that were there */
    uint64_t abandon_since_ns, next_abandon_ns; /* of abandon.c */
    bool has_switches;                          /* there are perf events */
    bool has_warned;                            /* of what no process has */
    bool has_start;                             /* the trace has been told that the state at the start is complete */
    /* names */
    VEC(struct record_module *) module;
    uint32_t unknown_frame;
    /* tasks */
    VEC(struct record_process *) process;
    struct record_thread **thread; /* hashed by ids, newest of each */
    size_t thread_count, thread_room;
    size_t untold_threads; /* of which only records of probes told */
    uint64_t gone_ns;      /* when it was last looked who is gone */
    int stop_signal;
};

/* The process of the command, 0 without one. */
pid_t record_command(const struct record_run *run);

/* A record of a thread. */
static inline void record_write(struct record_run *run, struct record_thread *thread, const struct trace_record *record)
{
    const struct trace_codes *codes = run->options->codes;
    if (codes && record->major != TRACE_LOSS && !(codes->minors[record->major] >> record->minor & 1))
        return;
    if (run->trees)
        record_tree_add(run, thread, record);
    else
        trace_write(run->writer, thread->number, record);
}

#endif
