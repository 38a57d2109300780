/* Shared by the files of sample/ only. */
#ifndef SAMPLE_INTERNAL_H
#define SAMPLE_INTERNAL_H

#include "base/memory.h"
#include "sample/sample.h"

struct perf_event_mmap_page;

/* ---- event.c: the kernel's side ---- */

enum sample_event_kind {
    SAMPLE_TIMER,       /* it also tells the news; whatever the thread starts inherits it */
    SAMPLE_SHORT_TIMER, /* like it, with less of the stack; one of the two runs */
    SAMPLE_STACK_TIMER, /* likewise inherited; samples of stacks and nothing else, while they are wanted */
    SAMPLE_AT_SWITCH,   /* when the thread leaves the processor; likewise inherited */
    SAMPLE_BRIEF_TIMER, /* of a thread that rests: nothing but samples of that one */
    SAMPLE_LEADER,      /* nothing; has the ring of a processor, which others are led to */
};

/* Whether switches are told, be it for the consumer or to account for time. */
bool sample_has_switches(const struct sample_options *options);

/* Opens an event, not yet running, on the thread `tid` of process `pid` while it runs on processor `cpu`. *user_only: the kernel's share of
 * its time may not be looked at; set when that turns out. -1 in *fd and no error: there is no such processor, or no such thread; or, of
 * SAMPLE_AT_SWITCH, it may not be looked at. */
struct err *sample_event_open(const struct sample_options *options, enum sample_event_kind kind, pid_t pid, pid_t tid, int cpu,
                              bool *user_only, int *fd);
uint64_t sample_event_id(int fd);
/* What found no room in its ring, or that of those inherited from it, so far; 0 where the kernel does not say (before Linux 6.0). */
uint64_t sample_event_lost(int fd);
/* The event's ring; as large as is permitted. */
struct err *sample_event_map(int fd, const struct sample_options *options, struct perf_event_mmap_page **out);
void sample_event_unmap(struct perf_event_mmap_page *page);

/* ---- record.c: what a ring holds ---- */

enum sample_kind {
    SAMPLE_TAKEN,
    SAMPLE_NEWS, /* news.kind */
    SAMPLE_LOST,
    SAMPLE_THROTTLED,
    SAMPLE_UNTHROTTLED,
};

struct sample_record {
    enum sample_kind kind;
    uint64_t order;       /* among records of the same time: as they were written */
    uint64_t event;       /* id of the event that wrote it; of an inherited one, of the one it was inherited from */
    uint64_t lost;        /* SAMPLE_LOST */
    uint64_t doubt_ns;    /* SAMPLE_RAN: it may be so much more or less */
    char name[16];        /* the thread's, then */
    struct sample sample; /* SAMPLE_TAKEN; of the others time_ns, pid and tid of the thread they are about */
    struct sample_news news;
    size_t bytes_at, bytes; /* in sample_records.bytes: the stack, or the map's path with its end */
};
struct sample_records {
    VEC(struct sample_record) record;
    VEC(uint8_t) bytes;
};

/* Registers that samples carry, as the kernel numbers them. */
extern const uint64_t sample_register_mask;
/* Takes everything that the ring holds before `head`. */
void sample_ring_read(struct perf_event_mmap_page *page, uint64_t head, bool has_stacks, struct sample_records *out);
uint64_t sample_ring_head(const struct perf_event_mmap_page *page);

void sample_records_add(struct sample_records *to, const struct sample_record *record, const uint8_t *bytes);
void sample_records_clear(struct sample_records *records);
void sample_records_deinit(struct sample_records *records);

/* ---- thread.c: time of threads ---- */

enum sample_state {
    SAMPLE_UNSEEN, /* running or waiting, nobody knows since when it was added */
    SAMPLE_RUNS,
    SAMPLE_WAITS,
};

