/* A source of definitions for tests: functions by name, one frame for each function and line, stacks as wanted. */
#ifndef TEST_TREE_SOURCE_H
#define TEST_TREE_SOURCE_H

#include "base/memory.h"
#include "test/check.h"
#include "tree/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_source {
    VEC(struct trace_function) function; /* names are the caller's */
    VEC(struct trace_frame) frame;       /* those of line 0 have the number of their function */
    VEC(struct trace_stack) stack;
    VEC(struct trace_module) module;
};

static inline const struct trace_function *source_function(void *context, uint32_t number)
{
    struct test_source *source = context;
    return number < source->function.n ? &source->function.at[number] : NULL;
}

static inline const struct trace_frame *source_frame(void *context, uint32_t number)
{
    struct test_source *source = context;
    return number < source->frame.n ? &source->frame.at[number] : NULL;
}

static inline const struct trace_stack *source_stack(void *context, uint32_t number)
{
    struct test_source *source = context;
    return number < source->stack.n ? &source->stack.at[number] : NULL;
}

static inline const struct trace_module *source_module(void *context, uint32_t number)
{
    struct test_source *source = context;
    return number < source->module.n ? &source->module.at[number] : NULL;
}

static inline struct tree_source source_of(struct test_source *source)
{
    return (struct tree_source){source, source_function, source_frame, source_stack, source_module};
}

/* A function and its frame, of the same number. To be called before any other frame is made. */
static inline uint32_t add_function(struct test_source *source, const char *name, uint32_t module)
{
    uint32_t number = (uint32_t)source->function.n;
    VEC_PUSH(&source->function, (struct trace_function){.module = module, .name = name});
    VEC_PUSH(&source->frame, (struct trace_frame){.function = number});
    return number;
}

static inline uint32_t add_stack_level(struct test_source *source, uint32_t parent, uint32_t frame)
{
    for (uint32_t i = 0; i < source->stack.n; i++)
        if (source->stack.at[i].parent == parent && source->stack.at[i].frame == frame)
            return i;
    VEC_PUSH(&source->stack, (struct trace_stack){parent, frame});
    return (uint32_t)source->stack.n - 1;
}

/* Frames outermost first. */
static inline uint32_t add_stack(struct test_source *source, const uint32_t *frame, size_t count)
{
    uint32_t stack = TRACE_NONE;
    for (size_t i = 0; i < count; i++)
        stack = add_stack_level(source, stack, frame[i]);
    return stack;
}

static inline void source_deinit(struct test_source *source)
{
    VEC_FREE(&source->function);
    VEC_FREE(&source->frame);
    VEC_FREE(&source->stack);
    VEC_FREE(&source->module);
}

static inline struct trace_record record_of(uint64_t time_ns, uint8_t major, uint8_t minor, uint32_t number)
{
    return (struct trace_record){.time_ns = time_ns, .major = major, .minor = minor, .number = number};
}

static inline int report_checks(void)
{
    printf("%lu checks, %d failed\n", checks, failures);
    return failures ? 1 : 0;
}

#endif
