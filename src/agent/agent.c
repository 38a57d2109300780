/* The agent: code that runs inside the traced process.
 *
 * Rules: no libc, no TLS, no vectors (built with -mgeneral-regs-only), no allocation, no lock, no writable data of its own; everything it
 * knows comes through the shared memory that its caller names. It never prints and never aborts. */
#include "agent/agent.h"
#include "agent/call.h"

/* The entry table: WIRE_AGENT_... */
#if defined __x86_64__
#define RETURN_FROM_SIGNAL "mov $15,%eax\n syscall\n"
#else
#define RETURN_FROM_SIGNAL "mov $173,%eax\n int $0x80\n"
#endif
__asm__(".section .text.entry,\"ax\",@progbits\n"
        ".globl agent_entry\n"
        "agent_entry:\n"
        ".byte 0xe9\n .long agent_load_event - . - 4\n .balign 8\n"
        ".byte 0xe9\n .long agent_trap - . - 4\n .balign 8\n" RETURN_FROM_SIGNAL ".balign 16\n"
        ".globl agent_shared_va\n .hidden agent_shared_va\n"
        "agent_shared_va: .quad 0\n"
        ".org agent_entry + 128\n"
        ".byte 0xe9\n .long eval_op - . - 4\n .balign 8\n"
        ".byte 0xe9\n .long stream_ring_write_error - . - 4\n .balign 8\n"
        ".byte 0xe9\n .long agent_claim - . - 4\n .balign 8\n"
        ".byte 0xe9\n .long agent_release - . - 4\n .balign 8\n"
        ".text\n");
extern const volatile uint64_t agent_shared_va;

#if defined __x86_64__
enum { CONTEXT_PC_OFFSET = 168 };
#else
enum { CONTEXT_PC_OFFSET = 76 };
#endif

static long call(long number, const void *a, long b, const void *c, const void *d)
{
    return agent_call4(number, (long)a, b, (long)c, (long)d);
}

enum { OP_WAIT = 0, OP_WAKE = 1 };
enum { WAIT_NS = 50000000, PATIENCE = 40 /* waits without a heartbeat until the controller is given up */ };

/* Called while firing, at the loader's debug hook: the list of libraries is about to change or has changed. Tells the controller and waits
 * until it has answered. A controller that has died is noticed by its heartbeat, and then nobody waits again. */
void agent_load_event(struct wire_shared *shared)
{
    struct {
        long seconds, nanoseconds;
    } timeout = {0, WAIT_NS};
    if (!__atomic_load_n(&shared->agent_off, __ATOMIC_SEQ_CST)) {
        uint32_t event = __atomic_add_fetch(&shared->load_events, 1, __ATOMIC_SEQ_CST);
        call(NR_FUTEX, &shared->load_events, OP_WAKE, (const void *)0x7fffffff, 0);
        uint32_t beat = __atomic_load_n(&shared->heartbeat, __ATOMIC_RELAXED);
        for (int silent = 0; silent < PATIENCE; silent++) {
            uint32_t answers = __atomic_load_n(&shared->load_answers, __ATOMIC_ACQUIRE);
            if ((int32_t)(answers - event) >= 0 || __atomic_load_n(&shared->agent_off, __ATOMIC_SEQ_CST))
                break;
            call(NR_FUTEX, &shared->load_answers, OP_WAIT, (const void *)(uintptr_t)answers, &timeout);
            uint32_t now = __atomic_load_n(&shared->heartbeat, __ATOMIC_RELAXED);
            if (now != beat)
                silent = 0;
            beat = now;
            if (silent == PATIENCE - 1)
                __atomic_store_n(&shared->agent_off, 1, __ATOMIC_SEQ_CST);
        }
    }
}

/* Called while firing, when a thread meets a trap and the controller, which would have dealt with it, is dead. */
void agent_trap(int number, void *info, void *context)
{
    (void)info;
    const struct wire_shared *shared = (const void *)(uintptr_t)agent_shared_va;
    const struct wire_site *site = (const void *)((const char *)shared + shared->sites_offset);
    uintptr_t *pc = (uintptr_t *)((char *)context + CONTEXT_PC_OFFSET), va = *pc - 1;
    for (uint32_t i = 0; i < shared->site_count; i++)
        if (site[i].va == va && site[i].length == 1 && site[i].patched[0] == 0xcc) {
            *pc = (uintptr_t)site[i].trampoline_va;
            return;
        }
    /* The program's own breakpoint: it is met again, and then the default action takes its course. If the trap was ours and has just been
     * removed, the program's instruction is there now. */
    struct {
        uintptr_t handler, flags, restorer;
        uint64_t mask;
    } action = {0, 0, 0, 0};
    *pc = va;
    if (*(const volatile uint8_t *)va == 0xcc)
        call(NR_SIGACTION, (const void *)(uintptr_t)number, (long)&action, 0, (const void *)8);
}
