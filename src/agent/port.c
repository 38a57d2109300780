/* What clauses need of the process they fire in. Called while firing, all of it. */
#include "stream/port.h"
#include "agent/call.h"
#include "agent/quiet.h"
#include "agent/x87.h"

enum { PAGE = 4096, FUTEX_WAIT_OP = 0, PR_GET_NAME_OP = 16, CLOCK_MONOTONIC_ID = 1 };

static struct wire_process *process_of(const struct wire_fire *fire)
{
    return (void *)(uintptr_t)fire->process_va;
}

static struct wire_session *session_of(const struct wire_fire *fire)
{
    return (void *)(uintptr_t)fire->session_va;
}

/* A call that tells something, or `otherwise`. */
static long ask(const struct wire_fire *fire, long number, long a, long b, long otherwise)
{
    if (!agent_may_call(process_of(fire)))
        return otherwise;
    long result = agent_call4(number, a, b, 0, 0);
    agent_has_called(process_of(fire));
    return result;
}

/* ---- memory ---- */

static bool is_safe(const struct wire_fire *fire, uint64_t va, uint32_t bytes)
{
    /* The page that the stack pointer is in. */
    if (va / PAGE == fire->sp / PAGE && (va + bytes - 1) / PAGE == fire->sp / PAGE)
        return true;
    const struct wire_process *process = process_of(fire);
    for (uint32_t low = 0, high = process->safe_count; low < high;) {
        uint32_t middle = (low + high) / 2;
        if (va >= process->safe[middle].end_va)
            low = middle + 1;
        else if (va < process->safe[middle].start_va)
            high = middle;
        else
            return process->safe[middle].end_va - va >= bytes;
    }
    return false;
}

bool port_read(struct wire_fire *fire, uint64_t va, void *to, uint32_t bytes)
{
    if (sizeof(void *) == 4 && (va >> 32 || (va + bytes - 1) >> 32))
        return false;
    if (is_safe(fire, va, bytes)) {
        const volatile char *from = (const char *)(uintptr_t)va;
        for (uint32_t i = 0; i < bytes; i++)
            ((volatile char *)to)[i] = from[i];
        return true;
    }
    struct {
        uintptr_t base, length;
    } here = {(uintptr_t)to, bytes}, there = {(uintptr_t)va, bytes};
    if (!fire->tid)
        fire->tid = (uint32_t)port_ctx(fire, WIRE_CTX_TID);
    if (!agent_may_call(process_of(fire)))
        return false;
    long got = agent_call6(NR_PROCESS_VM_READV, (long)fire->tid, (long)&here, 1, (long)&there, 1, 0);
    agent_has_called(process_of(fire));
    return got == (long)bytes;
}

/* ---- where and when ---- */

