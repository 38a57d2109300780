/* The verifier: a stream that keeps all rules passes, and for each rule one that breaks just that is refused, with a message that names it.
 * (S0.2) */
#include "base/memory.h"
#include "stream/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CODE_MAX = 64, MAPS = 5, RECORDS = 2, DATA = 64, FRAME = WIRE_WALK_BYTES + 8 * 16 };

/* What a test may change before it becomes bytes, and after. */
struct draft {
    struct wire_stream header;
    struct wire_clause clause[2];
    struct wire_map_type map[MAPS];
    struct wire_record_type record[RECORDS];
    struct wire_point point;
    struct wire_insn code[CODE_MAX];
    uint32_t count;
    char bytes[8192] __attribute__((aligned(8)));
};

static struct draft draft;

static uint32_t put(uint32_t *at, const void *from, uint32_t bytes)
{
    uint32_t offset = *at;
    memcpy(draft.bytes + offset, from, bytes);
    *at = (offset + bytes + 7) & ~7u;
    return offset;
}

/* Two clauses, the second with the code of the test; both models have the same code. */
static void begin(void)
{
    static const uint32_t kinds[MAPS] = {WIRE_MAP_INT, WIRE_MAP_VALUE, WIRE_MAP_COUNT, WIRE_MAP_LHIST, WIRE_MAP_INT};
    memset(&draft, 0, sizeof draft);
    for (int i = 0; i < MAPS; i++)
        draft.map[i] = (struct wire_map_type){.kind = kinds[i], .key_bytes = i < 2 ? 8 : 0, .capacity = 10, .param = {0, 100, 10}};
    for (int i = 0; i < MAPS; i++)
        draft.map[i].value_bytes = i == 1 ? 16 : (uint32_t)wire_map_value_bytes(kinds[i], draft.map[i].param);
    draft.record[0].payload_bytes = 16;
    draft.point.name_bytes = 4;
    for (int i = 0; i < 2; i++)
        draft.clause[i].has_model = 3, draft.clause[i].point_count = 1;
}

static void lay_out(void)
{
    static const struct wire_insn end = {.op = WIRE_END};
    static const struct wire_source sources[2 * CODE_MAX];
    static const char data[DATA];
    uint32_t at = sizeof draft.header;
    struct wire_stream *header = &draft.header;
    header->magic = WIRE_STREAM_MAGIC;
    for (int m = 0; m < WIRE_MODELS; m++) {
        draft.clause[0].action[m] = (struct wire_code){0, 1};
        draft.clause[1].predicate[m] = (struct wire_code){1, draft.count / 2};
        draft.clause[1].action[m] = (struct wire_code){1 + draft.count / 2, draft.count - draft.count / 2};
        draft.clause[1].frame_bytes[m] = FRAME;
    }
    header->clause_count = 2;
    header->clause_offset = put(&at, draft.clause, sizeof draft.clause);
    header->point_count = 1;
    header->point_offset = put(&at, &draft.point, sizeof draft.point);
    header->map_count = MAPS;
    header->map_offset = put(&at, draft.map, sizeof draft.map);
    header->record_count = RECORDS;
    header->record_offset = put(&at, draft.record, sizeof draft.record);
    for (int m = 0; m < WIRE_MODELS; m++) {
        header->code_offset[m] = put(&at, &end, sizeof end);
        put(&at, draft.code, draft.count * (uint32_t)sizeof *draft.code);
        header->code_count[m] = 1 + draft.count;
    }
    header->source_offset = put(&at, sources, 2 * (draft.count + 1) * (uint32_t)sizeof *sources);
    header->data_bytes = DATA;
    header->data_offset = put(&at, data, DATA);
    header->bytes = at;
    memcpy(draft.bytes, header, sizeof *header);
}

static struct wire_stream *stream(void)
{
    return (struct wire_stream *)draft.bytes;
}

static struct wire_clause *clause(uint32_t number)
{
    return (struct wire_clause *)(draft.bytes + draft.header.clause_offset) + number;
}

