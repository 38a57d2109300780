/* Functions and who calls them. */
#include "climb/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- modules ---- */

static int by_start(const void *a, const void *b)
{
    const struct climb_range *x = a, *y = b;
    return x->start_va < y->start_va ? -1 : x->start_va > y->start_va;
}

struct err *climb_read_ranges(struct climb *climb)
{
    climb->range.n = 0;
    for (size_t i = 0; i < load_process_module_count(climb->process); i++) {
        struct load_module *module = load_process_module(climb->process, i);
        struct err *error = load_module_open(climb->process, module);
        if (error && error->code == ERR_NO_PROCESS)
            return error;
        err_free(error); /* what can not be read has no functions */
        VEC_PUSH(&climb->range, (struct climb_range){.start_va = module->start_va,
                                                     .end_va = module->end_va,
                                                     .bias = module->bias,
                                                     .module = module,
                                                     .code = module->code,
                                                     .path = names_number(&climb->path, module->path)});
    }
    if (climb->range.n)
        qsort(climb->range.at, climb->range.n, sizeof *climb->range.at, by_start);
    return load_process_shortage(climb->process);
}

static const struct climb_range *range_at(const struct climb *climb, uint64_t va)
{
    size_t low = 0;
    for (size_t high = climb->range.n; low < high;) {
        size_t middle = (low + high) / 2;
        if (climb->range.at[middle].end_va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low < climb->range.n && climb->range.at[low].start_va <= va ? &climb->range.at[low] : NULL;
}

const struct climb_range *climb_range_of(const struct climb *climb, const struct climb_function *function)
{
    for (size_t i = 0; i < climb->range.n; i++)
        if (!strcmp(names_text(&climb->path, climb->range.at[i].path), function->module))
            return &climb->range.at[i];
    return NULL;
}

/* ---- functions ---- */

static size_t bucket_of(const struct climb *climb, const char *module, uint64_t va)
{
    uint64_t hash = va * 0x9e3779b97f4a7c15ull;
    for (const char *c = module; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3ull;
    return (size_t)(hash >> 20) & (climb->bucket.n - 1);
}

static void grow_buckets(struct climb *climb)
{
    size_t size = climb->bucket.n ? climb->bucket.n * 2 : 1024;
    VEC_FREE(&climb->bucket);
    climb->bucket.at = memory_zero(size, sizeof *climb->bucket.at);
    climb->bucket.n = climb->bucket.room = size;
    for (uint32_t i = 0; i < climb->function.n; i++) {
        size_t at = bucket_of(climb, climb->function.at[i]->module, climb->function.at[i]->va);
        while (climb->bucket.at[at])
            at = (at + 1) & (size - 1);
        climb->bucket.at[at] = i + 1;
    }
}

static uint32_t get_function(struct climb *climb, const char *module, uint64_t va, const char *name)
{
    if (climb->function.n * 2 >= climb->bucket.n)
        grow_buckets(climb);
    size_t at = bucket_of(climb, module, va);
    for (; climb->bucket.at[at]; at = (at + 1) & (climb->bucket.n - 1)) {
        const struct climb_function *function = climb->function.at[climb->bucket.at[at] - 1];
        if (function->va == va && !strcmp(function->module, module))
            return climb->bucket.at[at] - 1;
    }
    struct climb_function *function = memory_zero(1, sizeof *function);
    function->module = memory_text(module);
    const char *base = strrchr(module, '/');
    function->name = name ? memory_text(name) : memory_format("%s+0x%llx", base ? base + 1 : module, (unsigned long long)va);
    function->va = va;
    function->hook = CLIMB_NONE;
    if (!name) {
        function->state = CLIMB_CANNOT;
        function->reason = "code of no known function";
    }
    VEC_PUSH(&climb->function, function);
    climb->bucket.at[at] = (uint32_t)climb->function.n;
    return (uint32_t)climb->function.n - 1;
}

uint32_t climb_find(struct climb *climb, uint64_t va)
{
    const struct climb_range *range = range_at(climb, va);
    if (!range || !range->code)
        return CLIMB_NONE;
    const struct symbol_file *file = range->code->file;
    const char *path = names_text(&climb->path, range->path);
    const struct symbol_func *func = symbol_file_func_at(file, va - range->bias);
    const struct symbol_func *whole = func && func->is_fragment ? symbol_file_func_at(file, func->parent_va) : func;
    if (!whole)
        return get_function(climb, path, (va - range->bias) & ~(uint64_t)0xf, NULL);
    return get_function(climb, path, whole->va, symbol_file_usual_name(file, whole)->demangled);
}

void climb_find_valued(struct climb *climb)
{
    for (size_t i = 0; i < climb->range.n && climb->options.metric == CLIMB_VALUE; i++) {
        const struct climb_range *range = &climb->range.at[i];
        if (!range->module->code || !spec_matches_module(climb->options.value_spec, range->module->path))
            continue;
        size_t count;
        const struct symbol_func *func = symbol_file_funcs(range->module->code->file, &count);
        for (size_t k = 0; k < count; k++) {
            if (func[k].source == SYMBOL_FROM_PLT || !spec_matches_func(climb->options.value_spec, &func[k]))
                continue;
            uint32_t number = climb_find(climb, func[k].va + range->bias);
            if (number != CLIMB_NONE && !climb_is_valued(climb, number))
                VEC_PUSH(&climb->valued, number);
        }
    }
}

bool climb_is_valued(const struct climb *climb, uint32_t function)
{
    for (size_t i = 0; i < climb->valued.n; i++)
        if (climb->valued.at[i] == function)
            return true;
    return false;
}

uint32_t climb_caller_index(struct climb_function *function, uint32_t caller)
{
    enum { MOST = 1 << 12 }; /* more are called unknown: return addresses are the process's to make up */
    for (uint32_t i = 0; i < function->caller.n; i++)
        if (function->caller.at[i].function == caller)
            return i;
    if (function->caller.n >= MOST && caller != CLIMB_NONE)
        return climb_caller_index(function, CLIMB_NONE);
    VEC_PUSH(&function->caller, (struct climb_caller){.function = caller});
    return (uint32_t)function->caller.n - 1;
}

void climb_free_functions(struct climb *climb)
{
    for (size_t i = 0; i < climb->function.n; i++) {
        struct climb_function *function = climb->function.at[i];
        for (size_t k = 0; k < function->caller.n; k++)
            VEC_FREE(&function->caller.at[k].seen);
        VEC_FREE(&function->caller);
        free(function->module);
        free(function->name);
        free(function);
    }
    VEC_FREE(&climb->function);
    VEC_FREE(&climb->bucket);
    VEC_FREE(&climb->range);
    VEC_FREE(&climb->valued);
    names_deinit(&climb->path);
}

size_t climb_function_count(const struct climb *climb)
{
    return climb->function.n;
}

const struct climb_function *climb_function(const struct climb *climb, uint32_t number)
{
    return climb->function.at[number];
}
