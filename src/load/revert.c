/* Giving a process back what the journal says was taken from it: when we detach, for children that it forked, and after a controller died.
 *
 * While we live we go by our own journal, whatever the process has made of its memory. What a dead controller left is a copy of memory that
 * anybody may have made (left.h). Either way everything in it is checked against what the process really has: bytes are put back only where
 * ours are found, mappings are removed only where they look like ours. */
#include "base/clock.h"
#include "load/internal.h"
#include "unwind/space.h"
#include "wire/session.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A signal frame on a stack, by what it shows. */
struct frame {
    uint64_t pc, sp;
    uint32_t round; /* the last in which it was there */
    uint32_t times; /* rounds without a break */
};

struct revert {
    struct target *target;
    struct load_live *live; /* NULL: of a dead controller */
    load_wait_fn *wait;     /* see load_process_on_wait() */
    void *wait_context;
    struct load_left left;
    struct load_pc_map map;             /* of `left` */
    bool looking;                       /* nothing is changed in this attempt */
    bool restored;                      /* the program's bytes are back */
    size_t still_inside;                /* threads and frames that could not leave our code yet */
    VEC(struct frame) frame;            /* that could not */
    target_pids inside;                 /* the threads whose own pc, or that of a frame of theirs, that is */
    VEC(uint64_t) handler;              /* of signals: where the agent is called first of all */
    uint32_t round;                     /* of looking at all threads */
    const struct target_thread *thread; /* that is looked at: frames are on its stacks */
    struct unwind_tables *tables;       /* made when frames hold it up */
    struct unwind_process *walked;      /* ... NULL: not, or it can not be walked */
};

/* ---- bytes ---- */

/* Puts the bytes of windows back, or those of islands, which nobody may be led to any more. */
static struct err *restore_some(struct revert *revert, bool islands)
{
    enum { PAGE = 4096 };
    uint32_t count = revert->left.head.site_count;
    for (uint32_t i = 0; i < count;) {
        /* All sites that begin in one page are put back by one write. */
        uint64_t page = revert->left.site[i].va / PAGE * PAGE;
        uint8_t bytes[PAGE + WIRE_SITE_MAX];
        uint64_t low = UINT64_MAX, high = 0;
        size_t got = target_read_some(revert->target, page, bytes, sizeof bytes);
        for (; i < count && revert->left.site[i].va / PAGE * PAGE == page; i++) {
            const struct wire_site *site = &revert->left.site[i];
            uint64_t at = site->va - page;
            if (islands == (site->extent != 0) || at + site->length > got || memcmp(bytes + at, site->patched, site->length))
                continue; /* not placed, or the code is no longer there */
            memcpy(bytes + at, site->original, site->length);
            low = at < low ? at : low;
            high = at + site->length > high ? at + site->length : high;
        }
        if (low < high)
            ERR_TRY(target_write(revert->target, page + low, bytes + low, high - low));
    }
    return NULL;
}

static struct err *restore_bytes(struct revert *revert)
{
    ERR_TRY(restore_some(revert, false));
    return restore_some(revert, true);
}

/* ---- threads ---- */

static bool is_handler(const struct revert *revert, uint64_t pc)
{
    for (size_t i = 0; i < revert->handler.n; i++)
        if (revert->handler.at[i] == pc)
            return true;
    return false;
}

static void find_handlers(struct revert *revert)
{
    for (size_t i = 0; i < revert->map.count && revert->handler.n < WIRE_HANDLER_ROOM; i++) {
        const struct wire_pc *entry = &revert->map.pc[i];
        if (entry->kind == WIRE_PC_CALL && entry->value == WIRE_AGENT_ENTER && !is_handler(revert, entry->origin_va))
            VEC_PUSH(&revert->handler, entry->origin_va);
    }
}

static bool is_ours(void *context, uint64_t pc)
{
    const struct revert *revert = context;
    return is_handler(revert, pc) || load_left_has(&revert->left, pc) ||
           load_pc_map_has(&revert->map, pc); /* an island in padding of the program */
}

static bool is_trap(const struct wire_site *site)
{
    return site->length == 1 && site->patched[0] == 0xcc;
}

/* A thread that has just met a trap of a controller that died goes on in the trampoline: while others have to leave our code first, the
 * trap stays, and this thread may be the one that they, or frames on its own stack, wait for. */
