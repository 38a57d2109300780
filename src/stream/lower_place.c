/* Arguments, local variables and results: from where debug information, notes and calling conventions say they are. */
#include "stream/lower_internal.h"

static uint8_t machine(struct lowering *emit, int16_t reg)
{
    int16_t sp = emit->model == WIRE_LP64 ? (int16_t)WIRE_REG64_SP : (int16_t)WIRE_REG32_SP;
    return reg == sp ? lower_put_ctx(emit, WIRE_CTX_SP) : lower_put_reg(emit, (uint32_t)reg);
}

static void add_bias(struct lowering *emit, uint8_t reg)
{
    uint8_t bias = lower_put_ctx(emit, WIRE_CTX_BIAS);
    lower_put_dab(emit, WIRE_ADD, reg, reg, bias);
    emit->depth--;
}

/* x of a piece. */
static uint8_t computed(struct lowering *emit, const struct stream_piece *piece)
{
    uint8_t word = emit->model == WIRE_LP64 ? 8 : 4, reg;
    if (piece->reg == STREAM_NO_REG) {
        reg = lower_push(emit);
        lower_constant(emit, reg, 0);
    } else {
        reg = machine(emit, piece->reg);
    }
    if (piece->index != STREAM_NO_REG) {
        uint8_t index = machine(emit, piece->index);
        lower_put_dai(emit, WIRE_MULI, index, index, piece->scale);
        lower_put_dab(emit, WIRE_ADD, reg, reg, index);
        emit->depth--;
    }
    lower_put_add(emit, reg, piece->offset);
    if (piece->is_file_va)
        add_bias(emit, reg);
    for (uint8_t i = 0; i < piece->derefs; i++) {
        lower_put_load(emit, reg, reg, 0, word);
        lower_put_add(emit, reg, piece->deref_offset[i]);
    }
    if (word == 4)
        lower_put_dab(emit, WIRE_EXT, reg, reg, 0)->k = 4;
    return reg;
}

/* A piece that is no memory, as a word; of a double its bits. */
static uint8_t word_of(struct lowering *emit, const struct stream_piece *piece)
{
    uint8_t reg;
    struct wire_insn *insn;
    switch (piece->place) {
    case STREAM_IN_REG:
        reg = machine(emit, piece->reg);
        if (piece->shift)
            lower_put_dai(emit, WIRE_SHRI, reg, reg, piece->shift);
        return reg;
    case STREAM_IS_VALUE:
        return computed(emit, piece);
    case STREAM_IN_XMM:
        reg = lower_push(emit);
        insn = lower_put(emit, WIRE_XMM);
        insn->d = reg;
        insn->i = piece->reg;
        insn->k = piece->bytes == 4 ? 4 : 8;
        return reg;
    case STREAM_IN_ST0:
        reg = lower_push(emit);
        lower_put(emit, WIRE_ST0)->d = reg;
        return reg;
    default:
        lower_fail(emit, "the value is not there");
        return lower_push(emit);
    }
}

static bool is_somewhere(struct lowering *emit, const struct stream_location *location, const char *name)
{
    bool found = location && location->pieces;
    for (uint32_t i = 0; found && i < location->pieces; i++)
        found = location->piece[i].place != STREAM_NOWHERE;
    if (!found)
        lower_fail(emit, "%s is not available here: %s", name, location && location->why ? location->why : "its place is not known");
    return found;
}

/* A scalar of `bytes` bytes; with `is_double` it ends up as a double. */
static uint8_t scalar_at(struct lowering *emit, const struct stream_location *location, uint64_t bytes, bool is_signed, bool is_double)
{
    const struct stream_piece *piece = &location->piece[0];
    if (piece->place == STREAM_IN_MEMORY) {
        if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
            lower_fail(emit, "a value of %llu bytes can not be read as a number", (unsigned long long)bytes);
            bytes = 8;
        }
        uint8_t reg = computed(emit, piece);
        lower_put_load(emit, reg, reg, 0, (uint8_t)(bytes | (is_signed && bytes < 8 ? WIRE_SIGNED : 0)));
        if (is_double && bytes == 4)
            lower_put_dab(emit, WIRE_F2D, reg, reg, 0);
        return reg;
    }
    uint8_t reg = word_of(emit, piece);
    if (location->pieces == 2) { /* eight bytes in two words of a 32-bit process */
        uint8_t high = word_of(emit, &location->piece[1]);
        lower_put_dai(emit, WIRE_SHLI, high, high, 32);
        lower_put_dab(emit, WIRE_OR, reg, reg, high);
        emit->depth--;
    }
    bool has_bits = piece->place == STREAM_IN_REG || piece->place == STREAM_IS_VALUE;
    if (is_double && has_bits && bytes == 4)
        lower_put_dab(emit, WIRE_F2D, reg, reg, 0);
    if (!is_double && bytes < 8)
        lower_put_dab(emit, WIRE_EXT, reg, reg, 0)->k = (uint8_t)(bytes | (is_signed ? WIRE_SIGNED : 0));
    return reg;
}

