/* Code for 64-bit processes. The accumulator is rax; rcx and rdx are used besides. rdi, rsi and r8 to r11 are used by calls only. */
#include "jit/internal.h"

#define FIRE(field) ((int32_t)offsetof(struct wire_fire, field))

/* ---- operands ---- */

static void use(struct jit *jit, int reg)
{
    jit->used |= 1u << reg;
}

static struct emit_memory at_sp(int32_t offset)
{
    return (struct emit_memory){SP, -1, 1, offset};
}

static void op_sp(struct jit *jit, bool w, uint32_t opcode, int reg, int32_t offset)
{
    struct emit_memory memory = at_sp(offset);
    emit_rm(&jit->emit, w, opcode, reg, &memory);
}

static void op_at(struct jit *jit, bool w, uint32_t opcode, int reg, int base, int index, int scale, int32_t offset)
{
    emit_rm(&jit->emit, w, opcode, reg, &(struct emit_memory){base, index, scale, offset});
}

/* movl $value,offset(%rsp) */
static void put_u32(struct jit *jit, int32_t offset, uint32_t value)
{
    op_sp(jit, false, 0xc7, 0, offset);
    emit_u32(&jit->emit, value);
}

static void load(struct jit *jit, int reg, uint32_t virtual_reg)
{
    use(jit, reg);
    op_sp(jit, true, 0x8b, reg, jit->slot_offset[virtual_reg]);
}

/* The operation's a into rax. */
static void load_first(struct jit *jit, const struct wire_insn *insn)
{
    if (jit->cached != insn->a)
        load(jit, AX, insn->a);
    jit->cached = insn->a;
}

/* rax is the operation's result. */
static void result(struct jit *jit, const struct wire_insn *insn)
{
    if (jit_must_store(jit))
        op_sp(jit, true, 0x89, AX, jit->slot_offset[insn->d]);
    jit->cached = insn->d;
}

/* Bytes of the frame; rcx leads to one that is in the pool. */
static struct emit_memory in_frame(struct jit *jit, int64_t offset)
{
    if (jit->frame_offset >= 0)
        return at_sp((int32_t)(jit->frame_offset + offset));
    use(jit, CX);
    op_sp(jit, true, 0x8b, CX, FIRE(frame_va));
    return (struct emit_memory){CX, -1, 1, (int32_t)offset};
}

/* ---- numbers ---- */

static void op_b(struct jit *jit, const struct wire_insn *insn, uint32_t opcode)
{
    load_first(jit, insn);
    op_sp(jit, true, opcode, AX, jit->slot_offset[insn->b]);
    result(jit, insn);
}

/* Operation with the constant: 81 /extension. */
static void op_i(struct jit *jit, const struct wire_insn *insn, int extension)
{
    load_first(jit, insn);
    emit_rr(&jit->emit, true, 0x81, extension, AX);
    emit_u32(&jit->emit, (uint32_t)insn->i);
    result(jit, insn);
}

/* d3 /extension: by cl. */
static void shift_b(struct jit *jit, const struct wire_insn *insn, int extension)
{
    load_first(jit, insn);
    load(jit, CX, insn->b);
    emit_rr(&jit->emit, true, 0xd3, extension, AX);
    result(jit, insn);
}

