/* The state of a run; shared by the files of live/ only. */
#ifndef LIVE_RUN_H
#define LIVE_RUN_H

#include "drain/session.h"
#include "live/live.h"
#include "load/session.h"
#include "print/print.h"
#include "sample/sample.h"
#include "target/gate.h"
#include "unwind/space.h"

/* A clause that fires at times. */
struct live_timer {
    const struct live_point *point;
    uint64_t period_ns, next_ns;
};

/* A clause that fires for samples. */
struct live_sampler {
    const struct live_point *point;
    struct sample_set *set;
};

/* A record that waits for its speculation to be committed. */
struct live_waiting {
    uint32_t speculation;
    struct drain_record record; /* its payload is owned */
};

/* Errors at one place of the script, of which the first is printed at once. */
struct live_error {
    uint16_t clause;
    uint16_t error;
    uint32_t insn;
    uint64_t count;
    struct wire_error_payload payload; /* of the first */
};

/* A process whose sampled stacks are walked here. */
struct live_walked {
    pid_t pid;
    struct unwind_process *process; /* NULL: it can not be looked at */
};

/* A stack while it is printed. */
struct live_stack {
    uint64_t root; /* of its process */
    uint32_t count;
    uint64_t pcs[WIRE_STACK_MAX];
};

/* What a process was called when it was last looked at: it may be printed when there is none any more. */
struct live_process_name {
    pid_t pid;
    char text[TARGET_NAME];
};

/* Until every thread has been seen elsewhere. */
struct live_wait {
    uint64_t since_ns; /* 0: there is none */
    uint64_t next_ns;  /* when to look again, or to begin another */
};

struct live_seen {
    pid_t pid;
    uint64_t since_ns;
    uint64_t refused; /* the program (target_program_mark) with which it can not be traced; 0: none */
};

struct live_run {
    struct live_script *script;
    const struct live_options *options;
    struct drain_session memory;
    struct load_program program;
    struct load_session *session;
    struct print print;
    struct names names; /* of clauses that run here; numbers from LIVE_OWN_NAMES on */
    uint8_t *frame;     /* for them */
    VEC(struct live_timer) timer;
    VEC(struct live_sampler) sampler;
    struct unwind_tables *tables;   /* of walks here; NULL: no sampled clause takes stacks */
    VEC(struct live_walked) walked; /* processes */
    bool sampling_failed;           /* the last process that was added could not be sampled */
    VEC(struct live_waiting) waiting;
    uint64_t waiting_bytes;        /* of their payloads */
    VEC(struct drain_record) held; /* that were taken out of rings and not looked at yet; their payload: where it is in `held_word` */
    VEC(uint64_t) held_word;
    VEC(struct live_error) error;
    VEC(struct live_process_name) process_name;
    VEC(struct live_seen) seen; /* processes that were looked at, without -p and a command */
    struct target_gate *gate;
    pid_t last_looked_at; /* of those that have been there for long */
    size_t rows_reported;
    bool unreadable_reported;
    uint64_t next_look_ns;
    uint64_t next_collection_ns;            /* that stops processes */
    bool is_collecting_stopped;             /* it waits for threads to be seen elsewhere ... */
    uint64_t stopped_since_ns;              /* ... since then */
    uint64_t collecting_since_ns;           /* the one that does not */
    struct live_wait ring_wait, frame_wait; /* of abandon.c */
    uint64_t places;                        /* that the script's trace points mean in files */
    uint64_t lost;                          /* records and samples, as far as they were reported */
    uint64_t lost_frames;                   /* clauses without a frame, likewise */
    char kind[16];                          /* of a probe, while it is printed */
    uint64_t lost_stacks;                   /* as far as they were reported */
    struct live_stack stack;                /* while it is printed */
    bool is_over;                           /* exit() was called, or a signal came */
    int exit_code;                          /* of exit() */
    bool has_exit_code;
    int stop_signal;
};

enum { LIVE_OWN_NAMES = 1 << 30 };

/* rest.c: what is left in the rings in the end. A second signal, or more work than honest records can make, ends it; what then stays
 * behind is told. */
void live_drain_rest(struct live_run *run, int signal_fd);

/* held.c: takes records out of the rings, to be looked at later, so that there is room. context: struct live_run. False: there are too
 * many already, or nothing could be taken. The other looks at them, and returns how many there were. */
bool live_empty_rings(void *context);
size_t live_take_held(struct live_run *run);

/* run.c: the name of a process, which is remembered. NULL: it has never been known. */
const char *live_process_name(struct live_run *run, pid_t pid);

/* clause.c: clauses that the controller runs. */
void live_run_clauses(struct live_run *run, enum script_point_kind kind);
void live_run_clause(struct live_run *run, const struct live_point *point);

/* sample.c: clauses that fire for samples of the traced processes. */
struct err *live_samplers_create(struct live_run *run);
size_t live_run_samples(struct live_run *run);
/* Stops them, and takes what is left unless exit() has ended the run. */
void live_end_samples(struct live_run *run);
uint64_t live_samples_lost(const struct live_run *run);
void live_samplers_destroy(struct live_run *run);

/* record.c: what arrives. */
void live_take_record(void *context, const struct drain_record *record);
/* Losses and refusals since the last time. */
void live_report_losses(struct live_run *run);
void live_report_errors(struct live_run *run);

/* places.c: trace points that can not be probed, of those that came since the last time. */
void live_report_places(struct live_run *run);

/* series.c: a map of time series. */
void live_print_series(struct live_run *run, uint32_t map, const struct drain_contents *contents);

/* stack.c: the stack of a sample, as drain_subject.stack; context: struct live_sampled. */
struct live_sampled {
    struct live_run *run;
    const struct sample *sample;
};
uint32_t live_sampled_stack(const struct drain_subject *subject, const struct wire_fire *fire, uint64_t *pcs, uint32_t room,
                            uint64_t *root);
void live_walked_deinit(struct live_run *run);
/* ... and what print/ asks about stacks. */
size_t live_stack_addresses(void *cookie, uint32_t number, uint64_t *pcs, size_t room);
size_t live_stack_frames(void *cookie, size_t index, struct print_frame *out, size_t room);

/* abandon.c: reads on behind records that nobody will commit, and takes back frames. True: it is to be called again soon. */
bool live_abandon(struct live_run *run);

/* collect.c: makes room in maps that deleted keys fill. True: it is to be called again soon. */
bool live_collect(struct live_run *run);

/* discover.c: processes that map a file of the script. The gate is for those that are about to execute one, and may be NULL. */
void live_open_gate(struct live_run *run);
struct err *live_serve_gate(struct live_run *run);
struct err *live_look_for_processes(struct live_run *run);

#endif
