/* Threads, their timers, and the rings that these write to. */
#include "sample/internal.h"
#include "target/target.h"

#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* A timer that was opened here; those that were inherited from it go by its id. */
struct event {
    uint64_t id;
    uint32_t root; /* the thread that it was opened on */
    int fd;
};

struct ring {
    int cpu;
    int fd; /* of its first event, which others are led to; open as long as the ring */
    struct perf_event_mmap_page *page;
};

/* A thread that is sampled. */
struct thread {
    uint32_t tid;
    uint32_t root; /* whose events count for it: its own, or those that it inherited */
    uint64_t throttled_ns;
    char name[16];
};

struct sample_set {
    struct sample_options options;
    bool user_only;
    VEC(struct event) event; /* in order of id: the kernel counts upwards */
    VEC(struct ring) ring;
    VEC(struct thread) thread; /* in order of tid */
    sample_records waiting;    /* read from the rings, not yet handed over */
    uint64_t lost_noted;       /* as records in the rings say: what found no room, until there was room again */
    uint64_t lost_read;        /* as the events themselves say: of those that are closed, and once stopped of all */
    uint64_t lost_throttled;   /* by the time that it took */
};

struct sample_set *sample_set_create(const struct sample_options *options)
{
    struct sample_set *set = memory_zero(1, sizeof *set);
    set->options = *options;
    return set;
}

void sample_set_destroy(struct sample_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->ring.n; i++)
        sample_event_unmap(set->ring.at[i].page);
    for (size_t i = 0; i < set->event.n; i++)
        close(set->event.at[i].fd);
    VEC_FREE(&set->event);
    VEC_FREE(&set->ring);
    VEC_FREE(&set->thread);
    VEC_FREE(&set->waiting);
    free(set);
}

uint64_t sample_set_lost(const struct sample_set *set)
{
    return (set->lost_read > set->lost_noted ? set->lost_read : set->lost_noted) + set->lost_throttled;
}

void sample_set_stop(struct sample_set *set)
{
    for (size_t i = 0; i < set->event.n; i++)
        ioctl(set->event.at[i].fd, PERF_EVENT_IOC_DISABLE, 0);
    for (size_t i = 0; i < set->event.n; i++)
        set->lost_read += sample_event_lost(set->event.at[i].fd);
}

/* ---- threads ---- */

