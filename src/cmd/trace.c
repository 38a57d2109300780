#include "cmd/cmd.h"

#include "live/live.h"
#include "stream/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: probity trace [OPTION]... -e PROGRAM [ARG]... [-- CMD ARG...]\n"
    "       probity trace [OPTION]... FILE [ARG]... [-- CMD ARG...]\n"
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
    "  -v, --verbose       say more\n"
    "      --lossless      a thread waits when there is no room for what it prints\n"
    "      --unsafe        allow system(), signal()\n"
    "\n"
    "The exit code is that of exit() in the script, of CMD, or one of those in probity(1).\n"
    "\n"
    "examples:\n"
    "  probity trace -e 'uprobe:libc:malloc { @[comm] = hist(arg0); }' -- ls -l\n"
    "  probity trace -p 1234 -e 'uprobe:libc:open* { printf(\"%s\\n\", str(arg0)); }'\n"
    "  probity trace -e 'uretprobe:bash:readline { printf(\"%s\\n\", str(retval)); }'\n";

struct tracing {
    struct live_options live;
    VEC(pid_t) pid;
    VEC(const char *) include_dir, include_file, argument;
    char *program; /* of -e */
    char *text;    /* of a file */
    char **words;  /* of -c */
    const char *out_path;
    bool dump;
};

/* ---- options ---- */

static struct err *read_script(struct tracing *tracing, const char *path)
{
    enum { LARGEST = 16 << 20 };
    int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (fd < 0)
        return err_errno(ERR_FILE, errno, "%s: open", path);
    size_t length = 0, room = 4096;
    tracing->text = memory_alloc(room);
    ssize_t got;
    while ((got = read(fd, tracing->text + length, room - length)) > 0) {
        length += (size_t)got;
        if (length == room && room < LARGEST) {
            char *larger = memory_alloc(room * 2);
            memcpy(larger, tracing->text, length);
            free(tracing->text);
            tracing->text = larger;
            room *= 2;
        }
    }
    int failed = errno;
    if (fd != STDIN_FILENO)
        close(fd);
    if (got < 0)
        return err_errno(ERR_FILE, failed, "%s: read", path);
    if (length == room)
        return err_new(ERR_FILE, "%s: larger than %d bytes", path, LARGEST);
    tracing->live.name = strcmp(path, "-") ? path : "stdin";
    tracing->live.text = tracing->text;
    tracing->live.length = length;
    return NULL;
}

static struct err *add_pid(struct tracing *tracing, const char *text)
{
    char *end;
    long pid = strtol(text, &end, 10);
    if (*end || end == text || pid <= 0 || pid > 0x7fffffff)
        return err_new(ERR_USAGE, "--pid: %s: not a process id", text);
    if (pid == getpid())
        return err_new(ERR_USAGE, "--pid: %s: that is probity itself", text);
    VEC_PUSH(&tracing->pid, (pid_t)pid);
    return NULL;
}

/* -c: words with quotes and backslashes as a shell has them, without anything else of it. */
static struct err *split_command(struct tracing *tracing, const char *text)
{
    char *copy = memory_alloc(strlen(text) + 1), *out = copy;
    VEC(char *) word = {0};
    char quote = 0;
    bool inside = false;
    for (const char *at = text; *at || inside; at++) {
        if (!*at || (!quote && (*at == ' ' || *at == '\t' || *at == '\n'))) {
            if (inside)
                *out++ = 0;
            inside = false;
            if (!*at)
                break;
            continue;
        }
        if (!inside)
            VEC_PUSH(&word, out);
        inside = true;
        if (*at == '\\' && quote != '\'' && at[1])
            *out++ = *++at;
        else if (quote ? *at == quote : *at == '\'' || *at == '"')
            quote = quote ? 0 : *at;
        else
            *out++ = *at;
    }
    if (quote || !word.n) {
        VEC_FREE(&word);
        free(copy);
        return err_new(ERR_USAGE, "-c: %s", quote ? "a quote is not closed" : "no command");
    }
    VEC_PUSH(&word, NULL);
    VEC_PUSH(&word, copy);
    tracing->words = word.at;
    tracing->live.command = word.at;
    return NULL;
}

