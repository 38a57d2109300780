/* Eight busy threads in system calls that a careless tracer disturbs. Every return value and every timeout is checked: an unexpected EINTR,
 * a wrong result or a wait that ended early prints a line and exits 1. Runs until stdin gives a line or ends, then prints `ok`. */
#include "victim.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { TIMEOUT_MS = 2 };

static atomic_int stop;

static void wrong(const char *what, long result)
{
    printf("wrong: %s returned %ld (%s)\n", what, result, strerror(errno));
    fflush(stdout);
    _Exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

TRACED uint32_t storm_leaf(uint32_t a, uint32_t b)
{
    return (a ^ b) * 2654435761u;
}

TRACED uint32_t storm_loop(uint32_t rounds)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < rounds; i++)
        sum = storm_leaf(sum, i) + (sum >> 7);
    return sum;
}

TRACED int storm_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Computes the same number each time. */
TRACED uint32_t storm_work(void)
{
    uint32_t values[64];
    for (uint32_t i = 0; i < 64; i++)
        values[i] = storm_loop(i);
    qsort(values, 64, sizeof values[0], storm_compare);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 64; i++)
        sum = mix(sum, values[i]);
    return sum;
}

static uint32_t expected_work;

static void work(void)
{
    uint32_t sum = storm_work();
    if (sum != expected_work)
        wrong("storm_work", (long)sum);
}

/* Waits can only be late, never early; the kernel rounds timeouts in milliseconds up. */
static void check_late(const char *what, int64_t start_ns, int64_t timeout_ns)
{
    if (now_ns() - start_ns < timeout_ns - 1000000)
        wrong(what, (long)(now_ns() - start_ns));
}

static void *run_epoll(void *unused)
{
    (void)unused;
    int epoll = epoll_create1(0), event = eventfd(0, 0);
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = 77}, got;
    CHECK(epoll >= 0 && event >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted));
    while (!stop) {
        uint64_t one = 1;
        int64_t start_ns = now_ns();
        int result = epoll_wait(epoll, &got, 1, TIMEOUT_MS);
        if (result != 0)
            wrong("epoll_wait", result);
        check_late("epoll_wait", start_ns, TIMEOUT_MS * 1000000);
        CHECK(write(event, &one, 8) == 8);
        result = epoll_wait(epoll, &got, 1, -1);
        if (result != 1 || got.data.u32 != 77)
            wrong("epoll_wait with an event", result);
        CHECK(read(event, &one, 8) == 8);
        work();
    }
    return NULL;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;
static int ping[2], pong[2];

static void *run_pair(void *argument)
{
    int me = argument != NULL;
    char byte = 0;
    for (uint32_t round = 0;; round++) {
        pthread_mutex_lock(&lock);
        while (turn != me) {
            int result = pthread_cond_wait(&changed, &lock);
            if (result)
                wrong("pthread_cond_wait", result);
        }
        turn = !me;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        byte = (char)round;
        ssize_t result = me ? read(ping[0], &byte, 1) : write(ping[1], &byte, 1);
        if (result != 1 || byte != (char)round)
            wrong("pipe", result);
        byte = (char)(round & 1 ? 1 : stop != 0);
        result = me ? write(pong[1], &byte, 1) : read(pong[0], &byte, 1);
        if (result != 1)
            wrong("pipe back", result);
        if (!(round & 1) && byte)
            return NULL;
        work();
    }
}

static void *run_timerfd(void *unused)
{
    (void)unused;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec period = {{0, 1000000}, {0, 1000000}};
    CHECK(timer >= 0 && !timerfd_settime(timer, 0, &period, NULL));
    while (!stop) {
        uint64_t count;
        ssize_t result = read(timer, &count, 8);
        if (result != 8 || count == 0)
            wrong("read of a timerfd", result);
        work();
    }
    return NULL;
}

static void *run_sigtimedwait(void *unused)
{
    (void)unused;
    sigset_t set;
    siginfo_t info;
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 3};
    struct timespec timeout = {0, TIMEOUT_MS * 1000000};
    struct itimerspec once = {{0, 0}, {0, 500000}};
    event._sigev_un._tid = (int)syscall(SYS_gettid);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
    while (!stop) {
        int64_t start_ns = now_ns();
        int result = sigtimedwait(&set, &info, &timeout);
        if (result != -1 || errno != EAGAIN)
            wrong("sigtimedwait without a signal", result);
        check_late("sigtimedwait", start_ns, timeout.tv_nsec);
        CHECK(!timer_settime(timer, 0, &once, NULL));
        result = sigwaitinfo(&set, &info);
        if (result != SIGRTMIN + 3)
            wrong("sigwaitinfo", result);
        work();
    }
    return NULL;
}

static void *run_poll(void *unused)
{
    (void)unused;
    struct pollfd wanted = {.fd = eventfd(0, 0), .events = POLLIN};
    struct timespec pause = {0, TIMEOUT_MS * 1000000};
    while (!stop) {
        int64_t start_ns = now_ns();
        int result = poll(&wanted, 1, TIMEOUT_MS);
        if (result != 0)
            wrong("poll", result);
        check_late("poll", start_ns, pause.tv_nsec);
        start_ns = now_ns();
        result = nanosleep(&pause, NULL);
        if (result != 0)
            wrong("nanosleep", result);
        check_late("nanosleep", start_ns, pause.tv_nsec);
        result = clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        if (result != 0)
            wrong("clock_nanosleep", result);
        work();
    }
    return NULL;
}

static void *run_semtimedop(void *unused)
{
    (void)unused;
    int semaphore = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf take = {0, -1, 0}, give = {0, 1, 0};
    struct timespec timeout = {0, TIMEOUT_MS * 1000000};
    CHECK(semaphore >= 0);
    while (!stop) {
        int64_t start_ns = now_ns();
        int result = semtimedop(semaphore, &take, 1, &timeout);
        if (result != -1 || errno != EAGAIN)
            wrong("semtimedop", result);
        check_late("semtimedop", start_ns, timeout.tv_nsec);
        CHECK(!semop(semaphore, &give, 1));
        result = semtimedop(semaphore, &take, 1, &timeout);
        if (result != 0)
            wrong("semtimedop of a free semaphore", result);
        work();
    }
    semctl(semaphore, 0, IPC_RMID);
    return NULL;
}

static void *run_recv(void *unused)
{
    (void)unused;
    int pair[2];
    struct timeval timeout = {0, TIMEOUT_MS * 1000};
    char byte = 0;
    CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    CHECK(!setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout));
    while (!stop) {
        ssize_t result = recv(pair[0], &byte, 1, 0);
        if (result != -1 || errno != EAGAIN)
            wrong("recv with a timeout", result);
        CHECK(send(pair[1], "x", 1, 0) == 1);
        result = recv(pair[0], &byte, 1, 0);
        if (result != 1 || byte != 'x')
            wrong("recv", result);
        work();
    }
    return NULL;
}

int main(void)
{
    static void *(*const body[8])(void *) = {run_epoll,        run_pair, run_pair,       run_timerfd,
                                             run_sigtimedwait, run_poll, run_semtimedop, run_recv};
    pthread_t thread[8];
    sigset_t set;
    char byte;
    expected_work = storm_work();
    CHECK(!pipe(ping) && !pipe(pong));
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 8; i++)
        CHECK(!pthread_create(&thread[i], NULL, body[i], i == 2 ? &turn : NULL));
    puts("ready");
    fflush(stdout);
    ssize_t result = read(0, &byte, 1);
    if (result < 0)
        wrong("read of stdin", result);
    stop = 1;
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    puts("ok");
    return 0;
}
