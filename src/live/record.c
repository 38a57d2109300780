/* Records → what the script asked for: printing, clearing maps, ending. */
#include "base/escape.h"
#include "live/match.h"
#include "live/run.h"

#include "stream/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* ---- speculation ---- */

static void keep(struct live_run *run, const struct drain_record *record)
{
    enum { MOST = 100000, MOST_BYTES = 256 << 20 };
    if (run->waiting.n == MOST || run->waiting_bytes + record->payload_bytes > MOST_BYTES)
        return;
    run->waiting_bytes += record->payload_bytes;
    struct live_waiting waiting = {record->head.speculation, *record};
    void *payload = memory_alloc(record->payload_bytes + 1);
    waiting.record.payload = memcpy(payload, record->payload, record->payload_bytes);
    VEC_PUSH(&run->waiting, waiting);
}

static void take(struct live_run *run, const struct drain_record *record);

static void end_speculation(struct live_run *run, uint64_t number, bool commit)
{
    size_t kept = 0, count = run->waiting.n;
    struct live_waiting *list = run->waiting.at;
    run->waiting = (typeof(run->waiting)){0};
    for (size_t i = 0; i < count; i++) {
        if (list[i].speculation != number) {
            list[kept++] = list[i];
            continue;
        }
        list[i].record.head.speculation = 0;
        run->waiting_bytes -= list[i].record.payload_bytes;
        if (commit)
            take(run, &list[i].record);
        free((void *)list[i].record.payload);
    }
    for (size_t i = 0; i < kept; i++)
        VEC_PUSH(&run->waiting, list[i]);
    free(list);
}

/* ---- errors ---- */

static const char *error_text(const struct wire_error_payload *payload, char *text, size_t room)
{
    unsigned long long value = payload->value;
    switch (payload->error) {
    case WIRE_ERROR_READ:
        snprintf(text, room, "can not read memory at 0x%llx", value);
        break;
    case WIRE_ERROR_DIVIDE:
        snprintf(text, room, "division by zero");
        break;
    case WIRE_ERROR_FUEL:
        snprintf(text, room, "the loop ran %d times and was ended", WIRE_FUEL);
        break;
    case WIRE_ERROR_BOUNDS:
        snprintf(text, room, "index %lld is out of the array", (long long)value);
        break;
    case WIRE_ERROR_MAP_FULL:
        snprintf(text, room, "the map has no room for another key");
        break;
    default:
        snprintf(text, room, "the clause ended early (%u)", payload->error);
    }
    return text;
}

static void print_error(struct live_run *run, const struct live_error *error, const char *what)
{
    const struct wire_stream *stream = run->script->built.stream;
    const struct wire_error_payload *payload = &error->payload;
    enum wire_model model = payload->model == WIRE_ILP32 ? WIRE_ILP32 : WIRE_LP64;
    uint32_t count;
    const struct wire_insn *code = stream_code(stream, error->clause, model, &count);
    const struct wire_insn *region = (const void *)((const char *)stream + stream->code_offset[model]);
    struct print_event where = {.name = run->options->name};
    if (error->insn < count) {
        const struct wire_source *source = &stream_sources(stream, model)[(code - region) + error->insn];
        where.line = source->line;
        where.column = source->column;
    }
    char text[128], message[192];
    error_text(payload, text, sizeof text);
    if (payload->error == WIRE_ERROR_MAP_FULL && payload->value < stream->map_count) {
        const struct wire_map_type *map = &stream_maps(stream)[payload->value];
        snprintf(text, sizeof text, "%.*s has no room for another key (max_map_keys %u)",
                 (int)(map->name_bytes < 60 ? map->name_bytes : 60), stream_data(stream) + map->name_offset, map->capacity);
    }
    snprintf(message, sizeof message, "%s%s", text, what);
    print_run_error(&run->print, &where, message);
}

static void take_error(struct live_run *run, const struct drain_record *record)
{
    enum { PLACES_MOST = 1000 };
    const struct wire_error_payload *payload = record->payload;
    struct live_error seen = {record->head.clause, (uint16_t)payload->error, payload->insn, 1, *payload};
    for (size_t i = 0; i < run->error.n; i++) {
        struct live_error *error = &run->error.at[i];
        if (error->clause == seen.clause && error->error == seen.error && error->insn == seen.insn) {
            error->count++;
            return;
        }
    }
    if (run->error.n < PLACES_MOST)
        VEC_PUSH(&run->error, seen);
    char process[32];
    snprintf(process, sizeof process, " (process %u)", record->head.pid);
    print_error(run, &seen, process);
}

/* Updates of maps that were lost, whatever was said of single ones. */
static void report_refused(struct live_run *run)
{
    for (uint32_t i = 0; i < script_n_maps(run->script->program); i++) {
        uint64_t refused = drain_map_refused(&run->memory, i);
        char message[160];
        if (!refused)
            continue;
        snprintf(message, sizeof message, "%.100s: %llu updates were lost for want of room", script_map_at(run->script->program, i)->name,
                 (unsigned long long)refused);
        print_run_error(&run->print, &(struct print_event){.name = run->options->name}, message);
    }
}

void live_report_errors(struct live_run *run)
{
    report_refused(run);
    for (size_t i = 0; i < run->error.n; i++) {
        const struct live_error *error = &run->error.at[i];
        if (error->count < 2)
            continue;
        char times[48];
        snprintf(times, sizeof times, ": %llu times in all", (unsigned long long)error->count);
        print_error(run, error, times);
    }
}

/* ---- actions ---- */

