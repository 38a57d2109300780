#include "cmd/cmd.h"

#include "report/report.h"

#include <getopt.h>
#include <string.h>
#include <unistd.h>

static const char usage_text[] = "usage: probity browse [OPTION]... DIR\n"
                                 "\n"
                                 "Shows a trace directory on the terminal: its trees can be opened, sorted, searched, and each routine has "
                                 "its callers and callees. The\n"
                                 "key ? lists the keys.\n"
                                 "\n"
                                 "  -b, --by WHAT      function (default), line or module\n"
                                 "  -M, --metric NAME  what is counted at first; time unless told\n"
                                 "  -d, --data WHAT    events or samples at first; events where there are any\n"
                                 "\n"
                                 "example:\n"
                                 "  probity browse probity.trace\n";

static struct err *take_option(struct report_options *options, int option)
{
    const char *word = optarg;
    if (option == 'M') {
        options->metric = word;
        return NULL;
    }
    bool is_by = option == 'b', is_data = option == 'd';
    if (is_by && !strcmp(word, "function"))
        options->by = TREE_BY_FUNCTION;
    else if (is_by && !strcmp(word, "line"))
        options->by = TREE_BY_LINE;
    else if (is_by && !strcmp(word, "module"))
        options->by = TREE_BY_MODULE;
    else if (is_data && !strcmp(word, "events"))
        options->data = REPORT_DATA_EVENTS;
    else if (is_data && !strcmp(word, "samples"))
        options->data = REPORT_DATA_SAMPLES;
    else if (is_by || is_data)
        return err_new(ERR_USAGE, "browse: %s: no such choice; `probity browse --help` lists them", word);
    else
        return err_new(ERR_USAGE, "browse: `probity browse --help` lists the options");
    return NULL;
}

int cmd_browse(int argc, char **argv)
{
    static const struct option long_option[] = {
        {"by", required_argument, NULL, 'b'},
        {"metric", required_argument, NULL, 'M'},
        {"data", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct report_options options = {0};
    struct err *error = NULL;
    int option;
    while (!error && (option = getopt_long(argc, argv, "b:M:d:h", long_option, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage_text, stdout);
            return 0;
        }
        error = take_option(&options, option);
    }
    if (!error && argc - optind != 1)
        error = err_new(ERR_USAGE, "browse: give one trace directory");
    if (!error && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        error = err_new(ERR_USAGE, "browse: needs a terminal; `probity report` prints");
    if (!error)
        error = report_browse(&options, argv[optind], stderr);
    return error ? cmd_fail(error) : 0;
}
