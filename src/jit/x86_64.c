/* Code for 64-bit processes. The accumulator is rax; rcx and rdx are used besides. rdi, rsi and r8 to r11 are used by calls and records
 * only. */
#include "jit/x86_64.h"

/* ---- operands ---- */

void jit64_use(struct jit *jit, int reg)
{
    jit->used |= 1u << reg;
}

struct emit_memory jit64_at_sp(int32_t offset)
{
    return (struct emit_memory){SP, -1, 1, offset};
}

void jit64_op_sp(struct jit *jit, bool w, uint32_t opcode, int reg, int32_t offset)
{
    struct emit_memory memory = jit64_at_sp(offset);
    emit_rm(&jit->emit, w, opcode, reg, &memory);
}

void jit64_op_at(struct jit *jit, bool w, uint32_t opcode, int reg, int base, int index, int scale, int32_t offset)
{
    emit_rm(&jit->emit, w, opcode, reg, &(struct emit_memory){base, index, scale, offset});
}

/* movl $value,offset(%rsp) */
static void put_u32(struct jit *jit, int32_t offset, uint32_t value)
{
    jit64_op_sp(jit, false, 0xc7, 0, offset);
    emit_u32(&jit->emit, value);
}

void jit64_load(struct jit *jit, int reg, uint32_t virtual_reg)
{
    jit64_use(jit, reg);
    jit64_op_sp(jit, true, 0x8b, reg, jit->slot_offset[virtual_reg]);
}

/* The operation's a into rax. */
void jit64_load_first(struct jit *jit, const struct wire_insn *insn)
{
    if (jit->cached != insn->a)
        jit64_load(jit, AX, insn->a);
    jit->cached = insn->a;
}

/* rax is the operation's result. */
void jit64_result(struct jit *jit, const struct wire_insn *insn)
{
    if (jit_must_store(jit))
        jit64_op_sp(jit, true, 0x89, AX, jit->slot_offset[insn->d]);
    jit->cached = insn->d;
}

/* Bytes of the frame; rcx leads to one that is in the pool. */
struct emit_memory jit64_in_frame(struct jit *jit, int64_t offset)
{
    if (jit->frame_offset >= 0)
        return jit64_at_sp((int32_t)(jit->frame_offset + offset));
    jit64_use(jit, CX);
    jit64_op_sp(jit, true, 0x8b, CX, FIRE(frame_va));
    return (struct emit_memory){CX, -1, 1, (int32_t)offset};
}

/* ---- control ---- */

