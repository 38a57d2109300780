/* Giving a process back what the journal says was taken from it: when we detach, for children that it forked, and after a controller died.
 *
 * The journal lies in the process's own memory, so everything in it is checked against what the process really has: bytes are put back only
 * where ours are found, mappings are removed only where they look like ours. */
#include "base/clock.h"
#include "load/internal.h"
#include "unwind/space.h"
#include "wire/session.h"

#include <ctype.h>
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
    struct wire_shared shared;
    struct wire_region *region;
    struct wire_site *site;
    struct load_pc_map map;
    bool looking;                       /* nothing is changed in this attempt */
    bool restored;                      /* the program's bytes are back */
    size_t still_inside;                /* threads and frames that could not leave our code yet */
    VEC(struct frame) frame;            /* that could not */
    uint32_t round;                     /* of looking at all threads */
    const struct target_thread *thread; /* that is looked at: frames are on its stacks */
    struct unwind_tables *tables;       /* made when frames hold it up */
    struct unwind_process *walked;      /* ... NULL: not, or it can not be walked */
};

/* ---- reading the journal ---- */

static struct err *read_table(struct revert *revert, uint64_t shared_va, uint64_t offset, uint32_t count, uint32_t room, size_t each,
                              void **out)
{
    const struct wire_shared *shared = &revert->shared;
    if (count > room || offset > shared->shared_bytes || (uint64_t)room * each > shared->shared_bytes - offset)
        return err_new(ERR_REFUSED, "process %d: the probes an earlier probity left behind can not be understood",
                       target_pid(revert->target));
    *out = memory_alloc((size_t)count * each);
    return target_read(revert->target, shared_va + offset, *out, (size_t)count * each);
}

static struct err *read_journal(struct revert *revert, uint64_t shared_va)
{
    struct wire_shared *shared = &revert->shared;
    ERR_TRY(target_read(revert->target, shared_va, shared, sizeof *shared));
    if (shared->magic == 0) {
        shared->region_count = shared->site_count = shared->pc_count = 0; /* died before it did anything */
        return NULL;
    }
    if (shared->magic != WIRE_SHARED_MAGIC || shared->width != (uint32_t)target_width(revert->target))
        return err_new(ERR_REFUSED, "process %d: has probes of another version of probity", target_pid(revert->target));
    ERR_TRY(read_table(revert, shared_va, shared->regions_offset, shared->region_count, shared->region_room, sizeof *revert->region,
                       (void **)&revert->region));
    ERR_TRY(read_table(revert, shared_va, shared->sites_offset, shared->site_count, shared->site_room, sizeof *revert->site,
                       (void **)&revert->site));
    ERR_TRY(read_table(revert, shared_va, shared->pcs_offset, shared->pc_count, shared->pc_room, sizeof *revert->map.pc,
                       (void **)&revert->map.pc));
    for (uint32_t i = 0; i < shared->pc_count; i++)
        if (revert->map.pc[i].kind != WIRE_PC_NONE)
            revert->map.pc[revert->map.count++] = revert->map.pc[i];
    load_pc_map_sort(revert->map.pc, revert->map.count);
    return NULL;
}

/* ---- bytes ---- */

