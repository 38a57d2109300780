/* The agent: code that runs inside the traced process.
 *
 * Rules: no libc, no TLS, no vectors (built with -mgeneral-regs-only), no allocation, no lock, no writable data of its own; everything it
 * knows comes through the shared memory that its caller names. It never prints and never aborts. */
#include "agent/agent.h"
#include "agent/call.h"
#include "agent/quiet.h"
#include "wire/session.h"

/* The entry table: WIRE_AGENT_... */
#if defined __x86_64__
#define RETURN_FROM_SIGNAL "mov $15,%eax\n syscall\n"
#else
#define RETURN_FROM_SIGNAL "mov $173,%eax\n int $0x80\n"
#endif
#define JUMP(function) ".byte 0xe9\n .long " function " - . - 4\n .balign 8\n"
__asm__(".section .text.entry,\"ax\",@progbits\n"
        ".globl agent_entry\n"
        "agent_entry:\n" JUMP("agent_load_event") JUMP("agent_trap") RETURN_FROM_SIGNAL ".balign 8\n" JUMP("agent_action")
            JUMP("agent_enter") JUMP("agent_leave") ".globl agent_shared_va\n .hidden agent_shared_va\n"
                                                    "agent_shared_va: .quad 0\n"
                                                    ".long agent_wait_start - agent_entry\n"
                                                    ".long agent_show_start - agent_entry\n"
                                                    ".long agent_show_end - agent_entry\n"
                                                    ".long agent_ring_end - agent_entry\n" JUMP("agent_go_on")
                                                        JUMP("agent_go_on_bare") ".org agent_entry + 128\n" JUMP("eval_op")
                                                            JUMP("stream_ring_write_error") JUMP("agent_claim")
                                                                JUMP("agent_release") ".text\n");
/* Hidden, or its address would be looked for in a GOT, which the agent does not have. */
extern const volatile uint64_t agent_shared_va __attribute__((visibility("hidden")));

#if defined __x86_64__
enum { CONTEXT_PC_OFFSET = 168, SAVED_FIRST = SAVED_DI, SAVED_ACTION = SAVED_SI };
#else
enum { CONTEXT_PC_OFFSET = 76, SAVED_FIRST = SAVED_BX, SAVED_ACTION = SAVED_CX };
#endif

static inline __attribute__((always_inline)) long call(long number, const void *a, long b, const void *c, const void *d)
{
    return agent_call4(number, (long)a, b, (long)c, (long)d);
}

enum { OP_WAIT = 0, OP_WAKE = 1 };
enum { WAIT_NS = 50000000, PATIENCE = 40 /* waits without a heartbeat until the controller is given up */ };

static inline __attribute__((always_inline)) struct wire_live *live_of(const struct wire_shared *shared)
{
    return (void *)(uintptr_t)shared->live_va;
}

/* Tells the controller that there is something to do and waits until it has answered. A controller that has died is noticed by its
 * heartbeat, and then nobody waits again. */
WAITS static void wait_for_controller(struct wire_live *live, struct wire_process *process)
{
    struct {
        long seconds, nanoseconds;
    } timeout = {0, WAIT_NS};
    if (!__atomic_load_n(&live->agent_off, __ATOMIC_SEQ_CST)) {
        uint32_t event = __atomic_add_fetch(&live->load_events, 1, __ATOMIC_SEQ_CST);
        if (!agent_may_call(process))
            return;
        call(NR_FUTEX, &live->load_events, OP_WAKE, (const void *)0x7fffffff, 0);
        agent_has_called(process);
        uint32_t beat = __atomic_load_n(&live->heartbeat, __ATOMIC_RELAXED);
        for (int silent = 0; silent < PATIENCE; silent++) {
            uint32_t answers = __atomic_load_n(&live->load_answers, __ATOMIC_ACQUIRE);
            if ((int32_t)(answers - event) >= 0 || __atomic_load_n(&live->agent_off, __ATOMIC_SEQ_CST))
                break;
            if (!agent_may_call(process))
                break;
            call(NR_FUTEX, &live->load_answers, OP_WAIT, (const void *)(uintptr_t)answers, &timeout);
            agent_has_called(process);
            uint32_t now = __atomic_load_n(&live->heartbeat, __ATOMIC_RELAXED);
            if (now != beat)
                silent = 0;
            beat = now;
            if (silent == PATIENCE - 1)
                __atomic_store_n(&live->agent_off, 1, __ATOMIC_SEQ_CST);
        }
    }
}

static struct wire_process *process_of(const struct wire_shared *shared)
{
    return (void *)(uintptr_t)shared->process_va;
}

/* Called while firing, at the loader's debug hook: the list of libraries is about to change or has changed. */
WAITS void agent_load_event(struct wire_shared *shared, struct agent_block *block)
{
    (void)block;
    wait_for_controller(live_of(shared), process_of(shared));
}

/* As the kernel wants it. */
struct action {
    uintptr_t handler, flags, restorer;
    uint64_t mask;
};

/* The kernel says whether it could read there; what it is asked to do it refuses. */
WAITS static bool is_readable(struct wire_process *process, const void *va)
{
    enum { BAD_ADDRESS = -14 };
    if (!agent_may_call(process))
        return false;
    long answer = call(NR_SIGPROCMASK, (const void *)-1, (long)va, 0, (const void *)8);
    agent_has_called(process);
    return answer != BAD_ADDRESS;
}