void jit64_jump_if(struct jit *jit, int condition, const struct wire_insn *jump)
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
        jit64_load_first(jit, insn);
        emit_rr(emit, true, 0x85, AX, AX);
        jit64_jump_if(jit, IF_ZERO | IF_NOT, insn);
        return true;
    case WIRE_LOOP:
        jit64_op_sp(jit, false, 0x83, 5, FIRE(fuel)); /* subl $1: a borrow when there was none left */
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
void jit64_processor(struct jit *jit, int reg)
{
    jit64_use(jit, reg);
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
    jit64_use(jit, CX);
    jit64_use(jit, DX);
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

/* rax + rcx = the entry of the place in the table that *`table_va` leads to, entries of 1 << shift bytes. */
static void find_entry(struct jit *jit, uint64_t table_va, uint32_t shift_count)
{
    struct emit *emit = &jit->emit;
    jit64_use(jit, CX);
    emit_constant(emit, AX, table_va);
    jit64_op_at(jit, true, 0x8b, AX, AX, -1, 1, 0);
    jit64_op_sp(jit, false, 0x8b, CX, jit->place_offset);
    emit_rr(emit, true, 0xc1, 4, CX);
    EMIT(emit, (uint8_t)shift_count);
}

/* rax = what is at `offset` in it. */
static void place_entry(struct jit *jit, uint64_t table_va, uint32_t shift_count, bool w, int32_t offset)
{
    find_entry(jit, table_va, shift_count);
    jit64_op_at(jit, w, 0x8b, AX, AX, CX, 1, offset);
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
        jit64_op_at(jit, false, 0x8b, AX, AX, -1, 1, 0);
        emit_rr(emit, false, 0x85, AX, AX);
        jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO));
        break;
    case WIRE_CTX_TID:
        jit64_use(jit, CX);
        emit_constant(emit, CX, process->process_va + offsetof(struct wire_process, tid_offset));
        jit64_op_at(jit, true, 0x63, CX, CX, -1, 1, 0); /* movslq (%rcx),%rcx */
        emit_rr(emit, false, 0x85, CX, CX);
        jit_lead_to_call(jit, emit_jump_if(emit, IF_ZERO));
        EMIT(emit, 0x64, 0x8b, 0x01); /* mov %fs:(%rcx),%eax */
        break;
    case WIRE_CTX_CPU:
        jit64_processor(jit, AX);
        EMIT(emit, 0x25, 0xff, 0x0f, 0x00, 0x00); /* and $0xfff,%eax */
        break;
    case WIRE_CTX_NSECS:
    case WIRE_CTX_ELAPSED:
        if (!process->session->tsc_mult)
            return false;
        nanoseconds(jit, insn->i == WIRE_CTX_ELAPSED ? process->session->start_ns : 0);
        break;
    case WIRE_CTX_PLACE:
        jit64_op_sp(jit, false, 0x8b, AX, jit->place_offset);
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
    case WIRE_CTX_QUOTA:
        find_entry(jit, places_va, 4);
        jit64_op_at(jit, true, 0x8d, CX, AX, CX, 1, offsetof(struct wire_place, quota));
        EMIT(emit, 0xb8, 0xff, 0xff, 0xff, 0xff);            /* mov $-1,%eax */
        jit64_op_at(jit, false, 0xf00fc1, AX, CX, -1, 1, 0); /* lock xadd */
        EMIT(emit, 0x48, 0x98);                              /* cltq */
        break;
    case WIRE_CTX_SP:
        jit64_program_sp(jit, 0);
        break;
    case WIRE_CTX_RETURN:
        jit64_load_program_stack(jit, 0);
        break;
    case WIRE_CTX_MODEL:
        emit_constant(emit, AX, 64);
        break;
    default:
        return false;
    }
    jit64_result(jit, insn);
    return true;
}

static void machine_register(struct jit *jit, const struct wire_insn *insn, uint32_t number)
{
    static const uint8_t registers[] = {AX, DX, CX, BX, SI, DI, BP, SP, R8, R9, R10, R11, R12, R13, R14, R15};
    if (number == WIRE_REG64_SP) {
        jit64_program_sp(jit, 0);
    } else if (number == WIRE_REG64_IP) {
        program_counter(jit);
    } else if (number == WIRE_REG64_FLAGS) {
        jit->whole_flags = true;
        jit64_op_sp(jit, true, 0x8b, AX, jit->flags_offset);
    } else if (jit->saved >> registers[number] & 1) {
        jit64_op_sp(jit, true, 0x8b, AX, jit_saved_offset(jit, registers[number]));
    } else {
        emit_rr(&jit->emit, true, 0x89, registers[number], AX);
    }
    jit64_result(jit, insn);
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
    jit64_program_sp(jit, 0);
    EMIT(&jit->emit, 0x25, 0xff, 0x0f, 0x00, 0x00, 0x3d); /* and $0xfff,%eax; cmp $...,%eax */
    emit_u32(&jit->emit, (uint32_t)(4096 - 8 - offset));
    jit_lead_to_call(jit, emit_jump_if(&jit->emit, IF_ABOVE));
    jit64_load_program_stack(jit, offset);
    jit64_result(jit, insn);
}

static void call_op(struct jit *jit, const struct wire_insn *insn, uint32_t number);

static void vector_register(struct jit *jit, const struct wire_insn *insn)
{
    struct wire_insn convert = {.op = WIRE_F2D, .d = insn->d, .a = insn->d};
    emit_rr(&jit->emit, insn->k == 8, 0x660f7e, insn->i, AX); /* movq or movd %xmm,%rax */
    if (insn->k == 8) {
        jit64_result(jit, insn);
        return;
    }
    jit64_op_sp(jit, true, 0x89, AX, jit->slot_offset[insn->d]);
    jit->hot_calls = true;
    call_op(jit, &convert, jit->at);
    jit->cached = -1;
}

