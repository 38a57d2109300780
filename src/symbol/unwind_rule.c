/* A row of call frame information as a rule of the table. What compilers, assemblers and the C library write is recognised by its form;
 * anything else is WIRE_CFA_NONE, or, for a saved register, WIRE_SAVED_LOST. */
#include "symbol/unwind_internal.h"

#include <dwarf.h>
#include <string.h>

enum { RETURN64 = 16, RETURN32 = 8 }; /* DWARF numbers of the return address */

/* Byte offsets in the kernel's struct sigcontext (asm/sigcontext.h, sigcontext_64 and sigcontext_32). */
enum { CONTEXT64_SP = 120, CONTEXT64_PC = 128, CONTEXT32_SP = 28, CONTEXT32_PC = 56 };

/* ---- expressions ---- */

/* register + offset, perhaps read from memory, plus `extra`. */
struct place {
    uint8_t reg;
    int64_t offset;
    bool is_deref;
    int64_t extra;
};

static bool parse_place(const uint8_t *expression, uint32_t size, struct place *out)
{
    struct symbol_cursor cursor = {expression, expression + size, 0, false};
    uint8_t op = (uint8_t)symbol_cursor_fixed(&cursor, 1);
    if (cursor.failed || op < DW_OP_breg0 || op > DW_OP_breg15)
        return false;
    *out = (struct place){.reg = (uint8_t)(op - DW_OP_breg0), .offset = symbol_cursor_sleb(&cursor)};
    while (cursor.at < cursor.end && !cursor.failed) {
        op = (uint8_t)symbol_cursor_fixed(&cursor, 1);
        if (op == DW_OP_deref && !out->is_deref)
            out->is_deref = true;
        else if (op == DW_OP_plus_uconst && out->is_deref && !out->extra)
            out->extra = (int64_t)symbol_cursor_uleb(&cursor);
        else
            return false;
    }
    return !cursor.failed;
}

/* What linkers write for lazy PLT stubs: sp + word + ((pc & 15) >= limit) << log2(word). */
static bool parse_plt(const uint8_t *expression, uint32_t size, int width, int64_t *limit)
{
    const uint8_t sp = width == 64 ? DW_OP_breg7 : DW_OP_breg4, pc = width == 64 ? DW_OP_breg16 : DW_OP_breg8;
    const uint8_t shift = width == 64 ? DW_OP_lit3 : DW_OP_lit2;
    if (size != 11 || expression[0] != sp || expression[1] != width / 8 || expression[2] != pc || expression[3] != 0 ||
        expression[4] != DW_OP_lit15 || expression[5] != DW_OP_and || expression[6] < DW_OP_lit0 || expression[6] > DW_OP_lit15 ||
        expression[7] != DW_OP_ge || expression[8] != shift || expression[9] != DW_OP_shl || expression[10] != DW_OP_plus)
        return false;
    *limit = expression[6] - DW_OP_lit0;
    return true;
}

/* ---- rules ---- */

static const struct wire_unwind_rule none = {.cfa = WIRE_CFA_NONE};

/* The DWARF number of each entry of saved[]. */
static unsigned saved_regs(int width, const uint8_t **regs)
{
    static const uint8_t regs64[] = {WIRE_REG64_BX, WIRE_REG64_BP, WIRE_REG64_R12, WIRE_REG64_R13, WIRE_REG64_R14, WIRE_REG64_R15};
    static const uint8_t regs32[] = {WIRE_REG32_BX, WIRE_REG32_BP, WIRE_REG32_SI, WIRE_REG32_DI};
    *regs = width == 64 ? regs64 : regs32;
    return width == 64 ? sizeof regs64 : sizeof regs32;
}

