/* Code for 32-bit processes. A virtual register is two words; the accumulator is edx:eax; ecx is used besides. */
#include "jit/internal.h"

#define FIRE(field) ((int32_t)offsetof(struct wire_fire, field))

/* ---- operands ---- */

static struct emit_memory at_sp(int32_t offset)
{
    return (struct emit_memory){SP, -1, 1, offset};
}

static void op_sp(struct jit *jit, uint32_t opcode, int reg, int32_t offset)
{
    struct emit_memory memory = at_sp(offset);
    emit_rm(&jit->emit, false, opcode, reg, &memory);
}

static void op_rr(struct jit *jit, uint32_t opcode, int reg, int rm)
{
    emit_rr(&jit->emit, false, opcode, reg, rm);
}

/* An absolute address, and an index. */
static void op_va(struct jit *jit, uint32_t opcode, int reg, uint64_t va, int index, int scale)
{
    emit_rm(&jit->emit, false, opcode, reg, &(struct emit_memory){-1, index, scale, (int32_t)va});
}

/* 81 /extension with a constant. */
static void op_constant(struct jit *jit, int extension, int reg, uint32_t value)
{
    emit_rr(&jit->emit, false, 0x81, extension, reg);
    emit_u32(&jit->emit, value);
}

/* movl $value,offset(%esp) */
static void put_u32(struct jit *jit, int32_t offset, uint32_t value)
{
    op_sp(jit, 0xc7, 0, offset);
    emit_u32(&jit->emit, value);
}

static void load_pair(struct jit *jit, uint32_t virtual_reg)
{
    op_sp(jit, 0x8b, AX, jit->slot_offset[virtual_reg]);
    op_sp(jit, 0x8b, DX, jit->slot_offset[virtual_reg] + 4);
}

static void constant_pair(struct jit *jit, uint64_t value)
{
    emit_constant(&jit->emit, AX, (uint32_t)value);
    emit_constant(&jit->emit, DX, value >> 32);
}

static void load_first(struct jit *jit, const struct wire_insn *insn)
{
    if (jit->cached != insn->a)
        load_pair(jit, insn->a);
    jit->cached = insn->a;
}

/* edx:eax is the operation's result. */
static void result(struct jit *jit, const struct wire_insn *insn)
{
    if (jit_must_store(jit)) {
        op_sp(jit, 0x89, AX, jit->slot_offset[insn->d]);
        op_sp(jit, 0x89, DX, jit->slot_offset[insn->d] + 4);
    }
    jit->cached = insn->d;
}

/* eax is. */
static void word_result(struct jit *jit, const struct wire_insn *insn)
{
    EMIT(&jit->emit, 0x31, 0xd2); /* xor %edx,%edx */
    result(jit, insn);
}

/* Bytes of the frame; ecx leads to one that is in the pool. */
static struct emit_memory in_frame(struct jit *jit, int64_t offset)
{
    if (jit->frame_offset >= 0)
        return at_sp((int32_t)(jit->frame_offset + offset));
    op_sp(jit, 0x8b, CX, FIRE(frame_va));
    return (struct emit_memory){CX, -1, 1, (int32_t)offset};
}

/* ---- numbers ---- */

/* Operation on the low words, then on the high ones. */
static void pair_b(struct jit *jit, const struct wire_insn *insn, uint32_t low, uint32_t high)
{
    load_first(jit, insn);
    op_sp(jit, low, AX, jit->slot_offset[insn->b]);
    op_sp(jit, high, DX, jit->slot_offset[insn->b] + 4);
    result(jit, insn);
}

static void pair_i(struct jit *jit, const struct wire_insn *insn, int low, int high)
{
    load_first(jit, insn);
    op_constant(jit, low, AX, (uint32_t)insn->i);
    op_constant(jit, high, DX, insn->i < 0 ? UINT32_MAX : 0);
    result(jit, insn);
}

static void multiply(struct jit *jit, const struct wire_insn *insn)
{
    load_first(jit, insn);
    op_rr(jit, 0x89, DX, CX);
    op_sp(jit, 0x0faf, CX, jit->slot_offset[insn->b]); /* high a * low b */
    op_sp(jit, 0x8b, DX, jit->slot_offset[insn->b] + 4);
    op_rr(jit, 0x0faf, DX, AX); /* high b * low a */
    op_rr(jit, 0x01, DX, CX);
    op_sp(jit, 0xf7, 4, jit->slot_offset[insn->b]); /* mul */
    op_rr(jit, 0x01, CX, DX);
    result(jit, insn);
}

static void multiply_constant(struct jit *jit, const struct wire_insn *insn)
{
    load_first(jit, insn);
    op_rr(jit, 0x69, CX, DX); /* imul $i,%edx,%ecx */
    emit_u32(&jit->emit, (uint32_t)insn->i);
    if (insn->i < 0)
        op_rr(jit, 0x29, AX, CX); /* the constant's high word is -1 */
    emit_constant(&jit->emit, DX, (uint32_t)insn->i);
    op_rr(jit, 0xf7, 4, DX);
    op_rr(jit, 0x01, CX, DX);
    result(jit, insn);
}

