/* Shared by the files of agent/ only. */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "wire/session.h"
#include "wire/shared.h"

#include <stdbool.h>

/* Code that may wait for the controller, and code that is never in the midst of anything for long: see WIRE_AGENT_RANGES. */
#define WAITS __attribute__((section(".text.wait")))
#define SHOWS __attribute__((section(".text.show")))

/* What the code of WIRE_PC_CALL saves, in the order of pushing. */
#if defined __x86_64__
enum { SAVED_FLAGS, SAVED_AX, SAVED_CX, SAVED_DX, SAVED_SI, SAVED_DI, SAVED_COUNT = 16, RED_ZONE = 128 };
#elif defined __i386__
enum { SAVED_FLAGS, SAVED_AX, SAVED_CX, SAVED_DX, SAVED_BX, SAVED_SP, SAVED_BP, SAVED_SI, SAVED_DI, SAVED_COUNT, RED_ZONE = 0 };
#else
#error "the agent needs the registers of this architecture"
#endif

enum { CONTEXT_WORDS = 18 }; /* of a signal context, up to the last that is ever changed */

/* The block that functions of the agent are called with. */
struct agent_block {
    uintptr_t state;                  /* of agent_enter() */
    uintptr_t resume_va;              /* ... where the interrupted thread is to go on */
    uintptr_t old_pc_va;              /* ... where it was interrupted */
    uintptr_t context[CONTEXT_WORDS]; /* ... and what the handler is to see */
    uintptr_t unused;
    uintptr_t saved[SAVED_COUNT]; /* the register pushed last comes first */
};
_Static_assert(offsetof(struct agent_block, saved) == WIRE_CALL_WORDS * sizeof(uintptr_t), "layout");

static inline uintptr_t agent_saved(const struct agent_block *block, int index)
{
    return block->saved[SAVED_COUNT - 1 - index];
}

/* The stack pointer at the probed instruction. */
static inline uintptr_t agent_saved_sp(const struct agent_block *block)
{
    return (uintptr_t)&block->saved[SAVED_COUNT] + RED_ZONE;
}

/* agent.c */
void agent_load_event(struct wire_shared *shared, struct agent_block *block);
void agent_action(struct wire_shared *shared, struct agent_block *block);
void agent_trap(int number, void *info, void *context);

/* signal.c */
void agent_enter(struct wire_shared *shared, struct agent_block *block);
void agent_leave(struct wire_shared *shared, struct agent_block *block);
void agent_go_on(struct wire_shared *shared, struct agent_block *block);
void agent_go_on_bare(struct wire_shared *shared, struct agent_block *block);

/* frame.c: a frame of the pool, 0 when none is free, which has been counted. */
uint64_t agent_claim(struct wire_fire *fire);
void agent_release(struct wire_fire *fire, uint64_t frame_va);

#endif
