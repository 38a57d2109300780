#include "base/names.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash_text(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    return hash;
}

/* The bucket of the text, or the empty one where it belongs. */
static size_t find_bucket(const struct names *names, const char *text)
{
    size_t at = hash_text(text) & (names->bucket.n - 1);
    while (names->bucket.at[at] && strcmp(names->text.at[names->bucket.at[at] - 1], text))
        at = (at + 1) & (names->bucket.n - 1);
    return at;
}

static void grow(struct names *names)
{
    size_t size = names->bucket.n ? names->bucket.n * 2 : 256;
    VEC_FREE(&names->bucket);
    names->bucket.at = memory_zero(size, sizeof(uint32_t));
    names->bucket.n = names->bucket.room = size;
    for (uint32_t i = 0; i < names->text.n; i++)
        names->bucket.at[find_bucket(names, names->text.at[i])] = i + 1;
}

uint32_t names_number(struct names *names, const char *text)
{
    if (names->text.n * 2 >= names->bucket.n)
        grow(names);
    size_t at = find_bucket(names, text);
    if (!names->bucket.at[at]) {
        VEC_PUSH(&names->text, memory_text(text));
        names->bucket.at[at] = (uint32_t)names->text.n;
    }
    return names->bucket.at[at] - 1;
}

const char *names_text(const struct names *names, uint32_t number)
{
    return number < names->text.n ? names->text.at[number] : NULL;
}

void names_deinit(struct names *names)
{
    for (size_t i = 0; i < names->text.n; i++)
        free(names->text.at[i]);
    VEC_FREE(&names->text);
    VEC_FREE(&names->bucket);
}
