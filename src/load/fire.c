#include "load/fire.h"

#include <cpuid.h>
#include <string.h>

/* ---- counting code as a list of instructions ---- */

enum step_flags { AX_FLAGS = 1, OVERFLOW_BACK = 2, CARRY = 4, COUNTED = 8 };

/* One instruction and the state *before* it. */
struct step {
    uint8_t length;
    uint8_t saved;    /* registers pushed */
    uint8_t red_zone; /* bytes stepped over */
    uint8_t flags;    /* enum step_flags */
    uint8_t bytes[10];
};

enum { MAX_STEPS = 24, RED_ZONE = 128 };

struct steps {
    struct step step[MAX_STEPS];
    size_t count;
};

static void add(struct steps *list, unsigned saved, unsigned red_zone, unsigned flags, unsigned length, const void *bytes)
{
    struct step *step = &list->step[list->count++];
    *step = (struct step){(uint8_t)length, (uint8_t)saved, (uint8_t)red_zone, (uint8_t)flags, {0}};
    memcpy(step->bytes, bytes, length);
}

#define ADD(saved, red_zone, flags, ...) add(list, saved, red_zone, flags, sizeof((uint8_t[]){__VA_ARGS__}), (uint8_t[]){__VA_ARGS__})

static void add_with_operand(struct steps *list, unsigned saved, unsigned red_zone, unsigned flags, const uint8_t *opcode, unsigned length,
                             const void *operand, unsigned operand_length)
{
    uint8_t bytes[10];
    memcpy(bytes, opcode, length);
    memcpy(bytes + length, operand, operand_length);
    add(list, saved, red_zone, flags, length + operand_length, bytes);
}

/* Asked once: in a virtual machine cpuid is dear. */
static bool has_rdpid(void)
{
    static int answer = -1;
    unsigned a, b, c, d;
    if (answer < 0)
        answer = __get_cpuid_count(7, 0, &a, &b, &c, &d) && c >> 22 & 1;
    return answer;
}

/* The processor's number into ecx: rdpid, or on processors without it the limit of the segment that the kernel keeps it in. */
static void add_cpu_number(struct steps *list, unsigned saved, unsigned red_zone)
{
    if (has_rdpid()) {
        ADD(saved, red_zone, 0, 0xf3, 0x0f, 0xc7, 0xf9); /* rdpid %ecx */
        return;
    }
    ADD(saved, red_zone, 0, 0xb9, 0x7b, 0x00, 0x00, 0x00); /* mov $0x7b,%ecx */
    ADD(saved, red_zone, 0, 0x0f, 0x03, 0xc9);             /* lsl %ecx,%ecx    changes ZF only, which ah holds */
}

static void make_steps(struct steps *list, enum insn_mode mode, uint64_t counter_va, uint32_t shard_mask, uint32_t shard_shift)
{
    bool wide = mode == INSN_MODE_64;
    unsigned zone = wide ? RED_ZONE : 0, all = wide ? 3 : 2;
    list->count = 0;
    if (wide)
        ADD(0, 0, 0, 0x48, 0x8d, 0x64, 0x24, 0x80); /* lea -128(%rsp),%rsp */
    ADD(0, zone, 0, 0x50);                          /* push %rax */
    ADD(1, zone, 0, 0x51);                          /* push %rcx */
    if (wide)
        ADD(2, zone, 0, 0x52);           /* push %rdx */
    ADD(all, zone, 0, 0x9f);             /* lahf */
    ADD(all, zone, 0, 0x0f, 0x90, 0xc0); /* seto %al */
    size_t flags_from = list->count;
    add_cpu_number(list, all, zone);
    add_with_operand(list, all, zone, 0, (const uint8_t[]){0x81, 0xe1}, 2, &shard_mask, 4); /* and $mask,%ecx */
    if (wide) {
        ADD(all, zone, 0, 0x48, 0xc1, 0xe1, (uint8_t)shard_shift);                              /* shl $shift,%rcx */
        add_with_operand(list, all, zone, 0, (const uint8_t[]){0x48, 0xba}, 2, &counter_va, 8); /* movabs $counter,%rdx */
        ADD(all, zone, 0, 0xf0, 0x48, 0xff, 0x04, 0x0a);                                        /* lock incq (%rdx,%rcx) */
    } else {
        struct {
            uint32_t displacement;
            uint8_t immediate;
        } __attribute__((packed)) low = {(uint32_t)counter_va, 1}, high = {(uint32_t)counter_va + 4, 0};
        ADD(all, zone, 0, 0xc1, 0xe1, (uint8_t)shard_shift);                                        /* shl $shift,%ecx */
        add_with_operand(list, all, zone, 0, (const uint8_t[]){0xf0, 0x83, 0x81}, 3, &low, 5);      /* lock addl $1,counter(%ecx) */
        add_with_operand(list, all, zone, CARRY, (const uint8_t[]){0xf0, 0x83, 0x91}, 3, &high, 5); /* lock adcl $0,counter+4(%ecx) */
    }
    ADD(all, zone, 0, 0x04, 0x7f);       /* add $0x7f,%al    overflows exactly when al is 1 */
    ADD(all, zone, OVERFLOW_BACK, 0x9e); /* sahf */
    /* Behind seto the flags are in ax, and what follows may change the real ones. */
    for (size_t i = flags_from; i < list->count; i++)
        list->step[i].flags |= AX_FLAGS;
    size_t counted_from = list->count - 2 - !wide; /* adcl, add, sahf: behind the first locked instruction */
    if (wide)
        ADD(3, zone, 0, 0x5a); /* pop %rdx */
    ADD(2, zone, 0, 0x59);     /* pop %rcx */
    ADD(1, zone, 0, 0x58);     /* pop %rax */
    if (wide)
        ADD(0, zone, 0, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00); /* lea 128(%rsp),%rsp */
    for (size_t i = counted_from; i < list->count; i++)
        list->step[i].flags |= COUNTED;
}