static void shift(struct jit *jit, int extension, uint32_t count)
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
    load_first(jit, insn);
    load(jit, CX, insn->b);
    use(jit, DX);
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
    result(jit, insn);
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
    load_first(jit, insn);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].op != insn->op)
            continue;
        if (all[i].constant) {
            emit_rr(&jit->emit, true, 0x81, 7, AX);
            emit_u32(&jit->emit, (uint32_t)insn->i);
        } else {
            op_sp(jit, true, 0x3b, AX, jit->slot_offset[insn->b]);
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
    result(jit, insn);
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
        emit_constant(emit, AX, (uint64_t)(int64_t)insn->i);
        break;
    case WIRE_MOVL:
        emit_constant(emit, AX, jit_data(jit, insn->j, 8));
        break;
    case WIRE_MOV:
        load_first(jit, insn);
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
        load_first(jit, insn);
        emit_rr(emit, true, 0x69, AX, AX);
        emit_u32(emit, (uint32_t)insn->i);
        break;
    case WIRE_SHLI:
        load_first(jit, insn);
        shift(jit, 4, (uint32_t)insn->i);
        break;
    case WIRE_SHRI:
        load_first(jit, insn);
        shift(jit, 5, (uint32_t)insn->i);
        break;
    case WIRE_SARI:
        load_first(jit, insn);
        shift(jit, 7, (uint32_t)insn->i);
        break;
    case WIRE_NEG:
    case WIRE_NOT:
        load_first(jit, insn);
        emit_rr(emit, true, 0xf7, insn->op == WIRE_NEG ? 3 : 2, AX);
        break;
    case WIRE_EXT:
        load_first(jit, insn);
        extend(emit, insn->k);
        break;
    case WIRE_BITS:
        load_first(jit, insn);
        shift(jit, 4, 64u - insn->k - insn->h);
        shift(jit, insn->i ? 7 : 5, 64u - insn->h);
        break;
    case WIRE_BSWAP:
        load_first(jit, insn);
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
    result(jit, insn);
    return true;
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
        emit_rr(emit, true, 0x85, AX, AX);
        jump_if(jit, IF_ZERO | IF_NOT, insn);
        return true;
    case WIRE_LOOP:
        op_sp(jit, false, 0x83, 5, FIRE(fuel)); /* subl $1: a borrow when there was none left */
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

/* The processor's number, and what the kernel keeps above its 12 bits, into the register: rdpid, or without it the limit of the segment
 * that holds the same. */
static void processor(struct jit *jit, int reg)
{
    use(jit, reg);
    if (jit_has_rdpid()) {
        EMIT(&jit->emit, 0xf3, 0x0f, 0xc7, (uint8_t)(0xf8 | reg));
        return;
    }
    emit_constant(&jit->emit, reg, 0x7b);
    emit_rr(&jit->emit, false, 0x0f03, reg, reg); /* lsl */
}

static void nanoseconds(struct jit *jit, uint64_t since)
{
    struct emit *emit = &jit->emit;
    const struct wire_session *session = jit->process->session;
    use(jit, CX);
    use(jit, DX);
    EMIT(emit, 0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0); /* rdtsc; shl $32,%rdx; or %rdx,%rax */
    emit_constant(emit, CX, session->tsc_base);
    emit_rr(emit, true, 0x29, CX, AX);
    emit_constant(emit, CX, session->tsc_mult);
    emit_rr(emit, true, 0xf7, 4, CX); /* mul %rcx */
    if (session->tsc_shift) {
        emit_rr(emit, true, 0x0fac, DX, AX); /* shrd $shift,%rdx,%rax */
        EMIT(emit, (uint8_t)session->tsc_shift);
    }
    emit_constant(emit, CX, session->ns_base - since);
    emit_rr(emit, true, 0x01, CX, AX);
}

/* rax = the entry of the place in the table that *`table_va` leads to, entries of 1 << shift bytes, at `offset` in it. */
static void place_entry(struct jit *jit, uint64_t table_va, uint32_t shift_count, bool w, int32_t offset)
{
    struct emit *emit = &jit->emit;
    use(jit, CX);
    emit_constant(emit, AX, table_va);
    op_at(jit, true, 0x8b, AX, AX, -1, 1, 0);
    op_sp(jit, false, 0x8b, CX, jit->place_offset);
    emit_rr(emit, true, 0xc1, 4, CX);
    EMIT(emit, (uint8_t)shift_count);
    op_at(jit, w, 0x8b, AX, AX, CX, 1, offset);
}

static void program_counter(struct jit *jit)
{
    place_entry(jit, jit->process->process_va + offsetof(struct wire_process, place_pcs_va), 3, true, 0);
}

static bool context(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    const struct jit_process *process = jit->process;
    uint64_t places_va = process->process_va + offsetof(struct wire_process, places_va);
    switch (insn->i) {
    case WIRE_CTX_PID:
        emit_constant(emit, AX, process->process_va + offsetof(struct wire_process, pid));
        op_at(jit, false, 0x8b, AX, AX, -1, 1, 0);
        emit_rr(emit, false, 0x85, AX, AX);
        jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO));
        break;
    case WIRE_CTX_TID:
        use(jit, CX);
        emit_constant(emit, CX, process->process_va + offsetof(struct wire_process, tid_offset));
        op_at(jit, true, 0x63, CX, CX, -1, 1, 0); /* movslq (%rcx),%rcx */
        emit_rr(emit, false, 0x85, CX, CX);
        jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO));
        EMIT(emit, 0x64, 0x8b, 0x01); /* mov %fs:(%rcx),%eax */
        break;
    case WIRE_CTX_CPU:
        processor(jit, AX);
        EMIT(emit, 0x25, 0xff, 0x0f, 0x00, 0x00); /* and $0xfff,%eax */
        break;
    case WIRE_CTX_NSECS:
    case WIRE_CTX_ELAPSED:
        if (!process->session->tsc_mult)
            return false;
        nanoseconds(jit, insn->i == WIRE_CTX_ELAPSED ? process->session->start_ns : 0);
        break;
    case WIRE_CTX_PLACE:
        op_sp(jit, false, 0x8b, AX, jit->place_offset);
        break;
    case WIRE_CTX_PC:
        program_counter(jit);
        break;
    case WIRE_CTX_ROW:
        place_entry(jit, places_va, 4, false, offsetof(struct wire_place, row));
        break;
    case WIRE_CTX_FUNC:
        place_entry(jit, places_va, 4, false, offsetof(struct wire_place, func));
        break;
    case WIRE_CTX_PROBE:
        place_entry(jit, places_va, 4, false, offsetof(struct wire_place, probe));
        break;
    case WIRE_CTX_SP:
        op_sp(jit, true, 0x8d, AX, jit->sp_offset);
        break;
    case WIRE_CTX_RETURN:
        op_sp(jit, true, 0x8b, AX, jit->sp_offset);
        break;
    case WIRE_CTX_MODEL:
        emit_constant(emit, AX, 64);
        break;
    default:
        return false;
    }
    result(jit, insn);
    return true;
}