uint8_t lower_argument_scalar(struct lowering *emit, const struct script_expr *expr)
{
    const struct stream_location *location = (const void *)(uintptr_t)expr->argument->cookie;
    const struct script_type *type = expr->type;
    if (!is_somewhere(emit, location, expr->argument->name))
        return lower_push(emit);
    return scalar_at(emit, location, type->bytes, type->kind == SCRIPT_T_INT && type->is_signed, type->kind == SCRIPT_T_DOUBLE);
}

uint8_t lower_usdt_argument(struct lowering *emit, uint64_t number)
{
    if (number >= emit->from->n_args[emit->model]) {
        lower_fail(emit, "the probe has %zu arguments", emit->from->n_args[emit->model]);
        return lower_push(emit);
    }
    const struct stream_location *location = &emit->from->args[emit->model][number];
    if (!is_somewhere(emit, location, "the argument"))
        return lower_push(emit);
    uint8_t reg = scalar_at(emit, location, location->piece[0].bytes, location->is_signed, location->is_float);
    if (location->is_float) /* argN is an integer */
        lower_put_dab(emit, WIRE_F2I, reg, reg, 0);
    return reg;
}

void lower_argument_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    const struct stream_location *location = (const void *)(uintptr_t)expr->argument->cookie;
    uint64_t bytes = lower_value_bytes(expr->type), done = 0;
    if (!is_somewhere(emit, location, expr->argument->name))
        return;
    for (uint32_t i = 0; i < location->pieces && done < bytes; i++) {
        const struct stream_piece *piece = &location->piece[i];
        uint64_t part = location->pieces == 1 || piece->bytes > bytes - done ? bytes - done : piece->bytes;
        uint32_t to = offset + (uint32_t)done;
        if (piece->place == STREAM_IN_MEMORY) {
            uint8_t reg = computed(emit, piece);
            lower_put_buffer(emit, reg, part, to);
            emit->depth--;
        } else {
            struct stream_piece whole = *piece;
            whole.bytes = 8; /* of xmm: as it is */
            uint32_t temporary = lower_room(emit, 8);
            uint8_t reg = word_of(emit, &whole);
            lower_put_frame(emit, WIRE_FST, reg, 8, temporary);
            emit->depth--;
            lower_put_copy(emit, to, temporary, part < 8 ? part : 8);
            lower_put_zero(emit, to + 8, part > 8 ? part - 8 : 0);
        }
        done += part;
    }
    lower_put_zero(emit, offset + (uint32_t)done, bytes - done);
}

uint8_t lower_retval(struct lowering *emit, const struct script_expr *expr)
{
    const struct script_type *type = expr->type;
    bool wide = emit->model == WIRE_LP64, is_double = type->kind == SCRIPT_T_DOUBLE;
    struct stream_location location = {.pieces = 1,
                                       .piece = {{.place = STREAM_IN_REG, .reg = 0, .index = STREAM_NO_REG, .bytes = (uint32_t)type->bytes},
                                                 {.place = STREAM_IN_REG, .reg = WIRE_REG32_DX, .index = STREAM_NO_REG, .bytes = 4}}};
    if (is_double)
        location.piece[0].place = wide && type->bytes <= 8 ? STREAM_IN_XMM : STREAM_IN_ST0;
    if (!wide && type->kind == SCRIPT_T_INT && type->bytes == 8 && expr->value)
        location.pieces = 2;
    uint64_t bytes = type->kind == SCRIPT_T_POINTER ? 8 : type->bytes > 8 ? 8 : type->bytes;
    return scalar_at(emit, &location, bytes, type->kind == SCRIPT_T_INT && type->is_signed, is_double);
}

/* uaddr(): what the caller found in the file, where it is in this process. */
uint8_t lower_symbol_address(struct lowering *emit, const struct script_expr *expr)
{
    uint8_t reg = lower_push(emit);
    uint64_t va = 0;
    if (!emit->from->find_symbol || !emit->from->find_symbol(emit->from->cookie, emit->model, expr->text, &va))
        lower_fail(emit, "the traced file has no symbol %s", expr->text);
    lower_constant(emit, reg, va);
    add_bias(emit, reg);
    if (emit->model == WIRE_ILP32)
        lower_put_dab(emit, WIRE_EXT, reg, reg, 0)->k = 4;
    return reg;
}
