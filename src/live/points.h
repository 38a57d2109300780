/* Trace points of a script → units of the stream and specifications for the engine. */
#ifndef LIVE_POINTS_H
#define LIVE_POINTS_H

#include "live/live.h"

/* Adds what the clause's points mean. A point that means nothing is noted in script->problem. */
void live_add_clause(struct live_script *script, const struct live_options *options, size_t index);

/* Whether the controller runs such clauses itself. */
bool live_runs_here(enum script_point_kind kind);

#endif
