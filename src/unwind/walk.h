/* From the registers of a thread to the frames of its stack. Freestanding: the agent calls it while firing, the controller for samples. No
 * allocation, no recursion, no library; time is bounded by the room for frames.
 *
 * In: the modules of the process with their tables (wire/unwind.h), registers, and a way to read memory. Out: return addresses, innermost
 * first, pcs[0] being the pc itself.
 *
 * Rules
 *  1. A frame's caller is looked up at its return address - 1, so that a call that is a function's last instruction stays in it; what a
 *     signal frame interrupted is looked up at its pc itself.
 *  2. The CFA grows from frame to frame, except across a signal frame (alternate stacks). Otherwise the walk ends, as cut.
 *  3. Where there is no table (generated code), the frame pointer chain is followed as long as it leads upwards, and the walk says so.
 *  4. All of it may be hostile: tables, modules, memory. */
#ifndef UNWIND_WALK_H
#define UNWIND_WALK_H

#include "wire/stream.h"
#include "wire/unwind.h"

#include <stdbool.h>

/* Code of the process that a table is known for. */
struct unwind_module {
    uint64_t start_va, end_va; /* in the process */
    uint64_t bias;             /* address in the process - address in the file */
    uint64_t table_va;         /* of the struct wire_unwind, for whoever walks; 0: there is none */
    uint64_t table_bytes;      /* that may be read there; what the table says of itself does not count */
};

struct unwind_space {
    const struct unwind_module *module; /* ascending, not overlapping */
    uint32_t module_count;
    uint32_t width; /* 32 or 64 */
};

struct unwind_regs {
    uint64_t reg[WIRE_REG64_COUNT]; /* by enum wire_reg of the width; SP among them. IP and FLAGS are not looked at */
    uint64_t pc;
    uint32_t known; /* bit r: reg[r] is the thread's */
};

/* Reads a word of the width. False: it can not be read. */
typedef bool unwind_read_fn(void *context, uint64_t va, uint64_t *word);

enum unwind_end {
    UNWIND_COMPLETE, /* reached the outermost frame */
    UNWIND_ROOM,     /* more frames than room */
    UNWIND_NO_RULE,  /* nothing is known about the code at the last pc */
    UNWIND_NO_READ,  /* the stack could not be read (a copy of it was too short) */
    UNWIND_CUT,      /* a frame that makes no sense */
};

struct unwind_result {
    uint32_t count; /* of pcs */
    enum unwind_end end;
    bool guessed;        /* a frame was found through frame pointers only */
    uint64_t missing_va; /* NO_READ: what could not be read */
    bool is_new;         /* of a copy: a caller further out is not what was there before (unwind_stack.before) */
};

/* What a walk has of registers. The agent has it in memory that other processes can write, to take little of the program's stack: nothing
 * in it is a pointer, an index or a bound. */
struct unwind_work {
    struct unwind_regs regs; /* in: where the walk starts */
    uint64_t value[WIRE_SAVED_COUNT];
};

/* A walk. Before unwind_walk() the caller fills in the first four fields and work->regs. */
struct unwind_walk {
    struct unwind_work *work;
    const struct unwind_space *space;
    unwind_read_fn *read;
    void *context;
    struct unwind_result result; /* out */
    uint64_t mask;               /* of a word */
    uint8_t word;                /* bytes */
    uint8_t sp, bp;
};

void unwind_walk(struct unwind_walk *walk, uint64_t *pcs, uint32_t room);

#endif
