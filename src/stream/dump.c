/* A verified stream as text. */
#include "stream/op.h"
#include "stream/stream.h"

#include <ctype.h>
#include <inttypes.h>

static const char *const model_names[WIRE_MODELS] = {"32-bit", "64-bit"};

/* Data as a C string. */
static void put_quoted(FILE *out, const char *text, uint32_t bytes)
{
    fputc('"', out);
    for (uint32_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte < ' ' || byte > '~')
            fprintf(out, "\\x%02x", byte);
        else
            fputc(byte, out);
    }
    fputc('"', out);
}

/* A name: what is not printable is shown as a question mark. */
static void put_name(FILE *out, const struct wire_stream *stream, uint32_t offset, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)stream_data(stream)[offset + i];
        fputc(isprint(byte) && byte < 127 ? byte : '?', out);
    }
}

/* ---- instructions ---- */

static void put_size(FILE *out, uint32_t code)
{
    fprintf(out, "%c%u", code & WIRE_SIGNED ? 's' : 'u', 8 * (code & ~(uint32_t)WIRE_SIGNED));
}

static void put_map(FILE *out, const struct wire_stream *stream, const struct wire_insn *insn)
{
    const struct wire_map_type *map = stream_maps(stream) + insn->h;
    if (map->name_bytes)
        put_name(out, stream, map->name_offset, map->name_bytes);
    else
        fprintf(out, "map%u", insn->h);
    if (map->key_bytes)
        fprintf(out, "[frame %" PRIu32 "+%" PRIu32 "]", insn->j, map->key_bytes);
}

/* A field whose meaning is its operation's own. */
static void put_special(FILE *out, const struct wire_insn *insn, char field)
{
    switch (insn->op) {
    case WIRE_CTX:
        fprintf(out, "%s", stream_ctx_names[insn->i]);
        return;
    case WIRE_MRED:
        fprintf(out, "%s", stream_reduce_names[insn->k]);
        return;
    case WIRE_MLEN:
        fprintf(out, "map %u", insn->h);
        return;
    case WIRE_EMIT:
        fprintf(out, field == 'h' ? "record %" PRIu32 : "%" PRIu32 " bytes", field == 'h' ? insn->h : insn->j);
        return;
    case WIRE_MOVL:
        fprintf(out, "data %" PRIu32, insn->j);
        return;
    case WIRE_FDATA:
        if (field == 'i')
            fprintf(out, "data %" PRId32, insn->i);
        else
            fprintf(out, "%u bytes", insn->h);
        return;
    case WIRE_BITS:
        fprintf(out, "%c:%u", field, field == 'i' ? (unsigned)insn->i : field == 'k' ? insn->k : insn->h);
        return;
    case WIRE_USTACK:
        fprintf(out,
                field == 'i'   ? "%u frames"
                : field == 'h' ? "skip %u"
                               : "mode %u",
                field == 'i'   ? (unsigned)insn->i
                : field == 'h' ? insn->h
                               : insn->k);
        return;
    case WIRE_COMM:
        fputs(insn->i ? "process" : "thread", out);
        return;
    case WIRE_SFIND:
    case WIRE_SGLOB:
        if (field == 'h')
            fprintf(out, "%u in %u bytes", insn->b + 256u * insn->k, insn->h);
        return;
    }
    if (field == 'i')
        fprintf(out, "%" PRId32 "%s", insn->i, stream_op_has(insn->op, 'F') ? " bytes" : "");
    else if (field == 'h')
        fprintf(out, "%u bytes", insn->h);
}

static void put_field(FILE *out, const struct wire_stream *stream, const struct wire_insn *insn, char field)
{
    switch (field) {
    case 'D':
        fprintf(out, "r%u", insn->d);
        break;
    case 'A':
        fprintf(out, "r%u", insn->a);
        break;
    case 'B':
        fprintf(out, "r%u", insn->b);
        break;
    case 'I':
        fprintf(out, "%" PRId32, insn->i);
        break;
    case 'K':
        put_size(out, insn->k);
        break;
    case 'J':
    case 'L':
        fprintf(out, "-> %" PRIu32, insn->j);
        break;
    case 'F':
        fprintf(out, "frame %" PRIu32, insn->j);
        break;
    case 'G':
    case 'V':
        fprintf(out, "frame %" PRId32, insn->i);
        break;
    case 'M':
        put_map(out, stream, insn);
        break;
    default:
        put_special(out, insn, field);
    }
}

/* What its constants are, behind it. */
static void put_constant(FILE *out, const struct wire_stream *stream, const struct wire_insn *insn)
{
    int64_t value = 0;
    if (insn->op == WIRE_MOVL) {
        for (int i = 7; i >= 0; i--)
            value = (int64_t)((uint64_t)value << 8 | (unsigned char)stream_data(stream)[insn->j + (uint32_t)i]);
        fprintf(out, " = %" PRId64, value);
    } else if (insn->op == WIRE_FDATA) {
        fputs(" = ", out);
        put_quoted(out, stream_data(stream) + insn->i, insn->h);
    }
}

