#include "stream/lower_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_MAP_KEYS = 16384, LEAST_FRAME = 8 };

void stream_built_deinit(struct stream_built *built)
{
    free(built->stream);
    VEC_FREE(&built->record);
    VEC_FREE(&built->time_format);
    VEC_FREE(&built->name);
    built->stream = NULL;
}

static uint64_t round_up(uint64_t value)
{
    return (value + 7) & ~(uint64_t)7;
}

uint32_t stream_builder_data(struct stream_builder *builder, const void *bytes, size_t count)
{
    while (builder->data.n % 8)
        VEC_PUSH(&builder->data, 0);
    uint32_t at = (uint32_t)builder->data.n;
    for (size_t i = 0; i < count; i++)
        VEC_PUSH(&builder->data, ((const char *)bytes)[i]);
    return at;
}

void lower_fail(struct lowering *emit, const char *format, ...)
{
    if (emit->error)
        return;
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *name;
    unsigned line, column;
    script_place(emit->builder->program, emit->span, &name, &line, &column);
    emit->error = err_new(ERR_USAGE, "%s:%u:%u: %s", name, line, column, text);
}

/* ---- maps ---- */

static uint32_t map_kind(const struct script_type *type)
{
    switch (type->kind) {
    case SCRIPT_T_BOOL:
    case SCRIPT_T_INT:
    case SCRIPT_T_POINTER:
    case SCRIPT_T_DOUBLE:
        return WIRE_MAP_INT;
    case SCRIPT_T_COUNT:
        return WIRE_MAP_COUNT;
    case SCRIPT_T_SUM:
        return WIRE_MAP_SUM;
    case SCRIPT_T_AVG:
        return WIRE_MAP_AVG;
    case SCRIPT_T_MIN:
        return WIRE_MAP_MIN;
    case SCRIPT_T_MAX:
        return WIRE_MAP_MAX;
    case SCRIPT_T_STATS:
        return WIRE_MAP_STATS;
    case SCRIPT_T_HIST:
        return WIRE_MAP_HIST;
    case SCRIPT_T_LHIST:
        return WIRE_MAP_LHIST;
    case SCRIPT_T_TSERIES:
        return WIRE_MAP_TSERIES;
    default:
        return WIRE_MAP_VALUE;
    }
}

static int64_t series_of(enum script_type_kind kind)
{
    return kind == SCRIPT_T_SUM   ? WIRE_SERIES_SUM
           : kind == SCRIPT_T_AVG ? WIRE_SERIES_AVG
           : kind == SCRIPT_T_MIN ? WIRE_SERIES_MIN
           : kind == SCRIPT_T_MAX ? WIRE_SERIES_MAX
                                  : WIRE_SERIES_LAST;
}

static struct err *add_map(struct stream_builder *builder, const char *name, const struct script_type *key, const struct script_type *value,
                           uint64_t entries)
{
    uint32_t usual = builder->options->map_keys ? builder->options->map_keys : USUAL_MAP_KEYS;
    struct wire_map_type type = {.kind = map_kind(value), .is_signed = value->is_signed, .name_bytes = (uint32_t)strlen(name)};
    uint64_t key_bytes = key ? lower_whole_bytes(key) : 0, value_bytes;
    type.capacity = !key ? 1 : entries && entries < 1u << 24 ? (uint32_t)entries : usual;
    type.param[0] = value->low;
    type.param[1] = value->high;
    type.param[2] = value->kind == SCRIPT_T_TSERIES ? series_of((enum script_type_kind)value->step) : value->step;
    value_bytes = type.kind == WIRE_MAP_VALUE ? lower_whole_bytes(value) : wire_map_value_bytes(type.kind, type.param);
    if (value->kind == SCRIPT_T_HIST || value->kind == SCRIPT_T_LHIST)
        type.is_signed = true;
    if (key_bytes > 4096 || !value_bytes || value_bytes > 65536)
        return err_new(ERR_USAGE, "%s: a key may have 4096 bytes and a value 65536; these have %llu and %llu", name,
                       (unsigned long long)key_bytes, (unsigned long long)value_bytes);
    type.key_bytes = (uint32_t)key_bytes;
    type.value_bytes = (uint32_t)value_bytes;
    type.name_offset = stream_builder_data(builder, name, type.name_bytes);
    VEC_PUSH(&builder->map, type);
    return NULL;
}

static struct err *add_maps(struct stream_builder *builder)
{
    static const struct script_type word = {.kind = SCRIPT_T_INT, .bytes = 8, .align = 8};
    for (size_t i = 0; i < script_n_maps(builder->program); i++) {
        const struct script_map *map = script_map_at(builder->program, i);
        ERR_TRY(add_map(builder, map->name, map->key, map->value, map->entries));
    }
    builder->thread_map = (uint32_t)builder->map.n;
    for (size_t i = 0; i < script_n_thread_variables(builder->program); i++) {
        const struct script_thread_variable *variable = script_thread_variable_at(builder->program, i);
        char *name = memory_format("self->%s", variable->name);
        struct err *error = add_map(builder, name, &word, variable->type, 0);
        free(name);
        if (error)
            return error;
    }
    builder->out->child_map = script_uses_cpid(builder->program) ? (uint32_t)builder->map.n : UINT32_MAX;
    if (script_uses_cpid(builder->program))
        ERR_TRY(add_map(builder, "cpid", NULL, &word, 0));
    builder->speculation_map = script_uses_speculation(builder->program) ? (uint32_t)builder->map.n : UINT32_MAX;
    return script_uses_speculation(builder->program) ? add_map(builder, "speculation", &word, &word, 0) : NULL;
}

