#include "symbol/glob.h"

#include <stddef.h>
#include <string.h>

bool symbol_glob_is(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

/* Matches one byte against what stands at *pattern, which moves behind it. */
static bool match_one(const char **pattern, char c, bool is_path)
{
    const char *at = *pattern;
    if (*at == '?') {
        *pattern = at + 1;
        return !(is_path && c == '/');
    }
    if (*at == '[') {
        const char *set = at + 1;
        bool is_negated = *set == '!' || *set == '^', is_in = false;
        set += is_negated;
        const char *first = set;
        for (; *set && (*set != ']' || set == first); set++) {
            unsigned char low = (unsigned char)*set, high = low;
            if (set[1] == '-' && set[2] && set[2] != ']') {
                high = (unsigned char)set[2];
                set += 2;
            }
            is_in |= (unsigned char)c >= low && (unsigned char)c <= high;
        }
        if (*set == ']') {
            *pattern = set + 1;
            return is_in != is_negated && !(is_path && c == '/');
        }
    }
    if (*at == '\\' && at[1])
        at++;
    *pattern = at + 1;
    return *at == c;
}

bool symbol_glob_match(const char *pattern, const char *text, bool is_path)
{
    /* Where to go on after the last star: only that one ever needs to take more. */
    const char *star_pattern = NULL, *star_text = NULL;
    while (*text) {
        if (*pattern == '*') {
            star_pattern = ++pattern;
            star_text = text;
            continue;
        }
        if (*pattern && match_one(&pattern, *text, is_path)) {
            text++;
            continue;
        }
        if (!star_pattern || (is_path && *star_text == '/'))
            return false;
        pattern = star_pattern;
        text = ++star_text;
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}
