/* The memory that a traced process shares with its controller: one memfd, mapped in both.
 *
 *   offset 0         struct wire_shared
 *   counters_offset  counters: shard s of counter c is the uint64_t at counters_offset + (s << shard_shift) + 8 * c
 *   regions_offset   struct wire_region[region_room]: code mappings that the controller made
 *   sites_offset     struct wire_site[site_room]: the journal of patched bytes
 *   pcs_offset       struct wire_pc[pc_room]: what each address in our code stands for in the program's own code
 *
 * The journal is written before what it describes is done, and shortened after it is undone, so that whoever comes after a controller that
 * died can put the process right. Counters are added to with locked instructions: the shard is only a hint that keeps processors apart, so
 * counts are exact whatever threads, forks and signals do. Fixed widths, no pointers: equal for 32- and 64-bit processes. */
#ifndef WIRE_SHARED_H
#define WIRE_SHARED_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_SHARED_MAGIC 0x31797469626f7270ull /* "probity1" */
#define WIRE_MEMFD_NAME "probity"

/* What is where in the agent's code. */
enum {
    WIRE_AGENT_LOAD_EVENT = 0, /* void (struct wire_shared *): the loader's hook */
    WIRE_AGENT_TRAP = 8,       /* a handler of SIGTRAP */
    WIRE_AGENT_RESTORER = 16,  /* its return to the kernel */
    WIRE_AGENT_SHARED = 32,    /* uint64_t, written by the controller: where the shared memory is */
    WIRE_AGENT_OP = 128,       /* eval_op() */
    WIRE_AGENT_ERROR = 136,    /* stream_ring_write_error() */
    WIRE_AGENT_CLAIM = 144,    /* uint64_t (struct wire_fire *) */
    WIRE_AGENT_RELEASE = 152,  /* void (struct wire_fire *, uint64_t) */
};

struct wire_shared {
    uint64_t magic;
    uint64_t owner_start_ticks; /* with owner_pid: the controller, see target_start_time() */
    uint32_t owner_pid;
    uint32_t width;     /* 32 or 64 */
    uint64_t shared_va; /* where the process maps this */
    uint64_t shared_bytes;
    uint64_t counters_offset;
    uint64_t regions_offset;
    uint64_t sites_offset;
    uint64_t pcs_offset;
    uint64_t trap_handler_va; /* our handler of SIGTRAP, 0 when it is not installed */
    uint32_t counter_room;
    uint32_t shard_mask;  /* shards - 1 */
    uint32_t shard_shift; /* log2 of the bytes of a shard */
    uint32_t region_room, site_room, pc_room;
    uint32_t region_count; /* written by the controller, as the next two */
    uint32_t site_count;
    uint32_t pc_count;
    uint32_t load_events;  /* futex: libraries came or went this often; written by the agent */
    uint32_t load_answers; /* futex: ... and the controller has dealt with this many */
    uint32_t heartbeat;    /* grows while the controller lives */
    uint32_t unused;
    uint32_t agent_off; /* set by the controller (detaching) or the agent (controller gone): the agent waits for nothing any more */
};

struct wire_region {
    uint64_t va;
    uint64_t bytes;
};

enum { WIRE_SITE_MAX = 8 };

/* Bytes of the program that were replaced. */
struct wire_site {
    uint64_t va;
    uint64_t trampoline_va; /* where it leads, for the handler of traps */
    uint8_t length;         /* 1 to WIRE_SITE_MAX; 0: a free entry */
    uint8_t unused[7];
    uint8_t original[WIRE_SITE_MAX];
    uint8_t patched[WIRE_SITE_MAX];
};

enum wire_pc_kind {
    WIRE_PC_NONE, /* a free entry */
    WIRE_PC_FIRE, /* start of firing code: a thread in it, once its registers are taken from the stack, stands at origin_va */
    WIRE_PC_COPY, /* a boundary in a displaced copy: stands at origin_va with the stack pointer sp_undo higher */
    WIRE_PC_CALL, /* start of code that calls the agent: a thread in it must be waited for */
};

struct wire_pc {
    uint64_t va;
    uint64_t origin_va;
    uint16_t kind; /* enum wire_pc_kind */
    uint16_t sp_undo;
    uint32_t value; /* WIRE_PC_FIRE: the counter; WIRE_PC_COPY: 1 when the probes of the instruction at origin_va have fired already */
};

_Static_assert(sizeof(struct wire_shared) == 136, "layout is shared by two data models");
_Static_assert(offsetof(struct wire_shared, shared_va) == 24, "layout");
_Static_assert(offsetof(struct wire_shared, load_events) == 116, "layout");
_Static_assert(sizeof(struct wire_region) == 16 && sizeof(struct wire_site) == 40 && sizeof(struct wire_pc) == 24, "layout");

#endif
