#include "live/env.h"

#include <string.h>

/* Puts a register of DWARF's numbering where the stream has it. False when the stream can not read it. */
static bool take_register(int16_t reg, int width, struct stream_piece *out)
{
    int first_xmm = width == 64 ? SYMBOL_REG_64_XMM0 : SYMBOL_REG_32_XMM0, xmms = width == 64 ? 16 : 8;
    int st0 = width == 64 ? SYMBOL_REG_64_ST0 : SYMBOL_REG_32_ST0, general = width == 64 ? 16 : 8;
    if (reg >= first_xmm && reg < first_xmm + xmms) {
        out->place = STREAM_IN_XMM;
        out->reg = (int16_t)(reg - first_xmm);
        return true;
    }
    if (reg == st0) {
        out->place = STREAM_IN_ST0;
        return true;
    }
    out->place = STREAM_IN_REG;
    out->reg = reg;
    return reg >= 0 && reg < general;
}

static bool take_piece(const struct symbol_piece *from, int width, struct stream_piece *out)
{
    *out = (struct stream_piece){
        .reg = from->reg, .index = STREAM_NO_REG, .is_file_va = from->is_file_va, .offset = from->offset, .bytes = from->size_bytes};
    if (from->is_entry || from->deref_count > STREAM_DEREFS ||
        (from->reg != SYMBOL_NO_REG && from->reg >= (width == 64 ? 16 : 8) && from->place != SYMBOL_PLACE_REGISTER))
        return false;
    out->derefs = from->deref_count;
    memcpy(out->deref_offset, from->deref_offset, sizeof out->deref_offset);
    switch (from->place) {
    case SYMBOL_PLACE_REGISTER:
        return take_register(from->reg, width, out);
    case SYMBOL_PLACE_MEMORY:
        out->place = STREAM_IN_MEMORY;
        return true;
    case SYMBOL_PLACE_VALUE:
        out->place = STREAM_IS_VALUE;
        return true;
    case SYMBOL_PLACE_CONSTANT:
        out->place = STREAM_IS_VALUE;
        out->reg = STREAM_NO_REG;
        if (from->size_bytes > 8 || !from->bytes)
            return false;
        memcpy(&out->offset, from->bytes, from->size_bytes);
        return true;
    default:
        return false;
    }
}

void live_location(const struct symbol_location *from, int width, uint64_t value_bytes, struct stream_location *out)
{
    *out = (struct stream_location){.why = from->reason};
    if (from->piece_count > STREAM_PIECES) {
        out->why = "it is in too many pieces";
        return;
    }
    for (unsigned i = 0; i < from->piece_count; i++) {
        if (!take_piece(&from->pieces[i], width, &out->piece[i])) {
            if (!out->why)
                out->why =
                    from->pieces[i].is_entry ? "only its value at the function's entry is known" : "it is where scripts can not read";
            out->pieces = 0;
            return;
        }
        if (!out->piece[i].bytes)
            out->piece[i].bytes = (uint32_t)value_bytes;
        out->pieces = i + 1;
    }
}

void live_usdt_location(const struct symbol_usdt_arg *arg, int width, struct stream_location *out)
{
    *out = (struct stream_location){.why = arg->reason, .is_signed = arg->is_signed, .is_float = arg->is_float};
    struct stream_piece *piece = &out->piece[0];
    *piece = (struct stream_piece){.reg = arg->reg,
                                   .index = arg->index,
                                   .scale = arg->scale,
                                   .shift = arg->reg_shift,
                                   .is_file_va = arg->is_file_va,
                                   .offset = arg->value,
                                   .bytes = arg->size_bytes};
    switch (arg->kind) {
    case SYMBOL_USDT_CONST:
        piece->place = STREAM_IS_VALUE;
        piece->reg = piece->index = STREAM_NO_REG;
        break;
    case SYMBOL_USDT_REGISTER:
        if (!take_register(arg->reg, width, piece))
            return;
        if (arg->reg_high != SYMBOL_NO_REG) {
            out->piece[1] = (struct stream_piece){.place = STREAM_IN_REG, .reg = arg->reg_high, .index = STREAM_NO_REG, .bytes = 4};
            out->pieces = 2;
            return;
        }
        break;
    case SYMBOL_USDT_MEMORY:
        piece->place = STREAM_IN_MEMORY;
        break;
    default:
        return;
    }
    out->pieces = 1;
}
