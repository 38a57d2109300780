/* Records of the rings → calls that nest: rule 1 of record.h. */
#include "record/run.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* Stack pointers that are further apart are of two stacks. */
enum { SAME_STACK_BYTES = 1 << 20 };
/* Of all threads together, and among how many of a thread one on another stack is looked for: what processes tell has no limits of its own.
 */
enum { OPEN_MOST = 1 << 23, SEARCHED_MOST = 1 << 13 };

/* ---- open calls ---- */

static void write_call(struct record_run *run, struct record_thread *thread, uint64_t time_ns, enum trace_minor minor, uint32_t function)
{
    struct trace_record record = {.time_ns = time_ns, .major = TRACE_CALL, .minor = (uint8_t)minor, .number = function};
    record_write(run, thread, &record);
}

static void close_innermost(struct record_run *run, struct record_thread *thread, uint64_t time_ns)
{
    write_call(run, thread, time_ns, TRACE_RETURN, thread->call.at[--thread->call.n].function);
    run->open_calls--;
}

/* Whether the call of stack pointer `inner` is over when the thread is at `sp`. */
static bool is_over(uint64_t inner, uint64_t sp)
{
    return inner <= sp && sp - inner < SAME_STACK_BYTES;
}

static bool is_far(uint64_t inner, uint64_t sp)
{
    return (inner < sp ? sp - inner : inner - sp) >= SAME_STACK_BYTES;
}

static void enter(struct record_run *run, struct record_thread *thread, uint64_t time_ns, uint32_t function, uint64_t sp)
{
    while (thread->call.n && is_over(thread->call.at[thread->call.n - 1].sp, sp)) {
        run->summary.left_calls++;
        close_innermost(run, thread, time_ns);
    }
    while (run->open_calls >= OPEN_MOST && thread->call.n) {
        run->summary.left_calls++;
        close_innermost(run, thread, time_ns);
    }
    if (run->open_calls >= OPEN_MOST) {
        drain_count_lost(&run->memory);
        return;
    }
    VEC_PUSH(&thread->call, (struct record_call){function, sp});
    run->open_calls++;
    write_call(run, thread, time_ns, TRACE_ENTER, function);
    run->summary.calls++;
}

/* How many calls stay open: those outside of the innermost one of the function, or all when it is not there. */
static size_t find_open(const struct record_thread *thread, uint32_t function)
{
    size_t least = thread->call.n > SEARCHED_MOST ? thread->call.n - SEARCHED_MOST : 0;
    for (size_t i = thread->call.n; i-- > least;)
        if (thread->call.at[i].function == function)
            return i;
    return thread->call.n;
}

static void leave(struct record_run *run, struct record_thread *thread, uint64_t time_ns, uint32_t function, uint64_t sp)
{
    bool found = false;
    if (thread->call.n && is_far(thread->call.at[thread->call.n - 1].sp, sp)) {
        size_t stays = find_open(thread, function);
        found = stays < thread->call.n;
        run->summary.left_calls += found ? thread->call.n - stays - 1 : 0;
        while (thread->call.n > stays)
            close_innermost(run, thread, time_ns);
    }
    while (thread->call.n && is_over(thread->call.at[thread->call.n - 1].sp, sp)) {
        bool is_it = thread->call.at[thread->call.n - 1].function == function;
        run->summary.left_calls += !is_it;
        found |= is_it;
        close_innermost(run, thread, time_ns);
    }
    run->summary.odd_returns += !found;
}

/* ---- records ---- */

static const struct record_row *row_of(struct record_run *run, uint32_t number)
{
    while (run->row.n <= number)
        VEC_PUSH(&run->row, (struct record_row){.function = TRACE_NONE});
    struct record_row *row = &run->row.at[number];
    if (row->function == TRACE_NONE && number < load_session_row_count(run->session)) {
        const struct load_row *from = load_session_row(run->session, number);
        row->function = record_function_of_row(run, from);
        row->is_return = !strcmp(from->point, "return");
    }
    return row;
}

