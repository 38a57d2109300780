/* Operations on maps whose writers have to count themselves in are left to eval_op(), whatever a body can do in place. (S0.6) */
#include "test/stream/equal.h"

#include "stream/eval.h"
#include "stream/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

uint64_t equal_random = 1;

static uint32_t calls;

static uint32_t counted(struct wire_fire *fire, const struct wire_insn *insn)
{
    calls++;
    return eval_op(fire, insn);
}

static struct wire_map_state *state_of(uint32_t map)
{
    struct wire_session *session = world_jitted.session;
    return (struct wire_map_state *)((char *)session + stream_map(session, map)->state_offset);
}

/* How often a body with nothing but the operation, on a key that is there, calls out. */
static uint32_t calls_of(uint8_t *code, uint32_t op, uint32_t map, bool guarded)
{
    static struct program program;
    static struct wire_guard guards[WIRE_GUARDS];
    /* The last one uses the result: what nobody uses is not looked up. */
    const struct wire_insn insns[] = {
        {.op = WIRE_MOVI, .i = 77}, {.op = WIRE_FST, .k = 8}, {.op = (uint16_t)op, .h = (uint16_t)map}, {.op = WIRE_FST, .k = 8, .j = 8}};
    const uint64_t key = 77;
    struct jit_process process;
    struct jit_body body;
    memcpy(program.insn, insns, sizeof insns);
    program.count = sizeof insns / sizeof *insns;
    program.frame_bytes = 16;
    const struct wire_stream *stream = world_stream(&program);
    world_reset(stream, 1, false);
    world = &world_jitted;
    world_describe(&process);
    process.op_va = (uintptr_t)counted;
    world->session->guards_offset = (uint64_t)((uintptr_t)guards - (uintptr_t)world->session);
    if (stream_maps(stream)[map].kind == WIRE_MAP_INT)
        stream_map_set(world->session, map, &key, 5);
    else
        stream_map_aggregate(world->session, map, &key, 5, 1, 0);
    state_of(map)->deleted = 1;
    state_of(map)->guarded = guarded;
    equal_compile(stream, &process, code, &body);
    jit_body_deinit(&body);
    static char stack[1 << 16] __attribute__((aligned(16)));
    equal_in.reg[4] = (uintptr_t)stack + sizeof stack - 4096;
    equal_in.flags = 2;
    calls = 0;
    equal_call((uintptr_t)code);
    return calls;
}

int main(void)
{
    static const uint16_t ops[] = {WIRE_MGET, WIRE_MSET, WIRE_MADD, WIRE_MDEL, WIRE_MHAS, WIRE_MAGG};
    int failed = 0;
    uint8_t *code = world_pages(1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC);
    world_init();
    for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (uint32_t map = 0; map < world_map_count; map++) {
            bool integers = world_maps[map].kind == WIRE_MAP_INT, counts = world_maps[map].kind == WIRE_MAP_COUNT;
            if (world_maps[map].key_bytes != 8 || (ops[i] == WIRE_MAGG ? !counts : !integers))
                continue;
            uint32_t guarded = calls_of(code, ops[i], map, true), open = calls_of(code, ops[i], map, false);
            if (guarded != 1 || open != 0) {
                printf("FAIL operation %u, map %u: %u calls when it is guarded, %u when it is not\n", ops[i], map, guarded, open);
                failed = 1;
            }
        }
    return failed;
}
