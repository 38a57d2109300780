/* What signal handlers see of the interrupted pc: which handlers there are, and where probes must be for the agent to change what they see
 * (agent/signal.c).
 *
 * Handlers are found by asking the kernel when we attach, and by probes on every rt_sigaction system call from then on: a call of the agent
 * that waits until the handler has its probe. Such calls are found in the code by what they look like, so no symbol is needed: the number
 * goes into eax, and a system call follows. Each handler comes with its restorer, the code it returns to. In 32-bit processes that is
 * mostly the kernel's own, in the vdso.
 *
 * A handler is only ever shown another pc when it will return to a restorer that has its probe: its return address says so. */
#include "load/internal.h"

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

static struct load_module *module_at(struct load_process *process, uint64_t va)
{
    for (size_t i = 0; i < process->module.n; i++)
        if (va >= process->module.at[i]->start_va && va < process->module.at[i]->end_va)
            return process->module.at[i];
    return NULL;
}

struct load_module *load_module_said(struct load_process *process, struct load_said said, uint64_t *va)
{
    struct load_module *module = module_at(process, said.va);
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

/* ---- calls of rt_sigaction, and for scripts of prctl and seccomp ---- */

enum { CALL_NEAR_BYTES = 64, CALL_NEAR_INSNS = 12, MOV_BYTES = 5 };

static bool is_call(enum insn_mode mode, const struct insn *insn)
{
    return insn->kind == INSN_SYSCALL || (mode == INSN_MODE_32 && (insn->kind == INSN_CALL_INDIRECT || insn->kind == INSN_CALL));
}

/* The system call that the number loaded at `va` is for, or 0. In between, a function may fetch its own address by a call (32 bit), which
 * looks like one that makes the system call: with `past_calls` it is taken for the former. */
static uint64_t find_call(const struct load_flow *flow, uint64_t va, enum insn_mode mode, bool past_calls, uint64_t *end_va)
{
    long at = load_flow_find(flow, va);
    for (long i = at + 1; at >= 0 && i < (long)flow->count && i - at < CALL_NEAR_INSNS; i++) {
        *end_va = flow->insn[i].va + flow->insn[i].length;
        if (past_calls && flow->insn[i].kind == INSN_CALL)
            continue;
        if (is_call(mode, &flow->insn[i]))
            return flow->insn[i].va;
        if (flow->insn[i].kind != INSN_PLAIN && flow->insn[i].kind != INSN_NOP)
            return 0;
    }
    return 0;
}

struct inside {
    uint64_t va, end_va;
    bool found;
};

static void note_inside(void *context, uint64_t from_va, uint64_t target_va)
{
    struct inside *inside = context;
    inside->found |= target_va > inside->va && target_va < inside->end_va && (from_va < inside->va || from_va >= inside->end_va);
}

/* Code that no symbol and no unwind table tells of: the instructions from the number to the system call, if nothing seems to jump between
 * them. */
static bool is_entered_at_start_only(const struct load_code *code, uint64_t va, uint64_t end_va)
{
    enum { SHORT_REACH = 130 };
    size_t available, first = SHORT_REACH;
    const uint8_t *bytes = NULL;
    while (first && !(bytes = symbol_file_text(code->file, va - first, &available)))
        first--;
    if (!bytes)
        return false;
    size_t size = first + (size_t)(end_va - va) + SHORT_REACH;
    struct inside inside = {va, end_va, false};
    insn_scan_short_branches(bytes, size < available ? size : available, va - first, code->mode, note_inside, &inside);
    for (uint64_t at = va + 1; at < end_va; at++)
        inside.found |= load_code_is_target(code, at, va, end_va);
    return !inside.found;
}

static void add_call(struct load_process *process, struct load_module *module, uint64_t va, bool past_calls, load_requests *out)
{
    struct err *error = load_module_open(process, module);
    if (error) {
        err_free(error);
        return;
    }
    const struct load_code *code = module->code;
    const struct symbol_func *func = symbol_file_func_at(code->file, va - module->bias);
    struct load_request request = {
        .module = module, .func_va = va - module->bias, .func_size = CALL_NEAR_BYTES, .probe = {.action = LOAD_CALL_ACTION}};
    if (func)
        load_code_unit(code, func, &request.func_va, &request.func_size);
    struct load_flow flow;
    uint64_t end_va = 0;
    load_flow_init(&flow, code, request.func_va, request.func_size);
    request.probe.va = find_call(&flow, va - module->bias, code->mode, past_calls, &end_va);
    load_flow_deinit(&flow);
    if (!func && request.probe.va && !is_entered_at_start_only(code, request.func_va, end_va))
        return;
    if (!func)
        request.func_size = end_va - request.func_va;
    for (size_t i = 0; i < out->n; i++)
        if (out->at[i].module == module && out->at[i].probe.action == LOAD_CALL_ACTION && out->at[i].probe.va == request.probe.va)
            return;
    if (request.probe.va)
        VEC_PUSH(out, request);
}

static bool has_call_near(const uint8_t *bytes, size_t size, int width)
{
    size = size < CALL_NEAR_BYTES ? size : CALL_NEAR_BYTES;
    if (width == 64)
        return memmem(bytes, size, "\x0f\x05", 2);
    return memmem(bytes, size, "\xcd\x80", 2) || memmem(bytes, size, "\x0f\x34", 2) || memchr(bytes, 0xff, size) ||
           memchr(bytes, 0xe8, size);
}

static void scan(struct load_process *process, struct load_module *module, uint64_t start_va, uint64_t end_va, load_requests *out)
{
    enum { PIECE = 4 << 20, OVERLAP = MOV_BYTES + CALL_NEAR_BYTES, MOST = 1 << 30 }; /* more is no code, but takes for ever */
    end_va = end_va - start_va > MOST ? start_va + MOST : end_va;
    int width = target_width(process->target);
    static const char mov64[][MOV_BYTES + 1] = {"\xb8\x0d\0\0\0", "\xb8\x9d\0\0\0", "\xb8\x3d\1\0\0"};
    static const char mov32[][MOV_BYTES + 1] = {"\xb8\xae\0\0\0", "\xb8\xac\0\0\0", "\xb8\x62\1\0\0"};
    int calls = process->process_va ? 3 : 1;
    uint8_t *bytes = memory_alloc(PIECE + OVERLAP);
    for (uint64_t va = start_va; va < end_va; va += PIECE) {
        size_t wanted = end_va - va < PIECE + OVERLAP ? (size_t)(end_va - va) : PIECE + OVERLAP;
        size_t size = target_read_some(process->target, va, bytes, wanted);
        for (int i = 0; i < calls; i++) {
            const uint8_t *end = bytes + size, *at = bytes;
            for (; (at = memmem(at, (size_t)(end - at), width == 64 ? mov64[i] : mov32[i], MOV_BYTES)) && at < bytes + PIECE; at++)
                for (int past = 0; past <= (width == 32) && has_call_near(at + MOV_BYTES, (size_t)(end - at) - MOV_BYTES, width); past++)
                    add_call(process, module, va + (uint64_t)(at - bytes), past, out);
        }
    }
    free(bytes);
}

struct err *load_process_signal_requests(struct load_process *process, load_requests *out)
{
    /* The agent waits with a system call, which a filter may forbid. */
    if (!target_has_seccomp(process->target)) {
        struct target_maps maps;
        ERR_TRY(target_maps_read(process->target, &maps));
        for (size_t i = 0; i < maps.map.n; i++) {
            struct load_module *module = maps.map.at[i].executable ? module_at(process, maps.map.at[i].start_va) : NULL;
            if (module && !module->scanned)
                scan(process, module, maps.map.at[i].start_va, maps.map.at[i].end_va, out);
        }
        target_maps_deinit(&maps);
        for (size_t i = 0; i < process->module.n; i++)
            process->module.at[i]->scanned = true;
    }
    follow_wanted(process, out);
    return NULL;
}
