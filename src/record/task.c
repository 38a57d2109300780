/* Processes and threads: rule 2 of record.h. The trace is told of them at once; with live trees, when one of their trees is written. */
#include "record/run.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- processes ---- */

struct record_process *record_find_process(const struct record_run *run, uint32_t pid)
{
    for (size_t i = run->process.n; i-- > 0;)
        if (run->process.at[i]->pid == pid && !run->process.at[i]->has_ended)
            return run->process.at[i];
    return NULL;
}

static void tell_of_process(struct record_run *run, struct record_process *process, uint64_t time_ns)
{
    struct record_process *parent = process->parent;
    if (process->number != TRACE_NONE) {
        if (process->is_renamed)
            trace_rename_process(run->writer, time_ns, process->number, process->name);
        process->is_renamed = false;
        return;
    }
    if (parent)
        tell_of_process(run, parent, time_ns);
    struct trace_process definition = {.pid = process->pid,
                                       .parent = parent ? parent->number : TRACE_NONE,
                                       .width = process->width,
                                       .name = process->name,
                                       .start_ns = process->start_ns,
                                       .end_ns = process->has_ended ? process->end_ns : 0,
                                       .status = -1};
    process->number = trace_define_process(run->writer, time_ns, &definition);
    process->is_renamed = false;
}

struct record_process *record_process_of(struct record_run *run, uint32_t pid, uint32_t parent, uint64_t time_ns)
{
    struct record_process *process = record_find_process(run, pid);
    if (process)
        return process;
    process = memory_zero(1, sizeof *process);
    process->pid = pid;
    process->number = TRACE_NONE;
    process->start_ns = time_ns;
    process->parent = parent ? record_find_process(run, parent) : NULL;
    err_free(unwind_process_open(run->tables, (pid_t)pid, 0, &process->unwind)); /* it may be gone already */
    process->width = (uint32_t)target_program_width((pid_t)pid);
    if (!process->width)
        process->width = process->parent ? process->parent->width : 0;
    char name[4096];
    bool is_there = target_program_path((pid_t)pid, name, sizeof name);
    process->name = is_there ? memory_text(name) : memory_format("process %u", pid);
    VEC_PUSH(&run->process, process);
    if (!run->trees)
        tell_of_process(run, process, time_ns);
    record_read_mappings(run, process, time_ns);
    return process;
}

void record_end_process(struct record_run *run, struct record_process *process, uint64_t time_ns, int32_t status)
{
    if (!process->has_ended && process->number != TRACE_NONE)
        trace_end_process(run->writer, time_ns, process->number, status);
    process->end_ns = process->has_ended ? process->end_ns : time_ns;
    process->has_ended = true;
}

static void free_process(struct record_process *process)
{
    unwind_process_close(process->unwind);
    record_mappings_deinit(process);
    free(process->name);
    free(process);
}

/* A child that could not be looked at needs its parent's code; what a climb found is told of its process in the end. */
static bool is_needed(const struct record_run *run, const struct record_process *process)
{
    if (!process->has_ended || process->threads || process->pid == (uint32_t)run->climb_pid)
        return true;
    for (size_t i = 0; i < run->process.n; i++)
        if (run->process.at[i]->parent == process && !run->process.at[i]->unwind)
            return true;
    return false;
}

void record_forget_processes(struct record_run *run)
{
    for (size_t i = run->process.n; i-- > 0;) {
        struct record_process *process = run->process.at[i];
        if (is_needed(run, process))
            continue;
        memmove(&run->process.at[i], &run->process.at[i + 1], (--run->process.n - i) * sizeof *run->process.at);
        for (size_t k = 0; k < run->process.n; k++)
            if (run->process.at[k]->parent == process)
                run->process.at[k]->parent = process->parent;
        free_process(process);
    }
}

