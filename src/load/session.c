#include "load/session.h"

#include "base/memory.h"
#include "drain/counter.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A row's counter in one process. */
struct row_counter {
    uint32_t row, counter;
};

/* Where a process had a file. */
struct mapped {
    pid_t pid;
    uint64_t start_va, end_va, bias;
    char *path;
    struct load_code *code; /* the cache's, NULL when it was never read */
};

struct stop {
    pid_t tid;
    int status;
};

struct member {
    struct load_session *session;
    VEC(uint64_t) semaphore; /* addresses of counters that were raised */
    struct load_process *process;
    VEC(struct row_counter) counter;
    VEC(uint32_t) row_module;  /* by row: the module (its number in order of resolution, from 1) that last got a counter for it */
    VEC(uint32_t) row_counter; /* by row: its counter, once row_module says that there is one */
    uint32_t modules_resolved;
    pthread_t watcher;
    bool watched, stop_watching, is_command;
    bool is_over; /* its process has become another member's */
    struct load_pending pending;
    bool is_quiet; /* nothing is pending */
};

struct load_session {
    const struct spec *spec;
    size_t spec_count;
    const struct load_program *program; /* NULL: trace points are counted */
    struct names names;
    size_t *matches; /* by specification */
    load_progress_fn *progress;
    void *progress_context;
    load_joined_fn *joined; /* may be NULL */
    void *joined_context;
    struct load_cache *cache;
    VEC(struct load_row) row;
    VEC(uint32_t) row_bucket;  /* hash table of row index + 1 */
    VEC(struct mapped) mapped; /* kept when processes end */
    VEC(struct member *) member;
    int event_fd;            /* written by watchers */
    int child_fd;            /* readable when SIGCHLD is pending: a traced thread stopped */
    int poll_fd;             /* both of them */
    VEC(struct stop) orphan; /* stops of threads that nobody knows yet: a child whose parent's stop comes later */
    int status;
    pid_t command_pid;
    uint64_t pause_ns;
    bool follow, has_strangers;
};

/* ---- rows ---- */

static uint32_t hash_row(const char *module, const char *function, const char *point)
{
    uint32_t hash = 2166136261u;
    const char *part[] = {module, function, point};
    for (int i = 0; i < 3; i++)
        for (const char *c = part[i]; *c; c++)
            hash = (hash ^ (uint8_t)*c) * 16777619u;
    return hash;
}

static void place_in_bucket(struct load_session *session, uint32_t index)
{
    const struct load_row *row = &session->row.at[index];
    size_t at = hash_row(row->module, row->function, row->point) & (session->row_bucket.n - 1);
    while (session->row_bucket.at[at])
        at = (at + 1) & (session->row_bucket.n - 1);
    session->row_bucket.at[at] = index + 1;
}

static void grow_buckets(struct load_session *session)
{
    size_t size = session->row_bucket.n ? session->row_bucket.n * 2 : 1024;
    VEC_FREE(&session->row_bucket);
    session->row_bucket.at = memory_zero(size, sizeof(uint32_t));
    session->row_bucket.n = session->row_bucket.room = size;
    for (uint32_t i = 0; i < session->row.n; i++)
        place_in_bucket(session, i);
}

static uint32_t get_row(struct load_session *session, const char *module, const char *function, const char *point)
{
    if (session->row.n * 2 >= session->row_bucket.n)
        grow_buckets(session);
    size_t at = hash_row(module, function, point) & (session->row_bucket.n - 1);
    for (; session->row_bucket.at[at]; at = (at + 1) & (session->row_bucket.n - 1)) {
        const struct load_row *row = &session->row.at[session->row_bucket.at[at] - 1];
        if (!strcmp(row->module, module) && !strcmp(row->function, function) && !strcmp(row->point, point))
            return session->row_bucket.at[at] - 1;
    }
    struct load_row row = {.module = memory_text(module), .function = memory_text(function)};
    snprintf(row.point, sizeof row.point, "%s", point);
    VEC_PUSH(&session->row, row);
    session->row_bucket.at[at] = (uint32_t)session->row.n;
    return (uint32_t)session->row.n - 1;
}

