/* Rings that stand still because a thread left a record in the middle and lives on. */
#include "live/run.h"

void live_abandon(struct live_run *run)
{
    enum { STILL_NS = 30000000, EVERY_NS = 5000000, PATIENCE_NS = 5000000000 };
    uint64_t now_ns = live_now_ns();
    bool done;
    if (!run->abandon_since_ns) {
        if (now_ns < run->next_abandon_ns || !drain_begin_abandon(&run->memory, now_ns - STILL_NS))
            return;
        run->abandon_since_ns = now_ns;
        load_session_unquiesce(run->session);
    } else if (now_ns < run->next_abandon_ns) {
        return;
    }
    load_session_quiesce(run->session, &done);
    now_ns = live_now_ns();
    run->next_abandon_ns = now_ns + EVERY_NS;
    if (done)
        drain_end_abandon(&run->memory);
    if (done || now_ns - run->abandon_since_ns > PATIENCE_NS)
        run->abandon_since_ns = 0;
}
