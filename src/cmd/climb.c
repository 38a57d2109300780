#include "cmd/cmd.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "climb/alone.h"
#include "cmd/climb_print.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: probity climb [-p PID | -- CMD ARG...] [--hot samples|calls] [--threshold SHARE] [--top N] [--period CALLS|TIME] [--hooks MAX] "
    "[-d SECONDS] [--json]\n"
    "\n"
    "Finds the hot spots of a running process by sampling, and climbs from each to its causes: its callers, their callers, up to main or\n"
    "the start of the thread. Few functions are hooked at any time, each only for a short while, so the process hardly notices. Ends when\n"
    "the process ends or executes another program, after -d seconds, or at Ctrl-C, and leaves the process as it was; a command that still "
    "runs then is ended too.\n"
    "\n"
    "  -p, --pid PID           the process\n"
    "      --hot WHAT          hot spots are where most samples are (samples, the default), or the functions that are called most (calls)\n"
    "      --threshold SHARE   what makes a hot spot, and what a caller must account for to be climbed, in percent of the samples, or "
    "with\n"
    "                          --hot calls of the calls: 2%\n"
    "      --top N             hot spots when no function has that share: 5\n"
    "      --period P          how long a function is measured: calls (2000), or a time (500ms), whatever comes first; may be given "
    "twice;\n"
    "                          short calls are measured up to four times as often\n"
    "      --hooks MAX         functions hooked at a time: 16\n"
    "  -F, --frequency HZ      samples a second of processor time: 127\n"
    "  -d, --duration SECONDS  stop after so long\n"
    "      --min SHARE         leave chains out that account for less of a hot spot's time: 1%\n"
    "      --metric WHAT       what to climb for: cpu (default), wall (waiting counts too), calls (callers by how often they call;\n"
    "                          the default with --hot calls),\n"
    "                          or an argument of calls of a function: bytes=libc:malloc:arg0\n"
    "  -o, --output DIR        write the chains as a trace for `probity report` as well\n"
    "  -j, --json              everything that was learnt, as one JSON object\n"
    "  -q, --quiet             no lines on how it stands\n"
    "\n"
    "Columns: share of the hot spot's time (of its calls with --metric calls), calls that were measured, their wall time, share of the "
    "processor's time spent in them.\n"
    "\n"
    "examples:\n"
    "  probity climb -p 1234 -d 10\n"
    "  probity climb --hot calls -p 1234 -d 10\n"
    "  probity climb --metric bytes=libc:malloc:arg0 -p 1234 -d 10\n"
    "  probity climb --threshold 5% -- sqlite3 test.db 'select count(*) from t a, t b'\n";

struct climbing {
    struct climb_options options;
    struct drain_clock clock;
    pid_t pid;
    char **command;
    double duration_s, least;
    const char *output;
    struct spec value_spec;
    bool has_metric, json, quiet;
};

static struct err *parse_period(const char *text, struct climb_options *options)
{
    static const struct {
        const char *name;
        double ns;
    } unit[] = {{"ms", 1e6}, {"us", 1e3}, {"s", 1e9}};
    char *end;
    double value = strtod(text, &end);
    if (end == text || !(value > 0))
        return err_new(ERR_USAGE, "climb: --period %s: must be a number of calls (2000) or a time (500ms)", text);
    if (!*end) {
        options->period_calls = (uint64_t)value;
        return value < 10 || value > 1e9 ? err_new(ERR_USAGE, "climb: --period %s: must be from 10 to 1000000000 calls", text) : NULL;
    }
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        if (!strcmp(end, unit[i].name)) {
            options->period_ns = (uint64_t)(value * unit[i].ns);
            return options->period_ns < 1000000 || options->period_ns > 3600000000000
                       ? err_new(ERR_USAGE, "climb: --period %s: must be from 1ms to 3600s", text)
                       : NULL;
        }
    return err_new(ERR_USAGE, "climb: --period %s: unknown unit %s; known are us, ms, s", text, end);
}