static uint32_t row_of(struct load_session *session, const struct load_module *module, const struct load_trace_point *point)
{
    char name[32], address[32];
    if (point->point == SPEC_ENTRY || point->point == SPEC_RETURN)
        snprintf(name, sizeof name, "%s", point->point == SPEC_ENTRY ? "entry" : "return");
    else
        snprintf(name, sizeof name, "+0x%llx", (unsigned long long)point->offset);
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)point->va);
    return get_row(session, module->path, point->func ? point->func->demangled : address, name);
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
static struct err *move_semaphore(struct member *member, uint64_t va, int by)
{
    uint16_t value;
    struct target *target = load_process_target(member->process);
    ERR_TRY(target_read(target, va, &value, sizeof value));
    value = (uint16_t)(value + by);
    return target_write(target, va, &value, sizeof value);
}

static struct err *raise_semaphore(struct member *member, const struct load_module *module, const struct spec *spec)
{
    if (!spec->semaphore_va)
        return NULL;
    uint64_t va = spec->semaphore_va + module->bias;
    struct err *error = move_semaphore(member, va, 1);
    if (!error) {
        VEC_PUSH(&member->semaphore, va);
        return NULL;
    }
    struct err *named =
        err_new(error->code, "%s: its semaphore can not be set: %s", spec->label ? spec->label : spec->text, error->message);
    err_free(error);
    return named;
}

static struct err *add_clause(struct load_session *session, struct member *member, struct load_module *module,
                              const struct load_resolved *resolved, const struct load_trace_point *point, uint32_t row, size_t spec,
                              load_requests *out)
{
    struct wire_place meaning = {.row = row,
                                 .func = names_number(&session->names, session->row.at[row].function),
                                 .probe = probe_name(session, &session->spec[spec], &session->row.at[row])};
    uint64_t body_va = load_process_body(member->process, session->program->clause[spec]);
    for (uint32_t i = 0; i < point->place_count && body_va; i++) {
        const struct load_place *place = &resolved->place.at[point->first_place + i];
        uint32_t number;
        ERR_TRY(load_process_new_place(member->process, place->va + module->bias, module->bias, &meaning, &number));
        VEC_PUSH(&member->counter, (struct row_counter){row, number});
        VEC_PUSH(out, (struct load_request){
                          .module = module,
                          .func_va = place->func_va,
                          .func_size = place->func_size,
                          .probe = {.va = place->va, .counter = number, .action = LOAD_CLAUSE, .body_va = body_va, .taken = place->taken}});
    }
    return NULL;
}

static struct err *add_trace_point(struct load_session *session, struct member *member, struct load_module *module,
                                   const struct load_resolved *resolved, size_t index, size_t spec, load_requests *out)
{
    const struct load_trace_point *point = &resolved->point.at[index];
    uint32_t row = row_of(session, module, point), counter;
    session->row.at[row].by_name |= !session->spec[spec].function || !strpbrk(session->spec[spec].function, "*?[");
    if (point->refusal != INSN_OK) {
        session->row.at[row].reason = point->refusal;
        return NULL;
    }
    if (session->program)
        return add_clause(session, member, module, resolved, point, row, spec, out);
    while (member->row_module.n <= row) {
        VEC_PUSH(&member->row_module, 0);
        VEC_PUSH(&member->row_counter, 0);
    }
    if (member->row_module.at[row] == member->modules_resolved)
        return NULL; /* another specification has it already */
    /* A library that is loaded again goes on with the counter it had. */
    if (!member->row_module.at[row]) {
        ERR_TRY(load_process_new_counter(member->process, &counter));
        VEC_PUSH(&member->counter, (struct row_counter){row, counter});
        member->row_counter.at[row] = counter;
    }
    counter = member->row_counter.at[row];
    member->row_module.at[row] = member->modules_resolved;
    for (uint32_t i = 0; i < point->place_count; i++) {
        const struct load_place *place = &resolved->place.at[point->first_place + i];
        VEC_PUSH(out, (struct load_request){.module = module,
                                            .func_va = place->func_va,
                                            .func_size = place->func_size,
                                            .probe = {.va = place->va, .counter = counter, .action = LOAD_COUNT, .taken = place->taken}});
    }
    return NULL;
}

