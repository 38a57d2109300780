/* What the kernel tells of threads adds up to what they did: time on and off processors, starts, names, programs, mappings, ends, and the
 * stacks of those that run and of those that wait; 64 and 32 bit, with and without the right to look at the kernel. (S4.1, S4.3)
 * timeout: 120
 * alone: yes */
#include "base/clock.h"
#include "base/memory.h"
#include "sample/sample.h"
#include "target/target.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int failures, figures;
static const char *about;

#define WRONG(...) (printf("wrong: %s: ", about), printf(__VA_ARGS__), printf("\n"), failures++)
#define OUT_OF_BOUNDS(...) (printf("out of bounds: %s: ", about), printf(__VA_ARGS__), printf("\n"), figures++)

/* As test/run.sh wants it: a figure that was measured may be measured again. */
static int exit_code(void)
{
    enum { FIGURE = 75 };
    return failures ? 1 : figures ? FIGURE : 0;
}

static void expect_near(const char *what, uint64_t found, uint64_t expected, double share, uint64_t slack)
{
    double difference = found > expected ? (double)(found - expected) : (double)(expected - found);
    if (difference > share * (double)expected + (double)slack)
        OUT_OF_BOUNDS("%s: found %" PRIu64 ", expected %" PRIu64, what, found, expected);
}

/* What a child of this test that ended with exit_code() found. */
static void wait_for(pid_t child)
{
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) == 1)
        failures++;
    else
        figures += WEXITSTATUS(status) != 0;
}

/* ---- what was seen ---- */

enum { THREADS = 16, DRAIN_MS = 10 };

struct seen {
    uint32_t pid, tid;
    char name[16];
    uint64_t on_ns, off_ns;      /* by samples */
    uint64_t run_ns, last_in_ns; /* by switches */
    uint64_t start_ns, end_ns;   /* by news */
    uint64_t estimated_ns;       /* by the last account */
    unsigned samples, waits, outs, named, executed, odd, untold;
    unsigned stacks;          /* samples that were taken for them */
    unsigned stacks_short;    /* samples without one that should have it */
    uint64_t nap_ns, doze_ns; /* of waits whose stack has the address in it */
    bool on_nap, on_doze;     /* the last wait that was seen */
};

static struct world {
    struct seen thread[THREADS];
    unsigned threads;
    uint64_t last_ns;
    unsigned steps_back, maps, maps_known;
    uint64_t nap_va, doze_va; /* where they return to */
    uint32_t stack_bytes;
    size_t most_stack_bytes; /* that a sample had */
    bool has_no_stacks;      /* but for the samples that are taken for them */
    uint64_t stolen_ns;      /* at the start */
    uint64_t longest_gap_ns; /* from one drain to the next: others had the processors */
} world;

static struct seen *find(uint32_t pid, uint32_t tid)
{
    for (unsigned i = 0; i < world.threads; i++)
        if (world.thread[i].tid == tid && world.thread[i].pid == pid)
            return &world.thread[i];
    if (world.threads == THREADS) {
        printf("too many threads\n");
        exit(1);
    }
    world.thread[world.threads] = (struct seen){.pid = pid, .tid = tid};
    return &world.thread[world.threads++];
}

static void note_time(uint64_t time_ns)
{
    world.steps_back += time_ns < world.last_ns;
    world.last_ns = time_ns;
}

static bool stack_has(const struct sample *sample, uint64_t va)
{
    size_t word = sample->model == WIRE_LP64 ? 8 : 4;
    for (size_t at = 0; at + word <= sample->stack_bytes; at += word) {
        uint64_t value = 0;
        memcpy(&value, sample->stack + at, word);
        if (value == va)
            return true;
    }
    return false;
}

