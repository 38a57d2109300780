/* The program under the name `bpftrace`: what wrappers and scripts with `#!/usr/bin/env bpftrace` expect. What follows `--` is the
 * script's, not a command. Options that only concern the kernel are accepted and do nothing. */
#include "cmd/cmd.h"
#include "cmd/tracing.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static const char usage_text[] =
    "USAGE:\n"
    "    bpftrace [options] filename [-- arguments]\n"
    "    bpftrace [options] - <stdin input> [-- arguments]\n"
    "    bpftrace [options] -e 'program' [-- arguments]\n"
    "\n"
    "OPTIONS:\n"
    "    -B MODE        output buffering mode ('full', 'none', 'line')\n"
    "    -f FORMAT      output format ('text', 'json')\n"
    "    -o FILE        redirect what the script prints to FILE\n"
    "    -e 'program'   execute this program\n"
    "    -h, --help     show this help message\n"
    "    -I DIR         add the directory to the include search path\n"
    "    --include FILE add an #include file before preprocessing\n"
    "    -l [search]    list probes, with -v also their arguments\n"
    "    -p PID         trace this process; may be given several times\n"
    "    -c 'CMD'       run CMD and trace it\n"
    "    --usdt-file-activation\n"
    "                   accepted: semaphores are set in every traced process\n"
    "    --unsafe       allow unsafe functions\n"
    "    --raw          strings go to the terminal as they are, control characters too\n"
    "    -q             keep messages quiet\n"
    "    -v             verbose messages\n"
    "    -d STAGE       print 'ast' or 'codegen', 'all' for both, and end\n"
    "    -k             accepted: reads that fail are always reported\n"
    "    --no-warnings  disable all warning messages\n"
    "    --dry-run      check the script and what it matches, and end\n"
    "    -V, --version  version\n"
    "    --info         information about this system and program\n"
    "\n"
    "This is probity: processes are traced by jumps in their code, without the kernel. probity-trace(1) has more.\n";

/* -l without a pattern: functions and USDT probes are listed only of files that are named. */
static const char kinds_text[] = "BEGIN\nEND\ninterval:hz:\ninterval:ms:\ninterval:s:\ninterval:us:\nself:signal:SIGUSR1\n";

enum { OPTION_INFO = TRACING_OPTIONS, OPTION_NO_WARNINGS, OPTION_DRY_RUN, OPTION_IGNORED };

static const struct option options[] = {
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {"info", no_argument, NULL, OPTION_INFO},
    {"include", required_argument, NULL, TRACING_INCLUDE},
    {"unsafe", no_argument, NULL, TRACING_UNSAFE},
    {"no-warnings", no_argument, NULL, OPTION_NO_WARNINGS},
    {"raw", no_argument, NULL, TRACING_RAW},
    {"dialect", required_argument, NULL, TRACING_DIALECT},
    {"dry-run", no_argument, NULL, OPTION_DRY_RUN},
    {"usdt-file-activation", no_argument, NULL, OPTION_IGNORED},
    {"no-feature", required_argument, NULL, OPTION_IGNORED},
    {"btf", no_argument, NULL, OPTION_IGNORED},
    {NULL, 0, NULL, 0},
};

static void print_info(void)
{
    struct utsname system;
    uname(&system);
    printf("System\n  OS: %s %s %s\n  Arch: %s\n\nBuild\n  version: v0.26.0 (probity " CMD_VERSION ")\n"
           "  bpf: no\n  debug info (DWARF): yes\n\nProbe types\n  kprobe: no\n  tracepoint: no\n  uprobe: yes\n  uretprobe: yes\n"
           "  usdt: yes\n  interval: yes\n",
           system.sysname, system.release, system.version, system.machine);
}

