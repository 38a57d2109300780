/* The memory that all traced processes of a session share with the controller: rings of records, maps, pool of frames. One memfd, mapped in
 * every one of them at an address of its own; all offsets are from its start.
 *
 *   offset 0        struct wire_session
 *   maps_offset     struct wire_map[map_count]
 *   data_offset     the stream's data
 *                   -- up to here constant: the controller goes by a copy of its own, so that no process can mislead it --
 *   state_offset    struct wire_state, then a struct wire_map_state for each map
 *   rings_offset    struct wire_ring[ring_count], each followed by its data: ring_stride bytes apart
 *   guards_offset   struct wire_guard[WIRE_GUARDS]
 *   frames_offset   struct wire_frame[frame_count], each followed by its bytes: frame_stride apart
 *   stack_buckets_offset, stacks_offset   uint32_t[stack_bucket_mask + 1], struct wire_stack_node[stack_nodes]: see there
 *   ...             buckets, nodes and values of the maps
 *
 * Rules
 *  1. Whoever writes may be stopped, killed or interrupted by a signal whose handler writes too, at any instruction. So nothing waits for
 *     another writer: rings are reserved with a compare-and-swap, map entries are published with one, values are added to by locked
 *     instructions.
 *  2. Which ring, shard or frame a thread uses is a hint. Any number of threads may use the same one.
 *  3. Positions in rings are 32 bits and wrap; a ring is a power of two of bytes, at most 1 << 30.
 *  4. Everything here is untrusted for the controller: the processes can write all of it. It keeps what it goes by itself (the constant
 *     part, tails of rings, the side of guards), reads a word once before it checks and uses it, and bounds every walk, every wait and
 *     every compare-and-swap that is tried again (WIRE_TRIES) by numbers of its own. */
#ifndef WIRE_SESSION_H
#define WIRE_SESSION_H

#include "wire/stream.h"

#define WIRE_SESSION_MAGIC 0x317373736279726full
/* How often a compare-and-swap is tried. Who fails so often in a row does not meet other writers, but somebody who only disturbs. */
enum { WIRE_TRIES = 1 << 16 };
#define WIRE_SESSION_NAME "probity_session" /* of its memory; the controller's pid follows */

/* Losses by cause. */
enum wire_loss { WIRE_LOSS_RING, WIRE_LOSS_FRAME, WIRE_LOSS_MAP, WIRE_LOSS_STACK, WIRE_LOSSES };

struct wire_session {
    uint64_t magic;
    uint64_t bytes;
    uint64_t rings_offset, ring_stride;
    uint64_t maps_offset;
    uint64_t state_offset;
    uint64_t data_offset;
    uint64_t frames_offset, frame_stride;
    uint64_t guards_offset;
    uint32_t ring_count; /* a power of two */
    uint32_t ring_bytes; /* of data, a power of two */
    uint32_t map_count;
    uint32_t data_bytes;
    uint32_t frame_count; /* a power of two */
    uint32_t frame_bytes; /* that a clause may use */
    uint32_t shard_mask;
    uint32_t lossless;            /* writers wait for room while their ring is read */
    uint64_t tsc_base, ns_base;   /* nsecs = ns_base + ((tsc - tsc_base) * tsc_mult >> tsc_shift) */
    uint32_t tsc_mult, tsc_shift; /* tsc_mult 0: the TSC is not to be trusted, ask the kernel; tsc_shift <= 32 */
    uint64_t start_ns;
    uint32_t has_rdpid;   /* the processor has that instruction */
    uint32_t stack_nodes; /* 0: the stream takes no stacks */
    uint64_t stack_buckets_offset, stacks_offset;
    uint32_t stack_bucket_mask;
    uint32_t unused;
};

/* What changes. */
struct wire_state {
    uint32_t off;     /* set by the controller, at the end of a run: nobody begins to write; who waits for room goes on waiting */
    uint32_t reader;  /* futex: changes whenever the controller has looked at a ring; woken when it has made room in one */
    uint32_t writers; /* how many writers wait at it */
    uint32_t speculations;
    uint32_t guard_side;  /* set by the controller: which count of a guard is used now, 0 or 1 */
    uint32_t stacks_used; /* nodes of stacks handed out; may be more than there are */
    uint32_t beat;        /* grows while the controller lives */
    uint32_t work;        /* grows while the thread of the controller that reads rings is at work, on whatever */
    uint64_t lost[WIRE_LOSSES];
};
static inline struct wire_state *wire_state(struct wire_session *session)
{
    return (struct wire_state *)((char *)session + session->state_offset);
}

