/* System calls of the program that the agent has to know of before they are made: rt_sigaction, and prctl and seccomp, which set filters.
 *
 * They are found in the code by what they look like, so no symbol is needed: the number goes into eax as a constant, and a system call
 * follows. One whose number comes out of a register or out of memory, as in syscall(), can be any of them, and asks the agent each time it
 * is made. A call whose number is a constant of the same function that went through another register is not taken for one of those. */
#include "load/internal.h"

#include <stdlib.h>
#include <string.h>

enum { CALL_NEAR_BYTES = 64, CALL_NEAR_INSNS = 12, MOV_BYTES = 5, CALLS = 3 };
static const uint16_t number64[CALLS] = {13, 157, 317}, number32[CALLS] = {174, 172, 354};

static const uint16_t *numbers(const struct load_process *process)
{
    return target_width(process->target) == 64 ? number64 : number32;
}

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

static void push_once(load_requests *out, const struct load_request *request)
{
    for (size_t i = 0; i < out->n; i++)
        if (out->at[i].module == request->module && out->at[i].probe.action == LOAD_CALL_ACTION && out->at[i].probe.va == request->probe.va)
            return;
    VEC_PUSH(out, *request);
}

static bool is_readable(struct load_process *process, struct load_module *module)
{
    struct err *error = load_module_open(process, module);
    bool opened = !error;
    err_free(error);
    return opened;
}

/* The number is loaded at `va`. */
static void add_call(struct load_process *process, struct load_module *module, uint64_t va, bool past_calls, load_requests *out)
{
    if (!is_readable(process, module))
        return;
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
    if (request.probe.va)
        push_once(out, &request);
}

/* ---- numbers that are not in the code ---- */

static bool is_constant(const uint8_t *at)
{
    return (at[0] == 0xb8 && !at[3] && !at[4]) || ((at[0] == 0x31 || at[0] == 0x33) && at[1] == 0xc0);
}

/* A mov to eax or rax from a register or from memory. *from: the register if it is one and 32 bits of it are taken, else -1. */
static bool is_move(const uint8_t *at, enum insn_mode mode, int *from)
{
    uint8_t rex = mode == INSN_MODE_64 && (*at & 0xf0) == 0x40 ? *at++ : 0;
    bool to_ax = *at == 0x89 ? (at[1] & 0xc7) == 0xc0 && !(rex & 1) : (*at == 0x8b || *at == 0x63) && !(at[1] & 0x38) && !(rex & 4);
    *from = -1;
    if (to_ax && at[1] >= 0xc0 && !(rex & 8))
        *from = *at == 0x89 ? (at[1] >> 3 & 7) | (rex & 4) << 1 : (at[1] & 7) | (rex & 1) << 3;
    return to_ax && (*at != 0x63 || mode == INSN_MODE_64);
}

/* Whether the instructions from `at` on lead to `end` one after the other, and none but the first writes eax. */
static bool leads_to(const uint8_t *at, const uint8_t *end, enum insn_mode mode)
{
    struct insn insn;
    for (bool is_first = true; at < end; is_first = false, at += insn.length) {
        if (insn_decode(mode, at, (size_t)(end - at), 0, &insn) != INSN_OK)
            return false;
        /* In 32-bit code a function may fetch its own address in between. */
        bool passes =
            insn.kind == INSN_PLAIN || insn.kind == INSN_NOP || insn.kind == INSN_JCC || (mode == INSN_MODE_32 && insn.kind == INSN_CALL);
        if (!passes || (!is_first && insn_writes_ax(&insn)))
            return false;
    }
    return at == end;
}

/* Whether the number of the system call at `at` comes from elsewhere. *from: see is_move(). */
static bool is_variable(const uint8_t *start, const uint8_t *at, enum insn_mode mode, int *from)
{
    enum { LEAST = 2 };
    bool found = false;
    for (const uint8_t *p = at - LEAST; p >= start && at - p <= CALL_NEAR_BYTES; p--) {
        int source = -1;
        bool constant = is_constant(p);
        if ((!constant && (found || !is_move(p, mode, &source))) || !leads_to(p, at, mode))
            continue;
        if (constant)
            return false;
        *from = source;
        found = true;
    }
    return found;
}

