#include "report/profile.h"

#include "base/escape.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4096 };

/* ---- choice of threads ---- */

/* A word names something by its number, or by a pattern that its name matches. */
static bool is_named(const char *const *word, uint32_t number, const char *name)
{
    if (!word)
        return true;
    char digits[16];
    snprintf(digits, sizeof digits, "%" PRIu32, number);
    for (; *word; word++)
        if (!strcmp(*word, digits) || (name && !fnmatch(*word, name, 0)))
            return true;
    return false;
}

static const char *last_part(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash && slash[1] ? slash + 1 : path;
}

static void choose_threads(struct profile *profile, const struct report_options *options)
{
    size_t thread_count, process_count;
    const struct trace_thread *thread = trace_threads(profile->trace, &thread_count);
    const struct trace_process *process = trace_processes(profile->trace, &process_count);
    for (uint32_t i = 0; i < thread_count; i++) {
        const struct trace_process *owner = &process[thread[i].process];
        if (!is_named(options->chosen_threads, thread[i].tid, thread[i].name) ||
            !is_named(options->chosen_processes, owner->pid, last_part(owner->name)))
            continue;
        bool has_name = thread[i].name && *thread[i].name;
        char *name =
            memory_format("%" PRIu32 ".%" PRIu32 "%s%s", owner->pid, thread[i].tid, has_name ? " " : "", has_name ? thread[i].name : "");
        VEC_PUSH(&profile->thread, (struct profile_thread){.thread = i, .name = name});
    }
}

/* ---- reading ---- */

struct reading {
    const struct profile *profile;
    struct profile_thread *thread;
    bool is_running, has_account;
    uint64_t running_since; /* while it runs */
    uint64_t cpu_ns, sampled_ns;
};

static void count_account(struct reading *reading, const struct trace_record *record)
{
    if (record->number != TRACE_ACCOUNT_RAN)
        return;
    reading->cpu_ns = record->value;
    reading->has_account = true;
    if (reading->is_running)
        reading->running_since = record->time_ns;
}

static void count_switch(struct reading *reading, const struct trace_record *record)
{
    reading->thread->switches++;
    if (record->minor == TRACE_SWITCH_IN) {
        reading->is_running = true;
        reading->running_since = record->time_ns;
    } else if (reading->is_running) {
        reading->cpu_ns += record->time_ns - reading->running_since;
        reading->is_running = false;
    } else if (reading->thread->switches == 1) {
        reading->cpu_ns += record->time_ns - reading->thread->first_ns; /* it ran when its records began */
    }
}

static void count_record(struct reading *reading, const struct trace_record *record)
{
    struct profile_thread *thread = reading->thread;
    switch (record->major) {
    case TRACE_CALL:
        thread->events++;
        break;
    case TRACE_SAMPLE:
        thread->samples++;
        if (record->minor == TRACE_TIMER && !record->metric)
            reading->sampled_ns += record->value;
        break;
    case TRACE_THREAD:
        if (record->minor == TRACE_RAN)
            count_account(reading, record);
        else
            count_switch(reading, record);
        break;
    case TRACE_TREE:
        thread->is_tree = true;
        break;
    default:
        break;
    }
}

static uint32_t process_of(const struct profile *profile, uint32_t thread)
{
    size_t count;
    return trace_threads(profile->trace, &count)[thread].process;
}

static bool read_batch(void *context, const struct trace_record *records, size_t count)
{
    struct reading *reading = context;
    struct profile_thread *thread = reading->thread;
    if (!thread->tree)
        thread->first_ns = records[0].time_ns;
    for (size_t i = 0; i < count; i++)
        count_record(reading, &records[i]);
    thread->last_ns = records[count - 1].time_ns;
    if (!thread->tree) {
        thread->tree = tree_of_thread(reading->profile->set, thread->thread, thread->name);
        tree_join(thread->tree, process_of(reading->profile, thread->thread));
    }
    tree_add(thread->tree, records, count, reading->profile->info->about.has_switches);
    return true;
}

/* A tree that was built while recording is all there is of its thread. */
static void count_tree(struct profile_thread *thread, bool has_switches)
{
    size_t count;
    const struct tree_node *node = tree_nodes(thread->tree, &count);
    thread->samples = 0;
    for (size_t i = 0; i < count; i++)
        thread->samples += node[i].samples;
    enum tree_what what = !has_switches && tree_has(thread->tree, TREE_SAMPLES, 0) ? TREE_SAMPLES : TREE_EVENTS;
    thread->cpu_ns = (uint64_t)tree_cum(thread->tree, 0, what, 0);
}

