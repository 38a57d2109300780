/* The trace stream: a compiled script (S0.2). One run of bytes, offsets from its start, every table at a multiple of 8:
 *
 *   struct wire_stream       header
 *   struct wire_clause[]     for each clause and each model, where its predicate and its action are
 *   struct wire_point[]      trace points, by name
 *   struct wire_map_type[]   maps
 *   struct wire_record_type[] records that EMIT may write
 *   struct wire_insn[]       the 32-bit code region
 *   struct wire_insn[]       the 64-bit code region
 *   struct wire_source[]     source positions, one for each instruction of the 32-bit region, then of the 64-bit region
 *   data                     constants and names
 *
 * Code. 16 registers of 64 bits, and a frame of bytes. The predicate falls through into the action: both are one run, which starts with its
 * first instruction (number 0 for jumps) and must not be left but by END, ENDZ, an error, or after its last instruction. Registers and
 * frame bytes are undefined at the start; the verifier refuses code that reads them before writing. It also refuses what is out of range of
 * the frame, the data or a map, backward jumps other than LOOP, and anything undefined in ops.def. Fuel (WIRE_FUEL) bounds the backward
 * jumps of one run, so a run is bounded. Maps and records are the same in both regions. The clauses' code lies in their order in a region,
 * no instruction in two of them.
 *
 * The same code is run by the interpreter (stream/eval.c; host and agent) and by the JIT (jit/). Results are equal bit for bit. */
#ifndef WIRE_STREAM_H
#define WIRE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_STREAM_MAGIC 0x3173796469626f72ull

enum {
    WIRE_REGS = 16,
    WIRE_FRAME_MAX = 32768,
    WIRE_FUEL = 65536,
    WIRE_CODE_MAX = 65536,   /* instructions of one clause in one model */
    WIRE_OPEN_MAX = 1024,    /* instructions of a clause that jumps go to, open at once: between the first jump there and the last */
    WIRE_FIND_MAX = 1 << 20, /* steps of SFIND: room of one string times room of the other */
    WIRE_STACK_MAX = 1024,   /* frames that USTACK takes */
    WIRE_WALK_BYTES = 208,   /* of the frame, for registers: USTACK has them below its addresses, and not on the program's stack; at the
                              * start uint64_t[WIRE_REG64_COUNT], those of the machine */
    WIRE_SIGNED = 16,
    WIRE_RECORD_TYPES_MAX = 65000,
};

enum wire_model { WIRE_ILP32, WIRE_LP64, WIRE_MODELS };

enum wire_op {
#define OP(name, fields, text) WIRE_##name,
#include "wire/ops.def"
#undef OP
    WIRE_OP_COUNT
};

/* What CTX gives. */
enum wire_ctx {
    WIRE_CTX_PID,
    WIRE_CTX_TID,
    WIRE_CTX_UID,
    WIRE_CTX_GID,
    WIRE_CTX_CPU,
    WIRE_CTX_NSECS,   /* CLOCK_MONOTONIC */
    WIRE_CTX_ELAPSED, /* nanoseconds since the session began */
    WIRE_CTX_RAND,    /* 32 random bits */
    WIRE_CTX_PLACE,   /* number of the place in this process */
    WIRE_CTX_PC,      /* address of the probed instruction */
    WIRE_CTX_SP,      /* stack pointer as the program has it */
    WIRE_CTX_RETURN,  /* the word at the stack pointer: at an entry, the return address */
    WIRE_CTX_MODEL,   /* 32 or 64 */
    WIRE_CTX_ROW,     /* number of the trace point in the session */
    WIRE_CTX_FUNC,    /* number of the function's name */
    WIRE_CTX_PROBE,   /* number of the trace point's name */
    WIRE_CTX_PPID,
    WIRE_CTX_BIAS,  /* what is added to an address of the place's file to get that in the process */
    WIRE_CTX_QUOTA, /* wire_place.quota as it was, sign-extended; it becomes one less */
    WIRE_CTX_COUNT
};

/* Machine registers: the DWARF numbers of each model. */
enum wire_reg {
    WIRE_REG64_AX,
    WIRE_REG64_DX,
    WIRE_REG64_CX,
    WIRE_REG64_BX,
    WIRE_REG64_SI,
    WIRE_REG64_DI,
    WIRE_REG64_BP,
    WIRE_REG64_SP,
    WIRE_REG64_R8,
    WIRE_REG64_R9,
    WIRE_REG64_R10,
    WIRE_REG64_R11,
    WIRE_REG64_R12,
    WIRE_REG64_R13,
    WIRE_REG64_R14,
    WIRE_REG64_R15,
    WIRE_REG64_IP,
    WIRE_REG64_FLAGS,
    WIRE_REG64_COUNT,
    WIRE_REG32_AX = 0,
    WIRE_REG32_CX,
    WIRE_REG32_DX,
    WIRE_REG32_BX,
    WIRE_REG32_SP,
    WIRE_REG32_BP,
    WIRE_REG32_SI,
    WIRE_REG32_DI,
    WIRE_REG32_IP,
    WIRE_REG32_FLAGS,
    WIRE_REG32_COUNT,
};

/* Why a clause ended early, or a record was lost. */
enum wire_error {
    WIRE_ERROR_NONE,
    WIRE_ERROR_READ, /* value: the address */
    WIRE_ERROR_DIVIDE,
    WIRE_ERROR_FUEL,
    WIRE_ERROR_BOUNDS,   /* value: the index */
    WIRE_ERROR_MAP_FULL, /* value: the map */
    WIRE_ERROR_BUSY,     /* no frame was free */
    WIRE_ERROR_COUNT
};

/* Where in what USTACK gives the number of frames is, and k. */
enum { WIRE_STACK_FRAMES_SHIFT = 32, WIRE_STACK_MODE_SHIFT = 48 };

