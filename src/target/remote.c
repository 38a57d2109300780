/* Remote system calls.
 *
 * A stopped thread is sent through a stub: `syscall`, then code that restores the thread's signal mask and registers from a frame on its
 * own stack and returns to where it was. While we live, the thread is stopped again at the end of the system call and its registers are put
 * back from here; if we are killed, the kernel lets the thread run and the stub puts everything back. The stub is written over zero bytes
 * behind the end of some module's code, where nothing can execute, and taken away again.
 *
 * The signal mask is full meanwhile, so that no handler sees the borrowed registers.
 *
 * Under a seccomp filter, which is suspended as long as we live, the stub itself could not put the mask back. There the mask is put back
 * once the thread has entered the kernel, and it will return to the part of the stub that makes no system call. */
#include "target/internal.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static const uint8_t stub64[] = {
    0x0f, 0x05,                                                 /* syscall                    the one that was asked for */
    0xb8, 0x0e, 0x00, 0x00, 0x00,                               /* mov $14,%eax               rt_sigprocmask(SIG_SETMASK, frame, NULL, 8) */
    0xbf, 0x02, 0x00, 0x00, 0x00,                               /* mov $2,%edi */
    0x48, 0x89, 0xe6,                                           /* mov %rsp,%rsi */
    0x31, 0xd2,                                                 /* xor %edx,%edx */
    0x41, 0xba, 0x08, 0x00, 0x00, 0x00,                         /* mov $8,%r10d */
    0x0f, 0x05,                                                 /* syscall */
    0x48, 0x8d, 0x64, 0x24, 0x08,                               /* lea 8(%rsp),%rsp */
    0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, /* pop r15 r14 r13 r12 rbp rbx */
    0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58,             /* pop r11 r10 r9 r8 */
    0x58, 0x59, 0x5a, 0x5e, 0x5f,                               /* pop rax rcx rdx rsi rdi */
    0x9d,                                                       /* popf */
    0xc2, 0x80, 0x00,                                           /* ret $128                   over the red zone */
};

static const uint8_t stub32[] = {
    0xcd, 0x80,                   /* int $0x80 */
    0xb8, 0xaf, 0x00, 0x00, 0x00, /* mov $175,%eax              rt_sigprocmask */
    0xbb, 0x02, 0x00, 0x00, 0x00, /* mov $2,%ebx */
    0x89, 0xe1,                   /* mov %esp,%ecx */
    0x31, 0xd2,                   /* xor %edx,%edx */
    0xbe, 0x08, 0x00, 0x00, 0x00, /* mov $8,%esi */
    0xcd, 0x80,                   /* int $0x80 */
    0x83, 0xc4, 0x08,             /* add $8,%esp */
    0x61,                         /* popa */
    0x9d,                         /* popf */
    0xc2, 0x80, 0x00,             /* ret $128 */
};

enum { RED_ZONE = 128, STUB64_POPS = 25, STUB32_POPS = 23 };
_Static_assert(sizeof stub64 <= 128 && sizeof stub32 <= 128, "the stub has 128 bytes");

/* What the stubs take off the stack, lowest address first. */
struct frame64 {
    uint64_t mask, r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, flags, pc;
};
struct frame32 {
    uint64_t mask;
    uint32_t edi, esi, ebp, unused, ebx, edx, ecx, eax, flags, pc;
};

/* ---- where the stub lives ---- */

static bool is_zero(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}

/* Zeros, or the stub of a controller that was killed. */
static bool is_unused(const uint8_t *bytes, size_t size, const uint8_t *stub, size_t stub_size)
{
    return is_zero(bytes, size) || !memcmp(bytes, stub, stub_size);
}

/* How little can happen to a mapping while other threads run: the program and its loader stay where they are, a library may go. */
enum { STUB_IN_PROGRAM, STUB_IN_LOADER, STUB_ELSEWHERE, STUB_KINDS };
static int kind_of(const struct target_map *map, const struct target_map *entry, const struct target_map *loader)
{
    return entry && map->inode == entry->inode && map->device == entry->device      ? STUB_IN_PROGRAM
           : loader && map->inode == loader->inode && map->device == loader->device ? STUB_IN_LOADER
                                                                                    : STUB_ELSEWHERE;
}

static const struct target_map *map_at(const struct target_maps *maps, uint64_t va)
{
    for (size_t i = 0; i < maps->map.n; i++)
        if (va >= maps->map.at[i].start_va && va < maps->map.at[i].end_va)
            return &maps->map.at[i];
    return NULL;
}

