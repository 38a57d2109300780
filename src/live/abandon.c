/* Rings that stand still because a thread left a record in the middle and lives on, and frames of the pool that were left likewise.
 * Processes are stopped for a moment, again and again until every thread has been seen elsewhere. */
#include "live/run.h"

#include "base/clock.h"

/* True when every thread has been outside since the wait began. */
static bool is_over(struct live_run *run, struct live_wait *wait, enum load_quiet quiet, uint64_t every_ns)
{
    enum { PATIENCE_NS = 5000000000 };
    bool done;
    load_session_quiesce(run->session, quiet, &done);
    uint64_t now_ns = clock_now_ns();
    wait->next_ns = now_ns + every_ns;
    if (done || now_ns - wait->since_ns > PATIENCE_NS)
        wait->since_ns = 0;
    return done;
}

static void begin(struct live_run *run, struct live_wait *wait, enum load_quiet quiet)
{
    wait->since_ns = clock_now_ns();
    load_session_unquiesce(run->session, quiet);
}

/* A ring that fills up can not wait for a writer that may just have lost its processor. */
static void abandon_records(struct live_run *run)
{
    enum { STILL_NS = 30000000, STILL_FILLING_NS = 2000000, EVERY_NS = 500000 };
    struct live_wait *wait = &run->ring_wait;
    uint64_t now_ns = clock_now_ns();
    if (now_ns < wait->next_ns)
        return;
    if (!wait->since_ns && !drain_begin_abandon(&run->memory, now_ns - STILL_NS, now_ns - STILL_FILLING_NS))
        return;
    if (!wait->since_ns)
        begin(run, wait, LOAD_QUIET_RINGS);
    if (is_over(run, wait, LOAD_QUIET_RINGS, EVERY_NS))
        drain_end_abandon(&run->memory);
}

/* Where nothing is freed there are just too few, and looking again soon would be of no use. */
static void abandon_frames(struct live_run *run)
{
    enum { EVERY_NS = 5000000, IN_VAIN_NS = 1000000000 };
    struct live_wait *wait = &run->frame_wait;
    if (clock_now_ns() < wait->next_ns || (!wait->since_ns && !drain_begin_frames(&run->memory)))
        return;
    if (!wait->since_ns)
        begin(run, wait, LOAD_QUIET_CLAUSES);
    if (is_over(run, wait, LOAD_QUIET_CLAUSES, EVERY_NS) && !drain_end_frames(&run->memory))
        wait->next_ns += IN_VAIN_NS;
}

bool live_abandon(struct live_run *run)
{
    abandon_records(run);
    abandon_frames(run);
    return run->ring_wait.since_ns || drain_is_stuck(&run->memory);
}
