/* Random traces, for the tests and fuzzers of trace/: included once by each. What is written is kept, to be compared with what is read. */
#ifndef TEST_UNIT_TRACE_RANDOM_H
#define TEST_UNIT_TRACE_RANDOM_H

#include "base/memory.h"
#include "test/unit/trace_files.h"
#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 1;

static uint64_t random_next(void) /* xorshift64* */
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1d;
}

static uint64_t random_below(uint64_t limit)
{
    return random_next() % limit;
}

static void random_seed(uint64_t seed)
{
    random_state = seed * 0x9e3779b97f4a7c15 + 1;
}

struct written_thread {
    VEC(struct trace_record) record;
    uint64_t last_ns[2]; /* by channel */
};

struct written_trace {
    VEC(struct trace_process) process;
    VEC(struct trace_thread) thread;
    VEC(struct trace_module) module;
    VEC(struct trace_function) function;
    VEC(struct trace_frame) frame;
    VEC(struct trace_stack) stack;
    VEC(struct trace_metric) metric;
    VEC(struct written_thread) by_thread;
    VEC(char *) text; /* what the others refer to */
    uint64_t now_ns, raised;
};

static const char *const random_texts[] = {"main",
                                           "operator new(unsigned long)",
                                           "",
                                           "std::vector<int>::push_back",
                                           "\xff\xfe\x01 odd \n \"text\"",
                                           "a;b",
                                           "\xc3\xa4\xc3\xb6",
                                           "[libx.so+0x1234]"};

static char *random_text(struct written_trace *to)
{
    char *text = memory_format("%s%llu", random_texts[random_below(sizeof random_texts / sizeof *random_texts)],
                               (unsigned long long)random_below(1000));
    VEC_PUSH(&to->text, text);
    return text;
}

/* A number that was not defined so far: the next. */
#define REMEMBER(list, number, ...)                                                                                                        \
    do {                                                                                                                                   \
        require((number) <= (list)->n, "numbers follow each other");                                                                       \
        if ((number) == (list)->n)                                                                                                         \
            VEC_PUSH(list, __VA_ARGS__);                                                                                                   \
    } while (0)

static void define_some(struct trace_writer *writer, struct written_trace *to)
{
    char *name = random_text(to), *file = random_below(2) ? random_text(to) : NULL;
    uint64_t now_ns = to->now_ns;
    switch (random_below(8)) {
    case 0: {
        struct trace_process process = {.pid = (uint32_t)random_below(5),
                                        .parent = to->process.n && random_below(2) ? (uint32_t)random_below(to->process.n) : TRACE_NONE,
                                        .width = random_below(2) ? 32 : 64,
                                        .name = name,
                                        .start_ns = now_ns,
                                        .status = -1};
        REMEMBER(&to->process, trace_define_process(writer, now_ns, &process), process);
        break;
    }
    case 1: {
        if (!to->process.n)
            break;
        struct trace_thread thread = {
            .process = (uint32_t)random_below(to->process.n), .tid = (uint32_t)random_below(9), .name = name, .start_ns = now_ns};
        size_t before = to->thread.n;
        REMEMBER(&to->thread, trace_define_thread(writer, now_ns, &thread), thread);
        if (to->thread.n > before)
            VEC_PUSH(&to->by_thread, (struct written_thread){0});
        break;
    }
    case 2: {
        static const uint8_t id[20] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255, 0, 1};
        struct trace_module module = {.path = name};
        module.build_id_bytes = random_below(2) ? 20 : 0;
        module.build_id = module.build_id_bytes ? id : NULL;
        REMEMBER(&to->module, trace_define_module(writer, &module), module);
        break;
    }
    case 3:
    case 4: {
        struct trace_function function = {.module = to->module.n && random_below(2) ? (uint32_t)random_below(to->module.n) : TRACE_NONE,
                                          .offset = random_next() >> random_below(64),
                                          .name = name,
                                          .file = file,
                                          .line = (uint32_t)random_below(1000)};
        REMEMBER(&to->function, trace_define_function(writer, &function), function);
        break;
    }
    case 5: {
        if (!to->function.n)
            break;
        struct trace_frame frame = {.function = (uint32_t)random_below(to->function.n),
                                    .offset = random_next(),
                                    .file = file,
                                    .line = (uint32_t)random_below(1000),
                                    .is_inlined = random_below(2)};
        REMEMBER(&to->frame, trace_define_frame(writer, &frame), frame);
        break;
    }
    case 6: {
        if (!to->frame.n)
            break;
        struct trace_stack stack = {.parent = to->stack.n && random_below(4) ? (uint32_t)random_below(to->stack.n) : TRACE_NONE,
                                    .frame = (uint32_t)random_below(to->frame.n)};
        REMEMBER(&to->stack, trace_define_stack(writer, &stack), stack);
        break;
    }
    case 7: {
        struct trace_metric metric = {.name = name, .unit = "bytes"};
        REMEMBER(&to->metric, trace_define_metric(writer, &metric), metric);
        break;
    }
    }
}

