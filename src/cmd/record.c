#include "cmd/cmd.h"

#include "base/memory.h"
#include "record/record.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: probity record [OPTION]... [-p PID]... [-- CMD ARG...]\n"
    "\n"
    "Records what processes or a command do, as a trace directory that `probity report` reads: samples of whole stacks, calls of "
    "functions,\n"
    "other resources that they use, and when their threads run. 32- and 64-bit processes may be mixed. Ends when the processes end, after "
    "-d\n"
    "seconds, or at Ctrl-C, and always leaves the processes as they were; a command that still runs then is ended too.\n"
    "\n"
    "  -o DIR               the trace; probity.trace if it is not given. A trace that is there is replaced\n"
    "  -p, --pid PID        a running process; may be given several times\n"
    "  -d, --duration SECONDS  stop after so long\n"
    "  -F HZ                samples of each second of a thread's time; 999 if no calls, values or stacks are asked for, or with --climb\n"
    "      --clock cpu|wall sample threads while they use the processor, or also while they wait\n"
    "      --calls SPEC     record each call of these functions: MODULE:FUNCTION, FUNCTION in all modules, * for all; with globs; what "
    "-SPEC\n"
    "                       or !SPEC means is left out. May be given several times\n"
    "      --metric NAME=MODULE:FUNCTION:EXPRESSION  what a script's expression gives at the function's entry (MODULE:FUNCTION:return:...: "
    "at\n"
    "                       its returns) is charged, under that name, to the calls that are open, or to the stack where no calls are "
    "recorded;\n"
    "                       values above 0 count. NAME-=... gives back, NAME+=... takes values with their sign\n"
    "      --stacks-at SPEC record the stack at each call of MODULE:FUNCTION, or with :return at its returns\n"
    "      --codes LIST     record only these: call, sample, thread, or minor codes of them: call.enter, call.return, sample.timer,\n"
    "                       sample.off_cpu, sample.pc, sample.off_cpu_pc, sample.place, thread.switch; or all but those with a - before\n"
    "                       them. What is not selected is not probed, sampled or paid for\n"
    "      --stacks whole|none  what samples have: whole stacks, or the pc alone, which costs less\n"
    "      --climb[=SHARE]  besides, climb from hot spots to their causes, as `probity climb --threshold SHARE` does, in the one process "
    "or "
    "the\n"
    "                       command; the chains are a thread \"climb\" of the trace, under the metric climb\n"
    "      --hot samples|calls  with --climb: hot spots are where most samples are, or the functions that are called most\n"
    "      --live-tree      build the call trees while recording, and write only these\n"
    "      --memory BYTES   for the nodes and stacks of --live-tree (k, M, G may follow)\n"
    "      --traps          probe places that take nothing but a trap, too; see probity(1) for what that means to the processes\n"
    "      --follow         also record calls in what the processes and their children execute\n"
    "  -q                   print no summary\n"
    "  -v, --verbose        say more\n"
    "\n"
    "The exit code is that of CMD (128 + signal if it was killed), or one of those in probity(1).\n"
    "\n"
    "examples:\n"
    "  probity record -- sqlite3 db < script.sql\n"
    "  probity record -p 1234 -d 10 --clock wall\n"
    "  probity record --calls '*' --calls '-libc:*' -- ./program\n"
    "  probity record --climb -p 1234 -d 10 && probity report --metric climb probity.trace\n"
    "  probity record --calls 'libsqlite3:*' --metric bytes=libc:malloc:arg0 -- sqlite3 db 'select 1'\n";

struct recording {
    struct record_options options;
    VEC(pid_t) pid;
    VEC(struct spec) call;
    VEC(struct record_metric) metric;
    VEC(char *) owned;
    struct trace_codes codes;
    struct climb_options climb;
    bool has_hz, has_hot;
};

/* ---- options ---- */

static struct err *parse_pid(struct recording *recording, const char *text)
{
    pid_t pid;
    ERR_TRY(cmd_parse_pid(text, &pid));
    for (size_t i = 0; i < recording->pid.n; i++)
        if (recording->pid.at[i] == pid)
            return NULL;
    VEC_PUSH(&recording->pid, pid);
    return NULL;
}

static struct err *parse_hz(struct recording *recording, const char *text)
{
    enum { MOST = 100000 };
    char *end;
    unsigned long hz = strtoul(text, &end, 10);
    if (*end || end == text || hz > MOST || text[0] == '-')
        return err_new(ERR_USAGE, "-F: %s: not a number of samples a second from 0 to %d", text, MOST);
    recording->options.hz = (uint32_t)hz;
    recording->has_hz = true;
    return NULL;
}

