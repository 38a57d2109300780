/* Files made to cost much: tables in which every entry leads to the same long thing. Each must be read within two seconds (twenty under a
 * sanitizer) and a memory that is a small multiple of its size. */
#include "base/memory.h"
#include "symbol/symbol.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__
enum { TIME_LIMIT_MS = 20000, IS_SANITIZED = 1 };
#else
enum { TIME_LIMIT_MS = 2000, IS_SANITIZED = 0 };
#endif

enum { TEXT_VA = 0x400000, TEXT_SIZE = 1 << 20, MAX_SECTIONS = 70000 };

/* ---- a builder of ELF64 files: headers, text, then whatever is added; one segment holds it all ---- */

struct builder {
    uint8_t *bytes;
    size_t size, room;
    Elf64_Shdr *sections;
    size_t section_count;
};

static size_t add(struct builder *builder, const void *bytes, size_t size)
{
    while (builder->size + size > builder->room)
        builder->bytes = memory_resize(builder->bytes, builder->room = builder->room * 2 + size, 1);
    size_t at = builder->size;
    if (bytes)
        memcpy(builder->bytes + at, bytes, size);
    else
        memset(builder->bytes + at, 0, size);
    builder->size += size;
    return at;
}

static void begin(struct builder *builder)
{
    memset(builder, 0, sizeof *builder);
    builder->sections = memory_zero(MAX_SECTIONS, sizeof *builder->sections);
    add(builder, NULL, 4096);
    size_t text = add(builder, NULL, TEXT_SIZE);
    memset(builder->bytes + text, 0x90, TEXT_SIZE);
    builder->section_count = 1;
}

static size_t add_section(struct builder *builder, unsigned name, unsigned type, uint64_t flags, size_t offset, size_t size, unsigned link)
{
    builder->sections[builder->section_count] = (Elf64_Shdr){.sh_name = name,
                                                             .sh_type = type,
                                                             .sh_flags = flags,
                                                             .sh_addr = flags & SHF_ALLOC ? TEXT_VA + offset : 0,
                                                             .sh_offset = offset,
                                                             .sh_size = size,
                                                             .sh_link = link};
    return builder->section_count++;
}

/* Names of sections by offset: 1 .text, 7 .eh_frame, 17 .plt. */
static const char section_names[] = "\0.text\0.eh_frame\0.plt";

static void end(struct builder *builder)
{
    size_t names = add(builder, section_names, sizeof section_names);
    size_t names_index = add_section(builder, 0, SHT_STRTAB, 0, names, sizeof section_names, 0);
    add(builder, NULL, -builder->size & 7);
    builder->sections[0].sh_size = builder->section_count;
    builder->sections[0].sh_link = (unsigned)names_index;
    Elf64_Phdr segments[] = {
        {PT_LOAD, PF_R | PF_X, 4096, TEXT_VA + 4096, 0, TEXT_SIZE, TEXT_SIZE, 4096},
        {PT_LOAD, PF_R, 4096 + TEXT_SIZE, TEXT_VA + 4096 + TEXT_SIZE, 0, builder->size - 4096 - TEXT_SIZE, 0, 4096},
    };
    Elf64_Ehdr header = {.e_ident = ELFMAG,
                         .e_type = ET_EXEC,
                         .e_machine = EM_X86_64,
                         .e_version = 1,
                         .e_phoff = sizeof header,
                         .e_phentsize = sizeof *segments,
                         .e_phnum = 2,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shstrndx = SHN_XINDEX};
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_shoff = add(builder, builder->sections, builder->section_count * sizeof *builder->sections);
    memcpy(builder->bytes, &header, sizeof header);
    memcpy(builder->bytes + sizeof header, segments, sizeof segments);
    free(builder->sections);
}

static void add_symbols(struct builder *builder, const Elf64_Sym *symbols, size_t count, const char *strings, size_t strings_size)
{
    size_t table = add(builder, symbols, count * sizeof *symbols), text = add(builder, strings, strings_size);
    add_section(builder, 0, SHT_SYMTAB, 0, table, count * sizeof *symbols, (unsigned)builder->section_count + 1);
    add_section(builder, 0, SHT_STRTAB, 0, text, strings_size, 0);
}

/* ---- the files ---- */