/* NAME=MODULE:FUNCTION:argN */
static struct err *parse_value(const char *text, struct climbing *climbing)
{
    const char *equals = strchr(text, '='), *argument = strrchr(text, ':');
    char *end = NULL;
    unsigned long number = argument && !strncmp(argument, ":arg", 4) ? strtoul(argument + 4, &end, 10) : 0;
    if (!end || *end || end == argument + 4 || number > 63 || argument < equals)
        return err_new(ERR_USAGE, "climb: --metric %s: known are cpu, wall, calls, and NAME=MODULE:FUNCTION:argN", text);
    char *place = memory_text(equals + 1);
    place[argument - equals - 1] = 0;
    struct err *error = spec_parse(place, &climbing->value_spec);
    free(place);
    climbing->options.metric = CLIMB_VALUE;
    climbing->options.value_spec = &climbing->value_spec;
    climbing->options.value_argument = (unsigned)number;
    return error;
}

static struct err *parse_metric(const char *text, struct climbing *climbing)
{
    static const char *const name[] = {[CLIMB_CPU] = "cpu", [CLIMB_WALL] = "wall", [CLIMB_CALLS] = "calls"};
    if (strchr(text, '='))
        return parse_value(text, climbing);
    for (unsigned i = 0; i < sizeof name / sizeof *name; i++)
        if (!strcmp(text, name[i])) {
            climbing->options.metric = (enum climb_metric)i;
            return NULL;
        }
    return err_new(ERR_USAGE, "climb: --metric %s: known are cpu, wall, calls, and NAME=MODULE:FUNCTION:argN", text);
}

