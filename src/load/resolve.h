/* From the name of a trace point to the instructions that it means in one file. Pure: no process. */
#ifndef LOAD_RESOLVE_H
#define LOAD_RESOLVE_H

#include "load/window.h"
#include "symbol/spec.h"

/* One instruction of a trace point. */
struct load_place {
    uint64_t func_va, func_size; /* the unit (load_code_unit()) that holds it */
    uint64_t va;
    bool taken; /* a conditional tail jump: a return only when it is taken */
};

struct load_trace_point {
    const struct symbol_func *func; /* owned by the file; NULL for an address outside all functions */
    uint8_t point;                  /* enum spec_point */
    uint8_t refusal;                /* enum insn_reason: why there is no place at all */
    uint64_t offset;                /* from the function's entry (SPEC_OFFSET, SPEC_ADDRESS), else 0 */
    uint64_t va;                    /* of the entry or the instruction; of the function for returns */
    uint32_t first_place, place_count;
};

struct load_resolved {
    VEC(struct load_trace_point) point;
    VEC(struct load_place) place;
};

/* Appends the trace points that `spec` means in the file. */
void load_resolve(const struct load_code *code, const struct spec *spec, struct load_resolved *out);
/* Likewise the entry (SPEC_ENTRY) or the exits (SPEC_RETURN) of one function. */
void load_resolve_func(const struct load_code *code, const struct symbol_func *func, enum spec_point point, struct load_resolved *out);
void load_resolved_deinit(struct load_resolved *resolved);

#endif
