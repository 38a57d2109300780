/* The sign of life for writers that wait for room: whatever the rest of the controller is doing, which on a busy machine, or with output
 * that nobody reads, may be nothing for long. */
#include "drain/beat.h"

#include "base/memory.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

struct drain_beat {
    struct wire_session *memory;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t end;
    bool is_over;
    clockid_t reader_clock; /* processor time of the thread that reads rings */
    struct timespec reader_time;
};

/* Where it is held up, by what it writes to, its processor time does not grow. */
static void note_work(struct drain_beat *beat)
{
    struct timespec now;
    if (clock_gettime(beat->reader_clock, &now) || (now.tv_sec == beat->reader_time.tv_sec && now.tv_nsec == beat->reader_time.tv_nsec))
        return;
    beat->reader_time = now;
    __atomic_add_fetch(&wire_state(beat->memory)->work, 1, __ATOMIC_RELAXED);
}

static void *beat_on(void *context)
{
    enum { EVERY_NS = 100000000, SECOND_NS = 1000000000 };
    struct drain_beat *beat = context;
    pthread_mutex_lock(&beat->lock);
    while (!beat->is_over) {
        struct timespec until;
        __atomic_add_fetch(&wire_state(beat->memory)->beat, 1, __ATOMIC_RELAXED);
        note_work(beat);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += EVERY_NS;
        until.tv_sec += until.tv_nsec / SECOND_NS;
        until.tv_nsec %= SECOND_NS;
        pthread_cond_timedwait(&beat->end, &beat->lock, &until);
    }
    pthread_mutex_unlock(&beat->lock);
    return NULL;
}

struct err *drain_beat_start(struct wire_session *memory, struct drain_beat **out)
{
    struct drain_beat *beat = memory_zero(1, sizeof *beat);
    sigset_t all, before;
    pthread_condattr_t attributes;
    beat->memory = memory;
    int error = pthread_getcpuclockid(pthread_self(), &beat->reader_clock);
    pthread_mutex_init(&beat->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&beat->end, &attributes);
    pthread_condattr_destroy(&attributes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!error)
        error = pthread_create(&beat->thread, NULL, beat_on, beat);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        return *out = beat, NULL;
    free(beat);
    return err_errno(ERR_SYSTEM, error, "session memory: a thread for the sign of life");
}

void drain_beat_stop(struct drain_beat *beat)
{
    if (!beat)
        return;
    pthread_mutex_lock(&beat->lock);
    beat->is_over = true;
    pthread_cond_signal(&beat->end);
    pthread_mutex_unlock(&beat->lock);
    pthread_join(beat->thread, NULL);
    pthread_cond_destroy(&beat->end);
    pthread_mutex_destroy(&beat->lock);
    free(beat);
}
