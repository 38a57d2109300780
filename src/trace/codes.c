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
    {"thread.switch", TRACE_THREAD, 1 << TRACE_SWITCH_IN | 1 << TRACE_SWITCH_OUT},
};

bool trace_codes_parse(const char *list, struct trace_codes *codes, const char **wrong)
{
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ","), found = 0;
        for (size_t i = 0; i < sizeof code / sizeof *code; i++)
            if (strlen(code[i].name) == length && !strncmp(code[i].name, at, length)) {
                codes->minors[code[i].major] |= code[i].minors;
                found = 1;
            }
        *wrong = at;
        if (!found)
            return false;
        at += length;
        if (!*at)
            return true;
    }
}
