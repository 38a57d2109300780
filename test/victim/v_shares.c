/* Threads that use the processor in two functions: 7 parts of 10 in mostly(), 3 in rarely().
 *   v_shares [-t THREADS] [-m MILLISECONDS] [-d FRAMES] [-w] [-f] [-s]
 * Each thread, named share0, share1, ..., uses so many milliseconds of processor time. A thread more, named sleeper, sleeps meanwhile. -f:
 * the threads belong to a forked child. -d: the work is done so many frames of 1 KB below the functions. -w: it waits for stdin before. -s:
 * nothing else is done. Prints the milliseconds of each function (of this process), and of all. */
#include "victim.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 64, PART = 100000 };

static uint64_t limit_ns, mostly_ns, rarely_ns;
static uint32_t seen;
static long frames;

static uint64_t used_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

TRACED uint32_t below(uint32_t value, int parts, long depth)
{
    volatile uint32_t room[256];
    room[0] = 1;
    if (depth > 1)
        return below(value, parts, depth - 1) + room[0];
    for (int i = 0; i < parts * PART; i++)
        value = mix(value, (uint32_t)i);
    return value + room[0];
}

TRACED uint32_t mostly(uint32_t value, int parts)
{
    if (frames)
        return below(value, parts, frames) + 1;
    for (int i = 0; i < parts * PART; i++)
        value = mix(value, (uint32_t)i);
    return value;
}

TRACED uint32_t rarely(uint32_t value, int parts)
{
    if (frames)
        return below(value, parts, frames) + 2;
    for (int i = 0; i < parts * PART; i++)
        value = mix(value, (uint32_t)i);
    return value;
}

static void *work(void *argument)
{
    char name[16];
    uint32_t value = 1;
    snprintf(name, sizeof name, "share%d", (int)(intptr_t)argument);
    prctl(PR_SET_NAME, name);
    for (uint64_t start = used_ns(), at = start; at - start < limit_ns;) {
        value = mostly(value, 7);
        uint64_t between = used_ns();
        value = rarely(value, 3);
        uint64_t end = used_ns();
        __atomic_add_fetch(&mostly_ns, between - at, __ATOMIC_RELAXED);
        __atomic_add_fetch(&rarely_ns, end - between, __ATOMIC_RELAXED);
        at = end;
    }
    __atomic_xor_fetch(&seen, value, __ATOMIC_RELAXED);
    return NULL;
}

static void *sleep_on(void *argument)
{
    prctl(PR_SET_NAME, "sleeper");
    for (;;)
        pause();
    return argument;
}

static void run(long threads)
{
    pthread_t thread[MAX_THREADS], sleeper;
    struct timespec all;
    CHECK(!pthread_create(&sleeper, NULL, sleep_on, NULL));
    for (long i = 0; i < threads; i++)
        CHECK(!pthread_create(&thread[i], NULL, work, (void *)i));
    for (long i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
    printf("mostly %llu\nrarely %llu\nall %llu\n", (unsigned long long)mostly_ns / 1000000, (unsigned long long)rarely_ns / 1000000,
           (unsigned long long)all.tv_sec * 1000 + (unsigned long long)all.tv_nsec / 1000000);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    long threads = victim_option(argc, argv, "-t", 3);
    frames = victim_option(argc, argv, "-d", 0);
    limit_ns = (uint64_t)victim_option(argc, argv, "-m", 500) * 1000000;
    if (threads < 1 || threads > MAX_THREADS)
        return 2;
    if (victim_flag(argc, argv, "-s")) {
        victim_wait();
        return 0;
    }
    if (victim_flag(argc, argv, "-w"))
        victim_wait();
    if (!victim_flag(argc, argv, "-f")) {
        run(threads);
        return 0;
    }
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        run(threads);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