static void take(void *context, const struct sample *sample)
{
    struct seen *seen = find(sample->pid, sample->tid);
    (void)context;
    note_time(sample->time_ns);
    if (sample->stack_bytes > world.most_stack_bytes)
        world.most_stack_bytes = sample->stack_bytes;
    if (sample->stack_only) {
        seen->odd += sample->weight_ns || !sample->stack_bytes || !sample->pc;
        seen->stacks++;
        return;
    }
    seen->odd += world.has_no_stacks && sample->stack_bytes;
    if (!sample->again) {
        unsigned sp = sample->model == WIRE_LP64 ? WIRE_REG64_SP : WIRE_REG32_SP;
        seen->odd += !(sample->known >> sp & 1) || sample->machine[sp] != sample->sp || !sample->pc;
        seen->stacks_short += world.stack_bytes && !sample->stack_bytes;
    }
    if (!sample->off_cpu) {
        seen->on_ns += sample->weight_ns;
        seen->samples += !sample->again;
        return;
    }
    seen->off_ns += sample->weight_ns;
    if (!sample->again) {
        seen->waits++;
        seen->on_nap = stack_has(sample, world.nap_va);
        seen->on_doze = stack_has(sample, world.doze_va);
    }
    seen->nap_ns += seen->on_nap ? sample->weight_ns : 0;
    seen->doze_ns += seen->on_doze ? sample->weight_ns : 0;
}

static void hear(void *context, const struct sample_news *news)
{
    struct seen *seen = find(news->pid, news->tid);
    (void)context;
    note_time(news->time_ns);
    switch (news->kind) {
    case SAMPLE_PRESENT:
    case SAMPLE_START:
        seen->start_ns = news->time_ns;
        snprintf(seen->name, sizeof seen->name, "%s", news->name);
        break;
    case SAMPLE_NAME:
        seen->named++;
        snprintf(seen->name, sizeof seen->name, "%s", news->name);
        break;
    case SAMPLE_EXEC:
        seen->executed++;
        break;
    case SAMPLE_END:
        seen->run_ns += seen->last_in_ns ? news->time_ns - seen->last_in_ns : 0;
        seen->end_ns = news->time_ns;
        break;
    case SAMPLE_IN:
        seen->last_in_ns = news->time_ns;
        break;
    case SAMPLE_OUT:
        seen->run_ns += seen->last_in_ns ? news->time_ns - seen->last_in_ns : 0;
        seen->last_in_ns = 0;
        seen->outs++;
        break;
    case SAMPLE_UNTOLD:
        seen->run_ns += seen->last_in_ns ? news->time_ns - seen->last_in_ns : 0;
        seen->last_in_ns = 0;
        seen->untold++;
        break;
    case SAMPLE_TOLD:
        break;
    case SAMPLE_RAN:
        seen->run_ns = news->ran_ns;
        seen->estimated_ns = news->estimated_ns;
        seen->last_in_ns = seen->last_in_ns ? news->time_ns : 0;
        break;
    case SAMPLE_MAP:
        world.maps++;
        world.maps_known += news->map.path[0] == '/' && news->map.end_va > news->map.start_va &&
                            (news->map.inode || news->map.build_id_bytes == SAMPLE_BUILD_ID_MAX);
        break;
    }
}