size_t fire_count_emit(enum insn_mode mode, uint64_t counter_va, uint32_t shard_mask, uint32_t shard_shift, uint8_t out[FIRE_MAX_BYTES])
{
    struct steps list;
    size_t length = 0;
    make_steps(&list, mode, counter_va, shard_mask, shard_shift);
    for (size_t i = 0; i < list.count; i++) {
        memcpy(out + length, list.step[i].bytes, list.step[i].length);
        length += list.step[i].length;
    }
    return length;
}

/* ---- calls of the agent ---- */

/* As make_steps(). Registers that were pushed are undone from the stack at every boundary, so only their number matters. */
struct call_step {
    uint8_t length;
    struct wire_undo undo;
    uint8_t bytes[10];
};

struct call_steps {
    struct call_step step[WIRE_UNDO_ROOM];
    size_t count;
    struct wire_undo now; /* the state before the next step */
};

static void add_call_step(struct call_steps *list, const uint8_t *bytes, size_t length, const void *operand, size_t operand_length)
{
    struct call_step *step = &list->step[list->count++];
    *step = (struct call_step){.length = (uint8_t)(length + operand_length), .undo = list->now};
    memcpy(step->bytes, bytes, length);
    memcpy(step->bytes + length, operand, operand_length);
    list->now.offset = (uint8_t)(list->now.offset + step->length);
}

#define CALL_STEP(...) add_call_step(&list, (uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}), "", 0)
#define CALL_STEP_WITH(operand, ...)                                                                                                       \
    add_call_step(&list, (uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}), &(operand), sizeof(operand))

static struct call_steps make_call64(uint64_t function_va, uint64_t argument)
{
    struct call_steps list = {.count = 0};
    static const uint8_t pushed[] = {0, 1, 2, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 3, 5}; /* ax cx dx si di r8 to r15 bx bp */
    enum { COUNT = sizeof pushed, WORK = WIRE_CALL_WORDS * 8 };
    int32_t most_work = -(WORK - 8), work = WORK;
    CALL_STEP(0x48, 0x8d, 0x64, 0x24, 0x80); /* lea -128(%rsp),%rsp */
    list.now.red_zone = RED_ZONE;
    CALL_STEP(0x9c); /* pushf */
    for (int i = 0; i < COUNT; i++) {
        list.now.depth++;
        if (pushed[i] < 8)
            CALL_STEP((uint8_t)(0x50 + pushed[i]));
        else
            CALL_STEP(0x41, (uint8_t)(0x50 + pushed[i] - 8));
    }
    list.now.depth++;
    CALL_STEP(0xfc);                                   /* cld */
    CALL_STEP_WITH(most_work, 0x48, 0x8d, 0xa4, 0x24); /* lea -(WORK - 8)(%rsp),%rsp */
    list.now.below = WORK - 8;
    CALL_STEP(0x6a, 0x00); /* push $0 */
    list.now.below = WORK;
    CALL_STEP(0x48, 0x89, 0xe5); /* mov %rsp,%rbp */
    list.now.flags = WIRE_UNDO_BASE;
    CALL_STEP(0x48, 0x83, 0xe4, 0xf0);       /* and $-16,%rsp */
    CALL_STEP_WITH(argument, 0x48, 0xbf);    /* movabs $argument,%rdi */
    CALL_STEP(0x48, 0x89, 0xee);             /* mov %rbp,%rsi */
    CALL_STEP_WITH(function_va, 0x48, 0xb8); /* movabs $function,%rax */
    CALL_STEP(0xff, 0xd0);                   /* call *%rax */
    list.now.flags |= WIRE_UNDO_DONE;
    CALL_STEP_WITH(work, 0x48, 0x8d, 0xa5); /* lea WORK(%rbp),%rsp */
    list.now.flags = WIRE_UNDO_DONE;
    list.now.below = 0;
    for (int i = COUNT - 1; i >= 0; i--) {
        if (pushed[i] < 8)
            CALL_STEP((uint8_t)(0x58 + pushed[i]));
        else
            CALL_STEP(0x41, (uint8_t)(0x58 + pushed[i] - 8));
        list.now.depth--;
    }
    CALL_STEP(0x9d); /* popf */
    list.now.depth--;
    CALL_STEP(0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0); /* lea 128(%rsp),%rsp */
    return list;
}

