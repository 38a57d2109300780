/* Deliberate faults at function entries, handled on an alternate stack: by making the page readable and going on, or by siglongjmp.
 * With --pc also checks that the fault is reported at an address inside the function.
 *   v_altstack [-n FAULTS] [--pc] */
#include "victim.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf back;
static int *guarded;
static char *stack_low;
static volatile sig_atomic_t faults;
static int checks_pc;

__attribute__((noipa, aligned(64))) int load(int *p)
{
    return *p;
}

__attribute__((noipa, aligned(64))) void load_end(void)
{
    __asm__ volatile("");
}

TRACED void on_fault(int number, siginfo_t *info, void *context)
{
    char here;
    ucontext_t *user = context;
#ifdef __x86_64__
    uintptr_t pc = (uintptr_t)user->uc_mcontext.gregs[REG_RIP];
#else
    uintptr_t pc = (uintptr_t)user->uc_mcontext.gregs[REG_EIP];
#endif
    CHECK(number == SIGSEGV && &here >= stack_low && &here < stack_low + 65536);
    if (checks_pc)
        CHECK(pc >= (uintptr_t)load && pc < (uintptr_t)load + 64);
    faults++;
    if (info->si_addr == guarded) {
        CHECK(!mprotect(guarded, 4096, PROT_READ | PROT_WRITE));
        return;
    }
    CHECK(info->si_addr == NULL);
    siglongjmp(back, 1);
}

int main(int argc, char **argv)
{
    volatile long rounds = victim_option(argc, argv, "-n", 2000);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_low = malloc(65536);
    stack_t stack = {.ss_sp = stack_low, .ss_size = 65536};
    volatile uint32_t sum = 0;
    volatile long i;
    checks_pc = victim_flag(argc, argv, "--pc");
    guarded = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(guarded != MAP_FAILED && !sigaltstack(&stack, NULL) && !sigaction(SIGSEGV, &action, NULL));
    for (i = 0; i < rounds; i++) {
        *guarded = (int)i;
        CHECK(!mprotect(guarded, 4096, PROT_NONE));
        sum = mix(sum, (uint32_t)load(guarded));
        if (!sigsetjmp(back, 1))
            CHECK(load(NULL) == 0 && !"a load from NULL returned");
    }
    load_end();
    CHECK(faults == 2 * rounds);
    printf("faults %ld\nload %ld\nsum %08x\n", 2 * rounds, 2 * rounds, sum);
    return 0;
}
