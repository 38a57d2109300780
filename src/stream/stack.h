/* The session's tree of stacks (struct wire_stack_node). Freestanding. Called while firing. */
#ifndef STREAM_STACK_H
#define STREAM_STACK_H

#include "wire/session.h"

/* The number of the stack, innermost first, of the process that `root` names. 0: there is no room, which has been counted. */
uint32_t stream_stack_add(struct wire_session *session, uint64_t root, const uint64_t *pcs, uint32_t count);

#endif
