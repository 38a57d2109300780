#include "base/escape.h"

#include <string.h>

unsigned escape_utf8_length(const uint8_t *text, size_t bytes)
{
    if (text[0] < 0x80)
        return 1;
    unsigned length = text[0] >= 0xf0 && text[0] <= 0xf4  ? 4
                      : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
                      : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                                                          : 0;
    if (length > bytes)
        return 0;
    for (unsigned i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) || (text[0] == 0xf0 && text[1] < 0x90) ||
        (text[0] == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

uint32_t escape_character(const uint8_t *text, unsigned length)
{
    uint32_t character = length == 1 ? text[0] : text[0] & (0x7fu >> length);
    for (unsigned i = 1; i < length; i++)
        character = character << 6 | (text[i] & 0x3f);
    return character;
}

bool escape_is_hostile(const uint8_t *text, unsigned length)
{
    if (!length)
        return true;
    uint32_t character = escape_character(text, length);
    return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x61c || character == 0x200e ||
           character == 0x200f || (character >= 0x2028 && character <= 0x202e) || (character >= 0x2066 && character <= 0x2069);
}

void escape_json(FILE *out, const char *text)
{
    putc_unlocked('"', out);
    for (const uint8_t *at = (const uint8_t *)text; *at;) {
        unsigned length = escape_utf8_length(at, SIZE_MAX);
        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (!length)
            fputs("\\ufffd", out);
        else if (escape_is_hostile(at, length))
            fprintf(out, "\\u%04x", escape_character(at, length));
        else
            fwrite_unlocked(at, 1, length, out);
        at += length ? length : 1;
    }
    putc_unlocked('"', out);
}

static void escape(FILE *out, const char *text, const char *kept)
{
    for (const uint8_t *at = (const uint8_t *)text; *at;) {
        unsigned length = escape_utf8_length(at, SIZE_MAX);
        if (escape_is_hostile(at, length) && !strchr(kept, *at)) {
            fprintf(out, "\\x%02x", *at++);
            continue;
        }
        fwrite_unlocked(at, 1, length, out);
        at += length;
    }
}

void escape_plain(FILE *out, const char *text)
{
    escape(out, text, "");
}

void escape_lines(FILE *out, const char *text)
{
    escape(out, text, "\n\t");
}
