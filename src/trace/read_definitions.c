#include "trace/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Looking for the mappings that end with an unmapping is bounded: a file that was made to cost much is damaged. */
enum { MAPPING_STEPS_MAX = 200 * 1000 * 1000 };

/* ---- taking in ---- */

static const char *keep_text(struct trace *trace, const char *text)
{
    return arena_text(&trace->arena, text, strlen(text));
}

static const char *keep_optional(struct trace *trace, const char *text)
{
    return *text ? keep_text(trace, text) : NULL;
}

static void add_mapping(struct trace *trace, const struct trace_mapping *mapping)
{
    if (!mapping->to_ns)
        VEC_PUSH(&trace->open.at[mapping->process].mapping, (uint32_t)trace->mapping.n);
    VEC_PUSH(&trace->mapping, *mapping);
}

/* Ends what is mapped in a range; what sticks out of it goes on as a mapping of its own. */
static const char *end_mappings(struct trace *trace, uint32_t process, uint64_t start_va, uint64_t end_va, uint64_t time_ns)
{
    struct trace_open_mappings *open = &trace->open.at[process];
    size_t count = open->mapping.n, left = 0;
    trace->mapping_steps += count;
    if (trace->mapping_steps > MAPPING_STEPS_MAX)
        return "there are too many mappings";
    for (size_t i = 0; i < count; i++) {
        struct trace_mapping whole = trace->mapping.at[open->mapping.at[i]];
        if (whole.end_va <= start_va || whole.start_va >= end_va) {
            open->mapping.at[left++] = open->mapping.at[i];
            continue;
        }
        /* 0 would say that it goes on. */
        trace->mapping.at[open->mapping.at[i]].to_ns = time_ns ? time_ns : 1;
        struct trace_mapping low = whole, high = whole;
        low.end_va = start_va;
        high.start_va = end_va;
        high.file_offset += end_va - whole.start_va;
        low.from_ns = high.from_ns = time_ns;
        if (whole.start_va < start_va)
            add_mapping(trace, &low);
        if (whole.end_va > end_va)
            add_mapping(trace, &high);
    }
    for (size_t i = count; i < open->mapping.n; i++)
        open->mapping.at[left++] = open->mapping.at[i];
    open->mapping.n = left;
    return NULL;
}

static const char *take_process(struct trace *trace, const struct trace_item *item)
{
    struct trace_process process = {
        .pid = (uint32_t)item[1].number,
        .start_ns = item[2].number,
        .parent = (uint32_t)item[3].number,
        .width = (uint32_t)item[4].number,
        .name = keep_text(trace, item[5].text),
        .end_ns = item[6].number,
        .status = (int32_t)item[7].number,
    };
    if (item[0].number != trace->process.n || (process.parent != TRACE_NONE && process.parent >= trace->process.n) ||
        (process.width != 0 && process.width != 32 && process.width != 64))
        return "a process makes no sense";
    VEC_PUSH(&trace->process, process);
    VEC_PUSH(&trace->open, (struct trace_open_mappings){0});
    return NULL;
}

static const char *take_thread(struct trace *trace, const struct trace_item *item)
{
    if (item[0].number != trace->thread.n || item[1].number >= trace->process.n)
        return "a thread makes no sense";
    VEC_PUSH(&trace->thread, (struct trace_thread){.process = (uint32_t)item[1].number,
                                                   .tid = (uint32_t)item[2].number,
                                                   .start_ns = item[3].number,
                                                   .name = keep_text(trace, item[4].text),
                                                   .end_ns = item[5].number});
    VEC_PUSH(&trace->channel, (struct trace_channel){0});
    VEC_PUSH(&trace->channel, (struct trace_channel){0});
    return NULL;
}

static const char *take_module(struct trace *trace, const struct trace_item *item)
{
    if (item[0].number != trace->module.n)
        return "a module makes no sense";
    struct trace_module module = {.path = keep_text(trace, item[1].text), .build_id_bytes = (uint32_t)item[2].size};
    if (item[2].size)
        module.build_id = (const uint8_t *)arena_text(&trace->arena, (const char *)item[2].bytes, item[2].size);
    VEC_PUSH(&trace->module, module);
    return NULL;
}

