/* Calls mark() with stacks that no unwinder can make sense of: switched to memory that ends with a hole, with return addresses and frame
 * pointers that lead nowhere, in circles or to memory that comes and goes; and from contexts of makecontext().
 *   v_wild_stack [-n ROUNDS] */
#include "victim.h"

#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { PAGE = 4096, STACK_PAGES = 4, FLICKER_PAGES = 64 };

static uint64_t marks;
static uint32_t sum;
static int over;
static char *flicker;

TRACED void mark(uint32_t where)
{
    marks++;
    sum = mix(sum, where);
}

/* call_on(stack, base, where): mark(where) with the stack pointer and the base pointer set. call_plain() has no unwind information. */
#ifdef __x86_64__
#define BODY                                                                                                                               \
    "push %rbp\n push %rbx\n mov %rsp,%rbx\n mov %rdi,%rsp\n mov %rsi,%rbp\n mov %edx,%edi\n call mark\n mov %rbx,%rsp\n pop %rbx\n pop "  \
    "%rbp\n ret\n"
#else
#define BODY                                                                                                                               \
    "push %ebp\n push %ebx\n mov 16(%esp),%ebp\n mov 20(%esp),%eax\n mov 12(%esp),%ecx\n mov %esp,%ebx\n mov %ecx,%esp\n push %eax\n "     \
    "call "                                                                                                                                \
    "mark\n mov %ebx,%esp\n pop %ebx\n pop %ebp\n ret\n"
#endif
__asm__(".text\n .globl call_plain\n .type call_plain,@function\n call_plain:\n" BODY ".size call_plain, . - call_plain\n"
        ".globl call_framed\n .type call_framed,@function\n call_framed:\n .cfi_startproc\n .cfi_def_cfa_register "
#ifdef __x86_64__
        "%rbp"
#else
        "%ebp"
#endif
        "\n" BODY ".cfi_endproc\n .size call_framed, . - call_framed\n");
void call_plain(void *stack, void *base, uint32_t where);
void call_framed(void *stack, void *base, uint32_t where);

static void both(void *stack, void *base, uint32_t where)
{
    /* As the ABI wants it where mark() begins. */
    stack = (void *)(((uintptr_t)stack & -(uintptr_t)16) - (sizeof(void *) == 4 ? 12 : 0));
    call_plain(stack, base, where);
    call_framed(stack, base, where);
}

/* Memory that is there only half of the time. */
static void *flickering(void *argument)
{
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        CHECK(!munmap(flicker, FLICKER_PAGES * PAGE));
        CHECK(mmap(flicker, FLICKER_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == flicker);
        ((uintptr_t *)flicker)[0] = (uintptr_t)flicker + 64;
        ((uintptr_t *)flicker)[8] = (uintptr_t)flicker + 2 * PAGE;
    }
    return argument;
}

static ucontext_t home, away;

static void in_context(void)
{
    mark(50);
    swapcontext(&away, &home);
    mark(51);
}

static void contexts(char *stack, size_t bytes)
{
    CHECK(!getcontext(&away));
    away.uc_stack.ss_sp = stack;
    away.uc_stack.ss_size = bytes;
    away.uc_link = &home;
    makecontext(&away, in_context, 0);
    CHECK(!swapcontext(&home, &away) && !swapcontext(&home, &away));
}

int main(int argc, char **argv)
{
    long rounds = victim_option(argc, argv, "-n", 2000);
    char *stack = mmap(NULL, (STACK_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *top;
    flicker = mmap(NULL, FLICKER_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    CHECK(stack != MAP_FAILED && flicker != MAP_FAILED && !munmap(stack + STACK_PAGES * PAGE, PAGE));
    CHECK(!pthread_create(&thread, NULL, flickering, NULL));
    top = stack + STACK_PAGES * PAGE;
    uint32_t state = 1;
    for (long i = 0; i < rounds; i++) {
        uintptr_t *words = (uintptr_t *)stack;
        for (size_t k = 0; k < STACK_PAGES * PAGE / sizeof *words; k++) {
            state = mix(state, (uint32_t)k);
            /* Code, the stack itself, memory that flickers, anything. */
            words[k] = state % 4 == 0   ? (uintptr_t)main + state % 256
                       : state % 4 == 1 ? (uintptr_t)stack + state % (STACK_PAGES * PAGE) / 8 * 8
                       : state % 4 == 2 ? (uintptr_t)flicker + state % (FLICKER_PAGES * PAGE)
                                        : (uintptr_t)state << 13;
        }
        both(top, top, 1);
        both(top - 16, top - 16, 2);
        both(top - 2 * PAGE + 32, top - PAGE, 3);
        both(top - PAGE, NULL, 4);
        both(top - PAGE, (void *)-1, 5);
        both(top - PAGE, (void *)(uintptr_t)0x800000000000ull, 6);
        words = (uintptr_t *)(top - PAGE);
        words[0] = (uintptr_t)words; /* a circle of frame pointers */
        words[1] = (uintptr_t)main + 8;
        both(top - 2 * PAGE, words, 7);
        both(top - PAGE, flicker, 8);
        both(top - PAGE, flicker + 64, 9);
        contexts(stack, STACK_PAGES * PAGE);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    CHECK(!pthread_join(thread, NULL));
    printf("mark %llu\nsum %08x\n", (unsigned long long)marks, sum);
    return 0;
}
