/* From specifications to probes in one process: modules are resolved into trace points, trace points into rows and requests. */
#include "load/member.h"

#include "base/memory.h"
#include "load/internal.h"
#include "load/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static uint32_t row_of(struct load_session *session, const struct load_module *module, const struct load_trace_point *point)
{
    char name[32], address[32];
    if (point->point == SPEC_ENTRY || point->point == SPEC_RETURN)
        snprintf(name, sizeof name, "%s", point->point == SPEC_ENTRY ? "entry" : "return");
    else
        snprintf(name, sizeof name, "+0x%llx", (unsigned long long)point->offset);
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)point->va);
    uint64_t va = point->func ? point->func->va : point->va;
    bool by_va = session->program && session->program->has_once;
    uint32_t row = load_rows_number(&session->row, module->path, point->func ? point->func->demangled : address, name, by_va ? va : 0);
    if (!session->row.at[row].va)
        session->row.at[row].va = va;
    return row;
}

/* ---- what specifications mean in files ---- */

/* Fills in what is missing. */
static struct load_meaning *meaning_of(struct load_session *session, const struct load_module *module, size_t spec)
{
    struct load_meanings *known = NULL;
    for (size_t i = session->meaning.n; i-- > 0 && !known;)
        if (session->meaning.at[i].code == module->code && !strcmp(session->meaning.at[i].path, module->path))
            known = &session->meaning.at[i];
    if (!known) {
        struct load_meaning **of = memory_zero(session->spec_count, sizeof *of);
        VEC_PUSH(&session->meaning, (struct load_meanings){module->code, memory_text(module->path), of});
        known = &session->meaning.at[session->meaning.n - 1];
    }
    if (known->of[spec])
        return known->of[spec];
    struct load_meaning *meaning = known->of[spec] = memory_zero(1, sizeof *meaning);
    load_resolve(module->code, &session->spec[spec], &meaning->resolved);
    for (size_t i = 0; i < meaning->resolved.point.n; i++)
        VEC_PUSH(&meaning->names, (struct load_point_names){0});
    return meaning;
}

void load_session_forget_meanings(struct load_session *session)
{
    for (size_t i = 0; i < session->meaning.n; i++) {
        struct load_meanings *known = &session->meaning.at[i];
        for (size_t k = 0; k < session->spec_count; k++) {
            if (!known->of[k])
                continue;
            load_resolved_deinit(&known->of[k]->resolved);
            VEC_FREE(&known->of[k]->names);
            free(known->of[k]);
        }
        free(known->of);
        free(known->path);
    }
    VEC_FREE(&session->meaning);
}

/* ---- placing ---- */

static bool is_meant(const struct spec *spec, struct load_process *process, const struct load_module *module)
{
    if (spec->pid && spec->pid != target_pid(load_process_target(process)))
        return false;
    return (spec->pid && !spec->module[0]) || spec_matches_module(spec, module->path);
}

/* What the trace point is called where scripts ask for it. */
static uint32_t probe_name(struct load_session *session, const struct spec *spec, const struct load_row *row)
{
    bool inside = row->point[0] == '+';
    char *name = spec->label ? memory_text(spec->label)
                             : memory_format("%s:%s:%s%s", spec->point == SPEC_RETURN ? "uretprobe" : "uprobe", row->module, row->function,
                                             inside ? row->point : "");
    uint32_t number = names_number(&session->names, name);
    free(name);
    return number;
}

/* A counter that says whether somebody looks: the program does the work of making arguments only then. */
static struct err *move_semaphore(struct load_member *member, const struct load_semaphore *semaphore, int by)
{
    uint16_t value;
    struct target_maps maps;
    struct target *target = load_process_target(member->process);
    ERR_TRY(target_maps_read(target, &maps));
    /* Something else may have been mapped there. */
    struct load_module module = {.start_va = semaphore->start_va, .inode = semaphore->inode, .device = semaphore->device};
    bool is_there = load_module_is_mapped(&module, &maps);
    target_maps_deinit(&maps);
    if (!is_there)
        return NULL;
    ERR_TRY(target_read(target, semaphore->va, &value, sizeof value));
    if (by < 0 && !value)
        return NULL;
    value = (uint16_t)(value + by);
    return target_write(target, semaphore->va, &value, sizeof value);
}

void load_member_lower(struct load_member *member)
{
    const struct target *target = load_process_target(member->process);
    for (size_t i = 0; i < member->semaphore.n && !target_ended(target) && !target_executed(target); i++)
        err_free(move_semaphore(member, &member->semaphore.at[i], -1)); /* of a process that has just ended there is none left */
    VEC_FREE(&member->semaphore);
}