static void machine_register(struct jit *jit, const struct wire_insn *insn, uint32_t number)
{
    static const uint8_t registers[] = {AX, DX, CX, BX, SI, DI, BP, SP, R8, R9, R10, R11, R12, R13, R14, R15};
    if (number == WIRE_REG64_SP) {
        op_sp(jit, true, 0x8d, AX, jit->sp_offset);
    } else if (number == WIRE_REG64_IP) {
        program_counter(jit);
    } else if (number == WIRE_REG64_FLAGS) {
        jit->whole_flags = true;
        op_sp(jit, true, 0x8b, AX, jit->flags_offset);
    } else if (jit->saved >> registers[number] & 1) {
        op_sp(jit, true, 0x8b, AX, jit_saved_offset(jit, registers[number]));
    } else {
        emit_rr(&jit->emit, true, 0x89, registers[number], AX);
    }
    result(jit, insn);
}

static void argument(struct jit *jit, const struct wire_insn *insn)
{
    static const uint8_t in_register[] = {WIRE_REG64_DI, WIRE_REG64_SI, WIRE_REG64_DX, WIRE_REG64_CX, WIRE_REG64_R8, WIRE_REG64_R9};
    if ((uint32_t)insn->i < sizeof in_register) {
        machine_register(jit, insn, in_register[insn->i]);
        return;
    }
    /* In the page of the stack pointer it can be read, beyond it perhaps not. */
    int32_t offset = 8 + 8 * (insn->i - 6);
    op_sp(jit, false, 0x8d, AX, jit->sp_offset);
    EMIT(&jit->emit, 0x25, 0xff, 0x0f, 0x00, 0x00, 0x3d); /* and $0xfff,%eax; cmp $...,%eax */
    emit_u32(&jit->emit, (uint32_t)(4096 - 8 - offset));
    jit_lead_to_call(jit, emit_jump_if(&jit->emit, IF_ABOVE));
    op_sp(jit, true, 0x8b, AX, jit->sp_offset + offset);
    result(jit, insn);
}

static void call_op(struct jit *jit, const struct wire_insn *insn, uint32_t number);

static void vector_register(struct jit *jit, const struct wire_insn *insn)
{
    struct wire_insn convert = {.op = WIRE_F2D, .d = insn->d, .a = insn->d};
    emit_rr(&jit->emit, insn->k == 8, 0x660f7e, insn->i, AX); /* movq or movd %xmm,%rax */
    if (insn->k == 8) {
        result(jit, insn);
        return;
    }
    op_sp(jit, true, 0x89, AX, jit->slot_offset[insn->d]);
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
        machine_register(jit, insn, (uint32_t)insn->i);
        return true;
    case WIRE_XMM:
        vector_register(jit, insn);
        return true;
    default:
        return false;
    }
}

