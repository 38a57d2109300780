/* Random verified programs, run by the interpreter and as JIT code: maps, records, errors and what a program can see of the machine must be
 * equal.
 *
 *   equal [--count N] [--seed S] [--verbose] */
#include "test/stream/equal.h"
#include "stream/eval.h"
#include "stream/map.h"
#include "stream/op.h"
#include "stream/ring.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <x86intrin.h>

/* What a body for stacks of ours needs of the program's, from its stack pointer on. */
#ifdef __x86_64__
enum { OWN_NEED = JIT_OWNER_TO_PROGRAM64 };
#else
enum { OWN_NEED = JIT_OWNER_TO_PROGRAM32 };
#endif
enum { OWN_STACKS = 6, OWN_FIRST_MASK = 1, SOMEBODY = 0x51 };
enum { STACK_BYTES = 64 << 10, CODE_BYTES = 1 << 20, RUNS = 3, VISIBLE_FLAGS = 0xcd5, ALWAYS_FLAGS = 0x202 };

uint64_t equal_random;
static uint64_t seed, start_seed;
static struct program program;
static const struct wire_stream *stream;
static uint8_t *stack, *code, *own_stacks, *stack_before;
static bool is_own; /* the body runs on a stack of ours */
static uint32_t op_seen[WIRE_OP_COUNT], error_seen[WIRE_ERROR_COUNT], hits;

static _Noreturn void fail(const char *what)
{
    stream_dump(stream, stdout);
    printf("FAIL %s (--seed 0x%llx --count 1)\n", what, (unsigned long long)seed);
    exit(1);
}

/* ---- the machine's state ---- */

static void make_machine(void)
{
    for (int i = 0; i < MACHINE_REGS; i++) {
        equal_in.reg[i] = chance(50) ? any() : below(300);
        if (MODEL == WIRE_ILP32)
            equal_in.reg[i] = (uint32_t)equal_in.reg[i];
    }
    uint32_t from_top = chance(30) ? 8 + below(40) * 8 : 1024 + below(500) * 8; /* at times at the end of a page */
    equal_in.reg[4] = (uintptr_t)stack + STACK_BYTES / 2 - from_top;
    equal_in.flags = (any() & VISIBLE_FLAGS) | ALWAYS_FLAGS;
    for (int i = 160; i < 416; i += 8) {
        uint64_t value = chance(70) ? any() : chance(50) ? any() >> 32 : 0x7f8000017ff00001;
        memcpy(equal_in.fx + i, &value, 8);
    }
    for (int i = 32; i < 160; i += 16) {
        uint64_t significand = any() | 1ull << 63;
        uint16_t exponent = (uint16_t)(chance(70) ? 0x3fff - 600 + below(1200) : any());
        memcpy(equal_in.fx + i, &significand, 8);
        memcpy(equal_in.fx + i + 8, &exponent, 2);
    }
    uint16_t control = (uint16_t)(0x37f ^ below(4) << 10);
    uint32_t mxcsr = 0x1f80 ^ below(4) << 13 ^ below(64);
    memset(equal_in.fx, 0, 32);
    memcpy(equal_in.fx, &control, 2);
    uint16_t status = (uint16_t)(below(8) << 11 | (any() & 0x473f)); /* the top, conditions, exceptions that have been */
    status &= (uint16_t)~0x40;                                       /* of its stack: none is told */
    memcpy(equal_in.fx + 2, &status, 2);
    equal_in.fx[4] = (uint8_t)(chance(70) ? 0xff : any()); /* which registers are not empty */
    memcpy(equal_in.fx + 24, &mxcsr, 4);
    equal_place = below(PLACES);
}

static void check_machine(void)
{
    for (int i = 0; i < MACHINE_REGS; i++)
        if (MODEL == WIRE_LP64 ? equal_in.reg[i] != equal_out.reg[i] : (uint32_t)equal_in.reg[i] != (uint32_t)equal_out.reg[i])
            fail("a machine register was changed");
    if ((equal_in.flags ^ equal_out.flags) & VISIBLE_FLAGS)
        fail("a flag was changed");
    if (memcmp(equal_in.fx, equal_out.fx, 6) || memcmp(equal_in.fx + 24, equal_out.fx + 24, 4) ||
        memcmp(equal_in.fx + 32, equal_out.fx + 32, MODEL == WIRE_LP64 ? 384 : 256))
        fail("a vector or x87 register was changed");
}

