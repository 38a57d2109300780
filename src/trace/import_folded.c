#include "trace/importer.h"

#include <string.h>

/* As many samples as one may mean to have in one trace; a count is more often a weight beyond that. */
enum { SAMPLES_MAX = 100 * 1000 * 1000 };

/* NAME;NAME... COUNT: names may have blanks. */
static struct err *take_line(struct trace_importer *importer, char *line, uint32_t thread)
{
    char *blank = strrchr(line, ' ');
    char *tab = strrchr(line, '\t');
    blank = tab > blank ? tab : blank;
    if (!blank || blank == line)
        return trace_importer_error(importer, 1, "this is not NAME;NAME... COUNT");
    const char *at = blank + 1;
    uint64_t count;
    ERR_TRY(trace_importer_number(importer, line, &at, INT64_MAX / 4, "the count", &count));
    if (*at)
        return trace_importer_error(importer, (size_t)(at - line) + 1, "the count is no whole number");
    while (blank > line && (blank[-1] == ' ' || blank[-1] == '\t'))
        blank--;
    *blank = 0;
    uint64_t samples = importer->options->has_weights ? 1 : count;
    if (samples > SAMPLES_MAX - importer->count.samples)
        return trace_importer_error(importer, (size_t)(blank - line) + 2,
                                    "these are more than %d samples; --weights takes a count as the weight of one sample", SAMPLES_MAX);
    struct trace_record record = {.major = TRACE_SAMPLE, .minor = TRACE_TIMER, .value = importer->options->has_weights ? count : 1};
    ERR_TRY(trace_importer_stack(importer, line, line, &record.number));
    for (uint64_t i = 0; i < samples; i++) {
        record.time_ns = importer->count.samples++;
        trace_write(importer->writer, thread, &record);
    }
    return NULL;
}

struct err *trace_import_folded(struct trace_importer *importer)
{
    struct trace_metric metric = {"samples", "samples"};
    if (importer->options->has_weights)
        metric = (struct trace_metric){"weight", "units"};
    ERR_TRY(trace_importer_start(importer, 0, importer->options->has_weights ? 0 : 1, metric));
    uint32_t index = trace_importer_thread(importer, 0, 0, 0, importer->file);
    for (;;) {
        char *line;
        ERR_TRY(trace_importer_line(importer, &line));
        if (!line || trace_writer_error(importer->writer))
            return NULL; /* closing the writer tells its error */
        if (line[strspn(line, " \t")] && *line != '#')
            ERR_TRY(take_line(importer, line, importer->thread.at[index].number));
    }
}
