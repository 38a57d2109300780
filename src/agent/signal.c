/* What a signal handler sees of the interrupted pc.
 *
 * A thread that is interrupted in our code stands, for the program, at an instruction of the program's own. Probes at the first instruction
 * of every handler and of every restorer (what a handler returns to) bring us here. agent_enter() makes the signal frame show the
 * registers that the thread would have natively, and leaves a record in it of the place in our code where it is to go on. agent_leave()
 * puts that place into the frame if the handler has left the pc alone; a pc inside a window that the handler has set itself becomes its
 * copy. So nothing is executed or counted twice, and a handler that jumps away leaves nothing behind.
 *
 * A trap that is met after the controller has died and that the program's own handler of SIGTRAP is called for is taken by agent_enter(),
 * which returns from the signal at once: the handler never runs for it.
 *
 * Rules
 *  1. No system call but that return, nothing that waits, no data but the shared memory, the block and the frame.
 *  2. A handler may interrupt any of this. Where it interrupts code that calls the agent, or the agent, the program stands at the probed
 *     instruction with the registers of the block. agent_leave() and the functions of agent.c can be begun again. agent_enter() is
 *     completed by the second handler's agent_enter(): from `state` 1 on, the block alone says what becomes of the frame.
 *  3. The base pointer is the block's address throughout (-ffixed-...bp), which is how rule 2 finds it.
 */
#include "agent/agent.h"

#if defined __x86_64__
/* Words of a signal context. */
enum { DI = 8, SI, BP, BX, DX, AX, CX, SP, PC, FLAGS };
enum { RECORD_AFTER_PC = WIRE_RECORD_AFTER_PC64, CALL_RETURN = WIRE_CALL_RETURN64 };
/* The words that a call saves behind the flags, four bits each, the first pushed lowest. */
#define CALL_ORDER 0xab7654321089cedull
#else
enum { DI = 4, SI, BP, SP, BX, DX, CX, AX, PC = 14, FLAGS = 16, SP_AT_SIGNAL };
enum { RECORD_AFTER_PC = WIRE_RECORD_AFTER_PC32, CALL_RETURN = WIRE_CALL_RETURN32 };
#define CALL_ORDER 0x456f89abull
#endif
enum { FIRE_ORDER = AX | CX << 4 | DX << 8, NO_WORD = 15 };

/* ---- finding ---- */

SHOWS static const struct wire_pc *pcs(const struct wire_shared *shared, const struct wire_trampoline *trampoline)
{
    return (const struct wire_pc *)((const char *)shared + shared->pcs_offset) + trampoline->pc_first;
}

/* The trampoline that `va` lies in, or NULL. */
SHOWS static const struct wire_trampoline *find_trampoline(const struct wire_shared *shared, uintptr_t va)
{
    enum { STEP = 16, MOST_BYTES = 1 << 16 };
    const struct wire_region *region = (const void *)((const char *)shared + shared->regions_offset);
    for (uint32_t i = 0; i < shared->region_count; i++) {
        uintptr_t start = (uintptr_t)region[i].va;
        if (va - start >= region[i].bytes)
            continue;
        for (uintptr_t at = va & -(uintptr_t)STEP; at >= start + STEP && va - at < MOST_BYTES; at -= STEP) {
            const struct wire_trampoline *trampoline = (const void *)(at - sizeof *trampoline);
            if (trampoline->check == (WIRE_TRAMPOLINE_MAGIC ^ at))
                return (uint64_t)trampoline->pc_first + trampoline->pc_count <= shared->pc_room ? trampoline : NULL;
        }
        return NULL;
    }
    return NULL;
}

/* The entry that `va` belongs to: the last at or before it. */
SHOWS static const struct wire_pc *find_pc(const struct wire_shared *shared, const struct wire_trampoline *trampoline, uintptr_t va)
{
    const struct wire_pc *entry = pcs(shared, trampoline), *found = 0;
    for (uint32_t i = 0; i < trampoline->pc_count; i++)
        if (entry[i].kind != WIRE_PC_NONE && entry[i].va <= va && entry[i].va > (uintptr_t)trampoline &&
            (!found || entry[i].va > found->va))
            found = &entry[i];
    return found;
}

