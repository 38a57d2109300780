/* Stopping and resuming threads.
 *
 * SEIZE + INTERRUPT stops a thread wherever it is. In a blocking system call the kernel ends the call early. Most calls the kernel itself
 * makes again when the thread goes on; only if the thread is borrowed or moved meanwhile, its registers are set to just before the call.
 * Some calls (epoll_wait, semtimedop, sigtimedwait, sockets with a timeout ...) return EINTR instead: those are made again here. With a
 * signal pending the kernel's decision stands, because then the call ends as it would have ended natively. */
#include "target/internal.h"

#include "base/clock.h"
#include "base/interrupt.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* From the kernel's include/linux/errno.h: never seen by programs, only by tracers. */
enum { KERNEL_ERESTARTSYS = 512, KERNEL_ERESTARTNOINTR = 513, KERNEL_ERESTARTNOHAND = 514, KERNEL_ERESTART_RESTARTBLOCK = 516 };
enum { NR64_RESTART = 219, NR32_RESTART = 0, NR64_CLOSE = 3, NR32_CLOSE = 6 };

unsigned long target_ptrace_options(const struct target *target)
{
    unsigned long options = PTRACE_O_TRACESYSGOOD;
    if (target->at_trap)
        options |= PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
    return options;
}

/* ---- settling a stopped thread ---- */

static uint64_t status_mask(const struct target *target, pid_t tid, const char *name)
{
    char value[64];
    return target_status_field(target->pid, tid, name, value, sizeof value) ? strtoull(value, NULL, 16) : 0;
}

/* Signals that do nothing to the program. Without a tracer they are not even queued, so they never end a system call. */
static uint64_t ignored_signals(const struct target *target, pid_t tid)
{
    uint64_t by_default = 1ull << (SIGCHLD - 1) | 1ull << (SIGCONT - 1) | 1ull << (SIGURG - 1) | 1ull << (SIGWINCH - 1);
    return status_mask(target, tid, "SigIgn") | (by_default & ~status_mask(target, tid, "SigCgt"));
}

/* Whether a signal, in delivery or pending, is going to be handled by the program. */
static bool has_pending_signal(const struct target *target, const struct target_thread *thread)
{
    pid_t tid = thread->tid;
    uint64_t pending = status_mask(target, tid, "SigPnd") | status_mask(target, tid, "ShdPnd");
    pending &= ~status_mask(target, tid, "SigBlk");
    if (thread->signal)
        pending |= 1ull << (thread->signal - 1);
    return pending && (pending & ~ignored_signals(target, tid));
}

struct err *target_thread_settle(struct target *target, struct target_thread *thread)
{
    if (target_ptrace(PTRACE_GETREGS, thread->tid, 0, &thread->regs))
        return errno == ESRCH ? target_gone(target) : err_errno(ERR_SYSTEM, errno, "thread %d: read registers", thread->tid);
    thread->regs_changed = false;
    thread->restart_pending = thread->interrupted = thread->confined = false;
    if (thread->signal == SIGTRAP && target->at_trap)
        return target_thread_take_trap(target, thread);
    struct user_regs_struct *regs = &thread->regs;
    bool wide = target->width == 64;
    int64_t number = wide ? (int64_t)regs->orig_rax : (int32_t)regs->orig_rax;
    int64_t result = wide ? (int64_t)regs->rax : (int32_t)regs->rax;
    if (number < 0)
        return NULL;
    bool restarts = result == -KERNEL_ERESTARTSYS || result == -KERNEL_ERESTARTNOINTR || result == -KERNEL_ERESTARTNOHAND ||
                    result == -KERNEL_ERESTART_RESTARTBLOCK;
    /* close() has closed whatever it answers; making it again would close someone else's descriptor. */
    thread->interrupted = result == -EINTR && number != (wide ? NR64_CLOSE : NR32_CLOSE);
    thread->restart_pending = restarts;
    target_confined_settle(target, thread);
    if (!thread->confined)
        return NULL;
    target->stop_again |= !target->at_trap && !target_tracer_has(target, thread->tid) && target_may_suspend_filters();
    return target_thread_write_regs(thread);
}