static struct err *raise_semaphore(struct load_member *member, const struct load_module *module, const struct spec *spec)
{
    if (!spec->semaphore_va)
        return NULL;
    struct load_semaphore semaphore = {spec->semaphore_va + module->bias, module->start_va, module->inode, module->device};
    struct err *error = move_semaphore(member, &semaphore, 1);
    if (!error) {
        VEC_PUSH(&member->semaphore, semaphore);
        return NULL;
    }
    struct err *named =
        err_new(error->code, "%s: its semaphore can not be set: %s", spec->label ? spec->label : spec->text, error->message);
    err_free(error);
    return named;
}

/* Once the controller is dead the agent takes traps, by signals: a filter may forbid to return from one. */
static bool is_trap_refused(const struct load_session *session, const struct load_member *member)
{
    return !session->allows_traps || target_has_seccomp(load_process_target(member->process));
}

/* See struct load_program. */
static bool fires_once(const struct load_session *session, size_t spec)
{
    return session->program && session->program->has_once && session->program->clause[spec] == session->program->once;
}

/* The row and the names of a trace point, which are the session's. */
static const struct load_point_names *names_of(struct load_session *session, const struct load_module *module, struct load_meaning *meaning,
                                               size_t index, size_t spec)
{
    struct load_point_names *names = &meaning->names.at[index];
    if (names->is_known)
        return names;
    names->is_known = true;
    names->row = row_of(session, module, &meaning->resolved.point.at[index]);
    struct load_row *row = &session->row.at[names->row];
    row->by_name |= !spec_has_pattern(&session->spec[spec]);
    if (session->program) {
        names->function = names_number(&session->names, row->function);
        names->probe = probe_name(session, &session->spec[spec], row);
    }
    return names;
}

static struct err *add_clause(struct load_session *session, struct load_member *member, struct load_module *module,
                              const struct load_resolved *resolved, const struct load_trace_point *point,
                              const struct load_point_names *names, size_t spec, load_requests *out)
{
    uint32_t row = names->row;
    struct wire_place meaning = {.row = row, .func = names->function, .probe = names->probe};
    uint64_t body_va;
    ERR_TRY(load_process_body(member->process, session->program->clause[spec], module->code, &body_va));
    for (uint32_t i = 0; i < point->place_count && body_va; i++) {
        const struct load_place *place = &resolved->place.at[point->first_place + i];
        uint32_t number;
        if (fires_once(session, spec) &&
            !load_once_add(&member->once, place->va, point->point == SPEC_RETURN ? LOAD_ONCE_RETURN : LOAD_ONCE_ENTRY))
            continue;
        ERR_TRY(load_process_new_place(member->process, place->va + module->bias, module->bias, &meaning, &number));
        VEC_PUSH(&member->counter, (struct load_row_counter){row, number});
        VEC_PUSH(out, (struct load_request){.module = module,
                                            .func_va = place->func_va,
                                            .func_size = place->func_size,
                                            .probe = {.va = place->va,
                                                      .counter = number,
                                                      .action = LOAD_CLAUSE,
                                                      .body_va = body_va,
                                                      .taken = place->taken,
                                                      .no_trap = is_trap_refused(session, member)}});
    }
    return NULL;
}

static struct err *add_trace_point(struct load_session *session, struct load_member *member, struct load_module *module,
                                   struct load_meaning *meaning, size_t index, size_t spec, load_requests *out)
{
    const struct load_resolved *resolved = &meaning->resolved;
    const struct load_trace_point *point = &resolved->point.at[index];
    if (point->func && fires_once(session, spec) && load_once_has(&member->once, point->func->va, LOAD_ONCE_EXCLUDED))
        return NULL;
    const struct load_point_names *names = names_of(session, module, meaning, index, spec);
    uint32_t row = names->row, counter;
    if (point->refusal != INSN_OK) {
        session->row.at[row].reason = point->refusal;
        return NULL;
    }
    if (session->program)
        return add_clause(session, member, module, resolved, point, names, spec, out);
    while (member->row_module.n <= row) {
        VEC_PUSH(&member->row_module, 0);
        VEC_PUSH(&member->row_counter, 0);
    }
    if (member->row_module.at[row] == member->modules_resolved)
        return NULL; /* another specification has it already */
    /* A library that is loaded again goes on with the counter it had. */
    if (!member->row_module.at[row]) {
        ERR_TRY(load_process_new_counter(member->process, &counter));
        VEC_PUSH(&member->counter, (struct load_row_counter){row, counter});
        member->row_counter.at[row] = counter;
    }
    counter = member->row_counter.at[row];
    member->row_module.at[row] = member->modules_resolved;
    for (uint32_t i = 0; i < point->place_count; i++) {
        const struct load_place *place = &resolved->place.at[point->first_place + i];
        VEC_PUSH(out, (struct load_request){.module = module,
                                            .func_va = place->func_va,
                                            .func_size = place->func_size,
                                            .probe = {.va = place->va,
                                                      .counter = counter,
                                                      .action = LOAD_COUNT,
                                                      .taken = place->taken,
                                                      .no_trap = is_trap_refused(session, member)}});
    }
    return NULL;
}

