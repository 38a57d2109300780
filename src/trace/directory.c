#include "trace/layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

/* Calls `visit` for every file but . and .. until it returns an error. */
static struct err *each_file(int fd, const char *path, struct err *(*visit)(int fd, const char *path, const char *name))
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy < 0 ? NULL : fdopendir(copy);
    if (!directory) {
        struct err *error = err_errno(ERR_SYSTEM, errno, "trace: %s", path);
        if (copy >= 0)
            close(copy);
        return error;
    }
    struct err *error = NULL;
    for (struct dirent *entry; !error && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            error = visit(fd, path, entry->d_name);
    closedir(directory);
    return error;
}

static struct err *refuse_any(int fd, const char *path, const char *name)
{
    (void)fd;
    return err_new(ERR_USAGE, "trace: %s: exists and is no trace: it holds %s; choose another name", path, name);
}

static struct err *refuse_foreign(int fd, const char *path, const char *name)
{
    return trace_is_file_name(name) ? NULL : refuse_any(fd, path, name);
}

static struct err *remove_file(int fd, const char *path, const char *name)
{
    if (!trace_is_file_name(name) || !strcmp(name, "metadata") || !unlinkat(fd, name, 0) || errno == ENOENT)
        return NULL;
    return err_errno(ERR_SYSTEM, errno, "trace: %s/%s", path, name);
}

struct err *trace_directory_clear(int fd, const char *path)
{
    ERR_TRY(each_file(fd, path, remove_file));
    if (unlinkat(fd, "metadata", 0) && errno != ENOENT)
        return err_errno(ERR_SYSTEM, errno, "trace: %s/metadata", path);
    return NULL;
}

/* Whether its metadata says that we wrote it, in whatever layout. */
static bool is_ours(int fd)
{
    char text[256] = "";
    int file = openat(fd, "metadata", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    return size > 0 && !strncmp(text, "/* CTF 1.8 */", 13) && strstr(text, "\tprobity_layout = ");
}

static struct err *take_over(int fd, const char *path)
{
    struct stat status;
    if (fstat(fd, &status))
        return err_errno(ERR_SYSTEM, errno, "trace: %s", path);
    if (status.st_uid != geteuid())
        return err_new(ERR_PERMISSION, "trace: %s: belongs to another user; choose another name", path);
    ERR_TRY(each_file(fd, path, is_ours(fd) ? refuse_foreign : refuse_any));
    if (fchmod(fd, 0700))
        return err_errno(ERR_SYSTEM, errno, "trace: %s", path);
    return trace_directory_clear(fd, path);
}

struct err *trace_directory_create(const char *path, int *fd, bool *is_new)
{
    /* A link would be followed for the sake of a slash behind it. */
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    char *plain = memory_format("%.*s", (int)length, path);
    *is_new = !mkdir(plain, 0700);
    struct err *error = NULL;
    if (!*is_new && errno != EEXIST)
        error = err_errno(errno == EACCES ? ERR_PERMISSION : ERR_SYSTEM, errno, "trace: %s", path);
    *fd = error ? -1 : open(plain, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (!error && *fd < 0)
        error = errno == ENOTDIR || errno == ELOOP ? err_new(ERR_USAGE, "trace: %s: exists and is no directory; choose another name", path)
                                                   : err_errno(ERR_SYSTEM, errno, "trace: %s", path);
    free(plain);
    if (!error)
        error = take_over(*fd, path);
    if (error && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return error;
}
