/* Numbers: 32-bit code. */
#include "jit/i386.h"

/* Operation on the low words, then on the high ones. */
static void pair_b(struct jit *jit, const struct wire_insn *insn, uint32_t low, uint32_t high)
{
    jit32_load_first(jit, insn);
    jit32_op_sp(jit, low, AX, jit->slot_offset[insn->b]);
    jit32_op_sp(jit, high, DX, jit->slot_offset[insn->b] + 4);
    jit32_result(jit, insn);
}

static void pair_i(struct jit *jit, const struct wire_insn *insn, int low, int high)
{
    jit32_load_first(jit, insn);
    jit32_op_constant(jit, low, AX, (uint32_t)insn->i);
    jit32_op_constant(jit, high, DX, insn->i < 0 ? UINT32_MAX : 0);
    jit32_result(jit, insn);
}

static void multiply(struct jit *jit, const struct wire_insn *insn)
{
    jit32_load_first(jit, insn);
    jit32_op_rr(jit, 0x89, DX, CX);
    jit32_op_sp(jit, 0x0faf, CX, jit->slot_offset[insn->b]); /* high a * low b */
    jit32_op_sp(jit, 0x8b, DX, jit->slot_offset[insn->b] + 4);
    jit32_op_rr(jit, 0x0faf, DX, AX); /* high b * low a */
    jit32_op_rr(jit, 0x01, DX, CX);
    jit32_op_sp(jit, 0xf7, 4, jit->slot_offset[insn->b]); /* mul */
    jit32_op_rr(jit, 0x01, CX, DX);
    jit32_result(jit, insn);
}

static void multiply_constant(struct jit *jit, const struct wire_insn *insn)
{
    jit32_load_first(jit, insn);
    jit32_op_rr(jit, 0x69, CX, DX); /* imul $i,%edx,%ecx */
    emit_u32(&jit->emit, (uint32_t)insn->i);
    if (insn->i < 0)
        jit32_op_rr(jit, 0x29, AX, CX); /* the constant's high word is -1 */
    emit_constant(&jit->emit, DX, (uint32_t)insn->i);
    jit32_op_rr(jit, 0xf7, 4, DX);
    jit32_op_rr(jit, 0x01, CX, DX);
    jit32_result(jit, insn);
}

/* edx:eax by a constant. */
void jit32_shift(struct jit *jit, enum jit32_shift kind, uint32_t count)
{
    struct emit *emit = &jit->emit;
    int to = kind == LEFT ? DX : AX, from = kind == LEFT ? AX : DX, extension = kind == LEFT ? 4 : kind == RIGHT ? 5 : 7;
    if (!count)
        return;
    if (count < 32) {
        jit32_op_rr(jit, kind == LEFT ? 0x0fa4 : 0x0fac, from, to); /* shld, shrd */
        EMIT(emit, (uint8_t)count);
        jit32_op_rr(jit, 0xc1, extension, from);
        EMIT(emit, (uint8_t)count);
        return;
    }
    jit32_op_rr(jit, 0x89, from, to);
    if (count > 32) {
        jit32_op_rr(jit, 0xc1, extension, to);
        EMIT(emit, (uint8_t)(count - 32));
    }
    if (kind == RIGHT_SIGNED)
        EMIT(emit, 0xc1, 0xfa, 0x1f); /* sar $31,%edx */
    else
        jit32_op_rr(jit, 0x31, from, from);
}

static void shift_b(struct jit *jit, const struct wire_insn *insn, enum jit32_shift kind)
{
    struct emit *emit = &jit->emit;
    int to = kind == LEFT ? DX : AX, from = kind == LEFT ? AX : DX, extension = kind == LEFT ? 4 : kind == RIGHT ? 5 : 7;
    jit32_load_first(jit, insn);
    jit32_op_sp(jit, 0x8b, CX, jit->slot_offset[insn->b]);
    jit32_op_rr(jit, kind == LEFT ? 0x0fa5 : 0x0fad, from, to); /* shld, shrd by cl, of which they take 5 bits */
    jit32_op_rr(jit, 0xd3, extension, from);
    EMIT(emit, 0xf6, 0xc1, 0x20); /* test $32,%cl */
    size_t small = emit_jump_if(emit, IF_ZERO);
    jit32_op_rr(jit, 0x89, from, to);
    if (kind == RIGHT_SIGNED)
        EMIT(emit, 0xc1, 0xfa, 0x1f);
    else
        jit32_op_rr(jit, 0x31, from, from);
    emit_patch(emit, small, emit->code.n);
    jit32_result(jit, insn);
}

static void extend(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    uint32_t size = insn->k & ~(uint32_t)WIRE_SIGNED;
    bool is_signed = insn->k & WIRE_SIGNED;
    jit32_load_first(jit, insn);
    if (size == 1)
        jit32_op_rr(jit, is_signed ? 0x0fbe : 0x0fb6, AX, AX);
    else if (size == 2)
        jit32_op_rr(jit, is_signed ? 0x0fbf : 0x0fb7, AX, AX);
    if (size < 8 && is_signed)
        EMIT(emit, 0x99); /* cltd */
    else if (size < 8)
        EMIT(emit, 0x31, 0xd2);
    jit32_result(jit, insn);
}