static void take(struct record_run *run, const struct drain_record *record, uint64_t time_ns)
{
    struct record_thread *thread = run->last_thread;
    if (!thread || thread->ids != ((uint64_t)record->head.pid << 32 | record->head.tid) || thread->has_ended)
        thread = record_told_thread(run, record->head.pid, record->head.tid, time_ns);
    if (!thread) {
        drain_count_lost(&run->memory);
        return;
    }
    run->last_thread = thread;
    thread->last_ns = time_ns;
    if (record->head.type != run->program.record) {
        record_take_measure(run, thread, time_ns, record);
        return;
    }
    if (record->head.place >= load_session_row_count(run->session))
        return; /* nonsense */
    const struct record_row *row = record->head.place < run->row.n && run->row.at[record->head.place].function != TRACE_NONE
                                       ? &run->row.at[record->head.place]
                                       : row_of(run, record->head.place);
    const struct record_event *event = record->payload;
    if (row->is_return)
        leave(run, thread, time_ns, row->function, event->sp);
    else
        enter(run, thread, time_ns, row->function, event->sp);
}

/* ---- holding back ---- */

/* What is held of a ring at most: the rest stays in the ring, and who finds no room there waits. */
enum { HELD_MOST = 1 << 17 };
/* A record that is not committed is not waited for longer: what comes late then comes out of order. */
enum { LATE_MOST_NS = 100000000 };
/* A time that is further ahead is made up, and would hold up what is behind it. */
enum { AHEAD_MOST_NS = 1000000000 };

struct holding {
    struct record_run *run;
    struct record_held *held;
    uint64_t latest_ns; /* what is said to be later is nobody's time */
};

/* Which thread a call is of is known when the news of threads up to its time is: ids are used again. A climb wants to know at once that a
 * hook has told enough. */
static void hold(void *context, const struct drain_record *record, size_t count)
{
    struct record_run *run = ((struct holding *)context)->run;
    struct record_held *held = ((struct holding *)context)->held;
    uint64_t latest_ns = ((struct holding *)context)->latest_ns;
    for (size_t i = 0; i < count; i++, record++) {
        if (run->climb && climb_has_record(&run->program.climb, record->head.type)) {
            climb_take_record(run->climb, record, record_clock_ns(&run->clock, record->head.time));
            continue;
        }
        struct drain_record copy = *record;
        if (record_clock_ns(&run->clock, copy.head.time) > latest_ns)
            copy.head.time = run->clock.is_tsc ? run->clock.last.tsc : run->clock.last.ns;
        const uint64_t *word = record->payload;
        copy.payload = (const void *)held->word.n; /* where it is, while the words may still move */
        for (uint32_t k = 0; k < record->payload_bytes / 8; k++)
            VEC_PUSH(&held->word, word[k]);
        VEC_PUSH(&held->record, copy);
    }
}

static void forget_taken(struct record_held *held)
{
    if (held->done < held->record.n / 2)
        return;
    size_t words = held->done < held->record.n ? (size_t)held->record.at[held->done].payload : held->word.n;
    held->record.n -= held->done;
    held->word.n -= words;
    memmove(held->record.at, held->record.at + held->done, held->record.n * sizeof *held->record.at);
    memmove(held->word.at, held->word.at + words, held->word.n * sizeof *held->word.at);
    for (size_t i = 0; i < held->record.n; i++)
        held->record.at[i].payload = (const char *)held->record.at[i].payload - words;
    held->done = 0;
}

static void take_held(struct record_run *run, struct record_held *held, uint64_t until_ns)
{
    for (; held->done < held->record.n; held->done++) {
        struct drain_record record = held->record.at[held->done];
        uint64_t time_ns = record_clock_ns(&run->clock, record.head.time);
        if (time_ns > until_ns)
            break;
        record.payload = held->word.at + (size_t)record.payload;
        take(run, &record, time_ns);
    }
    if (held->record.n)
        forget_taken(held);
}

/* Out of a ring, and up to when that is all of its calls. */
static size_t read_ring(struct record_run *run, uint32_t number, bool all)
{
    struct record_held *held = &run->held.at[number];
    uint64_t now_ns = clock_now_ns();
    struct holding holding = {run, held, now_ns + AHEAD_MOST_NS};
    size_t before = held->record.n, most = before < HELD_MOST ? HELD_MOST - before : 0;
    bool is_empty;
    size_t count = drain_ring(&run->memory, run->program.stream, number, all, most, hold, &holding, &is_empty);
    uint64_t until_ns = is_empty ? now_ns : count < most ? now_ns - LATE_MOST_NS : 0;
    if (!is_empty && held->record.n > before) {
        uint64_t last_ns = record_clock_ns(&run->clock, held->record.at[held->record.n - 1].head.time);
        until_ns = last_ns > until_ns ? last_ns : until_ns;
    }
    held->until_ns = until_ns > held->until_ns ? until_ns : held->until_ns;
    return count;
}

