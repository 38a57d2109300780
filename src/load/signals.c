/* What signal handlers see of the interrupted pc: which handlers there are, and where probes must be for the agent to change what they see
 * (agent/signal.c).
 *
 * Handlers are found by asking the kernel when we attach, and by probes on every rt_sigaction system call (calls.c) from then on: a call of
 * the agent that waits until the handler has its probe. Each handler comes with its restorer, the code it returns to. In 32-bit processes
 * that is mostly the kernel's own, in the vdso.
 *
 * A handler is only ever shown another pc when it will return to a restorer that has its probe: its return address says so. */
#include "load/internal.h"
#include "load/resolve.h"

#include <stdlib.h>
#include <string.h>

enum { KERNEL_SA_SIGINFO = 0x4, KERNEL_SA_RESTORER = 0x04000000, SIGNAL_URG = 23 };

/* ---- the table of handlers ---- */

struct err *load_process_find_handlers(struct load_process *process)
{
    struct target_action action[TARGET_SIGNALS];
    ERR_TRY(target_read_actions(process->target, action));
    for (int i = 0; i < TARGET_SIGNALS; i++)
        if (action[i].handler_va > 1)
            load_live_want_handler(process->live, action[i].handler_va, action[i].flags & KERNEL_SA_RESTORER ? action[i].restorer_va : 0,
                                   action[i].flags & KERNEL_SA_SIGINFO);
    return NULL;
}

void load_signals_forget(struct load_process *process, uint64_t start_va, uint64_t end_va)
{
    struct wire_shared *shared = process->shared;
    struct load_handler known;
    for (int i = 0; i < WIRE_HANDLER_ROOM; i++)
        if (load_live_handler(process->live, i, &known) && known.state == WIRE_HANDLER_KNOWN && known.handler.va >= start_va &&
            known.handler.va < end_va)
            load_live_set_handler(process->live, i, WIRE_HANDLER_FREE);
    for (int i = 0; i < WIRE_RESTORER_ROOM; i++)
        if (shared->restorer[i].va >= start_va && shared->restorer[i].va < end_va)
            shared->restorer[i].va = 0;
    size_t kept = 0;
    for (size_t i = 0; i < process->followed.n; i++)
        if (process->followed.at[i] < start_va || process->followed.at[i] >= end_va)
            process->followed.at[kept++] = process->followed.at[i];
    process->followed.n = kept;
}

/* ---- handlers and restorers ---- */

struct load_module *load_module_at(struct load_process *process, uint64_t va)
{
    for (size_t i = 0; i < process->module.n; i++)
        if (va >= process->module.at[i]->start_va && va < process->module.at[i]->end_va)
            return process->module.at[i];
    return NULL;
}

struct load_module *load_module_said(struct load_process *process, struct load_said said, uint64_t *va)
{
    struct load_module *module = load_module_at(process, said.va);
    *va = module ? said.va : 0;
    return module;
}

/* How long the restorer is, if it is one of those that everybody has; else 0. */
static size_t restorer_length(const struct load_module *module, uint64_t va)
{
    static const char *const code[] = {"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", "\xb8\x0f\0\0\0\x0f\x05", "\xb8\xad\0\0\0\xcd\x80",
                                       "\x58\xb8\x77\0\0\0\xcd\x80"};
    static const uint8_t length[] = {9, 7, 7, 8};
    size_t available;
    const uint8_t *bytes = symbol_file_text(module->code->file, va, &available);
    for (size_t i = 0; bytes && i < sizeof length; i++)
        if (available >= length[i] && !memcmp(bytes, code[i], length[i]))
            return length[i];
    return 0;
}

/* A function whose name begins so. */
static bool has_function(const struct load_module *module, const char *name)
{
    size_t count;
    const struct symbol_func *func = symbol_file_funcs(module->code->file, &count);
    for (size_t i = 0; i < count; i++)
        if (!strncmp(func[i].name, name, strlen(name)))
            return true;
    return false;
}