/* ---- one run of each ---- */

static void interpret(void)
{
    static uint8_t frame[FRAME_MAX] __attribute__((aligned(16)));
    static const uint8_t registers[] = {0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15};
    uint64_t machine[WIRE_REG64_COUNT] = {0};
    struct wire_fire fire = {.session_va = (uintptr_t)world_interpreted.session,
                             .frame_va = (uintptr_t)frame,
                             .machine_va = (uintptr_t)machine,
                             .process_va = (uintptr_t)world_process,
                             .sp = equal_in.reg[4],
                             .place = (uint32_t)equal_place,
                             .clause = 1,
                             .model = MODEL};
    uint32_t count;
    const struct wire_insn *insns = stream_code(stream, 1, MODEL, &count);
    world = &world_interpreted;
    world_live = false;
    fire.pc = 0;
    for (int i = 0; i < MACHINE_REGS; i++)
        machine[i] = equal_in.reg[MODEL == WIRE_LP64 ? registers[i] : i];
    const uint64_t *pcs = (const uint64_t *)(uintptr_t)world_process->place_pcs_va;
    machine[MODEL == WIRE_LP64 ? WIRE_REG64_IP : WIRE_REG32_IP] = pcs[equal_place];
    machine[MODEL == WIRE_LP64 ? WIRE_REG64_FLAGS : WIRE_REG32_FLAGS] = equal_in.flags;
    if (world_process->quiet && program.frame_bytes > 128)
        return;
    uint32_t error = eval_run(&fire, insns, count);
    error_seen[error]++;
    if (error) {
        world->errors++;
        stream_ring_write_error(&fire);
    }
}

/* ---- step by step ---- */

enum { STEPS_MOST = 3000 };
#ifdef __x86_64__
enum { PC = REG_RIP, SP = REG_RSP };
#else
enum { PC = REG_EIP, SP = REG_ESP };
#endif
static const struct jit_body *stepped; /* NULL: it runs */
static uint32_t steps;
static bool is_depth_wrong;

/* The return address of the body lies where its table says, before each of its instructions. */
static void on_step(int number, siginfo_t *info, void *context)
{
    greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)reg[PC] - (uintptr_t)code;
    int32_t depth = -1;
    (void)number, (void)info;
    for (size_t i = 0; i < stepped->depth.n && stepped->depth.at[i].from <= at; i++)
        depth = stepped->depth.at[i].bytes;
    if (at < stepped->code.n && depth >= 0)
        is_depth_wrong |= *(const uintptr_t *)((uintptr_t)reg[SP] + (uintptr_t)depth) != (uintptr_t)equal_return;
    if ((uintptr_t)reg[PC] == (uintptr_t)equal_return || ++steps == STEPS_MOST)
        reg[REG_EFL] &= ~EQUAL_STEP_FLAG;
}

static void run_body(void)
{
    world = &world_jitted;
    world_live = true;
    equal_call((uintptr_t)code);
    check_machine();
}

/* ---- stacks of ours ---- */

static struct jit_stacks stacks_of_ours(void)
{
    return (struct jit_stacks){(uintptr_t)own_stacks, OWN_STACKS, OWN_FIRST_MASK};
}

static uint64_t *owner(uint32_t number)
{
    const struct jit_stacks stacks = stacks_of_ours();
    return (uint64_t *)(uintptr_t)jit_owner_va(&stacks, number);
}

/* Some of them are somebody's, at times all. True: all that the body looks at. */
static bool take_stacks(void)
{
    bool any_free = false, all = chance(10);
    for (uint32_t i = 0; i < OWN_STACKS; i++) {
        *owner(i) = all || chance(40) ? SOMEBODY : 0;
        any_free |= i >= (world_cpu & OWN_FIRST_MASK) && !*owner(i);
    }
    memcpy(stack_before, stack, STACK_BYTES / 2);
    return !any_free;
}

