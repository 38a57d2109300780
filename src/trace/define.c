#include "trace/writer.h"

/* Encoded, the longest definition: nine fields, of which four are texts. */
enum { SCRATCH_BYTES = TRACE_FIELDS_MAX * 8 + 4 * TRACE_TEXT_MAX + TRACE_BYTES_MAX };
_Static_assert(TRACE_HEAD_DEFINITIONS + TRACE_EXTENDED_BYTES + SCRATCH_BYTES <= TRACE_DEFINITIONS_MAX, "a definition fits into a packet");

/* ---- encoding ---- */

static uint8_t *put_text(uint8_t *at, const char *text)
{
    size_t length = text ? strnlen(text, TRACE_TEXT_MAX - 1) : 0;
    memcpy(at, text ? text : "", length);
    at[length] = 0;
    return at + length + 1;
}

/* Into the scratch memory; returns the size. */
static size_t encode(struct trace_writer *writer, enum trace_definition definition, const struct trace_item *item)
{
    if (!writer->scratch)
        writer->scratch = memory_alloc(SCRATCH_BYTES);
    uint8_t *at = writer->scratch;
    for (const char *type = trace_definition_types(definition); *type; type++, item++) {
        switch (*type) {
        case 'u':
        case 'i':
            trace_store32(at, (uint32_t)item->number);
            at += 4;
            break;
        case 't':
            at = put_text(at, item->text);
            break;
        case 'b': {
            size_t size = item->size < TRACE_BYTES_MAX ? item->size : TRACE_BYTES_MAX;
            trace_store32(at, (uint32_t)size);
            if (size)
                memcpy(at + 4, item->bytes, size);
            at += 4 + size;
            break;
        }
        default:
            trace_store64(at, item->number);
            at += 8;
        }
    }
    return (size_t)(at - writer->scratch);
}

static void append(struct trace_writer *writer, enum trace_definition definition, uint64_t time_ns, size_t size)
{
    struct trace_file *file = &writer->definitions;
    time_ns = time_ns < file->last_ns ? file->last_ns : time_ns > INT64_MAX ? INT64_MAX : time_ns;
    if (!trace_writer_room(writer, file, size, time_ns))
        return;
    trace_writer_head(file, definition, time_ns);
    memcpy(file->buffer + file->used, writer->scratch, size);
    file->used += (uint32_t)size;
}

static void tell(struct trace_writer *writer, enum trace_definition definition, uint64_t time_ns, const struct trace_item *item)
{
    append(writer, definition, time_ns, encode(writer, definition, item));
}

/* The first item is the number. `key_bytes` of what follows it make it equal to another; 0: all. */
static uint32_t number_of(struct trace_writer *writer, enum trace_kind kind, enum trace_definition definition, uint64_t time_ns,
                          size_t key_bytes, const struct trace_item *item, bool *is_new)
{
    size_t size = encode(writer, definition, item);
    uint32_t number = trace_numbers_find(&writer->known[kind], writer->scratch + 4, key_bytes ? key_bytes : size - 4, is_new);
    if (*is_new) {
        trace_store32(writer->scratch, number);
        append(writer, definition, time_ns, size);
    }
    return number;
}

#define ITEMS(...)                                                                                                                         \
    (const struct trace_item[])                                                                                                            \
    {                                                                                                                                      \
        __VA_ARGS__                                                                                                                        \
    }
#define NUMBER(value)                                                                                                                      \
    {                                                                                                                                      \
        .number = (value)                                                                                                                  \
    }
#define TEXT(value)                                                                                                                        \
    {                                                                                                                                      \
        .text = (value)                                                                                                                    \
    }

/* ---- what has a number ---- */

uint32_t trace_define_process(struct trace_writer *writer, uint64_t time_ns, const struct trace_process *process)
{
    bool is_new;
    uint32_t number =
        number_of(writer, TRACE_PROCESSES, TRACE_DEFINE_PROCESS, time_ns, 12,
                  ITEMS(NUMBER(0), NUMBER(process->pid), NUMBER(process->start_ns), NUMBER(process->parent), NUMBER(process->width),
                        TEXT(process->name), NUMBER(process->end_ns), NUMBER((uint32_t)process->status)),
                  &is_new);
    if (is_new)
        VEC_PUSH(&writer->pid, process->pid);
    return number;
}

uint32_t trace_define_thread(struct trace_writer *writer, uint64_t time_ns, const struct trace_thread *thread)
{
    bool is_new;
    uint32_t number = number_of(writer, TRACE_THREADS, TRACE_DEFINE_THREAD, time_ns, 16,
                                ITEMS(NUMBER(0), NUMBER(thread->process), NUMBER(thread->tid), NUMBER(thread->start_ns), TEXT(thread->name),
                                      NUMBER(thread->end_ns)),
                                &is_new);
    if (is_new) {
        uint32_t pid = thread->process < writer->pid.n ? writer->pid.at[thread->process] : 0;
        VEC_PUSH(&writer->thread, (struct trace_ids){pid, thread->tid});
        VEC_PUSH(&writer->channel, (struct trace_file){0});
        VEC_PUSH(&writer->channel, (struct trace_file){0});
    }
    return number;
}

uint32_t trace_define_module(struct trace_writer *writer, const struct trace_module *module)
{
    bool is_new;
    struct trace_item id = {.bytes = module->build_id, .size = module->build_id ? module->build_id_bytes : 0};
    return number_of(writer, TRACE_MODULES, TRACE_DEFINE_MODULE, 0, 0, ITEMS(NUMBER(0), TEXT(module->path), id), &is_new);
}

