#include "stream/assemble.h"

#include "base/memory.h"

#include <string.h>

/* ---- tables ---- */

struct building {
    char *bytes;
    uint32_t used;
};

/* A table of the base, and room for more of its entries behind it. Returns where. */
static uint32_t put(struct building *building, const void *from, size_t bytes, size_t more_bytes)
{
    uint32_t at = building->used, end = (uint32_t)((at + bytes + more_bytes + 7) & ~7ull);
    building->bytes = memory_resize(building->bytes, end, 1);
    memset(building->bytes + at, 0, end - at);
    if (bytes)
        memcpy(building->bytes + at, from, bytes);
    building->used = end;
    return at;
}

static const void *table(const struct wire_stream *base, uint32_t offset)
{
    return (const char *)base + offset;
}

/* Sources of both models are one table: those of the second lie behind those of the first. */
static uint32_t put_sources(struct building *building, const struct wire_stream *base, uint32_t more)
{
    const struct wire_source *source = table(base, base->source_offset);
    uint32_t first = base->code_count[0], second = base->code_count[1];
    uint32_t at = put(building, source, first * sizeof *source, (WIRE_MODELS * more + second) * sizeof *source);
    if (second)
        memcpy(building->bytes + at + (first + more) * sizeof *source, source + first, second * sizeof *source);
    return at;
}

/* ---- clauses ---- */

/* Their records come behind those of the base. */
static void copy_code(struct wire_insn *to, const struct stream_clause_code *clause, uint32_t base_records)
{
    memcpy(to, clause->insn, clause->count * sizeof *to);
    for (uint32_t i = 0; i < clause->count; i++)
        if (to[i].op == WIRE_EMIT)
            to[i].h = (uint16_t)(to[i].h + base_records);
}

struct wire_stream *stream_assemble(const struct wire_stream *base, const struct stream_clause_code *clause, uint32_t clauses,
                                    const uint32_t *payload_bytes, uint32_t records)
{
    static const struct wire_stream nothing = {.bytes = sizeof nothing};
    uint32_t insns = 0;
    for (uint32_t i = 0; i < clauses; i++)
        insns += clause[i].count;
    base = base ? base : &nothing;
    struct building building = {0};
    struct wire_stream head = {.magic = WIRE_STREAM_MAGIC,
                               .flags = base->flags,
                               .clause_count = base->clause_count + clauses,
                               .point_count = base->point_count,
                               .map_count = base->map_count,
                               .record_count = base->record_count + records,
                               .data_bytes = base->data_bytes};
    put(&building, NULL, 0, sizeof head);
    head.clause_offset = put(&building, table(base, base->clause_offset), base->clause_count * sizeof(struct wire_clause),
                             clauses * sizeof(struct wire_clause));
    head.point_offset = put(&building, table(base, base->point_offset), base->point_count * sizeof(struct wire_point), 0);
    head.map_offset = put(&building, table(base, base->map_offset), base->map_count * sizeof(struct wire_map_type), 0);
    head.record_offset = put(&building, table(base, base->record_offset), base->record_count * sizeof(struct wire_record_type),
                             records * sizeof(struct wire_record_type));
    for (int model = 0; model < WIRE_MODELS; model++) {
        head.code_count[model] = base->code_count[model] + insns;
        head.code_offset[model] = put(&building, table(base, base->code_offset[model]), base->code_count[model] * sizeof(struct wire_insn),
                                      insns * sizeof(struct wire_insn));
    }
    head.source_offset = put_sources(&building, base, insns);
    head.data_offset = put(&building, table(base, base->data_offset), base->data_bytes, 0);
    head.bytes = building.used;
    memcpy(building.bytes, &head, sizeof head);
    struct wire_record_type *type = (struct wire_record_type *)(building.bytes + head.record_offset) + base->record_count;
    for (uint32_t i = 0; i < records; i++)
        type[i].payload_bytes = payload_bytes[i];
    struct wire_clause *entry = (struct wire_clause *)(building.bytes + head.clause_offset) + base->clause_count;
    for (uint32_t i = 0, first = 0; i < clauses; first += clause[i++].count) {
        entry[i].has_model = (1u << WIRE_MODELS) - 1;
        for (int model = 0; model < WIRE_MODELS; model++) {
            uint32_t at = base->code_count[model] + first;
            entry[i].predicate[model] = (struct wire_code){at, 0};
            entry[i].action[model] = (struct wire_code){at, clause[i].count};
            entry[i].frame_bytes[model] = clause[i].frame_bytes;
            copy_code((struct wire_insn *)(building.bytes + head.code_offset[model]) + at, &clause[i], base->record_count);
        }
    }
    return (struct wire_stream *)building.bytes;
}