static uint64_t find_tail(struct target *target, const struct target_maps *maps, bool *has_memory)
{
    const uint8_t *code = target->width == 64 ? stub64 : stub32;
    size_t size = target->width == 64 ? sizeof stub64 : sizeof stub32;
    const struct target_map *entry = map_at(maps, target_auxv(target, AT_ENTRY)), *loader = map_at(maps, target_auxv(target, AT_BASE));
    uint64_t found[STUB_KINDS] = {0};
    *has_memory = false;
    for (size_t i = 0; i < maps->map.n && !found[STUB_IN_PROGRAM]; i++) {
        const struct target_map *map = &maps->map.at[i];
        int kind = kind_of(map, entry, loader);
        uint8_t tail[sizeof target->stub.original];
        uint64_t tail_va = map->end_va - sizeof tail;
        if (!map->readable || (*has_memory && (!map->executable || !map->inode || map->shared || found[kind])))
            continue;
        bool was_read = target_read_some(target, tail_va, tail, sizeof tail) == sizeof tail;
        *has_memory |= was_read;
        if (was_read && map->executable && map->inode && !map->shared && is_unused(tail, sizeof tail, code, size))
            found[kind] = tail_va;
    }
    for (int kind = 0; kind < STUB_KINDS; kind++)
        if (found[kind])
            return found[kind];
    return 0;
}

static struct err *place_stub(struct target *target)
{
    struct remote_stub *stub = &target->stub;
    const uint8_t *code = target->width == 64 ? stub64 : stub32;
    size_t size = target->width == 64 ? sizeof stub64 : sizeof stub32;
    struct target_maps maps;
    bool has_memory;
    ERR_TRY(target_maps_read(target, &maps));
    uint64_t va = find_tail(target, &maps, &has_memory);
    target_maps_deinit(&maps);
    if (!has_memory)
        return target_gone(target); /* or it has executed another program: what it maps is not the memory that was opened */
    if (!va) {
        /* The program's own entry is run once, at its start; later nothing comes back to it. A process that is held has not started. */
        va = target_auxv(target, AT_ENTRY);
        uint64_t pc = target->thread.at[0].regs.rip;
        if (!va || (pc >= va && pc < va + sizeof stub->original) || target->hold)
            return err_new(ERR_REFUSED, "process %d: no room in its code for a system call stub", target->pid);
    }
    ERR_TRY(target_read(target, va, stub->original, sizeof stub->original));
    if (!memcmp(stub->original, code, size))
        memset(stub->original, 0, sizeof stub->original);
    stub->va = va;
    return target_write(target, va, code, size);
}

struct err *target_remote_end(struct target *target)
{
    uint64_t va = target->stub.va;
    target->stub.va = 0;
    return va ? target_write(target, va, target->stub.original, sizeof target->stub.original) : NULL;
}

/* ---- one call ---- */

static struct err *write_frame(struct target *target, const struct target_thread *thread, uint64_t mask, uint64_t *frame_va)
{
    const struct user_regs_struct lasting = target_confined_regs(thread), *regs = &lasting;
    if (target->width == 64) {
        struct frame64 frame = {mask,     regs->r15, regs->r14, regs->r13, regs->r12, regs->rbp, regs->rbx, regs->r11,    regs->r10,
                                regs->r9, regs->r8,  regs->rax, regs->rcx, regs->rdx, regs->rsi, regs->rdi, regs->eflags, regs->rip};
        *frame_va = regs->rsp - RED_ZONE - sizeof frame;
        return target_write(target, *frame_va, &frame, sizeof frame);
    }
    struct frame32 frame = {mask,
                            (uint32_t)regs->rdi,
                            (uint32_t)regs->rsi,
                            (uint32_t)regs->rbp,
                            0,
                            (uint32_t)regs->rbx,
                            (uint32_t)regs->rdx,
                            (uint32_t)regs->rcx,
                            (uint32_t)regs->rax,
                            (uint32_t)regs->eflags,
                            (uint32_t)regs->rip};
    *frame_va = regs->rsp - RED_ZONE - sizeof frame;
    return target_write(target, *frame_va, &frame, sizeof frame);
}