/* The channel, and what of the record the trace keeps. */
static int keep_what_counts(struct trace_record *record)
{
    bool is_measure = record->major == TRACE_SAMPLE || record->major == TRACE_TREE;
    if (!is_measure)
        record->metric = 0;
    bool is_account = record->major == TRACE_THREAD && record->minor == TRACE_RAN;
    if (!is_measure && !is_account && record->major != TRACE_LOSS)
        record->value = 0;
    if (record->major == TRACE_THREAD && record->minor == TRACE_SWITCH_IN)
        record->number = 0;
    if (record->major == TRACE_SAMPLE)
        return record->minor != TRACE_PLACE;
    return record->major == TRACE_THREAD || (record->major == TRACE_LOSS && record->number != TRACE_LOSS_CALLS);
}

static void write_some(struct trace_writer *writer, struct written_trace *to, bool with_losses)
{
    if (!to->thread.n || !to->function.n)
        return;
    uint32_t thread = (uint32_t)random_below(to->thread.n);
    struct written_thread *by = &to->by_thread.at[thread];
    struct trace_record record = {.time_ns = to->now_ns,
                                  .major = (uint8_t)(TRACE_CALL + random_below(with_losses ? 5 : 4)),
                                  .minor = (uint8_t)(1 + random_below(5)),
                                  .metric = (uint16_t)random_below(to->metric.n),
                                  .value = random_next() >> random_below(64)};
    if (random_below(2))
        record.major = TRACE_CALL;
    if (record.major == TRACE_CALL)
        record.minor = (uint8_t)(1 + random_below(3));
    if (record.major == TRACE_SAMPLE && !to->stack.n)
        record.minor = TRACE_PLACE;
    record.number = record.major == TRACE_CALL     ? (uint32_t)random_below(to->function.n)
                    : record.major == TRACE_THREAD ? (uint32_t)random_below(2)
                    : record.major == TRACE_LOSS   ? (uint32_t)random_below(TRACE_LOSSES)
                    : record.major == TRACE_TREE   ? (uint32_t)random_next()
                    : to->stack.n                  ? (uint32_t)random_below(to->stack.n)
                                                   : TRACE_NONE;
    if (record.major == TRACE_SAMPLE && record.minor == TRACE_PLACE && random_below(3) == 0)
        record.number = TRACE_NONE;
    if (record.major == TRACE_THREAD)
        record.minor = (uint8_t)(1 + random_below(3));
    if (record.major == TRACE_LOSS) {
        record.minor = TRACE_LOST;
        record.value = random_below(1000);
    }
    if (random_below(50) == 0)
        record.time_ns -= record.time_ns < 100000 ? 0 : random_below(100000);
    trace_write(writer, thread, &record);
    int channel = keep_what_counts(&record);
    if (record.time_ns < by->last_ns[channel]) {
        record.time_ns = by->last_ns[channel];
        to->raised++;
    }
    by->last_ns[channel] = record.time_ns;
    VEC_PUSH(&by->record, record);
}

/* `to` is all zero at first. */
static void write_random(struct trace_writer *writer, struct written_trace *to, uint64_t start_ns, size_t steps, bool with_losses)
{
    if (!to->metric.n)
        VEC_PUSH(&to->metric, (struct trace_metric){"time", "ns"});
    to->now_ns = start_ns;
    for (size_t i = 0; i < steps; i++) {
        if (random_below(20) == 0 || to->stack.n < 3)
            define_some(writer, to);
        write_some(writer, to, with_losses);
        to->now_ns += random_below(100) == 0 ? random_below(1ull << 32) : random_below(1000);
        if (random_below(1000) == 0)
            require_no(trace_writer_flush(writer));
    }
}

static void forget_written(struct written_trace *to)
{
    for (size_t i = 0; i < to->by_thread.n; i++)
        VEC_FREE(&to->by_thread.at[i].record);
    for (size_t i = 0; i < to->text.n; i++)
        free(to->text.at[i]);
    VEC_FREE(&to->text);
    VEC_FREE(&to->by_thread);
    VEC_FREE(&to->process);
    VEC_FREE(&to->thread);
    VEC_FREE(&to->module);
    VEC_FREE(&to->function);
    VEC_FREE(&to->frame);
    VEC_FREE(&to->stack);
    VEC_FREE(&to->metric);
}

static inline bool is_same_record(const struct trace_record *a, const struct trace_record *b)
{
    return a->time_ns == b->time_ns && a->major == b->major && a->minor == b->minor && a->metric == b->metric && a->number == b->number &&
           a->value == b->value;
}

#endif
