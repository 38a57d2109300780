/* Changing what is probed: requests become windows, windows become trampolines and patches, and one stop of the process puts them in place.
 * Everything that can be prepared is prepared while the process runs. */
#include "load/internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE = 4096 };

/* New contents of a part of one page. */
struct patch_page {
    uint64_t va;        /* page address */
    uint32_t low, high; /* the part that changes */
    uint8_t *bytes;     /* the whole page */
};

struct change {
    struct load_process *process;
    VEC(struct load_function *) function;
    VEC(struct load_site *) added;          /* in order of address once sorted */
    VEC(struct load_module *) added_module; /* the module of each `added` */
    VEC(struct load_site *) removed;
    VEC(struct patch_page) page;
    struct load_trampoline trampoline;
    enum { CHANGE_LOOK, CHANGE_INTO_COPIES, CHANGE_OUT_OF_COPIES } phase;
    size_t affected, not_now; /* threads and frames that must move, and that can not yet */
};

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

/* The code in memory must be the file's: everything known about it comes from the file. */
static bool text_is_the_files(struct target *target, const struct load_module *module, const struct load_flow *flow)
{
    if (!flow->count)
        return false;
    const struct insn *last = &flow->insn[flow->count - 1];
    uint64_t end_va = last->va + last->length > flow->end_va ? last->va + last->length : flow->end_va;
    size_t size = end_va - flow->va, available;
    const uint8_t *file = symbol_file_text(module->code->file, flow->va, &available);
    if (!file || available < size)
        return false;
    uint8_t *memory = memory_alloc(size);
    bool same = target_read_some(target, flow->va + module->bias, memory, size) == size;
    for (size_t i = 0; same && i < size; i++) /* islands of other functions may lie in the padding behind this one */
        same = memory[i] == file[i] || flow->va + i >= flow->end_va;
    free(memory);
    return same;
}

static struct load_function *get_function(struct load_process *process, struct load_module *module, uint64_t va, uint64_t size)
{
    size_t at;
    long index = find_function(module, va, &at);
    if (index >= 0)
        return module->function.at[index];
    struct load_function *function = memory_zero(1, sizeof *function);
    function->va = va;
    function->size = size;
    function->module = module;
    load_flow_init(&function->flow, module->code, va, size);
    if (!text_is_the_files(process->target, module, &function->flow))
        function->refusal = function->flow.count ? INSN_TEXT_DIFFERS : INSN_UNDECODABLE;
    VEC_PUSH(&module->function, function);
    memmove(&module->function.at[at + 1], &module->function.at[at], (module->function.n - at - 1) * sizeof function);
    module->function.at[at] = function;
    return function;
}

static void destroy_site(struct load_site *site)
{
    VEC_FREE(&site->probe);
    free(site);
}

void load_function_destroy(struct load_function *function)
{
    for (size_t i = 0; i < function->site.n; i++)
        destroy_site(function->site.at[i]);
    VEC_FREE(&function->site);
    VEC_FREE(&function->probe);
    load_flow_deinit(&function->flow);
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
    struct load_function *function = get_function(change->process, request->module, request->func_va, request->func_size);
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
    for (size_t i = 0; i < function->probe.n; i++)
        VEC_PUSH(&plan->wish, (struct load_wish){.va = function->probe.at[i].va, .taken = function->probe.at[i].taken});
    load_windows_plan(module->code, &function->flow, &module->claims, plan->wish.at, plan->wish.n, &plan->windows);
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

static struct err *write_trampoline(struct load_process *process, const struct load_site *site, const struct load_trampoline *trampoline)
{
    struct wire_trampoline head = {WIRE_TRAMPOLINE_MAGIC ^ site->trampoline_va, site->pc_first, site->pc_count};
    uint8_t *bytes = memory_alloc(sizeof head + trampoline->code.n);
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, trampoline->code.at, trampoline->code.n);
    struct err *error = target_write(process->target, site->trampoline_va - sizeof head, bytes, sizeof head + trampoline->code.n);
    free(bytes);
    return error;
}

