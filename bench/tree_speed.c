/* How quick trees are built: records a second for calls in trees of different shapes, and samples. One line for each, then one that says
 * whether all shapes of calls reach 15 million a second. */
#include "base/memory.h"
#include "tree/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FUNCTIONS = 20000, RECORDS = 1 << 20, ROUNDS = 8 };

static struct trace_function functions[FUNCTIONS];
static struct trace_frame frames[FUNCTIONS];
static struct trace_stack stacks[FUNCTIONS];
static char names[FUNCTIONS][16];

static const struct trace_function *get_function(void *context, uint32_t number)
{
    (void)context;
    return number < FUNCTIONS ? &functions[number] : NULL;
}

static const struct trace_frame *get_frame(void *context, uint32_t number)
{
    (void)context;
    return number < FUNCTIONS ? &frames[number] : NULL;
}

static const struct trace_stack *get_stack(void *context, uint32_t number)
{
    (void)context;
    return number < FUNCTIONS ? &stacks[number] : NULL;
}

static const struct trace_module *get_module(void *context, uint32_t number)
{
    (void)context;
    (void)number;
    return NULL;
}

static uint64_t state = 88172645463325252u;
static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 32) * below >> 32);
}

/* A walk in which a call at depth d has `width` possible functions, that depend on its caller: width 1 is one chain. */
static void make_calls(struct trace_record *records, uint32_t depth, uint32_t width, uint32_t kinds)
{
    uint32_t *open = memory_alloc((depth + 1) * sizeof *open), n = 0;
    bool is_down = true;
    for (uint32_t i = 0; i < RECORDS; i++) {
        /* All calls have returned at the end, so that it can be played again. */
        bool enters = n < RECORDS - i && (n == 0 || (n < depth && (width == 1 ? is_down : draw(2))));
        uint32_t function = enters ? ((n ? open[n - 1] * 31 : 7) + draw(width) + 1) % kinds : open[n - 1];
        if (n == 0)
            is_down = true;
        else if (n == depth)
            is_down = false;
        records[i] =
            (struct trace_record){.time_ns = i * 20, .major = TRACE_CALL, .minor = enters ? TRACE_ENTER : TRACE_RETURN, .number = function};
        if (enters)
            open[n++] = function;
        else
            n--;
    }
    free(open);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); /* others may use the machine, too */
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double measure(const char *what, struct trace_record *records, size_t memory_bytes)
{
    struct tree_source source = {NULL, get_function, get_frame, get_stack, get_module};
    struct tree_set *set = tree_set_create(&source, &(struct tree_options){.memory_bytes = memory_bytes});
    struct tree *tree = tree_of_thread(set, 0, "1.1");
    double taken = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        for (uint32_t i = 0; i < RECORDS; i += 4096)
            tree_add(tree, records + i, 4096, false);
        taken += now() - start;
        for (uint32_t i = 0; i < RECORDS; i++)
            records[i].time_ns += (uint64_t)RECORDS * 20;
    }
    double start = now();
    tree_end(tree, 0);
    double rate = (double)ROUNDS * RECORDS / (taken + now() - start) / 1e6;
    size_t nodes, peak;
    tree_nodes(tree, &nodes);
    tree_set_memory(set, &peak);
    printf("%-44s %8zu nodes %8.1f MB %8.1f million records/s\n", what, nodes, (double)peak / 1e6, rate);
    tree_set_destroy(set);
    return rate;
}

int main(void)
{
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        snprintf(names[i], sizeof names[i], "f%u", i);
        functions[i] = (struct trace_function){.module = TRACE_NONE, .name = names[i]};
        frames[i] = (struct trace_frame){.function = i};
        stacks[i] = (struct trace_stack){i % 40 ? i - 1 : TRACE_NONE, i};
    }
    struct trace_record *records = memory_alloc(RECORDS * sizeof *records);
    static const struct {
        const char *what;
        uint32_t depth, width, kinds;
        size_t memory_bytes;
    } shapes[] = {
        {"calls, 10 deep, 1 wide", 10, 1, 1000, 0},           {"calls, 1,000 deep, 1 wide", 1000, 1, 5000, 0},
        {"calls, 100,000 deep, 1 wide", 100000, 1, 20000, 0}, {"calls, 8 deep, 4 wide", 8, 4, 1000, 0},
        {"calls, 4 deep, 20 wide", 4, 20, 20000, 0},          {"calls, 2 deep, 1,000 wide", 2, 1000, 20000, 0},
        {"calls, 30 deep, 2 wide", 30, 2, 1000, 0},           {"calls, 12 deep, 8 wide, memory for 20,000", 12, 8, 20000, 4 << 20},
    };
    double least = 1e9;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        make_calls(records, shapes[i].depth, shapes[i].width, shapes[i].kinds);
        double rate = measure(shapes[i].what, records, shapes[i].memory_bytes);
        if (!shapes[i].memory_bytes)
            least = rate < least ? rate : least;
    }
    for (uint32_t i = 0; i < RECORDS; i++)
        records[i] =
            (struct trace_record){.time_ns = i * 20, .major = TRACE_SAMPLE, .minor = TRACE_TIMER, .number = draw(FUNCTIONS), .value = 1};
    measure("samples, 1 to 40 deep, 20,000 stacks", records, 0);
    free(records);
    printf("%s: calls at %.1f million records/s or more, wanted 15\n", least >= 15 ? "ok" : "MISSED", least);
    return least >= 15 ? 0 : 1;
}