static void make_held(struct record_run *run)
{
    while (run->held.n < run->memory.layout.ring_count)
        VEC_PUSH(&run->held, (struct record_held){.until_ns = 0});
}

void record_empty_rings(struct record_run *run)
{
    enum { EMPTIED_MOST = 4 * HELD_MOST };
    make_held(run);
    record_clock_update(&run->clock);
    for (uint32_t i = 0; i < run->held.n; i++) {
        struct holding holding = {run, &run->held.at[i], clock_now_ns() + AHEAD_MOST_NS};
        size_t held = run->held.at[i].record.n;
        bool is_empty;
        drain_ring(&run->memory, run->program.stream, i, false, held < EMPTIED_MOST ? EMPTIED_MOST - held : 0, hold, &holding, &is_empty);
    }
}

/* `is_last`: nothing will be read behind this; what is held is taken whatever its time. */
static size_t drain_once(struct record_run *run, bool all, bool is_last)
{
    size_t count = 0;
    record_clock_update(&run->clock);
    run->calls_until_ns = UINT64_MAX;
    for (uint32_t i = 0; i < run->held.n; i++) {
        count += read_ring(run, i, all);
        if (run->held.at[i].until_ns < run->calls_until_ns)
            run->calls_until_ns = run->held.at[i].until_ns;
    }
    /* Trees want calls and news in order, each as far as all of them are known. */
    uint64_t until_ns = run->samples ? run->samples_until_ns : UINT64_MAX;
    if (run->trees && run->calls_until_ns < until_ns)
        until_ns = run->calls_until_ns;
    for (uint32_t i = 0; i < run->held.n; i++)
        take_held(run, &run->held.at[i], (all && !count) || is_last ? UINT64_MAX : until_ns);
    return count;
}

size_t record_drain_calls(struct record_run *run, bool all)
{
    if (!run->session)
        return 0;
    make_held(run);
    run->memory.has_strangers = load_session_has_strangers(run->session);
    /* A process that still has the memory may go on writing: so much is read as there is in the beginning. */
    uint64_t end_bytes = run->memory.read_bytes + drain_backlog(&run->memory);
    size_t total = 0, count;
    bool is_last;
    do {
        is_last = all && run->memory.read_bytes >= end_bytes;
        total += count = drain_once(run, all, is_last);
        if (all)
            record_trees_advance(run);
    } while (all && count && !is_last);
    return total;
}

void record_held_deinit(struct record_run *run)
{
    for (size_t i = 0; i < run->held.n; i++) {
        VEC_FREE(&run->held.at[i].record);
        VEC_FREE(&run->held.at[i].word);
    }
    VEC_FREE(&run->held);
}

/* ---- losses ---- */

/* Whose they are is not known: the thread that wrote last is told of them, at the time of what it wrote. */
static void note(struct record_run *run, struct record_thread *thread, enum trace_loss what, uint64_t lost, uint64_t *noted)
{
    if (lost <= *noted || !thread)
        return;
    struct trace_record record = {
        .time_ns = thread->last_ns, .major = TRACE_LOSS, .minor = TRACE_LOST, .number = what, .value = lost - *noted};
    record_write(run, thread, &record);
    *noted = lost;
}

void record_note_lost(struct record_run *run)
{
    if (run->session) {
        /* Without calls and metrics it is hooks of the climb that found no room. */
        if (run->options->n_calls || run->options->n_metrics)
            run->summary.lost_calls = drain_session_lost(&run->memory, WIRE_LOSS_RING);
        note(run, run->last_thread, TRACE_LOSS_CALLS, run->summary.lost_calls, &run->lost_calls);
        run->summary.lost_stacks = drain_session_lost(&run->memory, WIRE_LOSS_STACK);
        note(run, run->last_thread, TRACE_LOSS_STACKS, run->summary.lost_stacks, &run->lost_stacks);
    }
    if (run->samples) {
        /* Without samples it is news of threads. */
        *(run->options->hz ? &run->summary.lost_samples : &run->summary.lost_news) = record_queue_lost(run->samples);
        note(run, run->last_sampled ? run->last_sampled : run->last_thread, TRACE_LOSS_SAMPLES, run->summary.lost_samples,
             &run->lost_samples);
    }
}
