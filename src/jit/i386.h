/* What the files of the 32-bit code share. */
#ifndef JIT_I386_H
#define JIT_I386_H

#include "jit/internal.h"

#define FIRE(field) ((int32_t)offsetof(struct wire_fire, field))

/* ---- i386.c ---- */

struct emit_memory jit32_at_sp(int32_t offset);
void jit32_op_sp(struct jit *jit, uint32_t opcode, int reg, int32_t offset);
void jit32_op_rr(struct jit *jit, uint32_t opcode, int reg, int rm);
/* At an absolute address, and an index. */
void jit32_op_va(struct jit *jit, uint32_t opcode, int reg, uint64_t va, int index, int scale);
/* 81 /extension with a constant. */
void jit32_op_constant(struct jit *jit, int extension, int reg, uint32_t value);
void jit32_load_pair(struct jit *jit, uint32_t virtual_reg);
void jit32_constant_pair(struct jit *jit, uint64_t value);
/* The operation's a into edx:eax. */
void jit32_load_first(struct jit *jit, const struct wire_insn *insn);
/* edx:eax is the operation's result; eax is. */
void jit32_result(struct jit *jit, const struct wire_insn *insn);
void jit32_word_result(struct jit *jit, const struct wire_insn *insn);
/* Bytes of the frame; ecx leads to one that is in the pool. */
struct emit_memory jit32_in_frame(struct jit *jit, int64_t offset);
/* Of 8 bytes, the upper word. */
struct emit_memory jit32_high_of(struct emit_memory memory);
/* The condition's jump, as JZ, JNZ or ENDZ say. */
void jit32_jump_if(struct jit *jit, int condition, const struct wire_insn *jump);
/* The processor's number, and what the kernel keeps above its 12 bits, into the register. */
void jit32_processor(struct jit *jit, int reg);

/* lea bytes(%esp),%esp: keeps the flags. */
void jit32_move_sp(struct jit *jit, int32_t bytes);

/* ---- i386_own.c ---- */

/* The prologue up to where the flags are saved, and the epilogue from where they are back, with all registers but eax and ecx. */
void jit32_enter_own(struct jit *jit);
void jit32_leave_own(struct jit *jit);
/* eax = the program's stack pointer at the place; `above`: so many bytes were pushed. */
void jit32_program_sp(struct jit *jit, int32_t above);
/* eax = the word of its stack there. */
void jit32_load_program_stack(struct jit *jit, int32_t offset);

/* ---- i386_number.c ---- */

bool jit32_number_op(struct jit *jit, const struct wire_insn *insn);
void jit32_compare_and_jump(struct jit *jit, const struct wire_insn *insn, const struct wire_insn *jump);
enum jit32_shift { LEFT, RIGHT, RIGHT_SIGNED };
/* edx:eax by a constant. */
void jit32_shift(struct jit *jit, enum jit32_shift kind, uint32_t count);

/* ---- i386_data.c ---- */

bool jit32_frame_op(struct jit *jit, const struct wire_insn *insn);

/* ---- i386_ring.c ---- */

bool jit32_ring_op(struct jit *jit, const struct wire_insn *insn);

#endif
