/* The stream of a recording: the clauses of metrics, that of calls, those of a climb. */
#include "record/run.h"

#include "stream/assemble.h"
#include "stream/stream.h"

#include <stdlib.h>

/* A call: its stack pointer, and all that a record has anyway. */
static const struct wire_insn call_code[] = {
    {.op = WIRE_CTX, .d = 0, .i = WIRE_CTX_SP},
    {.op = WIRE_FST, .a = 0, .k = 8, .j = 0},
    {.op = WIRE_EMIT, .j = sizeof(struct record_event)},
};

struct err *record_program_build(const struct wire_stream *base, bool climbs, struct record_program *out)
{
    const struct stream_clause_code clause = {call_code, sizeof call_code / sizeof *call_code, sizeof(struct record_event)};
    *out = (struct record_program){.stream = stream_assemble(base, &clause, 1, &clause.frame_bytes, 1),
                                   .clause = base ? base->clause_count : 0,
                                   .record = (uint16_t)(base ? base->record_count : 0)};
    if (climbs) {
        struct wire_stream *calls = out->stream;
        out->stream = climb_program(calls, 0, &out->climb);
        free(calls);
    }
    return stream_verify(out->stream, out->stream->bytes);
}

void record_program_deinit(struct record_program *program)
{
    free(program->stream);
    *program = (struct record_program){0};
}
