/* Stacks: those of samples, which are walked here; numbers → addresses → functions, lines. */
#include "live/run.h"

#include "drain/stacks.h"

#include <stdlib.h>
#include <string.h>

/* ---- samples ---- */

static struct unwind_process *walked_of(struct live_run *run, pid_t pid)
{
    for (size_t i = 0; i < run->walked.n; i++)
        if (run->walked.at[i].pid == pid)
            return run->walked.at[i].process;
    struct live_walked walked = {.pid = pid};
    if (!run->tables)
        run->tables = unwind_tables_create();
    err_free(unwind_process_open(run->tables, pid, 0, &walked.process)); /* one that has ended has no stacks any more */
    VEC_PUSH(&run->walked, walked);
    return walked.process;
}

void live_walked_deinit(struct live_run *run)
{
    for (size_t i = 0; i < run->walked.n; i++)
        if (run->walked.at[i].process)
            unwind_process_close(run->walked.at[i].process);
    VEC_FREE(&run->walked);
    unwind_tables_destroy(run->tables);
}

uint32_t live_sampled_stack(const struct drain_subject *subject, const struct wire_fire *fire, uint64_t *pcs, uint32_t room, uint64_t *root)
{
    const struct live_sampled *sampled = subject->context;
    const struct sample *sample = sampled->sample;
    struct unwind_process *process = walked_of(sampled->run, (pid_t)fire->pid);
    struct unwind_regs regs = {.pc = sample->pc, .known = sample->known};
    struct unwind_stack stack = {.va = sample->sp, .bytes = sample->stack, .size = sample->stack_bytes};
    struct unwind_result result = {.count = 1};
    memcpy(regs.reg, sample->machine, sizeof regs.reg);
    *root = load_session_root(sampled->run->session, (pid_t)fire->pid);
    pcs[0] = sample->pc;
    if (process)
        unwind_process_walk(process, &regs, &stack, pcs, room, &result);
    return result.count;
}

/* ---- printing ---- */

size_t live_stack_addresses(void *cookie, uint32_t number, uint64_t *pcs, size_t room)
{
    struct live_run *run = cookie;
    struct live_stack *stack = &run->stack;
    stack->count = drain_stack_read(&run->memory, number, stack->pcs, &stack->root);
    size_t count = stack->count < room ? stack->count : room;
    memcpy(pcs, stack->pcs, count * sizeof *pcs);
    return count;
}

/* The innermost address is that of an instruction, and so is what a signal interrupted; others are return addresses. */
static bool find(const struct live_run *run, size_t index, struct load_frame *out)
{
    const struct live_stack *stack = &run->stack;
    struct load_frame before;
    bool is_return = index > 0;
    if (is_return && load_session_frame(run->session, stack->root, stack->pcs[index - 1], false, &before))
        is_return = !before.is_signal;
    return load_session_frame(run->session, stack->root, stack->pcs[index], is_return, out);
}

/* As its out-of-line copy is called, where there is one. */
static const char *inlined_name(const struct live_file *file, const struct symbol_inline *inlined)
{
    const struct symbol_func *copy = inlined->copy_va ? symbol_file_func_at(file->symbols, inlined->copy_va) : NULL;
    return copy && copy->va == inlined->copy_va ? copy->demangled : inlined->name;
}

/* Lines, and what is inlined there; out[0] is the function itself, which comes last. Returns how many these are. */
static size_t find_inlines(struct live_run *run, const struct load_frame *frame, struct print_frame *out, size_t room)
{
    struct live_file *file = frame->code ? live_files_open(&run->script->files, frame->path) : NULL;
    struct symbol_dwarf *dwarf = file ? live_file_dwarf(file) : NULL;
    struct symbol_inline inlines[SYMBOL_INLINES_MAX];
    size_t count = dwarf ? symbol_dwarf_inlines(dwarf, frame->file_va, inlines) : 0;
    if (!count)
        return 1;
    struct print_frame whole = out[0];
    size_t left_out = count > room ? count - room : 0; /* of the innermost */
    for (size_t i = left_out; i < count; i++) {
        struct print_frame *at = &out[i - left_out];
        *at = inlines[i].is_inlined
                  ? (struct print_frame){.function = inlined_name(file, &inlines[i]), .module = whole.module, .is_inlined = true}
                  : whole;
        at->file = inlines[i].path;
        at->line = inlines[i].line;
    }
    return count - left_out;
}

size_t live_stack_frames(void *cookie, size_t index, struct print_frame *out, size_t room)
{
    struct live_run *run = cookie;
    struct load_frame frame;
    if (index >= run->stack.count || !room || !find(run, index, &frame))
        return 0;
    *out = (struct print_frame){.function = frame.function, .module = frame.path, .offset = frame.offset};
    return run->print.has_lines ? find_inlines(run, &frame, out, room) : 1;
}
