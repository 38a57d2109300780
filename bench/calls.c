/* Many small functions that call each other: a tree of calls as programs have it. Prints the calls, and the nanoseconds of CPU time of
 * each. calls ROUNDS Compiled as it is for tools that patch, and with -pg for those that want to be compiled in. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FUNCTION __attribute__((noipa))

enum { CALLS_PER_ROUND = 1 + 3 * 4 + 7 }; /* round_of, three branches with three leaves each, a recursion of seven */

FUNCTION uint32_t leaf(uint32_t a)
{
    return a * 2654435761u ^ a >> 15;
}

FUNCTION uint32_t branch(uint32_t a)
{
    uint32_t b = leaf(a), c = leaf(a ^ b);
    return b + c + leaf(b ^ c);
}

FUNCTION uint32_t recurse(uint32_t a, int depth)
{
    return depth ? recurse(a * 3 + 1, depth - 1) + 1 : a;
}

FUNCTION uint32_t round_of(uint32_t a)
{
    for (int i = 0; i < 3; i++)
        a = branch(a);
    return recurse(a, 6);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 100000;
    struct timespec from, to;
    uint32_t sum = 1;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (long i = 0; i < rounds; i++)
        sum = round_of(sum);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
    printf("sum %08x\ncalls %ld\nns %.2f\n", sum, rounds * CALLS_PER_ROUND, ns / (double)(rounds * CALLS_PER_ROUND));
    return 0;
}
