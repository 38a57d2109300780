/* A program that turns on whoever traces it. As soon as it finds memory in its address space that it has not mapped itself, it does there
 * what it is told to, again and again, chosen by a random generator with a seed, until its time is over or it dies of it. v_hostile MODE
 * SEED MILLISECONDS `v_hostile list` prints the modes. */
#include "victim.h"

#include "wire/session.h"
#include "wire/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- what is traced ---- */

TRACED uint32_t hostile_work(uint32_t a, const char *text);
uint32_t hostile_work(uint32_t a, const char *text)
{
    return mix(a, (uint32_t)text[a % 8]);
}

TRACED uint32_t hostile_outer(uint32_t a, const char *text);
uint32_t hostile_outer(uint32_t a, const char *text)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 10; i++)
        sum += hostile_work(a + i, text);
    return sum;
}

/* Code of a file with this symbol has its clauses on stacks of ours. */
#ifdef SMALL_STACKS
TRACED void __morestack(void);
void __morestack(void)
{
}
#endif

static volatile uint32_t result;

static void work(unsigned times)
{
    static const char text[] = "hostile\033[31m\n%s%n";
    for (unsigned i = 0; i < times; i++)
        result = hostile_outer(i + result, text);
}

/* ---- chance ---- */

static _Thread_local uint64_t chance;

static uint64_t any(void)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    return chance ^= chance << 17;
}

static uint64_t below(uint64_t limit)
{
    return limit ? any() % limit : 0;
}

/* Numbers that lead somewhere wrong more often than others do. */
static uint64_t odd_number(void)
{
    switch (below(8)) {
    case 0:
        return any();
    case 1:
        return UINT64_MAX - below(16);
    case 2:
        return (uint32_t)any();
    case 3:
        return 1ull << below(64);
    case 4:
        return below(1 << 16);
    case 5:
        return below(4096) * 8;
    case 6:
        return below(4);
    default:
        return any() << below(64) >> below(64);
    }
}

/* ---- time ---- */

static uint64_t start_ms, length_ms;

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool is_over(void)
{
    return now_ms() - start_ms >= length_ms;
}

static void rest_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* ---- what is mapped ---- */

struct range {
    uintptr_t start, end;
    bool writable, shared, session, journal;
};
enum { RANGES_MOST = 512 };
static struct range own[RANGES_MOST], foreign[RANGES_MOST];
static int own_count, foreign_count;

static bool is_own(const struct range *range)
{
    for (int i = 0; i < own_count; i++)
        if (range->start < own[i].end && own[i].start < range->end)
            return true;
    return false;
}

