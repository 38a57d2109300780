/* Bodies that run on a stack of ours: 64-bit code.
 *
 * Such a body leaves 4 words on the program's stack: the flags, or a gap where nobody asks for them; rax; rcx; and the flags as lahf and
 * seto give them. With rax and rcx it finds a free stack, makes it its own by putting its stack pointer there where the owner lies, and
 * copies the place's number, the return address and what was saved to it, as any other body has them above its locals. */
#include "jit/x86_64.h"

/* What lies on the program's stack from the owner's stack pointer on. */
enum { TO_LOW_FLAGS = 0, TO_CX = 8, TO_AX = 16, TO_FLAGS = 24, TO_RETURN = 32, TO_PLACE = 40 };

static void push_from(struct jit *jit, int base, int32_t offset)
{
    jit64_op_at(jit, false, 0xff, 6, base, -1, 1, offset);
}

static void save_on_the_program(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    if (jit->whole_flags)
        EMIT(emit, 0x9c); /* pushf */
    else
        jit64_move_sp(jit, -8);
    jit_note_depth(jit, TO_RETURN - TO_FLAGS);
    jit64_push(jit, AX);
    jit_note_depth(jit, TO_RETURN - TO_AX);
    jit64_push(jit, CX);
    jit_note_depth(jit, TO_RETURN - TO_CX);
    EMIT(emit, 0x9f, 0x0f, 0x90, 0xc0, 0x50); /* lahf; seto %al; push %rax */
    jit_note_depth(jit, TO_RETURN);
}

/* rcx = where the owner of the stack lies that is the thread's from now on. When there is none the body ends. */
static void claim(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    const struct jit_stacks *stacks = &jit->process->stacks;
    jit64_processor(jit, CX);
    emit_rr(emit, false, 0x81, 4, CX); /* and */
    emit_u32(emit, stacks->first_mask);
    emit_rr(emit, true, 0xc1, 4, CX); /* shl */
    EMIT(emit, JIT_OWN_SHIFT);
    emit_constant(emit, AX, jit_owner_va(stacks, 0));
    emit_rr(emit, true, 0x01, AX, CX);
    size_t again = emit->code.n;
    EMIT(emit, 0x31, 0xc0);                             /* xor %eax,%eax */
    jit64_op_at(jit, true, 0xf00fb1, SP, CX, -1, 1, 0); /* lock cmpxchg */
    size_t got = emit_jump_if(emit, IF_ZERO);
    emit_rr(emit, true, 0x81, 0, CX); /* add */
    emit_u32(emit, 1u << JIT_OWN_SHIFT);
    emit_constant(emit, AX, jit_owner_va(stacks, stacks->count));
    emit_rr(emit, true, 0x39, AX, CX); /* cmp */
    emit_patch(emit, emit_jump_if(emit, IF_BELOW), again);
    emit_constant(emit, AX, jit_lost_frames_va(jit));
    jit64_op_at(jit, true, 0xf0ff, 0, AX, -1, 1, 0); /* lock incq */
    EMIT(emit, 0x58);                                /* pop %rax */
    jit_note_depth(jit, TO_RETURN - TO_CX);
    EMIT(emit, 0x04, 0x7f, 0x9e); /* add $0x7f,%al: overflows exactly when al is 1; sahf */
    jit->no_stack = emit_jump(emit);
    emit_patch(emit, got, emit->code.n);
    jit_note_depth(jit, TO_RETURN);
}

void jit64_enter_own(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    int32_t depth = 0;
    save_on_the_program(jit);
    claim(jit);
    emit_rr(emit, true, 0x89, SP, AX);
    emit_rr(emit, true, 0x89, CX, SP);
    jit_note_depth(jit, -1);
    push_from(jit, AX, TO_PLACE);
    push_from(jit, AX, TO_RETURN);
    jit_note_depth(jit, depth);
    for (int reg = 0; reg < 16; reg++) {
        if (!(jit->saved >> reg & 1))
            continue;
        if (reg == AX || reg == CX)
            push_from(jit, AX, reg == AX ? TO_AX : TO_CX);
        else
            jit64_push(jit, reg);
        jit_note_depth(jit, depth += 8);
    }
    if (jit->whole_flags) {
        push_from(jit, AX, TO_FLAGS);
        jit_note_depth(jit, depth += 8);
    }
    push_from(jit, AX, TO_LOW_FLAGS);
    jit_note_depth(jit, depth + 8);
}

/* At the saved rcx. The stack is free once the thread has left it. */
void jit64_leave_own(struct jit *jit)
{
    struct emit *emit = &jit->emit;
    jit64_op_sp(jit, true, 0x8d, CX, 32); /* over rcx, rax, the return address and the place */
    jit64_op_at(jit, true, 0x8b, SP, CX, -1, 1, 0);
    jit_note_depth(jit, TO_RETURN);
    jit64_op_at(jit, true, 0xc7, 0, CX, -1, 1, 0);
    emit_u32(emit, 0);
    jit64_move_sp(jit, 8);
    jit_note_depth(jit, TO_RETURN - TO_CX);
    emit_patch(emit, jit->no_stack, emit->code.n);
    jit64_pop(jit, CX);
    jit_note_depth(jit, TO_RETURN - TO_AX);
    jit64_pop(jit, AX);
    jit_note_depth(jit, TO_RETURN - TO_FLAGS);
    jit64_move_sp(jit, 8);
    jit_note_depth(jit, 0);
}

void jit64_program_sp(struct jit *jit, int32_t above)
{
    if (!jit_is_own(jit)) {
        jit64_op_sp(jit, true, 0x8d, AX, above + jit->sp_offset);
        return;
    }
    jit64_op_sp(jit, true, 0x8b, AX, above + jit_owner_offset(jit));
    jit64_op_at(jit, true, 0x8d, AX, AX, -1, 1, JIT_OWNER_TO_PROGRAM64);
}

void jit64_load_program_stack(struct jit *jit, int32_t offset)
{
    if (!jit_is_own(jit)) {
        jit64_op_sp(jit, true, 0x8b, AX, jit->sp_offset + offset);
        return;
    }
    jit64_op_sp(jit, true, 0x8b, AX, jit_owner_offset(jit));
    jit64_op_at(jit, true, 0x8b, AX, AX, -1, 1, JIT_OWNER_TO_PROGRAM64 + offset);
}
