/* Tail calls, direct and through pointers, conditional tail jumps, several returns, and `ret imm` (stdcall) on 32-bit. */
#include "victim.h"

#ifdef __i386__
#define CALLEE_POPS __attribute__((stdcall))
#else
#define CALLEE_POPS
#endif

typedef uint32_t step_fn(uint32_t a, uint32_t depth);
extern step_fn tail_even, tail_odd, tail_jcc;
static step_fn *const table[2] = {tail_even, tail_odd};

__attribute__((noipa)) uint32_t tail_end(uint32_t a, uint32_t depth)
{
    return a ^ depth;
}

__attribute__((noipa)) uint32_t tail_odd(uint32_t a, uint32_t depth)
{
    if (depth == 0)
        return tail_end(a, 1);
    return table[(a >> 3) & 1](a * 3 + 1, depth - 1);
}

__attribute__((noipa)) uint32_t tail_even(uint32_t a, uint32_t depth)
{
    if (depth == 0)
        return tail_end(a, 2);
    if (a & 4)
        return tail_odd(a * 5 + 3, depth - 1);
    return tail_jcc(a, depth);
}

/* Leaves by a conditional jump to another function when the first argument is odd, else returns it plus one. */
#ifdef __x86_64__
__asm__(".text\n.globl tail_jcc\n.type tail_jcc,@function\n.p2align 4\n"
        "tail_jcc: test $1, %edi\n jne tail_end\n lea 1(%rdi), %eax\n ret\n.size tail_jcc, . - tail_jcc\n");
#else
__asm__(".text\n.globl tail_jcc\n.type tail_jcc,@function\n.p2align 4\n"
        "tail_jcc: testb $1, 4(%esp)\n jne tail_end\n mov 4(%esp), %eax\n inc %eax\n ret\n.size tail_jcc, . - tail_jcc\n");
#endif

__attribute__((noipa)) CALLEE_POPS uint32_t many_returns(uint32_t a, uint32_t b, uint32_t c)
{
    switch (a % 7) {
    case 0:
        return tail_end(b, c);
    case 1:
        if (b > c)
            return b - c;
        return c - b;
    case 2:
        return b ? c / b : 9;
    case 3:
        for (uint32_t i = 0; i < 4; i++)
            if ((b >> i) & c)
                return i;
        return 77;
    default:
        return a + b + c;
    }
}

int main(int argc, char **argv)
{
    long calls = victim_option(argc, argv, "-n", 100000);
    uint32_t sum = 1;
    for (long i = 0; i < calls; i++) {
        sum = mix(sum, tail_even(sum, (uint32_t)i % 20));
        sum = mix(sum, many_returns((uint32_t)i, sum & 0xff, sum >> 24));
    }
    printf("many_returns %ld\nsum %08x\n", calls, sum);
    return 0;
}
