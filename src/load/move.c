/* Taking threads out of our code, and the frames of interrupted ones with them.
 *
 * A thread may be stopped in firing code, in a displaced copy, or in a signal handler that interrupted either: then the address of our code
 * stands in a signal frame on a stack. A word on the stack is taken for the pc of such a frame only if the words around it fit a signal
 * context (code segment, flags). The agent may have changed such a frame for the handler to see the program's own pc; then the record it
 * left there says where the thread really stands. */
#include "load/internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_SCAN_BYTES = 2 << 20, MAX_STACKS = 16 };

static enum insn_mode mode_of(const struct target *target)
{
    return target_width(target) == 64 ? INSN_MODE_64 : INSN_MODE_32;
}

/* ---- out of a trampoline ---- */

static int by_va(const void *a, const void *b)
{
    const struct wire_pc *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

void load_pc_map_sort(struct wire_pc *pc, size_t count)
{
    if (count)
        qsort(pc, count, sizeof *pc, by_va);
}

const struct wire_pc *load_pc_map_find(const struct load_pc_map *map, uint64_t va)
{
    size_t low = 0;
    for (size_t high = map->count; low < high;) {
        size_t middle = (low + high) / 2;
        if (map->pc[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &map->pc[low - 1] : NULL;
}

bool load_pc_map_has(const struct load_pc_map *map, uint64_t va)
{
    const struct wire_pc *entry = load_pc_map_find(map, va);
    return entry && entry->va == va;
}

/* Between the halves of a 32-bit process's counter: `lock adcl $0,disp32(%ecx)` would be next, so do it here. */
static void add_carry(struct target *target, uint64_t pc, const struct fire_regs *regs)
{
    uint32_t displacement, high;
    if (!(regs->flags & 1) || target_read_some(target, pc + 3, &displacement, 4) != 4)
        return;
    uint64_t va = (uint32_t)(displacement + (uint32_t)regs->cx);
    if (target_read_some(target, va, &high, 4) == 4) {
        high++;
        err_free(target_write(target, va, &high, 4));
    }
}

static enum load_moved move_out_of_fire(struct target *target, const struct wire_pc *entry, struct load_move_regs *regs)
{
    enum insn_mode mode = mode_of(target);
    struct fire_undo undo;
    if (!fire_count_undo(mode, regs->pc - entry->va, &undo))
        return LOAD_MOVE_LATER;
    uint64_t stack[3] = {0};
    uint32_t narrow[3] = {0};
    size_t word = mode == INSN_MODE_64 ? 8 : 4, bytes = undo.saved * word;
    if (target_read_some(target, regs->fire.sp, mode == INSN_MODE_64 ? (void *)stack : (void *)narrow, bytes) != bytes)
        return LOAD_MOVE_LATER;
    for (int i = 0; i < 3 && mode == INSN_MODE_32; i++)
        stack[i] = narrow[i];
    if (undo.carry_pending)
        add_carry(target, regs->pc, &regs->fire);
    fire_undo_apply(mode, &undo, stack, &regs->fire);
    regs->pc = entry->origin_va;
    regs->counted = undo.counted;
    return LOAD_MOVED;
}

/* Whether the agent has been called for the instruction of this entry and may have put an address of ours where it returns to. */
static bool may_have_gone_on(const struct load_pc_map *map, const struct wire_pc *entry)
{
    for (const struct wire_pc *at = entry; at >= map->pc && at->origin_va == entry->origin_va; at--)
        if (at->kind == WIRE_PC_CALL && (at->value == WIRE_AGENT_GO_ON || at->value == WIRE_AGENT_GO_ON_BARE))
            return true;
    return false;
}

enum load_moved load_move_out(struct target *target, const struct load_pc_map *map, struct load_move_regs *regs)
{
    const struct wire_pc *entry = load_pc_map_find(map, regs->pc);
    if (!entry)
        return LOAD_MOVED_NOT;
    regs->from = entry;
    if (may_have_gone_on(map, entry))
        return LOAD_MOVE_LATER;
    if (entry->kind == WIRE_PC_FIRE)
        return move_out_of_fire(target, entry, regs);
    if (entry->kind == WIRE_PC_CLAUSE && (entry->va != regs->pc || (entry > map->pc && entry[-1].origin_va == entry->origin_va)))
        return LOAD_MOVE_LATER; /* what has fired must not fire again */
    if (entry->va != regs->pc)
        return entry->kind == WIRE_PC_CALL ? LOAD_MOVE_LATER : LOAD_MOVED_NOT;
    regs->pc = entry->origin_va;
    regs->fire.sp += entry->sp_undo;
    return LOAD_MOVED;
}

bool load_move_is_possible(const struct load_pc_map *map, uint64_t pc)
{
    const struct wire_pc *entry = load_pc_map_find(map, pc);
    return entry && !may_have_gone_on(map, entry) && (entry->kind == WIRE_PC_FIRE || entry->va == pc);
}

/* ---- signal frames ---- */

/* Positions of the registers in a signal context, in words relative to its pc. */
struct context_layout {
    int word_bytes, ax, cx, dx, di, bp, sp, flags, code_segment, code_segment_value, record, restorer, old_restorer, fault;
    int stack, stack_bytes; /* the thread's alternate stack; not in old frames */
};
static const struct context_layout context64 = {8, -3, -2, -4, -8, -6, -1, 1, 2, 0x33, WIRE_RECORD_AFTER_PC64 / 8, -22, 0, 19, -19, -17};
static const struct context_layout context32 = {4,   -3,  -4,  -5,  -10, -8, -7, 2, 1, 0x23, WIRE_RECORD_AFTER_PC32 / 4,
                                                -55, -16, -48, -17, -15};
enum { CONTEXT_BEFORE = 10, CONTEXT_AFTER = 4 }; /* words of a context around its pc that are looked at, at most */

struct visitor {
    struct target *target;
    const struct wire_shared *journal;
    const struct target_maps *maps;
    load_is_ours_fn *is_ours;
    load_visit_fn *visit;
    void *context;
    uint64_t stack[MAX_STACKS]; /* where scans begin */
    size_t stack_count;
};

static uint64_t word_at(const uint8_t *bytes, const struct context_layout *layout, long index)
{
    uint64_t word = 0;
    memcpy(&word, bytes + index * layout->word_bytes, (size_t)layout->word_bytes);
    return word;
}

static void set_word(uint8_t *bytes, const struct context_layout *layout, long index, uint64_t word)
{
    memcpy(bytes + index * layout->word_bytes, &word, (size_t)layout->word_bytes);
}

static uint64_t record_check(const struct context_layout *layout, uint64_t record_va, uint64_t resume_va, uint64_t pc_va)
{
    uint64_t check = WIRE_RECORD_MAGIC ^ resume_va ^ pc_va ^ record_va;
    return layout->word_bytes == 8 ? check : (uint32_t)check;
}

/* Where the thread whose frame has its pc at word `index`, address `va`, is to go on. */
static uint64_t real_pc(const struct context_layout *layout, const uint8_t *bytes, long index, long words, uint64_t va)
{
    uint64_t pc = word_at(bytes, layout, index);
    if (index + layout->record + 2 > words)
        return pc;
    uint64_t resume_va = word_at(bytes, layout, index + layout->record), check = word_at(bytes, layout, index + layout->record + 1);
    uint64_t record_va = va + (uint64_t)(layout->record * layout->word_bytes);
    return resume_va && check == record_check(layout, record_va, resume_va, pc) ? resume_va : pc;
}

/* A frame that shows `pc` goes on at `resume_va`, or at `pc` itself. */
static struct err *write_record(struct visitor *visitor, const struct context_layout *layout, uint64_t va, uint64_t pc, uint64_t resume_va)
{
    uint8_t bytes[16];
    uint64_t record_va = va + (uint64_t)(layout->record * layout->word_bytes);
    set_word(bytes, layout, 0, resume_va == pc ? 0 : resume_va);
    set_word(bytes, layout, 1, record_check(layout, record_va, resume_va, pc));
    return target_write(visitor->target, record_va, bytes, 2 * (size_t)layout->word_bytes);
}

/* The si_addr of a fault at the pc of the frame, if that is what the word is: it goes with the pc. */
static struct err *move_fault(struct visitor *visitor, const struct context_layout *layout, const uint8_t *bytes, long index, long words,
                              uint64_t va, uint64_t pc)
{
    long at = index + layout->fault, first = at - (layout->word_bytes == 8 ? 2 : 3);
    int32_t signal;
    if (first < 0 || at >= words || word_at(bytes, layout, at) != word_at(bytes, layout, index))
        return NULL;
    memcpy(&signal, bytes + first * layout->word_bytes, sizeof signal);
    if (signal != SIGILL && signal != SIGTRAP && signal != SIGFPE && signal != SIGSYS)
        return NULL;
    uint8_t word[8];
    set_word(word, layout, 0, pc);
    return target_write(visitor->target, va + (uint64_t)(layout->fault * layout->word_bytes), word, (size_t)layout->word_bytes);
}

static struct err *visit_frame(struct visitor *visitor, const struct context_layout *layout, uint8_t *bytes, long index, long words,
                               uint64_t va, uint64_t pc)
{
    uint64_t shown = word_at(bytes, layout, index);
    struct load_move_regs regs = {.pc = pc,
                                  .bp = word_at(bytes, layout, index + layout->bp),
                                  .di = word_at(bytes, layout, index + layout->di),
                                  .is_hidden = pc != shown,
                                  .restorer_va = index + layout->restorer >= 0 ? word_at(bytes, layout, index + layout->restorer) : 0,
                                  .old_restorer_va = layout->old_restorer && index + layout->old_restorer >= 0
                                                         ? word_at(bytes, layout, index + layout->old_restorer)
                                                         : 0,
                                  .fire = {.ax = word_at(bytes, layout, index + layout->ax),
                                           .cx = word_at(bytes, layout, index + layout->cx),
                                           .dx = word_at(bytes, layout, index + layout->dx),
                                           .sp = word_at(bytes, layout, index + layout->sp),
                                           .flags = word_at(bytes, layout, index + layout->flags)}};
    if (!visitor->visit(visitor->context, NULL, &regs))
        return NULL;
    if ((pc != shown || regs.shows_pc) && !regs.is_over)
        return write_record(visitor, layout, va, shown, regs.pc);
    ERR_TRY(move_fault(visitor, layout, bytes, index, words, va, regs.pc));
    set_word(bytes, layout, index, regs.pc);
    set_word(bytes, layout, index + layout->ax, regs.fire.ax);
    set_word(bytes, layout, index + layout->cx, regs.fire.cx);
    set_word(bytes, layout, index + layout->dx, regs.fire.dx);
    set_word(bytes, layout, index + layout->sp, regs.fire.sp);
    set_word(bytes, layout, index + layout->flags, regs.fire.flags);
    return target_write(visitor->target, va - CONTEXT_BEFORE * (unsigned)layout->word_bytes,
                        bytes + (index - CONTEXT_BEFORE) * layout->word_bytes,
                        (CONTEXT_BEFORE + CONTEXT_AFTER) * (size_t)layout->word_bytes);
}

uint64_t load_own_stack_owner(const struct wire_shared *journal, uint64_t sp)
{
    const struct jit_stacks stacks = {journal->own_stacks_va, journal->own_stack_count, 0};
    uint64_t number = (sp - stacks.va) >> JIT_OWN_SHIFT;
    return stacks.va && number < stacks.count ? jit_owner_va(&stacks, (uint32_t)number) : 0;
}

/* From an address up to the end of its mapping, or of the stack of ours, within reason. */
static size_t room_above(const struct visitor *visitor, uint64_t va)
{
    size_t low = 0;
    for (size_t high = visitor->maps->map.n; low < high;) {
        size_t middle = (low + high) / 2;
        if (visitor->maps->map.at[middle].start_va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    const struct target_map *map = low ? &visitor->maps->map.at[low - 1] : NULL;
    if (!map || va >= map->end_va)
        return 0;
    uint64_t owner_va = load_own_stack_owner(visitor->journal, va), end_va = owner_va && owner_va < map->end_va ? owner_va : map->end_va;
    if (va >= end_va)
        return 0;
    return end_va - va < STACK_SCAN_BYTES ? (size_t)(end_va - va) : STACK_SCAN_BYTES;
}

/* Remembers a stack to scan, unless one that is scanned already includes it. */
static void note_one_stack(struct visitor *visitor, uint64_t sp)
{
    size_t room = room_above(visitor, sp);
    for (size_t i = 0; i < visitor->stack_count; i++)
        if (sp >= visitor->stack[i] && sp - visitor->stack[i] < room_above(visitor, visitor->stack[i]))
            return;
    if (room && visitor->stack_count < MAX_STACKS)
        visitor->stack[visitor->stack_count++] = sp;
}

/* Where the thread's stack of the program ends: also when it has gone on to a stack of ours. */
static uint64_t program_sp(const struct visitor *visitor, uint64_t sp)
{
    uint64_t owner_va = load_own_stack_owner(visitor->journal, sp), below;
    bool known = owner_va && target_read_some(visitor->target, owner_va, &below, sizeof below) == sizeof below;
    return known ? below : sp;
}

/* ... and of a thread that has gone on to a stack of ours, the one that it came from. */
static void note_stack(struct visitor *visitor, uint64_t sp)
{
    uint64_t of_the_program = program_sp(visitor, sp);
    note_one_stack(visitor, sp);
    if (of_the_program != sp)
        note_one_stack(visitor, of_the_program);
}

/* Whether nothing will return to a frame any more. Programs that are known for small stacks, which lie side by side, take their signals on
 * alternate stacks and leave a handler by returning. So there a frame on an alternate stack that no thread is on any more is what a handler
 * that has returned has left; it stays until the next signal. */
static bool is_left_behind(const struct visitor *visitor, const struct context_layout *layout, const uint8_t *buffer, long i, uint64_t va)
{
    if (!visitor->journal->own_stacks_va || i + layout->stack < 0)
        return false;
    uint64_t stack_va = word_at(buffer, layout, i + layout->stack), bytes = word_at(buffer, layout, i + layout->stack_bytes);
    if (va - stack_va >= bytes)
        return false;
    for (size_t k = 0; k < target_thread_count(visitor->target); k++) {
        uint64_t sp = program_sp(visitor, target_thread(visitor->target, k)->regs.rsp);
        if (sp >= stack_va && sp < va)
            return false;
    }
    return true;
}

static struct err *scan_stack(struct visitor *visitor, uint64_t sp, uint8_t *buffer)
{
    const struct context_layout *layout = target_width(visitor->target) == 64 ? &context64 : &context32;
    uint64_t word_bytes = (uint64_t)layout->word_bytes, start_va = (sp + word_bytes - 1) / word_bytes * word_bytes;
    long words = (long)(target_read_some(visitor->target, start_va, buffer, room_above(visitor, start_va)) / word_bytes);
    for (long i = CONTEXT_BEFORE; i + CONTEXT_AFTER <= words; i++) {
        if ((word_at(buffer, layout, i + layout->code_segment) & 0xffff) != (uint64_t)layout->code_segment_value)
            continue;
        if (!(word_at(buffer, layout, i + layout->flags) & 2))
            continue;
        /* Whatever it interrupted, its stack may hold more frames. */
        note_stack(visitor, word_at(buffer, layout, i + layout->sp));
        uint64_t va = start_va + (uint64_t)i * word_bytes, pc = real_pc(layout, buffer, i, words, va);
        if (visitor->is_ours(visitor->context, pc) && !is_left_behind(visitor, layout, buffer, i, va))
            ERR_TRY(visit_frame(visitor, layout, buffer, i, words, va, pc));
    }
    return NULL;
}

/* ---- all threads ---- */

/* A parked thread stands behind its system call, or before it when the kernel makes it again. */
static void visit_parked(struct visitor *visitor, struct target_thread *thread)
{
    enum { CALL_BYTES = 2 };
    uint64_t pc = thread->regs.rip;
    bool is_ours = visitor->is_ours(visitor->context, pc);
    if (!is_ours && thread->call >= 0 && visitor->is_ours(visitor->context, pc - CALL_BYTES)) {
        is_ours = true;
        pc -= CALL_BYTES;
    }
    struct load_move_regs move = {.pc = pc, .bp = thread->regs.rbp, .must_stay = is_ours, .fire = {.sp = thread->regs.rsp}};
    visitor->visit(visitor->context, thread, &move);
}

static void visit_thread(struct visitor *visitor, struct target_thread *thread)
{
    struct user_regs_struct *regs = &thread->regs;
    visitor->stack_count = 0;
    note_stack(visitor, regs->rsp);
    if (thread->parked) {
        visit_parked(visitor, thread);
        return;
    }
    bool is_ours = visitor->is_ours(visitor->context, regs->rip);
    if (is_ours)
        target_thread_restart_here(visitor->target, thread);
    struct load_move_regs move = {.pc = regs->rip,
                                  .bp = regs->rbp,
                                  .di = regs->rdi,
                                  .must_stay = is_ours && target_thread_has_fault(visitor->target, thread),
                                  .fire = {regs->rax, regs->rcx, regs->rdx, regs->rsp, regs->eflags}};
    if (!visitor->visit(visitor->context, thread, &move))
        return;
    target_thread_move_fault(thread, regs->rip, move.pc);
    regs->rip = move.pc;
    regs->rax = move.fire.ax;
    regs->rcx = move.fire.cx;
    regs->rdx = move.fire.dx;
    regs->rsp = move.fire.sp;
    regs->eflags = move.fire.flags;
    thread->regs_changed = true;
}

static struct err *visit_all(struct visitor *visitor)
{
    uint8_t *buffer = memory_alloc(STACK_SCAN_BYTES);
    struct err *error = NULL;
    for (size_t i = 0; i < target_thread_count(visitor->target) && !error; i++) {
        visit_thread(visitor, target_thread(visitor->target, i));
        for (size_t k = 0; k < visitor->stack_count && !error; k++)
            error = scan_stack(visitor, visitor->stack[k], buffer);
    }
    free(buffer);
    struct target *target = visitor->target;
    for (size_t i = 0; i < target_sharer_count(target) && !error; i++) {
        visitor->target = target_sharer(target, i);
        error = visit_all(visitor);
    }
    visitor->target = target;
    return error;
}

struct err *load_visit_threads(struct target *target, const struct wire_shared *journal, const struct target_maps *maps,
                               load_is_ours_fn *is_ours, load_visit_fn *visit, void *context)
{
    struct target_maps own;
    struct visitor visitor = {
        .target = target, .journal = journal, .maps = maps ? maps : &own, .is_ours = is_ours, .visit = visit, .context = context};
    if (maps)
        return visit_all(&visitor);
    ERR_TRY(target_maps_read(target, &own));
    struct err *error = visit_all(&visitor);
    target_maps_deinit(&own);
    return error;
}
