/* Recursion: doubly recursive, mutual, and deep; each counts its calls. */
#include "victim.h"

static uint64_t fib_calls, even_calls, odd_calls, deep_calls;

TRACED uint32_t fib(uint32_t n)
{
    fib_calls++;
    if (n < 2)
        return n;
    uint32_t a = fib(n - 1), b = fib(n - 2);
    __asm__ volatile("" : "+r"(a), "+r"(b)); /* else the second call becomes a loop */
    return a + b;
}

extern uint32_t is_odd(uint32_t n);

TRACED uint32_t is_even(uint32_t n)
{
    even_calls++;
    return n == 0 ? 1 : !is_odd(n - 1) + 1;
}

TRACED uint32_t is_odd(uint32_t n)
{
    odd_calls++;
    return n == 0 ? 0 : !is_even(n - 1) + 1;
}

TRACED uint32_t deep(uint32_t n)
{
    char space[64];
    deep_calls++;
    memset(space, (int)n, sizeof space);
    uint32_t below = n ? deep(n - 1) : 0;
    return mix(below, (uint32_t)(unsigned char)space[n & 63]);
}

int main(int argc, char **argv)
{
    uint32_t sum = fib((uint32_t)victim_option(argc, argv, "-n", 22));
    sum = mix(sum, is_even(1001));
    sum = mix(sum, deep(20000));
    printf("fib %llu\nis_even %llu\nis_odd %llu\ndeep %llu\nsum %08x\n", (unsigned long long)fib_calls, (unsigned long long)even_calls,
           (unsigned long long)odd_calls, (unsigned long long)deep_calls, sum);
    return 0;
}
