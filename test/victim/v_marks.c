/* Many ways to get to mark(), with and without frame pointers, the same in every round.
 *   v_marks [-r ROUNDS] [-w] [-t THREADS] [-n CALLS] */
#include "victim.h"

#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static uint64_t marks;
static uint32_t sum;

TRACED void mark(uint32_t where)
{
    __atomic_add_fetch(&marks, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum, mix(where, 1), __ATOMIC_RELAXED);
}

TRACED uint32_t inner(uint32_t where)
{
    mark(where);
    return where + 1;
}

TRACED uint32_t outer(uint32_t where)
{
    return inner(where) * 3;
}

TRACED uint32_t recurse(uint32_t depth)
{
    uint32_t below = depth ? recurse(depth - 1) : outer(100);
    __asm__ volatile("" : "+r"(below));
    return below + depth;
}

TRACED uint32_t tail(uint32_t where)
{
    mark(where);
    __asm__ volatile("");
    return inner(where); /* a jump */
}

TRACED uint32_t with_alloca(uint32_t bytes)
{
    volatile char *room = alloca(bytes);
    room[0] = (char)bytes;
    return outer(bytes) + (uint32_t)room[0];
}

TRACED uint32_t with_alignment(uint32_t where)
{
    uint32_t aligned[16] __attribute__((aligned(64)));
    __asm__ volatile("" : : "r"(aligned) : "memory");
    aligned[0] = outer(where);
    return aligned[0] + (((uintptr_t)aligned & 63) == 0);
}

TRACED uint32_t large(uint32_t where)
{
    volatile char room[40000];
    room[where] = 1;
    return outer(where) + (uint32_t)room[where];
}

TRACED int compare(const void *a, const void *b)
{
    mark(7);
    return *(const int *)a - *(const int *)b;
}

TRACED void through_libc(void)
{
    int list[] = {3, 1, 2};
    qsort(list, 3, sizeof *list, compare);
    CHECK(list[0] == 1 && list[2] == 3);
}

TRACED void on_plain(int number)
{
    outer((uint32_t)number);
}

TRACED void on_alternate(int number, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    outer((uint32_t)number);
}

TRACED void interrupted(int number)
{
    CHECK(!raise(number));
}

TRACED void *in_thread(void *argument)
{
    outer((uint32_t)(uintptr_t)argument);
    return NULL;
}

TRACED void start_thread(void)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, in_thread, (void *)(uintptr_t)9) && !pthread_join(thread, NULL));
}

static void one_round(void)
{
    outer(1);
    recurse(40);
    recurse(300);
    tail(2);
    for (uint32_t i = 16; i < 4096; i *= 3)
        with_alloca(i);
    with_alignment(3);
    large(4);
    through_libc();
    interrupted(SIGUSR1);
    interrupted(SIGUSR2);
    start_thread();
}

static void *many(void *argument)
{
    for (long i = 0; i < (long)(intptr_t)argument; i++)
        i % 2 ? recurse((uint32_t)i % 5) : outer(5);
    return NULL;
}

int main(int argc, char **argv)
{
    long rounds = victim_option(argc, argv, "-r", 1), threads = victim_option(argc, argv, "-t", 0),
         calls = victim_option(argc, argv, "-n", 0);
    int waits = victim_flag(argc, argv, "-w");
    struct sigaction plain = {.sa_handler = on_plain}, alternate = {.sa_sigaction = on_alternate, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    pthread_t thread[64];
    CHECK(!sigaltstack(&stack, NULL) && !sigaction(SIGUSR1, &plain, NULL) && !sigaction(SIGUSR2, &alternate, NULL) && threads <= 64);
    for (long i = 0; i < rounds; i++) {
        if (waits)
            victim_wait();
        one_round();
    }
    for (long i = 0; i < threads; i++)
        CHECK(!pthread_create(&thread[i], NULL, many, (void *)(intptr_t)calls));
    for (long i = 0; i < threads; i++)
        CHECK(!pthread_join(thread[i], NULL));
    printf("mark %llu\nsum %08x\n", (unsigned long long)marks, sum);
    if (waits)
        victim_wait();
    return 0;
}