struct sample_thread {
    uint32_t pid, tid;
    uint32_t root;        /* whose events count for it: its own, or those that it inherited */
    uint32_t former_root; /* ... and counted until ... */
    uint64_t moved_ns;    /* ... then */
    char name[16];
    uint64_t throttled_ns;

    enum sample_state state;
    uint64_t since_ns;        /* its time before this is in samples, or in run_ns and wait_ns */
    uint64_t run_ns;          /* it ran, and no sample stands for it yet */
    uint64_t wait_ns;         /* it waited, likewise */
    uint64_t this_wait_ns;    /* of wait_ns, so much belongs to the wait that goes on, or is over just now */
    uint64_t held_ns;         /* it could have run, likewise, and nobody saw where */
    uint64_t unclear_ns;      /* it did one or the other: what tells it was lost */
    bool in_doubt;            /* ... which may also be so for what comes next */
    uint64_t ran_ns;          /* all that is known that it ran, since it was known */
    uint64_t owed_ns;         /* given out as time that it ran, and was not: what it runs next is none */
    uint64_t owed_wait_ns;    /* likewise as waiting */
    uint64_t ran_before_ns;   /* what the kernel says that it had run when it became known, */
    uint64_t before_doubt_ns; /* ... or so much more: it was running */
    uint32_t outs;            /* times it left the processor since that was last seen */
    uint32_t stands;          /* for how many waits this one stands; 0: it was not seen where it waits */
    bool out_seen;            /* it is about to leave the processor and was seen at that */
    bool looked_at;           /* ... in this wait */
    bool preempted;           /* ... it could have run */

    /* account.c: what SAMPLE_IN, SAMPLE_OUT and SAMPLE_RAN add up to */
    bool told_runs;
    bool is_told_wrong;     /* something of that was lost, and nothing has been told since */
    uint64_t told_since_ns; /* told_ns is as of then */
    uint64_t came_in_ns;    /* when it came to the processor, or was last told not to be on one */
    uint64_t told_ns;
    uint64_t estimated_ns; /* of that */
    bool is_due;           /* to be compared with the kernel's account: it came or went since */
    bool is_accounted;     /* that was compared with the kernel's account */
    bool is_gone;          /* when it was last looked at: the news of its end are on their way, or were lost */
    bool is_another;       /* a program was executed, perhaps by another thread, whose account this one now has */
    bool has_final;        /* it has ended, and ... */
    uint64_t final_ns;     /* ... had run so long */

    /* rest.c: of a thread that switches too often for events to be on it */
    bool rests;
    bool has_ended;                      /* the news of that are on their way */
    bool in_window;                      /* ... and just now it has a timer */
    uint32_t switches;                   /* it left the processor, since this was last looked at */
    uint64_t used_run_ns, used_delay_ns; /* when last looked at */
    double used_share;                   /* of the time between the last two looks, it ran */
    uint64_t used_times;                 /* ... and how often it had come to a processor */
    uint64_t looked_ns;                  /* ... and when */
    uint64_t checked_ns;                 /* ... and when how often it switches */
    uint64_t program;                    /* target_program_mark() */
    uint64_t window_ns;                  /* when the window opened, or the next is to */
    uint64_t part_ns;                    /* what each sample of the window is to stand for */
    uint32_t calm;                       /* looks since it last switched too often */
};
typedef VEC(struct sample_thread) sample_threads; /* in order of tid */

struct sample_thread *sample_thread_find(sample_threads *threads, uint32_t tid);
/* Also when it is there already. */
struct sample_thread *sample_thread_add(sample_threads *threads, uint32_t pid, uint32_t tid, uint32_t root);
void sample_thread_remove(sample_threads *threads, struct sample_thread *thread);