static void note_mapped(struct load_session *session, const struct load_member *member, struct load_module *module)
{
    if (!session->program)
        return;
    err_free(load_module_open(member->process, module)); /* what can not be read has no names */
    load_mapped_add(&session->mapped, target_pid(load_process_target(member->process)), member->image, module);
}

/* Whatever name of a function an excluding specification matches, none of its names means it any more. */
static void note_excluded(struct load_session *session, struct load_member *member, struct load_module *module)
{
    load_once_deinit(&member->once);
    for (size_t i = 0; i < session->spec_count; i++) {
        const struct spec *spec = &session->spec[i];
        size_t count = 0;
        if (!spec->excludes || !fires_once(session, i) || !is_meant(spec, member->process, module) || !module->code)
            continue;
        const struct symbol_func *func = symbol_file_funcs(module->code->file, &count);
        for (size_t k = 0; k < count; k++)
            if (spec_matches_func(spec, &func[k]))
                session->matches[i] += load_once_add(&member->once, func[k].va, LOAD_ONCE_EXCLUDED);
    }
}

static bool is_unmapped(struct load_process *process, const struct load_module *module)
{
    struct target_maps maps;
    struct err *error = target_maps_read(load_process_target(process), &maps);
    bool mapped = error || load_module_is_mapped(module, &maps);
    if (!error)
        target_maps_deinit(&maps);
    err_free(error);
    return !mapped;
}

static struct err *resolve_module(struct load_session *session, struct load_member *member, struct load_module *module, load_requests *out)
{
    module->resolved = true;
    member->modules_resolved++;
    note_mapped(session, member, module);
    note_excluded(session, member, module);
    for (size_t i = 0; i < session->spec_count; i++) {
        const struct spec *spec = &session->spec[i];
        if (spec->excludes || !is_meant(spec, member->process, module))
            continue;
        struct err *error = load_module_open(member->process, module);
        if (error && is_unmapped(member->process, module)) {
            err_free(error);
            module->is_gone = true;
            return NULL;
        }
        bool is_pattern = strchr(spec->module, '*') || !spec->module[0];
        if (error && error->code == ERR_PERMISSION && is_pattern && !session->unreadable) {
            session->unreadable = error;
            return NULL;
        }
        if (error && (error->code == ERR_FILE || error->code == ERR_PERMISSION) && is_pattern) {
            err_free(error); /* a pattern need not fit everything */
            return NULL;
        }
        if (error)
            return error;
        struct load_meaning *meaning = meaning_of(session, module, i);
        size_t points = meaning->resolved.point.n;
        session->matches[i] += points;
        for (size_t k = 0; k < points && !error; k++)
            error = add_trace_point(session, member, module, meaning, k, i, out);
        if (!error && points)
            error = raise_semaphore(member, module, spec);
        if (error)
            return error;
    }
    return NULL;
}

static int by_counter(const void *a, const void *b)
{
    const struct load_row_counter *x = a, *y = b;
    return x->counter < y->counter ? -1 : x->counter > y->counter;
}

static void note_results(struct load_session *session, const struct load_member *member, const load_requests *done)
{
    VEC(struct load_row_counter) sorted = {0};
    for (size_t i = 0; i < member->counter.n; i++)
        VEC_PUSH(&sorted, member->counter.at[i]);
    if (sorted.n)
        qsort(sorted.at, sorted.n, sizeof *sorted.at, by_counter);
    for (size_t i = 0; i < done->n; i++) {
        struct load_row_counter key = {0, done->at[i].probe.counter};
        const struct load_row_counter *found =
            (done->at[i].probe.action == LOAD_COUNT || done->at[i].probe.action == LOAD_CLAUSE) && sorted.n
                ? bsearch(&key, sorted.at, sorted.n, sizeof key, by_counter)
                : NULL;
        if (!found)
            continue;
        struct load_row *row = &session->row.at[found->row];
        if (done->at[i].module->is_gone)
            continue; /* what is there instead is looked at next */
        if (done->at[i].kind == LOAD_REFUSED)
            row->reason = done->at[i].reason;
        else
            row->places++;
        row->traps += done->at[i].kind == LOAD_TRAP;
        row->trap_only += done->at[i].kind == LOAD_REFUSED && done->at[i].reason == INSN_TRAP_ONLY;
    }
    VEC_FREE(&sorted);
}

