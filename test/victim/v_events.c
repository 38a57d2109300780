/* Threads that announce numbered events.
 *   v_events [-t THREADS] [-n EVENTS]
 * Each thread calls event(thread, number) with numbers from 0 on. Prints how many calls there were and the sum of all numbers. */
#include "victim.h"

#include <pthread.h>

enum { MAX_THREADS = 64 };

static uint32_t events;

TRACED uint32_t event(uint32_t thread, uint32_t number)
{
    __asm__ volatile("" ::: "memory");
    return thread + number;
}

static void *announce(void *argument)
{
    uint32_t thread = (uint32_t)(uintptr_t)argument, sum = 0;
    for (uint32_t i = 0; i < events; i++)
        sum += event(thread, i);
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
    long threads = victim_option(argc, argv, "-t", 8);
    pthread_t thread[MAX_THREADS];
    events = (uint32_t)victim_option(argc, argv, "-n", 1000);
    if (threads < 1 || threads > MAX_THREADS)
        return 2;
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, announce, (void *)i))
            return 1;
    for (long i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    printf("event %llu\n", (unsigned long long)threads * (unsigned long long)events);
    printf("sum %llu\n", (unsigned long long)threads * (unsigned long long)events * ((unsigned long long)events - 1) / 2);
    return 0;
}
