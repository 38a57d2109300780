#include "base/output.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

enum { LINKS_MOST = 40, NAME_ROOM = 40 };

struct output {
    char *path; /* as it was given, for messages */
    int fd;
    FILE *file;          /* of a copy of fd: closing it tells of errors, and what fd is can still be given its name */
    int directory;       /* of the name */
    char name[PATH_MAX]; /* in it */
    char own[NAME_ROOM]; /* what the file is called until it is published; "": nothing, it is a file without a name */
    bool is_unpublished;
};

static struct err *failed(const struct output *output, int number)
{
    bool is_denied = number == EACCES || number == EPERM || number == EROFS;
    return err_errno(is_denied ? ERR_PERMISSION : ERR_SYSTEM, number, "%s", output->path);
}

static bool is_foreign(const struct stat *status)
{
    return status->st_uid != geteuid() && status->st_uid != 0;
}

/* Opens what a descriptor of O_PATH stands for. */
static int reopen(int fd, int flags)
{
    char text[64];
    snprintf(text, sizeof text, "/proc/self/fd/%d", fd);
    return open(text, flags | O_CLOEXEC | O_NOCTTY);
}

/* Goes to the directory of a path that is relative to output->directory. */
static struct err *enter(struct output *output, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
        return failed(output, *path ? EISDIR : ENOENT);
    char *folder = memory_format("%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    int directory = openat(output->directory, folder, O_PATH | O_DIRECTORY | O_CLOEXEC), number = errno;
    free(folder);
    if (directory < 0)
        return failed(output, number);
    if (output->directory >= 0)
        close(output->directory);
    output->directory = directory;
    snprintf(output->name, sizeof output->name, "%s", name);
    return NULL;
}

/* ---- what has the name ---- */

/* The kernel's links to open files (/dev/stdout leads to one) lead where no path does; what they lead to is added to, never cut. */
static bool is_of_proc(int directory)
{
    struct statfs status;
    return !fstatfs(directory, &status) && status.f_type == PROC_SUPER_MAGIC;
}

static struct err *open_proc(struct output *output, int *fd)
{
    *fd = openat(output->directory, output->name, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    return *fd < 0 ? failed(output, errno) : NULL;
}

static struct err *follow(struct output *output, int link, const struct stat *status)
{
    char to[PATH_MAX];
    if (is_foreign(status))
        return err_new(ERR_PERMISSION, "%s: is a link of another user's, which is not followed; choose another name", output->path);
    ssize_t length = readlinkat(link, "", to, sizeof to - 1);
    if (length < 0)
        return failed(output, errno);
    to[length] = 0;
    return enter(output, to);
}

/* The own file itself, where the directory takes no other. */
static struct err *open_in_place(struct output *output, int found, const struct stat *status, int number, int *fd)
{
    if (!S_ISREG(status->st_mode) || status->st_uid != geteuid() || status->st_nlink != 1)
        return failed(output, number);
    *fd = reopen(found, O_WRONLY | O_TRUNC);
    return *fd < 0 ? failed(output, errno) : NULL;
}

static struct err *choose_own(struct output *output)
{
    unsigned long long number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return failed(output, errno);
    snprintf(output->own, sizeof output->own, ".probity-%016llx", number);
    return NULL;
}

/* Where the file system knows no files without a name. */
static struct err *make_named(struct output *output, int *fd)
{
    do {
        ERR_TRY(choose_own(output));
        *fd = openat(output->directory, output->own, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    } while (*fd < 0 && errno == EEXIST);
    if (*fd < 0)
        output->own[0] = 0;
    return NULL;
}

/* A file of our own in the directory, in the place of `found`, which is -1 if nothing has the name. */
static struct err *make(struct output *output, int found, const struct stat *status, int *fd)
{
    *fd = openat(output->directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (*fd < 0)
        ERR_TRY(make_named(output, fd));
    if (*fd < 0)
        return found < 0 ? failed(output, errno) : open_in_place(output, found, status, errno, fd);
    output->is_unpublished = true;
    if (found >= 0 && status->st_uid == geteuid() && fchmod(*fd, status->st_mode & 0777))
        return failed(output, errno);
    return NULL;
}

/* What was looked at as `found`, or the file that will be in its place. *fd: -1 to go on with another name. */
static struct err *open_found(struct output *output, int found, int *fd)
{
    struct stat status;
    if (fstat(found, &status))
        return failed(output, errno);
    if (S_ISLNK(status.st_mode))
        return is_of_proc(output->directory) ? open_proc(output, fd) : follow(output, found, &status);
    if (S_ISREG(status.st_mode) && !is_of_proc(output->directory))
        return make(output, found, &status, fd);
    if (S_ISDIR(status.st_mode))
        return failed(output, EISDIR);
    if (S_ISFIFO(status.st_mode) && is_foreign(&status))
        return err_new(ERR_PERMISSION, "%s: is a pipe of another user's; choose another name", output->path);
    *fd = reopen(found, O_WRONLY);
    return *fd < 0 ? failed(output, errno) : NULL;
}

static struct err *open_name(struct output *output, int *fd)
{
    *fd = -1;
    ERR_TRY(enter(output, output->path));
    for (int i = 0; i < LINKS_MOST; i++) {
        int found = openat(output->directory, output->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (found < 0)
            return errno == ENOENT ? make(output, -1, NULL, fd) : failed(output, errno);
        struct err *error = open_found(output, found, fd);
        close(found);
        if (error || *fd >= 0)
            return error;
    }
    return failed(output, ELOOP);
}

/* ---- life ---- */

struct err *output_open(const char *path, struct output **out)
{
    struct output *output = memory_zero(1, sizeof *output);
    output->path = memory_text(path);
    output->directory = AT_FDCWD;
    struct err *error = open_name(output, &output->fd);
    int copy = error ? -1 : fcntl(output->fd, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0)
        output->file = fdopen(copy, "w");
    if (!error && !output->file)
        error = failed(output, errno);
    if (error)
        output_discard(output);
    *out = error ? NULL : output;
    return error;
}

FILE *output_file(struct output *output)
{
    return output->file;
}

/* Gives the file a name that nobody has, from which it can be moved to the one that is wanted. */
static struct err *name_own(struct output *output)
{
    char unnamed[64];
    snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", output->fd);
    do {
        ERR_TRY(choose_own(output));
        if (!linkat(AT_FDCWD, unnamed, output->directory, output->own, AT_SYMLINK_FOLLOW))
            return NULL;
    } while (errno == EEXIST);
    output->own[0] = 0;
    return failed(output, errno);
}

struct err *output_publish(struct output *output)
{
    if (!output->is_unpublished)
        return NULL;
    if (!output->own[0])
        ERR_TRY(name_own(output));
    if (renameat(output->directory, output->own, output->directory, output->name))
        return failed(output, errno);
    output->is_unpublished = false;
    return NULL;
}

void output_discard(struct output *output)
{
    if (!output)
        return;
    if (output->file)
        fclose(output->file);
    if (output->is_unpublished && output->own[0])
        unlinkat(output->directory, output->own, 0);
    if (output->fd >= 0)
        close(output->fd);
    if (output->directory >= 0)
        close(output->directory);
    free(output->path);
    free(output);
}

struct err *output_close(struct output *output)
{
    errno = 0;
    bool is_bad = fflush(output->file) || ferror(output->file);
    int number = errno;
    errno = 0;
    if (fclose(output->file) && !is_bad) {
        is_bad = true;
        number = errno;
    }
    output->file = NULL;
    struct err *error = NULL;
    if (is_bad && !output_is_deserted(output->fd, number))
        error = output_unwritten(output->path, number);
    else
        error = output_publish(output);
    output_discard(output);
    return error;
}

bool output_is_deserted(int fd, int number)
{
    struct pollfd out = {.fd = fd};
    return number == EPIPE || (poll(&out, 1, 0) == 1 && out.revents & POLLERR);
}

struct err *output_unwritten(const char *name, int number)
{
    return number ? err_errno(ERR_SYSTEM, number, "%s: write", name)
                  : err_new(ERR_SYSTEM, "%s: not all could be written; is the disk full?", name);
}