enum shift_kind { LEFT, RIGHT, RIGHT_SIGNED };

/* edx:eax by a constant. */
static void shift(struct jit *jit, enum shift_kind kind, uint32_t count)
{
    struct emit *emit = &jit->emit;
    int to = kind == LEFT ? DX : AX, from = kind == LEFT ? AX : DX, extension = kind == LEFT ? 4 : kind == RIGHT ? 5 : 7;
    if (!count)
        return;
    if (count < 32) {
        op_rr(jit, kind == LEFT ? 0x0fa4 : 0x0fac, from, to); /* shld, shrd */
        EMIT(emit, (uint8_t)count);
        op_rr(jit, 0xc1, extension, from);
        EMIT(emit, (uint8_t)count);
        return;
    }
    op_rr(jit, 0x89, from, to);
    if (count > 32) {
        op_rr(jit, 0xc1, extension, to);
        EMIT(emit, (uint8_t)(count - 32));
    }
    if (kind == RIGHT_SIGNED)
        EMIT(emit, 0xc1, 0xfa, 0x1f); /* sar $31,%edx */
    else
        op_rr(jit, 0x31, from, from);
}

static void shift_b(struct jit *jit, const struct wire_insn *insn, enum shift_kind kind)
{
    struct emit *emit = &jit->emit;
    int to = kind == LEFT ? DX : AX, from = kind == LEFT ? AX : DX, extension = kind == LEFT ? 4 : kind == RIGHT ? 5 : 7;
    load_first(jit, insn);
    op_sp(jit, 0x8b, CX, jit->slot_offset[insn->b]);
    op_rr(jit, kind == LEFT ? 0x0fa5 : 0x0fad, from, to); /* shld, shrd by cl, of which they take 5 bits */
    op_rr(jit, 0xd3, extension, from);
    EMIT(emit, 0xf6, 0xc1, 0x20); /* test $32,%cl */
    size_t small = emit_jump_if(emit, IF_ZERO);
    op_rr(jit, 0x89, from, to);
    if (kind == RIGHT_SIGNED)
        EMIT(emit, 0xc1, 0xfa, 0x1f);
    else
        op_rr(jit, 0x31, from, from);
    emit_patch(emit, small, emit->code.n);
    result(jit, insn);
}

static void extend(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    uint32_t size = insn->k & ~(uint32_t)WIRE_SIGNED;
    bool is_signed = insn->k & WIRE_SIGNED;
    load_first(jit, insn);
    if (size == 1)
        op_rr(jit, is_signed ? 0x0fbe : 0x0fb6, AX, AX);
    else if (size == 2)
        op_rr(jit, is_signed ? 0x0fbf : 0x0fb7, AX, AX);
    if (size < 8 && is_signed)
        EMIT(emit, 0x99); /* cltd */
    else if (size < 8)
        EMIT(emit, 0x31, 0xd2);
    result(jit, insn);
}

static void swap_bytes(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    load_first(jit, insn);
    if (insn->k == 8)
        EMIT(emit, 0x0f, 0xc8, 0x0f, 0xca, 0x92); /* bswap both; xchg %eax,%edx */
    else if (insn->k == 4)
        EMIT(emit, 0x0f, 0xc8, 0x31, 0xd2);
    else
        EMIT(emit, 0x66, 0xc1, 0xc8, 0x08, 0x0f, 0xb7, 0xc0, 0x31, 0xd2); /* ror $8,%ax; movzwl %ax,%eax; xor %edx,%edx */
    result(jit, insn);
}

/* Sets flags and loses the accumulator. Returns the condition under which the comparison holds. */
static int compare(struct jit *jit, const struct wire_insn *insn)
{
    uint64_t constant = (uint64_t)(int64_t)insn->i;
    int32_t a = jit->slot_offset[insn->a], b = jit->slot_offset[insn->b];
    switch (insn->op) {
    case WIRE_LEU: /* not b < a */
    case WIRE_LES:
        load_pair(jit, insn->b);
        break;
    case WIRE_GTUI: /* i < a */
    case WIRE_GTSI:
        constant_pair(jit, constant);
        break;
    default:
        load_first(jit, insn);
    }
    jit->cached = -1;
    switch (insn->op) {
    case WIRE_EQ:
    case WIRE_NE:
        op_sp(jit, 0x33, AX, b);
        op_sp(jit, 0x33, DX, b + 4);
        break;
    case WIRE_EQI:
    case WIRE_NEI:
        op_constant(jit, 6, AX, (uint32_t)constant);
        op_constant(jit, 6, DX, (uint32_t)(constant >> 32));
        break;
    case WIRE_LTU:
    case WIRE_LTS:
        op_sp(jit, 0x3b, AX, b);
        op_sp(jit, 0x1b, DX, b + 4);
        return insn->op == WIRE_LTU ? IF_BELOW : IF_LESS;
    case WIRE_LTUI:
    case WIRE_LTSI:
        op_constant(jit, 7, AX, (uint32_t)constant);
        op_constant(jit, 3, DX, (uint32_t)(constant >> 32));
        return insn->op == WIRE_LTUI ? IF_BELOW : IF_LESS;
    case WIRE_LEU:
    case WIRE_LES:
        op_sp(jit, 0x3b, AX, a);
        op_sp(jit, 0x1b, DX, a + 4);
        return (insn->op == WIRE_LEU ? IF_BELOW : IF_LESS) | IF_NOT;
    case WIRE_GTUI:
    case WIRE_GTSI:
        op_sp(jit, 0x3b, AX, a);
        op_sp(jit, 0x1b, DX, a + 4);
        return insn->op == WIRE_GTUI ? IF_BELOW : IF_LESS;
    }
    op_rr(jit, 0x09, DX, AX);
    return insn->op == WIRE_NE || insn->op == WIRE_NEI ? IF_ZERO | IF_NOT : IF_ZERO;
}