static struct wire_map_type *map(uint32_t number)
{
    return (struct wire_map_type *)(draft.bytes + draft.header.map_offset) + number;
}

/* ---- judging ---- */

static unsigned failures, tests;

static void judge(const char *name, const char *wanted)
{
    struct err *error = stream_verify(draft.bytes, draft.header.bytes);
    tests++;
    if (!wanted && error)
        printf("FAIL %s: refused: %s\n", name, error->message), failures++;
    else if (wanted && !error)
        printf("FAIL %s: not refused\n", name), failures++;
    else if (wanted && !strstr(error->message, wanted))
        printf("FAIL %s: refused because of \"%s\", not \"%s\"\n", name, error->message, wanted), failures++;
    err_free(error);
}

static void code(const char *name, const char *wanted, const struct wire_insn *insns, uint32_t count)
{
    begin();
    memcpy(draft.code, insns, count * sizeof *insns);
    draft.count = count;
    lay_out();
    judge(name, wanted);
}

#define CODE(name, wanted, ...)                                                                                                            \
    code(name, wanted, (const struct wire_insn[]){__VA_ARGS__}, sizeof((const struct wire_insn[]){__VA_ARGS__}) / sizeof(struct wire_insn))
#define TABLE(name, wanted, change) (begin(), lay_out(), (void)(change), judge(name, wanted))

/* r = 1; 8 bytes of the frame = r; all of the frame = 0. */
#define SET(r)                                                                                                                             \
    {                                                                                                                                      \
        .op = WIRE_MOVI, .d = r, .i = 1                                                                                                    \
    }
#define KEY(at)                                                                                                                            \
    {                                                                                                                                      \
        .op = WIRE_FST, .a = 0, .k = 8, .j = at                                                                                            \
    }
#define ZERO_ALL                                                                                                                           \
    {                                                                                                                                      \
        .op = WIRE_FZERO, .i = FRAME                                                                                                       \
    }

