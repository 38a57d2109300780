/* Staying attached, for places that take nothing but a breakpoint instruction.
 *
 * The kernel forces SIGTRAP on a thread that meets one. If the thread blocks or ignores the signal, the kernel unblocks it and resets its
 * action before we hear of it: both are put back here. What the mask was is not told any more; a thread that blocks all the other signals
 * that faults raise is taken to have blocked this one. */
#include "target/internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NR64_SIGACTION = 13, NR32_SIGACTION = 174 };

static uint64_t bit(int signal)
{
    return 1ull << (signal - 1);
}

/* ---- the program's own action for SIGTRAP ---- */

static struct err *call_sigaction(struct target *target, bool set)
{
    uint64_t va;
    int64_t result;
    ERR_TRY(target_remote_buffer(target, &va));
    if (set)
        ERR_TRY(target_write(target, va, target->trap_action, sizeof target->trap_action));
    ERR_TRY(target_syscall(target, target->width == 64 ? NR64_SIGACTION : NR32_SIGACTION,
                           (uint64_t[6]){SIGTRAP, set ? va : 0, set ? 0 : va, 8}, &result));
    if (result < 0)
        return err_errno(ERR_SYSTEM, (int)-result, "process %d: its action for SIGTRAP", target->pid);
    return set ? NULL : target_read(target, va, target->trap_action, sizeof target->trap_action);
}

static uint64_t action_handler(const struct target *target)
{
    uint64_t handler = 0;
    memcpy(&handler, target->trap_action, target->width == 64 ? 8 : 4);
    return handler;
}

/* handler, flags and restorer are words, then comes the mask. */
static void make_action(struct target *target, uint64_t handler_va, uint64_t flags, uint64_t restorer_va)
{
    uint64_t words[3] = {handler_va, flags, restorer_va};
    memset(target->trap_action, 0, sizeof target->trap_action);
    for (int i = 0; i < 3; i++)
        memcpy(target->trap_action + i * target->width / 8, &words[i], (size_t)target->width / 8);
}

/* Calls `work` with a thread stopped, whether or not one was. */
static struct err *with_thread(struct target *target, struct err *(*work)(struct target *, uint64_t, uint64_t), uint64_t a, uint64_t b)
{
    bool running = target_is_running(target);
    ERR_TRY(target_stop_one(target));
    struct err *error = work(target, a, b);
    struct err *resume = running ? target_resume(target) : NULL;
    if (error)
        err_free(resume);
    return error ? error : resume;
}

static struct err *set_handler(struct target *target, uint64_t handler_va, uint64_t restorer_va)
{
    /* From asm/signal.h, whose names clash with libc's. */
    enum { KERNEL_SA_SIGINFO = 0x4, KERNEL_SA_RESTORER = 0x04000000, KERNEL_SA_ONSTACK = 0x08000000, KERNEL_SA_NODEFER = 0x40000000 };
    ERR_TRY(call_sigaction(target, false));
    target->has_trap_action = true;
    if (action_handler(target))
        return NULL;
    make_action(target, handler_va, KERNEL_SA_SIGINFO | KERNEL_SA_RESTORER | KERNEL_SA_ONSTACK | KERNEL_SA_NODEFER, restorer_va);
    return call_sigaction(target, true);
}

static struct err *clear_handler(struct target *target, uint64_t handler_va, uint64_t unused)
{
    (void)unused;
    ERR_TRY(call_sigaction(target, false));
    if (action_handler(target) != handler_va)
        return NULL;
    make_action(target, 0, 0, 0);
    return call_sigaction(target, true);
}

struct err *target_set_trap_handler(struct target *target, uint64_t handler_va, uint64_t restorer_va)
{
    return with_thread(target, set_handler, handler_va, restorer_va);
}

struct err *target_clear_trap_handler(struct target *target, uint64_t handler_va)
{
    return with_thread(target, clear_handler, handler_va, 0);
}

void target_keep(struct target *target, target_trap_fn *at_trap, target_serve_fn *serve, void *context)
{
    target->at_trap = at_trap;
    target->trap_context = context;
    if (serve) { /* what is served stays so: a vforked child holds its parent up whether or not that is kept */
        target->serve = serve;
        target->serve_context = context;
    }
    for (size_t i = 0; i < target->thread.n; i++)
        if (target->thread.at[i].stopped)
            target_ptrace(PTRACE_SETOPTIONS, target->thread.at[i].tid, 0, target_ptrace_options(target));
}

bool target_is_kept(const struct target *target)
{
    return target->at_trap != NULL;
}

/* ---- one stop ---- */

static struct err *restore_signal_state(struct target *target, struct target_thread *thread)
{
    uint64_t mask, faults = bit(SIGILL) | bit(SIGABRT) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGSEGV);
    if (target_ptrace(PTRACE_GETSIGMASK, thread->tid, sizeof mask, &mask))
        return target_gone(target);
    bool blocked = (mask & faults) == faults, ignored = action_handler(target) == (uint64_t)(uintptr_t)SIG_IGN;
    mask |= bit(SIGTRAP);
    if (blocked && target_ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof mask, &mask))
        return target_gone(target);
    return target->has_trap_action && action_handler(target) && (blocked || ignored) ? call_sigaction(target, true) : NULL;
}

struct err *target_thread_take_trap(struct target *target, struct target_thread *thread)
{
    siginfo_t info;
    uint64_t va = thread->regs.rip - 1, next_va;
    if (target_ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info))
        return target_gone(target);
    if (info.si_code != SI_KERNEL || !(next_va = target->at_trap(target->trap_context, va)))
        return NULL;
    thread->signal = 0;
    thread->regs.rip = next_va;
    thread->regs.orig_rax = (uint64_t)-1;
    thread->regs_changed = true;
    return restore_signal_state(target, thread);
}