bool target_thread_restart_here(struct target *target, struct target_thread *thread)
{
    if (!thread->restart_pending && !thread->interrupted)
        return true;
    if (has_pending_signal(target, thread))
        return false;
    struct user_regs_struct *regs = &thread->regs;
    bool wide = target->width == 64;
    int64_t result = wide ? (int64_t)regs->rax : (int32_t)regs->rax;
    if (thread->interrupted && target_thread_timed_out(target, thread)) {
        regs->rax = 0;
        regs->orig_rax = (uint64_t)-1;
        thread->regs_changed = true;
        thread->interrupted = false;
        return true;
    }
    regs->rax = result != -KERNEL_ERESTART_RESTARTBLOCK ? regs->orig_rax : wide ? NR64_RESTART : NR32_RESTART;
    regs->rip -= 2;
    regs->orig_rax = (uint64_t)-1;
    thread->regs_changed = true;
    thread->restart_pending = thread->interrupted = false;
    return true;
}

bool target_set_regs(pid_t tid, const struct user_regs_struct *regs)
{
    if (target_stands(tid))
        return !target_ptrace(PTRACE_SETREGS, tid, 0, regs);
    errno = ESRCH;
    return false;
}

struct err *target_thread_write_regs(struct target_thread *thread)
{
    struct user_regs_struct regs = target_confined_regs(thread);
    if (thread->regs_changed && !target_set_regs(thread->tid, &regs))
        return err_errno(errno == ESRCH ? ERR_NO_PROCESS : ERR_SYSTEM, errno, "thread %d: write registers", thread->tid);
    thread->regs_changed = false;
    return NULL;
}

/* ---- stopping ---- */

static struct target_thread *find_thread(struct target *target, pid_t tid)
{
    for (size_t i = 0; i < target->thread.n; i++)
        if (target->thread.at[i].tid == tid)
            return &target->thread.at[i];
    return NULL;
}

static void forget_thread(struct target *target, const struct target_thread *thread)
{
    size_t index = (size_t)(thread - target->thread.at);
    memmove(&target->thread.at[index], &target->thread.at[index + 1], (target->thread.n - index - 1) * sizeof *thread);
    target->thread.n--;
}

bool target_thread_note(struct target *target, struct target_thread *thread, int status)
{
    if (!WIFSTOPPED(status)) {
        if (thread->tid == target->pid && target->is_child) {
            target->reaped = true;
            target->exit_status = status;
        }
        return false;
    }
    thread->stopped = true;
    thread->parked = false;
    int event = status >> 16;
    thread->signal = event || WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
    unsigned long child;
    if ((event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK) && !target_ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &child)) {
        target->has_forked = true;
        VEC_PUSH(&target->forked, (pid_t)child);
    }
    target->executed |= event == PTRACE_EVENT_EXEC;
    thread->in_event = event && event != PTRACE_EVENT_STOP;
    thread->group_stop = event == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
    return true;
}

static bool seize(struct target *target, pid_t tid, struct err **error)
{
    bool was_leaving = target_stay(tid); /* it is still ours, and told to stop */
    if (target->seccomp && !was_leaving && target_may_suspend_filters() && (*error = target_tracer_begin(target)))
        return false;
    if (was_leaving || target_tracer_seize(target, tid, target_ptrace_options(target))) {
        char tracer[16];
        int number = errno;
        if (was_leaving || (number == EPERM && target->at_trap &&
                            target_status_field(target->pid, tid, "TracerPid", tracer, sizeof tracer) && atoi(tracer) == getpid())) {
            /* Started by a thread that we keep: the kernel has attached us already, and it stops by itself. */
            if (was_leaving)
                target_ptrace(PTRACE_INTERRUPT, tid, 0, 0);
            VEC_PUSH(&target->thread, (struct target_thread){.tid = tid});
            return true;
        }
        if (number == EBUSY)
            *error = err_new(ERR_BUSY, "process %d: the kernel lets nobody trace it while it executes a program", target->pid);
        bool is_refused = number == EPERM && tid == target->pid && !target_ended(target) && target_live_task(tid) == tid;
        if (is_refused && !(*error = target_check(target)))
            *error = err_new(ERR_PERMISSION, "process %d: the kernel refuses to let us trace it (another tracer, or not permitted)", tid);
        return false; /* another thread that can not be seized is ending */
    }
    target_ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    VEC_PUSH(&target->thread, (struct target_thread){.tid = tid});
    return true;
}

