/* Threads that stop in the midst of a restartable sequence (rseq).
 *
 * The kernel starts a sequence again that it has interrupted when the thread goes on, if the thread stands in it then. One that is borrowed
 * for a system call goes on in our stub, and the kernel forgets that it was in a sequence. So it is sent where the kernel would have sent
 * it before it is borrowed. Of what the process says about its sequences nothing is believed but where its own thread would go on. */
#include "target/internal.h"

#include <string.h>
#include <sys/ptrace.h>

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

/* As the kernel gives it, for either width. */
struct rseq_configuration {
    uint64_t area_va; /* 0: the thread has none */
    uint32_t area_bytes, signature, flags, unused;
};

/* What the word at `area_va` + SEQUENCE_AT leads to. */
struct rseq_sequence {
    uint32_t version, flags;
    uint64_t start_va, bytes, abort_va;
};
enum { SEQUENCE_AT = 8 };

struct err *target_thread_leave_sequence(struct target *target, struct target_thread *thread)
{
    struct rseq_configuration configuration = {0};
    struct rseq_sequence sequence;
    uint64_t sequence_va = 0, none = 0;
    uint32_t signature;
    if (target_ptrace(PTRACE_GET_RSEQ_CONFIGURATION, thread->tid, sizeof configuration, &configuration) < 0 || !configuration.area_va ||
        target_read_some(target, configuration.area_va + SEQUENCE_AT, &sequence_va, sizeof sequence_va) != sizeof sequence_va ||
        !sequence_va || target_read_some(target, sequence_va, &sequence, sizeof sequence) != sizeof sequence)
        return NULL;
    if (sequence.version || sequence.flags || thread->regs.rip - sequence.start_va >= sequence.bytes ||
        target_read_some(target, sequence.abort_va - sizeof signature, &signature, sizeof signature) != sizeof signature ||
        signature != configuration.signature)
        return NULL;
    thread->regs.rip = sequence.abort_va;
    thread->regs_changed = true;
    return target_write(target, configuration.area_va + SEQUENCE_AT, &none, sizeof none);
}