static void put_insn(FILE *out, const struct wire_stream *stream, const struct wire_insn *insn)
{
    const struct stream_op *op = &stream_ops[insn->op];
    const char *separator = " ";
    char name[16];
    int length = 0;
    for (; op->name[length]; length++)
        name[length] = (char)tolower((unsigned char)op->name[length]);
    fprintf(out, *op->fields ? "%-7.*s" : "%.*s", length, name);
    for (const char *field = op->fields; *field; field++) {
        if (*field == 'X' || *field == 'b' || (stream_op_has(insn->op, 'b') && *field == 'k'))
            continue;
        fputs(separator, out);
        put_field(out, stream, insn, *field);
        separator = ", ";
    }
    put_constant(out, stream, insn);
}

/* ---- tables ---- */

static void put_code(FILE *out, const struct wire_stream *stream, enum wire_model model)
{
    fprintf(out, "\n%s code: %" PRIu32 " instructions\n", model_names[model], stream->code_count[model]);
    for (uint32_t i = 0; i < stream->clause_count; i++) {
        const struct wire_clause *clause = stream_clauses(stream) + i;
        uint32_t count, predicate = clause->predicate[model].count;
        const struct wire_insn *code = stream_code(stream, i, model, &count);
        const struct wire_source *source = stream_sources(stream, model) + clause->predicate[model].first, *last = NULL;
        if (!(clause->has_model >> model & 1))
            continue;
        fprintf(out, "  clause %" PRIu32 ", frame %" PRIu32 " bytes\n", i, clause->frame_bytes[model]);
        for (uint32_t at = 0; at < count; at++) {
            if (at == 0 && predicate)
                fputs("    predicate\n", out);
            if (at == predicate)
                fputs("    action\n", out);
            if (source[at].line && (!last || last->line != source[at].line || last->column != source[at].column))
                fprintf(out, "    ; %" PRIu32 ":%" PRIu32 "\n", source[at].line, source[at].column);
            last = &source[at];
            fprintf(out, "    %5" PRIu32 "  ", at);
            put_insn(out, stream, &code[at]);
            fputc('\n', out);
        }
    }
}

static void put_clauses(FILE *out, const struct wire_stream *stream)
{
    fprintf(out, "\nclauses: %" PRIu32 "\n", stream->clause_count);
    for (uint32_t i = 0; i < stream->clause_count; i++) {
        const struct wire_clause *clause = stream_clauses(stream) + i;
        fprintf(out, "  %" PRIu32 ":", i);
        for (uint32_t point = 0; point < clause->point_count; point++) {
            const struct wire_point *name = stream_points(stream) + clause->point_first + point;
            fputs(point ? ", " : " ", out);
            put_name(out, stream, name->name_offset, name->name_bytes);
        }
        fputc('\n', out);
        for (int model = 0; model < WIRE_MODELS; model++)
            if (clause->has_model >> model & 1)
                fprintf(out,
                        "     %s: predicate at %" PRIu32 ", %" PRIu32 " instructions; action at %" PRIu32 ", %" PRIu32
                        " instructions; frame %" PRIu32 " bytes\n",
                        model_names[model], clause->predicate[model].first, clause->predicate[model].count, clause->action[model].first,
                        clause->action[model].count, clause->frame_bytes[model]);
    }
}

static void put_maps(FILE *out, const struct wire_stream *stream)
{
    fprintf(out, "\nmaps: %" PRIu32 "\n", stream->map_count);
    for (uint32_t i = 0; i < stream->map_count; i++) {
        const struct wire_map_type *map = stream_maps(stream) + i;
        fprintf(out, "  %" PRIu32 ": ", i);
        put_name(out, stream, map->name_offset, map->name_bytes);
        fprintf(out, " %s%s, key %" PRIu32 " bytes, value %" PRIu32 " bytes, room for %" PRIu32, stream_map_kind_names[map->kind],
                map->is_signed ? " signed" : "", map->key_bytes, map->value_bytes, map->capacity);
        if (map->kind == WIRE_MAP_HIST)
            fprintf(out, ", bits %" PRId64, map->param[0]);
        if (map->kind == WIRE_MAP_LHIST)
            fprintf(out, ", from %" PRId64 " to %" PRId64 " by %" PRId64, map->param[0], map->param[1], map->param[2]);
        fputc('\n', out);
    }
}

void stream_dump(const struct wire_stream *stream, FILE *out)
{
    fprintf(out, "trace stream: %" PRIu32 " bytes%s\n", stream->bytes, stream->flags & WIRE_STREAM_UNSAFE ? ", unsafe" : "");
    put_clauses(out, stream);
    put_maps(out, stream);
    fprintf(out, "\nrecords: %" PRIu32 "\n", stream->record_count);
    for (uint32_t i = 0; i < stream->record_count; i++)
        fprintf(out, "  %" PRIu32 ": %" PRIu32 " bytes\n", i, stream_records(stream)[i].payload_bytes);
    put_code(out, stream, WIRE_ILP32);
    put_code(out, stream, WIRE_LP64);
    fprintf(out, "\ndata: %" PRIu32 " bytes\n", stream->data_bytes);
}
