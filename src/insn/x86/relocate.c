/* Copies of instructions that run elsewhere.
 *
 * Most instructions are copied as they are, a RIP-relative displacement adjusted. What is rewritten:
 *
 *   jmp, jcc            the rel32 form
 *   loop, jcxz          loop 1f; jmp short 2f; 1: jmp target; 2:
 *   call target         push $ret; [movl $ret_high,4(%rsp);] jmp target
 *   call *%reg          push $ret; [movl $ret_high,4(%rsp);] jmp *%reg
 *   call *mem (64-bit)  push mem; pop -16(%rsp); push $ret; [movl $ret_high,4(%rsp);] jmp *-8(%rsp)
 *   call *mem (32-bit)  push mem; push (%esp); movl $ret,4(%esp); ret
 *   syscall             syscall; mov $next,%rcx
 *
 * A call through memory first pushes its operand: if the operand or the stack faults, it does so with the original's state, and the
 * target is read before the return address is written, as the original does, even when they overlap. Push forms its address before it
 * moves the stack pointer, so the operand needs no change for a base of rsp. In 64-bit mode the target then waits in the red zone,
 * which signals leave alone; in 32-bit mode there is none, so it stays above the stack pointer and `ret` consumes it.
 */
#include "insn/x86/zydis.h"

#include <string.h>

enum { PREFIX_BND = 0xf2, PREFIX_NOTRACK = 0x3e };

/* Addresses wrap at 4 GB in 32-bit mode. */
static uint64_t next_va(const struct insn *insn)
{
    uint64_t next = insn->va + insn->length;
    return insn->mode == INSN_MODE_32 ? next & UINT32_MAX : next;
}

static void put_byte(struct insn_copy *out, uint8_t value)
{
    out->bytes[out->length++] = value;
}

static void put_u32(struct insn_copy *out, uint64_t value)
{
    uint32_t low = (uint32_t)value;
    memcpy(out->bytes + out->length, &low, sizeof low);
    out->length += sizeof low;
}

static void put_bytes(struct insn_copy *out, const uint8_t *bytes, size_t count)
{
    memcpy(out->bytes + out->length, bytes, count);
    out->length += (uint8_t)count;
}

/* The next byte put starts an instruction; a thread there stands for `pc_va` with the stack pointer `sp_undo` bytes higher. */
static void begin_step(struct insn_copy *out, uint64_t pc_va, unsigned sp_undo)
{
    out->step[out->step_count++] = (struct insn_step){.pc_va = pc_va, .offset = out->length, .sp_undo = (uint8_t)sp_undo};
}

/* A displacement field that ends `tail` bytes before its instruction does. */
static enum insn_reason put_rel32(struct insn_copy *out, enum insn_mode mode, uint64_t copy_va, uint64_t target_va, unsigned tail)
{
    int64_t distance = (int64_t)(target_va - (copy_va + out->length + 4 + tail));
    if (mode == INSN_MODE_64 && distance != (int32_t)distance)
        return INSN_OUT_OF_REACH;
    put_u32(out, (uint64_t)distance);
    return INSN_OK;
}

static enum insn_reason put_jmp(struct insn_copy *out, const struct insn *insn, const ZydisDecodedInstruction *decoded, uint64_t copy_va,
                                uint64_t target_va)
{
    if (decoded->attributes & ZYDIS_ATTRIB_HAS_BND)
        put_byte(out, PREFIX_BND);
    put_byte(out, 0xe9);
    return put_rel32(out, insn->mode, copy_va, target_va, 0);
}

/* ==== plain copies ==== */

static enum insn_reason copy_plain(const struct insn *insn, const ZydisDecodedInstruction *decoded, uint64_t copy_va, struct insn_copy *out)
{
    begin_step(out, insn->va, 0);
    if (!(insn->flags & INSN_PC_RELATIVE)) {
        put_bytes(out, insn->bytes, insn->length);
        return INSN_OK;
    }
    unsigned at = decoded->raw.disp.offset;
    unsigned tail = insn->length - at - 4u;
    put_bytes(out, insn->bytes, at);
    /* With a 67 prefix the sum is cut to 32 bits, so that every operand is within reach. */
    enum insn_mode reach = decoded->address_width == 32 ? INSN_MODE_32 : INSN_MODE_64;
    enum insn_reason reason = put_rel32(out, reach, copy_va, insn->memory_va, tail);
    put_bytes(out, insn->bytes + at + 4, tail);
    return reason;
}

/* ==== conditional branches ==== */

