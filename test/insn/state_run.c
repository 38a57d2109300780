/* Runs a case: arenas, the way in (iretq, which loads pc, flags, stack and mode at once and is serialising after the code was written),
 * the ways out (stubs, signals). */
#include "state.h"

#include <asm/ldt.h>
#include <cpuid.h>
#include <err.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/ucontext.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    CS_64 = 0x33,
    CS_32 = 0x23,
    SS_USER = 0x2b,
    FLAGS_CLEAN = 2,
    COMMON_OFFSET = 0x800,
    STUB_BYTES = 40,
    I386_SET_THREAD_AREA = 243
};

/* Shared with the assembly below: the offsets are asserted. */
static struct {
    uint64_t host_rsp;
    uint64_t host_fs;
    uint64_t test_fs;
    uint64_t exit_entry;
    uint64_t exit_rax;
    uint64_t exit_pc;
    uint64_t xmask;
    const void *x_in;
    uint64_t gpr_in[16];
    uint64_t frame[5]; /* RIP, CS, RFLAGS, RSP, SS */
    uint64_t unused;
    uint64_t gpr_out[16];
    uint64_t flags_out;
    uint64_t pad;
    uint8_t x_out[STATE_XSAVE_BYTES] __attribute__((aligned(64)));
} context __attribute__((aligned(64)));

#define AT(field, offset) _Static_assert(__builtin_offsetof(__typeof__(context), field) == (offset), #field)
AT(exit_entry, 24);
AT(exit_rax, 32);
AT(xmask, 48);
AT(gpr_in, 64);
AT(frame, 192);
AT(gpr_out, 240);
AT(flags_out, 368);
AT(x_out, 384);

void state_enter_asm(void *);
void state_exit_asm(void);
void state_leave_asm(void *) __attribute__((noreturn));

__asm__(".text\n"
        "state_enter_asm:\n"
        "  push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        "  mov %rsp, 0(%rdi)\n"
        "  mov 16(%rdi), %rax; wrfsbase %rax\n"
        "  mov 48(%rdi), %eax; mov 52(%rdi), %edx; mov 56(%rdi), %rcx; xrstor64 (%rcx)\n"
        "  pushq 224(%rdi); pushq 216(%rdi); pushq 208(%rdi); pushq 200(%rdi); pushq 192(%rdi)\n"
        "  mov 64(%rdi), %rax; mov 72(%rdi), %rcx; mov 80(%rdi), %rdx; mov 88(%rdi), %rbx\n"
        "  mov 104(%rdi), %rbp; mov 112(%rdi), %rsi\n"
        "  mov 128(%rdi), %r8; mov 136(%rdi), %r9; mov 144(%rdi), %r10; mov 152(%rdi), %r11\n"
        "  mov 160(%rdi), %r12; mov 168(%rdi), %r13; mov 176(%rdi), %r14; mov 184(%rdi), %r15\n"
        "  mov 120(%rdi), %rdi\n"
        "  iretq\n"
        /* The stubs come here with the address of the context in rax, the program's rax and pc stored. */
        "state_exit_asm:\n"
        "  mov %rcx, 248(%rax); mov %rdx, 256(%rax); mov %rbx, 264(%rax); mov %rsp, 272(%rax)\n"
        "  mov %rbp, 280(%rax); mov %rsi, 288(%rax); mov %rdi, 296(%rax); mov %r8, 304(%rax)\n"
        "  mov %r9, 312(%rax); mov %r10, 320(%rax); mov %r11, 328(%rax); mov %r12, 336(%rax)\n"
        "  mov %r13, 344(%rax); mov %r14, 352(%rax); mov %r15, 360(%rax)\n"
        "  mov 0(%rax), %rsp\n"
        "  pushfq; popq 368(%rax)\n"
        "  mov %rax, %rdi\n"
        "  mov 32(%rdi), %rcx; mov %rcx, 240(%rdi)\n"
        "  mov 48(%rdi), %eax; mov 52(%rdi), %edx; xsave64 384(%rdi)\n"
        "state_leave_asm:\n"
        "  mov 0(%rdi), %rsp\n"
        "  pushq $2; popfq\n"
        "  fninit\n"
        "  pushq $0x1f80; ldmxcsr (%rsp); pop %rax\n"
        "  mov 8(%rdi), %rax; wrfsbase %rax\n"
        "  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
        "  ret\n");

