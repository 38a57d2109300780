/* A process: stop it, read and write it, make it call the kernel, let it go. The only folder that uses ptrace and /proc/PID.
 *
 * In: a pid or a command. Out: threads with their registers, memory, mappings. What to patch is decided elsewhere.
 *
 * Invariants
 *  1. A target that is not stopped is not held by ptrace at all, unless target_keep() asked for it.
 *  2. A stop is invisible: interrupted system calls go on, with no EINTR that a native run would not have shown; signals that arrive
 *     meanwhile are delivered afterwards, in order.
 *  3. If this program is killed at any moment, each thread goes on as if nothing had happened. That is why registers are put back by code
 *     that runs in the target (remote.c), never by us alone.
 *  4. Every function may find that the process has ended, and then returns ERR_NO_PROCESS.
 */
#ifndef TARGET_TARGET_H
#define TARGET_TARGET_H

#include "base/err.h"
#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct target;

typedef VEC(pid_t) target_pids; /* of processes, or of threads */

/* One thread of a stopped target. */
struct target_thread {
    pid_t tid;
    int signal;           /* a signal that is being delivered and must be passed on when the thread goes on, else 0 */
    bool stopped;         /* stopped now; `regs` are valid */
    bool parked;          /* can not be stopped now, but will not execute its program either (park.c); of `regs` rip and rsp are valid */
    int call;             /* of a parked one: the system call it is in, -1: none */
    bool regs_changed;    /* set by whoever changes `regs`; written back before the thread goes on */
    bool restart_pending; /* in a system call that the kernel will restart (taking 2 from the pc) or end when the thread goes on */
    bool interrupted;     /* in a system call that our stop has ended with EINTR; it is made again when the thread goes on */
    bool in_event;        /* in the middle of fork, clone or exec: can not make another system call before that one is over */
    bool group_stop;      /* stopped by job control */
    bool confined;        /* in a call that the kernel would restart as another one, which a filter may forbid (confined.c) */
    bool restarting;      /* ... and runs, to go on in it */
    bool is_asleep;       /* ... and has passed its filter */
    int number;           /* ... which call the program has made */
    struct user_regs_struct regs;
};

/* A mapping of the target. */
struct target_map {
    uint64_t start_va, end_va, file_offset;
    uint64_t inode, device; /* as the kernel shows it here, which for some file systems is not what stat(2) says */
    bool readable, writable, executable, shared;
    const char *path; /* "" when anonymous; points into the list's text */
};
struct target_maps {
    VEC(struct target_map) map;
    char *text;
};

/* Looks at process `pid` without touching it. Refuses zombies, kernel threads, other architectures, processes that someone traces, and
 * those whose seccomp filter could kill them when they make our system calls (unless we may suspend it). */
struct err *target_open(pid_t pid, struct target **out);
/* Whether it is a process that can be traced at all: what is said of others (no process, a zombie, a thread, of the kernel) is said here.
 */
struct err *target_check_pid(pid_t pid);
/* As target_open(), of a process that will not be asked to make system calls: its seccomp filter does not matter. */
struct err *target_open_to_look(pid_t pid, struct target **out);
/* Starts a command and returns with it stopped after its exec, before its first instruction. ERR_NO_MATCH or ERR_PERMISSION when the
 * program can not be executed. The caller is the parent and may wait for it with target_exit_status(). */
struct err *target_start(char *const argv[], struct target **out);
/* Lets all threads go and forgets the target. Accepts NULL. */
void target_close(struct target *target);