pid_t target_next_stop(int *status)
{
    pid_t tid;
    while ((tid = target_take(-1, status)) > 0 && target_let_go_now(tid, *status))
        ;
    return tid > 0 ? tid : 0;
}

static struct target_thread *thread_of(struct target *target, pid_t tid)
{
    for (size_t i = 0; i < target->thread.n; i++)
        if (target->thread.at[i].tid == tid)
            return &target->thread.at[i];
    char group[16];
    if (tid != target->pid && (!target_status_field(tid, tid, "Tgid", group, sizeof group) || atoi(group) != target->pid))
        return NULL;
    VEC_PUSH(&target->thread, (struct target_thread){.tid = tid});
    return &target->thread.at[target->thread.n - 1];
}

bool target_finish_exec(pid_t pid)
{
    for (int status;;) {
        target_ptrace(PTRACE_SYSCALL, pid, 0, 0);
        if (!target_wait_for(pid, &status) || !WIFSTOPPED(status))
            return false; /* it was killed; its end is noticed elsewhere */
        if (WSTOPSIG(status) == (SIGTRAP | 0x80) && status >> 16 == 0)
            return true;
    }
}

struct target *target_open_executed(pid_t pid)
{
    struct target *target = NULL;
    target_ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
    struct err *error = target_open_traced(pid, &target);
    if (!error) {
        VEC_PUSH(&target->thread, (struct target_thread){.tid = pid, .stopped = true});
        error = target_thread_settle(target, &target->thread.at[0]);
    }
    if (!error)
        return target;
    /* It can not be traced: let it run alone. */
    err_free(error);
    if (target)
        target_close(target);
    else
        target_ptrace(PTRACE_DETACH, pid, 0, 0);
    return NULL;
}

bool target_handle_stop(struct target *target, pid_t tid, int status)
{
    struct target_thread *thread = thread_of(target, tid);
    if (!thread)
        return false;
    if (thread->restarting && target_confined_step(target, thread, status))
        return true;
    if (!target_thread_note(target, thread, status)) {
        size_t index = (size_t)(thread - target->thread.at);
        memmove(thread, thread + 1, (target->thread.n - index - 1) * sizeof *thread);
        target->thread.n--;
        return true;
    }
    if (target->follow && status >> 16 == PTRACE_EVENT_EXEC) {
        if (target_finish_exec(target->pid)) {
            /* Of its threads only this one is left, with the id of the first. */
            target->thread.n = 0;
            target->exec_held = true;
        }
        return true;
    }
    err_free(target_thread_settle(target, thread));
    if (thread->interrupted)
        target_thread_restart_here(target, thread);
    err_free(target_remote_end(target));
    err_free(target_thread_write_regs(thread));
    target_thread_run(target, thread);
    return true;
}

void target_serve(struct target *target)
{
    if (target->awaiting)
        return; /* whoever waits takes them, and goes by the list of threads */
    for (size_t i = target->thread.n; i-- > 0;) {
        int status;
        pid_t tid = target->thread.at[i].tid;
        if (target_take_stop(target, tid, &status) == tid)
            target_handle_stop(target, tid, status);
    }
}

void target_pause(struct target *target, uint64_t ns)
{
    enum { STEP_NS = 50000 };
    uint64_t end_ns = clock_now_ns() + ns;
    do {
        uint64_t step_ns = target_is_kept(target) && ns > STEP_NS ? STEP_NS : ns;
        nanosleep(&(struct timespec){.tv_sec = (time_t)(step_ns / 1000000000), .tv_nsec = (long)(step_ns % 1000000000)}, NULL);
        if (target_is_kept(target))
            target_serve(target);
        if (target->serve)
            target->serve(target->serve_context);
        target_serve_leaving();
    } while (clock_now_ns() < end_ns);
}

struct target *target_open_forked(struct target *parent, pid_t pid)
{
    struct target *child = NULL;
    int status;
    /* The new child's first stop may or may not have been taken by target_next_stop(). */
    struct err *error = target_open_traced(pid, &child);
    if (error) {
        err_free(error);
        target_let_go_later(pid);
        return NULL;
    }
    child->at_trap = parent->at_trap;
    child->serve = parent->serve;
    child->serve_context = parent->serve_context;
    child->trap_context = parent->trap_context;
    memcpy(child->trap_action, parent->trap_action, sizeof child->trap_action);
    child->has_trap_action = parent->has_trap_action;
    child->follow = parent->follow;
    child->parent = parent;
    VEC_PUSH(&parent->kin, child);
    VEC_PUSH(&child->thread, (struct target_thread){.tid = pid});
    if (target_take_stop(child, pid, &status) == pid)
        target_handle_stop(child, pid, status);
    return child;
}

bool target_has_forked(const struct target *target)
{
    return target->has_forked;
}

struct target *target_next_child(struct target *target)
{
    if (target->to_give.n)
        return target->to_give.at[--target->to_give.n];
    while (target->forked.n) {
        struct target *child = target_open_forked(target, target->forked.at[--target->forked.n]);
        if (child)
            return child;
    }
    return NULL;
}

void target_follow(struct target *target)
{
    target->follow = true;
}

struct target *target_take_executed(struct target *target)
{
    if (!target->exec_held)
        return NULL;
    target->exec_held = false;
    target->at_trap = NULL;
    struct target *next = target_open_executed(target->pid);
    if (next)
        next->is_child = target->is_child;
    return next;
}

bool target_holds_executed(const struct target *target)
{
    return target->exec_held;
}

bool target_executed(const struct target *target)
{
    return target->executed;
}
