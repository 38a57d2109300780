/* Threads under a seccomp filter.
 *
 * Some calls (nanosleep, poll and futex with a timeout) that our stop interrupts the kernel makes again as another one, restart_syscall,
 * which knows how much time is left. A filter that does not allow it kills the process. So:
 *
 *  1. While such a thread is stopped its registers say that the call is made anew, which the filter has allowed before. If this program is
 *     killed, the thread lives, and only sleeps longer.
 *  2. When it goes on it makes that call, stops where it enters the kernel, and the call is exchanged for restart_syscall while the filter
 *     is suspended. The kernel looks at the filter there and not again, but only once the thread has left that stop.
 *  3. So it is let go of when it sleeps: by the end of its tracer (tracer.c). One that is kept stops when the call is over. No instruction
 *     of the program is executed while its filter is suspended, but for that of the call.
 *  4. A signal that comes in between ends the call as it would have: the registers are then those of the interrupted call, and what follows
 *     is the kernel's decision. */
#include "target/internal.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/ptrace.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NR64_RESTART = 219, NR32_RESTART = 0 };
enum { KERNEL_ERESTART_RESTARTBLOCK = 516 };

static int restart_number(const struct target *target)
{
    return target->width == 64 ? NR64_RESTART : NR32_RESTART;
}

/* ---- what the kernel permits ---- */

static _Noreturn void run_confined_child(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, all};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(1);
    raise(SIGSTOP);
    _exit(0);
}

/* Asked once, on a process of our own. */
static void ask_kernel(bool *may_suspend, bool *may_read)
{
    static bool known, suspend, can_read;
    int status;
    pid_t child = known ? 0 : fork();
    if (!known && child == 0)
        run_confined_child();
    if (!known && child > 0) {
        bool stopped = waitpid(child, &status, __WALL | WUNTRACED) == child && WIFSTOPPED(status);
        suspend = stopped && !ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_SUSPEND_SECCOMP);
        if (suspend && waitpid(child, &status, __WALL) == child)
            can_read = ptrace(PTRACE_SECCOMP_GET_FILTER, child, 0, 0) > 0;
        kill(child, SIGKILL);
        waitpid(child, NULL, __WALL);
        known = true;
    }
    *may_suspend = suspend;
    *may_read = can_read;
}

bool target_may_suspend_filters(void)
{
    bool may_suspend, may_read;
    ask_kernel(&may_suspend, &may_read);
    return may_suspend;
}

bool target_thread_has_filter(const struct target *target, pid_t tid)
{
    char value[16];
    bool may_suspend, may_read;
    ask_kernel(&may_suspend, &may_read);
    if (may_read) /* much quicker; strict mode allows no call that would be restarted */
        return target_ptrace(PTRACE_SECCOMP_GET_FILTER, tid, 0, 0) > 0;
    return target_status_field(target->pid, tid, "Seccomp", value, sizeof value) && value[0] != '0';
}

/* ---- registers ---- */

/* The call that was made again as restart_syscall is not told by the kernel any more. */
static struct target_restart *restart_of(struct target *target, pid_t tid)
{
    for (size_t i = 0; i < target->restart.n; i++)
        if (target->restart.at[i].tid == tid)
            return &target->restart.at[i];
    VEC_PUSH(&target->restart, (struct target_restart){.tid = tid});
    return &target->restart.at[target->restart.n - 1];
}

void target_confined_settle(struct target *target, struct target_thread *thread)
{
    const struct user_regs_struct *regs = &thread->regs;
    int64_t result = target->width == 64 ? (int64_t)regs->rax : (int32_t)regs->rax;
    thread->confined = result == -KERNEL_ERESTART_RESTARTBLOCK && target_thread_has_filter(target, thread->tid);
    if (!thread->confined)
        return;
    const struct target_restart *restart = restart_of(target, thread->tid);
    thread->number = (int)regs->orig_rax;
    if (thread->number == restart_number(target) && restart->pc_va == regs->rip)
        thread->number = restart->number;
    target->seccomp = true;
    /* With a signal to deliver the kernel's decision stands, and is to end the call. */
    if (!thread->signal)
        thread->regs_changed = true;
}

/* The kernel has decided nothing yet: with a handler to call it will end the call, else make it again. */
static struct user_regs_struct undecided(const struct target_thread *thread)
{
    struct user_regs_struct regs = thread->regs;
    if (thread->restart_pending)
        return regs;
    regs.rax = (uint64_t)-KERNEL_ERESTART_RESTARTBLOCK;
    regs.orig_rax = (uint64_t)thread->number;
    regs.rip += 2;
    return regs;
}

struct user_regs_struct target_confined_regs(const struct target_thread *thread)
{
    struct user_regs_struct regs = thread->regs;
    if (!thread->confined || thread->signal)
        return regs;
    if (thread->restart_pending)
        regs.rip -= 2;
    regs.rax = (uint64_t)thread->number;
    regs.orig_rax = (uint64_t)-1;
    return regs;
}

/* ---- going on ---- */

static bool is_caught(const struct target *target, pid_t tid, int signal)
{
    char value[64];
    return target_status_field(target->pid, tid, "SigCgt", value, sizeof value) && strtoull(value, NULL, 16) >> (signal - 1) & 1;
}

