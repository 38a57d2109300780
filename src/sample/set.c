/* Threads, their events, and the rings that these write to. */
#include "base/clock.h"
#include "sample/internal.h"
#include "target/target.h"

#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

struct sample_set *sample_set_create(const struct sample_options *options)
{
    struct sample_set *set = memory_zero(1, sizeof *set);
    set->options = *options;
    set->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    set->ends_fd = -1;
    return set;
}

void sample_set_destroy(struct sample_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->event.n; i++)
        if (set->event.at[i].fd >= 0)
            close(set->event.at[i].fd);
    for (size_t i = 0; i < set->ring.n; i++) {
        sample_event_unmap(set->ring.at[i].page);
        close(set->ring.at[i].fd);
    }
    if (set->epoll_fd >= 0)
        close(set->epoll_fd);
    sample_set_close_targets(set);
    sample_ends_close(set);
    VEC_FREE(&set->end);
    VEC_FREE(&set->process);
    VEC_FREE(&set->event);
    VEC_FREE(&set->ring);
    VEC_FREE(&set->thread);
    sample_records_deinit(&set->fresh);
    sample_records_deinit(&set->ready);
    free(set);
}

uint64_t sample_set_until(const struct sample_set *set)
{
    return set->read_ns;
}

int sample_set_fd(const struct sample_set *set)
{
    return set->epoll_fd;
}

bool sample_set_stops(const struct sample_set *set)
{
    return set->by_stops;
}

uint64_t sample_set_lost(const struct sample_set *set)
{
    return (set->lost_read > set->lost_noted ? set->lost_read : set->lost_noted) + set->lost_throttled;
}

void sample_set_stop(struct sample_set *set)
{
    if (set->stopped_ns)
        return;
    sample_set_end_resting(set);
    if (sample_has_switches(&set->options) || set->by_stops)
        for (size_t i = 0; i < set->thread.n; i++)
            if (!sample_set_tell_account(set, &set->thread.at[i], true))
                sample_set_tell(set, SAMPLE_END, &set->thread.at[i]); /* if nothing else does */
    set->stopped_ns = clock_now_ns();
    for (size_t i = 0; i < set->event.n; i++)
        if (set->event.at[i].fd >= 0)
            ioctl(set->event.at[i].fd, PERF_EVENT_IOC_DISABLE, 0);
    for (size_t i = 0; i < set->event.n; i++)
        if (set->event.at[i].fd >= 0)
            set->lost_read += sample_event_lost(set->event.at[i].fd);
}

const struct sample_event *sample_set_event(const struct sample_set *set, uint64_t id)
{
    size_t low = 0;
    for (size_t high = set->event.n; low < high;) {
        size_t middle = (low + high) / 2;
        if (set->event.at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->event.n && set->event.at[low].id == id ? &set->event.at[low] : NULL;
}

/* ---- events ---- */

/* All events of a processor write to the ring of one that is our own: no sampled thread takes the ring along when it ends. */
static struct err *ring_of(struct sample_set *set, int cpu, int *fd)
{
    for (size_t i = 0; i < set->ring.n; i++)
        if (set->ring.at[i].cpu == cpu) {
            *fd = set->ring.at[i].fd;
            return NULL;
        }
    bool user_only = true;
    struct sample_ring ring = {.cpu = cpu};
    ERR_TRY(sample_event_open(&set->options, SAMPLE_LEADER, getpid(), 0, cpu, &user_only, &ring.fd));
    *fd = ring.fd;
    if (ring.fd < 0)
        return NULL;
    struct err *error = sample_event_map(ring.fd, &set->options, &ring.page);
    if (error) {
        close(ring.fd);
        return error;
    }
    VEC_PUSH(&set->ring, ring);
    struct epoll_event wanted = {.events = EPOLLIN};
    epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, ring.fd, &wanted);
    return NULL;
}

struct err *sample_set_open_event(struct sample_set *set, enum sample_event_kind kind, pid_t pid, pid_t tid, int cpu)
{
    int fd, ring_fd;
    ERR_TRY(sample_event_open(&set->options, kind, pid, tid, cpu, &set->user_only, &fd));
    if (fd < 0)
        return NULL;
    struct err *error = ring_of(set, cpu, &ring_fd);
    if (error || ring_fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring_fd)) {
        close(fd);
        return error;
    }
    VEC_PUSH(&set->event, (struct sample_event){.id = sample_event_id(fd), .root = (uint32_t)tid, .kind = kind, .fd = fd});
    return NULL;
}

static void close_event(struct sample_set *set, struct sample_event *event)
{
    if (event->fd < 0)
        return;
    set->lost_read += sample_event_lost(event->fd);
    close(event->fd);
    event->fd = -1;
    event->closed_ns = clock_now_ns();
}