/* Where in the trampoline the instruction at `origin_va` begins: its probes, or with `fired` its copy. 0: nowhere. */
SHOWS static uintptr_t find_copy(const struct wire_shared *shared, const struct wire_trampoline *trampoline, uint64_t origin_va, bool fired)
{
    const struct wire_pc *entry = pcs(shared, trampoline);
    for (uint32_t i = 0; i < trampoline->pc_count; i++)
        if (entry[i].kind != WIRE_PC_NONE && entry[i].origin_va == origin_va && !entry[i].sp_undo && entry[i].va > (uintptr_t)trampoline &&
            (!fired || (entry[i].kind == WIRE_PC_COPY && entry[i].value)))
            return (uintptr_t)entry[i].va;
    return 0;
}

/* The trampoline of the window that `va` lies in, or with `island` of the island that begins there. */
SHOWS static const struct wire_trampoline *find_site(const struct wire_shared *shared, uintptr_t va, bool island, uintptr_t *site_va)
{
    const struct wire_process *process = (const void *)(uintptr_t)shared->process_va;
    uintptr_t index = __atomic_load_n((const uintptr_t *)&process->index, __ATOMIC_ACQUIRE);
    const uint32_t *cell = (const void *)((const char *)shared + index / WIRE_INDEX_STEP * WIRE_INDEX_STEP);
    const struct wire_site *site = (const void *)((const char *)shared + shared->sites_offset);
    uint32_t mask = (1u << index % WIRE_INDEX_STEP) - 1, at = wire_index_cell((uint32_t)((uint64_t)va >> WIRE_INDEX_UNIT_SHIFT)) & mask;
    for (uint32_t value; (value = __atomic_load_n(&cell[at], __ATOMIC_ACQUIRE)) != 0; at = (at + 1) & mask) {
        const struct wire_site *one = &site[value - 1];
        if (value == WIRE_INDEX_GONE || value > process->site_limit || !one->length)
            continue;
        if (island ? one->extent || one->va != va : va - (uintptr_t)one->va >= one->extent)
            continue;
        *site_va = (uintptr_t)one->va;
        return find_trampoline(shared, (uintptr_t)one->trampoline_va);
    }
    return 0;
}

/* The trampoline that a far island at `va`, in a page of ours, leads to. */
SHOWS static const struct wire_trampoline *find_far(const struct wire_shared *shared, uintptr_t va)
{
    const struct wire_region *region = (const void *)((const char *)shared + shared->regions_offset);
    for (uint32_t i = 0; i < shared->region_count; i++) {
        if (va - (uintptr_t)region[i].va >= region[i].bytes)
            continue;
#if defined __x86_64__
        const struct {
            uint8_t jmp[6];
            uint64_t to;
        } __attribute__((packed)) *island = (const void *)va;
        uintptr_t to = island->jmp[0] == 0xff ? (uintptr_t)island->to : 0;
#else
        const struct {
            uint8_t jmp;
            uint32_t distance;
        } __attribute__((packed)) *island = (const void *)va;
        uintptr_t to = island->jmp == 0xe9 ? va + 5 + island->distance : 0;
#endif
        const struct wire_trampoline *trampoline = to ? find_trampoline(shared, to) : 0;
        return trampoline && (uintptr_t)(trampoline + 1) == to ? trampoline : 0;
    }
    return 0;
}

SHOWS static const struct wire_restorer *find_restorer(const struct wire_shared *shared, uintptr_t va)
{
    for (int i = 0; i < WIRE_RESTORER_ROOM; i++)
        if (va && shared->restorer[i].va == va)
            return &shared->restorer[i];
    return 0;
}

/* The entry of the code that called the agent with this block. */
SHOWS static const struct wire_pc *find_call(const struct wire_shared *shared, const struct agent_block *block)
{
    uintptr_t va = *(const uintptr_t *)(((uintptr_t)block & -(uintptr_t)16) - CALL_RETURN);
    const struct wire_trampoline *trampoline = find_trampoline(shared, va);
    const struct wire_pc *entry = trampoline ? find_pc(shared, trampoline, va) : 0;
    return entry && entry->kind == WIRE_PC_CALL ? entry : 0;
}

SHOWS static bool is_called_code(const struct wire_shared *shared, uintptr_t va)
{
    const uint32_t *range = (const void *)(uintptr_t)(shared->agent_va + WIRE_AGENT_RANGES);
    uintptr_t offset = va - (uintptr_t)shared->agent_va;
    return offset == WIRE_AGENT_LOAD_EVENT || offset == WIRE_AGENT_ACTION || offset == WIRE_AGENT_ENTER || offset == WIRE_AGENT_LEAVE ||
           offset == WIRE_AGENT_GO_ON || offset == WIRE_AGENT_GO_ON_BARE || (offset >= range[0] && offset < range[2]);
}

