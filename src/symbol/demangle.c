/* C++ and Rust names. A short mangled name can stand for an endless text (each substitution may hold two of the one before), so the
 * output is charged to a budget and a name that exceeds its share is left as it is. The demangler allocates nothing in its callback
 * form, which makes leaving it by longjmp() sound. */
#include "symbol/internal.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OUTPUT = 1 << 16 };

struct output {
    char text[MAX_OUTPUT];
    size_t size, limit;
    jmp_buf too_long;
};

static void take(const char *text, size_t size, void *context)
{
    struct output *output = context;
    if (size > output->limit - output->size)
        longjmp(output->too_long, 1);
    memcpy(output->text + output->size, text, size);
    output->size += size;
}

static bool demangle(const char *name, struct output *output)
{
    output->size = 0;
    if (setjmp(output->too_long))
        return false;
    int options = DMGL_PARAMS | DMGL_ANSI;
    if (rust_demangle_callback(name, options, take, output))
        return true;
    output->size = 0;
    return cplus_demangle_v3_callback(name, options, take, output);
}

static bool is_mangled(const char *name)
{
    return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

char *symbol_demangle(const char *name, uint64_t *budget)
{
    if (!is_mangled(name) || !*budget)
        return NULL;
    struct output *output = memory_alloc(sizeof *output);
    output->limit = *budget < MAX_OUTPUT ? (size_t)*budget : MAX_OUTPUT;
    char *text = NULL;
    bool is_done = demangle(name, output);
    *budget -= output->size;
    if (is_done) {
        text = memory_alloc(output->size + 1);
        memcpy(text, output->text, output->size);
        text[output->size] = 0;
    }
    free(output);
    return text;
}

void symbol_demangle_all(struct symbol_file *file)
{
    struct output *output = memory_alloc(sizeof *output);
    for (size_t i = 0; i < file->func_count; i++) {
        struct symbol_func *func = &file->funcs[i];
        if (!is_mangled(func->name) || !file->demangle_budget)
            continue;
        output->limit = file->demangle_budget < MAX_OUTPUT ? (size_t)file->demangle_budget : MAX_OUTPUT;
        char *bare = func->source == SYMBOL_FROM_PLT ? strndup(func->name, strlen(func->name) - strlen("@plt")) : NULL;
        bool is_done = demangle(bare ? bare : func->name, output);
        /* Charged in either case: giving up after much text has cost as much. */
        file->demangle_budget -= output->size;
        if (is_done)
            func->demangled = symbol_file_keep(file, output->text, output->size, bare ? "@plt" : "");
        free(bare);
    }
    free(output);
}
