/* A thread that waits in a clause for room in its ring does not hold changes up: its probe goes at once, others come and go meanwhile, and
 * when there is room again it returns to a trampoline that is still there (load/limbo.c). In 64- and 32-bit processes. */
#include "base/memory.h"
#include "drain/session.h"
#include "load/process.h"
#include "load/program.h"
#include "load/resolve.h"
#include "stream/assemble.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FUNCS = 5, ROOM = 64, RING_BYTES = 4096, ROUNDS = 30 };

static int width;

static void fail(const char *what, struct err *error)
{
    printf("FAIL %d-bit: %s%s%s\n", width, what, error ? ": " : "", error ? error->message : "");
    exit(1);
}

static void must(struct err *error, const char *what)
{
    if (error)
        fail(what, error);
}

/* ---- the victim ---- */

struct victim {
    pid_t pid;
    FILE *in, *out;
    char path[64];
};

static void start(struct victim *victim)
{
    int to[2], from[2];
    fflush(stdout);
    if (pipe(to) || pipe(from))
        fail("pipe", NULL);
    if ((victim->pid = fork()) == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        execl(victim->path, victim->path, "-t", "1", "-n", "20000", "-w", (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    victim->in = fdopen(to[1], "w");
    victim->out = fdopen(from[0], "r");
}

static void await_line(struct victim *victim, const char *wanted)
{
    char line[64];
    while (fgets(line, sizeof line, victim->out))
        if (!strncmp(line, wanted, strlen(wanted)))
            return;
    fail("the victim has ended too early", NULL);
}

static bool has_output(const struct victim *victim)
{
    struct pollfd fd = {.fd = fileno(victim->out), .events = POLLIN};
    return poll(&fd, 1, 1) > 0;
}

/* ---- probes ---- */

static size_t requests(struct load_process *process, const struct victim *victim, const char *point, struct load_request *out)
{
    size_t count = 0;
    struct load_module *module = NULL;
    for (size_t i = 0; i < load_process_module_count(process) && !module; i++)
        module = strstr(load_process_module(process, i)->path, "v_count") ? load_process_module(process, i) : NULL;
    uint64_t body_va;
    must(load_module_open(process, module), "module");
    must(load_process_body(process, 0, module->code, &body_va), "body");
    for (int f = 1; f <= FUNCS; f++) {
        struct spec spec;
        struct load_resolved resolved = {0};
        char *text = memory_format("%s:f%d%s", victim->path, f, point);
        must(spec_parse(text, &spec), "spec");
        load_resolve(module->code, &spec, &resolved);
        for (size_t i = 0; i < resolved.place.n && count < ROOM; i++) {
            const struct load_place *place = &resolved.place.at[i];
            struct wire_place meaning = {0};
            struct load_request *request = &out[count++];
            *request = (struct load_request){.module = module, .func_va = place->func_va, .func_size = place->func_size};
            request->probe =
                (struct load_probe){.va = place->va, .action = LOAD_CLAUSE, .body_va = body_va, .taken = place->taken, .no_trap = true};
            must(load_process_new_place(process, place->va + module->bias, module->bias, &meaning, &request->probe.counter), "place");
        }
        load_resolved_deinit(&resolved);
        spec_deinit(&spec);
        free(text);
    }
    return count;
}

static void change(struct load_process *process, struct load_request *request, size_t count, bool remove)
{
    for (size_t i = 0; i < count; i++)
        request[i].remove = remove;
    must(load_process_change(process, request, count), remove ? "removing" : "adding");
}

static void ignore(void *context, const struct drain_record *record)
{
    (void)context, (void)record;
}

/* ---- one case ---- */

static uint32_t waiting(struct drain_session *memory)
{
    return __atomic_load_n(&wire_state(memory->memory)->writers, __ATOMIC_SEQ_CST);
}

static void run_case(void)
{
    static const struct wire_insn code[] = {{.op = WIRE_EMIT}, {.op = WIRE_END}};
    const struct stream_clause_code clause = {code, 2, 0};
    const uint32_t no_bytes = 0;
    struct wire_stream *stream = stream_assemble(NULL, &clause, 1, &no_bytes, 1);
    struct drain_session memory;
    struct load_cache *cache = load_cache_create();
    struct load_process *process;
    struct target *target;
    struct victim victim = {0};
    snprintf(victim.path, sizeof victim.path, "build/victim/%d/v_count", width);
    must(drain_session_create(stream, &(struct drain_options){.ring_bytes = RING_BYTES, .lossless = true}, &memory), "session");
    struct load_program program = {.stream = stream, .memory = memory.memory, .memory_fd = memory.fd};
    start(&victim);
    await_line(&victim, "ready");
    must(target_open(victim.pid, &target), "open");
    must(load_process_create(target, cache, 1 << 14, &process), "attach");
    must(load_process_prepare(process, &program), "program");
    must(load_process_refresh(process), "modules");
    must(load_process_look_for_filters(process), "filters"); /* before, clauses make no system call and wait for nobody */
    struct load_request entry[ROOM], other[ROOM];
    size_t entries = requests(process, &victim, "", entry), others = requests(process, &victim, ":return", other);
    change(process, entry, entries, false);
    fputs("\n", victim.in);
    fflush(victim.in);
    for (int i = 0; !waiting(&memory); i++) {
        if (i == 20000)
            fail("no thread waits", NULL);
        usleep(1000);
    }
    change(process, entry, entries, true);
    for (int i = 0; i < ROUNDS && !drain_session_lost(&memory, WIRE_LOSS_RING); i++) {
        change(process, other, others, false);
        change(process, other, others, true);
    }
    /* Else it has given up, as it may on a machine that is very busy, and nothing was shown. */
    bool is_shown = !drain_session_lost(&memory, WIRE_LOSS_RING);
    while (!has_output(&victim))
        drain_records(&memory, stream, false, ignore, NULL);
    await_line(&victim, "sum ");
    await_line(&victim, "ready");
    must(load_process_detach(process), "detach");
    load_process_destroy(process);
    load_cache_destroy(cache);
    drain_session_destroy(&memory);
    free(stream);
    fputs("\n", victim.in);
    fclose(victim.in);
    int status;
    waitpid(victim.pid, &status, 0);
    if (status)
        fail("the victim was harmed", NULL);
    fclose(victim.out);
    if (!is_shown)
        fail("the thread did not wait until the end: the machine is too busy", NULL);
    printf("ok %d-bit\n", width);
}

int main(void)
{
    for (width = 64; width >= 32; width -= 32)
        run_case();
    return 0;
}
