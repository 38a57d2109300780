/* Reading numbers from bytes that may end anywhere. */
#include "symbol/internal.h"

#include <string.h>

/* LSB Core, Exception Frames, DWARF exception header encoding. */
enum {
    PE_INDIRECT = 0x80,
    PE_ABSPTR = 0x00,
    PE_ULEB = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SLEB = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_PCREL = 0x10,
    PE_DATAREL = 0x30,
    PE_FUNCREL = 0x40,
};

bool symbol_cursor_skip(struct symbol_cursor *cursor, uint64_t bytes)
{
    if (cursor->failed || bytes > (uint64_t)(cursor->end - cursor->at)) {
        cursor->failed = true;
        return false;
    }
    cursor->at += bytes;
    cursor->va += bytes;
    return true;
}

uint64_t symbol_cursor_fixed(struct symbol_cursor *cursor, unsigned bytes)
{
    uint64_t value = 0;
    if (symbol_cursor_skip(cursor, bytes))
        memcpy(&value, cursor->at - bytes, bytes);
    return value;
}

uint64_t symbol_cursor_uleb(struct symbol_cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = (uint8_t)symbol_cursor_fixed(cursor, 1);
        if (cursor->failed)
            return 0;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

int64_t symbol_cursor_sleb(struct symbol_cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
        uint8_t byte = (uint8_t)symbol_cursor_fixed(cursor, 1);
        if (cursor->failed)
            return 0;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) {
            if (shift < 64 && (byte & 0x40))
                value |= ~0ULL << shift;
            return (int64_t)value;
        }
    }
}

uint64_t symbol_cursor_encoded(struct symbol_cursor *cursor, uint8_t encoding, int width, uint64_t data_va, uint64_t func_va)
{
    uint64_t base = 0, value;
    switch (encoding & 0x70) {
    case PE_ABSPTR:
        break;
    case PE_PCREL:
        base = cursor->va;
        break;
    case PE_DATAREL:
        base = data_va;
        break;
    case PE_FUNCREL:
        base = func_va;
        break;
    default:
        cursor->failed = true;
    }
    if (encoding & PE_INDIRECT)
        cursor->failed = true;
    switch (encoding & 0x0f) {
    case PE_ABSPTR:
        value = symbol_cursor_fixed(cursor, (unsigned)width / 8);
        break;
    case PE_ULEB:
        value = symbol_cursor_uleb(cursor);
        break;
    case PE_SLEB:
        value = (uint64_t)symbol_cursor_sleb(cursor);
        break;
    case PE_UDATA2:
        value = symbol_cursor_fixed(cursor, 2);
        break;
    case PE_UDATA4:
        value = symbol_cursor_fixed(cursor, 4);
        break;
    case PE_SDATA2:
        value = (uint64_t)(int16_t)symbol_cursor_fixed(cursor, 2);
        break;
    case PE_SDATA4:
        value = (uint64_t)(int32_t)symbol_cursor_fixed(cursor, 4);
        break;
    case PE_UDATA8:
    case PE_SDATA8:
        value = symbol_cursor_fixed(cursor, 8);
        break;
    default:
        cursor->failed = true;
        return 0;
    }
    if (cursor->failed || !value)
        return 0;
    value += base;
    return width == 64 ? value : (uint32_t)value;
}