static void set_call(struct target *target, struct user_regs_struct *regs, long number, const uint64_t args[6])
{
    regs->orig_rax = (uint64_t)-1;
    regs->rax = (uint64_t)number;
    if (target->width == 64) {
        regs->rdi = args[0], regs->rsi = args[1], regs->rdx = args[2];
        regs->r10 = args[3], regs->r8 = args[4], regs->r9 = args[5];
    } else {
        regs->rbx = args[0], regs->rcx = args[1], regs->rdx = args[2];
        regs->rsi = args[3], regs->rdi = args[4], regs->rbp = args[5];
    }
}

/* The thread has entered the kernel, and needs nothing but its registers when it comes back. */
static struct err *shorten_stub(struct target *target, struct target_thread *thread, uint64_t mask)
{
    struct user_regs_struct regs;
    if (target_ptrace(PTRACE_GETREGS, thread->tid, 0, &regs))
        return target_gone(target);
    regs.rip = target->stub.va + (target->width == 64 ? STUB64_POPS : STUB32_POPS);
    if (target_ptrace(PTRACE_SETREGS, thread->tid, 0, &regs) || target_ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof mask, &mask))
        return target_gone(target);
    return NULL;
}

/* As target_wait_for(), but gives up once the memory is no more: another thread that has executed a program may have taken the id. */
static bool wait_for_call(struct target *target, pid_t tid, int *status)
{
    enum { PIECES = 300, PIECE_NS = 100000000 };
    pid_t got = 0;
    for (int i = 0; i < PIECES && !got; i++) {
        got = target_wait_within(tid, PIECE_NS, status);
        struct err *gone = got ? NULL : target_check(target);
        if (gone)
            return err_free(gone), false;
    }
    return got == tid;
}

static struct err *no_return(struct target *target, pid_t tid)
{
    ERR_TRY(target_check(target));
    return target_ended(target) ? target_gone(target)
                                : err_new(ERR_BUSY, "process %d: thread %d does not come back from a system call", target->pid, tid);
}

/* Runs the thread until it is at a system call stop. Group stops and late interrupts in between mean nothing here. */
static struct err *run_to_syscall_stop(struct target *target, struct target_thread *thread)
{
    for (;;) {
        int status;
        if (target_ptrace(PTRACE_SYSCALL, thread->tid, 0, 0))
            return errno == ESRCH ? target_gone(target) : err_errno(ERR_SYSTEM, errno, "thread %d: continue", thread->tid);
        if (!wait_for_call(target, thread->tid, &status)) {
            /* The stub puts the thread right by itself, whenever that is: it must stay, and the thread is let go when it stops. */
            thread->stopped = false;
            target->stub.va = 0;
            return no_return(target, thread->tid);
        }
        if (!WIFSTOPPED(status)) {
            target_thread_note(target, thread, status);
            thread->stopped = false;
            return target_gone(target);
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80) && status >> 16 == 0)
            return NULL;
        if (status >> 16 == 0)
            thread->signal = WSTOPSIG(status); /* SIGSTOP can not be blocked: it is passed on when the thread goes on */
    }
}

/* From the start of the stub, where the registers of the call are, to where the thread has made it. */
static struct err *make_call(struct target *target, struct target_thread *thread, const uint64_t *confined_mask,
                             struct user_regs_struct *regs, struct target_call *call)
{
    ERR_TRY(run_to_syscall_stop(target, thread));
    if (confined_mask)
        ERR_TRY(shorten_stub(target, thread, *confined_mask));
    ERR_TRY(run_to_syscall_stop(target, thread));
    if (target_ptrace(PTRACE_GETREGS, thread->tid, 0, regs))
        return target_gone(target);
    call->result = target->width == 64 ? (int64_t)regs->rax : (int32_t)regs->rax;
    return NULL;
}

static struct err *call_with_frame(struct target *target, struct target_thread *thread, struct target_call *call, size_t count,
                                   uint64_t frame_va, const uint64_t *confined_mask)
{
    struct user_regs_struct regs = thread->regs;
    set_call(target, &regs, call->number, call->args);
    regs.rip = target->stub.va;
    regs.rsp = frame_va;
    regs.eflags &= ~0x100ull; /* no single step of the program's own in our code */
    /* The stub puts the mask back, so the thread must be in it before the mask changes. */
    uint64_t full = ~0ull;
    if (!target_set_regs(thread->tid, &regs) || target_ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof full, &full))
        return target_gone(target);
    ERR_TRY(make_call(target, thread, confined_mask, &regs, call));
    for (size_t i = 1; i < count; i++) { /* back to the start of the stub, whose frame is as it was */
        set_call(target, &regs, call[i].number, call[i].args);
        regs.rip = target->stub.va;
        if (!target_set_regs(thread->tid, &regs))
            return target_gone(target);
        ERR_TRY(make_call(target, thread, NULL, &regs, &call[i]));
    }
    return NULL;
}

