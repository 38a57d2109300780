/* Mutates trace streams, and runs whatever the verifier lets pass.
 *
 *   stream_verify --runs N [--seed S]   mutations of random programs
 *   stream_verify [FILE...]             each file is a stream
 *
 * Build with -fsanitize=address,undefined. Besides what the sanitizers see, a run fails when it takes more than ten seconds. Streams and
 * frames are heap blocks of exactly their size. */
#include "stream/eval.h"
#include "test/stream/equal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t equal_random = 1;
static uint64_t passed, ran;
static uint8_t stack[8192] __attribute__((aligned(4096)));

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void run_clause(const struct wire_stream *stream, uint32_t clause, enum wire_model model)
{
    uint64_t machine[WIRE_REG64_COUNT];
    struct wire_fire fire = {.session_va = (uintptr_t)world_interpreted.session,
                             .machine_va = (uintptr_t)machine,
                             .process_va = (uintptr_t)world_process,
                             .sp = (uintptr_t)stack + 4000,
                             .place = below(PLACES),
                             .clause = clause,
                             .model = model};
    uint32_t count, frame_bytes = stream_clauses(stream)[clause].frame_bytes[model];
    const struct wire_insn *code = stream_code(stream, clause, model, &count);
    uint8_t *frame = malloc(frame_bytes);
    for (int i = 0; i < WIRE_REG64_COUNT; i++)
        machine[i] = any();
    fire.frame_va = (uintptr_t)frame;
    world = &world_interpreted;
    double start = now_s();
    eval_run(&fire, code, count);
    if (now_s() - start > 10) {
        fprintf(stderr, "stream_verify: a run took more than ten seconds\n");
        abort();
    }
    free(frame);
    ran++;
}

static void one(const void *bytes, size_t size)
{
    static FILE *nowhere;
    struct wire_stream *stream = malloc(size);
    memcpy(stream, bytes, size);
    struct err *error = stream_verify(stream, size);
    if (!error) {
        passed++;
        if (!nowhere)
            nowhere = fopen("/dev/null", "w");
        if (passed % 16 == 0)
            stream_dump(stream, nowhere);
        if (world_reset(stream, 2, false))
            for (uint32_t i = 0; i < stream->clause_count && i < 16; i++)
                for (int model = 0; model < WIRE_MODELS; model++)
                    if (stream_clauses(stream)[i].has_model >> model & 1)
                        run_clause(stream, i, (enum wire_model)model);
    }
    err_free(error);
    free(stream);
}

/* ---- mutations ---- */

static uint32_t interesting(void)
{
    static const uint32_t values[] = {0,   1,   2,    4,     7,     8,     15,    16,         17,         63,         64,        127,
                                      128, 255, 4096, 32767, 32768, 65535, 65536, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff};
    return chance(70) ? values[below(sizeof values / sizeof *values)] : (uint32_t)any();
}

static void mutate_insn(struct wire_insn *insn, uint32_t count)
{
    switch (below(9)) {
    case 0:
        insn->op = (uint16_t)below(WIRE_OP_COUNT + 1);
        break;
    case 1:
        insn->d = (uint8_t)below(17);
        break;
    case 2:
        insn->a = (uint8_t)below(17);
        break;
    case 3:
        insn->b = (uint8_t)below(17);
        break;
    case 4:
        insn->k = (uint8_t)interesting();
        break;
    case 5:
        insn->h = (uint16_t)(chance(50) ? below(40) : interesting());
        break;
    case 6:
        insn->i = chance(50) ? (int32_t)(8 * below(20)) : (int32_t)interesting();
        break;
    case 7:
        insn->j = chance(50) ? below(count + 1) : 8 * below(20);
        break;
    default:
        insn->j = interesting();
    }
}

static void random_runs(uint64_t runs)
{
    static struct program program;
    static uint8_t bytes[64 << 10] __attribute__((aligned(8)));
    for (uint64_t run = 0; run < runs; run++) {
        if (run % 64 == 0)
            program_make(&program);
        const struct wire_stream *made = world_stream(&program);
        struct wire_stream *stream = (struct wire_stream *)bytes;
        size_t size = made->bytes;
        memcpy(bytes, made, size);
        struct wire_insn *code = (struct wire_insn *)(bytes + stream->code_offset[MODEL]);
        for (uint32_t left = 1 + below(3); left; left--) {
            uint32_t count = stream->code_count[MODEL] < PROGRAM_MAX ? stream->code_count[MODEL] : PROGRAM_MAX, at;
            switch (below(8)) {
            case 0: /* the header and the tables */
                at = below(made->code_offset[MODEL] / 4);
                memcpy(bytes + 4 * at, &(uint32_t){interesting()}, 4);
                break;
            case 1:
                bytes[below((uint32_t)size)] ^= (uint8_t)(1u << below(8));
                break;
            case 2: /* a piece of code elsewhere */
                if (count > 1)
                    memcpy(&code[below(count)], &code[below(count)], sizeof *code);
                break;
            default:
                if (count)
                    mutate_insn(&code[below(count)], count);
            }
        }
        one(bytes, chance(98) ? size : below((uint32_t)size));
    }
    printf("stream_verify: %lu streams, %lu passed, %lu runs\n", (unsigned long)runs, (unsigned long)passed, (unsigned long)ran);
}

int main(int argc, char **argv)
{
    uint64_t runs = 0;
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (strcmp(argv[i], "--runs") == 0)
            runs = strtoull(argv[i + 1], NULL, 0);
        else if (strcmp(argv[i], "--seed") == 0)
            equal_random = strtoull(argv[i + 1], NULL, 0);
        else
            break;
    }
    world_init();
    for (; i < argc; i++) {
        static uint8_t bytes[1 << 20];
        FILE *file = fopen(argv[i], "rb");
        if (!file) {
            perror(argv[i]);
            return 1;
        }
        one(bytes, fread(bytes, 1, sizeof bytes, file));
        fclose(file);
    }
    random_runs(runs);
    return 0;
}
