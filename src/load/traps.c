#include "load/internal.h"

#include <stdlib.h>
#include <sys/eventfd.h>

static int by_va(const void *a, const void *b)
{
    const struct load_trap *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

static void add(struct load_process *process, const struct load_site *site)
{
    if (site->window.kind == LOAD_TRAP && !site->module->is_gone)
        VEC_PUSH(&process->trap, (struct load_trap){site->window.va + site->module->bias, site->trampoline_va});
}

static void add_all(struct load_process *process, const struct load_module *module)
{
    for (size_t f = 0; f < module->function.n; f++)
        for (size_t s = 0; s < module->function.at[f]->site.n; s++)
            add(process, module->function.at[f]->site.at[s]);
}

void load_traps_collect(struct load_process *process, struct load_site *const *also, size_t also_count)
{
    process->trap.n = 0;
    for (size_t i = 0; i < process->module.n; i++)
        add_all(process, process->module.at[i]);
    for (size_t i = 0; i < process->ghost.n; i++)
        add_all(process, process->ghost.at[i]);
    for (size_t i = 0; i < also_count; i++)
        add(process, also[i]);
    if (process->trap.n)
        qsort(process->trap.at, process->trap.n, sizeof *process->trap.at, by_va);
}

static uint64_t at_trap(void *context, uint64_t va)
{
    const struct load_process *process = context;
    struct load_trap key = {.va = va};
    const struct load_trap *found = process->trap.n ? bsearch(&key, process->trap.at, process->trap.n, sizeof key, by_va) : NULL;
    return found ? found->trampoline_va : 0;
}

/* Should we die, the agent takes over: its handler is there from the first trap on, unless the program has one of its own. */
static struct err *install_handler(struct load_process *process)
{
    struct wire_shared *shared = process->shared;
    if (!process->trap.n || shared->trap_handler_va)
        return NULL;
    shared->trap_handler_va = process->fire.agent_va + WIRE_AGENT_TRAP;
    return target_set_trap_handler(process->target, shared->trap_handler_va, process->fire.agent_va + WIRE_AGENT_RESTORER);
}

static void adopt_children(struct load_process *process, struct target *target)
{
    for (struct target *child; (child = target_next_child(target));)
        VEC_PUSH(&process->child, child);
}

/* That one has executed another program was found while something else was waited for; no stop will tell of it again. */
static void tell_executed(const struct load_process *process)
{
    bool found = target_holds_executed(process->target);
    for (size_t i = 0; i < process->child.n && !found; i++)
        found = target_holds_executed(process->child.at[i]);
    if (found)
        eventfd_write(process->wake_fd, 1);
}

static void serve_children(void *context)
{
    struct load_process *process = context;
    adopt_children(process, process->target);
    for (size_t i = 0; i < process->child.n; i++)
        target_serve(process->child.at[i]);
    tell_executed(process);
}

struct err *load_traps_keep(struct load_process *process)
{
    target_keep(process->target, process->trap.n || process->follow ? at_trap : NULL, serve_children, process);
    return install_handler(process);
}

void load_traps_adopt(struct load_process *process)
{
    adopt_children(process, process->target);
    for (size_t i = 0; i < process->child.n; i++)
        adopt_children(process, process->child.at[i]);
    tell_executed(process);
}

static void drop_child(struct load_process *process, size_t index)
{
    target_close(process->child.at[index]);
    process->child.at[index] = process->child.at[--process->child.n];
}

static void take_executed(struct load_process *process, struct target *target)
{
    struct target *next = target_take_executed(target);
    if (next)
        VEC_PUSH(&process->executed, next);
}

bool load_process_handle_stop(struct load_process *process, pid_t tid, int status)
{
    bool taken = target_handle_stop(process->target, tid, status);
    for (size_t i = 0; i < process->child.n && !taken; i++)
        taken = target_handle_stop(process->child.at[i], tid, status);
    load_traps_adopt(process);
    for (size_t i = process->child.n; i-- > 0;)
        if (target_pid(process->child.at[i]) == tid && target_ended(process->child.at[i]))
            drop_child(process, i);
    load_process_part_executed(process);
    return taken;
}

void load_process_part_executed(struct load_process *process)
{
    take_executed(process, process->target);
    for (size_t i = process->child.n; i-- > 0;) {
        take_executed(process, process->child.at[i]);
        if (target_executed(process->child.at[i]))
            drop_child(process, i);
    }
    if ((process->trap.n || process->follow) && target_executed(process->target)) {
        /* Another program, without our probes: let it run alone. */
        process->trap.n = 0;
        target_keep(process->target, NULL, NULL, NULL);
        err_free(target_resume(process->target));
    }
}

/* ---- following ---- */

void load_process_follow(struct load_process *process, int wake_fd)
{
    process->follow = true;
    process->wake_fd = wake_fd;
    target_follow(process->target);
}

struct target *load_process_next_executed(struct load_process *process)
{
    return process->executed.n ? process->executed.at[--process->executed.n] : NULL;
}

size_t load_process_child_count(const struct load_process *process)
{
    return process->child.n;
}

struct target *load_process_child(struct load_process *process, size_t index)
{
    return process->child.at[index];
}
