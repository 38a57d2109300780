#ifndef AGENT_X87_H
#define AGENT_X87_H

#include <stdint.h>

/* The program's st(0) as the bits of a double; not a number when it is empty. */
uint64_t agent_st0(void);

#endif