static void check_tables(void)
{
    TABLE("a good stream", NULL, 0);
    TABLE("magic", "not a trace stream", stream()->magic++);
    TABLE("length", "not as long", stream()->bytes++);
    TABLE("flags", "unknown flag", stream()->flags = 2);
    TABLE("unused of the header", "unknown flag", stream()->unused = 1);
    TABLE("clause table outside", "clause table", stream()->clause_offset = 8000);
    TABLE("clause table too long", "clause table", stream()->clause_count = 0x10000000);
    TABLE("clause table not aligned", "clause table", stream()->clause_offset++);
    TABLE("clause table over the header", "clause table", stream()->clause_offset = 8);
    TABLE("more clauses than a record can name", "clause table", stream()->clause_count = 65537);
    TABLE("point table outside", "trace points", stream()->point_offset = UINT32_MAX - 7);
    TABLE("map table outside", "map table", stream()->map_count = UINT32_MAX);
    TABLE("record table outside", "record table", stream()->record_count = 1 << 20);
    TABLE("32-bit code outside", "code region", stream()->code_count[0] = 1 << 28);
    TABLE("64-bit code outside", "code region", stream()->code_offset[1] = 1u << 31);
    TABLE("sources outside", "source positions", stream()->source_offset = stream()->bytes);
    TABLE("data outside", "data", stream()->data_bytes = 1 << 30);
    TABLE("name of a trace point", "name", ((struct wire_point *)(draft.bytes + draft.header.point_offset))->name_offset = DATA);
    TABLE("kind of a map", "no such kind", map(0)->kind = WIRE_MAP_KINDS);
    TABLE("key of a map", "no such key", map(0)->key_bytes = 12);
    TABLE("key too long", "no such key", map(0)->key_bytes = 4104);
    TABLE("value that does not fit", "fit its kind", map(0)->value_bytes = 16);
    TABLE("value of nothing", "no such value", map(1)->value_bytes = 0);
    TABLE("value not of words", "no such value", map(1)->value_bytes = 12);
    TABLE("value too long", "no such value", map(1)->value_bytes = 65544);
    TABLE("steps that make no sense", "fit its kind", map(3)->param[2] = 0);
    TABLE("too many steps", "fit its kind", (map(3)->param[0] = INT64_MIN, map(3)->param[1] = INT64_MAX, map(3)->param[2] = 1));
    TABLE("map without room", "no room", map(0)->capacity = 0);
    TABLE("flags of a map", "unknown flag", map(0)->is_signed = 2);
    TABLE("unused of a map", "unknown flag", map(0)->unused = 1);
    TABLE("name of a map", "name", map(0)->name_bytes = DATA + 1);
    TABLE("payload not of words", "no such payload",
          ((struct wire_record_type *)(draft.bytes + draft.header.record_offset))->payload_bytes = 7);
    TABLE("payload too long", "no such payload",
          ((struct wire_record_type *)(draft.bytes + draft.header.record_offset))->payload_bytes = WIRE_FRAME_MAX + 8);
    TABLE("trace points of a clause", "no such trace point", clause(1)->point_first = 1);
    TABLE("trace points that wrap", "no such trace point", (clause(1)->point_first = 2, clause(1)->point_count = UINT32_MAX));
    TABLE("models of a clause", "unknown flag", clause(1)->has_model = 4);
    TABLE("unused of a clause", "unknown flag", clause(1)->unused = 1);
    TABLE("code for no model", "does not have", clause(1)->has_model = 1);
    TABLE("action elsewhere", "does not follow", (clause(1)->action[0].first = 0, clause(1)->action[0].count = 1));
    TABLE("code of another clause", "not behind",
          (clause(1)->predicate[0].first = clause(1)->action[0].first = 0, clause(1)->action[0].count = 1));
    TABLE("code outside the region", "not in the region", clause(1)->action[0].count = 1);
    TABLE("code that wraps", "not in the region", clause(1)->action[0].count = UINT32_MAX);
    TABLE("frame too large", "no such frame", clause(1)->frame_bytes[1] = WIRE_FRAME_MAX + 8);
    TABLE("frame not of words", "no such frame", clause(1)->frame_bytes[1] = 12);
    begin();
    lay_out();
    draft.header.bytes = 40;
    judge("shorter than its header", "truncated");
}

