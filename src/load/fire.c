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

/* ---- out of the middle of it ---- */

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

/* ---- calls of the agent ---- */

size_t fire_call_emit(enum insn_mode mode, uint64_t function_va, uint64_t argument, uint8_t out[FIRE_MAX_BYTES])
{
    static const uint8_t save64[] = {0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0xfc, 0x50, 0x51,
                                     0x52, 0x56, 0x57,                                     /* lea; pushf; cld; push a c d si di */
                                     0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53, 0x55, /* push r8 r9 r10 r11 bp */
                                     0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xf0};            /* mov %rsp,%rbp; and $-16,%rsp */
    static const uint8_t restore64[] = {0x48, 0x89, 0xec, 0x5d, 0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, 0x5f,
                                        0x5e, 0x5a, 0x59, 0x58, 0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0,    0,    0};
    static const uint8_t save32[] = {0x9c, 0xfc, 0x60, 0x89, 0xe5, 0x83, 0xe4, 0xf0, 0x83, 0xec, 0x0c}; /* pushf; cld; pusha; align */
    static const uint8_t restore32[] = {0x89, 0xec, 0x61, 0x9d};
    uint8_t *at = out;
#define PUT(bytes) (memcpy(at, bytes, sizeof bytes), at += sizeof bytes)
    if (mode == INSN_MODE_64) {
        PUT(save64);
        PUT(((uint8_t[]){0x48, 0xbf})); /* movabs $argument,%rdi */
        memcpy(at, &argument, 8), at += 8;
        PUT(((uint8_t[]){0x48, 0xb8})); /* movabs $function,%rax */
        memcpy(at, &function_va, 8), at += 8;
        PUT(((uint8_t[]){0xff, 0xd0})); /* call *%rax */
        PUT(restore64);
    } else {
        PUT(save32);
        PUT(((uint8_t[]){0x68})); /* push $argument */
        memcpy(at, &argument, 4), at += 4;
        PUT(((uint8_t[]){0xb8})); /* mov $function,%eax */
        memcpy(at, &function_va, 4), at += 4;
        PUT(((uint8_t[]){0xff, 0xd0}));
        PUT(restore32);
    }
#undef PUT
    return (size_t)(at - out);
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
