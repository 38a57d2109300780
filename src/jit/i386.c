/* Code for 32-bit processes. A virtual register is two words; the accumulator is edx:eax; ecx is used besides. ebx, esi and edi are used by
 * maps and records only. */
#include "jit/i386.h"

/* ---- operands ---- */

struct emit_memory jit32_at_sp(int32_t offset)
{
    return (struct emit_memory){SP, -1, 1, offset};
}

void jit32_op_sp(struct jit *jit, uint32_t opcode, int reg, int32_t offset)
{
    struct emit_memory memory = jit32_at_sp(offset);
    emit_rm(&jit->emit, false, opcode, reg, &memory);
}

void jit32_op_rr(struct jit *jit, uint32_t opcode, int reg, int rm)
{
    emit_rr(&jit->emit, false, opcode, reg, rm);
}

/* An absolute address, and an index. */
void jit32_op_va(struct jit *jit, uint32_t opcode, int reg, uint64_t va, int index, int scale)
{
    emit_rm(&jit->emit, false, opcode, reg, &(struct emit_memory){-1, index, scale, (int32_t)va});
}

/* 81 /extension with a constant. */
void jit32_op_constant(struct jit *jit, int extension, int reg, uint32_t value)
{
    emit_rr(&jit->emit, false, 0x81, extension, reg);
    emit_u32(&jit->emit, value);
}

/* movl $value,offset(%esp) */
static void put_u32(struct jit *jit, int32_t offset, uint32_t value)
{
    jit32_op_sp(jit, 0xc7, 0, offset);
    emit_u32(&jit->emit, value);
}

void jit32_load_pair(struct jit *jit, uint32_t virtual_reg)
{
    jit32_op_sp(jit, 0x8b, AX, jit->slot_offset[virtual_reg]);
    jit32_op_sp(jit, 0x8b, DX, jit->slot_offset[virtual_reg] + 4);
}

void jit32_constant_pair(struct jit *jit, uint64_t value)
{
    emit_constant(&jit->emit, AX, (uint32_t)value);
    emit_constant(&jit->emit, DX, value >> 32);
}

void jit32_load_first(struct jit *jit, const struct wire_insn *insn)
{
    if (jit->cached != insn->a)
        jit32_load_pair(jit, insn->a);
    jit->cached = insn->a;
}

/* edx:eax is the operation's result. */
void jit32_result(struct jit *jit, const struct wire_insn *insn)
{
    if (jit_must_store(jit)) {
        jit32_op_sp(jit, 0x89, AX, jit->slot_offset[insn->d]);
        jit32_op_sp(jit, 0x89, DX, jit->slot_offset[insn->d] + 4);
    }
    jit->cached = insn->d;
}

/* eax is. */
void jit32_word_result(struct jit *jit, const struct wire_insn *insn)
{
    EMIT(&jit->emit, 0x31, 0xd2); /* xor %edx,%edx */
    jit32_result(jit, insn);
}

/* Bytes of the frame; ecx leads to one that is in the pool. */
struct emit_memory jit32_in_frame(struct jit *jit, int64_t offset)
{
    if (jit->frame_offset >= 0)
        return jit32_at_sp((int32_t)(jit->frame_offset + offset));
    jit32_op_sp(jit, 0x8b, CX, FIRE(frame_va));
    return (struct emit_memory){CX, -1, 1, (int32_t)offset};
}

struct emit_memory jit32_high_of(struct emit_memory memory)
{
    memory.displacement += 4;
    return memory;
}

/* ---- control ---- */