pid_t target_pid(const struct target *target);
int target_width(const struct target *target); /* 32 or 64 */
/* Becomes readable when the process ends. */
int target_pidfd(const struct target *target);
bool target_ended(const struct target *target);
/* Of a started command: the status of waitpid(2) once target_ended(). */
int target_exit_status(struct target *target);
/* Whether a seccomp filter that one of its threads has may forbid system calls by the agent in normal running. */
bool target_has_seccomp(const struct target *target);
/* Whether some thread is in strict mode, in which the kernel takes the time stamp counter away: rdtsc ends the process. */
bool target_has_strict_thread(const struct target *target);
/* target_has_seccomp() looked for anew. */
bool target_look_for_filters(struct target *target);
/* Whether it lives in another pid namespace: the ids that it knows itself by are not those that we know it by. */
bool target_is_stranger(const struct target *target);

/* Memory. Both work whether the target runs or is stopped; target_write() also writes to pages that are not writable to the target.
 * A write of bytes within one page is seen whole or not at all. */
struct err *target_read(struct target *target, uint64_t va, void *bytes, size_t size);
struct err *target_write(struct target *target, uint64_t va, const void *bytes, size_t size);
/* As many bytes as are readable from `va` on, up to `size`. */
size_t target_read_some(struct target *target, uint64_t va, void *bytes, size_t size);

/* ERR_NO_PROCESS when the memory that was opened is no more: the process has ended, or executed another program. */
struct err *target_check(struct target *target);

struct err *target_maps_read(struct target *target, struct target_maps *out);
void target_maps_deinit(struct target_maps *maps);
/* Whether it maps memory that was made by memfd_create(2) with that name; anybody may have made it. */
bool target_map_is_memfd(const struct target_map *map, const char *name);
/* Opens the file behind a mapping as the target sees it; ERR_PERMISSION when it was deleted or replaced since and we may
 * not reach it. */
struct err *target_open_mapped_file(struct target *target, const struct target_map *map, int *fd);
/* A value of the auxiliary vector, 0 when absent. */
uint64_t target_auxv(struct target *target, unsigned type);

/* If the thread is in a system call that the kernel would restart, sets its registers to just before it. False when a pending signal
 * forbids. */
bool target_thread_restart_here(struct target *target, struct target_thread *thread);

/* The pc of a stopped thread changes: if it is about to be told of a fault there, the fault is at the new pc, too. */
void target_thread_move_fault(struct target_thread *thread, uint64_t from_va, uint64_t to_va);
/* Whether the thread is yet to be told of a fault that it had before it stopped; what it will be told can not be changed. */
bool target_thread_has_fault(const struct target *target, const struct target_thread *thread);

/* Other processes that run in the target's memory, as vforked children do: while it is stopped they are, too. */
size_t target_sharer_count(const struct target *target);
struct target *target_sharer(const struct target *target, size_t index);
/* Which of them can make a system call that concerns only the memory: the target, one of those, or NULL. */
struct target *target_memory_caller(struct target *target);
/* Whether it runs in its parent's memory. */
bool target_is_vforked(pid_t pid, pid_t *parent);

/* Stops every thread, or (of a target that is not kept) only one that can make remote calls. Already stopped threads stay so. */
struct err *target_stop(struct target *target); /* ERR_BUSY: some thread does not, and why */
/* From now on it is left: waiting for it goes on although the user has asked for the end (base/interrupt.h). */
void target_be_patient(struct target *target);
struct err *target_stop_one(struct target *target);
/* Stops one thread of a target that is not held, takes its registers and what it has on its stack, and lets it go. *got: how much of the
 * stack. ERR_BUSY when the target is held, ERR_NO_PROCESS when the thread has ended. */
struct err *target_glance(struct target *target, pid_t tid, struct user_regs_struct *regs, void *stack, size_t size, size_t *got);
/* Writes changed registers now; the threads stay stopped. */
struct err *target_write_regs(struct target *target);
/* Writes changed registers and lets all threads go, and lets go of them unless they are kept. */
struct err *target_resume(struct target *target);
/* Of a stopped target: lets these threads alone go on for so long (less than a second) and stops them again. */
struct err *target_let_some_on(struct target *target, const target_pids *tids, uint64_t ns);
/* How long it stood still because of us, in all: from when its first thread stood to when the last one was let go. */
uint64_t target_stopped_ns(const struct target *target);
/* While on, target_resume() leaves stopped threads stopped. */
void target_hold(struct target *target, bool on);

