/* Two libraries take turns at one address, until a line comes on stdin or for so many turns. All their functions are called each time, and
 * what they answer is checked.
 *   v_turns [-w] [-n TURNS] [hand | replace | space] [-t THREADS]
 * By the loader; or mapped by hand, one over the other; or as one file that is replaced by another between its uses; or each in a
 * namespace of its own. With threads each of them does it, and the loader puts the libraries where there is room. */
#include "victim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIRST = 100, FUNCTIONS = 200, PAGE = 4096 };
typedef uint32_t turn_fn(uint32_t);

static char path[2][PATH_MAX + 32];
static long limit;
static int by_hand, replaces, in_space;
static volatile int ends;

static uint32_t expected(int which, uint32_t x, uint32_t n)
{
    return which ? (x ^ 0x5a5a5a5au) - (x << 4) + n * 7 : x * 3 + n;
}

static void call_all(int which, turn_fn *const function[FUNCTIONS])
{
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < FUNCTIONS; i++)
            CHECK(function[i](round) == expected(which, round, FIRST + i));
}

static int is_over(long turn)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    if (limit)
        return turn >= limit;
    if (turn % 16 == 0 && poll(&in, 1, 0) > 0)
        ends = 1;
    return ends;
}

static void find_all(void *library, turn_fn *function[FUNCTIONS])
{
    for (int i = 0; i < FUNCTIONS; i++) {
        char name[16];
        snprintf(name, sizeof name, "turn_%d", FIRST + i);
        function[i] = (turn_fn *)dlsym(library, name);
        CHECK(function[i]);
    }
}

/* ---- by the loader ---- */

static void copy_over(int which, const char *place)
{
    char other[PATH_MAX + 48], bytes[65536];
    snprintf(other, sizeof other, "%s.new", place);
    int from = open(path[which], O_RDONLY), to = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    CHECK(from >= 0 && to >= 0);
    for (ssize_t got; (got = read(from, bytes, sizeof bytes)) > 0;)
        CHECK(write(to, bytes, (size_t)got) == got);
    CHECK(!close(from) && !close(to) && !rename(other, place));
}

static long turn_by_loader(void)
{
    turn_fn *function[FUNCTIONS];
    char place[64];
    long turn = 0;
    snprintf(place, sizeof place, "/tmp/libv_turn_%d.so", (int)getpid());
    for (; !is_over(turn); turn++) {
        int which = turn & 1;
        if (replaces)
            copy_over(which, place);
        const char *name = replaces ? place : path[which];
        void *library = in_space ? dlmopen(LM_ID_NEWLM, name, RTLD_NOW) : dlopen(name, RTLD_NOW);
        if (!library)
            fprintf(stderr, "%s\n", dlerror());
        CHECK(library);
        find_all(library, function);
        call_all(which, function);
        CHECK(!dlclose(library));
    }
    if (replaces)
        unlink(place);
    return turn;
}

static void *turn_in_thread(void *turns)
{
    *(long *)turns = turn_by_loader();
    return NULL;
}

/* ---- by hand ---- */

struct layout {
    int fd;
    size_t count, bytes;
    ElfW(Phdr) load[8];
    uintptr_t offset[FUNCTIONS];
};

static int note_layout(struct dl_phdr_info *info, size_t size, void *context)
{
    struct layout *layout = context;
    (void)size;
    if (!strstr(info->dlpi_name, "libv_turn_"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && !(info->dlpi_phdr[i].p_flags & PF_W)) {
            layout->load[layout->count++] = info->dlpi_phdr[i];
            layout->bytes = (info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz + PAGE - 1) / PAGE * PAGE;
        }
    return 1;
}

static void read_layout(int which, struct layout *layout)
{
    turn_fn *function[FUNCTIONS];
    struct link_map *map;
    void *library = dlopen(path[which], RTLD_NOW);
    CHECK(library && !dlinfo(library, RTLD_DI_LINKMAP, &map));
    find_all(library, function);
    for (int i = 0; i < FUNCTIONS; i++)
        layout->offset[i] = (uintptr_t)function[i] - map->l_addr;
    CHECK(dl_iterate_phdr(note_layout, layout) && !dlclose(library));
    layout->fd = open(path[which], O_RDONLY);
    CHECK(layout->fd >= 0);
}

static long turn_by_hand(void)
{
    static struct layout layout[2];
    turn_fn *function[FUNCTIONS];
    long turn = 0;
    read_layout(0, &layout[0]);
    read_layout(1, &layout[1]);
    size_t bytes = layout[0].bytes > layout[1].bytes ? layout[0].bytes : layout[1].bytes;
    char *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    for (; !is_over(turn); turn++) {
        const struct layout *here = &layout[turn & 1];
        for (size_t i = 0; i < here->count; i++) {
            uintptr_t va = here->load[i].p_vaddr / PAGE * PAGE, skipped = here->load[i].p_vaddr - va;
            int protection = here->load[i].p_flags & PF_X ? PROT_READ | PROT_EXEC : PROT_READ;
            CHECK(mmap(at + va, here->load[i].p_filesz + skipped, protection, MAP_PRIVATE | MAP_FIXED, here->fd,
                       (off_t)(here->load[i].p_offset - skipped)) == at + va);
        }
        for (int i = 0; i < FUNCTIONS; i++)
            function[i] = (turn_fn *)(uintptr_t)(at + here->offset[i]);
        call_all(turn & 1, function);
    }
    return turn;
}

int main(int argc, char **argv)
{
    long threads = victim_option(argc, argv, "-t", 0), turns[16] = {0}, sum = 0;
    char self[PATH_MAX] = "";
    pthread_t thread[16];
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0 && threads <= 16);
    const char *folder = dirname(self);
    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof path[i], "%s/libv_turn_%c.so", folder, 'a' + i);
    limit = victim_option(argc, argv, "-n", 0);
    by_hand = victim_flag(argc, argv, "hand");
    replaces = victim_flag(argc, argv, "replace");
    in_space = victim_flag(argc, argv, "space");
    if (victim_flag(argc, argv, "-w"))
        victim_wait();
    else
        puts("ready"), fflush(stdout);
    for (long i = 0; i < threads; i++)
        CHECK(!pthread_create(&thread[i], NULL, turn_in_thread, &turns[i]));
    for (long i = 0; i < threads; i++)
        CHECK(!pthread_join(thread[i], NULL));
    turns[0] = threads ? turns[0] : by_hand ? turn_by_hand() : turn_by_loader();
    for (int i = 0; i < 16; i++)
        sum += turns[i];
    fprintf(stderr, "turns %ld\n", sum);
    puts("ok");
    fflush(stdout);
    if (victim_flag(argc, argv, "-w"))
        victim_wait();
    return 0;
}