uint32_t trace_define_function(struct trace_writer *writer, const struct trace_function *function)
{
    bool is_new;
    return number_of(writer, TRACE_FUNCTIONS, TRACE_DEFINE_FUNCTION, 0, 0,
                     ITEMS(NUMBER(0), NUMBER(function->module), NUMBER(function->offset), TEXT(function->name), TEXT(function->file),
                           NUMBER(function->line)),
                     &is_new);
}

uint32_t trace_define_frame(struct trace_writer *writer, const struct trace_frame *frame)
{
    bool is_new;
    return number_of(
        writer, TRACE_FRAMES, TRACE_DEFINE_FRAME, 0, 0,
        ITEMS(NUMBER(0), NUMBER(frame->function), NUMBER(frame->offset), TEXT(frame->file), NUMBER(frame->line), NUMBER(frame->is_inlined)),
        &is_new);
}

uint32_t trace_define_stack(struct trace_writer *writer, const struct trace_stack *stack)
{
    bool is_new;
    return number_of(writer, TRACE_STACKS, TRACE_DEFINE_STACK, 0, 0, ITEMS(NUMBER(0), NUMBER(stack->parent), NUMBER(stack->frame)),
                     &is_new);
}

uint32_t trace_define_metric(struct trace_writer *writer, const struct trace_metric *metric)
{
    bool is_new;
    return number_of(writer, TRACE_METRICS, TRACE_DEFINE_METRIC, 0, 0, ITEMS(NUMBER(0), TEXT(metric->name), TEXT(metric->unit)), &is_new);
}

/* ---- news ---- */

void trace_define_mapping(struct trace_writer *writer, const struct trace_mapping *mapping)
{
    if (mapping->start_va >= mapping->end_va)
        return; /* nothing is there */
    tell(writer, TRACE_DEFINE_MAPPING, mapping->from_ns,
         ITEMS(NUMBER(mapping->process), NUMBER(mapping->module), NUMBER(mapping->start_va), NUMBER(mapping->end_va),
               NUMBER(mapping->file_offset), NUMBER(mapping->from_ns), NUMBER(mapping->to_ns)));
}

void trace_define_unmapping(struct trace_writer *writer, uint64_t time_ns, uint32_t process, uint64_t start_va, uint64_t end_va)
{
    tell(writer, TRACE_DEFINE_UNMAPPING, time_ns, ITEMS(NUMBER(process), NUMBER(start_va), NUMBER(end_va), NUMBER(time_ns)));
}

void trace_rename_thread(struct trace_writer *writer, uint64_t time_ns, uint32_t thread, const char *name)
{
    tell(writer, TRACE_DEFINE_RENAME_THREAD, time_ns, ITEMS(NUMBER(thread), TEXT(name), NUMBER(time_ns)));
}

void trace_rename_process(struct trace_writer *writer, uint64_t time_ns, uint32_t process, const char *name)
{
    tell(writer, TRACE_DEFINE_RENAME_PROCESS, time_ns, ITEMS(NUMBER(process), TEXT(name), NUMBER(time_ns)));
}

void trace_end_thread(struct trace_writer *writer, uint64_t time_ns, uint32_t thread)
{
    tell(writer, TRACE_DEFINE_END_THREAD, time_ns, ITEMS(NUMBER(thread), NUMBER(time_ns)));
}

void trace_end_process(struct trace_writer *writer, uint64_t time_ns, uint32_t process, int32_t status)
{
    tell(writer, TRACE_DEFINE_END_PROCESS, time_ns, ITEMS(NUMBER(process), NUMBER((uint32_t)status), NUMBER(time_ns)));
}

void trace_start_complete(struct trace_writer *writer, uint64_t time_ns)
{
    tell(writer, TRACE_DEFINE_START_COMPLETE, time_ns, ITEMS(NUMBER(time_ns)));
}

/* ---- first and last ---- */

void trace_define_about(struct trace_writer *writer, const struct trace_about *about)
{
    struct trace_metric metric = about->metric.name ? about->metric : (struct trace_metric){"time", "ns"};
    tell(writer, TRACE_DEFINE_ABOUT, about->start_ns,
         ITEMS(TEXT(about->host), TEXT(about->command), NUMBER(about->start_ns), NUMBER(about->start_realtime_ns), NUMBER(about->period_ns),
               NUMBER(about->has_switches), NUMBER(about->has_off_cpu)));
    trace_define_metric(writer, &metric);
}

void trace_define_end(struct trace_writer *writer)
{
    uint64_t end_ns = writer->definitions.last_ns;
    for (uint32_t i = 0; i < writer->channel.n; i++) {
        const struct trace_file *file = &writer->channel.at[i];
        if (!file->packets)
            continue;
        end_ns = file->last_ns > end_ns ? file->last_ns : end_ns;
        tell(writer, TRACE_DEFINE_CHANNEL, 0,
             ITEMS(NUMBER(i / 2), NUMBER(TRACE_CALLS + i % 2), NUMBER(file->packets), NUMBER(file->bytes)));
    }
    tell(writer, TRACE_DEFINE_END, end_ns,
         ITEMS(NUMBER(end_ns), NUMBER(writer->written.records), NUMBER(writer->written.raised), NUMBER(writer->written.dropped)));
}
