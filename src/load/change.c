/* Changing what is probed: requests become windows, windows become trampolines and patches, and one stop of the process puts them in place
 * (apply.c). Everything that can be prepared is prepared while the process runs. */
#include "load/change.h"

#include <stdlib.h>
#include <string.h>

/* ---- functions ---- */

static long find_function(const struct load_module *module, uint64_t va, size_t *insert)
{
    size_t low = 0;
    for (size_t high = module->function.n; low < high;) {
        size_t middle = (low + high) / 2;
        if (module->function.at[middle]->va < va)
            low = middle + 1;
        else
            high = middle;
    }
    *insert = low;
    return low < module->function.n && module->function.at[low]->va == va ? (long)low : -1;
}

/* NULL when it can not be read. Valid until the next call. Where few functions change, what lies behind one is hardly the next. */
static const uint8_t *text_at(struct change *change, uint64_t va, size_t size)
{
    enum { PIECE = 256 << 10, FEW = 256 };
    struct change_text *text = &change->text;
    if (va - text->va >= text->bytes || text->bytes - (va - text->va) < size) {
        size_t piece = size > PIECE || change->requests < FEW ? size : PIECE;
        text->at = memory_resize(text->at, piece, 1);
        text->va = va;
        text->bytes = target_read_some(change->process->target, va, text->at, piece);
    }
    return text->bytes - (va - text->va) >= size ? text->at + (va - text->va) : NULL;
}

/* The code in memory must be the file's: everything known about it comes from the file. */
static bool text_is_the_files(struct change *change, const struct load_module *module, const struct load_flow *flow)
{
    if (!flow->count)
        return false;
    const struct insn *last = &flow->insn[flow->count - 1];
    uint64_t end_va = last->va + last->length > flow->end_va ? last->va + last->length : flow->end_va;
    size_t size = end_va - flow->va, available;
    const uint8_t *file = symbol_file_text(module->code->file, flow->va, &available);
    if (!file || available < size)
        return false;
    /* Islands of other functions may lie in the padding behind this one. */
    const uint8_t *memory = text_at(change, flow->va + module->bias, size);
    return memory && !memcmp(memory, file, flow->end_va - flow->va);
}

static struct load_function *get_function(struct change *change, struct load_module *module, uint64_t va, uint64_t size)
{
    size_t at;
    long index = find_function(module, va, &at);
    if (index >= 0)
        return module->function.at[index];
    struct load_function *function = memory_zero(1, sizeof *function);
    function->va = va;
    function->size = size;
    function->module = module;
    function->flow = load_code_flow(module->code, va, size);
    if (!text_is_the_files(change, module, function->flow))
        function->refusal = function->flow->count ? INSN_TEXT_DIFFERS : INSN_UNDECODABLE;
    VEC_PUSH(&module->function, function);
    memmove(&module->function.at[at + 1], &module->function.at[at], (module->function.n - at - 1) * sizeof function);
    module->function.at[at] = function;
    return function;
}

void load_site_destroy(struct load_site *site)
{
    VEC_FREE(&site->probe);
    free(site);
}

void load_function_destroy(struct load_function *function)
{
    for (size_t i = 0; i < function->site.n; i++)
        load_site_destroy(function->site.at[i]);
    VEC_FREE(&function->site);
    VEC_FREE(&function->probe);
    free(function);
}

static void forget_function(struct load_function *function)
{
    struct load_module *module = function->module;
    size_t at;
    long index = find_function(module, function->va, &at);
    if (index >= 0) {
        memmove(&module->function.at[at], &module->function.at[at + 1], (module->function.n - at - 1) * sizeof function);
        module->function.n--;
    }
    load_function_destroy(function);
}

/* ---- requests into probe lists ---- */

static int by_probe(const void *a, const void *b)
{
    const struct load_probe *x = a, *y = b;
    if (x->va != y->va)
        return x->va < y->va ? -1 : 1;
    if (x->taken != y->taken)
        return x->taken ? 1 : -1;
    if (x->is_first != y->is_first)
        return x->is_first ? -1 : 1;
    return x->counter < y->counter ? -1 : x->counter > y->counter;
}

static void remove_probe(struct load_function *function, const struct load_probe *probe)
{
    for (size_t i = 0; i < function->probe.n; i++)
        if (!by_probe(&function->probe.at[i], probe) && function->probe.at[i].action == probe->action) {
            memmove(&function->probe.at[i], &function->probe.at[i + 1], (function->probe.n - i - 1) * sizeof *probe);
            function->probe.n--;
            return;
        }
}

