/* Signals at a high rate whose handlers call the traced functions, with and without SA_SIGINFO, nested. Ends when the handlers have run
 * COUNT times; the calls made are on stderr.
 *   v_signals [-n COUNT] */
#include "victim.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t users, nested;
static volatile uint64_t main_calls, user_calls;
static int alarms, alarm_calls; /* alarms interrupt each other: one more is one instruction */
static long wanted;

TRACED uint32_t signal_work(uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < 4; i++)
        a = (a << 3) + (b ^ (a >> 5)) + i;
    return a;
}

TRACED uint32_t signal_leaf(uint32_t a)
{
    return a * 2654435761u + 17;
}

TRACED void on_user(int number)
{
    uint32_t sum = signal_leaf(signal_work((uint32_t)number, 5));
    CHECK(sum == signal_leaf(signal_work((uint32_t)number, 5)));
    user_calls += 2;
    users++;
}

TRACED void on_alarm(int number, siginfo_t *info, void *context)
{
    CHECK(info->si_signo == number && context);
    uint32_t sum = signal_work(3, 4);
    if (nested < 3) {
        nested++;
        raise(SIGUSR1);
        nested--;
    }
    CHECK(sum == signal_work(3, 4));
    __atomic_fetch_add(&alarm_calls, 2, __ATOMIC_RELAXED);
    __atomic_fetch_add(&alarms, 1, __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
    struct sigaction alarm_action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
    struct sigaction user_action = {.sa_handler = on_user, .sa_flags = SA_RESTART};
    struct itimerval period = {{0, 200}, {0, 200}};
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec user_period = {{0, 170000}, {0, 170000}};
    wanted = victim_option(argc, argv, "-n", 500);
    sigaction(SIGALRM, &alarm_action, NULL);
    sigaction(SIGUSR1, &user_action, NULL);
    setitimer(ITIMER_REAL, &period, NULL);
    CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
    timer_settime(timer, 0, &user_period, NULL);
    uint32_t expected = signal_leaf(signal_work(1, 2));
    main_calls++;
    while (__atomic_load_n(&alarms, __ATOMIC_RELAXED) < wanted || users < wanted) {
        for (int i = 0; i < 100; i++)
            CHECK(signal_leaf(signal_work(1, 2)) == expected);
        main_calls += 100;
    }
    memset(&period, 0, sizeof period);
    setitimer(ITIMER_REAL, &period, NULL);
    timer_delete(timer);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    fprintf(stderr, "signal_work %llu\nsignal_leaf %llu\non_user %llu\non_alarm %llu\n",
            (unsigned long long)(main_calls + (unsigned)alarm_calls + user_calls), (unsigned long long)(main_calls + user_calls),
            (unsigned long long)users, (unsigned long long)alarms);
    printf("handled %ld\nsum %08x\n", wanted, expected);
    return 0;
}
