/* What a body says it has in hand, before each of its instructions: where it says that it has no node, every dead node may be given to
 * another key, as the collector does when it has seen all threads there. The body then does to its own key what it should, and nothing to
 * the other. (S0.7) */
#include "test/stream/equal.h"

#include "stream/map.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __x86_64__
enum { PC = REG_RIP };
#else
enum { PC = REG_EIP };
#endif
enum { CODE_BYTES = 1 << 16, OTHER = 88, OLD = 5, NEW = 6, OTHERS = 7 };
enum { LIVING, DEAD, ABSENT, BEGINNINGS };

uint64_t equal_random = 1;
static uint8_t *code;
static struct jit_body body;
static uint32_t map, step, wanted_step;
static bool is_given; /* the dead were given away */
static int failures;

#define KEY_IS_TID                                                                                                                         \
    {.op = WIRE_CTX, .d = 1, .i = WIRE_CTX_TID},                                                                                           \
    {                                                                                                                                      \
        .op = WIRE_FST, .a = 1, .k = 8                                                                                                     \
    }
enum { SET, TAKE, SET_AND_DELETE, DELETE_AND_TELL, COUNT_AND_DELETE, PROGRAMS };
static const struct {
    uint32_t kind;     /* of the map */
    bool leaves_value; /* NEW, and nothing otherwise */
    struct wire_insn insn[8];
} programs[PROGRAMS] = {
    {WIRE_MAP_INT, true, {{.op = WIRE_MOVI, .i = NEW}, KEY_IS_TID, {.op = WIRE_MSET}, {.op = WIRE_END}}},
    {WIRE_MAP_INT,
     false,
     {KEY_IS_TID, {.op = WIRE_MGET}, {.op = WIRE_FST, .k = 8, .j = 8}, KEY_IS_TID, {.op = WIRE_MDEL}, {.op = WIRE_END}}},
    {WIRE_MAP_INT, false, {{.op = WIRE_MOVI, .i = NEW}, KEY_IS_TID, {.op = WIRE_MSET}, KEY_IS_TID, {.op = WIRE_MDEL}, {.op = WIRE_END}}},
    {WIRE_MAP_INT,
     false,
     {KEY_IS_TID, {.op = WIRE_MHAS}, KEY_IS_TID, {.op = WIRE_MDEL}, {.op = WIRE_FST, .k = 8, .j = 8}, {.op = WIRE_END}}},
    {WIRE_MAP_COUNT, false, {{.op = WIRE_MOVI, .i = NEW}, KEY_IS_TID, {.op = WIRE_MAGG}, KEY_IS_TID, {.op = WIRE_MDEL}, {.op = WIRE_END}}},
};

/* ---- the map, as others use it ---- */

static void give_value(uint64_t key, int64_t value)
{
    struct wire_session *session = world_jitted.session;
    if (stream_map(session, map)->type.kind == WIRE_MAP_INT)
        stream_map_set(session, map, &key, value);
    else
        for (int64_t i = 0; i < value; i++)
            stream_map_aggregate(session, map, &key, 1, 1, 0);
}

static int64_t value_of(uint64_t key)
{
    struct wire_session *session = world_jitted.session;
    return stream_map(session, map)->type.kind == WIRE_MAP_INT ? stream_map_get(session, map, &key)
                                                               : stream_map_reduce(session, map, &key, WIRE_REDUCE_COUNT);
}

static void delete (uint64_t key)
{
    stream_map_delete(world_jitted.session, map, &key);
}

/* As drain/collect.c does it. */
static void collect(void)
{
    struct wire_session *session = world_jitted.session;
    const struct wire_map *layout = stream_map(session, map);
    struct wire_map_state *state = (void *)((char *)session + layout->state_offset);
    char *nodes = (char *)session + layout->nodes_offset;
    state->guarded = WIRE_MAP_UNCOUNTED;
    for (uint32_t i = 0; i < state->used && i < layout->nodes; i++) {
        struct wire_node *node = (void *)(nodes + (size_t)i * layout->node_bytes);
        uint32_t *link = (uint32_t *)((char *)session + layout->buckets_offset) + (node->hash & layout->bucket_mask);
        if (node->state != WIRE_NODE_DEAD)
            continue;
        node->state = WIRE_NODE_RETIRED;
        while (*link != i + 1)
            link = &((struct wire_node *)(nodes + (size_t)(*link - 1) * layout->node_bytes))->next;
        *link = node->next;
        stream_map_give(session, layout, i + 1);
        is_given = true;
    }
}

