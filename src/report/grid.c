#include "report/grid.h"

#include "base/escape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    INDENT_MAX = 128, /* levels that are drawn; deeper ones are told as a number */
    CELL_MAX = 48,
};

#define DASH "\u2013"

/* ---- numbers ---- */

struct grid_unit grid_unit(const char *unit, uint64_t largest, bool is_raw)
{
    static const struct {
        const char *unit;
        uint64_t from; /* smaller ones are whole numbers of the unit below */
        struct grid_unit shown;
    } scale[] = {
        {"ns", 100000000000, {"/s", 1000000000, 3}},
        {"ns", 100000, {"/ms", 1000000, 3}},
        {"bytes", 1000000000, {"/MiB", 1 << 20, 1}},
        {"bytes", 1000000, {"/KiB", 1 << 10, 1}},
    };
    for (size_t i = 0; i < sizeof scale / sizeof scale[0] && !is_raw; i++)
        if (!strcmp(unit, scale[i].unit) && largest >= scale[i].from)
            return scale[i].shown;
    return (struct grid_unit){"", 1, 0};
}

static unsigned value_text(char *text, size_t room, int64_t value, const struct grid_unit *unit)
{
    if (unit->divide == 1)
        return (unsigned)snprintf(text, room, "%" PRId64, value);
    return (unsigned)snprintf(text, room, "%.*f", (int)unit->decimals, (double)value / (double)unit->divide);
}

void grid_put_value(FILE *out, int64_t value, const struct grid_unit *unit)
{
    char text[CELL_MAX];
    value_text(text, sizeof text, value, unit);
    fputs(text, out);
}

int64_t grid_share(int64_t value, int64_t total)
{
    if (!total)
        return value ? GRID_NONE : 0;
    double share = (double)value * 1000 / (double)grid_size(total);
    return (int64_t)(share < 0 ? share - 0.5 : share + 0.5);
}

void grid_share_text(char text[static GRID_SHARE_ROOM], int64_t share)
{
    uint64_t size = grid_size(share);
    snprintf(text, GRID_SHARE_ROOM, "%s%" PRIu64 ".%" PRIu64 "%%", share < 0 ? "-" : "", size / 10, size % 10);
}

/* Returns how many columns of a terminal it takes. */
static unsigned cell_text(char *text, size_t room, int64_t cell, enum grid_kind kind, const struct grid_style *style)
{
    if (cell == GRID_BLANK && kind != GRID_CHANGE) {
        text[0] = 0;
        return 0;
    }
    if (cell == GRID_NONE && kind != GRID_CHANGE) {
        snprintf(text, room, DASH);
        return 1;
    }
    switch (kind) {
    case GRID_VALUE:
        return value_text(text, room, cell, &style->value);
    case GRID_TIME:
        return value_text(text, room, cell, &style->time);
    case GRID_SHARE:
        grid_share_text(text, cell);
        return (unsigned)strlen(text);
    case GRID_CHANGE: {
        unsigned sign = cell >= 0;
        text[0] = '+';
        return sign + value_text(text + sign, room - sign, cell, &style->value);
    }
    default:
        return (unsigned)snprintf(text, room, "%" PRIu64, (uint64_t)cell);
    }
}

/* ---- text ---- */

static bool is_shown(const struct grid *grid, size_t column, const struct grid_style *style)
{
    return grid->column[column].kind != GRID_SHARE || style->has_shares;
}

static const char *suffix_of(enum grid_kind kind, const struct grid_style *style)
{
    return kind == GRID_VALUE || kind == GRID_CHANGE ? style->value.suffix : kind == GRID_TIME ? style->time.suffix : "";
}

static void fill(FILE *out, unsigned count)
{
    while (count--)
        putc_unlocked(' ', out);
}

/* "- " for each level above the row, "+ " where that level was only sampled: `marks` are those of the rows that the row is below. */
static void put_indent(FILE *out, const struct grid_row *row, const char *marks)
{
    if (row->level > INDENT_MAX) {
        fprintf(out, "[%" PRIu32 "] %c ", row->level, row->mark == GRID_SAMPLED ? '+' : '-');
        return;
    }
    for (uint32_t i = 1; i <= row->level; i++) {
        putc_unlocked(marks[i], out);
        putc_unlocked(' ', out);
    }
}

static void put_heading(FILE *out, const struct grid *grid, const struct grid_style *style, const unsigned *width, unsigned label_width)
{
    fputs(style->is_colour ? "\033[1m" : "", out);
    fill(out, label_width);
    for (size_t i = 0; i < grid->column_count; i++) {
        if (!is_shown(grid, i, style))
            continue;
        const char *suffix = suffix_of(grid->column[i].kind, style);
        fill(out, width[i] - (unsigned)(strlen(grid->column[i].heading) + strlen(suffix)));
        fprintf(out, "%s%s ", grid->column[i].heading, suffix);
    }
    fprintf(out, "Name%s\n", style->is_colour ? "\033[0m" : "");
}

