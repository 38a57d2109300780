/* Room in maps for new keys in the place of deleted ones. The first time, the processes are stopped for a moment, again and again until
 * every thread has been seen elsewhere. From then on writers say when they have left the map, and nobody is disturbed. */
#include "live/run.h"

#include "base/clock.h"
#include "drain/maps.h"

static void collect_counted(struct live_run *run)
{
    enum { PATIENCE_NS = 2000000000 };
    uint64_t now_ns = clock_now_ns();
    if (!run->memory.retired.n)
        run->collecting_since_ns = now_ns;
    if (!drain_maps_retire(&run->memory))
        return;
    if (drain_maps_left(&run->memory)) {
        drain_maps_free(&run->memory);
    } else if (now_ns - run->collecting_since_ns > PATIENCE_NS) {
        drain_maps_uncount(&run->memory);
        run->is_collecting_stopped = false; /* it began before */
    }
}

/* Whether there is something for which threads have to be seen outside. */
static bool begin_stopped(struct live_run *run)
{
    bool guards = drain_maps_guard(&run->memory), frees = run->memory.guards_broken && drain_maps_retire(&run->memory);
    if (guards || frees)
        load_session_unquiesce(run->session, LOAD_QUIET_MAPS);
    return guards || frees;
}

static void collect_stopped(struct live_run *run)
{
    enum { SHARE = 20, SHARE_WAITING = 2, SHARE_IN_VAIN = 200 }; /* at most one part in so many of the time is spent on it */
    enum { PATIENCE_NS = 2000000000 };
    uint64_t start_ns = clock_now_ns();
    bool done;
    if (start_ns < run->next_collection_ns)
        return;
    if (!run->is_collecting_stopped) {
        if (!begin_stopped(run))
            return;
        run->is_collecting_stopped = true;
        run->stopped_since_ns = start_ns;
    }
    load_session_quiesce(run->session, LOAD_QUIET_MAPS, &done);
    if (done) {
        drain_maps_guarded(&run->memory);
        if (run->memory.guards_broken)
            drain_maps_free(&run->memory);
        run->is_collecting_stopped = false;
    }
    uint64_t end_ns = clock_now_ns();
    /* A thread that is never seen elsewhere is not to keep the others from their work. */
    int share = done ? SHARE : end_ns - run->stopped_since_ns < PATIENCE_NS ? SHARE_WAITING : SHARE_IN_VAIN;
    run->next_collection_ns = end_ns + (end_ns - start_ns) * (uint64_t)share;
}

bool live_collect(struct live_run *run)
{
    if (!run->memory.guards_broken)
        collect_counted(run);
    collect_stopped(run);
    return run->is_collecting_stopped || run->memory.retired.n;
}
