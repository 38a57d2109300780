#include "jit/emit.h"

#include <string.h>

void emit_bytes(struct emit *emit, const void *bytes, size_t count)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < count; i++)
        VEC_PUSH(&emit->code, byte[i]);
}

void emit_u32(struct emit *emit, uint32_t value)
{
    emit_bytes(emit, &value, sizeof value);
}

void emit_u64(struct emit *emit, uint64_t value)
{
    emit_bytes(emit, &value, sizeof value);
}

/* Prefixes stand before REX, REX before the rest of the opcode. */
static void put_opcode(struct emit *emit, uint32_t opcode, uint8_t rex)
{
    bool done = false;
    for (int shift = 24; shift >= 0; shift -= 8) {
        uint8_t byte = (uint8_t)(opcode >> shift);
        if (!done && shift && !byte)
            continue;
        bool prefix = !done && shift && (byte == 0x66 || byte == 0xf0 || byte == 0xf3);
        if (!prefix && !done) {
            if (rex != 0x40)
                EMIT(emit, rex);
            done = true;
        }
        EMIT(emit, byte);
    }
}

void emit_rr(struct emit *emit, bool w, uint32_t opcode, int reg, int rm)
{
    put_opcode(emit, opcode, (uint8_t)(0x40 | (w && emit->wide ? 8 : 0) | (reg > 7 ? 4 : 0) | (rm > 7 ? 1 : 0)));
    EMIT(emit, (uint8_t)(0xc0 | (reg & 7) << 3 | (rm & 7)));
}

void emit_rm(struct emit *emit, bool w, uint32_t opcode, int reg, const struct emit_memory *memory)
{
    int base = memory->base, index = memory->index;
    uint8_t rex = (uint8_t)(0x40 | (w && emit->wide ? 8 : 0) | (reg > 7 ? 4 : 0) | (index > 7 ? 2 : 0) | (base > 7 ? 1 : 0));
    uint8_t field = (uint8_t)((reg & 7) << 3);
    put_opcode(emit, opcode, rex);
    if (base < 0 && index < 0) {
        EMIT(emit, (uint8_t)(field | 5));
        emit_u32(emit, (uint32_t)memory->displacement);
        return;
    }
    uint8_t sib = (uint8_t)((memory->scale == 8   ? 0xc0
                             : memory->scale == 4 ? 0x80
                             : memory->scale == 2 ? 0x40
                                                  : 0) |
                            (index < 0 ? 4 : index & 7) << 3 | (base < 0 ? 5 : base & 7));
    bool has_sib = index >= 0 || (base & 7) == SP;
    bool small = base >= 0 && memory->displacement >= -128 && memory->displacement <= 127;
    uint8_t mod = base < 0 ? 0 : memory->displacement == 0 && (base & 7) != BP ? 0 : small ? 0x40 : 0x80;
    EMIT(emit, (uint8_t)(mod | field | (has_sib ? 4 : base & 7)));
    if (has_sib)
        EMIT(emit, sib);
    if (mod == 0x40)
        EMIT(emit, (uint8_t)memory->displacement);
    else if (mod == 0x80 || base < 0)
        emit_u32(emit, (uint32_t)memory->displacement);
}

void emit_constant(struct emit *emit, int reg, uint64_t value)
{
    if (value <= UINT32_MAX || !emit->wide) { /* b8+r: zero-extends */
        put_opcode(emit, (uint32_t)(0xb8 | (reg & 7)), (uint8_t)(0x40 | (reg > 7 ? 1 : 0)));
        emit_u32(emit, (uint32_t)value);
    } else if ((uint64_t)(int64_t)(int32_t)value == value) { /* c7 /0: sign-extends */
        emit_rr(emit, true, 0xc7, 0, reg);
        emit_u32(emit, (uint32_t)value);
    } else {
        put_opcode(emit, (uint32_t)(0xb8 | (reg & 7)), (uint8_t)(0x48 | (reg > 7 ? 1 : 0)));
        emit_u64(emit, value);
    }
}

size_t emit_jump(struct emit *emit)
{
    EMIT(emit, 0xe9);
    emit_u32(emit, 0);
    return emit->code.n - 4;
}

size_t emit_jump_if(struct emit *emit, int condition)
{
    EMIT(emit, 0x0f, (uint8_t)(0x80 | condition));
    emit_u32(emit, 0);
    return emit->code.n - 4;
}

void emit_patch(struct emit *emit, size_t where, size_t to)
{
    int32_t distance = (int32_t)((int64_t)to - (int64_t)where - 4);
    memcpy(emit->code.at + where, &distance, sizeof distance);
}