static void check_operands(void)
{
    CODE("a good program", NULL, SET(0), KEY(0), {.op = WIRE_MGET, .d = 1, .h = 0}, {.op = WIRE_ENDZ, .a = 1}, {.op = WIRE_END});
    CODE("operation", "no such operation", {.op = WIRE_OP_COUNT});
    CODE("register d", "no such register", {.op = WIRE_MOVI, .d = 16});
    CODE("register a", "no such register", {.op = WIRE_MOV, .a = 16});
    CODE("register b", "no such register", SET(0), {.op = WIRE_ADD, .b = 200});
    CODE("field that is not there", "is not 0", {.op = WIRE_MOVI, .b = 1});
    CODE("key of a map without one", "is not 0", SET(0), {.op = WIRE_MAGG, .h = 2, .j = 8});
    CODE("size", "no such size", {.op = WIRE_FLD, .k = 3});
    CODE("size of BSWAP", "no such size", SET(0), {.op = WIRE_BSWAP, .k = 1});
    CODE("signed BSWAP", "no such size", SET(0), {.op = WIRE_BSWAP, .k = 4 | WIRE_SIGNED});
    CODE("size of XMM", "no such size", {.op = WIRE_XMM, .k = 2});
    CODE("signed store", "not signed", SET(0), {.op = WIRE_FST, .k = 4 | WIRE_SIGNED});
    CODE("long constant outside", "not in the data", {.op = WIRE_MOVL, .j = DATA});
    CODE("long constant not aligned", "not in the data", {.op = WIRE_MOVL, .j = 4});
    CODE("shift by 64", "more than 63", SET(0), {.op = WIRE_SHLI, .i = 64});
    CODE("shift by less than 0", "more than 63", SET(0), {.op = WIRE_SARI, .i = -1});
    CODE("no bits", "no such bits", SET(0), {.op = WIRE_BITS, .h = 0});
    CODE("bits beyond 64", "no such bits", SET(0), {.op = WIRE_BITS, .k = 60, .h = 5});
    CODE("sign of bits", "no such bits", SET(0), {.op = WIRE_BITS, .h = 5, .i = 2});
    CODE("context", "no such context", {.op = WIRE_CTX, .i = WIRE_CTX_COUNT});
    CODE("context below 0", "no such context", {.op = WIRE_CTX, .i = -1});
    CODE("argument", "no such argument", {.op = WIRE_ARG, .i = 64});
    CODE("machine register of the other model", "32-bit code", {.op = WIRE_REG, .i = WIRE_REG32_COUNT});
    CODE("machine register", "no such machine", {.op = WIRE_REG, .i = WIRE_REG64_COUNT});
    CODE("vector register of the other model", "32-bit code", {.op = WIRE_XMM, .k = 8, .i = 8});
    CODE("signal in a safe stream", "unsafe", SET(0), {.op = WIRE_SIGNAL});
    CODE("map", "no such map", SET(0), {.op = WIRE_MSET, .h = MAPS});
    CODE("length of no map", "no such map", {.op = WIRE_MLEN, .h = MAPS});
    CODE("integer of a map of values", "of this kind", SET(0), KEY(0), {.op = WIRE_MGET, .h = 1});
    CODE("value of a map of integers", "of this kind", SET(0), KEY(0), {.op = WIRE_MGETV, .h = 0, .i = 8});
    CODE("aggregation into integers", "of this kind", SET(0), KEY(0), {.op = WIRE_MAGG, .h = 0});
    CODE("reduction of integers", "of this kind", SET(0), KEY(0), {.op = WIRE_MRED, .h = 0});
    CODE("keys of a map without any", "of this kind", ZERO_ALL, {.op = WIRE_MNEXT, .h = 2});
    CODE("reduction", "no such reduction", {.op = WIRE_MRED, .h = 2, .k = WIRE_REDUCES});
    CODE("record", "no such record", {.op = WIRE_EMIT, .h = RECORDS});
    CODE("payload that is not the record's", "payload", ZERO_ALL, {.op = WIRE_EMIT, .h = 0, .j = 24});
}