static void note_mapped(struct load_session *session, const struct member *member, struct load_module *module)
{
    if (!session->program)
        return;
    err_free(load_module_open(member->process, module)); /* what can not be read has no names */
    VEC_PUSH(&session->mapped, (struct mapped){target_pid(load_process_target(member->process)), module->start_va, module->end_va,
                                               module->bias, memory_text(module->path), module->code});
}

static struct err *resolve_module(struct load_session *session, struct member *member, struct load_module *module, load_requests *out)
{
    module->resolved = true;
    member->modules_resolved++;
    note_mapped(session, member, module);
    for (size_t i = 0; i < session->spec_count; i++) {
        const struct spec *spec = &session->spec[i];
        if (!is_meant(spec, member->process, module))
            continue;
        struct err *error = load_module_open(member->process, module);
        if (error && error->code == ERR_FILE && (strchr(spec->module, '*') || !spec->module[0])) {
            err_free(error); /* a pattern need not fit everything */
            return NULL;
        }
        if (error)
            return error;
        struct load_resolved resolved = {0};
        load_resolve(module->code, spec, &resolved);
        session->matches[i] += resolved.point.n;
        for (size_t k = 0; k < resolved.point.n && !error; k++)
            error = add_trace_point(session, member, module, &resolved, k, i, out);
        if (!error && resolved.point.n)
            error = raise_semaphore(member, module, spec);
        load_resolved_deinit(&resolved);
        if (error)
            return error;
    }
    return NULL;
}

static int by_counter(const void *a, const void *b)
{
    const struct row_counter *x = a, *y = b;
    return x->counter < y->counter ? -1 : x->counter > y->counter;
}

static void note_results(struct load_session *session, const struct member *member, const load_requests *done)
{
    VEC(struct row_counter) sorted = {0};
    for (size_t i = 0; i < member->counter.n; i++)
        VEC_PUSH(&sorted, member->counter.at[i]);
    if (sorted.n)
        qsort(sorted.at, sorted.n, sizeof *sorted.at, by_counter);
    for (size_t i = 0; i < done->n; i++) {
        struct row_counter key = {0, done->at[i].probe.counter};
        const struct row_counter *found = (done->at[i].probe.action == LOAD_COUNT || done->at[i].probe.action == LOAD_CLAUSE) && sorted.n
                                              ? bsearch(&key, sorted.at, sorted.n, sizeof key, by_counter)
                                              : NULL;
        if (!found)
            continue;
        struct load_row *row = &session->row.at[found->row];
        if (done->at[i].kind == LOAD_REFUSED)
            row->reason = done->at[i].reason;
        else
            row->places++;
        row->traps += done->at[i].kind == LOAD_TRAP;
    }
    VEC_FREE(&sorted);
}

static struct err *change(struct load_session *session, struct member *member, load_requests *list)
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

/* Handlers come before what they could interrupt. With `first`, those that the process has are looked for twice: before and after the
 * probes that tell of new ones. */
static struct err *sync_handlers(struct load_session *session, struct member *member, bool first)
{
    struct err *error = NULL;
    for (int rounds = first ? 2 : 1; rounds-- > 0 && !error;) {
        load_requests list = {0};
        if (first)
            error = load_process_find_handlers(member->process);
        if (!error)
            error = load_process_signal_requests(member->process, &list);
        if (!error)
            error = change(session, member, &list);
        VEC_FREE(&list);
    }
    return error;
}

/* Probes what is new in the process. With `first`, also hooks the loader. */
static struct err *sync_process(struct load_session *session, struct member *member, bool first)
{
    struct load_process *process = member->process;
    ERR_TRY(load_process_refresh(process));
    ERR_TRY(sync_handlers(session, member, first));
    load_requests list = {0};
    struct load_request loader;
    if (first && load_process_loader_request(process, &loader))
        VEC_PUSH(&list, loader);
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
        error = load_process_find_tid(process);
    VEC_FREE(&list);
    return error;
}

/* ---- watching ---- */

static void *watch(void *context)
{
    struct member *member = context;
    uint32_t *word = load_process_event_word(member->process);
    while (!__atomic_load_n(&member->stop_watching, __ATOMIC_ACQUIRE)) {
        uint32_t seen;
        load_process_beat(member->process);
        if (load_process_load_event(member->process, &seen)) {
            eventfd_write(member->session->event_fd, 1);
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            continue;
        }
        syscall(SYS_futex, word, FUTEX_WAIT, seen, &(struct timespec){.tv_nsec = 20000000}, NULL, 0);
    }
    return NULL;
}