static struct err *parse_bytes(const char *text, size_t *out)
{
    static const char units[] = "kMG";
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (errno || end == text || text[0] == '-' || (*end && (!unit || end[1])) || !value || value > SIZE_MAX >> 1 >> shift)
        return err_new(ERR_USAGE, "--memory: %s: not a number of bytes", text);
    *out = (size_t)value << shift;
    return NULL;
}

static struct err *parse_codes(struct recording *recording, const char *text)
{
    const char *wrong;
    recording->options.codes = &recording->codes;
    if (trace_codes_parse(text, &recording->codes, &wrong))
        return NULL;
    return err_new(ERR_USAGE, "--codes: %.*s: no such code; `probity record --help` lists them", (int)strcspn(wrong, ","), wrong);
}

/* A name without a module is looked for in all. */
static struct err *parse_call(struct recording *recording, const char *text)
{
    bool excludes = text[0] == '-' || text[0] == '!';
    const char *name = text + excludes;
    char *whole = strchr(name, ':') && strspn(name, ":") == 0 ? memory_text(name) : memory_format("*:%s", name);
    struct spec spec;
    struct err *error = spec_parse(whole, &spec);
    free(whole);
    if (error)
        return error;
    spec.excludes = excludes;
    if (spec.point != SPEC_ENTRY) {
        spec_deinit(&spec);
        return err_new(ERR_USAGE, "--calls: %s: it means functions: MODULE:FUNCTION or a pattern", text);
    }
    VEC_PUSH(&recording->call, spec);
    return NULL;
}

/* Where the next field of NAME=MODULE:FUNCTION:EXPRESSION begins; "::" belongs to a name. */
static char *next_field(char *text)
{
    for (char *at = text; (at = strchr(at, ':')); at += strspn(at, ":"))
        if (strspn(at, ":") % 2)
            return at;
    return NULL;
}

static struct err *parse_metric(struct recording *recording, const char *text)
{
    static const char at_return[] = "return:";
    char *copy = memory_text(text), *equals = strchr(copy, '=');
    VEC_PUSH(&recording->owned, copy);
    char *function = equals ? next_field(equals + 1) : NULL, *expression = function ? next_field(function + 1) : NULL;
    if (!equals || equals == copy || !expression || !expression[1])
        return err_new(ERR_USAGE, "--metric: %s: it is NAME=MODULE:FUNCTION:EXPRESSION, as in bytes=libc:malloc:arg0", text);
    enum record_sign sign = equals - copy < 2   ? RECORD_TAKES
                            : equals[-1] == '-' ? RECORD_GIVES
                            : equals[-1] == '+' ? RECORD_BOTH
                                                : RECORD_TAKES;
    equals[-(sign != RECORD_TAKES)] = 0;
    *equals = *expression++ = 0;
    bool is_return = !strncmp(expression, at_return, sizeof at_return - 1);
    if (is_return)
        expression += sizeof at_return - 1;
    char *probe = memory_format("%s:%s", is_return ? "uretprobe" : "uprobe", equals + 1);
    VEC_PUSH(&recording->owned, probe);
    VEC_PUSH(&recording->metric, (struct record_metric){copy, sign, probe, expression});
    return NULL;
}

static struct err *parse_stacks(struct recording *recording, const char *text)
{
    static const char at_return[] = ":return";
    size_t length = strlen(text), suffix = sizeof at_return - 1;
    bool is_return = length > suffix && !strcmp(text + length - suffix, at_return);
    char *copy = memory_text(text);
    VEC_PUSH(&recording->owned, copy);
    if (is_return)
        copy[length - suffix] = 0;
    if (!next_field(copy))
        return err_new(ERR_USAGE, "--stacks-at: %s: it is MODULE:FUNCTION or MODULE:FUNCTION:return", text);
    char *probe = memory_format("%s:%s", is_return ? "uretprobe" : "uprobe", copy);
    VEC_PUSH(&recording->owned, probe);
    VEC_PUSH(&recording->metric, (struct record_metric){.probe = probe});
    return NULL;
}

static struct err *parse_clock(struct recording *recording, const char *text)
{
    if (strcmp(text, "cpu") && strcmp(text, "wall"))
        return err_new(ERR_USAGE, "--clock: %s: it is cpu or wall", text);
    recording->options.is_wall = !strcmp(text, "wall");
    return NULL;
}

