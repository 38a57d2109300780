/* Bodies that run on a stack of ours: 32-bit code. Such a body leaves 4 words on the program's stack, and goes on as x86_64_own.c says. */
#include "jit/i386.h"

/* What lies on the program's stack from the owner's stack pointer on. */
enum { TO_LOW_FLAGS = 0, TO_CX = 4, TO_AX = 8, TO_FLAGS = 12, TO_RETURN = 16, TO_PLACE = 20 };

static void op_at(struct jit *jit, uint32_t opcode, int reg, int base, int32_t offset)
{
    emit_rm(&jit->emit, false, opcode, reg, &(struct emit_memory){base, -1, 1, offset});
}

static void push_from(struct jit *jit, int base, int32_t offset)
{
    op_at(jit, 0xff, 6, base, offset);
}

static void save_on_the_program(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    if (jit->whole_flags)
        EMIT(emit, 0x9c); /* pushf */
    else
        jit32_move_sp(jit, -4);
    jit_note_depth(jit, TO_RETURN - TO_FLAGS);
    EMIT(emit, 0x50); /* push %eax */
    jit_note_depth(jit, TO_RETURN - TO_AX);
    EMIT(emit, 0x51); /* push %ecx */
    jit_note_depth(jit, TO_RETURN - TO_CX);
    EMIT(emit, 0x9f, 0x0f, 0x90, 0xc0, 0x50); /* lahf; seto %al; push %eax */
    jit_note_depth(jit, TO_RETURN);
}

/* ecx = where the owner of the stack lies that is the thread's from now on. When there is none the body ends. */
static void claim(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    const struct jit_stacks *stacks = &jit->process->stacks;
    jit32_processor(jit, CX);
    jit32_op_constant(jit, 4, CX, stacks->first_mask);
    jit32_op_rr(jit, 0xc1, 4, CX); /* shl */
    EMIT(emit, JIT_OWN_SHIFT);
    jit32_op_constant(jit, 0, CX, (uint32_t)jit_owner_va(stacks, 0));
    size_t again = emit->code.n;
    EMIT(emit, 0x31, 0xc0);          /* xor %eax,%eax */
    op_at(jit, 0xf00fb1, SP, CX, 0); /* lock cmpxchg */
    size_t got = emit_jump_if(emit, IF_ZERO);
    jit32_op_constant(jit, 0, CX, 1u << JIT_OWN_SHIFT);
    jit32_op_constant(jit, 7, CX, (uint32_t)jit_owner_va(stacks, stacks->count));
    emit_patch(emit, emit_jump_if(emit, IF_BELOW), again);
    jit32_op_va(jit, 0xf083, 0, jit_lost_frames_va(jit), -1, 1); /* lock addl */
    EMIT(emit, 1);
    jit32_op_va(jit, 0xf083, 2, jit_lost_frames_va(jit) + 4, -1, 1); /* lock adcl */
    EMIT(emit, 0);
    EMIT(emit, 0x58); /* pop %eax */
    jit_note_depth(jit, TO_RETURN - TO_CX);
    EMIT(emit, 0x04, 0x7f, 0x9e); /* add $0x7f,%al: overflows exactly when al is 1; sahf */
    jit->no_stack = emit_jump(emit);
    emit_patch(emit, got, emit->code.n);
    jit_note_depth(jit, TO_RETURN);
}

void jit32_enter_own(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    int32_t depth = 0;
    save_on_the_program(jit);
    claim(jit);
    jit32_op_rr(jit, 0x89, SP, AX);
    jit32_op_rr(jit, 0x89, CX, SP);
    jit_note_depth(jit, -1);
    push_from(jit, AX, TO_PLACE);
    push_from(jit, AX, TO_RETURN);
    jit_note_depth(jit, depth);
    for (int reg = 0; reg < 8; reg++) {
        if (!(jit->saved >> reg & 1))
            continue;
        if (reg == AX || reg == CX)
            push_from(jit, AX, reg == AX ? TO_AX : TO_CX);
        else
            EMIT(emit, (uint8_t)(0x50 | reg));
        jit_note_depth(jit, depth += 4);
    }
    if (jit->whole_flags) {
        push_from(jit, AX, TO_FLAGS);
        jit_note_depth(jit, depth += 4);
    }
    push_from(jit, AX, TO_LOW_FLAGS);
    jit_note_depth(jit, depth + 4);
}

/* At the saved ecx. The stack is free once the thread has left it. */
void jit32_leave_own(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    jit32_op_sp(jit, 0x8d, CX, 16); /* over ecx, eax, the return address and the place */
    op_at(jit, 0x8b, SP, CX, 0);
    jit_note_depth(jit, TO_RETURN);
    op_at(jit, 0xc7, 0, CX, 0);
    emit_u32(emit, 0);
    jit32_move_sp(jit, 4);
    jit_note_depth(jit, TO_RETURN - TO_CX);
    emit_patch(emit, jit->no_stack, emit->code.n);
    EMIT(emit, 0x59); /* pop %ecx */
    jit_note_depth(jit, TO_RETURN - TO_AX);
    EMIT(emit, 0x58); /* pop %eax */
    jit_note_depth(jit, TO_RETURN - TO_FLAGS);
    jit32_move_sp(jit, 4);
    jit_note_depth(jit, 0);
}

void jit32_program_sp(struct jit *jit, int32_t above)
{
    if (!jit_is_own(jit)) {
        jit32_op_sp(jit, 0x8d, AX, above + jit->sp_offset);
        return;
    }
    jit32_op_sp(jit, 0x8b, AX, above + jit_owner_offset(jit));
    op_at(jit, 0x8d, AX, AX, JIT_OWNER_TO_PROGRAM32);
}

void jit32_load_program_stack(struct jit *jit, int32_t offset)
{
    if (!jit_is_own(jit)) {
        jit32_op_sp(jit, 0x8b, AX, jit->sp_offset + offset);
        return;
    }
    jit32_op_sp(jit, 0x8b, AX, jit_owner_offset(jit));
    op_at(jit, 0x8b, AX, AX, JIT_OWNER_TO_PROGRAM32 + offset);
}
