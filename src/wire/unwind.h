/* The unwind table of one ELF file: for every instruction, how the caller's registers are found. Made by symbol/unwind.c from .eh_frame and
 * .debug_frame, used by unwind/walk.c in the controller and in the agent.
 *
 *   struct wire_unwind              header
 *   uint32_t start[row_count]       first instruction of a row, bytes from text_va on; ascending. A row reaches up to the next
 *   uint16_t rule[row_count]        its rule; padded to 4 bytes
 *   struct wire_unwind_rule[rule_count]
 *
 * Gaps are rows of rule 0, which is WIRE_CFA_NONE. Fixed widths, no pointers: equal for both data models. Trusted nowhere: a walk is safe
 * with any table, and every read of the stack is checked. */
#ifndef WIRE_UNWIND_H
#define WIRE_UNWIND_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_UNWIND_MAGIC 0x31646e776e757270ull

enum wire_cfa {
    WIRE_CFA_NONE,     /* nothing is known here: the walk falls back to what unwind/walk.h says */
    WIRE_CFA_END,      /* the outermost frame: _start, clone */
    WIRE_CFA_REGISTER, /* register cfa_register + cfa_offset */
    WIRE_CFA_DEREF,    /* the word at register cfa_register + cfa_offset, plus cfa_extra */
    WIRE_CFA_PLT,      /* register cfa_register + cfa_offset, and a word more when the low 4 bits of the pc are at least cfa_extra: lazy
                          PLT stubs */
    WIRE_CFA_SIGNAL,   /* a signal frame: all registers, the pc among them, are in the struct sigcontext of the kernel at register
                          cfa_register + cfa_offset */
    WIRE_CFA_KINDS
};

/* Registers whose saved place a rule gives. Others that a caller keeps do not occur in rules that we use. */
enum wire_unwind_saved {
    WIRE_SAVED64_BX,
    WIRE_SAVED64_BP,
    WIRE_SAVED64_R12,
    WIRE_SAVED64_R13,
    WIRE_SAVED64_R14,
    WIRE_SAVED64_R15,
    WIRE_SAVED32_BX = 0,
    WIRE_SAVED32_BP,
    WIRE_SAVED32_SI,
    WIRE_SAVED32_DI,
    WIRE_SAVED_COUNT = 6
};
#define WIRE_SAVED_SAME INT16_MIN                    /* the register still has the caller's value */
#define WIRE_SAVED_LOST (int16_t)(INT16_MIN + 1)     /* nobody knows */
#define WIRE_SAVED_REGISTER (int16_t)(INT16_MIN + 2) /* + r: it is in register r */
#define WIRE_SAVED_PLACES (int16_t)(INT16_MIN + 64)  /* from here on: a place in memory */

#define WIRE_BASE_CFA 0xff /* as base_register */

struct wire_unwind_rule {
    uint8_t cfa;                     /* enum wire_cfa */
    uint8_t cfa_register;            /* enum wire_reg of the width */
    int16_t return_offset;           /* of the return address from the CFA, in bytes, usually minus a word; or WIRE_SAVED_REGISTER + r */
    int32_t cfa_offset;              /* bytes */
    int16_t cfa_extra;               /* bytes */
    uint8_t base_register;           /* what saved[] counts from: a register, or WIRE_BASE_CFA. Frames that align their stack */
    uint8_t unused;                  /* 0 */
    int16_t saved[WIRE_SAVED_COUNT]; /* bytes from the base, or one of the above */
};

struct wire_unwind {
    uint64_t magic;
    uint64_t text_va; /* of the file, before any bias */
    uint32_t bytes;   /* all of it */
    uint32_t width;   /* 32 or 64 */
    uint32_t row_count, rule_count;
};

_Static_assert(sizeof(struct wire_unwind) == 32 && sizeof(struct wire_unwind_rule) == 24, "layout");

/* What a process has mapped, for whoever walks stacks inside it: in the memory that it shares with its controller.
 *
 *   struct wire_spaces, then lists, each
 *   struct wire_space, then struct unwind_module[count] (unwind/walk.h), ascending
 *
 * A list is written where nobody can be reading, and then made the current one; it never changes. Tables stay mapped as long as the agent.
 */
enum { WIRE_SPACES_BYTES = 16 << 20 };
struct wire_spaces {
    uint32_t current; /* offset of the struct wire_space from this on; 0: none yet */
    uint32_t unused[3];
};
struct wire_space {
    uint32_t count;
    uint32_t image; /* grows when something else is mapped where another module was: addresses mean something else from then on */
    uint64_t unused;
};
_Static_assert(sizeof(struct wire_spaces) == 16 && sizeof(struct wire_space) == 16, "layout");

#endif
