/* The memories that a traced process shares with its controller, who makes them: two memfds, mapped in both.
 *
 * The journal, which the controller writes and the process can only read (base/sealed.h):
 *
 *   offset 0         struct wire_shared
 *   regions_offset   struct wire_region[region_room]: code mappings that the controller made
 *   sites_offset     struct wire_site[site_room]: the journal of patched bytes
 *   pcs_offset       struct wire_pc[pc_room]: what each address in our code stands for in the program's own code
 *   ...              hash tables that find the site at an address of the program, each twice as large as the one before: see below
 *
 * Tables have room for more than most processes ever need, and of each the process maps only a part, from its start on, which grows with
 * what is in it. How far it goes is in the private memory of the process (struct wire_process), because a child that was forked before does
 * not map what its parent has mapped since.
 *
 * It is written before what it describes is done, and shortened after it is undone, so that whoever comes after a controller that died can
 * put the process right. To him it is as untrusted as all memory of the process: he can not know who made it.
 *
 * The live memory, which the process writes, too, and of which the controller believes nothing (load/live.h):
 *
 *   offset 0         struct wire_live
 *   behind it        counters, in blocks of WIRE_BLOCK_COUNTERS: wire_counter_offset(); then struct wire_place by place
 *
 * Counters are added to with locked instructions: the shard is only a hint that keeps processors apart, so counts are exact whatever
 * threads, forks and signals do. Fixed widths, no pointers: equal for 32- and 64-bit processes. */
#ifndef WIRE_SHARED_H
#define WIRE_SHARED_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_SHARED_MAGIC 0x34797469626f7270ull /* "probity4": the last character is the version */
#define WIRE_MEMFD_NAME "probity"               /* of the journal's memory; the controller's pid and a time follow */

/* What is where in the agent's code. Those that take a block are called by the code of WIRE_PC_CALL. */
enum {
    WIRE_AGENT_LOAD_EVENT = 0,  /* void (struct wire_shared *, void *block): the loader's hook */
    WIRE_AGENT_TRAP = 8,        /* a handler of SIGTRAP */
    WIRE_AGENT_RESTORER = 16,   /* its return to the kernel */
    WIRE_AGENT_ACTION = 24,     /* as LOAD_EVENT: the system call rt_sigaction is about to be made */
    WIRE_AGENT_ENTER = 32,      /* as LOAD_EVENT: a signal handler begins */
    WIRE_AGENT_LEAVE = 40,      /* as LOAD_EVENT: a signal handler has returned and rt_sigreturn is about to be made */
    WIRE_AGENT_SHARED = 48,     /* uint64_t, written by the controller: where the shared memory is */
    WIRE_AGENT_RANGES = 56,     /* uint32_t[4], offsets: code that waits, then code that does not, which ends at the third; all of it is
                                   called with a block, whose address is in the base pointer as long as it runs. Then, up to the fourth,
                                   code that writes records; all behind it is called by clauses, too */
    WIRE_AGENT_GO_ON = 72,      /* as LOAD_EVENT: a `ret` is about to go on at a pc that may be one of a signal context */
    WIRE_AGENT_GO_ON_BARE = 80, /* ... in code that uses no red zone and may have little stack: the call does not step over one */
    WIRE_AGENT_OP = 128,        /* eval_op() */
    WIRE_AGENT_ERROR = 136,     /* stream_ring_write_error() */
    WIRE_AGENT_CLAIM = 144,     /* uint64_t (struct wire_fire *) */
    WIRE_AGENT_RELEASE = 152,   /* void (struct wire_fire *, uint64_t) */
};

/* How code of ours is undone at one of its instruction boundaries: `depth` registers lie on the stack, `below` bytes above the stack
 * pointer (or, once they are made, above the base pointer), and red_zone bytes follow them. They were pushed in this order: ax, cx, dx by
 * counting code; by calls of the agent flags, ax, cx, dx, si, di, r8 to r15, bx, bp in 64 bit, flags and what pusha pushes in 32 bit. */
