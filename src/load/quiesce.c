/* Whether every thread has been outside of the code that clauses call at some time since a moment. Bodies keep nothing of what such a call
 * found in a map, so it is enough to be outside of the agent.
 *
 * Each process that can be in it is stopped, and its threads and the signal frames on their stacks are looked at. A thread that is outside
 * once is done with: it comes back to what is there now. One that is inside is looked at again the next time, and the time after that;
 * whether it is still in the same call can not be seen, so it has to be met outside. Children that a process forked have its memory and its
 * agent and, where a handler of a signal that interrupted the agent has forked, its frames. One that is forked after its parent was looked
 * at has nothing from before but what its parent has; earlier ones are found by what they map, again and again until there is no other. */
#include "load/internal.h"

#include <stdlib.h>

enum { ROUNDS = 20 }; /* of looking for children */

static bool is_inside(void *context, uint64_t pc)
{
    const struct load_process *process = context;
    return pc >= process->agent_clause_va && pc < process->agent_clause_end_va;
}

struct look {
    struct load_process *process;
    target_pids inside; /* threads */
    pid_t tid;          /* being looked at: frames belong to it */
};

static bool is_frame_inside(void *context, uint64_t pc)
{
    return is_inside(((struct look *)context)->process, pc);
}

static bool visit(void *context, struct target_thread *thread, struct load_move_regs *regs)
{
    struct look *look = context;
    if (thread)
        look->tid = thread->tid;
    if (is_inside(look->process, regs->pc) && (!look->inside.n || look->inside.at[look->inside.n - 1] != look->tid))
        VEC_PUSH(&look->inside, look->tid);
    return false;
}

static bool has(const target_pids *list, pid_t pid)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i] == pid)
            return true;
    return false;
}

/* Threads that are outside leave `pending`; with `first`, those that are inside enter it. False: nothing is known, because the process
 * could not be stopped. One that has ended is outside. */
static bool look_at(struct load_process *process, struct target *target, bool first, struct load_pending *pending)
{
    struct look look = {.process = process};
    struct err *error = target_stop(target);
    if (!error)
        error = load_visit_threads(target, is_frame_inside, visit, &look);
    struct err *resume = target_resume(target);
    bool ended = target_ended(target) || (error && error->code == ERR_NO_PROCESS), known = ended || !error;
    pid_t pid = target_pid(target);
    err_free(error);
    err_free(resume);
    size_t kept = 0;
    for (size_t i = 0; i < pending->thread.n; i++) {
        struct load_pending_thread thread = pending->thread.at[i];
        if (thread.pid != pid || !known || (!ended && has(&look.inside, thread.tid)))
            pending->thread.at[kept++] = thread;
    }
    pending->thread.n = kept;
    for (size_t i = 0; i < look.inside.n && first && known && !ended; i++)
        VEC_PUSH(&pending->thread, (struct load_pending_thread){pid, look.inside.at[i]});
    VEC_FREE(&look.inside);
    return known;
}

static bool look_at_pid(struct load_process *process, pid_t pid, bool first, struct load_pending *pending)
{
    struct target *target;
    for (size_t i = 0; i < process->child.n; i++)
        if (target_pid(process->child.at[i]) == pid)
            return look_at(process, process->child.at[i], first, pending);
    if (pid == target_pid(process->target))
        return look_at(process, process->target, first, pending);
    struct err *error = target_open(pid, &target);
    if (error) {
        bool ended = error->code == ERR_NO_PROCESS;
        err_free(error);
        return ended;
    }
    bool known = look_at(process, target, first, pending);
    target_close(target);
    return known;
}

/* The process and its children, as many as there are by now. */
static void list_processes(struct load_process *process, target_pids *out)
{
    char *name = memory_format("/memfd:%s ", process->memfd_name);
    VEC_PUSH(out, target_pid(process->target));
    load_traps_adopt(process);
    for (size_t i = 0; i < process->child.n; i++)
        VEC_PUSH(out, target_pid(process->child.at[i]));
    target_find_by_map(name, target_pid(process->target), out);
    free(name);
}

static bool look_at_all(struct load_process *process, struct load_pending *pending)
{
    for (int round = 0; round < ROUNDS; round++) {
        target_pids pids = {0};
        bool more = false, known = true;
        list_processes(process, &pids);
        for (size_t i = 0; i < pids.n && known; i++) {
            if (has(&pending->process, pids.at[i]))
                continue;
            more = true;
            known = look_at_pid(process, pids.at[i], true, pending);
            if (known)
                VEC_PUSH(&pending->process, pids.at[i]);
        }
        VEC_FREE(&pids);
        if (!known || !more)
            return known;
    }
    return false;
}

static bool is_of(const struct load_process *process, const struct load_pending *pending)
{
    pid_t pid = target_pid(process->target);
    for (size_t i = 0; i < pending->thread.n; i++)
        if (pending->thread.at[i].pid == pid)
            return true;
    return false;
}

bool load_process_quiesce(struct load_process *process, struct load_pending *pending)
{
    if (!pending->is_listed) {
        pending->is_listed = look_at_all(process, pending);
        return pending->is_listed && !pending->thread.n;
    }
    if (is_of(process, pending))
        look_at(process, process->target, false, pending);
    while (pending->thread.n) {
        size_t before = pending->thread.n;
        pid_t pid = pending->thread.at[0].pid;
        if (pid == target_pid(process->target) || !look_at_pid(process, pid, false, pending) || pending->thread.n == before)
            break;
    }
    return !pending->thread.n;
}

void load_pending_deinit(struct load_pending *pending)
{
    VEC_FREE(&pending->thread);
    VEC_FREE(&pending->process);
    *pending = (struct load_pending){0};
}
