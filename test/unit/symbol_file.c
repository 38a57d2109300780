/* symbol_file_*() on this very program and on system files: invariants of the tables, what a live process says about its own code, error
 * codes. With `--funcs`, `--fdes`, `--names`, `--fragments`, `--pointers`, `--table` or `--head` and a FILE (and for --table an address) it
 * prints a table instead, for the symbol_*.sh beside it. */
#include "base/memory.h"
#include "symbol/internal.h"
#include "symbol/symbol.h"
#include "test/check.h"

#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- printing tables ---- */

static void print_fragment(const struct symbol_file *file, const struct symbol_func *func)
{
    const struct symbol_func *parent = symbol_file_func_at(file, func->parent_va);
    printf("%" PRIx64 " %" PRIx64 " %s %s\n", func->va, func->parent_va, func->name, parent ? parent->name : "-");
}

static void print_va(void *context, uint64_t va)
{
    (void)context;
    printf("%" PRIx64 "\n", va);
}

static int print(const char *what, const char *path, const char *address)
{
    struct symbol_file *file;
    struct err *error = symbol_file_open(path, &file);
    if (error) {
        printf("error %d %s\n", error->code, error->message);
        err_free(error);
        return 1;
    }
    size_t count;
    const struct symbol_func *funcs = symbol_file_funcs(file, &count);
    if (strcmp(what, "--funcs") == 0)
        for (size_t i = 0; i < count; i++)
            printf("%" PRIx64 " %" PRIx64 " %d %s\n", funcs[i].va, funcs[i].size, funcs[i].source, funcs[i].name);
    if (strcmp(what, "--names") == 0)
        for (size_t i = 0; i < count; i++)
            printf("%s\t%s\n", funcs[i].name, funcs[i].demangled);
    if (strcmp(what, "--fragments") == 0)
        for (size_t i = 0; i < count; i++)
            if (funcs[i].is_fragment)
                print_fragment(file, &funcs[i]);
    if (strcmp(what, "--fdes") == 0)
        for (size_t i = 0; i < file->fdes.n; i++)
            printf("%" PRIx64 " %" PRIx64 "\n", file->fdes.at[i].va, file->fdes.at[i].va + file->fdes.at[i].size);
    if (strcmp(what, "--pointers") == 0)
        symbol_file_code_pointers(file, print_va, NULL);
    if (strcmp(what, "--table") == 0 && address)
        symbol_file_jump_table(file, strtoull(address, NULL, 16), print_va, NULL);
    if (strcmp(what, "--head") == 0) {
        size_t size;
        const uint8_t *id = symbol_file_build_id(file, &size);
        const char *interpreter = symbol_file_interpreter(file);
        printf("%d %s %" PRIx64 " %s ", symbol_file_width(file), symbol_file_is_dynamic(file) ? "DYN" : "EXEC", symbol_file_entry(file),
               interpreter ? interpreter : "-");
        for (size_t i = 0; i < size; i++)
            printf("%02x", id[i]);
        puts(size ? "" : "-");
    }
    symbol_file_close(file);
    return 0;
}

/* ---- invariants ---- */

static void check_tables(const char *path)
{
    struct symbol_file *file;
    struct err *error = symbol_file_open(path, &file);
    if (error) {
        CHECK(error->code == ERR_NO_MATCH, "%s", error->message);
        err_free(error);
        return;
    }
    size_t count, available;
    const struct symbol_func *funcs = symbol_file_funcs(file, &count);
    CHECK(count > 0, "%s", path);
    for (size_t i = 0; i < count; i++) {
        const struct symbol_func *func = &funcs[i];
        CHECK(func->size > 0 && func->name && func->name[0] && func->demangled, "%s: %s", path, func->name);
        CHECK(symbol_file_text(file, func->va, &available) && available >= func->size, "%s: %s leaves its segment", path, func->name);
        CHECK(func->is_fragment || func->parent_va == func->va, "%s: %s", path, func->name);
        CHECK(!func->is_fragment || symbol_file_func_at(file, func->parent_va), "%s: %s: parent is no function", path, func->name);
        if (i) {
            const struct symbol_func *last = &funcs[i - 1];
            CHECK(last->va < func->va || (last->va == func->va && strcmp(last->name, func->name) < 0), "%s: %s: order", path, func->name);
            CHECK(last->va == func->va ? last->size == func->size : last->size <= func->va - last->va, "%s: %s and %s overlap", path,
                  last->name, func->name);
        }
        const struct symbol_func *first = symbol_file_func_at(file, func->va);
        const struct symbol_func *end = symbol_file_func_at(file, func->va + func->size - 1);
        CHECK(first == end && first && first->va == func->va && (first == funcs || first[-1].va != func->va), "%s: %s", path, func->name);
    }
    symbol_file_close(file);
}