static uint64_t at_trap(void *context, uint64_t va)
{
    struct revert *revert = context;
    for (uint32_t i = 0; i < revert->left.head.site_count; i++) {
        const struct wire_site *site = &revert->left.site[i];
        if (site->va == va && is_trap(site))
            return is_ours(revert, site->trampoline_va) && load_pc_map_has(&revert->map, site->trampoline_va) ? site->trampoline_va : va;
    }
    return 0;
}

/* Whether signal handlers of the process are shown what they would see natively. */
static bool has_handlers(const struct wire_shared *shared)
{
    for (int i = 0; i < WIRE_RESTORER_ROOM; i++)
        if (shared->restorer[i].va)
            return true;
    return false;
}

/* In how many rounds without a break it was there, and nobody could tell whether it is live. */
static uint32_t note_frame(struct revert *revert, uint64_t pc, uint64_t sp)
{
    for (size_t i = 0; i < revert->frame.n; i++) {
        struct frame *frame = &revert->frame.at[i];
        if (frame->pc != pc || frame->sp != sp)
            continue;
        if (frame->round != revert->round)
            frame->times = frame->round + 1 == revert->round ? frame->times + 1 : 1;
        frame->round = revert->round;
        return frame->times;
    }
    VEC_PUSH(&revert->frame, (struct frame){pc, sp, revert->round, 1});
    return 1;
}

/* Whether the thread's stack has a frame that was interrupted at `pc`. */
enum on_stack { ON_STACK, NOT_ON_STACK, MAY_BE_ON_STACK };
static enum on_stack find_on_stack(const struct revert *revert, uint64_t pc)
{
    enum { ROOM = 1024 };
    uint64_t pcs[ROOM];
    struct unwind_regs regs;
    struct unwind_result result;
    if (!revert->walked || !revert->thread || !revert->thread->stopped)
        return MAY_BE_ON_STACK;
    unwind_regs_from_user(&revert->thread->regs, target_width(revert->target), &regs);
    unwind_process_walk(revert->walked, &regs, NULL, pcs, ROOM, &result);
    for (uint32_t i = 0; i < result.count; i++)
        if (pcs[i] == pc)
            return ON_STACK;
    return result.end == UNWIND_COMPLETE && !result.guessed ? NOT_ON_STACK : MAY_BE_ON_STACK;
}

/* A frame whose handler has begun mostly shows the program's own pc, so one that shows ours is about to change. But it may be no frame any
 * more: what is left of one in a part of the stack that nobody has written to since, and which nothing returns to. Such a one is not met on
 * the way up the stack. If that can not be followed, it has to be there for very long without a break; not otherwise, since a thread is
 * interrupted at the same place again and again. Where some handlers are shown our pc, it may be one of those. */
static bool is_left_over(struct revert *revert, const struct load_move_regs *regs)
{
    enum { VERY_LONG = 300 };
    if (regs->is_hidden || revert->left.head.untouched_signals || !has_handlers(&revert->left.head))
        return false;
    enum on_stack found = find_on_stack(revert, regs->pc);
    if (found == MAY_BE_ON_STACK)
        return note_frame(revert, regs->pc, regs->fire.sp) > VERY_LONG;
    return found == NOT_ON_STACK;
}

static const struct wire_restorer *find_restorer(const struct revert *revert, uint64_t va)
{
    const struct wire_restorer *restorer = revert->left.head.restorer;
    for (int i = 0; i < WIRE_RESTORER_ROOM; i++)
        if (va && restorer[i].va == va)
            return &restorer[i];
    return NULL;
}

/* Where the trap is that a thread met whose signal frame shows `pc`: behind it, or where the agent sends the thread on. 0: it is none of
 * ours. */
static uint64_t trap_met(const struct revert *revert, uint64_t pc)
{
    for (uint32_t i = 0; i < revert->left.head.site_count; i++) {
        const struct wire_site *site = &revert->left.site[i];
        if (is_trap(site) && (site->va == pc - 1 || site->trampoline_va == pc))
            return site->va;
    }
    return 0;
}

/* Words of a signal frame, counted from its return address. */
enum { FRAME_SIGNAL32 = 1, FRAME_PC32_OLD = 16, FRAME_PC64 = 22, FRAME_PC32 = 55, FRAME_WORDS };

/* At the first instruction of a handler. If it was called because of a trap of ours, which the agent would have found out there, it returns
 * at once, to where the trap was. */
