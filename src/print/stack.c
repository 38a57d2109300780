/* Stacks: a line for each frame, innermost first, between line ends. */
#include "print/internal.h"

#include "wire/stream.h"

#include <stdlib.h>
#include <string.h>

enum { INLINED_MOST = 64, INDENT = 8, KEY_INDENT = 4 };

/* As 0.26: name+offset@file:line, [inlined] name@file:line. 0.17 knows neither lines nor inlined functions. */
static void put_frame(const struct print *print, struct print_text *text, const struct print_frame *frame, uint64_t pc)
{
    if (!frame->function) {
        text_format(text, "0x%llx", (unsigned long long)pc);
        return;
    }
    if (frame->is_inlined)
        text_string(text, "[inlined] ");
    text_string(text, frame->function);
    if (!frame->is_inlined)
        text_format(text, "+%llu", (unsigned long long)frame->offset);
    if (print->has_lines && frame->file)
        text_format(text, "@%s:%u", frame->file, frame->line);
}

/* As perf: address, name, and in which file. */
static void put_perf_frame(struct print_text *text, const struct print_frame *frame, uint64_t pc)
{
    text_format(text, "\t%llx ", (unsigned long long)pc);
    if (frame->function)
        text_string(text, frame->function);
    else
        text_format(text, "0x%llx", (unsigned long long)pc);
    if (frame->function && !frame->is_inlined)
        text_format(text, "+%llu", (unsigned long long)frame->offset);
    text_format(text, " (%s)", frame->is_inlined ? "inlined" : frame->module ? frame->module : "[unknown]");
}

static void put_address(struct print *print, struct print_text *text, size_t index, uint64_t pc, enum script_stack mode, bool is_key)
{
    struct print_frame frame[INLINED_MOST] = {{0}};
    if (mode == SCRIPT_STACK_RAW) {
        text_format(text, "%llx\n", (unsigned long long)pc);
        return;
    }
    size_t count = print->names.frames ? print->names.frames(print->names.cookie, index, frame, INLINED_MOST) : 0;
    for (size_t i = 0; i < (count ? count : 1); i++) {
        if (frame[i].is_inlined && !print->has_lines)
            continue;
        if (mode == SCRIPT_STACK_PERF) {
            put_perf_frame(text, &frame[i], pc);
        } else {
            text_fill(text, ' ', is_key ? KEY_INDENT : INDENT);
            put_frame(print, text, &frame[i], pc);
        }
        text_char(text, '\n');
    }
}

void stack_put(struct print *print, struct print_text *text, uint64_t stack, const struct style *style)
{
    uint64_t pcs[WIRE_STACK_MAX];
    size_t count = print->names.stack ? print->names.stack(print->names.cookie, (uint32_t)stack, pcs, WIRE_STACK_MAX) : 0;
    enum script_stack mode = (enum script_stack)(stack >> WIRE_STACK_MODE_SHIFT);
    struct print_text made = {0};
    if (count)
        text_char(&made, '\n');
    for (size_t i = 0; i < count; i++)
        put_address(print, &made, i, pcs[i], mode, style->is_key);
    value_put_said(text, made.at ? made.at : "", made.n, style);
    free(made.at);
}