static struct err *parse_sampled(struct recording *recording, const char *text)
{
    if (strcmp(text, "whole") && strcmp(text, "none"))
        return err_new(ERR_USAGE, "--stacks: %s: it is whole or none", text);
    recording->options.is_pc_only = !strcmp(text, "none");
    return NULL;
}

static struct err *parse_climb(struct recording *recording, const char *share)
{
    recording->options.climb = &recording->climb;
    return share ? cmd_parse_percent(share, "--climb", &recording->climb.threshold) : NULL;
}

/* One process is climbed in. */
static struct err *check_climb(const struct recording *recording)
{
    if (recording->pid.n + (recording->options.command != NULL) != 1)
        return err_new(ERR_USAGE, "record: --climb climbs in one process: give one -p PID or a command, not several");
    if (!recording->options.hz)
        return err_new(ERR_USAGE, "record: --climb needs samples: -F 0 takes none");
    for (size_t i = 0; i < recording->metric.n; i++)
        if (recording->metric.at[i].name && !strcmp(recording->metric.at[i].name, "climb"))
            return err_new(ERR_USAGE, "record: --metric climb: that is the name of what --climb finds; give it another one");
    return NULL;
}

static struct err *parse_option(struct recording *recording, int option, bool *help)
{
    switch (option) {
    case 'o':
        recording->options.path = optarg;
        break;
    case 'p':
        return parse_pid(recording, optarg);
    case 'd':
        return cmd_parse_seconds(optarg, "--duration", &recording->options.duration_s);
    case 'F':
        return parse_hz(recording, optarg);
    case 'k':
        return parse_clock(recording, optarg);
    case 'c':
        return parse_call(recording, optarg);
    case 'm':
        return parse_metric(recording, optarg);
    case 's':
        return parse_stacks(recording, optarg);
    case 'C':
        return parse_codes(recording, optarg);
    case 'S':
        return parse_sampled(recording, optarg);
    case 'M':
        return parse_bytes(optarg, &recording->options.memory_bytes);
    case 'K':
        return parse_climb(recording, optarg);
    case 'H':
        recording->has_hot = true;
        return cmd_parse_hot(optarg, &recording->climb.hot);
    case 't':
        recording->options.live_tree = true;
        break;
    case 'f':
        recording->options.follow = true;
        break;
    case 'T':
        recording->options.traps = true;
        break;
    case 'q':
        recording->options.quiet = true;
        break;
    case 'v':
        recording->options.verbose = true;
        break;
    case 'h':
        *help = true;
        break;
    default:
        return err_new(ERR_USAGE, "record: no such option, or its value is missing; `probity record --help` has them all");
    }
    return NULL;
}

static struct err *parse(struct recording *recording, int argc, char **argv, bool *help)
{
    enum { USUAL_HZ = 999 };
    static const struct option options[] = {{"pid", required_argument, NULL, 'p'},
                                            {"duration", required_argument, NULL, 'd'},
                                            {"clock", required_argument, NULL, 'k'},
                                            {"calls", required_argument, NULL, 'c'},
                                            {"metric", required_argument, NULL, 'm'},
                                            {"memory", required_argument, NULL, 'M'},
                                            {"climb", optional_argument, NULL, 'K'},
                                            {"live-tree", no_argument, NULL, 't'},
                                            {"stacks-at", required_argument, NULL, 's'},
                                            {"follow", no_argument, NULL, 'f'},
                                            {"traps", no_argument, NULL, 'T'},
                                            {"verbose", no_argument, NULL, 'v'},
                                            {"codes", required_argument, NULL, 'C'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"stacks", required_argument, NULL, 'S'},
                                            {"hot", required_argument, NULL, 'H'},
                                            {NULL, 0, NULL, 0}};
    opterr = 0;
    ERR_TRY(cmd_split_command(&argc, argv, &recording->options.command));
    for (int option; !*help && (option = getopt_long(argc, argv, "+o:p:d:F:qvh", options, NULL)) != -1;)
        ERR_TRY(parse_option(recording, option, help));
    if (*help)
        return NULL;
    if (optind < argc)
        return err_new(ERR_USAGE, "record: %s: a command stands behind --", argv[optind]);
    if (!recording->options.command && !recording->pid.n)
        return err_new(ERR_USAGE, "record: which process? Give -p PID or -- CMD");
    if (!recording->has_hz && ((!recording->call.n && !recording->metric.n) || recording->options.climb))
        recording->options.hz = USUAL_HZ;
    if (recording->options.is_wall && !recording->options.hz)
        return err_new(ERR_USAGE, "record: --clock wall is of samples: give -F");
    if (recording->has_hot && !recording->options.climb)
        return err_new(ERR_USAGE, "record: --hot says what --climb climbs from: give --climb, too");
    return recording->options.climb ? check_climb(recording) : NULL;
}