/* A thread that has met a trap but was stopped before the kernel could tell: the signal must come first. */
static bool has_trap_to_tell(struct target *target, const struct target_thread *thread)
{
    char value[32];
    return target->at_trap && !thread->signal && target->at_trap(target->trap_context, thread->regs.rip - 1) &&
           target_status_field(target->pid, thread->tid, "SigPnd", value, sizeof value) && strtoull(value, NULL, 16) >> (SIGTRAP - 1) & 1;
}

pid_t target_take_stop(const struct target *target, pid_t tid, int *status)
{
    siginfo_t info = {0};
    if (target_take_back(tid, status))
        return tid;
    if (!target->end_is_awaited || tid != target->pid)
        return target_take(tid, status);
    if (waitid(P_PID, (id_t)tid, &info, WSTOPPED | WNOWAIT | WNOHANG | __WALL))
        return -1;
    if (info.si_pid == tid)
        return target_take(tid, status);
    return target_has_end(tid) ? -1 : 0;
}

void target_take_ends(const struct target *target)
{
    for (size_t i = 0; i < target->thread.n; i++)
        if (target->thread.at[i].tid != target->pid)
            target_take_end(target->thread.at[i].tid);
    target_take_ends_of_leaving();
}

/* Waits for one thread: until it stops, has ended (*got < 0) or is parked (*got == 0). Its parent or its child may be kept by us, so others
 * are served meanwhile. */
static struct err *await_stop(struct target *target, struct target_thread *thread, int *status, pid_t *got)
{
    enum {
        QUICK = 200,
        SLOW = 8000,
        WAIT_NS = 100000,
        LOOK_EVERY = 32
    }; /* a second or so: on a busy machine a thread waits long for its turn */
    pid_t tid = thread->tid;
    for (int attempt = 0; attempt < SLOW; attempt++) {
        *got = target_take_stop(target, tid, status);
        if (*got != 0 && !(*got < 0 && errno == EINTR))
            return NULL;
        if (attempt < QUICK)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
        if (attempt > QUICK && target->serve)
            target->serve(target->serve_context);
        if (attempt < QUICK || attempt % LOOK_EVERY)
            continue;
        target_serve_leaving();
        target_take_ends(target);
        ERR_TRY(target_check(target));
        if (target_is_dumping(target->pid))
            return err_new(ERR_NO_PROCESS, "process %d: has ended and is writing its memory to a core file", target->pid);
        *got = 0;
        if (target_thread_park(target, thread))
            return NULL;
    }
    return err_new(ERR_BUSY, "process %d: thread %d does not stop", target->pid, tid);
}

/* Waits for the main thread, or for all others. */
static struct err *await_some(struct target *target, bool is_main)
{
    for (size_t i = 0; i < target->thread.n;) {
        struct target_thread *thread = &target->thread.at[i];
        int status;
        pid_t got;
        if (thread->stopped || thread->parked || (thread->tid == target->pid) != is_main) {
            i++;
            continue;
        }
        ERR_TRY(await_stop(target, thread, &status, &got));
        thread = &target->thread.at[i];
        if (!target->stop_ns)
            target->stop_ns = clock_now_ns();
        if (got == 0) { /* parked */
            i++;
            continue;
        }
        if (got > 0 && thread->restarting && target_confined_step(target, thread, status))
            continue;
        if (got < 0 || !target_thread_note(target, thread, status)) {
            forget_thread(target, thread);
            continue;
        }
        struct err *error = target_thread_settle(target, thread);
        if (error && error->code == ERR_NO_PROCESS) {
            err_free(error);
            forget_thread(target, thread);
            continue;
        }
        if (error)
            return error;
        if (has_trap_to_tell(target, thread))
            target_thread_continue(thread);
        else
            i++;
    }
    return NULL;
}

/* Waits until every seized thread is stopped; threads that end are forgotten. The main thread comes last: its end is not told before the
 * ends of the others have been taken. */
