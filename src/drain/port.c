/* What clauses that the controller runs itself (BEGIN, END, interval, profile) need of the world: see stream/port.h. */
#include "stream/port.h"

#include "base/clock.h"
#include "drain/session.h"
#include "stream/eval.h"
#include "stream/ring.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <x86intrin.h>

/* NULL: the controller itself. */
static const struct drain_subject *subject_of(const struct wire_fire *fire)
{
    return (const struct drain_subject *)(uintptr_t)fire->process_va;
}

/* Of the process that a sample was taken of; other clauses have none. */
bool port_read(struct wire_fire *fire, uint64_t va, void *to, uint32_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)va, bytes};
    return fire->pid && fire->pid != (uint32_t)getpid() && process_vm_readv((pid_t)fire->pid, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

uint64_t port_ctx(struct wire_fire *fire, uint32_t what)
{
    const struct drain_subject *subject = subject_of(fire);
    switch (what) {
    case WIRE_CTX_PID:
        return fire->pid ? fire->pid : (uint32_t)getpid();
    case WIRE_CTX_TID:
        return fire->tid ? fire->tid : (uint32_t)gettid();
    case WIRE_CTX_PPID:
        return subject ? subject->owner(fire->pid, what) : (uint32_t)getppid();
    case WIRE_CTX_UID:
        return subject ? subject->owner(fire->pid, what) : getuid();
    case WIRE_CTX_GID:
        return subject ? subject->owner(fire->pid, what) : getgid();
    case WIRE_CTX_CPU:
        return subject ? subject->cpu : (uint32_t)sched_getcpu();
    case WIRE_CTX_NSECS:
        return subject ? subject->ns : clock_now_ns();
    case WIRE_CTX_RAND:
        return (uint32_t)(random() ^ random() << 16);
    case WIRE_CTX_PC:
        return fire->pc;
    default:
        return fire->place;
    }
}

void port_comm(struct wire_fire *fire, bool of_process, char to[16])
{
    const struct drain_subject *subject = subject_of(fire);
    const char *name = !subject ? NULL : of_process ? subject->process_name(subject, fire->pid) : subject->comm;
    memset(to, 0, 16);
    if (name)
        memcpy(to, name, strnlen(name, 15));
    if (!subject)
        prctl(PR_GET_NAME, to);
}

void port_signal(struct wire_fire *fire, int number)
{
    if (fire->pid && fire->pid != (uint32_t)getpid())
        syscall(SYS_tgkill, fire->pid, fire->tid, number);
}

uint64_t port_time(const struct wire_fire *fire)
{
    return ((const struct wire_session *)(uintptr_t)fire->session_va)->tsc_mult ? __rdtsc() : clock_now_ns();
}

/* ---- how much a clause may have to do ---- */

/* Steps along chains that are longer than any honest one, and turns of waiting for a writer: about a second's. */
enum { STEPS_MOST = 1 << 24 };
static _Thread_local uint32_t steps_left;
static _Thread_local bool counts_steps;

bool port_goes_on(uint32_t steps)
{
    steps_left = steps_left > steps ? steps_left - steps : 0;
    return !counts_steps || steps_left;
}

void drain_begin_steps(void)
{
    counts_steps = true;
    steps_left = STEPS_MOST;
}

void drain_end_steps(void)
{
    counts_steps = false;
}

/* ---- full rings ---- */

/* Processes may fill a ring as fast as it is emptied. */
enum { ROOM_TRIES = 1000 };
static drain_room_fn *make_room;
static void *room_context;
static uint32_t room_tries;

void drain_on_full(drain_room_fn *make, void *context)
{
    make_room = make;
    room_context = context;
}

/* The controller is the one that makes room: there is nobody to wait for. */
bool port_wait(const struct wire_fire *fire, uint32_t seen, uint32_t most_ns)
{
    (void)fire, (void)seen, (void)most_ns;
    if (!make_room || room_tries >= ROOM_TRIES)
        return false;
    room_tries++;
    return make_room(room_context);
}

void drain_run_clause(struct wire_fire *fire, const struct wire_insn *code, uint32_t count)
{
    drain_begin_steps();
    room_tries = 0;
    if (eval_run(fire, code, count))
        stream_ring_write_error(fire);
    drain_end_steps();
}

uint64_t port_xmm(struct wire_fire *fire, uint32_t number, uint32_t bytes)
{
    (void)fire, (void)number, (void)bytes;
    return 0;
}

uint32_t port_stack(struct wire_fire *fire, uint64_t *walk, uint64_t *pcs, uint32_t room, uint64_t *root)
{
    (void)walk;
    const struct drain_subject *subject = subject_of(fire);
    return subject && subject->stack ? subject->stack(subject, fire, pcs, room, root) : 0;
}

uint64_t port_st0(struct wire_fire *fire)
{
    (void)fire;
    return 0;
}