static void print_one_map(struct live_run *run, const struct script_action *action)
{
    struct drain_contents contents;
    drain_map_read(&run->memory, action->map, &contents);
    if (contents.type->kind == WIRE_MAP_TSERIES)
        live_print_series(run, action->map, &contents);
    else
        print_map(&run->print, script_map_at(run->script->program, action->map), &contents, action->top, action->divide);
    drain_contents_deinit(&contents);
}

static uint64_t cat_bytes(const struct live_run *run)
{
    const char *text = live_setting(run->script, NULL, "max_cat_bytes", "10240");
    return run->options->max_cat_bytes ? run->options->max_cat_bytes : strtoull(text, NULL, 0);
}

/* The name may be a process's: nobody waits for who would write into a pipe. */
static FILE *open_to_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? NULL : fdopen(fd, "r");
}

static void run_command(struct live_run *run, const struct print_event *event, bool is_file)
{
    enum { LARGEST = 1 << 20 };
    char *text = print_event_text(&run->print, event);
    FILE *in = is_file ? open_to_read(text) : popen(text, "re");
    uint64_t most = is_file ? cat_bytes(run) : LARGEST;
    if (!in) {
        int number = errno;
        fputs("ERROR: ", run->print.err);
        escape_plain(run->print.err, text);
        fprintf(run->print.err, ": %s\n", strerror(number));
    }
    if (in) {
        char *all = NULL, buffer[4096];
        size_t n, length = 0;
        while (length < most && (n = fread(buffer, 1, most - length < sizeof buffer ? most - length : sizeof buffer, in)) > 0) {
            char *longer = memory_alloc(length + n);
            if (length)
                memcpy(longer, all, length);
            memcpy(longer + length, buffer, n);
            free(all);
            all = longer;
            length += n;
        }
        is_file ? fclose(in) : pclose(in);
        print_output(&run->print, is_file ? PRINT_OUTPUT_CAT : PRINT_OUTPUT_SYSTEM, all, length);
        free(all);
    }
    free(text);
}

static void take_action(struct live_run *run, const struct drain_record *record, const struct script_action *action)
{
    struct print_event event = {.action = action,
                                .payload = record->payload,
                                .bytes = record->payload_bytes,
                                .ns = drain_session_ns(&run->memory, record->head.time)};
    script_place(run->script->program, action->span, &event.name, &event.line, &event.column);
    switch (action->call) {
    case SCRIPT_C_WARNF:
        if (run->options->no_warnings)
            return;
        break;
    case SCRIPT_C_JOIN:
        event.join_bytes = STREAM_JOIN_BYTES;
        break;
    case SCRIPT_C_EXIT:
        run->is_over = true;
        /* What a process says only where the script asks for something. */
        run->exit_code = action->has_code && record->payload_bytes >= 8 ? (int)*(const int64_t *)record->payload : 0;
        run->has_exit_code = true;
        return;
    case SCRIPT_C_CLEAR:
        drain_map_clear(&run->memory, action->map);
        return;
    case SCRIPT_C_ZERO:
        drain_map_zero(&run->memory, action->map);
        return;
    case SCRIPT_C_ASSERT:
        print_run_error(&run->print, &event, action->text ? action->text : "assertion failed");
        run->is_over = run->has_exit_code = true;
        run->exit_code = 1;
        return;
    case SCRIPT_C_SYSTEM:
    case SCRIPT_C_CAT:
        run_command(run, &event, action->call == SCRIPT_C_CAT);
        return;
    case SCRIPT_C_PRINT:
        if (action->is_map) {
            print_one_map(run, action);
            return;
        }
        break;
    default:
        break;
    }
    print_event(&run->print, &event);
}

static void take(struct live_run *run, const struct drain_record *record)
{
    if (record->head.type == WIRE_RECORD_ERROR) {
        take_error(run, record);
        return;
    }
    const struct stream_record *meaning = &run->script->built.record.at[record->head.type];
    if (meaning->kind == STREAM_RECORD_ACTION)
        take_action(run, record, meaning->action);
    else if (record->payload_bytes >= 8)
        end_speculation(run, *(const uint64_t *)record->payload, meaning->kind == STREAM_RECORD_COMMIT);
}

void live_take_record(void *context, const struct drain_record *record)
{
    struct live_run *run = context;
    if (run->is_over && record->head.type != WIRE_RECORD_ERROR && !run->options->lossless && run->has_exit_code)
        return;
    if (record->head.speculation && record->head.type != WIRE_RECORD_ERROR)
        keep(run, record);
    else
        take(run, record);
}

/* ---- losses ---- */

void live_report_losses(struct live_run *run)
{
    uint64_t lost = drain_session_lost(&run->memory, WIRE_LOSS_RING) + live_samples_lost(run);
    uint64_t frames = drain_session_lost(&run->memory, WIRE_LOSS_FRAME);
    if (lost != run->lost)
        print_lost(&run->print, lost - run->lost);
    if (frames != run->lost_frames) {
        char message[96];
        snprintf(message, sizeof message, "%llu clauses did not run: too many threads had strings in hand at once",
                 (unsigned long long)(frames - run->lost_frames));
        print_run_error(&run->print, &(struct print_event){.name = run->options->name}, message);
    }
    uint64_t stacks = drain_session_lost(&run->memory, WIRE_LOSS_STACK);
    if (stacks != run->lost_stacks) {
        char message[96];
        snprintf(message, sizeof message, "%llu stacks were lost for want of room (max_stack_nodes)",
                 (unsigned long long)(stacks - run->lost_stacks));
        print_run_error(&run->print, &(struct print_event){.name = run->options->name}, message);
    }
    run->lost_stacks = stacks;
    run->lost = lost;
    run->lost_frames = frames;
}
