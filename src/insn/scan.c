/* Raw searches over text: what might be a branch or a lea at any byte position. Cheap on purpose: a few compares per byte. */
#include "insn/insn.h"

#include <string.h>

static int32_t load_s32(const uint8_t *p)
{
    int32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static uint64_t va_mask(enum insn_mode mode)
{
    return mode == INSN_MODE_32 ? UINT32_MAX : UINT64_MAX;
}

void insn_scan_branches(const uint8_t *bytes, size_t size, uint64_t va, enum insn_mode mode, insn_found_fn *found, void *context)
{
    uint64_t mask = va_mask(mode);
    for (size_t i = 0; i + 5 <= size; i++) {
        size_t at; /* of the displacement */
        if (bytes[i] == 0xe9)
            at = i + 1;
        else if (bytes[i] == 0x0f && (bytes[i + 1] & 0xf0) == 0x80 && i + 6 <= size)
            at = i + 2;
        else
            continue;
        found(context, va + i, (va + at + 4 + (uint64_t)(int64_t)load_s32(bytes + at)) & mask);
    }
}

void insn_scan_short_branches(const uint8_t *bytes, size_t size, uint64_t va, enum insn_mode mode, insn_found_fn *found, void *context)
{
    uint64_t mask = va_mask(mode);
    for (size_t i = 0; i + 2 <= size; i++) {
        uint8_t byte = bytes[i];
        if ((byte & 0xf0) == 0x70 || (byte & 0xfc) == 0xe0 || byte == 0xeb)
            found(context, va + i, (va + i + 2 + (uint64_t)(int64_t)(int8_t)bytes[i + 1]) & mask);
    }
}

/* E8 rel32, then 05 imm32 (eax) or 81 /0 imm32 on a register. */
static void scan_thunk_sums(const uint8_t *bytes, size_t size, uint64_t va, insn_found_fn *found, void *context)
{
    for (size_t i = 0; i + 11 <= size; i++) {
        if (bytes[i] != 0xe8)
            continue;
        const uint8_t *next = bytes + i + 5;
        const uint8_t *immediate = next[0] == 0x05 ? next + 1 : next[0] == 0x81 && (next[1] & 0xf8) == 0xc0 ? next + 2 : NULL;
        if (immediate)
            found(context, va + i, (uint32_t)(va + i + 5 + (uint64_t)(int64_t)load_s32(immediate)));
    }
}

void insn_scan_lea(const uint8_t *bytes, size_t size, uint64_t va, enum insn_mode mode, insn_found_fn *found, void *context)
{
    if (mode != INSN_MODE_64) {
        scan_thunk_sums(bytes, size, va, found, context);
        return;
    }
    for (size_t i = 0; i + 6 <= size; i++) {
        /* mod 0, rm 5: RIP + disp32, whatever the register (SDM vol. 2, 2.2.1.6). */
        if (bytes[i] == 0x8d && (bytes[i + 1] & 0xc7) == 0x05)
            found(context, va + i, va + i + 6 + (uint64_t)(int64_t)load_s32(bytes + i + 2));
    }
}
