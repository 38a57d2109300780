/* The bytes of a file, read page by page when asked for. A mapping of the file would be shorter, but whoever may truncate the file
 * could then kill the tracer with SIGBUS in the middle of its work. Only what is asked for is read, so a gigabyte of debug information
 * costs nothing. */
#include "symbol/internal.h"

#include "base/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 1 << 16 };                      /* unit of reading; larger than a memory page to keep `have` and the number of reads small */
static const uint64_t MAX_FILE = 64ULL << 30; /* address space only */
static const uint64_t MAX_READ = 1ULL << 30;  /* bounds time and memory when a sparse file claims to be huge */

/* Zeroed memory that costs nothing until it is touched. Sets *mapped as struct symbol_image has it. */
static uint8_t *map(uint64_t size, uint64_t *mapped)
{
#ifdef __SANITIZE_ADDRESS__
    /* A byte too far is then seen. */
    *mapped = 0;
    return memory_zero((size_t)size, 1);
#else
    void *bytes = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return NULL;
    madvise(bytes, (size_t)size, MADV_HUGEPAGE); /* fewer faults; a refusal costs only time */
    *mapped = size;
    return bytes;
#endif
}

struct err *symbol_open_path(const char *path, int *fd)
{
    *fd = regular_open(path);
    if (*fd >= 0)
        return NULL;
    int number = errno;
    enum err_code code = number == EACCES || number == EPERM     ? ERR_PERMISSION
                         : number == ENOENT || number == ENOTDIR ? ERR_NO_MATCH
                                                                 : ERR_SYSTEM;
    return err_errno(code, number, "symbol: %s", path);
}

struct err *symbol_image_init(struct symbol_image *image, int fd, const char *path)
{
    struct stat stat;
    memset(image, 0, sizeof *image);
    image->fd = -1;
    if (fstat(fd, &stat) < 0)
        return err_errno(ERR_SYSTEM, errno, "symbol: %s", path);
    if (!S_ISREG(stat.st_mode))
        return err_new(ERR_FILE, "symbol: %s: not a regular file", path);
    if (stat.st_size < (off_t)sizeof(Elf32_Ehdr))
        return err_new(ERR_FILE, "symbol: %s: not an ELF file: too short", path);
    if ((uint64_t)stat.st_size > MAX_FILE)
        return err_new(ERR_FILE, "symbol: %s: too large", path);
    image->size = (uint64_t)stat.st_size;
    image->bytes = map(image->size, &image->mapped);
    if (!image->bytes)
        return err_errno(ERR_SYSTEM, errno, "symbol: %s: no memory for %llu bytes", path, (unsigned long long)image->size);
    image->have = memory_zero((size_t)(image->size / PAGE + 1), 1);
    image->fd = fd;
    return NULL;
}

void symbol_image_init_memory(struct symbol_image *image, uint8_t *bytes, uint64_t size)
{
    memset(image, 0, sizeof *image);
    image->bytes = bytes;
    image->size = size;
    image->fd = -1;
}

void symbol_image_deinit(struct symbol_image *image)
{
    if (image->mapped)
        munmap(image->bytes, (size_t)image->mapped);
    else
        free(image->bytes);
    free(image->have);
    memset(image, 0, sizeof *image);
    image->fd = -1;
}

static bool read_pages(struct symbol_image *image, uint64_t first, uint64_t count)
{
    uint64_t offset = first * PAGE;
    uint64_t end = (first + count) * PAGE;
    if (end > image->size)
        end = image->size;
    if (end - offset > MAX_READ - image->read_size)
        return false;
    image->read_size += end - offset;
    while (offset < end) {
        ssize_t got = pread(image->fd, image->bytes + offset, (size_t)(end - offset), (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        offset += (uint64_t)got;
    }
    memset(image->have + first, 1, (size_t)count);
    return true;
}

const uint8_t *symbol_image_need(struct symbol_image *image, uint64_t offset, uint64_t size)
{
    if (offset > image->size || size > image->size - offset)
        return NULL;
    if (image->have && size) {
        uint64_t last = (offset + size - 1) / PAGE;
        for (uint64_t page = offset / PAGE; page <= last; page++) {
            if (image->have[page])
                continue;
            uint64_t count = 1;
            while (page + count <= last && !image->have[page + count])
                count++;
            if (image->fd < 0 || !read_pages(image, page, count))
                return NULL;
            page += count;
        }
    }
    return image->bytes + offset;
}
