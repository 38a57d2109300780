/* Time series, as tseries() of bpftrace 0.26 shows them: a line for each interval, with a point between the least and the most value. */
#include "print/internal.h"

#include <stdlib.h>
#include <string.h>

enum { GRAPH = 53, LEAST = 21 };

/* How fine the times are: by the length of an interval. */
struct unit {
    const char *name;
    unsigned digits;
    unsigned ns; /* of the last digit */
};

struct bounds {
    int64_t least, most;
    bool is_signed;
};

static struct unit unit_of(const struct print_point *points, size_t n)
{
    uint64_t interval_ns = n > 1 ? (points[n - 1].wall_ns - points[0].wall_ns) / (n - 1) : 0;
    if (interval_ns >= 1000000000)
        return (struct unit){"", 0, 1000000000};
    if (interval_ns >= 1000000)
        return (struct unit){".ms", 3, 1000000};
    if (interval_ns >= 1000)
        return (struct unit){".\xce\xbcs", 6, 1000};
    return (struct unit){".ns", 9, 1};
}

static bool is_less(int64_t a, int64_t b, bool is_signed)
{
    return is_signed ? a < b : (uint64_t)a < (uint64_t)b;
}

/* Equal ends are moved apart where they can be. */
static struct bounds bounds_of(const struct print_point *points, size_t n, bool is_signed)
{
    struct bounds bounds = {.is_signed = is_signed};
    bool is_first = true;
    for (size_t i = 0; i < n; i++) {
        if (!points[i].is_known)
            continue;
        if (is_first || is_less(points[i].value, bounds.least, is_signed))
            bounds.least = points[i].value;
        if (is_first || is_less(bounds.most, points[i].value, is_signed))
            bounds.most = points[i].value;
        is_first = false;
    }
    if (bounds.least == bounds.most) {
        bounds.least -= bounds.least != (is_signed ? INT64_MIN : 0);
        bounds.most += bounds.most != (is_signed ? INT64_MAX : (int64_t)UINT64_MAX);
    }
    return bounds;
}

static float distance(int64_t from, int64_t to)
{
    return (float)((uint64_t)to - (uint64_t)from);
}

static void put_number(struct print_text *text, int64_t value, bool is_signed, int width)
{
    if (is_signed)
        text_format(text, "%*lld", width, (long long)value);
    else
        text_format(text, "%*llu", width, (unsigned long long)value);
}

static void put_ends(struct print_text *text, const struct bounds *bounds, size_t indent)
{
    text_fill(text, ' ', indent);
    put_number(text, bounds->least, bounds->is_signed, -LEAST);
    put_number(text, bounds->most, bounds->is_signed, GRAPH - LEAST);
    text_char(text, '\n');
}

static void put_line(struct print_text *text, const struct bounds *bounds, const struct print_point *point)
{
    char line[GRAPH];
    float whole = distance(bounds->least, bounds->most);
    memset(line, ' ', sizeof line);
    line[0] = line[GRAPH - 1] = '|';
    if (bounds->is_signed && bounds->least < 0 && bounds->most > 0) {
        int zero = (int)(GRAPH * distance(bounds->least, 0) / whole);
        if (zero > 0 && zero < GRAPH)
            line[zero] = '.';
    }
    if (point->is_known) {
        int at = (int)((GRAPH - 1) * distance(bounds->least, point->value) / whole);
        line[at < 0 ? 0 : at < GRAPH ? at : GRAPH - 1] = '*';
    }
    text_bytes(text, line, sizeof line);
    text_char(text, ' ');
    if (point->is_known)
        put_number(text, point->value, bounds->is_signed, 0);
    else
        text_char(text, '-');
    text_char(text, '\n');
}

static void put_graph(struct print *print, struct print_text *text, const struct print_point *points, size_t n, bool is_signed)
{
    struct unit unit = unit_of(points, n);
    struct bounds bounds = bounds_of(points, n, is_signed);
    size_t indent = strlen("hh:mm:ss") + (unit.digits ? 1 + unit.digits : 0) + 1;
    put_ends(text, &bounds, indent);
    size_t start = text->n;
    text_format(text, "hh:mm:ss%s", unit.name);
    text_fill(text, ' ', text->n - start < indent ? indent - (text->n - start) : 0);
    text_char(text, '|');
    text_fill(text, '_', GRAPH - 2);
    text_string(text, "|\n");
    for (size_t i = 0; i < n; i++) {
        time_put(print, text, "%H:%M:%S", points[i].wall_ns);
        if (unit.digits)
            text_format(text, ".%0*u", (int)unit.digits, (unsigned)(points[i].wall_ns % 1000000000) / unit.ns);
        text_char(text, ' ');
        put_line(text, &bounds, &points[i]);
    }
    text_fill(text, ' ', indent);
    text_char(text, 'v');
    text_fill(text, '_', GRAPH - 2);
    text_string(text, "v\n");
    put_ends(text, &bounds, indent);
}

static void put_list(struct print *print, struct print_text *text, const struct print_point *points, size_t n, bool is_signed)
{
    bool is_first = true;
    text_char(text, '[');
    for (size_t i = 0; i < n; i++) {
        if (!points[i].is_known)
            continue;
        text_string(text, is_first ? "{\"interval_start\":\"" : ",{\"interval_start\":\"");
        time_put(print, text, "%Y-%m-%dT%H:%M:%S", points[i].wall_ns);
        text_format(text, ".%09u\",\"value\":", (unsigned)(points[i].wall_ns % 1000000000));
        put_number(text, points[i].value, is_signed, 0);
        text_char(text, '}');
        is_first = false;
    }
    text_char(text, ']');
}

void series_put(struct print *print, struct print_text *text, const struct print_point *points, size_t n, bool is_signed)
{
    if (print->json)
        put_list(print, text, points, n, is_signed);
    else if (n)
        put_graph(print, text, points, n, is_signed);
    else
        text_string(text, "<no data>");
}

void print_tseries(struct print *print, const struct script_map *map, const struct print_series *series, size_t n)
{
    struct print_text *text = &print->text;
    if (!n)
        return;
    if (print->json) {
        json_open(text, "tseries", map->name);
        text_string(text, map->key ? "{" : "");
    }
    for (size_t i = 0; i < n; i++) {
        if (!print->json) {
            map_put_name(print, text, map, series[i].key, series[i].key_bytes);
            text_string(text, ":\n");
        } else if (map->key) {
            text_string(text, i ? ", " : "");
            map_put_json_key(print, text, map, series[i].key, series[i].key_bytes);
            text_string(text, ": ");
        }
        series_put(print, text, series[i].points, series[i].n, map->value->is_signed);
        text_string(text, print->json ? "" : "\n");
    }
    if (print->json)
        text_string(text, map->key ? "}}}\n" : "}}\n");
    text_write(text, print->out);
}
