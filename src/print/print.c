/* What clauses print, and messages about the run. */
#include "print/internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- life ---- */

static int64_t wall_minus(clockid_t clock)
{
    struct timespec before, wall, after;
    clock_gettime(clock, &before);
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(clock, &after);
    int64_t around = (before.tv_sec + after.tv_sec) * INT64_C(500000000) + (before.tv_nsec + after.tv_nsec) / 2;
    return wall.tv_sec * INT64_C(1000000000) + wall.tv_nsec - around;
}

void print_init(struct print *print, FILE *out, FILE *err)
{
    *print = (struct print){.out = out, .err = err, .out_is_terminal = isatty(fileno(out)), .err_is_terminal = isatty(fileno(err))};
    print->session_to_wall_ns = wall_minus(CLOCK_MONOTONIC);
    print->boot_to_wall_ns = wall_minus(CLOCK_BOOTTIME);
}

void print_deinit(struct print *print)
{
    free(print->text.at);
    free(print->part.at);
    print->text = print->part = (struct print_text){0};
}

/* ---- what clauses do ---- */

/* {"type": "printf", "data": "..."}, of text that was put together as it is. */
static void write_json(struct print *print, const char *type, const struct print_text *made)
{
    struct print_text *text = &print->text;
    text_format(text, "{\"type\": \"%s\", \"data\": ", type);
    text_json(text, made->at, made->n, print->out_is_terminal);
    text_string(text, "}\n");
    text_write(text, print->out);
}

static void print_formatted(struct print *print, const struct print_event *event)
{
    if (!print->json) {
        format_put(print, &print->text, event, print->out_is_terminal);
        text_write(&print->text, print->out);
        return;
    }
    struct print_text made = {0};
    format_put(print, &made, event, false);
    write_json(print, "printf", &made);
    free(made.at);
}

char *print_event_text(struct print *print, const struct print_event *event)
{
    struct print_text made = {0};
    format_put(print, &made, event, false);
    text_char(&made, 0);
    return made.at;
}

/* stdin:1:9-20, as far as it is known. */
static void put_place(struct print_text *text, const struct print_event *event)
{
    if (!event->name)
        return;
    text_format(text, "%s:%u:%u", event->name, event->line, event->column);
    if (event->end_column)
        text_format(text, "-%u", event->end_column);
    text_string(text, ": ");
}

static void put_json_place(struct print_text *text, const struct print_event *event)
{
    const char *name = event->name ? event->name : "";
    text_string(text, ", \"filename\": ");
    text_json(text, name, strlen(name), false);
    text_format(text, ", \"line\": %u, \"col\": %u}\n", event->line, event->column);
}

/* errorf(), warnf() and what goes wrong: a line on err with the place, or in JSON an object among the others. */
static void write_message(struct print *print, const struct print_event *event, const char *type, const char *prefix,
                          const struct print_text *message)
{
    struct print_text *text = &print->text;
    if (print->json) {
        text_format(text, "{\"type\": \"%s\", \"msg\": ", type);
        text_json(text, message->at, message->n, print->out_is_terminal);
        put_json_place(text, event);
        text_write(text, print->out);
        return;
    }
    put_place(text, event);
    text_format(text, "%s: ", prefix);
    text_bytes(text, message->at, message->n);
    if (!message->n || message->at[message->n - 1] != '\n')
        text_char(text, '\n');
    fflush(print->out);
    text_write(text, print->err);
}

static void print_severe(struct print *print, const struct print_event *event, const char *type, const char *prefix)
{
    struct print_text made = {0};
    format_put(print, &made, event, !print->json && print->err_is_terminal);
    write_message(print, event, type, prefix, &made);
    free(made.at);
}

void print_run_error(struct print *print, const struct print_event *where, const char *message)
{
    struct print_text made = {0};
    if (!print->json && print->err_is_terminal)
        text_visible(&made, message, strlen(message));
    else
        text_string(&made, message);
    write_message(print, where, "runtime_error", "WARNING", &made);
    free(made.at);
}

static void print_debug(struct print *print, const struct print_event *event)
{
    format_put(print, &print->text, event, print->err_is_terminal);
    fflush(print->out);
    text_write(&print->text, print->err);
}

static void put_value_line(struct print *print, const struct value *value)
{
    struct print_text *text = &print->text;
    struct style style = style_of(print);
    if (print->json)
        text_string(text, "{\"type\": \"value\", \"data\": ");
    value_put(print, text, value, &style);
    text_string(text, print->json ? "}\n" : "\n");
    text_write(text, print->out);
}

void print_value(struct print *print, const struct script_type *type, const void *bytes, size_t n)
{
    put_value_line(print, &(struct value){.type = type, .at = bytes, .n = n, .encoding = ALONE});
}

static bool print_list(struct print *print, const struct print_event *event)
{
    struct values values;
    struct value value;
    values_init(&values, event);
    if (event->action->is_map || !values_next(&values, &value))
        return false;
    put_value_line(print, &value);
    return true;
}

static void print_time(struct print *print, const struct print_event *event)
{
    const char *format = event->action->text ? event->action->text : "%H:%M:%S\n";
    struct print_text made = {0};
    time_put(print, &made, format, time_wall_ns(print, PRINT_CLOCK_SESSION, event->ns));
    if (print->json)
        write_json(print, "time", &made);
    else
        text_write(&made, print->out);
    free(made.at);
}

/* ---- join ---- */

