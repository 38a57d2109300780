/* The walk is right at every instruction. A victim is single-stepped from main() on; each call that it executes puts a return address on a
 * list of ours, each stack pointer above one takes it off, each signal puts the restorer and the interrupted instruction on it. At every
 * step the frames that are found must be that list. So the first and the last instruction of functions, PLT stubs, the resolver behind
 * them, signal frames on both stacks and exceptions are all covered.
 *
 * Not counted as wrong: the functions of libgcc that overwrite their own frames to go on elsewhere (_Unwind_Resume and others), and what
 * they call.
 *
 * Without arguments it tests the victims; `unwind_steps STEPS PROGRAM ARG...` any program.
 * timeout: 240 */
#include "symbol/symbol.h"
#include "unwind/space.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 4096, SHOWN = 12, BETWEEN_SIGNALS = 307, FILES = 16 };

struct entry {
    uint64_t slot_va; /* of the return address: when the stack pointer is above it, the frame is gone */
    uint64_t return_va;
    bool is_interrupted; /* by a signal */
};

struct stepper {
    pid_t pid;
    int width;
    uint32_t word; /* bytes */
    struct user_regs_struct regs;
    struct unwind_process *process;
    struct entry entries[ROOM];
    uint32_t count;
    uint64_t tail[ROOM]; /* frames from main()'s caller on */
    uint32_t tail_count;
    uint64_t steps, wrong, excused, signals, deepest;
    struct symbol_file *file[FILES]; /* symbols of files that were met when something was wrong */
    uint32_t file_count;
    uint64_t shown[SHOWN]; /* instructions at which it was wrong */
    uint32_t shown_count;
    bool has_handlers; /* it has raised both of its signals itself */
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void take(struct err *error)
{
    if (!error)
        return;
    puts(error->message);
    exit(1);
}

/* ---- the process ---- */

static uint64_t read_word(const struct stepper *stepper, uint64_t va)
{
    uint64_t word = 0;
    target_peek(stepper->pid, va, &word, stepper->word);
    return word;
}

static void read_regs(struct stepper *stepper)
{
    if (ptrace(PTRACE_GETREGS, stepper->pid, 0, &stepper->regs) < 0)
        die("GETREGS");
}

/* Returns the signal that it stopped with, 0 when it has ended. */
static int wait_stop(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid)
        die("waitpid");
    return WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
}

/* Runs to `va`. */
static void run_to(struct stepper *stepper, uint64_t va)
{
    errno = 0;
    long code = ptrace(PTRACE_PEEKTEXT, stepper->pid, va, 0);
    if (errno || ptrace(PTRACE_POKETEXT, stepper->pid, va, (code & ~0xffl) | 0xcc) < 0)
        die("breakpoint");
    if (ptrace(PTRACE_CONT, stepper->pid, 0, 0) < 0 || wait_stop(stepper->pid) != SIGTRAP)
        die("run to a breakpoint");
    read_regs(stepper);
    if (stepper->regs.rip != va + 1) {
        puts("stopped elsewhere");
        exit(1);
    }
    stepper->regs.rip = va;
    if (ptrace(PTRACE_SETREGS, stepper->pid, 0, &stepper->regs) < 0 || ptrace(PTRACE_POKETEXT, stepper->pid, va, code) < 0)
        die("breakpoint");
}

static uint64_t program_entry(const struct stepper *stepper)
{
    char path[64];
    uint64_t vector[128] = {0};
    snprintf(path, sizeof path, "/proc/%d/auxv", stepper->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, vector, sizeof vector) <= 0)
        die(path);
    close(fd);
    for (unsigned i = 0; i < 64; i++) {
        const uint32_t *narrow = (const uint32_t *)vector + 2 * i;
        if (stepper->width == 64 ? vector[2 * i] == AT_ENTRY : narrow[0] == AT_ENTRY)
            return stepper->width == 64 ? vector[2 * i + 1] : narrow[1];
    }
    return 0;
}

static void start(struct stepper *stepper, char *const argv[])
{
    stepper->pid = fork();
    if (stepper->pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[0], argv);
        _exit(127);
    }
    struct symbol_file *file;
    take(symbol_file_open(argv[0], &file));
    stepper->width = symbol_file_width(file);
    stepper->word = (uint32_t)stepper->width / 8;
    size_t count;
    uint64_t main_va = 0;
    const struct symbol_func *funcs = symbol_file_funcs(file, &count);
    for (size_t i = 0; i < count; i++)
        main_va = strcmp(funcs[i].name, "main") == 0 ? funcs[i].va : main_va;
    if (wait_stop(stepper->pid) != SIGTRAP || ptrace(PTRACE_SETOPTIONS, stepper->pid, 0, PTRACE_O_EXITKILL) < 0)
        die(argv[0]);
    uint64_t entry_va = program_entry(stepper);
    run_to(stepper, entry_va);
    run_to(stepper, main_va + entry_va - symbol_file_entry(file));
    symbol_file_close(file);
}

