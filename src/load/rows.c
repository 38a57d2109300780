#include "load/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_row(const char *module, const char *function, const char *point)
{
    uint32_t hash = 2166136261u;
    const char *part[] = {module, function, point};
    for (int i = 0; i < 3; i++)
        for (const char *c = part[i]; *c; c++)
            hash = (hash ^ (uint8_t)*c) * 16777619u;
    return hash;
}

static void place_in_bucket(struct load_rows *rows, uint32_t index)
{
    const struct load_row *row = &rows->at[index];
    size_t at = hash_row(row->module, row->function, row->point) & (rows->bucket.n - 1);
    while (rows->bucket.at[at])
        at = (at + 1) & (rows->bucket.n - 1);
    rows->bucket.at[at] = index + 1;
}

static void grow_buckets(struct load_rows *rows)
{
    size_t size = rows->bucket.n ? rows->bucket.n * 2 : 1024;
    VEC_FREE(&rows->bucket);
    rows->bucket.at = memory_zero(size, sizeof(uint32_t));
    rows->bucket.n = rows->bucket.room = size;
    for (uint32_t i = 0; i < rows->n; i++)
        place_in_bucket(rows, i);
}

uint32_t load_rows_number(struct load_rows *rows, const char *module, const char *function, const char *point, uint64_t va)
{
    if (rows->n * 2 >= rows->bucket.n)
        grow_buckets(rows);
    size_t at = hash_row(module, function, point) & (rows->bucket.n - 1);
    for (; rows->bucket.at[at]; at = (at + 1) & (rows->bucket.n - 1)) {
        const struct load_row *row = &rows->at[rows->bucket.at[at] - 1];
        if (!strcmp(row->module, module) && !strcmp(row->function, function) && !strcmp(row->point, point) && (!va || row->va == va))
            return rows->bucket.at[at] - 1;
    }
    struct load_row row = {.module = memory_text(module), .function = memory_text(function), .va = va};
    snprintf(row.point, sizeof row.point, "%s", point);
    VEC_PUSH(rows, row);
    rows->bucket.at[at] = (uint32_t)rows->n;
    return (uint32_t)rows->n - 1;
}

void load_rows_deinit(struct load_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        free(rows->at[i].module);
        free(rows->at[i].function);
    }
    free(rows->at);
    VEC_FREE(&rows->bucket);
    *rows = (struct load_rows){0};
}
