/* The layout of a trace directory, shared by writer and reader; doc/trace-format.md has it in tables.
 *
 *   metadata        TSDL text: what the rest means; the layout's number
 *   definitions     packets of definitions (trace/definitions.def); the last one of a complete trace is `end`
 *   calls.N         packets of what probes saw in thread number N (trace/records.def)
 *   samples.N       packets of what the kernel told about it
 *
 * Files only grow. A packet is written by one system call where the kernel lets us, holds whole events, and is as long as they are. */
#ifndef TRACE_LAYOUT_H
#define TRACE_LAYOUT_H

#include "trace/trace.h"

#include <string.h>

enum {
    TRACE_LAYOUT = 2,
    TRACE_LAYOUT_LEAST = 1, /* that is read: what has come since then, was not there */
    TRACE_UUID_BYTES = 16,
    TRACE_PACKET_MAX = 64 * 1024,        /* bytes, of a channel's packet */
    TRACE_DEFINITIONS_MAX = 1024 * 1024, /* likewise of definitions */
    TRACE_TEXT_MAX = 16 * 1024,          /* bytes, the end included */
    TRACE_BYTES_MAX = 255,               /* of a build id */
    TRACE_METADATA_MAX = 64 * 1024,
    TRACE_FIELDS_MAX = 9, /* of a definition */
};
#define TRACE_MAGIC 0xc1fc1fc1u /* CTF's */

enum trace_stream { TRACE_DEFINITIONS, TRACE_CALLS, TRACE_SAMPLES, TRACE_STREAMS };

/* The start of a packet, little-endian. Those of definitions end before `thread`. */
struct trace_packet {
    uint32_t magic;
    uint8_t uuid[TRACE_UUID_BYTES]; /* the trace's */
    uint32_t stream;
    uint64_t begin_ns, end_ns; /* times of its first and last event */
    uint64_t content_bits, packet_bits;
    uint64_t discarded; /* losses in this file so far */
    uint64_t sequence;  /* from 0 on in this file */
    uint32_t thread, pid, tid;
};
enum { TRACE_HEAD_DEFINITIONS = 72, TRACE_HEAD_CHANNEL = 84 };
_Static_assert(offsetof(struct trace_packet, thread) == TRACE_HEAD_DEFINITIONS, "packets have no padding");
_Static_assert(offsetof(struct trace_packet, tid) + 4 == TRACE_HEAD_CHANNEL, "packets have no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "traces are little-endian and copied as they are");

/* An event starts with a word: 5 bits of id, 27 bits of the time in ns, which continue from the event before it (from begin_ns at the
 * first). Where 2^27 ns or more have passed the id is TRACE_EXTENDED and the id proper is in the other bits; 64 bits of time follow. */
enum { TRACE_TIME_BITS = 27, TRACE_ID_BITS = 5, TRACE_EXTENDED = 31, TRACE_EXTENDED_BYTES = 12 };

enum trace_shape {
    TRACE_SHAPE_NOTHING,
    TRACE_SHAPE_NUMBER,
    TRACE_SHAPE_REASON,
    TRACE_SHAPE_SHORT,
    TRACE_SHAPE_MEASURE,
    TRACE_SHAPE_LOSS,
    TRACE_SHAPE_TREE,
    TRACE_SHAPE_ACCOUNT,
    TRACE_SHAPES
};
/* Bytes after the header. NUMBER, REASON: number:32. SHORT: number:32 value:32, of metric 0. MEASURE: number:32 metric:32 value:64.
 * LOSS, ACCOUNT: number:32 value:64. TREE: minor:32 metric:32 number:32 value:64. */
static const uint8_t trace_shape_bytes[TRACE_SHAPES] = {0, 4, 4, 8, 16, 12, 20, 12};

struct trace_event {
    const char *name;
    const char *number; /* what people call the number */
    uint8_t stream, major, minor, shape;
};
/* The events of a channel, by id. */
const struct trace_event *trace_events(enum trace_stream stream, size_t *count);

enum trace_definition {
#define DEFINITION(upper, name, types, fields) TRACE_DEFINE_##upper,
#include "trace/definitions.def"
    TRACE_DEFINITION_COUNT
};
/* Its fields' types, one letter each. */
const char *trace_definition_types(enum trace_definition definition);

/* One item of a definition. */
struct trace_item {
    uint64_t number;
    const char *text; /* t; the caller's, or in the packet */
    const uint8_t *bytes;
    size_t size; /* of bytes */
};

#define TRACE_METADATA_END "/* end of metadata */\n"
/* The text of `metadata`; the caller frees it. What follows the first *constant bytes is equal in all traces of this layout. */
char *trace_metadata(const struct trace_about *about, const uint8_t *uuid, size_t *constant);

/* "calls.12". */
enum { TRACE_NAME_ROOM = 24 };
void trace_file_name(enum trace_stream stream, uint32_t thread, char name[static TRACE_NAME_ROOM]);
bool trace_is_file_name(const char *name);

/* The directory of a new trace. Until it is published it lies beside the place where it will be, and what is there stays. Only where
 * nothing can lie beside (the folder can not be written, or something is mounted there) what is there is emptied at once. */
struct trace_directory {
    const char *path; /* as it was given, for messages; the caller's */
    char *plain;      /* without slashes at its end */
    char *beside;     /* where the directory is; NULL: at `plain` */
    int fd;
    bool is_new; /* nothing was there */
};
/* To be deinited in any case. */
struct err *trace_directory_create(const char *path, struct trace_directory *directory);
/* Puts it where it belongs, in the place of the trace that is there. */
struct err *trace_directory_publish(struct trace_directory *directory);
/* Removes the files of the trace and, if it was made, the directory. */
void trace_directory_discard(struct trace_directory *directory);
void trace_directory_deinit(struct trace_directory *directory);

static inline uint32_t trace_load32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t trace_load64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline void trace_store32(uint8_t *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
}

static inline void trace_store64(uint8_t *at, uint64_t value)
{
    memcpy(at, &value, sizeof value);
}

#endif
