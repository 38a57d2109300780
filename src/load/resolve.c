#include "load/resolve.h"

#include <stdlib.h>
#include <string.h>

void load_resolved_deinit(struct load_resolved *resolved)
{
    VEC_FREE(&resolved->point);
    VEC_FREE(&resolved->place);
}

/* ---- return sites ---- */

static bool in_function(const struct load_code *code, const struct symbol_func *func, uint64_t va)
{
    const struct symbol_func *holder = symbol_file_func_at(code->file, va);
    return holder && (holder->va == func->va || holder->parent_va == func->va);
}

/* Where the opcode of an instruction begins, past legacy and REX prefixes. */
static const uint8_t *opcode_of(const struct insn *insn)
{
    const uint8_t *at = insn->bytes;
    while (at < insn->bytes + insn->length - 1 && (strchr("\x66\x67\xf2\xf3\x2e\x36\x3e\x26\x64\x65", *at) && *at))
        at++;
    if (insn->mode == INSN_MODE_64 && (*at & 0xf0) == 0x40 && at < insn->bytes + insn->length - 1)
        at++;
    return at;
}

static bool has_scaled_index(const uint8_t *modrm)
{
    return modrm[0] >> 6 != 3 && (modrm[0] & 7) == 4 && (modrm[1] >> 3 & 7) != 4;
}

/* A switch computes its target from a table: by an addition, a load or an address with an index shortly before. What is left is a tail call
 * through a pointer. */
static bool is_switch(const struct load_flow *flow, size_t index)
{
    const struct insn *jump = &flow->insn[index];
    const uint8_t *opcode = opcode_of(jump);
    if (jump->bytes[0] == 0x3e || (opcode[1] >> 6 != 3 && has_scaled_index(opcode + 1)))
        return true;
    if (opcode[1] >> 6 != 3)
        return (opcode[1] & 0xc7) == 0x04 && (opcode[2] & 7) == 5; /* jmp *table(,index,scale) */
    unsigned reg = opcode[1] & 7;
    for (size_t back = 1; back <= 4 && back <= index; back++) {
        const uint8_t *before = opcode_of(&flow->insn[index - back]);
        bool add_to =
            (before[0] == 0x01 && before[1] >> 6 == 3 && (before[1] & 7) == reg) || (before[0] == 0x03 && (before[1] >> 3 & 7) == reg);
        bool load =
            (before[0] == 0x8b || before[0] == 0x63 || before[0] == 0x8d) && (before[1] >> 3 & 7) == reg && has_scaled_index(before + 1);
        if (add_to || load)
            return true;
    }
    return false;
}

static void add_return_places(const struct load_code *code, const struct symbol_func *func, const struct symbol_func *part,
                              struct load_resolved *out)
{
    struct load_flow flow;
    load_flow_init(&flow, code, part->va, part->size);
    uint64_t unit_va, unit_size;
    load_code_unit(code, part, &unit_va, &unit_size);
    for (size_t i = 0; i < flow.count; i++) {
        const struct insn *insn = &flow.insn[i];
        if (insn->va >= flow.end_va || flow.mark[i] & LOAD_MARK_PADDING)
            continue;
        bool direct = insn->kind == INSN_JMP || insn->kind == INSN_JCC || insn->kind == INSN_LOOP;
        bool tail = direct && !in_function(code, func, insn->target_va) && symbol_file_func_at(code->file, insn->target_va);
        bool indirect_tail = insn->kind == INSN_JMP_INDIRECT && !is_switch(&flow, i);
        if (insn->kind == INSN_RET || tail || indirect_tail)
            VEC_PUSH(&out->place, (struct load_place){unit_va, unit_size, insn->va, tail && insn->kind != INSN_JMP});
    }
    load_flow_deinit(&flow);
}

/* The function itself and what was split off it. */
static void add_all_returns(const struct load_code *code, const struct symbol_func *func, struct load_resolved *out)
{
    size_t count;
    const struct symbol_func *const *part = load_code_fragments(code, func->va, &count);
    add_return_places(code, func, func, out);
    for (size_t i = 0; i < count; i++)
        add_return_places(code, func, part[i], out);
}

/* ---- trace points ---- */

static void add_point(const struct load_code *code, const struct symbol_func *func, const struct spec *spec, uint64_t va,
                      struct load_resolved *out)
{
    struct load_trace_point point = {
        .func = func, .point = (uint8_t)spec->point, .va = va, .offset = func ? va - func->va : 0, .first_place = (uint32_t)out->place.n};
    if (!func)
        point.refusal = INSN_NOT_CODE;
    else if (spec->point == SPEC_RETURN)
        add_all_returns(code, func, out);
    else if (va - func->va >= func->size)
        point.refusal = INSN_NOT_CODE;
    else {
        uint64_t unit_va, unit_size;
        load_code_unit(code, func, &unit_va, &unit_size);
        VEC_PUSH(&out->place, (struct load_place){unit_va, unit_size, va, false});
    }
    point.place_count = (uint32_t)out->place.n - point.first_place;
    if (func && spec->point == SPEC_RETURN && !point.place_count)
        point.refusal = INSN_NO_RETURN;
    VEC_PUSH(&out->point, point);
}

void load_resolve(const struct load_code *code, const struct spec *spec, struct load_resolved *out)
{
    if (spec->point == SPEC_ADDRESS) {
        add_point(code, symbol_file_func_at(code->file, spec->offset), spec, spec->offset, out);
        return;
    }
    size_t count;
    const struct symbol_func *func = symbol_file_funcs(code->file, &count);
    uint64_t last_va = UINT64_MAX;
    for (size_t i = spec_next_match(spec, func, count, 0); i < count; i = spec_next_match(spec, func, count, i + 1)) {
        if (func[i].va == last_va)
            continue; /* another name of the same function */
        last_va = func[i].va;
        add_point(code, &func[i], spec, func[i].va + (spec->point == SPEC_OFFSET ? spec->offset : 0), out);
    }
}

void load_resolve_func(const struct load_code *code, const struct symbol_func *func, enum spec_point point, struct load_resolved *out)
{
    struct spec spec = {.point = point};
    add_point(code, func, &spec, func->va, out);
}