/* ---- the summary ---- */

static void print_losses(const struct record_summary *summary)
{
    if (summary->lost_calls)
        fprintf(stderr, "probity: %llu calls or values were LOST\n", (unsigned long long)summary->lost_calls);
    if (summary->lost_stacks)
        fprintf(stderr, "probity: %llu stacks were LOST\n", (unsigned long long)summary->lost_stacks);
    if (summary->lost_samples)
        fprintf(stderr, "probity: %llu samples were LOST\n", (unsigned long long)summary->lost_samples);
    if (summary->lost_news)
        fprintf(stderr, "probity: %llu of the kernel's records of switches were lost: when threads ran is less exact\n",
                (unsigned long long)summary->lost_news);
    if (summary->refused_functions || summary->partial_functions)
        fprintf(stderr, "probity: %llu functions have probes; %llu have none, and %llu have exits without one; -v says which, and why\n",
                (unsigned long long)summary->functions, (unsigned long long)summary->refused_functions,
                (unsigned long long)summary->partial_functions);
    if (summary->trap_only)
        fprintf(stderr, "probity: %llu of these entries and exits take nothing but a trap, which --traps allows\n",
                (unsigned long long)summary->trap_only);
}

static void print_summary(const struct recording *recording, const struct record_summary *summary)
{
    fputs(isatty(STDERR_FILENO) ? "\rprobity: " : "probity: ", stderr);
    cmd_plain_string(stderr, recording->options.path);
    fprintf(stderr, ": %.3f s: %llu calls, %llu samples, %llu switches, ", (double)summary->duration_ns / 1e9,
            (unsigned long long)summary->calls, (unsigned long long)summary->samples, (unsigned long long)summary->switches);
    if (recording->metric.n)
        fprintf(stderr, "%llu values, ", (unsigned long long)summary->measures);
    fprintf(stderr, "%llu lost; %llu bytes\n", (unsigned long long)(summary->lost_calls + summary->lost_samples),
            (unsigned long long)summary->bytes);
    if (recording->options.climb) {
        fprintf(stderr, "probity: climb: %llu hot spots; functions hooked %u times, at most %u at a time; ",
                (unsigned long long)summary->hot_spots, summary->climb.hooked, summary->climb.hooks_most);
        if (recording->climb.hot == CLIMB_HOT_CALLS)
            fprintf(stderr, "calls counted of %u functions, at most %u at a time; ", summary->climb.counted, summary->climb.counting_most);
        fputs("`probity report --metric climb ", stderr);
        cmd_plain_string(stderr, recording->options.path);
        fputs("`\n", stderr);
    }
    if (recording->options.verbose)
        fprintf(stderr, "probity: %llu calls were left by a jump, %llu returns had no call, %llu stacks are cut\n",
                (unsigned long long)summary->left_calls, (unsigned long long)summary->odd_returns, (unsigned long long)summary->cut_stacks);
}

static void deinit(struct recording *recording)
{
    for (size_t i = 0; i < recording->call.n; i++)
        spec_deinit(&recording->call.at[i]);
    for (size_t i = 0; i < recording->owned.n; i++)
        free(recording->owned.at[i]);
    VEC_FREE(&recording->call);
    VEC_FREE(&recording->metric);
    VEC_FREE(&recording->owned);
    VEC_FREE(&recording->pid);
}

int cmd_record(int argc, char **argv)
{
    struct recording recording = {.options = {.path = "probity.trace", .messages = stderr}, .climb = climb_usual};
    struct record_summary summary = {0};
    bool help = false;
    drain_clock_read(&recording.options.clock);
    struct err *error = parse(&recording, argc, argv, &help);
    if (help)
        fputs(usage_text, stdout);
    if (!help && !error) {
        recording.options.pid = recording.pid.at;
        recording.options.n_pids = recording.pid.n;
        recording.options.call = recording.call.at;
        recording.options.n_calls = recording.call.n;
        recording.options.metric = recording.metric.at;
        recording.options.n_metrics = recording.metric.n;
        error = record_run(&recording.options, &summary);
        print_losses(&summary);
        if (!error && !recording.options.quiet)
            print_summary(&recording, &summary);
    }
    deinit(&recording);
    return error ? cmd_fail(error) : summary.exit_code;
}
