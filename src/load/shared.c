#include "base/sealed.h"
#include "load/internal.h"
#include "load/stacks.h"
#include "wire/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

/* System call numbers of both ABIs, in the order of enum remote_call. */
enum remote_call { CALL_MMAP, CALL_MUNMAP, CALL_CLOSE, CALL_MADVISE };
static const int number64[] = {9, 11, 3, 28}, number32[] = {192, 91, 6, 219};

static struct err *call(struct target *target, enum remote_call name, const uint64_t args[6], int64_t *result)
{
    return target_syscall(target, (target_width(target) == 64 ? number64 : number32)[name], args, result);
}

static struct err *failed(struct target *target, const char *what, int64_t result)
{
    return err_errno(ERR_SYSTEM, (int)-result, "process %d: %s in the process", target_pid(target), what);
}

struct err *load_remote_mmap(struct target *target, uint64_t va, uint64_t bytes, int protection, int flags, int fd, uint64_t *out)
{
    int64_t result;
    ERR_TRY(call(target, CALL_MMAP, (uint64_t[6]){va, bytes, (uint64_t)protection, (uint64_t)flags, (uint64_t)(int64_t)fd, 0}, &result));
    if (result == -EEXIST)
        return err_new(ERR_PLACE, "process %d: something else was mapped meanwhile where memory for code was to be", target_pid(target));
    if (result < 0 && result > -4096)
        return failed(target, "mmap", result);
    *out = target_width(target) == 64 ? (uint64_t)result : (uint32_t)result;
    return NULL;
}

void load_remote_mmap_call(const struct target *target, uint64_t va, uint64_t bytes, int protection, int flags, int fd, uint64_t offset,
                           struct target_call *out)
{
    bool wide = target_width(target) == 64; /* the other call takes the offset in pages */
    *out = (struct target_call){
        .number = (wide ? number64 : number32)[CALL_MMAP],
        .args = {va, bytes, (uint64_t)protection, (uint64_t)flags, (uint64_t)(int64_t)fd, wide ? offset : offset / PAGE}};
}

struct err *load_remote_munmap(struct target *target, uint64_t va, uint64_t bytes)
{
    int64_t result;
    struct target *caller = target_memory_caller(target);
    ERR_TRY(call(caller ? caller : target, CALL_MUNMAP, (uint64_t[6]){va, bytes}, &result));
    return result < 0 ? failed(target, "munmap", result) : NULL;
}

struct err *load_remote_close(struct target *target, int fd)
{
    int64_t ignored;
    return call(target, CALL_CLOSE, (uint64_t[6]){(uint64_t)fd}, &ignored);
}

struct err *load_remote_wipe_on_fork(struct target *target, uint64_t va, uint64_t bytes)
{
    int64_t result;
    ERR_TRY(call(target, CALL_MADVISE, (uint64_t[6]){va, bytes, MADV_WIPEONFORK}, &result));
    return result < 0 ? failed(target, "madvise", result) : NULL;
}

struct err *load_remote_touch(struct target *target, uint64_t va, uint64_t bytes)
{
    enum { POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE, of Linux 5.14; older ones refuse it, and pages come as they are used */
    int64_t ignored;
    uint64_t start_va = va / PAGE * PAGE;
    return call(target, CALL_MADVISE, (uint64_t[6]){start_va, va + bytes - start_va, POPULATE_WRITE}, &ignored);
}

struct wire_region *load_shared_regions(struct wire_shared *shared)
{
    return (void *)((char *)shared + shared->regions_offset);
}

struct wire_site *load_shared_sites(struct wire_shared *shared)
{
    return (void *)((char *)shared + shared->sites_offset);
}

struct wire_pc *load_shared_pcs(struct wire_shared *shared)
{
    return (void *)((char *)shared + shared->pcs_offset);
}

static uint64_t round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) / step * step;
}

/* The next table of the memory, of which so many bytes are mapped at first. */
static void lay_table(struct load_process *process, enum load_extent_kind kind, uint64_t first, uint64_t most, uint64_t *end)
{
    process->extent[kind] = (struct load_extent){.offset = *end, .bytes = round_up(first, PAGE), .most = round_up(most, PAGE)};
    *end += process->extent[kind].most;
}

/* A process of 32 bits has all tables as large as they can be, since what lies behind them may not be free when they have to grow; one of
 * 64 bits has room for so many counters as few programs need. */