uint32_t stream_builder_name(struct stream_builder *builder, enum script_name what, const char *text)
{
    static const struct script_type word = {.kind = SCRIPT_T_INT, .bytes = 8, .align = 8};
    uint32_t map = (uint32_t)builder->map.n;
    for (size_t i = 0; i < builder->out->name.n; i++)
        if (builder->out->name.at[i].what == what && !strcmp(builder->out->name.at[i].text, text))
            return builder->out->name.at[i].map;
    err_free(add_map(builder, text, NULL, &word, 0)); /* a word always fits */
    VEC_PUSH(&builder->out->name, (struct stream_name){map, what, text});
    return map;
}

/* ---- instructions ---- */

struct wire_insn *lower_put(struct lowering *emit, enum wire_op op)
{
    const char *name;
    unsigned line, column;
    script_place(emit->builder->program, emit->span, &name, &line, &column);
    if (emit->code.n >= WIRE_CODE_MAX) {
        lower_fail(emit, "the clause is too long");
        emit->code.n--;
        emit->source.n--;
    }
    VEC_PUSH(&emit->code, (struct wire_insn){.op = (uint16_t)op});
    VEC_PUSH(&emit->source, (struct wire_source){line, column});
    return &emit->code.at[emit->code.n - 1];
}

uint8_t lower_push(struct lowering *emit)
{
    if (emit->depth >= WIRE_REGS) {
        lower_fail(emit, "the expression is nested too deeply");
        emit->depth = WIRE_REGS - 1;
    }
    return (uint8_t)emit->depth++;
}

void lower_constant(struct lowering *emit, uint8_t reg, uint64_t value)
{
    bool small = (int64_t)value == (int32_t)value;
    uint32_t at = small ? 0 : stream_builder_data(emit->builder, &value, sizeof value);
    struct wire_insn *insn = lower_put(emit, small ? WIRE_MOVI : WIRE_MOVL);
    insn->d = reg;
    insn->i = small ? (int32_t)value : 0;
    insn->j = at;
}

uint32_t lower_here(const struct lowering *emit)
{
    return (uint32_t)emit->code.n;
}

uint32_t lower_jump(struct lowering *emit, enum wire_op op, uint8_t reg)
{
    lower_put(emit, op)->a = reg;
    return lower_here(emit) - 1;
}

void lower_land(struct lowering *emit, uint32_t jump)
{
    emit->code.at[jump].j = lower_here(emit);
}

uint32_t lower_room(struct lowering *emit, uint64_t bytes)
{
    uint64_t at = emit->frame_used, end = at + round_up(bytes);
    if (bytes > WIRE_FRAME_MAX || end > WIRE_FRAME_MAX) {
        lower_fail(emit, "the clause needs more than %d bytes for strings and other values", WIRE_FRAME_MAX);
        return 0;
    }
    emit->frame_used = (uint32_t)end;
    if (emit->frame_bytes < end)
        emit->frame_bytes = (uint32_t)end;
    return (uint32_t)at;
}

/* ---- clauses ---- */

static void start_variables(struct lowering *emit)
{
    emit->slot_offset = memory_zero(emit->checked->n_slots + 1, sizeof *emit->slot_offset);
    for (size_t i = 0; i < emit->checked->n_slots; i++)
        emit->slot_offset[i] = lower_room(emit, lower_whole_bytes(emit->checked->slots[i]));
    if (emit->frame_used)
        lower_put(emit, WIRE_FZERO)->i = (int32_t)emit->frame_used;
}

/* Records of a thread that speculates stay with its speculation, whichever clause writes them. */
static void start_speculation(struct lowering *emit)
{
    struct stream_builder *builder = emit->builder;
    if (builder->speculation_map == UINT32_MAX)
        return;
    uint32_t key = lower_thread_key(emit);
    uint8_t reg = lower_push(emit);
    struct wire_insn *get = lower_put(emit, WIRE_MGET);
    get->d = reg;
    get->h = (uint16_t)builder->speculation_map;
    get->j = key;
    lower_put(emit, WIRE_SPECSET)->a = reg;
    emit->depth--;
}