/* ---- the frame ---- */

static void load_extended(struct jit *jit, const struct emit_memory *memory, uint32_t code)
{
    struct emit *emit = &jit->emit;
    switch (code) {
    case 1:
        emit_rm(emit, false, 0x0fb6, AX, memory);
        break;
    case 2:
        emit_rm(emit, false, 0x0fb7, AX, memory);
        break;
    case 4:
        emit_rm(emit, false, 0x8b, AX, memory);
        break;
    case 1 | WIRE_SIGNED:
        emit_rm(emit, true, 0x0fbe, AX, memory);
        break;
    case 2 | WIRE_SIGNED:
        emit_rm(emit, true, 0x0fbf, AX, memory);
        break;
    case 4 | WIRE_SIGNED:
        emit_rm(emit, true, 0x63, AX, memory);
        break;
    default:
        emit_rm(emit, true, 0x8b, AX, memory);
    }
}

static void store_rax(struct jit *jit, const struct emit_memory *memory, uint32_t size)
{
    emit_rm(&jit->emit, size == 8, size == 1 ? 0x88 : size == 2 ? 0x6689 : 0x89, AX, memory);
}

/* The largest piece that fits. */
static uint32_t piece_of(uint32_t bytes)
{
    return bytes >= 8 ? 8 : bytes >= 4 ? 4 : bytes >= 2 ? 2 : 1;
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
        piece = piece_of(bytes - done);
        if (insn->op == WIRE_FCPY)
            load_extended(jit, &from, piece);
        else if (insn->op == WIRE_FDATA)
            emit_constant(&jit->emit, AX, jit_data(jit, (uint32_t)insn->i + done, piece));
        store_rax(jit, &to, piece);
        from.displacement += (int32_t)piece;
        to.displacement += (int32_t)piece;
    }
    jit->cached = -1;
    return true;
}