static void execute(struct record_run *run, struct record_process *process, uint64_t time_ns, const char *name)
{
    char path[4096];
    bool is_there = target_program_path((pid_t)process->pid, path, sizeof path);
    free(process->name);
    process->name = memory_text(is_there ? path : name);
    process->is_renamed = true;
    if (!run->trees)
        tell_of_process(run, process, time_ns);
    unwind_process_close(process->unwind);
    process->unwind = NULL;
    err_free(unwind_process_open(run->tables, (pid_t)process->pid, 0, &process->unwind));
    record_read_mappings(run, process, time_ns);
}

/* ---- threads ---- */

static size_t slot_of(const struct record_run *run, uint64_t ids)
{
    size_t at = ids * 0x9e3779b97f4a7c15u >> 32 & (run->thread_room - 1);
    while (run->thread[at] && run->thread[at]->ids != ids)
        at = (at + 1) & (run->thread_room - 1);
    return at;
}

static void grow(struct record_run *run)
{
    struct record_thread **old = run->thread;
    size_t old_room = run->thread_room;
    run->thread_room = old_room ? old_room * 2 : 64;
    run->thread = memory_zero(run->thread_room, sizeof *run->thread);
    for (size_t i = 0; i < old_room; i++)
        if (old[i])
            run->thread[slot_of(run, old[i]->ids)] = old[i];
    free(old);
}

uint32_t record_thread_number(struct record_run *run, struct record_thread *thread, uint64_t time_ns)
{
    tell_of_process(run, thread->process, time_ns);
    if (thread->number != TRACE_NONE && thread->is_renamed)
        trace_rename_thread(run->writer, time_ns, thread->number, thread->name);
    thread->is_renamed = false;
    if (thread->number == TRACE_NONE) {
        struct trace_thread definition = {.process = thread->process->number,
                                          .tid = (uint32_t)thread->ids,
                                          .name = thread->name,
                                          .start_ns = thread->start_ns,
                                          .end_ns = thread->has_ended ? thread->end_ns : 0};
        thread->number = trace_define_thread(run->writer, time_ns, &definition);
    }
    return thread->number;
}

static void set_name(struct record_run *run, struct record_thread *thread, const char *name, uint64_t time_ns)
{
    snprintf(thread->name, sizeof thread->name, "%s", name);
    thread->is_renamed = true;
    if (!run->trees)
        record_thread_number(run, thread, time_ns);
}

struct record_thread *record_add_thread(struct record_run *run, struct record_process *process, uint32_t tid, uint64_t time_ns,
                                        const char *name)
{
    char found[TARGET_NAME] = "";
    if (run->thread_count * 2 >= run->thread_room)
        grow(run);
    uint64_t ids = (uint64_t)process->pid << 32 | tid;
    size_t at = slot_of(run, ids);
    struct record_thread *thread = memory_zero(1, sizeof *thread);
    thread->ids = ids;
    thread->number = TRACE_NONE;
    thread->process = process;
    thread->process->threads++;
    thread->process->living++;
    thread->older = run->thread[at];
    thread->start_ns = thread->last_ns = time_ns;
    thread->stack[0] = thread->stack[1] = TRACE_NONE;
    run->thread_count += !thread->older;
    run->thread[at] = thread;
    if (!name || !*name) {
        target_thread_name((pid_t)process->pid, (pid_t)tid, found);
        name = found;
    }
    set_name(run, thread, name, time_ns);
    return thread;
}

static void free_thread(struct record_thread *thread)
{
    VEC_FREE(&thread->call);
    free(thread->outside);
    free(thread);
}

/* Those that were put further on because of it move up. */
static void empty_slot(struct record_run *run, size_t at)
{
    run->thread[at] = NULL;
    run->thread_count--;
    for (size_t next = (at + 1) & (run->thread_room - 1); run->thread[next]; next = (next + 1) & (run->thread_room - 1)) {
        struct record_thread *moved = run->thread[next];
        run->thread[next] = NULL;
        run->thread[slot_of(run, moved->ids)] = moved;
    }
}

