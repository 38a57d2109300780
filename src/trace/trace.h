/* Traces: what happened, on disk. A trace is a directory of CTF 1.8 (`babeltrace2 DIR` reads it) that needs nothing else: names and the
 * identities of modules are in it, so it can be reported on another machine.
 *
 *   trace_writer_create() … define, write … trace_writer_close()       records -> directory
 *   trace_open() … trace_next() …                                      directory -> records
 *
 * A trace has two parts. Definitions give numbers to processes, threads, modules, functions, frames, stacks and metrics; each is written
 * before the first record that uses its number, and has the time from which on it holds. Records are what happened to one thread, in order
 * of time, in up to two channels a thread: what probes saw (calls), and what the kernel told (samples, switches). Each record has a major
 * and a minor code, a time, and data items (trace/records.def).
 *
 * Invariants
 *  1. Within a channel of a thread times never go back: the writer raises a time that would, and counts it.
 *  2. A number is used only after its definition has been handed to the writer, and definitions reach the disk before records that use
 *     them: whatever moment the writer is killed at, or the disk is full, all that can be read is understood.
 *  3. A trace that was not closed says so (trace_info.is_cut), as does one whose end is damaged.
 *  4. The reader trusts no byte. Memory grows with the definitions, not with the records. */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_NONE UINT32_MAX /* no such number */

/* ---- definitions ---- */

struct trace_process {
    uint32_t pid;
    uint32_t parent;           /* process number, or TRACE_NONE */
    uint32_t width;            /* 32, 64, or 0: not known */
    const char *name;          /* of its program, as path where known */
    uint64_t start_ns, end_ns; /* end_ns: 0 while it runs, or ran when the trace ended */
    int32_t status;            /* waitpid's, once it has ended; -1: not known */
};

struct trace_thread {
    uint32_t process;
    uint32_t tid;
    const char *name;
    uint64_t start_ns, end_ns; /* a tid that is used again is another thread */
};

/* A file, by identity. */
struct trace_module {
    const char *path;
    const uint8_t *build_id; /* NULL: it has none */
    uint32_t build_id_bytes;
};

/* Where a module was in a process, and when (S1.2). */
struct trace_mapping {
    uint32_t process, module;
    uint64_t start_va, end_va, file_offset;
    uint64_t from_ns, to_ns; /* to_ns 0: to the end */
};

struct trace_function {
    uint32_t module;  /* or TRACE_NONE */
    uint64_t offset;  /* of its entry: address in the file; 0 when not known */
    const char *name; /* for people: demangled; "[libx.so+0x1234]" where there is no symbol */
    const char *file; /* of its source, or NULL */
    uint32_t line;    /* 0: not known */
};

/* One level of a stack as people read it: a place in a function. An inlined function is a frame of its own. */
struct trace_frame {
    uint32_t function;
    uint64_t offset;  /* of the pc: address in the module's file; 0 when not known */
    const char *file; /* of this place, or NULL */
    uint32_t line;    /* 0: not known */
    bool is_inlined;  /* into the frame that calls it */
};

/* A stack is its innermost frame and the stack that called it. */
struct trace_stack {
    uint32_t parent; /* stack number; TRACE_NONE: this is the outermost */
    uint32_t frame;
};

/* Something that is counted: time is metric 0, which every trace has. */
struct trace_metric {
    const char *name; /* "time" */
    const char *unit; /* "ns", "bytes", "calls" */
};

/* ---- records ---- */

enum trace_major { TRACE_CALL = 1, TRACE_SAMPLE, TRACE_THREAD, TRACE_TREE, TRACE_LOSS };
enum trace_minor {
    /* CALL */
    TRACE_ENTER = 1,  /* number: function */
    TRACE_RETURN,     /* number: function */
    TRACE_ENTER_TAIL, /* number: function: entered by a jump; the function before it does not return by itself */
    /* SAMPLE */
    TRACE_TIMER = 1,  /* at a timer, on a processor: number: stack, value: what it stands for, metric */
    TRACE_OFF_CPU,    /* likewise: the thread slept or waited here for `value` ns up to this time */
    TRACE_PLACE,      /* at an instrumented place (a stack unwind): likewise; value 0 when nothing is measured there. Only here the stack
                         may be TRACE_NONE: it belongs to the calls that are open */
    TRACE_PC,         /* as TRACE_TIMER, of the pc alone: the stack is its function, with those it is inlined in, and nothing of callers */
    TRACE_OFF_CPU_PC, /* as TRACE_OFF_CPU, likewise */
    /* THREAD */
    TRACE_SWITCH_IN = 1, /* it runs now */
    TRACE_SWITCH_OUT,    /* number: 1 when it was preempted, 0 when it waits */
    TRACE_RAN,           /* number: enum trace_account; value: ns of the thread up to here, whatever switches say */
    /* TREE: a node of a tree that was built while recording: see tree/tree.h */
    TRACE_NODE = 1,
    /* LOSS */
    TRACE_LOST = 1, /* number: enum trace_loss; value: how many, since the last such record */
};
enum trace_account {
    TRACE_ACCOUNT_RAN,       /* as the kernel counted it */
    TRACE_ACCOUNT_ESTIMATED, /* of that: when it was, and so in which of its calls, was estimated */
    TRACE_ACCOUNTS
};
enum trace_loss { TRACE_LOSS_CALLS, TRACE_LOSS_SAMPLES, TRACE_LOSS_STACKS, TRACE_LOSSES };