static void measure(const struct grid *grid, const struct grid_style *style, unsigned *width, unsigned *label_width)
{
    char text[CELL_MAX];
    for (size_t i = 0; i < grid->column_count; i++) {
        enum grid_kind kind = grid->column[i].kind;
        width[i] = (unsigned)(strlen(grid->column[i].heading) + strlen(suffix_of(kind, style)));
        for (size_t r = 0; r < grid->row.n; r++) {
            unsigned taken = cell_text(text, sizeof text, grid->row.at[r].cell[i], kind, style);
            width[i] = taken > width[i] ? taken : width[i];
        }
    }
    *label_width = 0;
    for (size_t r = 0; r < grid->row.n; r++) {
        unsigned taken = grid->row.at[r].label ? (unsigned)strlen(grid->row.at[r].label) + 1 : 0;
        *label_width = taken > *label_width ? taken : *label_width;
    }
}

static void put_row(FILE *out, const struct grid *grid, const struct grid_row *row, const struct grid_style *style, const unsigned *width,
                    unsigned label_width, const char *marks)
{
    static const char *const colour[] = {[GRID_PLAIN] = "", [GRID_STRONG] = "\033[1m", [GRID_SAMPLED] = "\033[36m"};
    char text[CELL_MAX];
    bool is_coloured = style->is_colour && row->mark != GRID_PLAIN;
    fputs(row->has_gap ? "\n" : "", out);
    fputs(is_coloured ? colour[row->mark] : "", out);
    if (label_width)
        fprintf(out, "%-*s", (int)label_width, row->label ? row->label : "");
    for (size_t i = 0; i < grid->column_count; i++) {
        if (!is_shown(grid, i, style))
            continue;
        fill(out, width[i] - cell_text(text, sizeof text, row->cell[i], grid->column[i].kind, style));
        fputs(text, out);
        putc_unlocked(' ', out);
    }
    put_indent(out, row, marks);
    escape_plain(out, row->name);
    fputs(is_coloured ? "\033[0m\n" : "\n", out);
}

void grid_text(FILE *out, const struct grid *grid, const struct grid_style *style)
{
    unsigned width[GRID_COLUMNS], label_width;
    char marks[INDENT_MAX + 1] = {0};
    measure(grid, style, width, &label_width);
    if (grid->is_titled) {
        escape_plain(out, grid->title);
        fputs(":\n", out);
    }
    put_heading(out, grid, style, width, label_width);
    for (size_t r = 0; r < grid->row.n; r++) {
        const struct grid_row *row = &grid->row.at[r];
        if (row->level <= INDENT_MAX)
            marks[row->level] = row->mark == GRID_SAMPLED ? '+' : '-';
        put_row(out, grid, row, style, width, label_width, marks);
    }
    if (grid->hidden)
        fprintf(out, "(%" PRIu64 " more line%s, of smaller share)\n", grid->hidden, grid->hidden == 1 ? "" : "s");
}

/* ---- JSON ---- */

static void json_cell(FILE *out, int64_t cell, enum grid_kind kind)
{
    if (kind == GRID_CHANGE)
        fprintf(out, "%" PRId64, cell);
    else if (cell == GRID_NONE || cell == GRID_BLANK)
        fputs("null", out);
    else if (kind == GRID_VALUE)
        fprintf(out, "%" PRId64, cell);
    else
        fprintf(out, "%" PRIu64, (uint64_t)cell);
}

static void json_text(FILE *out, const char *key, const char *text)
{
    if (!text)
        return;
    fprintf(out, ", \"%s\": ", key);
    escape_json(out, text);
}

static void json_row(FILE *out, const struct grid *grid, const struct grid_row *row)
{
    fputs("{\"name\": ", out);
    escape_json(out, row->name);
    json_text(out, "row", row->label);
    for (size_t i = 0; i < grid->column_count; i++)
        if (grid->column[i].kind != GRID_SHARE) {
            fprintf(out, ", \"%s\": ", grid->column[i].key);
            json_cell(out, row->cell[i], grid->column[i].kind);
        }
    if (row->mark == GRID_SAMPLED)
        fputs(", \"sampled\": true", out);
    if (row->is_root)
        fputs(", \"root\": true", out);
    json_text(out, "module", row->module);
    json_text(out, "file", row->file);
    if (row->line)
        fprintf(out, ", \"line\": %" PRIu32, row->line);
    putc_unlocked('}', out);
}

void grid_json(FILE *out, const struct grid *grid)
{
    fputs("{\"name\": ", out);
    escape_json(out, grid->title ? grid->title : "");
    fprintf(out, ", \"hidden\": %" PRIu64 ", \"rows\": [", grid->hidden);
    for (size_t r = 0; r < grid->row.n; r++) {
        fputs(r ? ",\n  " : "\n  ", out);
        json_row(out, grid, &grid->row.at[r]);
    }
    fputs("]}", out);
}

void grid_deinit(struct grid *grid)
{
    VEC_FREE(&grid->row);
}
