/* PTRACE_SEIZE, with an end.
 *
 * While a process executes a program, the kernel lets nobody seize a thread of it. That may take as long as a file server pleases, and it
 * takes until the ends of all other threads of the process have been taken by their tracers: by us, who wait meanwhile, and whom the kernel
 * makes wait again after each signal. So a timer sends signals for as long as the call takes. Their handler takes those ends and, when it
 * has taken too long, does not return into the call. */
#include "target/internal.h"

#include "base/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A signal that nobody sends us and that does nothing. */
enum { TICK = SIGURG };

static pid_t owner; /* of the timer: the thread that traces; 0: there is none yet */
static timer_t timer;
static sigjmp_buf out;
static const struct target *volatile seized; /* whose thread is being seized, else NULL */
static volatile uint64_t end_ns;

static void on_tick(int signal)
{
    int number = errno;
    (void)signal;
    if (seized && syscall(SYS_gettid) == owner) {
        target_take_ends(seized);
        if (clock_now_ns() > end_ns)
            siglongjmp(out, 1);
    }
    errno = number;
}

static bool have_timer(void)
{
    sigset_t tick;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TICK};
    if (owner == gettid())
        return true;
    if (owner)
        timer_delete(timer);
    owner = 0;
    event._sigev_un._tid = gettid();
    sigemptyset(&tick);
    sigaddset(&tick, TICK);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || sigaction(TICK, &(struct sigaction){.sa_handler = on_tick}, NULL) ||
        pthread_sigmask(SIG_UNBLOCK, &tick, NULL))
        return false;
    owner = gettid();
    return true;
}

static void set_timer(long ns)
{
    struct itimerspec every = {{0, ns}, {0, ns}};
    timer_settime(timer, 0, &every, NULL);
}

static bool is_ours(const struct target *target, pid_t tid)
{
    char tracer[16];
    return target_status_field(target->pid, tid, "TracerPid", tracer, sizeof tracer) && atoi(tracer) == gettid();
}

int target_seize(const struct target *target, pid_t tid, unsigned long options)
{
    enum { TICK_NS = 10000000 };
    const uint64_t most_ns = 1000000000;
    if (!have_timer())
        return (int)ptrace(PTRACE_SEIZE, tid, 0, options);
    end_ns = clock_now_ns() + most_ns;
    if (sigsetjmp(out, 1)) {
        seized = NULL;
        set_timer(0);
        errno = EBUSY;
        return is_ours(target, tid) ? 0 : -1;
    }
    seized = target;
    set_timer(TICK_NS);
    int result = (int)ptrace(PTRACE_SEIZE, tid, 0, options), number = errno;
    seized = NULL;
    set_timer(0);
    errno = number;
    return result;
}
