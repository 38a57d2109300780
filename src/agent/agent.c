/* The agent: code that runs inside the traced process.
 *
 * Rules: no libc, no TLS, no vectors (built with -mgeneral-regs-only), no allocation, no lock, no writable data of its own; everything it knows
 * comes through the shared memory that its caller names. It never prints and never aborts. */
#include "wire/shared.h"

#if defined __x86_64__
enum { NR_FUTEX = 202 };
static long futex(uint32_t *word, int operation, uint32_t value, const void *timeout)
{
    long result;
    register const void *r10 __asm__("r10") = timeout;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"((long)NR_FUTEX), "D"(word), "S"((long)operation), "d"((long)value), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined __i386__
enum { NR_FUTEX = 240 };
static long futex(uint32_t *word, int operation, uint32_t value, const void *timeout)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(NR_FUTEX), "b"(word), "c"(operation), "d"(value), "S"(timeout) : "memory");
    return result;
}
#else
#error "the agent needs its system call for this architecture"
#endif

enum { OP_WAIT = 0, OP_WAKE = 1 };
enum { WAIT_NS = 50000000, PATIENCE = 40 /* waits without a heartbeat until the controller is given up */ };

/* Called while firing, at the loader's debug hook: the list of libraries is about to change or has changed. Tells the controller and waits
 * until it has answered. A controller that has died is noticed by its heartbeat, and then nobody waits again. */
void agent_entry(struct wire_shared *shared);
__attribute__((section(".text.entry"))) void agent_entry(struct wire_shared *shared)
{
    struct {
        long seconds, nanoseconds;
    } timeout = {0, WAIT_NS};
    __atomic_add_fetch(&shared->agent_inside, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&shared->agent_off, __ATOMIC_SEQ_CST)) {
        uint32_t event = __atomic_add_fetch(&shared->load_events, 1, __ATOMIC_SEQ_CST);
        futex(&shared->load_events, OP_WAKE, 0x7fffffff, 0);
        uint32_t beat = __atomic_load_n(&shared->heartbeat, __ATOMIC_RELAXED);
        for (int silent = 0; silent < PATIENCE; silent++) {
            uint32_t answers = __atomic_load_n(&shared->load_answers, __ATOMIC_ACQUIRE);
            if ((int32_t)(answers - event) >= 0 || __atomic_load_n(&shared->agent_off, __ATOMIC_SEQ_CST))
                break;
            futex(&shared->load_answers, OP_WAIT, answers, &timeout);
            uint32_t now = __atomic_load_n(&shared->heartbeat, __ATOMIC_RELAXED);
            if (now != beat)
                silent = 0;
            beat = now;
            if (silent == PATIENCE - 1)
                __atomic_store_n(&shared->agent_off, 1, __ATOMIC_SEQ_CST);
        }
    }
    __atomic_sub_fetch(&shared->agent_inside, 1, __ATOMIC_SEQ_CST);
}
