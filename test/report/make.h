/* Traces for tests, made of lines as `probity import --from events` has them, with what that form can not say:
 *   TIME PID.TID enter|return|tail NAME
 *   TIME PID.TID sample|off|place[:METRIC] NAME;NAME;... [VALUE]      outermost first; NAME=FILE:LINE is a place, ~NAME is inlined
 *   TIME PID.TID in|out
 *   TIME PID.TID lost calls|samples|stacks VALUE
 * NAME is FUNCTION or MODULE!FUNCTION. */
#ifndef TEST_REPORT_MAKE_H
#define TEST_REPORT_MAKE_H

#include "base/memory.h"
#include "trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct make {
    struct trace_writer *writer;
    const struct trace_metric *metric; /* from number 1 on; name NULL ends */
};

static uint32_t make_function(struct make *make, const char *name)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", name);
    char *function = strchr(copy, '!');
    uint32_t module = TRACE_NONE;
    if (function) {
        *function++ = 0;
        uint8_t build_id[] = {0xca, 0xfe, 0};
        for (const char *at = copy; *at; at++)
            build_id[2] = (uint8_t)(build_id[2] * 31 + *at);
        module = trace_define_module(make->writer, &(struct trace_module){copy, build_id, sizeof build_id});
    }
    return trace_define_function(make->writer, &(struct trace_function){.module = module, .name = function ? function : copy});
}

static uint32_t make_frame(struct make *make, const char *text)
{
    char copy[256];
    bool is_inlined = *text == '~';
    snprintf(copy, sizeof copy, "%s", text + is_inlined);
    char *file = strchr(copy, '='), *line = file ? strrchr(file, ':') : NULL;
    if (file)
        *file++ = 0;
    if (line)
        *line++ = 0;
    struct trace_frame frame = {.function = make_function(make, copy), .file = file, .is_inlined = is_inlined};
    frame.line = line ? (uint32_t)atoi(line) : 0;
    frame.offset = frame.line ? 0x1000 + 16 * frame.line : 0;
    return trace_define_frame(make->writer, &frame);
}

static uint32_t make_stack(struct make *make, char *names)
{
    uint32_t stack = TRACE_NONE;
    char *rest;
    for (char *name = strtok_r(names, ";", &rest); name; name = strtok_r(NULL, ";", &rest))
        stack = trace_define_stack(make->writer, &(struct trace_stack){stack, make_frame(make, name)});
    return stack;
}

static uint16_t make_metric(const struct make *make, const char *name)
{
    for (uint16_t i = 0; make->metric && make->metric[i].name; i++)
        if (!strcmp(make->metric[i].name, name))
            return i + 1;
    return 0;
}

static void make_sample(struct make *make, char *word, char *rest, struct trace_record *record)
{
    char *metric = strchr(word, ':'), names[512] = "";
    record->value = 1;
    sscanf(rest, "%511s %" SCNu64, names, &record->value);
    record->major = TRACE_SAMPLE;
    record->minor = !strncmp(word, "sample", 6) ? TRACE_TIMER : !strncmp(word, "off", 3) ? TRACE_OFF_CPU : TRACE_PLACE;
    record->metric = metric ? make_metric(make, metric + 1) : 0;
    record->number = strcmp(names, "-") ? make_stack(make, names) : TRACE_NONE;
}

static void make_line(struct make *make, const char *line)
{
    unsigned pid, tid;
    char word[64], rest[512] = "";
    uint64_t time_ns;
    if (sscanf(line, "%" SCNu64 " %u.%u %63s %511[^\n]", &time_ns, &pid, &tid, word, rest) < 4)
        return;
    uint32_t process =
        trace_define_process(make->writer, 0, &(struct trace_process){.pid = pid, .parent = TRACE_NONE, .name = "/bin/made"});
    uint32_t thread = trace_define_thread(make->writer, 0, &(struct trace_thread){.process = process, .tid = tid, .name = ""});
    struct trace_record record = {.time_ns = time_ns};
    if (!strcmp(word, "in") || !strcmp(word, "out")) {
        record.major = TRACE_THREAD;
        record.minor = !strcmp(word, "in") ? TRACE_SWITCH_IN : TRACE_SWITCH_OUT;
    } else if (!strcmp(word, "ran") || !strcmp(word, "estimated")) {
        record.major = TRACE_THREAD;
        record.minor = TRACE_RAN;
        record.number = !strcmp(word, "ran") ? TRACE_ACCOUNT_RAN : TRACE_ACCOUNT_ESTIMATED;
        record.value = strtoull(rest, NULL, 10);
    } else if (!strcmp(word, "lost")) {
        char what[16] = "";
        sscanf(rest, "%15s %" SCNu64, what, &record.value);
        record.major = TRACE_LOSS;
        record.minor = TRACE_LOST;
        record.number = !strcmp(what, "calls") ? TRACE_LOSS_CALLS : !strcmp(what, "samples") ? TRACE_LOSS_SAMPLES : TRACE_LOSS_STACKS;
    } else if (!strcmp(word, "enter") || !strcmp(word, "return") || !strcmp(word, "tail")) {
        record.major = TRACE_CALL;
        record.minor = !strcmp(word, "enter") ? TRACE_ENTER : !strcmp(word, "return") ? TRACE_RETURN : TRACE_ENTER_TAIL;
        record.number = make_function(make, rest);
    } else {
        make_sample(make, word, rest, &record);
    }
    trace_write(make->writer, thread, &record);
}

/* Makes the trace directory. `metric` are those from number 1 on, ended by a name that is NULL; or NULL. */
static struct err *make_trace(const char *path, const char *lines, struct trace_about about, const struct trace_metric *metric)
{
    struct make make = {.metric = metric};
    ERR_TRY(trace_writer_create(path, &about, &make.writer));
    for (size_t i = 0; metric && metric[i].name; i++)
        trace_define_metric(make.writer, &metric[i]);
    for (const char *line = lines; *line;) {
        size_t length = strcspn(line, "\n");
        char *copy = memory_format("%.*s", (int)length, line);
        make_line(&make, copy);
        free(copy);
        line += length + (line[length] == '\n');
    }
    return trace_writer_close(make.writer);
}

#endif
