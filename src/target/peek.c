/* Memory, mappings and files of a process that is not opened: it is neither stopped nor held, and needs no descriptor. */
#include "target/internal.h"

#include "base/regular.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static struct err *ended(pid_t pid)
{
    return err_new(ERR_NO_PROCESS, "process %d: has ended", pid);
}

size_t target_peek(pid_t pid, uint64_t va, void *bytes, size_t size)
{
    enum { PAGE = 4096 };
    size_t done = 0;
    /* The kernel copies a piece of the list whole or not at all: pages are asked for one by one where all of it failed. */
    for (size_t step = size; done < size;) {
        struct iovec here = {(char *)bytes + done, step}, there = {(void *)(uintptr_t)(va + done), step};
        ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
        if (got > 0) {
            done += (size_t)got;
            step = size - done;
        } else if (step > PAGE - (va + done) % PAGE) {
            step = (size_t)(PAGE - (va + done) % PAGE);
        } else {
            break;
        }
    }
    return done;
}

static bool read_maps(pid_t pid, pid_t tid, struct target_maps *out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/maps", pid, tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
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
    return used;
}

/* A number up to `end`, which must follow it. NULL: there is no such. */
static char *number(char *at, int base, char end, uint64_t *out)
{
    char *after;
    *out = strtoull(at, &after, base);
    return after != at && *after == end ? after + 1 : NULL;
}

/* As in proc(5): START-END rwxp OFFSET MAJOR:MINOR INODE, spaces, and a path that may be missing. */
static bool parse_line(char *line, struct target_map *out)
{
    uint64_t major, minor;
    enum { PROTECTION = 5 };
    char *at = number(line, 16, '-', &out->start_va);
    at = at ? number(at, 16, ' ', &out->end_va) : NULL;
    const char *protection = at;
    if (!at || strnlen(at, PROTECTION) < PROTECTION)
        return false;
    at = number(at + PROTECTION, 16, ' ', &out->file_offset);
    at = at ? number(at, 16, ':', &major) : NULL;
    at = at ? number(at, 16, ' ', &minor) : NULL;
    at = at ? number(at, 10, ' ', &out->inode) : NULL;
    if (!at)
        return false;
    out->device = major << 32 | minor;
    out->readable = protection[0] == 'r';
    out->writable = protection[1] == 'w';
    out->executable = protection[2] == 'x';
    out->shared = protection[3] == 's';
    out->path = at + strspn(at, " ");
    return true;
}

struct err *target_peek_maps(pid_t pid, struct target_maps *out)
{
    memset(out, 0, sizeof *out);
    /* The memory of a process whose first thread has ended is that of any other thread. */
    if (!read_maps(pid, pid, out) && !read_maps(pid, target_live_task(pid), out))
        return target_maps_deinit(out), ended(pid);
    for (char *line = out->text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        struct target_map map;
        if (parse_line(line, &map))
            VEC_PUSH(&out->map, map);
    }
    return NULL;
}

void target_maps_deinit(struct target_maps *maps)
{
    VEC_FREE(&maps->map);
    free(maps->text);
    maps->text = NULL;
}

bool target_map_is_memfd(const struct target_map *map, const char *name)
{
    static const char start[] = "/memfd:";
    size_t at = sizeof start - 1, length = strlen(name);
    return map->inode && !strncmp(map->path, start, at) && !strncmp(map->path + at, name, length) &&
           (!map->path[at + length] || !strcmp(map->path + at + length, " (deleted)"));
}

static bool is_same_file(int fd, const struct target_map *map)
{
    struct stat status;
    /* On file systems with several devices (overlay, btrfs) stat and maps name different devices for one file: the inode decides. */
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_ino == map->inode;
}

/* A file that only the process's own descriptors still reach, which its owner may open: memory that a library was loaded from is one. */
static int open_its_descriptor(pid_t pid, pid_t task, const struct target_map *map)
{
    char folder[64], path[64 + NAME_MAX + 1], link[4096];
    snprintf(folder, sizeof folder, "/proc/%d/task/%d/fd", pid, task);
    DIR *dir = regular_is_deleted(map->path) ? opendir(folder) : NULL;
    int fd = -1;
    for (struct dirent *entry; fd < 0 && dir && (entry = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ssize_t length = readlink(path, link, sizeof link - 1);
        link[length > 0 ? length : 0] = 0;
        fd = strcmp(link, map->path) ? -1 : regular_open(path);
        if (fd >= 0 && !is_same_file(fd, map)) {
            close(fd);
            fd = -1;
        }
    }
    if (dir)
        closedir(dir);
    return fd;
}

struct err *target_peek_file(pid_t pid, const struct target_map *map, int *fd)
{
    pid_t task = target_live_task(pid);
    unsigned long long start = map->start_va, end = map->end_va;
    /* As the process sees it; the mapping's own link, for the privileged, and the program's, which both reach what was deleted or replaced;
     * as we see it, for a process that has ended. */
    char *paths[] = {memory_format("/proc/%d/task/%d/root%s", pid, task, map->path),
                     memory_format("/proc/%d/map_files/%llx-%llx", pid, start, end), memory_format("/proc/%d/task/%d/exe", pid, task),
                     memory_text(map->path)};
    bool is_short = false;
    *fd = -1;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (*fd < 0 && map->path[0] == '/') {
            *fd = regular_open(paths[i]);
            is_short |= *fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
            if (*fd >= 0 && !is_same_file(*fd, map)) {
                close(*fd);
                *fd = -1;
            }
        }
        free(paths[i]);
    }
    if (*fd < 0)
        *fd = open_its_descriptor(pid, task, map);
    if (*fd >= 0)
        return NULL;
    if (is_short)
        return err_new(ERR_SYSTEM, "process %d: %s: too little memory, or too few descriptors, to open the mapped file", pid, map->path);
    return err_new(ERR_PERMISSION,
                   "process %d: %s: the file was deleted or replaced since it was mapped, and only root (or CAP_CHECKPOINT_RESTORE) may "
                   "still open it: its functions can not be known",
                   pid, map->path);
}

bool target_program_path(pid_t pid, char *out, size_t room)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/exe", pid);
    ssize_t length = readlink(link, out, room - 1);
    out[length > 0 ? length : 0] = 0;
    return length > 0;
}
