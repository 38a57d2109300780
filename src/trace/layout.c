#include "trace/layout.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- tables ---- */

static const char *const stream_names[TRACE_STREAMS] = {"definitions", "calls", "samples"};

static const struct trace_event events[] = {
#define RECORD(stream, name, major, minor, shape, number) {#name, number, TRACE_##stream, major, minor, TRACE_SHAPE_##shape},
#include "trace/records.def"
};
enum { EVENT_COUNT = sizeof events / sizeof *events };

const struct trace_event *trace_events(enum trace_stream stream, size_t *count)
{
    size_t first = 0;
    while (first < EVENT_COUNT && events[first].stream != stream)
        first++;
    *count = 0;
    while (first + *count < EVENT_COUNT && events[first + *count].stream == stream)
        ++*count;
    return &events[first];
}

static const struct {
    const char *name, *types, *fields;
} definitions[] = {
#define DEFINITION(upper, name, types, fields) {#name, types, fields},
#include "trace/definitions.def"
};

const char *trace_definition_types(enum trace_definition definition)
{
    return definitions[definition].types;
}

/* ---- metadata ---- */

static void print_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; text && *text; text++) {
        /* What is not plain is in the stream of definitions; here it is for people only. */
        bool is_plain = *text >= ' ' && *text < 0x7f;
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(is_plain ? *text : '?', out);
    }
    fputc('"', out);
}

/* What is this trace's own. The layout's number comes first: all else may differ in another. */
static void print_own(FILE *out, const struct trace_about *about, const uint8_t *uuid)
{
    fprintf(out, "/* CTF 1.8 */\n\nenv {\n\tprobity_layout = %d;\n\ttracer_name = \"probity\";\n", TRACE_LAYOUT);
    fputs("\thostname = ", out);
    print_text(out, about->host);
    fputs(";\n\tcommand = ", out);
    print_text(out, about->command);
    fputs(";\n};\n\ntrace {\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = le;\n\tuuid = \"", out);
    for (int i = 0; i < TRACE_UUID_BYTES; i++)
        fprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    fputs("\";\n\tpacket.header := struct {\n"
          "\t\tinteger { size = 32; align = 8; signed = false; base = 16; } magic;\n"
          "\t\tinteger { size = 8; align = 8; signed = false; } uuid[16];\n"
          "\t\tinteger { size = 32; align = 8; signed = false; } stream_id;\n"
          "\t};\n};\n\n",
          out);
    uint64_t offset = about->start_realtime_ns > about->start_ns ? about->start_realtime_ns - about->start_ns : 0;
    fprintf(out,
            "clock {\n\tname = monotonic;\n\tdescription = \"CLOCK_MONOTONIC; offset: time of day\";\n"
            "\tfreq = 1000000000;\n\toffset_s = %llu;\n\toffset = %llu;\n};\n\n",
            (unsigned long long)(offset / 1000000000), (unsigned long long)(offset % 1000000000));
}

static const char types_text[] =
    "typealias integer { size = 32; align = 8; signed = false; } := u32;\n"
    "typealias integer { size = 32; align = 8; signed = true; } := i32;\n"
    "typealias integer { size = 64; align = 8; signed = false; } := u64;\n"
    "typealias integer { size = 64; align = 8; signed = true; } := i64;\n"
    "typealias integer { size = 64; align = 8; signed = false; base = 16; } := x64;\n"
    "typealias integer { size = 8; align = 8; signed = false; base = 16; } := x8;\n"
    "typealias integer { size = 5; align = 1; signed = false; } := u5;\n"
    "typealias integer { size = 27; align = 1; signed = false; } := u27;\n"
    "typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := time27;\n"
    "typealias integer { size = 64; align = 1; signed = false; map = clock.monotonic.value; } := time64_packed;\n"
    "typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := time64;\n"
    "\n"
    "struct event_header {\n"
    "\tenum : u5 { compact = 0 ... 30, extended = 31 } id;\n"
    "\tvariant <id> {\n"
    "\t\tstruct { time27 timestamp; } compact;\n"
    "\t\tstruct { u27 id; time64_packed timestamp; } extended;\n"
    "\t} v;\n"
    "} align(8);\n"
    "\n";

static void print_streams(FILE *out)
{
    for (int stream = 0; stream < TRACE_STREAMS; stream++)
        fprintf(out,
                "/* %s */\nstream {\n\tid = %d;\n\tevent.header := struct event_header;\n\tpacket.context := struct {\n"
                "\t\ttime64 timestamp_begin;\n\t\ttime64 timestamp_end;\n\t\tu64 content_size;\n\t\tu64 packet_size;\n"
                "\t\tu64 events_discarded;\n\t\tu64 packet_seq_num;\n%s\t};\n};\n\n",
                stream_names[stream], stream, stream == TRACE_DEFINITIONS ? "" : "\t\tu32 thread;\n\t\tu32 pid;\n\t\tu32 tid;\n");
}