/* Without the library's streams, whose memory may be gone, and without any memory of its own. */
static int read_ranges(struct range *out, bool only_foreign)
{
    static char text[256 << 10];
    int fd = open("/proc/self/maps", O_RDONLY), count = 0;
    size_t length = 0;
    ssize_t n;
    while (fd >= 0 && length < sizeof text - 1 && (n = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)n;
    close(fd);
    text[length] = 0;
    for (char *line = text, *next; *line && count < RANGES_MOST; line = next) {
        char permissions[8] = "";
        unsigned long start, end;
        next = strchr(line, '\n');
        if (!next)
            break;
        *next++ = 0;
        if (sscanf(line, "%lx-%lx %7s", &start, &end, permissions) != 3 || strstr(line, "[stack") || strstr(line, "[heap") ||
            strstr(line, "[v"))
            continue;
        struct range range = {.start = start,
                              .end = end,
                              .writable = permissions[1] == 'w',
                              .shared = permissions[3] == 's',
                              .session = strstr(line, "memfd:" WIRE_SESSION_NAME) != NULL,
                              .journal = strstr(line, "memfd:probity") && !strstr(line, WIRE_SESSION_NAME)};
        if (!only_foreign || (!is_own(&range) && (range.shared || range.writable || strchr(permissions, 'x'))))
            out[count++] = range;
    }
    return count;
}

/* Somebody is here. */
static bool find_foreign(void)
{
    foreign_count = read_ranges(foreign, true);
    return foreign_count >= 2;
}

static const struct range *choose(bool session, bool journal)
{
    int first = foreign_count ? (int)below((uint64_t)foreign_count) : 0;
    for (int i = 0; i < foreign_count; i++) {
        const struct range *range = &foreign[(first + i) % foreign_count];
        if (range->writable && range->shared && (session || !range->session) && (journal || !range->journal))
            return range;
    }
    return NULL;
}

/* ---- what is done to shared memory ---- */

/* A word of it: of its beginning as often as anywhere. */
static void write_word(const struct range *range, uint64_t value)
{
    size_t bytes = range->end - range->start, reach = below(2) && bytes > 16384 ? 16384 : bytes;
    uintptr_t at = range->start + (uintptr_t)below(reach - 8);
    if (below(8))
        at &= ~(uintptr_t)7;
    *(volatile uint64_t *)at = value;
}

static void scribble(void)
{
    const struct range *range = choose(true, true);
    for (int i = 0; range && i < 300; i++)
        write_word(range, odd_number());
}

/* One word after another of the memory's beginning takes two values in turn, faster than anybody looks twice. */
static void race(void)
{
    const struct range *range = choose(true, true);
    if (!range)
        return;
    size_t bytes = range->end - range->start;
    volatile uint64_t *word = (volatile uint64_t *)(range->start + (uintptr_t)(below(bytes < 16384 ? bytes : 16384) & ~7ull));
    uint64_t good = *word, bad = odd_number();
    for (int i = 0; i < 20000; i++)
        *word = i & 1 ? good : bad;
    *word = good;
}

static void fill(void)
{
    const struct range *range = choose(true, true);
    if (range)
        memset((void *)range->start, (int)any(), range->end - range->start < 8u << 20 ? range->end - range->start : 8u << 20);
}

static void zero(void)
{
    const struct range *range = choose(true, true);
    if (range)
        memset((void *)range->start, 0, range->end - range->start < 8u << 20 ? range->end - range->start : 8u << 20);
}

/* Who owns the stacks that clauses run on, and what lies on them. */
static void spoil_stacks(void)
{
    enum { STACK_BYTES = 1 << 16, OWNER_BELOW_END = 16 };
    int first = foreign_count ? (int)below((uint64_t)foreign_count) : 0;
    for (int i = 0; i < foreign_count; i++) {
        const struct range *range = &foreign[(first + i) % foreign_count];
        if (!range->writable || range->shared || range->end - range->start < STACK_BYTES)
            continue;
        size_t stacks = (range->end - range->start) / STACK_BYTES;
        for (int k = 0; k < 200; k++) {
            uintptr_t end = range->start + (uintptr_t)(below(below(2) ? 4 : stacks) % stacks + 1) * STACK_BYTES;
            uintptr_t at = end - (below(4) ? OWNER_BELOW_END : (uintptr_t)below(100) * 8 + 8);
            *(volatile uintptr_t *)at = below(3) == 0 ? (uintptr_t)odd_number()
                                        : below(2)    ? at - (uintptr_t)below(4096)
                                                      : (uintptr_t)&range;
        }
        return;
    }
}

/* Code that is probed, and looked through for system calls, and never runs. */
TRACED void hostile_code(void);
__asm__(".pushsection .text\n.globl hostile_code\n.type hostile_code,@function\n.p2align 12\nhostile_code:\n"
        ".rept 300\nmov $317,%eax\nnop\nint $0x80\n.endr\nret\n.size hostile_code,.-hostile_code\n.p2align 12\n.popsection");

/* It is other code whenever somebody looks again. */
static void change_code(void)
{
    static const uint16_t calls[] = {0x050f, 0x80cd, 0x340f, 0xc3c3, 0xcccc, 0x9090, 0xfeeb, 0x00e8, 0x25ff};
    unsigned char *code = (unsigned char *)(uintptr_t)&hostile_code;
    mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    for (int i = 0; i < 2000; i++) {
        uint16_t bytes = below(8) ? calls[below(sizeof calls / sizeof *calls)] : (uint16_t)any();
        memcpy(code + below(2400), &bytes, 2);
    }
}

static struct wire_session *session_of(const struct range *range)
{
    struct wire_session *session = (void *)range->start;
    return session->magic == WIRE_SESSION_MAGIC && session->bytes <= range->end - range->start ? session : NULL;
}

static struct wire_session *find_session(void)
{
    for (int i = 0; i < foreign_count; i++)
        if (foreign[i].session && foreign[i].writable && session_of(&foreign[i]))
            return session_of(&foreign[i]);
    return NULL;
}

static struct wire_ring *ring_of(struct wire_session *session)
{
    return (struct wire_ring *)((char *)session + session->rings_offset + below(session->ring_count) * session->ring_stride);
}

/* Records that are whole but for what they say, behind each other; some of a size that is nobody's. */
static void forge_records(void)
{
    struct wire_session *session = find_session();
    struct wire_ring *ring = session ? ring_of(session) : NULL;
    static const uint32_t payloads[] = {0, 8, 16, 24, 32, 40, 48, 64, 72, 80, 96, 128};
    for (int i = 0; ring && i < 2000; i++) {
        uint32_t head = ring->head & ~7u, at = head & (session->ring_bytes - 1), room = session->ring_bytes - at;
        uint32_t payload = below(64) ? payloads[below(12)] : (uint32_t)below(session->ring_bytes) & ~7u;
        uint32_t bytes = sizeof(struct wire_record) + payload;
        struct wire_record *record = (struct wire_record *)((char *)(ring + 1) + at);
        if (session->ring_bytes - (head - ring->tail) < 2 * bytes + 64)
            return;
        bool is_padding = bytes > room;
        if (!is_padding) {
            bool is_known = below(8);
            *record = (struct wire_record){.type = below(20) ? (uint16_t)below(12) : (uint16_t)odd_number(),
                                           .clause = below(8) ? (uint16_t)below(4) : (uint16_t)odd_number(),
                                           .time = below(4) ? __builtin_ia32_rdtsc() : odd_number(),
                                           .pid = is_known ? (uint32_t)getpid() : (uint32_t)odd_number(),
                                           .tid = is_known ? (uint32_t)getpid() : (uint32_t)odd_number(),
                                           .place = below(4) ? (uint32_t)below(8) : (uint32_t)odd_number(),
                                           .speculation = below(16) ? 0 : (uint32_t)odd_number()};
            for (uint32_t k = 0; k < payload / 8 && k < 64; k++)
                ((uint64_t *)(record + 1))[k] = below(3) ? odd_number() : (uintptr_t)&hostile_work + 1;
        }
        uint32_t kind = is_padding ? WIRE_RECORD_PADDING : below(200) ? WIRE_RECORD_COMMITTED : (uint32_t)below(4);
        __atomic_store_n(&record->state, (is_padding ? room : bytes) << 2 | kind, __ATOMIC_RELEASE);
        __atomic_store_n(&ring->head, head + (is_padding ? room : bytes), __ATOMIC_RELEASE);
    }
}

static void move_heads(void)
{
    struct wire_session *session = find_session();
    for (int i = 0; session && i < 200; i++) {
        struct wire_ring *ring = ring_of(session);
        uint32_t *which[] = {&ring->head, &ring->head, &ring->head, &ring->tail};
        *which[below(4)] += below(2) ? (uint32_t)odd_number() : (uint32_t)below(64);
    }
}

/* Buckets, links, states and lists of free nodes, those of maps and of stacks. */
static void spoil_maps(void)
{
    struct wire_session *session = find_session();
    for (int i = 0; session && i < 3000; i++) {
        uint32_t count = session->map_count;
        if (session->stack_nodes && below(4) == 0) {
            struct wire_stack_node *node = (struct wire_stack_node *)((char *)session + session->stacks_offset) + below(64);
            node->parent = (uint32_t)below(80);
            node->next = (uint32_t)below(80);
            continue;
        }
        if (!count)
            return;
        struct wire_map *map = (struct wire_map *)((char *)session + session->maps_offset) + below(count);
        uint32_t *bucket = (uint32_t *)((char *)session + map->buckets_offset), nodes = map->nodes;
        struct wire_map_state *state = (struct wire_map_state *)((char *)session + map->state_offset);
        uint64_t number = below(below(4) && nodes > 64 ? 64 : nodes);
        struct wire_node *node = (struct wire_node *)((char *)session + map->nodes_offset + number * map->node_bytes);
        switch (below(6)) {
        case 0:
            if (map->type.key_bytes)
                bucket[below(map->bucket_mask + 1ull)] = (uint32_t)below(nodes + 2ull);
            break;
        case 1:
            state->used = (uint32_t)(below(2) ? nodes : odd_number());
            state->free = odd_number();
            state->deleted = 1;
            break;
        case 2:
            node->state = (uint32_t)below(6);
            break;
        default:
            node->next = (uint32_t)below(nodes + 2ull);
            node->state = WIRE_NODE_LIVE;
            ((uint64_t *)(node + 1))[below((map->node_bytes - sizeof *node) / 8)] = odd_number();
        }
    }
}

static void unmap(void)
{
    const struct range *range = choose(true, true);
    if (range)
        munmap((void *)range->start, range->end - range->start);
}

static void unmap_any(void)
{
    const struct range *range = &foreign[below((uint64_t)foreign_count)];
    munmap((void *)range->start, range->end - range->start);
}

static void protect(void)
{
    static const int kinds[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE | PROT_EXEC};
    const struct range *range = &foreign[below((uint64_t)foreign_count)];
    mprotect((void *)range->start, range->end - range->start, kinds[below(4)]);
}

static void map_over(void)
{
    const struct range *range = &foreign[below((uint64_t)foreign_count)];
    size_t bytes = range->end - range->start;
    if (below(2))
        mmap((void *)range->start, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    else
        mremap((void *)range->start, bytes, below(2) ? 4096 : bytes, MREMAP_MAYMOVE);
}

/* The file itself: its length, holes in it, and what may be done to it from now on. */
static void truncate_file(void)
{
    const struct range *range = choose(true, true);
    char path[80];
    if (!range)
        return;
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", (unsigned long)range->start, (unsigned long)range->end);
    madvise((void *)range->start, range->end - range->start, MADV_REMOVE);
    int fd = open(path, O_RDWR);
    if (fd < 0)
        return;
    if (ftruncate(fd, (off_t)(below(2) ? 0 : 4096)) == 0 || fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20) == 0)
        errno = 0;
    fcntl(fd, F_ADD_SEALS, below(2) ? F_SEAL_WRITE : F_SEAL_GROW);
    close(fd);
}

/* ---- what is done with the process ---- */

static void close_descriptors(void)
{
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
}

static void run_setuid(void)
{
    static const char *const programs[] = {"/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount"};
    rest_us(100000);
    for (size_t i = (size_t)below(3), k = 0; k < 3; k++, i++)
        execl(programs[i % 3], programs[i % 3], "--version", NULL);
}

/* At most so many at a time, which work, write into what they share with us, and have children of their own. */
static void bomb(void)
{
    static int alive;
    for (int i = 0; i < 6 && alive < 24; i++) {
        pid_t child = below(4) ? fork() : (pid_t)syscall(SYS_fork);
        if (!child) {
            chance += (uint64_t)getpid() * 0x9e3779b97f4a7c15ull;
            work(50);
            if (below(3) == 0 && fork() == 0)
                _exit(3);
            scribble();
            work(50);
            _exit(0);
        }
        alive += child > 0;
    }
    while (waitpid(-1, NULL, WNOHANG) > 0)
        alive--;
    work(200);
}

static void *work_once(void *unused)
{
    prctl(PR_SET_NAME, below(2) ? "x\033[2J\n) R 1 (" : "\xff\xfe) S 0 0 (");
    work(20);
    return unused;
}

static void churn_threads(void)
{
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work_once, NULL) == 0)
            pthread_detach(thread);
    }
}