static struct call_steps make_call32(uint32_t function_va, uint32_t argument)
{
    struct call_steps list = {.count = 0};
    enum { WORK = WIRE_CALL_WORDS * 4, ALL = 9 };
    int32_t most_work = -(WORK - 4), work = WORK;
    CALL_STEP(0x9c); /* pushf */
    list.now.depth = 1;
    CALL_STEP(0x60); /* pusha */
    list.now.depth = ALL;
    CALL_STEP(0xfc);                             /* cld */
    CALL_STEP_WITH(most_work, 0x8d, 0xa4, 0x24); /* lea -(WORK - 4)(%esp),%esp */
    list.now.below = WORK - 4;
    CALL_STEP(0x6a, 0x00); /* push $0 */
    list.now.below = WORK;
    CALL_STEP(0x89, 0xe5); /* mov %esp,%ebp */
    list.now.flags = WIRE_UNDO_BASE;
    CALL_STEP(0x83, 0xe4, 0xf0);       /* and $-16,%esp */
    CALL_STEP(0x83, 0xec, 0x08);       /* sub $8,%esp */
    CALL_STEP(0x55);                   /* push %ebp */
    CALL_STEP_WITH(argument, 0x68);    /* push $argument */
    CALL_STEP_WITH(function_va, 0xb8); /* mov $function,%eax */
    CALL_STEP(0xff, 0xd0);             /* call *%eax */
    list.now.flags |= WIRE_UNDO_DONE;
    CALL_STEP_WITH(work, 0x8d, 0xa5); /* lea WORK(%ebp),%esp */
    list.now.flags = WIRE_UNDO_DONE;
    list.now.below = 0;
    CALL_STEP(0x61); /* popa */
    list.now.depth = 1;
    CALL_STEP(0x9d); /* popf */
    return list;
}

static struct call_steps make_call(enum insn_mode mode, uint64_t function_va, uint64_t argument)
{
    return mode == INSN_MODE_64 ? make_call64(function_va, argument) : make_call32((uint32_t)function_va, (uint32_t)argument);
}

size_t fire_call_emit(enum insn_mode mode, uint64_t function_va, uint64_t argument, uint8_t out[FIRE_MAX_BYTES])
{
    struct call_steps list = make_call(mode, function_va, argument);
    size_t length = 0;
    for (size_t i = 0; i < list.count; i++) {
        memcpy(out + length, list.step[i].bytes, list.step[i].length);
        length += list.step[i].length;
    }
    return length;
}

size_t fire_call_return(enum insn_mode mode)
{
    struct call_steps list = make_call(mode, 0, 0);
    size_t i = 0;
    while (!(list.step[i].undo.flags & WIRE_UNDO_DONE))
        i++;
    return list.step[i].undo.offset;
}

void fire_call_make_bare(enum insn_mode mode, uint8_t *code, size_t length)
{
    static const uint8_t first[] = {0x0f, 0x1f, 0x44, 0x00, 0x00}, last[] = {0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00}; /* nops */
    if (mode != INSN_MODE_64)
        return;
    memcpy(code, first, sizeof first);
    memcpy(code + length - sizeof last, last, sizeof last);
}

