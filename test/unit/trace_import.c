/* What other programs wrote becomes the trace it means: each input is imported, and what the trace then holds is compared; bad input gives
 * an error at its line and column, and leaves no trace. */
#include "test/unit/trace_files.h"
#include "trace/import.h"
#include "trace/trace.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

static char *file, *directory;

/* ---- what a trace holds, as text ---- */

static void print_stack(FILE *out, const struct trace *trace, uint32_t number)
{
    size_t count;
    const struct trace_stack *stack = trace_stacks(trace, &count);
    const struct trace_frame *frame = &trace_frames(trace, &count)[stack[number].frame];
    const struct trace_function *function = &trace_functions(trace, &count)[frame->function];
    if (stack[number].parent != TRACE_NONE) {
        print_stack(out, trace, stack[number].parent);
        fputc(';', out);
    }
    fprintf(out, "%s%s", frame->is_inlined ? "~" : "", function->name);
    if (function->module != TRACE_NONE)
        fprintf(out, "@%s", trace_modules(trace, &count)[function->module].path);
    if (frame->file)
        fprintf(out, "(%s:%u)", frame->file, frame->line);
}

static void print_record(FILE *out, const struct trace *trace, uint32_t thread, const struct trace_record *record)
{
    size_t count;
    const struct trace_thread *of = &trace_threads(trace, &count)[thread];
    fprintf(out, "%" PRIu64 " %u.%u ", record->time_ns, trace_processes(trace, &count)[of->process].pid, of->tid);
    if (record->major == TRACE_CALL) {
        fprintf(out, "%s %s\n", record->minor == TRACE_ENTER ? "enter" : "return", trace_functions(trace, &count)[record->number].name);
        return;
    }
    const struct trace_metric *metric = &trace_metrics(trace, &count)[record->metric];
    if (record->number == TRACE_NONE) {
        fprintf(out, "use %" PRId64 " %s %s\n", (int64_t)record->value, metric->name, metric->unit);
        return;
    }
    fprintf(out, "sample ");
    print_stack(out, trace, record->number);
    fprintf(out, " = %" PRIu64 " %s %s\n", record->value, metric->name, metric->unit);
}

static char *dump(void)
{
    char *text = NULL;
    size_t size, threads;
    FILE *out = open_memstream(&text, &size);
    struct trace *trace;
    require_no(trace_open(directory, &trace));
    const struct trace_thread *thread = trace_threads(trace, &threads);
    for (uint32_t i = 0; i < threads; i++) {
        struct trace_cursor *cursor;
        struct trace_record record;
        if (thread[i].name[0] && thread[i].name[0] != '/')
            fprintf(out, "thread %s\n", thread[i].name);
        require_no(trace_cursor_open(trace, i, &cursor));
        while (trace_next(cursor, &record, 1))
            print_record(out, trace, i, &record);
        trace_cursor_close(cursor);
    }
    require(!trace_info(trace)->is_cut && trace_info(trace)->has_start, "the trace is whole");
    trace_close(trace);
    fclose(out);
    return text;
}

/* ---- cases ---- */

struct import_case {
    const char *name;
    struct trace_import_options options;
    const char *input;
    const char *output; /* what the trace holds; or NULL: ... */
    const char *error;  /* ... what the error says */
};

