/* Rows of numbers with a name: what a view is, before it is text or JSON. */
#ifndef REPORT_GRID_H
#define REPORT_GRID_H

#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { GRID_COLUMNS = 10 };

#define GRID_NONE INT64_MIN        /* there is no such number: shown as a dash, null in JSON */
#define GRID_BLANK (INT64_MIN + 1) /* none is expected: left blank, null in JSON */

enum grid_kind {
    GRID_COUNT,  /* as it is; unsigned */
    GRID_VALUE,  /* in the metric's unit */
    GRID_TIME,   /* in the unit of the clock, which is that of the first metric: ns, but for imported traces; unsigned */
    GRID_SHARE,  /* in 1/1,000 of the total; text only */
    GRID_CHANGE, /* in the metric's unit, with its sign */
};

struct grid_column {
    const char *key;     /* in JSON */
    const char *heading; /* in text */
    enum grid_kind kind;
};

enum grid_mark { GRID_PLAIN, GRID_STRONG, GRID_SAMPLED };

struct grid_row {
    int64_t cell[GRID_COLUMNS];
    const char *label;                /* what kind of row, or NULL; not copied */
    const char *name, *module, *file; /* not copied; module and file may be NULL, name is text of the trace */
    uint32_t line;                    /* 0: not known */
    uint32_t level;                   /* how far the name is indented */
    enum grid_mark mark;
    bool has_gap; /* an empty line before it */
    bool is_root; /* of flat views: not a routine, but all of them */
};

struct grid {
    const struct grid_column *column; /* the caller's */
    size_t column_count;
    const char *title; /* whose rows they are, or NULL; of the trace */
    bool is_titled;    /* text has the title, too: no row says it */
    VEC(struct grid_row) row;
    uint64_t hidden; /* rows that were left out for their small share */
};

/* How values are put down: divided, with decimals. */
struct grid_unit {
    const char *suffix; /* of headings: "/ms"; "" for whole numbers */
    uint64_t divide;
    unsigned decimals;
};

/* The unit in which values up to `largest`, or down to the same below 0, read well. `unit` is the metric's: "ns", "bytes" and others. */
struct grid_unit grid_unit(const char *unit, uint64_t largest, bool is_raw);
void grid_put_value(FILE *out, int64_t value, const struct grid_unit *unit);

struct grid_style {
    struct grid_unit value, time;
    bool has_shares, is_colour;
};

void grid_text(FILE *out, const struct grid *grid, const struct grid_style *style);
/* {"name": title, "hidden": n, "rows": [...]} */
void grid_json(FILE *out, const struct grid *grid);
void grid_deinit(struct grid *grid);

/* The value's part of the total's size, with its sign, in 1/1,000, rounded. Of a total of 0 only 0 is a part; else GRID_NONE. */
int64_t grid_share(int64_t value, int64_t total);
/* "12.3%" */
enum { GRID_SHARE_ROOM = 32 };
void grid_share_text(char text[static GRID_SHARE_ROOM], int64_t share);

static inline uint64_t grid_size(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

#endif