static void check_stacks(const uint64_t before[OWN_STACKS])
{
    size_t untouched = equal_in.reg[4] - OWN_NEED - (uintptr_t)stack;
    for (uint32_t i = 0; i < OWN_STACKS; i++)
        if (*owner(i) != before[i])
            fail("a stack of ours has another owner than before");
    if (memcmp(stack, stack_before, untouched))
        fail("the body has used more of the program's stack than it says");
}

/* The body does nothing but count that. */
static void run_without_stack(void)
{
    uint64_t *lost = &wire_state(world_jitted.session)->lost[WIRE_LOSS_FRAME], had = *lost;
    run_body();
    if (*lost != had + 1)
        fail("a body that found no stack has not counted that");
    *lost = had;
}

static struct wire_ring *ring_of(const struct world *which)
{
    return (struct wire_ring *)((char *)which->session + which->session->rings_offset);
}

static struct wire_map_state *map_state(const struct world *which, uint32_t map)
{
    return (struct wire_map_state *)((char *)which->session + stream_map(which->session, map)->state_offset);
}

/* Counts without a key are so high that one more carries into the upper word. */
static void fill_counts(const struct world *which)
{
    for (uint32_t i = 0; i < world_map_count; i++) {
        const struct wire_map *map = stream_map(which->session, i);
        struct wire_node *node = (struct wire_node *)((char *)which->session + map->nodes_offset);
        if (map->type.key_bytes || (map->type.kind != WIRE_MAP_COUNT && map->type.kind != WIRE_MAP_HIST))
            continue;
        node->state = WIRE_NODE_LIVE;
        for (uint32_t word = 0; word < map->shards * map->value_stride / 8; word++)
            ((uint64_t *)(node + 1))[word] = UINT32_MAX;
    }
}

/* Records from `from` on have times that are in order, after `start`; then they are made equal. */
static void check_times(const struct world *which, uint32_t from, uint64_t start)
{
    struct wire_ring *ring = ring_of(which);
    uint64_t last = start, now = __rdtsc();
    uint32_t bytes;
    for (uint32_t at = from; at != ring->head; at += bytes) {
        struct wire_record *record = (struct wire_record *)((char *)(ring + 1) + (at & (which->session->ring_bytes - 1)));
        bytes = record->state >> 2;
        if ((record->state & 3) == WIRE_RECORD_PADDING)
            continue;
        if ((record->state & 3) != WIRE_RECORD_COMMITTED)
            fail("a record is not committed");
        if (record->time < last || record->time > now)
            fail("a record has the wrong time");
        last = record->time;
        record->time = 0;
    }
}

static void compare_worlds(void)
{
    uint32_t constant = (uint32_t)world_jitted.session->state_offset;
    const char *a = (const char *)world_interpreted.session, *b = (const char *)world_jitted.session;
    if (world_interpreted.random != world_jitted.random || world_interpreted.time != world_jitted.time ||
        world_interpreted.signals != world_jitted.signals || world_interpreted.signal_sum != world_jitted.signal_sum)
        fail("the port was used otherwise");
    if (!world_has_equal_quotas())
        fail("quotas differ");
    if (world_interpreted.errors != world_jitted.errors)
        fail("an error that the other did not have");
    if (world_jitted.frames)
        fail("a frame was not released");
    if (memcmp(a, b, constant))
        fail("constant memory was changed");
    if (memcmp(a + constant, b + constant, world_jitted.session->bytes - constant)) {
        size_t at = constant;
        while (a[at] == b[at])
            at++;
        printf("session memory differs at %zu (rings at %u)\n", at, (unsigned)world_jitted.session->rings_offset);
        if (at >= world_jitted.session->rings_offset + sizeof(struct wire_ring) && at < world_jitted.session->rings_offset + 8192)
            fail("a record differs");
        fail("maps or rings differ");
    }
}