static const struct import_case cases[] = {
    {"calls and samples of two threads, comments, blank lines, no newline at the end",
     {.format = TRACE_FROM_EVENTS},
     "# a comment\n\n0 1.1 enter main\n  1\t1.1\tenter operator new(unsigned long)  \r\n1 7.8 sample a;b c;d\n2 1.1 return operator "
     "new(unsigned long)\n"
     "2 1.1 sample main\n3 1.1 return main",
     "0 1.1 enter main\n1 1.1 enter operator new(unsigned long)\n2 1.1 return operator new(unsigned long)\n2 1.1 sample main = 1 time "
     "units\n"
     "3 1.1 return main\n1 7.8 sample a;b c;d = 1 time units\n",
     NULL},
    {"decimals are kept where the unit has room for them",
     {.format = TRACE_FROM_EVENTS, .unit_ns = 1000000, .period = "2.5"},
     "1.5 1.1 enter f\n1.5000010 1.1 sample f\n2 1.1 return f\n",
     "1500000 1.1 enter f\n1500001 1.1 sample f = 2500000 time ns\n2000000 1.1 return f\n",
     NULL},
    {"times that go back are raised",
     {.format = TRACE_FROM_EVENTS},
     "5 1.1 enter f\n3 1.1 return f\n",
     "5 1.1 enter f\n5 1.1 return f\n",
     NULL},
    {"no time", {.format = TRACE_FROM_EVENTS}, "0 1.1 enter f\nx 1.1 enter f\n", NULL, ":2:1: the time is missing"},
    {"no thread", {.format = TRACE_FROM_EVENTS}, "0 1 enter f\n", NULL, ":1:4: a dot is missing in PID.TID"},
    {"no blank", {.format = TRACE_FROM_EVENTS}, "0 1.1enter f\n", NULL, ":1:6: a blank is missing after PID.TID"},
    {"another verb", {.format = TRACE_FROM_EVENTS}, "0 1.1 entered f\n", NULL, ":1:7: this is none of enter, return, sample, use"},
    {"what is used and given back",
     {.format = TRACE_FROM_EVENTS},
     "0 1.1 enter f\n1 1.1 use bytes 4096\n2 1.1 use files 1\n3 1.1 use bytes -9223372036854775807\n4 1.1 return f\n",
     "0 1.1 enter f\n1 1.1 use 4096 bytes bytes\n2 1.1 use 1 files files\n3 1.1 use -9223372036854775807 bytes bytes\n4 1.1 return f\n",
     NULL},
    {"no amount", {.format = TRACE_FROM_EVENTS}, "0 1.1 use bytes\n", NULL, ":1:16: an amount is missing"},
    {"an amount that is none", {.format = TRACE_FROM_EVENTS}, "0 1.1 use bytes -x\n", NULL, ":1:18: the amount is missing"},
    {"an amount with a fraction", {.format = TRACE_FROM_EVENTS}, "0 1.1 use bytes 1.5\n", NULL, ":1:18: the amount is a whole number"},
    {"a large amount", {.format = TRACE_FROM_EVENTS}, "0 1.1 use bytes 9223372036854775808\n", NULL, ":1:17: the amount is too large"},
    {"no name", {.format = TRACE_FROM_EVENTS}, "0 1.1 enter  \n", NULL, ":1:12: a name is missing"},
    {"no name in a stack", {.format = TRACE_FROM_EVENTS}, "0 1.1 sample a;;b\n", NULL, ":1:16: a name is missing"},
    {"no name at a stack's end", {.format = TRACE_FROM_EVENTS}, "0 1.1 sample a;\n", NULL, ":1:16: a name is missing"},
    {"a large time",
     {.format = TRACE_FROM_EVENTS, .unit_ns = 1000000000},
     "99999999999 1.1 enter f\n",
     NULL,
     ":1:1: the time is too large"},
    {"a large process", {.format = TRACE_FROM_EVENTS}, "1 4294967296.1 enter f\n", NULL, ":1:3: the process (PID.TID) is too large"},
    {"nothing", {.format = TRACE_FROM_EVENTS}, "# nothing\n", NULL, "holds nothing to import"},
    {"no period", {.format = TRACE_FROM_EVENTS, .period = "0"}, "0 1.1 enter f\n", NULL, "0: no period"},
    {"folded stacks",
     {.format = TRACE_FROM_FOLDED},
     "main;a b;c 2\nmain 1\n",
     "0 0.0 sample main;a b;c = 1 samples samples\n1 0.0 sample main;a b;c = 1 samples samples\n2 0.0 sample main = 1 samples samples\n",
     NULL},
    {"folded weights",
     {.format = TRACE_FROM_FOLDED, .has_weights = true},
     "main;a 5000000000\nmain 1\nmain;b 0\n",
     "0 0.0 sample main;a = 5000000000 weight units\n1 0.0 sample main = 1 weight units\n2 0.0 sample main;b = 0 weight units\n",
     NULL},
    {"folded without a count", {.format = TRACE_FROM_FOLDED}, "main;a\n", NULL, ":1:1: this is not NAME;NAME... COUNT"},
    {"folded with a fraction", {.format = TRACE_FROM_FOLDED}, "main;a 1.5\n", NULL, ":1:9: the count is no whole number"},
    {"folded with too much", {.format = TRACE_FROM_FOLDED}, "main;a 500000000\n", NULL, "--weights"},
    {"perf script: chains, sources, inlined frames, blanks in names",
     {.format = TRACE_FROM_PERF_SCRIPT},
     "# header\n"
     "a b 29779 24419.678370:    5000000 cpu-clock:u: \n"
     "\t            14ea std::sort<int, long>+0xaa (inlined)\n"
     "\t            14ea main+0xaa (/tmp/a b)\n"
     "  a.cc:8\n"
     "\t    7ffff7c27249 [unknown] (/usr/lib/libc.so.6 (deleted))\n"
     "\tffffffffffffffff [unknown] ([unknown])\n"
     "\n"
     "       other   12/13    [001] 24419.700000001: cpu-clock:u:      7f0c4fc06b70 operator new(unsigned long)+0x0 (/usr/lib/ld.so)\n"
     "       perf-exec     0     0.000000: PERF_RECORD_COMM: perf-exec:29883/29883\n"
     "renamed 29779 24419.800000:          7 page-faults:u: \n"
     "\t    1234 inner+0x1\n"
     "  x.h:3 (inlined)\n"
     "\t    1234 outer+0x1 (/tmp/a b)\n"
     "\n"
     "renamed 29779 24419.900000:          1 cpu-clock:u: \n"
     "\n",
     "thread renamed\n"
     "24419678370000 29779.29779 sample [unknown];[libc.so.6 (deleted)]@/usr/lib/libc.so.6 (deleted);main@/tmp/a b(a.cc:8);~std::sort<int, "
     "long>@/tmp/a b = 5000000 time ns\n"
     "24419800000000 29779.29779 sample outer@/tmp/a b;~inner@/tmp/a b(x.h:3) = 7 page-faults:u events\n"
     "24419900000000 29779.29779 sample [unknown] = 1 time ns\n"
     "thread other\n"
     "24419700000001 12.13 sample operator new(unsigned long)@/usr/lib/ld.so = 1 time ns\n",
     NULL},
    {"perf script: what counts first is what is counted",
     {.format = TRACE_FROM_PERF_SCRIPT},
     "x 1 1.000000: 100 cycles: 1234 f+0x1 (/x)\nx 1 2.000000: 100 cpu-clock: 1234 f+0x1 (/x)\n",
     "thread x\n1000000000 1.1 sample f@/x = 100 cycles events\n2000000000 1.1 sample f@/x = 100 time ns\n",
     NULL},
    {"perf script: something else", {.format = TRACE_FROM_PERF_SCRIPT}, "once upon a time\n", NULL, ":1:1: this is not COMM PID/TID TIME:"},
    {"perf script: no event",
     {.format = TRACE_FROM_PERF_SCRIPT},
     "x 1 1.000000: 100\n",
     NULL,
     ":1:15: the event's name and a colon are missing"},
};