static void check_frame(void)
{
    CODE("store outside the frame", "not in the frame", SET(0), {.op = WIRE_FST, .k = 8, .j = FRAME - 7});
    CODE("store that wraps", "not in the frame", SET(0), {.op = WIRE_FST, .k = 8, .j = UINT32_MAX - 3});
    CODE("load outside the frame", "not in the frame", {.op = WIRE_FLD, .k = 1, .j = FRAME});
    CODE("name outside the frame", "not in the frame", {.op = WIRE_COMM, .j = FRAME - 8});
    CODE("stack outside the frame", "not in the frame", {.op = WIRE_USTACK, .i = 17});
    CODE("stack outside with what it skips", "not in the frame", {.op = WIRE_USTACK, .i = 16, .h = 1});
    CODE("stack not aligned", "not in the frame", {.op = WIRE_USTACK, .i = 1, .j = 4});
    CODE("stack of nothing", "no such stack", {.op = WIRE_USTACK});
    CODE("stack of too many", "no such stack", {.op = WIRE_USTACK, .i = WIRE_STACK_MAX + 1});
    CODE("stack without two", "no such stack", {.op = WIRE_USTACK, .i = 1, .h = 2});
    CODE("what a stack leaves behind", "before it is written", {.op = WIRE_USTACK, .i = 1}, {.op = WIRE_FLD, .k = 8});
    CODE("string outside the frame", "not in the frame", SET(0), {.op = WIRE_STRT, .i = FRAME + 1});
    CODE("string of less than 0", "not in the frame", SET(0), {.op = WIRE_STRT, .i = -1});
    CODE("string of nothing", "no room", SET(0), {.op = WIRE_STRT, .i = 0});
    CODE("buffer of nothing", "no room", SET(0), {.op = WIRE_BUFT, .i = 0});
    CODE("zeros of nothing", "no room", {.op = WIRE_FZERO, .i = 0});
    CODE("copy of nothing", "no room", ZERO_ALL, {.op = WIRE_FCPY, .i = 8});
    CODE("data of nothing", "no room", {.op = WIRE_FDATA});
    CODE("data outside", "not in the data", {.op = WIRE_FDATA, .i = DATA - 7, .h = 8});
    CODE("data before", "not in the data", {.op = WIRE_FDATA, .i = -8, .h = 8});
    CODE("index wider than its bytes", "no room", SET(0), ZERO_ALL, {.op = WIRE_FLDX, .k = 8, .i = 7});
    CODE("bound of nothing", "no such number of elements", SET(0), {.op = WIRE_BOUND});
    CODE("bound of less than 0", "no such number of elements", SET(0), {.op = WIRE_BOUND, .i = -1});
    CODE("length of nothing", "no room", ZERO_ALL, {.op = WIRE_SLEN});
    CODE("comparison of nothing", "no room", ZERO_ALL, {.op = WIRE_SCMP});
    CODE("search for nothing", "no room", ZERO_ALL, {.op = WIRE_SFIND, .h = 8});
    CODE("search that takes too long", "too long a search", ZERO_ALL, {.op = WIRE_SFIND, .h = 2000, .k = 8});
    CODE("copy onto itself", "overlap", ZERO_ALL, {.op = WIRE_FCPY, .i = 8, .j = 12, .h = 8});
    CODE("key not aligned", "multiple of 8", ZERO_ALL, {.op = WIRE_MGET, .j = 4});
    CODE("value not aligned", "multiple of 8", ZERO_ALL, {.op = WIRE_MGETV, .h = 1, .i = 12});
    CODE("payload not aligned", "multiple of 8", ZERO_ALL, {.op = WIRE_EMIT, .h = 0, .i = 4, .j = 16});
    CODE("value over its key", "overlap", ZERO_ALL, {.op = WIRE_MGETV, .h = 1, .i = 8, .j = 16});
    CODE("iterator over its key", "overlap", ZERO_ALL, {.op = WIRE_MNEXT, .h = 0, .i = 8, .j = 8});
    CODE("key outside the frame", "not in the frame", ZERO_ALL, {.op = WIRE_MGET, .j = FRAME});
    CODE("value outside the frame", "not in the frame", ZERO_ALL, {.op = WIRE_MSETV, .h = 1, .i = FRAME - 8});
    CODE("payload outside the frame", "not in the frame", ZERO_ALL, {.op = WIRE_EMIT, .h = 0, .i = FRAME - 8, .j = 16});
    CODE("empty payload outside the frame", "not in the frame", {.op = WIRE_EMIT, .h = 1, .i = FRAME + 8});
}