static void stop_watching(struct member *member)
{
    if (!member->watched)
        return;
    __atomic_store_n(&member->stop_watching, true, __ATOMIC_RELEASE);
    pthread_join(member->watcher, NULL);
    member->watched = false;
}

/* ---- members ---- */

static struct err *detach_member(struct member *member)
{
    struct load_session *session = member->session;
    stop_watching(member);
    struct target *target = load_process_target(member->process);
    if (member->is_command && target_ended(target))
        session->status = target_exit_status(target);
    /* The counters are read after the last probe is gone. */
    const struct wire_shared *shared = load_process_shared(member->process);
    for (size_t i = 0; i < member->semaphore.n && !target_ended(target) && !target_executed(target); i++)
        err_free(move_semaphore(member, member->semaphore.at[i], -1)); /* of a process that has just ended there is none left */
    VEC_FREE(&member->semaphore);
    struct err *error = load_process_detach(member->process);
    for (size_t i = 0; i < member->counter.n && !session->program; i++)
        session->row.at[member->counter.at[i].row].ended += drain_counter(shared, member->counter.at[i].counter);
    load_process_destroy(member->process);
    VEC_FREE(&member->counter);
    VEC_FREE(&member->row_module);
    VEC_FREE(&member->row_counter);
    load_pending_deinit(&member->pending);
    free(member);
    return error;
}

static uint32_t counter_room(const struct load_session *session, int width)
{
    /* A pattern can mean a whole program: every function of every library has room. A 32-bit process has little room to give. */
    bool pattern = false;
    for (size_t i = 0; i < session->spec_count; i++)
        pattern |= session->spec[i].function && strpbrk(session->spec[i].function, "*?[");
    return !pattern ? 1u << 14 : width == 64 ? 1u << 20 : 1u << 17;
}

/* `is_held`: it stands before its first instruction, and goes on when its probes are in place. */
static struct err *add_member(struct load_session *session, struct target *target, bool is_command, bool is_held)
{
    struct load_process *process;
    session->command_pid = is_command ? target_pid(target) : session->command_pid;
    ERR_TRY(load_process_create(target, session->cache, counter_room(session, target_width(target)), &process));
    if (!is_held && load_process_pause_ns(process) > session->pause_ns)
        session->pause_ns = load_process_pause_ns(process);
    if (session->follow)
        load_process_follow(process);
    session->has_strangers |= target_is_stranger(target);
    struct member *member = memory_zero(1, sizeof *member);
    member->session = session;
    member->process = process;
    member->is_command = is_command;
    struct err *error = session->program ? load_process_prepare(process, session->program) : NULL;
    if (!error)
        error = sync_process(session, member, true);
    if (!error && session->joined)
        error = session->joined(session->joined_context, target_pid(load_process_target(process)));
    if (error) {
        err_free(detach_member(member));
        return error;
    }
    member->watched = pthread_create(&member->watcher, NULL, watch, member) == 0;
    VEC_PUSH(&session->member, member);
    if (!is_held)
        return NULL;
    target_hold(target, false);
    return target_resume(target);
}

void load_session_follow(struct load_session *session)
{
    session->follow = true;
}

bool load_session_has_strangers(const struct load_session *session)
{
    return session->has_strangers;
}

struct err *load_session_attach(struct load_session *session, pid_t pid)
{
    struct target *target;
    ERR_TRY(target_open(pid, &target));
    return add_member(session, target, false, false);
}

struct err *load_session_start(struct load_session *session, char *const argv[])
{
    struct target *target;
    ERR_TRY(target_start(argv, &target));
    target_hold(target, true);
    struct err *error = add_member(session, target, true, true);
    if (error)
        kill(session->command_pid, SIGKILL); /* it was started to be traced */
    return error;
}

