/* A thread that makes `beat` of the session's state grow as long as the controller lives, and `work` as long as the thread that starts it
 * does something, which is the one that reads rings. */
#ifndef DRAIN_BEAT_H
#define DRAIN_BEAT_H

#include "base/err.h"
#include "wire/session.h"

struct drain_beat;
struct err *drain_beat_start(struct wire_session *memory, struct drain_beat **out);
/* May be NULL. */
void drain_beat_stop(struct drain_beat *beat);

#endif
