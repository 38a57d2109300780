/* One of two libraries that take turns at one address (v_turns): their functions lie at equal places, do other things and have other
 * instructions. None of them needs a relocation, so the code also runs where the loader has not put it. libv_turn_b.c is the other. */
#include "victim.h"

#ifndef TURN
#define TURN 0
#endif

#if TURN == 0
#define WORK(x, n) ((x)*3 + (n))
#else
#define WORK(x, n) (((x) ^ 0x5a5a5a5au) - ((x) << 4) + (n)*7)
#endif

#define FUNCTION(n)                                                                                                                        \
    __attribute__((noipa, aligned(64))) uint32_t turn_##n(uint32_t x)                                                                      \
    {                                                                                                                                      \
        volatile uint32_t y = x;                                                                                                           \
        return WORK(y, n##u);                                                                                                              \
    }
#define TEN(n)                                                                                                                             \
    FUNCTION(n##0)                                                                                                                         \
    FUNCTION(n##1) FUNCTION(n##2) FUNCTION(n##3) FUNCTION(n##4) FUNCTION(n##5) FUNCTION(n##6) FUNCTION(n##7) FUNCTION(n##8) FUNCTION(n##9)
#define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
HUNDRED(1)
HUNDRED(2)
