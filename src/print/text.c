/* Text that grows, and the two ways of making bytes harmless: for a terminal and for JSON. */
#include "print/internal.h"

#include "base/escape.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- growing ---- */

static char *room_for(struct print_text *text, size_t n)
{
    if (text->room - text->n < n) {
        size_t room = text->room ? text->room : 256;
        while (room - text->n < n)
            room *= 2;
        text->at = memory_resize(text->at, room, 1);
        text->room = room;
    }
    return text->at + text->n;
}

void text_bytes(struct print_text *text, const void *bytes, size_t n)
{
    if (!n)
        return;
    memcpy(room_for(text, n), bytes, n);
    text->n += n;
}

void text_string(struct print_text *text, const char *string)
{
    text_bytes(text, string, strlen(string));
}

void text_char(struct print_text *text, char c)
{
    *room_for(text, 1) = c;
    text->n++;
}

void text_fill(struct print_text *text, char c, size_t n)
{
    if (!n)
        return;
    memset(room_for(text, n), c, n);
    text->n += n;
}

void text_format(struct print_text *text, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    room_for(text, 64);
    int n = vsnprintf(text->at + text->n, text->room - text->n, format, list);
    if (n > 0 && (size_t)n >= text->room - text->n) {
        room_for(text, (size_t)n + 1);
        n = vsnprintf(text->at + text->n, text->room - text->n, format, again);
    }
    if (n > 0)
        text->n += (size_t)n;
    va_end(again);
    va_end(list);
}

void text_int(struct print_text *text, uint64_t number, bool is_signed)
{
    char digits[24];
    size_t at = sizeof digits;
    bool is_negative = is_signed && (int64_t)number < 0;
    uint64_t left = is_negative ? -number : number;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (is_negative)
        digits[--at] = '-';
    text_bytes(text, digits + at, sizeof digits - at);
}

void text_write(struct print_text *text, FILE *out)
{
    if (text->n)
        fwrite(text->at, 1, text->n, out);
    text->n = 0;
}

/* ---- escaping ---- */

void text_visible(struct print_text *text, const char *bytes, size_t n)
{
    const uint8_t *at = (const uint8_t *)bytes;
    for (size_t i = 0; i < n;) {
        unsigned length = escape_utf8_length(at + i, n - i);
        if (escape_is_hostile(at + i, length) && at[i] != '\n' && at[i] != '\t') {
            text_format(text, "\\x%02x", at[i]);
            i++;
        } else {
            text_bytes(text, at + i, length);
            i += length;
        }
    }
}

void text_json(struct print_text *text, const char *bytes, size_t n, bool for_terminal)
{
    const uint8_t *at = (const uint8_t *)bytes;
    text_char(text, '"');
    for (size_t i = 0; i < n;) {
        unsigned length = escape_utf8_length(at + i, n - i);
        if (at[i] == '"' || at[i] == '\\')
            text_format(text, "\\%c", at[i]);
        else if (at[i] == '\n' || at[i] == '\r' || at[i] == '\t')
            text_format(text, "\\%c", at[i] == '\n' ? 'n' : at[i] == '\r' ? 'r' : 't');
        else if (at[i] < 0x20 || !length)
            text_format(text, "\\u%04x", at[i]);
        else if (for_terminal && escape_is_hostile(at + i, length))
            text_format(text, "\\u%04x", escape_character(at + i, length));
        else
            text_bytes(text, at + i, length);
        i += length ? length : 1;
    }
    text_char(text, '"');
}

void text_json_int(struct print_text *text, uint64_t value, bool is_signed, enum print_dialect dialect)
{
    uint64_t size = is_signed && (int64_t)value < 0 ? -value : value;
    bool is_exact = !size || size >> __builtin_ctzll(size) < UINT64_C(1) << 53;
    const char *quote = is_exact || dialect == PRINT_17 ? "" : "\"";
    text_string(text, quote);
    text_int(text, value, is_signed);
    text_string(text, quote);
}
