/* Stacks of the thread that fires. Called while firing.
 *
 * The walk starts with the program's own registers, so nothing of ours is on the way, and reads the thread's own stack. The page of the
 * stack pointer can be read, since code of ours has just pushed onto it. The pages above it belong to the same stack as far as they are
 * mapped without a gap, and stay as long as the thread runs on it: each is asked about once in a walk, and then read directly. Of the stack
 * that the kernel gave the program it is known where it ends. Whatever else a frame leads to is read by the kernel, which answers also when
 * the memory goes away meanwhile. */
#include "agent/call.h"
#include "agent/quiet.h"
#include "stream/port.h"
#include "unwind/walk.h"

/* Of the first stack, within which the kernel maps nothing else on its own. */
enum { FIRST_STACK_BYTES = 8 << 20 };
enum { PAGE = 4096, WORD = sizeof(uintptr_t), BAD_ADDRESS = -14, ILP32_REGS = 8, LP64_REGS = 16 };

struct reader {
    struct wire_fire *fire;
    uint64_t low, high; /* of the stack: what can be read directly */
};

static bool extend(struct reader *reader)
{
    struct wire_process *process = (void *)(uintptr_t)reader->fire->process_va;
    if ((sizeof(void *) == 4 && reader->high >> 32) || !agent_may_call(process))
        return false;
    long answer = agent_call4(NR_SIGPROCMASK, -1, (long)reader->high, 0, 8);
    agent_has_called(process);
    if (answer == BAD_ADDRESS)
        return false;
    reader->high += PAGE;
    return true;
}

static bool read_word(void *context, uint64_t va, uint64_t *word)
{
    struct reader *reader = context;
    bool is_near = va >= reader->low && va < reader->high + PAGE && va + WORD > va;
    while (is_near && va + WORD > reader->high && extend(reader))
        ;
    if (is_near && va + WORD <= reader->high) {
        uintptr_t value;
        __builtin_memcpy(&value, (const void *)(uintptr_t)va, sizeof value);
        *word = value;
        return true;
    }
    *word = 0;
    return port_read(reader->fire, va, word, WORD);
}

_Static_assert(offsetof(struct unwind_work, regs.reg) == 0 && sizeof(struct unwind_work) <= WIRE_WALK_BYTES,
               "JIT code puts registers there");

static void start(struct wire_fire *fire, struct unwind_regs *regs)
{
    bool wide = sizeof(void *) == 8;
    for (int i = 0; i < WIRE_REG64_COUNT; i++)
        regs->reg[i] = (uintptr_t)regs->reg[i];
    regs->reg[wide ? WIRE_REG64_SP : WIRE_REG32_SP] = fire->sp;
    regs->pc = port_ctx(fire, WIRE_CTX_PC);
    regs->known = (1u << (wide ? LP64_REGS : ILP32_REGS)) - 1;
}

uint32_t port_stack(struct wire_fire *fire, uint64_t *work, uint64_t *pcs, uint32_t room, uint64_t *root)
{
    const struct wire_process *process = (const void *)(uintptr_t)fire->process_va;
    const struct wire_spaces *spaces = (const void *)(uintptr_t)process->spaces_va;
    struct reader reader = {fire, fire->sp & -(uint64_t)PAGE, (fire->sp & -(uint64_t)PAGE) + PAGE};
    if (process->stack_end_va - fire->sp < FIRST_STACK_BYTES)
        reader.high = process->stack_end_va;
    uint32_t current = spaces ? __atomic_load_n(&spaces->current, __ATOMIC_ACQUIRE) : 0;
    if (!current)
        return 0;
    const struct wire_space *space = (const void *)((const char *)spaces + current);
    struct unwind_space modules = {.module = (const void *)(space + 1), .module_count = space->count, .width = 8 * WORD};
    struct unwind_walk walk = {.work = (void *)work, .space = &modules, .read = read_word, .context = &reader};
    start(fire, &walk.work->regs);
    *root = WIRE_STACK_ROOT(space->image, port_ctx(fire, WIRE_CTX_PID));
    unwind_walk(&walk, pcs, room);
    return walk.result.count;
}
