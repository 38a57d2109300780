/* Threads that open and close things, each with a number that never comes again.
 *   v_keys [-t THREADS] [-n THINGS] [-k KEPT] [-w WORK] [-f]
 * Each thread opens so many, with at most KEPT open at a time, does so many steps of work after each, and closes all but its last 3. -f:
 * half of the threads belong to a forked child. Prints how many were opened and how many are still open. */
#include "victim.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_THREADS = 64, LEFT = 3 };

static uint32_t things, kept, steps;
static volatile uint32_t result;

TRACED uint64_t thing_open(uint32_t thread, uint32_t number)
{
    __asm__ volatile("" ::: "memory");
    return (uint64_t)thread << 32 | number;
}

TRACED void thing_close(uint32_t thread, uint32_t number)
{
    __asm__ volatile("" ::: "memory");
    (void)thread, (void)number;
}

static void *work(void *argument)
{
    uint32_t thread = (uint32_t)(uintptr_t)argument;
    uint32_t value = thread;
    for (uint32_t i = 0; i < things; i++) {
        thing_open(thread, i);
        for (uint32_t k = 0; k < steps; k++)
            value = mix(value, k);
        if (i + 1 >= kept)
            thing_close(thread, i + 1 - kept);
    }
    for (uint32_t i = things + 1 - kept; i + LEFT < things; i++)
        thing_close(thread, i);
    result = value;
    return NULL;
}

static void run(long first, long end)
{
    pthread_t thread[MAX_THREADS];
    for (long i = first; i < end; i++)
        CHECK(!pthread_create(&thread[i], NULL, work, (void *)i));
    for (long i = first; i < end; i++)
        pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
    long threads = victim_option(argc, argv, "-t", 4), own = threads;
    things = (uint32_t)victim_option(argc, argv, "-n", 100000);
    kept = (uint32_t)victim_option(argc, argv, "-k", 10);
    steps = (uint32_t)victim_option(argc, argv, "-w", 0);
    if (threads < 2 || threads > MAX_THREADS || kept < LEFT || kept > things)
        return 2;
    if (victim_flag(argc, argv, "-f"))
        own = threads / 2;
    pid_t child = own < threads ? fork() : 0;
    CHECK(child >= 0);
    if (own < threads && child == 0) {
        run(own, threads);
        _exit(0);
    }
    run(0, own);
    int status = 0;
    CHECK(!child || (waitpid(child, &status, 0) == child && status == 0));
    printf("opened %llu\nleft %ld\n", (unsigned long long)threads * things, threads * LEFT);
    return 0;
}
