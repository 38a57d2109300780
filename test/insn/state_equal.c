/* state_equal --width 32|64 [--count N] [--seed S] [--case NUMBER]
 *
 * Runs N random instructions natively (twice, to know what the processor itself does not repeat) and as copies, and compares registers,
 * flags, vector and x87 state, memory, where control went, and signals with their addresses. Copies of several instructions are also
 * single-stepped: from every boundary the thread is put back by the step list, and must end as the native run did. Prints what ran by
 * instruction set. Exit 0: no mismatch and every expected class ran; 1: not; 2: usage; 77: this machine can not run the test. */
#include "state.h"

#include <cpuid.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FLAG_TF = 0x100, FLAG_RF = 0x10000, MISMATCHES_SHOWN = 5, MISMATCHES_MAX = 100, CLASSES_FROM = 20000 };

static enum insn_mode mode;
static uint64_t seed;
static uint64_t current;
static struct state_case test;
static struct state_result native, again, copy;

/* ==== what ran ==== */

struct tally {
    uint64_t equal;     /* compared, reached a stub */
    uint64_t fault;     /* compared, both faulted */
    uint64_t refused;   /* insn_relocate() declined */
    uint64_t unsteady;  /* two native runs differ: only pc and signal compared */
    uint64_t different; /* mismatch */
};
static struct tally by_set[ZYDIS_ISA_SET_MAX_VALUE + 1], total;
static uint64_t by_refusal[INSN_REASON_COUNT];
static uint64_t unsteady_mnemonic[ZYDIS_MNEMONIC_MAX_VALUE + 1];

/* Classes that must have run to completion at least once, each where mode and processor have it. */
enum class {
    CLASS_INTEGER,
    CLASS_STRING,
    CLASS_REP,
    CLASS_STACK,
    CLASS_JMP,
    CLASS_JMP_INDIRECT,
    CLASS_JCC,
    CLASS_LOOP,
    CLASS_CALL,
    CLASS_CALL_REGISTER,
    CLASS_CALL_MEMORY,
    CLASS_RET,
    CLASS_SYSCALL,
    CLASS_PC_RELATIVE,
    CLASS_CALL_PC_RELATIVE,
    CLASS_SEGMENT,
    CLASS_ADDRESS_SIZE,
    CLASS_ATOMIC,
    CLASS_SEMAPHORE,
    CLASS_X87,
    CLASS_MMX,
    CLASS_SSE,
    CLASS_SSE4,
    CLASS_AES,
    CLASS_AVX,
    CLASS_AVX2,
    CLASS_GATHER,
    CLASS_FMA,
    CLASS_AVX512,
    CLASS_BMI1,
    CLASS_BMI2,
    CLASS_XSAVE,
    CLASS_FAULT,
    CLASS_PUT_BACK,
    CLASS_COUNT
};
static const char *const class_names[CLASS_COUNT] = {
    "integer",       "string",      "rep",  "stack",   "jmp",   "jmp-indirect", "jcc",      "loop",         "call",
    "call-register", "call-memory", "ret",  "syscall", "rip",   "call-rip",     "segment",  "address-size", "lock",
    "cmpxchg/xadd",  "x87",         "mmx",  "sse",     "sse4",  "aes",          "avx",      "avx2",         "gather",
    "fma",           "avx512",      "bmi1", "bmi2",    "xsave", "fault",        "put-back",
};
static uint64_t class_count[CLASS_COUNT];

static bool class_expected(enum class class)
{
    switch (class) {
    case CLASS_PC_RELATIVE:
    case CLASS_CALL_PC_RELATIVE:
        return mode == INSN_MODE_64;
    case CLASS_SSE4:
        return __builtin_cpu_supports("sse4.2");
    case CLASS_AES:
        return __builtin_cpu_supports("aes");
    case CLASS_AVX:
        return __builtin_cpu_supports("avx");
    case CLASS_AVX2:
    case CLASS_GATHER:
        return __builtin_cpu_supports("avx2");
    case CLASS_FMA:
        return __builtin_cpu_supports("fma");
    case CLASS_AVX512:
        return __builtin_cpu_supports("avx512f");
    case CLASS_BMI1:
        return __builtin_cpu_supports("bmi");
    case CLASS_BMI2:
        return __builtin_cpu_supports("bmi2");
    default:
        return true;
    }
}