/* A ring's head: each group on its own cache line. */
struct wire_ring {
    uint32_t head; /* next position to reserve; writers */
    uint32_t pad0[15];
    uint32_t tail; /* next position to read; the controller */
    uint32_t pad1[15];
    uint64_t lost;    /* records */
    uint32_t stalled; /* `tail` at which a waiting writer's patience ended, + 1: nobody waits until it moves */
    uint32_t left;    /* `tail` at which is a record that its writer left in the middle, as he says himself, + 1 */
    uint32_t pad2[12];
};

/* The ring of a thread: number (uint32_t)(tid * WIRE_RING_FACTOR) >> WIRE_RING_SHIFT, as far as there are rings. */
#define WIRE_RING_FACTOR 0x9e3779b1u
enum { WIRE_RING_SHIFT = 16 };

/* A record that is RESERVED has its pid and tid, and as its time the address of its writer's struct wire_fire, or of what
 * is there in its place, until the time is known. */
enum wire_record_state { WIRE_RECORD_FREE, WIRE_RECORD_RESERVED = 1, WIRE_RECORD_COMMITTED = 2, WIRE_RECORD_PADDING = 3 };

/* A record at a multiple of 8 in a ring. It never crosses the ring's end: padding takes the rest. What is free is zero. */
struct wire_record {
    uint32_t state; /* bytes of all of it (a multiple of 8) << 2 | enum wire_record_state; written last */
    uint16_t type;  /* number in the stream's record table, or WIRE_RECORD_ERROR */
    uint16_t clause;
    uint64_t time; /* TSC, or nanoseconds without one */
    uint32_t pid, tid;
    uint32_t place; /* trace point that fired: wire_place.row */
    uint32_t speculation;
    /* payload follows */
};
enum { WIRE_RECORD_ERROR = 0xffff }; /* payload: struct wire_error_payload */

struct wire_error_payload {
    uint32_t error; /* enum wire_error */
    uint32_t insn;  /* of the clause's code */
    uint64_t value;
    uint32_t model;
    uint32_t unused;
};

/* A map. A key's node is found through its bucket: `bucket` holds the number of the first node + 1, each node the number of the next + 1.
 * Nodes are added at the head of a chain; only the controller takes them out, and only those that are dead (drain/collect.c). There are
 * more nodes than type.capacity, for maps from which keys are deleted: dead ones have a place until then. */
struct wire_map {
    struct wire_map_type type;
    uint32_t shards;       /* values of a node, a power of two */
    uint32_t value_stride; /* bytes from one to the next */
    uint32_t bucket_mask;
    uint32_t node_bytes; /* struct wire_node + key + shards values */
    uint32_t nodes;      /* at least type.capacity */
    uint32_t unused;
    uint64_t buckets_offset, nodes_offset, state_offset;
};

struct wire_map_state {
    uint64_t free;    /* list of nodes to use again: count of changes << 32 | number + 1 */
    uint64_t refused; /* insertions for which there was no room */
    uint32_t used;    /* nodes handed out from the front */
    uint32_t deleted; /* some key was, some time */
    uint32_t guarded; /* enum wire_guarded: set by the controller once there are many */
    uint32_t unused;
};

/* OPEN: no node is taken out, so that its state may change by plain stores. COUNTED: by locked instructions only, and writers count
 * themselves in and out. UNCOUNTED: the former without the latter. */
enum wire_guarded { WIRE_MAP_OPEN, WIRE_MAP_COUNTED, WIRE_MAP_UNCOUNTED };

/* 0: a map without a key that was never used. RISING: a writer gives it its first value. RETIRED: it is being taken out. */
enum wire_node_state { WIRE_NODE_LIVE = 1, WIRE_NODE_DEAD, WIRE_NODE_RETIRED, WIRE_NODE_RISING };

struct wire_node {
    uint32_t next;
    uint32_t state; /* enum wire_node_state */
    uint32_t hash;
    uint32_t next_free;
    /* key, then values */
};

/* Writers that are in the code of a COUNTED map now; each uses any of the guards. Its own cache line. */
enum { WIRE_GUARDS = 32 };
struct wire_guard {
    uint32_t count[2]; /* by the side that was used when they came */
    uint32_t pad[14];
};

/* Stacks, as a tree that only grows. A stack is the number (from 1) of the node of its innermost frame; `parent` leads outwards to the node
 * of the process, whose parent is 0: so equal addresses of different processes stay apart. A node is found by (parent, pc) through its
 * bucket, as in maps. One that was handed out and whose writer was killed is lost. */