/* -d, -dd and `-d STAGE[,STAGE...]`: the stage is the next word only if it is one. */
static void set_dump(struct tracing *tracing, int argc, char **argv)
{
    static const char *const stages[] = {"ast", "codegen", "codegen-opt", "dis", "libbpf", "verifier", "all"};
    const char *stage = optarg;
    size_t length = optind < argc ? strcspn(argv[optind], ",") : 0;
    for (size_t i = 0; !stage && i < sizeof stages / sizeof *stages && length; i++)
        if (strlen(stages[i]) == length && !strncmp(stages[i], argv[optind], length))
            stage = argv[optind++];
    bool both = !stage || !strcmp(stage, "d") || strstr(stage, "all");
    tracing->dumps_tree |= both || strstr(stage, "ast");
    tracing->dumps_stream |= both || strstr(stage, "codegen") || strstr(stage, "dis");
}

static struct err *set_buffering(const char *mode)
{
    if (strcmp(mode, "line") && strcmp(mode, "full") && strcmp(mode, "none"))
        return err_new(ERR_USAGE, "-B must be either 'line', 'full', or 'none'");
    setvbuf(stdout, NULL, *mode == 'l' ? _IOLBF : *mode == 'f' ? _IOFBF : _IONBF, BUFSIZ);
    return NULL;
}

static struct err *parse_option(struct tracing *tracing, int option, int argc, char **argv)
{
    switch (option) {
    case 'B':
        return set_buffering(optarg);
    case 'd':
        set_dump(tracing, argc, argv);
        break;
    case OPTION_NO_WARNINGS:
        tracing->live.no_warnings = true;
        break;
    case OPTION_DRY_RUN:
        tracing->live.dry_run = true;
        break;
    case 'k':
    case OPTION_IGNORED:
        break;
    default:
        return tracing_option(tracing, option, "no such option, or its value is missing: `bpftrace --help` has them all");
    }
    return NULL;
}

/* *ends: it was a question about the program, and is answered. */
static struct err *parse(struct tracing *tracing, int argc, char **argv, bool *ends)
{
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "B:f:e:hlp:vqc:Vo:I:kd::", options, NULL)) != -1;) {
        *ends = option == 'h' || option == 'V' || option == OPTION_INFO;
        if (option == 'h')
            fputs(usage_text, stdout);
        else if (option == 'V')
            puts("bpftrace v0.26.0 (probity " CMD_VERSION ")");
        else if (option == OPTION_INFO)
            print_info();
        if (*ends)
            return NULL;
        ERR_TRY(parse_option(tracing, option, argc, argv));
    }
    *ends = tracing->lists && !tracing->live.text && optind == argc;
    if (*ends)
        fputs(kinds_text, stdout);
    if (*ends)
        return NULL;
    if (tracing->lists && !tracing->live.text) {
        const char *word = argv[optind++];
        size_t length = strlen(word);
        if (length < 4 || strcmp(word + length - 3, ".bt"))
            tracing_set_pattern(tracing, word);
        else
            ERR_TRY(tracing_read_script(tracing, word));
    }
    if (!tracing->live.text && optind == argc)
        return err_new(ERR_USAGE, "no filename or -e 'program' specified: `bpftrace --help` has the options");
    if (!tracing->live.text)
        ERR_TRY(tracing_read_script(tracing, argv[optind++]));
    for (; optind < argc; optind++)
        VEC_PUSH(&tracing->argument, argv[optind]);
    return NULL;
}

int cmd_bpftrace(int argc, char **argv)
{
    struct tracing tracing = {.wrong_script = 1, .live = {.ignores_status = true}};
    bool ends = false;
    int code = 0;
    drain_clock_read(&tracing.live.clock);
    struct err *error = tracing_read_environment(&tracing);
    if (!error)
        error = parse(&tracing, argc, argv, &ends);
    if (!error && !ends)
        error = tracing_run(&tracing, &code);
    tracing_deinit(&tracing);
    if (!error)
        return code;
    fflush(stdout);
    fputs("ERROR: ", stderr);
    cmd_plain_string(stderr, error->message);
    fputc('\n', stderr);
    err_free(error);
    return 1;
}
