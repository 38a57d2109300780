/* What is written to a trace is read back: definitions, records, order, counts. The other tests of traces use this program too:
 *
 *   trace_round_trip                     the test
 *   trace_round_trip --make DIR SEED     a random trace without losses
 *   trace_round_trip --print DIR         its definitions' numbers, and its records as `babeltrace2` prints them, by thread and channel */
#include "test/unit/trace_random.h"

#include <inttypes.h>

static const struct trace_about about = {.host = "a \"host\"\n",
                                         .command = "run \\ this \xc3\xa4 --now",
                                         .start_ns = 1000,
                                         .start_realtime_ns = 1700000000123456789,
                                         .period_ns = 1001001,
                                         .has_switches = true,
                                         .has_off_cpu = true};

/* ---- the test ---- */

static bool is_same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static void compare_definitions(const struct written_trace *written, const struct trace *trace)
{
    size_t n;
    const struct trace_process *process = trace_processes(trace, &n);
    require(n == written->process.n, "all processes are there");
    for (size_t i = 0; i < n; i++) {
        const struct trace_process *w = &written->process.at[i];
        require(process[i].pid == w->pid && process[i].parent == w->parent && process[i].width == w->width &&
                    is_same_text(process[i].name, w->name) && process[i].start_ns == w->start_ns && process[i].status == w->status,
                "a process is the same");
    }
    const struct trace_thread *thread = trace_threads(trace, &n);
    require(n == written->thread.n, "all threads are there");
    for (size_t i = 0; i < n; i++)
        require(thread[i].process == written->thread.at[i].process && thread[i].tid == written->thread.at[i].tid &&
                    thread[i].start_ns == written->thread.at[i].start_ns && is_same_text(thread[i].name, written->thread.at[i].name),
                "a thread is the same");
    const struct trace_module *module = trace_modules(trace, &n);
    require(n == written->module.n, "all modules are there");
    for (size_t i = 0; i < n; i++) {
        const struct trace_module *w = &written->module.at[i];
        require(is_same_text(module[i].path, w->path) && module[i].build_id_bytes == w->build_id_bytes &&
                    !module[i].build_id == !w->build_id && (!w->build_id || !memcmp(module[i].build_id, w->build_id, w->build_id_bytes)),
                "a module is the same");
    }
    const struct trace_function *function = trace_functions(trace, &n);
    require(n == written->function.n, "all functions are there");
    for (size_t i = 0; i < n; i++) {
        const struct trace_function *w = &written->function.at[i];
        require(function[i].module == w->module && function[i].offset == w->offset && is_same_text(function[i].name, w->name) &&
                    is_same_text(function[i].file, w->file) && function[i].line == w->line,
                "a function is the same");
    }
    const struct trace_frame *frame = trace_frames(trace, &n);
    require(n == written->frame.n, "all frames are there");
    for (size_t i = 0; i < n; i++) {
        const struct trace_frame *w = &written->frame.at[i];
        require(frame[i].function == w->function && frame[i].offset == w->offset && is_same_text(frame[i].file, w->file) &&
                    frame[i].line == w->line && frame[i].is_inlined == w->is_inlined,
                "a frame is the same");
    }
    const struct trace_stack *stack = trace_stacks(trace, &n);
    require(n == written->stack.n, "all stacks are there");
    for (size_t i = 0; i < n; i++)
        require(stack[i].parent == written->stack.at[i].parent && stack[i].frame == written->stack.at[i].frame, "a stack is the same");
    const struct trace_metric *metric = trace_metrics(trace, &n);
    require(n == written->metric.n, "all metrics are there");
    for (size_t i = 0; i < n; i++)
        require(is_same_text(metric[i].name, written->metric.at[i].name) && is_same_text(metric[i].unit, written->metric.at[i].unit),
                "a metric is the same");
}

