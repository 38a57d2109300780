/* A process that means harm to whoever traces it: it lies in all memory that it shares with its controller. It calls work() all the time
 * and ends with 0 when told to.
 *
 *   v_liar words SEED PLUGIN   one word after the other of that memory gets a bad value while libraries come and go, and its own back
 *   v_liar all SEED PLUGIN     all words at once, for good; prints ready when that is done
 *   v_liar thief SEED PLUGIN   takes descriptors of that memory as they pass by, and cuts, punches and writes what it got
 *   v_liar forge KIND          has memory that says it is what an earlier controller left, before anybody comes
 *
 * Prints ready when it may be attached to, and `work N` at its end. What can not be done, as it should be, is no error; what can be that
 * should not is said on stderr. */
#include "victim.h"

#include "../../src/wire/shared.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static uint32_t state;
static atomic_long calls;
static atomic_int is_over;

TRACED int work(int a)
{
    __asm__ volatile("" : : : "memory");
    return a + 1;
}

static void call_work(void)
{
    calls++;
    work(1);
}

static uint32_t next(void)
{
    return state = mix(state, 0x51ed2701u);
}

static uint64_t bad_value(void)
{
    static const uint64_t some[] = {0, 1, 8, 0xfff, 0x1000, 0x7fffffff, 0xffffffff, 0x123456789000, 1ull << 47, ~0ull};
    uint32_t which = next() % (sizeof some / sizeof *some + 3);
    if (which < sizeof some / sizeof *some)
        return some[which];
    return (uint64_t)next() << (which & 1 ? 32 : 0) | next();
}

/* ---- memory of a controller ---- */

struct mapping {
    uint64_t start, end;
    char permissions[8], name[128];
};

static int find_mappings(struct mapping *out, int room)
{
    char line[512];
    int count = 0;
    FILE *in = fopen("/proc/self/maps", "r");
    CHECK(in);
    while (count < room && fgets(line, sizeof line, in)) {
        struct mapping *m = &out[count];
        unsigned long long start, end;
        if (strstr(line, "/memfd:probity") &&
            sscanf(line, "%llx-%llx %7s %*s %*s %*s %127[^\n]", &start, &end, m->permissions, m->name) == 4) {
            m->start = start;
            m->end = end;
            count++;
        }
    }
    fclose(in);
    return count;
}

enum { MAPPINGS = 64 };
static struct mapping mapping[MAPPINGS];
static int mapping_count;

/* The journal and the live memory, and that the controller has done its first work. */
static void wait_for_controller(void)
{
    do {
        call_work();
        usleep(2000);
        mapping_count = find_mappings(mapping, MAPPINGS);
    } while (mapping_count < 1);
    for (int i = 0; i < 300; i++) {
        call_work();
        usleep(2000);
    }
    mapping_count = find_mappings(mapping, MAPPINGS);
}

/* False: it can not be written to, whatever is tried. */
static int make_writable(const struct mapping *m)
{
    void *page = (void *)(uintptr_t)m->start;
    if (strchr(m->permissions, 'w'))
        return 1;
    if (!mprotect(page, 8192, PROT_READ | PROT_WRITE)) {
        fprintf(stderr, "%s can be made writable\n", m->name);
        return 1;
    }
    uint64_t old = *(volatile uint64_t *)page, bad = ~old;
    int fd = open("/proc/self/mem", O_RDWR);
    if (fd >= 0 && pwrite(fd, &bad, sizeof bad, (off_t)m->start) > 0 && *(volatile uint64_t *)page == bad)
        fprintf(stderr, "%s can be written through /proc\n", m->name);
    if (fd >= 0)
        close(fd);
    madvise(page, 4096, MADV_REMOVE);
    if (*(volatile uint64_t *)page != old)
        fprintf(stderr, "%s can be emptied\n", m->name);
    return 0;
}

static void make_events(const char *plugin)
{
    void *handle = dlopen(plugin, RTLD_NOW);
    call_work();
    if (handle)
        dlclose(handle);
}

static void lie_by_words(const char *plugin, int most)
{
    enum { FIRST = 24 };
    for (int i = 0; i < mapping_count; i++) {
        volatile uint64_t *word = (void *)(uintptr_t)mapping[i].start;
        if (!make_writable(&mapping[i]))
            continue;
        for (int k = 0; k < most; k++) {
            uint32_t at = k < FIRST ? (uint32_t)k : next() % 1024; /* the headers, in full where they matter most */
            uint64_t old = word[at];
            word[at] = bad_value();
            make_events(plugin);
            usleep(500);
            word[at] = old;
        }
    }
}

