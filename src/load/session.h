/* Many processes, many trace points, one table of counts: what a consumer of probes works with.
 *
 * A row is a trace point by name (module, function, point), and by address where calls are recorded, so that static functions of equal
 * names stay apart; a process contributes its own counter to each row that it has. Several
 * consumers may each have a session in one program; two programs can not probe one process at the same time. */
#ifndef LOAD_SESSION_H
#define LOAD_SESSION_H

#include "base/names.h"
#include "load/mapped.h"
#include "load/process.h"
#include "load/program.h"
#include "load/resolve.h"

struct load_row {
    char *module;       /* path */
    char *function;     /* name for people: demangled */
    char point[32];     /* "entry", "return", "+0x12" */
    uint64_t va;        /* of the function in the file, or of the place where there is none; of equal names the first */
    uint64_t ended;     /* hits in processes that have been detached from */
    uint64_t places;    /* instructions that were patched for it, in all processes */
    uint64_t traps;     /* ... of which by a trap */
    bool by_name;       /* a specification without a pattern asked for it */
    uint64_t trap_only; /* places that were refused because they take nothing but a trap */
    uint8_t reason;     /* enum insn_reason: why its last refused place was refused */
};

struct load_session;
typedef void load_progress_fn(void *context, const char *module, size_t places_done, size_t places);

/* The specifications stay the caller's and must outlive the session, and so does `program`: with one, trace points fire their clauses
 * instead of being counted. Both `program` and `progress` may be NULL. Blocks SIGCHLD in the calling thread, and
 * while the session lives the ends and stops of all children are taken by load_session_handle(). */
struct load_session *load_session_create(const struct spec *spec, size_t spec_count, const struct load_program *program,
                                         load_progress_fn *progress, void *context);
/* Detaches from every process that is left. The first error is returned, all are detached anyway. */
struct err *load_session_destroy(struct load_session *session);

/* From now on, what the processes execute and what their children execute is traced too, from its first instruction. */
void load_session_follow(struct load_session *session);
/* From now on, places that take nothing but a trap get one; else they are refused. */
void load_session_allow_traps(struct load_session *session);
/* Whether a process that is or was traced lives in another pid namespace. */
bool load_session_has_strangers(const struct load_session *session);
/* `joined` is called with each process whose probes are in place; a command has not executed an instruction yet. When it returns an error
 * the process is left again, and that is the error of adding it. */
typedef struct err *load_joined_fn(void *context, pid_t pid);
void load_session_on_join(struct load_session *session, load_joined_fn *joined, void *context);
/* See load_process_on_wait(): for each process that is added from now on. */
void load_session_on_wait(struct load_session *session, load_wait_fn *wait, void *context);

/* Adds a running process, or a command that is started with the probes of its program and its loader in place; libraries get theirs as they
 * are loaded. On failure the process is as it was. */
struct err *load_session_attach(struct load_session *session, pid_t pid);
/* One that stands before its first instruction; it goes on. After an error it runs alone. */
struct err *load_session_admit(struct load_session *session, struct target *target);
struct err *load_session_start(struct load_session *session, char *const argv[]);

/* Detaches from every process; rows and hits stay readable. */
struct err *load_session_detach(struct load_session *session);

/* Becomes readable when load_session_handle() has something to do: libraries were loaded, a thread met a trap. It is also to be
 * called when a process ends. */
int load_session_event_fd(const struct load_session *session);
struct err *load_session_handle(struct load_session *session);
/* Stops each process for a moment, to see which of its threads are inside: in a clause or what it calls, and so may use what they found in
 * a map, or where records are written.
 * *done: every thread of every process, and of the children that they forked, has been outside of it since load_session_unquiesce(). Else
 * it is to be called again, after the threads had some time. */
void load_session_quiesce(struct load_session *session, enum load_quiet quiet, bool *done);
/* Begins anew: from now on. */
void load_session_unquiesce(struct load_session *session, enum load_quiet quiet);
/* Processes that still run, and for each a descriptor that becomes readable when it ends. */
size_t load_session_live(const struct load_session *session);
/* One of them, for a consumer that changes its probes itself. It is gone when load_session_handle() finds that it has ended. */
struct load_process *load_session_process(const struct load_session *session, size_t index);
int load_session_process_fd(const struct load_session *session, size_t index);
/* The process of the command that was started, 0 without one. */
pid_t load_session_command(const struct load_session *session);
/* The status of waitpid(2) of the command that was started, once it has ended; -1 before that, or without a command. */
int load_session_status(const struct load_session *session);

/* Rows in the order of their first appearance; they stay until the session ends. */
size_t load_session_row_count(const struct load_session *session);
const struct load_row *load_session_row(const struct load_session *session, size_t index);
/* Fills in the hits of every row so far. */
void load_session_hits(const struct load_session *session, uint64_t *hits);
/* The function at an address of a process, also of one that has ended: "name+offset", or the module and offset. False: no module is there.
 */
bool load_session_symbol(struct load_session *session, pid_t pid, uint64_t va, char *text, size_t room);
/* load_process_stand() in the process of the session, or in the child of one; false for others, too. */
bool load_session_stand(const struct load_session *session, pid_t pid, struct load_standing *standing, const uint8_t *stack,
                        size_t stack_bytes);
/* An address of a stack: `root` is its process as struct wire_stack_node has it. False: no module is there. What it points to lives as long
 * as the session. */
bool load_session_frame(const struct load_session *session, uint64_t root, uint64_t va, bool is_return, struct load_frame *out);
/* The root of the stacks that a process has now. */
uint64_t load_session_root(const struct load_session *session, pid_t pid);
/* The number that a name has or will have. */
uint32_t load_session_name(struct load_session *session, const char *name);
/* The names that struct wire_place speaks of. */
const struct names *load_session_names(const struct load_session *session);
/* How many trace points the specification has matched so far, in all processes. */
size_t load_session_matches(const struct load_session *session, size_t spec);
/* Says which file, of those that patterns may mean, was the first that could not be looked into because it may not be read; NULL: none. */
const char *load_session_unreadable(const struct load_session *session);
/* The longest that all threads of a process were stopped for a change. */
uint64_t load_session_pause_ns(const struct load_session *session);

#endif
