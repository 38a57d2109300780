/* The hot spot of v_climb_library: leaf_work is called through the PLT, leaf_loop inside of the library. */
#include "victim.h"

static volatile uint32_t sink;

/* About a microsecond for each unit. */
TRACED static void leaf_loop(unsigned units)
{
    uint32_t x = sink;
    for (unsigned i = 0; i < units * 300; i++)
        x = mix(x, i);
    sink = x;
}

TRACED void leaf_work(unsigned units)
{
    leaf_loop(units);
    sink++;
}
