/* Loads a copy of a library that has no name any more, and calls a function of it.
 *   v_deleted LIBRARY memfd|memfd-kept|PATH [-n CALLS]
 * The copy is in memory (memfd), whose descriptor may be kept, or at PATH, which is deleted. CALLS calls follow each line of stdin but the
 * last. */
#include "victim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static int copy_to(int from, int to)
{
    char buffer[4096];
    ssize_t got;
    while ((got = read(from, buffer, sizeof buffer)) > 0)
        if (write(to, buffer, (size_t)got) != got)
            return 0;
    return got == 0;
}

int main(int argc, char **argv)
{
    long calls = victim_option(argc, argv, "-n", 1000);
    uint64_t counts[3] = {0};
    char path[64];
    CHECK(argc > 2);
    int in_memory = !strncmp(argv[2], "memfd", 5);
    int from = open(argv[1], O_RDONLY), to = in_memory ? memfd_create("code", 0) : open(argv[2], O_CREAT | O_RDWR | O_TRUNC, 0755);
    CHECK(from >= 0 && to >= 0 && copy_to(from, to));
    snprintf(path, sizeof path, "/proc/self/fd/%d", to);
    void *plugin = dlopen(in_memory ? path : argv[2], RTLD_NOW);
    CHECK(plugin);
    close(from);
    if (strcmp(argv[2], "memfd-kept"))
        close(to);
    if (!in_memory)
        unlink(argv[2]);
    void (*start)(uint64_t *) = (void (*)(uint64_t *))dlsym(plugin, "plugin_start");
    uint32_t (*work)(uint32_t) = (uint32_t(*)(uint32_t))dlsym(plugin, "plugin_work");
    CHECK(start && work);
    start(counts);
    while (victim_wait(), !feof(stdin))
        for (long i = 0; i < calls; i++)
            work((uint32_t)i);
    return 0;
}
