/* Takes and gives back, in two threads that take turns, so that it is known what either does while a call of the other is open.
 *   v_gives [-n ROUNDS]
 * In each round outer() takes 100, has the other thread's second() take 7 while it is open, gives 40 back, and moves 5 down and 2 up. */
#include "victim.h"

#include <pthread.h>
#include <semaphore.h>

static long rounds;
static sem_t to_second, to_first;
static volatile long sum;

TRACED void take(unsigned units)
{
    sum += units;
}

TRACED void give(unsigned units)
{
    sum -= units;
}

TRACED void move_by(int units)
{
    sum += units;
}

TRACED void second(void)
{
    take(7);
    sum++;
}

TRACED void outer(void)
{
    take(100);
    sem_post(&to_second);
    sem_wait(&to_first);
    give(40);
    move_by(-5);
    move_by(2);
    sum++;
}

static void *run_second(void *nothing)
{
    (void)nothing;
    for (long i = 0; i < rounds; i++) {
        sem_wait(&to_second);
        second();
        sem_post(&to_first);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    rounds = victim_option(argc, argv, "-n", 100);
    sem_init(&to_second, 0, 0);
    sem_init(&to_first, 0, 0);
    if (pthread_create(&thread, NULL, run_second, NULL))
        return 1;
    for (long i = 0; i < rounds; i++)
        outer();
    pthread_join(thread, NULL);
    printf("%ld\n", sum);
    return 0;
}