static void hide(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    if (setuid(65534) == 0)
        prctl(PR_SET_DUMPABLE, below(2));
}

static void be_traced(void)
{
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    work(10);
    rest_us(20000);
}

static void on_signal(int number)
{
    (void)number;
    result++;
}

static void change_handlers(void)
{
    for (int number = 1; number < 32; number++) {
        struct sigaction action = {.sa_flags = below(2) ? SA_RESTART : SA_NODEFER};
        action.sa_handler = below(3) ? on_signal : below(2) ? SIG_IGN : SIG_DFL;
        if (number == SIGTRAP || number == SIGUSR1 || number == SIGALRM)
            sigaction(number, &action, NULL);
    }
    signal(SIGALRM, on_signal);
    raise(SIGALRM);
}

/* Files that are mapped and gone again, under names that are two lines. */
static void map_files(void)
{
    char path[100];
    snprintf(path, sizeof path, "/tmp/hostile-%d\n7f0000000000-7fffffffffff r-xp 0 00:00 1 \033[1m", (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0700), self = open("/proc/self/exe", O_RDONLY);
    char bytes[65536];
    ssize_t n = self >= 0 ? read(self, bytes, sizeof bytes) : -1;
    if (fd >= 0 && n > 0 && write(fd, bytes, (size_t)n) == n && below(2)) {
        bytes[below((uint64_t)n)] ^= (char)any();
        n = pwrite(fd, bytes, (size_t)n, 0);
    }
    unlink(path);
    void *at = fd >= 0 ? mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (fd >= 0 && below(2) && ftruncate(fd, 100))
        errno = 0;
    rest_us(5000);
    if (at != MAP_FAILED && below(4))
        munmap(at, 65536);
    close(fd);
    close(self);
}

static void stop_myself(void)
{
    pid_t self = getpid(), child = fork();
    if (!child) {
        rest_us(30000);
        kill(self, SIGCONT);
        _exit(0);
    }
    if (child > 0)
        kill(self, SIGSTOP);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void end_somehow(void)
{
    if (below(20))
        return;
    switch (below(4)) {
    case 0:
        kill(getpid(), SIGKILL);
        break;
    case 1:
        abort();
    case 2:
        syscall(SYS_exit, 0); /* the first thread; others go on */
        break;
    default:
        execl("/proc/self/exe", "v_hostile", "scribble", "7", "300", NULL);
    }
}

/* ---- before anybody comes ---- */

/* Memory that looks like what a dead controller has left, in which each number leads somewhere wrong. */
static void forge_journal(void)
{
    uint32_t owner = (uint32_t)below(30000) + 2;
    char name[64];
    snprintf(name, sizeof name, WIRE_MEMFD_NAME "-%u-%llx", owner, (unsigned long long)any());
    int fd = memfd_create(name, 0);
    size_t bytes = 1 << 20;
    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        return;
    struct wire_shared *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        return;
    for (size_t i = 0; i < sizeof *shared / 8; i++)
        ((uint64_t *)shared)[i] = below(4) ? odd_number() : (uintptr_t)shared;
    shared->magic = WIRE_SHARED_MAGIC;
    shared->owner_pid = owner;
    shared->width = sizeof(void *) * 8;
    shared->shared_va = (uintptr_t)shared;
    if (below(2))
        shared->shared_bytes = bytes;
    uint64_t *word = (uint64_t *)((char *)shared + WIRE_SHARED_BYTES);
    for (size_t i = 0; i < 16384; i++)
        word[i] = below(4) ? (uintptr_t)&hostile_work + below(64) : odd_number();
}

/* ---- modes ---- */

static const struct mode {
    const char *name;
    void (*deed)(void);
    bool by_threads; /* several at once */
} modes[] = {
    {"scribble", scribble, true},
    {"race", race, true},
    {"fill", fill, false},
    {"zero", zero, false},
    {"records", forge_records, true},
    {"heads", move_heads, true},
    {"maps", spoil_maps, true},
    {"unmap", unmap, false},
    {"unmap_any", unmap_any, false},
    {"protect", protect, false},
    {"map_over", map_over, false},
    {"truncate", truncate_file, false},
    {"close", close_descriptors, false},
    {"setuid", run_setuid, false},
    {"bomb", bomb, false},
    {"threads", churn_threads, false},
    {"hide", hide, false},
    {"traceme", be_traced, false},
    {"handlers", change_handlers, false},
    {"files", map_files, false},
    {"stop", stop_myself, false},
    {"end", end_somehow, false},
    {"journal", scribble, false},
    {"stacks", spoil_stacks, true},
    {"code", change_code, true},
};
enum { MODES = sizeof modes / sizeof *modes };

static void *do_it(void *argument)
{
    const struct mode *mode = argument;
    chance = start_ms + (uintptr_t)&argument;
    while (!is_over()) {
        mode->deed();
        work(5);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "list")) {
        for (int i = 0; i < MODES; i++)
            puts(modes[i].name);
        return 0;
    }
    CHECK(argc == 4);
    const struct mode *mode = NULL;
    for (int i = 0; i < MODES; i++)
        if (!strcmp(modes[i].name, argv[1]))
            mode = &modes[i];
    CHECK(mode);
    chance = strtoull(argv[2], NULL, 0) * 0x9e3779b97f4a7c15ull + 1;
    length_ms = strtoull(argv[3], NULL, 0);
    start_ms = now_ms();
    /* Whatever becomes of its memory, it does not eat up the machine. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_CPU, &(struct rlimit){20, 20});
    if (!strcmp(mode->name, "journal"))
        forge_journal();
    own_count = read_ranges(own, false);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    while (!is_over() && !find_foreign()) {
        work(20);
        rest_us(500);
    }
    rest_us((long)below(400) * 1000);
    find_foreign();
    pthread_t thread[2];
    for (int i = 0; mode->by_threads && i < 2; i++)
        pthread_create(&thread[i], NULL, do_it, (void *)(uintptr_t)mode);
    for (unsigned i = 0; !is_over(); i++) {
        if (foreign_count >= 2)
            mode->deed();
        work(20);
        if (i % 8 == 0)
            find_foreign();
        if (!mode->by_threads)
            rest_us(1000);
    }
    _exit(0);
}