/* ---- out of the middle of it ---- */

uint32_t fire_count_table(enum insn_mode mode, struct wire_undo out[WIRE_UNDO_ROOM])
{
    struct steps list;
    make_steps(&list, mode, 0, 0, 0);
    for (size_t i = 0, at = 0; i < list.count; at += list.step[i++].length) {
        const struct step *step = &list.step[i];
        out[i] = (struct wire_undo){.offset = (uint8_t)at, .depth = step->saved, .red_zone = step->red_zone};
        out[i].flags = (uint8_t)((step->flags & AX_FLAGS ? WIRE_UNDO_FLAGS_IN_AX : 0) |
                                 (step->flags & OVERFLOW_BACK ? WIRE_UNDO_OVERFLOW_IN_FLAG : 0) |
                                 (step->flags & CARRY ? WIRE_UNDO_CARRY : 0) | (step->flags & COUNTED ? WIRE_UNDO_DONE : 0));
    }
    return (uint32_t)list.count;
}

uint32_t fire_call_table(enum insn_mode mode, struct wire_undo out[WIRE_UNDO_ROOM])
{
    struct call_steps list = make_call(mode, 0, 0);
    for (size_t i = 0; i < list.count; i++)
        out[i] = list.step[i].undo;
    return (uint32_t)list.count;
}

bool fire_count_undo(enum insn_mode mode, size_t offset, struct fire_undo *out)
{
    struct steps list;
    make_steps(&list, mode, 0, 0, 0);
    for (size_t i = 0, at = 0; i < list.count; at += list.step[i++].length) {
        const struct step *step = &list.step[i];
        if (at != offset)
            continue;
        *out = (struct fire_undo){.saved = step->saved,
                                  .red_zone = step->red_zone,
                                  .flags_in_ax = step->flags & AX_FLAGS,
                                  .overflow_in_flag = step->flags & OVERFLOW_BACK,
                                  .counted = step->flags & COUNTED,
                                  .carry_pending = step->flags & CARRY};
        return true;
    }
    return false;
}

void fire_undo_apply(enum insn_mode mode, const struct fire_undo *undo, const uint64_t stack[3], struct fire_regs *regs)
{
    enum { LOW_FLAGS = 0xd5, OVERFLOW = 0x800 }; /* SF ZF AF PF CF, as lahf takes them; OF */
    if (undo->flags_in_ax) {
        uint64_t overflow = undo->overflow_in_flag ? regs->flags & OVERFLOW : regs->ax & 1 ? OVERFLOW : 0;
        regs->flags = (regs->flags & ~(uint64_t)(LOW_FLAGS | OVERFLOW)) | (regs->ax >> 8 & LOW_FLAGS) | overflow;
    }
    /* The word pushed last is the lowest. */
    if (undo->saved >= 3)
        regs->dx = stack[undo->saved - 3];
    if (undo->saved >= 2)
        regs->cx = stack[undo->saved - 2];
    if (undo->saved >= 1)
        regs->ax = stack[undo->saved - 1];
    regs->sp += (uint64_t)undo->saved * (mode == INSN_MODE_64 ? 8 : 4) + undo->red_zone;
}

/* ---- clauses ---- */

size_t fire_clause_emit(enum insn_mode mode, uint64_t va, uint64_t body_va, uint32_t place, uint8_t out[FIRE_MAX_BYTES], size_t *literal)
{
    static const uint8_t code64[] = {0x48, 0x8d, 0x64, 0x24, 0x80,                                /* lea -128(%rsp),%rsp */
                                     0x68, 0,    0,    0,    0,                                   /* push $place */
                                     0xff, 0x15, 0,    0,    0,    0,                             /* call *body(%rip) */
                                     0x48, 0x8d, 0xa4, 0x24, 0x88, 0x00, 0x00, 0x00};             /* lea 136(%rsp),%rsp */
    static const uint8_t code32[] = {0x68, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x8d, 0x64, 0x24, 0x04}; /* push; call; lea 4(%esp),%esp */
    bool wide = mode == INSN_MODE_64;
    size_t bytes = wide ? sizeof code64 : sizeof code32;
    memcpy(out, wide ? code64 : code32, bytes);
    memcpy(out + (wide ? 6 : 1), &place, 4);
    *literal = wide ? 12 : 0;
    uint32_t distance = (uint32_t)(body_va - (va + 10));
    if (!wide)
        memcpy(out + 6, &distance, 4);
    return bytes;
}
