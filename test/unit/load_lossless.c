/* Lossless: 8 threads make 1,000,000 calls to each of five functions, with probes on entry, return and one instruction inside each, while
 * 200 other probes a second come and go in the same process, also in the same functions. The counts must equal the program's own, in 64-
 * and 32-bit processes, started and attached (S2.2, S2.5). */
#include "base/memory.h"
#include "load/process.h"
#include "load/resolve.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FUNCS = 5, POINTS = 3, THREADS = 8 };
#define CHURN_PER_SECOND 220.0

struct victim {
    pid_t pid;
    FILE *in, *out; /* its stdin and stdout */
    char path[256];
    uint64_t offset[FUNCS]; /* of the instruction inside each function */
    uint64_t calls[FUNCS], mids[FUNCS];
};

static void fail(const char *what, struct err *error)
{
    printf("FAIL %s%s%s\n", what, error ? ": " : "", error ? error->message : "");
    exit(1);
}

static void must(struct err *error, const char *what)
{
    if (error)
        fail(what, error);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- the victim ---- */

static void read_offsets(struct victim *victim)
{
    char *command = memory_format("%s --offsets", victim->path);
    FILE *output = popen(command, "r");
    for (int i = 0; i < FUNCS; i++) {
        int number;
        unsigned long offset;
        if (!output || fscanf(output, "f%d +%lx\n", &number, &offset) != 2)
            fail("offsets", NULL);
        victim->offset[number - 1] = offset;
    }
    pclose(output);
    free(command);
}

/* Starts the victim on pipes, either under ptrace or alone. */
static struct target *start(struct victim *victim, const char *calls, bool traced)
{
    char *argv[] = {victim->path, "-t", "8", "-n", (char *)calls, "-w", NULL};
    int to[2], from[2], keep_in = dup(0), keep_out = dup(1);
    struct target *target = NULL;
    fflush(stdout);
    if (pipe(to) || pipe(from))
        fail("pipe", NULL);
    dup2(to[0], 0);
    dup2(from[1], 1);
    for (int i = 0; i < 2; i++) { /* only the copies on 0 and 1 are the victim's */
        fcntl(to[i], F_SETFD, FD_CLOEXEC);
        fcntl(from[i], F_SETFD, FD_CLOEXEC);
    }
    fcntl(keep_in, F_SETFD, FD_CLOEXEC);
    fcntl(keep_out, F_SETFD, FD_CLOEXEC);
    if (traced) {
        must(target_start(argv, &target), "start");
        victim->pid = target_pid(target);
    } else if ((victim->pid = fork()) == 0) {
        execv(victim->path, argv);
        _exit(127);
    }
    dup2(keep_in, 0);
    dup2(keep_out, 1);
    close(keep_in), close(keep_out), close(to[0]), close(from[1]);
    victim->in = fdopen(to[1], "w");
    victim->out = fdopen(from[0], "r");
    return target;
}

static void await_ready(struct victim *victim)
{
    char line[64];
    if (!fgets(line, sizeof line, victim->out) || strcmp(line, "ready\n"))
        fail("the victim is not ready", NULL);
}

static void read_totals(struct victim *victim)
{
    char line[64];
    for (int i = 0; i < 2 * FUNCS + 1 && fgets(line, sizeof line, victim->out); i++) {
        int number;
        unsigned long long count;
        if (sscanf(line, "f%d+mid %llu", &number, &count) == 2)
            victim->mids[number - 1] = count;
        else if (sscanf(line, "f%d %llu", &number, &count) == 2)
            victim->calls[number - 1] = count;
    }
}

/* ---- probes ---- */

static struct load_module *find_module(struct load_process *process, const char *name)
{
    for (size_t i = 0; i < load_process_module_count(process); i++)
        if (strstr(load_process_module(process, i)->path, name))
            return load_process_module(process, i);
    fail("module", NULL);
    return NULL;
}

static void add_requests(struct load_process *process, struct load_module *module, const char *text, uint32_t counter, size_t room,
                         struct load_request *request, size_t *count)
{
    struct spec spec;
    struct load_resolved resolved = {0};
    must(spec_parse(text, &spec), "spec");
    must(load_module_open(process, module), "module");
    load_resolve(module->code, &spec, &resolved);
    for (size_t i = 0; i < resolved.place.n && *count < room; i++)
        request[(*count)++] =
            (struct load_request){.module = module,
                                  .func_va = resolved.place.at[i].func_va,
                                  .func_size = resolved.place.at[i].func_size,
                                  .probe = {.va = resolved.place.at[i].va, .counter = counter, .taken = resolved.place.at[i].taken}};
    if (!resolved.place.n)
        fail(text, NULL);
    load_resolved_deinit(&resolved);
    spec_deinit(&spec);
}

static void place(struct load_process *process, const struct victim *victim, uint32_t counter[FUNCS][POINTS])
{
    struct load_request request[256];
    size_t count = 0;
    struct load_module *module = find_module(process, "v_count");
    for (int f = 0; f < FUNCS; f++)
        for (int p = 0; p < POINTS; p++) {
            char text[300], suffix[32];
            snprintf(suffix, sizeof suffix, "+0x%lx", (unsigned long)victim->offset[f]);
            snprintf(text, sizeof text, "%s:f%d%s", victim->path, f + 1, p == 0 ? "" : p == 1 ? ":return" : suffix);
            must(load_process_new_counter(process, &counter[f][p]), "counter");
            add_requests(process, module, text, counter[f][p], 256, request, &count);
        }
    must(load_process_change(process, request, count), "change");
    for (size_t i = 0; i < count; i++)
        if (request[i].kind == LOAD_REFUSED)
            fail(insn_reason_text(request[i].reason), NULL);
}

/* Every instruction of the five functions and the entries of libc are candidates. */
static size_t churn_candidates(struct load_process *process, const struct victim *victim, uint32_t counter, struct load_request *request,
                               size_t room)
{
    size_t count = 0;
    struct load_module *module = find_module(process, "v_count");
    for (int f = 0; f < FUNCS; f++) {
        char text[300];
        snprintf(text, sizeof text, "%s:f%d", victim->path, f + 1);
        size_t at = count;
        add_requests(process, module, text, counter, room, request, &count);
        struct load_request entry = request[at];
        struct load_flow flow;
        load_flow_init(&flow, module->code, entry.func_va, entry.func_size);
        for (size_t i = 1; i < flow.count && count < room && flow.insn[i].va < flow.end_va; i++) {
            request[count] = entry;
            request[count++].probe.va = flow.insn[i].va;
        }
        load_flow_deinit(&flow);
    }
    add_requests(process, find_module(process, "libc.so"), "libc:*", counter, room, request, &count);
    return count;
}

/* Candidates may be traps: then threads stop at them. */
static bool handle_stop(struct load_process *process)
{
    int status;
    pid_t tid = target_next_stop(&status);
    return tid && load_process_handle_stop(process, tid, status);
}

static bool has_output(const struct victim *victim)
{
    struct timeval none = {0};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fileno(victim->out), &set);
    return select(fileno(victim->out) + 1, &set, NULL, NULL, &none) > 0;
}