static void check_flow(void)
{
    CODE("register not written", "register is read before", {.op = WIRE_MOV, .a = 3});
    CODE("register b not written", "register is read before", SET(0), {.op = WIRE_ADD, .b = 1});
    CODE("frame not written", "frame is read before", {.op = WIRE_FLD, .k = 1});
    CODE("frame written in part", "frame is read before", SET(0), {.op = WIRE_FST, .k = 4}, {.op = WIRE_FLD, .k = 8});
    CODE("frame written in its later part", "frame is read before", SET(0), {.op = WIRE_FST, .k = 4, .j = 4}, {.op = WIRE_FLD, .k = 8});
    CODE("frame written behind", "frame is read before", SET(0), KEY(32), {.op = WIRE_FLD, .k = 8, .j = 24});
    CODE("frame written before", "frame is read before", SET(0), KEY(16), {.op = WIRE_FLD, .k = 8, .j = 24});
    CODE("frame written across words", NULL, {.op = WIRE_FZERO, .i = 8, .j = 60}, {.op = WIRE_FLD, .k = 8, .j = 60});
    CODE("frame not written across words", "frame is read before", {.op = WIRE_FZERO, .i = 8, .j = 60}, {.op = WIRE_FLD, .k = 8, .j = 61});
    CODE("key not written", "frame is read before", {.op = WIRE_MGET});
    CODE("value not written", "frame is read before", SET(0), KEY(0), {.op = WIRE_MSETV, .h = 1, .i = 8});
    CODE("iterator not written", "frame is read before", {.op = WIRE_MNEXT, .i = 8});
    CODE("payload not written", "frame is read before", SET(0), KEY(0), {.op = WIRE_EMIT, .j = 16});
    CODE("string not written", "frame is read before", {.op = WIRE_SLEN, .i = 8});
    CODE("index not written", "frame is read before", SET(0), {.op = WIRE_FLDX, .k = 1, .i = 8});
    CODE("jump backward", "forward", SET(0), {.op = WIRE_JMP, .j = 0});
    CODE("jump to itself", "forward", SET(0), {.op = WIRE_JMP, .j = 1});
    CODE("jump out of the clause", "forward", SET(0), {.op = WIRE_JZ, .j = 2});
    CODE("loop forward", "go back", {.op = WIRE_LOOP, .j = 1}, {.op = WIRE_END});
    CODE("loop to itself", "go back", {.op = WIRE_LOOP, .j = 0});
    CODE("written on one way only", "register is read before", SET(0), {.op = WIRE_JZ, .j = 3}, SET(1), {.op = WIRE_MOV, .a = 1});
    CODE("written on both ways", NULL, SET(0), {.op = WIRE_JZ, .j = 4}, SET(1), {.op = WIRE_JMP, .j = 5}, SET(1), {.op = WIRE_MOV, .a = 1});
    CODE("frame written on one way only", "frame is read before", SET(0), {.op = WIRE_JNZ, .j = 3}, KEY(8),
         {.op = WIRE_FLD, .k = 8, .j = 8});
    CODE("written behind the jump", "register is read before", SET(0), {.op = WIRE_JMP, .j = 3}, SET(1), {.op = WIRE_MOV, .a = 1});
    CODE("a good loop", NULL, SET(0), {.op = WIRE_JZ, .j = 4}, SET(1), {.op = WIRE_LOOP, .j = 1}, {.op = WIRE_END});
    /* 1 is the head: entered first with r1, entered again from 3, where a jump over 1 has come without it. */
    CODE("loop that brings less", "bring back", SET(0), {.op = WIRE_JZ, .j = 4}, SET(1), {.op = WIRE_MOV, .a = 1}, {.op = WIRE_JNZ, .j = 6},
         {.op = WIRE_LOOP, .j = 3}, {.op = WIRE_END});
    CODE("loop that brings less of the frame", "bring back", SET(0), {.op = WIRE_JZ, .j = 4}, KEY(0), {.op = WIRE_FLD, .k = 8},
         {.op = WIRE_JNZ, .j = 6}, {.op = WIRE_LOOP, .j = 3}, {.op = WIRE_END});
    CODE("loop into what nothing leads to", "bring back", SET(0), {.op = WIRE_JMP, .j = 4}, SET(1), {.op = WIRE_END},
         {.op = WIRE_JZ, .j = 6}, {.op = WIRE_LOOP, .j = 2}, {.op = WIRE_END});
    CODE("what nothing leads to", NULL, {.op = WIRE_END}, {.op = WIRE_MOV, .a = 1});
    CODE("operands of what nothing leads to", "no such register", {.op = WIRE_END}, {.op = WIRE_MOV, .a = 17});
    CODE("code behind a loop", NULL, SET(0), {.op = WIRE_LOOP, .j = 0}, {.op = WIRE_MOV, .a = 5});
}