void record_forget_thread(struct record_run *run, struct record_thread *thread)
{
    size_t at = slot_of(run, thread->ids);
    struct record_thread **link = &run->thread[at];
    while (*link != thread)
        link = &(*link)->older;
    *link = thread->older;
    if (!run->thread[at])
        empty_slot(run, at);
    thread->process->threads--;
    run->untold_threads -= thread->is_untold;
    run->open_calls -= thread->call.n;
    run->last_thread = run->last_thread == thread ? NULL : run->last_thread;
    run->last_sampled = run->last_sampled == thread ? NULL : run->last_sampled;
    free_thread(thread);
}

static struct record_thread *find_thread(const struct record_run *run, uint32_t pid, uint32_t tid)
{
    return run->thread_room ? run->thread[slot_of(run, (uint64_t)pid << 32 | tid)] : NULL;
}

struct record_thread *record_thread_of(struct record_run *run, uint32_t pid, uint32_t tid, uint64_t time_ns)
{
    struct record_thread *thread = find_thread(run, pid, tid);
    if (!thread)
        return record_add_thread(run, record_process_of(run, pid, 0, time_ns), tid, time_ns, NULL);
    /* Calls may be read later than the news of who came after. */
    while (time_ns < thread->start_ns && thread->older)
        thread = thread->older;
    return thread;
}

/* A process can make up ids without end. */
struct record_thread *record_told_thread(struct record_run *run, uint32_t pid, uint32_t tid, uint64_t time_ns)
{
    enum { UNTOLD_MOST = 1 << 17, PROCESSES_MOST = 1 << 14 };
    if (!find_thread(run, pid, tid)) {
        bool has_room = run->untold_threads < UNTOLD_MOST && (run->process.n < PROCESSES_MOST || record_find_process(run, pid));
        if (!has_room)
            return NULL;
        record_thread_of(run, pid, tid, time_ns)->is_untold = true;
        run->untold_threads++;
    }
    return record_thread_of(run, pid, tid, time_ns);
}

static void end_thread(struct record_run *run, struct record_thread *thread, uint64_t time_ns)
{
    if (thread->has_ended)
        return;
    if (thread->number != TRACE_NONE)
        trace_end_thread(run->writer, time_ns, thread->number);
    thread->end_ns = time_ns;
    thread->has_ended = true;
    thread->process->living--;
}

/* ---- news ---- */

static void start(struct record_run *run, const struct sample_news *news, uint32_t parent)
{
    struct record_thread *thread = find_thread(run, news->pid, news->tid);
    /* A call may have told of the thread before the news came; an older one has ended. */
    bool is_known = thread && !thread->has_ended;
    uint64_t start_ns = news->start_ns && news->start_ns < news->time_ns ? news->start_ns : news->time_ns;
    if (!is_known)
        thread = record_add_thread(run, record_process_of(run, news->pid, parent, news->time_ns), news->tid, start_ns, news->name);
    thread->is_told = true;
}

static void end_all(struct record_run *run, const struct record_process *process, const struct record_thread *but, uint64_t time_ns)
{
    for (size_t i = 0; i < run->thread_room; i++)
        if (run->thread[i] && run->thread[i]->process == process && run->thread[i] != but)
            end_thread(run, run->thread[i], time_ns);
}

static void end(struct record_run *run, struct record_thread *thread, uint64_t time_ns)
{
    if (!thread || thread->has_ended)
        return;
    end_thread(run, thread, time_ns);
    if (thread->process->living)
        return;
    if (thread->process->pid == (uint32_t)record_command(run))
        thread->process->end_ns = time_ns; /* it is said to have ended when its status is known */
    else
        record_end_process(run, thread->process, time_ns, -1);
}