static const char *take_mapping(struct trace *trace, const struct trace_item *item)
{
    struct trace_mapping mapping = {
        .process = (uint32_t)item[0].number,
        .module = (uint32_t)item[1].number,
        .start_va = item[2].number,
        .end_va = item[3].number,
        .file_offset = item[4].number,
        .from_ns = item[5].number,
        .to_ns = item[6].number,
    };
    if (mapping.process >= trace->process.n || mapping.module >= trace->module.n || mapping.start_va >= mapping.end_va)
        return "a mapping makes no sense";
    const char *why = end_mappings(trace, mapping.process, mapping.start_va, mapping.end_va, mapping.from_ns);
    if (!why)
        add_mapping(trace, &mapping);
    return why;
}

static const char *take_function(struct trace *trace, const struct trace_item *item)
{
    struct trace_function function = {
        .module = (uint32_t)item[1].number,
        .offset = item[2].number,
        .name = keep_text(trace, item[3].text),
        .file = keep_optional(trace, item[4].text),
        .line = (uint32_t)item[5].number,
    };
    if (item[0].number != trace->function.n || (function.module != TRACE_NONE && function.module >= trace->module.n))
        return "a function makes no sense";
    VEC_PUSH(&trace->function, function);
    return NULL;
}

static const char *take_frame(struct trace *trace, const struct trace_item *item)
{
    struct trace_frame frame = {
        .function = (uint32_t)item[1].number,
        .offset = item[2].number,
        .file = keep_optional(trace, item[3].text),
        .line = (uint32_t)item[4].number,
        .is_inlined = item[5].number,
    };
    if (item[0].number != trace->frame.n || frame.function >= trace->function.n || item[5].number > 1)
        return "a frame makes no sense";
    VEC_PUSH(&trace->frame, frame);
    return NULL;
}

static const char *take_stack(struct trace *trace, const struct trace_item *item)
{
    struct trace_stack stack = {.parent = (uint32_t)item[1].number, .frame = (uint32_t)item[2].number};
    if (item[0].number != trace->stack.n || (stack.parent != TRACE_NONE && stack.parent >= trace->stack.n) || stack.frame >= trace->frame.n)
        return "a stack makes no sense";
    VEC_PUSH(&trace->stack, stack);
    return NULL;
}

static const char *take_metric(struct trace *trace, const struct trace_item *item)
{
    if (item[0].number != trace->metric.n || item[0].number > UINT16_MAX)
        return "a metric makes no sense";
    VEC_PUSH(&trace->metric, (struct trace_metric){.name = keep_text(trace, item[1].text), .unit = keep_text(trace, item[2].text)});
    return NULL;
}

static const char *take_about(struct trace *trace, const struct trace_item *item)
{
    if (trace->has_about)
        return "it starts a second time";
    trace->has_about = true;
    trace->info.about = (struct trace_about){
        .host = keep_text(trace, item[0].text),
        .command = keep_text(trace, item[1].text),
        .start_ns = item[2].number,
        .start_realtime_ns = item[3].number,
        .period_ns = item[4].number,
        .has_switches = item[5].number,
        .has_off_cpu = item[6].number,
    };
    return NULL;
}

static const char *take_process_news(struct trace *trace, enum trace_definition definition, const struct trace_item *item)
{
    if (item[0].number >= trace->process.n)
        return "there is news of a process that is not defined";
    uint32_t number = (uint32_t)item[0].number;
    struct trace_process *process = &trace->process.at[number];
    if (definition == TRACE_DEFINE_UNMAPPING)
        return end_mappings(trace, number, item[1].number, item[2].number, item[3].number);
    if (definition == TRACE_DEFINE_RENAME_PROCESS) {
        process->name = keep_text(trace, item[1].text);
    } else {
        process->status = (int32_t)item[1].number;
        process->end_ns = item[2].number;
    }
    return end_mappings(trace, number, 0, UINT64_MAX, item[2].number);
}

