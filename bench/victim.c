/* Calls one function in a tight loop and prints the nanoseconds of CPU time per call: the median over blocks and threads.
 *   victim push|lea|deep THREADS CALLS
 * push begins with `push`, lea with `lea`: kernel uprobes treat them very differently. deep is called by ten others, all with frame
 * pointers, so that every tool finds its callers. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 20, MAX_THREADS = 64 };

typedef uint32_t bench_fn(uint32_t a);
bench_fn bench_push, bench_lea;
#ifdef __i386__
__asm__(".text\n.p2align 5\n.globl bench_push\n.type bench_push,@function\n"
        "bench_push: push %ebx\n mov 8(%esp), %ebx\n lea 1(%ebx), %eax\n imul $3, %eax, %eax\n pop %ebx\n ret\n"
        ".size bench_push, . - bench_push\n"
        ".p2align 5\n.globl bench_lea\n.type bench_lea,@function\n"
        "bench_lea: lea 4(%esp), %eax\n mov (%eax), %eax\n imul $3, %eax, %eax\n ret\n.size bench_lea, . - bench_lea\n.p2align 5\n");
#else
__asm__(
    ".text\n.p2align 5\n.globl bench_push\n.type bench_push,@function\n"
    "bench_push: push %rbx\n mov %edi, %ebx\n lea 1(%rbx), %eax\n imul $3, %eax, %eax\n pop %rbx\n ret\n.size bench_push, . - bench_push\n"
    ".p2align 5\n.globl bench_lea\n.type bench_lea,@function\n"
    "bench_lea: lea 1(%rdi), %eax\n imul $3, %eax, %eax\n xor $5, %eax\n ret\n.size bench_lea, . - bench_lea\n.p2align 5\n");
#endif

enum { DEPTH = 10 };

#define FRAMED __attribute__((noipa, optimize("no-omit-frame-pointer")))
bench_fn bench_deep;
FRAMED uint32_t bench_deep(uint32_t a)
{
    __asm__ volatile("");
    return (a + 1) * 3;
}

FRAMED static uint32_t descend(uint32_t a, int depth)
{
    uint32_t below = depth ? descend(a, depth - 1) : bench_deep(a);
    __asm__ volatile("" : "+r"(below));
    return below + 1;
}

FRAMED static uint32_t from_above(uint32_t a)
{
    return descend(a, DEPTH - 2) + 1;
}

static bench_fn *function;
static long calls;
static double results[MAX_THREADS * BLOCKS];

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *run(void *argument)
{
    double *result = argument;
    long block = calls / BLOCKS;
    uint32_t sum = 0;
    for (int b = 0; b < BLOCKS; b++) {
        double start = cpu_ns();
        for (long i = 0; i < block; i++)
            sum += function(sum);
        result[b] = (cpu_ns() - start) / (double)block;
    }
    return (void *)(uintptr_t)sum;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    pthread_t thread[MAX_THREADS];
    if (argc != 4)
        return 2;
    long threads = atol(argv[2]);
    function = !strcmp(argv[1], "push") ? bench_push : !strcmp(argv[1], "lea") ? bench_lea : from_above;
    calls = atol(argv[3]);
    if (threads < 1 || threads > MAX_THREADS || calls < BLOCKS)
        return 2;
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, run, &results[i * BLOCKS]))
            return 1;
    for (long i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    qsort(results, (size_t)(threads * BLOCKS), sizeof results[0], compare);
    printf("ns %.3f\n", results[threads * BLOCKS / 2]);
    return 0;
}
