/* What the parts of the reader share. */
#ifndef TRACE_READER_H
#define TRACE_READER_H

#include "base/arena.h"
#include "base/memory.h"
#include "trace/layout.h"

#include <sys/types.h>

/* What the closing definitions say about a channel. */
struct trace_channel {
    uint64_t bytes;
};

/* Numbers of the mappings of a process that were not ended so far. */
struct trace_open_mappings {
    VEC(uint32_t) mapping;
};

struct trace {
    char *path;
    int directory;
    uint8_t uuid[TRACE_UUID_BYTES];
    struct trace_info info;
    char *cut_where;    /* damage that info.cut_where tells; NULL: none was found */
    struct arena arena; /* texts and bytes of definitions */
    bool has_about, is_complete;
    uint64_t mapping_steps; /* spent on looking for mappings that end */
    VEC(struct trace_process) process;
    VEC(struct trace_open_mappings) open; /* by process */
    VEC(struct trace_thread) thread;
    VEC(struct trace_channel) channel; /* two for each thread */
    VEC(struct trace_module) module;
    VEC(struct trace_mapping) mapping;
    VEC(struct trace_function) function;
    VEC(struct trace_frame) frame;
    VEC(struct trace_stack) stack;
    VEC(struct trace_metric) metric;
};

/* Notes that something is missing or damaged, and where; the first note stays. */
void trace_cut(struct trace *trace, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A file of the trace, which must be a plain one; -1 with errno. */
int trace_file_open(const struct trace *trace, const char *name);
/* How many bytes could be read; fewer at the end of the file; -1 with errno. */
ssize_t trace_file_read(int fd, uint8_t *bytes, size_t size, uint64_t offset);

/* A place in a file of packets. All zero is the start. */
struct trace_position {
    uint64_t offset;   /* of the next packet */
    uint64_t sequence; /* of the next packet */
    uint64_t end_ns;   /* of the packet before */
};
/* What is wrong with a packet's head of `size` bytes, at a position; NULL: nothing, and *head is set. */
const char *trace_packet_check(const struct trace *trace, const uint8_t *bytes, size_t size, enum trace_stream stream, uint32_t thread,
                               const struct trace_position *position, struct trace_packet *head);

/* Reads `definitions` as far as possible. */
void trace_read_definitions(struct trace *trace);
/* Takes in one definition; what is wrong with it, or NULL. */
const char *trace_take_definition(struct trace *trace, enum trace_definition definition, const struct trace_item *item, uint64_t time_ns);

#endif