static int by_site_va(const void *a, const void *b)
{
    const struct wire_site *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

static struct err *restore_bytes(struct revert *revert)
{
    enum { PAGE = 4096 };
    uint32_t count = revert->shared.site_count;
    if (count)
        qsort(revert->site, count, sizeof *revert->site, by_site_va);
    for (uint32_t i = 0; i < count;) {
        /* All sites that begin in one page are put back by one write; the last may reach into the next. */
        uint64_t page = revert->site[i].va / PAGE * PAGE;
        uint8_t bytes[PAGE + WIRE_SITE_MAX];
        uint64_t low = UINT64_MAX, high = 0;
        size_t got = target_read_some(revert->target, page, bytes, sizeof bytes);
        for (; i < count && revert->site[i].va / PAGE * PAGE == page; i++) {
            const struct wire_site *site = &revert->site[i];
            uint64_t at = site->va - page;
            if (!site->length || site->length > WIRE_SITE_MAX || at + site->length > got || memcmp(bytes + at, site->patched, site->length))
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

/* ---- threads ---- */

static bool is_ours(void *context, uint64_t pc)
{
    const struct revert *revert = context;
    for (uint32_t i = 0; i < revert->shared.region_count; i++)
        if (pc - revert->region[i].va < revert->region[i].bytes)
            return true;
    return load_pc_map_has(&revert->map, pc); /* an island in padding of the program */
}

/* Whether signal handlers of the process are shown what they would see natively. */
static bool has_handlers(const struct wire_shared *shared)
{
    for (int i = 0; i < WIRE_RESTORER_ROOM && shared->magic; i++)
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
    if (regs->is_hidden || revert->shared.untouched_signals || !has_handlers(&revert->shared))
        return false;
    enum on_stack found = find_on_stack(revert, regs->pc);
    if (found == MAY_BE_ON_STACK)
        return note_frame(revert, regs->pc, regs->fire.sp) > VERY_LONG;
    return found == NOT_ON_STACK;
}

static bool visit(void *context, struct target_thread *thread, struct load_move_regs *regs)
{
    struct revert *revert = context;
    if (thread)
        revert->thread = thread;
    if (!is_ours(revert, regs->pc))
        return false;
    if (revert->looking) {
        bool stays = regs->must_stay || !load_move_is_possible(&revert->map, regs->pc);
        revert->still_inside += stays && (thread || !is_left_over(revert, regs));
        return false;
    }
    bool moved = !regs->must_stay && load_move_out(revert->target, &revert->map, regs) == LOAD_MOVED;
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
}

/* A thread that has just met a trap of a controller that died goes on in the trampoline: while others have to leave our code first, the
 * trap stays, and this thread may be the one that they, or frames on its own stack, wait for. */
static uint64_t at_trap(void *context, uint64_t va)
{
    struct revert *revert = context;
    for (uint32_t i = 0; i < revert->shared.site_count; i++) {
        const struct wire_site *site = &revert->site[i];
        if (site->va == va && site->length == 1 && site->patched[0] == 0xcc)
            return is_ours(revert, site->trampoline_va) && load_pc_map_has(&revert->map, site->trampoline_va) ? site->trampoline_va : va;
    }
    return 0;
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

/* Whether it is memory that controller `owner` made: the program may be a controller, which has such memory of its own. */
static bool is_memory_of(const struct target_map *map, const char *name, uint32_t owner)
{
    char text[64];
    snprintf(text, sizeof text, "/memfd:%s-%u", name, owner);
    const char *found = strstr(map->path, text);
    return found && !isdigit((unsigned char)found[strlen(text)]);
}

static const char *path_at(const struct target_maps *maps, uint64_t va)
{
    for (size_t i = 0; i < maps->map.n; i++)
        if (va >= maps->map.at[i].start_va && va < maps->map.at[i].end_va)
            return maps->map.at[i].path;
    return "";
}

static struct err *unmap(struct revert *revert)
{
    struct target_maps maps;
    ERR_TRY(target_maps_read(revert->target, &maps));
    struct err *error = NULL;
    const char *journal = path_at(&maps, revert->shared.shared_va);
    for (uint32_t i = 0; i < revert->shared.region_count && !error; i++)
        if (is_our_map(&maps, revert->region[i].va, revert->region[i].bytes))
            error = load_remote_munmap(revert->target, revert->region[i].va, revert->region[i].bytes);
    /* The journal, which tells about the code, goes last. */
    for (int last = 0; last < 2; last++)
        for (size_t i = 0; i < maps.map.n && !error; i++)
            if (last ? *journal && !strcmp(maps.map.at[i].path, journal)
                     : is_memory_of(&maps.map.at[i], WIRE_SESSION_NAME, revert->shared.owner_pid))
                error = load_remote_munmap(revert->target, maps.map.at[i].start_va, maps.map.at[i].end_va - maps.map.at[i].start_va);
    target_maps_deinit(&maps);
    return error;
}

static struct err *try_revert(struct revert *revert, bool patient, bool *done)
{
    struct err *busy = target_stop(revert->target);
    if (busy && busy->code == ERR_BUSY)
        return err_free(busy), *done = false, NULL;
    if (busy)
        return busy;
    /* As long as a thread has to stay in our code, a signal handler still needs the probe that shows it where it was. */
    revert->looking = patient && !revert->restored;
    revert->still_inside = 0;
    revert->round++;
    if (revert->looking)
        ERR_TRY(load_visit_threads(revert->target, NULL, is_ours, visit, revert));
    if (revert->still_inside)
        return NULL;
    revert->looking = false;
    ERR_TRY(restore_bytes(revert));
    revert->restored = true;
    ERR_TRY(load_visit_threads(revert->target, NULL, is_ours, visit, revert));
    ERR_TRY(target_write_regs(revert->target)); /* before the code goes, should we be killed in between */
    *done = !revert->still_inside && target_can_call(revert->target);
    if (*done && revert->shared.magic && revert->shared.trap_handler_va)
        ERR_TRY(target_clear_trap_handler(revert->target, revert->shared.trap_handler_va));
    return *done ? unmap(revert) : NULL;
}

struct err *load_revert(struct target *target, uint64_t shared_va)
{
    enum { LAST_ATTEMPTS = 400, PATIENT_ATTEMPTS = 400, WAIT_NS = 5000000 };
    const uint64_t patient_ns = 5000000000;
    int last_attempts = 0;
    uint64_t start_ns = clock_now_ns();
    struct revert revert = {.target = target};
    struct err *error = read_journal(&revert, shared_va);
    revert.shared.shared_va = shared_va;
    bool done = false;
    if (!error && !target_is_kept(target))
        target_keep(target, at_trap, NULL, &revert);
    if (!error && revert.shared.magic) {
        uint32_t on = 1;
        error = target_write(target, shared_va + offsetof(struct wire_shared, agent_off), &on, sizeof on);
    }
    for (int attempt = 0; !error && !done; attempt++) {
        bool patient = has_handlers(&revert.shared) && (attempt < PATIENT_ATTEMPTS || clock_now_ns() - start_ns < patient_ns);
        error = try_revert(&revert, patient, &done);
        if (revert.restored || error) /* until then there are traps to be dealt with */
            target_keep(target, NULL, NULL, NULL);
        struct err *resume = target_resume(target);
        if (!error)
            error = resume;
        else
            err_free(resume);
        last_attempts += revert.restored || !patient;
        if (!error && !done && last_attempts == LAST_ATTEMPTS)
            error = err_new(ERR_SYSTEM, "process %d: probes are off, but a thread does not leave our code, which stays mapped",
                            target_pid(target));
        prepare_walks(&revert);
        if (!error && !done)
            target_pause(target, WAIT_NS);
    }
    end_walks(&revert);
    free(revert.region);
    free(revert.site);
    free(revert.map.pc);
    return error;
}

/* ---- after a controller died ---- */

struct err *load_recover(struct target *target)
{
    struct target_maps maps;
    ERR_TRY(target_maps_read(target, &maps));
    uint64_t shared_va = 0;
    for (size_t i = 0; i < maps.map.n && !shared_va; i++)
        if (strstr(maps.map.at[i].path, "/memfd:" WIRE_MEMFD_NAME "-") &&
            !is_memory_of(&maps.map.at[i], WIRE_MEMFD_NAME, (uint32_t)target_pid(target)))
            shared_va = maps.map.at[i].start_va;
    target_maps_deinit(&maps);
    if (!shared_va)
        return NULL;
    struct wire_shared shared;
    ERR_TRY(target_read(target, shared_va, &shared, sizeof shared));
    if (shared.magic && target_start_time((pid_t)shared.owner_pid) == shared.owner_start_ticks)
        return err_new(ERR_REFUSED, "process %d: is already traced by probity process %u; end that first", target_pid(target),
                       shared.owner_pid);
    return load_revert(target, shared_va);
}
