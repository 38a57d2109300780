/* The part of a change that is made in a stop of the process: threads that stand in what changes are moved, whole pages are written. */
#include "load/change.h"

#include "base/clock.h"
#include "base/hurry.h"
#include "base/interrupt.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

/* ---- pages ---- */

static struct patch_page *page_of(struct change *change, struct load_module *module, uint64_t page_va)
{
    for (size_t k = change->page.n; k-- > 0;)
        if (change->page.at[k].va == page_va)
            return &change->page.at[k];
    VEC_PUSH(&change->page, (struct patch_page){page_va, PAGE, 0, memory_alloc(2 * PAGE), module});
    struct patch_page *page = &change->page.at[change->page.n - 1];
    if (target_read_some(change->process->target, page_va, page->bytes, PAGE) != PAGE)
        module->is_gone = true;
    memcpy(page->bytes + PAGE, page->bytes, PAGE);
    return page;
}

/* Where the process has something else than what was expected there, the module is not what it was when this was planned. */
static void add_bytes(struct change *change, struct load_module *module, uint64_t va, const uint8_t *expected, const uint8_t *bytes,
                      size_t size)
{
    for (size_t i = 0; i < size && !module->is_gone; i++) {
        struct patch_page *page = page_of(change, module, (va + i) / PAGE * PAGE);
        uint32_t at = (uint32_t)(va + i - page->va);
        module->is_gone |= page->bytes[at] != expected[i];
        page->bytes[at] = bytes[i];
        page->low = at < page->low ? at : page->low;
        page->high = at + 1 > page->high ? at + 1 : page->high;
    }
}

static void add_site_bytes(struct change *change, const struct load_site *site, bool restore)
{
    const struct load_window *window = &site->window;
    const uint8_t *island = site->island_original;
    bool was_there = restore && !site->dropped;
    add_bytes(change, site->module, window->va + site->module->bias, was_there ? site->patch : site->original,
              restore ? site->original : site->patch, window->length);
    if (window->island_va)
        add_bytes(change, site->module, window->island_va + site->module->bias, was_there ? site->island_patch : island,
                  restore ? island : site->island_patch, 5);
}

static void make_pages(struct change *change)
{
    for (size_t i = 0; i < change->removed.n; i++)
        add_site_bytes(change, change->removed.at[i], true);
    for (size_t i = 0; i < change->added.n; i++)
        if (!change->added.at[i]->dropped)
            add_site_bytes(change, change->added.at[i], false);
}

/* While all threads stand: what was found when the pages were made must still be there, in the same file. */
static void confirm_pages(struct change *change, const struct target_maps *maps)
{
    for (size_t i = 0; i < change->page.n; i++) {
        struct patch_page *page = &change->page.at[i];
        uint8_t bytes[PAGE];
        if (page->module->is_gone || page->low >= page->high)
            continue;
        size_t size = page->high - page->low;
        page->module->is_gone = !load_page_is_mapped(page->module, page->va, maps) ||
                                target_read_some(change->process->target, page->va + page->low, bytes, size) != size ||
                                memcmp(bytes, page->bytes + PAGE + page->low, size);
    }
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
    const struct target_maps *maps; /* as they are in the stop */
    VEC(struct wire_site) window;   /* va and, in `length`, its extent; sorted */
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
    return change->added.at[index]->module->is_gone ? NULL : change->added.at[index];
}

static bool in_removed(const struct lookup *lookup, uint64_t pc)
{
    if (pc < lookup->removed_low || pc >= lookup->removed_high)
        return false;
    for (size_t i = 0; i < lookup->change->removed.n; i++)
        if (load_site_has(lookup->change->removed.at[i], pc))
            return true;
    return false;
}

/* The agent looks windows up and uses what it finds a few instructions later. */
static bool in_agent(const struct lookup *lookup, uint64_t pc)
{
    const struct load_process *process = lookup->change->process;
    return pc >= process->agent_show_va && pc < process->agent_show_end_va;
}

/* In code of the agent that waits for us, or on the way there. */
static bool in_wait(const struct lookup *lookup, uint64_t pc)
{
    const struct load_process *process = lookup->change->process;
    return (lookup->change->removed.n || process->limbo.n) && pc >= process->fire.agent_va && pc < process->agent_show_va;
}

/* It has looked one up, or is about to, and will go on in what it has found. */
static bool goes_on(const struct lookup *lookup, uint64_t pc)
{
    const struct load_process *process = lookup->change->process;
    for (size_t i = 0; i < process->go_on.n; i++)
        if (pc - process->go_on.at[i].va < process->go_on.at[i].bytes)
            return true;
    return false;
}

