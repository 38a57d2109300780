/* Shared by the files of target/ only. */
#ifndef TARGET_INTERNAL_H
#define TARGET_INTERNAL_H

#include "target/target.h"

#include <signal.h>
#include <sys/ptrace.h>

/* Where the code for remote calls was put, and what was there. */
struct remote_stub {
    uint64_t va; /* 0: not placed */
    uint8_t original[128];
};

/* A system call with a timeout that was made again after a stop. */
struct target_deadline {
    pid_t tid;
    int32_t left_ms; /* the timeout it was made again with */
    uint64_t pc_va;  /* where; 0: none */
    int64_t end_ms;  /* when it should end, CLOCK_MONOTONIC */
};

/* The call that a thread at pc_va was in when it was made again as restart_syscall. */
struct target_restart {
    pid_t tid;
    int number;
    uint64_t pc_va;
};

struct target_sharer {
    struct target *target;
    bool is_ours; /* opened for this stop */
};

struct target {
    pid_t pid;
    int width;
    int mem_fd;
    int pidfd;
    bool is_child;           /* started by us: its status can be waited for */
    bool end_is_awaited;     /* a child of ours, but its status is another's to take */
    bool reaped;             /* is_child: `exit_status` is valid */
    target_trap_fn *at_trap; /* see target_keep() */
    target_serve_fn *serve;
    void *trap_context, *serve_context;
    VEC(struct target_sharer) sharer;     /* while it is stopped: see target_sharer() */
    struct target *parent;                /* that it was forked from while that was kept, as long as that is open; else NULL */
    VEC(struct target *) kin;             /* whose parent it is */
    VEC(struct target *) to_give;         /* of these, those that target_next_child() has yet to give out */
    bool patient;                         /* see target_be_patient() */
    VEC(struct target_deadline) deadline; /* one a thread */
    VEC(struct target_restart) restart;   /* one a thread */
    struct target_tracer *tracer;         /* of its threads (tracer.c); NULL: the main thread */
    bool stop_again;                      /* some thread was found to have a filter and is not its to trace */
    bool has_forked;                      /* a child was told of, ever */
    VEC(pid_t) forked;                    /* children that target_next_child() has not given out */
    bool executed;
    bool follow;             /* see target_follow() */
    bool exec_held;          /* ... and it is stopped behind its exec */
    uint8_t trap_action[32]; /* the program's action for SIGTRAP, as rt_sigaction gives it; valid with has_trap_action */
    bool has_trap_action;
    bool awaiting;       /* its stops are being waited for */
    bool hold;           /* see target_hold() */
    bool seccomp;        /* has a filter, as far as is known */
    uint64_t stop_ns;    /* when its first thread stood still; 0: it was let go since */
    uint64_t stopped_ns; /* see target_stopped_ns() */

    int exit_status;
    VEC(struct target_thread) thread;
    struct remote_stub stub;
};

/* target_open() without the question whether someone else traces the process. */
struct err *target_open_traced(pid_t pid, struct target **out);
struct err *target_gone(const struct target *target);
/* The ptrace options for every thread that we seize. */
unsigned long target_ptrace_options(const struct target *target);
/* As waitpid() without waiting; the end of a process that someone else waits for is left to be taken: -1. */
pid_t target_take_stop(const struct target *target, pid_t tid, int *status);
/* tracer.c. A request about a thread, made by whoever traces it. */
long target_ptrace_words(enum __ptrace_request request, pid_t tid, uintptr_t address, uintptr_t data);
#define target_ptrace(request, tid, address, data) target_ptrace_words(request, tid, (uintptr_t)(address), (uintptr_t)(data))
/* From now on the target's threads are seized by a tracer of its own. */
struct err *target_tracer_begin(struct target *target);
long target_tracer_seize(struct target *target, pid_t tid, unsigned long options);
bool target_tracer_has(const struct target *target, pid_t tid);
/* Lets go of all that it traces, as it is. */
void target_tracer_end(struct target *target);
/* confined.c. Whether we may suspend filters. */
bool target_may_suspend_filters(void);
bool target_thread_has_filter(const struct target *target, pid_t tid);
/* A thread has stopped: its registers are taken, nothing is changed yet. */
void target_confined_settle(struct target *target, struct target_thread *thread);
/* The registers that a stopped thread is to have as long as it is. */
struct user_regs_struct target_confined_regs(const struct target_thread *thread);
/* A confined thread goes on. False: it can not, or need not, in any other way than others. */
bool target_confined_start(struct target *target, struct target_thread *thread);
/* One that is going on has stopped. True: and runs again. False: that is a stop like any other. */
bool target_confined_step(struct target *target, struct target_thread *thread, int status);
/* Waits until those that are going on sleep, or have been let go of. */
void target_confined_let_go(struct target *target);
/* Takes a thread's registers after it has stopped and makes an interrupted system call one that is about to be made again. */
struct err *target_thread_settle(struct target *target, struct target_thread *thread);
/* A thread that is about to deliver a signal, or whose system call that signal ends, can not be borrowed for a remote call. */
bool target_thread_is_borrowable(struct target *target, struct target_thread *thread);
/* sequence.c: a thread that is about to be borrowed starts the restartable sequence again that it stands in. */
struct err *target_thread_leave_sequence(struct target *target, struct target_thread *thread);
/* Whether an interrupted call with a timeout in milliseconds has had its time; if not, its timeout becomes what is left. */
bool target_thread_timed_out(struct target *target, struct target_thread *thread);
struct err *target_thread_write_regs(struct target_thread *thread);
/* As PTRACE_SETREGS; ESRCH also when it is not the thread that was stopped. */
bool target_set_regs(pid_t tid, const struct user_regs_struct *regs);
/* As waitpid() without waiting, with any thread for -1. A stop in which a thread is about to get a signal is not taken: the kernel tells of
 * it until the thread goes on, and if we die first, it gives the thread the signal. */