/* What other guests of the machine took of its processors, since it was started. Programs are not charged with it, but it passes. */
static uint64_t stolen_ns(void)
{
    unsigned long long ticks = 0;
    FILE *in = fopen("/proc/stat", "re");
    if (in && fscanf(in, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
        ticks = 0;
    if (in)
        fclose(in);
    return ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* ---- the victim ---- */

struct victim {
    pid_t pid;
    int in, out;
    char text[4096];
};

static void start(struct victim *victim, const char *width, char *const *extra)
{
    int in[2], out[2];
    char path[64];
    char *argv[8] = {path};
    for (int i = 0; extra[i]; i++)
        argv[i + 1] = extra[i];
    snprintf(path, sizeof path, "build/victim/%s/v_waits", width);
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        exit(1);
    victim->pid = fork();
    if (!victim->pid) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        personality(ADDR_NO_RANDOMIZE);
        execv(path, argv);
        perror(path);
        _exit(1);
    }
    close(in[0]);
    close(out[1]);
    victim->in = in[1];
    victim->out = out[0];
    char ready[6];
    if (read(victim->out, ready, sizeof ready) != sizeof ready)
        exit(1);
}

static void drain_until_end(struct victim *victim, struct sample_set *set)
{
    size_t used = 0;
    uint64_t drained_ns = clock_now_ns();
    for (ssize_t got = 1; got;) {
        struct pollfd fds[2] = {{.fd = victim->out, .events = POLLIN}, {.fd = sample_set_fd(set), .events = POLLIN}};
        poll(fds, 2, DRAIN_MS);
        sample_set_drain(set, take, hear, NULL);
        uint64_t now_ns = clock_now_ns(), gap_ns = now_ns - drained_ns;
        drained_ns = now_ns;
        world.longest_gap_ns = gap_ns > world.longest_gap_ns ? gap_ns : world.longest_gap_ns;
        if (fds[0].revents) {
            got = read(victim->out, victim->text + used, sizeof victim->text - used - 1);
            used += got > 0 ? (size_t)got : 0;
            victim->text[used] = 0;
            const char *back = strstr(victim->text, "back nap ");
            world.nap_va = back ? strtoull(back + 9, NULL, 10) : world.nap_va;
        }
    }
    int status;
    if (waitpid(victim->pid, &status, 0) != victim->pid || !WIFEXITED(status) || WEXITSTATUS(status))
        WRONG("the victim did not end well");
    close(victim->in);
    close(victim->out);
    sample_set_stop(set);
    sample_set_drain(set, take, hear, NULL);
}

/* The number after `key` in what the victim printed. */
static uint64_t told(const struct victim *victim, const char *key)
{
    const char *at = strstr(victim->text, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static struct seen *named(const char *name)
{
    for (unsigned i = 0; i < world.threads; i++)
        if (!strcmp(world.thread[i].name, name))
            return &world.thread[i];
    WRONG("no thread is named %s", name);
    exit(1);
}

/* A first run tells where calls return to: the victim is not randomized. */
static void learn(const char *width)
{
    struct victim victim = {0};
    char *const quick[] = {"-m", "10", NULL};
    struct sample_options none = {.period_ns = 1000000000};
    struct sample_set *set = sample_set_create(&none);
    start(&victim, width, quick);
    if (write(victim.in, "\n", 1) != 1)
        exit(1);
    drain_until_end(&victim, set);
    sample_set_destroy(set);
    world = (struct world){.stolen_ns = stolen_ns(), .nap_va = told(&victim, "back nap "), .doze_va = told(&victim, "back doze ")};
}

/* ---- the cases ---- */

struct line {
    uint64_t start_ns, end_ns, run_ns;
};

static struct line line_of(const struct victim *victim, const char *name)
{
    char key[64];
    struct line line = {0};
    uint32_t tid;
    snprintf(key, sizeof key, "thread %s ", name);
    const char *at = strstr(victim->text, key);
    if (!at ||
        sscanf(at + strlen(key), "%" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64, &tid, &line.start_ns, &line.end_ns, &line.run_ns) != 4)
        WRONG("%s printed nothing", name);
    return line;
}

/* The kernel counts a thread's time before it has set its timers, some 15 microseconds of a switch, and says that it runs after that. */
enum { SWITCH_NS = 40000, UNTOLD_NS = 5000000, MANY_TIMES = 10 };

/* All samples of a thread stand for its life. When it ends, the kernel may say that it ran for longer than switches or looks have told, and
 * its waits have been given out whole: they stand for so much more, at most what is said to be estimated, and of a thread that is looked at
 * at most a tick of the kernel and what a look took longer than it should. */
static void check_all_time(const char *what, const struct seen *seen)
{
    struct timespec tick;
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    uint64_t found_ns = seen->on_ns + seen->off_ns, life_ns = seen->end_ns - seen->start_ns;
    uint64_t late_ns = world.longest_gap_ns > DRAIN_MS * 1000000 ? world.longest_gap_ns - DRAIN_MS * 1000000 : 0;
    uint64_t most_ns = seen->untold ? (uint64_t)tick.tv_nsec + late_ns : seen->estimated_ns;
    if (most_ns > seen->estimated_ns)
        most_ns = seen->estimated_ns;
    expect_near(what, found_ns, life_ns, 0.0001, 1000 + (found_ns > life_ns ? most_ns : 0));
}

static void check_time(const struct victim *victim, const char *name, bool counts_waits)
{
    char what[64];
    const struct seen *seen = named(name);
    struct line line = line_of(victim, name);
    snprintf(what, sizeof what, "%s: time by switches", name);
    expect_near(what, seen->run_ns, line.run_ns, 0.03, 2000000 + seen->outs * SWITCH_NS + stolen_ns() - world.stolen_ns);
    snprintf(what, sizeof what, "%s: time of samples on a processor", name);
    /* A thread that others make switch all the time is looked at now and then only: from switch to look and back some time is in doubt. */
    expect_near(what, seen->on_ns, seen->run_ns, 0.001, 1000 + seen->untold * UNTOLD_NS);
    if (seen->start_ns > line.start_ns || seen->end_ns < line.end_ns)
        WRONG("%s: started after it ran, or ended before its end", name);
    snprintf(what, sizeof what, "%s: time of all samples", name);
    if (counts_waits)
        check_all_time(what, seen);
    if (seen->odd)
        WRONG("%s: %u samples with odd registers", name, seen->odd);
}

static void check_life(const struct victim *victim)
{
    const struct seen *child = named("executed");
    if (child->pid != told(victim, "child ") || child->tid != child->pid || child->executed != 1 || !child->end_ns)
        WRONG("the child: pid %u, %u times executed, ended %d", child->pid, child->executed, child->end_ns != 0);
    /* The program and its loader and libc, at least. */
    if (world.maps < 3 || world.maps_known < 3)
        WRONG("%u mappings, of which %u are known by file", world.maps, world.maps_known);
    for (unsigned i = 0; i < world.threads; i++)
        if (!world.thread[i].end_ns)
            WRONG("thread %u (%s) did not end", world.thread[i].tid, world.thread[i].name);
}

/* While a program is executed there is none, however long that takes. */
static unsigned stacks_short(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < world.threads; i++)
        count += world.thread[i].executed ? 0 : world.thread[i].stacks_short;
    return count;
}

static void run_case(const char *width, enum sample_clock clock, bool is_user_only)
{
    char text[64];
    struct victim victim = {0};
    char *const arguments[] = {"-m", "600", NULL};
    struct sample_options options = {.period_ns = 1001001,
                                     .clock = clock,
                                     .stack_bytes = 4096,
                                     .want_switches = true,
                                     .want_accounts = true,
                                     .want_tasks = true,
                                     .want_maps = true,
                                     .follow_exec = true};
    snprintf(text, sizeof text, "%s bit, %s%s", width, clock == SAMPLE_WALL ? "wall" : "cpu", is_user_only ? ", user" : "");
    about = text;
    learn(width);
    world.stack_bytes = options.stack_bytes;
    start(&victim, width, arguments);
    struct sample_set *set = sample_set_create(&options);
    struct err *error = sample_set_add(set, victim.pid);
    if (error) {
        WRONG("%s", error->message);
        exit(1);
    }
    if (write(victim.in, "\n", 1) != 1)
        exit(1);
    drain_until_end(&victim, set);
    bool is_wall = clock == SAMPLE_WALL;
    for (unsigned i = 0; i < 3; i++)
        check_time(&victim, (const char *[]){"worker", "sleeper", "ticker"}[i], is_wall);
    check_life(&victim);
    const struct seen *worker = named("worker"), *sleeper = named("sleeper"), *ticker = named("ticker");
    /* Others may make it switch so often that it is sampled now and then only. */
    if (!worker->untold && worker->samples < (is_user_only ? 450u : 540u))
        OUT_OF_BOUNDS("worker: %u samples", worker->samples);
    if (is_wall) {
        /* Waiting for a processor is waiting, too, but elsewhere. Without the right to look at the kernel what was not seen is charged to
         * what was. */
        if (sleeper->nap_ns < 598000000)
            OUT_OF_BOUNDS("sleeper: %" PRIu64 " of %" PRIu64 " ns in nap()", sleeper->nap_ns, sleeper->off_ns);
        if (ticker->doze_ns < (is_user_only ? 100000000 : 150000000))
            OUT_OF_BOUNDS("ticker: %" PRIu64 " of %" PRIu64 " ns in doze()", ticker->doze_ns, ticker->off_ns);
    }
    /* A ring lasts for a quarter of a second and more. */
    bool may_lose = world.longest_gap_ns > 200000000;
    if (world.steps_back || stacks_short() > 3 || (sample_set_lost(set) && !may_lose))
        WRONG("%u steps back in time, %u samples without a stack, %" PRIu64 " lost", world.steps_back, stacks_short(),
              sample_set_lost(set));
    sample_set_destroy(set);
}

/* A reader that does not read: what was sampled and what is lost is all that there was. */
static void run_losses(void)
{
    struct victim victim = {0};
    char *const arguments[] = {"-m", "1000", NULL};
    struct sample_options options = {.period_ns = 200000, .stack_bytes = 16384};
    about = "losses";
    world = (struct world){0};
    start(&victim, "64", arguments);
    struct sample_set *set = sample_set_create(&options);
    struct err *error = sample_set_add(set, victim.pid);
    if (error) {
        WRONG("%s", error->message);
        exit(1);
    }
    if (write(victim.in, "\n", 1) != 1)
        exit(1);
    for (char byte; read(victim.out, &byte, 1) == 1;)
        ;
    drain_until_end(&victim, set);
    uint64_t taken = 0, lost = sample_set_lost(set);
    for (unsigned i = 0; i < world.threads; i++)
        taken += world.thread[i].samples;
    if (lost < 1000)
        OUT_OF_BOUNDS("%" PRIu64 " lost", lost);
    expect_near("samples and losses", taken + lost, 5000, 0.1, 0);
    sample_set_destroy(set);
}

/* Threads that do nothing but switch are relieved of events, and all of their time is known all the same. */
static void run_restless(const char *width, bool is_inherited)
{
    struct victim victim = {0};
    char *const arguments[] = {"-s", "200000", is_inherited ? "-l" : NULL, NULL};
    struct sample_options options = {.period_ns = 1001001,
                                     .clock = SAMPLE_WALL,
                                     .stack_bytes = 4096,
                                     .want_switches = true,
                                     .want_accounts = true,
                                     .want_tasks = true,
                                     .follow_exec = true};
    about = is_inherited ? "threads that switch, one event for both" : "threads that switch";
    world = (struct world){.stack_bytes = options.stack_bytes, .stolen_ns = stolen_ns()};
    start(&victim, width, arguments);
    struct sample_set *set = sample_set_create(&options);
    struct err *error = sample_set_add(set, victim.pid);
    if (error || write(victim.in, "\n", 1) != 1) {
        WRONG("%s", error ? error->message : "the victim has ended");
        exit(1);
    }
    drain_until_end(&victim, set);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "pong" : "ping";
        const struct seen *seen = named(name);
        struct line line = line_of(&victim, name);
        if (!seen->untold || !seen->samples || !seen->waits || seen->odd || !seen->end_ns)
            WRONG("%s: %u times untold, %u samples, %u waits, %u odd", name, seen->untold, seen->samples, seen->waits, seen->odd);
        expect_near("time on processors", seen->on_ns, line.run_ns, 0.05, 10000000 + stolen_ns() - world.stolen_ns);
        expect_near("time from switch to switch", seen->run_ns, line.run_ns, 0.05, 10000000 + stolen_ns() - world.stolen_ns);
        check_all_time("all time", seen);
    }
    if (world.steps_back)
        WRONG("%u steps back in time", world.steps_back);
    sample_set_destroy(set);
}

/* Samples of stacks besides those of time, which is not touched by them; and none where none are wanted. False: others made the worker
 * switch so often that it was not sampled all the time. */
static bool run_stacks(const char *width, bool wanted)
{
    struct victim victim = {0};
    char *const arguments[] = {"-m", "600", NULL};
    struct sample_options options = {.period_ns = 4004004,
                                     .stack_bytes = 32768,
                                     .stack_period_ns = 10000000,
                                     .want_switches = true,
                                     .want_accounts = true,
                                     .want_tasks = true,
                                     .follow_exec = true};
    about = wanted ? "stacks besides" : "no stacks besides";
    world = (struct world){.has_no_stacks = true, .stolen_ns = stolen_ns()};
    start(&victim, width, arguments);
    struct sample_set *set = sample_set_create(&options);
    struct err *error = sample_set_add(set, victim.pid);
    sample_set_want_stacks(set, true);
    sample_set_want_stacks(set, wanted); /* before there is anybody to be sampled but one who waits */
    if (error || write(victim.in, "\n", 1) != 1) {
        WRONG("%s", error ? error->message : "the victim has ended");
        exit(1);
    }
    drain_until_end(&victim, set);
    check_time(&victim, "worker", false);
    const struct seen *worker = named("worker");
    uint64_t stolen = stolen_ns() - world.stolen_ns;
    if (!worker->untold) {
        expect_near("worker: stacks", worker->stacks, wanted ? 60 : 0, 0.1, wanted ? stolen / options.stack_period_ns : 0);
        expect_near("worker: samples", worker->samples, 150, 0.1, stolen / options.period_ns);
    }
    if (world.steps_back)
        WRONG("%u steps back in time", world.steps_back);
    sample_set_destroy(set);
    return !worker->untold;
}

/* For what changes the limits of the process: true in a child, which ends itself; false when that has happened. */
static bool is_child(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        close_range(STDERR_FILENO + 1, ~0u, 0); /* what was inherited lies anywhere */
        return true;
    }
    wait_for(child);
    return false;
}

/* From here on so many can be opened, and no more. */
static void leave_descriptors(size_t count)
{
    rlim_t limit = 0;
    for (size_t free = 0; free < count; limit++)
        free += fcntl((int)limit, F_GETFD) < 0;
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit, limit}))
        exit(1);
}

