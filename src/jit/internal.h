/* What jit.c and the two architectures share.
 *
 * A body, in the order of its addresses: prologue, the clause's instructions, epilogue; then what is seldom run: calls out of the way
 * (cold), errors, the subroutine that calls the agent; then the stream's instructions that it is called with.
 *
 * On the stack, upwards from the stack pointer: struct wire_fire up to the last virtual register in use, or in a body that can call nothing
 * just those in use; nodes of maps that are used again; the clause's frame, when it is small; the saved flags; the saved registers; the
 * return address; the place's number. On a stack of ours (x86_64_own.c, i386_own.c) the last two are copies, and the owner follows.
 *
 * The clause is emitted twice. The first time finds out which registers it uses and what it calls, the second time knows. */
#ifndef JIT_INTERNAL_H
#define JIT_INTERNAL_H

#include "jit/emit.h"
#include "jit/jit.h"

/* Memory so far ahead of a record is asked for: the controller has it in its cache, from where it would have to be waited for at the next
 * locked instruction. */
enum { JIT_FETCH_BYTES = 512 };
enum { JIT_STACK_FRAME_MAX = 128, JIT_INLINE_BYTES = 64, JIT_NODES_MAX = 4 };

/* Where a jump leads that could not yet be filled in. */
struct jit_fixup {
    size_t where;
    uint32_t to; /* instruction of the clause */
};

/* Code out of the way. */
struct jit_cold {
    size_t from;    /* the jump to it */
    size_t back;    /* where it goes on, after a call */
    uint32_t insn;  /* number in the clause */
    uint32_t error; /* 0: call eval_op() */
    bool has_value; /* the error's value is in the accumulator */
};

/* A reference from code to one of the instructions behind it. */
struct jit_reference {
    size_t where;
    uint32_t number;
};

/* What an instruction does with the node of its key. */
struct jit_node {
    uint8_t slot;  /* where it is kept, from 1; 0: it is not. The slot is 0 when the node was not found */
    bool is_found; /* an instruction before has put it there */
    bool is_own;   /* the key is the thread's id */
    uint32_t last; /* of one that finds it: the last that uses it; 0: none */
};

struct jit_arch;

struct jit {
    const struct jit_arch *arch;
    /* what is compiled */
    const struct wire_stream *stream;
    const struct jit_process *process;
    const struct wire_insn *insns;
    uint32_t count, clause, frame_bytes;
    enum wire_model model;
    uint64_t va;
    /* found out before */
    uint8_t *is_target;
    uint8_t *is_repeated;  /* by instruction: it puts into the frame what is there already */
    struct jit_node *node; /* by instruction */
    uint32_t node_slots;
    const uint8_t *is_added_to; /* jit_find_added_to() */
    uint16_t *live;             /* by instruction: virtual registers that are read behind it before they are written */
    uint32_t regs;              /* virtual registers in use */
    bool loops, speculates;
    /* found out the first time */
    bool hot_calls, cold_calls, whole_flags; /* calls on every run, seldom; the flags register is asked for */
    uint32_t used;                           /* general registers, by enum emit_register */
    /* how the stack lies */
    bool calls;           /* there is a whole struct wire_fire */
    uint32_t saved;       /* general registers that the prologue pushes */
    int32_t node_offset;  /* of the first node's slot */
    int32_t frame_offset; /* of the clause's frame from the stack pointer; -1: it is in the pool */
    int32_t flags_offset; /* of the whole flags, when someone asks for them */
    int32_t saved_offset; /* of the register that was pushed last */
    int32_t place_offset; /* of the place's number */
    int32_t sp_offset;    /* of the program's stack pointer */
    int32_t locals_bytes; /* what the prologue takes below the flags */
    int32_t slot_offset[WIRE_REGS];
    /* as it is emitted */
    struct emit emit;
    uint32_t at; /* the instruction in work */
    enum jit_holds holds;
    uint32_t kept_until; /* the last instruction that uses a node which was found already */
    int cached;          /* the virtual register that the accumulator holds, or -1 */
    size_t *position;    /* of each instruction */
    VEC(struct jit_fixup) fixup;
    VEC(size_t) exits;  /* jumps to the epilogue */
    VEC(size_t) outs;   /* calls of the subroutine that calls eval_op() */
    VEC(size_t) errors; /* jumps to what ends the clause with an error */
    size_t no_frame;    /* the jump when the pool has none */
    size_t no_stack;    /* the jump when no stack of ours is free */
    size_t exit_position;
    VEC(struct jit_cold) cold;
    VEC(struct wire_insn) constant;
    VEC(struct jit_depth) depth;
    VEC(struct jit_reference) reference;
};