static void write_input(const char *text, size_t size)
{
    FILE *out = fopen(file, "we");
    require(out && fwrite(text, 1, size, out) == size && !fclose(out), "the input is written");
}

static bool is_directory(void)
{
    struct stat status;
    return !stat(directory, &status);
}

static void run_case(const struct import_case *test)
{
    struct trace_imported imported;
    write_input(test->input, strlen(test->input));
    struct err *error = trace_import(file, &test->options, directory, &imported);
    if (!test->output) {
        if (!error || !strstr(error->message, test->error) || is_directory()) {
            fprintf(stderr, "FAIL: %s: %s\n", test->name, error ? error->message : "no error");
            exit(1);
        }
        err_free(error);
        return;
    }
    if (error) {
        fprintf(stderr, "FAIL: %s: %s\n", test->name, error->message);
        exit(1);
    }
    char *found = dump();
    if (strcmp(found, test->output)) {
        fprintf(stderr, "FAIL: %s:\n%sinstead of\n%s", test->name, found, test->output);
        exit(1);
    }
    free(found);
    remove_directory(directory);
}

/* Lines that are longer than what is read at once, binary input, an input that never ends a line. */
static void odd_input(void)
{
    struct trace_imported imported;
    struct trace_import_options folded = {.format = TRACE_FROM_FOLDED};
    size_t room = 3 << 20;
    char *text = memory_alloc(room);
    memset(text, 'a', room);
    memcpy(text + 500000, " 1\nb 1\n", 7);
    write_input(text, 500007);
    require_no(trace_import(file, &folded, directory, &imported));
    require(imported.samples == 2 && imported.lines == 2, "a long line");
    remove_directory(directory);
    memset(text, 'a', room);
    write_input(text, room);
    struct err *error = trace_import(file, &folded, directory, &imported);
    require(error && error->code == ERR_FILE && strstr(error->message, "longer than"), "a line without an end");
    err_free(error);
    memset(text, ';', 300000);
    for (size_t i = 0; i < 300000; i += 2)
        text[i] = 'f';
    memcpy(text + 299999, " 1\n", 3);
    write_input(text, 300002);
    error = trace_import(file, &folded, directory, &imported);
    require(error && strstr(error->message, "more than 65536 names"), "a deep stack");
    err_free(error);
    write_input("a\0b 1\n", 6);
    error = trace_import(file, &folded, directory, &imported);
    require(error && strstr(error->message, ":1:2: there is a zero byte"), "binary input");
    err_free(error);
    error = trace_import("/nonexistent/file", &folded, directory, &imported);
    require(error && error->code == ERR_FILE, "no file");
    err_free(error);
    error = trace_import("/", &folded, directory, &imported);
    require(error && error->code == ERR_FILE, "a directory");
    err_free(error);
    require(!is_directory(), "nothing is left");
    free(text);
}

int main(void)
{
    char *base = temporary_directory();
    file = memory_format("%s/input", base);
    directory = memory_format("%s/trace", base);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i]);
    odd_input();
    remove_directory(base);
    free(file);
    free(directory);
    free(base);
    printf("%zu cases\n", sizeof cases / sizeof *cases);
    return 0;
}
