#include "base/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

/* Whatever ends a program by default and is no fault of its own. */
static void ending(sigset_t *set)
{
    static const int number[] = {SIGHUP,  SIGINT,    SIGQUIT, SIGTERM, SIGALRM, SIGUSR1,  SIGUSR2,
                                 SIGXCPU, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR,  SIGSTKFLT};
    sigemptyset(set);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        sigaddset(set, number[i]);
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
        sigaddset(set, i);
}

static int awaited; /* a signal that is not one of them because it was asked for */

int interrupt_fd(int extra)
{
    sigset_t set;
    ending(&set);
    if (extra)
        sigaddset(&set, extra);
    awaited = extra;
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool interrupt_pending(void)
{
    sigset_t set, pending;
    ending(&set);
    sigpending(&pending);
    for (int i = 1; i < NSIG; i++)
        if (i != awaited && sigismember(&set, i) == 1 && sigismember(&pending, i) == 1)
            return true;
    return false;
}