/* A clause returns to the trampoline that called it, which must be there until then. */
static bool in_clause(const struct lookup *lookup, uint64_t pc)
{
    const struct load_process *process = lookup->change->process;
    return (lookup->change->removed.n || process->limbo.n) && process->body.n && load_in_clause(process, pc);
}

static bool is_ours(void *context, uint64_t pc)
{
    const struct lookup *lookup = context;
    return in_removed(lookup, pc) || in_agent(lookup, pc) || in_wait(lookup, pc) || goes_on(lookup, pc) || in_clause(lookup, pc) ||
           load_limbo_has(lookup->change->process, pc) || added_window_around(lookup, pc, false);
}

static bool occupy(const struct lookup *lookup, struct load_site *site, uint64_t va)
{
    if (va && !load_site_has(site, va))
        return true;
    site->is_occupied = true;
    return !added_window_around(lookup, site->after_va, false);
}

/* Whoever can not be moved out of an old trampoline stays, until it leaves by itself (limbo.c). `va`: in it; 0: it is one of them. False
 * when it would go on in the middle of a new window. */
static bool stays(const struct lookup *lookup, uint64_t va)
{
    const struct change *change = lookup->change;
    bool may = true;
    for (size_t i = 0; i < change->removed.n; i++)
        may &= occupy(lookup, change->removed.at[i], va);
    for (size_t i = 0; i < change->process->limbo.n; i++)
        may &= occupy(lookup, change->process->limbo.at[i], va);
    return may;
}

