/* Threads that run and wait in known ways:
 *   v_waits [-m MILLISECONDS] [-s SWITCHES] [-l] [-q]
 * After a line of stdin: `worker` runs so long, `sleeper` sleeps so long at once in nap() and then a millisecond in doze(), `ticker` sleeps
 * a third of it in pieces of a millisecond in doze(), and a child executes this program again with -q, which names itself `executed` and
 * ends with 7. -s: nothing but two threads, `ping` and `pong`, that hand a byte to and fro so often; -l: pong is started after the line of
 * stdin. Each thread prints `thread NAME TID START-NS END-NS RUN-NS DELAY-NS`, where DELAY-NS is how long it could have run while others
 * did, as the kernel says, and what calls nap() and doze() are told where they return to: `back NAME ADDRESS`. */
#include "victim.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t limit_ns;
static long switches;
static int there[2], here[2];

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    CHECK(!nanosleep(&time, NULL));
}

TRACED void *nap(uint64_t ns)
{
    sleep_ns(ns);
    return __builtin_return_address(0);
}

TRACED void *doze(uint64_t ns)
{
    sleep_ns(ns);
    return __builtin_return_address(0);
}

static unsigned long long delay_ns(void)
{
    unsigned long long run_ns, delay_ns = 0;
    FILE *in = fopen("/proc/thread-self/schedstat", "re");
    CHECK(in && fscanf(in, "%llu %llu", &run_ns, &delay_ns) == 2);
    fclose(in);
    return delay_ns;
}

static void report(const char *name, uint64_t start_ns)
{
    char line[128];
    unsigned long long end_ns = read_clock(CLOCK_MONOTONIC), run_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
    int length = snprintf(line, sizeof line, "thread %s %ld %llu %llu %llu %llu\n", name, syscall(SYS_gettid), (unsigned long long)start_ns,
                          end_ns, run_ns, delay_ns());
    CHECK(write(1, line, (size_t)length) == length);
}

static void tell_back(const char *name, void *address)
{
    char line[64];
    int length = snprintf(line, sizeof line, "back %s %llu\n", name, (unsigned long long)(uintptr_t)address);
    CHECK(write(1, line, (size_t)length) == length);
}

static void *work(void *argument)
{
    uint64_t start_ns = read_clock(CLOCK_MONOTONIC);
    volatile uint32_t value = 1;
    prctl(PR_SET_NAME, "worker");
    while (read_clock(CLOCK_THREAD_CPUTIME_ID) < limit_ns)
        for (int i = 0; i < 10000; i++)
            value = mix(value, (uint32_t)i);
    report("worker", start_ns);
    return argument;
}

static void *sleep_once(void *argument)
{
    uint64_t start_ns = read_clock(CLOCK_MONOTONIC);
    prctl(PR_SET_NAME, "sleeper");
    tell_back("nap", nap(limit_ns));
    doze(1000000);
    report("sleeper", start_ns);
    return argument;
}

static void *tick(void *argument)
{
    uint64_t start_ns = read_clock(CLOCK_MONOTONIC);
    void *back = NULL;
    prctl(PR_SET_NAME, "ticker");
    for (uint64_t slept_ns = 0; slept_ns < limit_ns / 3; slept_ns += 1000000)
        back = doze(1000000);
    tell_back("doze", back);
    report("ticker", start_ns);
    return argument;
}

static void *answer(void *argument)
{
    uint64_t start_ns = read_clock(CLOCK_MONOTONIC);
    char byte;
    prctl(PR_SET_NAME, "pong");
    for (long i = 0; i < switches; i++)
        CHECK(read(there[0], &byte, 1) == 1 && write(here[1], &byte, 1) == 1);
    report("pong", start_ns);
    return argument;
}

static void ping_pong(int is_late)
{
    uint64_t start_ns = read_clock(CLOCK_MONOTONIC);
    pthread_t thread;
    char byte = 0;
    CHECK(!pipe(there) && !pipe(here) && (is_late || !pthread_create(&thread, NULL, answer, NULL)));
    victim_wait();
    CHECK(!is_late || !pthread_create(&thread, NULL, answer, NULL));
    prctl(PR_SET_NAME, "ping");
    for (long i = 0; i < switches; i++)
        CHECK(write(there[1], &byte, 1) == 1 && read(here[0], &byte, 1) == 1);
    pthread_join(thread, NULL);
    report("ping", start_ns);
}

int main(int argc, char **argv)
{
    limit_ns = (uint64_t)victim_option(argc, argv, "-m", 500) * 1000000;
    switches = victim_option(argc, argv, "-s", 0);
    if (victim_flag(argc, argv, "-q")) {
        prctl(PR_SET_NAME, "executed");
        return 7;
    }
    if (switches) {
        ping_pong(victim_flag(argc, argv, "-l"));
        return 0;
    }
    victim_wait();
    void *(*const body[])(void *) = {work, sleep_once, tick};
    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_create(&thread[i], NULL, body[i], NULL));
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        execl("/proc/self/exe", "v_waits", "-q", (char *)NULL);
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    printf("child %d\n", (int)child);
    return 0;
}
