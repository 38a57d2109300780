/* Writing records into the session's rings. Freestanding. Called while firing. */
#ifndef STREAM_RING_H
#define STREAM_RING_H

#include "wire/session.h"

/* Writes a record with `bytes` of payload (a multiple of 8). Without room it is counted as lost, or waited for in a lossless session. */
void stream_ring_write(struct wire_fire *fire, uint32_t type, const void *payload, uint32_t bytes);
/* Writes the error record of a run that ended with fire->error. */
void stream_ring_write_error(struct wire_fire *fire);

#endif
