/* Samples: where the threads of processes are, by the timer while they use the processor and, on request, where they wait; and what becomes
 * of the threads meanwhile.
 *
 * In: processes. Out, in order of time: samples, each with its thread, its processor, the registers of the program in the data model of the
 * code that ran, and a copy of the innermost part of its stack; and news: switches, starts, names, programs, mappings, ends. Nothing of a
 * program's own code is needed for it: neither frame pointers nor symbols. A sample of a thread in the kernel has the registers with which
 * the program went there.
 *
 * By perf events of the kernel that count a thread's own time on a processor, one for each thread and processor, inherited by whatever the
 * thread starts; all events of one processor write to one ring.
 *
 * Time. A sample stands for weight_ns of its thread. Where switches are known (SAMPLE_WALL or want_switches) that is a period, and
 * the processor time of a thread adds up exactly, whatever was lost, throttled or spent where the timer may not look; else it is the
 * period. With SAMPLE_WALL waiting counts as well: a sample with off_cpu tells where the thread left the processor, and one with `again`
 * how long it stayed away. What all samples of a thread stand for is the time from its start (or from sample_set_add) to its end (or
 * sample_set_stop); or a little more: by what the last account adds to the time that it ran when no wait is left to take that from, which
 * is some microseconds for each switch since the account before, and up to a tick of the kernel for a thread that rests.
 *
 * Where a thread waits, there are two ways to know, neither of which stops it:
 *  - an event at the switch itself. The kernel gives it to those who may look at the kernel. It thins itself out above some hundreds a
 *    second a thread; a wait that was seen then stands for those before it that were not, by its length times their number.
 *  - looking at the threads that wait, whenever the set is drained: pc and sp from the kernel, the stack from memory. Of a 64-bit program
 *    the registers that calls preserve are not known then (sample.known). Long waits are seen more often than short ones, just as they
 *    should be: waits that were over before anybody looked are charged to the next one that is seen.
 *
 * Threads that switch too often rest. Any event on a thread makes each of its switches dearer, a timer in a virtual machine by more than
 * the switch itself costs (about 11 microseconds where it was measured; 1 for an event that does nothing). So a thread that leaves the
 * processor more than 2,000 times a second is relieved of its events. Its time is then read from the kernel's own accounts whenever the set
 * is drained, exactly; where it waits is looked at then; and where it runs is sampled in short windows that take at most 2 % of its time.
 * What it starts meanwhile is found a tenth of a second later, or when it has ended; all that it ran counts.
 *
 * Where the kernel forbids perf events and options.may_stop, all threads are treated like those that rest, and where they run is found by
 * stopping the ones that do, for some tens of microseconds, whenever the set is drained (glance.c says why not otherwise).
 *
 * Invariants
 *  1. Threads of the processes that were added are sampled, and what they start: threads, and forked children; until they execute another
 *     program, unless follow_exec. Nothing else is.
 *  2. One timer counts for each thread. A thread that is started while its process is being added may get two, an inherited one and one of
 *     its own: what a timer that is not the thread's root (set.c) says is dropped.
 *  3. Sampled threads never wait for us, unless may_stop. What finds no room, and what the kernel throttles, is counted as lost.
 *  4. What a thread ran is what the kernel says that it ran: weights of samples, and SAMPLE_IN and SAMPLE_OUT, only say where and when.
 *     They are compared with the kernel's account (schedstat) several times a second and when the set is stopped, and with what taskstats
 *     tells when a thread ends; SAMPLE_RAN is the result. The account leaves out what a host takes away from its guest, and has what a
 *     switch costs; of a thread that runs it is up to a tick of the kernel old, so of a thread that seldom switches, switches count within
 *     that. Where taskstats may not be used (ends.c), what a thread that rests has run since the last look is estimated when it ends.
 *  5. What is handed over is in order of time, also from one drain to the next; so the last moments are held back until the next. */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include "base/err.h"
#include "wire/session.h"

#include <stdbool.h>
#include <sys/types.h>

enum sample_clock {
    SAMPLE_CPU,  /* threads count while they run */
    SAMPLE_WALL, /* ... and while they wait */
};

/* Where it was measured, in a virtual machine, a sample took some 25 microseconds of its thread, with what it loses of its caches; the copy
 * of 16 KB takes 7 more, as its memory comes from the processor that has read it. */
enum { SAMPLE_STACK_MAX = 63 << 10 }; /* a record of the kernel has at most 64 KB */

struct sample_options {
    uint64_t period_ns; /* of a thread's processor time, from one sample to the next; the kernel takes at least 10,000 */
    enum sample_clock clock;
    uint32_t stack_bytes;      /* how much of the stack to copy: a multiple of 8, at most SAMPLE_STACK_MAX; 0: nothing */
    uint32_t less_stack_bytes; /* that may be enough at times (sample_set_copy_less); 0: never */
    uint64_t stack_period_ns;  /* 0: each sample has a copy of the stack. Else only samples that are taken besides, so often, on request
                                  (sample_set_want_stacks), and stand for no time */
    bool want_switches;        /* news that threads come to a processor and leave it */
    bool want_accounts;        /* news of how long threads ran in all, where that is known: with switches, and where threads are stopped */
    bool want_tasks;           /* news of starts, names, executed programs, ends */
    bool want_maps;            /* news of code that is mapped */
    bool follow_exec;
    bool may_stop; /* where perf events are forbidden: stop threads for a moment instead */
};