static struct err *await_stops(struct target *target)
{
    target->awaiting = true;
    struct err *error = await_some(target, false);
    if (!error)
        error = await_some(target, true);
    target->awaiting = false;
    return error;
}

/* Seizes the threads that are not yet held; *found says how many there were. With `only_one`, at most one. */
static struct err *seize_threads(struct target *target, bool only_one, size_t *found)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", target->pid);
    DIR *tasks = opendir(path);
    *found = 0;
    if (!tasks)
        return target_gone(target);
    struct err *error = NULL;
    for (struct dirent *entry; !error && (entry = readdir(tasks));) {
        pid_t tid = atoi(entry->d_name);
        if (tid <= 0 || find_thread(target, tid) || (only_one && *found))
            continue;
        *found += seize(target, tid, &error);
    }
    closedir(tasks);
    return error;
}

static struct err *interrupt_kept(struct target *target)
{
    for (size_t i = 0; i < target->thread.n; i++)
        if (!target->thread.at[i].stopped) {
            target->thread.at[i].parked = false; /* where it waits now is looked at again */
            target_ptrace(PTRACE_INTERRUPT, target->thread.at[i].tid, 0, 0);
        }
    return await_stops(target);
}

static struct err *stop_all(struct target *target)
{
    ERR_TRY(interrupt_kept(target));
    /* A running thread may start another behind our back: go round until a whole pass finds nothing new. */
    for (size_t found = 1; found;) {
        ERR_TRY(seize_threads(target, false, &found));
        ERR_TRY(await_stops(target));
    }
    return target->thread.n ? NULL : target_gone(target);
}

/* A filter that nobody knew of: what was interrupted is made anew, once, and the next stop has a tracer of its own. */
static struct err *stop_again(struct target *target, bool is_first, bool *again)
{
    *again = target->stop_again && is_first && !target->tracer;
    target->stop_again = false;
    return *again ? target_resume(target) : NULL;
}

struct err *target_stop(struct target *target)
{
    enum { ATTEMPTS = 50, WAIT_NS = 1000000 };
    /* A thread that is about to start a process, or whose vforked child has just gone on, is soon where it can be told what it does. */
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        bool all, is_first = !target->thread.n;
        ERR_TRY(stop_all(target));
        ERR_TRY(stop_again(target, is_first, &all));
        if (all)
            continue;
        ERR_TRY(target_stop_sharers(target, &all));
        if (all)
            return NULL;
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
    return err_new(ERR_BUSY, "process %d: a thread is starting a process and does not stop", target->pid);
}

bool target_can_call(struct target *target)
{
    for (size_t i = 0; i < target->thread.n; i++)
        if (target_thread_is_borrowable(target, &target->thread.at[i]))
            return true;
    return false;
}

static struct err *stop_some(struct target *target)
{
    if (target->thread.n)
        return target_stop(target);
    size_t found;
    for (bool again = true; again;) {
        ERR_TRY(seize_threads(target, true, &found));
        ERR_TRY(await_stops(target));
        ERR_TRY(stop_again(target, true, &again));
    }
    if (target->thread.n && target->thread.at[0].parked)
        return target_stop(target); /* another one can make the calls */
    return target->thread.n ? NULL : target_gone(target);
}

void target_be_patient(struct target *target)
{
    target->patient = true;
}

static struct err *cannot_call(const struct target *target)
{
    pid_t waits = 0;
    for (size_t i = 0; i < target->thread.n && !waits; i++)
        waits = target->thread.at[i].parked ? target->thread.at[i].tid : 0;
    if (waits)
        return err_new(ERR_BUSY,
                       "process %d: thread %d waits in the kernel, for a child that it has vforked or for a device, and no other can be "
                       "borrowed; try again when it goes on",
                       target->pid, waits);
    return err_new(ERR_BUSY, "process %d: is busy with signals or children; try again", target->pid);
}