static void take_request(struct change *change, struct load_request *request)
{
    struct load_function *function = get_function(change, request->module, request->func_va, request->func_size);
    request->reason = INSN_OK;
    request->kind = LOAD_JMP;
    if (!function->changed)
        VEC_PUSH(&change->function, function);
    function->changed = true;
    if (request->remove)
        remove_probe(function, &request->probe);
    else if (function->refusal == INSN_OK)
        VEC_PUSH(&function->probe, request->probe);
}

/* ---- probe lists into windows ---- */

struct replan {
    load_windows windows;
    VEC(struct load_wish) wish; /* one for each probe of the function */
};

static void plan_function(struct load_function *function, struct replan *plan)
{
    struct load_module *module = function->module;
    if (function->probe.n)
        qsort(function->probe.at, function->probe.n, sizeof *function->probe.at, by_probe);
    for (size_t i = 0; i < function->site.n; i++)
        load_windows_release(module->code, &module->claims, &function->site.at[i]->window, 1);
    for (size_t i = 0; i < function->probe.n; i++) {
        const struct load_probe *probe = &function->probe.at[i];
        /* What only informs us or a handler is not worth staying attached. */
        bool no_trap = probe->no_trap || probe->action >= LOAD_CALL_LOAD_EVENT;
        VEC_PUSH(&plan->wish, (struct load_wish){.va = probe->va, .taken = probe->taken, .no_trap = no_trap});
    }
    load_windows_plan(module->code, function->flow, &module->claims, plan->wish.at, plan->wish.n, &plan->windows);
}

