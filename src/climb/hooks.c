/* Hooks come and go: all that goes and comes at a time is one change of the process. */
#include "climb/internal.h"

#include "base/clock.h"
#include "insn/insn.h"

#include <stdlib.h>
#include <string.h>

unsigned climb_live_hooks(const struct climb *climb)
{
    unsigned count = 0;
    for (size_t i = 0; i < climb->hook.n; i++)
        count += climb->hook.at[i].is_live;
    return count;
}

void climb_free_hooks(struct climb *climb)
{
    for (size_t i = 0; i < climb->hook.n; i++)
        VEC_FREE(&climb->hook.at[i].place);
    VEC_FREE(&climb->hook);
}

static struct err *add_places(struct climb *climb, struct climb_hook *hook, uint32_t row, const struct climb_range *range,
                              const struct load_resolved *resolved)
{
    for (size_t i = 0; i < resolved->place.n; i++) {
        const struct load_place *place = &resolved->place.at[i];
        struct wire_place meaning = {.row = row};
        struct climb_place kept = {.func_va = place->func_va, .func_size = place->func_size, .va = place->va, .taken = place->taken};
        ERR_TRY(load_process_new_place(climb->process, place->va + range->bias, range->bias, &meaning, &kept.number));
        VEC_PUSH(&hook->place, kept);
    }
    return NULL;
}

/* Makes the hook of a function when it is hooked for the first time. */
static struct err *get_hook(struct climb *climb, uint32_t number, const struct climb_range *range)
{
    struct climb_function *function = climb->function.at[number];
    if (function->hook != CLIMB_NONE)
        return NULL;
    struct climb_hook hook = {.function = number};
    struct load_resolved enter = {0}, leave = {0};
    uint32_t row = (uint32_t)climb->hook.n;
    const struct load_code *code = range->module->code;
    const struct symbol_func *func = symbol_file_func_at(code->file, function->va);
    if (func) {
        load_resolve_func(code, func, SPEC_ENTRY, &enter);
        load_resolve_func(code, func, SPEC_RETURN, &leave);
    }
    struct err *error = add_places(climb, &hook, row, range, &enter);
    hook.enter_places = (uint32_t)hook.place.n;
    if (!error)
        error = add_places(climb, &hook, row, range, &leave);
    load_resolved_deinit(&enter);
    load_resolved_deinit(&leave);
    if (error) {
        VEC_FREE(&hook.place);
        return error;
    }
    VEC_PUSH(&climb->hook, hook);
    function->hook = row;
    return NULL;
}

static struct err *request(struct climb *climb, const struct climb_hook *hook, const struct climb_range *range, bool remove,
                           load_requests *out)
{
    uint64_t enter_va, leave_va;
    ERR_TRY(load_process_body(climb->process, climb->numbering.clause + CLIMB_ENTER, range->module->code, &enter_va));
    ERR_TRY(load_process_body(climb->process, climb->numbering.clause + CLIMB_LEAVE, range->module->code, &leave_va));
    for (size_t i = 0; i < hook->place.n; i++) {
        const struct climb_place *place = &hook->place.at[i];
        if (place->cannot)
            continue;
        VEC_PUSH(out, (struct load_request){.module = range->module,
                                            .func_va = place->func_va,
                                            .func_size = place->func_size,
                                            .remove = remove,
                                            .probe = {.va = place->va,
                                                      .counter = place->number,
                                                      .action = LOAD_CLAUSE,
                                                      .body_va = i < hook->enter_places ? enter_va : leave_va,
                                                      .taken = place->taken,
                                                      /* What others do at the entry and the exits is not the function's time. */
                                                      .is_first = i >= hook->enter_places,
                                                      .no_trap = true}}); /* one hit of a trap costs what a thousand jumps do */
    }
    return NULL;
}