enum wire_undo_flag {
    WIRE_UNDO_FLAGS_IN_AX = 1,      /* ah holds the low flags, and al the overflow flag */
    WIRE_UNDO_OVERFLOW_IN_FLAG = 2, /* ... but the overflow flag is already back */
    WIRE_UNDO_CARRY = 4,            /* the carry flag still has to be added to the counter's upper half, whose address follows from cx */
    WIRE_UNDO_DONE = 8,             /* the hit has been added, the agent has been called */
    WIRE_UNDO_BASE = 16,            /* the base pointer says where the registers are */
};
struct wire_undo {
    uint8_t offset; /* of the boundary */
    uint8_t depth;
    uint8_t red_zone;
    uint8_t below;
    uint8_t flags; /* enum wire_undo_flag */
    uint8_t unused[3];
};
enum { WIRE_UNDO_ROOM = 48 };
/* The block: WIRE_CALL_WORDS words for the agent, the first of them 0 at the start, then the saved registers. The return address of the
 * call lies WIRE_CALL_RETURN bytes under the block's address rounded down to 16. */
enum { WIRE_CALL_WORDS = 22, WIRE_CALL_RETURN64 = 8, WIRE_CALL_RETURN32 = 20 };

/* A signal handler that the program has or is about to have. */
enum wire_handler_state { WIRE_HANDLER_FREE, WIRE_HANDLER_BUSY, WIRE_HANDLER_WANTED, WIRE_HANDLER_TAKEN, WIRE_HANDLER_KNOWN };
struct wire_handler {
    uint64_t va;
    uint64_t restorer_va; /* 0: the kernel's own, in the vdso */
    uint32_t is_info;     /* SA_SIGINFO */
    uint32_t
        state; /* enum wire_handler_state: the agent makes a free entry busy and then wanted, the controller takes it and then knows it */
};
/* Where handlers return to, with a probe in place. */
struct wire_restorer {
    uint64_t va;      /* 0: none */
    uint32_t is_info; /* the frame is that of a handler with SA_SIGINFO; always so in 64 bit */
    uint32_t unused;
};
enum { WIRE_HANDLER_ROOM = 128, WIRE_RESTORER_ROOM = 8 };

/* Shard s of a counter is the uint64_t at that offset + (s << WIRE_SHARD_SHIFT). A block holds all shards of its counters. */
enum { WIRE_BLOCK_COUNTERS = 1 << 14, WIRE_SHARD_SHIFT = 17 };
static inline uint64_t wire_counter_offset(uint32_t counter, uint64_t block_bytes)
{
    return counter / WIRE_BLOCK_COUNTERS * block_bytes + counter % WIRE_BLOCK_COUNTERS * 8ull;
}

struct wire_shared {
    uint64_t magic;
    uint64_t owner_start_ticks; /* with owner_pid: the controller, see target_start_time() */
    uint32_t owner_pid;
    uint32_t width;     /* 32 or 64 */
    uint64_t shared_va; /* where the process maps this */
    uint64_t shared_bytes;
    uint64_t live_va; /* struct wire_live in the process; 0: not yet */
    uint64_t regions_offset;
    uint64_t sites_offset;
    uint64_t pcs_offset;
    uint64_t trap_handler_va; /* our handler of SIGTRAP, 0 when it is not installed */
    uint32_t region_room, site_room, pc_room;
    uint32_t region_count;
    uint32_t site_count;
    uint32_t pc_count;
    uint64_t agent_va;          /* its code; with the offsets of WIRE_AGENT_RANGES */
    uint64_t untouched_signals; /* bit n - 1: handlers of signal n are shown our pc, because they do more with it than look */
    uint64_t process_va;        /* struct wire_process (wire/session.h) */
    uint64_t own_stacks_va;     /* stacks of ours (jit/jit.h), in a region; 0: none */
    uint32_t own_stack_count, unused2;
    uint32_t fire_undo_count, call_undo_count;
    struct wire_undo fire_undo[WIRE_UNDO_ROOM]; /* of counting code */
    struct wire_undo call_undo[WIRE_UNDO_ROOM]; /* of code that calls the agent */
    struct wire_restorer restorer[WIRE_RESTORER_ROOM];
};
enum { WIRE_SHARED_BYTES = 4096 }; /* room for it */

struct wire_live {
    uint32_t load_events;  /* futex: libraries came or went this often; written by the agent */
    uint32_t load_answers; /* futex: ... and the controller has dealt with this many */
    uint32_t heartbeat;    /* grows while the controller lives */
    uint32_t agent_off;    /* set by the controller (detaching) or the agent (controller gone): the agent waits for nothing any more */
    struct wire_handler handler[WIRE_HANDLER_ROOM];
    uint8_t scratch[256]; /* for system calls that the process is made to make */
};
enum { WIRE_LIVE_BYTES = 4096 }; /* room for it */

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
    uint8_t extent;         /* bytes from `va` on whose instructions run in the trampoline; 0: an island, which only leads there */
    uint8_t unused[6];
    uint8_t original[WIRE_SITE_MAX];
    uint8_t patched[WIRE_SITE_MAX];
};

