/* make DIR [METRIC UNIT]... <LINES: a trace of what make.h describes. The first metric given is number 0. */
#include "test/report/make.h"

int main(int argc, char **argv)
{
    char *text = NULL, chunk[4096];
    size_t bytes, n;
    FILE *all = open_memstream(&text, &bytes);
    while (all && (n = fread(chunk, 1, sizeof chunk, stdin)) > 0)
        fwrite(chunk, 1, n, all);
    if (argc < 2 || !all || fclose(all))
        return 2;
    struct trace_about about = {.host = "host", .command = "made up"};
    struct trace_metric metric[16] = {{NULL, NULL}};
    for (int i = 2, to = -1; i + 1 < argc && to < 14; i += 2, to++)
        *(to < 0 ? &about.metric : &metric[to]) = (struct trace_metric){argv[i], argv[i + 1]};
    about.has_switches = strstr(text, " in\n") || strstr(text, " out\n");
    struct err *error = make_trace(argv[1], text, about, metric);
    if (error)
        fprintf(stderr, "make: %s\n", error->message);
    free(text);
    return error ? 1 : 0;
}