static enum insn_mode run_mode;
static struct state_arena arenas[2];
static unsigned arena_count;
static unsigned component_offset[16], component_bytes[16];
static struct state_result *pending; /* where a signal writes its result */
static volatile uint64_t run_serial;
void (*state_run_hung)(void);

/* ==== code ==== */

static uint8_t *put(uint8_t *p, const void *bytes, size_t count)
{
    memcpy(p, bytes, count);
    return p + count;
}

static uint8_t *put_u64(uint8_t *p, uint64_t value)
{
    return put(p, &value, 8);
}

static uint8_t *put_u32(uint8_t *p, uint64_t value)
{
    return put(p, &value, 4);
}

/* A landing place at `va`: stores rax and its own address, changes nothing else, goes to the arena's common exit. */
static void put_stub(uint8_t *rw, uint64_t va, uint64_t common_va)
{
    uint8_t *p = rw;
    if (run_mode == INSN_MODE_32) {
        *p++ = 0xea; /* ljmp $0x33, the next instruction */
        p = put_u32(p, va + 7);
        p = put(p, (uint8_t[]){CS_64, 0}, 2);
    }
    p = put(p, (uint8_t[]){0x48, 0xa3}, 2);
    p = put_u64(p, (uintptr_t)&context.exit_rax);
    p = put(p, (uint8_t[]){0x48, 0x8d, 0x05}, 3);
    p = put_u32(p, (uint64_t)(rw - (p + 4)));
    *p++ = 0xe9;
    put_u32(p, common_va - (va + (uint64_t)(p + 4 - rw)));
}

static void put_common(uint8_t *p)
{
    p = put(p, (uint8_t[]){0x48, 0xa3}, 2);
    p = put_u64(p, (uintptr_t)&context.exit_pc);
    p = put(p, (uint8_t[]){0x48, 0xb8}, 2);
    p = put_u64(p, (uintptr_t)&context);
    put(p, (uint8_t[]){0xff, 0x60, 24}, 3); /* jmp *exit_entry(%rax) */
}

void state_run_place(const struct state_case *c)
{
    const struct state_arena *arena = c->arena;
    uint64_t common = arena->far_va + COMMON_OFFSET;
    uint64_t page_va = arena->native_va[c->native_page];
    uint8_t *rw = arena->native_rw[c->native_page] + (c->insn.va - page_va);
    uint64_t va = c->insn.va;

    memset(rw - STATE_NEAR_BEFORE, 0xcc, STATE_NEAR_BEFORE + STATE_NEAR_AFTER + STUB_BYTES);
    put_stub(rw - STATE_NEAR_BEFORE, va - STATE_NEAR_BEFORE, common);
    memcpy(rw, c->insn.bytes, c->insn.length);
    put_stub(rw + c->insn.length, va + c->insn.length, common);
    put_stub(rw + STATE_NEAR_AFTER, va + STATE_NEAR_AFTER, common);

    if (c->refusal != INSN_OK)
        return;
    rw = arena->copy_rw[c->copy_page] + (c->copy_va - arena->copy_va[c->copy_page]);
    memset(rw, 0xcc, INSN_COPY_MAX_BYTES + 8);
    memcpy(rw, c->copy.bytes, c->copy.length);
    if (c->copy.falls_through) {
        rw[c->copy.length] = 0xe9;
        put_u32(rw + c->copy.length + 1, va + c->insn.length - (c->copy_va + c->copy.length + 5));
    }
}

/* ==== running ==== */

static void wrfsbase(uint64_t value)
{
    __asm__ volatile("wrfsbase %0" ::"r"(value));
}

static void wrgsbase(uint64_t value)
{
    __asm__ volatile("wrgsbase %0" ::"r"(value));
}

