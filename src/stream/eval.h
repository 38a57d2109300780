/* The interpreter of the stream's code. Freestanding: in the agent, in the host, and what the JIT is tested against. Only verified code may
 * be run. Called while firing. */
#ifndef STREAM_EVAL_H
#define STREAM_EVAL_H

#include "wire/session.h"

/* Runs a clause: `count` instructions, predicate and action. fire->fuel, error and speculation are set by this; the rest of *fire is the
 * caller's. Returns enum wire_error, with fire->error, error_value and error_insn filled in. No error record is written. */
uint32_t eval_run(struct wire_fire *fire, const struct wire_insn *code, uint32_t count);
/* Does one operation that is not a jump, END or ENDZ on fire->reg and the frame. JIT code calls this for what it does not do itself. */
uint32_t eval_op(struct wire_fire *fire, const struct wire_insn *insn);

#endif