/* All symbols at one address, each name a suffix of one text. */
static void long_names(struct builder *builder)
{
    enum { COUNT = 60000, LENGTH = 1 << 20 };
    char *strings = memory_alloc(LENGTH);
    memset(strings, 'a', LENGTH);
    strings[0] = strings[LENGTH - 1] = 0;
    Elf64_Sym *symbols = memory_zero(COUNT, sizeof *symbols);
    for (unsigned i = 1; i < COUNT; i++)
        symbols[i] =
            (Elf64_Sym){.st_name = LENGTH - 60001 + i, .st_info = STT_FUNC, .st_shndx = 1, .st_value = TEXT_VA + 4096, .st_size = 16};
    add_symbols(builder, symbols, COUNT, strings, LENGTH);
    free(symbols);
    free(strings);
}

/* Each parameter is a template of two of the one before. */
static void demangling(struct builder *builder)
{
    enum { COUNT = 30000 };
    char name[1024];
    size_t at = (size_t)sprintf(name, "%c_Z1f1a", 0), last = 0;
    for (unsigned i = 0; i < 60; i++) {
        char seq[8] = "";
        if (i) {
            unsigned id = 2 * i - 1; /* S0_ is number 1 */
            static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
            if (id >= 36)
                snprintf(seq, sizeof seq, "%c%c", digits[id / 36], digits[id % 36]);
            else
                snprintf(seq, sizeof seq, "%c", digits[id]);
        }
        at += (size_t)sprintf(name + at, "1bIS%s_S%s_E", seq, seq);
        last = at;
    }
    Elf64_Sym *symbols = memory_zero(COUNT, sizeof *symbols);
    for (unsigned i = 1; i < COUNT; i++)
        symbols[i] = (Elf64_Sym){.st_name = 1, .st_info = STT_FUNC, .st_shndx = 1, .st_value = TEXT_VA + 4096 + i, .st_size = 1};
    add_symbols(builder, symbols, COUNT, name, last + 1);
    free(symbols);
}

/* Every section claims the whole file, as each kind of table. */
static void many_sections(struct builder *builder)
{
    static const unsigned types[] = {SHT_RELA, SHT_REL, SHT_RELR, SHT_PROGBITS, SHT_DYNSYM, SHT_STRTAB};
    for (unsigned i = 0; i < MAX_SECTIONS - 10; i++)
        add_section(builder, i % 5 ? 17 : 7, types[i % 6], SHF_ALLOC | (i % 3 ? SHF_EXECINSTR : 0), 4096, TEXT_SIZE, i % 7 + 1);
}

/* A CIE of half a megabyte and FDEs of it, all with one LSDA whose table is as large. */
static void frames(struct builder *builder)
{
    enum { FDES = 20000, LENGTH = 1 << 19 };
    uint8_t *lsda = memory_zero(LENGTH, 1);
    memcpy(lsda, "\xff\xff\x01\xf0\xff\x1f", 6); /* no LPStart, no types, uleb call sites, 0x7fff0 bytes of them */
    memset(lsda + 6, 1, LENGTH - 6);
    size_t lsda_at = add(builder, lsda, LENGTH);
    free(lsda);
    size_t start = builder->size;
    uint8_t cie[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 'L', 0, 1, 0x78, 16, 2, 0x00, 0x00};
    uint32_t length = LENGTH + sizeof cie - 4;
    memcpy(cie, &length, 4);
    add(builder, cie, sizeof cie);
    add(builder, NULL, LENGTH);
    for (uint32_t i = 0; i < FDES; i++) {
        uint8_t fde[8 + 16 + 1 + 8];
        uint32_t head[2] = {sizeof fde - 4, (uint32_t)(builder->size + 4 - start)};
        uint64_t range[2] = {TEXT_VA + 4096 + i * 16, TEXT_SIZE}, pointer = TEXT_VA + lsda_at;
        memcpy(fde, head, 8);
        memcpy(fde + 8, range, 16);
        fde[24] = 8;
        memcpy(fde + 25, &pointer, 8);
        add(builder, fde, sizeof fde);
    }
    add_section(builder, 7, SHT_PROGBITS, SHF_ALLOC, start, builder->size - start, 0);
}

/* Fragments without end, of parents that are not there or have one name, over text that is all jumps. */
static void fragments(struct builder *builder)
{
    enum { COUNT = 60000 };
    static const char strings[] = "\0f.cold\0f\0f.cold.1";
    for (size_t i = 0; i + 5 <= TEXT_SIZE; i += 5)
        memcpy(builder->bytes + 4096 + i, "\xe9\x00\x00\xf8\xff", 5);
    Elf64_Sym *symbols = memory_zero(COUNT, sizeof *symbols);
    for (unsigned i = 1; i < COUNT; i++)
        symbols[i] = (Elf64_Sym){.st_name = i % 3 == 0   ? 1
                                            : i % 3 == 1 ? 8
                                                         : 10,
                                 .st_info = STT_FUNC,
                                 .st_shndx = 1,
                                 .st_value = TEXT_VA + 4096 + i * 17};
    add_symbols(builder, symbols, COUNT, strings, sizeof strings);
    free(symbols);
}

