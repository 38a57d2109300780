/* Wrong call frame information of hand-written 32-bit code. glibc's memcpy and string functions (i386, multiarch) push and pop without
 * saying so, or have several exits, and forget behind each that what it has taken from the stack is still there for those who jumped past
 * it: the CFA is then said to be below where it is. Debuggers go wrong there. Such FDEs are known by a CFA at or below the stack pointer,
 * where the return address would be below it, or by having one row only.
 *
 * The code itself tells: from the entry on, where the return address is on top, the depth of the stack is counted along all paths. What is
 * reached through a jump table only is counted backwards: a `ret` has the return address on top, and what leads to an instruction of known
 * depth ends in that. Where neither leads, or instructions do to the stack pointer what is not understood, the row stays as it is. */
#include "symbol/unwind_internal.h"

#include "insn/insn.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = 4, MAX_CODE = 1 << 16, UNKNOWN = INT16_MIN, MAX_DEPTH = 1024 };

struct counter {
    const uint8_t *code;
    uint64_t va;
    uint32_t size;
    int16_t *depth; /* of the stack at each instruction: from the stack pointer to the CFA, bytes; UNKNOWN elsewhere */
    VEC(struct {
        uint32_t offset;
        int32_t depth;
    })
    todo;
};

/* ---- instructions ---- */

/* By how much an instruction that goes on to the next one lowers the stack pointer. False when that is not understood. */
static bool stack_effect(const struct insn *insn, int32_t *bytes)
{
    const uint8_t *code = insn->bytes;
    uint8_t modrm = code[1];
    *bytes = 0;
    if (code[0] == 0x66 || code[0] == 0x67) /* pushes and pops of half a word do not occur */
        return code[1] < 0x50 || code[1] > 0x5f;
    if ((code[0] >= 0x50 && code[0] <= 0x57) || code[0] == 0x68 || code[0] == 0x6a || (code[0] == 0xff && (modrm >> 3 & 7) == 6))
        *bytes = WORD;
    else if ((code[0] >= 0x58 && code[0] <= 0x5f && code[0] != 0x5c) || (code[0] == 0x8f && (modrm >> 3 & 7) == 0))
        *bytes = -WORD;
    else if (code[0] == 0x83 && (modrm == 0xec || modrm == 0xc4))
        *bytes = modrm == 0xec ? (int8_t)code[2] : -(int8_t)code[2];
    else if (code[0] == 0x5c || code[0] == 0x9c || code[0] == 0x9d || code[0] == 0xc8 ||
             code[0] == 0xc9) /* pop %esp, flags, enter, leave */
        return false;
    else if ((code[0] == 0x81 || code[0] == 0x83) && modrm >= 0xc0 && (modrm & 7) == 4) /* another operation on esp */
        return (modrm >> 3 & 7) == 7;                                                   /* cmp */
    else if ((code[0] == 0x89 && modrm >= 0xc0 && (modrm & 7) == 4) || ((code[0] == 0x8b || code[0] == 0x8d) && (modrm >> 3 & 7) == 4))
        return false; /* mov and lea to esp */
    return true;
}

static bool decode(const struct counter *counter, uint32_t offset, struct insn *out)
{
    return offset < counter->size &&
           insn_decode(INSN_MODE_32, counter->code + offset, counter->size - offset, counter->va + offset, out) == INSN_OK;
}

static bool is_inside(const struct counter *counter, uint64_t va, uint32_t *offset)
{
    *offset = (uint32_t)(va - counter->va);
    return va >= counter->va && va - counter->va < counter->size;
}

static bool has_target(const struct insn *insn)
{
    return insn->kind == INSN_JMP || insn->kind == INSN_JCC || insn->kind == INSN_LOOP;
}

static bool falls_through(const struct insn *insn)
{
    return insn->kind != INSN_JMP && insn->kind != INSN_JMP_INDIRECT && insn->kind != INSN_RET && insn->kind != INSN_STOP;
}

/* ---- counting ---- */

static void add(struct counter *counter, uint32_t offset, int32_t depth)
{
    if (offset < counter->size && counter->depth[offset] == UNKNOWN && depth >= WORD && depth <= MAX_DEPTH) {
        counter->depth[offset] = (int16_t)depth;
        VEC_PUSH(&counter->todo, (__typeof__(*counter->todo.at)){offset, depth});
    }
}

static void count_forwards(struct counter *counter)
{
    while (counter->todo.n) {
        uint32_t offset = counter->todo.at[--counter->todo.n].offset, target;
        int32_t depth = counter->depth[offset], effect;
        struct insn insn;
        if (!decode(counter, offset, &insn) || !stack_effect(&insn, &effect))
            continue;
        if (has_target(&insn) && is_inside(counter, insn.target_va, &target))
            add(counter, target, depth);
        if (falls_through(&insn))
            add(counter, offset + insn.length, depth + effect);
    }
}