/* ---- the list ---- */

static void push(struct stepper *stepper, uint64_t slot_va, uint64_t return_va, bool is_interrupted)
{
    if (stepper->count == ROOM) {
        puts("too deep");
        exit(1);
    }
    stepper->entries[stepper->count++] = (struct entry){slot_va, return_va, is_interrupted};
}

static bool in_handler(const struct stepper *stepper)
{
    bool found = false;
    for (uint32_t i = 0; i < stepper->count; i++)
        found |= stepper->entries[i].is_interrupted;
    return found;
}

/* Whether the bytes are a call: E8, or FF /2 behind prefixes. */
static bool is_call(const uint8_t *code)
{
    unsigned i = 0;
    while (i < 4 && (code[i] == 0xf2 || code[i] == 0x3e || code[i] == 0x65 || code[i] == 0x66 || (code[i] & 0xf0) == 0x40))
        i++;
    return code[i] == 0xe8 || (code[i] == 0xff && (code[i + 1] >> 3 & 7) == 2);
}

/* One instruction. False when the program has ended. */
static bool step(struct stepper *stepper, int *signal)
{
    uint8_t code[16] = {0};
    uint64_t pc = stepper->regs.rip, sp = stepper->regs.rsp;
    int deliver = *signal;
    target_peek(stepper->pid, pc, code, sizeof code);
    if (ptrace(PTRACE_SINGLESTEP, stepper->pid, 0, deliver) < 0)
        die("SINGLESTEP");
    int stop = wait_stop(stepper->pid);
    if (!stop)
        return false;
    *signal = stop == SIGTRAP ? 0 : stop;
    read_regs(stepper);
    uint64_t new_sp = stepper->regs.rsp;
    if (deliver) { /* it is at the first instruction of its handler */
        push(stepper, new_sp + 2 * stepper->word, pc, true);
        push(stepper, new_sp, read_word(stepper, new_sp), false);
        stepper->has_handlers = ++stepper->signals >= 2;
        return true;
    }
    if (stepper->regs.rip == pc && *signal) /* a signal before the instruction */
        return true;
    while (stepper->count && stepper->entries[stepper->count - 1].slot_va < new_sp)
        stepper->count--;
    if (new_sp == sp - stepper->word && is_call(code))
        push(stepper, new_sp, read_word(stepper, new_sp), false);
    return true;
}

/* ---- comparing ---- */

static void show(const struct stepper *stepper, const char *who, const uint64_t *pcs, uint32_t count)
{
    printf("  %s:", who);
    for (uint32_t i = 0; i < count && i < 6; i++) {
        struct unwind_found found;
        if (unwind_process_find(stepper->process, pcs[i], &found)) {
            const char *slash = strrchr(found.path, '/');
            printf(" %s+%" PRIx64, slash ? slash + 1 : found.path, pcs[i] - found.start_va + found.file_offset);
        } else {
            printf(" %" PRIx64, pcs[i]);
        }
    }
    puts("");
}

/* Whether the code is in a function that throws. */
static bool is_throwing(struct stepper *stepper, uint64_t pc)
{
    struct unwind_found found;
    if (!unwind_process_find(stepper->process, pc, &found) || !found.has_table || found.path[0] != '/')
        return false;
    uint32_t at = 0;
    while (at < stepper->file_count && strcmp(symbol_file_path(stepper->file[at]), found.path) != 0)
        at++;
    if (at == FILES)
        return false;
    if (at == stepper->file_count)
        take(symbol_file_open(found.path, &stepper->file[stepper->file_count++]));
    const struct symbol_func *func = symbol_file_func_at(stepper->file[at], pc - found.bias);
    return func && (strcmp(func->name, "_Unwind_RaiseException") == 0 || strncmp(func->name, "_Unwind_Resume", 14) == 0 ||
                    strcmp(func->name, "_Unwind_ForcedUnwind") == 0);
}

