#include "load/member.h"

#include "base/memory.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

/* ---- watching ---- */

static void *watch(void *context)
{
    struct load_member *member = context;
    while (!__atomic_load_n(&member->stop_watching, __ATOMIC_ACQUIRE)) {
        uint32_t seen;
        load_process_beat(member->process);
        if (load_process_load_event(member->process, &seen)) {
            eventfd_write(member->session->event_fd, 1);
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            continue;
        }
        load_process_watch(member->process, seen, 20000000);
    }
    return NULL;
}

static void stop_watching(struct load_member *member)
{
    if (!member->watched)
        return;
    __atomic_store_n(&member->stop_watching, true, __ATOMIC_RELEASE);
    /* Should it miss this, it wakes by itself. */
    load_process_end_watch(member->process);
    pthread_join(member->watcher, NULL);
    member->watched = false;
}

/* ---- members ---- */

static struct err *detach_member(struct load_member *member)
{
    struct load_session *session = member->session;
    stop_watching(member);
    struct target *target = load_process_target(member->process);
    if (member->is_command && target_ended(target))
        session->status = target_exit_status(target);
    /* The counters are read after the last probe is gone. */
    load_member_lower(member);
    struct err *error = load_process_detach(member->process);
    for (size_t i = 0; i < member->counter.n && !session->program; i++)
        session->row.at[member->counter.at[i].row].ended += load_process_counter(member->process, member->counter.at[i].counter);
    load_process_destroy(member->process);
    VEC_FREE(&member->counter);
    VEC_FREE(&member->row_module);
    VEC_FREE(&member->row_counter);
    load_once_deinit(&member->once);
    for (int quiet = 0; quiet < LOAD_QUIETS; quiet++)
        load_pending_deinit(&member->pending[quiet]);
    free(member);
    return error;
}