static void compare_info(const struct trace_info *info, uint64_t raised, bool is_cut)
{
    require(is_same_text(info->about.host, about.host) && is_same_text(info->about.command, about.command), "host and command");
    require(info->about.start_ns == about.start_ns && info->about.start_realtime_ns == about.start_realtime_ns &&
                info->about.period_ns == about.period_ns && info->about.has_switches && info->about.has_off_cpu,
            "what the trace is about");
    require(info->is_cut == is_cut && !info->cut_where == !is_cut, "whether it is cut");
    require(is_cut || (info->raised == raised && info->dropped == 0), "counts of the writer");
}

/* What was written, in the order in which it is read: channels merged by time, calls first. */
static size_t written_in_order(const struct written_thread *by, struct trace_record *out)
{
    size_t n = by->record.n, count = 0, at[2] = {0, 0};
    struct trace_record *part[2] = {memory_alloc((n + 1) * sizeof **part), memory_alloc((n + 1) * sizeof **part)};
    size_t size[2] = {0, 0};
    for (size_t i = 0; i < n; i++) {
        struct trace_record copy = by->record.at[i];
        int channel = keep_what_counts(&copy);
        part[channel][size[channel]++] = copy;
    }
    while (at[0] < size[0] || at[1] < size[1]) {
        int from = at[0] == size[0] || (at[1] < size[1] && part[1][at[1]].time_ns < part[0][at[0]].time_ns);
        out[count++] = part[from][at[from]++];
    }
    free(part[0]);
    free(part[1]);
    return count;
}

static size_t compare_records(const struct written_trace *written, struct trace *trace)
{
    size_t total = 0;
    for (uint32_t thread = 0; thread < written->thread.n; thread++) {
        const struct written_thread *by = &written->by_thread.at[thread];
        struct trace_record *expected = memory_alloc((by->record.n + 1) * sizeof *expected), found[7];
        size_t count = written_in_order(by, expected), at = 0;
        struct trace_cursor *cursor;
        require_no(trace_cursor_open(trace, thread, &cursor));
        for (size_t got; (got = trace_next(cursor, found, 1 + random_below(7))) > 0;)
            for (size_t i = 0; i < got; i++, at++)
                require(at < count && is_same_record(&found[i], &expected[at]), "a record is the same");
        require(at == count, "all records are there");
        total += count;
        trace_cursor_close(cursor);
        free(expected);
    }
    return total;
}

static size_t round_trip(const char *path, uint64_t seed, size_t steps)
{
    struct written_trace written = {0};
    struct trace_writer *writer;
    random_seed(seed);
    require_no(trace_writer_create(path, &about, &writer)); /* in the place of the trace before it */
    write_random(writer, &written, about.start_ns, steps, true);

    /* In the middle: readable, and said to be unfinished. */
    struct trace *trace;
    require_no(trace_writer_flush(writer));
    require_no(trace_writer_publish(writer));
    require_no(trace_open(path, &trace));
    compare_info(trace_info(trace), 0, true);
    compare_definitions(&written, trace);
    compare_records(&written, trace);
    trace_close(trace);

    write_random(writer, &written, written.now_ns, steps, true);
    trace_start_complete(writer, written.now_ns);
    require(trace_writer_written(writer).dropped == 0, "nothing is dropped");
    require_no(trace_writer_close(writer));
    require_no(trace_open(path, &trace));
    compare_info(trace_info(trace), written.raised, false);
    require(trace_info(trace)->has_start, "the start is complete");
    compare_definitions(&written, trace);
    size_t total = compare_records(&written, trace);
    require(!trace_info(trace)->is_cut, "it is whole after it was read");
    trace_close(trace);
    forget_written(&written);
    return total;
}

