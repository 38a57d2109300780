/* Threads that block every signal call functions in a loop. tiny1 to tiny3 are one byte each, and no padding lies within reach of a short
 * jump: they can only take a trap.
 *   v_blocked [-t THREADS] [-n CALLS] [-w] */
#include "victim.h"

#include <pthread.h>
#include <signal.h>

void tiny1(void);
void tiny2(void);
void tiny3(void);
__asm__(".text\n"
        ".globl tiny_before, tiny1, tiny2, tiny3, tiny_after\n"
        ".type tiny_before,@function\n.type tiny1,@function\n.type tiny2,@function\n.type tiny3,@function\n.type tiny_after,@function\n"
        "tiny_before: .rept 100\n test %eax, %eax\n .endr\n ret\n .size tiny_before, . - tiny_before\n"
        "tiny1: ret\n .size tiny1, 1\n"
        "tiny2: ret\n .size tiny2, 1\n"
        "tiny3: ret\n .size tiny3, 1\n"
        "tiny_after: .rept 100\n test %eax, %eax\n .endr\n ret\n .size tiny_after, . - tiny_after\n");

TRACED uint32_t blocked_work(uint32_t a)
{
    for (int i = 0; i < 3; i++)
        a = mix(a, (uint32_t)i);
    return a;
}

static long calls;

static void *run(void *argument)
{
    uint32_t sum = (uint32_t)(uintptr_t)argument;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (long i = 0; i < calls; i++) {
        sum = blocked_work(sum);
        tiny1();
        tiny2();
        tiny3();
    }
    sigset_t after;
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    CHECK(sigismember(&after, SIGTRAP) == 1 && sigismember(&after, SIGUSR1) == 1);
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
    long threads = victim_option(argc, argv, "-t", 4);
    int waits = victim_flag(argc, argv, "-w");
    pthread_t thread[64];
    uint32_t sum = 0;
    calls = victim_option(argc, argv, "-n", 2000);
    CHECK(threads > 0 && threads <= 64);
    if (waits)
        victim_wait();
    for (long i = 0; i < threads; i++)
        CHECK(!pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)(i + 1)));
    for (long i = 0; i < threads; i++) {
        void *part;
        CHECK(!pthread_join(thread[i], &part));
        sum = mix(sum, (uint32_t)(uintptr_t)part);
    }
    printf("blocked_work %ld\ntiny1 %ld\ntiny2 %ld\ntiny3 %ld\nsum %08x\n", threads * calls, threads * calls, threads * calls,
           threads * calls, sum);
    if (waits)
        victim_wait();
    return 0;
}