/* ---- this program ---- */

int symbol_test_first(int value);
int symbol_test_second(int value);

__attribute__((noinline)) int symbol_test_first(int value)
{
    return value * 3;
}

__attribute__((noinline)) int symbol_test_second(int value)
{
    return value + 5;
}

static int (*const pointers[])(int) = {symbol_test_first, symbol_test_second};

static int find_base(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    *(uint64_t *)context = info->dlpi_addr;
    return 1;
}

struct wanted {
    uint64_t va[3];
    int seen[3];
};

static void note(void *context, uint64_t va)
{
    struct wanted *wanted = context;
    for (int i = 0; i < 3; i++)
        wanted->seen[i] |= wanted->va[i] == va;
}

static void check_self(void)
{
    struct symbol_file *file;
    struct err *error = symbol_file_open("/proc/self/exe", &file);
    CHECK(!error, "%s", error->message);
    if (error)
        return;
    uint64_t base = 0;
    dl_iterate_phdr(find_base, &base);
    struct wanted wanted = {.va = {symbol_file_entry(file)}};
    for (int i = 0; i < 2; i++) {
        uint64_t va = (uint64_t)(uintptr_t)pointers[i] - base;
        const struct symbol_func *func = symbol_file_func_at(file, va);
        CHECK(func && func->va == va && strcmp(func->name, i ? "symbol_test_second" : "symbol_test_first") == 0, "%d", i);
        size_t available;
        const uint8_t *bytes = symbol_file_text(file, va, &available);
        CHECK(func && bytes && memcmp(bytes, (const void *)(uintptr_t)pointers[i], func->size) == 0, "code bytes differ");
        wanted.va[i + 1] = va;
    }
    symbol_file_code_pointers(file, note, &wanted);
    for (int i = 0; i < 3; i++)
        CHECK(wanted.seen[i], "pointer %d not found", i);
    CHECK(symbol_file_width(file) == (int)sizeof(void *) * 8, "width");
    CHECK(!symbol_file_func_at(file, UINT64_MAX) && !symbol_file_func_at(file, 0), "func_at outside");
    symbol_file_close(file);
}

/* ---- errors ---- */

static void check_error(const char *path, enum err_code code)
{
    struct symbol_file *file;
    struct err *error = symbol_file_open(path, &file);
    CHECK(error && error->code == code && !file, "%s: code %d", path, error ? (int)error->code : 0);
    CHECK(!error || strstr(error->message, path), "%s: %s", path, error->message);
    err_free(error);
    symbol_file_close(file);
}

static void check_errors(void)
{
    check_error("/nonexistent/file", ERR_NO_MATCH);
    check_error("/etc/passwd", ERR_FILE);
    check_error("/usr", ERR_FILE);
    check_error("/dev/null", ERR_FILE);
    char path[] = "/tmp/symbol_file.XXXXXX";
    int fd = mkstemp(path), self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char head[4096];
    CHECK(fd >= 0 && self >= 0 && read(self, head, sizeof head) == (ssize_t)sizeof head, "temporary file");
    CHECK(write(fd, head, sizeof head) == (ssize_t)sizeof head, "temporary file");
    check_error(path, ERR_FILE); /* segments beyond its end */
    CHECK(ftruncate(fd, 20) == 0, "temporary file");
    check_error(path, ERR_FILE);
    CHECK(chmod(path, 0) == 0, "temporary file");
    if (geteuid() != 0)
        check_error(path, ERR_PERMISSION);
    close(fd);
    close(self);
    unlink(path);
}

int main(int argc, char **argv)
{
    if (argc >= 3)
        return print(argv[1], argv[2], argv[3]);
    check_self();
    check_errors();
    static const char *const files[] = {"/proc/self/exe",
                                        "/lib/x86_64-linux-gnu/libc.so.6",
                                        "/lib64/libc.so.6",
                                        "/lib32/libc.so.6",
                                        "/lib/x86_64-linux-gnu/libstdc++.so.6",
                                        "/bin/bash",
                                        "/usr/bin/python3",
                                        "/bin/ls"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        check_tables(files[i]);
    printf("%d failures\n", failures);
    return failures != 0;
}
