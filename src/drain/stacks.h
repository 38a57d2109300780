/* Stacks out of the session's tree (struct wire_stack_node). */
#ifndef DRAIN_STACKS_H
#define DRAIN_STACKS_H

#include "drain/session.h"

/* What is in the tree is for the processes to say: a number that leads nowhere gives an empty stack, one that leads round in a circle ends.
 * *root: WIRE_STACK_ROOT() of the process, 0 with an empty stack. `pcs` has room for WIRE_STACK_MAX, innermost first: see struct
 * wire_stack_node. Returns how many. */
uint32_t drain_stack_read(const struct drain_session *session, uint32_t number, uint64_t *pcs, uint64_t *root);

#endif