static uint32_t counter_room(const struct load_session *session, int width)
{
    /* A pattern can mean a whole program: every function of every library has room. A 32-bit process has little room to give. */
    bool pattern = false;
    for (size_t i = 0; i < session->spec_count; i++)
        pattern |= spec_has_pattern(&session->spec[i]);
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
    load_process_on_wait(process, session->wait, session->wait_context);
    if (session->follow)
        load_process_follow(process, session->event_fd);
    session->has_strangers |= target_is_stranger(target);
    struct load_member *member = memory_zero(1, sizeof *member);
    member->session = session;
    member->process = process;
    member->is_command = is_command;
    struct err *error = session->program ? load_process_prepare(process, session->program) : NULL;
    if (!error)
        error = load_member_sync(session, member, true);
    if (!error && session->joined)
        error = session->joined(session->joined_context, target_pid(load_process_target(process)));
    int refused = error ? 0 : pthread_create(&member->watcher, NULL, watch, member);
    if (refused)
        error = err_errno(ERR_SYSTEM, refused, "process %d: a thread that watches it", target_pid(load_process_target(process)));
    if (error) {
        err_free(detach_member(member));
        return error;
    }
    member->watched = true;
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

void load_session_allow_traps(struct load_session *session)
{
    session->allows_traps = true;
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

struct err *load_session_admit(struct load_session *session, struct target *target)
{
    target_hold(target, true);
    return add_member(session, target, false, true);
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

void load_session_on_wait(struct load_session *session, load_wait_fn *wait, void *context)
{
    session->wait = wait;
    session->wait_context = context;
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
    target_wait_for_leaving(1000000000); /* mostly some milliseconds; with our end the kernel lets the rest go */
    return first;
}

struct err *load_session_destroy(struct load_session *session)
{
    struct err *error = load_session_detach(session);
    load_session_forget_meanings(session);
    load_rows_deinit(&session->row);
    VEC_FREE(&session->member);
    names_deinit(&session->names);
    load_mapped_deinit(&session->mapped);
    load_cache_destroy(session->cache);
    close(session->poll_fd);
    close(session->child_fd);
    close(session->event_fd);
    free(session->matches);
    err_free(session->unreadable);
    free(session);
    return error;
}

/* ---- events ---- */

int load_session_event_fd(const struct load_session *session)
{
    return session->poll_fd;
}

static bool offer_stop(struct load_session *session, pid_t tid, int status)
{
    for (size_t i = 0; i < session->member.n; i++)
        if (load_process_handle_stop(session->member.at[i]->process, tid, status))
            return true;
    return false;
}

/* Stops of threads that nobody knew when they were told of: a child whose parent's stop comes later. */
static void offer_strays(struct load_session *session)
{
    for (size_t i = target_stray_count(); i-- > 0;) {
        int status;
        if (i >= target_stray_count())
            continue;
        pid_t tid = target_stray(i, &status);
        target_take_back(tid, &status);
        if (!offer_stop(session, tid, status))
            target_put_back(tid, status);
    }
}

/* A bounded number at a time: a busy trap must not keep the caller from everything else. */
static void handle_stops(struct load_session *session)
{
    enum { AT_ONCE = 64 };
    struct signalfd_siginfo info;
    int status;
    while (read(session->child_fd, &info, sizeof info) > 0)
        ;
    int handled = 0;
    for (pid_t tid; handled < AT_ONCE && (tid = target_next_stop(&status)); handled++) {
        if (!offer_stop(session, tid, status))
            target_put_back(tid, status);
        offer_strays(session);
    }
    if (handled == AT_ONCE)
        eventfd_write(session->event_fd, 1);
}

static struct err *handle_member(struct load_session *session, struct load_member *member)
{
    uint32_t event;
    if (!load_process_load_event(member->process, &event))
        return NULL;
    struct err *error = load_member_sync(session, member, false);
    /* A process that ends meanwhile makes much fail. As long as it waits for the answer it does not end by itself. */
    if (error && target_ended(load_process_target(member->process))) {
        err_free(error);
        error = NULL;
    }
    load_process_answer(member->process, event);
    return error;
}

/* A followed process is there as long as one of its children is. */
static bool has_ended(const struct load_member *member)
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
        struct load_member *member = session->member.at[i];
        load_process_part_executed(member->process);
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
        struct load_member *member = session->member.at[i];
        bool gone = target_ended(load_process_target(member->process)) || member->is_over;
        struct err *error = gone ? NULL : handle_member(session, member);
        if (error && error->code == ERR_NO_PROCESS) {
            err_free(error);
            error = NULL;
        }
        if (has_ended(member) || member->is_over) {
            session->member.at[i] = session->member.at[--session->member.n];
            struct err *detach_error = detach_member(member);
            if (!error)
                error = detach_error;
            else
                err_free(detach_error);
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

void load_session_unquiesce(struct load_session *session, enum load_quiet quiet)
{
    for (size_t i = 0; i < session->member.n; i++) {
        load_pending_deinit(&session->member.at[i]->pending[quiet]);
        session->member.at[i]->is_quiet[quiet] = false;
    }
}

void load_session_quiesce(struct load_session *session, enum load_quiet quiet, bool *done)
{
    *done = true;
    for (size_t i = 0; i < session->member.n; i++) {
        struct load_member *member = session->member.at[i];
        member->pending[quiet].quiet = quiet;
        if (!member->is_quiet[quiet])
            member->is_quiet[quiet] = load_process_quiesce(member->process, &member->pending[quiet]);
        *done &= member->is_quiet[quiet];
    }
}

size_t load_session_live(const struct load_session *session)
{
    return session->member.n;
}

struct load_process *load_session_process(const struct load_session *session, size_t index)
{
    return session->member.at[index]->process;
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
        const struct load_member *member = session->member.at[m];
        for (size_t i = 0; i < member->counter.n; i++)
            hits[member->counter.at[i].row] += load_process_counter(member->process, member->counter.at[i].counter);
    }
}

bool load_session_symbol(struct load_session *session, pid_t pid, uint64_t va, char *text, size_t room)
{
    const struct load_mapped *mapped = load_mapped_find(&session->mapped, pid, va);
    struct load_frame frame;
    if (!mapped)
        return false;
    load_mapped_frame(mapped, va, false, &frame);
    unsigned long long offset = frame.offset;
    snprintf(text, room, offset || !frame.function ? "%s+%llu" : "%s", frame.function ? frame.function : frame.path, offset);
    return true;
}

bool load_session_stand(const struct load_session *session, pid_t pid, struct load_standing *standing, const uint8_t *stack,
                        size_t stack_bytes)
{
    for (size_t i = 0; i < session->member.n; i++) {
        struct load_process *process = session->member.at[i]->process;
        bool is_his = target_pid(load_process_target(process)) == pid;
        for (size_t k = 0; k < load_process_child_count(process) && !is_his; k++)
            is_his = target_pid(load_process_child(process, k)) == pid;
        if (is_his)
            return load_process_stand(process, standing, stack, stack_bytes);
    }
    return false;
}

bool load_session_frame(const struct load_session *session, uint64_t root, uint64_t va, bool is_return, struct load_frame *out)
{
    const struct load_mapped *mapped = load_mapped_find_in(&session->mapped, root, va);
    if (mapped)
        load_mapped_frame(mapped, va, is_return, out);
    return mapped;
}

uint64_t load_session_root(const struct load_session *session, pid_t pid)
{
    uint32_t image = 0;
    for (size_t i = 0; i < session->member.n && !image; i++)
        if (target_pid(load_process_target(session->member.at[i]->process)) == pid)
            image = session->member.at[i]->image;
    return WIRE_STACK_ROOT(image, pid);
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

const char *load_session_unreadable(const struct load_session *session)
{
    return session->unreadable ? session->unreadable->message : NULL;
}

uint64_t load_session_pause_ns(const struct load_session *session)
{
    return session->pause_ns;
}