static struct err *lower_clause(struct stream_builder *builder, const struct stream_unit *unit, uint32_t number, enum wire_model model,
                                struct wire_clause *out)
{
    struct lowering emit = {
        .builder = builder, .checked = unit->checked[model], .from = unit, .model = model, .unit = number, .frame_bytes = LEAST_FRAME};
    if (emit.checked->predicate) {
        emit.span = emit.checked->predicate->span;
        uint8_t reg = lower_scalar(&emit, emit.checked->predicate);
        lower_put(&emit, WIRE_ENDZ)->a = reg;
        emit.depth = 0;
        emit.frame_used = 0;
    }
    uint32_t predicate = lower_here(&emit), first = (uint32_t)builder->code[model].n;
    start_variables(&emit);
    start_speculation(&emit);
    lower_statements(&emit, emit.checked->body);
    lower_put(&emit, WIRE_END);
    for (size_t i = 0; i < emit.code.n; i++) {
        VEC_PUSH(&builder->code[model], emit.code.at[i]);
        VEC_PUSH(&builder->source[model], emit.source.at[i]);
    }
    out->predicate[model] = (struct wire_code){first, predicate};
    out->action[model] = (struct wire_code){first + predicate, lower_here(&emit) - predicate};
    out->frame_bytes[model] = emit.frame_bytes;
    out->has_model |= 1u << model;
    VEC_FREE(&emit.code);
    VEC_FREE(&emit.source);
    VEC_FREE(&emit.jump);
    free(emit.slot_offset);
    return emit.error;
}

static struct err *add_unit(struct stream_builder *builder, const struct stream_unit *unit, uint32_t number)
{
    struct wire_clause clause = {.point_first = (uint32_t)builder->point.n, .point_count = (uint32_t)unit->n_points};
    for (size_t i = 0; i < unit->n_points; i++) {
        uint32_t bytes = (uint32_t)strlen(unit->points[i]), at = stream_builder_data(builder, unit->points[i], bytes);
        VEC_PUSH(&builder->point, (struct wire_point){at, bytes});
    }
    for (int model = 0; model < WIRE_MODELS; model++) {
        if (unit->checked[model])
            ERR_TRY(lower_clause(builder, unit, number, model, &clause));
    }
    VEC_PUSH(&builder->clause, clause);
    return NULL;
}

/* ---- the stream ---- */

static uint32_t append(char *bytes, uint32_t *end, const void *from, size_t count)
{
    uint32_t at = *end;
    if (count)
        memcpy(bytes + at, from, count);
    *end = (uint32_t)round_up(at + count);
    return at;
}

static void finish(struct stream_builder *builder)
{
#define BYTES(vec) round_up((vec).n * sizeof *(vec).at)
    uint64_t bytes = round_up(sizeof(struct wire_stream)) + BYTES(builder->clause) + BYTES(builder->point) + BYTES(builder->map) +
                     BYTES(builder->record) + BYTES(builder->data);
    for (int m = 0; m < WIRE_MODELS; m++)
        bytes += BYTES(builder->code[m]) + BYTES(builder->source[m]);
#undef BYTES
    char *memory = memory_zero(bytes, 1);
    struct wire_stream *stream = (struct wire_stream *)memory;
    uint32_t end = (uint32_t)round_up(sizeof *stream);
    *stream = (struct wire_stream){.magic = WIRE_STREAM_MAGIC,
                                   .bytes = (uint32_t)bytes,
                                   .flags = builder->options->unsafe ? WIRE_STREAM_UNSAFE : 0,
                                   .clause_count = (uint32_t)builder->clause.n,
                                   .point_count = (uint32_t)builder->point.n,
                                   .map_count = (uint32_t)builder->map.n,
                                   .record_count = (uint32_t)builder->record.n,
                                   .data_bytes = (uint32_t)builder->data.n};
#define APPEND(vec) append(memory, &end, (vec).at, (vec).n * sizeof *(vec).at)
    stream->clause_offset = APPEND(builder->clause);
    stream->point_offset = APPEND(builder->point);
    stream->map_offset = APPEND(builder->map);
    stream->record_offset = APPEND(builder->record);
    for (int m = 0; m < WIRE_MODELS; m++) {
        stream->code_count[m] = (uint32_t)builder->code[m].n;
        stream->code_offset[m] = APPEND(builder->code[m]);
    }
    stream->source_offset = end;
    for (int m = 0; m < WIRE_MODELS; m++)
        APPEND(builder->source[m]);
    stream->data_offset = APPEND(builder->data);
#undef APPEND
    builder->out->stream = stream;
}

struct err *stream_lower(const struct script_program *program, const struct stream_unit *unit, size_t n_units,
                         const struct stream_options *options, struct stream_built *out)
{
    *out = (struct stream_built){0};
    struct stream_builder builder = {.program = program, .options = options, .out = out};
    struct err *error = add_maps(&builder);
    for (size_t i = 0; i < n_units && !error; i++)
        error = add_unit(&builder, &unit[i], (uint32_t)i);
    if (!error && builder.data.n > UINT32_MAX / 4)
        error = err_new(ERR_USAGE, "the script is too large");
    if (!error)
        finish(&builder);
    VEC_FREE(&builder.clause);
    VEC_FREE(&builder.point);
    VEC_FREE(&builder.map);
    VEC_FREE(&builder.record);
    for (int m = 0; m < WIRE_MODELS; m++) {
        VEC_FREE(&builder.code[m]);
        VEC_FREE(&builder.source[m]);
    }
    VEC_FREE(&builder.data);
    if (error)
        stream_built_deinit(out);
    return error;
}
