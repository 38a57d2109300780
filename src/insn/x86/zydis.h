/* The one place where Zydis is set up, so that decoding and relocating agree on lengths. For src/insn/x86 only. */
#ifndef INSN_X86_ZYDIS_H
#define INSN_X86_ZYDIS_H

#include "insn/insn.h"

#include <Zydis/Zydis.h>

static inline ZyanStatus x86_decode(enum insn_mode mode, const uint8_t *bytes, size_t available, ZydisDecodedInstruction *out)
{
    ZydisDecoder decoder;
    if (mode == INSN_MODE_64)
        ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    else
        ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32);
    return ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, available, out);
}

/* A memory operand relative to the pc: mod 0, rm 5 with a 32-bit displacement in 64-bit mode (SDM vol. 2, 2.2.1.6). */
static inline bool x86_is_pc_relative(const ZydisDecodedInstruction *decoded)
{
    return decoded->machine_mode == ZYDIS_MACHINE_MODE_LONG_64 && (decoded->attributes & ZYDIS_ATTRIB_HAS_MODRM) &&
           decoded->raw.modrm.mod == 0 && decoded->raw.modrm.rm == 5 && decoded->raw.disp.size == 32;
}

static inline bool x86_has_prefix(const ZydisDecodedInstruction *decoded, uint8_t value)
{
    for (unsigned i = 0; i < decoded->raw.prefix_count; i++)
        if (decoded->raw.prefixes[i].value == value)
            return true;
    return false;
}

#endif