/* Where descriptors are short: what samples can do without, on all threads or on none. */
static bool give_up_extra(struct sample_set *set)
{
    if (set->is_plain)
        return false;
    sample_set_copy_less(set, false);
    set->is_plain = true;
    for (size_t i = 0; i < set->event.n; i++)
        if (set->event.at[i].kind == SAMPLE_SHORT_TIMER || set->event.at[i].kind == SAMPLE_STACK_TIMER)
            close_event(set, &set->event.at[i]);
    return true;
}

static void open_extra(struct sample_set *set, enum sample_event_kind kind, pid_t pid, pid_t tid, int cpu)
{
    struct err *error = set->is_plain ? NULL : sample_set_open_event(set, kind, pid, tid, cpu);
    if (error)
        give_up_extra(set);
    err_free(error);
}

static struct err *open_needed(struct sample_set *set, enum sample_event_kind kind, pid_t pid, pid_t tid, int cpu)
{
    struct err *error = sample_set_open_event(set, kind, pid, tid, cpu);
    if (!error || error->code != ERR_SYSTEM || !give_up_extra(set))
        return error;
    err_free(error);
    return sample_set_open_event(set, kind, pid, tid, cpu);
}

struct err *sample_set_open_events(struct sample_set *set, pid_t pid, pid_t tid, bool *found)
{
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    size_t first = set->event.n;
    for (int cpu = 0; cpu < processors; cpu++) {
        ERR_TRY(open_needed(set, SAMPLE_TIMER, pid, tid, cpu));
        if (set->options.less_stack_bytes)
            open_extra(set, SAMPLE_SHORT_TIMER, pid, tid, cpu);
        if (set->options.stack_period_ns)
            open_extra(set, SAMPLE_STACK_TIMER, pid, tid, cpu);
        if (set->options.clock == SAMPLE_WALL)
            ERR_TRY(open_needed(set, SAMPLE_AT_SWITCH, pid, tid, cpu));
    }
    *found = set->event.n != first;
    return NULL;
}

static void order(struct sample_set *set, enum sample_event_kind kind, unsigned long what)
{
    for (size_t i = 0; i < set->event.n; i++)
        if (set->event.at[i].kind == kind && set->event.at[i].fd >= 0)
            ioctl(set->event.at[i].fd, what, 0);
}

static bool is_idle(const struct sample_set *set, enum sample_event_kind kind)
{
    return kind == (set->copies_less ? SAMPLE_TIMER : SAMPLE_SHORT_TIMER) || (kind == SAMPLE_STACK_TIMER && !set->wants_stacks);
}

void sample_set_enable(struct sample_set *set, size_t first)
{
    for (size_t i = first; i < set->event.n; i++)
        if (!is_idle(set, set->event.at[i].kind))
            ioctl(set->event.at[i].fd, PERF_EVENT_IOC_ENABLE, 0);
}

/* The timers that take over begin before the others stop, so that no news are missed; what is told twice meanwhile does no harm. The kernel
 * does the same with all that were inherited from them. */
void sample_set_copy_less(struct sample_set *set, bool less)
{
    if (less == set->copies_less || !set->options.less_stack_bytes || set->is_plain || set->stopped_ns)
        return;
    set->copies_less = less;
    order(set, less ? SAMPLE_SHORT_TIMER : SAMPLE_TIMER, PERF_EVENT_IOC_ENABLE);
    order(set, less ? SAMPLE_TIMER : SAMPLE_SHORT_TIMER, PERF_EVENT_IOC_DISABLE);
}

void sample_set_want_stacks(struct sample_set *set, bool wanted)
{
    if (wanted == set->wants_stacks || set->stopped_ns)
        return;
    set->wants_stacks = wanted;
    order(set, SAMPLE_STACK_TIMER, wanted ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE);
}

void sample_set_close_events(struct sample_set *set, uint32_t root)
{
    for (size_t i = 0; i < set->event.n; i++)
        if (set->event.at[i].root == root)
            close_event(set, &set->event.at[i]);
}

void sample_set_forget_closed(struct sample_set *set)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->event.n; i++)
        if (set->event.at[i].fd >= 0 || set->event.at[i].closed_ns > set->read_ns)
            set->event.at[kept++] = set->event.at[i];
    set->event.n = kept;
}

/* Events of which every thread has ended. */
static void close_ended(struct sample_set *set)
{
    for (size_t i = 0; i < set->event.n; i++) {
        struct pollfd poll_fd = {.fd = set->event.at[i].fd};
        if (poll_fd.fd >= 0 && poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & POLLHUP)
            close_event(set, &set->event.at[i]);
    }
    sample_set_forget_closed(set);
}