/* Runs with the stray fs base, alignment checks and direction that the code left: nothing of libc before they are put right. */
__attribute__((no_stack_protector)) static void on_fault(int signo, siginfo_t *info, void *ucontext)
{
    __asm__ volatile("pushq $2; popfq" ::: "cc", "memory");
    wrfsbase(context.host_fs);
    static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    ucontext_t *uc = ucontext;
    struct state_result *out = pending;
    if (!out) {
        fprintf(stderr, "state_equal: the test itself faulted: signal %d at pc %#llx, address %p\n", signo, uc->uc_mcontext.gregs[REG_RIP],
                info->si_addr);
        signal(signo, SIG_DFL);
        raise(signo);
        return;
    }
    out->signo = signo;
    out->code = info->si_code;
    out->address = (uintptr_t)info->si_addr;
    out->trap = (uint64_t)uc->uc_mcontext.gregs[REG_TRAPNO];
    out->error = (uint64_t)uc->uc_mcontext.gregs[REG_ERR];
    out->cr2 = (uint64_t)uc->uc_mcontext.gregs[REG_CR2];
    out->pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
    out->flags = (uint64_t)uc->uc_mcontext.gregs[REG_EFL];
    for (int i = 0; i < 16; i++)
        out->gpr[i] = (uint64_t)uc->uc_mcontext.gregs[order[i]];
    memcpy(out->xsave, uc->uc_mcontext.fpregs, component_offset[0]);
    state_leave_asm(&context);
}

static void on_alarm(int signo)
{
    static uint64_t last;
    (void)signo;
    if (run_serial == last && pending && state_run_hung) {
        wrfsbase(context.host_fs);
        state_run_hung();
    }
    last = run_serial;
}

void state_run_at(const struct state_case *c, uint64_t pc, struct state_result *out)
{
    const struct state_arena *arena = c->arena;
    memcpy((void *)arena->data_va, c->memory, STATE_DATA_BYTES);
    memcpy((void *)arena->stack_va, c->memory + STATE_DATA_BYTES, STATE_STACK_BYTES);
    memcpy(context.gpr_in, c->gpr, sizeof c->gpr);
    context.frame[0] = pc;
    context.frame[1] = run_mode == INSN_MODE_64 ? CS_64 : CS_32;
    context.frame[2] = c->flags;
    context.frame[3] = c->gpr[RSP];
    context.frame[4] = SS_USER;
    context.test_fs = arena->data_va;
    context.x_in = c->xsave;
    if (run_mode == INSN_MODE_64)
        wrgsbase(arena->data_va);

    out->signo = 0;
    out->code = 0;
    out->address = out->trap = out->error = out->cr2 = 0;
    run_serial++;
    __atomic_store_n(&pending, out, __ATOMIC_SEQ_CST);
    state_enter_asm(&context);
    __atomic_store_n(&pending, NULL, __ATOMIC_SEQ_CST);

    if (out->signo == 0) {
        memcpy(out->gpr, context.gpr_out, sizeof out->gpr);
        out->flags = context.flags_out;
        out->pc = context.exit_pc;
        memcpy(out->xsave, context.x_out, component_offset[0]);
    }
    if (run_mode == INSN_MODE_32)
        for (int i = 0; i < 16; i++)
            out->gpr[i] = i < 8 ? (uint32_t)out->gpr[i] : 0;
    memcpy(out->memory, (void *)arena->data_va, STATE_DATA_BYTES);
    memcpy(out->memory + STATE_DATA_BYTES, (void *)arena->stack_va, STATE_STACK_BYTES);
}

/* ==== setting up ==== */

static void map_memory(uint64_t va, size_t bytes)
{
    void *at = (void *)va;
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at)
        err(1, "state_equal: map %#lx", (unsigned long)va);
}

static uint8_t *map_code(uint64_t va)
{
    int fd = memfd_create("code", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, PAGE))
        err(1, "state_equal: memfd");
    void *at = (void *)va;
    if (mmap(at, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) != at)
        err(1, "state_equal: map code at %#lx", (unsigned long)va);
    uint8_t *rw = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (rw == MAP_FAILED)
        err(1, "state_equal: map code");
    close(fd);
    memset(rw, 0xcc, PAGE);
    return rw;
}

/* Everything within 2 GB of everything else, but only just: the outer copies are nearly 2 GB from the data and the native code. The
 * native pages lie on both sides of the 2 GB line, where a sign-extended push stops being enough. */
