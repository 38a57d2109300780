#include "base/escape.h"

#include <stdbool.h>

unsigned escape_utf8_length(const uint8_t *text)
{
    if (text[0] < 0x80)
        return 1;
    unsigned length = text[0] >= 0xf0 && text[0] <= 0xf4  ? 4
                      : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
                      : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                                                          : 0;
    for (unsigned i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) || (text[0] == 0xf0 && text[1] < 0x90) ||
        (text[0] == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

void escape_json(FILE *out, const char *text)
{
    putc_unlocked('"', out);
    for (const uint8_t *at = (const uint8_t *)text; *at;) {
        unsigned length = escape_utf8_length(at);
        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            fprintf(out, "\\u%04x", *at);
        else if (!length)
            fputs("\\ufffd", out);
        else
            for (unsigned i = 0; i < length; i++)
                putc_unlocked(at[i], out);
        at += length ? length : 1;
    }
    putc_unlocked('"', out);
}

/* What a terminal acts on, or what makes it show letters in another order than they are in. */
static bool is_hostile(const uint8_t *at, unsigned length)
{
    if (length <= 1)
        return !length || *at < 0x20 || *at == 0x7f;
    if (length == 2)
        return at[0] == 0xc2 && at[1] < 0xa0; /* control characters of 8-bit terminals */
    return at[0] == 0xe2 && ((at[1] == 0x80 && at[2] >= 0xa8 && at[2] <= 0xae) || (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9));
}

void escape_plain(FILE *out, const char *text)
{
    for (const uint8_t *at = (const uint8_t *)text; *at;) {
        unsigned length = escape_utf8_length(at);
        if (is_hostile(at, length)) {
            fprintf(out, "\\x%02x", *at++);
            continue;
        }
        for (unsigned i = 0; i < length; i++)
            putc_unlocked(at[i], out);
        at += length;
    }
}
