/* From records in the rings to samples and news in order of time. */
#include "base/clock.h"
#include "sample/internal.h"
#include "target/target.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

/* A record has its time before it is in its ring: what is younger than this may yet get company. */
enum { UNCERTAIN_NS = 2000000 };
/* How often waits that go on are given out. */
static const uint64_t settle_ns = 1000000000;

static int by_time(const void *a, const void *b)
{
    const struct sample_record *x = *(const struct sample_record *const *)a, *y = *(const struct sample_record *const *)b;
    if (x->sample.time_ns != y->sample.time_ns)
        return x->sample.time_ns < y->sample.time_ns ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Passes a record on, with the thread's name. */
static void pass_on(struct sample_set *set, struct sample_record *record, const struct sample_thread *thread)
{
    if (thread)
        memcpy(record->name, thread->name, sizeof record->name);
    sample_records_add(&set->ready, record, set->fresh.bytes.at + record->bytes_at);
}

/* ---- news ---- */

/* Of what is told about a thread, by one of its own events (root 0: by us). */
static bool counts_for(const struct sample_thread *thread, uint32_t root, const struct sample_record *record)
{
    return !root || thread->root == root || (thread->former_root == root && record->sample.time_ns < thread->moved_ns);
}

/* A thread is known by its parent's events only where these count for the parent. */
static bool take_start(struct sample_set *set, const struct sample_record *record, uint32_t root)
{
    const struct sample_thread *parent = sample_thread_find(&set->thread, record->news.parent_tid);
    char name[16] = "";
    if (parent && !counts_for(parent, root, record))
        return false;
    if (parent)
        memcpy(name, parent->name, sizeof name);
    bool is_new = !sample_thread_find(&set->thread, record->sample.tid);
    struct sample_thread *thread = sample_thread_add(&set->thread, record->sample.pid, record->sample.tid, root);
    if (is_new) {
        thread->since_ns = record->sample.time_ns;
        thread->state = SAMPLE_WAITS;
        thread->preempted = thread->looked_at = true; /* for a processor, nowhere in particular */
    }
    if (!thread->name[0])
        memcpy(thread->name, name, sizeof name);
    return is_new;
}

/* The threads that an executed program has ended, and a thread that has taken over its process's number. Whether there were any. */
static bool end_others(struct sample_set *set, const struct sample_record *record)
{
    size_t before = set->thread.n;
    for (size_t i = set->thread.n; i-- > 0;) {
        struct sample_thread *thread = &set->thread.at[i];
        if (thread->pid != record->sample.pid || thread->tid == record->sample.tid)
            continue;
        set->resting -= thread->rests;
        sample_thread_settle(thread, record->sample.time_ns, &set->ready);
        sample_thread_remove(&set->thread, thread);
    }
    return set->thread.n != before;
}

/* ---- accounts ---- */

static bool has_accounts(const struct sample_set *set)
{
    return sample_has_switches(&set->options) || set->by_stops;
}

/* `record` becomes SAMPLE_RAN: the thread has run so long in all up to its time. */
static void pass_on_ran(struct sample_set *set, struct sample_record *record, const struct sample_thread *thread)
{
    enum sample_news_kind kind = record->news.kind;
    record->news.kind = SAMPLE_RAN;
    record->news.ran_ns = thread->told_ns;
    record->news.estimated_ns = thread->estimated_ns < thread->told_ns ? thread->estimated_ns : thread->told_ns;
    if (set->options.want_accounts && thread->told_ns)
        pass_on(set, record, thread);
    record->news.kind = kind;
}

/* Of a thread that rests, looks that are not yet told have been given out already. */
static void take_account(struct sample_set *set, struct sample_record *record, struct sample_thread *thread)
{
    uint64_t time_ns = record->sample.time_ns, estimated_ns = thread->estimated_ns;
    uint64_t ran_ns = sample_thread_reconcile(thread, time_ns, record->news.ran_ns, record->doubt_ns);
    if (!thread->rests || set->stopped_ns)
        sample_thread_correct(thread, time_ns, ran_ns);
    if (thread->estimated_ns != estimated_ns || !thread->is_accounted || set->stopped_ns)
        pass_on_ran(set, record, thread);
    thread->is_accounted = true;
}

/* The last word. */
static void end_account(struct sample_set *set, struct sample_record *record, struct sample_thread *thread)
{
    struct sample_end end;
    uint64_t time_ns = record->sample.time_ns;
    if (!thread->has_final && sample_ends_take(set, thread->tid, &end)) {
        thread->has_final = true;
        thread->final_ns = end.run_ns;
    }
    /* News that we have made up come later than it ended. */
    sample_thread_tell(thread, time_ns, thread->told_runs && record->event);
    if (thread->has_final)
        sample_thread_correct(thread, time_ns, sample_thread_reconcile(thread, time_ns, thread->final_ns, 0));
    pass_on_ran(set, record, thread);
    sample_thread_settle(thread, time_ns, &set->ready);
}

/* Of a thread that nobody told of while it lived, because who started it rests, it is known only what it ran. */
static void tell_unseen(struct sample_set *set, const struct sample_end *end, uint64_t time_ns)
{
    struct sample_thread thread = {.pid = end->pid, .tid = end->tid, .since_ns = time_ns, .state = SAMPLE_WAITS};
    struct sample_record record = {.kind = SAMPLE_NEWS, .sample = {.time_ns = time_ns, .pid = end->pid, .tid = end->tid}};
    memcpy(thread.name, end->name, sizeof thread.name);
    thread.told_ns = thread.estimated_ns = end->run_ns;
    record.news = (struct sample_news){.kind = SAMPLE_PRESENT, .start_ns = end->time_ns - end->elapsed_ns};
    if (set->options.want_tasks)
        pass_on(set, &record, &thread);
    pass_on_ran(set, &record, &thread);
    sample_thread_correct(&thread, time_ns, end->run_ns);
    sample_thread_settle(&thread, time_ns, &set->ready);
    record.news = (struct sample_news){.kind = SAMPLE_END};
    if (set->options.want_tasks)
        pass_on(set, &record, &thread);
}

static bool has_process(const struct sample_set *set, uint32_t pid, uint32_t but)
{
    for (size_t i = 0; i < set->thread.n; i++)
        if (set->thread.at[i].pid == pid && set->thread.at[i].tid != but)
            return true;
    return false;
}

/* Those that were heard of before `until_ns`, up to which all news are known. */
static void look_for_unseen(struct sample_set *set, uint64_t until_ns)
{
    for (size_t i = set->end.n; i-- > 0 && !set->end.at[i].is_checked;) {
        struct sample_end *end = &set->end.at[i];
        if (end->time_ns >= until_ns)
            continue;
        end->is_checked = true;
        if (!end->tid || sample_thread_find(&set->thread, end->tid))
            continue; /* its own news are on their way */
        if (has_process(set, end->pid, 0))
            tell_unseen(set, end, until_ns);
        end->tid = 0;
    }
}

/* Those of a process whose last thread ends. */
static void end_unseen(struct sample_set *set, const struct sample_thread *thread, uint64_t time_ns)
{
    if (!set->end.n || has_process(set, thread->pid, thread->tid))
        return;
    for (size_t i = 0; i < set->end.n; i++)
        if (set->end.at[i].tid && set->end.at[i].pid == thread->pid && set->end.at[i].tid != thread->tid) {
            tell_unseen(set, &set->end.at[i], time_ns);
            set->end.at[i].tid = 0;
        }
}

/* ---- what is told ---- */

static void take_news(struct sample_set *set, struct sample_record *record, struct sample_thread *thread)
{
    const struct sample_options *options = &set->options;
    uint64_t time_ns = record->sample.time_ns;
    bool is_wanted = options->want_tasks, has_others;
    switch (record->news.kind) {
    case SAMPLE_PRESENT:
    case SAMPLE_START:
        break;
    case SAMPLE_NAME:
        memcpy(thread->name, record->name, sizeof thread->name);
        break;
    case SAMPLE_EXEC:
        memcpy(thread->name, record->name, sizeof thread->name);
        has_others = end_others(set, record);
        thread = sample_thread_find(&set->thread, record->sample.tid);
        thread->is_another |= has_others;
        break;
    case SAMPLE_END:
        if (has_accounts(set)) {
            end_unseen(set, thread, time_ns);
            end_account(set, record, thread);
        }
        break;
    case SAMPLE_RAN:
        take_account(set, record, thread);
        return;
    case SAMPLE_IN:
        is_wanted = options->want_switches;
        sample_thread_tell(thread, time_ns, true);
        thread->is_told_wrong = false;
        if (!record->news.by_look)
            sample_thread_comes_in(thread, time_ns, &set->ready);
        break;
    case SAMPLE_OUT:
        is_wanted = options->want_switches;
        if (record->news.by_look && thread->told_runs)
            thread->estimated_ns += time_ns > thread->told_since_ns ? time_ns - thread->told_since_ns : 0;
        sample_thread_tell(thread, time_ns, false);
        thread->is_told_wrong = false;
        if (record->news.by_look)
            break;
        sample_thread_goes_out(thread, time_ns, record->news.preempted);
        thread->switches++;
        break;
    case SAMPLE_UNTOLD:
        sample_thread_tell(thread, time_ns, false);
        is_wanted = options->want_switches;
        break;
    case SAMPLE_TOLD:
        is_wanted = options->want_switches;
        break;
    case SAMPLE_MAP:
        is_wanted = options->want_maps;
        break;
    }
    if (is_wanted)
        pass_on(set, record, thread);
    if (record->news.kind == SAMPLE_END && thread->rests)
        set->resting--;
    if (record->news.kind == SAMPLE_END)
        sample_thread_remove(&set->thread, thread);
}

/* ---- samples ---- */

static void take_sample(struct sample_set *set, struct sample_record *record, struct sample_thread *thread, enum sample_event_kind kind)
{
    struct sample *sample = &record->sample;
    if (kind == SAMPLE_AT_SWITCH) {
        sample->off_cpu = true;
        thread->out_seen = true;
        pass_on(set, record, thread);
        return;
    }
    if (kind == SAMPLE_STACK_TIMER) {
        sample->stack_only = true;
        pass_on(set, record, thread);
        return;
    }
    bool is_exact = sample_has_switches(&set->options);
    sample->weight_ns = !is_exact ? set->options.period_ns
                        : kind == SAMPLE_TIMER || kind == SAMPLE_SHORT_TIMER
                            ? sample_thread_ran(thread, sample->time_ns, set->options.period_ns)
                            : sample_thread_ran_part(thread);
    pass_on(set, record, thread);
    if (is_exact && thread->held_ns) {
        sample->off_cpu = true;
        sample->weight_ns = thread->held_ns;
        thread->held_ns = 0;
        pass_on(set, record, thread);
    }
}

static void take_throttling(struct sample_set *set, const struct sample_record *record, struct sample_thread *thread)
{
    uint64_t time_ns = record->sample.time_ns;
    if (record->kind == SAMPLE_THROTTLED) {
        thread->throttled_ns = time_ns;
    } else if (thread->throttled_ns && time_ns > thread->throttled_ns) {
        set->lost_throttled += (time_ns - thread->throttled_ns) / set->options.period_ns;
        thread->throttled_ns = 0;
    }
}

/* The thread that a record is about, if the event that wrote it counts for it. */
static struct sample_thread *find_subject(struct sample_set *set, const struct sample_record *record, uint32_t root)
{
    struct sample_thread *thread = sample_thread_find(&set->thread, record->sample.tid);
    bool is_end = record->kind == SAMPLE_NEWS && record->news.kind == SAMPLE_END;
    if (!thread && root && !is_end) {
        thread = sample_thread_add(&set->thread, record->sample.pid, record->sample.tid, root);
        thread->since_ns = record->sample.time_ns;
        target_thread_name((pid_t)record->sample.pid, (pid_t)record->sample.tid, thread->name);
    }
    return thread && counts_for(thread, root, record) ? thread : NULL;
}

static void take_record(struct sample_set *set, struct sample_record *record)
{
    if (record->kind == SAMPLE_LOST) {
        set->lost_noted += record->lost;
        set->has_gaps = true;
        for (size_t i = 0; i < set->thread.n; i++)
            set->thread.at[i].in_doubt = set->thread.at[i].is_told_wrong = true;
        return;
    }
    const struct sample_event *event = sample_set_event(set, record->event);
    if (record->event && !event)
        return;
    uint32_t root = event ? event->root : 0;
    if (record->kind == SAMPLE_NEWS && record->news.kind == SAMPLE_START && !take_start(set, record, root))
        return;
    struct sample_thread *thread = find_subject(set, record, root);
    if (!thread)
        return;
    if (record->kind == SAMPLE_TAKEN && !event)
        pass_on(set, record, thread);
    else if (record->kind == SAMPLE_TAKEN)
        take_sample(set, record, thread, event->kind);
    else if (record->kind == SAMPLE_NEWS)
        take_news(set, record, thread);
    else
        take_throttling(set, record, thread);
}

/* ---- draining ---- */

/* What is younger than `end_ns` stays for the next time. */
static void take_records(struct sample_set *set, uint64_t end_ns)
{
    size_t count = set->fresh.record.n, taken = 0;
    struct sample_record **sorted = memory_alloc(count * sizeof(struct sample_record *));
    struct sample_records later = {0};
    for (size_t i = 0; i < count; i++)
        sorted[i] = &set->fresh.record.at[i];
    if (count)
        qsort(sorted, count, sizeof(struct sample_record *), by_time);
    for (; taken < count && sorted[taken]->sample.time_ns < end_ns; taken++)
        take_record(set, sorted[taken]);
    for (size_t i = taken; i < count; i++)
        sample_records_add(&later, sorted[i], set->fresh.bytes.at + sorted[i]->bytes_at);
    free(sorted);
    if (later.record.n) {
        sample_records_deinit(&set->fresh);
        set->fresh = later;
    } else {
        sample_records_clear(&set->fresh);
    }
}

static void look_at_waiting(struct sample_set *set, uint64_t time_ns)
{
    for (size_t i = 0; i < set->thread.n; i++) {
        struct sample_thread *thread = &set->thread.at[i];
        if (!thread->rests && thread->state != SAMPLE_RUNS && !thread->stands && !thread->looked_at && thread->since_ns < time_ns)
            sample_thread_look(thread, &set->options, set->user_only, time_ns, &set->ready);
    }
}

static void settle_waiting(struct sample_set *set, uint64_t time_ns)
{
    if (time_ns < set->settled_ns + settle_ns)
        return;
    set->settled_ns = time_ns;
    for (size_t i = 0; i < set->thread.n; i++)
        if (set->thread.at[i].state == SAMPLE_WAITS && !set->thread.at[i].rests)
            sample_thread_settle(&set->thread.at[i], time_ns, &set->ready);
}

/* After news were lost. */
static void close_gaps(struct sample_set *set)
{
    if (set->has_gaps && set->options.want_switches)
        for (size_t i = 0; i < set->thread.n; i++)
            if (!set->thread.at[i].rests)
                sample_set_tell_state(set, &set->thread.at[i]);
    set->has_gaps = false;
}

void sample_set_read(struct sample_set *set)
{
    uint64_t end_ns = clock_now_ns() - UNCERTAIN_NS;
    /* What threads that rest have done since the last look is told by the next. */
    if (set->resting && set->looked_ns < end_ns)
        end_ns = set->looked_ns;
    uint64_t *head = memory_alloc(set->ring.n * sizeof *head);
    for (size_t i = 0; i < set->ring.n; i++)
        head[i] = sample_ring_head(set->ring.at[i].page);
    for (size_t i = 0; i < set->ring.n; i++)
        sample_ring_read(set->ring.at[i].page, head[i], set->options.stack_bytes, &set->fresh);
    free(head);
    sample_ends_read(set);
    take_records(set, set->stopped_ns ? UINT64_MAX : end_ns);
    look_for_unseen(set, set->stopped_ns ? set->stopped_ns : end_ns);
    set->read_ns = end_ns;
    if (!has_accounts(set))
        return;
    if (set->stopped_ns) {
        for (size_t i = 0; i < set->thread.n; i++)
            sample_thread_settle(&set->thread.at[i], set->stopped_ns, &set->ready);
        return;
    }
    for (size_t i = 0; i < set->thread.n; i++)
        if (set->thread.at[i].unclear_ns)
            sample_thread_clear(&set->thread.at[i]);
    if (set->options.clock == SAMPLE_WALL) {
        look_at_waiting(set, end_ns);
        settle_waiting(set, end_ns);
    }
    close_gaps(set);
    sample_set_calm(set);
}

static void hand_over(struct sample_set *set, struct sample_record *record, sample_fn *take, sample_news_fn *tell, void *context)
{
    const uint8_t *bytes = record->bytes ? set->ready.bytes.at + record->bytes_at : NULL;
    if (record->kind == SAMPLE_TAKEN) {
        record->sample.comm = record->name;
        record->sample.stack = bytes;
        record->sample.stack_bytes = record->bytes;
        /* Of a clock that does not count waiting, only what was on a processor. */
        if (set->options.clock == SAMPLE_WALL || !record->sample.off_cpu)
            take(context, &record->sample);
    } else if (tell) {
        record->news.time_ns = record->sample.time_ns;
        record->news.pid = record->sample.pid;
        record->news.tid = record->sample.tid;
        record->news.name = record->name;
        record->news.map.path = bytes ? (const char *)bytes : "";
        tell(context, &record->news);
    }
}

size_t sample_set_drain(struct sample_set *set, sample_fn *take, sample_news_fn *tell, void *context)
{
    sample_set_read(set);
    size_t count = set->ready.record.n;
    for (size_t i = 0; i < count; i++)
        hand_over(set, &set->ready.record.at[i], take, tell, context);
    sample_records_clear(&set->ready);
    return count;
}