static void empty_all(const struct change *change)
{
    for (size_t i = 0; i < change->removed.n; i++)
        change->removed.at[i]->is_occupied = false;
    for (size_t i = 0; i < change->process->limbo.n; i++)
        change->process->limbo.at[i]->is_occupied = false;
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
    for (const struct wire_pc *entry = moved->from;; entry--) {
        if (entry->kind != WIRE_PC_FIRE || entry->origin_va != moved->from->origin_va)
            break;
        if ((entry != moved->from || moved->counted) && fires(lookup, site, entry))
            load_live_take_back(lookup->change->process->live, entry->value);
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

/* The place in the new trampoline that stands for `va` in an old one, behind a call of the agent; 0: there is no such call any more. */
static uint64_t new_return(const struct lookup *lookup, uint64_t va)
{
    const struct load_process *process = lookup->change->process;
    const struct wire_pc *old = load_pc_map_find(&lookup->removed, va);
    if (!old || old->kind != WIRE_PC_CALL || va - old->va != fire_call_return(process->fire.mode))
        return 0;
    const struct load_site *site = added_window_around(lookup, old->origin_va, true);
    const struct wire_pc *entry = site ? load_shared_pcs(process->shared) + site->pc_first : NULL;
    for (uint32_t i = 0; site && i < site->pc_count; i++)
        if (entry[i].kind == WIRE_PC_CALL && entry[i].origin_va == old->origin_va && entry[i].value == old->value)
            return entry[i].va + (va - old->va);
    return 0;
}

/* A thread that waits for us in the agent can not leave before the change has been made. It returns to the new trampoline if its call is
 * there, too, and else to the old one, which stays. */
static void visit_waiting(const struct lookup *lookup, const struct load_move_regs *regs)
{
    struct change *change = lookup->change;
    struct target *target = change->process->target;
    bool wide = change->process->fire.mode == INSN_MODE_64;
    uint64_t slot_va = (regs->bp & ~15ull) - (wide ? WIRE_CALL_RETURN64 : WIRE_CALL_RETURN32), return_va = 0;
    size_t bytes = wide ? 8 : 4;
    if (target_read_some(target, slot_va, &return_va, bytes) != bytes)
        return;
    uint64_t new_va = in_removed(lookup, return_va) ? new_return(lookup, return_va) : 0;
    if (!new_va) {
        bool is_old = in_removed(lookup, return_va) || load_limbo_has(change->process, return_va);
        change->not_now += is_old && !stays(lookup, return_va);
        return;
    }
    change->affected++;
    if (change->phase == CHANGE_INTO_COPIES)
        err_free(target_write(target, slot_va, &new_va, bytes)); /* what could be read can be written: it is the thread's stack */
}

static bool visit(void *context, struct target_thread *thread, struct load_move_regs *regs)
{
    struct lookup *lookup = context;
    struct change *change = lookup->change;
    struct load_move_regs moved = *regs;
    bool out = in_removed(lookup, regs->pc);
    if (in_wait(lookup, regs->pc)) {
        visit_waiting(lookup, regs);
        return false;
    }
    if (regs->must_stay || in_agent(lookup, regs->pc) || goes_on(lookup, regs->pc)) {
        change->not_now++;
        return false;
    }
    bool clause = in_clause(lookup, regs->pc);
    if (clause || load_limbo_has(change->process, regs->pc) ||
        (out && load_move_out(change->process->target, &lookup->removed, &moved) != LOAD_MOVED)) {
        uint64_t stays_va = clause ? load_body_caller(change->process, regs->pc, regs->fire.sp) : regs->pc;
        change->not_now += !stays(lookup, stays_va);
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
        struct wire_site entry = {.va = window->va + change->added.at[i]->module->bias, .length = (uint8_t)(end_va - window->va)};
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
    const struct load_process *process = lookup->change->process;
    ERR_TRY(load_visit_threads(process->target, process->shared, lookup->maps, is_ours, visit, lookup));
    return phase == CHANGE_LOOK ? NULL : target_write_regs(process->target);
}

static struct err *apply_with_maps(struct lookup *lookup, bool *done)
{
    struct change *change = lookup->change;
    struct target *target = change->process->target;
    confirm_pages(change, lookup->maps);
    empty_all(change);
    ERR_TRY(move_threads(lookup, CHANGE_LOOK));
    *done = change->not_now == 0;
    if (!*done)
        return NULL;
    bool moves = change->affected != 0;
    if (moves)
        ERR_TRY(move_threads(lookup, CHANGE_INTO_COPIES));
    for (size_t i = 0; i < change->page.n; i++) {
        const struct patch_page *page = &change->page.at[i];
        if (!page->module->is_gone)
            ERR_TRY(target_write(target, page->va + page->low, page->bytes + page->low, page->high - page->low));
    }
    return moves ? move_threads(lookup, CHANGE_OUT_OF_COPIES) : NULL;
}

/* *why: what keeps it from being done now, if that is known. */
static struct err *apply_stopped(struct lookup *lookup, bool *done, struct err **why)
{
    struct change *change = lookup->change;
    struct target *target = change->process->target;
    struct target_maps maps;
    struct err *busy = target_stop(target);
    if (busy && busy->code == ERR_BUSY)
        return err_free(*why), *why = busy, NULL;
    if (busy)
        return busy;
    ERR_TRY(load_process_check(change->process));
    ERR_TRY(target_maps_read(target, &maps));
    lookup->maps = &maps;
    struct err *error = apply_with_maps(lookup, done);
    lookup->maps = NULL;
    target_maps_deinit(&maps);
    return error;
}

struct err *load_change_apply(struct change *change)
{
    /* A thread in a clause has mostly left it at once; one in a system call of the agent has not. */
    enum { ATTEMPTS = 1000, QUICK = 20, QUICK_NS = 50000, WAIT_NS = 1000000 };
    const uint64_t most_ns = 30000000000;
    uint64_t begin_ns = clock_now_ns();
    struct err *why = NULL;
    struct load_process *process = change->process;
    if (!change->added.n && !change->removed.n) {
        if (change->stays_in_hurry)
            hurry_begin();
        return NULL;
    }
    make_pages(change);
    struct lookup lookup;
    make_lookup(change, &lookup);
    load_traps_collect(process, change->removed.at, change->removed.n);
    struct err *error = process->trap.n ? load_traps_keep(process) : NULL;
    bool done = false;
    for (int attempt = 0; !error && !done; attempt++) {
        uint64_t start_ns = clock_now_ns();
        hurry_begin();
        error = apply_stopped(&lookup, &done, &why);
        if (!error && done) {
            load_traps_collect(process, NULL, 0);
            error = load_traps_keep(process);
        }
        struct err *resume = target_resume(process->target);
        process->pause_ns = clock_now_ns() - start_ns;
        if (!error)
            error = resume;
        else
            err_free(resume);
        if (error || !done || !change->stays_in_hurry)
            hurry_end();
        if (!error && !done && interrupt_pending())
            error = err_new(ERR_BUSY, "process %d: interrupted while its probes were being changed", target_pid(process->target));
        uint64_t waited_ns = clock_now_ns() - begin_ns;
        if (!error && !done && ((attempt >= ATTEMPTS && waited_ns > most_ns / 3) || waited_ns > most_ns)) {
            error = why ? why : err_new(ERR_BUSY, "process %d: a thread does not leave code that must change", target_pid(process->target));
            why = NULL;
        }
        if (!error && !done)
            target_pause(process->target, attempt < QUICK ? QUICK_NS : WAIT_NS);
        if (!error && !done && process->wait)
            process->wait(process->wait_context); /* right before the next attempt: a ring is full again soon */
    }
    err_free(why);
    VEC_FREE(&lookup.window);
    VEC_FREE(&lookup.removed_pc);
    return error;
}