static void lie_in_all(const char *plugin)
{
    for (int i = 0; i < mapping_count; i++) {
        volatile uint64_t *word = (void *)(uintptr_t)mapping[i].start;
        uint64_t words = (mapping[i].end - mapping[i].start) / 8;
        for (uint64_t at = 0; make_writable(&mapping[i]) && at < 2048 && at < words; at++)
            word[at] = bad_value();
    }
    make_events(plugin);
}

/* ---- descriptors ---- */

static int stolen[64];
static atomic_int stolen_count;

static void *steal(void *unused)
{
    (void)unused;
    while (!is_over)
        for (int fd = 3; fd < 20 && stolen_count < 64; fd++) {
            char path[32], target[64] = "";
            snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
            if (readlink(path, target, sizeof target - 1) <= 0 || strncmp(target, "/memfd:probity", 14))
                continue;
            int copy = fcntl(fd, F_DUPFD, 100);
            if (copy >= 0)
                stolen[stolen_count++] = copy;
        }
    return NULL;
}

static void misuse(int fd)
{
    uint64_t bad = bad_value();
    off_t size = lseek(fd, 0, SEEK_END);
    char path[32], name[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    (void)!readlink(path, name, sizeof name - 1);
    if (!ftruncate(fd, next() % 2 ? 0 : 4096))
        fprintf(stderr, "%s can be made shorter\n", name);
    if (!ftruncate(fd, size * 2 + 4096))
        fprintf(stderr, "%s can be made longer\n", name);
    (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size > 0 ? size : 4096);
    (void)!pwrite(fd, &bad, sizeof bad, next() % 64 * 8);
    int again = open(path, O_RDWR);
    void *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, again >= 0 ? again : fd, 0);
    for (int i = 0; memory != MAP_FAILED && i < 1024; i++)
        ((volatile uint64_t *)memory)[i] = bad_value();
    if (again >= 0)
        close(again);
}

/* ---- what nobody left ---- */

static uint64_t start_ticks(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *in = fopen(path, "r");
    size_t got = in ? fread(text, 1, sizeof text - 1, in) : 0;
    text[got] = 0;
    if (in)
        fclose(in);
    const char *at = strrchr(text, ')');
    unsigned long long ticks = 0;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, "%llu", &ticks) == 1 ? ticks : 0;
}

/* A journal in shared memory, which is mapped as a controller's is unless told otherwise. Returns where it can be written. */
static struct wire_shared *forge(const char *name, uint64_t bytes, int is_writable, off_t offset)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    CHECK(fd >= 0 && !ftruncate(fd, (off_t)bytes + offset));
    struct wire_shared *head = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, offset);
    void *shown = mmap(NULL, bytes, PROT_READ | (is_writable ? PROT_WRITE : 0), MAP_SHARED | MAP_NORESERVE, fd, offset);
    CHECK(head != MAP_FAILED && shown != MAP_FAILED);
    *head = (struct wire_shared){.magic = WIRE_SHARED_MAGIC,
                                 .owner_pid = 1,
                                 .width = sizeof(void *) * 8,
                                 .shared_va = (uintptr_t)shown,
                                 .shared_bytes = bytes,
                                 .regions_offset = 8192,
                                 .sites_offset = 16384,
                                 .pcs_offset = 65536,
                                 .region_room = 128,
                                 .site_room = 1024,
                                 .pc_room = 1024};
    return head;
}

#define TABLE(head, type, offset) ((struct type *)((char *)(head) + (offset)))

