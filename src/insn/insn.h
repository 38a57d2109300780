/* Instructions: bytes + mode + address in; a decoded value, or relocated bytes, or a named refusal out.
 *
 * Invariants
 *  1. Pure: no malloc, no syscall, no global that changes. Every buffer is the caller's.
 *  2. A relocated copy run at `copy_va` leaves registers, flags and memory as the original would at its own address, and goes on where the
 *     original would go on. What the program can see of its pc (return addresses, RIP-relative addresses) is the original's.
 *  3. A copy uses no register, no stack below the 128-byte red zone, and no memory that the original does not use.
 *  4. Every instruction boundary inside a copy is in its step list, so that a thread found there can be put back.
 *
 * Where a copy can be told from the original
 *  a. The x87 instruction pointer (FIP in fnstenv, fnsave, fxsave, xsave images) is the address of the copy. So are the pc in a signal
 *     frame and si_addr or si_call_addr, until they are mapped through the step list (agent/signal.c).
 *  b. Between `syscall` and the instruction after it in the copy, rcx holds an address in the copy.
 *  c. A call through memory writes one word below the return address, which the callee may use anyway. If its operand overlaps that word
 *     or the return address, the copy calls the right place, but a thread put back in its midst does not.
 *  d. A call in a copy does not push onto a CET shadow stack.
 */
#ifndef INSN_INSN_H
#define INSN_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum insn_mode { INSN_MODE_32 = 32, INSN_MODE_64 = 64 };

/* Why an instruction or a place is refused; text by insn_reason_text(), JSON name by insn_reason_name(). */
enum insn_reason {
#define REASON(name, json, text) INSN_##name,
#include "insn/reasons.def"
#undef REASON
    INSN_REASON_COUNT
};
const char *insn_reason_name(enum insn_reason reason);
const char *insn_reason_text(enum insn_reason reason);

enum insn_kind {
    INSN_PLAIN,         /* falls through to the next instruction */
    INSN_JMP,           /* direct jump */
    INSN_JMP_INDIRECT,  /* jump through a register or memory */
    INSN_JCC,           /* conditional jump */
    INSN_LOOP,          /* loop, loope, loopne, jcxz, jecxz, jrcxz */
    INSN_CALL,          /* direct call */
    INSN_CALL_INDIRECT, /* call through a register or memory */
    INSN_RET,           /* ret, ret imm16 (near) */
    INSN_SYSCALL,       /* syscall, int 0x80, sysenter: may block, may be restarted by pc -= 2 */
    INSN_STOP,          /* never falls through and never jumps: ud2, hlt, int3 */
    INSN_NOP,           /* any length of nop: alignment padding when nothing falls into it */
};

enum insn_flag {
    INSN_PC_RELATIVE = 1, /* has a RIP-relative memory operand; its address is in `memory_va` */
};

struct insn {
    uint64_t va;        /* address of the first byte */
    uint64_t target_va; /* JMP, JCC, LOOP, CALL: where it goes; else 0 */
    uint64_t memory_va; /* with INSN_PC_RELATIVE: the address of the operand */
    uint8_t length;     /* bytes, 1 to 15 */
    uint8_t kind;       /* enum insn_kind */
    uint8_t flags;      /* enum insn_flag bits */
    uint8_t mode;       /* enum insn_mode */
    uint8_t refusal;    /* enum insn_reason: INSN_OK, or why insn_relocate() will refuse it wherever the copy lies */
    uint8_t bytes[15];  /* the instruction itself */
};

/* Decodes one instruction from at most `available` bytes. INSN_OK, INSN_UNDECODABLE or INSN_TRUNCATED. */
enum insn_reason insn_decode(enum insn_mode mode, const uint8_t *bytes, size_t available, uint64_t va, struct insn *out);

/* Whether it writes the register that holds results and the numbers of system calls, or a part of it. */
bool insn_writes_ax(const struct insn *insn);

enum { INSN_COPY_MAX_BYTES = 48, INSN_COPY_MAX_STEPS = 6 };

/* A boundary in a copy. A thread whose pc stands at copy + offset is equivalent to one at `pc_va` in the original code whose stack
 * pointer is `sp_undo` bytes higher. The first step is always {0, original va, 0}. */
struct insn_step {
    uint64_t pc_va;
    uint8_t offset;
    uint8_t sp_undo;
};

struct insn_copy {
    uint8_t length;     /* bytes of the copy */
    uint8_t step_count; /* boundaries inside the copy, in order of offset */
    bool falls_through; /* control can reach the end of the copy, which then stands for the next original instruction */
    struct insn_step step[INSN_COPY_MAX_STEPS];
    uint8_t bytes[INSN_COPY_MAX_BYTES];
};

/* Makes the copy of `insn` that will run at `copy_va`. INSN_OK or the reason why it can not be made; `out` is then undefined.
 * Calls become a push of the original return address and a jump. Branch targets and RIP-relative operands must be within reach of a
 * 32-bit displacement of `copy_va` (64-bit mode), else INSN_OUT_OF_REACH. */
enum insn_reason insn_relocate(const struct insn *insn, uint64_t copy_va, struct insn_copy *out);

/* Makes the copy of a conditional branch (JCC or LOOP) in which the taken side goes to `taken_va` (within reach) instead of its target;
 * the other side falls through. Used to fire a probe only when a conditional tail jump is taken. */
enum insn_reason insn_relocate_taken(const struct insn *insn, uint64_t copy_va, uint64_t taken_va, struct insn_copy *out);

/* Raw searches over text, which need no instruction boundaries: every position is tried, so what is found is a superset of what the
 * code really refers to. `found` is called with where each would be and what it leads to.
 * insn_scan_branches: targets of rel32 jmp and jcc (E9, 0F 8x) anywhere in the bytes.
 * insn_scan_short_branches: targets of rel8 branches (70-7F, E0-E3, EB).
 * insn_scan_lea: addresses formed by RIP-relative lea; in 32-bit mode by a call and an addition to the return address it leaves in a
 * register (call thunk; add $imm32,%reg). */
typedef void insn_found_fn(void *context, uint64_t from_va, uint64_t target_va);
void insn_scan_branches(const uint8_t *bytes, size_t size, uint64_t va, enum insn_mode mode, insn_found_fn *found, void *context);
void insn_scan_short_branches(const uint8_t *bytes, size_t size, uint64_t va, enum insn_mode mode, insn_found_fn *found, void *context);
void insn_scan_lea(const uint8_t *bytes, size_t size, uint64_t va, enum insn_mode mode, insn_found_fn *found, void *context);

#endif
