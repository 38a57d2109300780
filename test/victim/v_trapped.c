/* Programs in situations where a tracer that has to use traps goes wrong easily: in each, `tiny`, which takes nothing but a trap, is called
 * again and again, and every result is checked.
 *   v_trapped forks|threads|timer|ignored|leader|nested|own|plain|late
 * Runs until stdin ends, then prints `ok`. */
#include "victim.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined __x86_64__
enum { PC_REGISTER = REG_RIP };
#else
enum { PC_REGISTER = REG_EIP };
#endif

/* One byte long, no padding around it, and the bytes behind it are no displacement that leads to free memory. */
void tiny(void);
__asm__(".text\n.p2align 4\n"
        ".type tiny_before,@function\ntiny_before: .rept 20\n.byte 0x05,0,0,0,0\n.endr\nret\n.size tiny_before, . - tiny_before\n"
        ".globl tiny\n.type tiny,@function\ntiny: ret\n.size tiny, 1\n"
        ".type tiny_after,@function\ntiny_after: .rept 40\n.byte 0x05,0,0,0,0\n.endr\nret\n.size tiny_after, . - tiny_after\n");

TRACED uint32_t trapped_work(uint32_t a);
uint32_t trapped_work(uint32_t a)
{
    tiny();
    return mix(a, 7);
}

static volatile int stop;

static void *await_end(void *unused)
{
    char byte;
    while (read(0, &byte, 1) > 0 || errno == EINTR)
        ;
    stop = 1;
    return unused;
}

static void run_forks(void)
{
    while (!stop) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child)
            _exit((int)(trapped_work(1) & 0x3f));
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == (int)(mix(1, 7) & 0x3f));
    }
}

static void *work_once(void *argument)
{
    return (void *)(uintptr_t)trapped_work((uint32_t)(uintptr_t)argument);
}

static void run_threads(void)
{
    for (uint32_t i = 0; !stop; i++) {
        pthread_t thread[4];
        for (uint32_t k = 0; k < 4; k++)
            CHECK(!pthread_create(&thread[k], NULL, work_once, (void *)(uintptr_t)(i + k)));
        for (uint32_t k = 0; k < 4; k++) {
            void *result;
            CHECK(!pthread_join(thread[k], &result) && (uint32_t)(uintptr_t)result == mix(i + k, 7));
        }
    }
}

static void on_timer(int number)
{
    (void)number;
    trapped_work(3);
}

static void run_timer(void)
{
    struct itimerval often = {{0, 1000}, {0, 1000}};
    signal(SIGALRM, on_timer);
    setitimer(ITIMER_REAL, &often, NULL);
    uint32_t sum = 1, check = 1;
    for (int i = 0; !stop; i++) {
        sum = mix(sum, (uint32_t)i);
        check = mix(check, (uint32_t)i);
        if (i % 1000 == 0)
            CHECK(trapped_work(sum) == mix(check, 7));
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
}

/* Signals that do nothing must not end a system call, and a call must end in time though they come. */
static void run_ignored(void)
{
    int epoll = epoll_create1(0);
    pid_t self = getpid(), child = fork();
    if (!child) {
        while (getppid() == self && !kill(self, SIGWINCH))
            usleep(2000);
        _exit(0);
    }
    while (!stop) {
        struct epoll_event event;
        trapped_work(1);
        CHECK(epoll_wait(epoll, &event, 1, 20) == 0);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* The first thread ends before the others. */
static void *outlive(void *unused)
{
    while (!stop)
        CHECK(trapped_work(5) == mix(5, 7));
    puts("ok");
    exit(0);
    return unused;
}

/* Handlers on an alternate stack that interrupt handlers, far down the stack. */
static volatile int depth;

static void on_inner(int number)
{
    (void)number;
    for (int i = 0; i < 2000; i++)
        trapped_work((uint32_t)i);
}

static void on_outer(int number)
{
    char deep[500000];
    (void)number;
    memset(deep, 1, sizeof deep);
    __asm__ volatile("" : : "r"(deep) : "memory");
    if (++depth < 3)
        raise(SIGUSR2);
    depth--;
}

static void run_nested(void)
{
    static char alternate[65536];
    CHECK(!sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = sizeof alternate}, NULL));
    struct sigaction outer = {.sa_handler = on_outer}, inner = {.sa_handler = on_inner, .sa_flags = SA_ONSTACK};
    CHECK(!sigaction(SIGALRM, &outer, NULL) && !sigaction(SIGUSR2, &inner, NULL));
    struct itimerval often = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &often, NULL);
    while (!stop)
        CHECK(trapped_work(9) == mix(9, 7));
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
}

/* The program has breakpoints of its own, and a handler that takes nothing but those: with or without SA_SIGINFO, from the start on or
 * installed anew all the time. */
void own_breakpoint(void);
__asm__(".globl own_breakpoint\n.type own_breakpoint,@function\nown_breakpoint: int3\n ret\n.size own_breakpoint, . - own_breakpoint\n");
static volatile uint32_t own_breakpoints;

static void on_own_breakpoint(int number, siginfo_t *info, void *context)
{
    uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[PC_REGISTER];
    if (number != SIGTRAP || info->si_signo != SIGTRAP || pc != (uintptr_t)own_breakpoint + 1) {
        static const char text[] = "a trap that is not the program's own\n";
        write(2, text, sizeof text - 1);
        _exit(4);
    }
    own_breakpoints++;
}

static void on_plain_breakpoint(int number)
{
    CHECK(number == SIGTRAP);
    own_breakpoints++;
}

static void check_own(void)
{
    uint32_t before = own_breakpoints;
    CHECK(trapped_work(11) == mix(11, 7) && own_breakpoints == before);
    own_breakpoint();
    CHECK(own_breakpoints == before + 1);
}

static void install(int flags)
{
    struct sigaction action = {.sa_flags = flags};
    if (flags & SA_SIGINFO)
        action.sa_sigaction = on_own_breakpoint;
    else
        action.sa_handler = on_plain_breakpoint;
    CHECK(!sigaction(SIGTRAP, &action, NULL));
}

static void run_own(void)
{
    install(SA_SIGINFO);
    while (!stop)
        check_own();
    struct sigaction now;
    CHECK(!sigaction(SIGTRAP, NULL, &now) && now.sa_sigaction == on_own_breakpoint && now.sa_flags & SA_SIGINFO);
}

static void run_plain(void)
{
    install(0);
    while (!stop)
        check_own();
}

static void run_late(void)
{
    for (uint32_t i = 0; !stop; i++) {
        if (i % 65536 == 0)
            install(i & 65536 ? SA_SIGINFO : 0);
        check_own();
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } mode[] = {{"forks", run_forks},   {"threads", run_threads}, {"timer", run_timer}, {"ignored", run_ignored},
                {"nested", run_nested}, {"own", run_own},         {"plain", run_plain}, {"late", run_late}};
    pthread_t thread;
    sigset_t all, before;
    const char *name = argc > 1 ? argv[1] : "threads";
    /* The thread that waits for stdin leaves all signals to the first. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    CHECK(!pthread_create(&thread, NULL, await_end, NULL));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    puts("ready");
    fflush(stdout);
    if (!strcmp(name, "leader")) {
        CHECK(!pthread_create(&thread, NULL, outlive, NULL));
        pthread_exit(NULL);
    }
    for (size_t i = 0; i < sizeof mode / sizeof mode[0]; i++)
        if (!strcmp(name, mode[i].name)) {
            mode[i].run();
            puts("ok");
            return 0;
        }
    return 2;
}