static void print_event(FILE *out, const char *name, int id, int stream)
{
    fprintf(out, "event {\n\tname = \"%s\";\n\tid = %d;\n\tstream_id = %d;\n\tfields := struct {\n", name, id, stream);
}

static void print_definitions(FILE *out)
{
    for (int id = 0; id < TRACE_DEFINITION_COUNT; id++) {
        print_event(out, definitions[id].name, id, TRACE_DEFINITIONS);
        const char *field = definitions[id].fields;
        for (const char *type = definitions[id].types; *type; type++) {
            int length = (int)strcspn(field, " ");
            if (*type == 'b')
                fprintf(out, "\t\tu32 %.*s_bytes;\n\t\tx8 %.*s[%.*s_bytes];\n", length, field, length, field, length, field);
            else
                fprintf(out, "\t\t%s %.*s;\n",
                        *type == 't'   ? "string"
                        : *type == 'u' ? "u32"
                        : *type == 'i' ? "i32"
                        : *type == 'U' ? "u64"
                                       : "x64",
                        length, field);
            field += length + (field[length] == ' ');
        }
        fputs("\t};\n};\n\n", out);
    }
}

static void print_records(FILE *out)
{
    for (int stream = TRACE_CALLS; stream < TRACE_STREAMS; stream++) {
        size_t count;
        const struct trace_event *event = trace_events(stream, &count);
        for (size_t id = 0; id < count; id++) {
            print_event(out, event[id].name, (int)id, stream);
            switch ((enum trace_shape)event[id].shape) {
            case TRACE_SHAPE_NOTHING:
            case TRACE_SHAPES:
                break;
            case TRACE_SHAPE_NUMBER:
                fprintf(out, "\t\tu32 %s;\n", event[id].number);
                break;
            case TRACE_SHAPE_REASON:
                fprintf(out, "\t\tenum : u32 { waits = 0, preempted = 1 } %s;\n", event[id].number);
                break;
            case TRACE_SHAPE_SHORT:
                fprintf(out, "\t\tu32 %s;\n\t\tu32 value;\n", event[id].number);
                break;
            case TRACE_SHAPE_MEASURE:
                fprintf(out, "\t\ti32 %s;\n\t\tu32 metric;\n\t\ti64 value;\n", event[id].number);
                break;
            case TRACE_SHAPE_LOSS:
                fprintf(out, "\t\tenum : u32 { calls = 0, samples = 1, stacks = 2 } %s;\n\t\tu64 value;\n", event[id].number);
                break;
            case TRACE_SHAPE_ACCOUNT:
                fprintf(out, "\t\tenum : u32 { ran = 0, estimated = 1 } %s;\n\t\tu64 value;\n", event[id].number);
                break;
            case TRACE_SHAPE_TREE:
                fprintf(out, "\t\tu32 minor;\n\t\tu32 metric;\n\t\tu32 %s;\n\t\tu64 value;\n", event[id].number);
                break;
            }
            fputs("\t};\n};\n\n", out);
        }
    }
    fputs(TRACE_METADATA_END, out);
}

char *trace_metadata(const struct trace_about *about, const uint8_t *uuid, size_t *constant)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return memory_text("");
    print_own(out, about, uuid);
    fflush(out);
    *constant = size;
    fputs(types_text, out);
    print_streams(out);
    print_definitions(out);
    print_records(out);
    fclose(out);
    return text;
}

/* ---- names ---- */

void trace_file_name(enum trace_stream stream, uint32_t thread, char name[static TRACE_NAME_ROOM])
{
    if (stream == TRACE_DEFINITIONS)
        snprintf(name, TRACE_NAME_ROOM, "%s", stream_names[stream]);
    else
        snprintf(name, TRACE_NAME_ROOM, "%s.%u", stream_names[stream], thread);
}

bool trace_is_file_name(const char *name)
{
    if (!strcmp(name, "metadata") || !strcmp(name, "definitions"))
        return true;
    for (int stream = TRACE_CALLS; stream < TRACE_STREAMS; stream++) {
        size_t length = strlen(stream_names[stream]);
        if (!strncmp(name, stream_names[stream], length) && name[length] == '.') {
            const char *digits = name + length + 1;
            size_t count = strspn(digits, "0123456789");
            return count > 0 && count <= 10 && !digits[count];
        }
    }
    return false;
}