static bool frame_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit_memory memory;
    switch (insn->op) {
    case WIRE_FLD:
        memory = in_frame(jit, insn->j);
        load_extended(jit, &memory, insn->k);
        result(jit, insn);
        return true;
    case WIRE_FST:
        load_first(jit, insn);
        memory = in_frame(jit, insn->j);
        store_rax(jit, &memory, insn->k);
        return true;
    case WIRE_FLDX:
        load_first(jit, insn);
        emit_rr(&jit->emit, true, 0x81, 7, AX); /* cmp */
        emit_u32(&jit->emit, (uint32_t)insn->i - (insn->k & ~(uint32_t)WIRE_SIGNED));
        jit_lead_to_error(jit, emit_jump_if(&jit->emit, IF_ABOVE), WIRE_ERROR_BOUNDS, true);
        memory = in_frame(jit, insn->j);
        memory.index = AX;
        load_extended(jit, &memory, insn->k);
        result(jit, insn);
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

enum { NODE_VALUE = sizeof(struct wire_node) };

/* rdx = the map's node; one that has no value yet is left to eval_op(). */
static void live_node(struct jit *jit, uint64_t node_va, int condition_of_other, size_t *other)
{
    use(jit, DX);
    emit_constant(&jit->emit, DX, node_va);
    op_at(jit, false, 0x83, 7, DX, -1, 1, offsetof(struct wire_node, state)); /* cmpl $LIVE */
    EMIT(&jit->emit, WIRE_NODE_LIVE);
    *other = emit_jump_if(&jit->emit, condition_of_other);
}

/* rdx += where this processor's value is. */
static void own_shard(struct jit *jit, const struct wire_map *map)
{
    if (map->shards == 1)
        return;
    processor(jit, CX);
    emit_rr(&jit->emit, false, 0x81, 4, CX); /* and */
    emit_u32(&jit->emit, map->shards - 1);
    emit_rr(&jit->emit, true, 0x69, CX, CX); /* imul */
    emit_u32(&jit->emit, map->value_stride);
    emit_rr(&jit->emit, true, 0x01, CX, DX);
}

/* rax = the slot of the value in rax. */
static void hist_slot(struct jit *jit, const struct wire_map_type *type)
{
    struct emit *emit = &jit->emit;
    use(jit, CX);
    if (type->is_signed) {
        use(jit, DX);
        emit_rr(emit, true, 0x89, AX, DX);
    }
    emit_constant(emit, CX, UINT32_MAX);
    emit_rr(emit, true, 0x0fbd, AX, AX);  /* bsr: zero has no such bit */
    emit_rr(emit, false, 0x0f44, AX, CX); /* cmovz %ecx,%eax */
    EMIT(emit, 0x83, 0xc0, 0x02);         /* add $2,%eax */
    if (type->is_signed) {
        emit_constant(emit, CX, 0);
        emit_rr(emit, true, 0x85, DX, DX);
        emit_rr(emit, false, 0x0f48, AX, CX); /* cmovs */
    }
}

static void lhist_slot(struct jit *jit, const struct wire_map_type *type)
{
    struct emit *emit = &jit->emit;
    uint64_t step = (uint64_t)type->param[2];
    use(jit, CX);
    emit_constant(emit, CX, (uint64_t)type->param[0]);
    emit_rr(emit, true, 0x39, CX, AX);
    size_t below = emit_jump_if(emit, type->is_signed || type->param[0] < 0 ? IF_LESS : IF_BELOW);
    emit_constant(emit, CX, (uint64_t)type->param[1]);
    emit_rr(emit, true, 0x39, CX, AX);
    size_t above = emit_jump_if(emit, (type->is_signed || type->param[1] < 0 ? IF_LESS : IF_BELOW) | IF_NOT);
    emit_constant(emit, CX, (uint64_t)type->param[0]);
    emit_rr(emit, true, 0x29, CX, AX);
    if (step & (step - 1)) {
        use(jit, DX);
        emit_constant(emit, CX, step);
        EMIT(emit, 0x31, 0xd2);           /* xor %edx,%edx */
        emit_rr(emit, true, 0xf7, 6, CX); /* div */
    } else {
        shift(jit, 5, (uint32_t)__builtin_ctzll(step));
    }
    EMIT(emit, 0xff, 0xc0); /* inc %eax */
    size_t done = emit_jump(emit);
    emit_patch(emit, below, emit->code.n);
    EMIT(emit, 0x31, 0xc0);
    size_t done_below = emit_jump(emit);
    emit_patch(emit, above, emit->code.n);
    emit_constant(emit, AX, type->value_bytes / 8 - 1);
    emit_patch(emit, done, emit->code.n);
    emit_patch(emit, done_below, emit->code.n);
}

static bool aggregate(struct jit *jit, const struct wire_insn *insn, const struct wire_map *map, uint64_t node_va)
{
    bool slots = map->type.kind == WIRE_MAP_HIST || map->type.kind == WIRE_MAP_LHIST;
    bool counts = map->type.kind != WIRE_MAP_SUM, adds = !slots && map->type.kind != WIRE_MAP_COUNT;
    size_t other;
    if (map->type.kind == WIRE_MAP_MIN || map->type.kind == WIRE_MAP_MAX || (map->type.kind == WIRE_MAP_HIST && map->type.param[0]))
        return false;
    if (slots || adds)
        load_first(jit, insn);
    if (map->type.kind == WIRE_MAP_HIST)
        hist_slot(jit, &map->type);
    if (map->type.kind == WIRE_MAP_LHIST)
        lhist_slot(jit, &map->type);
    live_node(jit, node_va, IF_ZERO | IF_NOT, &other);
    jit_lead_to_call(jit, other);
    own_shard(jit, map);
    if (counts) /* lock incq */
        op_at(jit, true, 0xf0ff, 0, DX, slots ? AX : -1, 8, NODE_VALUE);
    if (adds) /* lock add %rax */
        op_at(jit, true, 0xf001, AX, DX, -1, 1, NODE_VALUE + (counts ? 8 : 0));
    jit->cached = -1;
    return true;
}

static bool map_op(struct jit *jit, const struct wire_insn *insn)
{
    struct emit *emit = &jit->emit;
    uint64_t node_va;
    size_t other;
    if (insn->op != WIRE_MGET && insn->op != WIRE_MSET && insn->op != WIRE_MADD && insn->op != WIRE_MAGG)
        return false;
    const struct wire_map *map = jit_plain_map(jit, insn->h, &node_va);
    if (!map)
        return false;
    switch (insn->op) {
    case WIRE_MAGG:
        return aggregate(jit, insn, map, node_va);
    case WIRE_MGET:
        emit_constant(emit, AX, 0);
        live_node(jit, node_va, IF_ZERO | IF_NOT, &other);
        op_at(jit, true, 0x8b, AX, DX, -1, 1, NODE_VALUE);
        emit_patch(emit, other, emit->code.n);
        result(jit, insn);
        return true;
    case WIRE_MSET:
        load_first(jit, insn);
        live_node(jit, node_va, IF_ZERO | IF_NOT, &other);
        jit_lead_to_call(jit, other);
        op_at(jit, true, 0x89, AX, DX, -1, 1, NODE_VALUE);
        jit->cached = -1;
        return true;
    default: /* MADD */
        load_first(jit, insn);
        live_node(jit, node_va, IF_ZERO | IF_NOT, &other);
        jit_lead_to_call(jit, other);
        use(jit, CX);
        emit_rr(emit, true, 0x89, AX, CX);
        op_at(jit, true, 0xf00fc1, AX, DX, -1, 1, NODE_VALUE); /* lock xadd */
        emit_rr(emit, true, 0x01, CX, AX);
        result(jit, insn);
        return true;
    }
}

static bool op(struct jit *jit, const struct wire_insn *insn)
{
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
    }
    return number >= WIRE_MOV && number <= WIRE_BSWAP;
}