/* For each processor a ring's event, and for each thread so many. */
static size_t events_of(const struct victim *victim, size_t each)
{
    target_pids threads = {0};
    struct err *error = target_all_threads(victim->pid, &threads);
    if (error) {
        WRONG("%s", error->message);
        exit(1);
    }
    size_t wanted = (size_t)sysconf(_SC_NPROCESSORS_CONF) * (1 + threads.n * each);
    VEC_FREE(&threads);
    return wanted;
}

/* A process that has ended and whose end nobody has taken yet, perhaps because we keep its parent busy. */
static void run_ended(void)
{
    struct sample_options options = {.period_ns = 4004004, .stack_bytes = 2048, .want_tasks = true};
    about = "ended";
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(0);
    waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT);
    struct sample_set *set = sample_set_create(&options);
    err_free(sample_set_add(set, child)); /* comes back */
    sample_set_destroy(set);
    waitpid(child, NULL, 0);
}

/* Far too few, down to none at all: it is said that it is descriptors that are missing. */
static void run_without_descriptors(void)
{
    struct victim victim = {0};
    char *const arguments[] = {"-m", "100", NULL};
    struct sample_options options = {.period_ns = 4004004, .stack_bytes = 2048, .want_tasks = true};
    about = "no descriptors";
    if (!is_child())
        return;
    start(&victim, "64", arguments);
    struct sample_set *set = sample_set_create(&options);
    for (size_t count = events_of(&victim, 1) + SAMPLE_SPARE_DESCRIPTORS; count-- > 0;) {
        leave_descriptors(count);
        struct err *error = sample_set_add(set, victim.pid);
        if (!error || error->code != ERR_SYSTEM || !(strstr(error->message, "ulimit -n") || strstr(error->message, strerror(EMFILE))))
            WRONG("%zu left: %s", count, error ? error->message : "no error");
        err_free(error);
    }
    sample_set_destroy(set);
    fflush(stdout);
    _exit(exit_code());
}

