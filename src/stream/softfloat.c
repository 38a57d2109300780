#include "stream/softfloat.h"

enum { BIAS = 1023, EXPONENT_MAX = 0x7ff, FRACTION_BITS = 52 };
#define FRACTION ((1ull << FRACTION_BITS) - 1)
#define IMPLICIT (1ull << FRACTION_BITS)
#define SIGN (1ull << 63)

/* ---- parts ---- */

static int exponent_of(uint64_t a)
{
    return (int)(a >> FRACTION_BITS) & EXPONENT_MAX;
}

static bool is_nan(uint64_t a)
{
    return (a & ~SIGN) > (uint64_t)EXPONENT_MAX << FRACTION_BITS;
}

static bool is_infinite(uint64_t a)
{
    return (a & ~SIGN) == (uint64_t)EXPONENT_MAX << FRACTION_BITS;
}

static int leading_zeros(uint64_t a)
{
    uint32_t high = (uint32_t)(a >> 32);
    return high ? __builtin_clz(high) : 32 + __builtin_clz((uint32_t)a);
}

/* Shifted right; what falls off is kept in the lowest bit when it is not zero. */
static uint64_t shift_right_sticky(uint64_t a, int count)
{
    if (count <= 0)
        return a;
    if (count > 63)
        return a != 0;
    return a >> count | (a << (64 - count) != 0);
}

/* Significand with its leading bit at 52, whatever the number; `a` is finite and not zero. */
static uint64_t normal_parts(uint64_t a, int *exponent)
{
    uint64_t significand = a & FRACTION;
    *exponent = exponent_of(a);
    if (*exponent)
        return significand | IMPLICIT;
    int shift = leading_zeros(significand) - (63 - FRACTION_BITS);
    *exponent = 1 - shift;
    return significand << shift;
}

/* ---- rounding ---- */

/* The double nearest to significand * 2^(exponent + 1 - BIAS - 62), of which the leading bit is 62 (or it is smaller than any normal
 * number) and the lowest is sticky. */
static uint64_t round_pack(uint64_t sign, int exponent, uint64_t significand)
{
    if (exponent < 0) {
        significand = shift_right_sticky(significand, -exponent);
        exponent = 0;
    } else if (exponent > EXPONENT_MAX - 2 || (exponent == EXPONENT_MAX - 2 && significand + 0x200 >= SIGN)) {
        return sign | (uint64_t)EXPONENT_MAX << FRACTION_BITS;
    }
    uint64_t low = significand & 0x3ff;
    significand = (significand + 0x200) >> 10;
    if (low == 0x200)
        significand &= ~1ull;
    /* The leading bit adds one to the exponent, or there is none and the number is subnormal. */
    return sign | (((uint64_t)exponent << FRACTION_BITS) + significand);
}

/* The double nearest to significand * 2^(exponent - BIAS - 61); `significand` is not zero and less than 1 << 63. */
static uint64_t normalize_round_pack(uint64_t sign, int exponent, uint64_t significand)
{
    int shift = leading_zeros(significand) - 1;
    return round_pack(sign, exponent - shift, significand << shift);
}

/* ---- arithmetic ---- */

uint64_t softfloat_add(uint64_t a, uint64_t b)
{
    if (is_nan(a) || is_nan(b) || (is_infinite(a) && is_infinite(b) && a != b))
        return SOFTFLOAT_NAN;
    if (is_infinite(a))
        return a;
    if (is_infinite(b))
        return b;
    if ((a & ~SIGN) < (b & ~SIGN)) {
        uint64_t larger = b;
        b = a;
        a = larger;
    }
    if (!(a & ~SIGN)) /* both are zero */
        return a & b;
    int exponent_a = exponent_of(a), exponent_b = exponent_of(b);
    uint64_t x = ((a & FRACTION) | (exponent_a ? IMPLICIT : 0)) << 9, y = ((b & FRACTION) | (exponent_b ? IMPLICIT : 0)) << 9;
    exponent_a += !exponent_a;
    exponent_b += !exponent_b;
    y = shift_right_sticky(y, exponent_a - exponent_b);
    uint64_t sum = (a ^ b) & SIGN ? x - y : x + y;
    return sum ? normalize_round_pack(a & SIGN, exponent_a, sum) : 0;
}

uint64_t softfloat_sub(uint64_t a, uint64_t b)
{
    return softfloat_add(a, is_nan(b) ? b : b ^ SIGN);
}

/* The upper half of the product, its lowest bit sticky. */
static uint64_t multiply_high_sticky(uint64_t a, uint64_t b)
{
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), middle2 = a0 * b1 + (uint32_t)middle;
    uint64_t high = a1 * b1 + (middle >> 32) + (middle2 >> 32);
    return high | ((uint32_t)middle2 != 0 || (uint32_t)low != 0);
}

