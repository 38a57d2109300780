#include "report/stacks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* As trees name routines. The caller frees it. */
static char *frame_name(const struct trace *trace, const struct trace_frame *frame, enum tree_by by)
{
    size_t count;
    const struct trace_function *function = &trace_functions(trace, &count)[frame->function];
    if (by == TREE_BY_MODULE) {
        if (function->module == TRACE_NONE)
            return memory_text("[unknown]");
        return memory_text(last_part(trace_modules(trace, &count)[function->module].path));
    }
    if (by == TREE_BY_LINE && frame->file)
        return memory_format("%s (%s:%" PRIu32 ")", function->name, last_part(frame->file), frame->line);
    return memory_text(function->name);
}

static size_t bucket_of(const struct stacks *stacks, uint32_t parent, uint32_t name)
{
    uint64_t hash = ((uint64_t)parent << 32 | name) * 0x9e3779b97f4a7c15u;
    size_t mask = stacks->bucket.n - 1, at = (size_t)(hash >> 32) & mask;
    for (;; at = (at + 1) & mask) {
        uint32_t number = stacks->bucket.at[at];
        if (!number || (stacks->path.at[number - 1].parent == parent && stacks->path.at[number - 1].name == name))
            return at;
    }
}

/* There is room for one path a stack from the start: no bucket moves. */
static void make_buckets(struct stacks *stacks, size_t stack_count)
{
    size_t room = 64;
    while (room < stack_count * 2)
        room *= 2;
    stacks->bucket.at = memory_zero(room, sizeof *stacks->bucket.at);
    stacks->bucket.n = stacks->bucket.room = room;
}

static uint32_t path_number(struct stacks *stacks, uint32_t parent, uint32_t name)
{
    size_t at = bucket_of(stacks, parent, name);
    if (!stacks->bucket.at[at]) {
        VEC_PUSH(&stacks->path, (struct stacks_path){parent, name});
        stacks->bucket.at[at] = (uint32_t)stacks->path.n;
    }
    return stacks->bucket.at[at] - 1;
}

void stacks_init(struct stacks *stacks, const struct trace *trace, enum tree_by by)
{
    *stacks = (struct stacks){0};
    size_t frame_count, stack_count;
    const struct trace_frame *frame = trace_frames(trace, &frame_count);
    const struct trace_stack *stack = trace_stacks(trace, &stack_count);
    uint32_t *name_of_frame = memory_alloc((frame_count + 1) * sizeof *name_of_frame);
    for (size_t i = 0; i < frame_count; i++) {
        char *name = frame_name(trace, &frame[i], by);
        name_of_frame[i] = names_number(&stacks->names, name);
        free(name);
    }
    make_buckets(stacks, stack_count);
    for (size_t i = 0; i < stack_count; i++) {
        uint32_t parent = stack[i].parent == TRACE_NONE ? TRACE_NONE : stacks->of_stack.at[stack[i].parent];
        uint32_t name = name_of_frame[stack[i].frame];
        bool is_same = by == TREE_BY_MODULE && parent != TRACE_NONE && stacks->path.at[parent].name == name;
        VEC_PUSH(&stacks->of_stack, is_same ? parent : path_number(stacks, parent, name));
    }
    free(name_of_frame);
}

void stacks_deinit(struct stacks *stacks)
{
    names_deinit(&stacks->names);
    VEC_FREE(&stacks->path);
    VEC_FREE(&stacks->of_stack);
    VEC_FREE(&stacks->bucket);
}

char *stacks_text(const struct stacks *stacks, uint32_t path)
{
    size_t bytes = 1;
    for (uint32_t at = path; at != TRACE_NONE; at = stacks->path.at[at].parent)
        bytes += strlen(names_text(&stacks->names, stacks->path.at[at].name)) + 1;
    char *text = memory_alloc(bytes), *end = text + bytes - 1;
    *end = 0;
    for (uint32_t at = path; at != TRACE_NONE; at = stacks->path.at[at].parent) {
        const char *name = names_text(&stacks->names, stacks->path.at[at].name);
        size_t length = strlen(name);
        if (at != path)
            *--end = ';';
        end -= length;
        memcpy(end, name, length);
    }
    memmove(text, end, strlen(end) + 1);
    return text;
}
