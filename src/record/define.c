/* Definitions: in the trace, or with live trees, which are all that is written then, only what these need there.
 *
 * Trees are of functions. Frames of the same function are one, and stacks are as many as there are ways to call; even that has no end in a
 * program that calls itself in ever other ways. So stacks are not the trace's, and not kept: when they are many, those go that no record
 * refers to that still waits, and the others get new numbers. Modules and functions are what the program has, and stay. */
#include "record/run.h"

#include <stdlib.h>
#include <string.h>

enum { STACKS_LEAST = 1 << 12, STACK_BYTES = sizeof(struct trace_stack) + 4 * sizeof(uint32_t) };

struct record_definitions {
    VEC(struct trace_function) function; /* by number, texts owned */
    VEC(struct trace_module) module;
    struct trace_frame frame;      /* the one that was last asked for */
    VEC(struct trace_stack) stack; /* parents before children */
    uint32_t *slot;                /* finds stacks: number + 1, hashed; 0: free */
    size_t slots;                  /* a power of two */
    size_t most, usual;            /* so many stacks may there be before they are trimmed, now and usually */
};

/* ---- what numbers mean ---- */

static const struct trace_function *function_of(void *context, uint32_t number)
{
    const struct record_definitions *definitions = context;
    return number < definitions->function.n ? &definitions->function.at[number] : NULL;
}

/* A frame's number is that of its function, doubled; an odd one is inlined. */
static const struct trace_frame *frame_of(void *context, uint32_t number)
{
    struct record_definitions *definitions = context;
    definitions->frame = (struct trace_frame){.function = number / 2, .is_inlined = number % 2};
    return number / 2 < definitions->function.n ? &definitions->frame : NULL;
}

static const struct trace_stack *stack_of(void *context, uint32_t number)
{
    const struct record_definitions *definitions = context;
    return number < definitions->stack.n ? &definitions->stack.at[number] : NULL;
}

static const struct trace_module *module_of(void *context, uint32_t number)
{
    const struct record_definitions *definitions = context;
    return number < definitions->module.n ? &definitions->module.at[number] : NULL;
}

struct tree_source record_definitions_source(struct record_definitions *definitions)
{
    return (struct tree_source){.context = definitions, .function = function_of, .frame = frame_of, .stack = stack_of, .module = module_of};
}

static struct record_definitions *definitions_of(const struct record_run *run)
{
    return run->trees ? run->trees->definitions : NULL;
}

/* ---- modules, functions, frames ---- */

static const char *copy_of(const char *text)
{
    return text ? memory_text(text) : NULL;
}

uint32_t record_define_module(struct record_run *run, const struct trace_module *module)
{
    uint32_t number = trace_define_module(run->writer, module);
    struct record_definitions *definitions = definitions_of(run);
    if (definitions && number == definitions->module.n)
        VEC_PUSH(&definitions->module, (struct trace_module){.path = copy_of(module->path)});
    return number;
}

uint32_t record_define_function(struct record_run *run, const struct trace_function *function)
{
    uint32_t number = trace_define_function(run->writer, function);
    struct record_definitions *definitions = definitions_of(run);
    if (definitions && number == definitions->function.n) {
        struct trace_function copy = *function;
        copy.name = copy_of(function->name);
        copy.file = copy_of(function->file);
        VEC_PUSH(&definitions->function, copy);
    }
    return number;
}

uint32_t record_define_frame(struct record_run *run, const struct trace_frame *frame)
{
    return run->trees ? frame->function * 2 + frame->is_inlined : trace_define_frame(run->writer, frame);
}

/* ---- stacks ---- */

/* The slot of the stack, or a free one. */
static uint32_t *slot_of(const struct record_definitions *definitions, struct trace_stack stack)
{
    uint64_t hash = ((uint64_t)stack.parent << 32 | stack.frame) * 0x9e3779b97f4a7c15u;
    size_t at = (hash ^ hash >> 29) >> 16 & (definitions->slots - 1);
    for (; definitions->slot[at]; at = (at + 1) & (definitions->slots - 1)) {
        const struct trace_stack *other = &definitions->stack.at[definitions->slot[at] - 1];
        if (other->parent == stack.parent && other->frame == stack.frame)
            break;
    }
    return &definitions->slot[at];
}

