/* What hooks and the kernel say becomes one sequence of events. The kernel tells late, so events are looked at when nothing from before
 * them can come any more. */
#include "climb/internal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* What hooks tell is the process's to make up: threads without end, calls ever deeper, times to come. Of more threads than this, those
 * without open calls are forgotten, and all where that are few; of a thread that has more calls open than this, these. */
enum { THREADS_MOST = 1 << 13, DEPTH_MOST = 1 << 10, AHEAD_MOST_NS = 1000000000 };

static void forget_threads(struct climb *climb, bool all)
{
    size_t kept = 0;
    for (size_t i = 0; i < climb->thread.n; i++) {
        struct climb_thread *thread = &climb->thread.at[i];
        if (!all && thread->call.n)
            climb->thread.at[kept++] = *thread;
        else
            VEC_FREE(&thread->call);
    }
    climb->thread.n = kept;
}

struct climb_thread *climb_thread(struct climb *climb, uint32_t tid)
{
    for (size_t i = 0; i < climb->thread.n; i++)
        if (climb->thread.at[i].tid == tid)
            return &climb->thread.at[i];
    if (climb->thread.n >= THREADS_MOST) {
        forget_threads(climb, false);
        if (climb->thread.n >= THREADS_MOST / 2)
            forget_threads(climb, true);
    }
    VEC_PUSH(&climb->thread, (struct climb_thread){.tid = tid, .waits_in = CLIMB_NONE});
    return &climb->thread.at[climb->thread.n - 1];
}

void climb_free_events(struct climb *climb)
{
    for (size_t i = 0; i < climb->thread.n; i++)
        VEC_FREE(&climb->thread.at[i].call);
    VEC_FREE(&climb->thread);
    VEC_FREE(&climb->told.event);
    VEC_FREE(&climb->hit.event);
    climb->told.done = climb->hit.done = 0;
}

/* ---- reading ---- */

bool climb_has_record(const struct climb_numbering *numbering, uint32_t type)
{
    return type - numbering->record < CLIMB_CLAUSES;
}

static void push_hit(struct climb *climb, const struct climb_event *event)
{
    struct climb_queue *hit = &climb->hit;
    hit->is_mixed |= hit->event.n && hit->event.at[hit->event.n - 1].time_ns > event->time_ns;
    VEC_PUSH(&hit->event, *event);
}

void climb_take_record(struct climb *climb, const struct drain_record *record, uint64_t time_ns)
{
    uint32_t hook = record->head.place;
    if (hook >= climb->hook.n || !climb_has_record(&climb->numbering, record->head.type))
        return;
    uint64_t now_ns = clock_now_ns();
    struct climb_event event = {
        .time_ns = time_ns < now_ns + AHEAD_MOST_NS ? time_ns : now_ns, .tid = record->head.tid, .function = climb->hook.at[hook].function};
    if (record->head.type - climb->numbering.record == CLIMB_ENTER) {
        const struct climb_enter *data = record->payload;
        event.kind = CLIMB_HIT_ENTER;
        event.va = data->return_va;
        event.sp = data->sp;
        event.weight = data->value;
        event.is_last = data->quota == 1;
        climb->hook.at[hook].calls++;
    } else {
        const struct climb_leave *data = record->payload;
        event.kind = CLIMB_HIT_LEAVE;
        event.sp = data->sp;
    }
    push_hit(climb, &event);
}

static size_t find_child(const struct climb *climb, uint32_t pid)
{
    size_t at = 0;
    while (at < climb->child.n && climb->child.at[at] != pid)
        at++;
    return at;
}

/* A child that was forked has the code of its parent until it executes a program. */
static bool has_its_code(const struct climb *climb, uint32_t pid)
{
    return pid == (uint32_t)climb->pid || find_child(climb, pid) < climb->child.n;
}

static void note_child(struct climb *climb, const struct sample_news *news)
{
    size_t at = find_child(climb, news->pid);
    bool is_new = news->kind == SAMPLE_START && news->pid != news->parent_pid && has_its_code(climb, news->parent_pid);
    bool is_over = news->kind == SAMPLE_EXEC || (news->kind == SAMPLE_END && news->tid == news->pid);
    if (is_new && at == climb->child.n)
        VEC_PUSH(&climb->child, news->pid);
    else if (is_over && at < climb->child.n)
        climb->child.at[at] = climb->child.at[--climb->child.n];
}

bool climb_is_ours(const struct climb *climb, const struct sample *sample)
{
    return has_its_code(climb, sample->pid) && sample->time_ns >= climb->since_ns && !climb->is_executed;
}