static const char *take_thread_news(struct trace *trace, enum trace_definition definition, const struct trace_item *item)
{
    if (item[0].number >= trace->thread.n)
        return "there is news of a thread that is not defined";
    if (definition == TRACE_DEFINE_RENAME_THREAD) {
        trace->thread.at[item[0].number].name = keep_text(trace, item[1].text);
    } else if (definition == TRACE_DEFINE_END_THREAD) {
        trace->thread.at[item[0].number].end_ns = item[1].number;
    } else {
        if (item[1].number != TRACE_CALLS && item[1].number != TRACE_SAMPLES)
            return "a channel makes no sense";
        trace->channel.at[item[0].number * 2 + item[1].number - TRACE_CALLS].bytes = item[3].number;
    }
    return NULL;
}

const char *trace_take_definition(struct trace *trace, enum trace_definition definition, const struct trace_item *item, uint64_t time_ns)
{
    if (trace->is_complete)
        return "something follows its end";
    if (definition != TRACE_DEFINE_ABOUT && !trace->has_about)
        return "it does not start with what it is about";
    trace->info.end_ns = time_ns;
    switch (definition) {
    case TRACE_DEFINE_ABOUT:
        return take_about(trace, item);
    case TRACE_DEFINE_PROCESS:
        return take_process(trace, item);
    case TRACE_DEFINE_THREAD:
        return take_thread(trace, item);
    case TRACE_DEFINE_MODULE:
        return take_module(trace, item);
    case TRACE_DEFINE_MAPPING:
        return take_mapping(trace, item);
    case TRACE_DEFINE_FUNCTION:
        return take_function(trace, item);
    case TRACE_DEFINE_FRAME:
        return take_frame(trace, item);
    case TRACE_DEFINE_STACK:
        return take_stack(trace, item);
    case TRACE_DEFINE_METRIC:
        return take_metric(trace, item);
    case TRACE_DEFINE_UNMAPPING:
    case TRACE_DEFINE_RENAME_PROCESS:
    case TRACE_DEFINE_END_PROCESS:
        return take_process_news(trace, definition, item);
    case TRACE_DEFINE_RENAME_THREAD:
    case TRACE_DEFINE_END_THREAD:
    case TRACE_DEFINE_CHANNEL:
        return take_thread_news(trace, definition, item);
    case TRACE_DEFINE_START_COMPLETE:
        trace->info.has_start = true;
        return NULL;
    case TRACE_DEFINE_END:
        trace->is_complete = true;
        trace->info.raised = item[2].number;
        trace->info.dropped = item[3].number;
        return NULL;
    case TRACE_DEFINITION_COUNT:
        break;
    }
    return "there is no such definition";
}

/* ---- decoding ---- */

/* What is left of a packet. */
struct rest {
    const uint8_t *at;
    size_t size;
};

static const uint8_t *take_bytes(struct rest *rest, size_t size)
{
    if (rest->size < size)
        return NULL;
    rest->at += size;
    rest->size -= size;
    return rest->at - size;
}

static bool take_text(struct rest *rest, struct trace_item *item)
{
    const uint8_t *end = memchr(rest->at, 0, rest->size < TRACE_TEXT_MAX ? rest->size : TRACE_TEXT_MAX);
    if (!end)
        return false;
    item->text = (const char *)take_bytes(rest, (size_t)(end - rest->at) + 1);
    return true;
}

/* False when the rest is too short for it. */
static bool take_item(struct rest *rest, char type, struct trace_item *item)
{
    const uint8_t *bytes;
    *item = (struct trace_item){0};
    switch (type) {
    case 't':
        return take_text(rest, item);
    case 'u':
    case 'i':
    case 'b':
        bytes = take_bytes(rest, 4);
        if (!bytes)
            return false;
        item->number = trace_load32(bytes);
        if (type != 'b')
            return true;
        item->size = item->number;
        item->bytes = take_bytes(rest, item->size);
        return item->bytes;
    default:
        bytes = take_bytes(rest, 8);
        if (bytes)
            item->number = trace_load64(bytes);
        return bytes;
    }
}