struct sample {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t weight_ns;
    uint32_t pid, tid, cpu;
    enum wire_model model;
    bool in_kernel;  /* working for the program, at the instruction after its system call or at the one that faulted */
    bool off_cpu;    /* it waits here */
    bool stack_only; /* taken for options.stack_period_ns: it stands for no time */
    bool again;      /* no registers, no stack: those of the thread's last sample with the same off_cpu; none: not known */
    uint32_t known;  /* bit r: machine[r] is known */
    uint64_t pc, sp; /* of the program */
    uint64_t machine[WIRE_REG64_COUNT]; /* its registers, by enum wire_reg of the model */
    const uint8_t *stack;               /* what was at sp; valid during the call */
    size_t stack_bytes;                 /* less than asked for where the stack ends */
    const char *comm;                   /* the thread's name when it was sampled; "" when not known. Valid during the call */
};

enum sample_news_kind {
    SAMPLE_PRESENT, /* a thread that there was when its process was added, or that a thread has started whose news were not told */
    SAMPLE_START,   /* parent_pid, parent_tid; another process when pid is not parent_pid */
    SAMPLE_NAME,    /* name */
    SAMPLE_EXEC,    /* name; other threads of the process are gone, and tid is pid */
    SAMPLE_END,
    SAMPLE_IN,     /* it runs now */
    SAMPLE_OUT,    /* preempted */
    SAMPLE_UNTOLD, /* it switches too often: from here on no MAP and START by it, and IN and OUT are by_look */
    SAMPLE_TOLD,   /* from here on as before */
    SAMPLE_RAN,    /* it ran for ran_ns in all since START or PRESENT, whatever IN and OUT have said */
    SAMPLE_MAP,    /* map: code of the process; what was there before is not any more */
};

enum { SAMPLE_BUILD_ID_MAX = 20 };

struct sample_map {
    uint64_t start_va, end_va, file_offset;
    uint64_t inode; /* 0: anonymous, or the build-id is given instead */
    uint32_t build_id_bytes;
    uint8_t build_id[SAMPLE_BUILD_ID_MAX];
    const char *path; /* as the kernel shows it: "[vdso]", "//anon", "... (deleted)" */
};

/* Texts are valid during the call. */
struct sample_news {
    enum sample_news_kind kind;
    uint64_t time_ns;
    uint32_t pid, tid, parent_pid, parent_tid;
    bool preempted; /* it could go on running */
    bool by_look; /* IN, OUT: not the kernel's. Of an untold thread: between two looks it ran so long, though not in one piece. Also what it
                     does when switches become known again: it was untold, or they found no room */
    uint64_t start_ns;     /* PRESENT: when it was started; 0: not known */
    uint64_t ran_ns;       /* RAN */
    uint64_t estimated_ns; /* RAN: of that, so much was not when IN and OUT have said, or they have not said it */
    const char *name;
    struct sample_map map;
};

struct sample_set;

struct sample_set *sample_set_create(const struct sample_options *options);
void sample_set_destroy(struct sample_set *set);

/* Descriptors that events leave for everything else. */
enum { SAMPLE_SPARE_DESCRIPTORS = 16 };

/* Samples the process from now on. ERR_PERMISSION says which setting or capability is missing; ERR_NO_PROCESS: it has ended; ERR_SYSTEM:
 * there are not enough descriptors for its threads, or no such events. After an error it is not sampled. */
struct err *sample_set_add(struct sample_set *set, pid_t pid);

/* Copies options.less_stack_bytes of stacks from now on, or stack_bytes again. */
void sample_set_copy_less(struct sample_set *set, bool less);

/* Takes samples of stacks from now on, every options.stack_period_ns, or none any more. There are none where descriptors are short. */
void sample_set_want_stacks(struct sample_set *set, bool wanted);

/* Hands over what happened up to shortly before the call (once stopped: all). Returns how many samples and news. To be called as often as
 * waits are to be looked at, about every 10 ms, and when sample_set_fd() is readable. `tell` may be NULL. */
typedef void sample_fn(void *context, const struct sample *sample);
typedef void sample_news_fn(void *context, const struct sample_news *news);
size_t sample_set_drain(struct sample_set *set, sample_fn *take, sample_news_fn *tell, void *context);

/* What happened before this time has been handed over. */
uint64_t sample_set_until(const struct sample_set *set);

/* Readable when a ring has much to read. Of the set. */
int sample_set_fd(const struct sample_set *set);

/* Whether events were forbidden and threads are stopped instead. */
bool sample_set_stops(const struct sample_set *set);

/* No more samples are taken; those that were can still be drained, and the losses are final. */
void sample_set_stop(struct sample_set *set);

/* Samples that are missing so far: no room in a ring, or throttled by the kernel (by the time that this took). */
uint64_t sample_set_lost(const struct sample_set *set);

#endif
