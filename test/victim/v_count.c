/* Threads call five functions of different shapes and count what they do.
 *   v_count [-t THREADS] [-n CALLS] [-r ROUNDS] [-w] [--offsets]
 * -w waits before each round and after the last; --offsets prints one instruction inside each function as `f1 +0x12`, whose executions are printed
 * with the totals as `f1+mid N`. */
#include "victim.h"

#include <pthread.h>
#include <stdarg.h>

enum { FUNCS = 5, LOOPS = 4, DEPTH = 3 };

/* Pairs written by MID: the function's number and the offset of the marked instruction from its start. */
extern const uint32_t __start_mid_offsets[], __stop_mid_offsets[];
#define MID(number, function, instruction)                                                                                                 \
    "771: " instruction "\n\t.pushsection mid_offsets,\"a\"\n\t.long " #number ", 771b - " #function "\n\t.popsection"

struct totals {
    uint64_t calls[FUNCS];
    uint64_t mids[FUNCS];
    uint32_t sum;
};

static __thread struct totals mine;

TRACED uint32_t f1(uint32_t a);
TRACED uint32_t f2(uint32_t a, uint32_t b);
TRACED uint32_t f3(uint32_t a);
TRACED uint32_t f4(uint32_t depth);
TRACED uint32_t f5(uint32_t a, uint32_t b);
TRACED uint32_t f5_tail(uint32_t a, ...);

/* Saves registers with pushes, and calls. */
uint32_t f1(uint32_t a)
{
    uint32_t b = f5_tail(a, 3), c = f5_tail(a + b, 4), d = f5_tail(b ^ c, 5);
    mine.calls[0]++;
    __asm__ volatile(MID(1, f1, "add %1, %0") : "+r"(d) : "r"(c) : "cc");
    mine.mids[0]++;
    return a ^ b ^ d;
}

/* A leaf without a frame; its caller counts. */
uint32_t f2(uint32_t a, uint32_t b)
{
    uint32_t c = a + b;
    __asm__ volatile(MID(2, f2, "xor $0x5a5a, %0") : "+r"(c) : : "cc");
    return c;
}

uint32_t f3(uint32_t a)
{
    for (int i = 0; i < LOOPS; i++) {
        __asm__ volatile(MID(3, f3, "rol $5, %0") : "+r"(a) : : "cc");
        mine.mids[2]++;
        a += (uint32_t)i;
    }
    mine.calls[2]++;
    return a;
}

uint32_t f4(uint32_t depth)
{
    uint32_t result = 1;
    mine.calls[3]++;
    if (depth > 0)
        result = f4(depth - 1);
    __asm__ volatile(MID(4, f4, "not %0") : "+r"(result));
    mine.mids[3]++;
    return result + depth;
}

uint32_t f5_tail(uint32_t a, ...)
{
    va_list list;
    va_start(list, a);
    a = a * 2654435761u + va_arg(list, uint32_t);
    va_end(list);
    return a;
}

/* Ends in a tail jump to a variadic function. */
uint32_t f5(uint32_t a, uint32_t b)
{
    mine.calls[4]++;
    mine.mids[4]++;
    __asm__ volatile(MID(5, f5, "sub $7, %0") : "+r"(b) : : "cc");
    return f5_tail(b, a);
}

static uint64_t calls_per_thread;

static void *run(void *argument)
{
    uint32_t sum = (uint32_t)(uintptr_t)argument;
    for (uint64_t i = 0; i < calls_per_thread; i++) {
        sum = mix(sum, f1(sum));
        sum = mix(sum, f2(sum, (uint32_t)i));
        mine.calls[1]++;
        mine.mids[1]++;
        sum = mix(sum, f3(sum));
        sum = mix(sum, f4(DEPTH));
        sum = mix(sum, f5(sum, sum + 1));
    }
    mine.sum = sum;
    struct totals *result = malloc(sizeof *result);
    CHECK(result);
    *result = mine;
    return result;
}

static void print_offsets(void)
{
    uint32_t lowest[FUNCS] = {0};
    for (const uint32_t *at = __start_mid_offsets; at < __stop_mid_offsets; at += 2)
        if (!lowest[at[0] - 1])
            lowest[at[0] - 1] = at[1];
    for (int i = 0; i < FUNCS; i++)
        printf("f%d +0x%x\n", i + 1, lowest[i]);
}

static void run_round(long threads)
{
    pthread_t thread[256];
    struct totals all = {0};
    for (long i = 0; i < threads; i++)
        CHECK(!pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)(i + 1)));
    for (long i = 0; i < threads; i++) {
        struct totals *part;
        CHECK(!pthread_join(thread[i], (void **)&part));
        for (int f = 0; f < FUNCS; f++) {
            all.calls[f] += part->calls[f];
            all.mids[f] += part->mids[f];
        }
        all.sum = mix(all.sum, part->sum);
        free(part);
    }
    for (int f = 0; f < FUNCS; f++)
        printf("f%d %llu\n", f + 1, (unsigned long long)all.calls[f]);
    for (int f = 0; f < FUNCS; f++)
        printf("f%d+mid %llu\n", f + 1, (unsigned long long)all.mids[f]);
    printf("sum %08x\n", all.sum);
}

int main(int argc, char **argv)
{
    long threads = victim_option(argc, argv, "-t", 2);
    long rounds = victim_option(argc, argv, "-r", 1);
    int waits = victim_flag(argc, argv, "-w");
    CHECK(threads > 0 && threads <= 256);
    calls_per_thread = (uint64_t)victim_option(argc, argv, "-n", 1000);
    if (victim_flag(argc, argv, "--offsets")) {
        print_offsets();
        return 0;
    }
    for (long i = 0; i < rounds; i++) {
        if (waits)
            victim_wait();
        run_round(threads);
    }
    if (waits)
        victim_wait();
    return 0;
}
