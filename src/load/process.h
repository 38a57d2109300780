/* A process with probes in it.
 *
 * In: a target, the files it maps, and requests for probes. Out: a process that fires them, and counters to read.
 *
 * Invariants
 *  1. What is done to the process is in the journal in shared memory before it is done, so that it can be undone by whoever comes after us.
 *  2. Order while threads are stopped: threads move out of new windows, then bytes change, then threads move out of old trampolines. Killed
 * at any point in between, the process runs on correctly.
 *  3. The program's own instruction is never put back for a moment to execute it.
 *  4. A trampoline's memory is used again only after a stop in which no thread and no signal frame was in it.
 *  5. Detaching gives every byte back and unmaps all that was mapped.
 */
#ifndef LOAD_PROCESS_H
#define LOAD_PROCESS_H

#include "load/emit.h"
#include "target/target.h"
#include "wire/stream.h"

struct load_process;

/* Files that were read, shared by all processes of a session. */
struct load_cache;
struct load_cache *load_cache_create(void);
void load_cache_destroy(struct load_cache *cache);

/* A file that the process maps. Valid until the process drops it (load_process_refresh()) or is destroyed. */
struct load_module {
    char *path;
    uint64_t bias;             /* runtime address - file address */
    uint64_t start_va, end_va; /* runtime range of all its mappings */
    uint64_t first_end_va;     /* ... of the first of them */
    uint64_t inode, device;
    struct load_code *code; /* the cache's; NULL until load_module_open() */
    bool seen;              /* by the refresh under way */
    bool is_gone;           /* a stop has shown that what was known of it does not hold any more; the next refresh drops it */
    uint8_t times_gone;     /* ... and how often that was so in a row of what was mapped there */
    bool resolved;          /* for the session: its trace points were looked for */
    bool scanned;           /* ... and its calls of rt_sigaction */
    uint64_t scanned_as_file; /* of its code so many bytes were the file's when they were looked at */
    bool is_vdso;           /* no file: the kernel's own code in every process */
    struct load_claims claims;
    VEC(struct load_function *) function; /* those with probes, in order of address */
};

/* Takes the target over (also on failure, when it is closed). The process is prepared: shared memory is mapped, nothing is patched. When a
 * dead controller left probes behind they are removed first; a live one is an error. `counter_room`: how many counters can be used. */
struct err *load_process_create(struct target *target, struct load_cache *cache, uint32_t counter_room, struct load_process **out);
/* Removes every probe from the process and from the children it forked meanwhile. The counters stay readable. */
struct err *load_process_detach(struct load_process *process);
/* Detaches if that was not done, and frees it. */
void load_process_destroy(struct load_process *process);

struct target *load_process_target(struct load_process *process);
/* Once new filters are noticed: from now on the agent makes system calls if there is none yet. */
struct err *load_process_look_for_filters(struct load_process *process);
/* ERR_NO_PROCESS when it has ended or has executed another program: what is known of its memory holds no more. */
struct err *load_process_check(struct load_process *process);
/* Whether code of ours is at an address of the process: trampolines, clauses, the agent. */
bool load_process_is_ours(const struct load_process *process, uint64_t va);
struct err *load_process_new_counter(struct load_process *process, uint32_t *counter);
uint64_t load_process_counter(const struct load_process *process, uint32_t counter);

/* Compares the process's mappings with what is known: new files are added, those that are gone are dropped with their probes. */
struct err *load_process_refresh(struct load_process *process);
/* Whether a module was found gone since the last refresh: then what was to be placed in it was not. */
bool load_process_is_stale(const struct load_process *process);
size_t load_process_module_count(const struct load_process *process);
struct load_module *load_process_module(struct load_process *process, size_t index);
/* Reads the module's file, through the cache. */
struct err *load_module_open(struct load_process *process, struct load_module *module);
/* The first ERR_SYSTEM (too little memory) that load_module_open() has given since this was asked last: whoever can do without a file that
 * is not what it should be must not do without one that there was no room for. */
struct err *load_process_shortage(struct load_process *process);
/* As load_module_open() if the file was read before, for this process or another; else false, and nothing is done. */
bool load_module_open_known(struct load_process *process, struct load_module *module);

/* A wish to add or remove one probe. */
struct load_request {
    struct load_module *module;
    uint64_t func_va, func_size; /* the unit (load_code_unit()) that holds it, in file addresses */
    struct load_probe probe;
    bool remove;
    uint8_t kind;   /* out: enum load_kind */
    uint8_t reason; /* out: enum insn_reason when LOAD_REFUSED */
};
/* Does them all in one stop of the process. Requests that are refused do not keep the others from being done. After an error only
 * load_process_detach() may follow. */
