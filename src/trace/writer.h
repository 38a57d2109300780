/* What the parts of the writer share. */
#ifndef TRACE_WRITER_H
#define TRACE_WRITER_H

#include "trace/layout.h"
#include "trace/numbers.h"

enum trace_kind { TRACE_PROCESSES, TRACE_THREADS, TRACE_MODULES, TRACE_FUNCTIONS, TRACE_FRAMES, TRACE_STACKS, TRACE_METRICS, TRACE_KINDS };

/* A file that grows by packets. */
struct trace_file {
    uint64_t bytes;    /* on the disk */
    uint64_t packets;  /* likewise */
    uint64_t begin_ns; /* of the packet in the buffer */
    uint64_t last_ns;  /* of the last event */
    uint64_t discarded;
    uint8_t *buffer; /* a packet to be, from its head on; NULL: none */
    uint32_t used;   /* 0: no packet is begun */
    uint32_t room;   /* of the buffer */
    uint32_t limit;  /* the room while a packet is begun and all is well, else 0: trace_write() has this one thing to look at */
};

struct trace_ids {
    uint32_t pid, tid;
};

enum { TRACE_DESCRIPTORS = 32 };

struct trace_writer {
    char *path;
    struct trace_directory directory;
    uint8_t uuid[TRACE_UUID_BYTES];
    struct err *error; /* the first */
    struct trace_written written;
    struct trace_file definitions;
    uint8_t *scratch;                        /* a definition while it is made */
    struct trace_numbers known[TRACE_KINDS]; /* what has a number */
    VEC(uint32_t) pid;                       /* by process */
    VEC(struct trace_ids) thread;
    VEC(struct trace_file) channel; /* two for each thread: calls, samples */
    size_t buffer_bytes;            /* of all channels */
    struct {
        uint32_t channel; /* + 1; 0: none */
        int fd;
    } open[TRACE_DESCRIPTORS]; /* by channel, modulo their number */
};

/* Makes room for an event of `bytes` and its header; false: it is dropped. */
bool trace_writer_room(struct trace_writer *writer, struct trace_file *file, size_t bytes, uint64_t time_ns);
/* Appends an event's header, for which there is room. */
void trace_writer_head(struct trace_file *file, unsigned id, uint64_t time_ns);
/* Writes the packet in the buffer, if any. */
void trace_writer_packet(struct trace_writer *writer, struct trace_file *file);

/* The first definitions, and the last. */
void trace_define_about(struct trace_writer *writer, const struct trace_about *about);
void trace_define_end(struct trace_writer *writer);

#endif