static bool skip_handler(const struct revert *revert, struct load_move_regs *regs)
{
    bool wide = target_width(revert->target) == 64;
    size_t bytes = wide ? 8 : 4;
    uint64_t va = wide ? regs->fire.sp : (uint32_t)regs->fire.sp, word[FRAME_WORDS];
    uint32_t narrow[FRAME_WORDS];
    size_t words = target_read_some(revert->target, va, wide ? (void *)word : (void *)narrow, FRAME_WORDS * bytes) / bytes;
    for (size_t i = 0; !wide && i < words; i++)
        word[i] = narrow[i];
    const struct wire_restorer *restorer = words ? find_restorer(revert, word[0]) : NULL;
    if (!restorer)
        return false; /* called by the program itself */
    size_t pc = wide ? FRAME_PC64 : restorer->is_info ? FRAME_PC32 : FRAME_PC32_OLD;
    if (pc >= words || (wide ? (uint32_t)regs->di : word[FRAME_SIGNAL32]) != SIGTRAP)
        return false;
    uint64_t trap_va = trap_met(revert, word[pc]);
    if (!trap_va)
        return false;
    struct err *error = target_write(revert->target, va + pc * bytes, &trap_va, bytes);
    if (error)
        return err_free(error), false; /* then it has no memory any more */
    regs->pc = restorer->va;
    regs->fire.sp = va + bytes;
    regs->is_over = true;
    return true;
}

static bool visit(void *context, struct target_thread *thread, struct load_move_regs *regs)
{
    struct revert *revert = context;
    if (thread)
        revert->thread = thread;
    if (is_handler(revert, regs->pc))
        return !revert->looking && skip_handler(revert, regs);
    if (!is_ours(revert, regs->pc))
        return false;
    if (revert->looking) {
        bool stays = regs->must_stay || !load_move_is_possible(&revert->map, regs->pc);
        if (stays && (thread || !is_left_over(revert, regs))) {
            revert->still_inside++;
            VEC_PUSH(&revert->inside, revert->thread->tid);
        }
        return false;
    }
    bool moved = !regs->must_stay && load_move_out(revert->target, &revert->map, regs) == LOAD_MOVED;
    if (moved && is_handler(revert, regs->pc))
        skip_handler(revert, regs);
    revert->still_inside += !moved && (thread || !is_left_over(revert, regs));
    return moved;
}

/* While the threads run: it takes a while. */
static void prepare_walks(struct revert *revert)
{
    enum { SOON = 20 };
    if (revert->tables || !revert->frame.n || revert->round < SOON)
        return;
    revert->tables = unwind_tables_create();
    err_free(unwind_process_open(revert->tables, target_pid(revert->target), target_width(revert->target), &revert->walked));
}

static void end_walks(struct revert *revert)
{
    if (revert->walked)
        unwind_process_close(revert->walked);
    unwind_tables_destroy(revert->tables);
    VEC_FREE(&revert->frame);
    VEC_FREE(&revert->inside);
    VEC_FREE(&revert->handler);
}

/* ---- mappings ---- */

/* Whether all of [va, va + bytes) is mapped as we mapped it. The kernel joins mappings that touch, so a region may be a part of one; and of
 * one with a part that a fork wipes it makes two. */
static bool is_our_map(const struct target_maps *maps, uint64_t va, uint64_t bytes)
{
    uint64_t end_va = va + bytes;
    for (size_t i = 0; i < maps->map.n && va < end_va; i++) {
        const struct target_map *map = &maps->map.at[i];
        if (va < map->start_va || va >= map->end_va)
            continue;
        if (map->inode || map->shared || map->writable == map->executable)
            return false;
        va = map->end_va;
    }
    return bytes && va >= end_va;
}

/* Whether it is memory that controller `owner` made for all of a session, or says so: the program may be a controller, which has such
 * memory of its own. */
static bool is_session_of(const struct target_map *map, uint32_t owner)
{
    char name[64];
    snprintf(name, sizeof name, "/memfd:" WIRE_SESSION_NAME "-%u", owner);
    size_t length = strlen(name);
    return map->inode && map->shared && !strncmp(map->path, name, length) && !isdigit((unsigned char)map->path[length]);
}

/* ... for the process itself. *owner is who says so. */
static bool is_journal(const struct target_map *map, uint32_t *owner)
{
    unsigned long long time;
    int end = 0;
    return map->inode && map->shared && sscanf(map->path, "/memfd:" WIRE_MEMFD_NAME "-%" SCNu32 "-%llx%n", owner, &time, &end) == 2 &&
           (!map->path[end] || !strcmp(map->path + end, " (deleted)"));
}

