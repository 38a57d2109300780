#include "base/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A descriptor that can not be written through, of a file that nobody but its owner may open again. */
static int for_readers(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int reader = fchmod(fd, S_IRUSR) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    int error = errno;
    close(fd);
    errno = error;
    return reader;
}

struct err *sealed_create(const char *name, uint64_t bytes, enum sealed_for whom, int *fd, void **memory)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (whom == SEALED_READERS ? F_SEAL_FUTURE_WRITE : 0);
    *memory = NULL;
    *fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0 || ftruncate(*fd, (off_t)bytes))
        goto failed;
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
    if (mapped == MAP_FAILED)
        goto failed;
    *memory = mapped;
    if (fcntl(*fd, F_ADD_SEALS, seals))
        goto failed;
    if (whom == SEALED_READERS && (*fd = for_readers(*fd)) < 0)
        goto failed;
    return NULL;
failed:;
    struct err *error = err_errno(ERR_SYSTEM, errno, "memory for %s: %llu bytes", name, (unsigned long long)bytes);
    if (*memory)
        munmap(*memory, bytes);
    if (*fd >= 0)
        close(*fd);
    *memory = NULL;
    *fd = -1;
    return error;
}
