/* Numbers: 64-bit code. */
#include "jit/x86_64.h"

static void op_b(struct jit *jit, const struct wire_insn *insn, uint32_t opcode)
{
    jit64_load_first(jit, insn);
    jit64_op_sp(jit, true, opcode, AX, jit->slot_offset[insn->b]);
    jit64_result(jit, insn);
}

/* Operation with the constant: 81 /extension. */
static void op_i(struct jit *jit, const struct wire_insn *insn, int extension)
{
    jit64_load_first(jit, insn);
    emit_rr(&jit->emit, true, 0x81, extension, AX);
    emit_u32(&jit->emit, (uint32_t)insn->i);
    jit64_result(jit, insn);
}

/* d3 /extension: by cl. */
static void shift_b(struct jit *jit, const struct wire_insn *insn, int extension)
{
    jit64_load_first(jit, insn);
    jit64_load(jit, CX, insn->b);
    emit_rr(&jit->emit, true, 0xd3, extension, AX);
    jit64_result(jit, insn);
}

void jit64_shift(struct jit *jit, int extension, uint32_t count)
{
    if (!count)
        return;
    emit_rr(&jit->emit, true, 0xc1, extension, AX);
    EMIT(&jit->emit, (uint8_t)count);
}

static void divide(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    bool is_signed = insn->op == WIRE_DIVS || insn->op == WIRE_MODS, rest = insn->op == WIRE_MODU || insn->op == WIRE_MODS;
    size_t minus_one = 0, done = 0;
    jit64_load_first(jit, insn);
    jit64_load(jit, CX, insn->b);
    jit64_use(jit, DX);
    emit_rr(emit, true, 0x85, CX, CX);
    jit_lead_to_error(jit, emit_jump_if(emit, IF_ZERO), WIRE_ERROR_DIVIDE, false);
    if (is_signed) {
        EMIT(emit, 0x48, 0x83, 0xf9, 0xff); /* cmp $-1,%rcx: the processor refuses the least number / -1 */
        minus_one = emit_jump_if(emit, IF_ZERO);
        EMIT(emit, 0x48, 0x99); /* cqo */
    } else {
        EMIT(emit, 0x31, 0xd2); /* xor %edx,%edx */
    }
    emit_rr(emit, true, 0xf7, is_signed ? 7 : 6, CX);
    if (rest)
        emit_rr(emit, true, 0x89, DX, AX);
    if (is_signed) {
        done = emit_jump(emit);
        emit_patch(emit, minus_one, emit->code.n);
        if (rest)
            EMIT(emit, 0x31, 0xc0); /* xor %eax,%eax */
        else
            emit_rr(emit, true, 0xf7, 3, AX); /* neg */
        emit_patch(emit, done, emit->code.n);
    }
    jit64_result(jit, insn);
}

/* The low bytes of rax, extended. */
static void extend(struct emit *emit, uint32_t code)
{
    switch (code) {
    case 1:
        EMIT(emit, 0x0f, 0xb6, 0xc0);
        break;
    case 2:
        EMIT(emit, 0x0f, 0xb7, 0xc0);
        break;
    case 4:
        EMIT(emit, 0x89, 0xc0);
        break;
    case 1 | WIRE_SIGNED:
        EMIT(emit, 0x48, 0x0f, 0xbe, 0xc0);
        break;
    case 2 | WIRE_SIGNED:
        EMIT(emit, 0x48, 0x0f, 0xbf, 0xc0);
        break;
    case 4 | WIRE_SIGNED:
        EMIT(emit, 0x48, 0x63, 0xc0);
        break;
    }
}

static void swap_bytes(struct emit *emit, uint32_t size)
{
    if (size == 2)
        EMIT(emit, 0x66, 0xc1, 0xc8, 0x08, 0x0f, 0xb7, 0xc0); /* ror $8,%ax; movzwl %ax,%eax */
    else if (size == 4)
        EMIT(emit, 0x0f, 0xc8);
    else
        EMIT(emit, 0x48, 0x0f, 0xc8);
}

