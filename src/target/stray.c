/* Threads that nobody waits for at the moment when the kernel tells of them.
 *
 * Two kinds: stops that were taken for a thread before anybody knew it (a child whose parent's stop is told later), kept until somebody
 * asks; and threads that were to be let go while they could not be, because only a stopped thread can: they are let go as soon as they
 * stop. */
#include "target/internal.h"

#include "base/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

struct stray {
    pid_t tid;
    int status;
};
static VEC(struct stray) stray;
static target_pids leaving;

/* Of what the kernel says of a stop: the thread is about to get a signal. */
static bool is_signal(int code)
{
    enum { SYSCALL_STOP = SIGTRAP | 0x80 };
    return !(code >> 8) && code != SYSCALL_STOP;
}

/* ---- stops of threads that are not known yet ---- */

void target_put_back(pid_t tid, int status)
{
    if (WIFSTOPPED(status) && is_signal(status >> 8))
        waitpid(tid, &status, __WALL | WNOHANG);
    VEC_PUSH(&stray, (struct stray){tid, status});
}

bool target_take_back(pid_t tid, int *status)
{
    for (size_t i = 0; i < stray.n; i++) {
        if (stray.at[i].tid != tid)
            continue;
        *status = stray.at[i].status;
        stray.at[i] = stray.at[--stray.n];
        return true;
    }
    return false;
}

size_t target_stray_count(void)
{
    return stray.n;
}

pid_t target_stray(size_t index, int *status)
{
    *status = stray.at[index].status;
    return stray.at[index].tid;
}

pid_t target_take(pid_t tid, int *status)
{
    siginfo_t info = {0};
    if (waitid(tid < 0 ? P_ALL : P_PID, tid < 0 ? 0 : (id_t)tid, &info, WEXITED | WSTOPPED | WNOWAIT | WNOHANG | __WALL))
        return -1;
    if (!info.si_pid)
        return 0;
    bool is_stop = info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED;
    if (!is_stop || !is_signal(info.si_status))
        return waitpid(info.si_pid, status, __WALL | WNOHANG);
    *status = info.si_status << 8 | 0x7f;
    return info.si_pid;
}

bool target_stands(pid_t tid)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)tid, &info, WSTOPPED | WEXITED | WNOWAIT | WNOHANG | __WALL))
        return false;
    return info.si_pid == 0 || (info.si_code == CLD_TRAPPED && is_signal(info.si_status));
}

pid_t target_wait_within(pid_t tid, uint64_t most_ns, int *status)
{
    enum { QUICK = 1000, STEP_NS = 200000 };
    uint64_t start_ns = clock_now_ns();
    for (int attempt = 0;; attempt++) {
        pid_t got = target_take_back(tid, status) ? tid : target_take(tid, status);
        if (got == tid || (got < 0 && errno != EINTR))
            return got;
        if (clock_now_ns() - start_ns > most_ns)
            return 0;
        if (attempt < QUICK)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
}

bool target_wait_for(pid_t tid, int *status)
{
    return target_wait_within(tid, 30000000000, status) == tid;
}

/* To its tracer the kernel also tells of a thread's stops when asked for its end alone. */
bool target_has_end(pid_t tid)
{
    siginfo_t info = {0};
    int result = waitid(P_PID, (id_t)tid, &info, WEXITED | WNOWAIT | WNOHANG | __WALL);
    return result ? errno == ECHILD : info.si_pid == tid && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED;
}

void target_take_end(pid_t tid)
{
    if (target_has_end(tid))
        waitid(P_PID, (id_t)tid, &(siginfo_t){0}, WEXITED | WNOHANG | __WALL);
}

/* ---- threads that are to be let go ---- */

void target_let_go_later(pid_t tid)
{
    int status;
    VEC_PUSH(&leaving, tid);
    if (target_take_back(tid, &status))
        target_let_go_now(tid, status);
}

bool target_is_leaving(pid_t tid)
{
    for (size_t i = 0; i < leaving.n; i++)
        if (leaving.at[i] == tid)
            return true;
    return false;
}

static void forget(pid_t tid)
{
    for (size_t i = leaving.n; i-- > 0;)
        if (leaving.at[i] == tid)
            leaving.at[i] = leaving.at[--leaving.n];
}

bool target_stay(pid_t tid)
{
    bool found = target_is_leaving(tid);
    forget(tid);
    return found;
}

bool target_let_go_now(pid_t tid, int status)
{
    if (!target_is_leaving(tid))
        return false;
    /* A thread that job control has stopped goes on being stopped. */
    int event = status >> 16, signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
    if (WIFSTOPPED(status))
        ptrace(PTRACE_DETACH, tid, 0, (long)(event || signal == (SIGTRAP | 0x80) ? 0 : signal));
    forget(tid);
    return true;
}

void target_take_ends_of_leaving(void)
{
    for (size_t i = 0; i < leaving.n; i++)
        target_take_end(leaving.at[i]);
}

void target_serve_leaving(void)
{
    for (size_t i = leaving.n; i-- > 0;) {
        int status;
        pid_t tid = leaving.at[i], got = target_take(tid, &status);
        if (got == tid)
            target_let_go_now(tid, status);
        else if (got < 0 && errno == ECHILD)
            forget(tid);
    }
}

void target_wait_for_leaving(uint64_t ns)
{
    enum { STEP_NS = 1000000 };
    for (uint64_t waited = 0; leaving.n && waited < ns; waited += STEP_NS) {
        target_serve_leaving();
        if (leaving.n)
            nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
}