enum wire_map_kind {
    WIRE_MAP_INT,   /* one 64-bit integer */
    WIRE_MAP_VALUE, /* value_bytes bytes: strings, tuples, structs */
    WIRE_MAP_COUNT,
    WIRE_MAP_SUM,
    WIRE_MAP_AVG,
    WIRE_MAP_MIN,
    WIRE_MAP_MAX,
    WIRE_MAP_STATS,
    WIRE_MAP_HIST,    /* powers of two, each in 1 << param[0] steps; param[0] <= 5 */
    WIRE_MAP_LHIST,   /* param: least, most, step */
    WIRE_MAP_TSERIES, /* param: nanoseconds of an interval, intervals kept, enum wire_series */
    WIRE_MAP_KINDS
};

/* How the values of one interval become one. */
enum wire_series { WIRE_SERIES_LAST, WIRE_SERIES_SUM, WIRE_SERIES_AVG, WIRE_SERIES_MIN, WIRE_SERIES_MAX, WIRE_SERIES_WAYS };
/* A slot of a time series, that of interval i being number i % intervals. */
struct wire_slot {
    uint64_t interval; /* which one, + 1; 0: none yet. WIRE_SLOT_BUSY: a writer empties it for the next */
    uint64_t count;
    uint64_t value; /* SUM, AVG: the sum; MIN, MAX: as in maps of that kind */
};
#define WIRE_SLOT_BUSY (1ull << 63)

enum wire_reduce { WIRE_REDUCE_COUNT, WIRE_REDUCE_SUM, WIRE_REDUCE_AVG, WIRE_REDUCE_MIN, WIRE_REDUCE_MAX, WIRE_REDUCES };

enum wire_stream_flags { WIRE_STREAM_UNSAFE = 1 };

struct wire_stream {
    uint64_t magic;
    uint32_t bytes; /* all of it */
    uint32_t flags; /* enum wire_stream_flags */
    uint32_t clause_offset, clause_count;
    uint32_t point_offset, point_count;
    uint32_t map_offset, map_count;
    uint32_t record_offset, record_count;
    uint32_t code_offset[WIRE_MODELS], code_count[WIRE_MODELS]; /* counts in instructions */
    uint32_t source_offset;                                     /* code_count[0] + code_count[1] entries */
    uint32_t data_offset, data_bytes;
    uint32_t unused;
};

/* Instructions in a code region. */
struct wire_code {
    uint32_t first, count;
};

struct wire_clause {
    struct wire_code predicate[WIRE_MODELS]; /* action follows it directly; count 0 when there is none */
    struct wire_code action[WIRE_MODELS];
    uint32_t frame_bytes[WIRE_MODELS];
    uint32_t point_first, point_count;
    uint32_t has_model; /* bit of each enum wire_model that it is compiled for */
    uint32_t unused;
};

struct wire_point {
    uint32_t name_offset, name_bytes; /* in the data */
};

struct wire_map_type {
    uint32_t kind;        /* enum wire_map_kind */
    uint32_t key_bytes;   /* a multiple of 8, at most 4096; 0: a map without a key */
    uint32_t value_bytes; /* of one value (shard): see wire_map_value_bytes(); a multiple of 8, at most 65536 */
    uint32_t capacity;    /* keys */
    int64_t param[3];
    uint32_t is_signed; /* of what is aggregated */
    uint32_t name_offset, name_bytes;
    uint32_t unused;
};

struct wire_record_type {
    uint32_t payload_bytes; /* a multiple of 8, at most WIRE_FRAME_MAX */
    uint32_t unused;
};

struct wire_insn {
    uint16_t op; /* enum wire_op */
    uint8_t d, a, b, k;
    uint16_t h;
    int32_t i;
    uint32_t j;
};

struct wire_source {
    uint32_t line, column;
};

_Static_assert(sizeof(struct wire_insn) == 16 && sizeof(struct wire_clause) == 56 && sizeof(struct wire_map_type) == 56, "layout");
_Static_assert(sizeof(struct wire_stream) == 80, "layout");

/* Bytes of one shard's value of a map, by its kind; 0 when the parameters make no sense. WIRE_MAP_VALUE has its own. */
static inline uint64_t wire_map_value_bytes(uint32_t kind, const int64_t param[3])
{
    switch (kind) {
    case WIRE_MAP_INT:
    case WIRE_MAP_COUNT:
    case WIRE_MAP_SUM:
    case WIRE_MAP_MIN:
    case WIRE_MAP_MAX:
        return 8;
    case WIRE_MAP_AVG:
        return 16; /* count, sum */
    case WIRE_MAP_STATS:
        return 16;
    case WIRE_MAP_HIST: /* negative, then one for each of 0 .. 2^bits - 1, then 2^bits for each further power of two */
        return param[0] < 0 || param[0] > 5 ? 0 : 8 * (1 + (1ull << param[0]) + ((64 - (uint64_t)param[0]) << param[0]));
    case WIRE_MAP_TSERIES:
        if (param[0] <= 0 || param[1] <= 0 || param[1] > 2000 || param[2] < 0 || param[2] >= WIRE_SERIES_WAYS)
            return 0;
        return sizeof(struct wire_slot) * (uint64_t)param[1];
    case WIRE_MAP_LHIST: /* below, the steps, above */
        if (param[2] <= 0 || param[1] <= param[0] || ((uint64_t)param[1] - (uint64_t)param[0]) / (uint64_t)param[2] > 8000)
            return 0;
        return 8 * (2 + ((uint64_t)param[1] - (uint64_t)param[0] + (uint64_t)param[2] - 1) / (uint64_t)param[2]);
    }
    return 0;
}

#endif
