/* Random text, imported. Build with -fsanitize=address,undefined.
 *
 *   trace_import [--runs N] [--seed S]
 *
 * Besides what the sanitizers see, a run fails when what was imported is not a whole trace with as many records as were counted. */
#include "test/unit/trace_files.h"
#include "trace/import.h"
#include "trace/trace.h"

#include <string.h>

static uint64_t state = 1;

static size_t below(size_t limit) /* xorshift64* */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (size_t)(state * 0x2545f4914f6cdd1d >> 33) % limit;
}

static const char *const any_parts[] = {
    " ", "  ", "\t", "\n", "\r\n", "\n\n", "0",    "1",     "17",     "4294967295", "99999999999999999999",
    ".", ":",  ";",  "/",  "\0",   "f",    "main", "a b",   "\xff",   "(",          ")",
    "[", "]",  "#",  "-",  "+0x",  "0x12", "??:0", "enter", "return", "sample"};
static const char *const event_parts[] = {"\n0 1.1 enter f", "\n1 1.1 return f\n", "\n2.5 1.2 sample a;b;c", "\n3 7.7 sample f", " 1.1 ",
                                          "enter "};
static const char *const folded_parts[] = {"\nmain;a;b 3", "\nmain 1\n", ";c", " 2", "\na b;c d 1"};
static const char *const perf_parts[] = {"\nx y 12/13 [001] 24419.678370:    5000 cpu-clock:u: \n",
                                         "\n  z 12 1.000000: cycles:u:   1234 f+0x1 (/x)\n",
                                         "\t 14ea main+0xaa (/tmp/a b)\n",
                                         "\t 14ea g<int>+0xaa (inlined)\n",
                                         "\t 14ea h\n  x.h:3 (inlined)\n",
                                         "  a.cc:8\n",
                                         "\tffffffff [unknown] ([unknown])\n",
                                         "\n\n",
                                         "\nx 1 1.0: PERF_RECORD_COMM: x\n"};

static size_t random_input(enum trace_format format, char *text, size_t room)
{
    static const struct {
        const char *const *at;
        size_t count;
    } parts[] = {{event_parts, sizeof event_parts / sizeof *event_parts},
                 {folded_parts, sizeof folded_parts / sizeof *folded_parts},
                 {perf_parts, sizeof perf_parts / sizeof *perf_parts}};
    size_t size = 0, noise = 1 + below(40);
    for (size_t left = 1 + below(25); left > 0; left--) {
        bool is_any = below(noise) == 0;
        const char *part = is_any ? any_parts[below(sizeof any_parts / sizeof *any_parts)] : parts[format].at[below(parts[format].count)];
        size_t length = *part ? strlen(part) : 1;
        if (size + length >= room)
            break;
        memcpy(text + size, part, length);
        size += length;
    }
    for (size_t flips = below(noise) == 0 ? 1 + below(3) : 0; flips > 0 && size; flips--)
        text[below(size)] = (char)below(256);
    return size;
}

static uint64_t count_records(const char *directory)
{
    struct trace *trace;
    size_t threads;
    uint64_t total = 0;
    require_no(trace_open(directory, &trace));
    trace_threads(trace, &threads);
    for (uint32_t i = 0; i < threads; i++) {
        struct trace_cursor *cursor;
        struct trace_record records[16];
        require_no(trace_cursor_open(trace, i, &cursor));
        for (size_t got; (got = trace_next(cursor, records, 16)) > 0;)
            total += got;
        trace_cursor_close(cursor);
    }
    require(!trace_info(trace)->is_cut, "what was imported is whole");
    trace_close(trace);
    return total;
}

int main(int argc, char **argv)
{
    uint64_t runs = 10000, imported = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--runs") == 0)
            runs = strtoull(argv[i + 1], NULL, 0);
        else if (strcmp(argv[i], "--seed") == 0)
            state = strtoull(argv[i + 1], NULL, 0) * 0x9e3779b97f4a7c15 + 1;
    }
    char *base = temporary_directory();
    char *file = memory_format("%s/input", base), *directory = memory_format("%s/trace", base);
    for (uint64_t run = 0; run < runs; run++) {
        char text[4096];
        struct trace_import_options options = {.format = (enum trace_format)below(3)};
        options.unit_ns = options.format == TRACE_FROM_EVENTS && below(2) ? 1000 : 0;
        options.has_weights = options.format == TRACE_FROM_FOLDED; /* a number in the millions would be so many records */
        size_t size = random_input(options.format, text, sizeof text);
        FILE *out = fopen(file, "we");
        require(out && fwrite(text, 1, size, out) == size && !fclose(out), "the input is written");
        struct trace_imported count;
        struct err *error = trace_import(file, &options, directory, &count);
        if (error) {
            require(error->code == ERR_FILE, error->message);
            err_free(error);
            continue;
        }
        require(count_records(directory) == count.calls + count.samples, "all is there that was counted");
        imported++;
        if (below(2))
            remove_directory(directory);
    }
    remove_directory(directory);
    remove_directory(base);
    free(file);
    free(directory);
    free(base);
    printf("%llu runs, %llu imported\n", (unsigned long long)runs, (unsigned long long)imported);
    return 0;
}