struct wire_unwind_rule symbol_unwind_plain(int width, int32_t offset)
{
    struct wire_unwind_rule rule = {.cfa = WIRE_CFA_REGISTER,
                                    .cfa_register = width == 64 ? WIRE_REG64_SP : WIRE_REG32_SP,
                                    .cfa_offset = offset,
                                    .return_offset = (int16_t)(-width / 8),
                                    .base_register = WIRE_BASE_CFA};
    const uint8_t *regs;
    for (unsigned i = 0, count = saved_regs(width, &regs); i < count; i++)
        rule.saved[i] = WIRE_SAVED_SAME;
    return rule;
}

struct wire_unwind_rule symbol_unwind_signal(int width, int32_t offset)
{
    return (struct wire_unwind_rule){
        .cfa = WIRE_CFA_SIGNAL, .cfa_register = width == 64 ? WIRE_REG64_SP : WIRE_REG32_SP, .cfa_offset = offset};
}

static bool fits_offset(int64_t offset)
{
    return offset >= INT32_MIN && offset <= INT32_MAX;
}

static bool fits_saved(int64_t offset)
{
    return offset >= WIRE_SAVED_PLACES && offset <= INT16_MAX;
}

/* A signal frame whose stack pointer and pc are saved as far apart as in a struct sigcontext. */
static bool is_signal(const struct symbol_cfi_row *row, int width, int64_t *offset)
{
    const struct symbol_cfi_rule *saved_pc = &row->reg[width == 64 ? RETURN64 : RETURN32];
    int sp_at = width == 64 ? CONTEXT64_SP : CONTEXT32_SP, pc_at = width == 64 ? CONTEXT64_PC : CONTEXT32_PC;
    unsigned sp = width == 64 ? WIRE_REG64_SP : WIRE_REG32_SP;
    struct place cfa, pc;
    if (!row->cfa_expression || saved_pc->how != SYMBOL_CFI_EXPRESSION ||
        !parse_place(row->cfa_expression, row->cfa_expression_size, &cfa) ||
        !parse_place(saved_pc->expression, saved_pc->expression_size, &pc))
        return false;
    *offset = pc.offset - pc_at;
    return cfa.reg == sp && pc.reg == sp && cfa.is_deref && !cfa.extra && !pc.is_deref && cfa.offset == *offset + sp_at;
}

static bool set_cfa(struct wire_unwind_rule *rule, const struct symbol_cfi_row *row, int width)
{
    struct place place = {.offset = row->cfa_offset};
    int64_t limit;
    rule->cfa = WIRE_CFA_REGISTER;
    if (!row->cfa_expression) {
        if (row->cfa_reg >= (width == 64 ? RETURN64 : RETURN32))
            return false;
        place.reg = (uint8_t)row->cfa_reg;
    } else if (parse_plt(row->cfa_expression, row->cfa_expression_size, width, &limit)) {
        rule->cfa = WIRE_CFA_PLT;
        place = (struct place){.reg = width == 64 ? WIRE_REG64_SP : WIRE_REG32_SP, .offset = width / 8, .extra = limit};
    } else if (parse_place(row->cfa_expression, row->cfa_expression_size, &place)) {
        rule->cfa = place.is_deref ? WIRE_CFA_DEREF : WIRE_CFA_REGISTER;
    } else {
        return false;
    }
    if (!fits_offset(place.offset) || place.extra < INT16_MIN || place.extra > INT16_MAX)
        return false;
    rule->cfa_register = place.reg;
    rule->cfa_offset = (int32_t)place.offset;
    rule->cfa_extra = (int16_t)place.extra;
    return true;
}

/* Frames that align their stack save registers at places that count from one of their registers, not from the CFA: which one. */
static uint8_t find_base(const struct symbol_cfi_row *row, int width)
{
    const uint8_t *regs;
    for (unsigned i = 0, count = saved_regs(width, &regs); i < count; i++) {
        const struct symbol_cfi_rule *saved = &row->reg[regs[i]];
        struct place place;
        if (saved->how == SYMBOL_CFI_EXPRESSION && parse_place(saved->expression, saved->expression_size, &place) && !place.is_deref)
            return place.reg;
    }
    return WIRE_BASE_CFA;
}