/* The depth at an instruction that nothing leads to, from what it leads to in a straight line; UNKNOWN when that does not tell. *end is
 * behind the line. */
static int32_t count_backwards(const struct counter *counter, uint32_t offset, uint32_t *end)
{
    int32_t lowered = 0, effect;
    struct insn insn;
    uint32_t target;
    for (*end = offset; decode(counter, *end, &insn) && stack_effect(&insn, &effect);) {
        if (counter->depth[*end] != UNKNOWN)
            return counter->depth[*end] - lowered;
        *end += insn.length;
        if (insn.kind == INSN_RET)
            return WORD - lowered;
        if (has_target(&insn) && is_inside(counter, insn.target_va, &target) && counter->depth[target] != UNKNOWN)
            return counter->depth[target] - lowered;
        if (!falls_through(&insn))
            return UNKNOWN;
        lowered += effect;
    }
    *end += *end == offset;
    return UNKNOWN;
}

static void count(struct counter *counter)
{
    add(counter, 0, WORD);
    count_forwards(counter);
    for (uint32_t offset = 0, end; offset < counter->size; offset = end) {
        struct insn insn;
        if (counter->depth[offset] != UNKNOWN) {
            end = offset + (decode(counter, offset, &insn) ? insn.length : 1);
            continue;
        }
        int32_t depth = count_backwards(counter, offset, &end);
        if (depth != UNKNOWN) {
            add(counter, offset, depth);
            count_forwards(counter);
        }
    }
}

/* ---- rows ---- */

static bool is_on_stack(const struct wire_unwind_rule *rule)
{
    return rule->cfa == WIRE_CFA_REGISTER && rule->cfa_register == WIRE_REG32_SP && rule->base_register == WIRE_BASE_CFA &&
           rule->return_offset == -WORD;
}

static bool is_suspect(const symbol_unwind_rows *rows)
{
    bool is_below = false;
    if (rows->at[0].rule.cfa_offset != WORD) /* a part of a function that was split off */
        return false;
    for (size_t i = 0; i < rows->n; i++) {
        if (!is_on_stack(&rows->at[i].rule))
            return false;
        is_below |= rows->at[i].rule.cfa_offset < WORD;
    }
    return is_below || rows->n == 1;
}

/* The row's rule with another CFA. Where registers are saved is then not known; none of them is one that a CFA counts from. */
static struct wire_unwind_rule corrected(struct wire_unwind_rule rule, int32_t depth)
{
    if (rule.cfa_offset == depth)
        return rule;
    rule.cfa_offset = depth;
    for (unsigned i = 0; i <= WIRE_SAVED32_DI; i++)
        if (rule.saved[i] != WIRE_SAVED_SAME)
            rule.saved[i] = WIRE_SAVED_LOST;
    return rule;
}

static void correct(const struct counter *counter, symbol_unwind_rows *rows)
{
    symbol_unwind_rows old = *rows;
    memset(rows, 0, sizeof *rows);
    for (size_t i = 0; i < old.n; i++) {
        const struct symbol_unwind_row *row = &old.at[i];
        int32_t depth = UNKNOWN; /* of the instruction that this byte is part of */
        uint64_t next_va = row->va;
        for (uint64_t va = row->va, end; va < row->end; va = end) {
            struct insn insn;
            uint32_t offset = (uint32_t)(va - counter->va);
            if (va >= next_va) {
                depth = counter->depth[offset];
                next_va = va + (depth != UNKNOWN && decode(counter, offset, &insn) ? insn.length : 1);
            }
            end = next_va < row->end ? next_va : row->end;
            struct symbol_unwind_row part = {va, end, depth == UNKNOWN ? row->rule : corrected(row->rule, depth)};
            struct symbol_unwind_row *last = rows->n ? &rows->at[rows->n - 1] : NULL;
            if (last && last->end == va && memcmp(&last->rule, &part.rule, sizeof part.rule) == 0)
                last->end = end;
            else
                VEC_PUSH(rows, part);
        }
    }
    VEC_FREE(&old);
}

void symbol_unwind_repair(struct symbol_file *file, symbol_unwind_rows *rows)
{
    if (!rows->n || !is_suspect(rows))
        return;
    struct counter counter = {.va = rows->at[0].va};
    uint64_t size = rows->at[rows->n - 1].end - counter.va;
    if (size > MAX_CODE || !(counter.code = symbol_unwind_code(file, counter.va, size)))
        return;
    counter.size = (uint32_t)size;
    counter.depth = memory_alloc(size * sizeof *counter.depth);
    for (uint32_t i = 0; i < counter.size; i++)
        counter.depth[i] = UNKNOWN;
    count(&counter);
    correct(&counter, rows);
    VEC_FREE(&counter.todo);
    free(counter.depth);
}
