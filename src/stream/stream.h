/* The trace stream as a whole: what enters is bytes; what leaves is a verdict, or text for people. No input, no output. */
#ifndef STREAM_STREAM_H
#define STREAM_STREAM_H

#include "base/err.h"
#include "wire/stream.h"

#include <stddef.h>
#include <stdio.h>

/* NULL when every rule of wire/stream.h holds for the `bytes` bytes at `stream` (aligned to 8). Nothing is believed before it has been
 * checked; time is linear in the length of the code. */
struct err *stream_verify(const void *stream, size_t bytes);

/* The parts of a verified stream. */
const struct wire_clause *stream_clauses(const struct wire_stream *stream);
const struct wire_map_type *stream_maps(const struct wire_stream *stream);
const struct wire_record_type *stream_records(const struct wire_stream *stream);
const struct wire_point *stream_points(const struct wire_stream *stream);
const struct wire_source *stream_sources(const struct wire_stream *stream, enum wire_model model);
const char *stream_data(const struct wire_stream *stream);
/* The clause's code in a model: predicate, then action. */
const struct wire_insn *stream_code(const struct wire_stream *stream, uint32_t clause, enum wire_model model, uint32_t *count);

/* The clause table and both code regions as text: `probity compile`. */
void stream_dump(const struct wire_stream *stream, FILE *out);

#endif
