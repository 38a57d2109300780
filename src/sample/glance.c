/* Sampling without perf events, where they are forbidden: the controller stops threads that run, one at a time and for a moment, whenever
 * the set is drained.
 *
 * The other way would be timers in the program itself whose signals a handler of ours takes. A signal is no private matter of whoever sends
 * it: it ends system calls with EINTR that are not begun again (epoll_wait, nanosleep, poll), it needs a number that the program does not
 * use, room on whatever stack the thread has, and a thread that does not block it; and the program must be changed for it. A stop by
 * ptrace has none of that: the kernel begins interrupted calls again, or target/ does. It costs more, some tens of microseconds each time,
 * so there are at most 100 a second of a thread, and none of threads that wait.
 *
 * Time is exact all the same: it is read from the kernel's accounts. A process that someone else traces, or whose traps we serve, is
 * seen only where it waits. */
#include "sample/internal.h"
#include "target/target.h"

#include <stdlib.h>
#include <string.h>

static struct target *find_target(const struct sample_set *set, pid_t pid)
{
    for (size_t i = 0; i < set->target.n; i++)
        if (target_pid(set->target.at[i]) == pid && !target_ended(set->target.at[i]))
            return set->target.at[i];
    return NULL;
}

/* Those that have ended, and `pid`. */
static void close_targets(struct sample_set *set, pid_t pid)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->target.n; i++)
        if (target_ended(set->target.at[i]) || target_pid(set->target.at[i]) == pid)
            target_close(set->target.at[i]);
        else
            set->target.at[kept++] = set->target.at[i];
    set->target.n = kept;
}

struct err *sample_set_open_target(struct sample_set *set, pid_t pid)
{
    struct target *target;
    if (find_target(set, pid))
        return NULL;
    close_targets(set, 0);
    ERR_TRY(target_open_to_look(pid, &target));
    VEC_PUSH(&set->target, target);
    return NULL;
}

void sample_set_reopen_target(struct sample_set *set, pid_t pid)
{
    close_targets(set, pid);
    err_free(sample_set_open_target(set, pid));
}

void sample_set_close_targets(struct sample_set *set)
{
    for (size_t i = 0; i < set->target.n; i++)
        target_close(set->target.at[i]);
    VEC_FREE(&set->target);
}

static void take(struct sample *sample, int reg, uint64_t value)
{
    sample->machine[reg] = value;
    sample->known |= 1u << reg;
}

static void take_registers64(struct sample *sample, const struct user_regs_struct *regs)
{
    const uint64_t value[] = {
        [WIRE_REG64_AX] = regs->rax,  [WIRE_REG64_DX] = regs->rdx,      [WIRE_REG64_CX] = regs->rcx,  [WIRE_REG64_BX] = regs->rbx,
        [WIRE_REG64_SI] = regs->rsi,  [WIRE_REG64_DI] = regs->rdi,      [WIRE_REG64_BP] = regs->rbp,  [WIRE_REG64_SP] = regs->rsp,
        [WIRE_REG64_R8] = regs->r8,   [WIRE_REG64_R9] = regs->r9,       [WIRE_REG64_R10] = regs->r10, [WIRE_REG64_R11] = regs->r11,
        [WIRE_REG64_R12] = regs->r12, [WIRE_REG64_R13] = regs->r13,     [WIRE_REG64_R14] = regs->r14, [WIRE_REG64_R15] = regs->r15,
        [WIRE_REG64_IP] = regs->rip,  [WIRE_REG64_FLAGS] = regs->eflags};
    for (int i = 0; i < WIRE_REG64_COUNT; i++)
        take(sample, i, value[i]);
}

static void take_registers32(struct sample *sample, const struct user_regs_struct *regs)
{
    const uint64_t value[] = {
        [WIRE_REG32_AX] = regs->rax, [WIRE_REG32_CX] = regs->rcx,      [WIRE_REG32_DX] = regs->rdx, [WIRE_REG32_BX] = regs->rbx,
        [WIRE_REG32_SP] = regs->rsp, [WIRE_REG32_BP] = regs->rbp,      [WIRE_REG32_SI] = regs->rsi, [WIRE_REG32_DI] = regs->rdi,
        [WIRE_REG32_IP] = regs->rip, [WIRE_REG32_FLAGS] = regs->eflags};
    for (int i = 0; i < WIRE_REG32_COUNT; i++)
        take(sample, i, (uint32_t)value[i]);
}

void sample_set_glance(struct sample_set *set, struct sample_thread *thread, uint64_t now_ns)
{
    struct target *target = find_target(set, (pid_t)thread->pid);
    struct user_regs_struct regs;
    uint8_t *stack = memory_alloc(set->options.stack_bytes);
    struct sample_record record = {.kind = SAMPLE_TAKEN};
    struct sample *sample = &record.sample;
    thread->window_ns = now_ns;
    struct err *error = target ? target_glance(target, (pid_t)thread->tid, &regs, stack, set->options.stack_bytes, &record.bytes) : NULL;
    if (target && !error) {
        *sample = (struct sample){.time_ns = now_ns,
                                  .weight_ns = thread->run_ns,
                                  .pid = thread->pid,
                                  .tid = thread->tid,
                                  .in_kernel = (int64_t)regs.orig_rax >= 0,
                                  .pc = regs.rip,
                                  .sp = regs.rsp,
                                  .model = target_width(target) == 64 ? WIRE_LP64 : WIRE_ILP32};
        if (sample->model == WIRE_LP64)
            take_registers64(sample, &regs);
        else
            take_registers32(sample, &regs);
        memcpy(record.name, thread->name, sizeof record.name);
        sample_records_add(&set->fresh, &record, stack);
        sample->off_cpu = true;
        sample->weight_ns = thread->held_ns;
        if (sample->weight_ns)
            sample_records_add(&set->fresh, &record, stack);
        thread->run_ns = thread->held_ns = 0;
    }
    err_free(error);
    free(stack);
}
