/* The differential test of insn_relocate(): one instruction is run at its own address and as a copy, from the same state, and the two
 * states afterwards are compared.
 *
 *   state_case.c   a number -> a case: bytes, registers, memory (pure; the same for the same seed, number and processor)
 *   state_run.c    a case -> a result: enters the code, in 64- or 32-bit mode, and comes back by a stub or a signal
 *   state_equal.c  two results -> equal or not; options, classes, report
 *
 * Rules
 *  1. The code under test can reach only the arena: its address is far from the test's own memory (64-bit mode) or below 4 GB, where
 *     nothing else is mapped (32-bit mode). Code pages are not writable at the address where they run.
 *  2. Control leaves the code by a stub at a known address, which stores where it stands and then all registers, or by a signal.
 *  3. 32-bit code runs in the same 64-bit process through the code segment 0x23: Zydis need not exist for i386, and a stray
 *     store can not reach the test.
 */
#ifndef TEST_INSN_STATE_H
#define TEST_INSN_STATE_H

#include "insn/insn.h"

#include <Zydis/Zydis.h>

enum {
    STATE_DATA_BYTES = 8192,
    STATE_STACK_BYTES = 8192,
    STATE_MEMORY_BYTES = STATE_DATA_BYTES + STATE_STACK_BYTES,
    STATE_FAR_STUBS = 16,
    STATE_NATIVE_PAGES = 2,
    STATE_COPY_PAGES = 4,
    STATE_XSAVE_BYTES = 4096, /* x87, SSE, AVX, AVX-512 in the standard format take 2696 */
    STATE_NEAR_BEFORE = 0x60, /* a stub this far before the instruction, for rel8 */
    STATE_NEAR_AFTER = 0x40,  /* and after */
};

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };

/* Addresses in the code's view; `*_rw` is the test's own writable view of the same pages. */
struct state_arena {
    uint64_t data_va;
    uint64_t stack_va;
    uint64_t far_va; /* the page of stubs that rel32 and indirect branches go to */
    uint64_t native_va[STATE_NATIVE_PAGES];
    uint64_t copy_va[STATE_COPY_PAGES];
    uint8_t *far_rw;
    uint8_t *native_rw[STATE_NATIVE_PAGES];
    uint8_t *copy_rw[STATE_COPY_PAGES];
};

struct state_case {
    const struct state_arena *arena;
    unsigned native_page, copy_page;
    uint64_t copy_va; /* in copy_page */
    struct insn insn; /* at its native address */
    struct insn_copy copy;
    enum insn_reason refusal; /* of insn_relocate(); else INSN_OK */
    ZydisDecodedInstruction decoded;
    uint64_t gpr[16]; /* in the order of their encoding */
    uint64_t flags;
    uint64_t operand_va;                /* of the first memory operand, else 0 */
    const uint8_t *xsave;               /* what the vector and x87 registers start from */
    uint8_t memory[STATE_MEMORY_BYTES]; /* data, then stack */
};

struct state_result {
    int signo; /* 0: a stub was reached */
    int code;
    uint64_t address; /* si_addr */
    uint64_t trap, error, cr2;
    uint64_t pc; /* of the stub, or at the signal */
    uint64_t gpr[16];
    uint64_t flags;
    uint8_t xsave[STATE_XSAVE_BYTES] __attribute__((aligned(64)));
    uint8_t memory[STATE_MEMORY_BYTES];
};

/* state_run.c. Everything here ends the program with a message when the system refuses what the test needs. */
void state_run_init(enum insn_mode mode);
unsigned state_run_arena_count(void);
const struct state_arena *state_run_arena(unsigned index);
uint64_t state_run_xfeatures(void); /* the components of XSAVE that are compared */
/* The offset of component `index` (2 or more) in an XSAVE area, and its size, 0 if it is not there. */
unsigned state_run_component(unsigned index, unsigned *bytes);
void state_run_place(const struct state_case *c); /* writes the code of a case */
/* Runs from the registers and memory of the case, but from `pc`. */
void state_run_at(const struct state_case *c, uint64_t pc, struct state_result *out);
/* Called from a signal handler when one case takes seconds; ends the program. */
extern void (*state_run_hung)(void);

/* state_case.c */
void state_case_init(enum insn_mode mode, uint64_t seed);
/* Makes case `number`. */
void state_case_make(uint64_t number, struct state_case *out);
void state_case_print_exclusions(void);
/* Of the instructions that were generated, how many were put aside by the table of exclusions. */
uint64_t state_case_excluded(void);

#endif