static void follow(struct load_process *process, struct load_module *module, uint64_t va, enum load_action action, load_requests *out)
{
    enum { MOST = 16 * WIRE_HANDLER_ROOM }; /* a process may tell of new ones for ever */
    if (process->followed.n == MOST)
        return;
    for (size_t i = 0; i < process->followed.n; i++)
        if (process->followed.at[i] == va)
            return;
    VEC_PUSH(&process->followed, va);
    struct err *error = load_module_open(process, module);
    if (error) {
        err_free(error); /* what can not be read is not followed */
        return;
    }
    struct load_request request = {.module = module, .probe = {.va = va - module->bias, .action = (uint8_t)action}};
    const struct symbol_func *func = symbol_file_func_at(module->code->file, request.probe.va);
    size_t length = action == LOAD_CALL_LEAVE ? restorer_length(module, request.probe.va) : 0;
    if (length)
        load_code_seal(module->code, request.probe.va, request.probe.va + length);
    if (func) {
        load_code_unit(module->code, func, &request.func_va, &request.func_size);
    } else {
        request.func_va = request.probe.va; /* no symbol and no unwind table tells of it */
        request.func_size = length;
    }
    if (!request.func_size)
        return;
    VEC_PUSH(out, request);
    /* Go's handler of SIGURG has goroutines go on at the pc it sees, later and without rt_sigreturn. That must be a place that can be gone
     * to; ours it takes for one where it should not interrupt. */
    if (action == LOAD_CALL_ENTER && has_function(module, "runtime.asyncPreempt"))
        process->shared->untouched_signals |= 1ull << (SIGNAL_URG - 1);
}

/* ---- code that goes on at the pc of a signal context by a `ret` ---- */

/* Go's runtime has a goroutine that it interrupts call asyncPreempt as if from there, and return to it, whenever that is. */
static bool is_preemption(const char *name)
{
    return !strcmp(name, "runtime.asyncPreempt") || !strcmp(name, "runtime.asyncPreempt.abi0");
}

/* setcontext(), swapcontext(), and their names with a prefix in libraries that have them of their own. */
static bool is_context_switch(const char *name)
{
    static const char *const own[] = {"setcontext", "swapcontext"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const char *end = name + length - strlen(own[i]);
        if (length >= strlen(own[i]) && !strcmp(end, own[i]) && (end == name || end[-1] == '_'))
            return true;
    }
    return false;
}

static void follow_returns(const struct load_module *module, const struct symbol_func *func, enum load_action action, load_requests *out)
{
    struct load_resolved resolved = {0};
    load_resolve_func(module->code, func, SPEC_RETURN, &resolved);
    for (size_t i = 0; i < resolved.place.n; i++) {
        const struct load_place *place = &resolved.place.at[i];
        struct insn insn;
        size_t available;
        const uint8_t *bytes = symbol_file_text(module->code->file, place->va, &available);
        if (bytes && insn_decode(module->code->mode, bytes, available, place->va, &insn) == INSN_OK && insn.kind == INSN_RET)
            VEC_PUSH(out, (struct load_request){.module = (struct load_module *)module,
                                                .func_va = place->func_va,
                                                .func_size = place->func_size,
                                                .probe = {.va = place->va, .action = (uint8_t)action}});
    }
    load_resolved_deinit(&resolved);
}

static void follow_contexts(struct load_process *process, struct load_module *module, load_requests *out)
{
    const char *name = strrchr(module->path, '/');
    size_t count;
    if (!module->code && name && strstr(name, "context"))
        err_free(load_module_open(process, module));
    const struct symbol_func *func = module->code ? symbol_file_funcs(module->code->file, &count) : NULL;
    for (size_t i = 0; func && i < count; i++) {
        bool is_alias = i && func[i - 1].va == func[i].va && (is_preemption(func[i - 1].name) || is_context_switch(func[i - 1].name));
        if (is_alias)
            continue;
        if (is_preemption(func[i].name))
            follow_returns(module, &func[i], LOAD_CALL_GO_ON_BARE, out);
        else if (is_context_switch(func[i].name))
            follow_returns(module, &func[i], LOAD_CALL_GO_ON, out);
    }
}

static uint64_t vdso_restorer(struct load_process *process, bool is_info)
{
    struct load_module *vdso = target_width(process->target) == 32 ? load_vdso(process) : NULL;
    struct err *error = vdso ? load_module_open(process, vdso) : NULL;
    uint64_t va = 0;
    size_t count = 0;
    const struct symbol_func *func = vdso && !error ? symbol_file_funcs(vdso->code->file, &count) : NULL;
    for (size_t i = 0; i < count && !va; i++)
        if (!strcmp(func[i].name, is_info ? "__kernel_rt_sigreturn" : "__kernel_sigreturn"))
            va = func[i].va + vdso->bias;
    err_free(error);
    return va;
}

static struct load_said restorer_of(struct load_process *process, const struct load_handler *handler)
{
    return handler->restorer.va ? handler->restorer : (struct load_said){vdso_restorer(process, handler->is_info)};
}

