#include "cmd/cmd.h"

#include "base/memory.h"
#include "base/output.h"
#include "report/report.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: probity report [OPTION]... DIR\n"
    "       probity report --view diff [OPTION]... DIR-A DIR-B\n"
    "\n"
    "Shows what a trace directory says, which `probity record` or `probity import` made.\n"
    "\n"
    "  -V, --view VIEW      tree      who called whom, indented (default)\n"
    "                       flat      routines, each over all its stacks\n"
    "                       arcflow   each routine with its callers and callees\n"
    "                       merged    the tree of calls with what samples saw below, marked +\n"
    "                       samples   stacks of samples; with --sort order each sample\n"
    "                       threads   one line for each thread\n"
    "                       diff      two traces side by side\n"
    "  -b, --by WHAT        function (default), line or module\n"
    "  -s, --sort KEY       order (of appearance), cum, base, calls, elapsed or name\n"
    "  -m, --min SHARE      leave out what has less of the total: 1% or 0.01\n"
    "  -M, --metric NAME    what is counted; time unless told\n"
    "  -d, --data WHAT      events or samples; events where there are any\n"
    "  -t, --thread T       only threads with this id, or whose name matches the pattern; may be repeated\n"
    "  -p, --process P      likewise for processes\n"
    "      --each, --sum    each thread on its own (default for trees), or all together (default for the rest)\n"
    "      --raw            whole numbers of the metric's unit (ns, bytes)\n"
    "      --color WHEN     auto (default), always or never\n"
    "  -f, --format FORMAT  text, json, folded, pprof, callgrind, speedscope or chrome\n"
    "  -o, --output FILE    instead of standard output\n"
    "\n"
    "examples:\n"
    "  probity report --view flat --min 1% probity.trace\n"
    "  probity report --view diff --sort cum before.trace after.trace\n"
    "  probity report --format pprof -o cpu.pb.gz probity.trace && go tool pprof -top cpu.pb.gz\n"
    "  probity report --format folded probity.trace | flamegraph.pl > flame.svg\n";

enum { OPTION_EACH = 256, OPTION_SUM, OPTION_RAW, OPTION_COLOUR };

typedef VEC(const char *) words;

struct arguments {
    struct report_options options;
    words threads, processes;
    const char *output, *colour;
};

static struct err *choose(const char *option, const char *word, int number, const char *known, int *out)
{
    *out = number;
    return number < 0 ? err_new(ERR_USAGE, "report: %s %s: no such choice; there are %s", option, word, known) : NULL;
}

static int word_number(const char *word, const char *first, const char *second, const char *third)
{
    return !strcmp(word, first) ? 0 : !strcmp(word, second) ? 1 : third && !strcmp(word, third) ? 2 : -1;
}

/* "1%" or "0.01". */
static struct err *parse_share(const char *text, double *out)
{
    char *end;
    errno = 0;
    double share = strtod(text, &end);
    if (*end == '%') {
        share /= 100;
        end++;
    }
    if (end == text || *end || errno || !isfinite(share) || share < 0 || share > 1)
        return err_new(ERR_USAGE, "report: --min %s: not a share of the total; give 1%% or 0.01", text);
    *out = share;
    return NULL;
}

static struct err *take_choice(struct arguments *arguments, int option, const char *word)
{
    struct report_options *options = &arguments->options;
    int number;
    switch (option) {
    case 'V':
        ERR_TRY(choose("--view", word, report_view_number(word), "tree, flat, arcflow, merged, samples, threads, diff", &number));
        options->view = (enum report_view)number;
        return NULL;
    case 'b':
        ERR_TRY(choose("--by", word, word_number(word, "function", "line", "module"), "function, line, module", &number));
        options->by = (enum tree_by)number;
        return NULL;
    case 's':
        ERR_TRY(choose("--sort", word, report_sort_number(word), "order, cum, base, calls, elapsed, name", &number));
        options->sort = (enum report_sort)number;
        return NULL;
    case 'd':
        ERR_TRY(choose("--data", word, word_number(word, "events", "samples", NULL), "events, samples", &number));
        options->data = number ? REPORT_DATA_SAMPLES : REPORT_DATA_EVENTS;
        return NULL;
    case OPTION_COLOUR:
        ERR_TRY(choose("--color", word, word_number(word, "auto", "always", "never"), "auto, always, never", &number));
        arguments->colour = word;
        return NULL;
    default:
        ERR_TRY(choose("--format", word, report_format_number(word), "text, json, folded, pprof, callgrind, speedscope, chrome", &number));
        options->format = (enum report_format)number;
        return NULL;
    }
}

