/* Whether every thread has been outside of the code that clauses run at some time since a moment: of their bodies, and of the agent, which
 * these call; or of the part that writes records; or of those that may have a node of a map in hand.
 *
 * Each process that can be in it is stopped, and its threads and the signal frames on their stacks are looked at. A thread that is outside
 * once is done with: it comes back to what is there now. One that is inside is looked at again the next time, and the time after that;
 * whether it is still in the same call can not be seen, so it has to be met outside. Children that a process forked have its memory and its
 * agent and, where a handler of a signal that interrupted the agent has forked, its frames. One that is forked after its parent was looked
 * at has nothing from before but what its parent has; earlier ones are found by what they map, again and again until there is no other. */
#include "load/internal.h"

#include <stdlib.h>

enum { ROUNDS = 20 }; /* of looking for children */

/* At one of the jumps by which bodies get to the agent's functions. */
static bool is_on_the_way(const struct load_process *process, uint64_t pc)
{
    return process->fire.agent_va && pc >= process->fire.agent_va + WIRE_AGENT_OP && pc < process->agent_wait_va;
}

bool load_in_clause(const struct load_process *process, uint64_t pc)
{
    return load_process_body_at(process, pc) || (pc >= process->agent_clause_va && pc < process->agent_clause_end_va) ||
           is_on_the_way(process, pc);
}

/* What the body there has in hand. */
static enum jit_holds body_holds(const struct load_process *process, uint64_t pc)
{
    const struct load_body *body = load_process_body_at(process, pc);
    enum jit_holds holds = JIT_NOTHING;
    for (size_t i = 0; body && i < body->depth_count && body->depth[i].from <= pc - body->va; i++)
        holds = body->depth[i].holds;
    return holds;
}

static bool is_inside(const struct load_process *process, enum load_quiet quiet, uint64_t pc)
{
    switch (quiet) {
    case LOAD_QUIET_RINGS:
        return body_holds(process, pc) == JIT_RECORD || (pc >= process->agent_clause_va && pc < process->agent_ring_end_va) ||
               is_on_the_way(process, pc);
    case LOAD_QUIET_MAPS:
        return body_holds(process, pc) == JIT_NODE || (pc >= process->agent_clause_va && pc < process->agent_clause_end_va) ||
               is_on_the_way(process, pc);
    default:
        return load_in_clause(process, pc);
    }
}

struct look {
    struct load_process *process;
    enum load_quiet quiet;
    target_pids inside; /* threads */
    pid_t tid;          /* being looked at: frames belong to it */
};

static bool is_frame_inside(void *context, uint64_t pc)
{
    const struct look *look = context;
    return is_inside(look->process, look->quiet, pc);
}

static bool visit(void *context, struct target_thread *thread, struct load_move_regs *regs)
{
    struct look *look = context;
    if (thread)
        look->tid = thread->tid;
    if (is_inside(look->process, look->quiet, regs->pc) && (!look->inside.n || look->inside.at[look->inside.n - 1] != look->tid))
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

static void keep_those_in(target_pids *list, const target_pids *other)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->n; i++)
        if (has(other, list->at[i]))
            list->at[kept++] = list->at[i];
    list->n = kept;
}

/* Takes the threads that are outside from `waiting`, which with `first` is empty and stands for every thread. While the process stands,
 * those that are left are let on for a moment, some times: where much of the time is spent inside, as where memory is touched for the first
 * time, chance alone takes long to meet each of them outside. */
static struct err *look_for_outside(struct look *look, struct target *target, bool first, target_pids *waiting)
{
    enum { TRIES = 8, WAIT_NS = 50000 };
    for (int i = 0;; i++) {
        look->inside.n = 0;
        ERR_TRY(load_visit_threads(target, look->process->shared, NULL, is_frame_inside, visit, look));
        if (first && i == 0) {
            *waiting = look->inside;
            look->inside = (target_pids){0};
        } else {
            keep_those_in(waiting, &look->inside);
        }
        if (!waiting->n || i == TRIES)
            return NULL;
        ERR_TRY(target_let_some_on(target, waiting, WAIT_NS));
    }
}

/* Threads that are outside leave `pending`; with `first`, those that are inside enter it. False: nothing is known, because the process
 * could not be stopped. One that has ended is outside. */
static bool look_at(struct load_process *process, struct target *target, bool first, struct load_pending *pending)
{
    struct look look = {.process = process, .quiet = pending->quiet};
    pid_t pid = target_pid(target);
    target_pids waiting = {0};
    for (size_t i = 0; i < pending->thread.n; i++)
        if (pending->thread.at[i].pid == pid)
            VEC_PUSH(&waiting, pending->thread.at[i].tid);
    struct err *error = target_stop(target);
    if (!error)
        error = look_for_outside(&look, target, first, &waiting);
    struct err *resume = target_resume(target);
    bool ended = target_ended(target) || (error && error->code == ERR_NO_PROCESS), known = ended || !error;
    err_free(error);
    err_free(resume);
    size_t kept = 0;
    for (size_t i = 0; i < pending->thread.n; i++)
        if (pending->thread.at[i].pid != pid || !known)
            pending->thread.at[kept++] = pending->thread.at[i];
    pending->thread.n = kept;
    for (size_t i = 0; i < waiting.n && known && !ended; i++)
        VEC_PUSH(&pending->thread, (struct load_pending_thread){pid, waiting.at[i]});
    VEC_FREE(&look.inside);
    VEC_FREE(&waiting);
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

bool load_process_quiesce(struct load_process *process, struct load_pending *pending)
{
    if (!pending->is_listed) {
        pending->is_listed = look_at_all(process, pending);
        return pending->is_listed && !pending->thread.n;
    }
    target_pids pids = {0};
    for (size_t i = 0; i < pending->thread.n; i++)
        if (!has(&pids, pending->thread.at[i].pid))
            VEC_PUSH(&pids, pending->thread.at[i].pid);
    for (size_t i = 0; i < pids.n; i++)
        look_at_pid(process, pids.at[i], false, pending);
    VEC_FREE(&pids);
    return !pending->thread.n;
}

void load_pending_deinit(struct load_pending *pending)
{
    VEC_FREE(&pending->thread);
    VEC_FREE(&pending->process);
    *pending = (struct load_pending){0};
}
