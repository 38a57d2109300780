/* Bytes to struct insn: length, kind, targets, and whether a copy can be made at all. */
#include "insn/x86/zydis.h"

#include <string.h>

/* A 66 prefix on a near branch cuts the target to 16 bits, except where REX.W overrides it: the linker's `data16 rex.W call` in TLS
 * sequences. In 64-bit mode Intel ignores the prefix and AMD obeys it (SDM vol. 1, 6.3.7; APM vol. 3, 1.2.4). */
static bool is_short_operand(const ZydisDecodedInstruction *decoded)
{
    return x86_has_prefix(decoded, 0x66) && !((decoded->attributes & ZYDIS_ATTRIB_HAS_REX) && decoded->raw.rex.W);
}

/* What assemblers use as padding besides the nop opcodes: lea and mov of a whole register onto itself. */
static bool is_padding(const ZydisDecodedInstruction *decoded)
{
    const ZydisDecodedInstructionRaw *raw = &decoded->raw;
    unsigned width = decoded->machine_mode == ZYDIS_MACHINE_MODE_LONG_64 ? 64 : 32;
    unsigned reg = raw->modrm.reg, base = raw->modrm.rm;
    if (decoded->operand_width != width || decoded->opcode_map != ZYDIS_OPCODE_MAP_DEFAULT)
        return false;
    if (decoded->attributes & ZYDIS_ATTRIB_HAS_REX) {
        reg |= raw->rex.R << 3;
        base |= raw->rex.B << 3;
    }
    if (decoded->mnemonic == ZYDIS_MNEMONIC_MOV)
        return (decoded->opcode == 0x89 || decoded->opcode == 0x8b) && raw->modrm.mod == 3 && reg == base;

    if (decoded->address_width != width || raw->modrm.mod == 3 || raw->disp.value != 0)
        return false;
    if (raw->modrm.rm == 4) {
        bool rex_x = (decoded->attributes & ZYDIS_ATTRIB_HAS_REX) && raw->rex.X;
        if (raw->sib.index != 4 || rex_x)
            return false;
        base = (base & 8) | raw->sib.base;
    }
    bool has_base = !(raw->modrm.mod == 0 && (base & 7) == 5);
    return has_base && reg == base;
}

static enum insn_kind kind_of(const ZydisDecodedInstruction *decoded, enum insn_reason *refusal)
{
    bool relative = decoded->raw.imm[0].is_relative;

