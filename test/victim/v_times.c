/* Threads that use the processor in different ways, and say how much of it the kernel gave them.
 *   v_times [-k KINDS] [-t THREADS] [-m MILLISECONDS] [-w]
 * A letter of KINDS is a kind of threads, of which there are so many, each of which uses about so many milliseconds of processor time:
 *   s  does not stop        y  yields             n  sleeps for a moment   d  sleeps for a millisecond
 *   p  takes turns with another (two threads each)  c  changes between s and y
 *   b  starts threads, one after another, that use a millisecond each, and as much in all  z  likewise, 50 microseconds each
 * -w: all threads are there, have used the processor and wait while it waits for stdin. Prints a line for each thread, those that b and z
 * start included: `thread TID KIND NANOSECONDS`, where the time is what it used since then (without -w: in all) up to its end. */
#include "victim.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 4096, MS = 1000000, SPELL = 20, WARM_UP_NS = 5 * MS, BRIEF_NS = MS, VERY_BRIEF_NS = 50000 };

static struct line {
    long tid;
    char kind;
    uint64_t used_ns;
} lines[MAX_THREADS];
static int n_lines;
static uint64_t limit_ns;
static bool waits;
static pthread_barrier_t all_there, may_go;
static uint32_t seen;

static uint64_t used_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Some ten microseconds. */
TRACED uint32_t step(uint32_t value)
{
    for (uint32_t i = 0; i < 8000; i++)
        value = mix(value, i);
    return value;
}

static void nap(long ns)
{
    struct timespec time = {.tv_nsec = ns};
    nanosleep(&time, NULL);
}

static struct line *new_line(char kind)
{
    int at = __atomic_fetch_add(&n_lines, 1, __ATOMIC_RELAXED);
    CHECK(at < MAX_THREADS);
    lines[at] = (struct line){.tid = syscall(SYS_gettid), .kind = kind};
    return &lines[at];
}

static void *be_brief(void *argument)
{
    uint64_t most_ns = *(uint64_t *)argument;
    struct line *line = new_line(most_ns < BRIEF_NS ? 'z' : 'b');
    uint32_t value = 0;
    do
        value = step(value);
    while (used_ns() < most_ns);
    __atomic_xor_fetch(&seen, value, __ATOMIC_RELAXED);
    line->used_ns = used_ns();
    return NULL;
}

static void start_brief(uint64_t most_ns)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, be_brief, &most_ns));
    CHECK(!pthread_join(thread, NULL));
}

/* The turns of two threads: a word that each waits to change. */
struct pair {
    uint32_t turn;
};

static void take_turn(struct pair *pair, uint32_t own)
{
    while (__atomic_load_n(&pair->turn, __ATOMIC_ACQUIRE) != own)
        syscall(SYS_futex, &pair->turn, FUTEX_WAIT_PRIVATE, !own, NULL, NULL, 0);
}

static void give_turn(struct pair *pair, uint32_t own)
{
    __atomic_store_n(&pair->turn, !own, __ATOMIC_RELEASE);
    syscall(SYS_futex, &pair->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

struct task {
    pthread_t thread;
    char kind;
    struct pair *pair;
    uint32_t own;
};

static void use(const struct task *task, uint64_t until_ns)
{
    uint32_t value = 1;
    uint64_t at_ns;
    while ((at_ns = used_ns()) < until_ns) {
        value = step(value);
        if (task->kind == 'y' || (task->kind == 'c' && at_ns / (SPELL * MS) % 2))
            sched_yield();
        else if (task->kind == 'n')
            nap(1);
        else if (task->kind == 'd')
            nap(MS);
    }
    __atomic_xor_fetch(&seen, value, __ATOMIC_RELAXED);
}

static void start_all(uint64_t each_ns)
{
    for (uint64_t started_ns = 0; started_ns < limit_ns; started_ns += each_ns)
        start_brief(each_ns);
}

static void play(const struct task *task)
{
    uint32_t value = 1;
    for (uint64_t round = 0; round < limit_ns / 10000; round++) {
        take_turn(task->pair, task->own);
        value = step(value);
        give_turn(task->pair, task->own);
    }
    __atomic_xor_fetch(&seen, value, __ATOMIC_RELAXED);
}

static void *run(void *argument)
{
    const struct task *task = argument;
    struct line *line = new_line(task->kind);
    uint64_t before_ns = 0;
    if (waits) {
        while (used_ns() < WARM_UP_NS)
            seen ^= step(seen);
        pthread_barrier_wait(&all_there);
        before_ns = used_ns();
        pthread_barrier_wait(&may_go);
    }
    if (task->pair)
        play(task);
    else if (task->kind == 'b' || task->kind == 'z')
        start_all(task->kind == 'b' ? BRIEF_NS : VERY_BRIEF_NS);
    else
        use(task, before_ns + limit_ns);
    line->used_ns = used_ns() - before_ns;
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = victim_option(argc, argv, "-t", 2);
    const char *kinds = "synd";
    for (int i = 1; i + 1 < argc; i++)
        kinds = strcmp(argv[i], "-k") ? kinds : argv[i + 1];
    limit_ns = (uint64_t)victim_option(argc, argv, "-m", 100) * MS;
    waits = victim_flag(argc, argv, "-w");
    static struct task tasks[MAX_THREADS];
    static struct pair pairs[MAX_THREADS];
    int n = 0;
    for (const char *kind = kinds; *kind; kind++)
        for (long i = 0; i < threads * (*kind == 'p' ? 2 : 1); i++, n++) {
            CHECK(n < MAX_THREADS);
            tasks[n].kind = *kind;
            tasks[n].own = i % 2;
            tasks[n].pair = *kind == 'p' ? &pairs[n - i % 2] : NULL;
        }
    pthread_attr_t attributes;
    CHECK(!pthread_attr_init(&attributes) && !pthread_attr_setstacksize(&attributes, 256 << 10));
    CHECK(!pthread_barrier_init(&all_there, NULL, (unsigned)n + 1) && !pthread_barrier_init(&may_go, NULL, (unsigned)n + 1));
    for (int i = 0; i < n; i++)
        CHECK(!pthread_create(&tasks[i].thread, &attributes, run, &tasks[i]));
    if (waits) {
        pthread_barrier_wait(&all_there);
        victim_wait();
        pthread_barrier_wait(&may_go);
    }
    for (int i = 0; i < n; i++)
        CHECK(!pthread_join(tasks[i].thread, NULL));
    for (int i = 0; i < n_lines; i++)
        printf("thread %ld %c %llu\n", lines[i].tid, lines[i].kind, (unsigned long long)lines[i].used_ns);
    return 0;
}
