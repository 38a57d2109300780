#include "target/internal.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t read_once(struct target *target, uint64_t va, void *bytes, size_t size)
{
    return pread(target->mem_fd, bytes, size, (off_t)va);
}

static ssize_t write_once(struct target *target, uint64_t va, void *bytes, size_t size)
{
    return pwrite(target->mem_fd, bytes, size, (off_t)va);
}

typedef ssize_t access_fn(struct target *target, uint64_t va, void *bytes, size_t size);

/* The kernel answers 0 when the process has no memory any more. */
static struct err *access_all(struct target *target, access_fn *access, const char *what, uint64_t va, void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t moved = access(target, va + done, (char *)bytes + done, size - done);
        if (moved == 0 || (moved < 0 && target_ended(target)))
            return target_gone(target);
        if (moved < 0)
            return err_errno(ERR_SYSTEM, errno, "process %d: %s %zu bytes at 0x%llx", target->pid, what, size - done,
                             (unsigned long long)(va + done));
        done += (size_t)moved;
    }
    return NULL;
}

size_t target_read_some(struct target *target, uint64_t va, void *bytes, size_t size)
{
    size_t done = 0;
    for (ssize_t got; done < size && (got = read_once(target, va + done, (char *)bytes + done, size - done)) > 0;)
        done += (size_t)got;
    return done;
}

struct err *target_read(struct target *target, uint64_t va, void *bytes, size_t size)
{
    return access_all(target, read_once, "read", va, bytes, size);
}

struct err *target_write(struct target *target, uint64_t va, const void *bytes, size_t size)
{
    return access_all(target, write_once, "write", va, (void *)bytes, size);
}

struct err *target_maps_read(struct target *target, struct target_maps *out)
{
    memset(out, 0, sizeof *out);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/maps", target->pid, target_live_task(target->pid));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return target_gone(target);
    size_t used = 0, room = 0;
    ssize_t got;
    do {
        if (room - used < 4096 + 1)
            out->text = memory_resize(out->text, room += 65536, 1);
        got = read(fd, out->text + used, room - used - 1);
        used += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    close(fd);
    out->text[used] = 0;
    if (used == 0)
        return target_maps_deinit(out), target_gone(target);
    for (char *line = out->text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        unsigned long long start, stop, offset, inode;
        unsigned major, minor;
        char prot[5];
        int name = 0;
        if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &stop, prot, &offset, &major, &minor, &inode, &name) < 7)
            continue;
        VEC_PUSH(&out->map, (struct target_map){.start_va = start,
                                                .end_va = stop,
                                                .file_offset = offset,
                                                .inode = inode,
                                                .readable = prot[0] == 'r',
                                                .writable = prot[1] == 'w',
                                                .executable = prot[2] == 'x',
                                                .shared = prot[3] == 's',
                                                .path = line + name});
    }
    return NULL;
}

void target_maps_deinit(struct target_maps *maps)
{
    VEC_FREE(&maps->map);
    free(maps->text);
    maps->text = NULL;
}

static bool is_same_file(int fd, const struct target_map *map)
{
    struct stat status;
    /* On file systems with several devices (overlay, btrfs) stat and maps name different devices for one file: the inode decides. */
    return fstat(fd, &status) == 0 && status.st_ino == map->inode;
}

struct err *target_open_mapped_file(struct target *target, const struct target_map *map, int *fd)
{
    char *path = memory_format("/proc/%d/task/%d/root%s", target->pid, target_live_task(target->pid), map->path);
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    if (*fd >= 0 && is_same_file(*fd, map))
        return NULL;
    if (*fd >= 0)
        close(*fd);
    /* The program itself can be reached even after it was deleted or replaced. */
    char exe[64];
    snprintf(exe, sizeof exe, "/proc/%d/task/%d/exe", target->pid, target_live_task(target->pid));
    *fd = open(exe, O_RDONLY | O_CLOEXEC);
    if (*fd >= 0 && is_same_file(*fd, map))
        return NULL;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    if (target_ended(target))
        return target_gone(target);
    return err_new(ERR_FILE, "process %d: %s: the mapped file was deleted or replaced, its code can not be known", target->pid, map->path);
}

uint64_t target_auxv(struct target *target, unsigned type)
{
    char path[64];
    union {
        Elf64_auxv_t wide[64];
        Elf32_auxv_t narrow[128];
    } vector;
    snprintf(path, sizeof path, "/proc/%d/task/%d/auxv", target->pid, target_live_task(target->pid));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, &vector, sizeof vector);
    close(fd);
    size_t each = target->width == 64 ? sizeof vector.wide[0] : sizeof vector.narrow[0];
    for (size_t i = 0; got > 0 && i < (size_t)got / each; i++) {
        uint64_t tag = target->width == 64 ? vector.wide[i].a_type : vector.narrow[i].a_type;
        if (tag == type)
            return target->width == 64 ? vector.wide[i].a_un.a_val : vector.narrow[i].a_un.a_val;
    }
    return 0;
}

struct err *target_open_fd(struct target *target, int remote_fd, int *fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/fd/%d", target->pid, target_live_task(target->pid), remote_fd);
    *fd = open(path, O_RDWR | O_CLOEXEC);
    return *fd < 0 ? err_errno(ERR_SYSTEM, errno, "process %d: open its descriptor %d", target->pid, remote_fd) : NULL;
}
