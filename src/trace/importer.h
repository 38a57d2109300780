/* What the importers share: lines with their places, threads, stacks. */
#ifndef TRACE_IMPORTER_H
#define TRACE_IMPORTER_H

#include "trace/import.h"
#include "trace/numbers.h"
#include "trace/trace.h"

#include <stddef.h>

enum {
    TRACE_LINE_MAX = 1 << 20,   /* bytes */
    TRACE_DEPTH_MAX = 64 * 1024 /* frames of a stack */
};

struct trace_imported_thread {
    uint32_t number;
    char *name; /* NULL: none */
};

struct trace_importer {
    const struct trace_import_options *options;
    const char *directory;
    struct trace_writer *writer; /* NULL until trace_importer_start() */
    struct trace_imported count;

    const char *file; /* for people */
    int fd;
    char *buffer;
    size_t start, end, room; /* of the buffer: what is not yet handed out */
    bool is_at_end;
    uint64_t line; /* number of the line that was handed out */

    struct trace_numbers processes, threads;  /* pid; pid and tid */
    VEC(uint32_t) process;                    /* by number in `processes` */
    VEC(struct trace_imported_thread) thread; /* by number in `threads` */
    uint32_t last_pid, last_tid, last_thread; /* found last; last_thread: index + 1 */
    struct trace_numbers stacks;              /* texts NAME;NAME... */
    VEC(uint32_t) stack;                      /* by number in `stacks` */
};

/* The next line without its end, NUL-terminated, valid until the next call; NULL: there is none. */
struct err *trace_importer_line(struct trace_importer *importer, char **line);
/* An error at a place in the line that was handed out; columns count from 1. */
struct err *trace_importer_error(const struct trace_importer *importer, size_t column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct err *trace_importer_start(struct trace_importer *importer, uint64_t start_ns, uint64_t period_ns, struct trace_metric metric);
/* The index of a thread in importer->thread, which is made when it is first asked for. */
uint32_t trace_importer_thread(struct trace_importer *importer, uint64_t time_ns, uint32_t pid, uint32_t tid, const char *name);
/* NAME;NAME..., outermost first, at `text` in the line `line`. */
struct err *trace_importer_stack(struct trace_importer *importer, const char *line, char *text, uint32_t *stack);

/* A decimal number of units at *at, which moves behind it. A unit is a power of ten of ns. */
struct err *trace_importer_time(struct trace_importer *importer, const char *line, const char **at, uint64_t unit_ns, uint64_t *time_ns);
/* At most `most`. */
struct err *trace_importer_number(struct trace_importer *importer, const char *line, const char **at, uint64_t most, const char *what,
                                  uint64_t *number);

struct err *trace_import_events(struct trace_importer *importer);
struct err *trace_import_folded(struct trace_importer *importer);
struct err *trace_import_perf_script(struct trace_importer *importer);

#endif
