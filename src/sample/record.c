/* Records of a ring as perf_event_open(2) lays them out, for the attributes that event.c asks for. The kernel writes them, so they are
 * believed. */
#include "sample/internal.h"

#include <asm/perf_regs.h>
#include <linux/perf_event.h>
#include <stdlib.h>
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
    char name[16];
};
struct map_body {
    uint32_t pid, tid;
    uint64_t start_va, bytes, file_offset;
    union {
        struct {
            uint32_t major, minor;
            uint64_t inode, generation;
        };
        struct {
            uint8_t build_id_bytes, unused[3];
            uint8_t build_id[SAMPLE_BUILD_ID_MAX];
        };
    };
    uint32_t protection, flags;
    char path[];
};
struct lost_body {
    uint64_t event, lost;
};

/* A record without its head, its trailer cut off. */
struct body {
    const uint8_t *at;
    size_t bytes;
};

/* The first bytes of a body, as far as there are that many. */
#define TAKE(body, out) memcpy(out, (body)->at, (body)->bytes < sizeof *(out) ? (body)->bytes : sizeof *(out))

static void take_register(struct sample *out, int reg, uint64_t value)
{
    out->machine[reg] = value;
    out->known |= 1u << reg;
}

/* False: a thread that has no registers any more. */
static bool take_registers(const struct sample_body *body, struct sample *out)
{
    if (body->abi == PERF_SAMPLE_REGS_ABI_NONE)
        return false;
    out->model = body->abi == PERF_SAMPLE_REGS_ABI_64 ? WIRE_LP64 : WIRE_ILP32;
    for (int i = 0; i < REGISTERS; i++) {
        if (out->model == WIRE_LP64)
            take_register(out, registers[i].reg64, body->value[i]);
        else if (registers[i].reg32 != REG32_NONE)
            take_register(out, registers[i].reg32, (uint32_t)body->value[i]);
    }
    out->pc = out->machine[out->model == WIRE_LP64 ? (int)WIRE_REG64_IP : (int)WIRE_REG32_IP];
    out->sp = out->machine[out->model == WIRE_LP64 ? (int)WIRE_REG64_SP : (int)WIRE_REG32_SP];
    return true;
}

/* What follows the registers: the size that was asked for, so many bytes, and how many of them were the stack's. */
static void take_stack(const struct body *body, size_t at, struct sample_record *out, const uint8_t **stack)
{
    uint64_t size, used;
    if (body->bytes - at < sizeof size)
        return;
    memcpy(&size, body->at + at, sizeof size);
    at += sizeof size;
    if (!size || size > body->bytes - at || body->bytes - at - size < sizeof used)
        return;
    memcpy(&used, body->at + at + size, sizeof used);
    *stack = body->at + at;
    out->bytes = used < size ? used : size;
}

static bool take_sample(const struct body *body, bool has_stacks, struct sample_record *out, const uint8_t **stack)
{
    struct sample_body sample = {0};
    TAKE(body, &sample);
    if (body->bytes < sizeof sample || !take_registers(&sample, &out->sample))
        return false;
    if (has_stacks)
        take_stack(body, sizeof sample, out, stack);
    return true;
}

static void take_task(const struct body *body, enum sample_news_kind kind, struct sample_record *out)
{
    struct task_body task = {0};
    TAKE(body, &task);
    out->sample.pid = task.pid;
    out->sample.tid = task.tid;
    out->news = (struct sample_news){.kind = kind, .parent_pid = task.parent_pid, .parent_tid = task.parent_tid};
}

static void take_name(const struct body *body, bool executed, struct sample_record *out)
{
    struct comm_body comm = {0};
    TAKE(body, &comm);
    out->sample.pid = comm.pid;
    out->sample.tid = comm.tid;
    out->news.kind = executed ? SAMPLE_EXEC : SAMPLE_NAME;
    memcpy(out->name, comm.name, strnlen(comm.name, sizeof out->name - 1));
}

