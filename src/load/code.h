/* What is known about the code of one ELF file: its symbols, and every address that something may jump to. Made once per file and shared by
 * all processes that map it. */
#ifndef LOAD_CODE_H
#define LOAD_CODE_H

#include "base/err.h"
#include "base/memory.h"
#include "insn/insn.h"
#include "symbol/symbol.h"

struct load_range {
    uint64_t va, end_va;
};

/* An instruction at which the agent is called. */
struct load_hook {
    uint64_t func_va, func_size, va;
    uint8_t action; /* enum load_action */
};

struct load_code {
    struct symbol_file *file;
    enum insn_mode mode;
    size_t segment_count;
    struct load_segment {
        uint64_t va, size;
        const uint8_t *bytes;
        uint8_t *target_bits; /* one bit a byte: a pointer or a table leads here, or a function starts */
    } * segment;              /* the executable ones */
    struct load_branch {
        uint64_t target_va, from_va;
        uint8_t known; /* 0: not looked at; 1: an instruction of its function; 2: bytes that only look like a branch */
    } * branch;        /* what may be rel32 branches from one function to another, by target */
    size_t branch_count;
    VEC(struct load_range) sealed;       /* see load_code_seal() */
    VEC(struct load_range) sequence;     /* restartable ones, and their signatures, by address, disjoint */
    const struct symbol_func **fragment; /* parts split off functions, by parent, aliases left out */
    size_t fragment_count;
    struct wire_unwind *unwind; /* of stacks.c: NULL until it is asked for */
    int unwind_fd;              /* ... the same as a file, -1 until it is asked for */
    bool looked_for_unwind;
    bool has_small_stacks;      /* see symbol_file_has_small_stacks() */
    VEC(struct load_hook) hook; /* of signals.c: what every process that maps the file gets a probe at */
    bool knows_hooks;
    struct load_flow **flow; /* of flows.c: a hash table of those that are kept */
    size_t flow_count, flow_room;
    VEC(struct load_flow *) old_flow; /* that hold no more, but that functions with probes may refer to */
};

/* Takes the file over. */
struct load_code *load_code_create(struct symbol_file *file);
void load_code_destroy(struct load_code *code);

/* The parts that were split off the function at `va`. */
const struct symbol_func *const *load_code_fragments(const struct load_code *code, uint64_t va, size_t *count);
/* Whether a pointer, a table, a function's start or a rel32 branch from outside [low_va, high_va) leads to `va`. */
bool load_code_is_target(const struct load_code *code, uint64_t va, uint64_t low_va, uint64_t high_va);
/* The caller knows that the code of [va, end_va) is entered at its start only, whatever else it may look like. */
void load_code_seal(struct load_code *code, uint64_t va, uint64_t end_va);
/* Whether `va` lies inside such code, not at its start. */
bool load_code_is_sealed(const struct load_code *code, uint64_t va);
/* Whether [va, end_va) has a part of a restartable sequence or of its signature, or ends where one begins. A thread that is in a copy of
 * such an instruction is not in the sequence for the kernel, which then does not restart it. */
bool load_code_is_restartable(const struct load_code *code, uint64_t va, uint64_t end_va);
/* Whether an instruction of the function around `va` starts there, as far as one can tell. */
bool load_code_is_boundary(const struct load_code *code, uint64_t va);
/* Where the alignment padding that begins at `end_va`, the end of a function, ends itself; `end_va` when there is none. */
uint64_t load_code_padding_end(const struct load_code *code, uint64_t end_va);

/* The range that is planned as one: a function, and with it those shorter than a jump that touch it, because a jump over a short function
 * shares its last bytes with the next. */
void load_code_unit(const struct load_code *code, const struct symbol_func *func, uint64_t *va, uint64_t *size);

/* One such range, decoded. */
enum load_insn_mark {
    LOAD_MARK_TARGET = 1,  /* control may arrive here other than from the instruction before: only the start of a window may be here */
    LOAD_MARK_PADDING = 2, /* never executed: alignment after an instruction that does not fall through */
    LOAD_MARK_INSIDE = 4,  /* something jumps into the middle of the instruction: only its first byte may change */
};
struct load_flow {
    uint64_t va, end_va; /* the function */
    struct insn *insn;   /* in order of address, with the padding behind the function; gaps are bytes that no known path reaches */
    uint8_t *mark;       /* enum load_insn_mark bits of each */
    size_t count;
    bool has_gaps; /* data in code: only what is reached from known starts is in `insn` */
};
void load_flow_init(struct load_flow *flow, const struct load_code *code, uint64_t va, uint64_t size);
void load_flow_deinit(struct load_flow *flow);
/* Index of the instruction at `va`, or -1. */
long load_flow_find(const struct load_flow *flow, uint64_t va);

/* Decodes a range once for all processes of the session: the result lives as long as the code. */
const struct load_flow *load_code_flow(struct load_code *code, uint64_t va, uint64_t size);
/* What is decoded from now on is decoded anew where it has an instruction in [va, end_va). */
void load_code_forget_flows(struct load_code *code, uint64_t va, uint64_t end_va);
void load_code_free_flows(struct load_code *code);

#endif
