/* Several threads' records as one sequence, in order of time. */
#include "base/heap.h"
#include "trace/trace.h"

#include <stdlib.h>

enum { AHEAD = 256 };

struct reader {
    struct trace_cursor *cursor; /* NULL: not opened yet, or at its end */
    struct trace_record *record; /* [AHEAD], read and not handed out */
    size_t at, n;
};

/* A thread takes memory from its start to its last record only: items of the heap without a cursor are threads that have not started. */
struct trace_merge {
    struct trace *trace;
    const uint32_t *thread; /* the caller's */
    struct reader *reader;  /* by index in `thread` */
    heap_entries next;      /* of those that have records; key: time of the next one */
};

struct trace_merge *trace_merge_open(struct trace *trace, const uint32_t *thread, size_t count)
{
    struct trace_merge *merge = memory_zero(1, sizeof *merge);
    size_t threads;
    const struct trace_thread *definition = trace_threads(trace, &threads);
    merge->trace = trace;
    merge->thread = thread;
    merge->reader = memory_zero(count + 1, sizeof *merge->reader);
    for (uint32_t i = 0; i < count; i++)
        heap_put(&merge->next, thread[i] < threads ? definition[thread[i]].start_ns : 0, i);
    return merge;
}

static void end(struct reader *reader)
{
    trace_cursor_close(reader->cursor);
    free(reader->record);
    *reader = (struct reader){0};
}

/* Whether the thread that comes first has a record. */
static bool fill(struct reader *reader)
{
    if (reader->at == reader->n) {
        reader->at = 0;
        reader->n = trace_next(reader->cursor, reader->record, AHEAD);
    }
    if (!reader->n)
        end(reader);
    return reader->n;
}

static struct err *open_first(struct trace_merge *merge)
{
    uint32_t index = merge->next.at[0].item;
    struct reader *reader = &merge->reader[index];
    ERR_TRY(trace_cursor_open(merge->trace, merge->thread[index], &reader->cursor));
    reader->record = memory_alloc(AHEAD * sizeof *reader->record);
    if (fill(reader))
        heap_change_first(&merge->next, reader->record[0].time_ns);
    else
        heap_drop_first(&merge->next);
    return NULL;
}

struct err *trace_merge_next(struct trace_merge *merge, struct trace_record *records, size_t room, struct trace_merged *out)
{
    *out = (struct trace_merged){0};
    while (merge->next.n && !merge->reader[merge->next.at[0].item].cursor)
        ERR_TRY(open_first(merge));
    if (!merge->next.n)
        return NULL;
    out->index = merge->next.at[0].item;
    struct reader *reader = &merge->reader[out->index];
    uint64_t time_ns;
    do {
        records[out->count++] = reader->record[reader->at++];
        if (!fill(reader)) {
            out->is_last = true;
            heap_drop_first(&merge->next);
            return NULL;
        }
        time_ns = reader->record[reader->at].time_ns;
    } while (out->count < room && heap_stays_first(&merge->next, time_ns));
    heap_change_first(&merge->next, time_ns);
    return NULL;
}

void trace_merge_close(struct trace_merge *merge)
{
    if (!merge)
        return;
    /* Those that are not open have nothing. */
    for (size_t i = 0; i < merge->next.n; i++)
        end(&merge->reader[merge->next.at[i].item]);
    VEC_FREE(&merge->next);
    free(merge->reader);
    free(merge);
}