static void compare_to_number(struct jit *jit, const struct wire_insn *insn)
{
    int condition = compare(jit, insn);
    EMIT(&jit->emit, 0x0f, (uint8_t)(0x90 | condition), 0xc0, 0x0f, 0xb6, 0xc0); /* setcc %al; movzbl %al,%eax */
    word_result(jit, insn);
}

static void jump_if(struct jit *jit, int condition, const struct wire_insn *jump)
{
    if (jump->op == WIRE_ENDZ)
        VEC_PUSH(&jit->exits, emit_jump_if(&jit->emit, condition ^ IF_NOT));
    else
        jit_lead_to(jit, emit_jump_if(&jit->emit, jump->op == WIRE_JZ ? condition ^ IF_NOT : condition), jump->j);
}

static void compare_and_jump(struct jit *jit, const struct wire_insn *insn, const struct wire_insn *jump)
{
    jump_if(jit, compare(jit, insn), jump);
}

static bool number_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    switch (insn->op) {
    case WIRE_MOVI:
        constant_pair(jit, (uint64_t)(int64_t)insn->i);
        result(jit, insn);
        return true;
    case WIRE_MOVL:
        constant_pair(jit, jit_data(jit, insn->j, 8));
        result(jit, insn);
        return true;
    case WIRE_MOV:
        load_first(jit, insn);
        result(jit, insn);
        return true;
    case WIRE_ADD:
        pair_b(jit, insn, 0x03, 0x13);
        return true;
    case WIRE_SUB:
        pair_b(jit, insn, 0x2b, 0x1b);
        return true;
    case WIRE_AND:
        pair_b(jit, insn, 0x23, 0x23);
        return true;
    case WIRE_OR:
        pair_b(jit, insn, 0x0b, 0x0b);
        return true;
    case WIRE_XOR:
        pair_b(jit, insn, 0x33, 0x33);
        return true;
    case WIRE_MUL:
        multiply(jit, insn);
        return true;
    case WIRE_SHL:
        shift_b(jit, insn, LEFT);
        return true;
    case WIRE_SHR:
        shift_b(jit, insn, RIGHT);
        return true;
    case WIRE_SAR:
        shift_b(jit, insn, RIGHT_SIGNED);
        return true;
    case WIRE_ADDI:
        pair_i(jit, insn, 0, 2);
        return true;
    case WIRE_ORI:
        pair_i(jit, insn, 1, 1);
        return true;
    case WIRE_ANDI:
        pair_i(jit, insn, 4, 4);
        return true;
    case WIRE_XORI:
        pair_i(jit, insn, 6, 6);
        return true;
    case WIRE_MULI:
        multiply_constant(jit, insn);
        return true;
    case WIRE_SHLI:
    case WIRE_SHRI:
    case WIRE_SARI:
        load_first(jit, insn);
        shift(jit, insn->op == WIRE_SHLI ? LEFT : insn->op == WIRE_SHRI ? RIGHT : RIGHT_SIGNED, (uint32_t)insn->i);
        result(jit, insn);
        return true;
    case WIRE_NEG:
        load_first(jit, insn);
        EMIT(emit, 0xf7, 0xd8, 0x83, 0xd2, 0x00, 0xf7, 0xda); /* neg %eax; adc $0,%edx; neg %edx */
        result(jit, insn);
        return true;
    case WIRE_NOT:
        load_first(jit, insn);
        EMIT(emit, 0xf7, 0xd0, 0xf7, 0xd2);
        result(jit, insn);
        return true;
    case WIRE_EXT:
        extend(jit, insn);
        return true;
    case WIRE_BITS:
        load_first(jit, insn);
        shift(jit, LEFT, 64u - insn->k - insn->h);
        shift(jit, insn->i ? RIGHT_SIGNED : RIGHT, 64u - insn->h);
        result(jit, insn);
        return true;
    case WIRE_BSWAP:
        swap_bytes(jit, insn);
        return true;
    case WIRE_EQ:
    case WIRE_NE:
    case WIRE_LTU:
    case WIRE_LTS:
    case WIRE_LEU:
    case WIRE_LES:
    case WIRE_EQI:
    case WIRE_NEI:
    case WIRE_LTUI:
    case WIRE_LTSI:
    case WIRE_GTUI:
    case WIRE_GTSI:
    case WIRE_LNOT:
        compare_to_number(jit, insn);
        return true;
    default:
        return false;
    }
}