struct load_session *load_session_create(const struct spec *spec, size_t spec_count, const struct load_program *program,
                                         load_progress_fn *progress, void *context)
{
    struct load_session *session = memory_zero(1, sizeof *session);
    session->spec = spec;
    session->spec_count = spec_count;
    session->program = program;
    session->matches = memory_zero(spec_count, sizeof *session->matches);
    session->progress = progress;
    session->progress_context = context;
    session->cache = load_cache_create();
    session->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    session->child_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    session->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(session->poll_fd, EPOLL_CTL_ADD, session->event_fd, &(struct epoll_event){.events = EPOLLIN});
    epoll_ctl(session->poll_fd, EPOLL_CTL_ADD, session->child_fd, &(struct epoll_event){.events = EPOLLIN});
    session->status = -1;
    return session;
}

void load_session_on_join(struct load_session *session, load_joined_fn *joined, void *context)
{
    session->joined = joined;
    session->joined_context = context;
}

struct err *load_session_detach(struct load_session *session)
{
    struct err *first = NULL;
    for (size_t i = 0; i < session->member.n; i++) {
        struct err *error = detach_member(session->member.at[i]);
        if (!first)
            first = error;
        else
            err_free(error);
    }
    session->member.n = 0;
    return first;
}

struct err *load_session_destroy(struct load_session *session)
{
    struct err *error = load_session_detach(session);
    for (size_t i = 0; i < session->row.n; i++) {
        free(session->row.at[i].module);
        free(session->row.at[i].function);
    }
    VEC_FREE(&session->row);
    VEC_FREE(&session->row_bucket);
    VEC_FREE(&session->member);
    names_deinit(&session->names);
    for (size_t i = 0; i < session->mapped.n; i++)
        free(session->mapped.at[i].path);
    VEC_FREE(&session->mapped);
    load_cache_destroy(session->cache);
    VEC_FREE(&session->orphan);
    close(session->poll_fd);
    close(session->child_fd);
    close(session->event_fd);
    free(session->matches);
    free(session);
    return error;
}

/* ---- events ---- */

int load_session_event_fd(const struct load_session *session)
{
    return session->poll_fd;
}

static bool offer_stop(struct load_session *session, const struct stop *stop)
{
    for (size_t i = 0; i < session->member.n; i++)
        if (load_process_handle_stop(session->member.at[i]->process, stop->tid, stop->status))
            return true;
    return false;
}

/* A bounded number at a time: a busy trap must not keep the caller from everything else. */
static void handle_stops(struct load_session *session)
{
    enum { AT_ONCE = 64 };
    struct signalfd_siginfo info;
    struct stop stop;
    while (read(session->child_fd, &info, sizeof info) > 0)
        ;
    int handled = 0;
    for (; handled < AT_ONCE && (stop.tid = target_next_stop(&stop.status)); handled++) {
        if (!offer_stop(session, &stop))
            VEC_PUSH(&session->orphan, stop);
        for (size_t i = session->orphan.n; i-- > 0;)
            if (offer_stop(session, &session->orphan.at[i]))
                session->orphan.at[i] = session->orphan.at[--session->orphan.n];
    }
    if (handled == AT_ONCE)
        eventfd_write(session->event_fd, 1);
}

static struct err *handle_member(struct load_session *session, struct member *member)
{
    uint32_t event;
    if (!load_process_load_event(member->process, &event))
        return NULL;
    struct err *error = sync_process(session, member, false);
    load_process_answer(member->process, event);
    return error;
}

/* A followed process is there as long as one of its children is. */
static bool has_ended(const struct member *member)
{
    if (!target_ended(load_process_target(member->process)))
        return false;
    for (size_t i = 0; i < load_process_child_count(member->process); i++)
        if (!target_ended(load_process_child(member->process, i)))
            return false;
    return true;
}

/* Programs that were executed become members of their own. */
static void add_executed(struct load_session *session)
{
    for (size_t i = session->member.n; i-- > 0;) {
        struct member *member = session->member.at[i];
        for (struct target *target; (target = load_process_next_executed(member->process));) {
            bool same = target_pid(target) == target_pid(load_process_target(member->process)), is_command = same && member->is_command;
            if (same)
                member->is_command = false;
            target_hold(target, true);
            err_free(add_member(session, target, is_command, true)); /* what can not be traced runs alone */
            if (same)
                member->is_over = true;
        }
    }
}