void climb_take_sample(struct climb *climb, const struct sample *sample)
{
    if (!climb_is_ours(climb, sample))
        return;
    VEC_PUSH(&climb->told.event, (struct climb_event){.time_ns = sample->time_ns,
                                                      .kind = sample->again     ? CLIMB_WAIT_ON
                                                              : sample->off_cpu ? CLIMB_WAIT
                                                                                : CLIMB_SAMPLE,
                                                      .tid = sample->tid,
                                                      .va = sample->pc,
                                                      .weight = sample->weight_ns});
}

void climb_take_news(struct climb *climb, const struct sample_news *news)
{
    struct climb_event event = {.time_ns = news->time_ns, .kind = news->kind == SAMPLE_OUT ? CLIMB_OUT : CLIMB_IN, .tid = news->tid};
    note_child(climb, news);
    climb->is_executed |= news->kind == SAMPLE_EXEC && news->pid == (uint32_t)climb->pid && news->time_ns >= climb->since_ns;
    /* A thread whose switches are not told counts as running. */
    bool is_switch = (news->kind == SAMPLE_IN || news->kind == SAMPLE_OUT) && !news->by_look;
    if ((is_switch || news->kind == SAMPLE_UNTOLD) && has_its_code(climb, news->pid))
        VEC_PUSH(&climb->told.event, event);
}

void climb_note_unhooked(struct climb *climb, uint32_t function)
{
    push_hit(climb, &(struct climb_event){.time_ns = clock_now_ns(), .kind = CLIMB_UNHOOKED, .function = function});
}

/* ---- wall time ---- */

static unsigned wall_slot(uint64_t ns)
{
    if (ns < CLIMB_WALL_STEPS)
        return (unsigned)ns;
    unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    return (power - 2) * CLIMB_WALL_STEPS + (unsigned)(ns >> (power - 3) & (CLIMB_WALL_STEPS - 1));
}

static uint64_t slot_ns(unsigned slot)
{
    if (slot < CLIMB_WALL_STEPS)
        return slot;
    unsigned power = slot / CLIMB_WALL_STEPS + 2;
    return (uint64_t)(CLIMB_WALL_STEPS + slot % CLIMB_WALL_STEPS) << (power - 3);
}

uint64_t climb_wall_quantile(const struct climb_function *function, double quantile)
{
    uint64_t below = 0, wanted = (uint64_t)(quantile * (double)function->ended);
    for (unsigned i = 0; i < CLIMB_WALL_SLOTS; i++) {
        below += function->wall_slot[i];
        if (below > wanted) {
            uint64_t ns = (slot_ns(i) + slot_ns(i + 1)) / 2;
            return ns < function->wall_min_ns ? function->wall_min_ns : ns > function->wall_max_ns ? function->wall_max_ns : ns;
        }
    }
    return function->wall_max_ns;
}

static void add_wall(struct climb_function *function, uint64_t ns)
{
    if (!function->ended || ns < function->wall_min_ns)
        function->wall_min_ns = ns;
    if (ns > function->wall_max_ns)
        function->wall_max_ns = ns;
    function->wall_ns += ns;
    function->ended++;
    function->wall_slot[wall_slot(ns)]++;
}

/* ---- calls ---- */

/* The innermost open call of each function accounts for it, as found on the way from the innermost call outwards (climb->looks). Inside one
 * that was cut there may be others, of which nobody has told. */
static bool is_innermost(const struct climb *climb, const struct climb_call *call)
{
    struct climb_function *function = climb->function.at[call->function];
    bool is_first = function->seen != climb->looks;
    function->seen = climb->looks;
    return is_first && !(call->is_cut && function->recurses);
}

static void valued(struct climb *climb, const struct climb_thread *thread, const struct climb_event *event)
{
    climb->looks++;
    climb->totals.value += event->weight;
    climb->function.at[event->function]->heat += (double)event->weight;
    climb->heat += (double)event->weight;
    for (size_t i = thread->call.n; i-- > 0;)
        if (is_innermost(climb, &thread->call.at[i])) {
            const struct climb_call *call = &thread->call.at[i];
            climb->function.at[call->function]->caller.at[call->caller].value += event->weight;
        }
}

/* Nobody tells of further calls inside of those that are open now. */
static void cut_calls(struct climb *climb, uint32_t function)
{
    for (size_t i = 0; i < climb->thread.n; i++)
        for (size_t k = 0; k < climb->thread.at[i].call.n; k++)
            climb->thread.at[i].call.at[k].is_cut |= climb->thread.at[i].call.at[k].function == function;
}

