/* A session with a map of few nodes, and bodies that set, take and delete keys in it as scripts' do. */
#ifndef TEST_UNIT_MAP_BODIES_H
#define TEST_UNIT_MAP_BODIES_H

#include "drain/session.h"
#include "jit/jit.h"
#include "stream/eval.h"
#include "stream/map.h"

#include <string.h>
#include <sys/mman.h>

enum { KEYS, WRONG, MAPS };
enum { SET, TAKE, DELETE, CLAUSES }; /* take: reads it, adds to WRONG when that does not give arg1, and deletes it */
enum { NODES = 256, CAPACITY = 64, CODE_BYTES = 4096 };

static struct drain_session session;
static uint8_t *bodies;
static struct jit_body body[CLAUSES];
static _Thread_local bool is_refused; /* by a body: there was no room */

#define KEY_OF_ARG0                                                                                                                        \
    {.op = WIRE_ARG, .d = 1},                                                                                                              \
    {                                                                                                                                      \
        .op = WIRE_FST, .a = 1, .k = 8                                                                                                     \
    }

static struct {
    struct wire_stream head;
    struct wire_clause clause[CLAUSES];
    struct wire_map_type map[MAPS];
    struct wire_insn insn[16];
} stream = {
    .map = {{.kind = WIRE_MAP_INT, .key_bytes = 8, .value_bytes = 8, .capacity = CAPACITY},
            {.kind = WIRE_MAP_INT, .value_bytes = 8, .capacity = 1}},
    .insn = {{.op = WIRE_ARG, .i = 1},
             KEY_OF_ARG0,
             {.op = WIRE_MSET, .h = KEYS},
             /* take */
             KEY_OF_ARG0,
             {.op = WIRE_MGET, .h = KEYS},
             {.op = WIRE_ARG, .d = 2, .i = 1},
             {.op = WIRE_NE, .b = 2},
             {.op = WIRE_MADD, .h = WRONG},
             KEY_OF_ARG0,
             {.op = WIRE_MDEL, .h = KEYS},

             /* delete */
             KEY_OF_ARG0,
             {.op = WIRE_MDEL, .h = KEYS}},
};

static void describe_stream(void)
{
    static const struct wire_code code[CLAUSES] = {{0, 4}, {4, 9}, {13, 3}};
    stream.head = (struct wire_stream){.magic = WIRE_STREAM_MAGIC,
                                       .bytes = sizeof stream,
                                       .clause_offset = offsetof(typeof(stream), clause),
                                       .clause_count = CLAUSES,
                                       .map_offset = offsetof(typeof(stream), map),
                                       .map_count = MAPS};
    stream.head.code_offset[WIRE_LP64] = offsetof(typeof(stream), insn);
    stream.head.code_count[WIRE_LP64] = sizeof stream.insn / sizeof *stream.insn;
    for (int i = 0; i < CLAUSES; i++) {
        stream.clause[i] = (struct wire_clause){.has_model = 1u << WIRE_LP64};
        stream.clause[i].predicate[WIRE_LP64].first = code[i].first;
        stream.clause[i].action[WIRE_LP64] = code[i];
        stream.clause[i].frame_bytes[WIRE_LP64] = 8;
    }
}

static void on_error(struct wire_fire *fire)
{
    is_refused = fire->error == WIRE_ERROR_MAP_FULL;
}

static struct err *make_session(void)
{
    struct drain_options options = {.ring_bytes = 4096};
    describe_stream();
    ERR_TRY(drain_session_create(&stream.head, &options, &session));
    session.map[KEYS].nodes = stream_map(session.memory, KEYS)->nodes = NODES;
    struct jit_process process = {
        .session_va = (uintptr_t)session.memory, .session = session.memory, .op_va = (uintptr_t)eval_op, .error_va = (uintptr_t)on_error};
    bodies = mmap(NULL, CLAUSES * CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint32_t i = 0; i < CLAUSES; i++) {
        ERR_TRY(jit_compile(&stream.head, i, WIRE_LP64, &process, (uintptr_t)(bodies + i * CODE_BYTES), &body[i]));
        if (body[i].code.n > CODE_BYTES)
            return err_new(ERR_REFUSED, "a body of %zu bytes", body[i].code.n);
        memcpy(bodies + i * CODE_BYTES, body[i].code.at, body[i].code.n);
    }
    return NULL;
}

static void destroy_session(void)
{
    for (uint32_t i = 0; i < CLAUSES; i++)
        jit_body_deinit(&body[i]);
    munmap(bodies, CLAUSES * CODE_BYTES);
    drain_session_destroy(&session);
}

static void call_body(uint32_t clause, uint64_t arg0, uint64_t arg1)
{
    __asm__ volatile("sub $128,%%rsp\n\tpush $0\n\tcall *%0\n\tlea 136(%%rsp),%%rsp"
                     :
                     : "r"(bodies + clause * CODE_BYTES), "D"(arg0), "S"(arg1)
                     : "memory", "cc");
}

#endif
