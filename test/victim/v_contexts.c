/* Signal contexts that are gone on with other than by returning from the handler: by setcontext() in the handler of a fault, once the page
 * that was touched can be read, and by swapcontext() long after the handler has jumped away. The faulting instruction is the second of its
 * function. v_contexts [-n FAULTS] [-w]     with -w: waits after the first fault of either kind, which is gone on with after that */
#include "victim.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

uint32_t second_load(const uint32_t *va);
#ifdef __x86_64__
__asm__(".text\n.globl second_load\n.type second_load,@function\n.p2align 4\nsecond_load:\n"
        " mov %rdi, %rcx\n mov (%rcx), %edx\n lea 1(%rdx), %eax\n ret\n.size second_load, . - second_load\n");
#else
__asm__(".text\n.globl second_load\n.type second_load,@function\n.p2align 4\nsecond_load:\n"
        " mov 4(%esp), %ecx\n mov (%ecx), %edx\n lea 1(%edx), %eax\n ret\n.size second_load, . - second_load\n");
#endif

static uint32_t *guarded;
static volatile sig_atomic_t goes_on_later, faults;
static ucontext_t kept, here;
static struct _libc_fpstate state;
static sigjmp_buf away;

static void allow(int protection)
{
    CHECK(!mprotect(guarded, 4096, protection));
}

TRACED void on_fault(int number, siginfo_t *info, void *context)
{
    ucontext_t own;
    CHECK(number == SIGSEGV && info->si_addr == guarded);
    faults++;
    own = *(ucontext_t *)context;
    if (!goes_on_later) {
        allow(PROT_READ | PROT_WRITE);
        setcontext(&own);
        CHECK(!"setcontext returned");
    }
    kept = own;
    state = *own.uc_mcontext.fpregs;
    kept.uc_mcontext.fpregs = &state;
    siglongjmp(away, 1);
}

/* Called on a stack of its own, which stays as it is until it is gone on with. */
static volatile uint32_t loaded;
static void load_there(void)
{
    loaded = second_load(guarded);
}

TRACED uint32_t load_later(char *stack, size_t bytes)
{
    ucontext_t there;
    CHECK(!getcontext(&there));
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = bytes;
    there.uc_link = &here;
    makecontext(&there, load_there, 0);
    goes_on_later = 1;
    if (!sigsetjmp(away, 1)) {
        swapcontext(&here, &there);
        CHECK(!"the page could be read");
    }
    return 0;
}

TRACED uint32_t go_on_later(void)
{
    goes_on_later = 0;
    allow(PROT_READ | PROT_WRITE);
    CHECK(!swapcontext(&here, &kept));
    return loaded;
}

int main(int argc, char **argv)
{
    enum { STACK_BYTES = 65536 };
    char *stack = malloc(STACK_BYTES);
    long rounds = victim_option(argc, argv, "-n", 2000);
    int waits = victim_flag(argc, argv, "-w");
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    guarded = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(guarded != MAP_FAILED && !sigaction(SIGSEGV, &action, NULL));
    for (long i = 0; i < rounds; i++) {
        *guarded = (uint32_t)i;
        allow(PROT_NONE);
        CHECK(second_load(guarded) == (uint32_t)i + 1);
        allow(PROT_NONE);
        load_later(stack, STACK_BYTES);
        if (waits && i == 0)
            victim_wait();
        CHECK(go_on_later() == (uint32_t)i + 1);
    }
    CHECK(faults == 2 * rounds);
    printf("on_fault %ld\nsecond_load %ld\nload_later %ld\n", 2 * rounds, 2 * rounds, rounds);
    if (waits)
        victim_wait();
    return 0;
}