struct err *target_stop_one(struct target *target)
{
    enum { ATTEMPTS = 500, WAIT_NS = 2000000 };
    const uint64_t most_ns = 10000000000;
    uint64_t start_ns = clock_now_ns();
    /* A thread that has a signal to deliver first, or waits for a child, will have done so soon. */
    for (int attempt = 0;; attempt++) {
        struct err *error = stop_some(target);
        if (!error && (target_can_call(target) || target->hold))
            return NULL;
        if (error && error->code != ERR_BUSY)
            return error;
        bool wanted = !target->patient && interrupt_pending();
        if (wanted || (attempt >= ATTEMPTS && clock_now_ns() - start_ns > most_ns) || clock_now_ns() - start_ns > 3 * most_ns) {
            if (!error)
                error = wanted ? err_new(ERR_BUSY, "process %d: interrupted before it was there", target->pid) : cannot_call(target);
            err_free(target_resume(target));
            return error;
        }
        err_free(error);
        ERR_TRY(target_resume(target));
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
}

struct err *target_glance(struct target *target, pid_t tid, struct user_regs_struct *regs, void *stack, size_t size, size_t *got)
{
    struct err *error = NULL;
    if (target->thread.n)
        return err_new(ERR_BUSY, "process %d: it is held", target->pid);
    char filter[16];
    if (target_status_field(target->pid, tid, "Seccomp", filter, sizeof filter) && filter[0] != '0' && !target_may_suspend_filters())
        return err_new(ERR_REFUSED, "thread %d: has a seccomp filter that might kill it when it is stopped, and we may not suspend it",
                       tid);
    for (bool again = true; again && !error;) {
        if (!seize(target, tid, &error))
            return error ? error : target_gone(target);
        error = await_stops(target);
        if (!error)
            error = stop_again(target, true, &again);
    }
    if (!error && !target->thread.n)
        return target_gone(target);
    if (!error) {
        *regs = target->thread.at[0].regs;
        *got = target_read_some(target, regs->rsp, stack, size);
    }
    struct err *second = target_resume(target);
    if (error)
        err_free(second);
    return error ? error : second;
}

bool target_is_running(const struct target *target)
{
    for (size_t i = 0; i < target->thread.n; i++)
        if (!target->thread.at[i].stopped && !target->thread.at[i].parked)
            return true;
    return target->thread.n == 0;
}

/* ---- resuming ---- */

struct err *target_write_regs(struct target *target)
{
    for (size_t i = 0; i < target->thread.n; i++)
        if (target->thread.at[i].stopped)
            ERR_TRY(target_thread_write_regs(&target->thread.at[i]));
    for (size_t i = 0; i < target->sharer.n; i++)
        ERR_TRY(target_write_regs(target->sharer.at[i].target));
    return NULL;
}

/* A kept thread of a process that job control has stopped stays stopped, but hears of SIGCONT. */
void target_thread_continue(struct target_thread *thread)
{
    if (!thread->group_stop || target_ptrace(PTRACE_LISTEN, thread->tid, 0, 0))
        target_ptrace(PTRACE_CONT, thread->tid, 0, (long)thread->signal);
    thread->signal = 0;
    thread->stopped = thread->group_stop = false;
}

void target_thread_run(struct target *target, struct target_thread *thread)
{
    if (!thread->confined || thread->group_stop || !target_confined_start(target, thread))
        target_thread_continue(thread);
}

/* A thread that ends meanwhile is no error. */
static struct err *prepare_to_go(struct target *target, struct target_thread *thread)
{
    if (thread->interrupted) /* as late as can be: a signal that has come meanwhile ends the call */
        target_thread_restart_here(target, thread);
    struct err *error = target_thread_write_regs(thread);
    if (!error || error->code != ERR_NO_PROCESS)
        return error;
    err_free(error);
    return NULL;
}

struct err *target_let_some_on(struct target *target, const target_pids *tids, uint64_t ns)
{
    for (size_t i = 0; i < tids->n; i++) {
        struct target_thread *thread = find_thread(target, tids->at[i]);
        if (!thread || !thread->stopped)
            continue;
        ERR_TRY(prepare_to_go(target, thread));
        target_thread_run(target, thread);
    }
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
    return target_stop(target);
}

/* A thread that was told to stop and is let go before it has stopped goes on with restart_syscall where it was woken in a sleep: under a
 * filter that may kill it. */
static bool must_be_awaited(const struct target *target, const struct target_thread *thread)
{
    char filter[16];
    return !thread->parked && target_status_field(target->pid, thread->tid, "Seccomp", filter, sizeof filter) && filter[0] != '0';
}

/* Only a stopped thread can be let go of. A thread that runs stops soon; on a busy machine it waits for a processor before that. */
static bool stop_now(struct target *target, struct target_thread *thread, bool at_any_cost)
{
    enum { SOON = 50, LATE = 300000, LOOK_EVERY = 32, WAIT_NS = 100000 };
    int status, attempts = thread->parked ? 1 : at_any_cost ? LATE : SOON;
    target_ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0);
    for (int attempt = 0; attempt < attempts; attempt++) {
        pid_t got = target_take_stop(target, thread->tid, &status);
        if (got > 0 && thread->restarting && target_confined_step(target, thread, status))
            continue;
        if (got > 0 && target_thread_note(target, thread, status))
            return err_free(target_thread_settle(target, thread)), true;
        if (got != 0 && !(got < 0 && errno == EINTR))
            return thread->tid = 0, false;
        if (at_any_cost && attempt % LOOK_EVERY == LOOK_EVERY - 1 && target_thread_park(target, thread))
            return false; /* nothing wakes it */
        if (attempt + 1 < attempts)
            nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
    return false;
}

static void note_stopped(struct target *target)
{
    uint64_t time_ns = clock_now_ns();
    if (target->stop_ns)
        target->stopped_ns += time_ns - target->stop_ns;
    target->stop_ns = time_ns;
}

uint64_t target_stopped_ns(const struct target *target)
{
    return target->stopped_ns;
}

/* A thread that was killed meanwhile, or whose id another one has taken by executing a program, is not stopped any more. Its end must be
 * taken all the same: until then its process can neither end nor execute anything. The end of a child of ours is for others to take. */
static void let_go(struct target *target, struct target_thread *thread)
{
    bool is_awaited = thread->tid == target->pid && (target->is_child || target->end_is_awaited);
    if (thread->confined && !thread->group_stop && target_tracer_has(target, thread->tid) && target_confined_start(target, thread))
        return; /* when it sleeps */
    if (target_ptrace(PTRACE_DETACH, thread->tid, 0, (long)thread->signal) && errno == ESRCH && thread->tid && !is_awaited) {
        target_ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0);
        target_let_go_later(thread->tid);
    }
    *thread = (struct target_thread){.tid = 0};
}

