/* Windows: which bytes of a function are replaced so that given instructions are noticed.
 *
 * A window is a run of whole instructions that are executed in a copy, with firing code before each probed one. Control enters it at its
 * first byte only. In order of preference: a 5-byte jmp over instructions; a jmp that also uses alignment padding; a jmp to an island,
 * which jumps on; a trap. An island is either in padding nearby, reached by a 2-byte jmp, or where a 5-byte jmp leads whose last bytes are
 * those of the instruction that follows, which stay as they are: then only part of the address can be chosen. Pure: file addresses only, no
 * process.
 *
 * All bytes that a window is made of (those of its jump, whoever they belong to, and its island in padding) lie in one page: a page is
 * written at once or not at all, several are not. */
#ifndef LOAD_WINDOW_H
#define LOAD_WINDOW_H

#include "base/memory.h"
#include "load/code.h"

/* In the order of preference; names by load_kind_name(). */
enum load_kind { LOAD_JMP, LOAD_PADDING, LOAD_ISLAND, LOAD_TRAP, LOAD_REFUSED };
const char *load_kind_name(enum load_kind kind);

struct load_window {
    uint64_t va;        /* first byte */
    uint64_t end_va;    /* the instruction after the displaced ones */
    uint64_t island_va; /* LOAD_ISLAND: the 5 bytes of padding, or 0 and then: */
    uint64_t far_va;    /* ... the island is to be at one of far_span addresses from here on */
    uint32_t far_span;
    uint32_t first; /* index of the first displaced instruction in the flow */
    uint32_t count; /* displaced instructions, without padding */
    uint8_t kind;   /* enum load_kind, never LOAD_REFUSED */
    uint8_t length; /* bytes replaced at `va`: 5, 2 or 1, with far_span 1 to 4 */
};

/* One instruction that is to be noticed, and what became of it. */
struct load_wish {
    uint64_t va;
    bool taken;      /* a conditional branch: only when it is taken */
    bool no_trap;    /* it is refused rather than be a trap, unless another wish makes its place one */
    uint8_t kind;    /* out: enum load_kind */
    uint8_t reason;  /* out: enum insn_reason when LOAD_REFUSED */
    uint32_t window; /* out: index of its window unless LOAD_REFUSED */
};

typedef VEC(struct load_window) load_windows;

/* Bytes of padding that are in use. One bit a byte of each executable segment. */
struct load_claims {
    uint8_t **bits;
    size_t count;
};
void load_claims_init(struct load_claims *claims, const struct load_code *code);
void load_claims_deinit(struct load_claims *claims);
void load_claims_set(struct load_claims *claims, const struct load_code *code, uint64_t va, size_t size, bool on);

/* Plans one function. The wishes are sorted by va and end up each in a window or refused. Claims the padding used; load_windows_release()
 * gives it back. Places that need an island are left to be traps until load_windows_add_islands(), so that a caller with many functions
 * gives direct use of padding the first choice; that one also refuses what would stay a trap and may not. */
void load_windows_plan(const struct load_code *code, const struct load_flow *flow, struct load_claims *claims, struct load_wish *wish,
                       size_t wish_count, load_windows *out);
/* `far` says whether an island could be at one of `span` addresses from `va` (a file address) on. */
typedef bool load_far_fn(void *context, uint64_t va, uint32_t span);
void load_windows_add_islands(const struct load_code *code, const struct load_flow *flow, struct load_claims *claims,
                              struct load_wish *wish, size_t wish_count, load_windows *windows, load_far_fn *far, void *context);
/* The answer of load_far_fn when there is no process: whether the addresses exist at all. `context` is the struct load_code. */
bool load_far_without_process(void *context, uint64_t va, uint32_t span);
void load_windows_release(const struct load_code *code, struct load_claims *claims, const struct load_window *window, size_t count);

#endif