static void end_reading(struct reading *reading)
{
    struct profile_thread *thread = reading->thread;
    if (!thread->tree)
        return;
    size_t count;
    uint64_t end_ns = trace_threads(reading->profile->trace, &count)[thread->thread].end_ns;
    if (reading->is_running)
        reading->cpu_ns += (end_ns > thread->last_ns ? end_ns : thread->last_ns) - reading->running_since;
    bool is_known = thread->switches || reading->has_account;
    thread->cpu_ns = is_known ? reading->cpu_ns : reading->sampled_ns ? reading->sampled_ns : thread->last_ns - thread->first_ns;
    tree_end(thread->tree, 0);
    thread->estimated_ns = tree_oddities(thread->tree)->estimated_ns;
    if (thread->is_tree)
        count_tree(thread, reading->profile->info->about.has_switches);
}

static struct err *read_thread(const struct profile *profile, struct profile_thread *thread)
{
    struct reading reading = {.profile = profile, .thread = thread};
    ERR_TRY(profile_read(profile, thread->thread, read_batch, &reading));
    end_reading(&reading);
    return NULL;
}

/* The chosen threads, and behind them the others of their processes. */
static uint32_t *list_threads(const struct profile *profile, size_t *total)
{
    size_t threads, processes;
    const struct trace_thread *thread = trace_threads(profile->trace, &threads);
    trace_processes(profile->trace, &processes);
    uint32_t *number = memory_alloc((threads + 1) * sizeof *number);
    bool *is_chosen = memory_zero(threads + 1, sizeof *is_chosen), *is_wanted = memory_zero(processes + 1, sizeof *is_wanted);
    *total = 0;
    for (size_t i = 0; i < profile->thread.n; i++) {
        uint32_t chosen = profile->thread.at[i].thread;
        is_chosen[chosen] = is_wanted[thread[chosen].process] = true;
        number[(*total)++] = chosen;
    }
    for (uint32_t i = 0; i < threads; i++)
        if (!is_chosen[i] && is_wanted[thread[i].process])
            number[(*total)++] = i;
    free(is_chosen);
    free(is_wanted);
    return number;
}

/* What metrics other than time have for elapsed is about all threads of a process, the chosen ones and the others: their records are wanted
 * in order of time. */
static struct err *read_merged(const struct profile *profile)
{
    size_t total;
    uint32_t *number = list_threads(profile, &total);
    struct reading *reading = memory_zero(profile->thread.n + 1, sizeof *reading);
    struct trace_record *record = memory_alloc(BATCH * sizeof *record);
    struct trace_merge *merge = trace_merge_open(profile->trace, number, total);
    struct trace_merged part;
    struct err *error;
    for (size_t i = 0; i < profile->thread.n; i++)
        reading[i] = (struct reading){.profile = profile, .thread = &profile->thread.at[i]};
    while (!(error = trace_merge_next(merge, record, BATCH, &part)) && part.count) {
        if (part.index >= profile->thread.n) {
            tree_use(profile->set, process_of(profile, number[part.index]), record, part.count);
            continue;
        }
        read_batch(&reading[part.index], record, part.count);
        if (part.is_last)
            end_reading(&reading[part.index]);
    }
    trace_merge_close(merge);
    free(record);
    free(reading);
    free(number);
    return error;
}

static struct err *read_all(const struct profile *profile)
{
    size_t threads;
    trace_threads(profile->trace, &threads);
    if (profile->metric_count > 1 && threads > 1)
        return read_merged(profile);
    for (size_t i = 0; i < profile->thread.n; i++)
        ERR_TRY(read_thread(profile, &profile->thread.at[i]));
    return NULL;
}

struct err *profile_read(const struct profile *profile, uint32_t thread, profile_records_fn *each, void *context)
{
    struct trace_cursor *cursor;
    ERR_TRY(trace_cursor_open(profile->trace, thread, &cursor));
    struct trace_record *record = memory_alloc(BATCH * sizeof *record);
    size_t n;
    while ((n = trace_next(cursor, record, BATCH)) > 0 && each(context, record, n))
        ;
    free(record);
    trace_cursor_close(cursor);
    return NULL;
}

/* Threads without records have nothing to be shown. */
static void drop_empty_threads(struct profile *profile)
{
    size_t kept = 0;
    for (size_t i = 0; i < profile->thread.n; i++) {
        if (profile->thread.at[i].tree)
            profile->thread.at[kept++] = profile->thread.at[i];
        else
            free(profile->thread.at[i].name);
    }
    profile->thread.n = kept;
}

/* ---- what is looked at ---- */