/* The program's registers go to where the agent looks for them; it knows the stack pointer and the pc anyway. rcx, which leads there, is
 * one that is saved. */
static void take_stack(struct jit *jit, const struct wire_insn *insn)
{
    struct emit_memory memory = jit64_in_frame(jit, insn->j);
    for (int reg = 0; reg < 16; reg++) {
        struct emit_memory to = memory;
        to.displacement += 8 * jit->arch->numbers[reg];
        bool is_saved = jit->saved >> reg & 1;
        if (reg == SP)
            continue;
        if (is_saved)
            jit64_op_sp(jit, true, 0x8b, AX, jit_saved_offset(jit, reg));
        emit_rm(&jit->emit, true, 0x89, is_saved ? AX : reg, &to);
    }
    emit_rm(&jit->emit, true, 0x8d, AX, &memory);
    jit64_op_sp(jit, true, 0x89, AX, FIRE(machine_va));
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
        machine_register(jit, insn, (uint32_t)insn->i);
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
    return jit64_number_op(jit, insn) || control_op(jit, insn) || place_op(jit, insn) || jit64_frame_op(jit, insn) ||
           jit_map_op(jit, insn) || jit64_ring_op(jit, insn);
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
    }
    return number >= WIRE_MOV && number <= WIRE_BSWAP;
}

/* ---- calls and the ends ---- */

void jit64_push(struct jit *jit, int reg)
{
    if (reg > 7)
        EMIT(&jit->emit, 0x41);
    EMIT(&jit->emit, (uint8_t)(0x50 | (reg & 7)));
}

void jit64_pop(struct jit *jit, int reg)
{
    if (reg > 7)
        EMIT(&jit->emit, 0x41);
    EMIT(&jit->emit, (uint8_t)(0x58 | (reg & 7)));
}

void jit64_move_sp(struct jit *jit, int32_t bytes)
{
    if (bytes)
        jit64_op_sp(jit, true, 0x8d, SP, bytes);
}

/* Writes what the agent needs of struct wire_fire, which is `above` bytes over the stack pointer. Uses rax. */
static void fill_fire(struct jit *jit, int32_t above)
{
    struct emit *emit = &jit->emit;
    emit_constant(emit, AX, jit->process->session_va);
    jit64_op_sp(jit, true, 0x89, AX, above + FIRE(session_va));
    emit_constant(emit, AX, jit->process->process_va);
    jit64_op_sp(jit, true, 0x89, AX, above + FIRE(process_va));
    if (jit->frame_offset >= 0) {
        jit64_op_sp(jit, true, 0x8d, AX, above + jit->frame_offset);
        jit64_op_sp(jit, true, 0x89, AX, above + FIRE(frame_va));
    }
    jit64_program_sp(jit, above);
    jit64_op_sp(jit, true, 0x89, AX, above + FIRE(sp));
    jit64_op_sp(jit, false, 0x8b, AX, above + jit->place_offset);
    jit64_op_sp(jit, false, 0x89, AX, above + FIRE(place));
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
    int32_t depth = jit->depth.at[jit->depth.n - 1].bytes;
    EMIT(emit, 0x48, 0x83, 0xe4, 0xf0); /* and $-16,%rsp */
    jit_note_depth(jit, -1);
    EMIT(emit, 0x52, 0x52); /* push %rdx; push %rdx */
    emit_constant(emit, AX, va);
    EMIT(emit, 0xff, 0xd0, 0x5c); /* call *%rax; pop %rsp */
    jit_note_depth(jit, depth);
}

/* Saves registers and flags on the program's stack. */
static void enter(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    int32_t depth = 0;
    for (int reg = 0; reg < 16; reg++)
        if (jit->saved >> reg & 1) {
            jit64_push(jit, reg);
            jit_note_depth(jit, depth += 8);
        }
    if (jit->whole_flags) {
        EMIT(emit, 0x9c); /* pushf */
        jit_note_depth(jit, depth += 8);
    }
    EMIT(emit, 0x9f, 0x0f, 0x90, 0xc0, 0x50); /* lahf; seto %al; push %rax: a tenth of what pushf and popf cost */
    jit_note_depth(jit, depth + 8);
}

