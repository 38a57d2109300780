/* System calls that a seccomp filter could forbid. Called while firing.
 *
 * A process is quiet from before it sets a filter, in any thread. Whoever makes a call counts itself before it looks whether the process
 * is, and whoever makes it quiet waits until nobody is counted: so no call is made, or made again, that a new filter sees. */
#ifndef AGENT_QUIET_H
#define AGENT_QUIET_H

#include "wire/session.h"

#include <stdbool.h>

static inline __attribute__((always_inline)) void agent_has_called(struct wire_process *process)
{
    __atomic_sub_fetch(&process->calling, 1, __ATOMIC_SEQ_CST);
}

/* True: the call may be made, and agent_has_called() must follow. */
static inline __attribute__((always_inline)) bool agent_may_call(struct wire_process *process)
{
    if (!process || __atomic_load_n(&process->quiet, __ATOMIC_RELAXED))
        return false;
    __atomic_add_fetch(&process->calling, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&process->quiet, __ATOMIC_SEQ_CST))
        return true;
    agent_has_called(process);
    return false;
}

/* Waits without a system call: another thread may be about to set a filter for this one. A thread that has jumped out of a call by a signal
 * stays counted, so there is an end. */
static inline __attribute__((always_inline)) void agent_become_quiet(struct wire_process *process)
{
    enum { MOST = 1 << 21 }; /* some tenths of a second; no call takes as long */
    __atomic_store_n(&process->quiet, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < MOST && __atomic_load_n(&process->calling, __ATOMIC_SEQ_CST); i++)
        __asm__ volatile("pause");
}

#endif