static struct err *take_option(struct arguments *arguments, int option)
{
    struct report_options *options = &arguments->options;
    switch (option) {
    case 'm':
        return parse_share(optarg, &options->min_share);
    case 'M':
        options->metric = optarg;
        return NULL;
    case 't':
        VEC_PUSH(&arguments->threads, optarg);
        return NULL;
    case 'p':
        VEC_PUSH(&arguments->processes, optarg);
        return NULL;
    case 'o':
        arguments->output = optarg;
        return NULL;
    case OPTION_EACH:
        options->threads = REPORT_THREADS_EACH;
        return NULL;
    case OPTION_SUM:
        options->threads = REPORT_THREADS_SUM;
        return NULL;
    case OPTION_RAW:
        options->is_raw = true;
        return NULL;
    case '?':
        return err_new(ERR_USAGE, "report: `probity report --help` lists the options");
    default:
        return take_choice(arguments, option, optarg);
    }
}

static struct err *write_to(struct arguments *arguments, const char *path, const char *other, FILE *out)
{
    struct report_options *options = &arguments->options;
    bool is_terminal = isatty(fileno(out));
    options->is_colour = !strcmp(arguments->colour, "always") || (!strcmp(arguments->colour, "auto") && is_terminal && !getenv("NO_COLOR"));
    if (options->format == REPORT_PPROF && is_terminal)
        return err_new(ERR_USAGE, "report: pprof files are binary: say where to with -o");
    return report_write(options, path, other, out, stderr);
}

/* To a file: what can not be written whole does not take its name. */
static struct err *write_file(struct arguments *arguments, const char *path, const char *other)
{
    struct output *output;
    ERR_TRY(output_open(arguments->output, &output));
    struct err *error = write_to(arguments, path, other, output_file(output));
    if (!error)
        return output_close(output);
    output_discard(output);
    return error;
}

static struct err *run(struct arguments *arguments, int argc, char **argv)
{
    struct report_options *options = &arguments->options;
    bool is_diff = options->view == REPORT_DIFF;
    if (argc != (is_diff ? 2 : 1))
        return err_new(ERR_USAGE, is_diff ? "report: --view diff needs two trace directories" : "report: give one trace directory");
    if (is_diff && options->format != REPORT_TEXT && options->format != REPORT_JSON)
        return err_new(ERR_USAGE, "report: a difference can be text or json only");
    VEC_PUSH(&arguments->threads, NULL);
    VEC_PUSH(&arguments->processes, NULL);
    options->chosen_threads = arguments->threads.n > 1 ? arguments->threads.at : NULL;
    options->chosen_processes = arguments->processes.n > 1 ? arguments->processes.at : NULL;
    options->program = "probity " CMD_VERSION;
    const char *other = is_diff ? argv[1] : NULL;
    return arguments->output ? write_file(arguments, argv[0], other) : write_to(arguments, argv[0], other, stdout);
}

int cmd_report(int argc, char **argv)
{
    static const struct option long_option[] = {
        {"view", required_argument, NULL, 'V'},
        {"by", required_argument, NULL, 'b'},
        {"sort", required_argument, NULL, 's'},
        {"min", required_argument, NULL, 'm'},
        {"metric", required_argument, NULL, 'M'},
        {"data", required_argument, NULL, 'd'},
        {"thread", required_argument, NULL, 't'},
        {"process", required_argument, NULL, 'p'},
        {"format", required_argument, NULL, 'f'},
        {"output", required_argument, NULL, 'o'},
        {"each", no_argument, NULL, OPTION_EACH},
        {"sum", no_argument, NULL, OPTION_SUM},
        {"color", required_argument, NULL, OPTION_COLOUR},
        {"raw", no_argument, NULL, OPTION_RAW},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct arguments arguments = {.colour = "auto"};
    struct err *error = NULL;
    int option;
    while (!error && (option = getopt_long(argc, argv, "V:b:s:m:M:d:t:p:f:o:h", long_option, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage_text, stdout);
            return 0;
        }
        error = take_option(&arguments, option);
    }
    if (!error)
        error = run(&arguments, argc - optind, argv + optind);
    VEC_FREE(&arguments.threads);
    VEC_FREE(&arguments.processes);
    return error ? cmd_fail(error) : 0;
}