static void lay_out(struct load_process *process, struct wire_shared *shared, int width, uint32_t counter_room)
{
    enum { PCS_PER_COUNTER = 12, SITES_PER_COUNTER = 2, CELLS_PER_COUNTER = 4, FEW = WIRE_BLOCK_COUNTERS };
    const uint64_t site = SITES_PER_COUNTER * sizeof(struct wire_site), pc = PCS_PER_COUNTER * sizeof(struct wire_pc);
    uint64_t first = width == 32 || counter_room < FEW ? counter_room : FEW;
    *shared = (struct wire_shared){
        .magic = WIRE_SHARED_MAGIC,
        .owner_pid = (uint32_t)getpid(),
        .owner_start_ticks = target_start_time(getpid()),
        .width = (uint32_t)width,
        .region_room = LOAD_LEFT_REGIONS_MOST,
        .site_room = counter_room * SITES_PER_COUNTER,
        .pc_room = counter_room * PCS_PER_COUNTER,
    };
    enum insn_mode mode = width == 64 ? INSN_MODE_64 : INSN_MODE_32;
    shared->fire_undo_count = fire_count_table(mode, shared->fire_undo);
    shared->call_undo_count = fire_call_table(mode, shared->call_undo);
    process->index_cells = 1;
    while (process->index_cells < first * CELLS_PER_COUNTER)
        process->index_cells *= 2;
    uint64_t index = process->index_cells * sizeof(uint32_t), all = index;
    for (uint64_t last = index; last < counter_room * CELLS_PER_COUNTER * sizeof(uint32_t); all += last)
        last *= 2;
    uint64_t end = WIRE_SHARED_BYTES;
    shared->regions_offset = end;
    end = round_up(end + shared->region_room * sizeof(struct wire_region), PAGE);
    shared->sites_offset = end;
    lay_table(process, LOAD_EXTENT_SITES, first * site, counter_room * site, &end);
    shared->pcs_offset = end;
    lay_table(process, LOAD_EXTENT_PCS, first * pc, counter_room * pc, &end);
    process->index_offset = end;
    lay_table(process, LOAD_EXTENT_INDEX, index, all, &end);
    process->place_pcs_offset = end;
    lay_table(process, LOAD_EXTENT_PLACE_PCS, first * sizeof(uint64_t), counter_room * sizeof(uint64_t), &end);
    process->place_biases_offset = end;
    lay_table(process, LOAD_EXTENT_BIASES, first * sizeof(uint64_t), counter_room * sizeof(uint64_t), &end);
    process->spaces_offset = end;
    lay_table(process, LOAD_EXTENT_SPACES, width == 32 ? load_stacks_bytes() : PAGE, load_stacks_bytes(), &end);
    shared->shared_bytes = end;
    end = WIRE_LIVE_BYTES;
    lay_table(process, LOAD_EXTENT_COUNTERS, load_live_counters_bytes(process->live, (uint32_t)first),
              load_live_counters_bytes(process->live, counter_room), &end);
    lay_table(process, LOAD_EXTENT_PLACES, first * sizeof(struct wire_place), counter_room * sizeof(struct wire_place), &end);
}

/* Both memories are made here, so that their sizes and who may write them are ours to say. */
static struct err *make_memory(struct load_process *process, uint32_t counter_room, int *journal_fd)
{
    char name[48];
    struct wire_shared layout;
    struct stat status;
    int width = target_width(process->target);
    void *memory;
    snprintf(name, sizeof name, WIRE_SESSION_NAME "-%d-live", getpid());
    ERR_TRY(load_live_create(name, counter_room, width, &process->live));
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(process->memfd_name, sizeof process->memfd_name, WIRE_MEMFD_NAME "-%d-%lx", getpid(),
             now.tv_sec * 1000000 + now.tv_nsec / 1000);
    lay_out(process, &layout, width, counter_room);
    ERR_TRY(sealed_create(process->memfd_name, layout.shared_bytes, SEALED_READERS, journal_fd, &memory));
    process->shared = memory;
    *process->shared = layout;
    process->memfd_inode = fstat(*journal_fd, &status) ? 0 : status.st_ino;
    return NULL;
}

struct err *load_shared_create(struct load_process *process, uint32_t counter_room)
{
    struct target *target = process->target;
    int journal_fd, remote_fd[2];
    uint64_t scratch_va;
    ERR_TRY(make_memory(process, counter_room, &journal_fd));
    struct err *error = target_remote_buffer(target, &scratch_va);
    if (!error)
        error = target_send_fds(target, (int[2]){journal_fd, load_live_fd(process->live)}, 2, scratch_va, remote_fd);
    close(journal_fd);
    if (error)
        return error;
    error = load_extent_map_all(process, remote_fd);
    for (int i = 0; i < 2; i++) {
        struct err *close_error = load_remote_close(target, remote_fd[i]);
        if (!error)
            error = close_error;
        else
            err_free(close_error);
    }
    if (error)
        return error;
    process->places = load_live_at(process->live, process->shared->live_va);
    process->fire = (struct load_fire_context){.mode = target_width(target) == 64 ? INSN_MODE_64 : INSN_MODE_32,
                                               .counters_va = process->places.counters_va,
                                               .block_bytes = process->places.block_bytes,
                                               .shard_mask = process->places.shard_mask,
                                               .shared_va = process->shared->shared_va};
    process->counter_room = counter_room;
    return NULL;
}