/* What happens to a thread, in order of time. What there is to say of its time goes to `out`. */
void sample_thread_goes_out(struct sample_thread *thread, uint64_t time_ns, bool preempted);
void sample_thread_comes_in(struct sample_thread *thread, uint64_t time_ns, struct sample_records *out);
/* What became of time that is unclear, as the kernel's account says. */
void sample_thread_clear(struct sample_thread *thread);
/* The time that a sample on a processor stands for. */
uint64_t sample_thread_ran(struct sample_thread *thread, uint64_t time_ns, uint64_t period_ns);
/* ... of a thread that rests. */
uint64_t sample_thread_ran_part(struct sample_thread *thread);
/* Of a thread that rests: how long it ran, and waited for a processor, since it was last looked at. */
void sample_thread_used(struct sample_thread *thread, uint64_t run_ns, uint64_t delay_ns, uint64_t time_ns);
/* It ran so long in all since it was known: what was given out, and is to be, is that. */
void sample_thread_correct(struct sample_thread *thread, uint64_t time_ns, uint64_t ran_ns);
/* All its time up to now is given out. */
void sample_thread_settle(struct sample_thread *thread, uint64_t time_ns, struct sample_records *out);
/* A thread that waits is looked at where nobody has seen it going; `all`: this stands for all its waits that were not seen. */
void sample_thread_look(struct sample_thread *thread, const struct sample_options *options, bool all, uint64_t time_ns,
                        struct sample_records *out);

/* ---- account.c ---- */

/* How old the kernel's account of a thread that runs may be. */
uint64_t sample_tick_ns(void);
/* From that time on it is told to run, or not. */
void sample_thread_tell(struct sample_thread *thread, uint64_t time_ns, bool runs);
/* The kernel said at that time that the thread had run for run_ns, give or take doubt_ns; of what it runs just now a part is not in that.
 * Returns what it has run since it was known: as was told, where that can be. */
uint64_t sample_thread_reconcile(struct sample_thread *thread, uint64_t time_ns, uint64_t run_ns, uint64_t doubt_ns);
/* `is_new`: it was started since its process was added. */
void sample_set_begin_account(struct sample_thread *thread, bool is_new);
/* Looks what the kernel's account is now. `at_once`: there will be no other look. False: the thread has ended. */
bool sample_set_tell_account(struct sample_set *set, const struct sample_thread *thread, bool at_once);
/* The same for threads that do not rest, now and then. */
void sample_set_compare_accounts(struct sample_set *set);
/* That is known. */
void sample_set_tell_ran(struct sample_set *set, const struct sample_thread *thread, uint64_t time_ns, uint64_t run_ns);

/* ---- ends.c: threads that have ended ---- */

struct sample_end {
    uint32_t pid, tid; /* 0: not known; has been dealt with */
    uint64_t run_ns, elapsed_ns;
    uint64_t time_ns; /* when we heard of it */
    char name[16];
    bool is_checked; /* it was looked whether its thread is known */
};

/* Opens what tells of them, where that is permitted. */
void sample_ends_open(struct sample_set *set);
void sample_ends_close(struct sample_set *set);
/* Of a thread whose end the rings tell, this is known once the rings have been read. */
void sample_ends_read(struct sample_set *set);
bool sample_ends_take(struct sample_set *set, uint32_t tid, struct sample_end *out);

/* ---- set.c ---- */

/* An event that was opened here; those that were inherited from it go by its id. */
struct sample_event {
    uint64_t id;
    uint32_t root; /* the thread that it was opened on */
    enum sample_event_kind kind;
    int fd;             /* -1: closed, */
    uint64_t closed_ns; /* ... at this time; what it wrote before may yet be read */
};

/* by_stops: what is known of the process that no look at its threads tells. */
struct sample_process {
    uint32_t pid;
    uint64_t ended_ns; /* threads that have ended ran so long */
};

struct sample_ring {
    int cpu;
    int fd; /* of its leader */
    struct perf_event_mmap_page *page;
};