/* ---- traps ---- */

/* The trampoline of the trap that begins at `va`, or NULL. */
SHOWS static const struct wire_trampoline *find_trap(const struct wire_shared *shared, uintptr_t va)
{
    uintptr_t site_va;
    const struct wire_trampoline *trampoline = find_site(shared, va, false, &site_va);
    const struct wire_site *site = (const void *)((const char *)shared + shared->sites_offset);
    const struct wire_process *process = (const void *)(uintptr_t)shared->process_va;
    for (uint32_t i = 0; trampoline && i < shared->site_count && i < process->site_limit; i++)
        if (site[i].va == va && site[i].length == 1 && site[i].patched[0] == 0xcc)
            return trampoline;
    return 0;
}

/* Where a thread goes on that got this SIGTRAP because of a trap of ours; 0: it is the program's own. Also so when the context says it
 * already: a handler may have interrupted take_trap(). */
SHOWS static uintptr_t after_trap(const struct wire_shared *shared, const uintptr_t *context)
{
    uintptr_t va = context[PC];
    const struct wire_trampoline *trampoline = find_trap(shared, va - 1);
    if (trampoline)
        return (uintptr_t)(trampoline + 1);
    trampoline = find_trampoline(shared, va);
    return trampoline && (uintptr_t)(trampoline + 1) == va && find_trap(shared, (uintptr_t)pcs(shared, trampoline)->origin_va) ? va : 0;
}

/* ---- undoing ---- */

SHOWS static const struct wire_undo *find_undo(const struct wire_undo *undo, uint32_t count, uint64_t offset)
{
    for (uint32_t i = 0; i < count; i++)
        if (undo[i].offset == offset)
            return &undo[i];
    return 0;
}

SHOWS static void undo_saved(const struct wire_undo *undo, uintptr_t *context, bool is_call)
{
    enum { LOW_FLAGS = 0xd5, OVERFLOW = 0x800 }; /* SF ZF AF PF CF, as lahf takes them; OF */
    const uintptr_t *word = (const void *)(context[undo->flags & WIRE_UNDO_BASE ? BP : SP] + undo->below);
    uint64_t order = is_call ? (uint64_t)CALL_ORDER : (uint64_t)FIRE_ORDER;
    if (undo->flags & WIRE_UNDO_FLAGS_IN_AX) {
        uintptr_t overflow = undo->flags & WIRE_UNDO_OVERFLOW_IN_FLAG ? context[FLAGS] & OVERFLOW : context[AX] & 1 ? OVERFLOW : 0;
        context[FLAGS] = (context[FLAGS] & ~(uintptr_t)(LOW_FLAGS | OVERFLOW)) | (context[AX] >> 8 & LOW_FLAGS) | overflow;
    }
    int left = undo->depth;
    if (is_call && left)
        context[FLAGS] = word[--left];
    for (; left; order >>= 4) {
        left--;
        if ((order & 15) != NO_WORD || sizeof(uintptr_t) == 8)
            context[order & 15] = word[left];
    }
    context[SP] = (uintptr_t)(word + undo->depth) + undo->red_zone;
}

/* Between the halves of a 32-bit process's counter: `lock adcl $0,disp32(%ecx)` would be next, so do it here. */
SHOWS static void add_carry(const uintptr_t *context)
{
    const struct {
        uint8_t opcode[3];
        uint32_t displacement;
    } __attribute__((packed)) *insn = (const void *)context[PC];
    if (context[FLAGS] & 1)
        __atomic_add_fetch((uint32_t *)(uintptr_t)(insn->displacement + (uint32_t)context[CX]), 1, __ATOMIC_SEQ_CST);
}

SHOWS static void complete(struct wire_shared *shared, struct agent_block *block);
SHOWS static bool is_at_trap(const struct wire_shared *shared, const struct agent_block *block);

/* What the code of this entry steps over before it saves anything. */
SHOWS static uint8_t red_zone_of(const struct wire_pc *entry, uint8_t usual)
{
    return entry->kind == WIRE_PC_CALL && entry->value == WIRE_AGENT_GO_ON_BARE ? 0 : usual;
}