/* ---- control ---- */

static bool control_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    switch (insn->op) {
    case WIRE_JMP:
        jit_lead_to(jit, emit_jump(emit), insn->j);
        return true;
    case WIRE_JZ:
    case WIRE_JNZ:
    case WIRE_ENDZ:
        load_first(jit, insn);
        op_rr(jit, 0x89, AX, CX);
        op_rr(jit, 0x09, DX, CX);
        jump_if(jit, IF_ZERO | IF_NOT, insn);
        return true;
    case WIRE_LOOP:
        op_sp(jit, 0x83, 5, FIRE(fuel)); /* subl $1: a borrow when there was none left */
        EMIT(emit, 1);
        jit_lead_to_error(jit, emit_jump_if(emit, IF_BELOW), WIRE_ERROR_FUEL, false);
        jit_lead_to(jit, emit_jump(emit), insn->j);
        return true;
    case WIRE_END:
        if (jit->at + 1 < jit->count)
            VEC_PUSH(&jit->exits, emit_jump(emit));
        return true;
    default:
        return false;
    }
}

/* ---- where it fired ---- */

/* As in 64-bit code. */
static void processor(struct jit *jit, int reg)
{
    if (jit_has_rdpid()) {
        EMIT(&jit->emit, 0xf3, 0x0f, 0xc7, (uint8_t)(0xf8 | reg));
        return;
    }
    emit_constant(&jit->emit, reg, 0x7b);
    op_rr(jit, 0x0f03, reg, reg); /* lsl */
}

/* ns_base + (low ticks * mult >> shift) + (high ticks * mult << (32 - shift)) */
static void nanoseconds(struct jit *jit, uint64_t since)
{
    struct emit *emit = &jit->emit;
    const struct wire_session *session = jit->process->session;
    uint64_t base = session->ns_base - since;
    EMIT(emit, 0x0f, 0x31); /* rdtsc */
    op_constant(jit, 5, AX, (uint32_t)session->tsc_base);
    op_constant(jit, 3, DX, (uint32_t)(session->tsc_base >> 32));
    op_rr(jit, 0x89, DX, CX);
    emit_constant(emit, DX, session->tsc_mult);
    op_rr(jit, 0xf7, 4, DX);
    shift(jit, RIGHT, session->tsc_shift);
    EMIT(emit, 0x52, 0x50); /* push %edx; push %eax */
    op_rr(jit, 0x89, CX, AX);
    emit_constant(emit, DX, session->tsc_mult);
    op_rr(jit, 0xf7, 4, DX);
    shift(jit, LEFT, 32 - session->tsc_shift);
    op_sp(jit, 0x03, AX, 0);
    op_sp(jit, 0x13, DX, 4);
    EMIT(emit, 0x83, 0xc4, 0x08); /* add $8,%esp */
    op_constant(jit, 0, AX, (uint32_t)base);
    op_constant(jit, 2, DX, (uint32_t)(base >> 32));
}

/* eax = the word at `offset` of the place's entry in the table that *`table_va` leads to. */
static void place_word(struct jit *jit, uint64_t table_va, uint32_t shift_count, int32_t offset)
{
    op_va(jit, 0x8b, AX, table_va, -1, 1);
    op_sp(jit, 0x8b, CX, jit->place_offset);
    op_rr(jit, 0xc1, 4, CX);
    EMIT(&jit->emit, (uint8_t)shift_count);
    emit_rm(&jit->emit, false, 0x8b, AX, &(struct emit_memory){AX, CX, 1, offset});
}

static void program_counter(struct jit *jit)
{
    place_word(jit, jit->process->process_va + offsetof(struct wire_process, place_pcs_va), 3, 0);
}