static const struct target_map *map_at(const struct target_maps *maps, uint64_t va)
{
    for (size_t i = 0; i < maps->map.n; i++)
        if (va >= maps->map.at[i].start_va && va < maps->map.at[i].end_va)
            return &maps->map.at[i];
    return NULL;
}

/* Whether it is a part of the journal that begins with `head`. */
static bool is_part(const struct target_map *map, const struct target_map *head)
{
    return map->inode == head->inode && map->device == head->device && map->shared && map->start_va - map->file_offset == head->start_va;
}

static struct err *unmap_one(struct revert *revert, const struct target_map *map)
{
    return load_remote_munmap(revert->target, map->start_va, map->end_va - map->start_va);
}

static struct err *unmap_journal(struct revert *revert, const struct target_maps *maps, const struct target_map *head)
{
    for (size_t i = 0; i < maps->map.n; i++)
        if (&maps->map.at[i] != head && is_part(&maps->map.at[i], head))
            ERR_TRY(unmap_one(revert, &maps->map.at[i]));
    return unmap_one(revert, head);
}

static struct err *unmap(struct revert *revert)
{
    struct target_maps maps;
    uint32_t owner;
    ERR_TRY(target_maps_read(revert->target, &maps));
    struct err *error = NULL;
    const struct wire_shared *head = &revert->left.head;
    for (uint32_t i = 0; i < head->region_count && !error; i++)
        if (is_our_map(&maps, revert->left.region[i].va, revert->left.region[i].bytes))
            error = load_remote_munmap(revert->target, revert->left.region[i].va, revert->left.region[i].bytes);
    for (size_t i = 0; i < maps.map.n && !error; i++)
        if (is_session_of(&maps.map.at[i], head->owner_pid))
            error = unmap_one(revert, &maps.map.at[i]);
    /* The journal, which tells about the code, goes last, and its head, which tells about the rest of it, after that. */
    const struct target_map *journal = map_at(&maps, head->shared_va);
    if (!error && journal && journal->start_va == head->shared_va && !journal->file_offset && is_journal(journal, &owner))
        error = unmap_journal(revert, &maps, journal);
    target_maps_deinit(&maps);
    return error;
}

/* Nothing is changed. Threads that are inside are let on for a moment, some times, while the others stand: where much of the time is spent
 * inside, chance alone takes long to meet all of them outside at once. */
static struct err *look(struct revert *revert)
{
    enum { TRIES = 16, WAIT_NS = 50000 };
    for (int i = 0;; i++) {
        revert->still_inside = 0;
        revert->inside.n = 0;
        ERR_TRY(load_visit_threads(revert->target, &revert->left.head, NULL, is_ours, visit, revert));
        if (!revert->still_inside || i == TRIES)
            return NULL;
        ERR_TRY(target_let_some_on(revert->target, &revert->inside, WAIT_NS));
    }
}

static struct err *revert_once(struct revert *revert, bool patient, bool *done)
{
    *done = false;
    ERR_TRY(target_stop(revert->target));
    /* As long as a thread has to stay in our code, a signal handler still needs the probe that shows it where it was. */
    revert->looking = patient && !revert->restored;
    revert->still_inside = 0;
    revert->round++;
    if (revert->looking)
        ERR_TRY(look(revert));
    if (revert->still_inside)
        return NULL;
    revert->looking = false;
    ERR_TRY(restore_bytes(revert));
    revert->restored = true;
    ERR_TRY(load_visit_threads(revert->target, &revert->left.head, NULL, is_ours, visit, revert));
    ERR_TRY(target_write_regs(revert->target)); /* before the code goes, should we be killed in between */
    bool clears = revert->left.head.trap_handler_va != 0;
    *done = !revert->still_inside && (clears ? target_can_call(revert->target) : target_memory_caller(revert->target) != NULL);
    if (*done && clears)
        ERR_TRY(target_clear_trap_handler(revert->target, revert->left.head.trap_handler_va));
    return *done ? unmap(revert) : NULL;
}

/* *why: what keeps it from being done now, if that is known. Whatever part of an attempt a thread kept waiting, another one follows. */
static struct err *try_revert(struct revert *revert, bool patient, bool *done, struct err **why)
{
    struct err *error = revert_once(revert, patient, done);
    err_free(*why);
    *why = NULL;
    if (!error || error->code != ERR_BUSY)
        return error;
    *why = error;
    *done = false;
    return NULL;
}