/* Traps. While kept, resumed threads stay traced; whenever one of them stops, target_handle_stop() deals with it. A thread at a breakpoint
 * instruction at `va` for which `at_trap` returns an address goes on there; other stops are the program's own business and are passed on.
 * The signal mask and the action that the kernel takes away from a thread which blocks SIGTRAP are put back. */
typedef uint64_t target_trap_fn(void *context, uint64_t va);
typedef void target_serve_fn(void *context);
/* `serve` is called while a stop takes long, to deal with stops of the target's children. at_trap NULL: no longer. */
void target_keep(struct target *target, target_trap_fn *at_trap, target_serve_fn *serve, void *context);
bool target_is_kept(const struct target *target);
/* Deals with stops that there are now: a child's own, when its parent is being waited for. */
void target_serve(struct target *target);
/* Lets the process, which is not stopped, go on for so long. Nobody else deals with stops of a kept one meanwhile: each signal is one. */
void target_pause(struct target *target, uint64_t ns);
/* Makes `handler_va` the process's action for SIGTRAP if it has none, and takes it back if it is still there. */
struct err *target_set_trap_handler(struct target *target, uint64_t handler_va, uint64_t restorer_va);
struct err *target_clear_trap_handler(struct target *target, uint64_t handler_va);
/* What the process does when a signal comes that it catches; all 0 for those that it does not. */
enum { TARGET_SIGNALS = 64 };
struct target_action {
    uint64_t handler_va, flags, restorer_va; /* flags are SA_... of the kernel */
};
struct err *target_read_actions(struct target *target, struct target_action out[TARGET_SIGNALS]);
/* Takes what the kernel has to say about any traced thread: its id and status, or 0 when there is nothing. */
pid_t target_next_stop(int *status);
/* A stop of a thread that nobody knows yet: it is kept until somebody waits for it or asks. */
void target_put_back(pid_t tid, int status);
size_t target_stray_count(void);
pid_t target_stray(size_t index, int *status);
bool target_take_back(pid_t tid, int *status);
/* Threads of targets that are closed may have to be let go yet: waits for that, but no longer than so. */
void target_wait_for_leaving(uint64_t ns);
/* False when the thread is not one of the target's. */
bool target_handle_stop(struct target *target, pid_t tid, int status);
/* Whether the kernel has told of a child since the target is kept. */
bool target_has_forked(const struct target *target);
/* A child that the kept target forked; it is traced and stopped. NULL when there is none. The child has the same traps. */
struct target *target_next_child(struct target *target);
/* Of a kept target: it, and the children it forks, stop when they execute another program. */
void target_follow(struct target *target);
/* One does so now: target_take_executed() has something. */
bool target_holds_executed(const struct target *target);
/* What a followed target has become by that: stopped before its first instruction, as target_start() leaves one. NULL: nothing else. The
 * old one is then only to be closed. */
struct target *target_take_executed(struct target *target);
/* The process executed another program since it was opened; nothing of ours is in it any more. */
bool target_executed(const struct target *target);

/* Whether a stopped target has a thread that can make remote calls now. */
bool target_can_call(struct target *target);
/* Whether some thread runs, as far as we know. */
bool target_is_running(const struct target *target);
size_t target_thread_count(const struct target *target);
struct target_thread *target_thread(struct target *target, size_t index);

/* Makes a stopped thread perform a system call (the number is the target's own ABI's). *result is what the kernel returned, negative errno
 * included. target_remote_end() takes the code for it out of the target again; target_resume() does so too. */
