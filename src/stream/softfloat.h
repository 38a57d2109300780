/* IEEE 754 doubles in integer arithmetic, rounded to nearest even: one definition of their results for every process, host and agent.
 * Every result that is no number is SOFTFLOAT_NAN. Freestanding. Called while firing. */
#ifndef STREAM_SOFTFLOAT_H
#define STREAM_SOFTFLOAT_H

#include <stdbool.h>
#include <stdint.h>

#define SOFTFLOAT_NAN 0x7ff8000000000000ull

uint64_t softfloat_add(uint64_t a, uint64_t b);
uint64_t softfloat_sub(uint64_t a, uint64_t b);
uint64_t softfloat_mul(uint64_t a, uint64_t b);
uint64_t softfloat_div(uint64_t a, uint64_t b);
bool softfloat_eq(uint64_t a, uint64_t b);
bool softfloat_lt(uint64_t a, uint64_t b);
bool softfloat_le(uint64_t a, uint64_t b);
uint64_t softfloat_from_int(int64_t a);
/* Cut towards zero; 1 << 63 when it does not fit or is no number. */
int64_t softfloat_to_int(uint64_t a);
uint64_t softfloat_from_float(uint32_t a);
/* From the 80 bits of an x87 register: 64 bits of significand, then sign and exponent. */
uint64_t softfloat_from_x87(uint64_t significand, uint16_t sign_exponent);

#endif