static void one(bool verbose)
{
    struct jit_process process;
    struct jit_body body;
    program_make(&program);
    stream = world_stream(&program);
    if (verbose)
        stream_dump(stream, stdout);
    struct err *error = stream_verify(stream, stream->bytes);
    if (error) {
        printf("%s\n", error->message);
        fail("a program was refused");
    }
    for (int i = 0; i < TARGET_BYTES; i += 8) { /* letters, here and there a zero or anything */
        uint64_t word = any();
        word = word % 5 ? (word & 0x0101010101010101) + 0x6161616161616161 : word;
        word &= any() % 4 ? UINT64_MAX : ~(0xffull << (any() & 56));
        memcpy(world_target + i, &word, 8);
    }
    if (!world_reset(stream, 1u << below(3), chance(60)))
        fail("the session is too large");
    wire_state(world_interpreted.session)->off = wire_state(world_jitted.session)->off = chance(3);
    for (uint32_t i = 0, guarded = chance(10) ? WIRE_MAP_UNCOUNTED : WIRE_MAP_OPEN; i < world_map_count; i++)
        map_state(&world_interpreted, i)->guarded = map_state(&world_jitted, i)->guarded = guarded;
    if (chance(10))
        fill_counts(&world_interpreted), fill_counts(&world_jitted);
    uint32_t head = (uint32_t)any() & ~7u, used = chance(70) ? 0 : world_jitted.session->ring_bytes - below(12) * 8;
    ring_of(&world_interpreted)->head = ring_of(&world_jitted)->head = head;
    ring_of(&world_interpreted)->tail = ring_of(&world_jitted)->tail = head - used;
    world_process->pid = chance(50) ? 1234 : 0;
    world_process->quiet = chance(5);
    world_describe(&process);
    if (chance(20))
        world_process->tid_offset = 0;
    is_own = chance(50);
    if (is_own)
        process.stacks = stacks_of_ours();
    error = jit_compile(stream, 1, MODEL, &process, (uintptr_t)code, &body);
    if (error)
        fail(error->message);
    if (body.code.n > CODE_BYTES)
        fail("too long");
    memcpy(code, body.code.at, body.code.n);
    if (verbose) {
        FILE *out = fopen("body.bin", "wb");
        fwrite(body.code.at, 1, body.code.n, out);
        fclose(out);
    }
    for (uint32_t i = 0; i < program.count; i++)
        op_seen[program.insn[i].op]++;
    uint32_t spent = error_seen[WIRE_ERROR_FUEL];
    for (int run = 0; run < RUNS && spent == error_seen[WIRE_ERROR_FUEL]; run++) { /* to run until the fuel is spent takes long */
        make_machine();
        stepped = seed % 64 == 0 && run == 0 ? &body : NULL;
        equal_in.flags |= stepped ? EQUAL_STEP_FLAG : 0;
        steps = 0;
        uint32_t from = ring_of(&world_interpreted)->head;
        uint64_t start = __rdtsc(), owners[OWN_STACKS];
        bool none_is_free = is_own && take_stacks();
        for (uint32_t i = 0; i < OWN_STACKS; i++)
            owners[i] = *owner(i);
        if (none_is_free) {
            run_without_stack();
        } else {
            interpret();
            run_body();
        }
        if (is_own)
            check_stacks(owners);
        if (world_is_late())
            break;
        if (world_ticks) {
            check_times(&world_interpreted, from, start);
            check_times(&world_jitted, from, start);
        }
        compare_worlds();
        if (is_depth_wrong)
            fail("the return address is not where the table of depths says");
        hits++;
        /* Make room. */
        for (int i = 0; i < 2; i++) {
            struct wire_ring *ring = ring_of(i ? &world_jitted : &world_interpreted);
            if (ring->head - ring->tail > 4096)
                ring->tail = ring->head;
        }
    }
    jit_body_deinit(&body);
}

/* ---- time ---- */

static uint64_t session_ns(const struct wire_session *session, uint64_t tsc)
{
    uint64_t ticks = tsc - session->tsc_base;
    return session->ns_base + ((ticks & UINT32_MAX) * session->tsc_mult >> session->tsc_shift) +
           ((ticks >> 32) * session->tsc_mult << (32 - session->tsc_shift));
}

