/* Feeds bytes to src/insn and checks the invariants of insn.h that can be checked without running the copy.
 *
 *   insn_decode --runs N [--seed S]   random bytes
 *   insn_decode [FILE...]             each file, or standard input: a byte for mode and options, two addresses, then code
 *   -DFUZZ_LIBFUZZER                  LLVMFuzzerTestOneInput instead of main
 *
 * A broken invariant prints the bytes and aborts. Build with -fsanitize=address,undefined: inputs and outputs are heap blocks of exactly
 * their size, so that one byte too far is seen. */
#include "insn/insn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t *now;
static size_t now_size;

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "insn_decode: broken: %s:", what);
    for (size_t i = 0; i < now_size && i < 40; i++)
        fprintf(stderr, " %02x", now[i]);
    fprintf(stderr, "\n");
    abort();
}

static void check_insn(const struct insn *insn, enum insn_mode mode, size_t available, uint64_t va)
{
    bool direct = insn->kind == INSN_JMP || insn->kind == INSN_JCC || insn->kind == INSN_LOOP || insn->kind == INSN_CALL;
    require(insn->length >= 1 && insn->length <= 15 && insn->length <= available, "length");
    require(insn->kind <= INSN_NOP, "kind");
    require(insn->mode == mode, "mode");
    require(insn->va == (mode == INSN_MODE_32 ? (uint32_t)va : va), "va");
    require(insn->refusal < INSN_REASON_COUNT, "refusal");
    require(direct || insn->target_va == 0, "target of what is no direct branch");
    require((insn->flags & INSN_PC_RELATIVE) || insn->memory_va == 0, "memory_va without its flag");
    require(mode == INSN_MODE_64 || !(insn->flags & INSN_PC_RELATIVE), "pc-relative in 32-bit mode");
    require(mode == INSN_MODE_64 || insn->target_va <= UINT32_MAX, "target above 4 GB in 32-bit mode");
}

/* Every step is a boundary, every boundary is a step, and the copy decodes to its very end. */
static void check_copy(const struct insn *insn, const struct insn_copy *copy, uint64_t copy_va)
{
    unsigned word = insn->mode == INSN_MODE_64 ? 8 : 4, step = 0;
    require(copy->length >= 1 && copy->length <= INSN_COPY_MAX_BYTES, "copy length");
    require(copy->step_count >= 1 && copy->step_count <= INSN_COPY_MAX_STEPS, "step count");
    require(copy->step[0].offset == 0 && copy->step[0].pc_va == insn->va && copy->step[0].sp_undo == 0, "first step");
    for (unsigned at = 0; at < copy->length;) {
        struct insn part;
        require(step < copy->step_count && copy->step[step].offset == at, "a boundary that is no step");
        require(copy->step[step].sp_undo == 0 || copy->step[step].sp_undo == word || copy->step[step].sp_undo == 2 * word, "sp_undo");
        require(insn_decode(insn->mode, copy->bytes + at, copy->length - at, copy_va + at, &part) == INSN_OK, "copy decodes");
        at += part.length;
        step++;
    }
    require(step == copy->step_count, "a step that is no boundary");
}

static void one(const uint8_t *data, size_t size)
{
    if (size < 18)
        return;
    now = data;
    now_size = size;
    enum insn_mode mode = data[0] & 1 ? INSN_MODE_32 : INSN_MODE_64;
    uint64_t va, copy_va;
    memcpy(&va, data + 1, 8);
    memcpy(&copy_va, data + 9, 8);
    if (data[0] & 2) /* within reach of each other */
        copy_va = va + (uint64_t)(int64_t)(int32_t)copy_va;
    if (mode == INSN_MODE_32) {
        va = (uint32_t)va;
        copy_va = (uint32_t)copy_va;
    }
    size_t available = size - 17;
    uint8_t *code = malloc(available);
    struct insn *insn = malloc(sizeof *insn);
    struct insn_copy *copy = malloc(sizeof *copy);
    memcpy(code, data + 17, available);

    enum insn_reason reason = insn_decode(mode, code, available, va, insn);
    require(reason == INSN_OK || reason == INSN_UNDECODABLE || (reason == INSN_TRUNCATED && available < 15), "reason of insn_decode");
    if (reason == INSN_OK) {
        check_insn(insn, mode, available, va);
        reason = insn_relocate(insn, copy_va, copy);
        require(insn->refusal == INSN_OK || reason == insn->refusal, "a refusal that was announced");
        require(reason == INSN_OK || reason == insn->refusal || (mode == INSN_MODE_64 && reason == INSN_OUT_OF_REACH),
                "a refusal that was not announced");
        if (reason == INSN_OK)
            check_copy(insn, copy, copy_va);
        reason = insn_relocate_taken(insn, copy_va, copy_va + 64, copy);
        bool conditional = insn->kind == INSN_JCC || insn->kind == INSN_LOOP;
        require((reason == INSN_OK) == (conditional && insn->refusal == INSN_OK), "insn_relocate_taken");
        if (reason == INSN_OK)
            check_copy(insn, copy, copy_va);
    }
    free(copy);
    free(insn);
    free(code);
}

