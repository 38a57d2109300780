/* The walk: see walk.h. Called while firing. What lies in shared memory is read once and checked before it is used: it may change
 * meanwhile. */
#include "unwind/walk.h"

enum { GO_ON = -1 };

#define BIT(reg) (1u << (reg))

/* ---- finding the rule ---- */

static const struct unwind_module *find_module(const struct unwind_space *space, uint64_t va)
{
    uint32_t low = 0, high = space->module_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (space->module[middle].start_va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low && va < space->module[low - 1].end_va ? &space->module[low - 1] : 0;
}

/* The rule of the row that holds `va`, an address of the process; `out` is a copy. False when there is none. */
static bool find_rule(const struct unwind_space *space, uint64_t va, struct wire_unwind_rule *out)
{
    const struct unwind_module *module = find_module(space, va);
    if (!module || !module->table_va || module->table_bytes < sizeof(struct wire_unwind))
        return false;
    const volatile struct wire_unwind *table = (const volatile struct wire_unwind *)(uintptr_t)module->table_va;
    uint32_t row_count = table->row_count, rule_count = table->rule_count;
    uint64_t rules_at = sizeof *table + 4 * (uint64_t)row_count + ((2 * (uint64_t)row_count + 3) & ~3ull);
    uint64_t offset = va - module->bias - table->text_va;
    if (table->magic != WIRE_UNWIND_MAGIC || table->width != space->width || rules_at > module->table_bytes ||
        rule_count > (module->table_bytes - rules_at) / sizeof(struct wire_unwind_rule))
        return false;
    if (space->width == 32)
        offset = (uint32_t)offset;
    const volatile uint32_t *start = (const volatile uint32_t *)(table + 1);
    uint32_t low = 0, high = row_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (start[middle] <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return false;
    uint16_t rule = ((const volatile uint16_t *)(start + row_count))[low - 1];
    if (rule >= rule_count)
        return false;
    const volatile uint32_t *from = (const volatile uint32_t *)((uintptr_t)table + (uintptr_t)rules_at + rule * sizeof *out);
    union {
        uint32_t words[sizeof *out / 4];
        struct wire_unwind_rule rule;
    } copy = {{from[0], from[1], from[2], from[3], from[4], from[5]}};
    *out = copy.rule;
    return true;
}

/* ---- one step ---- */

static bool load(struct unwind_walk *walk, uint64_t va, uint64_t *word)
{
    va &= walk->mask;
    if (walk->read(walk->context, va, word)) {
        *word &= walk->mask;
        return true;
    }
    walk->result.missing_va = va;
    return false;
}

static bool is_known(const struct unwind_walk *walk, uint32_t reg)
{
    return reg < WIRE_REG64_COUNT && (walk->work->regs.known & BIT(reg));
}

static void set(struct unwind_walk *walk, uint32_t reg, uint64_t value)
{
    walk->work->regs.reg[reg] = value & walk->mask;
    walk->work->regs.known |= BIT(reg);
}

/* Nothing is known of the code: its frame pointer may lead to the caller. */
static int step_guess(struct unwind_walk *walk)
{
    struct unwind_regs *regs = &walk->work->regs;
    uint64_t bp = regs->reg[walk->bp], saved_bp, pc;
    if (!is_known(walk, walk->bp))
        return UNWIND_NO_RULE;
    if (!bp) { /* psABI, process initialization: the outermost frame */
        walk->result.guessed = true;
        return UNWIND_COMPLETE;
    }
    if (bp < regs->reg[walk->sp] || (bp & (walk->word - 1u)))
        return UNWIND_NO_RULE;
    if (!load(walk, bp, &saved_bp) || !load(walk, bp + walk->word, &pc))
        return UNWIND_NO_RULE; /* it was no frame pointer, or the walk can not tell */
    walk->result.guessed = true;
    regs->known = 0;
    set(walk, walk->bp, saved_bp);
    set(walk, walk->sp, bp + 2u * walk->word);
    regs->pc = pc;
    return GO_ON;
}

/* All registers are in a struct sigcontext of the kernel (asm/sigcontext.h). */
static int step_signal(struct unwind_walk *walk, const struct wire_unwind_rule *rule)
{
    static const uint8_t order64[] = {WIRE_REG64_R8,  WIRE_REG64_R9,  WIRE_REG64_R10, WIRE_REG64_R11, WIRE_REG64_R12, WIRE_REG64_R13,
                                      WIRE_REG64_R14, WIRE_REG64_R15, WIRE_REG64_DI,  WIRE_REG64_SI,  WIRE_REG64_BP,  WIRE_REG64_BX,
                                      WIRE_REG64_DX,  WIRE_REG64_AX,  WIRE_REG64_CX,  WIRE_REG64_SP};
    static const uint8_t order32[] = {WIRE_REG32_DI, WIRE_REG32_SI, WIRE_REG32_BP, WIRE_REG32_SP,
                                      WIRE_REG32_BX, WIRE_REG32_DX, WIRE_REG32_CX, WIRE_REG32_AX};
    enum { FIRST32 = 16, PC32 = 56 }; /* bytes: four segment registers come first */
    bool is_wide = walk->word == 8;
    const uint8_t *order = is_wide ? order64 : order32;
    uint32_t count = is_wide ? sizeof order64 : sizeof order32;
    if (!is_known(walk, rule->cfa_register))
        return UNWIND_CUT;
    uint64_t context_va = walk->work->regs.reg[rule->cfa_register] + (uint64_t)(int64_t)rule->cfa_offset;
    uint64_t value;
    for (uint32_t i = 0; i < count; i++) {
        if (!load(walk, context_va + (is_wide ? 8 * i : FIRST32 + 4 * i), &value))
            return UNWIND_NO_READ;
        set(walk, order[i], value);
    }
    if (!load(walk, context_va + (is_wide ? 8 * count : PC32), &value))
        return UNWIND_NO_READ;
    walk->work->regs.pc = value;
    return GO_ON;
}

static int find_cfa(struct unwind_walk *walk, const struct wire_unwind_rule *rule, uint64_t *cfa)
{
    if (!is_known(walk, rule->cfa_register))
        return UNWIND_CUT;
    *cfa = walk->work->regs.reg[rule->cfa_register] + (uint64_t)(int64_t)rule->cfa_offset;
    if (rule->cfa == WIRE_CFA_DEREF) {
        if (!load(walk, *cfa, cfa))
            return UNWIND_NO_READ;
        *cfa += (uint64_t)(int64_t)rule->cfa_extra;
    } else if (rule->cfa == WIRE_CFA_PLT && (int)(walk->work->regs.pc & 15) >= rule->cfa_extra) {
        *cfa += walk->word;
    }
    *cfa &= walk->mask;
    return GO_ON;
}

/* What a saved[] or return_offset says, counted from `base`. */
static int find_saved(struct unwind_walk *walk, int16_t place, uint64_t base, bool has_base, uint64_t *value)
{
    if (place < WIRE_SAVED_PLACES) {
        uint32_t reg = (uint32_t)(place - WIRE_SAVED_REGISTER);
        if (place < WIRE_SAVED_REGISTER || !is_known(walk, reg))
            return UNWIND_CUT;
        *value = walk->work->regs.reg[reg];
        return GO_ON;
    }
    if (!has_base)
        return UNWIND_CUT;
    return load(walk, base + (uint64_t)(int64_t)place, value) ? GO_ON : UNWIND_NO_READ;
}

static int step_frame(struct unwind_walk *walk, const struct wire_unwind_rule *rule)
{
    static const uint8_t saved64[] = {WIRE_REG64_BX, WIRE_REG64_BP, WIRE_REG64_R12, WIRE_REG64_R13, WIRE_REG64_R14, WIRE_REG64_R15};
    static const uint8_t saved32[] = {WIRE_REG32_BX, WIRE_REG32_BP, WIRE_REG32_SI, WIRE_REG32_DI};
    bool is_wide = walk->word == 8;
    const uint8_t *saved = is_wide ? saved64 : saved32;
    uint32_t count = is_wide ? sizeof saved64 : sizeof saved32;
    struct unwind_regs *regs = &walk->work->regs;
    uint64_t cfa, pc, *value = walk->work->value;
    int end = find_cfa(walk, rule, &cfa);
    if (end != GO_ON)
        return end;
    bool in_register = rule->return_offset < WIRE_SAVED_PLACES;
    if (cfa < regs->reg[walk->sp] || (cfa == regs->reg[walk->sp] && !in_register))
        return UNWIND_CUT;
    if ((end = find_saved(walk, rule->return_offset, cfa, true, &pc)) != GO_ON)
        return end;
    bool is_cfa = rule->base_register == WIRE_BASE_CFA, has_base = is_cfa || is_known(walk, rule->base_register);
    uint64_t base = is_cfa ? cfa : has_base ? regs->reg[rule->base_register] : 0;
    /* Registers that no rule speaks of stay known, though a callee may use them: where a CFA counts from one behind a call, as in a frame
     * that is about to align its stack, the callee is one that does not. */
    uint32_t known = regs->known;
    for (uint32_t i = 0; i < count; i++) {
        if (rule->saved[i] == WIRE_SAVED_SAME)
            continue;
        known &= ~BIT(saved[i]);
        /* What can not be read may never be needed. */
        if (find_saved(walk, rule->saved[i], base, has_base, &value[i]) == GO_ON)
            known |= BIT(saved[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        if (rule->saved[i] != WIRE_SAVED_SAME && (known & BIT(saved[i])))
            regs->reg[saved[i]] = value[i];
    regs->known = known;
    set(walk, walk->sp, cfa);
    regs->pc = pc;
    return GO_ON;
}

void unwind_walk(struct unwind_walk *walk, uint64_t *pcs, uint32_t room)
{
    struct unwind_result *out = &walk->result;
    bool is_wide = walk->space->width == 64;
    walk->mask = is_wide ? ~0ull : 0xffffffffull;
    walk->word = is_wide ? 8 : 4;
    walk->sp = is_wide ? WIRE_REG64_SP : WIRE_REG32_SP;
    walk->bp = is_wide ? WIRE_REG64_BP : WIRE_REG32_BP;
    *out = (struct unwind_result){.end = UNWIND_ROOM};
    bool is_exact = true; /* the pc is that of an instruction yet to be executed, not behind a call */
    while (out->count < room) {
        struct wire_unwind_rule rule;
        int end;
        pcs[out->count++] = walk->work->regs.pc;
        if (!is_known(walk, walk->sp)) {
            out->end = UNWIND_CUT;
            return;
        }
        if (!find_rule(walk->space, walk->work->regs.pc - !is_exact, &rule))
            rule.cfa = WIRE_CFA_NONE;
        switch (rule.cfa) {
        case WIRE_CFA_END:
            end = UNWIND_COMPLETE;
            break;
        case WIRE_CFA_REGISTER:
        case WIRE_CFA_DEREF:
        case WIRE_CFA_PLT:
            end = step_frame(walk, &rule);
            break;
        case WIRE_CFA_SIGNAL:
            end = step_signal(walk, &rule);
            break;
        default:
            end = step_guess(walk);
        }
        if (end == GO_ON && !walk->work->regs.pc)
            end = UNWIND_COMPLETE;
        if (end != GO_ON) {
            out->end = (enum unwind_end)end;
            return;
        }
        is_exact = rule.cfa == WIRE_CFA_SIGNAL;
    }
}
