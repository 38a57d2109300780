/* Random traces, reported in random ways, and browsed with random keys. Build with -fsanitize=address,undefined.
 *
 *   report_write [--runs N] [--seed S]
 *
 * Besides what the sanitizers see, a run fails when text has control characters, or when a line of the screen is not as wide as the screen.
 */
#include "report/browse.h"
#include "test/unit/trace_random.h"

#include <locale.h>
#include <sys/stat.h>

static char *directory;

static void make_trace(void)
{
    struct written_trace written = {0};
    struct trace_writer *writer;
    struct trace_about about = {.host = "h", .command = "c", .start_ns = 1000, .has_switches = random_below(2)};
    require_no(trace_writer_create(directory, &about, &writer));
    write_random(writer, &written, 1000, 20 + random_below(600), true);
    require_no(trace_writer_close(writer));
    forget_written(&written);
}

/* Of some traces the end of the definitions is missing: then records end anywhere. */
static void cut_trace(void)
{
    char *path = memory_format("%s/definitions", directory);
    struct stat status;
    require(!stat(path, &status), path);
    if (!random_below(3))
        require(!truncate(path, (off_t)random_below((uint64_t)status.st_size)), path);
    free(path);
}

static struct report_options random_options(void)
{
    static const double share[] = {0, 0, 0.01, 0.3, 1};
    return (struct report_options){.view = (enum report_view)random_below(REPORT_DIFF + 1),
                                   .format = (enum report_format)random_below(REPORT_CHROME + 1),
                                   .by = (enum tree_by)random_below(3),
                                   .sort = (enum report_sort)random_below(REPORT_SORT_NAME + 1),
                                   .data = (enum report_data)random_below(3),
                                   .threads = (enum report_threads)random_below(3),
                                   .min_share = share[random_below(5)],
                                   .is_raw = random_below(2),
                                   .program = "fuzz"};
}

static void check_text(const struct report_options *options, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes && options->format != REPORT_PPROF; i++)
        require((uint8_t)text[i] >= 0x20 || text[i] == '\n', "no control characters");
}

static bool report(void)
{
    struct report_options options = random_options();
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes), *messages = fopen("/dev/null", "we");
    require(out && messages, "memory");
    struct err *error = report_write(&options, directory, directory, out, messages);
    fclose(out);
    fclose(messages);
    check_text(&options, text, bytes);
    free(text);
    bool is_good = !error;
    err_free(error);
    return is_good;
}

static void browse(void)
{
    static const uint32_t keys[] = {'k', 'j', 'h', 'l', 'g', 'G', ' ', '*',  'c', '/',    'n',
                                    'N', 's', 'w', 'm', 't', 'T', 'a', '\t', '?', 0x1f600};
    struct profile *profile;
    struct err *error = profile_open(&(struct report_options){.by = (enum tree_by)random_below(3)}, directory, false, &profile);
    if (error) {
        err_free(error);
        return;
    }
    if (profile->thread.n) {
        struct browse *browser = browse_create(profile, random_below(2));
        for (size_t i = 0; i < 60; i++) {
            bool is_special = !random_below(3);
            browse_press(browser, is_special ? BROWSE_KEY_UP + (uint32_t)random_below(11) : keys[random_below(sizeof keys / sizeof *keys)]);
            unsigned rows = 1 + (unsigned)random_below(40);
            browse_draw(browser, 1 + (unsigned)random_below(120), rows);
            require(browser->line.n == rows, "as many lines as rows");
            for (size_t k = 0; k < browser->line.n; k++)
                for (const char *at = browser->line.at[k].text; *at; at++)
                    require((uint8_t)*at >= 0x20, "no control characters on the screen");
        }
        browse_destroy(browser);
    }
    profile_close(profile);
}

int main(int argc, char **argv)
{
    uint64_t runs = 1000, seed = 1, reported = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--runs") == 0)
            runs = strtoull(argv[i + 1], NULL, 0);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 0);
    }
    setlocale(LC_CTYPE, "C.UTF-8");
    random_seed(seed);
    directory = temporary_directory();
    for (uint64_t run = 0; run < runs; run++) {
        if (run % 20 == 0) {
            make_trace();
            cut_trace();
        }
        reported += report();
        if (run % 5 == 0)
            browse();
    }
    remove_directory(directory);
    require(reported > runs / 4, "most reports are made");
    printf("%llu runs, %llu reports\n", (unsigned long long)runs, (unsigned long long)reported);
    return 0;
}