static void count_if(bool yes, enum class class)
{
    class_count[class] += yes;
}

static bool is_any(const char *name, const char *first, const char *second)
{
    return strncmp(name, first, strlen(first)) == 0 || (second && strncmp(name, second, strlen(second)) == 0);
}

static void count_classes(void)
{
    const ZydisDecodedInstruction *d = &test.decoded;
    const char *set = ZydisISASetGetString(d->meta.isa_set);
    const char *category = ZydisCategoryGetString(d->meta.category);
    const uint64_t rep = ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;
    bool string = d->meta.category == ZYDIS_CATEGORY_STRINGOP;
    bool memory = (d->attributes & ZYDIS_ATTRIB_HAS_MODRM) && d->raw.modrm.mod != 3;
    uint8_t kind = test.insn.kind;

    count_if(native.signo != 0, CLASS_FAULT);
    if (native.signo != 0)
        return;
    count_if(d->meta.category == ZYDIS_CATEGORY_BINARY || d->meta.category == ZYDIS_CATEGORY_LOGICAL, CLASS_INTEGER);
    count_if(string, CLASS_STRING);
    count_if(string && (d->attributes & rep), CLASS_REP);
    count_if(d->meta.category == ZYDIS_CATEGORY_PUSH || d->meta.category == ZYDIS_CATEGORY_POP, CLASS_STACK);
    count_if(kind == INSN_JMP, CLASS_JMP);
    count_if(kind == INSN_JMP_INDIRECT, CLASS_JMP_INDIRECT);
    count_if(kind == INSN_JCC, CLASS_JCC);
    count_if(kind == INSN_LOOP, CLASS_LOOP);
    count_if(kind == INSN_CALL, CLASS_CALL);
    count_if(kind == INSN_CALL_INDIRECT && !memory, CLASS_CALL_REGISTER);
    count_if(kind == INSN_CALL_INDIRECT && memory, CLASS_CALL_MEMORY);
    count_if(kind == INSN_CALL_INDIRECT && (test.insn.flags & INSN_PC_RELATIVE), CLASS_CALL_PC_RELATIVE);
    count_if(kind == INSN_RET, CLASS_RET);
    count_if(kind == INSN_SYSCALL, CLASS_SYSCALL);
    count_if(test.insn.flags & INSN_PC_RELATIVE, CLASS_PC_RELATIVE);
    count_if(memory && (d->attributes & (ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS)), CLASS_SEGMENT);
    count_if(memory && (d->attributes & ZYDIS_ATTRIB_HAS_ADDRESSSIZE), CLASS_ADDRESS_SIZE);
    count_if(d->attributes & ZYDIS_ATTRIB_HAS_LOCK, CLASS_ATOMIC);
    count_if(d->meta.category == ZYDIS_CATEGORY_SEMAPHORE, CLASS_SEMAPHORE);
    count_if(is_any(category, "X87", NULL), CLASS_X87);
    count_if(is_any(set, "PENTIUMMMX", NULL), CLASS_MMX);
    count_if(is_any(set, "SSE", "SSSE"), CLASS_SSE);
    count_if(is_any(set, "SSE4", NULL), CLASS_SSE4);
    count_if(is_any(set, "AES", "AVXAES"), CLASS_AES);
    count_if(strcmp(set, "AVX") == 0, CLASS_AVX);
    count_if(is_any(set, "AVX2", NULL), CLASS_AVX2);
    count_if(is_any(set, "AVX2GATHER", NULL), CLASS_GATHER);
    count_if(is_any(set, "FMA", NULL), CLASS_FMA);
    count_if(is_any(set, "AVX512", NULL), CLASS_AVX512);
    count_if(is_any(set, "BMI1", NULL), CLASS_BMI1);
    count_if(is_any(set, "BMI2", NULL), CLASS_BMI2);
    count_if(is_any(set, "XSAVE", "FXSAVE"), CLASS_XSAVE);
}

