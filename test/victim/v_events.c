/* Threads that announce numbered events.
 *   v_events [-t THREADS] [-n EVENTS] [-s EVENTS]
 * Each thread calls event(thread, number) with numbers from 0 on; with -s it sleeps after each so many. Prints how many calls there were
 * and the sum of all numbers. */
#include "victim.h"

#include <pthread.h>
#include <unistd.h>

enum { MAX_THREADS = 2000, SMALL_STACK = 64 << 10 };

static uint32_t events, sleeps_after;

TRACED uint32_t event(uint32_t thread, uint32_t number)
{
    __asm__ volatile("" ::: "memory");
    return thread + number;
}

static void *announce(void *argument)
{
    uint32_t thread = (uint32_t)(uintptr_t)argument, sum = 0;
    for (uint32_t i = 0; i < events; i++) {
        sum += event(thread, i);
        if (sleeps_after && i % sleeps_after == sleeps_after - 1)
            usleep(20000);
    }
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
    long threads = victim_option(argc, argv, "-t", 8);
    pthread_t thread[MAX_THREADS];
    events = (uint32_t)victim_option(argc, argv, "-n", 1000);
    sleeps_after = (uint32_t)victim_option(argc, argv, "-s", 0);
    if (threads < 1 || threads > MAX_THREADS)
        return 2;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (threads > 64)
        pthread_attr_setstacksize(&attributes, SMALL_STACK);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread[i], &attributes, announce, (void *)i))
            return 1;
    for (long i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    printf("event %llu\n", (unsigned long long)threads * (unsigned long long)events);
    printf("sum %llu\n", (unsigned long long)threads * (unsigned long long)events * ((unsigned long long)events - 1) / 2);
    return 0;
}
