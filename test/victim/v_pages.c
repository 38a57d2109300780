/* Functions whose places for probes lie where two pages meet: their first bytes, their last ones, and instructions between that are shorter
 * than a jump, with padding on both sides of the boundary. Each adds a number of its own to its argument. After each line of input all are
 * called, and `ready` is printed again when the sums are right; ends with the input. */
#include "victim.h"

#ifdef __x86_64__
#define ARGUMENT " lea (%rdi), %eax\n"
#else
#define ARGUMENT " mov 4(%esp), %eax\n"
#endif

/* The instruction that begins `before` bytes in front of a page boundary is one of 3 bytes, followed by others. */
#define FUNCTION(name, before, number)                                                                                                     \
    ".balign 4096\n .skip 4096 - 64 - " before ", 0xcc\n"                                                                                  \
    ".globl " name "\n.type " name ",@function\n" name ":\n" ARGUMENT " .skip 64 - (. - " name "), 0x90\n"                                 \
    "in_" name ": add $" number ", %eax\n add $1, %eax\n dec %eax\n ret\n.size " name ", . - " name "\n .skip 16, 0xcc\n"

/* Its entry begins there. */
#define ENTRY(name, before, number)                                                                                                        \
    ".balign 4096\n .skip 4096 - " before ", 0xcc\n"                                                                                       \
    ".globl " name "\n.type " name ",@function\n" name ":\n" ARGUMENT " add $" number ", %eax\n ret\n.size " name ", . - " name            \
    "\n .skip 16, 0xcc\n"

/* A loop of short instructions that are jumped to, padding behind the boundary, and padding of another function in front of it. */
#define LOOP(name, before, number)                                                                                                         \
    ".balign 4096\n .skip 4096 - 64 - " before ", 0xcc\n"                                                                                  \
    ".type before_" name ",@function\nbefore_" name ": ret\n.size before_" name ", 1\n .skip 31, 0xcc\n"                                   \
    ".globl " name "\n.type " name ",@function\n" name ":\n" ARGUMENT " mov $" number ", %ecx\n .skip 32 - (. - " name "), 0x90\n"         \
    "1: nop\n nop\n2: add $1, %eax\n sub $1, %ecx\n js 2b\n jnz 1b\n .skip 24, 0x90\n ret\n.size " name ", . - " name                      \
    "\n .skip 16, 0xcc\n"

__asm__(".text\n" FUNCTION("middle_1", "1", "1") FUNCTION("middle_2", "2", "2") FUNCTION("middle_3", "3", "3")
            FUNCTION("middle_4", "4", "4") ENTRY("entry_1", "1", "5") ENTRY("entry_2", "2", "6") ENTRY("entry_3", "3", "7")
                ENTRY("entry_4", "4", "8") LOOP("loop_2", "2", "9") LOOP("loop_8", "8", "10") LOOP("loop_16", "16", "11") ".balign 4096\n");

typedef uint32_t add_fn(uint32_t);
extern add_fn middle_1, middle_2, middle_3, middle_4, entry_1, entry_2, entry_3, entry_4, loop_2, loop_8, loop_16;

int main(void)
{
    static add_fn *const function[] = {middle_1, middle_2, middle_3, middle_4, entry_1, entry_2, entry_3, entry_4, loop_2, loop_8, loop_16};
    enum { FUNCTIONS = sizeof function / sizeof *function, ROUNDS = 10 };
    for (;;) {
        puts("ready");
        fflush(stdout);
        if (getchar() == EOF)
            return 0;
        for (uint32_t round = 0; round < ROUNDS; round++)
            for (uint32_t i = 0; i < FUNCTIONS; i++)
                CHECK(function[i](round) == round + i + 1);
    }
}
