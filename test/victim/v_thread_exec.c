/* Executes itself again and again, in a thread that is not the first, while others wait: each time, all the others end and that thread
 * takes the id of the first. Writes a byte to stdout each time. v_thread_exec MICROSECONDS   it does so at some time up to so long after it
 * has begun */
#include "victim.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

static char **arguments;

static void *execute(void *unused)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    usleep(mix((uint32_t)now.tv_nsec, 1) % (uint32_t)atol(arguments[1]));
    execv("/proc/self/exe", arguments);
    CHECK(!"execv");
    return unused;
}

static void *idle(void *unused)
{
    for (;;)
        pause();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    CHECK(argc == 2);
    arguments = argv;
    CHECK(write(1, ".", 1) == 1);
    for (int i = 0; i < 4; i++)
        CHECK(!pthread_create(&thread, NULL, i < 3 ? idle : execute, NULL));
    idle(NULL);
}
