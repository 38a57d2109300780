/* What a hook does, while it has a quota: an entry tells its return address, its stack pointer and one argument, an exit its stack pointer,
 * which is the same. */
#include "climb/internal.h"

#include "stream/assemble.h"

struct wire_stream *climb_program(const struct wire_stream *base, unsigned argument, struct climb_numbering *out)
{
    const struct wire_insn enter[] = {
        {.op = WIRE_CTX, .d = 0, .i = WIRE_CTX_QUOTA},
        {.op = WIRE_GTSI, .d = 1, .a = 0, .i = 0},
        {.op = WIRE_ENDZ, .a = 1},
        {.op = WIRE_FST, .a = 0, .k = 8, .j = offsetof(struct climb_enter, quota)},
        {.op = WIRE_CTX, .d = 0, .i = WIRE_CTX_RETURN},
        {.op = WIRE_FST, .a = 0, .k = 8, .j = offsetof(struct climb_enter, return_va)},
        {.op = WIRE_CTX, .d = 0, .i = WIRE_CTX_SP},
        {.op = WIRE_FST, .a = 0, .k = 8, .j = offsetof(struct climb_enter, sp)},
        {.op = WIRE_ARG, .d = 0, .i = (int32_t)argument},
        {.op = WIRE_FST, .a = 0, .k = 8, .j = offsetof(struct climb_enter, value)},
        {.op = WIRE_EMIT, .h = CLIMB_ENTER, .i = 0, .j = sizeof(struct climb_enter)},
        {.op = WIRE_END},
    };
    static const struct wire_insn leave[] = {
        {.op = WIRE_CTX, .d = 0, .i = WIRE_CTX_QUOTA},
        {.op = WIRE_GTSI, .d = 0, .a = 0, .i = 0},
        {.op = WIRE_ENDZ, .a = 0},
        {.op = WIRE_CTX, .d = 0, .i = WIRE_CTX_SP},
        {.op = WIRE_FST, .a = 0, .k = 8, .j = offsetof(struct climb_leave, sp)},
        {.op = WIRE_EMIT, .h = CLIMB_LEAVE, .i = 0, .j = sizeof(struct climb_leave)},
        {.op = WIRE_END},
    };
    const struct stream_clause_code clause[CLIMB_CLAUSES] = {
        [CLIMB_ENTER] = {enter, sizeof enter / sizeof *enter, sizeof(struct climb_enter)},
        [CLIMB_LEAVE] = {leave, sizeof leave / sizeof *leave, sizeof(struct climb_leave)},
    };
    static const uint32_t payload_bytes[CLIMB_CLAUSES] = {sizeof(struct climb_enter), sizeof(struct climb_leave)};
    *out = (struct climb_numbering){.clause = base ? base->clause_count : 0, .record = base ? base->record_count : 0};
    return stream_assemble(base, clause, CLIMB_CLAUSES, payload_bytes, CLIMB_CLAUSES);
}