/* PLT stubs that all go through slots with the longest names. */
static void stubs(struct builder *builder)
{
    enum { RELOCS = 40000, LENGTH = 100 };
    size_t plt = 4096;
    for (size_t i = 0; i + 8 <= TEXT_SIZE; i += 8) {
        int32_t displacement = (int32_t)(0x100000 - i % 4096);
        builder->bytes[plt + i] = 0xff;
        builder->bytes[plt + i + 1] = 0x25;
        memcpy(builder->bytes + plt + i + 2, &displacement, 4);
    }
    Elf64_Rela *relocs = memory_zero(RELOCS, sizeof *relocs);
    for (size_t i = 0; i < RELOCS; i++)
        relocs[i] = (Elf64_Rela){TEXT_VA + 4096 + 0x100000 - 4096 + i * 2, ELF64_R_INFO(1, R_X86_64_JUMP_SLOT), 0};
    size_t table = add(builder, relocs, RELOCS * sizeof *relocs);
    free(relocs);
    char *strings = memory_alloc(LENGTH);
    memset(strings, 'n', LENGTH);
    strings[0] = strings[LENGTH - 1] = 0;
    Elf64_Sym symbols[2] = {{0}, {.st_name = 1, .st_info = STT_FUNC}};
    add_section(builder, 17, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, plt, TEXT_SIZE, 0);
    add_symbols(builder, symbols, 2, strings, LENGTH);
    add_section(builder, 0, SHT_RELA, SHF_ALLOC, table, RELOCS * sizeof(Elf64_Rela), 2);
    free(strings);
}

/* ---- running ---- */

static void count(void *context, uint64_t va)
{
    *(uint64_t *)context += va != 0;
}

static void count_sequence(void *context, uint64_t start_va, uint64_t end_va, uint64_t abort_va)
{
    (void)start_va;
    (void)end_va;
    count(context, abort_va);
}

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* In a child, so that peaks of memory do not add up. */
static int run(const char *name, void (*build)(struct builder *))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct builder builder;
        begin(&builder);
        build(&builder);
        end(&builder);
        int fd = memfd_create("symbol_hostile", MFD_CLOEXEC);
        size_t size = builder.size;
        if (fd < 0 || write(fd, builder.bytes, size) != (ssize_t)size)
            _exit(3);
        free(builder.bytes);
        /* The peak so far is forgotten, proc(5). */
        int clear = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
        if (clear < 0 || write(clear, "5", 1) != 1)
            _exit(3);
        close(clear);
        struct rusage before, after;
        getrusage(RUSAGE_SELF, &before);
        double start = now_ms();
        struct symbol_file *file;
        struct err *error = symbol_file_open_fd(fd, "hostile", &file);
        size_t funcs = 0;
        uint64_t pointers = 0;
        if (!error) {
            symbol_file_funcs(file, &funcs);
            symbol_file_code_pointers(file, count, &pointers);
            symbol_file_sequences(file, count_sequence, &pointers);
        }
        double took = now_ms() - start;
        getrusage(RUSAGE_SELF, &after);
        double times = (double)(after.ru_maxrss - before.ru_maxrss) * 1024 / (double)size;
        bool is_good = took < TIME_LIMIT_MS && (times < 20 || IS_SANITIZED);
        printf("%s %s: %.1f MB, %s, %zu functions, %llu pointers, %.0f ms, memory grew by %.1f times its size\n", is_good ? "ok" : "FAIL",
               name, (double)size / 1e6, error ? error->message : "opened", funcs, (unsigned long long)pointers, took, times);
        symbol_file_close(file);
        err_free(error);
        fflush(stdout);
        _exit(!is_good);
    }
    int status;
    return child < 0 || waitpid(child, &status, 0) < 0 || status != 0;
}

int main(void)
{
    int failures = 0;
    failures += run("long_names", long_names);
    failures += run("demangling", demangling);
    failures += run("many_sections", many_sections);
    failures += run("frames", frames);
    failures += run("fragments", fragments);
    failures += run("stubs", stubs);
    printf("%d failures\n", failures);
    return failures != 0;
}
