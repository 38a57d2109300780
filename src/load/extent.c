/* The memories that a process shares with us, as it maps them. All that is mapped counts as the process's size, and is refused where that
 * is limited; so of tables that have room for the largest programs only the beginning is mapped, and more as they fill.
 *
 * A table grows where it is: what lies behind it was free when its place was chosen, in a 64-bit process where the kernel will hardly put
 * anything by itself. Should something have been mapped there, the table is full. */
#include "load/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

/* ---- where ---- */

static bool may_grow(const struct load_process *process)
{
    for (int i = 0; i < LOAD_EXTENTS; i++)
        if (process->extent[i].bytes < process->extent[i].most)
            return true;
    return false;
}

/* What grows is put into the highest free range where there is room for it so far below the range's end that what the kernel maps, from
 * high addresses down, will hardly get there, but not as far away as where sanitizers want nothing to be. What does not grow goes where the
 * kernel would most likely put it, as high as it can be, but not right under the stack, which grows. 0: nowhere. */
static struct err *find_free(struct load_process *process, uint64_t bytes, uint64_t *va)
{
    const uint64_t guard = 1 << 20, least = 1 << 16, most = target_width(process->target) == 64 ? 1ull << 47 : 0xffffe000;
    bool grows = may_grow(process);
    uint64_t distance = grows ? 128ull << 30 : guard, largest = 0;
    struct target_maps maps;
    ERR_TRY(target_maps_read(process->target, &maps));
    *va = 0;
    for (size_t i = maps.map.n; i-- > 0;) {
        const struct target_map *above = &maps.map.at[i];
        uint64_t below_va = i ? maps.map.at[i - 1].end_va : least, room = above->start_va - below_va;
        if (above->start_va > most || above->start_va < below_va || room < bytes + 2 * guard)
            continue;
        bool is_far = room >= bytes + guard + distance;
        if (is_far && (grows || strcmp(above->path, "[stack]"))) {
            *va = (above->start_va - distance - bytes) / PAGE * PAGE;
            break;
        }
        if (grows && room > largest) { /* the middle of the largest will do if there is no such */
            largest = room;
            *va = (below_va + (room - bytes) / 2) / PAGE * PAGE;
        }
    }
    target_maps_deinit(&maps);
    return NULL;
}

/* ---- mapping ---- */

/* A part of a memory. */
struct piece {
    uint64_t offset, bytes;
    bool is_live;
};

/* Parts that touch each other are one. */
static void add_piece(struct piece *piece, size_t *count, uint64_t offset, uint64_t bytes, bool is_live)
{
    struct piece *last = *count ? &piece[*count - 1] : NULL;
    if (last && last->is_live == is_live && last->offset + last->bytes == offset)
        last->bytes += bytes;
    else
        piece[(*count)++] = (struct piece){offset, bytes, is_live};
}

/* The pieces of both memories, in order; returns how many. */
static size_t make_pieces(const struct load_process *process, struct piece *piece)
{
    size_t count = 0;
    add_piece(piece, &count, 0, process->extent[LOAD_EXTENT_SITES].offset, false);
    for (int i = 0; i < LOAD_EXTENTS; i++) {
        if (i == LOAD_EXTENT_COUNTERS)
            add_piece(piece, &count, 0, process->extent[i].offset, true);
        add_piece(piece, &count, process->extent[i].offset, process->extent[i].bytes, i >= LOAD_EXTENT_COUNTERS);
    }
    return count;
}

static bool is_error(int64_t result)
{
    return result < 0 && result > -4096;
}

static struct err *try_map(struct load_process *process, uint64_t va, uint64_t live_va, const int remote_fd[2])
{
    struct piece piece[LOAD_EXTENTS + 2];
    struct target_call call[LOAD_EXTENTS + 2];
    struct target *target = process->target;
    size_t count = make_pieces(process, piece);
    for (size_t i = 0; i < count; i++)
        load_remote_mmap_call(target, (piece[i].is_live ? live_va : va) + piece[i].offset, piece[i].bytes,
                              piece[i].is_live ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                              remote_fd[piece[i].is_live], piece[i].offset, &call[i]);
    ERR_TRY(target_syscalls(target, call, count));
    int64_t failure = 0;
    for (size_t i = 0; i < count && !failure; i++)
        failure = is_error(call[i].result) ? call[i].result : 0;
    for (size_t i = 0; i < count && failure; i++)
        if (!is_error(call[i].result))
            ERR_TRY(load_remote_munmap(target, (piece[i].is_live ? live_va : va) + piece[i].offset, piece[i].bytes));
    if (failure == -EEXIST)
        return err_new(ERR_PLACE, "process %d: something else was mapped meanwhile where our memory was to be", target_pid(target));
    return failure ? err_errno(ERR_SYSTEM, (int)-failure, "process %d: mmap in the process", target_pid(target)) : NULL;
}

/* The journal says where it is mapped before it is: so it is known for ours, and what there is of us is found by it, should we be killed
 * now. */
struct err *load_extent_map_all(struct load_process *process, const int remote_fd[2])
{
    enum { ATTEMPTS = 4 };
    struct wire_shared *shared = process->shared;
    struct err *error = NULL;
    for (int i = 0; i < ATTEMPTS; i++) {
        uint64_t va;
        err_free(error);
        ERR_TRY(find_free(process, shared->shared_bytes + load_live_bytes(process->live), &va));
        if (!va)
            return err_new(ERR_PLACE, "process %d: no free address range for our memory", target_pid(process->target));
        shared->shared_va = va;
        shared->live_va = va + shared->shared_bytes;
        error = try_map(process, va, shared->live_va, remote_fd);
        for (int k = 0; k < LOAD_EXTENTS; k++)
            process->extent[k].va = (k < LOAD_EXTENT_COUNTERS ? va : shared->live_va) + process->extent[k].offset;
        if (!error || error->code != ERR_PLACE)
            return error;
    }
    return error;
}

/* ---- growing ---- */

static struct err *grow(struct load_process *process, struct load_extent *extent, uint64_t bytes)
{
    enum { MREMAP64 = 25, MREMAP32 = 163 };
    struct target *target = process->target;
    int64_t result = 0;
    bool was_running = target_is_running(target);
    ERR_TRY(target_stop_one(target));
    struct err *error =
        target_syscall(target, target_width(target) == 64 ? MREMAP64 : MREMAP32, (uint64_t[6]){extent->va, extent->bytes, bytes}, &result);
    struct err *resume = was_running ? target_resume(target) : NULL;
    if (!error)
        error = resume;
    else
        err_free(resume);
    if (!error && is_error(result))
        error = err_new(ERR_PLACE, "process %d: memory of ours can not grow in it: %s", target_pid(target), strerror((int)-result));
    if (!error)
        extent->bytes = bytes;
    return error;
}

struct err *load_extent_need(struct load_process *process, enum load_extent_kind kind, uint64_t bytes)
{
    struct load_extent *extent = &process->extent[kind];
    if (bytes <= extent->bytes)
        return NULL;
    if (bytes > extent->most)
        return err_new(ERR_PLACE, "process %d: too many probes for the shared memory that was set up (%u counters)",
                       target_pid(process->target), process->counter_room);
    uint64_t wanted = 2 * extent->bytes > bytes ? 2 * extent->bytes : (bytes + PAGE - 1) / PAGE * PAGE;
    return grow(process, extent, wanted < extent->most ? wanted : extent->most);
}
