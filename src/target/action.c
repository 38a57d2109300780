/* Which signals a process catches, and how. */
#include "target/internal.h"

#include <stdlib.h>
#include <string.h>

enum { NR64_SIGACTION = 13, NR32_SIGACTION = 174 };

static struct err *read_action(struct target *target, int signal, uint64_t va, struct target_action *out)
{
    int64_t result;
    uint8_t bytes[24] = {0};
    size_t word = (size_t)target->width / 8;
    uint64_t words[3] = {0};
    ERR_TRY(
        target_syscall(target, target->width == 64 ? NR64_SIGACTION : NR32_SIGACTION, (uint64_t[6]){(uint64_t)signal, 0, va, 8}, &result));
    if (result < 0)
        return NULL; /* none that could be asked for */
    ERR_TRY(target_read(target, va, bytes, 3 * word));
    for (int i = 0; i < 3; i++)
        memcpy(&words[i], bytes + (size_t)i * word, word);
    *out = (struct target_action){words[0], words[1], words[2]};
    return NULL;
}

static struct err *read_actions(struct target *target, uint64_t caught, struct target_action out[TARGET_SIGNALS])
{
    for (int signal = 1; signal <= TARGET_SIGNALS; signal++) {
        uint64_t va;
        if (!(caught >> (signal - 1) & 1))
            continue;
        ERR_TRY(target_remote_buffer(target, &va));
        ERR_TRY(read_action(target, signal, va, &out[signal - 1]));
    }
    return NULL;
}

struct err *target_read_actions(struct target *target, struct target_action out[TARGET_SIGNALS])
{
    char value[32];
    memset(out, 0, TARGET_SIGNALS * sizeof *out);
    uint64_t caught = 0;
    if (target_status_field(target->pid, target_live_task(target->pid), "SigCgt", value, sizeof value))
        caught = strtoull(value, NULL, 16);
    if (!caught)
        return NULL;
    bool running = target_is_running(target);
    ERR_TRY(target_stop_one(target));
    struct err *error = read_actions(target, caught, out);
    struct err *resume = running ? target_resume(target) : NULL;
    if (error)
        err_free(resume);
    return error ? error : resume;
}

void target_thread_move_fault(struct target_thread *thread, uint64_t from_va, uint64_t to_va)
{
    siginfo_t info;
    int signal = thread->signal;
    if ((signal != SIGILL && signal != SIGTRAP && signal != SIGFPE && signal != SIGSYS) ||
        target_ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info) || info.si_code <= 0 || info.si_code == SI_KERNEL ||
        (uint64_t)(uintptr_t)info.si_addr != from_va)
        return;
    info.si_addr = (void *)(uintptr_t)to_va;
    target_ptrace(PTRACE_SETSIGINFO, thread->tid, 0, &info);
}

bool target_thread_has_fault(const struct target *target, const struct target_thread *thread)
{
    const uint64_t faults = 1ull << (SIGILL - 1) | 1ull << (SIGTRAP - 1) | 1ull << (SIGFPE - 1) | 1ull << (SIGSYS - 1);
    char value[32];
    return target_status_field(target->pid, thread->tid, "SigPnd", value, sizeof value) && strtoull(value, NULL, 16) & faults;
}