static struct err *parse_option(struct tracing *tracing, int option, bool *help)
{
    switch (option) {
    case 'e':
        tracing->live.name = "stdin";
        tracing->live.text = optarg;
        tracing->live.length = strlen(optarg);
        break;
    case 'p':
        return add_pid(tracing, optarg);
    case 'c':
        return split_command(tracing, optarg);
    case 'f':
        tracing->live.json = !strcmp(optarg, "json");
        return strcmp(optarg, "json") && strcmp(optarg, "text") ? err_new(ERR_USAGE, "--format: %s: text or json", optarg) : NULL;
    case 'o':
        tracing->out_path = optarg;
        break;
    case 'I':
        VEC_PUSH(&tracing->include_dir, optarg);
        break;
    case 'i':
        VEC_PUSH(&tracing->include_file, optarg);
        break;
    case 'q':
        tracing->live.quiet = true;
        break;
    case 'v':
        tracing->live.verbose = true;
        break;
    case 'L':
        tracing->live.lossless = true;
        break;
    case 'u':
        tracing->live.unsafe = true;
        break;
    case 'h':
        *help = true;
        break;
    default:
        return err_new(ERR_USAGE, "trace: no such option, or its value is missing; `probity trace --help` has them all");
    }
    return NULL;
}

static struct err *parse(struct tracing *tracing, int argc, char **argv, bool *help)
{
    static const struct option options[] = {{"pid", required_argument, NULL, 'p'},     {"format", required_argument, NULL, 'f'},
                                            {"include", required_argument, NULL, 'i'}, {"verbose", no_argument, NULL, 'v'},
                                            {"lossless", no_argument, NULL, 'L'},      {"unsafe", no_argument, NULL, 'u'},
                                            {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    int own = argc;
    opterr = 0;
    for (int i = 1; i < argc && own == argc; i++)
        if (!strcmp(argv[i], "--"))
            own = i;
    if (own < argc) {
        argv[own] = NULL;
        tracing->live.command = argv + own + 1;
        if (own + 1 == argc)
            return err_new(ERR_USAGE, "trace: no command after --");
    }
    for (int option; !*help && (option = getopt_long(own, argv, "+e:p:c:f:o:I:qvh", options, NULL)) != -1;)
        ERR_TRY(parse_option(tracing, option, help));
    if (*help)
        return NULL;
    if (!tracing->live.text && optind < own)
        ERR_TRY(read_script(tracing, argv[optind++]));
    if (!tracing->live.text)
        return err_new(ERR_USAGE, "trace: which script? Give -e PROGRAM or FILE; `probity trace --help` has examples");
    for (; optind < own; optind++)
        VEC_PUSH(&tracing->argument, argv[optind]);
    return NULL;
}

static void hand_over_lists(struct tracing *tracing)
{
    tracing->live.pid = tracing->pid.at;
    tracing->live.n_pids = tracing->pid.n;
    tracing->live.arguments = tracing->argument.at;
    tracing->live.n_arguments = tracing->argument.n;
    tracing->live.include_dirs = tracing->include_dir.at;
    tracing->live.n_include_dirs = tracing->include_dir.n;
    tracing->live.include_files = tracing->include_file.at;
    tracing->live.n_include_files = tracing->include_file.n;
}

static void deinit(struct tracing *tracing)
{
    VEC_FREE(&tracing->pid);
    VEC_FREE(&tracing->argument);
    VEC_FREE(&tracing->include_dir);
    VEC_FREE(&tracing->include_file);
    if (tracing->words) {
        size_t count = 0;
        while (tracing->words[count])
            count++;
        free(tracing->words[count + 1]);
    }
    free(tracing->words);
    free(tracing->text);
}

/* ---- running ---- */

static int trace(struct tracing *tracing)
{
    struct live_script *script;
    char *diagnostics = NULL;
    hand_over_lists(tracing);
    struct err *error = live_script_create(&tracing->live, &script, &diagnostics);
    if (diagnostics)
        fputs(diagnostics, stderr);
    free(diagnostics);
    if (!script)
        return error ? cmd_fail(error) : ERR_USAGE;
    int code = 0;
    if (tracing->dump)
        stream_dump(script->built.stream, stdout);
    else
        error = live_run(script, &tracing->live, &code);
    live_script_destroy(script);
    return error ? cmd_fail(error) : code;
}

static int run(int argc, char **argv, bool dump)
{
    struct tracing tracing = {.dump = dump, .live = {.out = stdout}};
    drain_clock_read(&tracing.live.clock);
    bool help = false;
    struct err *error = parse(&tracing, argc, argv, &help);
    int code = 0;
    if (help)
        fputs(usage_text, stdout);
    else if (!error && tracing.out_path && !(tracing.live.out = fopen(tracing.out_path, "we")))
        error = err_errno(ERR_FILE, errno, "%s: open", tracing.out_path);
    else if (!error)
        code = trace(&tracing);
    if (tracing.live.out && tracing.live.out != stdout && fclose(tracing.live.out) && !error && !code)
        error = err_errno(ERR_FILE, errno, "%s: write", tracing.out_path);
    deinit(&tracing);
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
