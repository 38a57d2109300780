/* A script run against live processes: text in, what it prints out.
 *
 *   live_script_create()   text -> tree -> stream, with what the binaries' debug information says; diagnostics if it is wrong
 *   live_run()             attach, fire, drain, print, until it is over; leaves every process as it was
 *
 * The order of a run is bpftrace's: BEGIN clauses, then probes and timers, then END clauses, then the maps that are left. */
#ifndef LIVE_LIVE_H
#define LIVE_LIVE_H

#include "base/err.h"
#include "base/memory.h"
#include "drain/session.h"
#include "live/env.h"
#include "print/print.h"
#include "script/script.h"
#include "stream/lower.h"
#include "symbol/spec.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct live_options {
    const char *name; /* of the script, for messages */
    const char *text;
    size_t length;
    const char *const *arguments;
    size_t n_arguments;
    const char *const *include_dirs;
    size_t n_include_dirs;
    const char *const *include_files;
    size_t n_include_files;
    bool unsafe;
    unsigned max_strlen;            /* 0: as the script's config says, else the dialect's default */
    uint32_t max_map_keys;          /* 0: as the script's config says */
    uint64_t max_cat_bytes;         /* likewise */
    const char *missing_probes;     /* NULL: likewise; error, warn, ignore */
    const char *print_maps_on_exit; /* NULL: likewise; a bool as text */
    const char *str_trunc_trailer;  /* NULL: likewise */

    const pid_t *pid;
    size_t n_pids;
    char *const *command; /* NULL: none */
    bool json, quiet, verbose, lossless, follow;
    bool traps; /* places that take nothing but a trap get one */
    bool no_warnings, dry_run;
    bool raw;            /* a terminal is given what processes say as it is */
    bool ignores_status; /* the command's exit code is not the run's */
    enum print_dialect dialect;
    FILE *out;
    struct drain_clock clock; /* read when the program started */
};

/* One place where a clause is to fire, as far as the script says. */
struct live_point {
    const struct script_point *point;
    uint32_t unit; /* the clause's number in the stream */
};

/* A clause as it is compiled: once for each of its trace points, and where a trace point means places that differ, once for each. */
struct live_unit {
    size_t clause;
    uint32_t context[WIRE_MODELS]; /* number in `context` + 1; 0: not for this model */
};

struct live_script {
    struct script_program *program;
    struct live_files files;
    VEC(struct live_unit) live_unit;
    VEC(struct script_context) context;
    VEC(struct stream_unit) unit;
    VEC(struct live_point) point;
    VEC(struct spec) spec;     /* of those in processes */
    VEC(uint32_t) spec_clause; /* by spec: its unit */
    VEC(struct live_env *) env;
    VEC(void *) owned;
    VEC(char *) problem;       /* trace points that mean nothing: why */
    struct stream_built built; /* verified */
};

/* NULL with *diagnostics (caller frees; may be NULL) when the script is wrong; warnings may be there in any case. */
struct err *live_script_create(const struct live_options *options, struct live_script **out, char **diagnostics);
void live_script_destroy(struct live_script *script);

/* Prints a line for each place that the script's trace points mean, as bpftrace -l does: `uprobe:/path:function`,
 * `usdt:/path:provider:name`. Verbose: also the functions' parameters, where debug information has them. */
struct err *live_list(const struct live_options *options, bool verbose, char **diagnostics);

/* *code: the exit code that the script or the command asks for. */
struct err *live_run(struct live_script *script, const struct live_options *options, int *code);

#endif
