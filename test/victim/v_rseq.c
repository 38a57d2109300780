/* Threads that share a processor add to a counter of that processor in a restartable sequence (rseq), without any lock. None of what they
 * add is lost as long as the kernel restarts the sequences that it interrupts.
 *   v_rseq [-t THREADS] [-n ROUNDS] [-w]     with -w: `ready`, then until a line or the end of stdin comes */
#include "victim.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/rseq.h>
#include <unistd.h>

enum { CPUS = 1024, SPIN = 30000 };

/* 1: added; 0: the kernel has interrupted it. */
int sequence_add(struct rseq *area, uintptr_t *counters, uint32_t spin, const void *descriptor);
extern const char sequence_descriptor[];

#ifdef __x86_64__
__asm__(".text\n.globl sequence_add\n.type sequence_add,@function\n.p2align 4\nsequence_add:\n"
        " test %edx, %edx\n nop\n nop\n mov %rcx, 8(%rdi)\n" /* rseq_cs */
        "1: mov 4(%rdi), %ecx\n mov (%rsi,%rcx,8), %rax\n"   /* cpu_id */
        "0: nop\n add $-1, %edx\n jnz 0b\n"
        " add $1, %rax\n mov %rax, (%rsi,%rcx,8)\n"
        "2: mov $1, %eax\n ret\n"
        ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n"
        "3: xor %eax, %eax\n nop\n nop\n nop\n ret\n.size sequence_add, . - sequence_add\n"
        ".section __rseq_cs, \"aw\"\n.balign 32\n.globl sequence_descriptor\nsequence_descriptor:\n"
        ".long 0, 0\n.quad 1b, 2b - 1b, 3b\n.text\n");
#else
__asm__(".text\n.globl sequence_add\n.type sequence_add,@function\n.p2align 4\nsequence_add:\n"
        " push %ebx\n push %esi\n mov 12(%esp), %ebx\n mov 16(%esp), %esi\n mov 20(%esp), %edx\n mov 24(%esp), %ecx\n"
        " test %edx, %edx\n mov %ecx, 8(%ebx)\n"
        "1: mov 4(%ebx), %ecx\n mov (%esi,%ecx,4), %eax\n"
        "0: nop\n add $-1, %edx\n jnz 0b\n"
        " add $1, %eax\n mov %eax, (%esi,%ecx,4)\n"
        "2: mov $1, %eax\n pop %esi\n pop %ebx\n ret\n"
        ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n"
        "3: xor %eax, %eax\n pop %esi\n pop %ebx\n ret\n.size sequence_add, . - sequence_add\n"
        ".section __rseq_cs, \"aw\"\n.balign 32\n.globl sequence_descriptor\nsequence_descriptor:\n"
        ".long 0, 0\n.long 1b, 0, 2b - 1b, 0, 3b, 0\n.text\n");
#endif

static uintptr_t counters[CPUS];
static volatile int is_over;
static long rounds;

static void *add(void *context)
{
    long *added = context;
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    for (long i = 0; rounds ? i < rounds : !is_over; i++)
        *added += sequence_add(area, counters, SPIN, sequence_descriptor);
    return NULL;
}

static void *wait_for_end(void *context)
{
    (void)context;
    struct pollfd in = {.fd = 0, .events = POLLIN};
    puts("ready");
    fflush(stdout);
    while (poll(&in, 1, -1) < 0 && errno == EINTR)
        ;
    is_over = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    enum { MOST = 64 };
    pthread_t thread[MOST], waiter;
    long threads = victim_option(argc, argv, "-t", 3), added[MOST] = {0}, all = 0;
    uintptr_t counted = 0;
    cpu_set_t cpus;
    if (!__rseq_size) {
        fprintf(stderr, "no rseq here\n");
        return 77;
    }
    CHECK(threads >= 1 && threads <= MOST && !sched_getaffinity(0, sizeof cpus, &cpus));
    for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; cpu++) {
        if (found)
            CPU_CLR(cpu, &cpus);
        found |= CPU_ISSET(cpu, &cpus) != 0;
    }
    CHECK(!sched_setaffinity(0, sizeof cpus, &cpus));
    rounds = victim_flag(argc, argv, "-w") ? 0 : victim_option(argc, argv, "-n", 20000);
    for (long i = 1; i < threads; i++)
        CHECK(!pthread_create(&thread[i], NULL, add, &added[i]));
    if (!rounds)
        CHECK(!pthread_create(&waiter, NULL, wait_for_end, NULL));
    add(&added[0]);
    for (long i = 1; i < threads; i++)
        CHECK(!pthread_join(thread[i], NULL));
    for (long i = 0; i < threads; i++)
        all += added[i];
    for (int cpu = 0; cpu < CPUS; cpu++)
        counted += counters[cpu];
    fprintf(stderr, "added %ld of %ld\n", all, (long)counted);
    CHECK(all > 0 && (long)counted == all);
    return 0;
}
