/* Memory that is handed out keeps its size, and what is for readers can not be written by whoever has its descriptor. */
#include "test/check.h"

#include "base/sealed.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 65536 };
static void check_size(int fd)
{
    CHECK(ftruncate(fd, 0) < 0, "it is not made shorter");
    CHECK(ftruncate(fd, 2 * BYTES) < 0, "it is not made longer");
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0, "nobody seals it further");
}

static void check_readers(void)
{
    int fd;
    void *memory;
    struct err *error = sealed_create("probity-test", BYTES, SEALED_READERS, &fd, &memory);
    CHECK(!error, "memory for readers");
    volatile char *mine = memory;
    mine[0] = 'a';
    check_size(fd);
    CHECK(write(fd, "b", 1) < 0, "nobody writes it");
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0, "nobody empties it");
    CHECK(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED, "nobody maps it for writing");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR | O_CLOEXEC);
    CHECK(again < 0 || (write(again, "b", 1) < 0 && ftruncate(again, 0) < 0 &&
                        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED),
          "... nor by opening it again");
    char *theirs = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(theirs != MAP_FAILED && theirs[0] == 'a', "everybody reads it");
    CHECK(mprotect(theirs, BYTES, PROT_READ | PROT_WRITE) < 0, "a mapping does not become writable");
    CHECK(madvise(theirs, 4096, MADV_REMOVE) < 0, "... nor empty");
    mine[0] = 'c';
    CHECK(((volatile char *)theirs)[0] == 'c', "we write it");
}

static void check_writers(void)
{
    int fd;
    void *memory;
    struct err *error = sealed_create("probity-test", BYTES, SEALED_WRITERS, &fd, &memory);
    CHECK(!error, "memory for writers");
    check_size(fd);
    volatile char *theirs = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(theirs != MAP_FAILED, "everybody maps it for writing");
    theirs[BYTES - 1] = 'a';
    CHECK(((volatile char *)memory)[BYTES - 1] == 'a', "everybody writes it");
}

int main(void)
{
    check_readers();
    check_writers();
    return failures != 0;
}
