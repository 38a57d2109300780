/* Reading the process's memory, and parts of values in the frame. */
#include "stream/lower_internal.h"

/* A bit-field out of the 16 bytes at `offset`. */
static uint8_t bits_of(struct lowering *emit, const struct script_expr *expr, uint32_t offset, bool second_word)
{
    uint8_t reg = lower_push(emit);
    lower_put_frame(emit, WIRE_FLD, reg, 8, offset);
    unsigned from = expr->bit_offset;
    if (second_word && from + expr->bit_size > 64) {
        uint8_t high = lower_push(emit);
        lower_put_frame(emit, WIRE_FLD, high, 8, offset + 8);
        lower_put_dai(emit, WIRE_SHRI, reg, reg, (int32_t)from);
        lower_put_dai(emit, WIRE_SHLI, high, high, (int32_t)(64 - from));
        lower_put_dab(emit, WIRE_OR, reg, reg, high);
        emit->depth--;
        from = 0;
    }
    struct wire_insn *insn = lower_put_dab(emit, WIRE_BITS, reg, reg, 0);
    insn->k = (uint8_t)from;
    insn->h = expr->bit_size;
    insn->i = expr->type->kind == SCRIPT_T_INT && expr->type->is_signed;
    return reg;
}

uint8_t lower_load_scalar(struct lowering *emit, const struct script_expr *expr)
{
    uint8_t reg = lower_scalar(emit, expr->left);
    if (expr->bit_size) {
        uint32_t word = lower_room(emit, 16);
        if (expr->offset) {
            uint8_t add = lower_push(emit);
            lower_constant(emit, add, expr->offset);
            lower_put_dab(emit, WIRE_ADD, reg, reg, add);
            emit->depth--;
        }
        lower_put_zero(emit, word, 16);
        lower_put_buffer(emit, reg, expr->bytes, word);
        emit->depth--;
        return bits_of(emit, expr, word, true);
    }
    uint8_t size = (uint8_t)expr->bytes;
    if (size != 1 && size != 2 && size != 4 && size != 8) {
        lower_fail(emit, "a value of %llu bytes can not be read as a number", (unsigned long long)expr->bytes);
        size = 8;
    }
    bool is_signed = expr->type->kind == SCRIPT_T_INT && expr->type->is_signed && size < 8;
    lower_put_load(emit, reg, reg, (int64_t)expr->offset, (uint8_t)(size | (is_signed ? WIRE_SIGNED : 0)));
    if (expr->type->kind == SCRIPT_T_DOUBLE && size == 4)
        lower_put_dab(emit, WIRE_F2D, reg, reg, 0);
    if (expr->type->kind == SCRIPT_T_BOOL)
        lower_put_dai(emit, WIRE_NEI, reg, reg, 0);
    return reg;
}

void lower_load_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    uint8_t reg = lower_scalar(emit, expr->left);
    if (expr->offset) {
        uint8_t add = lower_push(emit);
        lower_constant(emit, add, expr->offset);
        lower_put_dab(emit, WIRE_ADD, reg, reg, add);
        emit->depth--;
    }
    if (expr->type->kind == SCRIPT_T_STRING) {
        uint8_t count = lower_push(emit);
        lower_constant(emit, count, expr->bytes + 1);
        struct wire_insn *insn = lower_put_dab(emit, WIRE_STRT, count, reg, count);
        insn->j = offset;
        insn->i = (int32_t)expr->type->bytes;
        emit->depth--;
    } else {
        lower_put_buffer(emit, reg, expr->bytes, offset);
        uint64_t wanted = lower_value_bytes(expr->type);
        lower_put_zero(emit, offset + (uint32_t)expr->bytes, wanted > expr->bytes ? wanted - expr->bytes : 0);
    }
    emit->depth--;
}

uint8_t lower_extract_scalar(struct lowering *emit, const struct script_expr *expr)
{
    uint32_t base = lower_located(emit, expr->left), at = base + (uint32_t)expr->offset;
    if (expr->bit_size) {
        /* The word may reach beyond the value: take it from a copy. */
        uint32_t word = lower_room(emit, 16);
        uint64_t whole = lower_value_bytes(expr->left->type), left = whole > expr->offset ? whole - expr->offset : 0;
        lower_put_zero(emit, word, 16);
        lower_put_copy(emit, word, at, expr->bytes < left ? expr->bytes : left);
        return bits_of(emit, expr, word, true);
    }
    uint8_t reg = lower_push(emit);
    bool is_signed = expr->type->kind == SCRIPT_T_INT && expr->type->is_signed && expr->bytes < 8;
    lower_put_frame(emit, WIRE_FLD, reg, (uint8_t)(expr->bytes | (is_signed ? WIRE_SIGNED : 0)), at);
    if (expr->type->kind == SCRIPT_T_DOUBLE && expr->bytes == 4)
        lower_put_dab(emit, WIRE_F2D, reg, reg, 0);
    return reg;
}

uint8_t lower_element_scalar(struct lowering *emit, const struct script_expr *expr)
{
    const struct script_type *whole = expr->left->type, *element = expr->type;
    uint32_t base = lower_located(emit, expr->left) + (whole->kind == SCRIPT_T_BUFFER ? 8 : 0);
    uint8_t reg = lower_scalar(emit, expr->right);
    struct wire_insn *insn = lower_put_dab(emit, WIRE_FLDX, reg, reg, 0);
    insn->j = base;
    insn->i = (int32_t)whole->bytes;
    insn->k = (uint8_t)(element->bytes | (lower_size(element) & WIRE_SIGNED));
    if (element->kind == SCRIPT_T_DOUBLE && element->bytes == 4)
        lower_put_dab(emit, WIRE_F2D, reg, reg, 0);
    return reg;
}

uint8_t lower_address_scalar(struct lowering *emit, const struct script_expr *expr)
{
    uint8_t reg = lower_scalar(emit, expr->left);
    if (expr->right) {
        uint8_t index = lower_scalar(emit, expr->right), step;
        if (expr->bound && expr->bound <= INT32_MAX)
            lower_put_dai(emit, WIRE_BOUND, index, index, (int32_t)expr->bound);
        step = lower_push(emit);
        lower_constant(emit, step, expr->value);
        lower_put_dab(emit, WIRE_MUL, index, index, step);
        lower_put_dab(emit, WIRE_ADD, reg, reg, index);
        emit->depth -= 2;
    }
    if (expr->offset && (int64_t)expr->offset == (int32_t)expr->offset) {
        lower_put_dai(emit, WIRE_ADDI, reg, reg, (int32_t)expr->offset);
    } else if (expr->offset) {
        uint8_t add = lower_push(emit);
        lower_constant(emit, add, expr->offset);
        lower_put_dab(emit, WIRE_ADD, reg, reg, add);
        emit->depth--;
    }
    return reg;
}