static struct err *change(struct load_session *session, struct load_member *member, load_requests *list)
{
    struct load_process *process = member->process;
    if (list->n)
        ERR_TRY(load_process_change(process, list->at, list->n));
    if (list->n && load_process_pause_ns(process) > session->pause_ns)
        session->pause_ns = load_process_pause_ns(process);
    load_process_signals_done(process);
    note_results(session, member, list);
    return NULL;
}

/* Handlers come before what they could interrupt, and with them the loader's hook: from then on what is mapped changes only where the
 * program maps it itself. With `first`, those that the process has are looked for twice: before and after the probes that tell of new ones;
 * likewise filters, and up to then the agent makes no system call. */
static struct err *sync_handlers(struct load_session *session, struct load_member *member, bool first)
{
    struct err *error = NULL;
    for (int rounds = first ? 2 : 1; rounds-- > 0 && !error;) {
        load_requests list = {0};
        struct load_request loader;
        if (first)
            error = load_process_find_handlers(member->process);
        if (!error)
            error = load_process_signal_requests(member->process, &list);
        if (!error && !member->is_told && load_process_loader_request(member->process, &loader))
            VEC_PUSH(&list, loader);
        if (!error)
            error = change(session, member, &list);
        if (!error && first)
            error = load_process_look_for_filters(member->process);
        for (size_t i = 0; i < list.n; i++)
            member->is_told |= list.at[i].probe.action == LOAD_CALL_LOAD_EVENT && !list.at[i].module->is_gone;
        VEC_FREE(&list);
    }
    return error;
}

/* What the process has mapped becomes known to the agent. */
static struct err *sync_stacks(struct load_session *session, struct load_member *member)
{
    bool needs_image = false;
    if (!session->program || !session->program->memory->stack_nodes)
        return NULL;
    ERR_TRY(load_stacks_publish(member->process, member->image, &needs_image));
    if (!needs_image)
        return NULL;
    bool is_first = !member->image;
    member->image = load_mapped_new_image(&session->mapped, member->first_image);
    if (is_first)
        member->first_image = member->image;
    ERR_TRY(load_stacks_publish(member->process, member->image, &needs_image));
    for (size_t i = 0; i < load_process_module_count(member->process) && is_first; i++)
        if (load_process_module(member->process, i)->is_vdso)
            note_mapped(session, member, load_process_module(member->process, i));
    return NULL;
}

static struct err *sync_once(struct load_session *session, struct load_member *member, bool first)
{
    struct load_process *process = member->process;
    ERR_TRY(load_process_refresh(process));
    ERR_TRY(sync_stacks(session, member));
    ERR_TRY(sync_handlers(session, member, first));
    ERR_TRY(load_process_refresh(process)); /* what a stop has found gone, and what came before the loader was told to wait */
    load_requests list = {0};
    struct err *error = NULL;
    for (size_t i = 0; i < load_process_module_count(process) && !error; i++) {
        struct load_module *module = load_process_module(process, i);
        size_t before = list.n;
        if (!module->resolved)
            error = resolve_module(session, member, module, &list);
        if (session->progress && list.n != before)
            session->progress(session->progress_context, module->path, list.n - before, list.n);
    }
    if (!error)
        error = change(session, member, &list);
    if (!error)
        error = sync_stacks(session, member); /* there may be new code of ours */
    if (!error)
        error = load_process_find_tid(process);
    VEC_FREE(&list);
    return error;
}

struct err *load_member_sync(struct load_session *session, struct load_member *member, bool first)
{
    enum { ROUNDS = 50 }; /* a program that maps and unmaps without end gets its probes where it stands still */
    for (int round = 0; round < ROUNDS; round++) {
        ERR_TRY(sync_once(session, member, first && round == 0));
        ERR_TRY(load_process_shortage(member->process));
        if (!load_process_is_stale(member->process))
            break;
    }
    return NULL;
}