struct sample_set {
    struct sample_options options;
    bool user_only;
    bool copies_less;  /* the short timers run */
    bool wants_stacks; /* the stack timers run */
    bool is_plain;     /* there are neither short nor stack timers: not enough descriptors */
    int epoll_fd;
    VEC(struct sample_event) event; /* in order of id: the kernel counts upwards */
    VEC(struct sample_ring) ring;
    sample_threads thread;
    struct sample_records fresh; /* read from the rings; the last moments may be incomplete */
    struct sample_records ready; /* in order of time, to be handed over */
    int ends_fd;                 /* -1: nobody tells how long threads have run that end */
    VEC(struct sample_end) end;  /* in the order in which they were told */
    size_t next_account;         /* index of the thread whose account was compared last */
    uint64_t settled_ns;         /* when waits that go on were last given out */
    uint64_t calmed_ns;          /* when switches were last counted */
    uint64_t looked_ns;          /* when those that rest were last looked at */
    bool has_gaps;               /* news found no room: what threads do now is not known */
    uint64_t read_ns;            /* everything before this has been read */
    bool by_stops;               /* no events: every thread rests */
    VEC(struct target *) target; /* by_stops: the processes, open */
    VEC(struct sample_process) process;
    unsigned resting;        /* threads that rest */
    unsigned windows;        /* ... and have a timer just now */
    uint64_t stopped_ns;     /* 0: it is not */
    uint64_t lost_noted;     /* as records in the rings say: what found no room, until there was room again */
    uint64_t lost_read;      /* as the events themselves say: of those that are closed, and once stopped of all */
    uint64_t lost_throttled; /* by the time that it took */
};

struct err *sample_set_open_event(struct sample_set *set, enum sample_event_kind kind, pid_t pid, pid_t tid, int cpu);
/* The lasting events of a thread, not yet running. *found: there is such a thread. */
struct err *sample_set_open_events(struct sample_set *set, pid_t pid, pid_t tid, bool *found);
void sample_set_enable(struct sample_set *set, size_t first);
void sample_set_close_events(struct sample_set *set, uint32_t root);
/* Closed events of which everything has been read. */
void sample_set_forget_closed(struct sample_set *set);
/* News that no event tells, of now; returns when that is. */
uint64_t sample_set_tell(struct sample_set *set, enum sample_news_kind kind, const struct sample_thread *thread);
/* SAMPLE_IN or SAMPLE_OUT, by a look at the thread. */
void sample_set_tell_switch(struct sample_set *set, enum sample_news_kind kind, const struct sample_thread *thread, uint64_t time_ns);
/* Whether it runs now. */
void sample_set_tell_state(struct sample_set *set, const struct sample_thread *thread);
/* Opens what has no events and is not known to rest. `is_new`: that was started since its process, or who started it, was added. */
struct err *sample_set_cover(struct sample_set *set, pid_t pid, bool is_new);
/* NULL: none of ours. */
const struct sample_event *sample_set_event(const struct sample_set *set, uint64_t id);

/* ---- drain.c ---- */

/* Takes what the rings hold now, and makes ready what is certain to be in order. */
void sample_set_read(struct sample_set *set);

/* ---- rest.c: threads that switch too often ---- */

/* Lays those to rest that switch too often, looks at those that rest, and wakes those that do no more. What it tells lies between this look
 * and the one before. */
void sample_set_calm(struct sample_set *set);
void sample_set_lay_to_rest(struct sample_set *set, struct sample_thread *thread);
/* Notes what threads of the process have run that are not there any more, unless that is known. */
void sample_set_note_process(struct sample_set *set, pid_t pid);
/* A last look at those that rest. */
void sample_set_end_resting(struct sample_set *set);

/* ---- glance.c: where events are forbidden ---- */

/* Opens the process, unless it is. */
struct err *sample_set_open_target(struct sample_set *set, pid_t pid);
/* It has executed another program. */
void sample_set_reopen_target(struct sample_set *set, pid_t pid);
/* Stops the thread for a moment and takes a sample of it. */
void sample_set_glance(struct sample_set *set, struct sample_thread *thread, uint64_t now_ns);
void sample_set_close_targets(struct sample_set *set);

#endif
