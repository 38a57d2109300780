/* A trace that has only the trees that were built while recording is reported as the records it was made of (S4.4, S4.6). */
#include "report/report.h"
#include "test/report/make.h"

#include <unistd.h>

static int failures;
static char directory[] = "/tmp/report_live_tree.XXXXXX";

static const char lines[] = "0 1.1 enter lib!C\n1 1.1 enter A\n2 1.1 sample lib!C;A;m=m.c:3;n 5\n3 1.1 sample lib!C;A;m=m.c:4 7\n4 1.1 "
                            "enter A\n5 1.1 place:bytes - 9\n"
                            "6 1.1 return A\n7 1.1 return A\n8 1.1 return lib!C\n0 1.2 sample x;y 11\n3 1.2 enter B\n4 1.2 lost calls 2\n6 "
                            "1.2 return B\n7 1.2 sample x 3\n";
static const struct trace_metric metrics[] = {{"bytes", "bytes"}, {NULL, NULL}};

static void must(struct err *error)
{
    if (error) {
        puts(error->message);
        exit(1);
    }
}

/* What a recorder does with --live-tree: the same definitions, and of each thread its tree. */
static void write_trees(const char *from, const char *to)
{
    struct trace *trace;
    struct trace_writer *writer;
    must(make_trace(to, "", (struct trace_about){0}, metrics)); /* can be replaced */
    must(trace_open(from, &trace));
    must(trace_writer_create(to, &trace_info(trace)->about, &writer));
    size_t count;
    const struct trace_metric *metric = trace_metrics(trace, &count);
    for (size_t i = 1; i < count; i++)
        trace_define_metric(writer, &metric[i]);
    const struct trace_process *process = trace_processes(trace, &count);
    for (size_t i = 0; i < count; i++)
        trace_define_process(writer, process[i].start_ns, &process[i]);
    const struct trace_module *module = trace_modules(trace, &count);
    for (size_t i = 0; i < count; i++)
        trace_define_module(writer, &module[i]);
    const struct trace_function *function = trace_functions(trace, &count);
    for (size_t i = 0; i < count; i++)
        trace_define_function(writer, &function[i]);
    const struct trace_thread *thread = trace_threads(trace, &count);
    struct tree_source source = tree_source_of_trace(trace);
    struct tree_set *set = tree_set_create(&source, &(struct tree_options){0});
    must(tree_set_read(set, trace, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        trace_define_thread(writer, thread[i].start_ns, &thread[i]);
    for (size_t i = 0; i < tree_count(set); i++)
        tree_write(tree_at(set, i), writer, tree_thread(tree_at(set, i)));
    must(trace_writer_close(writer));
    tree_set_destroy(set);
    trace_close(trace);
}

static char *report(const char *path, const struct report_options *options)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    struct err *error = report_write(options, path, path, out, stdout);
    if (error)
        fprintf(out, "error: %s", error->message);
    err_free(error);
    fclose(out);
    return text;
}

static void compare(const char *records, const char *trees, struct report_options options, const char *what)
{
    options.program = "test";
    char *a = report(records, &options), *b = report(trees, &options);
    if (strcmp(a, b) || !*a || !strncmp(a, "error", 5)) {
        printf("%s differs; of records:\n%s\nof trees:\n%s\n", what, a, b);
        failures++;
    }
    free(a);
    free(b);
}

static void refuses(const char *trees, enum report_format format)
{
    char *text = report(trees, &(struct report_options){.format = format, .program = "test"});
    if (!strstr(text, "error: ") || !strstr(text, "no records")) {
        printf("format %d of trees is not refused: %s\n", (int)format, text);
        failures++;
    }
    free(text);
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    char *records = memory_format("%s/records", directory), *trees = memory_format("%s/trees", directory);
    must(make_trace(records, lines, (struct trace_about){0}, metrics));
    write_trees(records, trees);
    compare(records, trees, (struct report_options){.view = REPORT_TREE}, "tree");
    compare(records, trees, (struct report_options){.view = REPORT_MERGED}, "merged");
    compare(records, trees, (struct report_options){.view = REPORT_MERGED, .metric = "bytes"}, "merged by bytes");
    compare(records, trees, (struct report_options){.view = REPORT_FLAT, .data = REPORT_DATA_SAMPLES}, "flat of samples");
    compare(records, trees, (struct report_options){.view = REPORT_ARCFLOW}, "arcflow");
    compare(records, trees, (struct report_options){.format = REPORT_FOLDED}, "folded");
    compare(records, trees, (struct report_options){.format = REPORT_CALLGRIND}, "callgrind");
    refuses(trees, REPORT_SPEEDSCOPE);
    refuses(trees, REPORT_CHROME);
    char *samples = report(trees, &(struct report_options){.view = REPORT_SAMPLES});
    const char wanted[] =
        "No Samples Value Name\n 1       1    11 x;y\n 2       1     7 C;A;m\n 3       1     5 C;A;m;n\n 4       1     3 x\n";
    if (strncmp(samples, wanted, strlen(wanted))) {
        printf("samples of trees:\n%s", samples);
        failures++;
    }
    free(samples);
    char *command = memory_format("rm -rf '%s'", directory);
    failures += system(command) != 0;
    free(command);
    free(records);
    free(trees);
    return failures ? 1 : 0;
}