/* ---- adding ---- */

uint64_t sample_set_tell(struct sample_set *set, enum sample_news_kind kind, const struct sample_thread *thread)
{
    struct sample_record record = {.kind = SAMPLE_NEWS, .news.kind = kind};
    record.sample = (struct sample){.time_ns = clock_now_ns(), .pid = thread->pid, .tid = thread->tid};
    memcpy(record.name, thread->name, sizeof record.name);
    sample_records_add(&set->fresh, &record, NULL);
    return record.sample.time_ns;
}

void sample_set_tell_switch(struct sample_set *set, enum sample_news_kind kind, const struct sample_thread *thread, uint64_t time_ns)
{
    struct sample_record record = {.kind = SAMPLE_NEWS, .news = {.kind = kind, .by_look = true}};
    record.sample = (struct sample){.time_ns = time_ns, .pid = thread->pid, .tid = thread->tid};
    sample_records_add(&set->fresh, &record, NULL);
}

/* The time is from before the look: a switch that comes after it is later. */
void sample_set_tell_state(struct sample_set *set, const struct sample_thread *thread)
{
    struct target_rest rest;
    uint64_t now_ns = clock_now_ns();
    bool waits = target_thread_at_rest((pid_t)thread->pid, (pid_t)thread->tid, &rest);
    sample_set_tell_switch(set, waits ? SAMPLE_OUT : SAMPLE_IN, thread, now_ns);
}

static struct sample_thread *note_present(struct sample_set *set, pid_t pid, pid_t tid, bool is_new)
{
    struct sample_thread *thread = sample_thread_add(&set->thread, (uint32_t)pid, (uint32_t)tid, (uint32_t)tid);
    target_thread_name(pid, tid, thread->name);
    thread->since_ns = sample_set_tell(set, SAMPLE_PRESENT, thread);
    sample_set_begin_account(thread, is_new);
    return thread;
}

static void close_from(struct sample_set *set, size_t first)
{
    for (size_t i = first; i < set->event.n; i++) {
        struct sample_thread *thread = sample_thread_find(&set->thread, set->event.at[i].root);
        if (thread)
            sample_thread_remove(&set->thread, thread);
        close_event(set, &set->event.at[i]);
    }
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static struct err *add_thread(struct sample_set *set, pid_t pid, pid_t tid, bool is_new)
{
    size_t first = set->event.n;
    bool found;
    if (set->by_stops) {
        ERR_TRY(sample_set_open_target(set, pid));
        sample_set_lay_to_rest(set, note_present(set, pid, tid, is_new));
        return NULL;
    }
    ERR_TRY(sample_set_open_events(set, pid, tid, &found));
    if (!found)
        return NULL; /* it has ended */
    const struct sample_thread *thread = note_present(set, pid, tid, is_new);
    sample_set_enable(set, first);
    struct target_usage usage;
    if (!target_thread_usage(pid, tid, &usage))
        sample_set_tell(set, SAMPLE_END, thread); /* perhaps before its events could tell */
    return NULL;
}

struct err *sample_set_cover(struct sample_set *set, pid_t pid, bool is_new)
{
    size_t first = set->event.n, found = 0, last;
    /* Whoever is started by a thread that has its timers inherits them; others show in the next round. One that has ended is there until
     * somebody takes its end, who may be waiting for us. */
    do {
        target_pids tids = {0};
        struct err *error = target_all_threads(pid, &tids);
        last = found;
        for (size_t i = 0; i < tids.n && !error; i++)
            if (!sample_thread_find(&set->thread, (uint32_t)tids.at[i])) {
                error = add_thread(set, pid, tids.at[i], is_new);
                found += sample_thread_find(&set->thread, (uint32_t)tids.at[i]) != NULL;
            }
        VEC_FREE(&tids);
        if (error) {
            close_from(set, first);
            return error;
        }
    } while (found != last);
    if (set->by_stops)
        sample_set_note_process(set, pid);
    return NULL;
}

struct err *sample_set_add(struct sample_set *set, pid_t pid)
{
    raise_descriptor_limit();
    sample_set_read(set); /* threads that inherited their events are known by what is read */
    close_ended(set);
    if (sample_has_switches(&set->options))
        sample_ends_open(set);
    struct err *error = sample_set_cover(set, pid, false);
    bool is_forbidden = error && (error->code == ERR_PERMISSION || error->code == ERR_SYSTEM);
    if (!is_forbidden || !set->options.may_stop || set->ring.n || set->by_stops)
        return error;
    err_free(error);
    set->by_stops = true;
    error = sample_set_cover(set, pid, false);
    set->by_stops = !error;
    return error;
}