static enum insn_reason copy_branch(const struct insn *insn, const ZydisDecodedInstruction *decoded, uint64_t copy_va, uint64_t taken_va,
                                    struct insn_copy *out)
{
    begin_step(out, insn->va, 0);
    if (insn->kind == INSN_JCC) {
        if (decoded->attributes & ZYDIS_ATTRIB_HAS_BND)
            put_byte(out, PREFIX_BND);
        put_byte(out, 0x0f);
        put_byte(out, 0x80 | (decoded->opcode & 0x0f));
        return put_rel32(out, insn->mode, copy_va, taken_va, 0);
    }

    /* All prefixes stay: 67 chooses the counter, and on some processors F2 and F3 choose the condition of E0 and E1. */
    put_bytes(out, insn->bytes, insn->length - 1u);
    put_byte(out, 2);
    begin_step(out, next_va(insn), 0);
    put_byte(out, 0xeb);
    put_byte(out, 5);
    begin_step(out, insn->target_va, 0);
    put_byte(out, 0xe9);
    return put_rel32(out, insn->mode, copy_va, taken_va, 0);
}

/* ==== calls ==== */

static void put_push_return(const struct insn *insn, struct insn_copy *out)
{
    uint64_t return_va = next_va(insn);
    put_byte(out, 0x68);
    put_u32(out, return_va);
    /* push sign-extends its operand to 64 bits. */
    if (insn->mode == INSN_MODE_32 || (int64_t)return_va == (int32_t)return_va)
        return;
    begin_step(out, insn->va, 8);
    put_bytes(out, (const uint8_t[]){0xc7, 0x44, 0x24, 0x04}, 4);
    put_u32(out, return_va >> 32);
}

/* The prefixes that change the operand of a branch. A REX prefix counts only next to the opcode, and must not come to stand there because
 * one between them is left out. */
static void put_operand_prefixes(const struct insn *insn, const ZydisDecodedInstruction *decoded, struct insn_copy *out)
{
    unsigned count = decoded->raw.prefix_count;
    for (unsigned i = 0; i < count; i++) {
        uint8_t value = decoded->raw.prefixes[i].value;
        bool rex = insn->mode == INSN_MODE_64 && (value & 0xf0) == 0x40;
        if (rex ? i == count - 1 : value != 0x66 && value != 0xf2 && value != 0xf3)
            put_byte(out, value);
    }
}

/* `opcode FF /reg` with the operand of `insn`. */
static enum insn_reason put_group5(const struct insn *insn, const ZydisDecodedInstruction *decoded, unsigned reg, uint64_t copy_va,
                                   struct insn_copy *out)
{
    unsigned modrm = decoded->raw.modrm.offset;
    put_operand_prefixes(insn, decoded, out);
    put_byte(out, 0xff);
    put_byte(out, (uint8_t)((insn->bytes[modrm] & 0xc7) | reg << 3));
    if (insn->flags & INSN_PC_RELATIVE)
        return put_rel32(out, decoded->address_width == 32 ? INSN_MODE_32 : INSN_MODE_64, copy_va, insn->memory_va, 0);
    put_bytes(out, insn->bytes + modrm + 1, insn->length - modrm - 1u);
    return INSN_OK;
}

static enum insn_reason copy_call(const struct insn *insn, const ZydisDecodedInstruction *decoded, uint64_t copy_va, struct insn_copy *out)
{
    unsigned word = insn->mode == INSN_MODE_64 ? 8 : 4;
    begin_step(out, insn->va, 0);
    put_push_return(insn, out);
    begin_step(out, insn->va, word);
    if (insn->kind == INSN_CALL)
        return put_jmp(out, insn, decoded, copy_va, insn->target_va);
    if (decoded->attributes & ZYDIS_ATTRIB_HAS_BND)
        put_byte(out, PREFIX_BND);
    return put_group5(insn, decoded, 4, copy_va, out);
}

static enum insn_reason copy_call_memory(const struct insn *insn, const ZydisDecodedInstruction *decoded, uint64_t copy_va,
                                         struct insn_copy *out)
{
    begin_step(out, insn->va, 0);
    enum insn_reason reason = put_group5(insn, decoded, 6, copy_va, out);
    if (reason != INSN_OK)
        return reason;

