/* Fuzzing of what reads ELF files: the program around a reader, included once by each.
 *
 *   NAME [--runs N] [--seed S] FILE...
 *
 * Calls the reader on mutations of the files. Build with -fsanitize=address,undefined. With -DLIBFUZZER it is a libFuzzer target. */
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Each program defines its own. */
struct fuzzer {
    const char *name;
    bool prefers_unloaded; /* mutates most of all sections that are not loaded: debug information */
    uint64_t most_ns;      /* that a run may take */
    /* Returns whether the file was accepted. */
    bool (*read)(int fd, const uint8_t *bytes, size_t size);
};
static const struct fuzzer fuzzer;

static const uint8_t *input;
static size_t input_size;

/* The input is left in NAME.crash. */
static _Noreturn void fail(const char *why)
{
    char path[64];
    snprintf(path, sizeof path, "%s.crash", fuzzer.name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, input, input_size) != (ssize_t)input_size)
        perror(path);
    fprintf(stderr, "FAIL: %s\n", why);
    abort();
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static bool run(const uint8_t *bytes, size_t size, uint64_t *took_ns)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create(fuzzer.name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size) {
        perror("memfd");
        exit(2);
    }
    input = bytes;
    input_size = size;
    uint64_t start = now_ns();
    bool accepted = fuzzer.read(fd, bytes, size);
    *took_ns = now_ns() - start;
    if (*took_ns > fuzzer.most_ns)
        fail("too slow");
    return accepted;
}

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint64_t took_ns;
    run(bytes, size, &took_ns);
    return 0;
}
#else

static uint64_t state;

static uint64_t next(void) /* xorshift64* */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1d;
}

static size_t below(size_t limit)
{
    return limit ? (size_t)(next() % limit) : 0;
}

/* A place where a mistake matters: in the headers or in a section that is a table. */
static size_t interesting_place(const uint8_t *bytes, size_t size)
{
    Elf64_Ehdr wide;
    Elf32_Ehdr narrow;
    memcpy(&wide, bytes, sizeof wide);
    memcpy(&narrow, bytes, sizeof narrow);
    bool is_64 = wide.e_ident[EI_CLASS] == ELFCLASS64;
    size_t programs = is_64 ? wide.e_phoff : narrow.e_phoff, program_count = is_64 ? wide.e_phnum : narrow.e_phnum;
    size_t sections = is_64 ? wide.e_shoff : narrow.e_shoff, section_count = is_64 ? wide.e_shnum : narrow.e_shnum;
    size_t program_size = is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr), section_size = is_64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    size_t at = 0;
    switch (next() % 6) {
    case 0:
        return below(64);
    case 1:
        at = programs + below(program_count) * program_size + below(program_size);
        break;
    case 2:
        at = sections + below(section_count) * section_size + below(section_size);
        break;
    case 3:
    case 4: {
        size_t header = 0;
        uint64_t flags = SHF_ALLOC, offset = 0, length = 0;
        for (int tries = 0; tries < (fuzzer.prefers_unloaded ? 8 : 1) && (flags & SHF_ALLOC); tries++) {
            header = sections + below(section_count) * section_size;
            flags = SHF_ALLOC;
            if (header <= size && size - header >= section_size)
                memcpy(&flags, bytes + header + 8, is_64 ? 8 : 4);
        }
        if (header > size || size - header < section_size)
            break;
        memcpy(&offset, bytes + header + (is_64 ? 24 : 16), is_64 ? 8 : 4);
        memcpy(&length, bytes + header + (is_64 ? 32 : 20), is_64 ? 8 : 4);
        at = (size_t)offset + below((size_t)length);
        break;
    }
    default:
        return below(size);
    }
    return at < size ? at : below(size);
}

static void mutate(uint8_t *bytes, size_t *size)
{
    static const uint64_t values[] = {0,
                                      1,
                                      4,
                                      8,
                                      0x7f,
                                      0x80,
                                      0xff,
                                      0x7fff,
                                      0xffff,
                                      0x7fffffff,
                                      0x80000000,
                                      0xffffffff,
                                      0x100000000,
                                      INT64_MAX,
                                      INT64_MAX + 1ULL,
                                      UINT64_MAX,
                                      UINT64_MAX - 7,
                                      0xfffffff8};
    for (size_t rounds = 1 + below(6); rounds > 0; rounds--) {
        size_t at = interesting_place(bytes, *size), width = (size_t)1 << below(4);
        uint64_t value = 0;
        if (*size < 64)
            return;
        if (at + 8 > *size)
            at = *size - 8;
        switch (next() % 8) {
        case 0:
            bytes[at] ^= (uint8_t)(1 << below(8));
            break;
        case 1:
            bytes[at] = (uint8_t)next();
            break;
        case 2:
            value = values[below(sizeof values / sizeof *values)];
            memcpy(bytes + at, &value, width);
            break;
        case 3:
            at &= ~(size_t)7;
            value = *size - below(16) + below(32);
            memcpy(bytes + at, &value, width);
            break;
        case 4:
            memcpy(&value, bytes + at, width);
            value += below(33) - 16;
            memcpy(bytes + at, &value, width);
            break;
        case 5: { /* one part over another */
            size_t from = interesting_place(bytes, *size), length = 1 + below(64);
            if (from + length <= *size && at + length <= *size)
                memmove(bytes + at, bytes + from, length);
            break;
        }
        case 6:
            memset(bytes + at, (int)next(), 1 + below(8));
            break;
        case 7:
            if (next() % 8 == 0)
                *size = 64 + below(*size - 64);
            break;
        }
    }
}

int main(int argc, char **argv)
{
    uint64_t runs = 10000, seed = 1, slowest_ns = 0, accepted = 0, done = 0;
    int first = 1;
    while (first + 1 < argc && argv[first][0] == '-') {
        if (strcmp(argv[first], "--runs") == 0)
            runs = strtoull(argv[first + 1], NULL, 0);
        else if (strcmp(argv[first], "--seed") == 0)
            seed = strtoull(argv[first + 1], NULL, 0);
        else
            break;
        first += 2;
    }
    if (first >= argc) {
        fprintf(stderr, "usage: %s [--runs N] [--seed S] FILE...\n", fuzzer.name);
        return 2;
    }
    for (int i = first; i < argc; i++) {
        FILE *file = fopen(argv[i], "re");
        if (!file || fseek(file, 0, SEEK_END) < 0) {
            perror(argv[i]);
            return 2;
        }
        size_t size = (size_t)ftell(file);
        uint8_t *original = malloc(size + 64), *copy = malloc(size + 64);
        rewind(file);
        if (!original || !copy || fread(original, 1, size, file) != size || size < 64) {
            fprintf(stderr, "%s: can not be read\n", argv[i]);
            return 2;
        }
        fclose(file);
        for (uint64_t k = 0; k < runs; k++) {
            size_t length = size;
            uint64_t took_ns;
            state = seed * 0x9e3779b97f4a7c15 + k * 0xd1b54a32d192ed03 + (uint64_t)i;
            state += !state;
            memcpy(copy, original, size);
            mutate(copy, &length);
            accepted += run(copy, length, &took_ns);
            slowest_ns = took_ns > slowest_ns ? took_ns : slowest_ns;
            done++;
        }
        free(original);
        free(copy);
    }
    printf("%llu runs, %llu files accepted, slowest %.1f ms\n", (unsigned long long)done, (unsigned long long)accepted,
           (double)slowest_ns / 1e6);
    return 0;
}

#endif /* LIBFUZZER */

#endif