void jit32_jump_if(struct jit *jit, int condition, const struct wire_insn *jump)
{
    if (jump->op == WIRE_ENDZ)
        VEC_PUSH(&jit->exits, emit_jump_if(&jit->emit, condition ^ IF_NOT));
    else
        jit_lead_to(jit, emit_jump_if(&jit->emit, jump->op == WIRE_JZ ? condition ^ IF_NOT : condition), jump->j);
}

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
        jit32_load_first(jit, insn);
        jit32_op_rr(jit, 0x89, AX, CX);
        jit32_op_rr(jit, 0x09, DX, CX);
        jit32_jump_if(jit, IF_ZERO | IF_NOT, insn);
        return true;
    case WIRE_LOOP:
        jit32_op_sp(jit, 0x83, 5, FIRE(fuel)); /* subl $1: a borrow when there was none left */
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
void jit32_processor(struct jit *jit, int reg)
{
    if (jit_has_rdpid()) {
        EMIT(&jit->emit, 0xf3, 0x0f, 0xc7, (uint8_t)(0xf8 | reg));
        return;
    }
    emit_constant(&jit->emit, reg, 0x7b);
    jit32_op_rr(jit, 0x0f03, reg, reg); /* lsl */
}

/* ns_base + (low ticks * mult >> shift) + (high ticks * mult << (32 - shift)) */
static void nanoseconds(struct jit *jit, uint64_t since)
{
    struct emit *emit = &jit->emit;
    const struct wire_session *session = jit->process->session;
    uint64_t base = session->ns_base - since;
    EMIT(emit, 0x0f, 0x31); /* rdtsc */
    jit32_op_constant(jit, 5, AX, (uint32_t)session->tsc_base);
    jit32_op_constant(jit, 3, DX, (uint32_t)(session->tsc_base >> 32));
    jit32_op_rr(jit, 0x89, DX, CX);
    emit_constant(emit, DX, session->tsc_mult);
    jit32_op_rr(jit, 0xf7, 4, DX);
    jit32_shift(jit, RIGHT, session->tsc_shift);
    EMIT(emit, 0x52); /* push %edx */
    jit_note_depth(jit, jit_depth(jit) + 4);
    EMIT(emit, 0x50); /* push %eax */
    jit_note_depth(jit, jit_depth(jit) + 8);
    jit32_op_rr(jit, 0x89, CX, AX);
    emit_constant(emit, DX, session->tsc_mult);
    jit32_op_rr(jit, 0xf7, 4, DX);
    jit32_shift(jit, LEFT, 32 - session->tsc_shift);
    jit32_op_sp(jit, 0x03, AX, 0);
    jit32_op_sp(jit, 0x13, DX, 4);
    EMIT(emit, 0x83, 0xc4, 0x08); /* add $8,%esp */
    jit_note_depth(jit, jit_depth(jit));
    jit32_op_constant(jit, 0, AX, (uint32_t)base);
    jit32_op_constant(jit, 2, DX, (uint32_t)(base >> 32));
}

/* eax + ecx = the place's entry in the table that *`table_va` leads to. */
static void find_entry(struct jit *jit, uint64_t table_va, uint32_t shift_count)
{
    jit32_op_va(jit, 0x8b, AX, table_va, -1, 1);
    jit32_op_sp(jit, 0x8b, CX, jit->place_offset);
    jit32_op_rr(jit, 0xc1, 4, CX);
    EMIT(&jit->emit, (uint8_t)shift_count);
}

