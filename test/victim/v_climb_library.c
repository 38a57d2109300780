/* A hot spot in a shared library (libv_leaf.c), with three callers in the program that spend 60, 30 and 10 % of its time.
 *   v_climb_library [KIND] SECONDS    KIND: not looked at, as of v_climb; SECONDS of processor time */
#include "victim.h"

#include <time.h>

void leaf_work(unsigned units);
static volatile uint32_t count;

TRACED void caller_60(void)
{
    leaf_work(6);
    count++;
}
TRACED void caller_30(void)
{
    leaf_work(3);
    count++;
}
TRACED void caller_10(void)
{
    leaf_work(1);
    count++;
}
TRACED void all_callers(void)
{
    caller_60();
    caller_30();
    caller_10();
    count++;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[argc - 1]) : 5;
    struct timespec start, now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    do {
        for (int i = 0; i < 100; i++)
            all_callers();
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 < seconds);
    puts("done");
    return 0;
}