/* Too few descriptors for all events, by one: those go that samples can do without, and nothing else is missing. */
static void run_short_of_descriptors(enum sample_clock clock, uint32_t less_stack_bytes, uint64_t stack_period_ns)
{
    struct victim victim = {0};
    char *const arguments[] = {"-m", "600", NULL};
    struct sample_options options = {.period_ns = 4004004,
                                     .clock = clock,
                                     .stack_bytes = 2048,
                                     .less_stack_bytes = less_stack_bytes,
                                     .stack_period_ns = stack_period_ns,
                                     .want_switches = true,
                                     .want_accounts = true,
                                     .want_tasks = true,
                                     .follow_exec = true};
    about = clock == SAMPLE_WALL ? "few descriptors, wall" : stack_period_ns ? "few descriptors, stacks" : "few descriptors";
    if (!is_child())
        return;
    world = (struct world){.stolen_ns = stolen_ns()};
    start(&victim, "64", arguments);
    struct sample_set *set = sample_set_create(&options);
    /* For each thread a timer, one that can be done without, and perhaps one at switches. */
    leave_descriptors(events_of(&victim, clock == SAMPLE_WALL ? 3 : 2) + SAMPLE_SPARE_DESCRIPTORS - 1);
    struct err *error = sample_set_add(set, victim.pid);
    sample_set_copy_less(set, true);
    sample_set_want_stacks(set, true);
    if (error || write(victim.in, "\n", 1) != 1) {
        WRONG("%s", error ? error->message : "the victim has ended");
        exit(1);
    }
    drain_until_end(&victim, set);
    check_time(&victim, "worker", clock == SAMPLE_WALL);
    const struct seen *worker = named("worker");
    if (worker->stacks || (less_stack_bytes && world.most_stack_bytes <= less_stack_bytes))
        WRONG("there were enough descriptors: %u stacks, at most %zu bytes of a stack", worker->stacks, world.most_stack_bytes);
    if (!worker->untold)
        expect_near("samples", worker->samples, 150, 0.1, (stolen_ns() - world.stolen_ns) / options.period_ns);
    sample_set_destroy(set);
    fflush(stdout);
    _exit(exit_code());
}