/* How long this thread has waited for a processor that others had. */
static double waited_s(void)
{
    char path[64];
    unsigned long long waited_ns = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", getpid());
    FILE *in = fopen(path, "re");
    if (in && fscanf(in, "%*u %llu", &waited_ns) != 1)
        waited_ns = 0;
    if (in)
        fclose(in);
    return (double)waited_ns / 1e9;
}

/* Inserts probes and removes those inserted before until the victim has printed its totals. Returns how many a second were inserted while
 * it did not wait for a processor. A change has several: on a busy machine it takes a while until every thread has been scheduled, so that
 * it can stop. */
static double churn(struct load_process *process, struct victim *victim, uint32_t counter)
{
    enum { ROOM = 4096, AT_ONCE = 16 };
    struct load_request *candidate = memory_alloc(ROOM * sizeof *candidate), alive[AT_ONCE];
    size_t candidates = churn_candidates(process, victim, counter, candidate, ROOM), done = 0;
    double start_s = now_s(), start_waited_s = waited_s();
    while (!has_output(victim)) {
        struct load_request change[2 * AT_ONCE];
        size_t n = 0;
        for (size_t i = 0; done && i < AT_ONCE; i++) {
            change[n] = alive[i];
            change[n++].remove = true;
        }
        /* Half of them in the functions that are being counted. */
        for (size_t i = 0; i < AT_ONCE; i++)
            change[n++] = alive[i] = candidate[(size_t)random() % (i % 2 ? candidates : candidates < 200 ? candidates : 200)];
        must(load_process_change(process, change, n), "churn");
        done += AT_ONCE;
        double due_s = start_s + (double)done / CHURN_PER_SECOND;
        while (now_s() < due_s && !has_output(victim)) {
            while (handle_stop(process))
                ;
            usleep(200);
        }
    }
    free(candidate);
    return (double)done / (now_s() - start_s - (waited_s() - start_waited_s));
}

