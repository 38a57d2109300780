#include "cmd/cmd.h"

#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} command[] = {
    {"list", cmd_list, "show the trace points that a specification means and how each would be probed"},
    {"count", cmd_count, "count hits of trace points in running processes or in a command"},
    {"trace", cmd_trace, "run a script in bpftrace's language against live processes"},
    {"compile", cmd_compile, "show what a script compiles to, for both data models"},
};

static void usage(FILE *out)
{
    fputs("usage: probity COMMAND [OPTION]... \n\n", out);
    for (size_t i = 0; i < sizeof command / sizeof command[0]; i++)
        fprintf(out, "  %-8s %s\n", command[i].name, command[i].summary);
    fputs("\n`probity COMMAND --help` has the options and examples of each; `man probity` the rest.\n", out);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return ERR_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        usage(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("probity 0.1");
        return 0;
    }
    for (size_t i = 0; i < sizeof command / sizeof command[0]; i++)
        if (!strcmp(argv[1], command[i].name))
            return cmd_finish(command[i].run(argc - 1, argv + 1));
    return cmd_fail(err_new(ERR_USAGE, "%s: no such command; `probity --help` lists them", argv[1]));
}
