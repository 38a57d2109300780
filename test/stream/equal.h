/* The same verified program run by the interpreter and by the JIT's body, from the same state, in a small world of its own.
 *
 * equal_world.c   the stream around a program, the two session memories, the port
 * equal_program.c random programs
 * equal_run.c     running a body with a given machine state
 * equal_body.c    making a body, stepping it
 * equal.c         the comparison */
#ifndef TEST_STREAM_EQUAL_H
#define TEST_STREAM_EQUAL_H

#include "jit/jit.h"
#include "stream/stream.h"
#include "wire/session.h"

#include <signal.h>
#include <stdbool.h>

#ifdef __x86_64__
#define MODEL WIRE_LP64
enum { MACHINE_REGS = 16 };
#else
#define MODEL WIRE_ILP32
enum { MACHINE_REGS = 8 };
#endif

enum {
    PROGRAM_MAX = 400,
    FRAME_MAX = 4096,
    SESSION_BYTES = 160 << 10,
    TARGET_BYTES = 8192, /* memory that programs can read */
    DATA_BYTES = 1024,
    MAPS_MAX = 40,
    RECORDS = 4,
    PLACES = 8,
};

uint64_t any(void);
uint32_t below(uint32_t limit);
bool chance(uint32_t percent);

/* ---- the program ---- */

struct program {
    struct wire_insn insn[PROGRAM_MAX];
    uint32_t count, frame_bytes, predicate_count;
    uint8_t data[DATA_BYTES];
};

extern struct wire_map_type world_maps[MAPS_MAX];
extern uint32_t world_map_count;
extern const uint32_t world_payload[RECORDS];

void program_make(struct program *program);
/* The stream that holds it as clause 1. Valid until the next call. */
const struct wire_stream *world_stream(const struct program *program);

/* ---- the world ---- */

struct world {
    struct wire_session *session;
    uint32_t random, time, frames, signals;
    uint64_t signal_sum;
    uint32_t errors;
    int32_t quota[PLACES]; /* as the interpreter leaves them */
};

extern struct world world_interpreted, world_jitted;
extern struct world *world; /* the one that runs */
extern uint8_t *world_target;
extern struct wire_process *world_process;
extern uint32_t world_cpu;
extern _Thread_local uint32_t world_tid;
extern bool world_ticks; /* records have the time of the TSC, so that bodies write them in place */
extern bool world_live;  /* vector registers are the machine's, not equal_in's */

void world_init(void);
void *world_pages(size_t bytes, int protection);
/* Empty maps and rings. False: they need more than SESSION_BYTES. With `ticks` nsecs is constant for as long as the TSC's lower half takes
 * to come round: see world_is_late(). */
bool world_reset(const struct wire_stream *stream, uint32_t shards, bool ticks);
bool world_is_late(void);
/* Whether bodies have left the places' quotas as the interpreter has. */
bool world_has_equal_quotas(void);
void world_describe(struct jit_process *process);

/* ---- running a body ---- */

/* reg: as instructions number them. */
struct machine {
    uint64_t reg[16];
    uint64_t flags;
    uint8_t fx[512] __attribute__((aligned(16)));
};

extern struct machine equal_in, equal_out;
extern uint64_t equal_place;
/* Calls the body as a trampoline does, with equal_in in the machine; equal_out is what it leaves. */
void equal_call(uintptr_t body);
/* Where a body returns to. */
extern const char equal_return[];
/* Verifies the stream and puts the body of clause 1 at `code`. Ends the test when it can not. */
void equal_compile(const struct wire_stream *stream, const struct jit_process *process, uint8_t *code, struct jit_body *body);
/* A body that is called with the flag set is stepped: the handler is called before each instruction, on a stack of its own. */
enum { EQUAL_STEP_FLAG = 0x100 };
void equal_catch_steps(void (*on_step)(int number, siginfo_t *info, void *context));

#endif