static uint64_t tsc(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

static uint64_t kernel_ns(const struct wire_fire *fire)
{
    struct {
        long seconds, nanoseconds;
    } now = {0, 0};
    ask(fire, NR_CLOCK_GETTIME, CLOCK_MONOTONIC_ID, (long)&now, 0);
    return (uint64_t)(unsigned long)now.seconds * 1000000000u + (uint64_t)(unsigned long)now.nanoseconds;
}

static uint64_t now_ns(const struct wire_fire *fire)
{
    const struct wire_session *session = session_of(fire);
    if (!session->tsc_mult)
        return kernel_ns(fire);
    uint64_t ticks = tsc() - session->tsc_base;
    uint64_t low = (ticks & 0xffffffffu) * session->tsc_mult, high = (ticks >> 32) * session->tsc_mult;
    return session->ns_base + (low >> session->tsc_shift) + (high << (32 - session->tsc_shift));
}

uint64_t port_time(const struct wire_fire *fire)
{
    return session_of(fire)->tsc_mult ? tsc() : kernel_ns(fire);
}

static uint32_t current_tid(const struct wire_fire *fire)
{
    const struct wire_process *process = process_of(fire);
    if (!process->tid_offset)
        return (uint32_t)ask(fire, NR_GETTID, 0, 0, process->pid);
    uint32_t tid;
    long offset = process->tid_offset; /* asked for only behind the question: before, there may be no segment */
#if defined __x86_64__
    __asm__ volatile("movl %%fs:(%1),%0" : "=r"(tid) : "r"(offset));
#else
    __asm__ volatile("movl %%gs:(%1),%0" : "=r"(tid) : "r"(offset));
#endif
    return tid;
}

static uint32_t current_cpu(const struct wire_session *session)
{
    uintptr_t limit = 0;
    if (session->has_rdpid) {
        __asm__ volatile("rdpid %0" : "=r"(limit));
        return (uint32_t)limit & 0xfff;
    }
    __asm__("lsl %1,%0" : "+r"(limit) : "r"((uintptr_t)0x7b) : "cc");
    return (uint32_t)limit & 0xfff;
}

static uint32_t random_word(struct wire_process *process)
{
    uint32_t x = process->random ? process->random : (uint32_t)tsc() | 1;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    process->random = x;
    return x;
}

static uint64_t place_word(const struct wire_fire *fire, uint32_t what)
{
    const struct wire_process *process = process_of(fire);
    if (fire->place >= process->place_count)
        return 0;
    struct wire_place *place = (struct wire_place *)(uintptr_t)process->places_va + fire->place;
    switch (what) {
    case WIRE_CTX_PC:
        return ((const uint64_t *)(uintptr_t)process->place_pcs_va)[fire->place];
    case WIRE_CTX_BIAS:
        return ((const uint64_t *)(uintptr_t)process->biases_va)[fire->place];
    case WIRE_CTX_ROW:
        return place->row;
    case WIRE_CTX_FUNC:
        return place->func;
    case WIRE_CTX_QUOTA:
        return (uint64_t)(int64_t)__atomic_fetch_sub(&place->quota, 1, __ATOMIC_RELAXED);
    default:
        return place->probe;
    }
}

uint64_t port_ctx(struct wire_fire *fire, uint32_t what)
{
    struct wire_process *process = process_of(fire);
    switch (what) {
    case WIRE_CTX_PID:
        if (!process->pid)
            process->pid = (uint32_t)ask(fire, NR_GETPID, 0, 0, current_tid(fire));
        return process->pid;
    case WIRE_CTX_TID:
        return current_tid(fire);
    case WIRE_CTX_UID:
        return (uint32_t)ask(fire, NR_GETUID, 0, 0, 0);
    case WIRE_CTX_GID:
        return (uint32_t)ask(fire, NR_GETGID, 0, 0, 0);
    case WIRE_CTX_PPID:
        return (uint32_t)ask(fire, NR_GETPPID, 0, 0, 0);
    case WIRE_CTX_CPU:
        return current_cpu(session_of(fire));
    case WIRE_CTX_NSECS:
        return now_ns(fire);
    case WIRE_CTX_RAND:
        return random_word(process);
    default:
        return place_word(fire, what);
    }
}

/* Only its own name can be asked for by a thread without opening a file: another one's process has the name it was loaded with. */
void port_comm(struct wire_fire *fire, bool of_process, char to[16])
{
    const struct wire_process *process = process_of(fire);
    bool other = of_process && port_ctx(fire, WIRE_CTX_TID) != port_ctx(fire, WIRE_CTX_PID);
    for (int i = 0; i < 16; i++)
        ((volatile char *)to)[i] = other ? process->comm[i] : 0;
    if (!other)
        ask(fire, NR_PRCTL, PR_GET_NAME_OP, (long)to, 0);
}

void port_signal(struct wire_fire *fire, int number)
{
    if (!agent_may_call(process_of(fire)))
        return;
    agent_call4(NR_TGKILL, agent_call4(NR_GETPID, 0, 0, 0, 0), agent_call4(NR_GETTID, 0, 0, 0, 0), number, 0);
    agent_has_called(process_of(fire));
}

/* ---- the controller ---- */

/* A program's clauses run in memory that is its own to spoil: the limits of each walk and each wait will do. */
bool port_goes_on(uint32_t steps)
{
    (void)steps;
    return true;
}

bool port_wait(const struct wire_fire *fire, uint32_t seen, uint32_t most_ns)
{
    struct {
        long seconds, nanoseconds;
    } timeout = {0, (long)most_ns};
    struct wire_state *state = wire_state(session_of(fire));
    if (!session_of(fire)->lossless || !agent_may_call(process_of(fire)))
        return false;
    __atomic_add_fetch(&state->writers, 1, __ATOMIC_SEQ_CST);
    agent_call4(NR_FUTEX, (long)&state->reader, FUTEX_WAIT_OP, (long)seen, (long)&timeout);
    __atomic_sub_fetch(&state->writers, 1, __ATOMIC_SEQ_CST);
    agent_has_called(process_of(fire));
    return true;
}

/* JIT code reads these registers itself. */
uint64_t port_xmm(struct wire_fire *fire, uint32_t number, uint32_t bytes)
{
    (void)fire, (void)number, (void)bytes;
    return 0;
}

uint64_t port_st0(struct wire_fire *fire)
{
    (void)fire;
    return agent_st0();
}