/* Mappings end with unmappings, other mappings over them, exec and the end of the process; what sticks out goes on. */
static void map_over_time(const char *path)
{
    struct trace_writer *writer;
    require_no(trace_writer_create(path, &about, &writer));
    uint32_t process = trace_define_process(writer, 5, &(struct trace_process){.pid = 1, .parent = TRACE_NONE, .name = "p", .status = -1});
    uint32_t first = trace_define_module(writer, &(struct trace_module){.path = "a"});
    uint32_t second = trace_define_module(writer, &(struct trace_module){.path = "b"});
    trace_define_mapping(writer, &(struct trace_mapping){process, first, 0x1000, 0x5000, 0x100, 10, 0});
    trace_define_unmapping(writer, 20, process, 0x2000, 0x3000);
    trace_define_mapping(writer, &(struct trace_mapping){process, second, 0x4000, 0x6000, 0, 30, 0});
    trace_rename_process(writer, 40, process, "q");
    trace_define_mapping(writer, &(struct trace_mapping){process, second, 0x1000, 0x2000, 0, 41, 0});
    trace_end_process(writer, 50, process, 9);
    require_no(trace_writer_close(writer));

    static const struct trace_mapping expected[] = {
        {0, 0, 0x1000, 0x5000, 0x100, 10, 20},  {0, 0, 0x1000, 0x2000, 0x100, 20, 40}, {0, 0, 0x3000, 0x5000, 0x2100, 20, 30},
        {0, 0, 0x3000, 0x4000, 0x2100, 30, 40}, {0, 1, 0x4000, 0x6000, 0, 30, 40},     {0, 1, 0x1000, 0x2000, 0, 41, 50},
    };
    struct trace *trace;
    size_t n;
    require_no(trace_open(path, &trace));
    const struct trace_mapping *mapping = trace_mappings(trace, &n);
    require(n == sizeof expected / sizeof *expected, "number of mappings");
    for (size_t i = 0; i < n; i++)
        require(mapping[i].module == expected[i].module && mapping[i].start_va == expected[i].start_va &&
                    mapping[i].end_va == expected[i].end_va && mapping[i].file_offset == expected[i].file_offset &&
                    mapping[i].from_ns == expected[i].from_ns && mapping[i].to_ns == expected[i].to_ns,
                "a mapping over time");
    const struct trace_process *found = trace_processes(trace, &n);
    require(n == 1 && found->end_ns == 50 && found->status == 9 && !strcmp(found->name, "q"), "how the process ended");
    trace_close(trace);
}

/* More threads than descriptors may be open, and channels that need many packets. */
static void many_threads(const char *path)
{
    enum { THREADS = 3000, ROUNDS = 20 };
    struct trace_writer *writer;
    require_no(trace_writer_create(path, &about, &writer));
    uint32_t process = trace_define_process(writer, 5, &(struct trace_process){.pid = 1, .parent = TRACE_NONE, .name = "p", .status = -1});
    uint32_t function = trace_define_function(writer, &(struct trace_function){.module = TRACE_NONE, .name = "f"});
    for (uint32_t i = 0; i < THREADS; i++)
        require(trace_define_thread(writer, 5, &(struct trace_thread){.process = process, .tid = i, .name = "t"}) == i, "thread numbers");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < THREADS; i++)
            trace_write(writer, i, &(struct trace_record){.time_ns = round, .major = TRACE_CALL, .minor = TRACE_ENTER, .number = function});
        if (round % 8 == 7)
            require_no(trace_writer_flush(writer));
    }
    for (uint32_t i = 0; i < 100000; i++)
        trace_write(writer, 7, &(struct trace_record){.time_ns = 100 + i, .major = TRACE_CALL, .minor = TRACE_RETURN, .number = function});
    require_no(trace_writer_close(writer));
    struct trace *trace;
    require_no(trace_open(path, &trace));
    struct trace_cursor *cursors[THREADS];
    for (uint32_t i = 0; i < THREADS; i++)
        require_no(trace_cursor_open(trace, i, &cursors[i]));
    for (uint32_t i = 0; i < THREADS; i++) {
        struct trace_record records[64];
        size_t count = 0;
        for (size_t got; (got = trace_next(cursors[i], records, 64)) > 0;)
            count += got;
        require(count == (i == 7 ? ROUNDS + 100000 : ROUNDS), "records of a thread");
        trace_cursor_close(cursors[i]);
    }
    require(!trace_info(trace)->is_cut, "whole");
    trace_close(trace);
}

