/* siglongjmp out of signal handlers that interrupted traced functions; also a plain setjmp taken inside a handler. */
#include "victim.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf back;
static volatile sig_atomic_t armed, jumps, inner_jumps;

TRACED uint32_t jump_leaf(uint32_t a)
{
    return a * 2654435761u + 17;
}

TRACED uint32_t jump_work(uint32_t a)
{
    for (uint32_t i = 0; i < 8; i++)
        a = jump_leaf(a) ^ i;
    return a;
}

TRACED void on_alarm(int number)
{
    jmp_buf inner;
    (void)number;
    if (!setjmp(inner))
        longjmp(inner, 1);
    inner_jumps++;
    if (armed) {
        armed = 0;
        siglongjmp(back, 1);
    }
}

int main(int argc, char **argv)
{
    volatile long wanted = victim_option(argc, argv, "-n", 500);
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval period = {{0, 300}, {0, 300}};
    uint32_t expected = jump_work(1);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &period, NULL);
    while (jumps < wanted) {
        if (sigsetjmp(back, 1)) {
            jumps++;
            continue;
        }
        armed = 1;
        for (;;)
            CHECK(jump_work(1) == expected);
    }
    CHECK(inner_jumps >= jumps);
    printf("jumps %ld\nsum %08x\n", wanted, expected);
    return 0;
}