/* eax = the word at `offset` in it. */
static void place_word(struct jit *jit, uint64_t table_va, uint32_t shift_count, int32_t offset)
{
    find_entry(jit, table_va, shift_count);
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
        jit32_op_va(jit, 0x8b, AX, process->process_va + offsetof(struct wire_process, pid), -1, 1);
        jit32_op_rr(jit, 0x85, AX, AX);
        jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO));
        break;
    case WIRE_CTX_TID:
        jit32_op_va(jit, 0x8b, AX, process->process_va + offsetof(struct wire_process, tid_offset), -1, 1);
        jit32_op_rr(jit, 0x85, AX, AX);
        jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO));
        EMIT(emit, 0x65, 0x8b, 0x00); /* mov %gs:(%eax),%eax */
        break;
    case WIRE_CTX_CPU:
        jit32_processor(jit, AX);
        jit32_op_constant(jit, 4, AX, 0xfff);
        break;
    case WIRE_CTX_NSECS:
    case WIRE_CTX_ELAPSED:
        if (!process->session->tsc_mult)
            return false;
        nanoseconds(jit, insn->i == WIRE_CTX_ELAPSED ? process->session->start_ns : 0);
        jit32_result(jit, insn);
        return true;
    case WIRE_CTX_PLACE:
        jit32_op_sp(jit, 0x8b, AX, jit->place_offset);
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
    case WIRE_CTX_QUOTA:
        find_entry(jit, places_va, 4);
        emit_rm(emit, false, 0x8d, CX, &(struct emit_memory){AX, CX, 1, offsetof(struct wire_place, quota)});
        EMIT(emit, 0xb8, 0xff, 0xff, 0xff, 0xff);                                /* mov $-1,%eax */
        emit_rm(emit, false, 0xf00fc1, AX, &(struct emit_memory){CX, -1, 1, 0}); /* lock xadd */
        EMIT(emit, 0x99);                                                        /* cltd */
        jit32_result(jit, insn);
        return true;
    case WIRE_CTX_SP:
        jit32_program_sp(jit, 0);
        break;
    case WIRE_CTX_RETURN:
        jit32_load_program_stack(jit, 0);
        break;
    case WIRE_CTX_MODEL:
        emit_constant(emit, AX, 32);
        break;
    default:
        return false;
    }
    jit32_word_result(jit, insn);
    return true;
}

static void machine_register(struct jit *jit, const struct wire_insn *insn)
{
    if (insn->i == WIRE_REG32_SP) {
        jit32_program_sp(jit, 0);
    } else if (insn->i == WIRE_REG32_IP) {
        program_counter(jit);
    } else if (insn->i == WIRE_REG32_FLAGS) {
        jit->whole_flags = true;
        jit32_op_sp(jit, 0x8b, AX, jit->flags_offset);
    } else if (jit->saved >> insn->i & 1) { /* both number registers in the same way */
        jit32_op_sp(jit, 0x8b, AX, jit_saved_offset(jit, insn->i));
    } else {
        jit32_op_rr(jit, 0x89, insn->i, AX);
    }
    jit32_word_result(jit, insn);
}

static void argument(struct jit *jit, const struct wire_insn *insn)
{
    /* In the page of the stack pointer it can be read, beyond it perhaps not. */
    int32_t offset = 4 + 4 * insn->i;
    jit32_program_sp(jit, 0);
    jit32_op_constant(jit, 4, AX, 0xfff);
    jit32_op_constant(jit, 7, AX, (uint32_t)(4096 - 4 - offset));
    size_t beyond = emit_jump_if(&jit->emit, IF_ABOVE);
    jit_lead_to_call(jit, beyond);
    jit32_load_program_stack(jit, offset);
    jit32_word_result(jit, insn);
}

static void call_op(struct jit *jit, const struct wire_insn *insn, uint32_t number);

static void vector_register(struct jit *jit, const struct wire_insn *insn)
{
    struct wire_insn convert = {.op = WIRE_F2D, .d = insn->d, .a = insn->d};
    if (insn->k == 8) {
        jit32_op_sp(jit, 0x660fd6, insn->i, jit->slot_offset[insn->d]); /* movq %xmm to memory */
        jit->cached = -1;
        return;
    }
    jit32_op_sp(jit, 0x660f7e, insn->i, jit->slot_offset[insn->d]); /* movd */
    jit->hot_calls = true;
    call_op(jit, &convert, jit->at);
    jit->cached = -1;
}