/* Room for the trampoline, its code, and its journal entry. */
static struct err *build_site(struct change *change, struct load_function *function, struct load_site *site, size_t more,
                              enum insn_reason *reason)
{
    struct load_process *process = change->process;
    struct load_module *module = function->module;
    struct load_trampoline *trampoline = &change->trampoline;
    *reason = load_emit(&process->fire, &function->flow, &site->window, site->probe.at, site->probe.n, module->bias, module->start_va,
                        trampoline);
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
    *reason = load_emit(&process->fire, &function->flow, &site->window, site->probe.at, site->probe.n, module->bias, site->trampoline_va,
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
    ERR_TRY(load_journal_add(process, site, module->bias, trampoline));
    return write_trampoline(process, site, trampoline);
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
            for (size_t i = 0; i < count; i++)
                VEC_PUSH(&site->probe, function->probe.at[first + i]);
            error = build_site(change, function, site, more + plan->windows.n - w, reason);
            if (error || *reason != INSN_OK) {
                destroy_site(site);
                break;
            }
            VEC_PUSH(&change->added, site);
            VEC_PUSH(&change->added_module, function->module);
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

/* A handler that sees what it would natively is not worth a trap: the controller would have to stay attached. */
static void refuse_signal_traps(const struct load_function *function, struct replan *plan)
{
    size_t kept = 0;
    for (size_t w = 0; w < plan->windows.n; w++) {
        const struct load_window *window = &plan->windows.at[w];
        bool own = window->kind == LOAD_TRAP;
        for (size_t i = 0; i < function->probe.n && own; i++) {
            const struct load_probe *probe = &function->probe.at[i];
            own = probe->va < window->va || probe->va >= window->end_va || probe->action >= LOAD_CALL_ACTION;
        }
        for (size_t i = 0; i < plan->wish.n && own; i++)
            if (plan->wish.at[i].va >= window->va && plan->wish.at[i].va < window->end_va) {
                plan->wish.at[i].kind = LOAD_REFUSED;
                plan->wish.at[i].reason = INSN_NO_ROOM;
            }
        if (!own)
            plan->windows.at[kept++] = *window;
    }
    plan->windows.n = kept;
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

static struct err *plan_all(struct change *change, struct load_request *request, size_t count)
{
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
        load_windows_add_islands(function->module->code, &function->flow, &function->module->claims, plan[i].wish.at, plan[i].wish.n,
                                 &plan[i].windows, is_far_possible, &question);
        refuse_signal_traps(function, &plan[i]);
    }
    target_maps_deinit(&maps);
    size_t first = 0;
    for (size_t i = 0; i < change->function.n && !error; i++) {
        struct load_function *function = change->function.at[i];
        enum insn_reason reason;
        drop_refused(function, &plan[i]);
        error = make_sites(change, function, &plan[i], change->function.n - i - 1, &reason);
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
    return error;
}

/* ---- pages ---- */

static struct err *add_bytes(struct change *change, uint64_t va, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint64_t page_va = (va + i) / PAGE * PAGE;
        struct patch_page *page = NULL;
        for (size_t k = change->page.n; k-- > 0 && !page;)
            if (change->page.at[k].va == page_va)
                page = &change->page.at[k];
        if (!page) {
            VEC_PUSH(&change->page, (struct patch_page){page_va, PAGE, 0, memory_alloc(PAGE)});
            page = &change->page.at[change->page.n - 1];
            ERR_TRY(target_read(change->process->target, page_va, page->bytes, PAGE));
        }
        uint32_t at = (uint32_t)(va + i - page_va);
        page->bytes[at] = bytes[i];
        page->low = at < page->low ? at : page->low;
        page->high = at + 1 > page->high ? at + 1 : page->high;
    }
    return NULL;
}

static struct err *add_site_bytes(struct change *change, const struct load_site *site, uint64_t bias, bool restore)
{
    const struct load_window *window = &site->window;
    ERR_TRY(add_bytes(change, window->va + bias, restore ? site->original : site->patch, window->length));
    if (window->island_va)
        ERR_TRY(add_bytes(change, window->island_va + bias, restore ? site->island_original : site->island_patch, 5));
    return NULL;
}

static struct err *make_pages(struct change *change)
{
    struct wire_site *journal = load_shared_sites(change->process->shared);
    for (size_t i = 0; i < change->removed.n; i++) {
        const struct load_site *site = change->removed.at[i];
        ERR_TRY(add_site_bytes(change, site, journal[site->journal].va - site->window.va, true));
    }
    for (size_t i = 0; i < change->added.n; i++) {
        if (!change->added.at[i]->dropped)
            ERR_TRY(add_site_bytes(change, change->added.at[i], change->added_module.at[i]->bias, false));
    }
    return NULL;
}

/* ---- the stop ---- */

static int by_window_va(const void *a, const void *b)
{
    const struct wire_site *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

/* What visiting threads needs to look up fast: windows by runtime address, and removed trampolines. */
struct lookup {
    struct change *change;
    VEC(struct wire_site) window; /* va and, in `length`, its extent; sorted */
    struct load_pc_map removed;
    VEC(struct wire_pc) removed_pc;
    uint64_t removed_low, removed_high;
};

/* The new window that `pc` lies in; its first byte counts only with `from_start`. */
static const struct load_site *added_window_around(const struct lookup *lookup, uint64_t pc, bool from_start)
{
    const struct change *change = lookup->change;
    size_t low = 0;
    for (size_t high = lookup->window.n; low < high;) {
        size_t middle = (low + high) / 2;
        if (lookup->window.at[middle].va <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || pc - lookup->window.at[low - 1].va >= lookup->window.at[low - 1].length)
        return NULL;
    if (pc == lookup->window.at[low - 1].va && !from_start)
        return NULL;
    uint32_t index;
    memcpy(&index, lookup->window.at[low - 1].original, sizeof index);
    return change->added.at[index];
}

static bool in_removed(const struct lookup *lookup, uint64_t pc)
{
    if (pc < lookup->removed_low || pc >= lookup->removed_high)
        return false;
    for (size_t i = 0; i < lookup->change->removed.n; i++) {
        const struct load_site *site = lookup->change->removed.at[i];
        if (pc - site->trampoline_va < site->trampoline_bytes || pc == site->island_va)
            return true;
    }
    return false;
}

/* The agent looks windows up and uses what it finds a few instructions later. */
static bool in_agent(const struct lookup *lookup, uint64_t pc)
{
    const struct load_process *process = lookup->change->process;
    return pc >= process->agent_show_va && pc < process->agent_show_end_va;
}

/* A clause returns to the trampoline that called it, which must be there until then. */
static bool in_clause(const struct lookup *lookup, uint64_t pc)
{
    const struct load_process *process = lookup->change->process;
    if (!lookup->change->removed.n || !process->body.n)
        return false;
    for (size_t i = 0; i < process->body.n; i++)
        if (pc - process->body.at[i].va < process->body.at[i].bytes)
            return true;
    return pc >= process->agent_clause_va && pc < process->agent_clause_end_va;
}

static bool is_ours(void *context, uint64_t pc)
{
    return in_removed(context, pc) || in_agent(context, pc) || in_clause(context, pc) || added_window_around(context, pc, false);
}

/* The place in the new trampoline where the instruction at `pc` is about to be executed: before its probes fire, or after. */
static uint64_t copy_of(const struct lookup *lookup, const struct load_site *site, uint64_t pc, bool fired)
{
    const struct wire_pc *entry = load_shared_pcs(lookup->change->process->shared) + site->pc_first;
    for (uint32_t i = 0; i < site->pc_count; i++)
        if (entry[i].origin_va == pc && !entry[i].sp_undo && entry[i].va != site->island_va &&
            (!fired || (entry[i].kind == WIRE_PC_COPY && entry[i].value)))
            return entry[i].va;
    return 0;
}

static bool fires(const struct lookup *lookup, const struct load_site *site, const struct wire_pc *old)
{
    const struct wire_pc *entry = load_shared_pcs(lookup->change->process->shared) + site->pc_first;
    for (uint32_t i = 0; i < site->pc_count; i++)
        if (entry[i].kind == WIRE_PC_FIRE && entry[i].origin_va == old->origin_va && entry[i].value == old->value)
            return true;
    return false;
}

/* A thread that was in the midst of firing comes back to the start of it: what has been counted will be counted again by the new
 * trampoline, so it is taken back first. */
static void take_hits_back(const struct lookup *lookup, const struct load_site *site, const struct load_move_regs *moved)
{
    struct wire_shared *shared = lookup->change->process->shared;
    uint64_t *counter = (uint64_t *)((char *)shared + shared->counters_offset);
    for (const struct wire_pc *entry = moved->from;; entry--) {
        if (entry->kind != WIRE_PC_FIRE || entry->origin_va != moved->from->origin_va)
            break;
        if ((entry != moved->from || moved->counted) && fires(lookup, site, entry))
            __atomic_sub_fetch(&counter[entry->value], 1, __ATOMIC_RELAXED);
        if (entry == lookup->removed.pc)
            break;
    }
}

/* Whether the handler of this frame returns to a restorer that has its probe, which will send the thread to the copy. */
static bool returns_through_us(const struct wire_shared *shared, const struct load_move_regs *regs)
{
    for (int i = 0; i < WIRE_RESTORER_ROOM; i++) {
        const struct wire_restorer *restorer = &shared->restorer[i];
        if (restorer->va && restorer->va == (restorer->is_info ? regs->restorer_va : regs->old_restorer_va))
            return true;
    }
    return false;
}

static bool visit(void *context, struct target_thread *thread, struct load_move_regs *regs)
{
    struct lookup *lookup = context;
    struct change *change = lookup->change;
    struct load_move_regs moved = *regs;
    bool out = in_removed(lookup, regs->pc);
    if (regs->must_stay || in_agent(lookup, regs->pc) || in_clause(lookup, regs->pc)) {
        change->not_now++;
        return false;
    }
    if (out && load_move_out(change->process->target, &lookup->removed, &moved) != LOAD_MOVED) {
        change->not_now++;
        return false;
    }
    bool apply = change->phase != CHANGE_LOOK && out == (change->phase == CHANGE_OUT_OF_COPIES);
    bool fired = out && moved.from->kind == WIRE_PC_COPY && moved.from->value;
    const struct load_site *site = added_window_around(lookup, moved.pc, out);
    if (site && out && apply && moved.from->kind == WIRE_PC_FIRE)
        take_hits_back(lookup, site, &moved);
    if (site) {
        /* The kernel will take two from the pc to make a system call again: only the program's own code has the call there. */
        uint64_t copy_va = thread && thread->restart_pending ? 0 : copy_of(lookup, site, moved.pc, fired);
        if (!copy_va) {
            change->not_now++;
            return false;
        }
        moved.pc = copy_va;
        moved.shows_pc = !thread && !out && returns_through_us(change->process->shared, regs);
    }
    if (!out && !site)
        return false;
    change->affected++;
    if (apply)
        *regs = moved;
    return apply;
}

static void make_lookup(struct change *change, struct lookup *lookup)
{
    *lookup = (struct lookup){.change = change, .removed_low = UINT64_MAX};
    for (size_t i = 0; i < change->added.n; i++) {
        const struct load_window *window = &change->added.at[i]->window;
        if (change->added.at[i]->dropped)
            continue;
        uint64_t end_va = window->end_va > window->va + window->length ? window->end_va : window->va + window->length;
        struct wire_site entry = {.va = window->va + change->added_module.at[i]->bias, .length = (uint8_t)(end_va - window->va)};
        memcpy(entry.original, &(uint32_t){(uint32_t)i}, 4);
        VEC_PUSH(&lookup->window, entry);
    }
    if (lookup->window.n)
        qsort(lookup->window.at, lookup->window.n, sizeof *lookup->window.at, by_window_va);
    for (size_t i = 0; i < change->removed.n; i++) {
        const struct load_site *site = change->removed.at[i];
        for (uint32_t k = 0; k < site->pc_count; k++)
            VEC_PUSH(&lookup->removed_pc, load_shared_pcs(change->process->shared)[site->pc_first + k]);
        uint64_t end_va = site->trampoline_va + site->trampoline_bytes;
        lookup->removed_low = site->trampoline_va < lookup->removed_low ? site->trampoline_va : lookup->removed_low;
        lookup->removed_high = end_va > lookup->removed_high ? end_va : lookup->removed_high;
        if (site->island_va && site->island_va < lookup->removed_low)
            lookup->removed_low = site->island_va;
        if (site->island_va >= lookup->removed_high)
            lookup->removed_high = site->island_va + 1;
    }
    load_pc_map_sort(lookup->removed_pc.at, lookup->removed_pc.n);
    lookup->removed = (struct load_pc_map){lookup->removed_pc.at, lookup->removed_pc.n};
}

static struct err *move_threads(struct lookup *lookup, int phase)
{
    lookup->change->phase = phase;
    lookup->change->affected = lookup->change->not_now = 0;
    ERR_TRY(load_visit_threads(lookup->change->process->target, is_ours, visit, lookup));
    return phase == CHANGE_LOOK ? NULL : target_write_regs(lookup->change->process->target);
}

static struct err *apply_stopped(struct lookup *lookup, bool *done)
{
    struct change *change = lookup->change;
    struct target *target = change->process->target;
    struct err *busy = target_stop(target);
    if (busy && busy->code == ERR_BUSY)
        return err_free(busy), NULL;
    if (busy)
        return busy;
    ERR_TRY(move_threads(lookup, CHANGE_LOOK));
    *done = change->not_now == 0;
    if (!*done)
        return NULL;
    bool moves = change->affected != 0;
    if (moves)
        ERR_TRY(move_threads(lookup, CHANGE_INTO_COPIES));
    for (size_t i = 0; i < change->page.n; i++) {
        const struct patch_page *page = &change->page.at[i];
        ERR_TRY(target_write(target, page->va + page->low, page->bytes + page->low, page->high - page->low));
    }
    return moves ? move_threads(lookup, CHANGE_OUT_OF_COPIES) : NULL;
}

uint64_t load_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct err *apply(struct change *change)
{
    enum { ATTEMPTS = 1000, WAIT_NS = 1000000 };
    struct load_process *process = change->process;
    if (!change->added.n && !change->removed.n)
        return NULL;
    ERR_TRY(make_pages(change));
    struct lookup lookup;
    make_lookup(change, &lookup);
    load_traps_collect(process, change->removed.at, change->removed.n);
    struct err *error = process->trap.n ? load_traps_keep(process) : NULL;
    bool done = false;
    for (int attempt = 0; !error && !done; attempt++) {
        uint64_t start_ns = load_now_ns();
        error = apply_stopped(&lookup, &done);
        if (!error && done) {
            load_traps_collect(process, NULL, 0);
            error = load_traps_keep(process);
        }
        struct err *resume = target_resume(process->target);
        process->pause_ns = load_now_ns() - start_ns;
        if (!error)
            error = resume;
        else
            err_free(resume);
        if (!error && !done && attempt == ATTEMPTS)
            error = err_new(ERR_SYSTEM, "process %d: a thread does not leave code that must change", target_pid(process->target));
        if (!error && !done)
            nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
    VEC_FREE(&lookup.window);
    VEC_FREE(&lookup.removed_pc);
    return error;
}

/* ---- all of it ---- */

void load_site_release(struct load_process *process, struct load_site *site)
{
    load_journal_remove(process, site);
    free_trampoline(process, site);
    if (site->far_island_va)
        load_far_free(process, site->far_island_va);
}

static void finish(struct change *change)
{
    struct load_process *process = change->process;
    for (size_t i = 0; i < change->removed.n; i++) {
        struct load_site *site = change->removed.at[i];
        load_site_release(process, site);
        destroy_site(site);
    }
    for (size_t i = 0; i < change->function.n; i++) {
        change->function.at[i]->changed = false;
        if (!change->function.at[i]->probe.n)
            forget_function(change->function.at[i]);
    }
}

struct err *load_process_change(struct load_process *process, struct load_request *request, size_t count)
{
    struct change change = {.process = process};
    struct err *error = plan_all(&change, request, count);
    if (!error) {
        load_signals_activate(process, request, count);
        error = apply(&change);
    }
    if (!error)
        finish(&change);
    for (size_t i = 0; i < change.page.n; i++)
        free(change.page.at[i].bytes);
    VEC_FREE(&change.page);
    VEC_FREE(&change.function);
    VEC_FREE(&change.added);
    VEC_FREE(&change.added_module);
    VEC_FREE(&change.removed);
    load_trampoline_deinit(&change.trampoline);
    return error;
}