static void fill_slots(struct record_definitions *definitions, size_t slots)
{
    free(definitions->slot);
    definitions->slot = memory_zero(slots, sizeof *definitions->slot);
    definitions->slots = slots;
    for (uint32_t i = 0; i < definitions->stack.n; i++)
        *slot_of(definitions, definitions->stack.at[i]) = i + 1;
}

uint32_t record_define_stack(struct record_run *run, uint32_t parent, uint32_t frame)
{
    struct trace_stack stack = {parent, frame};
    struct record_definitions *definitions = definitions_of(run);
    if (!definitions)
        return trace_define_stack(run->writer, &stack);
    if (2 * (definitions->stack.n + 1) > definitions->slots)
        fill_slots(definitions, definitions->slots ? 2 * definitions->slots : 256);
    uint32_t *slot = slot_of(definitions, stack);
    if (!*slot) {
        VEC_PUSH(&definitions->stack, stack);
        *slot = (uint32_t)definitions->stack.n;
    }
    return *slot - 1;
}

/* Everything that refers to a stack. */
typedef void refer_fn(uint32_t *new, uint32_t *stack);

static void mark(uint32_t *new, uint32_t *stack)
{
    if (*stack != TRACE_NONE)
        new[*stack] = 1;
}

static void renumber(uint32_t *new, uint32_t *stack)
{
    if (*stack != TRACE_NONE)
        *stack = new[*stack];
}

static void refer_thread(struct record_thread *thread, refer_fn *refer, uint32_t *new)
{
    refer(new, &thread->stack[0]);
    refer(new, &thread->stack[1]);
    for (int i = 0; thread->tree && i < 2; i++)
        for (size_t k = 0; k < thread->tree->part[i].n; k++)
            if (thread->tree->part[i].at[k].major == TRACE_SAMPLE)
                refer(new, &thread->tree->part[i].at[k].number);
}

static void refer_all(struct record_run *run, refer_fn *refer, uint32_t *new)
{
    for (size_t i = 0; i < run->thread_room; i++)
        for (struct record_thread *thread = run->thread[i]; thread; thread = thread->older)
            refer_thread(thread, refer, new);
}

void record_trim_stacks(struct record_run *run)
{
    struct record_definitions *definitions = definitions_of(run);
    if (!definitions || definitions->stack.n < definitions->most)
        return;
    struct trace_stack *stack = definitions->stack.at;
    uint32_t *new = memory_zero(definitions->stack.n, sizeof *new), kept = 0;
    run->taken_stack.n = 0; /* they can be read again */
    refer_all(run, mark, new);
    for (size_t i = definitions->stack.n; i-- > 0;)
        if (new[i] && stack[i].parent != TRACE_NONE)
            new[stack[i].parent] = 1;
    for (size_t i = 0; i < definitions->stack.n; i++) {
        if (!new[i])
            continue;
        uint32_t parent = stack[i].parent == TRACE_NONE ? TRACE_NONE : new[stack[i].parent];
        stack[kept] = (struct trace_stack){parent, stack[i].frame};
        new[i] = kept++;
    }
    refer_all(run, renumber, new);
    free(new);
    definitions->stack.n = kept;
    definitions->most = 2 * (size_t)kept > definitions->usual ? 2 * (size_t)kept : definitions->usual;
    fill_slots(definitions, definitions->slots);
    tree_forget_stacks(run->trees->set);
}

/* ---- life ---- */

struct record_definitions *record_definitions_create(size_t memory_bytes)
{
    struct record_definitions *definitions = memory_zero(1, sizeof *definitions);
    definitions->usual = memory_bytes / STACK_BYTES > STACKS_LEAST ? memory_bytes / STACK_BYTES : STACKS_LEAST;
    definitions->most = definitions->usual;
    return definitions;
}

void record_definitions_destroy(struct record_definitions *definitions)
{
    for (size_t i = 0; i < definitions->function.n; i++) {
        free((char *)definitions->function.at[i].name);
        free((char *)definitions->function.at[i].file);
    }
    for (size_t i = 0; i < definitions->module.n; i++)
        free((char *)definitions->module.at[i].path);
    VEC_FREE(&definitions->function);
    VEC_FREE(&definitions->module);
    VEC_FREE(&definitions->stack);
    free(definitions->slot);
    free(definitions);
}