/* Whoever waits for the controller goes on. */
static void release_agent(struct revert *revert)
{
    uint64_t live_va = revert->left.head.live_va;
    struct target_maps maps;
    if (revert->live) {
        load_live_release(revert->live);
        return;
    }
    struct err *error = target_maps_read(revert->target, &maps);
    const struct target_map *map = error ? NULL : map_at(&maps, live_va);
    if (map && map->start_va == live_va && is_session_of(map, revert->left.head.owner_pid)) {
        uint32_t on = 1;
        error = target_write(revert->target, live_va + offsetof(struct wire_live, agent_off), &on, sizeof on);
    }
    if (maps.text)
        target_maps_deinit(&maps);
    err_free(error); /* nobody waits for long */
}

/* Frees `left`. */
static struct err *revert_all(struct revert *revert)
{
    enum { LAST_ATTEMPTS = 400, PATIENT_ATTEMPTS = 400, WAIT_NS = 5000000 };
    /* Without patience the bytes are put back first, and then every thread that has its turn leaves. */
    const uint64_t patient_ns = 5000000000, most_patient_ns = 10000000000, last_ns = 8000000000, most_ns = 30000000000;
    struct err *why = NULL;
    int last_attempts = 0;
    uint64_t last_start_ns = 0; /* on a busy machine a thread waits long for the processor that it needs to leave */
    uint64_t start_ns = clock_now_ns();
    struct target *target = revert->target;
    target_be_patient(target);
    struct err *error = NULL;
    bool done = false;
    revert->map = (struct load_pc_map){revert->left.pc, revert->left.head.pc_count};
    find_handlers(revert);
    if (!target_is_kept(target)) {
        target_keep(target, at_trap, NULL, revert);
        error = target_resume(target); /* the stop that comes next knows of the traps */
    }
    release_agent(revert);
    for (int attempt = 0; !error && !done; attempt++) {
        uint64_t passed_ns = clock_now_ns() - start_ns;
        bool patient =
            has_handlers(&revert->left.head) && passed_ns < most_patient_ns && (attempt < PATIENT_ATTEMPTS || passed_ns < patient_ns);
        error = try_revert(revert, patient, &done, &why);
        if (revert->restored || error) /* until then there are traps to be dealt with */
            target_keep(target, NULL, NULL, NULL);
        struct err *resume = target_resume(target);
        if (!error)
            error = resume;
        else
            err_free(resume);
        last_attempts += revert->restored || !patient;
        if (last_attempts == 1)
            last_start_ns = clock_now_ns();
        bool is_late = clock_now_ns() - start_ns > most_ns;
        bool was_last = last_attempts >= LAST_ATTEMPTS && clock_now_ns() - last_start_ns > last_ns;
        if (!error && !done && (was_last || is_late) && revert->restored)
            error = err_new(ERR_BUSY, "process %d: its probes are off, but %s, so memory of ours stays mapped until the next attach",
                            target_pid(target),
                            revert->still_inside ? "a thread does not leave our code"
                                                 : "no thread of it can be borrowed, because it waits in the kernel");
        if (!error && !done && is_late)
            error = err_new(ERR_BUSY, "process %d: its probes stay until the next attach, because it can not be stopped: %s",
                            target_pid(target), why ? why->message : "a thread does not leave our code");
        prepare_walks(revert);
        if (!error && !done && revert->wait)
            revert->wait(revert->wait_context);
        if (!error && !done)
            target_pause(target, WAIT_NS);
    }
    end_walks(revert);
    err_free(why);
    load_left_deinit(&revert->left);
    return error;
}

static bool read_own(void *context, uint64_t offset, void *to, size_t bytes)
{
    memcpy(to, (const char *)context + offset, bytes);
    return true;
}

struct err *load_revert(struct load_process *process, struct target *target)
{
    struct revert revert = {.target = target, .live = process->live, .wait = process->wait, .wait_context = process->wait_context};
    if (load_left_read(read_own, process->shared, process->shared->shared_bytes, target_width(target), &revert.left) != LOAD_LEFT_GOOD)
        return err_new(ERR_SYSTEM, "process %d: our own journal can not be read", target_pid(target));
    return revert_all(&revert);
}

/* ---- after a controller died ---- */

struct source {
    struct target *target;
    uint64_t va, head_bytes;
};

/* Of a table the process may have mapped less than there is in it: a child has what its parent had mapped when it was forked. The rest is
 * free entries. */
