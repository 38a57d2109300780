/* Signal handlers that look: at the interrupted pc, which must lie in the code of the program, its libraries or the kernel's page; at the
 * registers, which must be those that the instruction at that pc finds; at si_addr of faults; and that go on behind a faulting instruction
 * by changing the pc. Two timers, one of them for several signals, interrupt each other's handlers. Ends when the handlers have run COUNT
 * times; the calls made are on stderr.
 *   v_handlers [-n COUNT] [-w] [--late]
 * With -w waits before it starts and before it ends; with --late handlers are installed after the first wait. */
#include "victim.h"

#include <elf.h>
#include <link.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __x86_64__
enum { PC = REG_RIP, AX = REG_RAX, BX = REG_RBX, CX = REG_RCX, DX = REG_RDX, SP = REG_RSP, FLAGS = REG_EFL };
#define SAVE_STACK "mov %%rsp,%%rbx\n"
#define COUNT_REG "%rcx"
#else
enum { PC = REG_EIP, AX = REG_EAX, BX = REG_EBX, CX = REG_ECX, DX = REG_EDX, SP = REG_ESP, FLAGS = REG_EFL };
#define SAVE_STACK "mov %%esp,%%ebx\n"
#define COUNT_REG "%ecx"
#endif

/* ---- code whose state is known at every instruction ---- */

/* Called with the stack pointer in ebx. Where each step is stands in a table of offsets, so that nothing looks like a jump to it. */
__asm__(".macro step insn:vararg\n"
        "77: \\insn\n .pushsection .rodata\n .byte 77b - steps\n .popsection\n"
        ".endm\n"
        ".pushsection .rodata\n .globl step_offset\n step_offset:\n .popsection\n"
        ".text\n .balign 64\n .globl steps\n .type steps,@function\n"
        "steps:\n"
        " step mov $0x11,%eax\n"
        " step mov $0x7fffffff,%ecx\n"
        " step mov $0x33,%edx\n"
        " step add $1,%ecx\n"
        " step mov $0x44,%eax\n"
        " step nop\n"
        " step push " COUNT_REG "\n"
        " step mov $0x55,%ecx\n"
        " step pop " COUNT_REG "\n"
        " step cmp %eax,%eax\n"
        " step mov $0,%edx\n"
        " step ret\n"
        ".size steps,.-steps\n");
extern const uint8_t step_offset[12];
void steps(void);

static const struct {
    long ax, cx, dx; /* -1: anything */
    int words;       /* on the stack since the call */
    long flags;      /* the arithmetic ones, -1: anything */
} expected[12] = {
    {-1, -1, -1, 1, -1},
    {0x11, -1, -1, 1, -1},
    {0x11, 0x7fffffff, -1, 1, -1},
    {0x11, 0x7fffffff, 0x33, 1, -1},
    {0x11, 0x80000000, 0x33, 1, 0x894}, /* OF SF AF PF */
    {0x44, 0x80000000, 0x33, 1, 0x894},
    {0x44, 0x80000000, 0x33, 1, 0x894},
    {0x44, 0x80000000, 0x33, 2, 0x894},
    {0x44, 0x55, 0x33, 2, 0x894},
    {0x44, 0x80000000, 0x33, 1, 0x894},
    {0x44, 0x80000000, 0x33, 1, 0x44}, /* ZF PF */
    {0x44, 0x80000000, 0, 1, 0x44},
};

TRACED void run_steps(void)
{
    __asm__ volatile(SAVE_STACK "call steps\n mov $1,%%eax\n mov $2,%%ecx" : : : "eax", "ecx", "edx", "ebx", "memory", "cc");
}

/* ---- code that faults ---- */

/* At offset 4, and the handler leaves them out. */
__asm__(".text\n .balign 64\n .globl divide\n .type divide,@function\n"
        "divide: xor %ecx,%ecx\n mov %ecx,%eax\n div %ecx\n mov $5,%eax\n ret\n .size divide,.-divide\n"
        ".balign 64\n .globl illegal\n .type illegal,@function\n"
        "illegal: xor %ecx,%ecx\n mov %ecx,%eax\n ud2\n mov $7,%eax\n ret\n .size illegal,.-illegal\n");
int divide(void), illegal(void);
static volatile uintptr_t fault_offset = 4;

/* ---- where code is ---- */

static struct {
    uintptr_t start, end;
} text[64];
static int text_count;

static int note_text(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    for (int i = 0; i < info->dlpi_phnum && text_count < 64; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            text[text_count].start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            text[text_count].end = text[text_count].start + info->dlpi_phdr[i].p_memsz;
            text_count++;
        }
    return 0;
}

static int is_text(uintptr_t va)
{
    for (int i = 0; i < text_count; i++)
        if (va >= text[i].start && va < text[i].end)
            return 1;
    return 0;
}

/* ---- handlers ---- */

static volatile sig_atomic_t times, in_steps, faults;

