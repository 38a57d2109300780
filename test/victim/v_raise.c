/* Threads that send themselves signals, and check that each has been handled when the call that sent it returns; and one that is sent some
 * by another thread, none of which may be missing. v_raise        runs until stdin ends, then prints `ok` */
#include "victim.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static _Thread_local volatile unsigned handled;
static atomic_uint answered;
static atomic_int stop;

TRACED void on_raise(int number)
{
    (void)number;
    handled++;
}

TRACED void on_call(int number)
{
    (void)number;
    answered++;
}

TRACED unsigned raised(unsigned before)
{
    CHECK(!raise(SIGUSR1));
    return handled - before;
}

static void *raise_on(void *unused)
{
    while (!stop)
        CHECK(raised(handled) == 1);
    return unused;
}

static void *be_called(void *unused)
{
    for (volatile uint32_t sum = 0; !stop;)
        sum = mix(sum, 1);
    return unused;
}

/* One at a time: the next is sent when the last was handled. */
static void *call_on(void *called)
{
    for (unsigned sent = 1; !stop; sent++) {
        CHECK(!pthread_kill(*(pthread_t *)called, SIGUSR2));
        for (long rounds = 0; answered != sent && !stop; rounds++) {
            CHECK(rounds < 600000); /* a minute */
            usleep(100);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t thread[4];
    CHECK(signal(SIGUSR1, on_raise) != SIG_ERR && signal(SIGUSR2, on_call) != SIG_ERR);
    CHECK(!pthread_create(&thread[0], NULL, be_called, NULL) && !pthread_create(&thread[1], NULL, call_on, &thread[0]));
    for (int i = 2; i < 4; i++)
        CHECK(!pthread_create(&thread[i], NULL, raise_on, NULL));
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0 || errno == EINTR)
        errno = 0;
    stop = 1;
    for (int i = 0; i < 4; i++)
        CHECK(!pthread_join(thread[i], NULL));
    puts("ok");
    return 0;
}
