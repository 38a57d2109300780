/* What trace points mean in files, before any process is touched. */
#ifndef LIVE_MATCH_H
#define LIVE_MATCH_H

#include "live/live.h"

/* The value of a config variable: the caller's if not NULL, else the script's, else `otherwise`. */
const char *live_setting(const struct live_script *script, const char *given, const char *name, const char *otherwise);

/* How many places the trace points in processes mean in the files that they name. ERR_NO_MATCH for the first that means none, with near
 * names, unless missing_probes says to warn or to ignore; then only when none of the script's means anything. */
struct err *live_match(struct live_script *script, const struct live_options *options, uint64_t *places);

/* `struct point *p`. */
void live_put_declaration(FILE *out, struct symbol_dwarf *dwarf, const struct symbol_type *type, const char *name);

#endif
