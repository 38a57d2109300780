/* The clock that all times of the project are of. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC, in nanoseconds. */
uint64_t clock_now_ns(void);

#endif