/* Time as JIT code reads it lies between two readings. */
static void check_clock(void)
{
    struct wire_session *session = world_jitted.session;
    struct jit_process process;
    struct jit_body body;
    memset(&program, 0, sizeof program);
    program.insn[0] = (struct wire_insn){.op = WIRE_CTX, .i = chance(50) ? WIRE_CTX_NSECS : WIRE_CTX_ELAPSED};
    program.insn[1] = (struct wire_insn){.op = WIRE_MSET, .h = 0};
    program.count = 2;
    stream = world_stream(&program);
    world_reset(stream, 1, false);
    session->tsc_base = __rdtsc() - (any() >> 10 >> below(54));
    session->tsc_mult = (uint32_t)any() | 1;
    session->tsc_shift = below(33);
    session->ns_base = any();
    world_describe(&process);
    struct err *error = jit_compile(stream, 1, MODEL, &process, (uintptr_t)code, &body);
    if (error)
        fail(error->message);
    memcpy(code, body.code.at, body.code.n);
    uint64_t since = program.insn[0].i == WIRE_CTX_ELAPSED ? session->start_ns : 0;
    make_machine();
    uint64_t before = __rdtsc();
    run_body();
    uint64_t after = __rdtsc(), got = (uint64_t)stream_map_get(session, 0, NULL) + since;
    if (got - session_ns(session, before) > session_ns(session, after) - session_ns(session, before))
        fail("the time is wrong");
    jit_body_deinit(&body);
}

/* The processor's number must not change between the two runs. */
static void stay_on_processor(void)
{
    cpu_set_t set;
    world_cpu = (uint32_t)sched_getcpu();
    CPU_ZERO(&set);
    CPU_SET(world_cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        perror("sched_setaffinity");
}

int main(int argc, char **argv)
{
    uint64_t count = 20000;
    bool verbose = false;
    seed = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc)
            count = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 0);
        else {
            fprintf(stderr, "usage: equal [--count N] [--seed S] [--verbose]\n");
            return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    start_seed = seed;
    stay_on_processor();
    stack = world_pages(STACK_BYTES, PROT_READ | PROT_WRITE);
    stack_before = world_pages(STACK_BYTES, PROT_READ | PROT_WRITE);
    code = world_pages(CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
    own_stacks = world_pages(OWN_STACKS << JIT_OWN_SHIFT, PROT_READ | PROT_WRITE);
    /* What is above the middle can not be read: arguments that would lie there are 0. */
    if (mprotect(stack + STACK_BYTES / 2, STACK_BYTES / 2, PROT_NONE))
        perror("mprotect");
    for (int i = 0; i < STACK_BYTES / 2; i++)
        stack[i] = (uint8_t)(i * 37 ^ i >> 8);
    equal_catch_steps(on_step);
    world_init();
    for (uint64_t i = 0; i < count; i++, seed++) {
        equal_random = seed * 0xd1342543de82ef95;
        one(verbose);
        if (i % 16 == 0)
            check_clock();
    }
    for (int i = 0; i < WIRE_OP_COUNT; i++)
        if (count >= 20000 && !op_seen[i])
            printf("FAIL no program had %s\n", stream_ops[i].name), exit(1);
    for (int i = 0; i < WIRE_ERROR_BUSY; i++)
        if (count >= 20000 && !error_seen[i])
            printf("FAIL no program ended with error %d\n", i), exit(1);
    printf("%d-bit: %llu programs from seed %llu, %u runs equal; errors: read %u, divide %u, fuel %u, bounds %u, map full %u\n",
           MODEL == WIRE_LP64 ? 64 : 32, (unsigned long long)count, (unsigned long long)start_seed, hits, error_seen[WIRE_ERROR_READ],
           error_seen[WIRE_ERROR_DIVIDE], error_seen[WIRE_ERROR_FUEL], error_seen[WIRE_ERROR_BOUNDS], error_seen[WIRE_ERROR_MAP_FULL]);
    return 0;
}