enum wire_pc_kind {
    WIRE_PC_NONE,   /* a free entry */
    WIRE_PC_FIRE,   /* start of firing code: a thread in it, once its registers are taken from the stack, stands at origin_va */
    WIRE_PC_COPY,   /* a boundary in a displaced copy: stands at origin_va with the stack pointer sp_undo higher */
    WIRE_PC_CALL,   /* start of code that calls the agent: the controller waits for a thread in it to leave */
    WIRE_PC_CLAUSE, /* start of code that calls a clause's body: likewise */
};
/* Boundaries in that code: behind the step over the red zone (64 bit), behind the push of the place's number, and behind the call, from
 * where on the clause has run. */
enum { WIRE_CLAUSE_ZONE64 = 5, WIRE_CLAUSE_PUSHED64 = 10, WIRE_CLAUSE_DONE64 = 16, WIRE_CLAUSE_PUSHED32 = 5, WIRE_CLAUSE_DONE32 = 10 };

struct wire_pc {
    uint64_t va;
    uint64_t origin_va;
    uint16_t kind; /* enum wire_pc_kind */
    uint16_t sp_undo;
    uint32_t value; /* WIRE_PC_FIRE: the counter; WIRE_PC_COPY: 1 when the probes of the instruction at origin_va have fired already;
                       WIRE_PC_CALL: which function, WIRE_AGENT_... */
};

/* In front of each trampoline, whose address is a multiple of 16. Its wire_pc entries are in order of address, but for that of an island,
 * which comes last. */
struct wire_trampoline {
    uint64_t check; /* WIRE_TRAMPOLINE_MAGIC ^ the trampoline's address */
    uint32_t pc_first, pc_count;
};
#define WIRE_TRAMPOLINE_MAGIC 0x9d2c5680f3b1a64dull

/* The hash table of sites. A cell is 0 (free), WIRE_INDEX_GONE, or the number of a site plus one. A site is found from every 16-byte unit
 * that its `extent` bytes (an island: its first byte) lie in: unit u from cell wire_index_cell(u) & mask on, up to a free one. Where the
 * table is, and how large, is one word of struct wire_process, so that both change at once: its offset in the journal, a multiple of a
 * page, plus the logarithm of the number of its cells. The 256 units of a page of code have cells side by side, so the table takes few
 * pages when few pages of code have sites. */
#define WIRE_INDEX_GONE 0xffffffffu
#define WIRE_INDEX_FACTOR 2654435761u
enum { WIRE_INDEX_UNIT_SHIFT = 4, WIRE_INDEX_GROUP_SHIFT = 8, WIRE_INDEX_STEP = 4096 };
static inline __attribute__((always_inline)) uint32_t wire_index_cell(uint32_t unit)
{
    const uint32_t group = (1u << WIRE_INDEX_GROUP_SHIFT) - 1;
    return ((unit >> WIRE_INDEX_GROUP_SHIFT) * WIRE_INDEX_FACTOR & ~group) | (unit & group);
}

/* What the agent keeps in a signal frame whose pc it has changed for the handler to see, in two words of the process's width that the
 * kernel leaves alone (64 bit: the last of sigcontext.reserved1; 32 bit: the retcode of frames with siginfo, else the unused old fpstate):
 * where the thread is to go on if the handler leaves the pc as it is, and WIRE_RECORD_MAGIC ^ that ^ the pc shown ^ the record's address.
 */
enum { WIRE_RECORD_AFTER_PC64 = 112, WIRE_RECORD_AFTER_PC32 = 40 };
#define WIRE_RECORD_MAGIC 0x6b8f53d1c24e7a95ull

_Static_assert(sizeof(struct wire_shared) == 152 + 2 * 8 * WIRE_UNDO_ROOM + 16 * WIRE_RESTORER_ROOM, "layout is shared by two data models");
_Static_assert(sizeof(struct wire_live) == 16 + 24 * WIRE_HANDLER_ROOM + 256 && sizeof(struct wire_live) <= WIRE_LIVE_BYTES, "layout");
_Static_assert(sizeof(struct wire_shared) <= WIRE_SHARED_BYTES, "room");
_Static_assert(offsetof(struct wire_shared, shared_va) == 24, "layout");
_Static_assert(offsetof(struct wire_shared, region_count) == 92, "layout");
_Static_assert(sizeof(struct wire_region) == 16 && sizeof(struct wire_site) == 40 && sizeof(struct wire_pc) == 24, "layout");

#endif