/* Where the short form of times ends, in records and in definitions. */
static void time_edges(const char *path)
{
    static const uint64_t step[] = {0, 1, (1 << 27) - 1, 1 << 27, (1 << 27) + 1, 1 << 28, (1ull << 32) - 1, 1ull << 32, 1ull << 62};
    enum { STEPS = sizeof step / sizeof *step };
    struct trace_writer *writer;
    require_no(trace_writer_create(path, &about, &writer));
    uint32_t process = trace_define_process(writer, 5, &(struct trace_process){.pid = 1, .parent = TRACE_NONE, .name = "p", .status = -1});
    uint32_t function = trace_define_function(writer, &(struct trace_function){.module = TRACE_NONE, .name = "f"});
    trace_define_thread(writer, 5, &(struct trace_thread){.process = process, .tid = 1, .name = "t"});
    uint64_t time_ns = about.start_ns;
    for (size_t i = 0; i < STEPS; i++) {
        time_ns += step[i];
        trace_rename_thread(writer, time_ns, 0, "renamed");
        trace_write(writer, 0, &(struct trace_record){time_ns, TRACE_CALL, TRACE_ENTER, 0, function, 0});
        trace_write(writer, 0, &(struct trace_record){time_ns, TRACE_THREAD, TRACE_SWITCH_IN, 0, 0, 0});
    }
    require_no(trace_writer_close(writer));
    struct trace *trace;
    struct trace_cursor *cursor;
    struct trace_record found[2 * STEPS + 1];
    require_no(trace_open(path, &trace));
    require_no(trace_cursor_open(trace, 0, &cursor));
    require(trace_next(cursor, found, 2 * STEPS + 1) == 2 * STEPS && trace_info(trace)->end_ns == time_ns, "all records and the end");
    time_ns = about.start_ns;
    for (size_t i = 0; i < STEPS; i++) {
        time_ns += step[i];
        require(found[2 * i].time_ns == time_ns && found[2 * i].major == TRACE_CALL, "time of a call");
        require(found[2 * i + 1].time_ns == time_ns && found[2 * i + 1].major == TRACE_THREAD, "time of a switch");
    }
    trace_cursor_close(cursor);
    trace_close(trace);
}

/* Records with numbers that are not defined are dropped, and counted; the trace stays whole. */
static void undefined_numbers(const char *path)
{
    struct trace_writer *writer;
    require_no(trace_writer_create(path, &about, &writer));
    uint32_t process = trace_define_process(writer, 5, &(struct trace_process){.pid = 1, .parent = TRACE_NONE, .name = "p", .status = -1});
    trace_define_thread(writer, 5, &(struct trace_thread){.process = process, .tid = 1, .name = "t"});
    static const struct trace_record wrong[] = {{1, TRACE_CALL, TRACE_ENTER, 0, 0, 0},
                                                {1, TRACE_SAMPLE, TRACE_TIMER, 0, TRACE_NONE, 1},
                                                {1, TRACE_SAMPLE, TRACE_PLACE, 1, TRACE_NONE, 1},
                                                {1, TRACE_SAMPLE, TRACE_OFF_CPU, 0, 0, 1},
                                                {1, TRACE_THREAD, TRACE_SWITCH_OUT, 0, 2, 0},
                                                {1, TRACE_LOSS, TRACE_LOST, 0, TRACE_LOSSES, 1},
                                                {UINT64_MAX, TRACE_THREAD, TRACE_SWITCH_IN, 0, 0, 0},
                                                {1, 77, 1, 0, 0, 0},
                                                {1, TRACE_THREAD, 9, 0, 0, 0}};
    size_t count = sizeof wrong / sizeof *wrong;
    for (size_t i = 0; i < count; i++)
        trace_write(writer, 0, &wrong[i]);
    trace_write(writer, 1, &(struct trace_record){1, TRACE_THREAD, TRACE_SWITCH_IN, 0, 0, 0});
    require(trace_writer_written(writer).dropped == count + 1 && trace_writer_written(writer).records == 0,
            "all wrong records are dropped");
    require_no(trace_writer_close(writer));
    struct trace *trace;
    require_no(trace_open(path, &trace));
    require(trace_info(trace)->dropped == count + 1 && !trace_info(trace)->is_cut, "dropped records are told");
    trace_close(trace);
}

