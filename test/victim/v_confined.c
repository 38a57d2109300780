/* Sets a seccomp filter, in one of the ways there are, that kills the process on any system call but those it makes itself: not even
 * restart_syscall and rt_sigreturn are allowed. Under it it works and sleeps, and checks that what it computes, what its calls answer and
 * how long they take is right.
 *   v_confined [-k KIND] [-s SLEEP] [-t THREADS] [-b]
 * KIND: 0 prctl(), 1 a system call with its number as a constant, 2 syscall() of prctl, 3 syscall() of seccomp, 4 another thread for all of
 * them, 5 strict mode, 6 a system call with its number in a register. SLEEP: 0 clock_nanosleep, 1 poll, 2 futex for a time, 3 futex until
 * a time, 4 none. -b: at once, else when a line has come. Prints `ready` before that line is waited for, and when the filter is there; ends
 * at the next line. */
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLEEP_NS = 30000000 };
enum { HOW_PRCTL, HOW_CONSTANT, HOW_SYSCALL_PRCTL, HOW_SYSCALL_SECCOMP, HOW_OTHER_THREAD, HOW_STRICT, HOW_REGISTER };
enum { SLEEP_CLOCK, SLEEP_POLL, SLEEP_FUTEX_FOR, SLEEP_FUTEX_UNTIL, SLEEP_NOT };

static long how, kind;
static volatile int is_wanted, is_set, is_over;
static uint32_t never;

TRACED uint32_t confined_work(uint32_t a, const char *text)
{
    return mix(a, (uint32_t)text[0]);
}

/* ---- ways to set it ---- */

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(SYS_read),
    ALLOW(SYS_write),
    ALLOW(SYS_exit_group),
    ALLOW(SYS_poll),
    ALLOW(SYS_futex),
    ALLOW(SYS_clock_nanosleep),
    ALLOW(SYS_clock_gettime),
#ifdef SYS_futex_time64
    ALLOW(SYS_futex_time64),
    ALLOW(SYS_clock_nanosleep_time64),
    ALLOW(SYS_clock_gettime64),
#endif
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

#ifdef __x86_64__
#define CALL "syscall"
#define FIRST "D"
#define SECOND "S"
#define THIRD "d"
#else
#define CALL "int $0x80"
#define FIRST "b"
#define SECOND "c"
#define THIRD "d"
#endif

static __attribute__((noipa)) long call_by_constant(long a, long b, const void *c)
{
    long result;
    __asm__ volatile("mov %1,%%eax\n" CALL
                     : "=&a"(result)
                     : "i"(SYS_seccomp), FIRST(a), SECOND(b), THIRD(c)
                     : "memory"
#ifdef __x86_64__
                       ,
                       "rcx", "r11"
#endif
    );
    return result;
}

static __attribute__((noipa)) long call_by_register(long number, long a, long b, const void *c)
{
    long result;
    __asm__ volatile(CALL
                     : "=a"(result)
                     : "a"(number), FIRST(a), SECOND(b), THIRD(c)
                     : "memory"
#ifdef __x86_64__
                       ,
                       "rcx", "r11"
#endif
    );
    return result;
}

static void set_filter(void)
{
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    switch (how) {
    case HOW_PRCTL:
        CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
        break;
    case HOW_CONSTANT:
        CHECK(!call_by_constant(SECCOMP_SET_MODE_FILTER, 0, &program));
        break;
    case HOW_SYSCALL_PRCTL:
        CHECK(!syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
        break;
    case HOW_SYSCALL_SECCOMP:
        CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
        break;
    case HOW_OTHER_THREAD:
        is_wanted = 1;
        while (!is_set)
            ;
        break;
    case HOW_STRICT:
        CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0));
        break;
    case HOW_REGISTER:
        CHECK(!call_by_register(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
        break;
    }
}

static void *set_for_all(void *unused)
{
    while (!is_wanted)
        usleep(1000);
    CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
    is_set = 1;
    for (;;)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = 1}, NULL);
    return unused;
}

/* ---- what is done under it ---- */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void wait_at_futex(int operation, int64_t until_ns)
{
    long timeout[2] = {until_ns / 1000000000, until_ns % 1000000000};
    CHECK(syscall(SYS_futex, &never, operation, 0, timeout, NULL, FUTEX_BITSET_MATCH_ANY) == -1 && errno == ETIMEDOUT);
}

static void sleep_once(void)
{
    if (kind == SLEEP_NOT)
        return; /* strict mode also takes the TSC away */
    int64_t start_ns = now_ns();
    switch (kind) {
    case SLEEP_CLOCK:
        CHECK(!clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = SLEEP_NS}, NULL));
        break;
    case SLEEP_POLL:
        CHECK(!poll(NULL, 0, SLEEP_NS / 1000000));
        break;
    case SLEEP_FUTEX_FOR:
        wait_at_futex(FUTEX_WAIT, SLEEP_NS);
        break;
    case SLEEP_FUTEX_UNTIL:
        wait_at_futex(FUTEX_WAIT_BITSET, start_ns + SLEEP_NS);
        break;
    }
    CHECK(now_ns() - start_ns >= SLEEP_NS);
}

static uint32_t work(uint32_t sum, uint32_t *rounds)
{
    static const char text[] = "text";
    uint32_t expected = sum;
    for (int i = 0; i < 100; i++)
        sum = confined_work(sum, text), expected = mix(expected, (uint32_t)text[0]);
    CHECK(sum == expected);
    sleep_once();
    (*rounds)++;
    return sum;
}

static void *work_on(void *unused)
{
    uint32_t sum = 2, rounds = 0;
    while (!is_over)
        sum = work(sum, &rounds);
    for (;;)
        sleep_once();
    return unused;
}

/* stdin does not block. */
static bool line_has_come(void)
{
    char byte;
    return read(0, &byte, 1) >= 0;
}

static void say_ready(void)
{
    CHECK(write(1, "ready\n", 6) == 6);
}

int main(int argc, char **argv)
{
    long threads = victim_option(argc, argv, "-t", 0);
    pthread_t thread;
    uint32_t sum = 1, rounds = 0;
    char line[64];
    how = victim_option(argc, argv, "-k", HOW_PRCTL);
    kind = how == HOW_STRICT ? SLEEP_NOT : victim_option(argc, argv, "-s", SLEEP_CLOCK);
    fcntl(0, F_SETFL, O_NONBLOCK);
    for (long i = 0; i < threads; i++)
        CHECK(!pthread_create(&thread, NULL, work_on, NULL));
    if (how == HOW_OTHER_THREAD)
        CHECK(!pthread_create(&thread, NULL, set_for_all, NULL));
    if (!victim_flag(argc, argv, "-b")) {
        say_ready();
        while (!line_has_come())
            sum = work(sum, &rounds);
    }
    set_filter();
    say_ready();
    while (!line_has_come())
        sum = work(sum, &rounds);
    is_over = 1;
    int length = snprintf(line, sizeof line, "%u rounds are right\n", rounds);
    CHECK(write(1, line, (size_t)length) == length);
    if (how == HOW_STRICT)
        syscall(SYS_exit, 0);
    _exit(0);
}