static bool context(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    const struct jit_process *process = jit->process;
    uint64_t places_va = process->process_va + offsetof(struct wire_process, places_va);
    switch (insn->i) {
    case WIRE_CTX_PID:
        op_va(jit, 0x8b, AX, process->process_va + offsetof(struct wire_process, pid), -1, 1);
        op_rr(jit, 0x85, AX, AX);
        jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO));
        break;
    case WIRE_CTX_TID:
        if (!process->tid_offset)
            return false;
        EMIT(emit, 0x65); /* %gs: */
        op_va(jit, 0x8b, AX, (uint32_t)process->tid_offset, -1, 1);
        break;
    case WIRE_CTX_CPU:
        processor(jit, AX);
        op_constant(jit, 4, AX, 0xfff);
        break;
    case WIRE_CTX_NSECS:
    case WIRE_CTX_ELAPSED:
        if (!process->session->tsc_mult)
            return false;
        nanoseconds(jit, insn->i == WIRE_CTX_ELAPSED ? process->session->start_ns : 0);
        result(jit, insn);
        return true;
    case WIRE_CTX_PLACE:
        op_sp(jit, 0x8b, AX, jit->place_offset);
        break;
    case WIRE_CTX_PC:
        program_counter(jit);
        break;
    case WIRE_CTX_ROW:
        place_word(jit, places_va, 4, offsetof(struct wire_place, row));
        break;
    case WIRE_CTX_FUNC:
        place_word(jit, places_va, 4, offsetof(struct wire_place, func));
        break;
    case WIRE_CTX_PROBE:
        place_word(jit, places_va, 4, offsetof(struct wire_place, probe));
        break;
    case WIRE_CTX_SP:
        op_sp(jit, 0x8d, AX, jit->sp_offset);
        break;
    case WIRE_CTX_RETURN:
        op_sp(jit, 0x8b, AX, jit->sp_offset);
        break;
    case WIRE_CTX_MODEL:
        emit_constant(emit, AX, 32);
        break;
    default:
        return false;
    }
    word_result(jit, insn);
    return true;
}

static void machine_register(struct jit *jit, const struct wire_insn *insn)
{
    if (insn->i == WIRE_REG32_SP) {
        op_sp(jit, 0x8d, AX, jit->sp_offset);
    } else if (insn->i == WIRE_REG32_IP) {
        program_counter(jit);
    } else if (insn->i == WIRE_REG32_FLAGS) {
        jit->whole_flags = true;
        op_sp(jit, 0x8b, AX, jit->flags_offset);
    } else if (jit->saved >> insn->i & 1) { /* both number registers in the same way */
        op_sp(jit, 0x8b, AX, jit_saved_offset(jit, insn->i));
    } else {
        op_rr(jit, 0x89, insn->i, AX);
    }
    word_result(jit, insn);
}

static void argument(struct jit *jit, const struct wire_insn *insn)
{
    /* In the page of the stack pointer it can be read, beyond it perhaps not. */
    int32_t offset = 4 + 4 * insn->i;
    op_sp(jit, 0x8d, AX, jit->sp_offset);
    op_constant(jit, 4, AX, 0xfff);
    op_constant(jit, 7, AX, (uint32_t)(4096 - 4 - offset));
    size_t beyond = emit_jump_if(&jit->emit, IF_ABOVE);
    jit_lead_to_call(jit, beyond);
    op_sp(jit, 0x8b, AX, jit->sp_offset + offset);
    word_result(jit, insn);
}

static void call_op(struct jit *jit, const struct wire_insn *insn, uint32_t number);

static void vector_register(struct jit *jit, const struct wire_insn *insn)
{
    struct wire_insn convert = {.op = WIRE_F2D, .d = insn->d, .a = insn->d};
    if (insn->k == 8) {
        op_sp(jit, 0x660fd6, insn->i, jit->slot_offset[insn->d]); /* movq %xmm to memory */
        jit->cached = -1;
        return;
    }
    op_sp(jit, 0x660f7e, insn->i, jit->slot_offset[insn->d]); /* movd */
    jit->hot_calls = true;
    call_op(jit, &convert, jit->at);
    jit->cached = -1;
}

static bool place_op(struct jit *jit, const struct wire_insn *insn)
{
    switch (insn->op) {
    case WIRE_CTX:
        return context(jit, insn);
    case WIRE_ARG:
        argument(jit, insn);
        return true;
    case WIRE_REG:
        machine_register(jit, insn);
        return true;
    case WIRE_XMM:
        vector_register(jit, insn);
        return true;
    default:
        return false;
    }
}

/* ---- the frame ---- */

static struct emit_memory high_of(struct emit_memory memory)
{
    memory.displacement += 4;
    return memory;
}

static void load_extended(struct jit *jit, const struct wire_insn *insn, const struct emit_memory *memory)
{
    struct emit *emit = &jit->emit;
    uint32_t size = insn->k & ~(uint32_t)WIRE_SIGNED;
    bool is_signed = insn->k & WIRE_SIGNED;
    struct emit_memory high = high_of(*memory);
    if (size == 8)
        emit_rm(emit, false, 0x8b, DX, &high);
    emit_rm(emit, false, size >= 4 ? 0x8b : size == 2 ? (is_signed ? 0x0fbf : 0x0fb7) : (is_signed ? 0x0fbe : 0x0fb6), AX, memory);
    if (size < 8 && is_signed)
        EMIT(emit, 0x99);
    else if (size < 8)
        EMIT(emit, 0x31, 0xd2);
    result(jit, insn);
}

static void store_eax(struct jit *jit, const struct emit_memory *memory, uint32_t size)
{
    emit_rm(&jit->emit, false, size == 1 ? 0x88 : size == 2 ? 0x6689 : 0x89, AX, memory);
}

