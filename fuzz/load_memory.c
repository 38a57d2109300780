/* Memory that a process shares with its controller, of any content. Build with -fsanitize=address,undefined.
 *
 *   load_memory [--runs N] [--seed S]
 *
 * A journal that is said to be a dead controller's (load/left.h), damaged or of random bytes; and the live memory (load/live.h), which
 * another thread scribbles on while it is used. Besides what the sanitizers see, a run fails when a copy of a journal does not keep what
 * left.h promises. */
#include "load/left.h"
#include "load/live.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t state;

static uint64_t next(void) /* xorshift64* */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1d;
}

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "FAIL: %s\n", what);
    abort();
}

static uint64_t bad_value(void)
{
    static const uint64_t some[] = {0, 1, 7, 0xfff, 0x1000, 0x7fffffff, 0xffffffff, 1ull << 32, 1ull << 47, 1ull << 63, ~0ull};
    uint64_t which = next() % (sizeof some / sizeof *some + 4);
    return which < sizeof some / sizeof *some ? some[which] : next() >> (next() % 64);
}

/* ---- journals ---- */

enum { BYTES = 32768, REGIONS_AT = 4096, SITES_AT = 8192, PCS_AT = 20480, REGION = 0x10000, SITES = 64, PCS = 128 };

struct memory {
    uint64_t bytes;
    _Alignas(8) uint8_t byte[BYTES];
};

static bool read_memory(void *context, uint64_t offset, void *to, size_t bytes)
{
    const struct memory *memory = context;
    require(offset <= memory->bytes && bytes <= memory->bytes - offset, "what is read is in the memory");
    memcpy(to, memory->byte + offset, bytes);
    return next() % 1000 != 0;
}

static void make_journal(struct memory *memory, int width)
{
    memset(memory, 0, sizeof *memory);
    memory->bytes = BYTES;
    struct wire_shared *head = (void *)memory->byte;
    struct wire_region *region = (void *)(memory->byte + REGIONS_AT);
    struct wire_site *site = (void *)(memory->byte + SITES_AT);
    struct wire_pc *pc = (void *)(memory->byte + PCS_AT);
    *head = (struct wire_shared){.magic = WIRE_SHARED_MAGIC,
                                 .width = (uint32_t)width,
                                 .regions_offset = REGIONS_AT,
                                 .sites_offset = SITES_AT,
                                 .pcs_offset = PCS_AT,
                                 .region_count = 4,
                                 .site_count = SITES,
                                 .pc_count = PCS};
    for (uint64_t i = 0; i < 4; i++)
        region[i] = (struct wire_region){0x40000000 + i * REGION, REGION};
    for (uint64_t i = 0; i < SITES; i++)
        site[i] = (struct wire_site){.va = 0x50000000 + next() % 0x100000,
                                     .trampoline_va = 0x40000000 + next() % (4 * REGION),
                                     .length = (uint8_t)(1 + next() % 8),
                                     .extent = (uint8_t)(next() % 3 * 5)};
    for (uint64_t i = 0; i < PCS; i++)
        pc[i] = (struct wire_pc){next() % 4 ? 0x40000000 + next() % (4 * REGION) : site[next() % SITES].va, 0x50000000,
                                 (uint16_t)(next() % 5), 0, 0};
}

static void damage(struct memory *memory)
{
    static const uint32_t table[] = {0, 0, 0, REGIONS_AT, SITES_AT, PCS_AT};
    for (uint64_t left = next() % 12; left; left--) {
        uint32_t at = table[next() % 6] + (uint32_t)(next() % 40 * 4);
        uint64_t value = bad_value();
        memcpy(memory->byte + at, &value, next() % 2 ? 4 : 8);
    }
    if (next() % 8 == 0)
        memory->bytes = next() % (BYTES + 1);
    if (next() % 16 == 0) {
        for (size_t i = 0; i < BYTES; i += 8)
            memcpy(memory->byte + i, &(uint64_t){bad_value()}, 8);
        memcpy(memory->byte, &(uint64_t){WIRE_SHARED_MAGIC}, 8);
    }
}