struct wire_stack_node {
    uint32_t parent;
    uint32_t next; /* in the bucket */
    uint64_t pc;   /* innermost: of the probe; others: return addresses. Of the process: WIRE_STACK_ROOT() */
};
/* `image`: what the process had mapped then, see struct wire_space. */
#define WIRE_STACK_ROOT(image, pid) ((uint64_t)(image) << 32 | (uint32_t)(pid))

struct wire_frame {
    uint32_t owner; /* 0: free; else the thread */
    uint32_t claim; /* grows with each; changes together with `owner` */
    uint32_t pid;   /* of the owner; written by him, as the next */
    uint32_t unused;
    uint64_t fire_va; /* his struct wire_fire; 0 when it is free and until he has written it */
    /* frame_bytes follow */
};

/* What a run of a clause has at hand: on the stack of the thread that fires, or in the host. JIT code and eval share it. */
struct wire_fire {
    uint64_t session_va; /* struct wire_session as this process has it */
    uint64_t frame_va;
    uint64_t process_va; /* struct wire_process; in the host struct drain_subject, or 0 */
    uint64_t machine_va; /* uint64_t[WIRE_REG64_COUNT]: machine registers by enum wire_reg; 0: none is known. JIT code, which reads them
                          * itself, gives it to USTACK alone */
    uint64_t pc, sp;     /* of the program at the probed instruction */
    uint32_t place;
    uint32_t clause;
    uint32_t model; /* enum wire_model */
    uint32_t fuel;
    uint32_t speculation;
    uint32_t error; /* enum wire_error: why the run ended */
    uint64_t error_value;
    uint32_t error_insn;
    uint32_t pid, tid; /* 0: not known yet */
    uint32_t unused;
    uint64_t reg[WIRE_REGS]; /* JIT code has no more of them on the stack than the clause uses */
};

/* Whether the run whose struct wire_fire was at fire_va has been left for good, as a run of the same thread can see. What a run has on its
 * stack is its own until it ends, also while a signal handler interrupts it: another run in the same place shows that it will not go on. */
static inline __attribute__((always_inline)) int wire_was_left(const struct wire_fire *fire, uint64_t fire_va)
{
    char here;
    return fire_va < (uintptr_t)fire + sizeof *fire && (uintptr_t)&here < fire_va + sizeof *fire;
}

/* What a place of a process means to all of the session. */
struct wire_place {
    uint32_t row;         /* trace point */
    uint32_t func, probe; /* numbers of its names: equal names have equal numbers */
    int32_t quota;        /* set by the controller; a clause that asks for it makes it one less each time, also below 0 */
};

/* What the agent needs of a process, in private memory of the process that fork wipes (MADV_WIPEONFORK), but for the part that must stay:
 * two pages, the first wiped. */
struct wire_process {
    uint32_t pid; /* 0: ask the kernel */
    uint32_t random;
    uint32_t calling; /* threads that are in a system call of the agent, or about to make one */
    uint8_t wiped[4084];
    int32_t tid_offset; /* from the thread pointer to the thread's tid as its C library keeps it; 0: ask the kernel */
    uint32_t quiet;     /* a filter may forbid system calls: make none; set by the agent, too (agent/quiet.h) */
    uint64_t session_va;
    uint64_t place_pcs_va; /* uint64_t[place_count]: address by place */
    uint64_t places_va;    /* struct wire_place[place_count] */
    uint64_t biases_va;    /* uint64_t[place_count] */
    uint64_t spaces_va;    /* struct wire_spaces (wire/unwind.h); 0: no stacks are taken */
    uint64_t stack_end_va; /* of the stack that the kernel gave the program; 0: not known */
    uint64_t index;        /* of the journal, see wire/shared.h */
    char comm[16];         /* name of the main thread when the process was loaded, zero-padded */
    uint32_t place_count;
    uint32_t site_limit; /* entries of the journal's sites that are mapped */
    uint32_t safe_count; /* ranges in which reads are direct */
    uint32_t unused;
    struct {
        uint64_t start_va, end_va;
    } safe[100];
};

_Static_assert(sizeof(struct wire_record) == 32 && sizeof(struct wire_node) == 16 && sizeof(struct wire_frame) == 24 &&
                   sizeof(struct wire_stack_node) == 16,
               "layout");
_Static_assert(offsetof(struct wire_fire, pc) == 32 && offsetof(struct wire_fire, reg) == 96 && sizeof(struct wire_fire) == 224, "layout");
_Static_assert(offsetof(struct wire_process, tid_offset) == 4096, "layout");
_Static_assert(sizeof(struct wire_guard) == 64 && sizeof(struct wire_map) == 104 && sizeof(struct wire_map_state) == 32 &&
                   sizeof(struct wire_place) == 16 && sizeof(struct wire_process) == 5792,
               "layout");

#endif
