/* Where the program stands, for whoever finds a thread in the midst of our code without stopping it: a sample.
 *
 * In a trampoline the pc map says it. A clause's body was called from one, and the address in it is on the stack, where the body's table of
 * depths says; over it lie the place's number and the red zone. That it is some address in a trampoline is not enough: those of earlier
 * calls are left all over the stack. On a stack of ours these two are copies, and the owner says where the program's ends. Registers that
 * calls preserve are the program's in a body; in the agent only the base pointer. */
#include "load/internal.h"

#include "wire/stream.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 4096 }; /* of firing code or a copy, and of what bodies and the agent put on the stack */

/* ---- the pc map, sorted ---- */

static void collect(struct load_process *process)
{
    struct load_pc_map *map = &process->stand;
    const struct wire_pc *pc = load_shared_pcs(process->shared);
    map->count = 0;
    map->pc = memory_resize(map->pc, process->shared->pc_count + 1u, sizeof *map->pc);
    for (uint32_t i = 0; i < process->shared->pc_count; i++)
        if (pc[i].kind != WIRE_PC_NONE)
            map->pc[map->count++] = pc[i];
    load_pc_map_sort(map->pc, map->count);
    process->stand_is_old = false;
}

static const struct wire_pc *find(const struct load_pc_map *map, uint64_t va)
{
    size_t low = 0, high = map->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (map->pc[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low && va - map->pc[low - 1].va < LONGEST ? &map->pc[low - 1] : NULL;
}

static bool is_ours(const struct load_process *process, uint64_t va)
{
    const struct wire_region *region = load_shared_regions(process->shared);
    for (uint32_t i = 0; i < process->shared->region_count; i++)
        if (va - region[i].va < region[i].bytes)
            return true;
    return false;
}

/* ---- out of it ---- */

struct stand {
    struct load_process *process;
    struct load_standing *out;
    const uint8_t *stack;
    size_t bytes;
    bool wide;
};

static uint64_t word_bytes(const struct stand *stand)
{
    return stand->wide ? 8 : 4;
}

static uint64_t *sp_of(const struct stand *stand)
{
    return &stand->out->reg[stand->wide ? WIRE_REG64_SP : WIRE_REG32_SP];
}

/* The word of the stack `offset` bytes over the stack pointer. */
static bool stack_word(const struct stand *stand, uint64_t offset, uint64_t *word)
{
    *word = 0;
    if (offset > stand->bytes || stand->bytes - offset < word_bytes(stand))
        return false;
    memcpy(word, stand->stack + offset, word_bytes(stand));
    return true;
}

/* In the code that calls a body. */
static uint64_t clause_undo(const struct stand *stand, uint64_t offset)
{
    if (stand->wide)
        return (offset >= WIRE_CLAUSE_ZONE64 ? 128 : 0) + (offset >= WIRE_CLAUSE_PUSHED64 ? 8 : 0);
    return offset >= WIRE_CLAUSE_PUSHED32 ? 4 : 0;
}

/* In a trampoline. Counters and calls of the agent are undone as far as the stack pointer goes. */
static bool leave_trampoline(struct stand *stand, const struct wire_pc *entry)
{
    struct fire_undo undo;
    uint64_t offset = stand->out->pc - entry->va;
    switch (entry->kind) {
    case WIRE_PC_COPY:
        *sp_of(stand) += entry->sp_undo;
        break;
    case WIRE_PC_CLAUSE:
        *sp_of(stand) += clause_undo(stand, offset);
        break;
    case WIRE_PC_FIRE:
        if (!fire_count_undo(stand->wide ? INSN_MODE_64 : INSN_MODE_32, offset, &undo))
            return false;
        *sp_of(stand) += undo.saved * word_bytes(stand) + undo.red_zone;
        break;
    default:
        return false;
    }
    stand->out->pc = entry->origin_va;
    return true;
}

/* How far above the stack pointer the body's return address lies at the pc, or behind the call of the agent that returns there; -1: see
 * there. */
static int32_t depth_at(const struct load_body *body, uint64_t pc, bool behind_call)
{
    int32_t depth = -1;
    for (size_t i = 0; i < body->depth_count; i++) {
        bool is_past = body->depth[i].from > pc - body->va;
        if (is_past && !(behind_call && depth < 0))
            break;
        depth = body->depth[i].bytes;
        if (is_past)
            break;
    }
    return depth;
}

/* The clause was called from the trampoline whose address lies `offset` bytes over the stack pointer. */
static bool leave_call(struct stand *stand, uint64_t offset)
{
    uint64_t word, done = stand->wide ? WIRE_CLAUSE_DONE64 : WIRE_CLAUSE_DONE32;
    const struct wire_pc *entry = stack_word(stand, offset, &word) ? find(&stand->process->stand, word) : NULL;
    if (!entry || entry->kind != WIRE_PC_CLAUSE || word != entry->va + done)
        return false;
    uint64_t place_va = *sp_of(stand) + offset + word_bytes(stand);
    uint64_t owner_va = load_own_stack_owner(stand->process->shared, place_va);
    if (owner_va && !stack_word(stand, owner_va - *sp_of(stand), &word))
        return false;
    if (owner_va)
        *sp_of(stand) = word + (stand->wide ? JIT_OWNER_TO_PROGRAM64 : JIT_OWNER_TO_PROGRAM32);
    else
        *sp_of(stand) = place_va + clause_undo(stand, done);
    stand->out->was_on_ours = owner_va;
    stand->out->pc = entry->origin_va;
    return true;
}

/* In the agent. In 32 bit the base pointer leads to where the body pushed it before it called; in 64 bit the stack pointer from before the
 * call lies over the return address, twice. */
static bool leave_agent(struct stand *stand)
{
    uint64_t sp = *sp_of(stand), base = stand->out->reg[WIRE_REG32_BP], word, old;
    for (uint64_t offset = 0; offset < LONGEST && stack_word(stand, offset, &word); offset += word_bytes(stand)) {
        const struct load_body *body = load_process_body_at(stand->process, word);
        int32_t depth = body ? depth_at(body, word, true) : -1;
        if (depth < 0 || !stack_word(stand, offset + 8, &old))
            continue;
        if (!stand->wide)
            old = base + 4;
        if (old - (sp + offset) > 64 || !leave_call(stand, old - sp + (uint64_t)depth))
            continue;
        stand->out->known &= 1u << WIRE_REG64_SP | 1u << WIRE_REG64_BP;
        if (!stand->wide) {
            stand->out->known = 1u << WIRE_REG32_SP | (stack_word(stand, base - sp, &old) ? 1u << WIRE_REG32_BP : 0);
            stand->out->reg[WIRE_REG32_BP] = old;
        }
        return true;
    }
    return false;
}

static bool leave_body(struct stand *stand, const struct load_body *body)
{
    int32_t depth = depth_at(body, stand->out->pc, false);
    if (depth < 0 || !leave_call(stand, (uint64_t)depth))
        return false;
    /* What it uses it has saved; none of these it uses in 64 bit. */
    stand->out->known &= stand->wide ? 1u << WIRE_REG64_SP | 1u << WIRE_REG64_BP | 1u << WIRE_REG64_BX | 1u << WIRE_REG64_R12 |
                                           1u << WIRE_REG64_R13 | 1u << WIRE_REG64_R14 | 1u << WIRE_REG64_R15
                                     : 1u << WIRE_REG32_SP | 1u << WIRE_REG32_BP;
    return true;
}

uint64_t load_body_caller(struct load_process *process, uint64_t pc, uint64_t sp)
{
    const struct load_body *body = load_process_body_at(process, pc);
    int32_t depth = body ? depth_at(body, pc, false) : -1;
    uint64_t word = 0;
    size_t bytes = process->fire.mode == INSN_MODE_64 ? 8 : 4;
    if (depth < 0 || target_read_some(process->target, sp + (uint64_t)depth, &word, bytes) != bytes)
        return 0;
    return is_ours(process, word) ? word : 0;
}

bool load_process_stand(struct load_process *process, struct load_standing *standing, const uint8_t *stack, size_t stack_bytes)
{
    if (!is_ours(process, standing->pc))
        return false;
    if (process->stand_is_old || !process->stand.pc)
        collect(process);
    struct stand stand = {process, standing, stack, stack_bytes, process->fire.mode == INSN_MODE_64};
    const struct load_body *body = load_process_body_at(process, standing->pc);
    const struct wire_pc *entry = find(&process->stand, standing->pc);
    bool in_agent = standing->pc >= process->fire.agent_va && standing->pc < process->agent_clause_end_va, known;
    if (body)
        known = leave_body(&stand, body);
    else if (in_agent)
        known = leave_agent(&stand);
    else
        known = entry && leave_trampoline(&stand, entry);
    if (!known)
        standing->pc = 0;
    return true;
}
