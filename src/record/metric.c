/* Other resources than time, and stacks at trace points: a script's clause for each, whose records carry the value and the stack. */
#include "record/run.h"

#include "drain/stacks.h"
#include "live/live.h"

#include <stdlib.h>
#include <string.h>

/* What a record carries. */
struct measure {
    int64_t value;
    uint64_t stack; /* its number is the lower half; only of clauses that take one */
};

static bool has_stack(const struct record_options *options, size_t metric)
{
    return !options->metric[metric].name || !options->n_calls;
}

/* One clause a metric; what it prints is the value, and the stack. */
static char *script_of(const struct record_options *options)
{
    char *text = memory_text("");
    for (size_t i = 0; i < options->n_metrics; i++) {
        const struct record_metric *metric = &options->metric[i];
        bool with_stack = has_stack(options, i);
        char *more = memory_format("%s%s { printf(\"%s\", (int64)(%s)%s); }\n", text, metric->probe, with_stack ? "%d %s" : "%d",
                                   metric->name ? metric->expression : "0", with_stack ? ", ustack(raw)" : "");
        free(text);
        text = more;
    }
    return text;
}

/* Clauses are compiled once for each trace point: records lead back to the clause that the script has, which is the metric's. */
static void number_records(struct record_run *run)
{
    const struct stream_built *built = &run->script->built;
    struct record_amount amount[run->options->n_metrics];
    for (size_t i = 0; i < run->options->n_metrics; i++) {
        const struct record_metric *metric = &run->options->metric[i];
        amount[i].sign = metric->sign;
        amount[i].metric = !metric->name ? RECORD_NO_METRIC
                                         : (uint16_t)trace_define_metric(run->writer, &(struct trace_metric){metric->name, metric->name});
    }
    for (size_t i = 0; i < built->record.n; i++) {
        const struct stream_record *record = &built->record.at[i];
        bool is_value = record->kind == STREAM_RECORD_ACTION;
        VEC_PUSH(&run->metric,
                 is_value ? amount[run->script->live_unit.at[record->unit].clause] : (struct record_amount){.metric = RECORD_NOTHING});
    }
}

struct err *record_metrics_create(struct record_run *run)
{
    if (!run->options->n_metrics)
        return NULL;
    char *text = script_of(run->options), *diagnostics = NULL;
    struct live_options options = {.name = "--metric",
                                   .text = text,
                                   .length = strlen(text),
                                   .pid = run->options->pid,
                                   .n_pids = run->options->n_pids,
                                   .command = run->options->command};
    struct err *error = live_script_create(&options, &run->script, &diagnostics);
    if (!error && !run->script)
        error = err_new(ERR_USAGE, "--metric: %s", diagnostics ? diagnostics : "it makes no sense");
    free(diagnostics);
    if (!error) {
        number_records(run);
        for (size_t i = 0; i < run->script->spec.n; i++) {
            VEC_PUSH(&run->spec, run->script->spec.at[i]);
            VEC_PUSH(&run->spec_clause, run->script->spec_clause.at[i]);
        }
    }
    run->metric_text = text;
    return error;
}

/* Equal stacks have equal numbers as long as the recording lasts; ours may be forgotten before. */
static uint32_t stack_of(struct record_run *run, struct record_thread *thread, uint32_t number)
{
    uint64_t pcs[WIRE_STACK_MAX], root;
    record_trim_stacks(run);
    while (run->taken_stack.n <= number)
        VEC_PUSH(&run->taken_stack, TRACE_NONE);
    uint32_t *known = &run->taken_stack.at[number];
    if (*known == TRACE_NONE) {
        uint32_t count = drain_stack_read(&run->memory, number, pcs, &root);
        *known = count ? record_stack_of(run, thread->process, pcs, count) : record_define_stack(run, TRACE_NONE, run->unknown_frame);
    }
    return *known;
}

/* False: it is no amount. */
static bool take_value(enum record_sign sign, int64_t value, uint64_t *out)
{
    if (sign != RECORD_BOTH && value <= 0)
        return false;
    *out = sign == RECORD_GIVES ? 0 - (uint64_t)value : (uint64_t)value;
    return value;
}

void record_take_measure(struct record_run *run, struct record_thread *thread, uint64_t time_ns, const struct drain_record *record)
{
    struct record_amount amount = {.metric = RECORD_NOTHING};
    if (record->head.type < run->metric.n)
        amount = run->metric.at[record->head.type];
    struct measure measure = {0};
    uint64_t value = 0;
    if (amount.metric == RECORD_NOTHING || record->payload_bytes > sizeof measure)
        return;
    memcpy(&measure, record->payload, record->payload_bytes);
    if (amount.metric != RECORD_NO_METRIC && !take_value(amount.sign, measure.value, &value))
        return;
    uint32_t number = (uint32_t)measure.stack, stack = TRACE_NONE;
    if (record->payload_bytes == sizeof measure)
        stack = stack_of(run, thread, number <= run->memory.layout.stack_nodes ? number : 0);
    struct trace_record out = {.time_ns = time_ns,
                               .major = TRACE_SAMPLE,
                               .minor = TRACE_PLACE,
                               .metric = amount.metric == RECORD_NO_METRIC ? 0 : amount.metric,
                               .number = stack,
                               .value = value};
    record_write(run, thread, &out);
    run->summary.measures++;
}

void record_metrics_destroy(struct record_run *run)
{
    if (run->script)
        live_script_destroy(run->script);
    free(run->metric_text);
    VEC_FREE(&run->metric);
    VEC_FREE(&run->taken_stack);
}
