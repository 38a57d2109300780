#include "report/export.h"

#include <stdlib.h>

void export_calls_init(struct export_calls *calls, const struct trace *trace)
{
    size_t count;
    trace_functions(trace, &count);
    calls->open_of = memory_zero(count + 1, sizeof *calls->open_of);
}

static void close_to(struct export_calls *calls, size_t depth, uint64_t time_ns)
{
    while (calls->open.n > depth) {
        uint32_t function = calls->open.at[--calls->open.n];
        calls->open_of[function]--;
        calls->leave(calls->context, function, time_ns);
    }
}

void export_call(struct export_calls *calls, const struct trace_record *record)
{
    if (record->minor == TRACE_RETURN) {
        size_t depth = calls->open_of[record->number] ? calls->open.n : 0;
        while (depth && calls->open.at[depth - 1] != record->number)
            depth--;
        if (depth)
            close_to(calls, depth - 1, record->time_ns);
        return;
    }
    if (record->minor == TRACE_ENTER_TAIL && calls->open.n)
        close_to(calls, calls->open.n - 1, record->time_ns);
    VEC_PUSH(&calls->open, record->number);
    calls->open_of[record->number]++;
    calls->enter(calls->context, record->number, record->time_ns);
}

void export_calls_end(struct export_calls *calls, uint64_t time_ns)
{
    close_to(calls, 0, time_ns);
    VEC_FREE(&calls->open);
    free(calls->open_of);
}
