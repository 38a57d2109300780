/* Verified stream code → machine code of a traced process.
 *
 * In: a clause of a verified stream, a model, and the addresses that matter in the process. Out: a *body*: position-dependent code with its
 * constants, which the trampolines of all places of the clause call.
 *
 *   64-bit, at entry: 0(%rsp) return address, 8(%rsp) the place's number; the program's stack pointer is %rsp + 144 (the red zone was
 *   stepped over). 32-bit: 0(%esp) return address, 4(%esp) the place's number; the program's is %esp + 8.
 *
 * Invariants
 *  1. A body changes no register and no flag that the program can see: it saves and puts back what it uses, and says which that is. The
 *     direction flag is neither changed nor relied upon; vector and x87 registers are read (XMM, ST0), never written: doubles are computed
 *     in integers.
 *  2. It uses at most JIT_STACK_MAX bytes of the stack besides what it calls: larger frames come from the session's pool. One for stacks of
 *     ours takes 4 words of the program's, and with them a free stack; when there is none, that is counted (WIRE_LOSS_FRAME) and the body
 *     does nothing.
 *  3. Arithmetic, jumps, context, frame access, small records, and count, sum, hist and integers in maps without a key or with one of 8
 *     bytes are done in place (in 32-bit code without lhist); the rest calls eval_op() in the agent with the instruction, which lies among
 *     the body's constants. So whatever is not done in place is the same code as the interpreter's. A thread in a body may hold what it
 *     found in a map, over several operations; jit_depth.holds says where.
 *  4. What is not verified is not compiled. */
#ifndef JIT_JIT_H
#define JIT_JIT_H

#include "base/err.h"
#include "base/memory.h"
#include "wire/session.h"

#include <stdbool.h>

enum { JIT_STACK_MAX = 640 };

/* Stacks of ours in the process, for bodies that must not use much of the program's: one of 1 << JIT_OWN_SHIFT bytes behind the other. At
 * the upper end of each lies its owner: 0 while the stack is free, else the stack pointer with which a thread went on to it. */
struct jit_stacks {
    uint64_t va; /* of the first; 0: bodies run on the program's stack */
    uint32_t count;
    uint32_t first_mask; /* a thread looks for a free one from that of its processor's number, taken with this mask, on to the last */
};
enum { JIT_OWN_SHIFT = 16, JIT_OWNER_BELOW_END = 16 };
/* Where stack `number` has its owner. */
static inline uint64_t jit_owner_va(const struct jit_stacks *stacks, uint32_t number)
{
    return stacks->va + ((uint64_t)(number + 1) << JIT_OWN_SHIFT) - JIT_OWNER_BELOW_END;
}
/* From the owner up to the program's stack pointer at the place, which is also what such a body and its call need of the program's stack.
 */
enum { JIT_OWNER_TO_PROGRAM64 = 176, JIT_OWNER_TO_PROGRAM32 = 24 };

/* Addresses and facts of the process. */
struct jit_process {
    uint64_t session_va;                /* struct wire_session */
    const struct wire_session *session; /* the same memory, here */
    uint64_t process_va;                /* struct wire_process */
    uint64_t op_va;                     /* uint32_t eval_op(struct wire_fire *, const struct wire_insn *) */
    uint64_t error_va;                  /* void (struct wire_fire *): writes the error record */
    uint64_t
        claim_va; /* uint64_t (struct wire_fire *): a frame of the pool; 0 when none is free, which it has counted: the body then ends */
    const uint8_t *added_to; /* jit_find_added_to() of the stream; NULL: each body that is compiled finds it out for itself */
    uint64_t release_va;     /* void (struct wire_fire *, uint64_t frame_va) */
    struct jit_stacks stacks;
};

/* From this instruction of a body on, up to the next entry, its return address lies so many bytes above the stack pointer; -1: that varies,
 * as the stack pointer is aligned for a call. */
struct jit_depth {
    uint32_t from;
    int32_t bytes;
    /* A record that is reserved and not committed yet; a node that was found in a map. */
    enum jit_holds { JIT_NOTHING, JIT_RECORD, JIT_NODE } holds;
};

struct jit_body {
    VEC(uint8_t) code;
    VEC(struct jit_depth) depth; /* in order */
    uint32_t clobbers;           /* bit n: machine register n (enum wire_reg) is saved and used */
    bool calls;                  /* it may call the agent */
};
void jit_body_deinit(struct jit_body *body);

/* By map: whether a clause of the stream, for either model, adds to its integers. The caller's, to be freed. */
uint8_t *jit_find_added_to(const struct wire_stream *stream);

/* Compiles a clause for the process, to lie at `va` (a multiple of 16). */
struct err *jit_compile(const struct wire_stream *stream, uint32_t clause, enum wire_model model, const struct jit_process *process,
                        uint64_t va, struct jit_body *out);

#endif
