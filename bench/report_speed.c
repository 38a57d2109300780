/* How quick a report is: report_speed DIR makes traces of one and of ten million calls and returns there, and reports the flat view of
 * each. One line for each with the time, the rate and the memory; then one that says whether ten million a second are reached and whether
 * memory grew with the tree only (both traces have nearly the same). */
#include "base/memory.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FUNCTIONS = 40, DEPTH = 5, CALLEES = 6 };

static void must(struct err *error)
{
    if (error) {
        fprintf(stderr, "report_speed: %s\n", error->message);
        exit(1);
    }
}

static uint64_t random_next(void)
{
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Calls to a depth of DEPTH, each routine with CALLEES others: the same tree however many there are. */
static void make_trace(const char *path, uint64_t records)
{
    struct trace_writer *writer;
    uint32_t function[FUNCTIONS], open[DEPTH];
    must(trace_writer_create(path, &(struct trace_about){.command = "report_speed"}, &writer));
    uint32_t process = trace_define_process(writer, 0, &(struct trace_process){.pid = 1, .parent = TRACE_NONE, .name = "made"});
    uint32_t thread = trace_define_thread(writer, 0, &(struct trace_thread){.process = process, .tid = 1, .name = "made"});
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        char name[16];
        snprintf(name, sizeof name, "function%u", (unsigned)i);
        function[i] = trace_define_function(writer, &(struct trace_function){.module = TRACE_NONE, .name = name});
    }
    size_t depth = 0;
    struct trace_record record = {.major = TRACE_CALL};
    for (uint64_t i = 0; i < records; i++) {
        uint64_t random = random_next();
        bool is_call = !depth || (depth < DEPTH && random >> 40 & 1);
        uint32_t caller = depth ? open[depth - 1] : 0;
        if (is_call)
            open[depth++] = (uint32_t)((caller * CALLEES + random % CALLEES) % FUNCTIONS);
        record.time_ns += 20 + random % 64;
        record.minor = is_call ? TRACE_ENTER : TRACE_RETURN;
        record.number = function[is_call ? open[depth - 1] : open[--depth]];
        trace_write(writer, thread, &record);
    }
    must(trace_writer_close(writer));
}

static void report(const char *path)
{
    FILE *out = fopen("/dev/null", "we");
    must(out ? NULL : err_new(ERR_SYSTEM, "/dev/null"));
    must(report_write(&(struct report_options){.view = REPORT_FLAT}, path, NULL, out, stderr));
    fclose(out);
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* In a process of its own, whose memory is then known. Returns its processor time in seconds, which other programs change little. */
static double measure(const char *path, long *kilobytes)
{
    pid_t child = fork();
    if (!child) {
        report(path);
        _exit(0);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status)
        must(err_new(ERR_SYSTEM, "the report fails"));
    *kilobytes = usage.ru_maxrss;
    return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

int main(int argc, char **argv)
{
    static const uint64_t records[] = {1000000, 10000000};
    double rate = 0;
    long kilobytes[2] = {0};
    for (size_t i = 0; i < 2; i++) {
        char *path = memory_format("%s.%zu", argc > 1 ? argv[1] : "build/bench/report_speed", i);
        make_trace(path, records[i]);
        double best = 1e9;
        for (size_t round = 0; round < 3; round++) {
            double seconds = measure(path, &kilobytes[i]);
            best = seconds < best ? seconds : best;
        }
        rate = (double)records[i] / best;
        printf("report of %8llu events: %6.3f s, %5.1f million events a second, %ld KB\n", (unsigned long long)records[i], best, rate / 1e6,
               kilobytes[i]);
        free(path);
    }
    bool is_quick = rate >= 1e7, is_flat = kilobytes[1] < kilobytes[0] + kilobytes[0] / 2;
    printf("report: %s 10 million events a second; memory grows with %s\n", is_quick ? "reads" : "does not read",
           is_flat ? "the tree only" : "the trace");
    return is_quick && is_flat ? 0 : 1;
}