/* As in 64-bit code. The upper halves stay as they are: the agent's words are 32 bits. */
static void take_stack(struct jit *jit, const struct wire_insn *insn)
{
    struct emit_memory memory = jit32_in_frame(jit, insn->j);
    for (int reg = 0; reg < 8; reg++) {
        struct emit_memory to = memory;
        to.displacement += 8 * jit->arch->numbers[reg];
        bool is_saved = jit->saved >> reg & 1;
        if (reg == SP)
            continue;
        if (is_saved)
            jit32_op_sp(jit, 0x8b, AX, jit_saved_offset(jit, reg));
        emit_rm(&jit->emit, false, 0x89, is_saved ? AX : reg, &to);
    }
    emit_rm(&jit->emit, false, 0x8d, AX, &memory);
    jit32_op_sp(jit, 0x89, AX, FIRE(machine_va));
    put_u32(jit, FIRE(machine_va) + 4, 0);
    jit->hot_calls = true;
    call_op(jit, insn, jit->at);
    jit->cached = -1;
}

static bool place_op(struct jit *jit, const struct wire_insn *insn)
{
    switch (insn->op) {
    case WIRE_USTACK:
        take_stack(jit, insn);
        return true;
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

/* ---- any operation ---- */

static bool op(struct jit *jit, const struct wire_insn *insn)
{
    jit->used |= 1u << CX | 1u << DX;
    return jit32_number_op(jit, insn) || control_op(jit, insn) || place_op(jit, insn) || jit32_frame_op(jit, insn) ||
           jit_map_op(jit, insn) || jit32_ring_op(jit, insn);
}

static bool takes_first(uint32_t number)
{
    switch (number) {
    case WIRE_JZ:
    case WIRE_JNZ:
    case WIRE_ENDZ:
    case WIRE_FST:
    case WIRE_FLDX:
    case WIRE_BOUND:
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

void jit32_move_sp(struct jit *jit, int32_t bytes)
{
    if (bytes)
        jit32_op_sp(jit, 0x8d, SP, bytes);
}

/* Writes what the agent needs of struct wire_fire, which is `above` bytes over the stack pointer. Uses eax. */
static void fill_fire(struct jit *jit, int32_t above)
{
    put_u32(jit, above + FIRE(session_va), (uint32_t)jit->process->session_va);
    put_u32(jit, above + FIRE(session_va) + 4, 0);
    put_u32(jit, above + FIRE(process_va), (uint32_t)jit->process->process_va);
    put_u32(jit, above + FIRE(process_va) + 4, 0);
    if (jit->frame_offset >= 0) {
        jit32_op_sp(jit, 0x8d, AX, above + jit->frame_offset);
        jit32_op_sp(jit, 0x89, AX, above + FIRE(frame_va));
        put_u32(jit, above + FIRE(frame_va) + 4, 0);
    }
    jit32_program_sp(jit, above);
    jit32_op_sp(jit, 0x89, AX, above + FIRE(sp));
    put_u32(jit, above + FIRE(sp) + 4, 0);
    jit32_op_sp(jit, 0x8b, AX, above + jit->place_offset);
    jit32_op_sp(jit, 0x89, AX, above + FIRE(place));
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
    jit32_op_sp(jit, 0x8d, AX, above);
    /* The old stack pointer is kept over the arguments: push, align, and with what is pushed below the sum is a multiple of 16. */
    int32_t depth = jit->depth.at[jit->depth.n - 1].bytes;
    EMIT(emit, 0x55); /* push %ebp */
    jit_note_depth(jit, -1);
    EMIT(emit, 0x89, 0xe5);                         /* mov %esp,%ebp */
    EMIT(emit, 0x83, 0xe4, 0xf0, 0x83, 0xec, 0x04); /* and $-16,%esp; sub $4,%esp */
    EMIT(emit, 0x52, 0x51, 0x50);                   /* push %edx; push %ecx; push %eax */
    emit_constant(emit, AX, va);
    EMIT(emit, 0xff, 0xd0, 0x89, 0xec, 0x5d); /* call *%eax; mov %ebp,%esp; pop %ebp */
    jit_note_depth(jit, depth);
}

/* Saves registers and flags on the program's stack. */
static void enter(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    int32_t depth = 0;
    for (int reg = 0; reg < 8; reg++)
        if (jit->saved >> reg & 1) {
            EMIT(emit, (uint8_t)(0x50 | reg));
            jit_note_depth(jit, depth += 4);
        }
    if (jit->whole_flags) {
        EMIT(emit, 0x9c); /* pushf */
        jit_note_depth(jit, depth += 4);
    }
    EMIT(emit, 0x9f, 0x0f, 0x90, 0xc0, 0x50); /* lahf; seto %al; push %eax */
    jit_note_depth(jit, depth + 4);
}

static void prologue(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    if (jit_is_own(jit))
        jit32_enter_own(jit);
    else
        enter(jit);
    jit32_move_sp(jit, -jit->locals_bytes);
    jit_note_depth(jit, jit_depth(jit));
    if (jit->hot_calls)
        fill_fire(jit, 0);
    if (jit->loops)
        put_u32(jit, FIRE(fuel), WIRE_FUEL);
    if (jit->frame_offset < 0) {
        call_agent(jit, 0, jit->process->claim_va);
        jit32_op_sp(jit, 0x89, AX, FIRE(frame_va));
        jit32_op_sp(jit, 0x89, DX, FIRE(frame_va) + 4);
        jit32_op_rr(jit, 0x85, AX, AX);
        jit->no_frame = emit_jump_if(emit, IF_ZERO);
    }
}

static void epilogue(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    if (jit->frame_offset < 0) {
        jit32_op_sp(jit, 0x8b, CX, FIRE(frame_va));
        jit32_op_sp(jit, 0x8b, DX, FIRE(frame_va) + 4);
        call_agent(jit, 0, jit->process->release_va);
        emit_patch(emit, jit->no_frame, emit->code.n);
    }
    int32_t depth = jit_depth(jit) - jit->locals_bytes;
    jit32_move_sp(jit, jit->locals_bytes);
    jit_note_depth(jit, depth);
    EMIT(emit, 0x58); /* pop %eax */
    jit_note_depth(jit, depth -= 4);
    EMIT(emit, 0x04, 0x7f, 0x9e); /* add $0x7f,%al: overflows exactly when al is 1; sahf */
    if (jit->whole_flags) {
        jit32_move_sp(jit, 4);
        jit_note_depth(jit, depth -= 4);
    }
    for (int reg = 7; reg >= (jit_is_own(jit) ? DX : AX); reg--)
        if (jit->saved >> reg & 1) {
            EMIT(emit, (uint8_t)(0x58 | reg));
            jit_note_depth(jit, depth -= 4);
        }
    if (jit_is_own(jit))
        jit32_leave_own(jit);
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
        jit32_load_pair(jit, insn->d);
        emit_patch(emit, emit_jump(emit), code->back);
        return;
    }
    put_u32(jit, FIRE(error), code->error);
    put_u32(jit, FIRE(error_insn), code->insn);
    if (!code->has_value)
        EMIT(emit, 0x31, 0xc0, 0x31, 0xd2);
    jit32_op_sp(jit, 0x89, AX, FIRE(error_value));
    jit32_op_sp(jit, 0x89, DX, FIRE(error_value) + 4);
    VEC_PUSH(&jit->errors, emit_jump(emit));
}

static void subroutines(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    for (size_t i = 0; i < jit->outs.n; i++)
        emit_patch(emit, jit->outs.at[i], emit->code.n);
    jit_note_depth(jit, jit_depth(jit) + 4);
    if (!jit->hot_calls)
        fill_fire(jit, 4);
    call_agent(jit, 4, jit->process->op_va);
    jit32_op_rr(jit, 0x85, AX, AX);
    size_t failed = emit_jump_if(emit, IF_ZERO | IF_NOT);
    EMIT(emit, 0xc3);
    emit_patch(emit, failed, emit->code.n);
    jit32_move_sp(jit, 4);
    jit_note_depth(jit, jit_depth(jit));
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
    .map = &jit_map_i386,
    .call_op = call_op,
    .compare_and_jump = jit32_compare_and_jump,
    .epilogue = epilogue,
    .cold = cold,
    .subroutines = subroutines,
    .refer = refer,
    .takes_first = takes_first,
};