static bool take_head(struct rest *rest, unsigned *id, uint64_t *time_ns)
{
    const uint8_t *bytes = take_bytes(rest, 4);
    if (!bytes)
        return false;
    uint32_t word = trace_load32(bytes);
    *id = word & ((1u << TRACE_ID_BITS) - 1);
    if (*id != TRACE_EXTENDED) {
        *time_ns += ((word >> TRACE_ID_BITS) - (uint32_t)*time_ns) & ((1u << TRACE_TIME_BITS) - 1);
        return true;
    }
    *id = word >> TRACE_ID_BITS;
    bytes = take_bytes(rest, 8);
    if (bytes)
        *time_ns = trace_load64(bytes);
    return bytes;
}

static const char too_short[] = "ends inside of a definition";

/* One definition; what is wrong with it, or NULL. */
static const char *decode(struct trace *trace, struct rest *rest, const struct trace_packet *head, uint64_t *time_ns)
{
    unsigned id;
    uint64_t before_ns = *time_ns;
    if (!take_head(rest, &id, time_ns))
        return too_short;
    if (id >= TRACE_DEFINITION_COUNT)
        return "there is no such definition";
    if (*time_ns < before_ns || *time_ns > head->end_ns)
        return "a time makes no sense";
    struct trace_item item[TRACE_FIELDS_MAX];
    const char *types = trace_definition_types((enum trace_definition)id);
    for (size_t i = 0; types[i]; i++)
        if (!take_item(rest, types[i], &item[i]))
            return too_short;
    return trace_take_definition(trace, (enum trace_definition)id, item, *time_ns);
}

/* Returns whether there may be another packet. */
static bool read_packet(struct trace *trace, int fd, struct trace_position *position, uint8_t **buffer)
{
    struct trace_packet head;
    uint8_t bytes[TRACE_HEAD_DEFINITIONS];
    ssize_t size = trace_file_read(fd, bytes, sizeof bytes, position->offset);
    if (size == 0)
        return false;
    const char *why = size < 0 ? strerror(errno) : trace_packet_check(trace, bytes, (size_t)size, TRACE_DEFINITIONS, 0, position, &head);
    if (why) {
        trace_cut(trace, "definitions: packet %llu, byte %llu: %s", (unsigned long long)position->sequence,
                  (unsigned long long)position->offset, why);
        return false;
    }
    size_t content = head.packet_bits / 8 - sizeof bytes;
    *buffer = memory_resize(*buffer, content, 1);
    size = trace_file_read(fd, *buffer, content, position->offset + sizeof bytes);
    struct rest rest = {*buffer, size > 0 ? (size_t)size : 0};
    uint64_t time_ns = head.begin_ns;
    const uint8_t *last = rest.at;
    while (!why && rest.size) {
        last = rest.at;
        why = decode(trace, &rest, &head, &time_ns);
    }
    if (!why && (size_t)size < content)
        why = size < 0 ? strerror(errno) : "ends inside of a packet";
    if (why)
        trace_cut(trace, "definitions: packet %llu, byte %llu: %s", (unsigned long long)position->sequence,
                  (unsigned long long)(position->offset + sizeof bytes + (size_t)(last - *buffer)), why);
    *position = (struct trace_position){position->offset + head.packet_bits / 8, position->sequence + 1, head.end_ns};
    return !why;
}

void trace_read_definitions(struct trace *trace)
{
    int fd = trace_file_open(trace, "definitions");
    if (fd < 0) {
        trace_cut(trace, "definitions: %s", strerror(errno));
        return;
    }
    struct trace_position position = {0};
    uint8_t *buffer = NULL;
    while (read_packet(trace, fd, &position, &buffer))
        ;
    free(buffer);
    close(fd);
}
