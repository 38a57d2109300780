/* The top of the program's x87 stack. Called while firing: neither a body nor the agent uses these registers, so they are the program's.
 * fxsave would show them at once, but wants 512 bytes of its stack. */
#include "agent/x87.h"
#include "stream/softfloat.h"

#include <stdbool.h>

uint64_t agent_st0(void)
{
    struct {
        uint16_t control, unused, status, unused2, tags, rest[9];
    } environment;
    struct {
        uint64_t significand;
        uint16_t sign_exponent;
    } __attribute__((packed)) top;
    /* It masks all exceptions. What is popped is pushed again bit for bit; then all is as it was. */
    __asm__ volatile("fnstenv %0" : "=m"(environment));
    bool is_empty = (environment.tags >> 2 * (environment.status >> 11 & 7) & 3) == 3;
    if (!is_empty)
        __asm__ volatile("fstpt %0\n fldt %0" : "=m"(top));
    __asm__ volatile("fldenv %0" : : "m"(environment));
    return is_empty ? SOFTFLOAT_NAN : softfloat_from_x87(top.significand, top.sign_exponent);
}
