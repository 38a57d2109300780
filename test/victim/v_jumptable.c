/* Switches through jump tables and an interpreter with computed goto. */
#include "victim.h"

TRACED uint32_t by_switch(uint32_t op, uint32_t a, uint32_t b)
{
    switch (op & 15) {
    case 0:
        return a + b;
    case 1:
        return a - b;
    case 2:
        return a * b;
    case 3:
        return a ^ b;
    case 4:
        return a | b;
    case 5:
        return a & b;
    case 6:
        return a << (b & 31);
    case 7:
        return a >> (b & 31);
    case 8:
        return ~a;
    case 9:
        return a ? b / a : b;
    case 10:
        return mix(a, b);
    case 11:
        return (uint32_t)__builtin_popcount(a) + b;
    case 12:
        return a == b;
    case 13:
        return a < b ? a : b;
    case 14:
        return a * 3 + b * 5;
    default:
        return a;
    }
}

TRACED uint32_t by_goto(const uint8_t *code, uint32_t a)
{
    static void *const label[8] = {&&add, &&subtract, &&multiply, &&rotate, &&invert, &&swap, &&skip, &&end};
    uint32_t b = 1, t;
#define NEXT goto *label[*code++ & 7]
    NEXT;
add:
    a += b;
    NEXT;
subtract:
    a -= b * 3;
    NEXT;
multiply:
    a *= 2654435761u;
    NEXT;
rotate:
    a = a << 7 | a >> 25;
    NEXT;
invert:
    b = ~b;
    NEXT;
swap:
    t = a;
    a = b;
    b = t;
    NEXT;
skip:
    code++;
    NEXT;
end:
    return a ^ b;
}

int main(int argc, char **argv)
{
    long calls = victim_option(argc, argv, "-n", 100000);
    uint8_t code[34];
    uint32_t sum = 1;
    for (long i = 0; i < calls; i++) {
        sum = mix(sum, by_switch((uint32_t)i, sum, sum >> 9));
        for (uint32_t j = 0; j < 32; j++)
            code[j] = (uint8_t)((sum >> (j & 15)) % 7);
        code[32] = code[33] = 7;
        sum = mix(sum, by_goto(code, sum));
    }
    printf("by_switch %ld\nby_goto %ld\nsum %08x\n", calls, calls, sum);
    return 0;
}
