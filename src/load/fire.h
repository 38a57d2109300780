/* Firing code: what a trampoline runs when a probed instruction is reached, as bytes, and how to take a thread out of the middle of it.
 *
 *   64-bit: step over the red zone, save rax rcx rdx, flags into ax; locked add to this processor's shard of the counter; restore.
 *   32-bit: the same with eax ecx and a 64-bit counter in two halves (add, adc).
 *
 * Every instruction boundary has a record of what is saved where, so that a thread found at any of them can be given back the registers it
 * came with and be sent to the probed instruction itself: before the add the hit has not happened, after it it has been counted. */
#ifndef LOAD_FIRE_H
#define LOAD_FIRE_H

#include "insn/insn.h"
#include "wire/shared.h"

#include <stddef.h>
#include <stdint.h>

enum { FIRE_MAX_BYTES = 160 };

/* The registers that firing code uses; wide enough for both modes. */
struct fire_regs {
    uint64_t ax, cx, dx, sp, flags;
};

/* Code that adds one to the counter whose shard 0 lies at `counter_va`. Returns its length. */
size_t fire_count_emit(enum insn_mode mode, uint64_t counter_va, uint32_t shard_mask, uint32_t shard_shift, uint8_t out[FIRE_MAX_BYTES]);
/* Code that calls the agent's function at `function_va` with `argument` and the block of saved registers (see struct wire_undo), and then
 * restores them all, as the function may have changed them. */
size_t fire_call_emit(enum insn_mode mode, uint64_t function_va, uint64_t argument, uint8_t out[FIRE_MAX_BYTES]);
/* Has that code not step over the red zone: at the same places other instructions do nothing. */
void fire_call_make_bare(enum insn_mode mode, uint8_t *code, size_t length);

/* Where in it the function returns to. */
size_t fire_call_return(enum insn_mode mode);

/* Code that calls a clause's body (jit/jit.h says how) for place number `place`. In 64-bit code the address of the body is read from
 * elsewhere: *literal is where in the code the distance to it, from behind that field, is to be put; 0 when there is no such field. */
size_t fire_clause_emit(enum insn_mode mode, uint64_t va, uint64_t body_va, uint32_t place, uint8_t out[FIRE_MAX_BYTES], size_t *literal);

/* How to undo counting code at one of its boundaries. */
struct fire_undo {
    uint8_t saved;         /* words on the stack: ax, then cx, then dx were pushed */
    uint8_t red_zone;      /* bytes stepped over before them */
    bool flags_in_ax;      /* ah holds the low flags, and al the overflow flag */
    bool overflow_in_flag; /* ... but the overflow flag is already back */
    bool counted;          /* the hit has been added */
    bool carry_pending;    /* the carry flag still has to be added to the counter's upper half, whose address follows from cx */
};
/* What the agent needs to do the same, for both kinds of code. They return how many entries they make. */
uint32_t fire_count_table(enum insn_mode mode, struct wire_undo out[WIRE_UNDO_ROOM]);
uint32_t fire_call_table(enum insn_mode mode, struct wire_undo out[WIRE_UNDO_ROOM]);
/* False when `offset` is no boundary of the code that fire_count_emit() makes. */
bool fire_count_undo(enum insn_mode mode, size_t offset, struct fire_undo *out);
/* Puts registers right; `stack` holds the `saved` words from the stack pointer up. */
void fire_undo_apply(enum insn_mode mode, const struct fire_undo *undo, const uint64_t stack[3], struct fire_regs *regs);

#endif