/* Sets flags. Returns the condition under which the comparison holds. */
static int compare(struct jit *jit, const struct wire_insn *insn)
{
    static const struct {
        uint8_t op, condition;
        bool constant;
    } all[] = {{WIRE_EQ, IF_ZERO, false},  {WIRE_NE, IF_ZERO | IF_NOT, false},   {WIRE_LTU, IF_BELOW, false},
               {WIRE_LTS, IF_LESS, false}, {WIRE_LEU, IF_ABOVE ^ IF_NOT, false}, {WIRE_LES, IF_GREATER ^ IF_NOT, false},
               {WIRE_EQI, IF_ZERO, true},  {WIRE_NEI, IF_ZERO | IF_NOT, true},   {WIRE_LTUI, IF_BELOW, true},
               {WIRE_LTSI, IF_LESS, true}, {WIRE_GTUI, IF_ABOVE, true},          {WIRE_GTSI, IF_GREATER, true}};
    jit64_load_first(jit, insn);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].op != insn->op)
            continue;
        if (all[i].constant) {
            emit_rr(&jit->emit, true, 0x81, 7, AX);
            emit_u32(&jit->emit, (uint32_t)insn->i);
        } else {
            jit64_op_sp(jit, true, 0x3b, AX, jit->slot_offset[insn->b]);
        }
        return all[i].condition;
    }
    emit_rr(&jit->emit, true, 0x85, AX, AX); /* LNOT */
    return IF_ZERO;
}

static void compare_to_number(struct jit *jit, const struct wire_insn *insn)
{
    int condition = compare(jit, insn);
    EMIT(&jit->emit, 0x0f, (uint8_t)(0x90 | condition), 0xc0, 0x0f, 0xb6, 0xc0); /* setcc %al; movzbl %al,%eax */
    jit64_result(jit, insn);
}

void jit64_compare_and_jump(struct jit *jit, const struct wire_insn *insn, const struct wire_insn *jump)
{
    jit64_jump_if(jit, compare(jit, insn), jump);
}

bool jit64_number_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    switch (insn->op) {
    case WIRE_MOVI:
        emit_constant(emit, AX, (uint64_t)(int64_t)insn->i);
        break;
    case WIRE_MOVL:
        emit_constant(emit, AX, jit_data(jit, insn->j, 8));
        break;
    case WIRE_MOV:
        jit64_load_first(jit, insn);
        break;
    case WIRE_ADD:
        op_b(jit, insn, 0x03);
        return true;
    case WIRE_SUB:
        op_b(jit, insn, 0x2b);
        return true;
    case WIRE_MUL:
        op_b(jit, insn, 0x0faf);
        return true;
    case WIRE_AND:
        op_b(jit, insn, 0x23);
        return true;
    case WIRE_OR:
        op_b(jit, insn, 0x0b);
        return true;
    case WIRE_XOR:
        op_b(jit, insn, 0x33);
        return true;
    case WIRE_SHL:
        shift_b(jit, insn, 4);
        return true;
    case WIRE_SHR:
        shift_b(jit, insn, 5);
        return true;
    case WIRE_SAR:
        shift_b(jit, insn, 7);
        return true;
    case WIRE_DIVU:
    case WIRE_DIVS:
    case WIRE_MODU:
    case WIRE_MODS:
        divide(jit, insn);
        return true;
    case WIRE_ADDI:
        op_i(jit, insn, 0);
        return true;
    case WIRE_ORI:
        op_i(jit, insn, 1);
        return true;
    case WIRE_ANDI:
        op_i(jit, insn, 4);
        return true;
    case WIRE_XORI:
        op_i(jit, insn, 6);
        return true;
    case WIRE_MULI:
        jit64_load_first(jit, insn);
        emit_rr(emit, true, 0x69, AX, AX);
        emit_u32(emit, (uint32_t)insn->i);
        break;
    case WIRE_SHLI:
        jit64_load_first(jit, insn);
        jit64_shift(jit, 4, (uint32_t)insn->i);
        break;
    case WIRE_SHRI:
        jit64_load_first(jit, insn);
        jit64_shift(jit, 5, (uint32_t)insn->i);
        break;
    case WIRE_SARI:
        jit64_load_first(jit, insn);
        jit64_shift(jit, 7, (uint32_t)insn->i);
        break;
    case WIRE_NEG:
    case WIRE_NOT:
        jit64_load_first(jit, insn);
        emit_rr(emit, true, 0xf7, insn->op == WIRE_NEG ? 3 : 2, AX);
        break;
    case WIRE_EXT:
        jit64_load_first(jit, insn);
        extend(emit, insn->k);
        break;
    case WIRE_BITS:
        jit64_load_first(jit, insn);
        jit64_shift(jit, 4, 64u - insn->k - insn->h);
        jit64_shift(jit, insn->i ? 7 : 5, 64u - insn->h);
        break;
    case WIRE_BSWAP:
        jit64_load_first(jit, insn);
        swap_bytes(emit, insn->k);
        break;
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
    jit64_result(jit, insn);
    return true;
}
