/* The session's memory on the controller's side: made here, shared with every traced process, read here. The processes can write all of it,
 * so nothing read from it is believed: the constant part is a private copy here, and sizes of records come from the stream. */
#ifndef DRAIN_SESSION_H
#define DRAIN_SESSION_H

#include "base/err.h"
#include "base/memory.h"
#include "wire/session.h"

#include <stdbool.h>

/* A node that was taken out of its chain and waits until no writer can have it. */
struct drain_retired {
    uint32_t map, number; /* from 0 */
};
typedef VEC(struct drain_retired) drain_retired_list;

/* ASKED: writers that do not know yet may be about. */
enum drain_guard { DRAIN_MAP_OPEN, DRAIN_MAP_ASKED, DRAIN_MAP_GUARDED };

/* A ring that stands still. */
struct drain_stuck {
    uint32_t tail, head; /* where, and up to where it is asked about */
    uint64_t since_ns;   /* CLOCK_MONOTONIC; 0: it does not */
    bool is_asked;       /* see drain_begin_abandon() */
    bool is_abandoned;   /* nobody will commit what is there */
};

struct drain_session {
    struct wire_session *memory;
    size_t bytes;
    int fd;                     /* the memfd */
    struct drain_beat *beat;    /* NULL: nobody waits for us */
    struct wire_session layout; /* as it was made */
    struct wire_map *map;       /* likewise */
    struct drain_stuck *stuck;  /* by ring */
    uint32_t *tail;             /* by ring: what was read is before it */
    uint64_t read_bytes;        /* of all rings, so far */
    uint64_t *frame;            /* by frame of the pool: owner and claim when drain_begin_frames() looked */
    uint64_t frames_lost;       /* clauses that found none, up to then */
    bool has_strangers;         /* set by the caller: ids in records may be of another pid namespace */
    /* collect.c */
    enum drain_guard *guard; /* by map */
    bool guards_broken;      /* a writer did not count itself out */
    drain_retired_list retired;
    uint32_t guard_side; /* as told to writers */
    bool guard_flipped;  /* while nodes wait: the side has changed */
};

/* A first reading of both clocks; the longer before drain_session_create(), the better the clock of the session. */
struct drain_clock {
    uint64_t tsc, ns;
};
void drain_clock_read(struct drain_clock *clock);

struct drain_options {
    struct drain_clock clock;
    uint32_t ring_bytes;  /* of each ring, a power of two; 0: as is usual, or: */
    uint32_t rings_bytes; /* of all rings together, a power of two, if that gives each more than is usual */
    uint32_t stack_nodes; /* of a stream that takes stacks; 0: as is usual */
    bool lossless;
};

/* Lays out the memory for a verified stream. */
struct err *drain_session_create(const struct wire_stream *stream, const struct drain_options *options, struct drain_session *out);
void drain_session_destroy(struct drain_session *session);

/* Nanoseconds (CLOCK_MONOTONIC) of a record's time. */
uint64_t drain_session_ns(const struct drain_session *session, uint64_t time);
/* One more record is lost. */
void drain_count_lost(struct drain_session *session);
/* Losses so far, by cause. */
uint64_t drain_session_lost(const struct drain_session *session, enum wire_loss cause);

/* port.c: runs a clause here, and writes the record of its error if it ends with one. The memory of maps can make it slow only up to a
 * limit, from which on keys are not found and updates are refused. */
void drain_run_clause(struct wire_fire *fire, const struct wire_insn *code, uint32_t count);
/* What such a clause writes is not lost because processes have filled its ring: `make` empties rings while it runs. False: it can not.
 * NULL: nobody does. */
typedef bool drain_room_fn(void *context);
void drain_on_full(drain_room_fn *make, void *context);
/* The same limit for what is done to maps in between; by the calling thread. */
void drain_begin_steps(void);
void drain_end_steps(void);

/* What a clause that the controller runs on behalf of a sampled thread finds instead of the controller itself: wire_fire.process_va points
 * to it. Memory is read from the process wire_fire.pid. */
struct drain_subject {
    uint64_t ns; /* CLOCK_MONOTONIC */
    uint32_t cpu;
    const char *comm;
    /* WIRE_CTX_UID, WIRE_CTX_GID or WIRE_CTX_PPID of the process. */
    uint32_t (*owner)(uint32_t pid, enum wire_ctx what);
    /* As port_stack(). May be NULL: there are none. */
    uint32_t (*stack)(const struct drain_subject *subject, const struct wire_fire *fire, uint64_t *pcs, uint32_t room, uint64_t *root);
    /* The name of the main thread; NULL when it is not known. */
    const char *(*process_name)(const struct drain_subject *subject, uint32_t pid);
    void *context; /* of the caller */
};

/* A record, copied out of its ring. */
struct drain_record {
    struct wire_record head;
    uint32_t payload_bytes;
    const void *payload; /* aligned to 8; valid until the next record is taken */
};
typedef void drain_record_fn(void *context, const struct drain_record *record);
/* Hands over what the rings hold, in order of time across threads (exactly so within a thread), and makes room; for some hundredths of a
 * second, whatever is written meanwhile. With `all`, nobody writes any more, and what is not committed is counted as lost; the caller goes
 * on until there is no backlog or it has enough of it. Returns how many. */
size_t drain_records(struct drain_session *session, const struct wire_stream *stream, bool all, drain_record_fn *take, void *context);
/* Bytes in the rings that were not read yet. */
uint64_t drain_backlog(const struct drain_session *session);
/* Records of one ring, handed over in pieces, in the order in which they were written, which keeps that of each thread; at most so many.
 * Payloads are valid during the call. *is_empty: nothing is left of what there was; else there is more, or a record that is not committed
 * yet. Writers that wait are told in any case that there is still somebody who reads. `all`: as above. */
typedef void drain_batch_fn(void *context, const struct drain_record *record, size_t count);
size_t drain_ring(struct drain_session *session, const struct wire_stream *stream, uint32_t ring, bool all, size_t most,
                  drain_batch_fn *take, void *context, bool *is_empty);
/* Records that nobody will commit: a thread jumped out of a signal handler that had interrupted it in the middle. If rings stand still
 * since before `before_ns`, or half full since before `full_before_ns`, returns true; the caller then sees to it that every thread has been
 * outside of clauses and what they call since, and says so with drain_end_abandon(). What is then still not committed is counted as lost,
 * and reading goes on behind it. */
bool drain_begin_abandon(struct drain_session *session, uint64_t before_ns, uint64_t full_before_ns);
/* A ring stands still before a record that is not committed. */
bool drain_is_stuck(const struct drain_session *session);
void drain_end_abandon(struct drain_session *session);
/* The same for frames of the pool: true when clauses have found none since the last time. What its thread has not given back by the end,
 * nobody will, and it is taken back. Returns how many. */
bool drain_begin_frames(struct drain_session *session);
size_t drain_end_frames(struct drain_session *session);

#endif
