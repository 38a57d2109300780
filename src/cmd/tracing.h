/* What `trace`, `compile` and the program under the name `bpftrace` share: a script, what it is run against, and how it ends. */
#ifndef CMD_TRACING_H
#define CMD_TRACING_H

#include "base/memory.h"
#include "base/output.h"
#include "live/live.h"

struct tracing {
    struct live_options live;
    VEC(pid_t) pid;
    VEC(const char *) include_dir, include_file, argument;
    char *text;   /* of a file */
    char **words; /* of -c */
    const char *out_path;
    struct output *output; /* of -o; NULL: none */
    bool lists, dumps_tree, dumps_stream;
    bool is_wrong;    /* the script has errors, which were said */
    int wrong_script; /* the exit code when the script has errors */
};

/* Options that have no letter in either of the two. */
enum { TRACING_INCLUDE = 256, TRACING_UNSAFE, TRACING_DIALECT, TRACING_RAW, TRACING_OPTIONS };
/* An option that they have in common, with its value in optarg. Another one: ERR_USAGE with the message. */
struct err *tracing_option(struct tracing *tracing, int option, const char *message);

struct err *tracing_read_script(struct tracing *tracing, const char *path);
/* The pattern of -l becomes the script: a clause that does nothing at the places that it means. */
void tracing_set_pattern(struct tracing *tracing, const char *pattern);
/* What BPFTRACE_... variables of the environment say. */
struct err *tracing_read_environment(struct tracing *tracing);

/* Lists, prints what the script compiles to, or runs it. *code: the exit code when there is no error. */
struct err *tracing_run(struct tracing *tracing, int *code);
void tracing_deinit(struct tracing *tracing);

#endif