/* ---- one case ---- */

static bool is_slow;

static int run_case(int width, bool traced, const char *calls)
{
    struct victim victim = {0};
    snprintf(victim.path, sizeof victim.path, "build/victim/%d/v_count", width);
    read_offsets(&victim);
    struct target *target = start(&victim, calls, traced);
    struct load_cache *cache = load_cache_create();
    struct load_process *process;
    uint32_t counter[FUNCS][POINTS], churned;
    if (traced) {
        target_hold(target, true);
    } else {
        await_ready(&victim);
        must(target_open(victim.pid, &target), "open");
    }
    must(load_process_create(target, cache, 4096, &process), "attach");
    must(load_process_refresh(process), "modules");
    place(process, &victim, counter);
    if (traced) {
        target_hold(target, false);
        must(target_resume(target), "resume");
        await_ready(&victim);
        must(load_process_refresh(process), "modules");
    }
    must(load_process_new_counter(process, &churned), "counter");
    fputs("\n", victim.in);
    fflush(victim.in);
    double rate = churn(process, &victim, churned);
    read_totals(&victim);
    await_ready(&victim);
    must(load_process_detach(process), "detach");
    int failures = 0;
    for (int f = 0; f < FUNCS; f++) {
        uint64_t want[POINTS] = {victim.calls[f], victim.calls[f], victim.mids[f]};
        for (int p = 0; p < POINTS; p++) {
            uint64_t got = load_process_counter(process, counter[f][p]);
            if (got == want[p])
                continue;
            failures++;
            printf("FAIL %d-bit %s: f%d %s: counted %llu, the program says %llu\n", width, traced ? "started" : "attached", f + 1,
                   p == 0   ? "entry"
                   : p == 1 ? "return"
                            : "instruction",
                   (unsigned long long)got, (unsigned long long)want[p]);
        }
    }
    if (rate < 200) {
        is_slow = true;
        printf("out of bounds: %d-bit %s: only %.0f probes a second came and went\n", width, traced ? "started" : "attached", rate);
    }
    load_process_destroy(process);
    load_cache_destroy(cache);
    fputs("\n", victim.in);
    fclose(victim.in);
    fclose(victim.out);
    int status = 0;
    if (!traced)
        waitpid(victim.pid, &status, 0);
    else
        waitpid(victim.pid, &status, __WALL);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        failures++;
        printf("FAIL %d-bit %s: the victim ended with status 0x%x\n", width, traced ? "started" : "attached", status);
    }
    if (!failures)
        printf("ok %d-bit %s: f1..f5 %llu calls each at least, %.0f other probes a second\n", width, traced ? "started" : "attached",
               (unsigned long long)victim.calls[0], rate);
    return failures;
}

int main(int argc, char **argv)
{
    const char *calls = argc > 1 ? argv[1] : "1000000";
    int failures = 0;
    srandom(1);
    for (int width = 64; width >= 32; width -= 32)
        for (int traced = 0; traced < 2; traced++)
            failures += run_case(width, traced, calls);
    return failures ? 1 : is_slow ? 75 : 0;
}
