#include "cmd/cmd.h"

#include "trace/import.h"

#include <getopt.h>
#include <stdbool.h>
#include <string.h>

static const char usage_text[] =
    "usage: probity import --from FORMAT [-o DIR] [OPTION]... FILE\n"
    "\n"
    "Makes a trace of what another program wrote, for `probity report`. FILE may be - for the standard input.\n"
    "\n"
    "  -f, --from FORMAT   events       TIME PID.TID enter|return NAME\n"
    "                                   TIME PID.TID sample NAME;NAME;...  (outermost first)\n"
    "                      folded       NAME;NAME;... COUNT, as for flame graphs\n"
    "                      perf-script  what `perf script` prints\n"
    "  -o, --output DIR    the trace (default: probity.trace); a trace that is there is replaced\n"
    "  -u, --unit UNIT     of TIME in events: ns, us, ms or s; without it times are counts of units\n"
    "  -P, --period TIME   what a sample of events stands for (default: one unit)\n"
    "  -w, --weights       COUNT of folded weighs one sample, instead of being so many samples\n"
    "\n"
    "examples:\n"
    "  probity import --from events calls.txt -o calls.trace\n"
    "  perf script | probity import --from perf-script -o perf.trace -\n";

static bool parse_format(const char *text, enum trace_format *format)
{
    static const char *const names[] = {"events", "folded", "perf-script"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i])) {
            *format = (enum trace_format)i;
            return true;
        }
    return false;
}

static bool parse_unit(const char *text, uint64_t *unit_ns)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(text, units[i].name)) {
            *unit_ns = units[i].ns;
            return true;
        }
    return false;
}

static void tell(const struct trace_imported *imported, const char *directory)
{
    cmd_plain_string(stdout, directory);
    printf(": %llu calls and returns, %llu samples", (unsigned long long)imported->calls, (unsigned long long)imported->samples);
    if (imported->values)
        printf(", %llu values", (unsigned long long)imported->values);
    printf(" from %llu lines\n", (unsigned long long)imported->lines);
    if (imported->raised)
        fprintf(stderr, "probity: %llu times went back within their thread; they were raised to the one before\n",
                (unsigned long long)imported->raised);
    if (imported->finer)
        fprintf(stderr, "probity: %llu times had decimals finer than 1 ns, which were cut off; without --unit a unit counts as 1 ns\n",
                (unsigned long long)imported->finer);
}

int cmd_import(int argc, char **argv)
{
    static const struct option options[] = {{"from", required_argument, NULL, 'f'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"unit", required_argument, NULL, 'u'},
                                            {"period", required_argument, NULL, 'P'},
                                            {"weights", no_argument, NULL, 'w'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct trace_import_options import = {0};
    const char *directory = "probity.trace";
    bool has_format = false;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "f:o:u:P:wh", options, NULL)) != -1;) {
        switch (option) {
        case 'h':
            fputs(usage_text, stdout);
            return 0;
        case 'f':
            has_format = parse_format(optarg, &import.format);
            if (!has_format)
                return cmd_fail(err_new(ERR_USAGE, "import: %s: no such format: events, folded or perf-script", optarg));
            break;
        case 'o':
            directory = optarg;
            break;
        case 'u':
            if (!parse_unit(optarg, &import.unit_ns))
                return cmd_fail(err_new(ERR_USAGE, "import: %s: no such unit: ns, us, ms or s", optarg));
            break;
        case 'P':
            import.period = optarg;
            break;
        case 'w':
            import.has_weights = true;
            break;
        default:
            return cmd_fail(err_new(ERR_USAGE, "import: %s: no such option, or its value is missing; `probity import --help` has them all",
                                    argv[optind - 1]));
        }
    }
    if (!has_format)
        return cmd_fail(err_new(ERR_USAGE, "import: from which format? --from events, folded or perf-script"));
    if (optind + 1 != argc)
        return cmd_fail(err_new(ERR_USAGE, "import: %s; `probity import --help` has examples",
                                optind == argc ? "which file? - is the standard input" : "one file at a time"));
    if (import.format != TRACE_FROM_EVENTS && (import.unit_ns || import.period))
        return cmd_fail(err_new(ERR_USAGE, "import: --unit and --period are for events"));
    if (import.format != TRACE_FROM_FOLDED && import.has_weights)
        return cmd_fail(err_new(ERR_USAGE, "import: --weights is for folded"));
    struct trace_imported imported;
    struct err *error = trace_import(argv[optind], &import, directory, &imported);
    if (error)
        return cmd_fail(error);
    tell(&imported, directory);
    return 0;
}