static struct err *choose_metric(struct profile *profile, const char *name)
{
    profile->metrics = trace_metrics(profile->trace, &profile->metric_count);
    if (!name)
        return NULL;
    for (unsigned i = 0; i < profile->metric_count; i++) {
        profile->metric = i;
        if (!strcmp(profile->metrics[i].name, name))
            return NULL;
    }
    char *known = memory_text("");
    for (size_t i = 0; i < profile->metric_count; i++) {
        char *longer = memory_format("%s%s%s", known, i ? ", " : "", profile->metrics[i].name);
        free(known);
        known = longer;
    }
    struct err *error = err_new(ERR_USAGE, "report: %s: no metric named %s; it has %s", profile->path, name, known);
    free(known);
    return error;
}

struct finding {
    unsigned metric;
    bool has_calls, is_tree;
    bool has_samples; /* of the metric, which is not the first one */
};

static bool find_kind(void *context, const struct trace_record *records, size_t count)
{
    struct finding *finding = context;
    for (size_t i = 0; i < count; i++) {
        finding->has_calls |= records[i].major == TRACE_CALL;
        finding->is_tree |= records[i].major == TRACE_TREE;
        finding->has_samples |=
            finding->metric && records[i].major == TRACE_SAMPLE && records[i].metric == finding->metric && records[i].number != TRACE_NONE;
    }
    return (!finding->has_calls && !finding->is_tree) || (finding->metric && !finding->has_samples);
}

/* What a thread's first records tell; all are read when there are neither calls nor a tree. */
static struct err *look_at_records(struct profile *profile, struct profile_thread *thread, bool *has_events, bool *has_samples)
{
    struct finding finding = {.metric = profile->metric};
    ERR_TRY(profile_read(profile, thread->thread, find_kind, &finding));
    *has_events |= finding.has_calls;
    *has_samples |= finding.has_samples;
    thread->is_tree = finding.is_tree;
    return NULL;
}

static bool tree_has_events(const struct tree *tree)
{
    size_t count;
    const struct tree_node *node = tree_nodes(tree, &count);
    for (size_t i = 1; i < count; i++)
        if (!node[i].is_sampled && node[i].parent != TRACE_NONE)
            return true;
    return false;
}

/* A trace with functions that were never called, or with nothing at all, has samples: none. Another metric than the first one is of
 * samples where stacks have it. */
static struct err *choose_data(struct profile *profile, enum report_data data, bool is_streamed)
{
    bool has_events = data == REPORT_DATA_EVENTS, has_samples = false;
    for (size_t i = 0; i < profile->thread.n && data == REPORT_DATA_AUTO && !has_samples && (!has_events || profile->metric); i++) {
        if (is_streamed) {
            ERR_TRY(look_at_records(profile, &profile->thread.at[i], &has_events, &has_samples));
        } else {
            has_events |= profile->thread.at[i].events || tree_has_events(profile->thread.at[i].tree);
            has_samples |= profile->metric && tree_has(profile->thread.at[i].tree, TREE_SAMPLES, profile->metric);
        }
    }
    profile->what = has_events && !has_samples ? TREE_EVENTS : TREE_SAMPLES;
    return NULL;
}

/* ---- opening ---- */

static struct err *fill(struct profile *profile, const struct report_options *options, bool is_streamed)
{
    ERR_TRY(trace_open(profile->path, &profile->trace));
    profile->info = trace_info(profile->trace);
    profile->source = tree_source_of_trace(profile->trace);
    profile->set = tree_set_create(&profile->source, &(struct tree_options){.by = options->by});
    ERR_TRY(choose_metric(profile, options->metric));
    choose_threads(profile, options);
    if (!profile->thread.n && (options->chosen_threads || options->chosen_processes))
        return err_new(ERR_NO_MATCH, "report: %s: no thread of it is chosen; --view threads lists them", profile->path);
    if (!is_streamed) {
        ERR_TRY(read_all(profile));
        drop_empty_threads(profile);
    }
    return choose_data(profile, options->data, is_streamed);
}

struct err *profile_open(const struct report_options *options, const char *path, bool is_streamed, struct profile **out)
{
    struct profile *profile = memory_zero(1, sizeof *profile);
    profile->path = path;
    struct err *error = fill(profile, options, is_streamed);
    if (error) {
        profile_close(profile);
        return error;
    }
    *out = profile;
    return NULL;
}