/* In the agent itself, whose caller's block the base pointer leads to. */
SHOWS static bool show_called(struct wire_shared *shared, uintptr_t *context, uintptr_t *resume_va)
{
    struct agent_block *block = (void *)context[BP];
    const struct wire_pc *entry = find_call(shared, block);
    if (!entry)
        return false;
    *resume_va = (uintptr_t)entry->va;
    if (entry->value == WIRE_AGENT_ENTER && !is_at_trap(shared, block)) {
        complete(shared, block);
        *resume_va = (uintptr_t)entry[1].va;
    }
    const struct wire_undo undo = {.depth = SAVED_COUNT,
                                   .red_zone = red_zone_of(entry, RED_ZONE),
                                   .below = WIRE_CALL_WORDS * sizeof(uintptr_t),
                                   .flags = WIRE_UNDO_BASE};
    undo_saved(&undo, context, true);
    context[PC] = (uintptr_t)entry->origin_va;
    return true;
}

SHOWS static bool show_copy(const struct wire_shared *shared, const struct wire_trampoline *trampoline, const struct wire_pc *entry,
                            uintptr_t *context, uintptr_t *resume_va)
{
    uintptr_t va = context[PC];
    if (entry->va != va)
        return false;
    *resume_va = entry->sp_undo ? find_copy(shared, trampoline, entry->origin_va, true) : va;
    context[PC] = (uintptr_t)entry->origin_va;
    context[SP] += entry->sp_undo;
    if (sizeof(uintptr_t) == 8 && context[CX] == va)
        context[CX] = context[PC]; /* where `syscall` returns to */
    return *resume_va != 0;
}

SHOWS static bool show_saved(const struct wire_shared *shared, const struct wire_pc *entry, uintptr_t *context, uintptr_t *resume_va)
{
    bool is_call = entry->kind == WIRE_PC_CALL;
    const struct wire_undo *undo = find_undo(is_call ? shared->call_undo : shared->fire_undo,
                                             is_call ? shared->call_undo_count : shared->fire_undo_count, context[PC] - entry->va);
    if (!undo)
        return false;
    if (undo->flags & WIRE_UNDO_CARRY)
        add_carry(context);
    /* Every firing code has something behind it. */
    *resume_va = (uintptr_t)(undo->flags & WIRE_UNDO_DONE ? entry[1].va : entry->va);
    struct wire_undo own = *undo;
    own.red_zone = undo->red_zone ? red_zone_of(entry, undo->red_zone) : 0;
    undo_saved(&own, context, is_call);
    context[PC] = (uintptr_t)entry->origin_va;
    return true;
}

/* In the code that calls a clause's body; where a body itself is interrupted, nothing is shown. */
SHOWS static bool show_clause(const struct wire_pc *entry, uintptr_t *context, uintptr_t *resume_va)
{
#if defined __x86_64__
    enum { ZONE = WIRE_CLAUSE_ZONE64, PUSHED = WIRE_CLAUSE_PUSHED64, DONE = WIRE_CLAUSE_DONE64 };
#else
    enum { ZONE = 0, PUSHED = WIRE_CLAUSE_PUSHED32, DONE = WIRE_CLAUSE_DONE32 };
#endif
    uintptr_t offset = context[PC] - (uintptr_t)entry->va;
    if (offset != 0 && offset != ZONE && offset != PUSHED && offset != DONE)
        return false;
    if (offset)
        context[SP] += RED_ZONE;
    if (offset >= PUSHED)
        context[SP] += sizeof(uintptr_t);
    context[PC] = (uintptr_t)entry->origin_va;
    *resume_va = (uintptr_t)(offset == DONE ? entry[1].va : entry->va);
    return true;
}

