/* Bytes of x86 instructions: Intel SDM volume 2, chapter 2. What an instruction is stands with whoever emits it. */
#ifndef JIT_EMIT_H
#define JIT_EMIT_H

#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>

/* General registers as instructions number them. */
enum emit_register { AX, CX, DX, BX, SP, BP, SI, DI, R8, R9, R10, R11, R12, R13, R14, R15 };

/* Condition codes; the lowest bit turns one round. */
enum emit_condition { IF_BELOW = 2, IF_ZERO = 4, IF_ABOVE = 7, IF_SIGN = 8, IF_LESS = 12, IF_GREATER = 15, IF_NOT = 1 };

struct emit {
    VEC(uint8_t) code;
    bool wide; /* 64-bit mode */
};

/* An operand in memory: base + index * scale + displacement. */
struct emit_memory {
    int base;  /* -1: none, an absolute address (32-bit mode only) */
    int index; /* -1: none */
    int scale; /* 1, 2, 4 or 8 */
    int32_t displacement;
};

void emit_bytes(struct emit *emit, const void *bytes, size_t count);
void emit_u32(struct emit *emit, uint32_t value);
void emit_u64(struct emit *emit, uint64_t value);
#define EMIT(emit, ...) emit_bytes(emit, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* `opcode`: its bytes, the first in the highest that is not zero (0x0faf); a prefix 0x66, 0xf0 or 0xf3 may stand before them. `w`: 64-bit
 * operand. `reg`: the register operand or the opcode's extension. */
void emit_rm(struct emit *emit, bool w, uint32_t opcode, int reg, const struct emit_memory *memory);
void emit_rr(struct emit *emit, bool w, uint32_t opcode, int reg, int rm);
/* mov $value,%reg, as short as it gets; flags stay. */
void emit_constant(struct emit *emit, int reg, uint64_t value);
/* jmp or jcc with a distance to be filled in. Returns where the distance is. */
size_t emit_jump(struct emit *emit);
size_t emit_jump_if(struct emit *emit, int condition);
/* The distance at `where` leads to `to`. */
void emit_patch(struct emit *emit, size_t where, size_t to);

#endif