static bool read_theirs(void *context, uint64_t offset, void *to, size_t bytes)
{
    const struct source *source = context;
    size_t got = target_read_some(source->target, source->va + offset, to, bytes);
    memset((char *)to + got, 0, bytes - got);
    return got == bytes || offset >= source->head_bytes || offset + got == source->head_bytes;
}

/* Whether the process that the journal names as its owner has it, too, as a controller has. MAY_BE: it can not be looked at. */
enum owner { OWNER_GONE, OWNER_IS, OWNER_MAY_BE };
static enum owner find_owner(const struct wire_shared *head, const struct target_map *journal)
{
    struct target_maps maps;
    pid_t owner = (pid_t)head->owner_pid;
    if (owner <= 0 || !head->owner_start_ticks || target_start_time(owner) != head->owner_start_ticks)
        return OWNER_GONE;
    struct err *error = target_peek_maps(owner, &maps);
    if (error) {
        err_free(error);
        return target_start_time(owner) == head->owner_start_ticks ? OWNER_MAY_BE : OWNER_GONE;
    }
    bool found = false;
    for (size_t i = 0; i < maps.map.n && !found; i++)
        found = maps.map.at[i].inode == journal->inode && maps.map.at[i].writable && !strcmp(maps.map.at[i].path, journal->path);
    target_maps_deinit(&maps);
    return found ? OWNER_IS : OWNER_GONE;
}

static struct err *refuse(struct target *target, const struct wire_shared *head, enum owner owner)
{
    if (owner == OWNER_IS)
        return err_new(ERR_REFUSED, "process %d: is already traced by probity process %u; end that first", target_pid(target),
                       head->owner_pid);
    return err_new(ERR_REFUSED, "process %d: says that probity process %u traces it, which can not be looked at", target_pid(target),
                   head->owner_pid);
}

static bool is_confirmed(const void *context, const struct wire_region *region)
{
    return is_our_map(context, region->va, region->bytes);
}

/* What is mapped there may be anything. What says that it is a journal of this place, and whose owner is dead, is undone as far as the
 * process confirms it. Only a journal knows where it is mapped: memory that another process has made and handed over does not. */
static struct err *recover_one(struct target *target, const struct target_maps *maps, const struct target_map *map)
{
    struct source source = {target, map->start_va, map->end_va - map->start_va};
    uint64_t end_va = map->end_va;
    for (size_t i = 0; i < maps->map.n; i++)
        if (is_part(&maps->map.at[i], map) && maps->map.at[i].end_va > end_va)
            end_va = maps->map.at[i].end_va;
    struct revert revert = {.target = target};
    struct wire_shared head;
    if (!read_theirs(&source, 0, &head, sizeof head))
        return NULL;
    if ((head.magic ^ WIRE_SHARED_MAGIC) << 8)
        return NULL; /* it only has the name */
    if (head.magic != WIRE_SHARED_MAGIC || head.width != (uint32_t)target_width(target))
        return err_new(ERR_REFUSED, "process %d: maps memory that says it is of another version of probity", target_pid(target));
    if (map->writable)
        return NULL; /* as only controllers have it */
    enum owner owner = find_owner(&head, map);
    if (owner != OWNER_GONE)
        return refuse(target, &head, owner);
    if (head.shared_va != map->start_va)
        return NULL;
    if (load_left_read(read_theirs, &source, end_va - map->start_va, target_width(target), &revert.left) != LOAD_LEFT_GOOD)
        return err_new(ERR_REFUSED, "process %d: the probes that an earlier probity seems to have left can not be understood",
                       target_pid(target));
    if (revert.left.head.shared_va != map->start_va) { /* it has changed meanwhile */
        load_left_deinit(&revert.left);
        return NULL;
    }
    load_left_keep_regions(&revert.left, is_confirmed, maps);
    return revert_all(&revert);
}

struct err *load_recover(struct target *target)
{
    enum { MOST = 8 };
    struct target_maps maps;
    ERR_TRY(target_finish_left_calls(target));
    struct err *error = target_maps_read(target, &maps);
    int found = 0;
    if (error)
        return error;
    for (size_t i = 0; i < maps.map.n && !error; i++) {
        uint32_t owner;
        if (maps.map.at[i].file_offset || !is_journal(&maps.map.at[i], &owner) || owner == (uint32_t)target_pid(target))
            continue;
        error = ++found > MOST
                    ? err_new(ERR_REFUSED, "process %d: maps more than %d memories that say they are of probity", target_pid(target), MOST)
                    : recover_one(target, &maps, &maps.map.at[i]);
    }
    target_maps_deinit(&maps);
    return error;
}