static bool move_op(struct jit *jit, const struct wire_insn *insn)
{
    uint32_t bytes = insn->op == WIRE_FZERO ? (uint32_t)insn->i : insn->h, piece;
    if (bytes > JIT_INLINE_BYTES)
        return false;
    struct emit_memory to = in_frame(jit, insn->j), from = to;
    from.displacement += insn->i - (int32_t)insn->j;
    if (insn->op == WIRE_FZERO)
        EMIT(&jit->emit, 0x31, 0xc0); /* xor %eax,%eax */
    for (uint32_t done = 0; done < bytes; done += piece) {
        piece = bytes - done >= 4 ? 4 : bytes - done >= 2 ? 2 : 1;
        if (insn->op == WIRE_FCPY)
            emit_rm(&jit->emit, false, piece == 4 ? 0x8b : piece == 2 ? 0x0fb7 : 0x0fb6, AX, &from);
        else if (insn->op == WIRE_FDATA)
            emit_constant(&jit->emit, AX, jit_data(jit, (uint32_t)insn->i + done, piece));
        store_eax(jit, &to, piece);
        from.displacement += (int32_t)piece;
        to.displacement += (int32_t)piece;
    }
    jit->cached = -1;
    return true;
}

static bool frame_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit_memory memory, high;
    switch (insn->op) {
    case WIRE_FLD:
        memory = in_frame(jit, insn->j);
        load_extended(jit, insn, &memory);
        return true;
    case WIRE_FST:
        load_first(jit, insn);
        memory = in_frame(jit, insn->j);
        high = high_of(memory);
        store_eax(jit, &memory, insn->k);
        if (insn->k == 8)
            emit_rm(&jit->emit, false, 0x89, DX, &high);
        return true;
    case WIRE_FLDX:
        load_first(jit, insn);
        op_rr(jit, 0x85, DX, DX);
        jit_lead_to_error(jit, emit_jump_if(&jit->emit, IF_ZERO | IF_NOT), WIRE_ERROR_BOUNDS, true);
        op_constant(jit, 7, AX, (uint32_t)insn->i - (insn->k & ~(uint32_t)WIRE_SIGNED));
        jit_lead_to_error(jit, emit_jump_if(&jit->emit, IF_ABOVE), WIRE_ERROR_BOUNDS, true);
        memory = in_frame(jit, insn->j);
        memory.index = AX;
        load_extended(jit, insn, &memory);
        return true;
    case WIRE_FCPY:
    case WIRE_FZERO:
    case WIRE_FDATA:
        return move_op(jit, insn);
    default:
        return false;
    }
}

/* ---- maps without a key ---- */

/* eax = the slot of the value in edx:eax. */
static void hist_slot(struct jit *jit, const struct wire_map_type *type)
{
    struct emit *emit = &jit->emit;
    size_t negative = 0, low, zero, done, done_low, done_zero = 0;
    op_rr(jit, 0x85, DX, DX);
    if (type->is_signed)
        negative = emit_jump_if(emit, IF_SIGN);
    low = emit_jump_if(emit, IF_ZERO);
    op_rr(jit, 0x0fbd, AX, DX);   /* bsr */
    EMIT(emit, 0x83, 0xc0, 0x22); /* add $34,%eax */
    done = emit_jump(emit);
    emit_patch(emit, low, emit->code.n);
    op_rr(jit, 0x0fbd, AX, AX);
    zero = emit_jump_if(emit, IF_ZERO);
    EMIT(emit, 0x83, 0xc0, 0x02); /* add $2,%eax */
    done_low = emit_jump(emit);
    emit_patch(emit, zero, emit->code.n);
    emit_constant(emit, AX, 1);
    if (type->is_signed) {
        done_zero = emit_jump(emit);
        emit_patch(emit, negative, emit->code.n);
        EMIT(emit, 0x31, 0xc0);
        emit_patch(emit, done_zero, emit->code.n);
    }
    emit_patch(emit, done, emit->code.n);
    emit_patch(emit, done_low, emit->code.n);
}

/* The word at `va`, and with carry the one above it: each change is whole in the end, whoever else makes others. */
static void locked_increment(struct jit *jit, uint64_t va, int index)
{
    int scale = index == AX ? 8 : 1;
    struct emit_memory memory = {CX, index, scale, (int32_t)va}, high = high_of(memory);
    emit_rm(&jit->emit, false, 0xf083, 0, &memory); /* lock addl $1 */
    EMIT(&jit->emit, 1);
    emit_rm(&jit->emit, false, 0xf083, 2, &high); /* lock adcl $0 */
    EMIT(&jit->emit, 0);
}

static void locked_add(struct jit *jit, uint64_t va)
{
    struct emit_memory memory = {CX, -1, 1, (int32_t)va}, high = high_of(memory);
    emit_rm(&jit->emit, false, 0xf001, AX, &memory);
    emit_rm(&jit->emit, false, 0xf011, DX, &high);
}

