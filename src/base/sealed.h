/* Memory that is handed to processes which may mean harm. Its size is sealed, so that nobody can make it shorter under us, which would kill
 * us by SIGBUS; the size is ours and is never asked for again. */
#ifndef BASE_SEALED_H
#define BASE_SEALED_H

#include "base/err.h"

#include <stdint.h>

/* READERS: whoever gets the descriptor can only ever read what is there; nobody but we, through `memory`, can write it. */
enum sealed_for { SEALED_WRITERS, SEALED_READERS };

/* A memfd of that name, all zero. *fd is to be handed out and *memory is where we map it; both are the caller's, or -1 and NULL after an
 * error. */
struct err *sealed_create(const char *name, uint64_t bytes, enum sealed_for whom, int *fd, void **memory);

#endif
