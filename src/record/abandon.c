/* Rings that stand still because a thread left a record in the middle and lives on. */
#include "record/run.h"

#include "base/clock.h"

void record_abandon(struct record_run *run)
{
    enum { STILL_NS = 30000000, STILL_FILLING_NS = 2000000, EVERY_NS = 5000000, PATIENCE_NS = 5000000000 };
    uint64_t now_ns = clock_now_ns();
    bool done;
    if (!run->session || now_ns < run->next_abandon_ns)
        return;
    if (!run->abandon_since_ns) {
        if (!drain_begin_abandon(&run->memory, now_ns - STILL_NS, now_ns - STILL_FILLING_NS))
            return;
        run->abandon_since_ns = now_ns;
        load_session_unquiesce(run->session, LOAD_QUIET_RINGS);
    }
    load_session_quiesce(run->session, LOAD_QUIET_RINGS, &done);
    now_ns = clock_now_ns();
    run->next_abandon_ns = now_ns + EVERY_NS;
    if (done)
        drain_end_abandon(&run->memory);
    if (done || now_ns - run->abandon_since_ns > PATIENCE_NS)
        run->abandon_since_ns = 0;
}