static bool map_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    uint64_t node_va, value_va;
    const struct wire_map *map = insn->op == WIRE_MAGG ? jit_plain_map(jit, insn->h, &node_va) : NULL;
    if (!map)
        return false;
    uint32_t kind = map->type.kind;
    bool hist = kind == WIRE_MAP_HIST, counts = kind != WIRE_MAP_SUM, adds = !hist && kind != WIRE_MAP_COUNT;
    if (kind == WIRE_MAP_MIN || kind == WIRE_MAP_MAX || kind == WIRE_MAP_LHIST || (hist && map->type.param[0]))
        return false;
    value_va = node_va + sizeof(struct wire_node);
    op_va(jit, 0x83, 7, node_va + offsetof(struct wire_node, state), -1, 1); /* cmpl $LIVE: else it is left to eval_op() */
    EMIT(emit, WIRE_NODE_LIVE);
    jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO | IF_NOT));
    if (hist || adds)
        load_first(jit, insn);
    if (hist)
        hist_slot(jit, &map->type);
    if (map->shards == 1) {
        emit_constant(emit, CX, 0);
    } else {
        processor(jit, CX);
        op_constant(jit, 4, CX, map->shards - 1);
        op_rr(jit, 0x69, CX, CX); /* imul */
        emit_u32(emit, map->value_stride);
    }
    if (counts)
        locked_increment(jit, value_va, hist ? AX : -1);
    if (adds)
        locked_add(jit, value_va + (counts ? 8 : 0));
    jit->cached = -1;
    return true;
}

static bool op(struct jit *jit, const struct wire_insn *insn)
{
    jit->used |= 1u << CX | 1u << DX;
    return number_op(jit, insn) || control_op(jit, insn) || place_op(jit, insn) || frame_op(jit, insn) || map_op(jit, insn);
}

static bool takes_first(uint32_t number)
{
    switch (number) {
    case WIRE_JZ:
    case WIRE_JNZ:
    case WIRE_ENDZ:
    case WIRE_FST:
    case WIRE_FLDX:
        return true;
    case WIRE_DIVU:
    case WIRE_DIVS:
    case WIRE_MODU:
    case WIRE_MODS:
    case WIRE_LEU:
    case WIRE_LES:
    case WIRE_GTUI:
    case WIRE_GTSI:
        return false;
    }
    return number >= WIRE_MOV && number <= WIRE_BSWAP;
}

/* ---- calls and the ends ---- */

/* lea bytes(%esp),%esp: keeps the flags. */
static void move_sp(struct jit *jit, int32_t bytes)
{
    if (bytes)
        op_sp(jit, 0x8d, SP, bytes);
}

/* Writes what the agent needs of struct wire_fire, which is `above` bytes over the stack pointer. Uses eax. */
static void fill_fire(struct jit *jit, int32_t above)
{
    put_u32(jit, above + FIRE(session_va), (uint32_t)jit->process->session_va);
    put_u32(jit, above + FIRE(session_va) + 4, 0);
    put_u32(jit, above + FIRE(process_va), (uint32_t)jit->process->process_va);
    put_u32(jit, above + FIRE(process_va) + 4, 0);
    if (jit->frame_offset >= 0) {
        op_sp(jit, 0x8d, AX, above + jit->frame_offset);
        op_sp(jit, 0x89, AX, above + FIRE(frame_va));
        put_u32(jit, above + FIRE(frame_va) + 4, 0);
    }
    op_sp(jit, 0x8d, AX, above + jit->sp_offset);
    op_sp(jit, 0x89, AX, above + FIRE(sp));
    put_u32(jit, above + FIRE(sp) + 4, 0);
    op_sp(jit, 0x8b, AX, above + jit->place_offset);
    op_sp(jit, 0x89, AX, above + FIRE(place));
    put_u32(jit, above + FIRE(clause), jit->clause);
    put_u32(jit, above + FIRE(model), WIRE_ILP32);
    put_u32(jit, above + FIRE(speculation), 0);
    put_u32(jit, above + FIRE(pid), 0);
    put_u32(jit, above + FIRE(tid), 0);
}

/* Calls the agent's function with struct wire_fire, `above` bytes over the stack pointer, and with ecx and edx as a second argument. The
 * result is in edx:eax; ecx is lost. */
static void call_agent(struct jit *jit, int32_t above, uint64_t va)
{
    struct emit *emit = &jit->emit;
    op_sp(jit, 0x8d, AX, above);
    /* The old stack pointer is kept over the arguments: push, align, and with what is pushed below the sum is a multiple of 16. */
    EMIT(emit, 0x55, 0x89, 0xe5);                   /* push %ebp; mov %esp,%ebp */
    EMIT(emit, 0x83, 0xe4, 0xf0, 0x83, 0xec, 0x04); /* and $-16,%esp; sub $4,%esp */
    EMIT(emit, 0x52, 0x51, 0x50);                   /* push %edx; push %ecx; push %eax */
    emit_constant(emit, AX, va);
    EMIT(emit, 0xff, 0xd0, 0x89, 0xec, 0x5d); /* call *%eax; mov %ebp,%esp; pop %ebp */
}

