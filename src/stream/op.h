/* The operations by number, for whoever checks, prints or compiles them. */
#ifndef STREAM_OP_H
#define STREAM_OP_H

#include "wire/stream.h"

#include <stdbool.h>

struct stream_op {
    const char *name;
    const char *fields; /* letters of wire/ops.def */
};

/* By enum wire_op. */
extern const struct stream_op stream_ops[WIRE_OP_COUNT];
/* By enum wire_ctx, enum wire_map_kind, enum wire_reduce. */
extern const char *const stream_ctx_names[WIRE_CTX_COUNT];
extern const char *const stream_map_kind_names[WIRE_MAP_KINDS];
extern const char *const stream_reduce_names[WIRE_REDUCES];

bool stream_op_has(uint32_t op, char letter);

#endif
