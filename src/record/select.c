/* Codes select at the source: what nobody wants is not probed, sampled or asked of the kernel. */
#include "record/run.h"

static bool has(const struct trace_codes *codes, enum trace_major major, unsigned minor)
{
    return codes->minors[major] >> minor & 1;
}

/* Samples of the pc alone have a code of their own: where only that one is wanted they are taken so. */
static bool is_pc_only(const struct record_options *options, const struct trace_codes *codes)
{
    bool has_stacks = has(codes, TRACE_SAMPLE, TRACE_TIMER) || has(codes, TRACE_SAMPLE, TRACE_OFF_CPU);
    bool has_pcs = has(codes, TRACE_SAMPLE, TRACE_PC) || has(codes, TRACE_SAMPLE, TRACE_OFF_CPU_PC);
    return options->is_pc_only || (has_pcs && !has_stacks);
}

struct err *record_select(struct record_options *options)
{
    const struct trace_codes *codes = options->codes;
    if (!codes)
        return NULL;
    options->is_pc_only = is_pc_only(options, codes);
    bool has_timer = has(codes, TRACE_SAMPLE, options->is_pc_only ? TRACE_PC : TRACE_TIMER);
    bool has_waits = options->is_wall && has(codes, TRACE_SAMPLE, options->is_pc_only ? TRACE_OFF_CPU_PC : TRACE_OFF_CPU);
    options->is_wall = has_waits;
    if (!has_timer && !has_waits && !options->climb)
        options->hz = 0;
    if (!codes->minors[TRACE_CALL])
        options->n_calls = 0;
    if (!has(codes, TRACE_SAMPLE, TRACE_PLACE))
        options->n_metrics = 0;
    options->entries_only = !has(codes, TRACE_CALL, TRACE_RETURN);
    if (!options->hz && !options->n_calls && !options->n_metrics && !codes->minors[TRACE_THREAD])
        return err_new(ERR_USAGE, "record: --codes: nothing of what is selected is recorded: calls need --calls, places --metric or "
                                  "--stacks-at, samples -F above 0, waits --clock wall");
    return NULL;
}

bool record_wants_accounts(const struct record_options *options)
{
    return !options->codes || options->codes->minors[TRACE_THREAD];
}

bool record_has_switches(const struct record_run *run)
{
    return run->has_switches && record_wants_accounts(run->options);
}

bool record_wants_kernel(const struct record_options *options)
{
    bool has_stacks = false;
    for (size_t i = 0; i < options->n_metrics; i++)
        has_stacks |= !options->metric[i].name || !options->n_calls;
    return !options->codes || options->codes->minors[TRACE_THREAD] || options->hz || options->climb || has_stacks;
}
