#include "load/internal.h"
#include "load/stacks.h"
#include "wire/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* System call numbers of both ABIs, in the order of enum remote_call. */
enum remote_call { CALL_MMAP, CALL_MUNMAP, CALL_CLOSE, CALL_MEMFD_CREATE, CALL_MADVISE };
static const int number64[] = {9, 11, 3, 319, 28}, number32[] = {192, 91, 6, 356, 219};

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

struct err *load_remote_munmap(struct target *target, uint64_t va, uint64_t bytes)
{
    int64_t result;
    ERR_TRY(call(target, CALL_MUNMAP, (uint64_t[6]){va, bytes}, &result));
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
    enum {
        PAGE = 4096,
        POPULATE_WRITE = 23
    }; /* MADV_POPULATE_WRITE, of Linux 5.14; older ones refuse it, and pages come as they are used */
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

/* Lays the memory out. A shard is a power of two of bytes; there is one for each processor that exists, fewer in a 32-bit process, where
 * address space is dear. */
static void lay_out(struct load_process *process, struct wire_shared *shared, int width, uint32_t counter_room)
{
    enum { PAGE = 4096, NARROW_LIMIT = 64 << 20, PCS_PER_COUNTER = 12, SITES_PER_COUNTER = 2, CELLS_PER_COUNTER = 4 };
    unsigned shift = 12;
    while (1ull << shift < 8ull * counter_room)
        shift++;
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    uint32_t shards = 1;
    while ((long)shards < processors && (width == 64 || ((uint64_t)shards * 2) << shift <= NARROW_LIMIT))
        shards *= 2;
    *shared = (struct wire_shared){
        .magic = WIRE_SHARED_MAGIC,
        .owner_pid = (uint32_t)getpid(),
        .owner_start_ticks = target_start_time(getpid()),
        .width = (uint32_t)width,
        .counter_room = counter_room,
        .shard_mask = shards - 1,
        .shard_shift = shift,
        .region_room = 4096,
        .site_room = counter_room * SITES_PER_COUNTER,
        .pc_room = counter_room * PCS_PER_COUNTER,
    };
    enum insn_mode mode = width == 64 ? INSN_MODE_64 : INSN_MODE_32;
    shared->fire_undo_count = fire_count_table(mode, shared->fire_undo);
    shared->call_undo_count = fire_call_table(mode, shared->call_undo);
    uint32_t index_cells = 1;
    while (index_cells < counter_room * CELLS_PER_COUNTER)
        index_cells *= 2;
    shared->index_mask = index_cells - 1;
    uint64_t end = WIRE_SHARED_BYTES;
    shared->counters_offset = end;
    end += (uint64_t)shards << shift;
    shared->regions_offset = end;
    end = round_up(end + shared->region_room * sizeof(struct wire_region), PAGE);
    shared->sites_offset = end;
    end = round_up(end + shared->site_room * sizeof(struct wire_site), PAGE);
    shared->pcs_offset = end;
    end = round_up(end + shared->pc_room * sizeof(struct wire_pc), PAGE);
    shared->index_offset = end;
    process->place_pcs_offset = round_up(end + index_cells * sizeof(uint32_t), PAGE);
    process->place_biases_offset = process->place_pcs_offset + counter_room * sizeof(uint64_t);
    process->places_offset = process->place_biases_offset + counter_room * sizeof(uint64_t);
    process->spaces_offset = round_up(process->places_offset + counter_room * sizeof(struct wire_place), PAGE);
    shared->shared_bytes = round_up(process->spaces_offset + load_stacks_bytes(), PAGE);
}

/* The process makes the memory, so that it belongs to its user; we reach it through /proc. */
static struct err *map_here(struct load_process *process, int remote_fd, const struct wire_shared *layout)
{
    int fd;
    ERR_TRY(target_open_fd(process->target, remote_fd, &fd));
    struct err *error = NULL;
    if (ftruncate(fd, (off_t)layout->shared_bytes))
        error = err_errno(ERR_SYSTEM, errno, "shared memory: size %llu", (unsigned long long)layout->shared_bytes);
    void *memory = error ? MAP_FAILED : mmap(NULL, layout->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (!error && memory == MAP_FAILED)
        error = err_errno(ERR_SYSTEM, errno, "shared memory: map");
    close(fd);
    if (error)
        return error;
    process->shared = memory;
    *process->shared = *layout;
    return NULL;
}

struct err *load_shared_create(struct load_process *process, uint32_t counter_room)
{
    struct target *target = process->target;
    struct wire_shared layout;
    lay_out(process, &layout, target_width(target), counter_room);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(process->memfd_name, sizeof process->memfd_name, WIRE_MEMFD_NAME "-%d-%lx", getpid(),
             now.tv_sec * 1000000 + now.tv_nsec / 1000);
    uint64_t name_va;
    int64_t remote_fd;
    ERR_TRY(target_remote_text(target, process->memfd_name, &name_va));
    ERR_TRY(call(target, CALL_MEMFD_CREATE, (uint64_t[6]){name_va, MFD_CLOEXEC}, &remote_fd));
    if (remote_fd < 0)
        return failed(target, "memfd_create", remote_fd);
    struct err *error = map_here(process, (int)remote_fd, &layout);
    uint64_t va = 0;
    if (!error)
        error = load_remote_mmap(target, 0, layout.shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, (int)remote_fd, &va);
    struct err *close_error = load_remote_close(target, (int)remote_fd);
    if (error)
        return err_free(close_error), error;
    process->shared->shared_va = va;
    process->fire = (struct load_fire_context){.mode = target_width(target) == 64 ? INSN_MODE_64 : INSN_MODE_32,
                                               .counters_va = va + layout.counters_offset,
                                               .shard_mask = layout.shard_mask,
                                               .shard_shift = layout.shard_shift,
                                               .shared_va = va};
    return close_error;
}
