/* Functions that are called in a handler on an alternate stack of 8 KB, below which nothing is mapped. Says how many bytes of it were used
 * below the stack pointer with which the functions are called, and how many the kernel's frame and the handler use above it.
 *   v_stack_use [-n ROUNDS] */
#include "victim.h"

#include <signal.h>
#include <sys/mman.h>

enum { STACK_BYTES = 8192, POISON = 0x5a };
static long rounds;
static uint32_t sum;
static unsigned char *stack;
static uintptr_t deepest_call;

TRACED uint32_t probed(uint32_t number, const char *text, double real)
{
    return mix(number, (uint32_t)text[0]) + (uint32_t)real;
}

TRACED long double x87(uint32_t number)
{
    return (long double)number / 3;
}

TRACED void deeper(uint32_t number, int depth)
{
    if (depth)
        deeper(number, depth - 1);
    else
        deepest_call = (uintptr_t)__builtin_frame_address(0);
    if (!depth)
        sum = mix(sum, probed(number, "text of a handler", 1.5) + (uint32_t)x87(number));
    __asm__ volatile("" : : : "memory");
}

static void handler(int number)
{
    (void)number;
    for (long i = 0; i < rounds; i++)
        deeper((uint32_t)i, 8);
}

int main(int argc, char **argv)
{
    rounds = victim_option(argc, argv, "-n", 1000);
    unsigned char *guard = mmap(NULL, 4096 + STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(guard != MAP_FAILED && !mprotect(guard + 4096, STACK_BYTES, PROT_READ | PROT_WRITE));
    stack = guard + 4096;
    memset(stack, POISON, STACK_BYTES);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    CHECK(!sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK_BYTES}, NULL) && !sigaction(SIGUSR1, &action, NULL));
    CHECK(!raise(SIGUSR1));
    size_t untouched = 0;
    while (untouched < STACK_BYTES && stack[untouched] == POISON)
        untouched++;
    printf("above %zu\nused %zu\nsum %08x\n", (size_t)((uintptr_t)stack + STACK_BYTES - deepest_call),
           (size_t)(deepest_call - (uintptr_t)stack) - untouched, sum);
    return 0;
}
