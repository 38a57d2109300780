/* Trees that are built while recording: records of a thread are put in order of time and go into its tree instead of the trace; the trees
 * are written in the end, and now and then before.
 *
 * Calls and what the kernel tells arrive apart, each in order. What is older than both can still bring is merged. Times between two
 * writings grow with the time that has passed, so that what is written in all stays a small multiple of the trees.
 *
 * Nothing here grows with the time that a recording takes. Trees are folded (tree/), stacks are forgotten (define.c), threads and processes
 * that have ended are, too, and the trace is told of them when their tree is written, with the name that they have then. Programs may start
 * threads without end: of those that have ended so many have trees of their own, all others have one together. */
#include "record/run.h"

#include "base/clock.h"
#include "base/heap.h"

#include <stdlib.h>
#include <string.h>

enum { USUAL_BYTES = 64 << 20, STACKS_PART = 8 /* of the memory, one is for stacks */, WRITTEN_MOST = 256, KEPT_RECORDS = 1 << 12 };
#define FIRST_WRITING_NS 60000000000ull

/* ---- records ---- */

void record_tree_add(struct record_run *run, struct record_thread *thread, const struct trace_record *record)
{
    bool is_call = record->major == TRACE_CALL || (record->major == TRACE_SAMPLE && record->minor == TRACE_PLACE) ||
                   (record->major == TRACE_LOSS && record->number == TRACE_LOSS_CALLS);
    if (!thread->tree) {
        thread->tree = memory_zero(1, sizeof *thread->tree);
        /* The root's name is not written, and would be kept for every thread. */
        thread->tree->tree = tree_of_thread(run->trees->set, run->trees->threads++, "thread");
        tree_join(thread->tree->tree, thread->process->pid);
    }
    VEC_PUSH(&thread->tree->part[!is_call], *record);
}

/* How many of the part's records from `from` on are not later. */
static size_t count_until(const struct record_tree *tree, int part, size_t from, uint64_t until_ns)
{
    size_t to = from;
    while (to < tree->part[part].n && tree->part[part].at[to].time_ns <= until_ns)
        to++;
    return to - from;
}

static void remove_done(struct record_tree *tree, int part)
{
    size_t count = tree->done[part];
    if (!count)
        return;
    tree->done[part] = 0;
    tree->part[part].n -= count;
    memmove(tree->part[part].at, tree->part[part].at + count, tree->part[part].n * sizeof *tree->part[part].at);
    if (!tree->part[part].n && tree->part[part].room > KEPT_RECORDS)
        VEC_FREE(&tree->part[part]);
}

/* Takes what is not later than `up_to_ns` out of both parts, in order; calls come before the rest of the same time. */
static void advance(struct record_run *run, struct record_tree *tree, uint64_t up_to_ns)
{
    bool has_switches = record_has_switches(run);
    size_t *calls = &tree->done[0], *rest = &tree->done[1];
    for (;;) {
        const struct trace_record *next = *rest < tree->part[1].n ? &tree->part[1].at[*rest] : NULL;
        bool is_due = next && next->time_ns <= up_to_ns;
        size_t count = count_until(tree, 0, *calls, is_due ? next->time_ns : up_to_ns);
        if (count)
            tree_add(tree->tree, tree->part[0].at + *calls, count, has_switches);
        *calls += count;
        if (!is_due)
            break;
        tree_add(tree->tree, next, 1, has_switches);
        ++*rest;
    }
}

static void forget_done(struct record_tree *tree)
{
    remove_done(tree, 0);
    remove_done(tree, 1);
}

/* ---- all threads in order of time: what metrics have for elapsed is about all of a process ---- */

/* The time of the thread's next record; UINT64_MAX: it has none. */
static uint64_t next_time(const struct record_tree *tree)
{
    uint64_t time_ns = UINT64_MAX;
    for (int part = 0; part < 2; part++)
        if (tree->done[part] < tree->part[part].n && tree->part[part].at[tree->done[part]].time_ns < time_ns)
            time_ns = tree->part[part].at[tree->done[part]].time_ns;
    return time_ns;
}