static bool is_same_site(const struct load_site *site, const struct load_window *window, const struct load_probe *probe, size_t count)
{
    const struct load_window *old = &site->window;
    if (old->va != window->va || old->end_va != window->end_va || old->kind != window->kind || old->island_va != window->island_va ||
        old->far_va != window->far_va || old->far_span != window->far_span || old->length != window->length || site->probe.n != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (by_probe(&site->probe.at[i], &probe[i]) || site->probe.at[i].action != probe[i].action)
            return false;
    return true;
}

static struct err *place_far_island(struct load_process *process, struct load_site *site, uint64_t bias, enum insn_reason *reason)
{
    uint8_t bytes[LOAD_FAR_ISLAND_BYTES];
    struct err *error = load_far_alloc(process, site->window.far_va + bias, site->window.far_span, &site->far_island_va);
    if (error && error->code == ERR_PLACE) {
        err_free(error);
        *reason = INSN_NO_ROOM;
        return NULL;
    }
    if (error)
        return error;
    load_emit_far_island(process->fire.mode, site->far_island_va, site->trampoline_va, bytes);
    return target_write(process->target, site->far_island_va, bytes, process->fire.mode == INSN_MODE_64 ? sizeof bytes : 5);
}

static void free_trampoline(struct load_process *process, const struct load_site *site)
{
    load_region_free(process, site->trampoline_va - sizeof(struct wire_trampoline),
                     site->trampoline_bytes + sizeof(struct wire_trampoline));
}

/* Nobody is in it. In a controller with sanitizers, whoever is ends. */
static void poison(struct load_process *process, const struct load_site *site)
{
#ifdef __SANITIZE_ADDRESS__
    uint8_t *bytes = memory_alloc(site->trampoline_bytes);
    memset(bytes, 0xf4, site->trampoline_bytes); /* hlt */
    err_free(target_write(process->target, site->trampoline_va, bytes, site->trampoline_bytes));
    free(bytes);
#else
    (void)process, (void)site;
#endif
}

static struct err *write_code(struct change *change)
{
    struct change_code *code = &change->code;
    size_t bytes = code->bytes.n;
    code->bytes.n = 0;
    return bytes ? target_write(change->process->target, code->va, code->bytes.at, bytes) : NULL;
}

static void append(struct change_code *code, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        VEC_PUSH(&code->bytes, ((const uint8_t *)bytes)[i]);
}

/* What lies between two trampolines is the rest of the first one's room. */
static struct err *write_trampoline(struct change *change, const struct load_site *site)
{
    enum { MOST = 1 << 20 };
    struct change_code *code = &change->code;
    const struct load_trampoline *trampoline = &change->trampoline;
    struct wire_trampoline head = {WIRE_TRAMPOLINE_MAGIC ^ site->trampoline_va, site->pc_first, site->pc_count};
    uint64_t va = site->trampoline_va - sizeof head, gap = va - (code->va + code->bytes.n);
    if (gap >= LOAD_CHUNK_STEP || code->bytes.n > MOST) {
        ERR_TRY(write_code(change));
        gap = 0;
    }
    if (!code->bytes.n)
        code->va = va;
    append(code, (const uint8_t[LOAD_CHUNK_STEP]){0}, gap);
    append(code, &head, sizeof head);
    append(code, trampoline->code.at, trampoline->code.n);
    return NULL;
}

static bool goes_on(const struct load_site *site)
{
    for (size_t i = 0; i < site->probe.n; i++)
        if (site->probe.at[i].action >= LOAD_CALL_GO_ON)
            return true;
    return false;
}

/* Room for the trampoline, its code, and its journal entry. */
static struct err *build_site(struct change *change, struct load_function *function, struct load_site *site, size_t more,
                              enum insn_reason *reason)
{
    struct load_process *process = change->process;
    struct load_module *module = function->module;
    struct load_trampoline *trampoline = &change->trampoline;
    /* Where it will most likely lie. */
    uint64_t next_va = load_region_next(process, module->start_va, module->end_va), emit_va = next_va + sizeof(struct wire_trampoline);
    *reason = load_emit(&process->fire, function->flow, &site->window, site->probe.at, site->probe.n, module->bias,
                        next_va ? emit_va : module->start_va, trampoline);
    if (*reason != INSN_OK)
        return NULL;
    site->trampoline_bytes = (uint32_t)trampoline->code.n;
    size_t bytes = sizeof(struct wire_trampoline) + trampoline->code.n;
    struct err *error = load_region_alloc(process, module->start_va, module->end_va, bytes, more * bytes, &site->trampoline_va);
    if (error && error->code == ERR_PLACE) {
        err_free(error);
        *reason = INSN_NO_ROOM;
        return NULL;
    }
    if (error)
        return error;
    site->trampoline_va += sizeof(struct wire_trampoline);
    if (!next_va || site->trampoline_va != emit_va)
        *reason = load_emit(&process->fire, function->flow, &site->window, site->probe.at, site->probe.n, module->bias, site->trampoline_va,
                            trampoline);
    if (*reason != INSN_OK) {
        free_trampoline(process, site);
        return NULL;
    }
    site->far_island_va = 0;
    if (site->window.far_span) {
        ERR_TRY(place_far_island(process, site, module->bias, reason));
        if (*reason != INSN_OK) {
            free_trampoline(process, site);
            return NULL;
        }
    }
    site->island_va = site->window.island_va ? site->window.island_va + module->bias : site->far_island_va;
    if (site->island_va)
        VEC_PUSH(&trampoline->pc,
                 (struct wire_pc){.va = site->island_va, .origin_va = site->window.va + module->bias, .kind = WIRE_PC_COPY});
    load_emit_patch(&site->window, module->bias, site->trampoline_va, site->far_island_va, site->patch, site->island_patch);
    size_t available;
    memcpy(site->original, symbol_file_text(module->code->file, site->window.va, &available), site->window.length);
    if (site->window.island_va)
        memcpy(site->island_original, symbol_file_text(module->code->file, site->window.island_va, &available), 5);
    uint64_t patched_end_va = site->window.va + site->window.length;
    site->after_va = (site->window.end_va > patched_end_va ? site->window.end_va : patched_end_va) + module->bias;
    ERR_TRY(load_journal_add(process, site, module->bias, trampoline));
    if (goes_on(site))
        VEC_PUSH(&process->go_on, (struct wire_region){site->trampoline_va, site->trampoline_bytes});
    return write_trampoline(change, site);
}

/* Takes a site for each planned window: one that is already there, or a new one. */
static struct err *make_sites(struct change *change, struct load_function *function, struct replan *plan, size_t more,
                              enum insn_reason *reason)
{
    VEC(struct load_site *) kept = {0};
    struct err *error = NULL;
    *reason = INSN_OK;
    for (size_t w = 0, first = 0; w < plan->windows.n && !error && *reason == INSN_OK; w++) {
        const struct load_window *window = &plan->windows.at[w];
        size_t count = 0;
        while (first + count < function->probe.n && function->probe.at[first + count].va < window->end_va)
            count++;
        struct load_site *site = NULL;
        for (size_t i = 0; i < function->site.n && !site; i++)
            if (function->site.at[i] && is_same_site(function->site.at[i], window, &function->probe.at[first], count)) {
                site = function->site.at[i];
                function->site.at[i] = NULL;
            }
        if (!site) {
            site = memory_zero(1, sizeof *site);
            site->window = *window;
            site->module = function->module;
            for (size_t i = 0; i < count; i++)
                VEC_PUSH(&site->probe, function->probe.at[first + i]);
            error = build_site(change, function, site, more + plan->windows.n - w - 1, reason);
            if (error || *reason != INSN_OK) {
                load_site_destroy(site);
                break;
            }
            VEC_PUSH(&change->added, site);
        }
        VEC_PUSH(&kept, site);
        first += count;
    }
    for (size_t i = 0; i < function->site.n; i++)
        if (function->site.at[i])
            VEC_PUSH(&change->removed, function->site.at[i]);
    function->site.n = 0;
    for (size_t i = 0; i < kept.n; i++)
        VEC_PUSH(&function->site, kept.at[i]);
    VEC_FREE(&kept);
    return error;
}

/* Probes that were refused leave the function's list. */
static void drop_refused(struct load_function *function, struct replan *plan)
{
    size_t kept = 0;
    for (size_t i = 0; i < function->probe.n; i++)
        if (plan->wish.at[i].kind != LOAD_REFUSED)
            function->probe.at[kept++] = function->probe.at[i];
    function->probe.n = kept;
}

static int by_wish_va(const void *a, const void *b)
{
    const struct load_wish *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

static void answer_requests(struct load_function *function, const struct replan *plan, struct load_request *request, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t at;
        long index = find_function(request[i].module, request[i].func_va, &at);
        if (request[i].remove || index < 0 || request[i].module->function.at[index] != function)
            continue;
        if (function->refusal != INSN_OK) {
            request[i].kind = LOAD_REFUSED;
            request[i].reason = (uint8_t)function->refusal;
        }
        struct load_wish key = {.va = request[i].probe.va};
        const struct load_wish *wish = plan->wish.n ? bsearch(&key, plan->wish.at, plan->wish.n, sizeof key, by_wish_va) : NULL;
        if (wish) {
            request[i].kind = wish->kind;
            request[i].reason = wish->reason;
        }
    }
}

static int by_module_and_function(const void *a, const void *b)
{
    const struct load_request *x = a, *y = b;
    if (x->module != y->module)
        return x->module < y->module ? -1 : 1;
    return x->func_va < y->func_va ? -1 : x->func_va > y->func_va;
}

struct far_question {
    struct load_process *process;
    const struct target_maps *maps;
    uint64_t bias;
};

static bool is_far_possible(void *context, uint64_t va, uint32_t span)
{
    const struct far_question *question = context;
    return load_far_is_possible(question->process, question->maps, va + question->bias, span);
}

static int by_span(const void *a, const void *b)
{
    const struct load_far_wish *x = a, *y = b;
    if (x->span != y->span)
        return x->span < y->span ? -1 : 1;
    return x->va < y->va ? -1 : x->va > y->va;
}

/* Those that can be in few places come first: the others may fit into the same pages. Sites that are there already have their islands. */
static struct err *prepare_islands(const struct change *change, const struct replan *plan)
{
    VEC(struct load_far_wish) wish = {0};
    for (size_t i = 0; i < change->function.n; i++)
        for (size_t w = 0; w < plan[i].windows.n && !change->function.at[i]->site.n; w++) {
            const struct load_window *window = &plan[i].windows.at[w];
            if (window->far_span)
                VEC_PUSH(&wish, (struct load_far_wish){window->far_va + change->function.at[i]->module->bias, window->far_span});
        }
    if (wish.n)
        qsort(wish.at, wish.n, sizeof *wish.at, by_span);
    struct err *error = load_far_prepare(change->process, wish.at, wish.n);
    VEC_FREE(&wish);
    return error;
}

static struct err *plan_all(struct change *change, struct load_request *request, size_t count)
{
    change->requests = count;
    qsort(request, count, sizeof *request, by_module_and_function);
    for (size_t i = 0; i < count; i++)
        take_request(change, &request[i]);
    struct target_maps maps;
    change->process->far_promised = 0;
    struct err *error = target_maps_read(change->process->target, &maps);
    if (error)
        return error;
    struct replan *plan = memory_zero(change->function.n, sizeof *plan);
    for (size_t i = 0; i < change->function.n; i++)
        plan_function(change->function.at[i], &plan[i]);
    for (size_t i = 0; i < change->function.n; i++) {
        struct load_function *function = change->function.at[i];
        struct far_question question = {change->process, &maps, function->module->bias};
        load_windows_add_islands(function->module->code, function->flow, &function->module->claims, plan[i].wish.at, plan[i].wish.n,
                                 &plan[i].windows, is_far_possible, &question);
    }
    target_maps_deinit(&maps);
    error = prepare_islands(change, plan);
    size_t first = 0, windows = 0;
    for (size_t i = 0; i < change->function.n; i++)
        windows += plan[i].windows.n;
    for (size_t i = 0; i < change->function.n && !error; i++) {
        struct load_function *function = change->function.at[i];
        enum insn_reason reason;
        drop_refused(function, &plan[i]);
        windows -= plan[i].windows.n;
        error = make_sites(change, function, &plan[i], windows, &reason);
        if (!error && reason != INSN_OK) {
            /* No copy can be made: the function gets no probes at all. Sites made for it above are removed again in the same change. */
            function->refusal = reason;
            function->probe.n = 0;
            plan[i].wish.n = 0;
            load_windows_release(function->module->code, &function->module->claims, plan[i].windows.at, plan[i].windows.n);
            for (size_t s = 0; s < function->site.n; s++) {
                function->site.at[s]->dropped = true;
                VEC_PUSH(&change->removed, function->site.at[s]);
            }
            function->site.n = 0;
        }
        size_t end = first;
        while (end < count && request[end].module == function->module && request[end].func_va == function->va)
            end++;
        answer_requests(function, &plan[i], request + first, end - first);
        first = end;
    }
    for (size_t i = 0; i < change->function.n; i++) {
        VEC_FREE(&plan[i].wish);
        VEC_FREE(&plan[i].windows);
    }
    free(plan);
    return error ? error : write_code(change);
}

/* ---- all of it ---- */

void load_trampoline_release(struct load_process *process, struct load_site *site)
{
    load_journal_remove_pcs(process, site);
    poison(process, site);
    free_trampoline(process, site);
    for (size_t i = process->go_on.n; i-- > 0;)
        if (process->go_on.at[i].va == site->trampoline_va)
            process->go_on.at[i] = process->go_on.at[--process->go_on.n];
    if (site->far_island_va)
        load_far_free(process, site->far_island_va);
}

void load_site_release(struct load_process *process, struct load_site *site)
{
    load_journal_remove_sites(process, site);
    load_trampoline_release(process, site);
}

static void finish(struct change *change)
{
    struct load_process *process = change->process;
    if (change->added.n || change->removed.n)
        load_limbo_sweep(process); /* the process was stopped and looked at */
    for (size_t i = 0; i < change->removed.n; i++) {
        struct load_site *site = change->removed.at[i];
        if (site->is_occupied) {
            load_limbo_enter(process, site);
            continue;
        }
        load_site_release(process, site);
        load_site_destroy(site);
    }
    for (size_t i = 0; i < change->function.n; i++) {
        change->function.at[i]->changed = false;
        if (!change->function.at[i]->probe.n)
            forget_function(change->function.at[i]);
    }
}

void load_process_on_wait(struct load_process *process, load_wait_fn *wait, void *context)
{
    process->wait = wait;
    process->wait_context = context;
}

static struct err *change_process(struct load_process *process, struct load_request *request, size_t count, bool stays_in_hurry)
{
    struct change change = {.process = process, .stays_in_hurry = stays_in_hurry};
    struct err *error = plan_all(&change, request, count);
    if (!error) {
        load_signals_activate(process, request, count);
        error = load_change_apply(&change);
    }
    for (size_t i = 0; i < count && !error; i++)
        if (request[i].module->is_gone && !request[i].remove) {
            request[i].kind = LOAD_REFUSED;
            request[i].reason = INSN_TEXT_DIFFERS;
        }
    if (!error)
        finish(&change);
    for (size_t i = 0; i < change.page.n; i++)
        free(change.page.at[i].bytes);
    free(change.text.at);
    VEC_FREE(&change.code.bytes);
    VEC_FREE(&change.page);
    VEC_FREE(&change.function);
    VEC_FREE(&change.added);
    VEC_FREE(&change.removed);
    load_trampoline_deinit(&change.trampoline);
    return error;
}

struct err *load_process_change(struct load_process *process, struct load_request *request, size_t count)
{
    return change_process(process, request, count, false);
}

struct err *load_process_change_in_hurry(struct load_process *process, struct load_request *request, size_t count)
{
    return change_process(process, request, count, true);
}