static void check_copy(const struct load_left *left, int width)
{
    uint64_t end_va = width == 64 ? 1ull << 47 : 1ull << 32, last_va = 0;
    for (uint32_t i = 0; i < left->head.region_count; i++) {
        const struct wire_region *region = &left->region[i];
        require(region->va && region->bytes && !(region->va % 4096) && !(region->bytes % 4096), "regions are whole pages");
        require(region->va >= last_va && region->va < end_va && region->bytes <= end_va - region->va, "regions do not overlap or wrap");
        last_va = region->va + region->bytes;
    }
    for (uint32_t i = 0; i < left->head.site_count; i++) {
        const struct wire_site *site = &left->site[i];
        require(site->length && site->length <= WIRE_SITE_MAX && site->va < end_va, "sites have bytes that a process can have");
        require(load_left_has(left, site->trampoline_va), "sites lead into regions");
        require(!i || site->va >= site[-1].va, "sites are in order");
    }
    for (uint32_t i = 0; i < left->head.pc_count; i++) {
        const struct wire_pc *pc = &left->pc[i];
        bool is_known = load_left_has(left, pc->va);
        for (uint32_t k = 0; k < left->head.site_count && !is_known; k++)
            is_known = left->site[k].va == pc->va && !left->site[k].extent;
        require(is_known && pc->kind > WIRE_PC_NONE && pc->kind <= WIRE_PC_CLAUSE, "the pc map is about code of ours");
        require(!i || pc->va >= pc[-1].va, "the pc map is in order");
    }
}

static bool keep_some(const void *context, const struct wire_region *region)
{
    return region->va >> 16 & *(const uint64_t *)context;
}

/* Whether there was a copy. */
static bool run_left(void)
{
    static struct memory memory;
    int width = next() % 2 ? 64 : 32;
    struct load_left left;
    make_journal(&memory, width);
    damage(&memory);
    if (load_left_read(read_memory, &memory, memory.bytes, width, &left) != LOAD_LEFT_GOOD)
        return false;
    check_copy(&left, width);
    load_left_keep_regions(&left, keep_some, &(uint64_t){next()});
    check_copy(&left, width);
    load_left_deinit(&left);
    return true;
}

/* ---- the live memory ---- */

static atomic_bool is_over;

struct victim {
    uint8_t *memory;
    uint64_t bytes, seed;
};

/* As the process does, through a mapping of its own. */
static void *scribble(void *context)
{
    const struct victim *victim = context;
    uint64_t value = victim->seed;
    while (!is_over) {
        value = value * 6364136223846793005u + 1442695040888963407u;
        uint64_t at = (value >> 33) % victim->bytes / 4 * 4;
        __atomic_store_n((uint32_t *)(victim->memory + at), (uint32_t)(value >> 7), __ATOMIC_RELAXED);
    }
    return NULL;
}

static uint64_t use(struct load_live *live, uint32_t room)
{
    uint32_t number = next() % 4 ? (uint32_t)(next() % room) : (uint32_t)bad_value(), event;
    uint64_t sum = load_live_counter(live, number);
    load_live_take_back(live, number);
    load_live_set_place(live, number, &(struct wire_place){.row = number});
    sum += (uint64_t)load_live_quota(live, number) + (uint64_t)load_live_set_quota(live, number, 7);
    if (load_live_event(live, &event))
        load_live_answer(live, event);
    load_live_wait(live, event, 1);
    load_live_beat(live);
    load_live_want_handler(live, bad_value(), bad_value(), next() & 1);
    for (int i = -2; i < WIRE_HANDLER_ROOM + 2; i++) {
        struct load_handler handler;
        if (!load_live_handler(live, i, &handler))
            continue;
        require(handler.state >= WIRE_HANDLER_WANTED && handler.state <= WIRE_HANDLER_KNOWN, "a handler has a state that there is");
        load_live_set_handler(live, i, WIRE_HANDLER_FREE);
    }
    load_live_set_handler(live, (int)bad_value(), WIRE_HANDLER_FREE);
    load_live_release(live);
    return sum;
}

static void run_live(uint64_t runs)
{
    uint32_t room = 1000;
    struct load_live *live = NULL;
    require(!load_live_create("probity_session-fuzz", room, 64, &live), "there is memory");
    require(ftruncate(load_live_fd(live), 4096) < 0, "nobody makes it shorter");
    struct victim victim = {.bytes = load_live_bytes(live), .seed = next()};
    victim.memory = mmap(NULL, victim.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, load_live_fd(live), 0);
    require(victim.memory != MAP_FAILED, "the process maps it");
    pthread_t thread;
    require(!pthread_create(&thread, NULL, scribble, &victim), "a thread");
    uint64_t sum = 0;
    for (uint64_t i = 0; i < runs; i++)
        sum += use(live, room);
    is_over = true;
    pthread_join(thread, NULL);
    munmap(victim.memory, victim.bytes);
    load_live_destroy(live);
    printf("live memory: %llu runs, %llx\n", (unsigned long long)runs, (unsigned long long)sum);
}

int main(int argc, char **argv)
{
    uint64_t runs = 100000, good = 0;
    state = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--runs"))
            runs = strtoull(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--seed"))
            state = strtoull(argv[i + 1], NULL, 10) * 2 + 1;
    }
    for (uint64_t i = 0; i < runs; i++)
        good += run_left();
    printf("journals: %llu runs, %llu were copied\n", (unsigned long long)runs, (unsigned long long)good);
    require(good && good < runs, "some journals are good and some are not");
    run_live(runs / 20 + 1);
    return 0;
}
