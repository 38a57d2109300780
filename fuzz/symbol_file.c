/* Mutates ELF files and reads everything that symbol/ gives of them.
 *
 * Besides what the sanitizers see, a run fails when it takes more than two seconds or when the tables break the invariants of symbol.h. */
#include "fuzz/mutate.h"
#include "symbol/symbol.h"

static void sum(void *context, uint64_t va)
{
    *(uint64_t *)context += va;
}

static void sum_sequence(void *context, uint64_t start_va, uint64_t end_va, uint64_t abort_va)
{
    if (start_va >= end_va || abort_va - start_va < end_va - start_va)
        fail("symbol_file_sequences");
    sum(context, abort_va);
}

static void walk(struct symbol_file *file)
{
    size_t count, size;
    uint64_t total = 0;
    const struct symbol_segment *segments = symbol_file_segments(file, &count);
    for (size_t i = 0; i < count; i++)
        if (segments[i].size)
            total += segments[i].bytes[0] + segments[i].bytes[segments[i].size - 1];
    const uint8_t *id = symbol_file_build_id(file, &size);
    for (size_t i = 0; i < size; i++)
        total += id[i];
    const char *interpreter = symbol_file_interpreter(file);
    total += interpreter ? strlen(interpreter) : 0;
    total += symbol_file_entry(file) + (uint64_t)symbol_file_is_dynamic(file) + (uint64_t)symbol_file_width(file);

    const struct symbol_func *funcs = symbol_file_funcs(file, &count);
    for (size_t i = 0; i < count; i++) {
        const struct symbol_func *func = &funcs[i];
        size_t available;
        const uint8_t *text = symbol_file_text(file, func->va, &available);
        if (!func->size || !text || available < func->size)
            fail("a function leaves its segment");
        total += text[func->size - 1] + strlen(func->name) + strlen(func->demangled);
        if (i && func[-1].va == func->va ? func[-1].size != func->size
                                         : i && (func[-1].va > func->va || func[-1].size > func->va - func[-1].va))
            fail("functions overlap");
        const struct symbol_func *at = symbol_file_func_at(file, func->va + func->size - 1);
        if (!at || at->va != func->va)
            fail("symbol_file_func_at");
        if (func->is_fragment ? !symbol_file_func_at(file, func->parent_va) : func->parent_va != func->va)
            fail("parent_va");
    }
    symbol_file_code_pointers(file, sum, &total);
    symbol_file_sequences(file, sum_sequence, &total);
    for (size_t i = 0; i < 4; i++)
        symbol_file_jump_table(file, segments ? segments[0].va + i * 64 : 0, sum, &total);
    volatile uint64_t keep = total;
    (void)keep;
}

static bool read_file(int fd, const uint8_t *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    struct symbol_file *file;
    struct err *error = symbol_file_open_fd(fd, "/nonexistent/fuzz", &file);
    bool is_open = !error;
    if (is_open)
        walk(file);
    else if (file)
        fail("an error and a file");
    symbol_file_close(file);
    err_free(error);
    return is_open;
}

static const struct fuzzer fuzzer = {"symbol_file", false, 2000000000, read_file};