/* With the filter suspended, up to the next entry into the kernel, its end, or a signal. False: it has ended. */
static bool go_on(struct target_thread *thread, int signal)
{
    thread->stopped = false;
    return !target_ptrace(PTRACE_SYSCALL, thread->tid, 0, signal);
}

bool target_confined_start(struct target *target, struct target_thread *thread)
{
    if (thread->signal && is_caught(target, thread->tid, thread->signal))
        return false; /* it ends the call */
    if (target_ptrace(PTRACE_SETOPTIONS, thread->tid, 0, target_ptrace_options(target) | PTRACE_O_SUSPEND_SECCOMP))
        return false; /* not permitted: the call is made anew */
    struct user_regs_struct regs = target_confined_regs(thread);
    target_ptrace(PTRACE_SETREGS, thread->tid, 0, &regs);
    thread->regs_changed = false;
    thread->restarting = true;
    thread->is_asleep = false;
    int signal = thread->signal;
    thread->signal = 0;
    go_on(thread, signal);
    return true;
}

/* At the entry of a call. */
static bool take_entry(struct target *target, struct target_thread *thread, struct user_regs_struct *regs)
{
    int number = (int)regs->orig_rax, restart = restart_number(target);
    if (number != thread->number && number != restart)
        return false;
    regs->orig_rax = (uint64_t)restart;
    if (target_ptrace(PTRACE_SETREGS, thread->tid, 0, regs))
        return false;
    *restart_of(target, thread->tid) = (struct target_restart){thread->tid, thread->number, regs->rip};
    thread->is_asleep = true;
    go_on(thread, 0);
    return true;
}

static bool take_signal(struct target *target, struct target_thread *thread, int signal)
{
    if (!is_caught(target, thread->tid, signal)) {
        go_on(thread, signal);
        return true;
    }
    if (!thread->is_asleep) {
        struct user_regs_struct regs = undecided(thread);
        target_ptrace(PTRACE_SETREGS, thread->tid, 0, &regs);
    }
    return false;
}

bool target_confined_step(struct target *target, struct target_thread *thread, int status)
{
    struct user_regs_struct regs;
    int event = status >> 16, signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
    bool goes_on = false;
    if (!signal || target_ptrace(PTRACE_GETREGS, thread->tid, 0, &regs))
        goes_on = false;
    else if (!event && signal == (SIGTRAP | 0x80)) {
        int64_t result = target->width == 64 ? (int64_t)regs.rax : (int32_t)regs.rax;
        if (!thread->is_asleep)
            goes_on = take_entry(target, thread, &regs);
        else if (result == -KERNEL_ERESTART_RESTARTBLOCK) {
            /* Something has woken it; what becomes of that is shown by its next stop. */
            thread->regs = regs;
            thread->restart_pending = true;
            thread->number = restart_of(target, thread->tid)->number;
            thread->is_asleep = false;
            go_on(thread, 0);
            goes_on = true;
        }
    } else if (!event) {
        goes_on = take_signal(target, thread, signal);
    } else if (event == PTRACE_EVENT_STOP && signal == SIGTRAP && !thread->is_asleep) {
        /* Told to stop once more before it came to the call. */
        regs = undecided(thread);
        target_ptrace(PTRACE_SETREGS, thread->tid, 0, &regs);
    }
    if (goes_on)
        return true;
    thread->restarting = thread->confined = false;
    if (signal)
        target_ptrace(PTRACE_SETOPTIONS, thread->tid, 0, target_ptrace_options(target));
    return false;
}

/* ---- letting go ---- */

static bool sleeps(const struct target *target, pid_t tid)
{
    char value[16];
    return target_status_field(target->pid, tid, "State", value, sizeof value) && value[0] == 'S';
}

/* True when there is nothing to do with the thread any more. */
static bool is_let_go(struct target *target, struct target_thread *thread)
{
    int status;
    pid_t got = target_take_stop(target, thread->tid, &status);
    if (got == 0)
        return thread->is_asleep && sleeps(target, thread->tid);
    if (got < 0)
        return errno != EINTR;
    if (!WIFSTOPPED(status)) {
        target_thread_note(target, thread, status);
        thread->tid = 0;
        return true;
    }
    if (target_confined_step(target, thread, status))
        return false;
    int signal = status >> 16 || WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
    target_ptrace(PTRACE_DETACH, thread->tid, 0, signal);
    thread->restarting = false;
    return true;
}

void target_confined_let_go(struct target *target)
{
    enum { QUICK = 200, STEP_NS = 100000 };
    const uint64_t most_ns = 30000000000;
    uint64_t start_ns = clock_now_ns();
    for (int attempt = 0;; attempt++) {
        bool all = true;
        for (size_t i = 0; i < target->thread.n; i++) {
            struct target_thread *thread = &target->thread.at[i];
            if (!thread->restarting || !target_tracer_has(target, thread->tid))
                continue; /* one that is kept is served when its stops come */
            if (is_let_go(target, thread))
                thread->restarting = false;
            all &= !thread->restarting;
        }
        if (all || clock_now_ns() - start_ns > most_ns)
            return;
        if (attempt < QUICK)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
}