static struct err *parse(struct climbing *climbing, int argc, char **argv, bool *help)
{
    enum { THRESHOLD = 256, TOP, PERIOD, HOOKS, MIN, METRIC, HOT };
    static const struct option options[] = {{"pid", required_argument, NULL, 'p'},
                                            {"hot", required_argument, NULL, HOT},
                                            {"threshold", required_argument, NULL, THRESHOLD},
                                            {"top", required_argument, NULL, TOP},
                                            {"period", required_argument, NULL, PERIOD},
                                            {"hooks", required_argument, NULL, HOOKS},
                                            {"frequency", required_argument, NULL, 'F'},
                                            {"duration", required_argument, NULL, 'd'},
                                            {"min", required_argument, NULL, MIN},
                                            {"metric", required_argument, NULL, METRIC},
                                            {"output", required_argument, NULL, 'o'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct err *error = NULL;
    double number;
    opterr = 0;
    for (int option; !error && (option = getopt_long(argc, argv, "+p:F:d:o:jqh", options, NULL)) != -1;) {
        switch (option) {
        case 'p':
            error = cmd_parse_pid(optarg, &climbing->pid);
            break;
        case HOT:
            error = cmd_parse_hot(optarg, &climbing->options.hot);
            break;
        case THRESHOLD:
            error = cmd_parse_percent(optarg, "--threshold", &climbing->options.threshold);
            break;
        case TOP:
            error = cmd_parse_number(optarg, "--top", 1, 1000, &number);
            climbing->options.top = (unsigned)number;
            break;
        case PERIOD:
            error = parse_period(optarg, &climbing->options);
            break;
        case HOOKS:
            error = cmd_parse_number(optarg, "--hooks", 1, 1000, &number);
            climbing->options.hooks = (unsigned)number;
            break;
        case 'F':
            error = cmd_parse_number(optarg, "--frequency", 1, 20000, &number);
            climbing->options.sample_ns = (uint64_t)(1e9 / number);
            break;
        case 'd':
            error = cmd_parse_seconds(optarg, "--duration", &climbing->duration_s);
            break;
        case MIN:
            error = cmd_parse_percent(optarg, "--min", &climbing->least);
            break;
        case METRIC:
            error = parse_metric(optarg, climbing);
            climbing->has_metric = true;
            break;
        case 'o':
            climbing->output = optarg;
            break;
        case 'j':
            climbing->json = true;
            break;
        case 'q':
            climbing->quiet = true;
            break;
        case 'h':
            *help = true;
            return NULL;
        default:
            error = err_new(ERR_USAGE, "climb: %s: no such option, or its value is missing; `probity climb --help` has them all",
                            argv[optind - 1]);
        }
    }
    bool by_calls = climbing->options.hot == CLIMB_HOT_CALLS;
    if (!error && by_calls && climbing->options.metric == CLIMB_VALUE)
        error = err_new(ERR_USAGE, "climb: --hot calls: --metric NAME=MODULE:FUNCTION:argN says itself which function is hot");
    if (by_calls && !climbing->has_metric)
        climbing->options.metric = CLIMB_CALLS;
    if (!error && optind < argc)
        climbing->command = argv + optind;
    if (!error && !climbing->command == !climbing->pid)
        error = err_new(ERR_USAGE, "climb: give either -p PID or a command after --");
    return error;
}

static void show(const struct climbing *climbing, const struct climb *climb, bool is_second)
{
    struct winsize size = {0};
    if (climbing->quiet)
        return;
    if (isatty(STDERR_FILENO) && !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_row > 4 && size.ws_col > 20)
        cmd_climb_screen(stderr, climb, size.ws_row, size.ws_col);
    else if (is_second)
        cmd_climb_status(stderr, climb);
}

/* Until the process ends, the time is over, or a signal comes, which is returned. */
static struct err *run(struct climbing *climbing, struct climb_alone *alone, int signal_fd, int *stop_signal)
{
    const uint64_t step_ns = 250000000;
    const struct climb *climb = climb_alone_climb(alone);
    uint64_t end_ns = climbing->duration_s > 0 ? clock_now_ns() + (uint64_t)(climbing->duration_s * 1e9) : UINT64_MAX;
    bool over = false, idle_said = false;
    if (!climbing->quiet && isatty(STDERR_FILENO))
        fputs("\033[2J", stderr);
    for (int step = 1; !over && !*stop_signal; step++) {
        struct signalfd_siginfo info;
        struct climb_totals totals;
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= end_ns)
            break;
        ERR_TRY(climb_alone_run(alone, end_ns - now_ns < step_ns ? end_ns - now_ns : step_ns, signal_fd, &over));
        if (read(signal_fd, &info, sizeof info) == sizeof info)
            *stop_signal = (int)info.ssi_signo;
        climb_totals(climb, &totals);
        if (!totals.samples && !idle_said && !over && step % 4 == 0) {
            fputs("probity: climb: no samples yet: the process does not use the processor; waiting\n", stderr);
            idle_said = true;
        }
        if (totals.samples)
            show(climbing, climb, step % 4 == 0);
    }
    return NULL;
}

int cmd_climb(int argc, char **argv)
{
    struct climbing climbing = {.options = climb_usual, .least = CLIMB_LEAST};
    bool help = false;
    struct climb_alone *alone = NULL;
    const struct climb *climb = NULL;
    int stop_signal = 0, code = 0;
    drain_clock_read(&climbing.clock);
    struct err *error = parse(&climbing, argc, argv, &help);
    if (help)
        fputs(usage_text, stdout);
    if (error || help)
        return error ? cmd_fail(error) : 0;
    int signal_fd = interrupt_fd(0);
    error = climb_alone_create(&climbing.options, &climbing.clock, &alone);
    if (!error) {
        climb = climb_alone_climb(alone);
        error = climbing.command ? climb_alone_start(alone, climbing.command) : climb_alone_attach(alone, climbing.pid);
    }
    if (!error && climbing.options.metric == CLIMB_VALUE && climbing.pid && !climb_has_value(climb))
        error = err_new(ERR_NO_MATCH, "climb: --metric: %s: process %d has no such function", climbing.value_spec.text, climbing.pid);
    bool began = !error;
    if (!error)
        error = run(&climbing, alone, signal_fd, &stop_signal);
    struct err *stop_error = alone ? climb_alone_stop(alone) : NULL;
    if (!error && climbing.options.metric == CLIMB_VALUE && !climb_has_value(climb))
        error = err_new(ERR_NO_MATCH, "climb: --metric: %s: the command has no such function", climbing.value_spec.text);
    if (began) {
        if (climbing.command && climb_alone_status(alone) < 0)
            kill(climb_pid(climb), stop_signal ? stop_signal : SIGTERM);
        (climbing.json ? cmd_climb_json : cmd_climb_text)(stdout, climb, climbing.least);
        if (climbing.output && !error) {
            char *name = climbing.command ? memory_text(climbing.command[0]) : memory_format("process %d", climbing.pid);
            error = climb_write(climb, climbing.output, name, climb_alone_status(alone), climbing.least);
            free(name);
        }
        int status = climb_alone_status(alone);
        if (climbing.command && status >= 0)
            code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    if (error)
        code = cmd_fail(error);
    if (stop_error)
        code = cmd_fail(stop_error);
    climb_alone_destroy(alone);
    spec_deinit(&climbing.value_spec);
    close(signal_fd);
    return code;
}