/* What a code does not use is 0 when it is read back. */
/* Codes by name: a major code ("sample") or a minor one of it ("sample.timer"); with a minus before it, all but these. */
struct trace_codes {
    uint16_t minors[TRACE_LOSS + 1]; /* by major code: a bit for each minor one */
};
/* Adds the codes of a list with commas, or takes away those with a minus: from all, where nothing was added before. False: a name is not known; *wrong points to it. */
bool trace_codes_parse(const char *list, struct trace_codes *codes, const char **wrong);

struct trace_record {
    uint64_t time_ns; /* CLOCK_MONOTONIC of the machine that recorded */
    uint8_t major;    /* enum trace_major */
    uint8_t minor;    /* enum trace_minor */
    uint16_t metric;
    uint32_t number;
    uint64_t value; /* of metrics other than time signed, in two's complement: what is given back is negative */
};

/* ---- writing ---- */

struct trace_writer;

struct trace_about {
    const char *host, *command; /* of what was recorded, for people */
    uint64_t start_ns;          /* CLOCK_MONOTONIC when it began ... */
    uint64_t start_realtime_ns; /* ... and the time of day then */
    uint64_t period_ns;         /* of the sampling timer; 0: none */
    bool has_switches;          /* SWITCH records tell when threads run; else every thread counts as running all the time */
    bool has_off_cpu;           /* samples stand for wall time */
    struct trace_metric
        metric; /* number 0; all NULL: {"time", "ns"}. Imports count otherwise: in "units" of an invented clock, in "samples" */
};

struct trace_written {
    uint64_t records;
    uint64_t bytes;   /* on the disk */
    uint64_t dropped; /* records: after an error, or with a number that is not defined */
    uint64_t raised;  /* times that would have gone back */
};

/* A writer serves one thread at a time. Makes the directory (0700; its files 0600). ERR_USAGE when it exists and is neither empty nor a
 * trace of ours; such a trace is replaced when the
 * new one is published. NULL in `about` for texts that are not known. */
struct err *trace_writer_create(const char *path, const struct trace_about *about, struct trace_writer **out);
/* From now on the trace is at its path, whatever becomes of us; nothing happens the second time. */
struct err *trace_writer_publish(struct trace_writer *writer);
/* Ends the trace as complete, unless something could not be written: then that is the error, and the trace says that it is cut, or is not
 * there at all if it was not published. The writer is gone in any case. */
struct err *trace_writer_close(struct trace_writer *writer);
/* Removes all that was written, and the writer. */
void trace_writer_discard(struct trace_writer *writer);
/* NULL while all goes well. It stays the writer's. */
const struct err *trace_writer_error(const struct trace_writer *writer);
struct trace_written trace_writer_written(const struct trace_writer *writer);

/* Definitions: the number of an equal one, or a new one. Texts are copied, those over 16 KB are cut. Processes are equal by pid and start,
 * threads by process, tid and start. Numbers of other things in them are defined, or TRACE_NONE where the structs allow it. */
