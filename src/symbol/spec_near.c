/* Names near to one that was not found, for the message. */
#include "base/memory.h"
#include "symbol/glob.h"
#include "symbol/spec.h"
#include "symbol/spec_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FUNCS = 1000000, MAX_LENGTH = 128, WANTED = 3 };

/* Insertions, deletions, changes and swaps of neighbours that lead from `a` to `b`, or `limit` + 1 when they are more. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length, unsigned limit)
{
    unsigned rows[3][MAX_LENGTH + 1];
    if ((a_length > b_length ? a_length - b_length : b_length - a_length) > limit || a_length > MAX_LENGTH || b_length > MAX_LENGTH)
        return limit + 1;
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t k = 0; k <= b_length; k++)
        last[k] = (unsigned)k;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned least = row[0] = (unsigned)i;
        for (size_t k = 1; k <= b_length; k++) {
            unsigned value = last[k - 1] + (a[i - 1] != b[k - 1]);
            if (last[k] + 1 < value)
                value = last[k] + 1;
            if (row[k - 1] + 1 < value)
                value = row[k - 1] + 1;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] && before[k - 2] + 1 < value)
                value = before[k - 2] + 1;
            row[k] = value;
            least = value < least ? value : least;
        }
        if (least > limit)
            return limit + 1;
        unsigned *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[b_length];
}

struct near {
    const char *name;
    size_t length;
    unsigned distance;
};

static void offer(struct near *best, const char *name, size_t length, unsigned value)
{
    for (size_t i = 0; i < WANTED; i++)
        if (best[i].name && best[i].length == length && memcmp(best[i].name, name, length) == 0)
            return;
    for (size_t i = 0; i < WANTED; i++) {
        if (best[i].name && best[i].distance <= value)
            continue;
        memmove(best + i + 1, best + i, (WANTED - 1 - i) * sizeof *best);
        best[i] = (struct near){name, length, value};
        return;
    }
}

char *spec_near_names(const struct spec *spec, const struct symbol_file *file)
{
    size_t count;
    const struct symbol_func *funcs = symbol_file_funcs(file, &count);
    if (!spec->function || symbol_glob_is(spec->function) || count > MAX_FUNCS)
        return NULL;
    const char *wanted;
    size_t wanted_length = spec_bare_name(spec->function, &wanted);
    unsigned limit = wanted_length < 4 ? 1 : (unsigned)(wanted_length / 3 < 8 ? wanted_length / 3 : 8);
    struct near best[WANTED] = {0};
    for (size_t i = 0; i < count; i++) {
        if (funcs[i].is_fragment || funcs[i].source == SYMBOL_FROM_PLT || funcs[i].source == SYMBOL_FROM_EH_FRAME)
            continue;
        unsigned worst = best[WANTED - 1].name ? best[WANTED - 1].distance - 1 : limit;
        if (best[WANTED - 1].name && !best[WANTED - 1].distance)
            break;
        const char *name = funcs[i].name;
        size_t length = strlen(name);
        if (funcs[i].demangled != funcs[i].name)
            length = spec_bare_name(funcs[i].demangled, &name);
        unsigned value = distance(wanted, wanted_length, name, length, worst);
        if (value <= worst)
            offer(best, name, length, value);
    }
    if (!best[0].name)
        return NULL;
    char *text = NULL;
    for (size_t i = WANTED; i-- > 0;) {
        if (!best[i].name)
            continue;
        const char *join = !text ? "" : i + 1 < WANTED && !strstr(text, " or ") && !strchr(text, ',') ? " or " : ", ";
        char *longer = memory_format("%.*s%s%s", (int)best[i].length, best[i].name, join, text ? text : "");
        free(text);
        text = longer;
    }
    return text;
}
