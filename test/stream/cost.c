/* What one hit of a body costs on the program's stack and on one of ours, with the call as trampolines make it. Usage: cost */
#include "test/stream/equal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

uint64_t equal_random = 1;

enum { HITS = 5000000, ROUNDS = 5, STACKS = 4 };

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double hits(uintptr_t body)
{
    struct wire_session *session = world_jitted.session;
    struct wire_ring *ring = (struct wire_ring *)((char *)session + session->rings_offset);
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        for (int i = 0; i < HITS; i++) {
            ring->tail = ring->head; /* there is always room for records */
#ifdef __x86_64__
            __asm__ volatile("lea -128(%%rsp),%%rsp; push $3; call *%0; lea 136(%%rsp),%%rsp" : : "r"(body), "D"((long)i) : "memory");
#else
            __asm__ volatile("push %1; push $0; push $3; call *%0; lea 12(%%esp),%%esp" : : "S"(body), "D"(i) : "memory");
#endif
        }
        double each = (now_ns() - start) / HITS;
        best = each < best ? each : best;
    }
    return best;
}

static uint32_t find_map(uint32_t kind)
{
    for (uint32_t i = 0; i < world_map_count; i++)
        if (world_maps[i].kind == kind && !world_maps[i].key_bytes && !world_maps[i].param[0])
            return i;
    exit(1);
}

/* What a hit costs; the bytes of code are added to `bytes`. */
static double cost_of(uint8_t *code, struct jit_stacks stacks, const char *name, const struct wire_insn *insns, uint32_t count,
                      size_t *bytes)
{
    static struct program program;
    struct jit_process process;
    struct jit_body body;
    memcpy(program.insn, insns, count * sizeof *insns);
    program.count = count;
    program.frame_bytes = 16;
    const struct wire_stream *stream = world_stream(&program);
    world_reset(stream, 2, true);
    world_process->pid = 1234;
    world = &world_jitted;
    world_describe(&process);
    process.stacks = stacks;
    struct err *error = stream_verify(stream, stream->bytes);
    if (!error)
        error = jit_compile(stream, 1, MODEL, &process, (uintptr_t)code, &body);
    if (error) {
        printf("FAIL %s: %s\n", name, error->message);
        exit(1);
    }
    memcpy(code, body.code.at, body.code.n);
    *bytes = body.code.n;
    jit_body_deinit(&body);
    return hits((uintptr_t)code);
}

static void cost(const char *name, uint8_t *code, uint8_t *stacks, const struct wire_insn *insns, uint32_t count)
{
    size_t bytes, own_bytes;
    double ns = cost_of(code, (struct jit_stacks){0}, name, insns, count, &bytes);
    double own_ns = cost_of(code, (struct jit_stacks){(uintptr_t)stacks, STACKS, STACKS - 1}, name, insns, count, &own_bytes);
    printf("%d-bit %-28s %5.1f ns, %4zu bytes of code; on a stack of ours %5.1f ns, %4zu bytes\n", (int)sizeof(void *) * 8, name, ns, bytes,
           own_ns, own_bytes);
}

#define COST(name, ...)                                                                                                                    \
    cost(name, code, stacks, (const struct wire_insn[]){__VA_ARGS__},                                                                      \
         sizeof((const struct wire_insn[]){__VA_ARGS__}) / sizeof(struct wire_insn))

int main(void)
{
    uint8_t *code = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *stacks = mmap(NULL, STACKS << JIT_OWN_SHIFT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    world_init();
    uint16_t hist = (uint16_t)find_map(WIRE_MAP_HIST), sums = (uint16_t)find_map(WIRE_MAP_SUM), counts = (uint16_t)find_map(WIRE_MAP_COUNT);
    COST("nothing", {.op = WIRE_END});
    COST("@ = count()", {.op = WIRE_MOVI, .i = 1}, {.op = WIRE_MAGG, .h = counts});
    COST("@ = sum(arg0)", {.op = WIRE_ARG}, {.op = WIRE_MAGG, .h = sums});
    COST("@ = hist(arg0)", {.op = WIRE_ARG}, {.op = WIRE_MAGG, .h = hist});
    COST("/arg0 > 5/ { @ = count(); }", {.op = WIRE_ARG}, {.op = WIRE_GTSI, .d = 1, .i = 5}, {.op = WIRE_ENDZ, .a = 1},
         {.op = WIRE_MAGG, .h = counts});
    COST("@[arg0 & 1] += 1", {.op = WIRE_ARG}, {.op = WIRE_ANDI, .i = 1}, {.op = WIRE_FST, .k = 8}, {.op = WIRE_MOVI, .d = 1, .i = 1},
         {.op = WIRE_MADD, .d = 2, .a = 1, .h = 1});
    COST("a record", {.op = WIRE_EMIT});
    COST("no record: no quota", {.op = WIRE_CTX, .i = WIRE_CTX_QUOTA}, {.op = WIRE_GTSI, .i = INT32_MAX}, {.op = WIRE_ENDZ},
         {.op = WIRE_EMIT});
    COST("a record of 8 bytes", {.op = WIRE_ARG}, {.op = WIRE_FST, .k = 8}, {.op = WIRE_EMIT, .h = 1, .j = 8});
    return 0;
}
