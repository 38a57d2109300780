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

struct err *target_check(struct target *target)
{
    char byte;
    return read_once(target, 0, &byte, 1) ? NULL : target_gone(target); /* an address that is not mapped is an error, not 0 */
}

struct err *target_maps_read(struct target *target, struct target_maps *out)
{
    return target_peek_maps(target->pid, out);
}

struct err *target_open_mapped_file(struct target *target, const struct target_map *map, int *fd)
{
    struct err *error = target_peek_file(target->pid, map, fd);
    if (error && target_ended(target)) {
        err_free(error);
        return target_gone(target);
    }
    return error;
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
