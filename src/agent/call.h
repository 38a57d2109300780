/* System calls of the agent. */
#ifndef AGENT_CALL_H
#define AGENT_CALL_H

#include <stdint.h>

#if defined __x86_64__
enum {
    NR_OPEN = 2,
    NR_CLOSE = 3,
    NR_PWRITE = 18,
    NR_FUTEX = 202,
    NR_SIGACTION = 13,
    NR_SIGPROCMASK = 14,
    NR_GETPID = 39,
    NR_GETPPID = 110,
    NR_GETTID = 186,
    NR_GETUID = 102,
    NR_GETGID = 104,
    NR_PRCTL = 157,
    NR_SECCOMP = 317,
    NR_TGKILL = 234,
    NR_CLOCK_GETTIME = 228,
    NR_PROCESS_VM_READV = 310,
};
static inline __attribute__((always_inline)) long agent_call6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}
static inline __attribute__((always_inline)) long agent_call4(long number, long a, long b, long c, long d)
{
    return agent_call6(number, a, b, c, d, 0, 0);
}
static inline __attribute__((always_inline)) long agent_pwrite(long fd, const void *bytes, long size, uintptr_t offset)
{
    return agent_call4(NR_PWRITE, fd, (long)bytes, size, (long)offset);
}
#elif defined __i386__
enum {
    NR_OPEN = 5,
    NR_CLOSE = 6,
    NR_PWRITE = 181,
    NR_FUTEX = 240,
    NR_SIGACTION = 174,
    NR_SIGPROCMASK = 175,
    NR_GETPID = 20,
    NR_GETPPID = 64,
    NR_GETTID = 224,
    NR_GETUID = 199,
    NR_GETGID = 200,
    NR_PRCTL = 172,
    NR_SECCOMP = 354,
    NR_TGKILL = 270,
    NR_CLOCK_GETTIME = 265,
    NR_PROCESS_VM_READV = 347,
};
static inline __attribute__((always_inline)) long agent_call6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    /* All registers are arguments: the sixth goes through the stack. */
    long pack[2] = {number, f};
    __asm__ volatile("push %%ebp\n"
                     "mov 4(%%eax),%%ebp\n"
                     "mov (%%eax),%%eax\n"
                     "int $0x80\n"
                     "pop %%ebp"
                     : "=a"(result)
                     : "a"(pack), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
                     : "memory");
    return result;
}
/* Leaves the base pointer alone, as code that is called with a block must. */
static inline __attribute__((always_inline)) long agent_call4(long number, long a, long b, long c, long d)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d) : "memory");
    return result;
}
static inline __attribute__((always_inline)) long agent_pwrite(long fd, const void *bytes, long size, uintptr_t offset)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(NR_PWRITE), "b"(fd), "c"(bytes), "d"(size), "S"(offset), "D"(0) : "memory");
    return result;
}
#else
#error "the agent needs its system calls for this architecture"
#endif

#endif