struct err *target_syscall(struct target *target, long number, const uint64_t args[6], int64_t *result);
/* Several calls, one after the other and each whatever the one before returned, for less than that many single ones take. */
struct target_call {
    long number;
    uint64_t args[6];
    int64_t result; /* out */
};
struct err *target_syscalls(struct target *target, struct target_call *call, size_t count);
/* TARGET_SCRATCH bytes that a remote call may write to, on the stack of the thread that will make it. */
struct err *target_remote_buffer(struct target *target, uint64_t *va);
struct err *target_remote_end(struct target *target);
/* A controller that was killed may have left that code, with threads in it that it had borrowed: they go on where they were, and it goes. */
struct err *target_finish_left_calls(struct target *target);

/* Gives a stopped target copies of `count` descriptors of ours. `scratch_va`: TARGET_SCRATCH bytes of the target that may be written to.
 * Which numbers they have is what the target says: only the target itself is to use them. */
enum { TARGET_SCRATCH = 160, TARGET_SEND_MOST = 2 };
struct err *target_send_fds(struct target *target, const int *fd, size_t count, uint64_t scratch_va, int *remote_fd);
/* The thread pointer of a stopped thread, 0 when it has none yet. */
uint64_t target_thread_pointer(const struct target *target, const struct target_thread *thread);

/* Of a process that is not opened, without holding or stopping it. Memory: as many bytes as are readable from `va` on, up to `size`.
 * Mappings and files: as above. The model of its program: 32 or 64. */
size_t target_peek(pid_t pid, uint64_t va, void *bytes, size_t size);
struct err *target_peek_maps(pid_t pid, struct target_maps *out);
struct err *target_peek_file(pid_t pid, const struct target_map *map, int *fd);
struct err *target_peek_width(pid_t pid, int *width);
/* The file that it executes, cut to fit. False when that can not be known. */
bool target_program_path(pid_t pid, char *out, size_t room);

/* Processes other than `except` and ourselves that map a file with this path (as /proc/PID/maps shows it) and that we may trace. */
void target_find_by_map(const char *path, pid_t except, target_pids *out);
/* Every process there is, in order. */
void target_all_pids(target_pids *out);
/* The threads of a process, in order. ERR_NO_PROCESS when it has ended. */
struct err *target_all_threads(pid_t pid, target_pids *out);
/* A thread's name; "" when it has ended. */
enum { TARGET_NAME = 16 };
void target_thread_name(pid_t pid, pid_t tid, char out[TARGET_NAME]);
/* Where a thread that does not run now stands in its program; nothing is stopped for it. False: it runs, has ended, or may not be looked
 * at. */
struct target_rest {
    long number;      /* of the system call that it is in, -1: in none */
    uint64_t args[6]; /* of that */
    uint64_t sp, pc;
};
bool target_thread_at_rest(pid_t pid, pid_t tid, struct target_rest *out);
/* The processor time of a thread, how long it waited for a processor, and how often it came to one. False when it has ended. */
struct target_usage {
    uint64_t run_ns, delay_ns, times;
};
bool target_thread_usage(pid_t pid, pid_t tid, struct target_usage *out);
/* The processor time of all threads of a process, of those that have ended, too. False when the process is gone. */
bool target_process_usage(pid_t pid, uint64_t *run_ns);
/* The processes that a thread has started and that have not been waited for. */
void target_children(pid_t pid, pid_t tid, target_pids *out);
/* A number that changes when the process executes a program; 0 when it has ended or may not be looked at. */
uint64_t target_program_mark(pid_t pid);
/* 32 or 64; 0 when it is not known. */
int target_program_width(pid_t pid);
/* Whose process it is and who started it. False when it has ended. */
struct target_owner {
    uint32_t uid, gid, parent; /* real ids */
};
bool target_read_owner(pid_t pid, struct target_owner *out);
/* The files that a process maps to execute; none when it may not be looked at. */
typedef VEC(char *) target_paths;
void target_executable_files(pid_t pid, target_paths *out);
void target_paths_deinit(target_paths *paths);
/* Start time of a process in clock ticks since boot, 0 when there is none: with the pid it names a process for good. */
uint64_t target_start_time(pid_t pid);

#endif