/* ---- calls and the ends ---- */

static void push(struct jit *jit, int reg)
{
    if (reg > 7)
        EMIT(&jit->emit, 0x41);
    EMIT(&jit->emit, (uint8_t)(0x50 | (reg & 7)));
}

static void pop(struct jit *jit, int reg)
{
    if (reg > 7)
        EMIT(&jit->emit, 0x41);
    EMIT(&jit->emit, (uint8_t)(0x58 | (reg & 7)));
}

/* lea bytes(%rsp),%rsp: keeps the flags. */
static void move_sp(struct jit *jit, int32_t bytes)
{
    if (bytes)
        op_sp(jit, true, 0x8d, SP, bytes);
}

/* Writes what the agent needs of struct wire_fire, which is `above` bytes over the stack pointer. Uses rax. */
static void fill_fire(struct jit *jit, int32_t above)
{
    struct emit *emit = &jit->emit;
    emit_constant(emit, AX, jit->process->session_va);
    op_sp(jit, true, 0x89, AX, above + FIRE(session_va));
    emit_constant(emit, AX, jit->process->process_va);
    op_sp(jit, true, 0x89, AX, above + FIRE(process_va));
    if (jit->frame_offset >= 0) {
        op_sp(jit, true, 0x8d, AX, above + jit->frame_offset);
        op_sp(jit, true, 0x89, AX, above + FIRE(frame_va));
    }
    op_sp(jit, true, 0x8d, AX, above + jit->sp_offset);
    op_sp(jit, true, 0x89, AX, above + FIRE(sp));
    op_sp(jit, false, 0x8b, AX, above + jit->place_offset);
    op_sp(jit, false, 0x89, AX, above + FIRE(place));
    put_u32(jit, above + FIRE(clause), jit->clause);
    put_u32(jit, above + FIRE(model), WIRE_LP64);
    put_u32(jit, above + FIRE(speculation), 0);
    put_u32(jit, above + FIRE(pid), 0);
    put_u32(jit, above + FIRE(tid), 0);
}

/* Calls the agent's function with the stack aligned. rdi and rsi are its arguments. Uses rdx and rax. */
static void call_agent(struct jit *jit, uint64_t va)
{
    struct emit *emit = &jit->emit;
    emit_rr(emit, true, 0x89, SP, DX);
    EMIT(emit, 0x48, 0x83, 0xe4, 0xf0, 0x52, 0x52); /* and $-16,%rsp; push %rdx; push %rdx */
    emit_constant(emit, AX, va);
    EMIT(emit, 0xff, 0xd0, 0x5c); /* call *%rax; pop %rsp */
}

static void prologue(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    for (int reg = 0; reg < 16; reg++)
        if (jit->saved >> reg & 1)
            push(jit, reg);
    if (jit->whole_flags)
        EMIT(emit, 0x9c);                     /* pushf */
    EMIT(emit, 0x9f, 0x0f, 0x90, 0xc0, 0x50); /* lahf; seto %al; push %rax: a tenth of what pushf and popf cost */
    move_sp(jit, -jit->locals_bytes);
    if (jit->hot_calls)
        fill_fire(jit, 0);
    if (jit->loops)
        put_u32(jit, FIRE(fuel), WIRE_FUEL);
    if (jit->frame_offset < 0) {
        op_sp(jit, true, 0x8d, DI, 0);
        call_agent(jit, jit->process->claim_va);
        op_sp(jit, true, 0x89, AX, FIRE(frame_va));
        emit_rr(emit, true, 0x85, AX, AX);
        jit->no_frame = emit_jump_if(emit, IF_ZERO);
    }
}

