#include "cmd/cmd.h"

#include "cmd/tracing.h"

#include <getopt.h>
#include <string.h>

static const char usage_text[] =
    "usage: probity trace [OPTION]... -e PROGRAM [ARG]... [-- CMD ARG...]\n"
    "       probity trace [OPTION]... FILE [ARG]... [-- CMD ARG...]\n"
    "       probity trace -l [-v] PATTERN\n"
    "\n"
    "Runs a script in bpftrace's language against live processes: those given by -p, a command, or every process that maps a file of the\n"
    "script. 32- and 64-bit processes may be mixed.\n"
    "\n"
    "  -e PROGRAM          the script\n"
    "  -p, --pid PID       a running process; may be given several times\n"
    "  -c CMD              a command, as one text\n"
    "  -f, --format FORMAT text or json\n"
    "  -o FILE             print to FILE\n"
    "  -I DIR              look for included files in DIR\n"
    "      --include FILE  as if the script included it\n"
    "  -q                  print nothing but what the script prints\n"
    "  -v, --verbose       say more; with -l: the functions' parameters\n"
    "  -l                  list the places that PATTERN, or the script, means\n"
    "  -d                  print the checked tree and what it compiles to, and end\n"
    "      --dialect 0.17  print as that version of bpftrace does, not as 0.26\n"
    "      --follow        also trace what the processes and their children execute\n"
    "      --traps         probe places that take nothing but a trap, too; see probity(1) for what that means to the processes\n"
    "      --lossless      a thread waits when there is no room for what it prints\n"
    "      --unsafe        allow system(), signal()\n"
    "      --raw           strings of processes go to a terminal as they are; else their control characters are shown as \\xNN\n"
    "\n"
    "The exit code is that of exit() in the script, of CMD, or one of those in probity(1).\n"
    "\n"
    "examples:\n"
    "  probity trace -e 'uprobe:libc:malloc { @[comm] = hist(arg0); }' -- ls -l\n"
    "  probity trace -p 1234 -e 'uprobe:libc:open* { printf(\"%s\\n\", str(arg0)); }'\n"
    "  probity trace -e 'uretprobe:bash:readline { printf(\"%s\\n\", str(retval)); }'\n";

static const char compile_usage_text[] =
    "usage: probity compile [-d] [-I DIR] [--include FILE] -e PROGRAM | FILE [ARG]...\n"
    "\n"
    "Shows what a script for `probity trace` compiles to, for 64- and 32-bit processes. No process is touched.\n"
    "\n"
    "  -e PROGRAM          the script\n"
    "  -d                  print the checked tree first\n"
    "  -I DIR              look for included files in DIR\n"
    "      --include FILE  as if the script included it\n"
    "\n"
    "examples:\n"
    "  probity compile -e 'uprobe:libc:malloc { @[comm] = hist(arg0); }'\n"
    "  probity compile -d script.bt\n";

static struct err *parse_option(struct tracing *tracing, int option, bool *help)
{
    switch (option) {
    case 'd':
        tracing->dumps_tree = tracing->dumps_stream = true;
        break;
    case 'F':
        tracing->live.follow = true;
        break;
    case 'L':
        tracing->live.lossless = true;
        break;
    case 'T':
        tracing->live.traps = true;
        break;
    case 'h':
        *help = true;
        break;
    default:
        return tracing_option(tracing, option, "trace: no such option, or its value is missing; `probity trace --help` has them all");
    }
    return NULL;
}

static struct err *parse(struct tracing *tracing, int argc, char **argv, bool *help)
{
    static const struct option options[] = {{"pid", required_argument, NULL, 'p'},
                                            {"format", required_argument, NULL, 'f'},
                                            {"include", required_argument, NULL, TRACING_INCLUDE},
                                            {"verbose", no_argument, NULL, 'v'},
                                            {"follow", no_argument, NULL, 'F'},
                                            {"traps", no_argument, NULL, 'T'},
                                            {"lossless", no_argument, NULL, 'L'},
                                            {"unsafe", no_argument, NULL, TRACING_UNSAFE},
                                            {"raw", no_argument, NULL, TRACING_RAW},
                                            {"dialect", required_argument, NULL, TRACING_DIALECT},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    opterr = 0;
    ERR_TRY(cmd_split_command(&argc, argv, &tracing->live.command));
    for (int option; !*help && (option = getopt_long(argc, argv, "+e:p:c:f:o:I:ldqvh", options, NULL)) != -1;)
        ERR_TRY(parse_option(tracing, option, help));
    if (*help)
        return NULL;
    if (!tracing->live.text && optind < argc && tracing->lists)
        tracing_set_pattern(tracing, argv[optind++]);
    else if (!tracing->live.text && optind < argc)
        ERR_TRY(tracing_read_script(tracing, argv[optind++]));
    if (!tracing->live.text)
        return err_new(ERR_USAGE, "trace: which script? Give -e PROGRAM or FILE; `probity trace --help` has examples");
    for (; optind < argc; optind++)
        VEC_PUSH(&tracing->argument, argv[optind]);
    return NULL;
}

static int run(int argc, char **argv, bool dumps)
{
    struct tracing tracing = {.dumps_stream = dumps, .wrong_script = ERR_USAGE};
    bool help = false;
    int code = 0;
    drain_clock_read(&tracing.live.clock);
    struct err *error = tracing_read_environment(&tracing);
    if (!error)
        error = parse(&tracing, argc, argv, &help);
    if (help)
        fputs(dumps ? compile_usage_text : usage_text, stdout);
    else if (!error)
        error = tracing_run(&tracing, &code);
    tracing_deinit(&tracing);
    return error ? cmd_fail(error) : code;
}

int cmd_trace(int argc, char **argv)
{
    return run(argc, argv, false);
}

int cmd_compile(int argc, char **argv)
{
    return run(argc, argv, true);
}