/* Of a stopped thread. Takes `first` over, the first thing that went wrong; returns what is now. */
static struct err *go_on(struct target *target, struct target_thread *thread, struct err *first)
{
    struct err *error = prepare_to_go(target, thread);
    note_stopped(target); /* before: whoever is let go may take the processor that we are on */
    if (target->at_trap)
        target_thread_run(target, thread);
    else
        let_go(target, thread);
    if (!first)
        return error;
    err_free(error);
    return first;
}

struct err *target_resume(struct target *target)
{
    struct err *first = target_remote_end(target);
    if (target->hold)
        return first ? first : target_write_regs(target);
    struct err *others = target_release_sharers(target);
    if (!first)
        first = others;
    else
        err_free(others);
    target_pids late = {0};
    for (size_t i = 0; i < target->thread.n; i++) {
        struct target_thread *thread = &target->thread.at[i];
        if (thread->stopped || (!target->at_trap && stop_now(target, thread, false)))
            first = go_on(target, thread, first);
        else if (!target->at_trap && thread->tid)
            VEC_PUSH(&late, thread->tid);
    }
    for (size_t i = 0; i < late.n; i++) {
        struct target_thread *thread = find_thread(target, late.at[i]);
        if (thread && must_be_awaited(target, thread) && stop_now(target, thread, true))
            first = go_on(target, thread, first);
    }
    VEC_FREE(&late);
    target_confined_let_go(target);
    size_t kept = 0;
    for (size_t i = 0; i < target->thread.n; i++) {
        struct target_thread *thread = &target->thread.at[i];
        thread->parked = false;
        if (thread->tid && target->at_trap)
            target->thread.at[kept++] = *thread;
        else if (thread->tid && !target_tracer_has(target, thread->tid))
            target_let_go_later(thread->tid);
    }
    target->thread.n = kept;
    target->stop_ns = 0;
    target->stop_again = false;
    if (!target->at_trap)
        target_tracer_end(target);
    return first;
}