static struct err *none_borrowable(const struct target *target)
{
    return err_new(ERR_SYSTEM, "process %d: every thread is about to handle a signal; try again", target->pid);
}

bool target_thread_is_borrowable(struct target *target, struct target_thread *thread)
{
    return thread->stopped && !thread->signal && !thread->in_event && target_thread_restart_here(target, thread);
}

static struct target_thread *borrowable(struct target *target)
{
    for (size_t i = 0; i < target->thread.n; i++)
        if (target_thread_is_borrowable(target, &target->thread.at[i]))
            return &target->thread.at[i];
    return NULL;
}

struct err *target_remote_buffer(struct target *target, uint64_t *va)
{
    enum { BELOW = 512 }; /* under the red zone and the frame */
    _Static_assert(TARGET_SCRATCH + RED_ZONE + sizeof(struct frame64) <= BELOW, "room");
    struct target_thread *thread = borrowable(target);
    if (!thread)
        return none_borrowable(target);
    *va = (thread->regs.rsp - BELOW) & ~15ull;
    return NULL;
}

/* A filter could kill the thread for our system call. It is suspended for that alone: the program's own calls stay filtered. */
static struct err *suspend_seccomp(struct target *target, struct target_thread *thread, bool on, bool *is_confined)
{
    char value[16];
    *is_confined = target_status_field(target->pid, thread->tid, "Seccomp", value, sizeof value) && value[0] != '0';
    if (!*is_confined)
        return NULL;
    unsigned long options = target_ptrace_options(target) | (on ? PTRACE_O_SUSPEND_SECCOMP : 0);
    if (!target_ptrace(PTRACE_SETOPTIONS, thread->tid, 0, options) || !on)
        return NULL;
    return err_new(ERR_REFUSED, "process %d: has a seccomp filter that might kill it for our system calls, and we may not suspend it",
                   target->pid);
}

/* Makes as many of the calls as can be made in one go: *done. */
static struct err *call_some(struct target *target, struct target_call *call, size_t count, size_t *done)
{
    struct target_thread *thread = borrowable(target);
    if (!thread)
        return none_borrowable(target);
    if (!target->stub.va)
        ERR_TRY(place_stub(target));
    uint64_t mask, frame_va = 0;
    bool is_confined;
    ERR_TRY(suspend_seccomp(target, thread, true, &is_confined));
    *done = is_confined ? 1 : count; /* a thread that has a filter does not come back to the start of the stub */
    if (target_ptrace(PTRACE_GETSIGMASK, thread->tid, sizeof mask, &mask))
        return target_gone(target);
    ERR_TRY(target_thread_leave_sequence(target, thread));
    ERR_TRY(write_frame(target, thread, mask, &frame_va));
    struct err *error = call_with_frame(target, thread, call, *done, frame_va, is_confined ? &mask : NULL);
    struct err *gone = target_check(target);
    if (gone) { /* it may be the thread of another program that stands there now, under the same id */
        thread->regs_changed = false;
        err_free(error);
        return gone;
    }
    /* The thread is no longer in the system call it was stopped in, so the kernel would not restart it: the registers that
     * target_thread_settle() made say where it goes on. */
    thread->regs.orig_rax = (uint64_t)-1;
    thread->regs_changed = true;
    target_ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof mask, &mask);
    struct err *back = thread->stopped ? target_thread_write_regs(thread) : NULL;
    thread->regs_changed = true;
    if (is_confined)
        err_free(suspend_seccomp(target, thread, false, &is_confined));
    if (!error)
        return back;
    err_free(back);
    return error;
}

struct err *target_syscalls(struct target *target, struct target_call *call, size_t count)
{
    size_t done = 0;
    for (size_t i = 0; i < count; i += done)
        ERR_TRY(call_some(target, call + i, count - i, &done));
    return NULL;
}

struct err *target_syscall(struct target *target, long number, const uint64_t args[6], int64_t *result)
{
    struct target_call call = {.number = number};
    memcpy(call.args, args, sizeof call.args);
    struct err *error = target_syscalls(target, &call, 1);
    *result = call.result;
    return error;
}