static void make_arena(struct state_arena *arena, uint64_t base)
{
    static const uint32_t native[STATE_NATIVE_PAGES] = {0x7ff00000, 0x80200000};
    static const uint32_t copies[STATE_COPY_PAGES] = {0x00700000, 0x7e000000, 0x82000000, 0xff800000};
    arena->data_va = base + 0x80000000;
    arena->stack_va = base + 0x80010000;
    arena->far_va = base + 0x80020000;
    map_memory(arena->data_va, STATE_DATA_BYTES);
    map_memory(arena->stack_va, STATE_STACK_BYTES);
    arena->far_rw = map_code(arena->far_va);
    for (unsigned i = 0; i < STATE_FAR_STUBS; i++)
        put_stub(arena->far_rw + i * 64, arena->far_va + i * 64, arena->far_va + COMMON_OFFSET);
    put_common(arena->far_rw + COMMON_OFFSET);
    for (unsigned i = 0; i < STATE_NATIVE_PAGES; i++) {
        arena->native_va[i] = base + native[i];
        arena->native_rw[i] = map_code(arena->native_va[i]);
    }
    for (unsigned i = 0; i < STATE_COPY_PAGES; i++) {
        arena->copy_va[i] = base + copies[i];
        arena->copy_rw[i] = map_code(arena->copy_va[i]);
    }
}

static void find_xstate(void)
{
    unsigned a, b, c, d;
    uint64_t enabled;
    uint32_t low, high;
    __cpuid(1, a, b, c, d);
    if (!(c & bit_OSXSAVE))
        errx(1, "state_equal: this processor has no XSAVE");
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    enabled = low | (uint64_t)high << 32;
    context.xmask = enabled & 0xe7; /* x87, SSE, AVX, opmask, ZMM; not the protection keys */
    component_offset[0] = 576;
    for (unsigned i = 2; i < 8; i++) {
        if (!(context.xmask >> i & 1))
            continue;
        __cpuid_count(0xd, i, a, b, c, d);
        component_bytes[i] = a;
        component_offset[i] = b;
        if (component_offset[0] < a + b)
            component_offset[0] = a + b;
    }
    if (component_offset[0] > STATE_XSAVE_BYTES)
        errx(1, "state_equal: XSAVE area too large");
}

void state_run_init(enum insn_mode mode)
{
    enum { HWCAP2_FSGSBASE = 2 };
    run_mode = mode;
#ifdef __SANITIZE_ADDRESS__
    errx(77, "state_equal: skipped: the address sanitizer keeps its shadow where the low arena must lie");
#endif
    if (!(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE))
        errx(77, "state_equal: skipped: needs wrfsbase (Linux 5.9 and a processor that has it)");
    find_xstate();
    make_arena(&arenas[arena_count++], 0);
    /* No page of the high arena has the low 32 bits of one in the low arena, so that cut addresses fault. */
    if (mode == INSN_MODE_64)
        make_arena(&arenas[arena_count++], 0x2a5540000000);

    __asm__("rdfsbase %0" : "=r"(context.host_fs));
    context.exit_entry = (uintptr_t)state_exit_asm;
    __asm__ volatile("mov %0, %%ds; mov %0, %%es" ::"r"(SS_USER));
    if (mode == INSN_MODE_32) {
        /* The i386 call, because a 64-bit kernel may have no other; its argument must lie below 4 GB. */
        struct user_desc *data = (void *)arenas[0].data_va;
        *data = (struct user_desc){.entry_number = (unsigned)-1,
                                   .base_addr = (unsigned)arenas[0].data_va,
                                   .limit = 0xfffff,
                                   .seg_32bit = 1,
                                   .limit_in_pages = 1,
                                   .useable = 1};
        long result;
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(I386_SET_THREAD_AREA), "b"(data) : "memory", "r8", "r9", "r10", "r11");
        if (result != 0)
            errx(77, "state_equal: skipped: the kernel runs no 32-bit code (error %ld)", result);
        __asm__ volatile("mov %0, %%gs" ::"r"(data->entry_number << 3 | 3));
    }

    /* Results of cpuid, rdpid and the like stay the same on one processor. */
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((size_t)sched_getcpu(), &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);

    static uint8_t stack[1 << 17] __attribute__((aligned(64)));
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, NULL);
    /* No mask: the handler is left without sigreturn. */
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++)
        sigaction(faults[i], &action, NULL);
    struct sigaction alarm_action = {.sa_handler = on_alarm, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGALRM, &alarm_action, NULL);
    struct itimerval every = {.it_interval = {.tv_sec = 5}, .it_value = {.tv_sec = 5}};
    setitimer(ITIMER_REAL, &every, NULL);
}

unsigned state_run_arena_count(void)
{
    return arena_count;
}

const struct state_arena *state_run_arena(unsigned index)
{
    return &arenas[index];
}

uint64_t state_run_xfeatures(void)
{
    return context.xmask;
}

unsigned state_run_component(unsigned index, unsigned *bytes)
{
    *bytes = component_bytes[index];
    return component_offset[index];
}