/* ==== comparing ==== */

static uint64_t load64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return value;
}

/* Brings an XSAVE area into the one form that equal states have: components not in use are in their initial state. */
static void normalise_xsave(uint8_t *x)
{
    uint64_t in_use = load64(x + 512);
    if (!(in_use & 1)) {
        memset(x, 0, 24);
        memset(x + 32, 0, 128);
        x[0] = 0x7f;
        x[1] = 0x03;
    }
    if (!(in_use & 2))
        memset(x + 160, 0, 256);
    for (unsigned i = 2; i < 8; i++) {
        unsigned bytes, offset = state_run_component(i, &bytes);
        if (bytes && !(in_use >> i & 1))
            memset(x + offset, 0, bytes);
    }
    memset(x + 28, 0, 4); /* the mask of MXCSR */
    for (unsigned i = 0; i < 8; i++)
        memset(x + 32 + 16 * i + 10, 0, 6);
    memset(x + 416, 0, 160); /* the kernel's own notes, the header */
    /* Processors differ in whether they keep opcode and pointers of an x87 instruction that raised no exception. */
    if (!(x[2] & 0x80))
        memset(x + 6, 0, 18);
}

/* The original pc that `pc` stands for. False if it is inside the copy but on no step. */
static bool map_pc(uint64_t pc, uint64_t *mapped, unsigned *sp_undo)
{
    *mapped = pc;
    *sp_undo = 0;
    if (pc < test.copy_va || pc > test.copy_va + test.copy.length)
        return true;
    for (unsigned i = 0; i < test.copy.step_count; i++) {
        if (test.copy_va + test.copy.step[i].offset == pc) {
            *mapped = test.copy.step[i].pc_va;
            *sp_undo = test.copy.step[i].sp_undo;
            return true;
        }
    }
    *mapped = test.insn.va + test.insn.length;
    return pc == test.copy_va + test.copy.length;
}

/* Takes the copy's result to what it stands for in the original. */
static bool map_result(struct state_result *r)
{
    uint64_t mapped;
    unsigned undo, ignored;
    if (r->signo && r->signo != SIGSEGV && r->signo != SIGBUS && map_pc(r->address, &mapped, &ignored))
        r->address = mapped;
    if (r->signo && !map_pc(r->pc, &r->pc, &undo))
        return false;
    if (r->signo)
        r->gpr[RSP] += undo;
    if (map_pc(load64(r->xsave + 8), &mapped, &ignored))
        memcpy(r->xsave + 8, &mapped, 8);
    return true;
}

/* What lies below the stack pointer after a call, or before one that faulted half-way, is dead (insn.h, c). */
static void ignore_dead(struct state_result *r, const struct state_result *reference)
{
    if (test.insn.kind != INSN_CALL && test.insn.kind != INSN_CALL_INDIRECT)
        return;
    unsigned word = mode == INSN_MODE_64 ? 8 : 4;
    for (unsigned i = 1; i <= 2 * word; i++) {
        uint64_t va = test.gpr[RSP] - i, data = va - test.arena->data_va, stack = va - test.arena->stack_va;
        if (i <= word && r->pc != test.insn.va)
            continue;
        if (data < STATE_DATA_BYTES)
            r->memory[data] = reference->memory[data];
        else if (stack < STATE_STACK_BYTES)
            r->memory[STATE_DATA_BYTES + stack] = reference->memory[STATE_DATA_BYTES + stack];
    }
}

