#include "base/hurry.h"

#include <sched.h>
#include <stdbool.h>

static _Thread_local unsigned depth;
static _Thread_local bool is_first;

void hurry_begin(void)
{
    if (depth++ || (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_OTHER)
        return;
    /* A program that is started by this thread does not go first. */
    is_first = !sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &(struct sched_param){.sched_priority = 1});
}

void hurry_end(void)
{
    if (--depth || !is_first)
        return;
    is_first = false;
    sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &(struct sched_param){0});
}
