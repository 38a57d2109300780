/* The state of a run; shared by the files of live/ only. */
#ifndef LIVE_RUN_H
#define LIVE_RUN_H

#include "drain/session.h"
#include "live/live.h"
#include "load/session.h"
#include "print/print.h"
#include "sample/sample.h"

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
    bool sampling_failed; /* the last process that was added could not be sampled */
    VEC(struct live_waiting) waiting;
    VEC(struct live_error) error;
    VEC(pid_t) seen; /* processes that were looked at, without -p and a command */
    size_t rows_reported;
    uint64_t next_look_ns;
    uint64_t next_collection_ns;                /* that stops processes */
    uint64_t collecting_since_ns;               /* the one that does not */
    uint64_t abandon_since_ns, next_abandon_ns; /* of abandon.c */
    uint64_t places;                            /* that the script's trace points mean in files */
    uint64_t lost;                              /* records and samples, as far as they were reported */
    uint64_t lost_frames;                       /* clauses without a frame, likewise */
    char kind[16];                              /* of a probe, while it is printed */
    bool is_over;                               /* exit() was called, or a signal came */
    int exit_code;                              /* of exit() */
    bool has_exit_code;
    int stop_signal;
};

enum { LIVE_OWN_NAMES = 1 << 30 };

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

/* abandon.c: reads on behind records that nobody will commit. */
void live_abandon(struct live_run *run);

/* collect.c: makes room in maps that deleted keys fill. True: it is to be called again soon. */
bool live_collect(struct live_run *run);

/* discover.c: processes that map a file of the script. */
struct err *live_look_for_processes(struct live_run *run);

uint64_t live_now_ns(void);

#endif