/* perf_event_open(2) is refused from here on. */
static void forbid_events(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        exit(1);
}

/* Without events: times are those of the kernel's accounts, stacks come of stops and looks, and the victim is none the worse. */
static void run_forbidden(const char *width, struct victim *victim)
{
    struct sample_options options = {
        .period_ns = 1001001, .clock = SAMPLE_WALL, .stack_bytes = 4096, .want_tasks = true, .follow_exec = true, .may_stop = true};
    about = "without events";
    learn(width);
    world.stack_bytes = options.stack_bytes;
    struct sample_set *set = sample_set_create(&options);
    struct err *error = sample_set_add(set, victim->pid);
    if (error || write(victim->in, "\n", 1) != 1) {
        WRONG("%s", error ? error->message : "the victim has ended");
        exit(1);
    }
    drain_until_end(victim, set);
    if (!sample_set_stops(set))
        WRONG("there are events");
    const struct seen *worker = named("worker"), *sleeper = named("sleeper");
    struct line line = line_of(victim, "worker");
    /* Not before it is found, and found dead a little late: what it ran since the last look is estimated. */
    expect_near("worker: time on processors", worker->on_ns, line.run_ns, 0.05, 50000000 + world.longest_gap_ns);
    expect_near("worker: all time", worker->on_ns + worker->off_ns, worker->end_ns - worker->start_ns, 0.0001, 1000);
    expect_near("worker: life", worker->end_ns - worker->start_ns, line.end_ns - line.start_ns, 0.05, 200000000 + 2 * world.longest_gap_ns);
    if (worker->samples < 20 || worker->odd || stacks_short() > 3)
        WRONG("worker: %u samples, %u odd, %u without a stack", worker->samples, worker->odd, stacks_short());
    if (sleeper->nap_ns + 2 * world.longest_gap_ns < 1320000000)
        OUT_OF_BOUNDS("sleeper: %" PRIu64 " of %" PRIu64 " ns in nap()", sleeper->nap_ns, sleeper->off_ns);
    sample_set_destroy(set);
}