static int test(void)
{
    char *path = temporary_directory();
    size_t total = 0;
    uint64_t runs = getenv("PROBITY_LONG") && *getenv("PROBITY_LONG") ? 2000 : 30;
    for (uint64_t seed = 0; seed < runs; seed++)
        total += round_trip(path, seed, 50 + seed % 10 * 2000);
    map_over_time(path);
    many_threads(path);
    undefined_numbers(path);
    time_edges(path);
    remove_directory(path);
    free(path);
    printf("%zu records read as they were written\n", total);
    return 0;
}

/* ---- for other tests ---- */

static int make(const char *path, uint64_t seed)
{
    struct written_trace written = {0};
    struct trace_writer *writer;
    random_seed(seed);
    require_no(trace_writer_create(path, &about, &writer));
    write_random(writer, &written, about.start_ns, 20000, false);
    trace_start_complete(writer, written.now_ns);
    require_no(trace_writer_close(writer));
    forget_written(&written);
    return 0;
}

static void print_record(const struct trace_record *record)
{
    static const char *const calls[] = {"", "enter", "return", "enter_tail"}, *const samples[] = {"",      "timer", "off_cpu",
                                                                                                  "place", "pc",    "off_cpu_pc"};
    bool has_short = record->minor == TRACE_TIMER || record->minor == TRACE_PC;
    uint64_t time = record->time_ns, value = record->value;
    uint32_t number = record->number, metric = record->metric;
    printf("[%020" PRIu64 "] ", time);
    switch (record->major) {
    case TRACE_CALL:
        printf("%s: { function = %u }\n", calls[record->minor], number);
        break;
    case TRACE_SAMPLE:
        if (has_short && !metric && value <= UINT32_MAX)
            printf("%s: { stack = %u, value = %" PRIu64 " }\n", samples[record->minor], number, value);
        else
            printf("%s%s: { stack = %d, metric = %u, value = %" PRId64 " }\n", samples[record->minor], has_short ? "_metric" : "",
                   (int)number, metric, value);
        break;
    case TRACE_THREAD:
        if (record->minor == TRACE_SWITCH_IN)
            printf("switch_in: { }\n");
        else if (record->minor == TRACE_RAN)
            printf("ran: { what = ( \"%s\" : container = %u ), value = %" PRIu64 " }\n", number ? "estimated" : "ran", number, value);
        else
            printf("switch_out: { reason = ( \"%s\" : container = %u ) }\n", number ? "preempted" : "waits", number);
        break;
    case TRACE_TREE:
        printf("tree: { minor = %u, metric = %u, number = %u, value = %" PRIu64 " }\n", record->minor, metric, number, value);
        break;
    }
}

static int print(const char *path)
{
    struct trace *trace;
    require_no(trace_open(path, &trace));
    size_t count;
    trace_functions(trace, &count);
    printf("function %zu\n", count);
    trace_stacks(trace, &count);
    printf("stack %zu\n", count);
    trace_modules(trace, &count);
    printf("module %zu\n", count);
    const struct trace_thread *thread = trace_threads(trace, &count);
    printf("thread %zu\n", count);
    const struct trace_process *process = trace_processes(trace, &(size_t){0});
    for (uint32_t i = 0; i < count; i++)
        for (int channel = 0; channel < 2; channel++) {
            struct trace_cursor *cursor;
            struct trace_record record;
            require_no(trace_cursor_open(trace, i, &cursor));
            while (trace_next(cursor, &record, 1))
                if (keep_what_counts(&record) == channel) {
                    printf("%u %u %u %s ", i, process[thread[i].process].pid, thread[i].tid, channel ? "samples" : "calls");
                    print_record(&record);
                }
            trace_cursor_close(cursor);
        }
    require(!trace_info(trace)->is_cut, "whole");
    trace_close(trace);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "--make"))
        return make(argv[2], strtoull(argv[3], NULL, 10));
    if (argc == 3 && !strcmp(argv[1], "--print"))
        return print(argv[2]);
    return test();
}