/* Whether the function moves a constant into the register that is none of the numbers. */
static bool has_constant(const struct load_process *process, const struct load_flow *flow, int reg)
{
    const uint16_t *number = numbers(process);
    bool found = false;
    for (size_t i = 0; i < flow->count && reg >= 0; i++) {
        const struct insn *insn = &flow->insn[i];
        const uint8_t *at = insn->bytes;
        int extended = insn->length == MOV_BYTES + 1 && at[0] == 0x41;
        if (insn->length != MOV_BYTES + extended || at[extended] != 0xb8 + (reg & 7) || extended != reg >> 3)
            continue;
        uint32_t value;
        memcpy(&value, at + extended + 1, sizeof value);
        found = true;
        for (int k = 0; k < CALLS; k++)
            if (value == number[k])
                return false;
    }
    return found;
}

/* The system call is at `va`. */
static void add_variable(struct load_process *process, struct load_module *module, uint64_t va, int from, load_requests *out)
{
    if (!is_readable(process, module))
        return;
    const struct symbol_func *func = symbol_file_func_at(module->code->file, va - module->bias);
    if (!func)
        return;
    struct load_request request = {.module = module, .probe = {.va = va - module->bias, .action = LOAD_CALL_ACTION}};
    load_code_unit(module->code, func, &request.func_va, &request.func_size);
    struct load_flow flow;
    load_flow_init(&flow, module->code, request.func_va, request.func_size);
    long at = load_flow_find(&flow, request.probe.va);
    if (at >= 0 && is_call(module->code->mode, &flow.insn[at]) && !has_constant(process, &flow, from))
        push_once(out, &request);
    load_flow_deinit(&flow);
}

/* A function that is nothing but such a call may have the number where it needs it, and no instruction shows that. */
static void add_named(struct load_process *process, struct load_module *module, load_requests *out)
{
    static const char *const name[] = {"syscall", "runtime/internal/syscall.Syscall6", "internal/runtime/syscall.Syscall6"};
    size_t count = 0;
    const struct symbol_func *func = module->code ? symbol_file_funcs(module->code->file, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof name / sizeof *name; k++) {
            if (strcmp(func[i].name, name[k]))
                continue;
            struct load_flow flow;
            load_flow_init(&flow, module->code, func[i].va, func[i].size);
            for (size_t n = 0; n < flow.count; n++)
                if (is_call(module->code->mode, &flow.insn[n]) && flow.insn[n].kind != INSN_CALL)
                    add_variable(process, module, flow.insn[n].va + module->bias, -1, out);
            load_flow_deinit(&flow);
        }
}

/* ---- looking for them ---- */

static bool has_call_near(const uint8_t *bytes, size_t size, int width)
{
    size = size < CALL_NEAR_BYTES ? size : CALL_NEAR_BYTES;
    if (width == 64)
        return memmem(bytes, size, "\x0f\x05", 2);
    return memmem(bytes, size, "\xcd\x80", 2) || memmem(bytes, size, "\x0f\x34", 2) || memchr(bytes, 0xff, size) ||
           memchr(bytes, 0xe8, size);
}

/* A piece of a module's code, as the process has it. */
struct piece {
    struct load_module *module;
    const uint8_t *bytes;
    uint64_t va;
    size_t size, next; /* where the next piece begins */
};

static void scan_constants(struct load_process *process, const struct piece *piece, load_requests *out)
{
    int width = target_width(process->target);
    const uint8_t *end = piece->bytes + piece->size;
    for (int i = 0; i < CALLS; i++) {
        const uint8_t mov[MOV_BYTES] = {0xb8, (uint8_t)numbers(process)[i], (uint8_t)(numbers(process)[i] >> 8)}, *at = piece->bytes;
        for (; (at = memmem(at, (size_t)(end - at), mov, sizeof mov)) && at < piece->bytes + piece->next; at++)
            for (int past = 0; past <= (width == 32) && has_call_near(at + MOV_BYTES, (size_t)(end - at) - MOV_BYTES, width); past++)
                add_call(process, piece->module, piece->va + (uint64_t)(at - piece->bytes), past, out);
    }
}

