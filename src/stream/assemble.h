/* Streams that are not written as scripts: clauses of a few instructions each, equal in both models; alone, or behind those of a script. */
#ifndef STREAM_ASSEMBLE_H
#define STREAM_ASSEMBLE_H

#include "wire/stream.h"

#include <stddef.h>

struct stream_clause_code {
    const struct wire_insn *insn; /* records that it emits are numbered from 0 */
    uint32_t count;
    uint32_t frame_bytes;
};

/* The clauses and records of `base` (it may be NULL), which keep their numbers, and behind them these: clauses, and records with so many
 * bytes of payload each. The caller frees it, and it still has to be verified. */
struct wire_stream *stream_assemble(const struct wire_stream *base, const struct stream_clause_code *clause, uint32_t clauses,
                                    const uint32_t *payload_bytes, uint32_t records);

#endif
