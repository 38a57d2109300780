#include "base/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int regular_open(const char *path)
{
    struct stat status;
    char again[32];
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0 || fstat(place, &status) || !S_ISREG(status.st_mode))
        return place;
    snprintf(again, sizeof again, "/proc/self/fd/%d", place);
    int fd = open(again, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error = errno;
    close(place);
    errno = error;
    return fd;
}

size_t regular_path_length(const char *shown)
{
    static const char deleted[] = " (deleted)";
    size_t length = strlen(shown), end = sizeof deleted - 1;
    return length > end && !strcmp(shown + length - end, deleted) ? length - end : length;
}

bool regular_is_deleted(const char *shown)
{
    return regular_path_length(shown) != strlen(shown);
}