struct err *load_process_change(struct load_process *process, struct load_request *request, size_t count);
/* As this, for a caller who wants to be there when the process has had its new probes for a moment: unless it fails, he goes first from the
 * stop on (base/hurry.h) until he calls hurry_end(). */
struct err *load_process_change_in_hurry(struct load_process *process, struct load_request *request, size_t count);
/* `wait` is called again and again while a change, or detaching, waits for a thread to leave a clause: where threads wait for room in a
 * ring, the consumer makes some. May be NULL. */
typedef void load_wait_fn(void *context);
void load_process_on_wait(struct load_process *process, load_wait_fn *wait, void *context);
/* How long the last change kept all threads stopped (after load_process_create(): how long it kept one), and how many probes are traps now.
 */
uint64_t load_process_pause_ns(const struct load_process *process);
size_t load_process_trap_count(const struct load_process *process);
/* Stays attached to the process and the children it forks, and stops each when it executes another program: load_process_next_executed()
 * then gives it out, to become a process of its own. To be called before the first change. Where such a stop was met while something else
 * was waited for, the eventfd becomes readable, and load_process_part_executed() deals with it. */
void load_process_follow(struct load_process *process, int wake_fd);
void load_process_part_executed(struct load_process *process);
struct target *load_process_next_executed(struct load_process *process);
/* Children that it forked and that are known because it is kept. */
size_t load_process_child_count(const struct load_process *process);
struct target *load_process_child(struct load_process *process, size_t index);
/* Outside of what: of clauses and what they call; of the writing of records; of work on maps. */
enum load_quiet { LOAD_QUIET_CLAUSES, LOAD_QUIET_RINGS, LOAD_QUIET_MAPS, LOAD_QUIETS };
/* Threads that have not been seen outside since the first call with an empty list; filled in by load_process_quiesce(). */
struct load_pending_thread {
    pid_t pid, tid;
};
struct load_pending {
    enum load_quiet quiet;
    bool is_listed; /* every process was looked at once */
    target_pids process;
    VEC(struct load_pending_thread) thread;
};
void load_pending_deinit(struct load_pending *pending);
/* Looks at the process and the children that it forked, stopping each for a moment. True: there is none left. */
bool load_process_quiesce(struct load_process *process, struct load_pending *pending);
/* Deals with a stop that target_next_stop() told of. False when the thread belongs to neither the process nor its children. */
bool load_process_handle_stop(struct load_process *process, pid_t tid, int status);

/* Registers of a thread that was found while it ran, by enum wire_reg of the process's width. */
struct load_standing {
    uint64_t pc;
    uint64_t reg[WIRE_REG64_COUNT]; /* the stack pointer among them */
    uint32_t known;                 /* bit r: reg[r] is the thread's */
    bool was_on_ours;               /* out: it was found on a stack of ours: the program's is not the one that was copied */
};
/* Whether its pc is in code of ours. Then the registers become those of the program at the instruction that it stands at, as far as they
 * are known; the pc becomes 0 when that can not be told. `stack`: what is at the stack pointer. */
bool load_process_stand(struct load_process *process, struct load_standing *standing, const uint8_t *stack, size_t stack_bytes);

typedef VEC(struct load_request) load_requests;

/* What signal handlers see of the interrupted pc (signals.c). The first finds the handlers that the process has now. The second adds what
 * makes the process tell of handlers that it installs, and what has the agent called where handlers that were found or told of begin and
 * return; the third is called when a change has done that. */
struct err *load_process_find_handlers(struct load_process *process);
struct err *load_process_signal_requests(struct load_process *process, load_requests *out);
void load_process_signals_done(struct load_process *process);

/* The request that makes the process tell when libraries are loaded or unloaded: load_process_load_event() then says so, as it does of
 * handlers, and the thread waits until load_process_answer(). False when there is no dynamic loader or it has no hook. */
bool load_process_loader_request(struct load_process *process, struct load_request *out);
/* *event is what to answer once it has been dealt with. */
bool load_process_load_event(const struct load_process *process, uint32_t *event);
void load_process_answer(struct load_process *process, uint32_t event);
/* Waits for another event than that one, for so long (less than a second); the second ends such waits. */
void load_process_watch(struct load_process *process, uint32_t event, uint64_t ns);
void load_process_end_watch(struct load_process *process);
void load_process_beat(struct load_process *process);

#endif
