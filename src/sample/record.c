/* Records of a ring as perf_event_open(2) lays them out, for the attributes that event.c asks for. The kernel writes them, so they are
 * believed. */
#include "sample/internal.h"

#include <asm/perf_regs.h>
#include <linux/perf_event.h>
#include <string.h>

enum { REG32_NONE = -1 };

/* In ascending order of the kernel's numbers, which is the order of the values in a sample. */
static const struct {
    uint8_t number;
    int8_t reg64, reg32;
} registers[] = {
    {PERF_REG_X86_AX, WIRE_REG64_AX, WIRE_REG32_AX}, {PERF_REG_X86_BX, WIRE_REG64_BX, WIRE_REG32_BX},
    {PERF_REG_X86_CX, WIRE_REG64_CX, WIRE_REG32_CX}, {PERF_REG_X86_DX, WIRE_REG64_DX, WIRE_REG32_DX},
    {PERF_REG_X86_SI, WIRE_REG64_SI, WIRE_REG32_SI}, {PERF_REG_X86_DI, WIRE_REG64_DI, WIRE_REG32_DI},
    {PERF_REG_X86_BP, WIRE_REG64_BP, WIRE_REG32_BP}, {PERF_REG_X86_SP, WIRE_REG64_SP, WIRE_REG32_SP},
    {PERF_REG_X86_IP, WIRE_REG64_IP, WIRE_REG32_IP}, {PERF_REG_X86_FLAGS, WIRE_REG64_FLAGS, WIRE_REG32_FLAGS},
    {PERF_REG_X86_R8, WIRE_REG64_R8, REG32_NONE},    {PERF_REG_X86_R9, WIRE_REG64_R9, REG32_NONE},
    {PERF_REG_X86_R10, WIRE_REG64_R10, REG32_NONE},  {PERF_REG_X86_R11, WIRE_REG64_R11, REG32_NONE},
    {PERF_REG_X86_R12, WIRE_REG64_R12, REG32_NONE},  {PERF_REG_X86_R13, WIRE_REG64_R13, REG32_NONE},
    {PERF_REG_X86_R14, WIRE_REG64_R14, REG32_NONE},  {PERF_REG_X86_R15, WIRE_REG64_R15, REG32_NONE},
};
enum { REGISTERS = sizeof registers / sizeof *registers };

#define BIT(name) (1ull << PERF_REG_X86_##name)
const uint64_t sample_register_mask = BIT(AX) | BIT(BX) | BIT(CX) | BIT(DX) | BIT(SI) | BIT(DI) | BIT(BP) | BIT(SP) | BIT(IP) | BIT(FLAGS) |
                                      BIT(R8) | BIT(R9) | BIT(R10) | BIT(R11) | BIT(R12) | BIT(R13) | BIT(R14) | BIT(R15);

/* The end of every record but samples, and after its head a sample's beginning. */
struct trailer {
    uint32_t pid, tid;
    uint64_t time_ns;
    uint64_t event;
    uint32_t cpu, unused;
};
struct sample_body {
    struct trailer who;
    uint64_t abi; /* PERF_SAMPLE_REGS_ABI_NONE: no values follow */
    uint64_t value[REGISTERS];
};
struct task_body { /* of FORK and EXIT */
    uint32_t pid, parent_pid, tid, parent_tid;
    uint64_t time_ns;
};
struct comm_body {
    uint32_t pid, tid;
    char name[];
};
struct lost_body {
    uint64_t event, lost;
};

/* The largest record of interest: a sample; others are shorter. */
union body {
    struct sample_body sample;
    struct task_body task;
    struct comm_body comm;
    struct lost_body lost;
    uint8_t bytes[512];
};

/* False: a thread that has no registers any more. */
static bool take_registers(const struct sample_body *body, struct sample *out)
{
    if (body->abi == PERF_SAMPLE_REGS_ABI_NONE)
        return false;
    out->model = body->abi == PERF_SAMPLE_REGS_ABI_64 ? WIRE_LP64 : WIRE_ILP32;
    for (int i = 0; i < REGISTERS; i++) {
        if (out->model == WIRE_LP64)
            out->machine[registers[i].reg64] = body->value[i];
        else if (registers[i].reg32 != REG32_NONE)
            out->machine[registers[i].reg32] = (uint32_t)body->value[i];
    }
    out->pc = out->machine[out->model == WIRE_LP64 ? (int)WIRE_REG64_IP : (int)WIRE_REG32_IP];
    out->sp = out->machine[out->model == WIRE_LP64 ? (int)WIRE_REG64_SP : (int)WIRE_REG32_SP];
    return true;
}

static void note(struct sample_record *record, enum sample_kind kind, const struct trailer *who)
{
    record->kind = kind;
    record->event = who->event;
    record->sample.time_ns = who->time_ns;
    record->sample.pid = who->pid;
    record->sample.tid = who->tid;
    record->sample.cpu = who->cpu;
}

/* False: nothing that matters. */
static bool parse(const struct perf_event_header *head, const union body *body, size_t bytes, struct sample_record *out)
{
    struct trailer who;
    if (bytes < sizeof who || bytes > sizeof *body)
        return false;
    memcpy(&who, body->bytes + bytes - sizeof who, sizeof who);
    switch (head->type) {
    case PERF_RECORD_SAMPLE:
        note(out, SAMPLE_TAKEN, &body->sample.who);
        out->sample.in_kernel = (head->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
        return take_registers(&body->sample, &out->sample);
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        note(out, head->type == PERF_RECORD_FORK ? SAMPLE_FORKED : SAMPLE_ENDED, &who);
        out->sample.pid = body->task.pid;
        out->sample.tid = body->task.tid;
        out->parent_tid = body->task.parent_tid;
        return true;
    case PERF_RECORD_COMM:
        note(out, SAMPLE_RENAMED, &who);
        out->sample.pid = body->comm.pid;
        out->sample.tid = body->comm.tid;
        memcpy(out->name, body->comm.name, strnlen(body->comm.name, sizeof out->name - 1));
        return true;
    case PERF_RECORD_LOST:
        note(out, SAMPLE_LOST, &who);
        out->lost = body->lost.lost;
        return true;
    case PERF_RECORD_THROTTLE:
    case PERF_RECORD_UNTHROTTLE:
        note(out, head->type == PERF_RECORD_THROTTLE ? SAMPLE_THROTTLED : SAMPLE_UNTHROTTLED, &who);
        return true;
    default:
        return false;
    }
}

static void copy_out(const struct perf_event_mmap_page *page, uint64_t at, void *to, size_t bytes)
{
    const uint8_t *data = (const uint8_t *)page + page->data_offset;
    size_t start = at % page->data_size, first = page->data_size - start < bytes ? page->data_size - start : bytes;
    memcpy(to, data + start, first);
    memcpy((uint8_t *)to + first, data, bytes - first);
}

uint64_t sample_ring_head(const struct perf_event_mmap_page *page)
{
    return __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
}

void sample_ring_read(struct perf_event_mmap_page *page, uint64_t head, sample_records *out)
{
    uint64_t at = page->data_tail;
    while (at < head) {
        struct perf_event_header record;
        union body body;
        copy_out(page, at, &record, sizeof record);
        if (record.size < sizeof record)
            break;
        size_t bytes = record.size - sizeof record;
        struct sample_record parsed = {0};
        if (bytes <= sizeof body) {
            copy_out(page, at + sizeof record, &body, bytes);
            if (parse(&record, &body, bytes, &parsed))
                VEC_PUSH(out, parsed);
        }
        at += record.size;
    }
    __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
}
