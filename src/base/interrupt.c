#include "base/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

int interrupt_fd(int extra)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    if (extra)
        sigaddset(&set, extra);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}