/* ---- steps ---- */

static enum jit_holds holds_at(uintptr_t at)
{
    enum jit_holds holds = JIT_NOTHING;
    for (size_t i = 0; i < body.depth.n && body.depth.at[i].from <= at; i++)
        holds = body.depth.at[i].holds;
    return holds;
}

/* Steps are counted in the body only: the agent's code is the collector's to know. */
static void on_step(int number, siginfo_t *info, void *context)
{
    greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)reg[PC] - (uintptr_t)code;
    (void)number, (void)info;
    if (at < body.code.n && step++ == wanted_step && holds_at(at) == JIT_NOTHING) {
        delete (world_tid);
        collect();
        give_value(OTHER, OTHERS);
    }
    if ((uintptr_t)reg[PC] == (uintptr_t)equal_return)
        reg[REG_EFL] &= ~EQUAL_STEP_FLAG;
}

/* ---- a program ---- */

static uint32_t map_of_kind(uint32_t kind)
{
    uint32_t number = 0;
    while (world_maps[number].kind != kind || world_maps[number].key_bytes != 8)
        number++;
    return number;
}

static void begin(int beginning)
{
    if (beginning == ABSENT)
        return;
    give_value(world_tid, OLD);
    if (beginning == DEAD)
        delete (world_tid);
}

static void prepare(uint32_t number, int beginning)
{
    static struct program program;
    struct jit_process process;
    map = map_of_kind(programs[number].kind);
    program.count = 0;
    do {
        struct wire_insn *insn = &program.insn[program.count];
        *insn = programs[number].insn[program.count];
        if (insn->op == WIRE_MGET || insn->op == WIRE_MSET || insn->op == WIRE_MDEL || insn->op == WIRE_MHAS || insn->op == WIRE_MAGG)
            insn->h = (uint16_t)map;
    } while (program.insn[program.count++].op != WIRE_END);
    program.frame_bytes = 16;
    const struct wire_stream *stream = world_stream(&program);
    world_reset(stream, 1, false);
    world = &world_jitted;
    world_describe(&process);
    /* A key was deleted some time: that bodies leave to the agent. */
    give_value(OTHER, 1);
    delete (OTHER);
    begin(beginning);
    equal_compile(stream, &process, code, &body);
}

static void check(uint32_t number, int beginning)
{
    int64_t value = value_of(world_tid), others = value_of(OTHER), wanted = programs[number].leaves_value ? NEW : 0;
    if (value != wanted && (value || !is_given)) {
        printf("FAIL program %u, beginning %d, step %u: the key has %lld\n", number, beginning, wanted_step, (long long)value);
        failures++;
    }
    if (others != (is_given ? OTHERS : 0)) {
        printf("FAIL program %u, beginning %d, step %u: the other key has %lld\n", number, beginning, wanted_step, (long long)others);
        failures++;
    }
}

static bool check_step(uint32_t number, int beginning)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    prepare(number, beginning);
    equal_in.reg[4] = (uintptr_t)stack + sizeof stack - 4096;
    equal_in.flags = 2 | EQUAL_STEP_FLAG;
    step = 0;
    is_given = false;
    equal_call((uintptr_t)code);
    check(number, beginning);
    jit_body_deinit(&body);
    return step > wanted_step;
}

int main(void)
{
    uint32_t steps = 0, given = 0;
    code = world_pages(CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
    world_init();
    equal_catch_steps(on_step);
    for (uint32_t number = 0; number < PROGRAMS; number++)
        for (int beginning = 0; beginning < BEGINNINGS; beginning++) {
            for (wanted_step = 0; check_step(number, beginning); wanted_step++)
                given += is_given;
            steps += wanted_step;
        }
    if (given < steps / 8 || given == steps) {
        printf("FAIL nodes were given away at %u of %u steps\n", given, steps);
        failures++;
    }
    printf("%d-bit: nodes given away at %u of %u steps, %d failures\n", MODEL == WIRE_LP64 ? 64 : 32, given, steps, failures);
    return failures != 0;
}