static void enter(struct climb *climb, const struct climb_event *event)
{
    struct climb_thread *thread = climb_thread(climb, event->tid);
    /* Calls at or below this stack pointer were left without a word: a longjmp, an exception. */
    while (thread->call.n && thread->call.at[thread->call.n - 1].sp <= event->sp)
        thread->call.n--;
    uint32_t caller = climb_find(climb, event->va - 1);
    struct climb_function *function = climb->function.at[event->function];
    struct climb_call call = {.function = event->function,
                              .caller = climb_caller_index(function, caller),
                              .sp = event->sp,
                              .enter_ns = event->time_ns,
                              .off_before_ns = thread->off_ns};
    function->calls++;
    function->caller.at[call.caller].calls++;
    for (size_t i = 0; i < thread->call.n; i++)
        function->recurses |= thread->call.at[i].function == event->function;
    if (thread->call.n >= DEPTH_MOST)
        thread->call.n = 0;
    VEC_PUSH(&thread->call, call);
    struct climb_hook *hook = function->hook != CLIMB_NONE ? &climb->hook.at[function->hook] : NULL;
    if (event->is_last && hook && hook->cuts < hook->enter_places) {
        hook->cuts++;
        cut_calls(climb, event->function);
    }
    if (climb_is_valued(climb, event->function))
        valued(climb, thread, event);
}

/* On a virtual machine the processor itself may be taken away, which nothing tells. One such call among many short ones would outweigh them
 * all, so a call counts for ten times of what nearly all take, at most. */
static uint64_t limit_cpu(const struct climb_function *function, uint64_t cpu_ns)
{
    enum { MANY = 64, TIMES = 10 };
    uint64_t most_ns = function->ended >= MANY ? TIMES * climb_wall_quantile(function, 0.99) : UINT64_MAX;
    return cpu_ns < most_ns ? cpu_ns : most_ns;
}

static void leave(struct climb *climb, const struct climb_event *event)
{
    struct climb_thread *thread = climb_thread(climb, event->tid);
    size_t at = thread->call.n;
    while (at > 0 && !(thread->call.at[at - 1].function == event->function && thread->call.at[at - 1].sp == event->sp))
        at--;
    if (!at)
        return; /* it was entered before it was hooked */
    struct climb_function *function = climb->function.at[event->function];
    struct climb_call call = thread->call.at[at - 1];
    if (call.is_cut && function->recurses) { /* what belongs to calls inside of it is not known */
        thread->call.n = at - 1;
        return;
    }
    uint64_t wall_ns = event->time_ns > call.enter_ns ? event->time_ns - call.enter_ns : 0;
    uint64_t off_ns = thread->off_ns - call.off_before_ns, cpu_ns = limit_cpu(function, wall_ns > off_ns ? wall_ns - off_ns : 0);
    thread->call.n = at - 1;
    add_wall(function, wall_ns);
    function->cpu_ns += cpu_ns;
    struct climb_caller *caller = &function->caller.at[call.caller];
    caller->wall_ns += wall_ns > call.inside_ns ? wall_ns - call.inside_ns : 0;
    caller->cpu_ns += cpu_ns > call.inside_cpu_ns ? cpu_ns - call.inside_cpu_ns : 0;
    for (size_t i = thread->call.n; i-- > 0;)
        if (thread->call.at[i].function == event->function) {
            thread->call.at[i].inside_ns += wall_ns;
            thread->call.at[i].inside_cpu_ns += cpu_ns;
            break;
        }
}

/* Of a function whose hooks are gone nobody tells the end. */
static void forget_calls(struct climb *climb, uint32_t function)
{
    for (size_t i = 0; i < climb->thread.n; i++) {
        struct climb_thread *thread = &climb->thread.at[i];
        size_t kept = 0;
        for (size_t k = 0; k < thread->call.n; k++)
            if (thread->call.at[k].function != function)
                thread->call.at[kept++] = thread->call.at[k];
        thread->call.n = kept;
    }
}

/* ---- samples ---- */

static void see(struct climb_caller *caller, uint32_t hot, uint64_t ns)
{
    for (size_t i = 0; i < caller->seen.n; i++)
        if (caller->seen.at[i].hot == hot) {
            caller->seen.at[i].ns += ns;
            return;
        }
    VEC_PUSH(&caller->seen, (struct climb_seen){hot, ns});
}