static uint64_t second_time(const heap_entries *next, uint64_t up_to_ns)
{
    for (size_t i = 1; i < 3 && i < next->n; i++)
        up_to_ns = next->at[i].key < up_to_ns ? next->at[i].key : up_to_ns;
    return up_to_ns;
}

/* Whether there are metrics that threads of a process use together. */
static bool has_amounts(const struct record_run *run)
{
    for (size_t i = 0; i < run->options->n_metrics; i++)
        if (run->options->metric[i].name)
            return true;
    return false;
}

static void advance_merged(struct record_run *run, uint64_t up_to_ns)
{
    VEC(struct record_tree *) tree = {0};
    heap_entries next = {0};
    for (size_t i = 0; i < run->thread_room; i++)
        for (struct record_thread *thread = run->thread[i]; thread; thread = thread->older)
            if (thread->tree && next_time(thread->tree) <= up_to_ns) {
                heap_put(&next, next_time(thread->tree), (uint32_t)tree.n);
                VEC_PUSH(&tree, thread->tree);
            }
    while (next.n && next.at[0].key <= up_to_ns) {
        struct record_tree *first = tree.at[next.at[0].item];
        advance(run, first, second_time(&next, up_to_ns));
        uint64_t time_ns = next_time(first);
        if (time_ns == UINT64_MAX)
            heap_drop_first(&next);
        else
            heap_change_first(&next, time_ns);
    }
    for (size_t i = 0; i < tree.n; i++)
        forget_done(tree.at[i]);
    VEC_FREE(&tree);
    VEC_FREE(&next);
}

/* ---- writing ---- */

static void write_tree(struct record_run *run, struct record_thread *thread, const struct tree *tree)
{
    tree_write(tree, run->writer, record_thread_number(run, thread, clock_now_ns()));
}

static void write_others(struct record_run *run, const struct tree *tree)
{
    struct record_trees *trees = run->trees;
    if (trees->others_number == TRACE_NONE) {
        struct trace_process process = {.parent = TRACE_NONE, .name = "[ended]", .start_ns = run->start_ns, .status = -1};
        struct trace_thread thread = {.name = "[ended]", .start_ns = run->start_ns};
        uint64_t now_ns = clock_now_ns();
        thread.process = trace_define_process(run->writer, now_ns, &process);
        trees->others_number = trace_define_thread(run->writer, now_ns, &thread);
    }
    tree_write(tree, run->writer, trees->others_number);
}

static struct tree *others_of(struct record_trees *trees)
{
    if (!trees->others)
        trees->others = tree_sum_begin(trees->set, UINT32_MAX, "[ended]");
    return trees->others;
}

static void free_tree(struct record_run *run, struct record_thread *thread)
{
    struct record_tree *tree = thread->tree;
    tree_forget(run->trees->set, tree->tree);
    VEC_FREE(&tree->part[0]);
    VEC_FREE(&tree->part[1]);
    free(tree);
    thread->tree = NULL;
}

static void end_tree(struct record_run *run, struct record_thread *thread, uint64_t end_ns)
{
    struct record_trees *trees = run->trees;
    struct tree *tree = thread->tree->tree;
    tree_end(tree, end_ns);
    /* What the trace knows already stays a thread of its own. */
    if (!thread->has_ended || thread->number != TRACE_NONE || trees->written < WRITTEN_MOST) {
        write_tree(run, thread, tree);
        trees->written += thread->has_ended;
    } else {
        tree_sum_add(others_of(trees), tree);
    }
    free_tree(run, thread);
}