static void follow_wanted(struct load_process *process, load_requests *out)
{
    for (int i = 0; i < WIRE_HANDLER_ROOM; i++) {
        struct load_handler wanted;
        uint64_t va, restorer_va;
        if (!load_live_handler(process->live, i, &wanted) || wanted.state != WIRE_HANDLER_WANTED)
            continue;
        struct load_module *module = load_module_said(process, wanted.handler, &va);
        struct load_module *restorer = load_module_said(process, restorer_of(process, &wanted), &restorer_va);
        if (module && restorer) {
            follow(process, restorer, restorer_va, LOAD_CALL_LEAVE, out);
            follow(process, module, va, LOAD_CALL_ENTER, out);
        }
        load_live_set_handler(process->live, i, WIRE_HANDLER_TAKEN);
    }
}

static void activate(struct load_process *process, uint64_t va)
{
    struct wire_shared *shared = process->shared;
    bool is_info = true;
    for (int i = 0; i < WIRE_HANDLER_ROOM; i++) {
        struct load_handler known;
        if (load_live_handler(process->live, i, &known) && known.state >= WIRE_HANDLER_TAKEN && restorer_of(process, &known).va == va)
            is_info = known.is_info;
    }
    for (int i = 0; i < WIRE_RESTORER_ROOM; i++)
        if (!shared->restorer[i].va) {
            shared->restorer[i].is_info = is_info || shared->width == 64;
            __atomic_store_n(&shared->restorer[i].va, va, __ATOMIC_RELEASE);
            return;
        }
}

void load_signals_activate(struct load_process *process, const struct load_request *request, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (request[i].probe.action == LOAD_CALL_LEAVE && !request[i].remove && request[i].kind != LOAD_REFUSED)
            activate(process, request[i].probe.va + request[i].module->bias);
}

void load_process_signals_done(struct load_process *process)
{
    struct load_handler known;
    for (int i = 0; i < WIRE_HANDLER_ROOM; i++)
        if (load_live_handler(process->live, i, &known) && known.state == WIRE_HANDLER_TAKEN)
            load_live_set_handler(process->live, i, WIRE_HANDLER_KNOWN);
}

/* ---- what every process that maps a file gets ---- */

static bool is_hook(const struct load_request *request, const struct load_module *module)
{
    uint8_t action = request->probe.action;
    return request->module == module && (action == LOAD_CALL_ACTION || action == LOAD_CALL_GO_ON || action == LOAD_CALL_GO_ON_BARE);
}

/* Else something else may have been looked at in its place, which must not count for other processes. */
static bool was_text_of_file(const struct load_module *module)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < module->code->segment_count; i++)
        bytes += module->code->segment[i].size;
    return module->scanned_as_file == bytes;
}

static void keep_hooks(const struct load_module *module, const load_requests *found)
{
    if (!module->code || module->code->knows_hooks || !was_text_of_file(module))
        return;
    for (size_t i = 0; i < found->n; i++) {
        const struct load_request *request = &found->at[i];
        if (is_hook(request, module))
            VEC_PUSH(&module->code->hook,
                     (struct load_hook){request->func_va, request->func_size, request->probe.va, request->probe.action});
    }
    module->code->knows_hooks = true;
}

static void add_hooks(struct load_module *module, load_requests *out)
{
    for (size_t i = 0; i < module->code->hook.n; i++) {
        const struct load_hook *hook = &module->code->hook.at[i];
        VEC_PUSH(out, (struct load_request){.module = module,
                                            .func_va = hook->func_va,
                                            .func_size = hook->func_size,
                                            .probe = {.va = hook->va, .action = hook->action}});
    }
}

struct err *load_process_signal_requests(struct load_process *process, load_requests *out)
{
    bool keeps = !target_has_seccomp(process->target); /* what the agent is not called for there it is called for elsewhere */
    for (size_t i = 0; i < process->module.n; i++) {
        struct load_module *module = process->module.at[i];
        if (module->scanned || !keeps || !load_module_open_known(process, module) || !module->code->knows_hooks)
            continue;
        add_hooks(module, out);
        module->scanned = true;
    }
    ERR_TRY(load_calls_find(process, out));
    follow_wanted(process, out);
    for (size_t i = 0; i < process->module.n; i++) {
        struct load_module *module = process->module.at[i];
        if (module->scanned)
            continue;
        follow_contexts(process, module, out);
        if (keeps)
            keep_hooks(module, out);
        module->scanned = true;
    }
    return NULL;
}