/* Returns the number of differences; prints them if `show`. */
static unsigned differences(const struct state_result *a, const struct state_result *b, bool show)
{
    static const char *const names[16] = {"ax", "cx", "dx",  "bx",  "sp",  "bp",  "si",  "di",
                                          "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};
    unsigned count = 0;
#define DIFFERS(name, x, y)                                                                                                                \
    do {                                                                                                                                   \
        if ((uint64_t)(x) != (uint64_t)(y)) {                                                                                              \
            count++;                                                                                                                       \
            if (show)                                                                                                                      \
                printf("  %-8s native %#lx copy %#lx\n", name, (unsigned long)(x), (unsigned long)(y));                                    \
        }                                                                                                                                  \
    } while (0)
    DIFFERS("signal", a->signo, b->signo);
    DIFFERS("si_code", a->code, b->code);
    DIFFERS("si_addr", a->address, b->address);
    DIFFERS("trap", a->trap, b->trap);
    DIFFERS("error", a->error, b->error);
    if (a->trap == 14)
        DIFFERS("cr2", a->cr2, b->cr2);
    DIFFERS("pc", a->pc, b->pc);
    DIFFERS("flags", a->flags & ~(uint64_t)FLAG_RF, b->flags & ~(uint64_t)FLAG_RF);
    for (unsigned i = 0; i < 16; i++)
        DIFFERS(names[i], a->gpr[i], b->gpr[i]);
    if (memcmp(a->xsave, b->xsave, 416) || memcmp(a->xsave + 576, b->xsave + 576, STATE_XSAVE_BYTES - 576))
        for (unsigned i = 0; i < STATE_XSAVE_BYTES; i += 8)
            if (load64(a->xsave + i) != load64(b->xsave + i)) {
                count++;
                if (show)
                    printf("  xsave+%u native %#lx copy %#lx\n", i, load64(a->xsave + i), load64(b->xsave + i));
            }
    if (memcmp(a->memory, b->memory, STATE_MEMORY_BYTES))
        for (unsigned i = 0; i < STATE_MEMORY_BYTES; i += 8)
            if (load64(a->memory + i) != load64(b->memory + i)) {
                uint64_t va = i < STATE_DATA_BYTES ? test.arena->data_va + i : test.arena->stack_va + i - STATE_DATA_BYTES;
                count++;
                if (show && count < 40)
                    printf("  [%#lx] native %#lx copy %#lx\n", (unsigned long)va, load64(a->memory + i), load64(b->memory + i));
            }
    return count;
}

/* ==== showing ==== */

static void show_code(const char *title, const uint8_t *bytes, unsigned length, uint64_t va)
{
    ZydisMachineMode machine = mode == INSN_MODE_64 ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32;
    for (unsigned i = 0; i < length;) {
        ZydisDisassembledInstruction text;
        if (ZYAN_FAILED(ZydisDisassembleATT(machine, va + i, bytes + i, length - i, &text)))
            break;
        printf("  %s %#lx:", title, (unsigned long)(va + i));
        for (unsigned j = 0; j < text.info.length; j++)
            printf(" %02x", bytes[i + j]);
        printf("  %s\n", text.text);
        i += text.info.length;
    }
}

static void show_case(const char *what)
{
    printf("%s: width %d seed %lu case %lu\n", what, mode, (unsigned long)seed, (unsigned long)current);
    show_code("native", test.insn.bytes, test.insn.length, test.insn.va);
    if (test.refusal == INSN_OK)
        show_code("copy  ", test.copy.bytes, test.copy.length, test.copy_va);
}

static void hung(void)
{
    show_case("HUNG");
    fflush(stdout);
    _exit(1);
}

/* Single-steps the copy; at each boundary, goes back to the original as the step list says and lets it finish. */
static bool check_steps(void)
{
    static struct state_case at, back;
    static struct state_result stepped, finished;
    unsigned word = mode == INSN_MODE_64 ? 8 : 4;
    /* insn.h, c: not promised when the operand overlaps what the copy has written below the stack pointer. */
    bool overlap = test.insn.kind == INSN_CALL_INDIRECT && test.operand_va && test.gpr[RSP] - test.operand_va - 1 < 3 * word - 1;
    if (overlap)
        return true;
    at = test;
    uint64_t pc = test.copy_va, mapped;
    for (;;) {
        unsigned undo;
        at.flags |= FLAG_TF;
        state_run_at(&at, pc, &stepped);
        if (stepped.signo != SIGTRAP || stepped.code != TRAP_TRACE || stepped.pc - test.copy_va >= test.copy.length)
            return true;
        pc = stepped.pc;
        bool show = total.different < MISMATCHES_SHOWN;
        if (!map_pc(pc, &mapped, &undo)) {
            if (!show)
                return false;
            show_case("MISMATCH");
            printf("  stepped to copy+%lu, which is on no step\n", (unsigned long)(pc - test.copy_va));
            return false;
        }
        memcpy(at.gpr, stepped.gpr, sizeof at.gpr);
        memcpy(at.memory, stepped.memory, sizeof at.memory);
        at.flags = stepped.flags & ~(uint64_t)(FLAG_TF | FLAG_RF);
        back = at;
        back.gpr[RSP] += undo;
        state_run_at(&back, mapped, &finished);
        normalise_xsave(finished.xsave);
        ignore_dead(&finished, &native);
        if (test.insn.kind == INSN_SYSCALL) {
            finished.gpr[RCX] = native.gpr[RCX]; /* insn.h, b */
            finished.gpr[11] = native.gpr[11];   /* the flags with the trace flag */
        }
        count_if(true, CLASS_PUT_BACK);
        if (differences(&native, &finished, false)) {
            if (!show)
                return false;
            show_case("MISMATCH");
            printf("  put back from copy+%lu to %#lx, sp_undo %u:\n", (unsigned long)(pc - test.copy_va), (unsigned long)mapped, undo);
            differences(&native, &finished, true);
            return false;
        }
    }
}

static bool is_far(uint64_t va)
{
    uint64_t distance = va - test.copy_va + 0x80000000;
    return distance < INSN_COPY_MAX_BYTES || distance > 0xffffffff - INSN_COPY_MAX_BYTES;
}

/* Whether insn_relocate() had to say that something is out of reach. */
static bool is_out_of_reach(void)
{
    if (test.insn.flags & INSN_PC_RELATIVE)
        return test.decoded.address_width == 64 && is_far(test.insn.memory_va);
    return mode == INSN_MODE_64 && is_far(test.insn.target_va);
}

static void run_case(void)
{
    state_case_make(current, &test);
    struct tally *set = &by_set[test.decoded.meta.isa_set];
    if (test.refusal != INSN_OK) {
        by_refusal[test.refusal]++;
        set->refused++;
        total.refused++;
        if (test.refusal == INSN_OUT_OF_REACH && !is_out_of_reach()) {
            show_case("NEEDLESS REFUSAL");
            total.different++;
        }
        return;
    }
    state_run_place(&test);
    state_run_at(&test, test.insn.va, &native);
    normalise_xsave(native.xsave);
    state_run_at(&test, test.insn.va, &again);
    normalise_xsave(again.xsave);
    state_run_at(&test, test.copy_va, &copy);
    normalise_xsave(copy.xsave);
    bool mapped = map_result(&copy);
    ignore_dead(&copy, &native);

    bool steady = differences(&native, &again, false) == 0;
    bool same_place = copy.pc == native.pc && copy.signo == native.signo;
    if (!steady && native.pc == again.pc && same_place && mapped) {
        unsteady_mnemonic[test.decoded.mnemonic]++;
        set->unsteady++;
        total.unsteady++;
        return;
    }
    if (!mapped || differences(&native, &copy, false)) {
        set->different++;
        total.different++;
        if (total.different <= MISMATCHES_SHOWN) {
            show_case("MISMATCH");
            if (!mapped)
                printf("  pc %#lx is on no step of the copy\n", (unsigned long)copy.pc);
            differences(&native, &copy, true);
        }
        return;
    }
    if (test.copy.step_count > 1 && !check_steps()) {
        set->different++;
        total.different++;
        return;
    }
    count_classes();
    if (native.signo) {
        set->fault++;
        total.fault++;
    } else {
        set->equal++;
        total.equal++;
    }
}

static bool report(uint64_t count, double seconds)
{
    bool good = total.different == 0;
    printf("%-20s %10s %10s %10s %10s %10s\n", "instruction set", "ran", "faulted", "refused", "unsteady", "mismatch");
    for (unsigned i = 0; i <= ZYDIS_ISA_SET_MAX_VALUE; i++) {
        const struct tally *t = &by_set[i];
        if (t->equal + t->fault + t->refused + t->unsteady + t->different)
            printf("%-20s %10lu %10lu %10lu %10lu %10lu\n", ZydisISASetGetString(i), t->equal, t->fault, t->refused, t->unsteady,
                   t->different);
    }
    for (unsigned i = 1; i < INSN_REASON_COUNT; i++)
        if (by_refusal[i])
            printf("refused %s: %lu\n", insn_reason_name(i), by_refusal[i]);
    for (unsigned i = 0; i <= ZYDIS_MNEMONIC_MAX_VALUE; i++)
        if (unsteady_mnemonic[i])
            printf("unsteady %s: %lu\n", ZydisMnemonicGetString(i), unsteady_mnemonic[i]);
    state_case_print_exclusions();
    printf("excluded instructions drawn and put aside: %lu\n", (unsigned long)state_case_excluded());
    printf("classes that ran to completion:");
    for (unsigned i = 0; i < CLASS_COUNT; i++)
        printf(" %s %lu%s", class_names[i], class_count[i], i + 1 < CLASS_COUNT ? "," : "\n");
    for (unsigned i = 0; i < CLASS_COUNT && count >= CLASSES_FROM; i++)
        if (class_count[i] == 0 && class_expected(i)) {
            printf("MISSING class %s\n", class_names[i]);
            good = false;
        }
    printf("width %d seed %lu: %lu cases in %.1f s: %lu ran, %lu faulted, %lu refused, %lu unsteady, %lu mismatches: %s\n", mode,
           (unsigned long)seed, (unsigned long)count, seconds, total.equal, total.fault, total.refused, total.unsteady, total.different,
           good ? "ok" : "FAILED");
    return good;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"width", required_argument, NULL, 'w'},
                                            {"count", required_argument, NULL, 'n'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"case", required_argument, NULL, 'c'},
                                            {0}};
    uint64_t count = 200000, first = 0;
    int option;
    mode = INSN_MODE_64;
    seed = 1;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'w':
            mode = strcmp(optarg, "32") == 0 ? INSN_MODE_32 : INSN_MODE_64;
            break;
        case 'n':
            count = strtoull(optarg, NULL, 0);
            break;
        case 's':
            seed = strtoull(optarg, NULL, 0);
            break;
        case 'c':
            first = strtoull(optarg, NULL, 0);
            count = 1;
            break;
        default:
            fprintf(stderr, "usage: state_equal [--width 32|64] [--count N] [--seed S] [--case NUMBER]\n");
            return 2;
        }
    }
    printf("state_equal: width %d seed %lu count %lu\n", mode, (unsigned long)seed, (unsigned long)count);
    fflush(stdout);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    state_run_hung = hung;
    state_run_init(mode);
    state_case_init(mode, seed);
    for (current = first; current < first + count && total.different < MISMATCHES_MAX; current++)
        run_case();
    clock_gettime(CLOCK_MONOTONIC, &end);
    return report(count, (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9) ? 0 : 1;
}