struct joined {
    struct print_text text;
    const char *between;
    size_t between_bytes;
    size_t n;
    bool is_ended; /* at the first empty string */
};

static void join_value(struct print *print, struct joined *joined, const struct value *value);

static void join_parts(struct print *print, struct joined *joined, const struct value *value)
{
    const struct script_type *type = value->type;
    bool is_tuple = type->kind == SCRIPT_T_TUPLE;
    for (uint64_t i = 0; i < type->count && !joined->is_ended; i++) {
        struct value part;
        if (is_tuple) {
            part = value_item(value, i);
        } else {
            if (!type->to->bytes || i >= value->n / type->to->bytes)
                break;
            part = (struct value){
                .type = type->to, .at = value->at + i * type->to->bytes, .n = (size_t)type->to->bytes, .encoding = IN_MEMORY};
        }
        join_value(print, joined, &part);
    }
}

static void join_value(struct print *print, struct joined *joined, const struct value *value)
{
    const char *bytes;
    size_t n;
    if (!value_string(value, &bytes, &n)) {
        if (value->type->kind == SCRIPT_T_TUPLE || (value->type->kind == SCRIPT_T_ARRAY && value->type->to))
            join_parts(print, joined, value);
        return;
    }
    joined->is_ended = joined->is_ended || !n;
    if (joined->is_ended)
        return;
    if (joined->n++)
        text_bytes(&joined->text, joined->between, joined->between_bytes);
    if (!print->json && print->out_is_terminal)
        text_visible(&joined->text, bytes, n);
    else
        text_bytes(&joined->text, bytes, n);
}

static void join_slots(struct print *print, struct joined *joined, const struct print_event *event)
{
    const struct script_type slot = {.kind = SCRIPT_T_STRING, .bytes = event->join_bytes};
    for (size_t at = 0; at < event->bytes && event->bytes - at >= event->join_bytes && !joined->is_ended; at += event->join_bytes) {
        struct value value = {.type = &slot, .at = (const uint8_t *)event->payload + at, .n = event->join_bytes, .encoding = ALONE};
        join_value(print, joined, &value);
    }
}

static void print_joined(struct print *print, const struct print_event *event)
{
    const struct script_action *action = event->action;
    struct joined joined = {.between = action->text ? action->text : " ", .between_bytes = action->text ? action->length : 1};
    struct values values;
    struct value value;
    values_init(&values, event);
    if (event->join_bytes)
        join_slots(print, &joined, event);
    while (!event->join_bytes && !joined.is_ended && values_next(&values, &value))
        join_value(print, &joined, &value);
    if (print->json) {
        write_json(print, "join", &joined.text);
    } else {
        text_char(&joined.text, '\n');
        text_write(&joined.text, print->out);
    }
    free(joined.text.at);
}

bool print_event(struct print *print, const struct print_event *event)
{
    switch (event->action->call) {
    case SCRIPT_C_PRINTF:
        print_formatted(print, event);
        return true;
    case SCRIPT_C_ERRORF:
        print_severe(print, event, "errorf", "ERROR");
        return true;
    case SCRIPT_C_WARNF:
        print_severe(print, event, "warnf", "WARNING");
        return true;
    case SCRIPT_C_DEBUGF:
        print_debug(print, event);
        return true;
    case SCRIPT_C_PRINT:
        return print_list(print, event);
    case SCRIPT_C_TIME:
        print_time(print, event);
        return true;
    case SCRIPT_C_JOIN:
        print_joined(print, event);
        return true;
    default:
        return false;
    }
}

/* ---- output of others ---- */

void print_output(struct print *print, enum print_output what, const char *bytes, size_t n)
{
    struct print_text *text = &print->text;
    if (print->json) {
        struct print_text made = {.at = (char *)bytes, .n = n};
        write_json(print, what == PRINT_OUTPUT_CAT ? "cat" : "syscall", &made);
        return;
    }
    if (print->out_is_terminal)
        text_visible(text, bytes, n);
    else
        text_bytes(text, bytes, n);
    text_write(text, print->out);
}

/* ---- messages ---- */

/* 0.17 announces before it attaches, on out; 0.26 says what it has attached, on err. */
void print_attached(struct print *print, uint64_t probes)
{
    const char *plural = probes == 1 ? "" : "s";
    unsigned long long n = probes;
    if (print->json && print->dialect == PRINT_17)
        fprintf(print->out, "{\"type\": \"attached_probes\", \"data\": {\"probes\": %llu}}\n", n);
    else if (print->json)
        fprintf(print->out, "{\"type\": \"attached_probes\", \"count\": %llu, \"data\": {\"probes\": %llu}}\n", n, n);
    else if (print->dialect == PRINT_17)
        fprintf(print->out, "Attaching %llu probe%s...\n", n, plural);
    else
        fprintf(print->err, "Attached %llu probe%s\n", n, plural);
}

void print_lost(struct print *print, uint64_t events)
{
    unsigned long long n = events;
    if (print->json && print->dialect == PRINT_17)
        fprintf(print->out, "{\"type\": \"lost_events\", \"data\": {\"events\": %llu}}\n", n);
    else if (print->json)
        fprintf(print->out, "{\"type\": \"lost_events\", \"count\": %llu, \"data\": {\"events\": %llu}}\n", n, n);
    else
        fprintf(print->dialect == PRINT_17 ? print->out : print->err, "Lost %llu events\n", n);
}
