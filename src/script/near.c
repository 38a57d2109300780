#include "script/internal.h"

#include <string.h>

enum { LONGEST = 48 };

/* Damerau-Levenshtein distance (adjacent letters swapped count once), or a large number for long names. */
static unsigned distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return 1000;
    unsigned rows[3][LONGEST + 1];
    unsigned *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = (unsigned)j;
    memcpy(before, last, (m + 1) * sizeof *before);
    for (size_t i = 1; i <= n; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        unsigned *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[m];
}

void near_try(struct near *near, const char *candidate)
{
    size_t length = strlen(near->wanted), other = strlen(candidate);
    unsigned most = length <= 2 ? 0 : length <= 5 ? 1 : length <= 9 ? 2 : 3;
    if (length > other + most || other > length + most)
        return;
    unsigned found = distance(near->wanted, candidate);
    if (found <= most && (!near->best || found < near->distance)) {
        near->best = candidate;
        near->distance = found;
    }
}

const char *near_hint(const struct near *near, struct arena *arena)
{
    return near->best ? arena_format(arena, "did you mean '%s'?", near->best) : NULL;
}
