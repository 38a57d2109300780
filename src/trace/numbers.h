/* Numbers for definitions: equal bytes get equal numbers, from 0 on. Names come from traced programs and from files, so the hash has a
 * secret: nobody can choose names that make it slow. */
#ifndef TRACE_NUMBERS_H
#define TRACE_NUMBERS_H

#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>

struct trace_numbers {
    uint64_t secret;
    VEC(uint64_t) end;    /* of a number's bytes in `bytes`, which follow those of the number before it */
    VEC(uint32_t) hash;   /* by number */
    VEC(uint32_t) bucket; /* number + 1, a power of two of them */
    uint8_t *bytes;
    size_t used, room;
};

void trace_numbers_init(struct trace_numbers *numbers, uint64_t secret);
void trace_numbers_deinit(struct trace_numbers *numbers);
/* *is_new: they were not there before. */
uint32_t trace_numbers_find(struct trace_numbers *numbers, const uint8_t *bytes, size_t size, bool *is_new);

#endif
