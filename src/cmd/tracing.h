/* What `trace`, `compile` and the program under the name `bpftrace` share: a script, what it is run against, and how it ends. */
#ifndef CMD_TRACING_H
#define CMD_TRACING_H

#include "base/memory.h"
#include "live/live.h"

struct tracing {
    struct live_options live;
    VEC(pid_t) pid;
    VEC(const char *) include_dir, include_file, argument;
    char *text;   /* of a file */
    char **words; /* of -c */
    const char *out_path;
    bool lists, dumps_tree, dumps_stream;
    int wrong_script; /* the exit code when the script has errors */
};

struct err *tracing_read_script(struct tracing *tracing, const char *path);
struct err *tracing_add_pid(struct tracing *tracing, const char *text);
/* Words with quotes and backslashes as a shell has them, without anything else of it. */
struct err *tracing_split_command(struct tracing *tracing, const char *text);
struct err *tracing_set_format(struct tracing *tracing, const char *text);
struct err *tracing_set_dialect(struct tracing *tracing, const char *text);
/* The pattern of -l becomes the script: a clause that does nothing at the places that it means. */
void tracing_set_pattern(struct tracing *tracing, const char *pattern);
/* What BPFTRACE_... variables of the environment say. */
struct err *tracing_read_environment(struct tracing *tracing);

/* Lists, prints what the script compiles to, or runs it. *code: the exit code when there is no error. */
struct err *tracing_run(struct tracing *tracing, int *code);
void tracing_deinit(struct tracing *tracing);

#endif
