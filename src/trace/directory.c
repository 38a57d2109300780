#include "trace/layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
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

/* Metadata goes last. */
static struct err *clear(int fd, const char *path)
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

/* What is there may be replaced: it is ours, and a trace or nothing. */
static struct err *check(int fd, const char *path)
{
    struct stat status;
    if (fstat(fd, &status))
        return err_errno(ERR_SYSTEM, errno, "trace: %s", path);
    if (status.st_uid != geteuid())
        return err_new(ERR_PERMISSION, "trace: %s: belongs to another user; choose another name", path);
    return each_file(fd, path, is_ours(fd) ? refuse_foreign : refuse_any);
}

/* *fd: -1 when there is nothing of the name. */
static struct err *open_there(const char *plain, const char *path, int *fd)
{
    *fd = open(plain, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT)
        return NULL;
    if (*fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return err_new(ERR_USAGE, "trace: %s: exists and is no directory; choose another name", path);
    if (*fd < 0)
        return err_errno(errno == EACCES ? ERR_PERMISSION : ERR_SYSTEM, errno, "trace: %s", path);
    struct err *error = check(*fd, path);
    if (error) {
        close(*fd);
        *fd = -1;
    }
    return error;
}

/* A directory of our own beside the one that is wanted. False: there can be none, errno says why. */
static bool make_beside(struct trace_directory *directory, int there)
{
    const char *slash = strrchr(directory->plain, '/');
    unsigned long long number;
    do {
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            return false;
        free(directory->beside);
        directory->beside =
            memory_format("%.*s.probity-%016llx", slash ? (int)(slash - directory->plain) + 1 : 0, directory->plain, number);
        if (!mkdir(directory->beside, 0700)) {
            directory->fd = open(directory->beside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            struct stat made, old;
            /* A directory that something is mounted on can not be replaced. */
            bool fits = directory->fd >= 0 && !fstat(directory->fd, &made) && made.st_uid == geteuid() &&
                        (there < 0 || (!fstat(there, &old) && old.st_dev == made.st_dev));
            if (fits)
                return true;
            errno = EXDEV;
            rmdir(directory->beside);
            if (directory->fd >= 0)
                close(directory->fd);
            directory->fd = -1;
            return false;
        }
    } while (errno == EEXIST);
    return false;
}

struct err *trace_directory_create(const char *path, struct trace_directory *directory)
{
    /* A link would be followed for the sake of a slash behind it. */
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    int there;
    *directory = (struct trace_directory){.plain = memory_format("%.*s", (int)length, path), .path = path, .fd = -1};
    ERR_TRY(open_there(directory->plain, path, &there));
    directory->is_new = there < 0;
    if (make_beside(directory, there)) {
        if (there >= 0)
            close(there);
        return NULL;
    }
    int number = errno;
    free(directory->beside);
    directory->beside = NULL;
    if (there < 0)
        return err_errno(number == EACCES ? ERR_PERMISSION : ERR_SYSTEM, number, "trace: %s", path);
    directory->fd = there;
    if (fchmod(there, 0700))
        return err_errno(ERR_SYSTEM, errno, "trace: %s", path);
    return clear(there, path);
}

struct err *trace_directory_publish(struct trace_directory *directory)
{
    if (!directory->beside)
        return NULL;
    int there;
    ERR_TRY(open_there(directory->plain, directory->path, &there));
    struct err *error = there >= 0 ? clear(there, directory->path) : NULL;
    if (there >= 0)
        close(there);
    if (!error && rename(directory->beside, directory->plain))
        error = err_errno(ERR_SYSTEM, errno, "trace: %s", directory->path);
    if (error)
        return error;
    free(directory->beside);
    directory->beside = NULL;
    return NULL;
}

void trace_directory_discard(struct trace_directory *directory)
{
    if (directory->fd >= 0)
        err_free(clear(directory->fd, directory->path));
    bool goes = directory->fd >= 0 && (directory->beside || directory->is_new);
    if (goes && rmdir(directory->beside ? directory->beside : directory->plain)) {
        /* Somebody put something there: it stays. */
    }
}

void trace_directory_deinit(struct trace_directory *directory)
{
    if (directory->fd >= 0)
        close(directory->fd);
    free(directory->beside);
    free(directory->plain);
}
