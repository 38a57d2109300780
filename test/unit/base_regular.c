/* What somebody else has named is opened only when it is a regular file. */
#include "test/check.h"

#include "base/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* It can be looked at, and is not open. */
static void check_place(const char *path, mode_t kind, const char *what)
{
    struct stat status;
    char byte;
    int fd = regular_open(path);
    CHECK(fd >= 0 && fcntl(fd, F_GETFL) & O_PATH, "%s", what);
    CHECK(!fstat(fd, &status) && (status.st_mode & S_IFMT) == kind, "%s", what);
    CHECK(read(fd, &byte, 1) < 0 && errno == EBADF, "%s", what);
    close(fd);
}

int main(void)
{
    char folder[] = "/tmp/regular.XXXXXX", byte;
    CHECK(mkdtemp(folder) && !chdir(folder), "a folder");
    int fd = open("file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1 && !close(fd), "a file");
    CHECK(!mkfifo("fifo", 0600) && !symlink("/dev/null", "device") && !symlink("file", "link"), "others");

    fd = regular_open("link");
    CHECK(fd >= 0 && read(fd, &byte, 1) == 1 && byte == 'x', "a regular file is read, also through a link");
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC, "no child gets it");
    close(fd);
    check_place("fifo", S_IFIFO, "a FIFO");
    check_place("device", S_IFCHR, "a device, through a link");
    check_place(".", S_IFDIR, "a folder");
    CHECK(regular_open("none") < 0 && errno == ENOENT, "what is not there");
    CHECK(!chmod("file", 0) && (!geteuid() || (regular_open("file") < 0 && errno == EACCES)), "what may not be read");

    const char *made[] = {"file", "fifo", "device", "link"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        unlink(made[i]);
    rmdir(folder);
    return failures != 0;
}