pid_t target_take(pid_t tid, int *status);
/* Whether a thread that has stopped stands as it did: there is nothing new to be told of it. If there is, it was killed, and perhaps
 * another thread has executed a program and stands now under its id. */
bool target_stands(pid_t tid);
/* As waitpid(), but for so long at most: then 0. */
pid_t target_wait_within(pid_t tid, uint64_t most_ns, int *status);
/* ... for half a minute: then, and when nothing is to be waited for, false. */
bool target_wait_for(pid_t tid, int *status);
/* stray.c: a thread that could not be let go is, as soon as it stops. */
void target_let_go_later(pid_t tid);
bool target_is_leaving(pid_t tid);
/* It is wanted again. False: it was not leaving. */
bool target_stay(pid_t tid);
/* What waitpid() has said of a thread. False: it is not one that is to be let go. */
bool target_let_go_now(pid_t tid, int status);
void target_serve_leaving(void);
/* Whether the thread has ended, and there is nothing more to be told of it or its end is yet to be taken. */
bool target_has_end(pid_t tid);
/* ... takes it then. */
void target_take_end(pid_t tid);
/* Takes the ends of threads that have ended, other than the first, and of any that are to be let go. A thread that executes a program waits
 * in the kernel until that is done. May be called in a signal handler. */
void target_take_ends(const struct target *target);
void target_take_ends_of_leaving(void);
/* seize.c: as PTRACE_SEIZE. EBUSY: the process does not come to an end of executing a program. */
int target_seize(const struct target *target, pid_t tid, unsigned long options);
/* park.c: see struct target_thread. False: the thread does not wait in the kernel. */
bool target_thread_park(const struct target *target, struct target_thread *thread);
/* Whether a parked thread is in a system call that makes processes. */
bool target_thread_starts_process(const struct target *target, const struct target_thread *thread);
bool target_is_dumping(pid_t pid);
/* Stops who shares the memory with a stopped target. *all: no process is on the way that could yet come to share it. */
struct err *target_stop_sharers(struct target *target, bool *all);
struct err *target_release_sharers(struct target *target);
void target_forget_kin(struct target *target);
/* A child that the kernel has attached us to. NULL: it is let go. */
struct target *target_open_forked(struct target *parent, pid_t pid);
/* Lets a thread that stays traced go on: as it is; or as it has to, if it is confined. */
void target_thread_continue(struct target_thread *thread);
void target_thread_run(struct target *target, struct target_thread *thread);
/* Notes what waitpid() said about a thread that should be stopped. False when it is gone. */
bool target_thread_note(struct target *target, struct target_thread *thread, int status);
/* A thread stopped by SIGTRAP: when it stands behind one of our traps, sends it on and forgets the signal. */
struct err *target_thread_take_trap(struct target *target, struct target_thread *thread);
/* The exec event comes in the middle of the system call; only its end, where the process stands after this, is a place to make others.
 * False: it was killed. */
bool target_finish_exec(pid_t pid);
/* ... and the process as a target of its own. NULL: it can not be traced, and runs. */
struct target *target_open_executed(pid_t pid);
/* A thread through which /proc still shows the process: the first, unless it has ended before the others. */
pid_t target_live_task(pid_t pid);
bool target_status_field(pid_t pid, pid_t tid, const char *name, char *value, size_t room);

#endif
