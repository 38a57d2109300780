#include "record/run.h"

enum { BASELINE_NS = 1000000000 }; /* over which the rate is taken, at least, once there was so much time */

void record_clock_init(struct record_clock *clock, const struct drain_session *session, const struct drain_clock *first)
{
    const struct wire_session *layout = &session->layout;
    *clock = (struct record_clock){.is_tsc = layout->tsc_mult != 0, .before = *first, .kept = *first};
    if (!clock->is_tsc)
        return;
    clock->ns_per_tick = (double)layout->tsc_mult / (double)(1ull << layout->tsc_shift);
    clock->last = (struct drain_clock){layout->tsc_base, layout->ns_base};
    if (!first->tsc)
        clock->before = clock->kept = clock->last;
    record_clock_update(clock);
}

void record_clock_update(struct record_clock *clock)
{
    struct drain_clock now;
    if (!clock->is_tsc)
        return;
    drain_clock_read(&now);
    if (now.tsc <= clock->last.tsc)
        return;
    if (now.ns - clock->kept.ns >= BASELINE_NS) {
        clock->before = clock->kept;
        clock->kept = now;
    }
    clock->last = now;
    clock->ns_per_tick = (double)(now.ns - clock->before.ns) / (double)(now.tsc - clock->before.tsc);
}
