/* Trees from and to trace directories. */
#include "tree/internal.h"

#include <stdlib.h>

/* ---- a trace as a source ---- */

#define DEFINITION(name, all)                                                                                                              \
    static const struct trace_##name *name##_of(void *trace, uint32_t number)                                                              \
    {                                                                                                                                      \
        size_t count;                                                                                                                      \
        const struct trace_##name *definitions = all(trace, &count);                                                                       \
        return number < count ? &definitions[number] : NULL;                                                                               \
    }

DEFINITION(function, trace_functions)
DEFINITION(frame, trace_frames)
DEFINITION(stack, trace_stacks)
DEFINITION(module, trace_modules)

struct tree_source tree_source_of_trace(struct trace *trace)
{
    return (struct tree_source){trace, function_of, frame_of, stack_of, module_of};
}

/* ---- reading ---- */

enum { BATCH = 4096 };

struct reading {
    struct tree_set *set;
    struct trace *trace;
    tree_progress_fn *progress;
    void *context;
    struct trace_record *batch;
    uint64_t bytes; /* of the threads that are done */
};

static void tell(const struct reading *reading, uint64_t bytes)
{
    uint64_t all = trace_info(reading->trace)->bytes, done = reading->bytes + bytes;
    if (reading->progress)
        reading->progress(reading->context, done < all ? (double)done / (double)all : 1);
}

static void read_records(const struct reading *reading, struct trace_cursor *cursor, struct tree *tree)
{
    bool has_switches = trace_info(reading->trace)->about.has_switches;
    size_t count, batches = 0;
    while ((count = trace_next(cursor, reading->batch, BATCH))) {
        tree_add(tree, reading->batch, count, has_switches);
        if (!(++batches % 64))
            tell(reading, trace_cursor_bytes(cursor));
    }
}

static struct err *read_thread(struct reading *reading, uint32_t number, const struct trace_thread *thread, uint32_t pid)
{
    struct trace_cursor *cursor;
    ERR_TRY(trace_cursor_open(reading->trace, number, &cursor));
    char *name = memory_format("%u.%u", pid, thread->tid);
    struct tree *tree = tree_of_thread(reading->set, number, name);
    free(name);
    read_records(reading, cursor, tree);
    tree_end(tree, thread->end_ns);
    reading->bytes += trace_cursor_bytes(cursor);
    trace_cursor_close(cursor);
    return NULL;
}

/* Elapsed of metrics is about all threads of a process: their records are wanted in order of time. */
static struct err *read_merged(struct reading *reading, const struct trace_thread *thread, size_t threads,
                               const struct trace_process *process)
{
    uint32_t *number = memory_alloc((threads + 1) * sizeof *number);
    bool has_switches = trace_info(reading->trace)->about.has_switches;
    for (uint32_t i = 0; i < threads; i++) {
        number[i] = i;
        char *name = memory_format("%u.%u", process[thread[i].process].pid, thread[i].tid);
        tree_join(tree_of_thread(reading->set, i, name), thread[i].process);
        free(name);
    }
    struct trace_merge *merge = trace_merge_open(reading->trace, number, threads);
    struct trace_merged part;
    struct err *error;
    while (!(error = trace_merge_next(merge, reading->batch, BATCH, &part)) && part.count) {
        struct tree *tree = tree_of_thread(reading->set, (uint32_t)part.index, "");
        tree_add(tree, reading->batch, part.count, has_switches);
        if (part.is_last)
            tree_end(tree, thread[part.index].end_ns);
    }
    trace_merge_close(merge);
    for (uint32_t i = 0; i < threads && !error; i++)
        tree_end(tree_of_thread(reading->set, i, ""), thread[i].end_ns);
    free(number);
    return error;
}

struct err *tree_set_read(struct tree_set *set, struct trace *trace, tree_progress_fn *progress, void *context)
{
    size_t processes, threads, metrics;
    trace_metrics(trace, &metrics);
    const struct trace_process *process = trace_processes(trace, &processes);
    const struct trace_thread *thread = trace_threads(trace, &threads);
    struct reading reading = {set, trace, progress, context, memory_alloc(BATCH * sizeof *reading.batch), 0};
    struct err *error = NULL;
    if (metrics > 1 && threads > 1)
        error = read_merged(&reading, thread, threads, process);
    for (uint32_t i = 0; !error && i < threads && !(metrics > 1 && threads > 1); i++) {
        tell(&reading, 0);
        error = read_thread(&reading, i, &thread[i], thread[i].process < processes ? process[thread[i].process].pid : 0);
    }
    free(reading.batch);
    if (!error && progress)
        progress(context, 1);
    return error;
}

/* ---- writing ---- */

struct writing {
    struct trace_writer *writer;
    uint32_t thread;
};

static void write_record(void *context, const struct trace_record *record)
{
    const struct writing *writing = context;
    trace_write(writing->writer, writing->thread, record);
}

void tree_write(const struct tree *tree, struct trace_writer *writer, uint32_t thread)
{
    struct writing writing = {writer, thread};
    tree_serialise(tree, write_record, &writing);
}