    switch (decoded->mnemonic) {
    case ZYDIS_MNEMONIC_LEA:
    case ZYDIS_MNEMONIC_MOV:
        return is_padding(decoded) ? INSN_NOP : INSN_PLAIN;
    case ZYDIS_MNEMONIC_NOP:
        return INSN_NOP;
    case ZYDIS_MNEMONIC_XCHG:
        /* xchg %ax,%ax in its long form; xchg %eax,%eax would clear the upper half in 64-bit mode. */
        return decoded->opcode == 0x87 && decoded->operand_width == 16 && decoded->raw.modrm.mod == 3 && decoded->raw.modrm.reg == 0 &&
                       decoded->raw.modrm.rm == 0 && !(decoded->attributes & ZYDIS_ATTRIB_HAS_REX)
                   ? INSN_NOP
                   : INSN_PLAIN;

    case ZYDIS_MNEMONIC_JMP:
        if (decoded->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
            *refusal = INSN_FAR_TRANSFER;
        else if (is_short_operand(decoded))
            *refusal = INSN_SHORT_OPERAND;
        return relative ? INSN_JMP : INSN_JMP_INDIRECT;
    case ZYDIS_MNEMONIC_CALL:
        if (decoded->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
            *refusal = INSN_FAR_TRANSFER;
        else if (is_short_operand(decoded))
            *refusal = INSN_SHORT_OPERAND;
        else if (!relative && decoded->raw.modrm.mod == 3 && decoded->raw.modrm.rm == 4 &&
                 !((decoded->attributes & ZYDIS_ATTRIB_HAS_REX) && decoded->raw.rex.B))
            *refusal = INSN_STACK_TARGET;
        return relative ? INSN_CALL : INSN_CALL_INDIRECT;
    case ZYDIS_MNEMONIC_RET:
        if (decoded->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
            *refusal = INSN_FAR_TRANSFER;
        else if (is_short_operand(decoded))
            *refusal = INSN_SHORT_OPERAND;
        return INSN_RET;
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_UIRET:
        *refusal = INSN_FAR_TRANSFER;
        return INSN_RET;

    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
    case ZYDIS_MNEMONIC_JCXZ:
    case ZYDIS_MNEMONIC_JECXZ:
    case ZYDIS_MNEMONIC_JRCXZ:
        if (is_short_operand(decoded))
            *refusal = INSN_SHORT_OPERAND;
        return INSN_LOOP;

    /* The abort of a transaction goes to a target, as a branch that is taken later. */
    case ZYDIS_MNEMONIC_XBEGIN:
        *refusal = INSN_TRANSACTION;
        return INSN_JCC;
    case ZYDIS_MNEMONIC_XEND:
    case ZYDIS_MNEMONIC_XABORT:
        *refusal = INSN_TRANSACTION;
        return INSN_PLAIN;

    case ZYDIS_MNEMONIC_SYSCALL:
        /* From 32-bit code Linux returns to the vdso's landing pad, not to the next instruction. */
        if (decoded->machine_mode != ZYDIS_MACHINE_MODE_LONG_64)
            *refusal = INSN_PC_READ;
        return INSN_SYSCALL;
    case ZYDIS_MNEMONIC_SYSENTER:
        *refusal = INSN_PC_READ;
        return INSN_SYSCALL;
    case ZYDIS_MNEMONIC_INT:
        return decoded->raw.imm[0].value.u == 0x80 ? INSN_SYSCALL : INSN_PLAIN;
    /* EENTER and ERESUME hand the address of the next instruction to the enclave. */
    case ZYDIS_MNEMONIC_ENCLU:
        *refusal = INSN_PC_READ;
        return INSN_PLAIN;

    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_HLT:
    case ZYDIS_MNEMONIC_INT3:
        return INSN_STOP;

    /* Privileged instructions are plain: they fault at any address alike, and in, out, cli, sti work in a process that was given the
     * right to use them. */
    default:
        if (decoded->meta.category != ZYDIS_CATEGORY_COND_BR)
            return INSN_PLAIN;
        if (is_short_operand(decoded))
            *refusal = INSN_SHORT_OPERAND;
        return INSN_JCC;
    }
}

enum insn_reason insn_decode(enum insn_mode mode, const uint8_t *bytes, size_t available, uint64_t va, struct insn *out)
{
    ZydisDecodedInstruction decoded;
    ZyanStatus status = x86_decode(mode, bytes, available, &decoded);
    if (status == ZYDIS_STATUS_NO_MORE_DATA)
        return INSN_TRUNCATED;
    if (ZYAN_FAILED(status))
        return INSN_UNDECODABLE;
    /* Branches that only Knights Corner has; elsewhere their VEX encoding is undefined. */
    if (decoded.mnemonic == ZYDIS_MNEMONIC_JKZD || decoded.mnemonic == ZYDIS_MNEMONIC_JKNZD)
        return INSN_UNDECODABLE;

    uint64_t mask = mode == INSN_MODE_32 ? UINT32_MAX : UINT64_MAX;
    uint64_t next = va + decoded.length;
    enum insn_reason refusal = INSN_OK;
    memset(out, 0, sizeof *out);
    out->va = va & mask;
    out->length = decoded.length;
    out->mode = (uint8_t)mode;
    out->kind = (uint8_t)kind_of(&decoded, &refusal);
    out->refusal = (uint8_t)refusal;
    memcpy(out->bytes, bytes, decoded.length);

    if (decoded.raw.imm[0].is_relative)
        out->target_va = (next + decoded.raw.imm[0].value.u) & mask;
    /* The operand of a nop is never used: no reason to demand that it is within reach. */
    if (x86_is_pc_relative(&decoded) && out->kind != INSN_NOP) {
        out->flags |= INSN_PC_RELATIVE;
        out->memory_va = next + (uint64_t)decoded.raw.disp.value;
        if (decoded.address_width == 32)
            out->memory_va &= UINT32_MAX;
    }
    return INSN_OK;
}

bool insn_writes_ax(const struct insn *insn)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
    bool wide = insn->mode == INSN_MODE_64;
    ZydisMachineMode mode = wide ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32;
    ZydisDecoderInit(&decoder, mode, wide ? ZYDIS_STACK_WIDTH_64 : ZYDIS_STACK_WIDTH_32);
    if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, insn->bytes, insn->length, &decoded, operand)))
        return true;
    for (int i = 0; i < decoded.operand_count; i++)
        if (operand[i].type == ZYDIS_OPERAND_TYPE_REGISTER && (operand[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
            ZydisRegisterGetLargestEnclosing(mode, operand[i].reg.value) == (wide ? ZYDIS_REGISTER_RAX : ZYDIS_REGISTER_EAX))
            return true;
    return false;
}