static void epilogue(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    if (jit->frame_offset < 0) {
        op_sp(jit, true, 0x8d, DI, 0);
        op_sp(jit, true, 0x8b, SI, FIRE(frame_va));
        call_agent(jit, jit->process->release_va);
        emit_patch(emit, jit->no_frame, emit->code.n);
    }
    move_sp(jit, jit->locals_bytes);
    EMIT(emit, 0x58, 0x04, 0x7f, 0x9e); /* pop %rax; add $0x7f,%al: overflows exactly when al is 1; sahf */
    if (jit->whole_flags)
        move_sp(jit, 8);
    for (int reg = 15; reg >= 0; reg--)
        if (jit->saved >> reg & 1)
            pop(jit, reg);
    EMIT(emit, 0xc3);
}

static void call_op(struct jit *jit, const struct wire_insn *insn, uint32_t number)
{
    struct emit *emit = &jit->emit;
    EMIT(emit, 0x48, 0x8d, 0x05); /* lea ...(%rip),%rax */
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
        /* What comes next may take the result from rax; where there is none this is just some virtual register. */
        op_sp(jit, true, 0x8b, AX, jit->slot_offset[insn->d]);
        emit_patch(emit, emit_jump(emit), code->back);
        return;
    }
    put_u32(jit, FIRE(error), code->error);
    put_u32(jit, FIRE(error_insn), code->insn);
    if (!code->has_value)
        EMIT(emit, 0x31, 0xc0);
    op_sp(jit, true, 0x89, AX, FIRE(error_value));
    VEC_PUSH(&jit->errors, emit_jump(emit));
}

/* Calls `va` with struct wire_fire, which is `above` bytes over the stack pointer, and rax. */
static void call_with_fire(struct jit *jit, int32_t above, uint64_t va)
{
    uint32_t more = jit->arch->caller_saved & ~jit->saved;
    above += 8 * __builtin_popcount(more);
    for (int reg = 0; reg < 16; reg++)
        if (more >> reg & 1)
            push(jit, reg);
    emit_rr(&jit->emit, true, 0x89, AX, SI);
    if (!jit->hot_calls)
        fill_fire(jit, above);
    op_sp(jit, true, 0x8d, DI, above);
    call_agent(jit, va);
    for (int reg = 15; reg >= 0; reg--)
        if (more >> reg & 1)
            pop(jit, reg);
}

static void subroutines(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    for (size_t i = 0; i < jit->outs.n; i++)
        emit_patch(emit, jit->outs.at[i], emit->code.n);
    call_with_fire(jit, 8, jit->process->op_va);
    emit_rr(emit, false, 0x85, AX, AX);
    size_t failed = emit_jump_if(emit, IF_ZERO | IF_NOT);
    EMIT(emit, 0xc3);
    emit_patch(emit, failed, emit->code.n);
    move_sp(jit, 8);
    for (size_t i = 0; i < jit->errors.n; i++)
        emit_patch(emit, jit->errors.at[i], emit->code.n);
    call_with_fire(jit, 0, jit->process->error_va);
    emit_patch(emit, emit_jump(emit), jit->exit_position);
}

static void refer(struct jit *jit, size_t where, size_t to)
{
    emit_patch(&jit->emit, where, to);
}

const struct jit_arch jit_x86_64 = {
    .caller_saved = 1u << AX | 1u << CX | 1u << DX | 1u << SI | 1u << DI | 1u << R8 | 1u << R9 | 1u << R10 | 1u << R11,
    .word_bytes = 8,
    .skipped_bytes = 136,
    .numbers = {WIRE_REG64_AX, WIRE_REG64_CX, WIRE_REG64_DX, WIRE_REG64_BX, WIRE_REG64_SP, WIRE_REG64_BP, WIRE_REG64_SI, WIRE_REG64_DI,
                WIRE_REG64_R8, WIRE_REG64_R9, WIRE_REG64_R10, WIRE_REG64_R11, WIRE_REG64_R12, WIRE_REG64_R13, WIRE_REG64_R14,
                WIRE_REG64_R15},
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