static void swap_bytes(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    jit32_load_first(jit, insn);
    if (insn->k == 8)
        EMIT(emit, 0x0f, 0xc8, 0x0f, 0xca, 0x92); /* bswap both; xchg %eax,%edx */
    else if (insn->k == 4)
        EMIT(emit, 0x0f, 0xc8, 0x31, 0xd2);
    else
        EMIT(emit, 0x66, 0xc1, 0xc8, 0x08, 0x0f, 0xb7, 0xc0, 0x31, 0xd2); /* ror $8,%ax; movzwl %ax,%eax; xor %edx,%edx */
    jit32_result(jit, insn);
}

/* Sets flags and loses the accumulator. Returns the condition under which the comparison holds. */
static int compare(struct jit *jit, const struct wire_insn *insn)
{
    uint64_t constant = (uint64_t)(int64_t)insn->i;
    int32_t a = jit->slot_offset[insn->a], b = jit->slot_offset[insn->b];
    switch (insn->op) {
    case WIRE_LEU: /* not b < a */
    case WIRE_LES:
        jit32_load_pair(jit, insn->b);
        break;
    case WIRE_GTUI: /* i < a */
    case WIRE_GTSI:
        jit32_constant_pair(jit, constant);
        break;
    default:
        jit32_load_first(jit, insn);
    }
    jit->cached = -1;
    switch (insn->op) {
    case WIRE_EQ:
    case WIRE_NE:
        jit32_op_sp(jit, 0x33, AX, b);
        jit32_op_sp(jit, 0x33, DX, b + 4);
        break;
    case WIRE_EQI:
    case WIRE_NEI:
        jit32_op_constant(jit, 6, AX, (uint32_t)constant);
        jit32_op_constant(jit, 6, DX, (uint32_t)(constant >> 32));
        break;
    case WIRE_LTU:
    case WIRE_LTS:
        jit32_op_sp(jit, 0x3b, AX, b);
        jit32_op_sp(jit, 0x1b, DX, b + 4);
        return insn->op == WIRE_LTU ? IF_BELOW : IF_LESS;
    case WIRE_LTUI:
    case WIRE_LTSI:
        jit32_op_constant(jit, 7, AX, (uint32_t)constant);
        jit32_op_constant(jit, 3, DX, (uint32_t)(constant >> 32));
        return insn->op == WIRE_LTUI ? IF_BELOW : IF_LESS;
    case WIRE_LEU:
    case WIRE_LES:
        jit32_op_sp(jit, 0x3b, AX, a);
        jit32_op_sp(jit, 0x1b, DX, a + 4);
        return (insn->op == WIRE_LEU ? IF_BELOW : IF_LESS) | IF_NOT;
    case WIRE_GTUI:
    case WIRE_GTSI:
        jit32_op_sp(jit, 0x3b, AX, a);
        jit32_op_sp(jit, 0x1b, DX, a + 4);
        return insn->op == WIRE_GTUI ? IF_BELOW : IF_LESS;
    }
    jit32_op_rr(jit, 0x09, DX, AX);
    return insn->op == WIRE_NE || insn->op == WIRE_NEI ? IF_ZERO | IF_NOT : IF_ZERO;
}

static void compare_to_number(struct jit *jit, const struct wire_insn *insn)
{
    int condition = compare(jit, insn);
    EMIT(&jit->emit, 0x0f, (uint8_t)(0x90 | condition), 0xc0, 0x0f, 0xb6, 0xc0); /* setcc %al; movzbl %al,%eax */
    jit32_word_result(jit, insn);
}

void jit32_compare_and_jump(struct jit *jit, const struct wire_insn *insn, const struct wire_insn *jump)
{
    jit32_jump_if(jit, compare(jit, insn), jump);
}

bool jit32_number_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    switch (insn->op) {
    case WIRE_MOVI:
        jit32_constant_pair(jit, (uint64_t)(int64_t)insn->i);
        jit32_result(jit, insn);
        return true;
    case WIRE_MOVL:
        jit32_constant_pair(jit, jit_data(jit, insn->j, 8));
        jit32_result(jit, insn);
        return true;
    case WIRE_MOV:
        jit32_load_first(jit, insn);
        jit32_result(jit, insn);
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
        jit32_load_first(jit, insn);
        jit32_shift(jit, insn->op == WIRE_SHLI ? LEFT : insn->op == WIRE_SHRI ? RIGHT : RIGHT_SIGNED, (uint32_t)insn->i);
        jit32_result(jit, insn);
        return true;
    case WIRE_NEG:
        jit32_load_first(jit, insn);
        EMIT(emit, 0xf7, 0xd8, 0x83, 0xd2, 0x00, 0xf7, 0xda); /* neg %eax; adc $0,%edx; neg %edx */
        jit32_result(jit, insn);
        return true;
    case WIRE_NOT:
        jit32_load_first(jit, insn);
        EMIT(emit, 0xf7, 0xd0, 0xf7, 0xd2);
        jit32_result(jit, insn);
        return true;
    case WIRE_EXT:
        extend(jit, insn);
        return true;
    case WIRE_BITS:
        jit32_load_first(jit, insn);
        jit32_shift(jit, LEFT, 64u - insn->k - insn->h);
        jit32_shift(jit, insn->i ? RIGHT_SIGNED : RIGHT, 64u - insn->h);
        jit32_result(jit, insn);
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
