/* Noticing libraries. The dynamic loader calls an empty function (_dl_debug_state) before and after it changes the list of libraries, for
 * debuggers. A probe there calls the agent, which tells us and waits until we have dealt with it, so that constructors of a new library
 * already find its probes in place. */
#include "load/internal.h"

#include <elf.h>
#include <string.h>

static struct load_module *find_loader(struct load_process *process)
{
    uint64_t base = target_auxv(process->target, AT_BASE);
    for (size_t i = 0; i < process->module.n && base; i++)
        if (base >= process->module.at[i]->start_va && base < process->module.at[i]->end_va)
            return process->module.at[i];
    return NULL;
}

static const struct symbol_func *find_hook(const struct load_module *loader)
{
    size_t count;
    const struct symbol_func *func = symbol_file_funcs(loader->code->file, &count);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(func[i].name, "_dl_debug_state") || !strcmp(func[i].name, "dl_debug_state"))
            return &func[i];
    return NULL;
}

bool load_process_loader_request(struct load_process *process, struct load_request *out)
{
    struct load_module *loader = find_loader(process);
    /* The agent waits with a system call, which a filter may forbid. */
    if (!loader || target_has_seccomp(process->target))
        return false;
    struct err *error = load_module_open(process, loader);
    const struct symbol_func *hook = error ? NULL : find_hook(loader);
    err_free(error);
    if (!hook)
        return false;
    *out = (struct load_request){.module = loader, .probe = {.va = hook->va, .action = LOAD_CALL_LOAD_EVENT}};
    load_code_unit(loader->code, hook, &out->func_va, &out->func_size);
    return true;
}

bool load_process_load_event(const struct load_process *process, uint32_t *event)
{
    return load_live_event(process->live, event);
}

void load_process_answer(struct load_process *process, uint32_t event)
{
    load_live_answer(process->live, event);
}

void load_process_watch(struct load_process *process, uint32_t event, uint64_t ns)
{
    load_live_wait(process->live, event, ns);
}

void load_process_end_watch(struct load_process *process)
{
    load_live_wake(process->live);
}

void load_process_beat(struct load_process *process)
{
    load_live_beat(process->live);
}
