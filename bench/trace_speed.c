/* How fast call records go into a trace and come out of it: ns a record, and records a second.
 *
 *   trace_speed DIR [MILLIONS]     DIR is made, and removed */
#include "trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { FUNCTIONS = 1000, THREADS = 4, BATCH = 4096 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Of this thread, in seconds: the kernel's part, which is that of the files, is left out. */
static double own_time(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
}

static void check(struct err *error)
{
    if (!error)
        return;
    fprintf(stderr, "trace_speed: %s\n", error->message);
    exit(1);
}

static void define(struct trace_writer *writer)
{
    uint32_t process = trace_define_process(writer, 0, &(struct trace_process){.pid = 1, .parent = TRACE_NONE, .name = "p", .status = -1});
    for (uint32_t i = 0; i < THREADS; i++)
        trace_define_thread(writer, 0, &(struct trace_thread){.process = process, .tid = i, .name = "t"});
    for (int i = 0; i < FUNCTIONS; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        trace_define_function(writer, &(struct trace_function){.module = TRACE_NONE, .name = name});
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: trace_speed DIR [MILLIONS]\n");
        return 2;
    }
    size_t count = (argc > 2 ? strtoull(argv[2], NULL, 10) : 40) * 1000000 / BATCH;
    struct trace_writer *writer;
    check(trace_writer_create(argv[1], &(struct trace_about){.host = "h", .command = "c"}, &writer));
    define(writer);
    static struct trace_record records[BATCH];
    for (size_t i = 0; i < BATCH; i++)
        records[i] = (struct trace_record){.major = TRACE_CALL, .minor = (uint8_t)(1 + i % 2), .number = (uint32_t)(i / 2 * 7 % FUNCTIONS)};
    double start, writing = 0, before_own = own_time();
    uint64_t time_ns = 0, written = 0; /* the sum of their numbers */
    for (size_t batch = 0; batch < count; batch++) {
        for (size_t i = 0; i < BATCH; i++) {
            records[i].time_ns = time_ns += 30;
            written += records[i].number;
        }
        double before = now();
        for (size_t i = 0; i < BATCH; i++)
            trace_write(writer, batch % THREADS, &records[i]);
        writing += now() - before;
    }
    double own = own_time() - before_own;
    check(trace_writer_close(writer));
    double total = (double)count * BATCH;
    printf("write: %.1f ns a record, with the files %.1f\n", own * 1e9 / total, writing * 1e9 / total);

    struct trace *trace;
    start = now();
    check(trace_open(argv[1], &trace));
    uint64_t sum = 0, found = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        struct trace_cursor *cursor;
        check(trace_cursor_open(trace, i, &cursor));
        for (size_t got; (got = trace_next(cursor, records, BATCH)) > 0; found += got)
            for (size_t k = 0; k < got; k++)
                sum += records[k].number;
        trace_cursor_close(cursor);
    }
    double took = now() - start;
    printf("read: %.1f million records a second\n", (double)found / took / 1e6);
    /* The numbers are all there, and each what was written. */
    bool is_right = (double)found == total && !trace_info(trace)->is_cut && sum == written;
    trace_close(trace);
    check(trace_writer_create(argv[1], &(struct trace_about){0}, &writer));
    trace_writer_discard(writer);
    rmdir(argv[1]);
    return is_right ? 0 : 1;
}