/* ---- what a controller has left that was killed ---- */

/* Bytes of the frame that a thread has taken off its stack when it stands at `offset` in the stub. */
static uint64_t taken(const struct target *target, uint64_t offset)
{
    enum { STUB64_LEA_BYTES = 5, STUB32_ADD_BYTES = 3, POPA = 0x61, REX = 0x41 };
    bool wide = target->width == 64;
    uint64_t at = wide ? STUB64_POPS + STUB64_LEA_BYTES : STUB32_POPS + STUB32_ADD_BYTES, bytes = 8;
    if (offset < at)
        return 0;
    while (at < offset) {
        const uint8_t *insn = wide ? &stub64[at] : &stub32[at];
        bytes += wide ? 8 : *insn == POPA ? 32 : 4;
        at += *insn == REX ? 2 : 1;
    }
    return bytes;
}

/* As the stub would: the registers and the mask that the thread had before it was borrowed. The call is not made, or was. */
static struct err *finish_call(struct target *target, struct target_thread *thread, uint64_t offset)
{
    struct user_regs_struct *regs = &thread->regs;
    uint64_t frame_va = regs->rsp - taken(target, offset);
    union {
        uint64_t mask;
        struct frame64 wide;
        struct frame32 narrow;
    } frame;
    size_t bytes = target->width == 64 ? sizeof frame.wide : sizeof frame.narrow;
    ERR_TRY(target_read(target, frame_va, &frame, bytes));
    if (target->width == 64) {
        const struct frame64 *from = &frame.wide;
        regs->r15 = from->r15, regs->r14 = from->r14, regs->r13 = from->r13, regs->r12 = from->r12;
        regs->r11 = from->r11, regs->r10 = from->r10, regs->r9 = from->r9, regs->r8 = from->r8;
        regs->rbp = from->rbp, regs->rbx = from->rbx, regs->rax = from->rax, regs->rcx = from->rcx;
        regs->rdx = from->rdx, regs->rsi = from->rsi, regs->rdi = from->rdi;
        regs->eflags = from->flags, regs->rip = from->pc;
    } else {
        const struct frame32 *from = &frame.narrow;
        regs->rdi = from->edi, regs->rsi = from->esi, regs->rbp = from->ebp, regs->rbx = from->ebx;
        regs->rdx = from->edx, regs->rcx = from->ecx, regs->rax = from->eax;
        regs->eflags = from->flags, regs->rip = from->pc;
    }
    regs->rsp = frame_va + bytes + RED_ZONE;
    regs->orig_rax = (uint64_t)-1;
    thread->regs_changed = true;
    thread->interrupted = thread->restart_pending = false;
    if (target_ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof frame.mask, &frame.mask))
        return target_gone(target);
    return target_thread_write_regs(thread);
}

static struct err *finish_calls(struct target *target, uint64_t va, size_t size)
{
    uint8_t zeros[sizeof target->stub.original] = {0};
    ERR_TRY(target_stop(target));
    for (size_t i = 0; i < target->thread.n; i++) {
        struct target_thread *thread = &target->thread.at[i];
        if (thread->stopped && thread->regs.rip - va < size)
            ERR_TRY(finish_call(target, thread, thread->regs.rip - va));
    }
    return target_write(target, va, zeros, size);
}

struct err *target_finish_left_calls(struct target *target)
{
    enum { MOST = 8 }; /* places: a process may be full of what looks like one */
    const uint8_t *code = target->width == 64 ? stub64 : stub32;
    size_t size = target->width == 64 ? sizeof stub64 : sizeof stub32, found = 0;
    struct target_maps maps;
    struct err *error = NULL;
    ERR_TRY(target_maps_read(target, &maps));
    for (size_t i = 0; i < maps.map.n && found < MOST && !error; i++) {
        const struct target_map *map = &maps.map.at[i];
        uint8_t tail[sizeof target->stub.original];
        uint64_t va = map->end_va - sizeof tail;
        if (!map->executable || !map->inode || map->shared || target_read_some(target, va, tail, sizeof tail) != sizeof tail ||
            memcmp(tail, code, size))
            continue;
        bool was_running = target_is_running(target);
        found++;
        error = finish_calls(target, va, size);
        struct err *resume = was_running ? target_resume(target) : NULL;
        if (error)
            err_free(resume);
        else
            error = resume;
    }
    target_maps_deinit(&maps);
    return error;
}
