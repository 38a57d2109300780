/* Doubles in integers against the processor's: every pair of edge cases, then random pairs. Compiled for SSE2 in both widths: the x87
 * would round twice. Usage: softfloat [--count N] */
#include "stream/softfloat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 1;

static uint64_t any(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static double as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

static uint64_t as_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return (bits & ~(1ull << 63)) > 0x7ff0000000000000 ? SOFTFLOAT_NAN : bits;
}

static void require(const char *what, uint64_t a, uint64_t b, uint64_t got, uint64_t wanted)
{
    if (got == wanted)
        return;
    printf("FAIL %s of %016llx and %016llx: %016llx, not %016llx\n", what, (unsigned long long)a, (unsigned long long)b,
           (unsigned long long)got, (unsigned long long)wanted);
    exit(1);
}

/* Truncated, as cvttsd2si does; written out because 32-bit code has no such instruction for 64 bits. */
static int64_t truncated(double x)
{
    if (!(x >= -0x1p63 && x < 0x1p63))
        return INT64_MIN;
    return (int64_t)x;
}

static void check(uint64_t a, uint64_t b)
{
    double x = as_double(a), y = as_double(b);
    float f;
    uint32_t low = (uint32_t)a;
    require("sum", a, b, softfloat_add(a, b), as_bits(x + y));
    require("difference", a, b, softfloat_sub(a, b), as_bits(x - y));
    require("product", a, b, softfloat_mul(a, b), as_bits(x * y));
    require("quotient", a, b, softfloat_div(a, b), as_bits(x / y));
    require("==", a, b, softfloat_eq(a, b), x == y);
    require("<", a, b, softfloat_lt(a, b), x < y);
    require("<=", a, b, softfloat_le(a, b), x <= y);
    require("integer", a, 0, (uint64_t)softfloat_to_int(a), (uint64_t)truncated(x));
    volatile double from = (double)(int64_t)a;
    require("from integer", a, 0, softfloat_from_int((int64_t)a), as_bits(from));
    memcpy(&f, &low, 4);
    require("from float", a, 0, softfloat_from_float(low), as_bits((double)f));
}

static void check_x87(uint64_t significand, uint16_t sign_exponent)
{
    unsigned char bytes[16] = {0};
    double stored;
    memcpy(bytes, &significand, 8);
    memcpy(bytes + 8, &sign_exponent, 2);
    __asm__ volatile("fldt %1\n fstpl %0" : "=m"(stored) : "m"(bytes) : "st");
    require("from x87", significand, sign_exponent, softfloat_from_x87(significand, sign_exponent), as_bits(stored));
}

/* Numbers whose exponents are near each other, or whose significands have long runs. */
static uint64_t interesting(void)
{
    uint64_t bits = any();
    switch (any() % 8) {
    case 0:
        return (bits & 0x800fffffffffffff) | (0x3ff - 60 + any() % 120) << 52;
    case 1:
        return (bits & ~0ull << any() % 53 & ~(0x7ffull << 52)) | (0x3ff - 30 + any() % 60) << 52;
    case 2:
        return bits & 0x800fffffffffffff; /* subnormal */
    case 3:
        return bits & 0x801fffffffffffff & ~0ull << any() % 53;
    case 4:
        return (bits & 0x800fffffffffffff) | (0x7fe - any() % 3) << 52;
    case 5:
        return (bits | 0x000fffffffffffff >> any() % 53) & ~(0x400ull << 52);
    }
    return bits;
}

int main(int argc, char **argv)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     3,
                                     0x000fffffffffffff,
                                     0x0010000000000000,
                                     0x0010000000000001,
                                     0x001fffffffffffff,
                                     0x3fefffffffffffff,
                                     0x3ff0000000000000,
                                     0x3ff0000000000001,
                                     0x3ff8000000000000,
                                     0x4000000000000000,
                                     0x433fffffffffffff,
                                     0x4340000000000000,
                                     0x4340000000000001,
                                     0x43dfffffffffffff,
                                     0x43e0000000000000,
                                     0x3ca0000000000000,
                                     0x3ca0000000000001,
                                     0x3fe0000000000000,
                                     0x7fe0000000000000,
                                     0x7fefffffffffffff,
                                     0x7ff0000000000000,
                                     0x7ff0000000000001,
                                     0x7ff8000000000000,
                                     0x7fffffffffffffff,
                                     0x00000000007fffff,
                                     0x000000007f800000,
                                     0x000000007f800001,
                                     0x0000000080000001,
                                     0x1ff0000000000000,
                                     0x2010000000000000};
    enum { EDGES = sizeof edges / sizeof *edges };
    unsigned long count = argc == 3 && strcmp(argv[1], "--count") == 0 ? strtoul(argv[2], NULL, 0) : 1000000;
    for (int i = 0; i < 2 * EDGES; i++)
        for (int j = 0; j < 2 * EDGES; j++)
            check(edges[i / 2] | (uint64_t)(i & 1) << 63, edges[j / 2] | (uint64_t)(j & 1) << 63);
    for (unsigned long i = 0; i < count; i++) {
        check(interesting(), interesting());
        check_x87(any() | (any() % 8 ? 1ull << 63 : 0), (uint16_t)(any() % 4 ? 0x3fff - 1100 + any() % 2200 : any()));
        check_x87(any() << any() % 64 | 1ull << 63, (uint16_t)(0x3fff - 1100 + any() % 100));
    }
    printf("%d-bit: %lu random pairs and all edge cases as the processor has them\n", (int)sizeof(void *) * 8, count);
    return 0;
}
