/* Texts by number: equal texts get equal numbers, from 0 on. */
#ifndef BASE_NAMES_H
#define BASE_NAMES_H

#include "base/memory.h"

#include <stdint.h>

struct names {
    VEC(char *) text;
    VEC(uint32_t) bucket; /* number + 1, a power of two of them */
};

uint32_t names_number(struct names *names, const char *text);
/* NULL when there is no such number. */
const char *names_text(const struct names *names, uint32_t number);
void names_deinit(struct names *names);

#endif
