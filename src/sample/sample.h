/* Timer samples: where the threads of processes are while they use the processor.
 *
 * In: processes. Out: samples in order of time, each with its thread, its processor and the registers of the program, in the data model of
 * the code that ran. Nothing of a program's own code is needed for it: neither frame pointers nor symbols. A sample of a thread in the
 * kernel has the registers with which the program went there.
 *
 * By perf events of the kernel that count a thread's own time on a processor, one for each thread and processor, inherited by whatever the
 * thread starts; all events of one processor write to one ring.
 *
 * Invariants
 *  1. Threads of the processes that were added are sampled, and what they start: threads, and forked children until they execute another
 *     program. Nothing else is. A thread that sleeps is not.
 *  2. One timer counts for each thread. A thread that is started while its process is being added may get two, an inherited one and one of
 *     its own: samples of a timer that is not the thread's root (set.c) are dropped.
 *  3. Sampled threads never wait. What finds no room, and what the kernel throttles, is counted as lost.
 *
 * Stacks, when they are asked for, belong in struct sample_options (how many bytes of them to copy) and in struct sample (the copy). */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include "base/err.h"
#include "wire/session.h"

#include <stdbool.h>
#include <sys/types.h>

struct sample_options {
    uint64_t period_ns; /* of a thread's processor time, from one sample to the next; the kernel takes at least 10,000 */
};

struct sample {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint32_t pid, tid, cpu;
    enum wire_model model;
    bool in_kernel;                     /* working for the program, at the instruction after its system call or at the one that faulted */
    uint64_t pc, sp;                    /* of the program */
    uint64_t machine[WIRE_REG64_COUNT]; /* its registers, by enum wire_reg of the model */
    const char *comm;                   /* the thread's name when it was sampled; "" when not known. Valid during the call */
};

struct sample_set;

struct sample_set *sample_set_create(const struct sample_options *options);
void sample_set_destroy(struct sample_set *set);

/* Samples the process from now on. ERR_PERMISSION says which setting or capability is missing; ERR_NO_PROCESS: it has ended. After an error
 * it is not sampled. */
struct err *sample_set_add(struct sample_set *set, pid_t pid);

/* Hands over the samples taken before the call. Returns how many. */
typedef void sample_fn(void *context, const struct sample *sample);
size_t sample_set_drain(struct sample_set *set, sample_fn *take, void *context);

/* No more samples are taken; those that were can still be drained, and the losses are final. */
void sample_set_stop(struct sample_set *set);

/* Samples that are missing so far: no room in a ring, or throttled by the kernel (by the time that this took). */
uint64_t sample_set_lost(const struct sample_set *set);

#endif
