/* Shared by the files that emit code. */
#ifndef STREAM_LOWER_INTERNAL_H
#define STREAM_LOWER_INTERNAL_H

#include "stream/lower.h"

/* The stream under construction. */
struct stream_builder {
    const struct script_program *program;
    const struct stream_options *options;
    struct stream_built *out;
    VEC(struct wire_clause) clause;
    VEC(struct wire_point) point;
    VEC(struct wire_map_type) map;
    VEC(struct wire_record_type) record;
    VEC(struct wire_insn) code[WIRE_MODELS];
    VEC(struct wire_source) source[WIRE_MODELS];
    VEC(char) data;
    uint32_t thread_map;      /* number of the map of thread-local variable 0 */
    uint32_t speculation_map; /* the threads' speculations; UINT32_MAX when the script has none */
};

/* Where `bytes` bytes are in the data, which begin at a multiple of 8. */
uint32_t stream_builder_data(struct stream_builder *builder, const void *bytes, size_t count);

/* The map that will hold the number of the name. */
uint32_t stream_builder_name(struct stream_builder *builder, enum script_name what, const char *text);

/* A jump whose target is not known yet. */
struct lower_jump {
    uint32_t insn;
    bool is_break;
};

/* The code of one clause in one model. */
struct lowering {
    struct stream_builder *builder;
    const struct script_checked *checked;
    const struct stream_unit *from;
    enum wire_model model;
    uint32_t unit;
    VEC(struct wire_insn) code;
    VEC(struct wire_source) source;
    struct script_span span; /* of what is being emitted */
    unsigned depth;          /* registers in use */
    uint32_t frame_used, frame_bytes;
    uint32_t *slot_offset;       /* of scratch variables */
    VEC(struct lower_jump) jump; /* breaks and continues of the loops around */
    struct err *error;           /* the first; emission goes on harmlessly */
};

/* Records the first error, at the current span. */
void lower_fail(struct lowering *emit, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- instructions ---- */
struct wire_insn *lower_put(struct lowering *emit, enum wire_op op);
/* The next free register, now in use. */
uint8_t lower_push(struct lowering *emit);
void lower_constant(struct lowering *emit, uint8_t reg, uint64_t value);
/* A jump to be aimed later; returns its index. */
uint32_t lower_jump(struct lowering *emit, enum wire_op op, uint8_t reg);
/* Aims it at the next instruction. */
void lower_land(struct lowering *emit, uint32_t jump);
uint32_t lower_here(const struct lowering *emit);

/* ---- the frame ---- */
uint32_t lower_room(struct lowering *emit, uint64_t bytes);
/* Size code of a value of the type in a register. */
uint8_t lower_size(const struct script_type *type);
/* Whether values of the type are in registers. */
bool lower_is_scalar(const struct script_type *type);
/* Bytes of a value inside a tuple; rounded up to 8 it is what a value takes that stands alone. */
uint64_t lower_value_bytes(const struct script_type *type);
uint64_t lower_whole_bytes(const struct script_type *type);

/* ---- expressions ---- */
/* A scalar, into a new register. */
uint8_t lower_scalar(struct lowering *emit, const struct script_expr *expr);
/* A value that is not a scalar, into lower_value_bytes() of the frame. */
void lower_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset);
/* Any value as it stands alone: lower_whole_bytes() of the frame, without gaps. */
void lower_whole(struct lowering *emit, const struct script_expr *expr, uint32_t offset);
/* Where a value that is not a scalar is in the frame, or is put. */
uint32_t lower_located(struct lowering *emit, const struct script_expr *expr);
/* A scalar from the frame. */
uint8_t lower_load_frame(struct lowering *emit, const struct script_type *type, uint32_t offset);
/* The key of a map, into the frame; 0 when it has none. */
uint32_t lower_key(struct lowering *emit, const struct script_expr *key);
/* The key of the thread's own variables. */
uint32_t lower_thread_key(struct lowering *emit);
void lower_convert(struct lowering *emit, uint8_t reg, const struct script_type *from, const struct script_type *to);
/* The value of a map at the key in the frame: into a register if it is a scalar, else into the frame at `offset`. */
uint8_t lower_map_scalar(struct lowering *emit, uint32_t map, uint32_t key, const struct script_type *type);
void lower_map_bytes(struct lowering *emit, uint32_t map, uint32_t key, uint32_t offset);

/* ---- memory: lower_memory.c ---- */
uint8_t lower_load_scalar(struct lowering *emit, const struct script_expr *expr);
void lower_load_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset);
uint8_t lower_extract_scalar(struct lowering *emit, const struct script_expr *expr);
uint8_t lower_element_scalar(struct lowering *emit, const struct script_expr *expr);
uint8_t lower_address_scalar(struct lowering *emit, const struct script_expr *expr);

/* ---- arguments: lower_place.c ---- */
uint8_t lower_argument_scalar(struct lowering *emit, const struct script_expr *expr);
void lower_argument_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset);
/* argN of a USDT probe. */
uint8_t lower_usdt_argument(struct lowering *emit, uint64_t number);
uint8_t lower_symbol_address(struct lowering *emit, const struct script_expr *expr);
uint8_t lower_retval(struct lowering *emit, const struct script_expr *expr);

/* ---- small pieces: lower_put.c ---- */
struct wire_insn *lower_put_dab(struct lowering *emit, enum wire_op op, uint8_t d, uint8_t a, uint8_t b);
void lower_put_dai(struct lowering *emit, enum wire_op op, uint8_t d, uint8_t a, int32_t i);
void lower_put_frame(struct lowering *emit, enum wire_op op, uint8_t reg, uint8_t size, uint32_t offset);
void lower_put_zero(struct lowering *emit, uint32_t offset, uint64_t bytes);
void lower_put_copy(struct lowering *emit, uint32_t to, uint32_t from, uint64_t bytes);
/* `bytes` of the process's memory at the address in a register. */
void lower_put_buffer(struct lowering *emit, uint8_t address, uint64_t bytes, uint32_t offset);
/* d = memory at a + offset; a is lost when the offset is large. */
void lower_put_load(struct lowering *emit, uint8_t d, uint8_t a, int64_t offset, uint8_t size);
/* reg += value */
void lower_put_add(struct lowering *emit, uint8_t reg, int64_t value);
uint8_t lower_put_ctx(struct lowering *emit, uint32_t what);
uint8_t lower_put_reg(struct lowering *emit, uint32_t number);
void lower_extend(struct lowering *emit, uint8_t reg, const struct script_type *type);

/* ---- calls ---- */
uint8_t lower_call_scalar(struct lowering *emit, const struct script_expr *expr);
void lower_call_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset);
/* A call without a value. */
void lower_call_action(struct lowering *emit, const struct script_expr *expr);

/* ---- statements ---- */
void lower_statements(struct lowering *emit, const struct script_stmt *stmt);

#endif
