/* What the agent's entry table leads to. */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "wire/session.h"
#include "wire/shared.h"

void agent_load_event(struct wire_shared *shared);
void agent_trap(int number, void *info, void *context);
/* A frame of the pool, 0 when none is free, which has been counted. */
uint64_t agent_claim(struct wire_fire *fire);
void agent_release(struct wire_fire *fire, uint64_t frame_va);

#endif
