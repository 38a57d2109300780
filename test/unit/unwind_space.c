/* Walks of live threads. The child below calls itself so many times and stops; its stack must have the function so often, and end in its
 * outermost frame; from a copy of the stack, too. Modules come and go as mappings do.
 *
 * With `--serve PID` it is the other side of test/live/stacks_gdb.py: for each line `walk PC REG0 REG1 ...` (hexadecimal, by DWARF number)
 * it prints the frames that it finds, and after a line `kick MICROSECONDS` it sends SIGINT to the process that much later. */
#include "test/check.h"
#include "unwind/space.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 4096, DEPTH = 40 };

/* ---- the other side of gdb ---- */

static void die(struct err *error)
{
    if (!error)
        return;
    fprintf(stderr, "%s\n", error->message);
    exit(1);
}

static void serve_walk(struct unwind_process *process, char *text)
{
    static uint64_t pcs[ROOM];
    struct unwind_regs regs = {0};
    struct unwind_result result;
    regs.pc = strtoull(text, &text, 16);
    for (unsigned i = 0; i < 16 && *text == ' '; i++) {
        regs.reg[i] = strtoull(text, &text, 16);
        regs.known |= 1u << i;
    }
    unwind_process_walk(process, &regs, NULL, pcs, ROOM, &result);
    printf("%d%s", (int)result.end, result.guessed ? "?" : "");
    for (uint32_t i = 0; i < result.count; i++)
        printf(" %" PRIx64, pcs[i]);
    puts("");
}

static int serve(pid_t pid)
{
    char line[1024];
    struct unwind_tables *tables = unwind_tables_create();
    struct unwind_process *process;
    die(unwind_process_open(tables, pid, 0, &process));
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "walk ", 5) == 0) {
            serve_walk(process, line + 5);
        } else if (strncmp(line, "kick ", 5) == 0) {
            usleep((useconds_t)strtoul(line + 5, NULL, 10));
            kill(pid, SIGINT);
        } else if (strncmp(line, "maps", 4) == 0) {
            die(unwind_process_refresh(process));
        }
        fflush(stdout);
    }
    unwind_process_close(process);
    unwind_tables_destroy(tables);
    return 0;
}

/* ---- the test ---- */

static __attribute__((noipa, no_sanitize("address", "undefined"))) uint64_t descend(unsigned depth)
{
    if (depth == 0) {
        raise(SIGSTOP);
        return 1;
    }
    volatile uint64_t kept = depth;
    return descend(depth - 1) * 3 + kept;
}

static uint32_t count_in(const uint64_t *pcs, uint32_t count, uint64_t va, uint64_t bytes)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += pcs[i] - va < bytes;
    return found;
}

/* What a walk that has a part of the stack only finds further out is compared with what was there before, and nothing else is. */
static void check_callers(struct unwind_process *process, const struct unwind_regs *regs, struct unwind_stack stack)
{
    static uint64_t pcs[ROOM];
    static struct unwind_seen before, now;
    struct unwind_result result;
    stack.now = &before;
    unwind_process_walk(process, regs, &stack, pcs, ROOM, &result);
    CHECK(!result.is_new && before.count, "%u return addresses", before.count);
    stack.now = &now;
    stack.before = &before;
    unwind_process_walk(process, regs, &stack, pcs, ROOM, &result);
    CHECK(!result.is_new && now.count == before.count, "what did not change is new, %u of %u", now.count, before.count);
    for (uint32_t i = 0; i < before.count; i++) {
        before.word[i]++;
        unwind_process_walk(process, regs, &stack, pcs, ROOM, &result);
        CHECK(result.is_new == (before.va[i] >= stack.far_va), "return address %u has changed: new %d", i, (int)result.is_new);
        before.word[i]--;
    }
    before.count--;
    unwind_process_walk(process, regs, &stack, pcs, ROOM, &result);
    CHECK(result.is_new, "what was not there is not new");
}