static void see_in_calls(struct climb *climb, const struct climb_thread *thread, uint32_t hot, uint64_t ns)
{
    climb->looks++;
    for (size_t i = thread->call.n; i-- > 0;) {
        const struct climb_call *call = &thread->call.at[i];
        struct climb_function *function = climb->function.at[call->function];
        if (is_innermost(climb, call)) {
            see(&function->caller.at[call->caller], hot, ns);
        }
    }
}

static void sampled(struct climb *climb, const struct climb_event *event)
{
    struct climb_thread *thread = climb_thread(climb, event->tid);
    uint32_t hot = event->kind == CLIMB_WAIT_ON ? thread->waits_in : climb_find(climb, event->va);
    climb->cpu_ns += event->kind == CLIMB_SAMPLE ? event->weight : 0;
    if (event->kind == CLIMB_WAIT)
        thread->waits_in = hot;
    if (hot == CLIMB_NONE && event->kind == CLIMB_SAMPLE && climb->process && load_process_is_ours(climb->process, event->va)) {
        climb->totals.hook_ns += event->weight; /* ours, not the program's */
        return;
    }
    climb->totals.samples += event->kind != CLIMB_WAIT_ON;
    climb->totals.sampled_ns += event->weight;
    bool heats = climb->options.metric != CLIMB_VALUE && !climb_counts_executions(climb);
    if (heats)
        climb->heat += (double)event->weight;
    if (hot == CLIMB_NONE)
        return;
    climb->function.at[hot]->samples += event->kind != CLIMB_WAIT_ON;
    climb->function.at[hot]->self_ns += event->weight;
    if (heats)
        climb->function.at[hot]->heat += (double)event->weight;
    see_in_calls(climb, thread, hot, event->weight);
}

/* ---- all ---- */

static void switched(struct climb *climb, const struct climb_event *event)
{
    struct climb_thread *thread = climb_thread(climb, event->tid);
    if (event->kind == CLIMB_OUT)
        thread->off_since_ns = event->time_ns;
    else if (thread->off_since_ns) {
        thread->off_ns += event->time_ns - thread->off_since_ns;
        thread->off_since_ns = 0;
    }
}

static void take(struct climb *climb, const struct climb_event *event)
{
    switch (event->kind) {
    case CLIMB_HIT_ENTER:
        enter(climb, event);
        break;
    case CLIMB_HIT_LEAVE:
        leave(climb, event);
        break;
    case CLIMB_SAMPLE:
    case CLIMB_WAIT:
    case CLIMB_WAIT_ON:
        sampled(climb, event);
        break;
    case CLIMB_IN:
    case CLIMB_OUT:
        switched(climb, event);
        break;
    case CLIMB_UNHOOKED:
        forget_calls(climb, event->function);
    }
}

static void shorten(struct climb_queue *queue)
{
    memmove(queue->event.at, queue->event.at + queue->done, (queue->event.n - queue->done) * sizeof *queue->event.at);
    queue->event.n -= queue->done;
    queue->done = 0;
}

/* Mostly in order already: parts of few rings. What is of the same time keeps its order. */
static void sort(struct climb_queue *queue)
{
    struct climb_event *event = queue->event.at;
    size_t n = queue->event.n;
    struct climb_event *other = memory_alloc(n * sizeof *other);
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t low = 0; low < n; low += 2 * run) {
            size_t middle = low + run < n ? low + run : n, high = middle + run < n ? middle + run : n, a = low, b = middle;
            for (size_t to = low; to < high; to++)
                other[to] = a < middle && (b == high || event[a].time_ns <= event[b].time_ns) ? event[a++] : event[b++];
        }
        memcpy(event, other, n * sizeof *event);
    }
    free(other);
    queue->is_mixed = false;
}

void climb_take_events(struct climb *climb, uint64_t before_ns)
{
    struct climb_queue *told = &climb->told, *hit = &climb->hit;
    if (hit->is_mixed)
        sort(hit);
    for (;;) {
        const struct climb_event *a = told->done < told->event.n ? &told->event.at[told->done] : NULL;
        const struct climb_event *b = hit->done < hit->event.n ? &hit->event.at[hit->done] : NULL;
        bool from_told = a && (!b || a->time_ns <= b->time_ns);
        struct climb_event event = from_told ? *a : b ? *b : (struct climb_event){.time_ns = UINT64_MAX};
        if ((!a && !b) || event.time_ns >= before_ns)
            break;
        from_told ? told->done++ : hit->done++;
        take(climb, &event);
    }
    if (told->event.n)
        shorten(told);
    if (hit->event.n)
        shorten(hit);
}
