/* The parts of a verified stream. */
#include "stream/stream.h"

static const void *at(const struct wire_stream *stream, uint32_t offset)
{
    return (const char *)stream + offset;
}

const struct wire_clause *stream_clauses(const struct wire_stream *stream)
{
    return at(stream, stream->clause_offset);
}

const struct wire_map_type *stream_maps(const struct wire_stream *stream)
{
    return at(stream, stream->map_offset);
}

const struct wire_record_type *stream_records(const struct wire_stream *stream)
{
    return at(stream, stream->record_offset);
}

const struct wire_point *stream_points(const struct wire_stream *stream)
{
    return at(stream, stream->point_offset);
}

const struct wire_source *stream_sources(const struct wire_stream *stream, enum wire_model model)
{
    const struct wire_source *sources = at(stream, stream->source_offset);
    return model == WIRE_LP64 ? sources + stream->code_count[WIRE_ILP32] : sources;
}

const char *stream_data(const struct wire_stream *stream)
{
    return at(stream, stream->data_offset);
}

const struct wire_insn *stream_code(const struct wire_stream *stream, uint32_t clause, enum wire_model model, uint32_t *count)
{
    const struct wire_clause *entry = stream_clauses(stream) + clause;
    *count = entry->predicate[model].count + entry->action[model].count;
    return (const struct wire_insn *)at(stream, stream->code_offset[model]) + entry->predicate[model].first;
}