uint64_t softfloat_mul(uint64_t a, uint64_t b)
{
    uint64_t sign = (a ^ b) & SIGN;
    bool zero = !(a & ~SIGN) || !(b & ~SIGN), infinite = is_infinite(a) || is_infinite(b);
    if (is_nan(a) || is_nan(b) || (zero && infinite))
        return SOFTFLOAT_NAN;
    if (zero)
        return sign;
    if (infinite)
        return sign | (uint64_t)EXPONENT_MAX << FRACTION_BITS;
    int exponent_a, exponent_b;
    uint64_t x = normal_parts(a, &exponent_a) << 10, y = normal_parts(b, &exponent_b) << 11;
    return normalize_round_pack(sign, exponent_a + exponent_b - BIAS, multiply_high_sticky(x, y));
}

uint64_t softfloat_div(uint64_t a, uint64_t b)
{
    uint64_t sign = (a ^ b) & SIGN;
    bool zero_a = !(a & ~SIGN), zero_b = !(b & ~SIGN);
    if (is_nan(a) || is_nan(b) || (zero_a && zero_b) || (is_infinite(a) && is_infinite(b)))
        return SOFTFLOAT_NAN;
    if (zero_a || is_infinite(b))
        return sign;
    if (zero_b || is_infinite(a))
        return sign | (uint64_t)EXPONENT_MAX << FRACTION_BITS;
    int exponent_a, exponent_b;
    uint64_t x = normal_parts(a, &exponent_a), y = normal_parts(b, &exponent_b), quotient = 0;
    if (x < y) {
        x <<= 1;
        exponent_a--;
    }
    for (int bit = 0; bit < 63; bit++) {
        quotient <<= 1;
        if (x >= y) {
            x -= y;
            quotient |= 1;
        }
        x <<= 1;
    }
    return round_pack(sign, exponent_a - exponent_b + BIAS - 1, quotient | (x != 0));
}

/* ---- comparisons ---- */

bool softfloat_eq(uint64_t a, uint64_t b)
{
    return !is_nan(a) && !is_nan(b) && (a == b || !((a | b) & ~SIGN));
}

bool softfloat_lt(uint64_t a, uint64_t b)
{
    if (is_nan(a) || is_nan(b) || !((a | b) & ~SIGN))
        return false;
    if ((a ^ b) & SIGN)
        return a >> 63;
    return a >> 63 ? a > b : a < b;
}

bool softfloat_le(uint64_t a, uint64_t b)
{
    return softfloat_lt(a, b) || softfloat_eq(a, b);
}

/* ---- conversions ---- */

uint64_t softfloat_from_int(int64_t a)
{
    uint64_t sign = a < 0 ? SIGN : 0, magnitude = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    if (!magnitude)
        return 0;
    if (magnitude == SIGN)
        return 0xc3e0000000000000ull;
    return normalize_round_pack(sign, BIAS + 61, magnitude);
}

int64_t softfloat_to_int(uint64_t a)
{
    int exponent = exponent_of(a) - BIAS;
    if (exponent < 0)
        return 0;
    if (exponent >= 63) /* infinities and what is no number too; -2^63 gives itself */
        return INT64_MIN;
    uint64_t significand = (a & FRACTION) | IMPLICIT;
    uint64_t magnitude = exponent > FRACTION_BITS ? significand << (exponent - FRACTION_BITS) : significand >> (FRACTION_BITS - exponent);
    return (int64_t)(a & SIGN ? 0 - magnitude : magnitude);
}

uint64_t softfloat_from_float(uint32_t a)
{
    uint64_t sign = (uint64_t)(a >> 31) << 63, fraction = a & 0x7fffff;
    int exponent = (int)(a >> 23) & 0xff;
    if (exponent == 0xff)
        return fraction ? SOFTFLOAT_NAN : sign | (uint64_t)EXPONENT_MAX << FRACTION_BITS;
    if (!exponent) {
        if (!fraction)
            return sign;
        int shift = leading_zeros(fraction) - 40; /* the leading bit to 23 */
        fraction = (fraction << shift) & 0x7fffff;
        exponent = 1 - shift;
    }
    return sign | (uint64_t)(exponent - 127 + BIAS) << FRACTION_BITS | fraction << 29;
}

uint64_t softfloat_from_x87(uint64_t significand, uint16_t sign_exponent)
{
    uint64_t sign = (uint64_t)(sign_exponent >> 15) << 63;
    int exponent = sign_exponent & 0x7fff;
    if (exponent && !(significand >> 63))
        return SOFTFLOAT_NAN;
    if (exponent == 0x7fff)
        return significand << 1 ? SOFTFLOAT_NAN : sign | (uint64_t)EXPONENT_MAX << FRACTION_BITS;
    if (!significand)
        return sign;
    return round_pack(sign, exponent - 16383 + BIAS - 1, significand >> 1 | (significand & 1));
}