/* ---- jit.c ---- */

/* The result of the instruction in work is read by another one. */
bool jit_uses_result(const struct jit *jit);
/* It must be put into its slot: it is read later than by the next one from the accumulator. */
bool jit_must_store(const struct jit *jit);
const struct wire_map *jit_map(const struct jit *jit, uint32_t map);
bool jit_has_rdpid(void);
/* The record that EMIT writes is written in place. */
bool jit_emits_inline(const struct jit *jit, const struct wire_insn *insn);
/* At most 8 bytes of data at `offset`. */
uint64_t jit_data(const struct jit *jit, uint32_t offset, uint32_t bytes);
/* Where the prologue put the general register. */
int32_t jit_saved_offset(const struct jit *jit, int reg);
/* The jump whose distance is at `where` leads to an instruction of the clause. */
void jit_lead_to(struct jit *jit, size_t where, uint32_t to);
/* It leads to code out of the way that calls eval_op() and comes back behind the instruction in work, or that ends the clause. */
void jit_lead_to_call(struct jit *jit, size_t where);
void jit_lead_to_error(struct jit *jit, size_t where, uint32_t error, bool has_value);
/* From here on the return address lies so far above the stack pointer. */
void jit_note_depth(struct jit *jit, int32_t bytes);
/* From here on the body holds that, until this is called again. */
void jit_note_holds(struct jit *jit, enum jit_holds holds);
/* ... as it does between prologue and epilogue. */
int32_t jit_depth(const struct jit *jit);
/* The body runs on a stack of ours. */
bool jit_is_own(const struct jit *jit);
/* From the stack pointer up to the word that says whose the stack is: there lies the program's, as it was when the body changed to ours. */
int32_t jit_owner_offset(const struct jit *jit);
/* Where what was not done for want of a frame or a stack is counted. */
uint64_t jit_lost_frames_va(const struct jit *jit);
/* The reference at `where` is to the instruction, which is put among the constants. */
void jit_refer(struct jit *jit, size_t where, const struct wire_insn *insn);

/* ---- reuse.c ---- */

/* Fills in is_repeated, node and node_slots. */
void jit_find_repeated(struct jit *jit);

/* ---- map.c ---- */

/* The operation finds the node of a key of 8 bytes in place. */
bool jit_finds_node(const struct jit *jit, const struct wire_insn *insn);
/* False: it is no operation on a map that is done in place. */
bool jit_map_op(struct jit *jit, const struct wire_insn *insn);

/* ---- what an architecture gives ---- */

/* The code of operations on maps; get is also MHAS's. */
typedef void jit_map_code(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map);
struct jit_map_arch {
    jit_map_code *aggregate, *set, *add, *delete_key, *get;
    bool has_lhist;
};
extern const struct jit_map_arch jit_map_x86_64, jit_map_i386;

struct jit_arch {
    uint32_t caller_saved;  /* general registers that a call of the agent may change */
    uint32_t word_bytes;    /* of a pushed register */
    uint32_t skipped_bytes; /* from the program's stack pointer down to the place's number */
    uint8_t numbers[16];    /* enum wire_reg by general register */
    void (*prologue)(struct jit *jit);
    /* False: it has no code for it, and nothing has been emitted. */
    bool (*op)(struct jit *jit, const struct wire_insn *insn);
    const struct jit_map_arch *map;
    /* Calls eval_op(). `number`: of the clause's instruction, in error records. */
    void (*call_op)(struct jit *jit, const struct wire_insn *insn, uint32_t number);
    /* The comparison and the jump by it. */
    void (*compare_and_jump)(struct jit *jit, const struct wire_insn *insn, const struct wire_insn *jump);
    void (*epilogue)(struct jit *jit);
    void (*cold)(struct jit *jit, const struct jit_cold *cold);
    void (*subroutines)(struct jit *jit);
    void (*refer)(struct jit *jit, size_t where, size_t to);
    /* The operation takes a from the accumulator before it changes that, never from its slot. */
    bool (*takes_first)(uint32_t op);
};
extern const struct jit_arch jit_x86_64, jit_i386;

#endif