static int16_t saved_place(const struct wire_unwind_rule *rule, const struct symbol_cfi_rule *saved)
{
    struct place place;
    int64_t offset = saved->value;
    switch ((enum symbol_cfi_how)saved->how) {
    case SYMBOL_CFI_UNSAID:
    case SYMBOL_CFI_SAME:
        return WIRE_SAVED_SAME;
    case SYMBOL_CFI_REGISTER:
        return offset >= 0 && offset < RETURN64 ? (int16_t)(WIRE_SAVED_REGISTER + offset) : WIRE_SAVED_LOST;
    case SYMBOL_CFI_OFFSET:
        if (rule->base_register == WIRE_BASE_CFA)
            break;
        if (rule->cfa != WIRE_CFA_REGISTER || rule->cfa_register != rule->base_register || !fits_offset(offset))
            return WIRE_SAVED_LOST;
        offset += rule->cfa_offset;
        break;
    case SYMBOL_CFI_EXPRESSION:
        if (!parse_place(saved->expression, saved->expression_size, &place) || place.is_deref || place.reg != rule->base_register)
            return WIRE_SAVED_LOST;
        offset = place.offset;
        break;
    default:
        return WIRE_SAVED_LOST;
    }
    return fits_saved(offset) ? (int16_t)offset : WIRE_SAVED_LOST;
}

/* Where the stack pointer of the caller is not the CFA: longjmp() has it in a register, and everything else counts from the buffer. */
static bool take_stack_pointer(struct wire_unwind_rule *rule, const struct symbol_cfi_rule *sp)
{
    if (sp->how == SYMBOL_CFI_UNSAID || (sp->how == SYMBOL_CFI_VAL_OFFSET && sp->value == 0))
        return true;
    if (sp->how != SYMBOL_CFI_REGISTER || sp->value < 0 || sp->value >= RETURN64 || rule->cfa != WIRE_CFA_REGISTER || rule->cfa_offset ||
        rule->base_register != WIRE_BASE_CFA || rule->return_offset >= WIRE_SAVED_PLACES)
        return false;
    rule->base_register = rule->cfa_register;
    rule->cfa_register = (uint8_t)sp->value;
    return true;
}

struct wire_unwind_rule symbol_unwind_rule(const struct symbol_cfi_row *row, const struct symbol_cie *cie, int width)
{
    uint64_t return_reg = width == 64 ? RETURN64 : RETURN32;
    const struct symbol_cfi_rule *pc = &row->reg[return_reg];
    struct wire_unwind_rule rule = {.base_register = WIRE_BASE_CFA};
    int64_t offset;
    if (cie->return_reg != return_reg)
        return none;
    if (pc->how == SYMBOL_CFI_UNDEFINED)
        return (struct wire_unwind_rule){.cfa = WIRE_CFA_END};
    if (is_signal(row, width, &offset))
        return fits_offset(offset) ? symbol_unwind_signal(width, (int32_t)offset) : none;
    if (pc->how == SYMBOL_CFI_OFFSET && fits_saved(pc->value))
        rule.return_offset = (int16_t)pc->value;
    else if (pc->how == SYMBOL_CFI_REGISTER && pc->value >= 0 && pc->value < RETURN64)
        rule.return_offset = (int16_t)(WIRE_SAVED_REGISTER + pc->value);
    else
        return none;
    if (!set_cfa(&rule, row, width))
        return none;
    rule.base_register = find_base(row, width);
    const uint8_t *regs;
    for (unsigned i = 0, count = saved_regs(width, &regs); i < count; i++)
        rule.saved[i] = saved_place(&rule, &row->reg[regs[i]]);
    return take_stack_pointer(&rule, &row->reg[width == 64 ? WIRE_REG64_SP : WIRE_REG32_SP]) ? rule : none;
}