#ifdef FUZZ_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    one(data, size);
    return 0;
}
#else

static void count_found(void *context, uint64_t from_va, uint64_t va)
{
    (void)from_va;
    *(uint64_t *)context += va & 1;
}

/* The scans read any size, to the last byte and not beyond. */
static void scan_all(const uint8_t *data, size_t size)
{
    uint64_t odd = 0;
    uint8_t *code = malloc(size ? size : 1);
    memcpy(code, data, size);
    for (unsigned i = 0; i < 2; i++) {
        enum insn_mode mode = i ? INSN_MODE_32 : INSN_MODE_64;
        insn_scan_branches(code, size, 0x1000, mode, count_found, &odd);
        insn_scan_short_branches(code, size, 0x1000, mode, count_found, &odd);
        insn_scan_lea(code, size, 0x1000, mode, count_found, &odd);
    }
    free(code);
}

static uint64_t random_state;

static uint64_t any(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* What relocation rewrites, after random prefixes, in half of the runs. */
static void bias(uint8_t *code, size_t size)
{
    static const uint8_t bytes[] = {0xe8, 0xe9, 0xeb, 0x74, 0xe0, 0xe2, 0xe3, 0xff, 0xff, 0xff, 0x0f, 0xc3, 0xcd, 0x8b, 0x8d, 0xcc};
    static const uint8_t prefixes[] = {0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x3e, 0x64, 0x65, 0x48, 0x41, 0x4f};
    size_t i = 0;
    while (i < size && any() % 3 == 0)
        code[i++] = prefixes[any() % sizeof prefixes];
    if (i < size)
        code[i] = bytes[any() % sizeof bytes];
}

static void random_runs(uint64_t runs)
{
    uint8_t data[64];
    for (uint64_t i = 0; i < runs; i++) {
        size_t size = 18 + any() % 24;
        for (size_t j = 0; j < sizeof data; j += 8) {
            uint64_t value = any();
            memcpy(data + j, &value, 8);
        }
        if (any() & 1)
            bias(data + 17, size - 17);
        one(data, size);
        if (i % 16 == 0)
            scan_all(data, size);
    }
    printf("insn_decode: %lu runs, all invariants held\n", (unsigned long)runs);
}

static void read_all(FILE *file)
{
    static uint8_t data[1 << 20];
    size_t size = fread(data, 1, sizeof data, file);
    one(data, size);
    scan_all(data, size);
}

int main(int argc, char **argv)
{
    uint64_t runs = 0;
    int i = 1;
    random_state = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (strcmp(argv[i], "--runs") == 0)
            runs = strtoull(argv[i + 1], NULL, 0);
        else if (strcmp(argv[i], "--seed") == 0)
            random_state = strtoull(argv[i + 1], NULL, 0);
        else
            break;
    }
    if (i < argc && argv[i][0] == '-') {
        fprintf(stderr, "usage: insn_decode --runs N [--seed S] | insn_decode [FILE...]\n");
        return 2;
    }
    if (runs) {
        random_runs(runs);
        return 0;
    }
    if (i == argc)
        read_all(stdin);
    for (; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) {
            perror(argv[i]);
            return 1;
        }
        read_all(file);
        fclose(file);
    }
    return 0;
}
#endif