static void forge_tables(struct wire_shared *head)
{
    uint64_t code = (uint64_t)(uintptr_t)&work & ~4095ull;
    void *anonymous = mmap(NULL, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct wire_region *region = TABLE(head, wire_region, head->regions_offset);
    struct wire_site *site = TABLE(head, wire_site, head->sites_offset);
    struct wire_pc *pc = TABLE(head, wire_pc, head->pcs_offset);
    head->region_count = head->region_room = 3;
    region[0] = (struct wire_region){code, 4096};
    region[1] = (struct wire_region){(uintptr_t)anonymous, 1 << 20};
    region[2] = (struct wire_region){~0xfffull, 0x2000};
    head->site_count = 1000;
    for (int i = 0; i < 1000; i++) {
        site[i] = (struct wire_site){.va = next() % 2 ? code + next() % 4096 : bad_value(),
                                     .trampoline_va = next() % 2 ? code : (uintptr_t)anonymous + next() % 4096,
                                     .length = (uint8_t)next(),
                                     .extent = (uint8_t)next()};
        memcpy(site[i].patched, (const void *)(uintptr_t)&work, 8);
    }
    head->pc_count = 1000;
    for (int i = 0; i < 1000; i++)
        pc[i] = (struct wire_pc){next() % 2 ? code + next() % 4096 : bad_value(), bad_value(), (uint16_t)(next() % 7), (uint16_t)next(),
                                 next()};
}

static void forge_kind(int kind)
{
    const uint64_t large = sizeof(void *) == 8 ? 16ull << 30 : 64ull << 20;
    char name[32];
    struct wire_shared *head;
    state = (uint32_t)kind + 77;
    switch (kind) {
    case 0: /* any content, of many names */
        for (int i = 0; i < 6; i++) {
            snprintf(name, sizeof name, i % 2 ? "probity-%d-%x" : "probity_session-%d", i + 1, i);
            head = forge(name, 1 << 20, i == 3, i == 4 ? 4096 : 0);
            for (int k = 0; k < 1 << 17; k++)
                ((uint64_t *)head)[k] = bad_value();
        }
        break;
    case 1: /* counts that nobody has memory for */
        head = forge("probity-1-1", 1 << 20, 0, 0);
        head->region_count = head->site_count = head->pc_count = head->region_room = head->site_room = head->pc_room = 0xffffffff;
        head->shared_bytes = ~0ull;
        break;
    case 2: /* ... and that there is memory for */
        head = forge("probity-1-1", large, 0, 0);
        head->region_count = head->region_room = 4096;
        head->pc_count = head->pc_room = head->site_count = head->site_room = sizeof(void *) == 8 ? 100u << 20 : 1u << 20;
        break;
    case 3: /* tables of nonsense */
        head = forge("probity-999999-1", 1 << 20, 0, 0);
        forge_tables(head);
        head->region_count = 2;
        break;
    case 4: /* that a process of the machine's is the owner */
        head = forge("probity-1-1", 1 << 20, 0, 0);
        head->owner_start_ticks = start_ticks(1);
        break;
    case 5: /* offsets that wrap */
        head = forge("probity-1-1", 1 << 20, 0, 0);
        head->regions_offset = head->sites_offset = head->pcs_offset = ~0ull - 64;
        head->region_count = head->site_count = head->pc_count = 100;
        break;
    case 6: /* memory that is shorter than it was when it was mapped */
        head = forge("probity-1-1", 1 << 20, 0, 0);
        forge_tables(head);
        CHECK(!munmap(head, 1 << 20));
        mapping_count = find_mappings(mapping, MAPPINGS);
        int fd = memfd_create("probity-2-2", MFD_CLOEXEC);
        CHECK(fd >= 0 && !ftruncate(fd, 1 << 20));
        CHECK(mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED && !ftruncate(fd, 0));
        break;
    case 7: /* regions that overlap and wrap */
        head = forge("probity-999999-1", 1 << 20, 0, 0);
        forge_tables(head);
        break;
    case 8: /* more of them than there ever are */
        for (int i = 0; i < 40; i++) {
            snprintf(name, sizeof name, "probity-%d-1", 900000 + i);
            forge_tables(forge(name, 1 << 20, 0, 0));
        }
        break;
    default: /* as an older version's, at any address */
        head = forge("probity-1-1", 1 << 20, 1, 0);
        head->magic = 0x32797469626f7270ull;
        head->shared_va = 0x1000;
    }
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    const char *mode = argv[1], *plugin = argc > 3 ? argv[3] : "";
    pthread_t thief;
    int is_thief = !strcmp(mode, "thief");
    state = (uint32_t)atoi(argv[2]) * 2654435761u + 1;
    fcntl(0, F_SETFL, O_NONBLOCK);
    if (!strcmp(mode, "forge"))
        forge_kind(atoi(argv[2]));
    if (is_thief)
        CHECK(!pthread_create(&thief, NULL, steal, NULL));
    puts("ready");
    fflush(stdout);
    if (strcmp(mode, "forge")) {
        wait_for_controller();
        if (!strcmp(mode, "words"))
            lie_by_words(plugin, argc > 4 ? atoi(argv[4]) : 32);
        else if (!strcmp(mode, "all"))
            lie_in_all(plugin);
        for (int i = 0; i < stolen_count; i++)
            misuse(stolen[i]);
        for (int i = 0; is_thief && i < 20; i++)
            make_events(plugin);
        printf("stolen %d\nready\n", stolen_count);
        fflush(stdout);
    }
    char byte;
    while (read(0, &byte, 1) < 0) {
        call_work();
        usleep(1000);
    }
    is_over = 1;
    if (is_thief)
        pthread_join(thief, NULL);
    printf("work %ld\n", (long)calls);
    return 0;
}