static void compare(struct stepper *stepper)
{
    static uint64_t ours[ROOM], truth[2 * ROOM];
    struct unwind_regs regs;
    struct unwind_result result;
    uint32_t count = 0;
    truth[count++] = stepper->regs.rip;
    for (uint32_t i = stepper->count; i-- > 0;)
        truth[count++] = stepper->entries[i].return_va;
    memcpy(truth + count, stepper->tail, stepper->tail_count * sizeof *truth);
    count += stepper->tail_count;
    unwind_regs_from_user(&stepper->regs, stepper->width, &regs);
    unwind_process_walk(stepper->process, &regs, NULL, ours, ROOM, &result);
    stepper->steps++;
    stepper->deepest = count > stepper->deepest ? count : stepper->deepest;
    if (result.count == count && memcmp(ours, truth, count * sizeof *truth) == 0)
        return;
    for (uint32_t i = 0; i < count && i < 3; i++)
        if (is_throwing(stepper, truth[i])) {
            stepper->excused++;
            return;
        }
    stepper->wrong++;
    bool is_new = stepper->shown_count < SHOWN;
    for (uint32_t i = 0; i < stepper->shown_count; i++)
        is_new &= stepper->shown[i] / 64 != stepper->regs.rip / 64;
    if (is_new) {
        stepper->shown[stepper->shown_count++] = stepper->regs.rip;
        printf("step %" PRIu64 ": %u frames instead of %u, end %d\n", stepper->steps, result.count, count, (int)result.end);
        show(stepper, "found", ours, result.count);
        show(stepper, "truth", truth, count);
    }
}

/* Returns whether enough is right. */
static bool run(uint64_t steps, char *const argv[])
{
    static struct stepper stepper;
    struct unwind_tables *tables = unwind_tables_create();
    struct unwind_regs regs;
    struct unwind_result result;
    memset(&stepper, 0, sizeof stepper);
    start(&stepper, argv);
    take(unwind_process_open(tables, stepper.pid, 0, &stepper.process));
    unwind_regs_from_user(&stepper.regs, stepper.width, &regs);
    uint64_t frames[ROOM];
    unwind_process_walk(stepper.process, &regs, NULL, frames, ROOM, &result);
    if (result.end != UNWIND_COMPLETE || result.count < 2) {
        puts("main() has no callers");
        exit(1);
    }
    push(&stepper, stepper.regs.rsp, frames[1], false);
    stepper.tail_count = result.count - 2;
    memcpy(stepper.tail, frames + 2, stepper.tail_count * sizeof *frames);
    compare(&stepper);
    uint64_t sp = 0, next = BETWEEN_SIGNALS;
    for (int signal = 0; stepper.steps < steps && step(&stepper, &signal); sp = stepper.regs.rsp) {
        if (!signal)
            compare(&stepper);
        /* Where the stack pointer has just changed, there is another rule one byte before. */
        if (in_handler(&stepper)) {
            next = stepper.steps + BETWEEN_SIGNALS;
        } else if (!signal && stepper.has_handlers && stepper.steps >= next && sp != stepper.regs.rsp) {
            signal = stepper.signals % 2 ? SIGALRM : SIGVTALRM;
        }
    }
    kill(stepper.pid, SIGKILL);
    waitpid(stepper.pid, NULL, 0);
    unwind_process_close(stepper.process);
    unwind_tables_destroy(tables);
    for (uint32_t i = 0; i < stepper.file_count; i++)
        symbol_file_close(stepper.file[i]);
    printf("%s: %" PRIu64 " steps, %" PRIu64 " wrong, %" PRIu64 " while throwing, %" PRIu64 " signals, up to %" PRIu64 " frames\n", argv[0],
           stepper.steps, stepper.wrong, stepper.excused, stepper.signals, stepper.deepest);
    fflush(stdout);
    return stepper.wrong * 10000 <= stepper.steps && stepper.excused * 50 <= stepper.steps && stepper.steps >= 10000;
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return !run(strtoull(argv[1], NULL, 0), argv + 2);
    static const char *const victims[] = {"64/v_stacks",     "32/v_stacks",        "64/v_stacks-now",
                                          "32/v_stacks-now", "64/v_stacks-static", "32/v_stacks-static"};
    uint64_t steps = getenv("PROBITY_LONG") && *getenv("PROBITY_LONG") ? 3000000 : 60000;
    bool is_good = true;
    for (size_t i = 0; i < sizeof victims / sizeof *victims; i++) {
        char path[256];
        snprintf(path, sizeof path, "build/victim/%s", victims[i]);
        is_good &= run(steps, (char *[]){path, "2000", NULL});
    }
    return !is_good;
}