struct err *load_session_handle(struct load_session *session)
{
    uint64_t ignored;
    while (read(session->event_fd, &ignored, sizeof ignored) > 0)
        ;
    handle_stops(session);
    add_executed(session);
    struct err *first = NULL;
    for (size_t i = 0; i < session->member.n;) {
        struct member *member = session->member.at[i];
        bool gone = target_ended(load_process_target(member->process)) || member->is_over;
        struct err *error = gone ? NULL : handle_member(session, member);
        if (error && error->code == ERR_NO_PROCESS) {
            err_free(error);
            error = NULL;
        }
        if (has_ended(member) || member->is_over) {
            session->member.at[i] = session->member.at[--session->member.n];
            err_free(error);
            error = detach_member(member);
        } else {
            i++;
        }
        if (!first)
            first = error;
        else
            err_free(error);
    }
    return first;
}

void load_session_unquiesce(struct load_session *session)
{
    for (size_t i = 0; i < session->member.n; i++) {
        load_pending_deinit(&session->member.at[i]->pending);
        session->member.at[i]->is_quiet = false;
    }
}

void load_session_quiesce(struct load_session *session, bool *done)
{
    *done = true;
    for (size_t i = 0; i < session->member.n; i++) {
        struct member *member = session->member.at[i];
        if (!member->is_quiet)
            member->is_quiet = load_process_quiesce(member->process, &member->pending);
        *done &= member->is_quiet;
    }
}

size_t load_session_live(const struct load_session *session)
{
    return session->member.n;
}

int load_session_process_fd(const struct load_session *session, size_t index)
{
    struct load_process *process = session->member.at[index]->process;
    if (!target_ended(load_process_target(process)))
        return target_pidfd(load_process_target(process));
    for (size_t i = 0; i < load_process_child_count(process); i++)
        if (!target_ended(load_process_child(process, i)))
            return target_pidfd(load_process_child(process, i));
    return target_pidfd(load_process_target(process));
}

pid_t load_session_command(const struct load_session *session)
{
    return session->command_pid;
}

int load_session_status(const struct load_session *session)
{
    return session->status;
}

/* ---- reading ---- */

size_t load_session_row_count(const struct load_session *session)
{
    return session->row.n;
}

const struct load_row *load_session_row(const struct load_session *session, size_t index)
{
    return &session->row.at[index];
}

void load_session_hits(const struct load_session *session, uint64_t *hits)
{
    for (size_t i = 0; i < session->row.n; i++)
        hits[i] = session->row.at[i].ended;
    for (size_t m = 0; m < session->member.n; m++) {
        const struct member *member = session->member.at[m];
        for (size_t i = 0; i < member->counter.n; i++)
            hits[member->counter.at[i].row] += drain_counter(load_process_shared(member->process), member->counter.at[i].counter);
    }
}

/* The newest first: a library may have come where another was. A child that was forked is not known by its own pid, but what it maps is
 * what its parent mapped. */
static const struct mapped *find_mapped(const struct load_session *session, pid_t pid, uint64_t va)
{
    const struct mapped *other = NULL;
    for (size_t i = session->mapped.n; i-- > 0;) {
        const struct mapped *mapped = &session->mapped.at[i];
        if (va < mapped->start_va || va >= mapped->end_va)
            continue;
        if (mapped->pid == pid)
            return mapped;
        if (!other)
            other = mapped;
    }
    return other;
}

bool load_session_symbol(struct load_session *session, pid_t pid, uint64_t va, char *text, size_t room)
{
    const struct mapped *mapped = find_mapped(session, pid, va);
    if (!mapped)
        return false;
    const struct symbol_func *func = mapped->code ? symbol_file_func_at(mapped->code->file, va - mapped->bias) : NULL;
    unsigned long long offset = func ? va - mapped->bias - func->va : va - mapped->bias;
    snprintf(text, room, offset || !func ? "%s+%llu" : "%s", func ? func->demangled : mapped->path, offset);
    return true;
}

uint32_t load_session_name(struct load_session *session, const char *name)
{
    return names_number(&session->names, name);
}

const struct names *load_session_names(const struct load_session *session)
{
    return &session->names;
}

size_t load_session_matches(const struct load_session *session, size_t spec)
{
    return session->matches[spec];
}

uint64_t load_session_pause_ns(const struct load_session *session)
{
    return session->pause_ns;
}