static void scan_variables(struct load_process *process, const struct piece *piece, load_requests *out)
{
    static const struct {
        int width;
        uint8_t length;
        char bytes[8];
    } call[] = {{64, 2, "\x0f\x05"}, {32, 2, "\xcd\x80"}, {32, 7, "\x65\xff\x15\x10\0\0"}};
    int width = target_width(process->target), from = -1;
    const uint8_t *end = piece->bytes + piece->size;
    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        const uint8_t *at = piece->bytes;
        for (; call[i].width == width && (at = memmem(at, (size_t)(end - at), call[i].bytes, call[i].length)); at++)
            if (is_variable(piece->bytes, at, width == 64 ? INSN_MODE_64 : INSN_MODE_32, &from))
                add_variable(process, piece->module, piece->va + (uint64_t)(at - piece->bytes), from, out);
    }
}

/* Counts what of the piece is the file's: of the very bytes that were looked at, as the process may change them at any time. */
static void compare_with_file(const struct piece *piece)
{
    const struct load_code *code = piece->module->code;
    for (size_t i = 0; code && i < code->segment_count; i++) {
        const struct load_segment *segment = &code->segment[i];
        uint64_t start_va = segment->va + piece->module->bias, end_va = start_va + segment->size, piece_end_va = piece->va + piece->size;
        uint64_t low = start_va > piece->va ? start_va : piece->va, high = end_va < piece_end_va ? end_va : piece_end_va;
        if (low >= high || memcmp(piece->bytes + (low - piece->va), segment->bytes + (low - start_va), (size_t)(high - low)))
            continue;
        high = high < piece->va + piece->next ? high : piece->va + piece->next;
        piece->module->scanned_as_file += low < high ? high - low : 0;
    }
}

static void scan(struct load_process *process, struct load_module *module, uint64_t start_va, uint64_t end_va, load_requests *out)
{
    enum {
        PIECE = 4 << 20,
        OVERLAP = MOV_BYTES + CALL_NEAR_BYTES,
        MOST = 1 << 30, /* more is no code, but takes for ever */
        MORE = 8        /* that is_constant() may look at behind a call */
    };
    end_va = end_va - start_va > MOST ? start_va + MOST : end_va;
    uint8_t *bytes = memory_zero(1, PIECE + OVERLAP + MORE);
    for (uint64_t va = start_va; va < end_va; va += PIECE) {
        size_t wanted = end_va - va < PIECE + OVERLAP ? (size_t)(end_va - va) : PIECE + OVERLAP;
        struct piece piece = {module, bytes, va, target_read_some(process->target, va, bytes, wanted), PIECE};
        scan_constants(process, &piece, out);
        scan_variables(process, &piece, out);
        compare_with_file(&piece);
    }
    free(bytes);
}

struct err *load_calls_find(struct load_process *process, load_requests *out)
{
    struct target_maps maps;
    /* The agent waits with a system call, which a filter may forbid. */
    if (target_has_seccomp(process->target))
        return NULL;
    ERR_TRY(target_maps_read(process->target, &maps));
    for (size_t i = 0; i < maps.map.n; i++) {
        struct load_module *module = maps.map.at[i].executable ? load_module_at(process, maps.map.at[i].start_va) : NULL;
        if (module && !module->scanned)
            scan(process, module, maps.map.at[i].start_va, maps.map.at[i].end_va, out);
    }
    target_maps_deinit(&maps);
    for (size_t i = 0; i < process->module.n; i++)
        if (!process->module.at[i]->scanned)
            add_named(process, process->module.at[i], out);
    return NULL;
}
