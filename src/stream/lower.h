/* Checked trees → trace stream.
 *
 * In: the clauses of a script, checked for each data model and environment. Out: the bytes of a stream that stream_verify() accepts, and
 * what the host needs to understand the records that its code writes.
 *
 * Registers are used as a stack: an expression's value goes to the lowest register that is free. Scratch variables and everything larger
 * than a register live in the frame: variables first, zeroed when the clause starts, then temporaries, given back at the end of each
 * statement. */
#ifndef STREAM_LOWER_H
#define STREAM_LOWER_H

#include "base/err.h"
#include "base/memory.h"
#include "script/script.h"
#include "wire/stream.h"

/* Where an argument or a local variable is: what the cookie of a script_argument points to. */
enum stream_place { STREAM_IN_REG, STREAM_IN_XMM, STREAM_IN_ST0, STREAM_IN_MEMORY, STREAM_CONSTANT, STREAM_NOWHERE };
struct stream_piece {
    enum stream_place place;
    uint32_t reg;   /* machine register (enum wire_reg of the model), xmm number, or the base register of memory */
    int64_t offset; /* memory: from the base register; constant: the value */
    uint32_t bytes; /* of the value that this piece holds */
};
struct stream_location {
    struct stream_piece piece[2];
    uint32_t pieces;
    const char *why; /* STREAM_NOWHERE: for the message */
};

/* One clause as it is attached: for each model that it may fire in, its tree (else NULL). */
struct stream_unit {
    const struct script_checked *checked[WIRE_MODELS];
    const char *const *points; /* names of its trace points */
    size_t n_points;
};

/* What a record of the stream's table means. */
struct stream_record {
    uint32_t unit;
    enum script_model model;
    const struct script_action *action; /* NULL for the two below */
    enum { STREAM_RECORD_ACTION, STREAM_RECORD_COMMIT, STREAM_RECORD_DISCARD } kind;
};

/* The payload of join(): so many strings, each with so much room. */
enum { STREAM_JOIN_ARGS = 16, STREAM_JOIN_BYTES = 1024 };

struct stream_options {
    uint32_t map_keys;  /* capacity of maps that do not say, 0: as is usual */
    uint32_t child_pid; /* cpid */
    bool unsafe;
};

struct stream_built {
    struct wire_stream *stream; /* owned; stream->bytes of them */
    VEC(struct stream_record) record;
};
void stream_built_deinit(struct stream_built *built);

/* An error names the place in the script. */
struct err *stream_lower(const struct script_program *program, const struct stream_unit *unit, size_t n_units,
                         const struct stream_options *options, struct stream_built *out);

#endif
