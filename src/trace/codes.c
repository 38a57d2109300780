#include "trace/trace.h"

#include <string.h>

static const struct {
    const char *name;
    uint8_t major;
    uint16_t minors;
} code[] = {
    {"call", TRACE_CALL, UINT16_MAX},
    {"call.enter", TRACE_CALL, 1 << TRACE_ENTER},
    {"call.return", TRACE_CALL, 1 << TRACE_RETURN},
    {"call.enter_tail", TRACE_CALL, 1 << TRACE_ENTER_TAIL},
    {"sample", TRACE_SAMPLE, UINT16_MAX},
    {"sample.timer", TRACE_SAMPLE, 1 << TRACE_TIMER},
    {"sample.off_cpu", TRACE_SAMPLE, 1 << TRACE_OFF_CPU},
    {"sample.place", TRACE_SAMPLE, 1 << TRACE_PLACE},
    {"sample.pc", TRACE_SAMPLE, 1 << TRACE_PC},
    {"sample.off_cpu_pc", TRACE_SAMPLE, 1 << TRACE_OFF_CPU_PC},
    {"thread", TRACE_THREAD, UINT16_MAX},
    {"thread.switch", TRACE_THREAD, 1 << TRACE_SWITCH_IN | 1 << TRACE_SWITCH_OUT | 1 << TRACE_RAN},
};

static bool is_empty(const struct trace_codes *codes)
{
    unsigned any = 0;
    for (size_t i = 0; i < sizeof codes->minors / sizeof *codes->minors; i++)
        any |= codes->minors[i];
    return !any;
}

static bool take_name(const char *name, size_t length, bool excludes, struct trace_codes *codes)
{
    bool found = false;
    for (size_t i = 0; i < sizeof code / sizeof *code; i++)
        if (strlen(code[i].name) == length && !strncmp(code[i].name, name, length)) {
            uint16_t *minors = &codes->minors[code[i].major];
            *minors = (uint16_t)(excludes ? *minors & ~code[i].minors : *minors | code[i].minors);
            found = true;
        }
    return found;
}

bool trace_codes_parse(const char *list, struct trace_codes *codes, const char **wrong)
{
    if (list[0] == '-' && is_empty(codes))
        memset(codes->minors, 0xff, sizeof codes->minors);
    for (const char *at = list;; at++) {
        bool excludes = *at == '-';
        *wrong = at;
        at += excludes;
        size_t length = strcspn(at, ",");
        if (!take_name(at, length, excludes, codes))
            return false;
        at += length;
        if (!*at)
            return true;
    }
}
