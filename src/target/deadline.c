/* epoll_wait after a stop.
 *
 * The call is interrupted by any stop and made again. Made again as it was it would begin its timeout anew, and stopped often enough it
 * would never end. So it is made again with what is left of the timeout. How long it had waited when it was first interrupted is not known;
 * from then on the argument itself, which is then no longer the one the program gave, tells a call that was made again from a new one. The
 * register is one that callers do not look at again. */
#include "target/internal.h"

#include <time.h>

enum { NR64_EPOLL_WAIT = 232, NR64_EPOLL_PWAIT = 281, NR32_EPOLL_WAIT = 256, NR32_EPOLL_PWAIT = 319 };

static bool has_timeout_ms(const struct target *target, int number)
{
    return target->width == 64 ? number == NR64_EPOLL_WAIT || number == NR64_EPOLL_PWAIT
                               : number == NR32_EPOLL_WAIT || number == NR32_EPOLL_PWAIT;
}

static struct target_deadline *deadline_of(struct target *target, pid_t tid)
{
    for (size_t i = 0; i < target->deadline.n; i++)
        if (target->deadline.at[i].tid == tid)
            return &target->deadline.at[i];
    VEC_PUSH(&target->deadline, (struct target_deadline){.tid = tid});
    return &target->deadline.at[target->deadline.n - 1];
}

bool target_thread_timed_out(struct target *target, struct target_thread *thread)
{
    struct user_regs_struct *regs = &thread->regs;
    unsigned long long *argument = target->width == 64 ? &regs->r10 : &regs->rsi;
    int32_t timeout_ms = (int32_t)*argument;
    if (!has_timeout_ms(target, (int)regs->orig_rax) || timeout_ms <= 0)
        return false;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    struct target_deadline *deadline = deadline_of(target, thread->tid);
    bool same = deadline->pc_va == regs->rip && deadline->left_ms == timeout_ms;
    int64_t left_ms = same ? deadline->end_ms - now_ms : timeout_ms - 1;
    if (left_ms <= 0) {
        deadline->pc_va = 0;
        return true;
    }
    *deadline = (struct target_deadline){thread->tid, (int32_t)left_ms, regs->rip, now_ms + left_ms};
    *argument = (uint32_t)left_ms;
    return false;
}