static void check_stack(struct unwind_process *process, struct target *target)
{
    static uint64_t pcs[ROOM];
    static uint8_t copy[1 << 16];
    struct unwind_regs regs;
    struct unwind_result result;
    struct unwind_found found;
    unwind_regs_from_user(&target_thread(target, 0)->regs, 64, &regs);
    uint64_t func_va = (uintptr_t)descend;
    unwind_process_walk(process, &regs, NULL, pcs, ROOM, &result);
    CHECK(result.end == UNWIND_COMPLETE && !result.guessed, "end %d of %u frames", (int)result.end, result.count);
    CHECK(count_in(pcs, result.count, func_va, 128) == DEPTH + 1, "%u frames", count_in(pcs, result.count, func_va, 128));
    CHECK(unwind_process_find(process, pcs[result.count - 1], &found) && found.has_table, "the outermost frame is nowhere");
    uint32_t whole = result.count;

    struct unwind_stack stack = {.va = regs.reg[WIRE_REG64_SP], .bytes = copy, .copy_only = true};
    stack.size = target_peek(target_pid(target), stack.va, copy, sizeof copy);
    unwind_process_walk(process, &regs, &stack, pcs, ROOM, &result);
    CHECK(result.end == UNWIND_COMPLETE && result.count == whole, "from a copy: end %d of %u frames", (int)result.end, result.count);
    stack.size = 256;
    unwind_process_walk(process, &regs, &stack, pcs, ROOM, &result);
    CHECK(result.end == UNWIND_NO_READ && result.count < whole, "from a short copy: end %d of %u frames", (int)result.end, result.count);
    CHECK(result.missing_va + 8 > stack.va + stack.size, "missing %" PRIx64, result.missing_va);
    stack.copy_only = false;
    unwind_process_walk(process, &regs, &stack, pcs, ROOM, &result);
    CHECK(result.end == UNWIND_COMPLETE && result.count == whole, "from a copy and the process: end %d of %u frames", (int)result.end,
          result.count);
    stack.far_va = stack.va + stack.size;
    check_callers(process, &regs, stack);
    unwind_process_walk(process, &regs, NULL, pcs, 5, &result);
    CHECK(result.end == UNWIND_ROOM && result.count == 5, "end %d of %u frames", (int)result.end, result.count);
}

static void check_modules(struct unwind_process *process)
{
    struct unwind_found found;
    uint64_t code_va = (uintptr_t)descend, libc_va = (uintptr_t)dlsym(RTLD_DEFAULT, "lfind");
    CHECK(unwind_process_find(process, code_va, &found) && found.has_table && strstr(found.path, "unwind_space") && found.build_id_size,
          "this program");
    CHECK(unwind_process_find(process, libc_va, &found) && found.has_table && strstr(found.path, "libc.so"), "the C library");
    /* Something replaces the middle of it, as a mapping over it would. */
    uint64_t start_va = found.start_va, end_va = found.end_va, middle_va = (start_va + 8192) & ~4095ull;
    uint32_t before = unwind_process_space(process)->module_count;
    struct target_map map = {.start_va = middle_va, .end_va = middle_va + 4096, .executable = true, .path = ""};
    unwind_process_map(process, &map);
    const struct unwind_space *space = unwind_process_space(process);
    CHECK(space->module_count == before + 2, "%u modules", space->module_count);
    for (uint32_t i = 1; i < space->module_count; i++)
        CHECK(space->module[i - 1].end_va <= space->module[i].start_va, "modules overlap at %" PRIx64, space->module[i].start_va);
    CHECK(unwind_process_find(process, middle_va, &found) && !found.has_table && !found.path[0], "the new mapping");
    CHECK(unwind_process_find(process, middle_va - 1, &found) && found.has_table && found.end_va == middle_va, "what is left below");
    CHECK(unwind_process_find(process, middle_va + 4096, &found) && found.has_table && found.end_va == end_va, "what is left above");
    CHECK(!unwind_process_find(process, 0, &found), "nothing is at 0");
    die(unwind_process_refresh(process));
    CHECK(unwind_process_find(process, middle_va, &found) && found.has_table && found.start_va == start_va, "as it really is");
    CHECK(unwind_process_space(process)->module_count == before, "%u modules", unwind_process_space(process)->module_count);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--serve") == 0)
        return serve(atoi(argv[2]));
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit((int)descend(DEPTH) & 1);
    }
    int status;
    if (child < 0 || waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status)) {
        puts("the child does not stop");
        return 1;
    }
    struct unwind_tables *tables = unwind_tables_create();
    struct unwind_process *process;
    struct target *target;
    die(unwind_process_open(tables, child, 0, &process));
    die(target_open(child, &target));
    die(target_stop(target));
    check_stack(process, target);
    check_modules(process);
    check_stack(process, target);
    target_close(target);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    struct err *error = unwind_process_refresh(process);
    CHECK(error, "a process that has ended has mappings");
    err_free(error);
    unwind_process_close(process);
    unwind_tables_destroy(tables);
    return failures ? 1 : 0;
}
