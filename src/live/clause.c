/* Clauses that the controller runs itself: BEGIN, END, interval. They are LP64 and have no process. What they print goes through the rings
 * as everything does, and so comes in order. */
#include "live/run.h"
#include "stream/stream.h"

#include <unistd.h>

void live_run_clause(struct live_run *run, const struct live_point *point)
{
    const struct wire_stream *stream = run->script->built.stream;
    uint32_t count;
    const struct wire_insn *code = stream_code(stream, point->unit, WIRE_LP64, &count);
    struct wire_fire fire = {.session_va = (uintptr_t)run->memory.memory,
                             .frame_va = (uintptr_t)run->frame,
                             .clause = point->unit,
                             .model = WIRE_LP64,
                             .place = LIVE_OWN_NAMES + names_number(&run->names, point->point->text),
                             .pid = (uint32_t)getpid(),
                             .tid = (uint32_t)gettid()};
    drain_run_clause(&fire, code, count);
}

void live_run_clauses(struct live_run *run, enum script_point_kind kind)
{
    for (size_t i = 0; i < run->script->point.n; i++)
        if (run->script->point.at[i].point->kind == kind)
            live_run_clause(run, &run->script->point.at[i]);
}