static void write_all(struct record_run *run, uint64_t now_ns)
{
    for (size_t i = 0; i < run->thread_room; i++)
        for (struct record_thread *thread = run->thread[i]; thread; thread = thread->older) {
            if (!thread->tree)
                continue;
            struct tree *snapshot = tree_snapshot(thread->tree->tree, now_ns);
            write_tree(run, thread, snapshot);
            tree_destroy_snapshot(snapshot);
        }
    if (run->trees->others) {
        struct tree *snapshot = tree_snapshot(run->trees->others, now_ns);
        write_others(run, snapshot);
        tree_destroy_snapshot(snapshot);
    }
}

/* Whether the thread is over and gone. */
static bool advance_thread(struct record_run *run, struct record_thread *thread, uint64_t up_to_ns)
{
    bool is_over = thread->has_ended && thread->end_ns < up_to_ns;
    if (!thread->tree)
        return is_over;
    advance(run, thread->tree, up_to_ns);
    forget_done(thread->tree);
    is_over &= !thread->tree->part[0].n && !thread->tree->part[1].n;
    if (is_over)
        end_tree(run, thread, thread->end_ns);
    return is_over;
}

static void advance_all(struct record_run *run, uint64_t up_to_ns)
{
    VEC(struct record_thread *) over = {0};
    if (has_amounts(run))
        advance_merged(run, up_to_ns);
    for (size_t i = 0; i < run->thread_room; i++)
        for (struct record_thread *thread = run->thread[i]; thread; thread = thread->older)
            if (advance_thread(run, thread, up_to_ns))
                VEC_PUSH(&over, thread);
    for (size_t i = 0; i < over.n; i++)
        record_forget_thread(run, over.at[i]);
    if (over.n)
        record_forget_processes(run);
    VEC_FREE(&over);
}

void record_trees_advance(struct record_run *run)
{
    uint64_t up_to_ns = run->session ? run->calls_until_ns : run->samples_until_ns;
    if (!run->trees)
        return;
    if (run->samples && run->samples_until_ns < up_to_ns)
        up_to_ns = run->samples_until_ns;
    advance_all(run, up_to_ns);
    if (up_to_ns < run->start_ns + run->trees->next_writing_ns)
        return;
    run->trees->next_writing_ns += run->trees->next_writing_ns / 2;
    write_all(run, up_to_ns);
}

/* ---- life ---- */

void record_trees_create(struct record_run *run)
{
    struct record_trees *trees = memory_zero(1, sizeof *trees);
    size_t bytes = run->options->memory_bytes ? run->options->memory_bytes : USUAL_BYTES, for_stacks = bytes / STACKS_PART;
    trees->definitions = record_definitions_create(for_stacks);
    struct tree_source source = record_definitions_source(trees->definitions);
    struct tree_options options = {.by = TREE_BY_FUNCTION, .memory_bytes = bytes - for_stacks};
    trees->set = tree_set_create(&source, &options);
    trees->others_number = TRACE_NONE;
    trees->next_writing_ns = FIRST_WRITING_NS;
    run->trees = trees;
}

void record_trees_finish(struct record_run *run)
{
    uint64_t now_ns = clock_now_ns();
    if (run->trees && has_amounts(run))
        advance_merged(run, UINT64_MAX - 1);
    for (size_t i = 0; run->trees && i < run->thread_room; i++)
        for (struct record_thread *thread = run->thread[i]; thread; thread = thread->older) {
            if (thread->tree) {
                advance(run, thread->tree, UINT64_MAX);
                end_tree(run, thread, thread->has_ended ? thread->end_ns : now_ns);
            } else if (!thread->has_ended) {
                record_thread_number(run, thread, now_ns); /* it did nothing, but is there */
            }
        }
    if (run->trees && run->trees->others) {
        tree_end(run->trees->others, 0);
        write_others(run, run->trees->others);
    }
}

void record_trees_destroy(struct record_run *run)
{
    if (!run->trees)
        return;
    tree_set_destroy(run->trees->set);
    record_definitions_destroy(run->trees->definitions);
    free(run->trees);
    run->trees = NULL;
}