static size_t thread_index(const struct sample_set *set, uint32_t tid)
{
    size_t low = 0;
    for (size_t high = set->thread.n; low < high;) {
        size_t middle = (low + high) / 2;
        if (set->thread.at[middle].tid < tid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct thread *find_thread(struct sample_set *set, uint32_t tid)
{
    size_t at = thread_index(set, tid);
    return at < set->thread.n && set->thread.at[at].tid == tid ? &set->thread.at[at] : NULL;
}

static struct thread *add_thread(struct sample_set *set, uint32_t tid, uint32_t root)
{
    struct thread *found = find_thread(set, tid);
    size_t at = thread_index(set, tid);
    if (found)
        return found;
    VEC_PUSH(&set->thread, (struct thread){0});
    memmove(&set->thread.at[at + 1], &set->thread.at[at], (set->thread.n - 1 - at) * sizeof *set->thread.at);
    set->thread.at[at] = (struct thread){.tid = tid, .root = root};
    return &set->thread.at[at];
}

static void remove_thread(struct sample_set *set, struct thread *thread)
{
    size_t at = (size_t)(thread - set->thread.at);
    memmove(thread, thread + 1, (set->thread.n - at - 1) * sizeof *thread);
    set->thread.n--;
}

static uint32_t root_of(const struct sample_set *set, uint64_t id)
{
    size_t low = 0;
    for (size_t high = set->event.n; low < high;) {
        size_t middle = (low + high) / 2;
        if (set->event.at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->event.n && set->event.at[low].id == id ? set->event.at[low].root : 0;
}

/* ---- adding ---- */

static struct err *lead_to_ring(struct sample_set *set, int fd, int cpu)
{
    for (size_t i = 0; i < set->ring.n; i++)
        if (set->ring.at[i].cpu == cpu) {
            ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, set->ring.at[i].fd);
            return NULL;
        }
    struct ring ring = {.cpu = cpu, .fd = fd};
    ERR_TRY(sample_event_map(fd, &ring.page));
    VEC_PUSH(&set->ring, ring);
    return NULL;
}

static struct err *open_timers(struct sample_set *set, pid_t pid, pid_t tid)
{
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    size_t first = set->event.n;
    for (int cpu = 0; cpu < processors; cpu++) {
        int fd;
        ERR_TRY(sample_event_open(set->options.period_ns, pid, tid, cpu, &set->user_only, &fd));
        if (fd < 0)
            continue;
        VEC_PUSH(&set->event, (struct event){sample_event_id(fd), (uint32_t)tid, fd});
        ERR_TRY(lead_to_ring(set, fd, cpu));
    }
    if (set->event.n == first)
        return NULL; /* it has ended */
    target_thread_name(pid, tid, add_thread(set, (uint32_t)tid, (uint32_t)tid)->name);
    for (size_t i = first; i < set->event.n; i++)
        ioctl(set->event.at[i].fd, PERF_EVENT_IOC_ENABLE, 0);
    return NULL;
}

/* Timers of which every thread has ended. A ring's first stays, to lead others to it. */
static void close_ended(struct sample_set *set)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->event.n; i++) {
        struct pollfd poll_fd = {.fd = set->event.at[i].fd};
        bool ended = poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & POLLHUP;
        for (size_t k = 0; k < set->ring.n; k++)
            ended &= set->ring.at[k].fd != poll_fd.fd;
        if (ended) {
            set->lost_read += sample_event_lost(poll_fd.fd);
            close(poll_fd.fd);
        } else {
            set->event.at[kept++] = set->event.at[i];
        }
    }
    set->event.n = kept;
}

static void close_from(struct sample_set *set, size_t first)
{
    for (size_t i = first; i < set->event.n; i++) {
        for (size_t k = 0; k < set->ring.n; k++)
            if (set->ring.at[k].fd == set->event.at[i].fd) {
                sample_event_unmap(set->ring.at[k].page);
                set->ring.at[k--] = set->ring.at[--set->ring.n];
            }
        struct thread *thread = find_thread(set, set->event.at[i].root);
        if (thread)
            remove_thread(set, thread);
        close(set->event.at[i].fd);
    }
    set->event.n = first;
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void read_rings(struct sample_set *set);

struct err *sample_set_add(struct sample_set *set, pid_t pid)
{
    raise_descriptor_limit();
    read_rings(set);
    close_ended(set);
    size_t first = set->event.n, found = 0, last;
    /* Whoever is started by a thread that has its timers inherits them; others show in the next round. */
    do {
        target_pids tids = {0};
        struct err *error = NULL;
        target_all_threads(pid, &tids);
        read_rings(set);
        last = found;
        for (size_t i = 0; i < tids.n && !error; i++)
            if (!find_thread(set, (uint32_t)tids.at[i])) {
                found++;
                error = open_timers(set, pid, tids.at[i]);
            }
        bool ended = !tids.n;
        VEC_FREE(&tids);
        if (!error && ended)
            error = err_new(ERR_NO_PROCESS, "profile: process %d has ended", pid);
        if (error) {
            close_from(set, first);
            return error;
        }
    } while (found != last);
    return NULL;
}

/* ---- draining ---- */

static int by_time(const void *a, const void *b)
{
    const struct sample_record *x = a, *y = b;
    return x->sample.time_ns < y->sample.time_ns ? -1 : x->sample.time_ns > y->sample.time_ns;
}

/* A thread is known by its parent's events only where these count for the parent. */
static void take_fork(struct sample_set *set, const struct sample_record *record)
{
    uint32_t root = root_of(set, record->event);
    const struct thread *parent = find_thread(set, record->parent_tid);
    char name[16] = "";
    if (parent && parent->root != root)
        return;
    if (parent)
        memcpy(name, parent->name, sizeof name);
    struct thread *thread = add_thread(set, record->sample.tid, root);
    if (!thread->name[0])
        memcpy(thread->name, name, sizeof name);
}

/* What the records say about threads and losses. */
static void take_news(struct sample_set *set, const struct sample_record *record)
{
    struct thread *thread = find_thread(set, record->sample.tid);
    switch (record->kind) {
    case SAMPLE_FORKED:
        take_fork(set, record);
        break;
    case SAMPLE_RENAMED:
        if (thread)
            memcpy(thread->name, record->name, sizeof thread->name);
        break;
    case SAMPLE_ENDED:
        if (thread)
            remove_thread(set, thread);
        break;
    case SAMPLE_LOST:
        set->lost_noted += record->lost;
        break;
    case SAMPLE_THROTTLED:
        if (thread)
            thread->throttled_ns = record->sample.time_ns;
        break;
    case SAMPLE_UNTHROTTLED:
        if (thread && thread->throttled_ns && record->sample.time_ns > thread->throttled_ns) {
            set->lost_throttled += (record->sample.time_ns - thread->throttled_ns) / set->options.period_ns;
            thread->throttled_ns = 0;
        }
        break;
    case SAMPLE_TAKEN:
        break;
    }
}

/* Takes what the rings hold now; samples wait in set->waiting, with the thread's name as it was. */
static void read_rings(struct sample_set *set)
{
    sample_records news = {0};
    uint64_t *head = memory_alloc(set->ring.n * sizeof *head);
    for (size_t i = 0; i < set->ring.n; i++)
        head[i] = sample_ring_head(set->ring.at[i].page);
    for (size_t i = 0; i < set->ring.n; i++)
        sample_ring_read(set->ring.at[i].page, head[i], &news);
    free(head);
    if (news.n)
        qsort(news.at, news.n, sizeof *news.at, by_time);
    for (size_t i = 0; i < news.n; i++) {
        struct sample_record *record = &news.at[i];
        if (record->kind != SAMPLE_TAKEN) {
            take_news(set, record);
            continue;
        }
        uint32_t root = root_of(set, record->event);
        struct thread *thread = add_thread(set, record->sample.tid, root);
        if (thread->root != root)
            continue;
        if (!thread->name[0])
            target_thread_name((pid_t)record->sample.pid, (pid_t)record->sample.tid, thread->name);
        memcpy(record->name, thread->name, sizeof record->name);
        VEC_PUSH(&set->waiting, *record);
    }
    VEC_FREE(&news);
}

size_t sample_set_drain(struct sample_set *set, sample_fn *take, void *context)
{
    read_rings(set);
    size_t count = set->waiting.n;
    for (size_t i = 0; i < count; i++) {
        struct sample_record *record = &set->waiting.at[i];
        record->sample.comm = record->name;
        take(context, &record->sample);
    }
    set->waiting.n = 0;
    return count;
}
