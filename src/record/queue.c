/* Samples and news on their way from the kernel's rings: a thread of ours takes them out in time, whatever the rest of us is doing (reading
 * debug information takes longer than rings last). Where there are no perf events, and threads are stopped to be looked at, there is no
 * such thread: who stops them is who waits for them.
 *
 * Everything that is done with the set is done under the lock. What was taken lies in one piece of memory, in order: an entry, its texts,
 * its stack. The main thread swaps that piece for an empty one. */
#include "record/run.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BYTES_MAX = 256 << 20, BYTES_KEPT = 1 << 20, WAIT_MS = 10, HURRIED = -10 };

/* Offsets are from the entry's start; 0: none. */
struct entry {
    uint32_t bytes; /* all of it, a multiple of 8 */
    bool is_news;
    uint32_t text, stack;
    union {
        struct sample sample;
        struct sample_news news;
    };
};

struct piece {
    uint8_t *bytes;
    size_t used, room;
};

struct record_queue {
    struct sample_set *set;
    pthread_mutex_t lock;
    pthread_t thread;
    bool has_thread, stops;
    struct piece filling, reading;
    uint64_t until_ns; /* what happened before has been taken out */
    uint64_t dropped;  /* samples for which there was no room here */
};

/* ---- in ---- */

static struct entry *put(struct piece *piece, size_t text_bytes, size_t stack_bytes)
{
    size_t text_at = sizeof(struct entry), stack_at = (text_at + text_bytes + 7) & ~7ull, bytes = (stack_at + stack_bytes + 7) & ~7ull;
    while (piece->room - piece->used < bytes) {
        piece->room = piece->room ? piece->room * 2 : 1 << 20;
        piece->bytes = memory_resize(piece->bytes, piece->room, 1);
    }
    struct entry *entry = (struct entry *)(piece->bytes + piece->used);
    *entry = (struct entry){.bytes = (uint32_t)bytes, .text = (uint32_t)text_at, .stack = (uint32_t)stack_at};
    piece->used += bytes;
    return entry;
}

static void put_sample(void *context, const struct sample *sample)
{
    struct record_queue *queue = context;
    size_t text_bytes = strlen(sample->comm) + 1;
    if (queue->filling.used > BYTES_MAX) {
        queue->dropped++;
        return;
    }
    struct entry *entry = put(&queue->filling, text_bytes, sample->stack_bytes);
    entry->sample = *sample;
    memcpy((char *)entry + entry->text, sample->comm, text_bytes);
    if (sample->stack_bytes)
        memcpy((char *)entry + entry->stack, sample->stack, sample->stack_bytes);
}

static void put_news(void *context, const struct sample_news *news)
{
    struct record_queue *queue = context;
    const char *text = news->kind == SAMPLE_MAP ? news->map.path : news->name;
    size_t text_bytes = text ? strlen(text) + 1 : 0;
    struct entry *entry = put(&queue->filling, text_bytes, 0);
    entry->is_news = true;
    entry->news = *news;
    if (text)
        memcpy((char *)entry + entry->text, text, text_bytes);
    else
        entry->text = 0;
}

static void *take_out(void *context)
{
    struct record_queue *queue = context;
    /* It has little to do, and what comes meanwhile is lost when it can not do that in time. Where that is forbidden it waits its turn. */
    setpriority(PRIO_PROCESS, 0 /* this thread */, HURRIED);
    while (!__atomic_load_n(&queue->stops, __ATOMIC_ACQUIRE)) {
        struct pollfd full = {.fd = sample_set_fd(queue->set), .events = POLLIN};
        poll(&full, 1, WAIT_MS);
        pthread_mutex_lock(&queue->lock);
        sample_set_drain(queue->set, put_sample, put_news, queue);
        queue->until_ns = sample_set_until(queue->set);
        pthread_mutex_unlock(&queue->lock);
    }
    return NULL;
}

struct record_queue *record_queue_create(struct sample_set *set, bool has_thread)
{
    struct record_queue *queue = memory_zero(1, sizeof *queue);
    sigset_t all, before;
    queue->set = set;
    pthread_mutex_init(&queue->lock, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    queue->has_thread = has_thread && pthread_create(&queue->thread, NULL, take_out, queue) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return queue;
}

struct err *record_queue_add(struct record_queue *queue, pid_t pid)
{
    pthread_mutex_lock(&queue->lock);
    struct err *error = sample_set_add(queue->set, pid);
    pthread_mutex_unlock(&queue->lock);
    return error;
}

void record_queue_copy_less(struct record_queue *queue, bool less)
{
    pthread_mutex_lock(&queue->lock);
    sample_set_copy_less(queue->set, less);
    pthread_mutex_unlock(&queue->lock);
}

uint64_t record_queue_lost(struct record_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    uint64_t lost = sample_set_lost(queue->set) + queue->dropped;
    pthread_mutex_unlock(&queue->lock);
    return lost;
}

static void end_thread(struct record_queue *queue)
{
    __atomic_store_n(&queue->stops, true, __ATOMIC_RELEASE);
    if (queue->has_thread)
        pthread_join(queue->thread, NULL);
    queue->has_thread = false;
}

void record_queue_stop(struct record_queue *queue)
{
    end_thread(queue);
    sample_set_stop(queue->set);
}

/* ---- out ---- */

static void hand_over(struct entry *entry, sample_fn *take, sample_news_fn *tell, void *context)
{
    const char *text = entry->text ? (const char *)entry + entry->text : NULL;
    if (!entry->is_news) {
        entry->sample.comm = text;
        entry->sample.stack = (const uint8_t *)entry + entry->stack;
        take(context, &entry->sample);
        return;
    }
    if (entry->news.kind == SAMPLE_MAP)
        entry->news.map.path = text;
    else
        entry->news.name = text;
    tell(context, &entry->news);
}

size_t record_queue_drain(struct record_queue *queue, sample_fn *take, sample_news_fn *tell, void *context, uint64_t *until_ns)
{
    size_t count = 0;
    pthread_mutex_lock(&queue->lock);
    if (!queue->has_thread) {
        sample_set_drain(queue->set, put_sample, put_news, queue);
        queue->until_ns = sample_set_until(queue->set);
    }
    *until_ns = queue->until_ns;
    struct piece taken = queue->filling;
    queue->filling = queue->reading;
    queue->filling.used = 0;
    pthread_mutex_unlock(&queue->lock);
    for (size_t at = 0; at < taken.used; count++) {
        struct entry *entry = (struct entry *)(taken.bytes + at);
        hand_over(entry, take, tell, context);
        at += entry->bytes;
    }
    /* Much comes when we could not look for long, which is seldom. */
    if (taken.room > BYTES_KEPT) {
        free(taken.bytes);
        taken = (struct piece){0};
    }
    queue->reading = taken;
    return count;
}

void record_queue_destroy(struct record_queue *queue)
{
    if (!queue)
        return;
    end_thread(queue);
    sample_set_destroy(queue->set);
    pthread_mutex_destroy(&queue->lock);
    free(queue->filling.bytes);
    free(queue->reading.bytes);
    free(queue);
}
