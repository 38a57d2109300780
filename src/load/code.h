/* What is known about the code of one ELF file: its symbols, and every address that something may jump to. Made once per file and shared by
 * all processes that map it. */
#ifndef LOAD_CODE_H
#define LOAD_CODE_H

#include "base/err.h"
#include "insn/insn.h"
#include "symbol/symbol.h"

struct load_code {
    struct symbol_file *file;
    enum insn_mode mode;
    size_t segment_count;
    struct load_segment {
        uint64_t va, size;
        const uint8_t *bytes;
        uint8_t *target_bits; /* one bit a byte: a jump from anywhere, a pointer or a table may lead here */
    } *segment; /* the executable ones */
    const struct symbol_func **fragment; /* parts split off functions, by parent, aliases left out */
    size_t fragment_count;
};

/* Takes the file over, also on failure. */
struct load_code *load_code_create(struct symbol_file *file);
void load_code_destroy(struct load_code *code);

/* The parts that were split off the function at `va`. */
const struct symbol_func *const *load_code_fragments(const struct load_code *code, uint64_t va, size_t *count);
bool load_code_is_target(const struct load_code *code, uint64_t va);
/* The function that starts at `va` is followed by alignment padding up to the returned address (at least its own end). */
uint64_t load_code_padding_end(const struct load_code *code, uint64_t end_va);

/* One function, decoded. */
enum load_insn_mark {
    LOAD_MARK_TARGET = 1,  /* control may arrive here other than from the instruction before: only the start of a window may be here */
    LOAD_MARK_PADDING = 2, /* never executed: alignment after an instruction that does not fall through */
    LOAD_MARK_INSIDE = 4,  /* something jumps into the middle of the instruction: only its first byte may change */
};
struct load_flow {
    uint64_t va, end_va;     /* the function */
    struct insn *insn;       /* in order of address, with the padding behind the function; gaps are bytes that no known path reaches */
    uint8_t *mark;           /* enum load_insn_mark bits of each */
    size_t count;
    bool has_gaps;           /* data in code: only what is reached from known starts is in `insn` */
};
void load_flow_init(struct load_flow *flow, const struct load_code *code, uint64_t va, uint64_t size);
void load_flow_deinit(struct load_flow *flow);
/* Index of the instruction at `va`, or -1. */
long load_flow_find(const struct load_flow *flow, uint64_t va);

#endif