    if (insn->mode == INSN_MODE_32) {
        begin_step(out, insn->va, 4);
        put_bytes(out, (const uint8_t[]){0xff, 0x34, 0x24}, 3);
        begin_step(out, insn->va, 8);
        put_bytes(out, (const uint8_t[]){0xc7, 0x44, 0x24, 0x04}, 4);
        put_u32(out, next_va(insn));
        begin_step(out, insn->va, 8);
        put_byte(out, 0xc3);
        return INSN_OK;
    }
    begin_step(out, insn->va, 8);
    put_bytes(out, (const uint8_t[]){0x8f, 0x44, 0x24, 0xf0}, 4);
    begin_step(out, insn->va, 0);
    put_push_return(insn, out);
    begin_step(out, insn->va, 8);
    if (decoded->attributes & ZYDIS_ATTRIB_HAS_BND)
        put_byte(out, PREFIX_BND);
    if (decoded->attributes & ZYDIS_ATTRIB_HAS_NOTRACK)
        put_byte(out, PREFIX_NOTRACK);
    put_bytes(out, (const uint8_t[]){0xff, 0x64, 0x24, 0xf8}, 4);
    return INSN_OK;
}

/* ==== syscalls ==== */

/* The kernel restarts a syscall by pc -= 2, so prefixes are left out: the restarted thread then stands at the first step. */
static enum insn_reason copy_syscall(const struct insn *insn, const ZydisDecodedInstruction *decoded, struct insn_copy *out)
{
    uint64_t next = next_va(insn);
    begin_step(out, insn->va, 0);
    if (decoded->mnemonic != ZYDIS_MNEMONIC_SYSCALL) {
        put_bytes(out, (const uint8_t[]){0xcd, 0x80}, 2);
        return INSN_OK;
    }
    put_bytes(out, (const uint8_t[]){0x0f, 0x05}, 2);
    begin_step(out, next, 0);
    if (next <= UINT32_MAX) {
        put_byte(out, 0xb9);
        put_u32(out, next);
    } else {
        put_bytes(out, (const uint8_t[]){0x48, 0xb9}, 2);
        put_u32(out, next);
        put_u32(out, next >> 32);
    }
    return INSN_OK;
}

/* ==== entry points ==== */

/* Checks what both entry points need; a struct insn that was not made by insn_decode() is refused, not trusted. */
static enum insn_reason prepare(const struct insn *insn, ZydisDecodedInstruction *decoded, struct insn_copy *out)
{
    if (insn->refusal != INSN_OK)
        return insn->refusal;
    if (insn->length > sizeof insn->bytes || ZYAN_FAILED(x86_decode(insn->mode, insn->bytes, insn->length, decoded)))
        return INSN_UNDECODABLE;
    memset(out, 0, sizeof *out);
    out->falls_through = true;
    return INSN_OK;
}

enum insn_reason insn_relocate(const struct insn *insn, uint64_t copy_va, struct insn_copy *out)
{
    ZydisDecodedInstruction decoded;
    enum insn_reason reason = prepare(insn, &decoded, out);
    if (reason != INSN_OK)
        return reason;

    switch ((enum insn_kind)insn->kind) {
    case INSN_JMP:
        out->falls_through = false;
        begin_step(out, insn->va, 0);
        return put_jmp(out, insn, &decoded, copy_va, insn->target_va);
    case INSN_JCC:
    case INSN_LOOP:
        return copy_branch(insn, &decoded, copy_va, insn->target_va, out);
    case INSN_CALL:
        out->falls_through = false;
        return copy_call(insn, &decoded, copy_va, out);
    case INSN_CALL_INDIRECT:
        out->falls_through = false;
        return decoded.raw.modrm.mod == 3 ? copy_call(insn, &decoded, copy_va, out) : copy_call_memory(insn, &decoded, copy_va, out);
    case INSN_SYSCALL:
        return copy_syscall(insn, &decoded, out);
    case INSN_JMP_INDIRECT:
    case INSN_RET:
        out->falls_through = false;
        return copy_plain(insn, &decoded, copy_va, out);
    /* A signal handler may step over ud2, hlt or int3, so their copies have an end too. */
    case INSN_STOP:
    case INSN_PLAIN:
    case INSN_NOP:
        return copy_plain(insn, &decoded, copy_va, out);
    }
    return INSN_UNDECODABLE;
}

enum insn_reason insn_relocate_taken(const struct insn *insn, uint64_t copy_va, uint64_t taken_va, struct insn_copy *out)
{
    ZydisDecodedInstruction decoded;
    enum insn_reason reason = prepare(insn, &decoded, out);
    if (reason != INSN_OK)
        return reason;
    if (insn->kind != INSN_JCC && insn->kind != INSN_LOOP)
        return INSN_UNDECODABLE;
    return copy_branch(insn, &decoded, copy_va, taken_va, out);
}