void profile_warn(const struct profile *profile, FILE *messages)
{
    if (profile->cut_stacks)
        fprintf(messages,
                "probity: report: %" PRIu64 " stacks are too deep for this format: of each the innermost %zu functions are given\n",
                profile->cut_stacks, profile->cut_to);
    if (profile->left_out)
        fprintf(messages, "probity: report: %" PRIu64 " values are below 0, which this format does not have: they are left out\n",
                profile->left_out);
    if (!profile->info->is_cut)
        return;
    fputs("probity: report: ", messages);
    escape_plain(messages, profile->path);
    fputs(": this trace is cut, what could be read is shown: ", messages);
    escape_plain(messages, profile->info->cut_where ? profile->info->cut_where : "its end is missing");
    fputc('\n', messages);
}

void profile_close(struct profile *profile)
{
    if (!profile)
        return;
    for (size_t i = 0; i < profile->thread.n; i++)
        free(profile->thread.at[i].name);
    VEC_FREE(&profile->thread);
    if (profile->set)
        tree_set_destroy(profile->set);
    if (profile->trace)
        trace_close(profile->trace);
    free(profile);
}

struct tree *profile_sum(struct profile *profile)
{
    if (!profile->sum && profile->thread.n == 1)
        profile->sum = profile->thread.at[0].tree;
    else if (!profile->sum) {
        char *name = memory_format("%zu threads", profile->thread.n);
        profile->sum = tree_merge(profile->set, name);
        free(name);
    }
    return profile->sum;
}

bool profile_is_tree(const struct profile *profile)
{
    for (size_t i = 0; i < profile->thread.n; i++)
        if (profile->thread.at[i].is_tree)
            return true;
    return false;
}

/* ---- notes ---- */

static void note(FILE *out, uint64_t count, const char *one, const char *many)
{
    if (count)
        fprintf(out, "%" PRIu64 " %s\n", count, count == 1 ? one : many);
}

/* Less than a hundredth is no news: what a switch costs is never told to the nanosecond. */
static void note_estimate(FILE *out, uint64_t estimated_ns, uint64_t cpu_ns, bool has_switches)
{
    if (estimated_ns && estimated_ns >= cpu_ns / 100)
        fprintf(out, "of %.3f ms of processor time, %.1f %% of all, it was estimated when it was used (%s)\n", (double)estimated_ns / 1e6,
                cpu_ns ? 100 * (double)estimated_ns / (double)cpu_ns : 100,
                has_switches ? "threads switched too often to be followed" : "perf events were not permitted");
}

char *profile_notes(const struct profile *profile)
{
    struct tree_oddities sum = {0};
    uint64_t cpu_ns = 0;
    for (size_t i = 0; i < profile->thread.n; i++) {
        const struct profile_thread *thread = &profile->thread.at[i];
        if (!thread->tree)
            continue;
        const struct tree_oddities *odd = tree_oddities(thread->tree);
        sum.returns_without_call += odd->returns_without_call;
        sum.calls_without_return += odd->calls_without_return;
        sum.unmatched_samples += odd->unmatched_samples;
        sum.backward_times += odd->backward_times;
        sum.folded_nodes += odd->folded_nodes;
        sum.lost_calls += odd->lost_calls;
        sum.lost_samples += odd->lost_samples;
        sum.lost_stacks += odd->lost_stacks;
        sum.open_at_end += odd->open_at_end;
        sum.ignored_records += odd->ignored_records;
        sum.estimated_ns += odd->estimated_ns;
        cpu_ns += thread->cpu_ns;
    }
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return memory_text("");
    note(out, sum.lost_calls, "call event was lost: calls around it may be wrong", "call events were lost: calls around them may be wrong");
    note(out, sum.lost_samples, "sample was lost", "samples were lost");
    note(out, sum.lost_stacks, "sample has no stack", "samples have no stack");
    note_estimate(out, sum.estimated_ns, cpu_ns, profile->info->about.has_switches);
    note(out, sum.returns_without_call, "return had no call and was left out", "returns had no call and were left out");
    note(out, sum.calls_without_return, "call had no return of its own and ended with its caller's (exception, longjmp)",
         "calls had no return of their own and ended with their callers' (exceptions, longjmp)");
    note(out, sum.open_at_end, "call was open at the end", "calls were open at the end");
    note(out, sum.unmatched_samples, "sample did not fit the calls that were open", "samples did not fit the calls that were open");
    note(out, sum.backward_times, "time went back", "times went back");
    note(out, sum.folded_nodes, "node was folded into its parent to save memory", "nodes were folded into their parents to save memory");
    note(out, sum.ignored_records, "record made no sense and was left out", "records made no sense and were left out");
    note(out, profile->info->raised, "time went back when it was recorded", "times went back when they were recorded");
    note(out, profile->info->dropped, "record could not be written", "records could not be written");
    fclose(out);
    return text;
}