/* Of what a thread starts whose news are not told only the calls are known, not that it ends. */
void record_end_gone(struct record_run *run, bool at_once)
{
    enum { EVERY_NS = 100000000 };
    uint64_t now_ns = clock_now_ns();
    if (!at_once && now_ns < run->gone_ns + EVERY_NS)
        return;
    run->gone_ns = now_ns;
    for (size_t i = 0; i < run->thread_room; i++) {
        struct record_thread *thread = run->thread[i];
        if (thread && !thread->is_told && !thread->has_ended && syscall(SYS_tgkill, (pid_t)(thread->ids >> 32), (pid_t)thread->ids, 0) &&
            errno == ESRCH)
            end(run, thread, clock_now_ns());
    }
}

static void write_switch(struct record_run *run, struct record_thread *thread, uint64_t time_ns, bool is_in, bool preempted)
{
    struct trace_record record = {
        .time_ns = time_ns, .major = TRACE_THREAD, .minor = is_in ? TRACE_SWITCH_IN : TRACE_SWITCH_OUT, .number = !is_in && preempted};
    record_write(run, thread, &record);
    run->summary.switches++;
}

static void switch_thread(struct record_run *run, const struct sample_news *news)
{
    struct record_thread *thread = record_thread_of(run, news->pid, news->tid, news->time_ns);
    write_switch(run, thread, news->time_ns, news->kind == SAMPLE_IN, news->preempted);
}

static void write_account(struct record_run *run, const struct sample_news *news)
{
    struct record_thread *thread = record_thread_of(run, news->pid, news->tid, news->time_ns);
    const uint64_t ns[TRACE_ACCOUNTS] = {[TRACE_ACCOUNT_RAN] = news->ran_ns, [TRACE_ACCOUNT_ESTIMATED] = news->estimated_ns};
    for (uint32_t i = 0; i < TRACE_ACCOUNTS; i++) {
        struct trace_record record = {.time_ns = news->time_ns, .major = TRACE_THREAD, .minor = TRACE_RAN, .number = i, .value = ns[i]};
        if (ns[i])
            record_write(run, thread, &record);
    }
}

void record_take_news(struct record_run *run, const struct sample_news *news)
{
    struct record_thread *thread;
    switch (news->kind) {
    case SAMPLE_PRESENT:
        start(run, news, 0);
        break;
    case SAMPLE_START:
        start(run, news, news->parent_pid != news->pid ? news->parent_pid : 0);
        break;
    case SAMPLE_NAME:
        thread = record_thread_of(run, news->pid, news->tid, news->time_ns);
        set_name(run, thread, news->name, news->time_ns);
        break;
    case SAMPLE_EXEC:
        thread = record_thread_of(run, news->pid, news->tid, news->time_ns);
        set_name(run, thread, news->name, news->time_ns);
        end_all(run, thread->process, thread, news->time_ns);
        execute(run, thread->process, news->time_ns, news->name);
        break;
    case SAMPLE_END:
        end(run, find_thread(run, news->pid, news->tid), news->time_ns);
        break;
    case SAMPLE_TOLD:
        break;
    case SAMPLE_UNTOLD: /* what it does from now on is told later */
    case SAMPLE_IN:
    case SAMPLE_OUT:
        switch_thread(run, news);
        break;
    case SAMPLE_RAN:
        write_account(run, news);
        break;
    case SAMPLE_MAP:
        thread = record_thread_of(run, news->pid, news->tid, news->time_ns);
        record_add_mapping(run, thread->process, &news->map, news->time_ns);
        break;
    }
}

void record_tasks_deinit(struct record_run *run)
{
    for (size_t i = 0; i < run->thread_room; i++)
        for (struct record_thread *thread = run->thread[i], *older; thread; thread = older) {
            older = thread->older;
            free_thread(thread);
        }
    free(run->thread);
    for (size_t i = 0; i < run->process.n; i++)
        free_process(run->process.at[i]);
    VEC_FREE(&run->process);
}