/* If the context is one of our code, makes it that of the program's own and says where in our code to go on from that. */
SHOWS static bool show(struct wire_shared *shared, uintptr_t *context, uintptr_t *resume_va)
{
    uintptr_t va = context[PC], site_va;
    if (is_called_code(shared, va))
        return show_called(shared, context, resume_va);
    const struct wire_trampoline *trampoline = find_trampoline(shared, va);
    const struct wire_pc *entry = trampoline ? find_pc(shared, trampoline, va) : 0;
    if (entry && entry->kind == WIRE_PC_COPY && show_copy(shared, trampoline, entry, context, resume_va))
        return true;
    if (entry && entry->kind == WIRE_PC_CLAUSE)
        return show_clause(entry, context, resume_va);
    if (entry && entry->kind != WIRE_PC_COPY)
        return show_saved(shared, entry, context, resume_va);
    /* An island is a jump to the start of a trampoline. */
    trampoline = find_site(shared, va, true, &site_va);
    if (!trampoline)
        trampoline = find_far(shared, va);
    if (!trampoline)
        return false;
    context[PC] = (uintptr_t)pcs(shared, trampoline)->origin_va;
    *resume_va = (uintptr_t)(trampoline + 1);
    return true;
}

/* ---- frames ---- */

enum { STATE_NEW, STATE_CHANGE, STATE_KEEP };
enum {
    FRAME_CONTEXT64 = 8 + 40,        /* return address; flags, link and stack of the ucontext */
    FRAME_INFO64 = 8 + 304,          /* the siginfo behind the ucontext */
    FRAME_CONTEXT32 = 16 + 128 + 20, /* return address and three arguments; siginfo; flags, link and stack of the ucontext */
    FRAME_INFO32 = 16,
    FRAME_CONTEXT32_OLD = 8, /* return address and signal number */
};

SHOWS static uintptr_t *frame_context(uintptr_t frame_va, bool is_info)
{
    if (sizeof(uintptr_t) == 8)
        return (uintptr_t *)(frame_va + FRAME_CONTEXT64);
    return (uintptr_t *)(frame_va + (is_info ? FRAME_CONTEXT32 : FRAME_CONTEXT32_OLD));
}

SHOWS static uintptr_t *frame_record(uintptr_t *context)
{
    return (uintptr_t *)((char *)&context[PC] + RECORD_AFTER_PC);
}

SHOWS static uintptr_t record_check(const uintptr_t *record, uintptr_t resume_va, uintptr_t pc_va)
{
    return (uintptr_t)WIRE_RECORD_MAGIC ^ resume_va ^ pc_va ^ (uintptr_t)record;
}

/* Faults that name the instruction do so in si_addr, too. */
SHOWS static void show_in_info(uintptr_t frame_va, uintptr_t from_va, uintptr_t to_va)
{
    enum { ILL = 4, TRAP = 5, FPE = 8, SYS = 31, KERNEL = 0x80 };
    int32_t *info = (int32_t *)(frame_va + (sizeof(uintptr_t) == 8 ? FRAME_INFO64 : FRAME_INFO32));
    uintptr_t *address = (uintptr_t *)&info[sizeof(uintptr_t) == 8 ? 4 : 3];
    if ((info[0] == ILL || info[0] == TRAP || info[0] == FPE || info[0] == SYS) && info[2] > 0 && info[2] != KERNEL && *address == from_va)
        *address = to_va;
}

SHOWS static uint32_t signal_number(const struct agent_block *block)
{
    return (uint32_t)(sizeof(uintptr_t) == 8 ? agent_saved(block, SAVED_DI) : ((const uintptr_t *)agent_saved_sp(block))[1]);
}

/* Where the thread goes on if the handler that begins was called because of a trap of ours, else 0. */
SHOWS static uintptr_t trap_resume(const struct wire_shared *shared, const struct agent_block *block)
{
    enum { TRAP = 5 };
    uintptr_t frame_va = agent_saved_sp(block);
    const struct wire_restorer *restorer = find_restorer(shared, *(const uintptr_t *)frame_va);
    return restorer && signal_number(block) == TRAP ? after_trap(shared, frame_context(frame_va, restorer->is_info)) : 0;
}

SHOWS static bool is_at_trap(const struct wire_shared *shared, const struct agent_block *block)
{
    return trap_resume(shared, block) != 0;
}

SHOWS static void take_trap(const struct wire_shared *shared, const struct agent_block *block, uintptr_t resume_va)
{
    uintptr_t frame_va = agent_saved_sp(block);
    bool is_info = find_restorer(shared, *(const uintptr_t *)frame_va)->is_info;
    frame_context(frame_va, is_info)[PC] = resume_va;
#if defined __x86_64__
    enum { NR_RT_SIGRETURN = 15 };
    uintptr_t sp = frame_va + 8;
    uintptr_t number = NR_RT_SIGRETURN;
    __asm__ volatile("mov %0, %%rsp\n syscall" : : "r"(sp), "a"(number) : "memory");
#else
    enum { NR_SIGRETURN = 119, NR_RT_SIGRETURN = 173 };
    uintptr_t sp = frame_va + (is_info ? 4 : 8); /* the old restorer pops the signal's number */
    uintptr_t number = is_info ? NR_RT_SIGRETURN : NR_SIGRETURN;
    __asm__ volatile("mov %0, %%esp\n int $0x80" : : "r"(sp), "a"(number) : "memory");
#endif
    __builtin_unreachable();
}