/* As a user of no privilege, first with the events that the kernel allows that, then with none. */
static void run_unprivileged(void)
{
    FILE *in = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
    int level = 4;
    if (in && fscanf(in, "%d", &level) != 1)
        level = 4;
    if (in)
        fclose(in);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        if (!geteuid() && (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
            _exit(1);
        if (access("build/victim/32/v_waits", X_OK)) {
            printf("without the user, who may not execute the victims\n");
            _exit(0);
        }
        if (level <= 2) {
            run_case("64", SAMPLE_WALL, true);
            run_case("32", SAMPLE_WALL, true);
        }
        /* Whoever has a filter is not stopped by a user who may not suspend it: the victims start before there is one. */
        char *const arguments[] = {"-m", "1500", NULL};
        struct victim wide = {0}, narrow = {0};
        start(&wide, "64", arguments);
        start(&narrow, "32", arguments);
        forbid_events();
        run_forbidden("64", &wide);
        run_forbidden("32", &narrow);
        fflush(stdout);
        _exit(exit_code());
    }
    wait_for(child);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    run_losses();
    run_ended();
    for (int i = 0; i < 2; i++) {
        const char *width = i ? "32" : "64";
        run_case(width, SAMPLE_WALL, false);
        run_case(width, SAMPLE_CPU, false);
        run_restless(width, false);
        run_restless(width, true);
        for (int wanted = 0; wanted < 2; wanted++) {
            int times = 0;
            while (!run_stacks(width, wanted))
                if (++times == MANY_TIMES) {
                    WRONG("the machine is too busy");
                    break;
                }
        }
    }
    run_without_descriptors();
    run_short_of_descriptors(SAMPLE_CPU, 1024, 0);
    run_short_of_descriptors(SAMPLE_CPU, 0, 10000000);
    run_short_of_descriptors(SAMPLE_WALL, 1024, 0);
    if (!failures)
        run_unprivileged();
    return exit_code();
}