/* Signals are allowed when the stream says so. */
static void check_unsafe(void)
{
    begin();
    draft.header.flags = WIRE_STREAM_UNSAFE;
    draft.code[0] = (struct wire_insn)SET(0);
    draft.code[1] = (struct wire_insn){.op = WIRE_SIGNAL};
    draft.count = 2;
    lay_out();
    judge("signal in an unsafe stream", NULL);
}

/* ---- hostile sizes ---- */

/* One clause of so many instructions in the 64-bit region and the largest frame. */
static struct wire_stream *large(uint32_t count, struct wire_insn **insns)
{
    size_t bytes = 80 + 56 + (size_t)count * (sizeof(struct wire_insn) + sizeof(struct wire_source));
    struct wire_stream *result = memory_zero(1, bytes);
    uint32_t clauses = 80, at = 136;
    *result = (struct wire_stream){.magic = WIRE_STREAM_MAGIC, .bytes = (uint32_t)bytes, .clause_count = 1, .clause_offset = clauses};
    result->point_offset = result->map_offset = result->record_offset = result->data_offset = result->code_offset[0] = clauses;
    result->code_offset[1] = at;
    result->code_count[1] = count;
    result->source_offset = at + count * (uint32_t)sizeof(struct wire_insn);
    struct wire_clause *only = (struct wire_clause *)((char *)result + clauses);
    only->has_model = 1u << WIRE_LP64;
    only->action[WIRE_LP64].count = count;
    only->frame_bytes[WIRE_LP64] = WIRE_FRAME_MAX;
    *insns = (struct wire_insn *)((char *)result + at);
    return result;
}

static void judge_large(const char *name, struct wire_stream *made, const char *wanted)
{
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    struct err *error = stream_verify(made, made->bytes);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    tests++;
    if (!error != !wanted || (wanted && !strstr(error->message, wanted)))
        printf("FAIL %s: %s\n", name, error ? error->message : "not refused"), failures++;
    if (seconds > 5)
        printf("FAIL %s: %.1f s\n", name, seconds), failures++;
    err_free(error);
    free(made);
}

static void check_large(void)
{
    struct wire_insn *insns;
    struct wire_stream *made = large(WIRE_CODE_MAX, &insns);
    for (uint32_t i = 0; i < WIRE_CODE_MAX; i++) /* as much of the frame as there is, and a jump, in turn */
        insns[i] = i % 2 ? (struct wire_insn){.op = WIRE_JZ, .j = i + 1 + (i + 1 < WIRE_CODE_MAX - 2)}
                         : (struct wire_insn){.op = WIRE_FZERO, .i = WIRE_FRAME_MAX};
    insns[0] = (struct wire_insn)SET(0);
    insns[WIRE_CODE_MAX - 1] = (struct wire_insn){.op = WIRE_END};
    judge_large("the longest clause with the largest frame", made, NULL);
    made = large(WIRE_CODE_MAX, &insns);
    for (uint32_t i = 0; i < WIRE_CODE_MAX; i++)
        insns[i] =
            i < WIRE_CODE_MAX / 2 ? (struct wire_insn){.op = WIRE_JZ, .j = WIRE_CODE_MAX - 1 - i} : (struct wire_insn){.op = WIRE_END};
    insns[0] = (struct wire_insn)SET(0);
    judge_large("jumps that are all open at once", made, "too many jumps");
    made = large(WIRE_CODE_MAX, &insns);
    for (uint32_t i = 0; i < WIRE_CODE_MAX; i++)
        insns[i] = i < WIRE_CODE_MAX / 2 ? (struct wire_insn)SET(0) : (struct wire_insn){.op = WIRE_LOOP, .j = i - WIRE_CODE_MAX / 2};
    judge_large("loops that are all open at once", made, "too many jumps");
    judge_large("a clause too long", large(WIRE_CODE_MAX + 1, &insns), "more than");
}

int main(void)
{
    check_tables();
    check_operands();
    check_frame();
    check_flow();
    check_unsafe();
    check_large();
    printf("%u streams, %u judged wrongly\n", tests, failures);
    return failures != 0;
}
