/* What the files of the 64-bit code share. */
#ifndef JIT_X86_64_H
#define JIT_X86_64_H

#include "jit/internal.h"

#define FIRE(field) ((int32_t)offsetof(struct wire_fire, field))

/* ---- x86_64.c ---- */

/* The general register is changed. */
void jit64_use(struct jit *jit, int reg);
struct emit_memory jit64_at_sp(int32_t offset);
void jit64_op_sp(struct jit *jit, bool w, uint32_t opcode, int reg, int32_t offset);
void jit64_op_at(struct jit *jit, bool w, uint32_t opcode, int reg, int base, int index, int scale, int32_t offset);
void jit64_load(struct jit *jit, int reg, uint32_t virtual_reg);
/* The operation's a into rax. */
void jit64_load_first(struct jit *jit, const struct wire_insn *insn);
/* rax is the operation's result. */
void jit64_result(struct jit *jit, const struct wire_insn *insn);
/* Bytes of the frame; rcx leads to one that is in the pool. */
struct emit_memory jit64_in_frame(struct jit *jit, int64_t offset);
/* The condition's jump, as JZ, JNZ or ENDZ say. */
void jit64_jump_if(struct jit *jit, int condition, const struct wire_insn *jump);
/* The processor's number, and what the kernel keeps above its 12 bits, into the register. */
void jit64_processor(struct jit *jit, int reg);

void jit64_push(struct jit *jit, int reg);
void jit64_pop(struct jit *jit, int reg);
/* lea bytes(%rsp),%rsp: keeps the flags. */
void jit64_move_sp(struct jit *jit, int32_t bytes);

/* ---- x86_64_own.c ---- */

/* The prologue up to where the flags are saved, and the epilogue from where they are back, with all registers but rax and rcx. */
void jit64_enter_own(struct jit *jit);
void jit64_leave_own(struct jit *jit);
/* rax = the program's stack pointer at the place; `above`: so many bytes were pushed. */
void jit64_program_sp(struct jit *jit, int32_t above);
/* rax = the word of its stack there. */
void jit64_load_program_stack(struct jit *jit, int32_t offset);

/* ---- x86_64_number.c ---- */

bool jit64_number_op(struct jit *jit, const struct wire_insn *insn);
void jit64_compare_and_jump(struct jit *jit, const struct wire_insn *insn, const struct wire_insn *jump);
/* rax by a constant: c1 /extension. */
void jit64_shift(struct jit *jit, int extension, uint32_t count);

/* ---- x86_64_data.c ---- */

bool jit64_frame_op(struct jit *jit, const struct wire_insn *insn);

/* ---- x86_64_ring.c ---- */

bool jit64_ring_op(struct jit *jit, const struct wire_insn *insn);

#endif
