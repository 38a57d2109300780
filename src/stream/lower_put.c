#include "stream/lower_internal.h"

struct wire_insn *lower_put_dab(struct lowering *emit, enum wire_op op, uint8_t d, uint8_t a, uint8_t b)
{
    struct wire_insn *insn = lower_put(emit, op);
    insn->d = d;
    insn->a = a;
    insn->b = b;
    return insn;
}

void lower_put_dai(struct lowering *emit, enum wire_op op, uint8_t d, uint8_t a, int32_t i)
{
    struct wire_insn *insn = lower_put(emit, op);
    insn->d = d;
    insn->a = a;
    insn->i = i;
}

void lower_put_frame(struct lowering *emit, enum wire_op op, uint8_t reg, uint8_t size, uint32_t offset)
{
    struct wire_insn *insn = lower_put(emit, op);
    if (op == WIRE_FST)
        insn->a = reg;
    else
        insn->d = reg;
    insn->k = op == WIRE_FST ? (uint8_t)(size & ~WIRE_SIGNED) : size;
    insn->j = offset;
}

void lower_put_zero(struct lowering *emit, uint32_t offset, uint64_t bytes)
{
    if (!bytes)
        return;
    struct wire_insn *insn = lower_put(emit, WIRE_FZERO);
    insn->j = offset;
    insn->i = (int32_t)bytes;
}

void lower_put_copy(struct lowering *emit, uint32_t to, uint32_t from, uint64_t bytes)
{
    if (!bytes || to == from)
        return;
    struct wire_insn *insn = lower_put(emit, WIRE_FCPY);
    insn->j = to;
    insn->i = (int32_t)from;
    insn->h = (uint16_t)bytes;
}

void lower_extend(struct lowering *emit, uint8_t reg, const struct script_type *type)
{
    if (type->kind == SCRIPT_T_INT && type->bytes < 8) {
        struct wire_insn *insn = lower_put_dab(emit, WIRE_EXT, reg, reg, 0);
        insn->k = lower_size(type);
    }
}

uint8_t lower_put_ctx(struct lowering *emit, uint32_t what)
{
    uint8_t reg = lower_push(emit);
    struct wire_insn *insn = lower_put(emit, WIRE_CTX);
    insn->d = reg;
    insn->i = (int32_t)what;
    return reg;
}

uint8_t lower_put_reg(struct lowering *emit, uint32_t number)
{
    uint8_t reg = lower_push(emit);
    struct wire_insn *insn = lower_put(emit, WIRE_REG);
    insn->d = reg;
    insn->i = (int32_t)number;
    return reg;
}

void lower_put_load(struct lowering *emit, uint8_t d, uint8_t a, int64_t offset, uint8_t size)
{
    if (offset != (int32_t)offset) {
        uint8_t reg = lower_push(emit);
        lower_constant(emit, reg, (uint64_t)offset);
        lower_put_dab(emit, WIRE_ADD, a, a, reg);
        emit->depth--;
        offset = 0;
    }
    struct wire_insn *insn = lower_put(emit, WIRE_LDT);
    insn->d = d;
    insn->a = a;
    insn->i = (int32_t)offset;
    insn->k = size;
}

uint8_t lower_load_frame(struct lowering *emit, const struct script_type *type, uint32_t offset)
{
    uint8_t reg = lower_push(emit);
    lower_put_frame(emit, WIRE_FLD, reg, lower_size(type), offset);
    return reg;
}

void lower_put_add(struct lowering *emit, uint8_t reg, int64_t value)
{
    if (value == (int32_t)value) {
        if (value)
            lower_put_dai(emit, WIRE_ADDI, reg, reg, (int32_t)value);
        return;
    }
    uint8_t add = lower_push(emit);
    lower_constant(emit, add, (uint64_t)value);
    lower_put_dab(emit, WIRE_ADD, reg, reg, add);
    emit->depth--;
}

void lower_put_buffer(struct lowering *emit, uint8_t address, uint64_t bytes, uint32_t offset)
{
    uint8_t count = lower_push(emit);
    lower_constant(emit, count, bytes);
    struct wire_insn *insn = lower_put_dab(emit, WIRE_BUFT, count, address, count);
    insn->j = offset;
    insn->i = (int32_t)bytes;
    emit->depth--;
}