static void prologue(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    for (int reg = 0; reg < 8; reg++)
        if (jit->saved >> reg & 1)
            EMIT(emit, (uint8_t)(0x50 | reg));
    if (jit->whole_flags)
        EMIT(emit, 0x9c);                     /* pushf */
    EMIT(emit, 0x9f, 0x0f, 0x90, 0xc0, 0x50); /* lahf; seto %al; push %eax */
    move_sp(jit, -jit->locals_bytes);
    if (jit->hot_calls)
        fill_fire(jit, 0);
    if (jit->loops)
        put_u32(jit, FIRE(fuel), WIRE_FUEL);
    if (jit->frame_offset < 0) {
        call_agent(jit, 0, jit->process->claim_va);
        op_sp(jit, 0x89, AX, FIRE(frame_va));
        op_sp(jit, 0x89, DX, FIRE(frame_va) + 4);
        op_rr(jit, 0x85, AX, AX);
        jit->no_frame = emit_jump_if(emit, IF_ZERO);
    }
}

static void epilogue(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    if (jit->frame_offset < 0) {
        op_sp(jit, 0x8b, CX, FIRE(frame_va));
        op_sp(jit, 0x8b, DX, FIRE(frame_va) + 4);
        call_agent(jit, 0, jit->process->release_va);
        emit_patch(emit, jit->no_frame, emit->code.n);
    }
    move_sp(jit, jit->locals_bytes);
    EMIT(emit, 0x58, 0x04, 0x7f, 0x9e); /* pop %eax; add $0x7f,%al: overflows exactly when al is 1; sahf */
    if (jit->whole_flags)
        move_sp(jit, 4);
    for (int reg = 7; reg >= 0; reg--)
        if (jit->saved >> reg & 1)
            EMIT(emit, (uint8_t)(0x58 | reg));
    EMIT(emit, 0xc3);
}

static void call_op(struct jit *jit, const struct wire_insn *insn, uint32_t number)
{
    struct emit *emit = &jit->emit;
    EMIT(emit, 0xb9); /* mov $...,%ecx */
    emit_u32(emit, 0);
    jit_refer(jit, emit->code.n - 4, insn);
    put_u32(jit, FIRE(error_insn), number);
    EMIT(emit, 0xe8);
    emit_u32(emit, 0);
    VEC_PUSH(&jit->outs, emit->code.n - 4);
}

static void cold(struct jit *jit, const struct jit_cold *code)
{
    struct emit *emit = &jit->emit;
    const struct wire_insn *insn = &jit->insns[code->insn];
    if (!code->error) {
        call_op(jit, insn, code->insn);
        /* What comes next may take the result from the accumulator; where there is none this is just some virtual register. */
        load_pair(jit, insn->d);
        emit_patch(emit, emit_jump(emit), code->back);
        return;
    }
    put_u32(jit, FIRE(error), code->error);
    put_u32(jit, FIRE(error_insn), code->insn);
    if (!code->has_value)
        EMIT(emit, 0x31, 0xc0, 0x31, 0xd2);
    op_sp(jit, 0x89, AX, FIRE(error_value));
    op_sp(jit, 0x89, DX, FIRE(error_value) + 4);
    VEC_PUSH(&jit->errors, emit_jump(emit));
}

static void subroutines(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    for (size_t i = 0; i < jit->outs.n; i++)
        emit_patch(emit, jit->outs.at[i], emit->code.n);
    if (!jit->hot_calls)
        fill_fire(jit, 4);
    call_agent(jit, 4, jit->process->op_va);
    op_rr(jit, 0x85, AX, AX);
    size_t failed = emit_jump_if(emit, IF_ZERO | IF_NOT);
    EMIT(emit, 0xc3);
    emit_patch(emit, failed, emit->code.n);
    move_sp(jit, 4);
    for (size_t i = 0; i < jit->errors.n; i++)
        emit_patch(emit, jit->errors.at[i], emit->code.n);
    if (!jit->hot_calls)
        fill_fire(jit, 0);
    call_agent(jit, 0, jit->process->error_va);
    emit_patch(emit, emit_jump(emit), jit->exit_position);
}

static void refer(struct jit *jit, size_t where, size_t to)
{
    uint32_t va = (uint32_t)(jit->va + to);
    for (int i = 0; i < 4; i++)
        jit->emit.code.at[where + (size_t)i] = (uint8_t)(va >> 8 * i);
}

const struct jit_arch jit_i386 = {
    .caller_saved = 1u << AX | 1u << CX | 1u << DX,
    .word_bytes = 4,
    .skipped_bytes = 4,
    .numbers = {WIRE_REG32_AX, WIRE_REG32_CX, WIRE_REG32_DX, WIRE_REG32_BX, WIRE_REG32_SP, WIRE_REG32_BP, WIRE_REG32_SI, WIRE_REG32_DI},
    .prologue = prologue,
    .op = op,
    .call_op = call_op,
    .compare_and_jump = compare_and_jump,
    .epilogue = epilogue,
    .cold = cold,
    .subroutines = subroutines,
    .refer = refer,
    .takes_first = takes_first,
};