uint32_t trace_define_process(struct trace_writer *writer, uint64_t time_ns, const struct trace_process *process);
uint32_t trace_define_thread(struct trace_writer *writer, uint64_t time_ns, const struct trace_thread *thread);
uint32_t trace_define_module(struct trace_writer *writer, const struct trace_module *module);
/* Ends what of the process it lies over. */
void trace_define_mapping(struct trace_writer *writer, const struct trace_mapping *mapping);
void trace_define_unmapping(struct trace_writer *writer, uint64_t time_ns, uint32_t process, uint64_t start_va, uint64_t end_va);
uint32_t trace_define_function(struct trace_writer *writer, const struct trace_function *function);
uint32_t trace_define_frame(struct trace_writer *writer, const struct trace_frame *frame);
uint32_t trace_define_stack(struct trace_writer *writer, const struct trace_stack *stack);
uint32_t trace_define_metric(struct trace_writer *writer, const struct trace_metric *metric);
/* News of what is defined already. */
void trace_rename_thread(struct trace_writer *writer, uint64_t time_ns, uint32_t thread, const char *name);
void trace_rename_process(struct trace_writer *writer, uint64_t time_ns, uint32_t process, const char *name); /* exec: its mappings end */
void trace_end_thread(struct trace_writer *writer, uint64_t time_ns, uint32_t thread);
void trace_end_process(struct trace_writer *writer, uint64_t time_ns, uint32_t process, int32_t status);
/* The state at the start is complete (S1.8): what follows happened while recording. */
void trace_start_complete(struct trace_writer *writer, uint64_t time_ns);

/* A record of a thread. The error that comes first (disk full) is kept, later records are dropped and counted; see trace_writer_error(). */
void trace_write(struct trace_writer *writer, uint32_t thread, const struct trace_record *record);
/* Brings all that was written so far to the disk, definitions first. To be called about once a second. */
struct err *trace_writer_flush(struct trace_writer *writer);

/* ---- reading ---- */

struct trace;

struct trace_info {
    struct trace_about about;
    bool is_cut;           /* not closed, or damaged; damage inside of a channel shows when it is read */
    const char *cut_where; /* what is missing and where, for people; NULL when nothing is */
    bool has_start;        /* the state at the start is complete */
    uint64_t end_ns;       /* of the last record that is known */
    uint64_t raised;       /* times that the writer raised */
    uint64_t dropped;      /* records that the writer dropped */
    uint64_t bytes;        /* of all its files, for progress */
};

/* ERR_FILE with the place when it is no trace, of another version, or nothing of its definitions makes sense. What is damaged or missing
 * further on ends the definitions there: the trace opens and says that it is cut. */
struct err *trace_open(const char *path, struct trace **out);
void trace_close(struct trace *trace);
const struct trace_info *trace_info(const struct trace *trace);

/* Definitions by number; every number in a definition is in range, and no stack leads to itself. */
const struct trace_process *trace_processes(const struct trace *trace, size_t *count);
const struct trace_thread *trace_threads(const struct trace *trace, size_t *count);
const struct trace_module *trace_modules(const struct trace *trace, size_t *count);
const struct trace_mapping *trace_mappings(const struct trace *trace, size_t *count);
const struct trace_function *trace_functions(const struct trace *trace, size_t *count);
const struct trace_frame *trace_frames(const struct trace *trace, size_t *count);
const struct trace_stack *trace_stacks(const struct trace *trace, size_t *count); /* parent < own number */
const struct trace_metric *trace_metrics(const struct trace *trace, size_t *count);

/* The records of one thread, its channels merged in order of time, calls before samples of the same time. Numbers in them are in range (a
 * damaged one ends the channel there, and the trace says that it is cut); those of TREE records are tree/'s to check. A cursor holds no
 * descriptor, and at most a packet of each channel. */
struct trace_cursor;
struct err *trace_cursor_open(struct trace *trace, uint32_t thread, struct trace_cursor **out);
void trace_cursor_close(struct trace_cursor *cursor);
/* How many were stored, at most `room`; 0: there are no more. */
size_t trace_next(struct trace_cursor *cursor, struct trace_record *records, size_t room);
/* Bytes of its files that were read so far, for progress. */
uint64_t trace_cursor_bytes(const struct trace_cursor *cursor);

/* The records of several threads, as one sequence in order of time; of equal times in the order of `thread`, which is the caller's and
 * stays. Threads take memory from their start to their last record only. */
struct trace_merge;
struct trace_merge *trace_merge_open(struct trace *trace, const uint32_t *thread, size_t count);
struct trace_merged {
    size_t index, count; /* in `thread`, whose records these are; count 0: there are no more */
    bool is_last;        /* of that thread */
};
/* The next ones, at most `room`, which is not 0. */
struct err *trace_merge_next(struct trace_merge *merge, struct trace_record *records, size_t room, struct trace_merged *out);
void trace_merge_close(struct trace_merge *merge);

#endif