static bool take_map(const struct body *body, bool has_build_id, struct sample_record *out, const uint8_t **path)
{
    struct map_body map = {0};
    TAKE(body, &map);
    if (body->bytes <= sizeof map)
        return false;
    out->sample.pid = map.pid;
    out->sample.tid = map.tid;
    out->news.kind = SAMPLE_MAP;
    out->news.map = (struct sample_map){.start_va = map.start_va,
                                        .end_va = map.start_va + map.bytes,
                                        .file_offset = map.file_offset,
                                        .inode = has_build_id ? 0 : map.inode};
    if (has_build_id) {
        size_t bytes = map.build_id_bytes < SAMPLE_BUILD_ID_MAX ? map.build_id_bytes : SAMPLE_BUILD_ID_MAX;
        out->news.map.build_id_bytes = (uint32_t)bytes;
        memcpy(out->news.map.build_id, map.build_id, bytes);
    }
    *path = body->at + sizeof map;
    out->bytes = strnlen((const char *)*path, body->bytes - sizeof map - 1) + 1;
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

/* False: nothing that matters. *bytes: what out->bytes counts. */
static bool parse(const struct perf_event_header *head, struct body body, bool has_stacks, struct sample_record *out, const uint8_t **bytes)
{
    struct trailer who;
    struct lost_body lost = {0};
    bool is_sample = head->type == PERF_RECORD_SAMPLE;
    if (body.bytes < sizeof who)
        return false;
    memcpy(&who, is_sample ? body.at : body.at + body.bytes - sizeof who, sizeof who);
    note(out, is_sample ? SAMPLE_TAKEN : SAMPLE_NEWS, &who);
    if (!is_sample)
        body.bytes -= sizeof who;
    switch (head->type) {
    case PERF_RECORD_SAMPLE:
        out->sample.in_kernel = (head->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
        return take_sample(&body, has_stacks, out, bytes);
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        take_task(&body, head->type == PERF_RECORD_FORK ? SAMPLE_START : SAMPLE_END, out);
        return true;
    case PERF_RECORD_COMM:
        take_name(&body, head->misc & PERF_RECORD_MISC_COMM_EXEC, out);
        return true;
    case PERF_RECORD_SWITCH:
        out->news.kind = head->misc & PERF_RECORD_MISC_SWITCH_OUT ? SAMPLE_OUT : SAMPLE_IN;
        out->news.preempted = head->misc & PERF_RECORD_MISC_SWITCH_OUT && head->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
        return true;
    case PERF_RECORD_MMAP2:
        return take_map(&body, head->misc & PERF_RECORD_MISC_MMAP_BUILD_ID, out, bytes);
    case PERF_RECORD_LOST:
        TAKE(&body, &lost);
        out->kind = SAMPLE_LOST;
        out->lost = lost.lost;
        return true;
    case PERF_RECORD_THROTTLE:
    case PERF_RECORD_UNTHROTTLE:
        out->kind = head->type == PERF_RECORD_THROTTLE ? SAMPLE_THROTTLED : SAMPLE_UNTHROTTLED;
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

/* In the ring itself where it is not cut by the ring's end. */
static const uint8_t *in_one_piece(const struct perf_event_mmap_page *page, uint64_t at, size_t bytes, uint8_t *apart)
{
    size_t start = at % page->data_size;
    if (page->data_size - start >= bytes)
        return (const uint8_t *)page + page->data_offset + start;
    copy_out(page, at, apart, bytes);
    return apart;
}

uint64_t sample_ring_head(const struct perf_event_mmap_page *page)
{
    return __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
}

void sample_ring_read(struct perf_event_mmap_page *page, uint64_t head, bool has_stacks, struct sample_records *out)
{
    uint64_t at = page->data_tail;
    uint8_t apart[UINT16_MAX];
    while (at < head) {
        struct perf_event_header record;
        copy_out(page, at, &record, sizeof record);
        if (record.size < sizeof record)
            break;
        size_t size = record.size - sizeof record;
        struct sample_record parsed = {0};
        const uint8_t *bytes = NULL;
        struct body body = {in_one_piece(page, at + sizeof record, size, apart), size};
        if (parse(&record, body, has_stacks, &parsed, &bytes))
            sample_records_add(out, &parsed, bytes);
        at += record.size;
    }
    __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
}

/* ---- lists ---- */

void sample_records_add(struct sample_records *to, const struct sample_record *record, const uint8_t *bytes)
{
    struct sample_record added = *record;
    added.order = to->record.n;
    added.bytes = bytes ? record->bytes : 0;
    added.bytes_at = to->bytes.n;
    if (to->bytes.room - to->bytes.n < added.bytes) {
        to->bytes.room = (to->bytes.n + added.bytes) * 2;
        to->bytes.at = memory_resize(to->bytes.at, to->bytes.room, 1);
    }
    if (added.bytes)
        memcpy(to->bytes.at + to->bytes.n, bytes, added.bytes);
    to->bytes.n += added.bytes;
    VEC_PUSH(&to->record, added);
}

void sample_records_clear(struct sample_records *records)
{
    records->record.n = records->bytes.n = 0;
}

void sample_records_deinit(struct sample_records *records)
{
    VEC_FREE(&records->record);
    VEC_FREE(&records->bytes);
}