static struct err *request_all(struct climb *climb, const climb_functions *list, bool remove, load_requests *out)
{
    for (size_t i = 0; i < list->n; i++) {
        struct climb_function *function = climb->function.at[list->at[i]];
        const struct climb_range *range = climb_range_of(climb, function);
        if (!range || !range->module->code) {
            function->state = CLIMB_CANNOT;
            function->reason = "its module is gone";
            if (function->hook != CLIMB_NONE)
                climb->hook.at[function->hook].is_live = false;
            continue;
        }
        if (!remove)
            ERR_TRY(get_hook(climb, list->at[i], range));
        ERR_TRY(request(climb, &climb->hook.at[function->hook], range, remove, out));
    }
    return NULL;
}

static struct climb_place *find_place(struct climb *climb, uint32_t number)
{
    for (size_t i = 0; i < climb->hook.n; i++)
        for (size_t k = 0; k < climb->hook.at[i].place.n; k++)
            if (climb->hook.at[i].place.at[k].number == number)
                return &climb->hook.at[i].place.at[k];
    return NULL;
}

/* Places that were refused are not asked for again. */
static void note_refused(struct climb *climb, const load_requests *done)
{
    for (size_t i = 0; i < done->n; i++) {
        bool is_refused = !done->at[i].remove && done->at[i].kind == LOAD_REFUSED;
        struct climb_place *place = is_refused ? find_place(climb, done->at[i].probe.counter) : NULL;
        if (place)
            place->cannot = true;
    }
}

/* A function whose entry can not be hooked can not be measured; an exit that can not leaves calls without an end. */
static void note_added(struct climb *climb, uint32_t number, uint64_t now_ns)
{
    struct climb_function *function = climb->function.at[number];
    struct climb_hook *hook = &climb->hook.at[function->hook];
    bool enters = hook->enter_places > 0;
    hook->is_live = false;
    for (size_t i = 0; i < hook->place.n; i++) {
        hook->is_live |= !hook->place.at[i].cannot;
        enters &= i >= hook->enter_places || !hook->place.at[i].cannot;
        function->exits_missing |= i >= hook->enter_places && hook->place.at[i].cannot;
    }
    function->state = enters ? CLIMB_HOOKED : CLIMB_CANNOT;
    if (!enters)
        function->reason = "its entry can not be hooked with a jump";
    hook->since_ns = hook->armed_ns = hook->seen_ns = now_ns;
    climb->totals.hooked += enters;
}

struct err *climb_change_hooks(struct climb *climb, const climb_functions *remove, const climb_functions *add)
{
    load_requests list = {0};
    struct err *error = request_all(climb, remove, true, &list);
    if (!error)
        error = request_all(climb, add, false, &list);
    for (size_t i = 0; i < add->n && !error; i++)
        if (climb->function.at[add->at[i]]->hook != CLIMB_NONE)
            climb_arm(climb, &climb->hook.at[climb->function.at[add->at[i]]->hook], climb_burst_quota(climb));
    climb_begin_stop(climb);
    if (!error && list.n)
        error = climb_change_in_hurry(climb, list.at, list.n, add->n);
    climb_note_stopped(climb);
    if (!error)
        note_refused(climb, &list);
    uint64_t now_ns = clock_now_ns();
    for (size_t i = 0; i < remove->n && !error; i++) {
        struct climb_function *function = climb->function.at[remove->at[i]];
        struct climb_hook *hook = &climb->hook.at[function->hook];
        function->live_ns += now_ns - hook->since_ns;
        hook->is_live = false;
        climb_arm(climb, hook, 0);
        climb_note_unhooked(climb, remove->at[i]);
    }
    for (size_t i = 0; i < add->n && !error; i++)
        if (climb->function.at[add->at[i]]->hook != CLIMB_NONE)
            note_added(climb, add->at[i], now_ns);
    climb->totals.hooks_now = climb_live_hooks(climb);
    if (climb->totals.hooks_now > climb->totals.hooks_most)
        climb->totals.hooks_most = climb->totals.hooks_now;
    VEC_FREE(&list);
    return error;
}
