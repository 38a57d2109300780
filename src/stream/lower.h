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

/* Where an argument or a local variable is: what the cookie of a script_argument points to. A piece computes a word
 *
 *     x = reg + index * scale + offset, as far as there are registers, + the load bias with is_file_va
 *     for each i below derefs: x = (word in memory at x) + deref_offset[i]
 */
enum stream_place {
    STREAM_NOWHERE,
    STREAM_IN_REG, /* in reg, from bit `shift` on */
    STREAM_IN_XMM, /* in xmm register `reg`; a float when `bytes` is 4 */
    STREAM_IN_ST0,
    STREAM_IN_MEMORY, /* at x */
    STREAM_IS_VALUE,  /* it is x */
};
enum { STREAM_NO_REG = -1, STREAM_PIECES = 2, STREAM_DEREFS = 2 };
struct stream_piece {
    enum stream_place place;
    int16_t reg, index; /* machine registers (enum wire_reg of the model) or STREAM_NO_REG */
    uint8_t scale, shift, derefs;
    bool is_file_va;
    int64_t offset, deref_offset[STREAM_DEREFS];
    uint32_t bytes; /* of the value that this piece holds */
};
struct stream_location {
    uint32_t pieces; /* 0: nowhere */
    struct stream_piece piece[STREAM_PIECES];
    const char *why; /* when it is nowhere */
    bool is_signed;  /* argN of a USDT probe */
    bool is_float;
};

/* One clause as it is attached: for each model that it may fire in, its tree (else NULL). */
struct stream_unit {
    const struct script_checked *checked[WIRE_MODELS];
    const char *const *points; /* names of its trace points */
    size_t n_points;
    /* USDT: where argN is; NULL for others, whose arguments are the function's. */
    const struct stream_location *args[WIRE_MODELS];
    size_t n_args[WIRE_MODELS];
    /* uaddr(): the address of a symbol in the traced file. May be NULL. */
    bool (*find_symbol)(void *cookie, enum wire_model model, const char *name, uint64_t *va);
    void *cookie;
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
    uint32_t map_keys; /* capacity of maps that do not say, 0: as is usual */
    bool has_child;    /* has_cpid */
    bool unsafe;
};

/* A name in the script: the caller puts its number into the map before anything fires. */
struct stream_name {
    uint32_t map;
    enum script_name what;
    const char *text; /* the program's */
};

struct stream_built {
    struct wire_stream *stream;   /* owned; stream->bytes of them */
    VEC(struct stream_name) name; /* texts that names are compared with */
    uint32_t child_map;           /* has cpid, which the caller sets; UINT32_MAX when the script does not ask for it */
    VEC(struct stream_record) record;
    VEC(const char *) time_format; /* of strftime(), by the number that a timestamp carries; the program's */
};
void stream_built_deinit(struct stream_built *built);

/* An error names the place in the script. */
struct err *stream_lower(const struct script_program *program, const struct stream_unit *unit, size_t n_units,
                         const struct stream_options *options, struct stream_built *out);

#endif
