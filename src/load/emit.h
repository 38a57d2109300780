/* Trampolines: the code that runs instead of a window's instructions, and what each address in it stands for. */
#ifndef LOAD_EMIT_H
#define LOAD_EMIT_H

#include "load/fire.h"
#include "load/window.h"
#include "wire/shared.h"

/* What firing does: count, call a function of the agent (WIRE_AGENT_...), or call the body of a clause. */
enum load_action {
    LOAD_COUNT,
    LOAD_CLAUSE,
    LOAD_CALL_LOAD_EVENT,
    LOAD_CALL_ACTION,
    LOAD_CALL_ENTER,
    LOAD_CALL_LEAVE,
    LOAD_CALL_GO_ON,
    LOAD_CALL_GO_ON_BARE
};

/* One probe at an instruction (file address). Several may sit on one. */
struct load_probe {
    uint64_t va;
    uint32_t counter; /* LOAD_COUNT: its number; LOAD_CLAUSE: the place's */
    uint64_t body_va; /* LOAD_CLAUSE */
    uint8_t action;   /* enum load_action */
    bool taken;       /* only when the conditional branch is taken */
    bool no_trap;     /* it is refused rather than be a trap */
    bool is_first;    /* it fires before others of the place */
};

/* Addresses in the process that firing code uses. */
struct load_fire_context {
    enum insn_mode mode;
    uint64_t counters_va, block_bytes; /* wire_counter_offset() */
    uint32_t shard_mask;
    uint64_t agent_va, shared_va; /* LOAD_CALL_...: the agent, and the argument of its functions */
};

struct load_trampoline {
    VEC(uint8_t) code;
    VEC(struct wire_pc) pc;
};
void load_trampoline_deinit(struct load_trampoline *trampoline);

/* Makes the trampoline of a window for the process where the file is loaded with `bias` and the trampoline lies at `va`. `probe` holds the
 * window's probes in order of address. Its length does not depend on `va`. */
enum insn_reason load_emit(const struct load_fire_context *fire, const struct load_flow *flow, const struct load_window *window,
                           const struct load_probe *probe, size_t probe_count, uint64_t bias, uint64_t va, struct load_trampoline *out);
/* The bytes that go over the window (window->length of them), and for an island in padding the 5 bytes there. `far_island_va` is where a
 * far island was put. */
void load_emit_patch(const struct load_window *window, uint64_t bias, uint64_t trampoline_va, uint64_t far_island_va, uint8_t patch[8],
                     uint8_t island[8]);
enum { LOAD_FAR_ISLAND_BYTES = 14 };
/* A far island: a jump to anywhere. */
void load_emit_far_island(enum insn_mode mode, uint64_t island_va, uint64_t trampoline_va, uint8_t out[LOAD_FAR_ISLAND_BYTES]);

#endif
