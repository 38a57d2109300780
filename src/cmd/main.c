#include "cmd/cmd.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} command[] = {
    {"list", cmd_list, "show the trace points that a specification means and how each would be probed"},
    {"count", cmd_count, "count hits of trace points in running processes or in a command"},
    {"trace", cmd_trace, "run a script in bpftrace's language against live processes"},
    {"record", cmd_record, "record calls, samples and other resources of processes as a trace"},
    {"climb", cmd_climb, "find hot spots of a process and climb to their causes, with few hooks"},
    {"compile", cmd_compile, "show what a script compiles to, for both data models"},
    {"report", cmd_report, "show a recorded trace: trees, profiles, files of other programs' formats"},
    {"browse", cmd_browse, "look through a recorded trace on the terminal"},
    {"import", cmd_import, "make a trace of what another program wrote: events, folded stacks, perf script"},
};

static void usage(FILE *out)
{
    fputs("usage: probity COMMAND [OPTION]... \n\n", out);
    for (size_t i = 0; i < sizeof command / sizeof command[0]; i++)
        fprintf(out, "  %-8s %s\n", command[i].name, command[i].summary);
    fputs("\n`probity COMMAND --help` has the options and examples of each; `man probity` the rest.\n", out);
}

static bool is_called(const char *argv0, const char *name)
{
    const char *slash = argv0 ? strrchr(argv0, '/') : NULL;
    return argv0 && !strcmp(slash ? slash + 1 : argv0, name);
}

/* Who starts us without one of these would have the next file we open, a traced process's memory for one, take its place. Using them still
 * fails, and a command that we start has them closed as it would alone. */
static void occupy_standard_descriptors(void)
{
    int fd;
    while ((fd = open("/dev/null", O_PATH | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    occupy_standard_descriptors();
    if (is_called(argv[0], "bpftrace"))
        return cmd_finish(cmd_bpftrace(argc, argv));
    if (argc < 2) {
        usage(stderr);
        return ERR_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        usage(stdout);
        return cmd_finish(0);
    }
    if (!strcmp(argv[1], "--version")) {
        puts("probity " CMD_VERSION);
        return cmd_finish(0);
    }
    for (size_t i = 0; i < sizeof command / sizeof command[0]; i++)
        if (!strcmp(argv[1], command[i].name))
            return cmd_finish(command[i].run(argc - 1, argv + 1));
    return cmd_fail(err_new(ERR_USAGE, "%s: no such command; `probity --help` lists them", argv[1]));
}