/* Notes the handler for the controller. False when it is known already, or can not be followed. */
WAITS static bool note_handler(struct wire_live *live, const struct action *action)
{
    enum { WITH_INFO = 4, WITH_RESTORER = 0x04000000 };
    uint64_t restorer = action->flags & WITH_RESTORER ? action->restorer : 0;
    uint32_t is_info = (action->flags & WITH_INFO) != 0;
    for (int i = 0; i < WIRE_HANDLER_ROOM; i++) {
        struct wire_handler *entry = &live->handler[i];
        uint32_t state = __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);
        if (state >= WIRE_HANDLER_WANTED && entry->va == action->handler && entry->restorer_va == restorer && entry->is_info == is_info)
            return state != WIRE_HANDLER_KNOWN;
    }
    for (int i = 0; i < WIRE_HANDLER_ROOM; i++) {
        struct wire_handler *entry = &live->handler[i];
        uint32_t expected = WIRE_HANDLER_FREE;
        if (!__atomic_compare_exchange_n(&entry->state, &expected, WIRE_HANDLER_BUSY, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            continue;
        entry->va = action->handler;
        entry->restorer_va = restorer;
        entry->is_info = is_info;
        __atomic_store_n(&entry->state, WIRE_HANDLER_WANTED, __ATOMIC_RELEASE);
        return true;
    }
    return false;
}

static bool sets_filter(const struct agent_block *block)
{
    enum { PR_SET_SECCOMP_OP = 22, SECCOMP_SET_MODE_MOST = 1 };
    uintptr_t first = agent_saved(block, SAVED_FIRST), number = agent_saved(block, SAVED_AX);
    return (number == NR_PRCTL && first == PR_SET_SECCOMP_OP) || (number == NR_SECCOMP && first <= SECCOMP_SET_MODE_MOST);
}

/* Puts the program's bytes back where traps are: the controller has died, and a handler that nobody knows is about to be called for them.
 */
WAITS static void remove_traps(const struct wire_shared *shared)
{
    enum { READ_WRITE = 2, CLOSE_ON_EXEC = 0x80000 };
    const uint64_t path[2] = {0x65732f636f72702full, 0x006d656d2f666cull}; /* "/proc/self/mem" */
    const struct wire_site *site = (const void *)((const char *)shared + shared->sites_offset);
    long fd = call(NR_OPEN, path, READ_WRITE | CLOSE_ON_EXEC, 0, 0);
    for (uint32_t i = 0; fd >= 0 && i < shared->site_count && i < process_of(shared)->site_limit; i++)
        if (site[i].length == 1 && site[i].patched[0] == 0xcc && *(const volatile uint8_t *)(uintptr_t)site[i].va == 0xcc)
            agent_pwrite(fd, site[i].original, 1, (uintptr_t)site[i].va);
    if (fd >= 0)
        call(NR_CLOSE, (const void *)fd, 0, 0, 0);
}

/* Called while firing, before rt_sigaction: a new handler is to have its probe when the signal comes. Or before a seccomp filter is set,
 * which may kill the process for system calls of ours; or before a call that may be any, because its number is not in the code. */
WAITS void agent_action(struct wire_shared *shared, struct agent_block *block)
{
    struct wire_process *process = process_of(shared);
    if (process && sets_filter(block))
        agent_become_quiet(process);
    enum { TRAP = 5 };
    const struct action *action = (const void *)agent_saved(block, SAVED_ACTION);
    if (agent_saved(block, SAVED_AX) != NR_SIGACTION || !action)
        return;
    struct wire_live *live = live_of(shared);
    bool is_off = __atomic_load_n(&live->agent_off, __ATOMIC_SEQ_CST);
    if (!is_off && is_readable(process, action) && is_readable(process, &action->mask) && action->handler > 1 && note_handler(live, action))
        wait_for_controller(live, process);
    /* A controller that detaches removes them itself. */
    if (agent_saved(block, SAVED_FIRST) == TRAP && __atomic_load_n(&live->agent_off, __ATOMIC_SEQ_CST) && agent_may_call(process)) {
        remove_traps(shared);
        agent_has_called(process);
    }
}

/* Called while firing, when a thread meets a trap and the controller, which would have dealt with it, is dead. It may have died when it had
 * sent the thread on already and the thread still had to get the signal. */
void agent_trap(int number, void *info, void *context)
{
    (void)info;
    const struct wire_shared *shared = (const void *)(uintptr_t)agent_shared_va;
    const struct wire_site *site = (const void *)((const char *)shared + shared->sites_offset);
    uintptr_t *pc = (uintptr_t *)((char *)context + CONTEXT_PC_OFFSET), va = *pc - 1;
    for (uint32_t i = 0; i < shared->site_count && i < process_of(shared)->site_limit; i++)
        if ((site[i].va == va || site[i].trampoline_va == *pc) && site[i].length == 1 && site[i].patched[0] == 0xcc) {
            *pc = (uintptr_t)site[i].trampoline_va;
            return;
        }
    /* The program's own breakpoint: it is met again, and then the default action takes its course. If the trap was ours and has just been
     * removed, the program's instruction is there now. */
    struct action action = {0, 0, 0, 0};
    *pc = va;
    if (*(const volatile uint8_t *)va == 0xcc)
        call(NR_SIGACTION, (const void *)(uintptr_t)number, (long)&action, 0, (const void *)8);
}