static void prologue(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    if (jit_is_own(jit))
        jit64_enter_own(jit);
    else
        enter(jit);
    jit64_move_sp(jit, -jit->locals_bytes);
    jit_note_depth(jit, jit_depth(jit));
    if (jit->hot_calls)
        fill_fire(jit, 0);
    if (jit->loops)
        put_u32(jit, FIRE(fuel), WIRE_FUEL);
    if (jit->frame_offset < 0) {
        jit64_op_sp(jit, true, 0x8d, DI, 0);
        call_agent(jit, jit->process->claim_va);
        jit64_op_sp(jit, true, 0x89, AX, FIRE(frame_va));
        emit_rr(emit, true, 0x85, AX, AX);
        jit->no_frame = emit_jump_if(emit, IF_ZERO);
    }
}

static void epilogue(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    if (jit->frame_offset < 0) {
        jit64_op_sp(jit, true, 0x8d, DI, 0);
        jit64_op_sp(jit, true, 0x8b, SI, FIRE(frame_va));
        call_agent(jit, jit->process->release_va);
        emit_patch(emit, jit->no_frame, emit->code.n);
    }
    int32_t depth = jit_depth(jit) - jit->locals_bytes;
    jit64_move_sp(jit, jit->locals_bytes);
    jit_note_depth(jit, depth);
    EMIT(emit, 0x58); /* pop %rax */
    jit_note_depth(jit, depth -= 8);
    EMIT(emit, 0x04, 0x7f, 0x9e); /* add $0x7f,%al: overflows exactly when al is 1; sahf */
    if (jit->whole_flags) {
        jit64_move_sp(jit, 8);
        jit_note_depth(jit, depth -= 8);
    }
    for (int reg = 15; reg >= (jit_is_own(jit) ? DX : AX); reg--)
        if (jit->saved >> reg & 1) {
            jit64_pop(jit, reg);
            jit_note_depth(jit, depth -= 8);
        }
    if (jit_is_own(jit))
        jit64_leave_own(jit);
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
        jit64_op_sp(jit, true, 0x8b, AX, jit->slot_offset[insn->d]);
        emit_patch(emit, emit_jump(emit), code->back);
        return;
    }
    put_u32(jit, FIRE(error), code->error);
    put_u32(jit, FIRE(error_insn), code->insn);
    if (!code->has_value)
        EMIT(emit, 0x31, 0xc0);
    jit64_op_sp(jit, true, 0x89, AX, FIRE(error_value));
    VEC_PUSH(&jit->errors, emit_jump(emit));
}

/* Calls `va` with struct wire_fire, which is `above` bytes over the stack pointer, and rax. */
static void call_with_fire(struct jit *jit, int32_t above, uint64_t va)
{
    uint32_t more = jit->arch->caller_saved & ~jit->saved;
    int32_t depth = jit_depth(jit) + above;
    jit_note_depth(jit, depth);
    above += 8 * __builtin_popcount(more);
    for (int reg = 0; reg < 16; reg++)
        if (more >> reg & 1) {
            jit64_push(jit, reg);
            jit_note_depth(jit, depth += 8);
        }
    emit_rr(&jit->emit, true, 0x89, AX, SI);
    if (!jit->hot_calls)
        fill_fire(jit, above);
    jit64_op_sp(jit, true, 0x8d, DI, above);
    call_agent(jit, va);
    for (int reg = 15; reg >= 0; reg--)
        if (more >> reg & 1) {
            jit64_pop(jit, reg);
            jit_note_depth(jit, depth -= 8);
        }
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
    jit64_move_sp(jit, 8);
    jit_note_depth(jit, jit_depth(jit));
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
    .map = &jit_map_x86_64,
    .call_op = call_op,
    .compare_and_jump = jit64_compare_and_jump,
    .epilogue = epilogue,
    .cold = cold,
    .subroutines = subroutines,
    .refer = refer,
    .takes_first = takes_first,
};