SHOWS static void complete(struct wire_shared *shared, struct agent_block *block)
{
    uintptr_t frame_va = agent_saved_sp(block);
    const struct wire_restorer *restorer = find_restorer(shared, *(const uintptr_t *)frame_va);
    if (!restorer)
        return; /* called by the program itself */
    uint32_t number = signal_number(block);
    if (number - 1 < 64 && shared->untouched_signals >> (number - 1) & 1)
        return;
    uintptr_t *context = frame_context(frame_va, restorer->is_info), *record = frame_record(context);
    if (block->state == STATE_NEW) {
        for (int i = 0; i < CONTEXT_WORDS; i++)
            block->context[i] = context[i];
        block->old_pc_va = context[PC];
        bool changed = show(shared, block->context, &block->resume_va);
        __atomic_store_n(&block->state, changed ? STATE_CHANGE : STATE_KEEP, __ATOMIC_RELEASE);
    }
    if (block->state == STATE_KEEP) {
        record[0] = 0;
        return;
    }
#if defined __i386__
    block->context[SP_AT_SIGNAL] = block->context[SP];
#endif
    for (int i = 0; i < CONTEXT_WORDS; i++)
        context[i] = block->context[i];
    record[0] = block->resume_va;
    record[1] = record_check(record, block->resume_va, context[PC]);
    if (restorer->is_info)
        show_in_info(frame_va, block->old_pc_va, context[PC]);
}

/* The program's own instruction inside a window is its copy: the bytes that stood there are gone. */
SHOWS static void go_on(const struct wire_shared *shared, uintptr_t *pc)
{
    uintptr_t site_va, copy_va;
    const struct wire_trampoline *trampoline = find_site(shared, *pc, false, &site_va);
    if (trampoline && site_va != *pc && (copy_va = find_copy(shared, trampoline, *pc, false)) != 0)
        *pc = copy_va;
}

/* Called while firing, at the first instruction of a signal handler. */
SHOWS void agent_enter(struct wire_shared *shared, struct agent_block *block)
{
    uintptr_t trap_va = trap_resume(shared, block);
    if (trap_va)
        take_trap(shared, block, trap_va);
    complete(shared, block);
}

/* Called while firing, at the first instruction of a restorer: the stack pointer is behind the frame's return address. */
SHOWS void agent_leave(struct wire_shared *shared, struct agent_block *block)
{
    const struct wire_pc *entry = find_call(shared, block);
    const struct wire_restorer *restorer = entry ? find_restorer(shared, (uintptr_t)entry->origin_va) : 0;
    if (!restorer)
        return;
    uintptr_t *context = frame_context(agent_saved_sp(block) - sizeof(uintptr_t), restorer->is_info), *record = frame_record(context);
    uintptr_t resume_va = record[0];
    if (resume_va && record[1] == record_check(record, resume_va, context[PC])) {
        /* The window may be gone since. */
        const struct wire_trampoline *trampoline = find_trampoline(shared, resume_va);
        entry = trampoline ? find_pc(shared, trampoline, resume_va) : 0;
        if (entry && entry->va == resume_va && find_copy(shared, trampoline, context[PC], false)) {
            context[PC] = resume_va;
            record[0] = 0;
            return;
        }
    }
    record[0] = 0;
    go_on(shared, &context[PC]);
}

/* Called while firing, at the `ret` of code that goes on where a signal has interrupted something, without rt_sigreturn: setcontext(), and
 * what Go's runtime has goroutines call that it interrupts. */
SHOWS void agent_go_on(struct wire_shared *shared, struct agent_block *block)
{
    go_on(shared, (uintptr_t *)agent_saved_sp(block));
}

SHOWS void agent_go_on_bare(struct wire_shared *shared, struct agent_block *block)
{
    go_on(shared, (uintptr_t *)(agent_saved_sp(block) - RED_ZONE));
}