static void check_state(const greg_t *regs)
{
    uintptr_t pc = (uintptr_t)regs[PC];
    CHECK(is_text(pc));
    if (pc < (uintptr_t)steps || pc > (uintptr_t)steps + step_offset[11])
        return;
    int at = 0;
    while (at < 12 && (uintptr_t)steps + step_offset[at] != pc)
        at++;
    CHECK(at < 12 && "the pc is at an instruction");
    CHECK(expected[at].ax < 0 || (uint32_t)regs[AX] == (uint32_t)expected[at].ax);
    CHECK(expected[at].cx == -1 || (uint32_t)regs[CX] == (uint32_t)expected[at].cx);
    CHECK(expected[at].dx < 0 || (uint32_t)regs[DX] == (uint32_t)expected[at].dx);
    CHECK((uintptr_t)regs[SP] == (uintptr_t)regs[BX] - expected[at].words * sizeof(uintptr_t));
    CHECK(expected[at].flags < 0 || (regs[FLAGS] & 0x8d5) == expected[at].flags);
    in_steps++;
}

TRACED void on_timer(int number, siginfo_t *info, void *context)
{
    CHECK(info->si_signo == number);
    check_state(((ucontext_t *)context)->uc_mcontext.gregs);
    times++;
}

/* Without SA_SIGINFO a 32-bit handler finds the context itself on its stack; a 64-bit one is called as with it. */
#ifdef __x86_64__
TRACED void on_other(int number, siginfo_t *info, void *context)
{
    (void)info;
    CHECK(number == SIGUSR1 || number == SIGUSR2 || number == SIGALRM);
    check_state(((ucontext_t *)context)->uc_mcontext.gregs);
    times++;
}
#else
TRACED void on_other(int number, struct sigcontext context)
{
    greg_t regs[NGREG] = {0};
    memcpy(regs, &context, sizeof regs);
    CHECK(number == SIGUSR1 || number == SIGUSR2 || number == SIGALRM);
    check_state(regs);
    times++;
}
#endif

TRACED void on_fault(int number, siginfo_t *info, void *context)
{
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)(number == SIGFPE ? divide : illegal) + fault_offset;
    CHECK((uintptr_t)info->si_addr == at && (uintptr_t)regs[PC] == at);
    regs[PC] += 2;
    faults++;
}

static void install(int number, void *handler, int flags)
{
    struct sigaction action = {.sa_flags = flags};
    action.sa_sigaction = (void (*)(int, siginfo_t *, void *))handler;
    CHECK(!sigaction(number, &action, NULL));
}

static void install_all(void)
{
    install(SIGPROF, on_timer, SA_SIGINFO | SA_RESTART);
    install(SIGVTALRM, on_timer, SA_SIGINFO | SA_RESTART | SA_NODEFER);
    install(SIGUSR1, on_other, SA_RESTART | SA_NODEFER);
    install(SIGUSR2, on_other, SA_RESTART);
    install(SIGALRM, on_other, SA_RESTART);
    install(SIGFPE, on_fault, SA_SIGINFO);
    install(SIGILL, on_fault, SA_SIGINFO);
}

static timer_t start_timer(int number, long period_ns)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = number};
    struct itimerspec period = {{0, period_ns}, {0, period_ns}};
    CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer) && !timer_settime(timer, 0, &period, NULL));
    return timer;
}

int main(int argc, char **argv)
{
    long wanted = victim_option(argc, argv, "-n", 2000);
    int waits = victim_flag(argc, argv, "-w"), late = victim_flag(argc, argv, "--late");
    unsigned long long rounds = 0, fault_rounds = 0;
    timer_t timer[4];
    char line[64];
    dl_iterate_phdr(note_text, NULL);
    if (!late)
        install_all();
    if (waits)
        victim_wait();
    if (late)
        install_all();
    timer[0] = start_timer(SIGPROF, 1100000);
    timer[1] = start_timer(SIGUSR1, 1300000);
    timer[2] = start_timer(SIGVTALRM, 1700000);
    timer[3] = start_timer(SIGUSR2, 1900000);
    struct itimerval period = {{0, 2300}, {0, 2300}};
    CHECK(!setitimer(ITIMER_REAL, &period, NULL));
    while (times < wanted || in_steps < wanted / 20) {
        for (int i = 0; i < 500; i++)
            run_steps();
        rounds += 500;
        CHECK(snprintf(line, sizeof line, "%llu", rounds) > 0 && getppid() > 0);
        CHECK(divide() == 5 && illegal() == 7);
        fault_rounds++;
        if (fault_rounds % 16 == 0) { /* removed and installed again */
            signal(SIGUSR2, SIG_IGN);
            install(SIGUSR2, on_other, SA_RESTART);
        }
    }
    memset(&period, 0, sizeof period);
    setitimer(ITIMER_REAL, &period, NULL);
    for (int i = 0; i < 4; i++)
        timer_delete(timer[i]);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    CHECK((unsigned long long)faults == 2 * fault_rounds);
    fprintf(stderr, "steps %llu\nrun_steps %llu\ndivide %llu\nillegal %llu\non_fault %llu\n", rounds, rounds, fault_rounds, fault_rounds,
            2 * fault_rounds);
    printf("handled %ld\n", wanted);
    if (waits)
        victim_wait();
    return 0;
}
