/* Maps: in order, each key with its value. */
#include "print/internal.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* An entry and what it is sorted by. */
struct row {
    const struct drain_entry *entry;
    double number;   /* of doubles */
    uint64_t weight; /* of all else, biased so that it is unsigned */
    struct value key;
};

/* A map while it is printed. */
struct sheet {
    struct print *print;
    const struct script_map *map;
    size_t words; /* 8 bytes, of a value */
    size_t key_bytes;
    struct row *row;
    size_t n;
    uint64_t divide; /* not 0 */
};

static bool is_histogram(const struct script_type *type)
{
    return type->kind == SCRIPT_T_HIST || type->kind == SCRIPT_T_LHIST;
}

static bool is_average(const struct script_type *type)
{
    return type->kind == SCRIPT_T_AVG || type->kind == SCRIPT_T_STATS;
}

struct style style_of(const struct print *print)
{
    return (struct style){.json = print->json, .for_terminal = print->out_is_terminal};
}

/* ---- order ---- */

static uint64_t word_at(const struct sheet *sheet, const struct drain_entry *entry, size_t index)
{
    return index < sheet->words ? entry->word[index] : 0;
}

static uint64_t average_of(const struct sheet *sheet, const struct drain_entry *entry)
{
    uint64_t count = word_at(sheet, entry, 0), sum = word_at(sheet, entry, 1);
    if (!count)
        return 0;
    if (!sheet->map->value->is_signed)
        return sum / count;
    return count > INT64_MAX ? 0 : (uint64_t)((int64_t)sum / (int64_t)count);
}

static uint64_t biased(uint64_t number, bool is_signed)
{
    return is_signed ? number ^ UINT64_C(1) << 63 : number;
}

/* Numbers and aggregations go by value, histograms by how much is in them, all else by key. */
static void weigh(const struct sheet *sheet, struct row *row)
{
    const struct script_type *type = sheet->map->value;
    switch (type->kind) {
    case SCRIPT_T_COUNT:
        row->weight = word_at(sheet, row->entry, 0);
        break;
    case SCRIPT_T_INT:
    case SCRIPT_T_SUM:
    case SCRIPT_T_MIN:
    case SCRIPT_T_MAX:
        row->weight = biased(word_at(sheet, row->entry, 0), type->is_signed);
        break;
    case SCRIPT_T_AVG:
    case SCRIPT_T_STATS:
        row->weight = biased(average_of(sheet, row->entry), type->is_signed);
        break;
    case SCRIPT_T_HIST:
    case SCRIPT_T_LHIST:
        for (size_t i = 0; i < sheet->words; i++)
            row->weight += row->entry->word[i];
        break;
    case SCRIPT_T_DOUBLE: {
        struct value value = {.type = type, .at = (const uint8_t *)row->entry->word, .n = sheet->words * 8, .encoding = ALONE};
        row->number = value_double(&value);
        break;
    }
    default:
        break;
    }
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? -1 : 1;
    if (x->number < y->number || x->number > y->number)
        return x->number < y->number ? -1 : 1;
    return x->key.type ? value_compare(&x->key, &y->key) : 0;
}

static void sheet_init(struct sheet *sheet, struct print *print, const struct script_map *map, const struct drain_contents *contents,
                       uint64_t top, uint64_t divide)
{
    *sheet = (struct sheet){.print = print, .map = map, .divide = divide ? divide : 1, .n = contents->entry.n};
    sheet->words = contents->type->value_bytes / 8;
    sheet->key_bytes = contents->type->key_bytes;
    sheet->row = memory_zero(sheet->n, sizeof *sheet->row);
    for (size_t i = 0; i < sheet->n; i++) {
        struct row *row = &sheet->row[i];
        row->entry = &contents->entry.at[i];
        row->key = (struct value){.type = map->key, .at = row->entry->key, .n = sheet->key_bytes, .encoding = ALONE};
        weigh(sheet, row);
    }
    qsort(sheet->row, sheet->n, sizeof *sheet->row, compare_rows);
    /* 0.17 shows all of stats() maps. */
    bool is_cut = top && top < sheet->n && !(map->value->kind == SCRIPT_T_STATS && print->dialect == PRINT_17);
    if (is_cut) {
        memmove(sheet->row, sheet->row + (sheet->n - top), top * sizeof *sheet->row);
        sheet->n = top;
    }
}

/* ---- keys ---- */

/* The keys of a map with several are a tuple, but shown without its parentheses. */
static void put_key(struct print *print, struct print_text *text, const struct value *key, const struct style *style, const char *between)
{
    if (key->type->kind != SCRIPT_T_TUPLE) {
        value_put(print, text, key, style);
        return;
    }
    for (uint64_t i = 0; i < key->type->count; i++) {
        struct value item = value_item(key, i);
        if (i)
            text_string(text, between);
        value_put(print, text, &item, style);
    }
}

void map_put_name(struct print *print, struct print_text *text, const struct script_map *map, const void *key, size_t bytes)
{
    text_string(text, map->name);
    if (!map->key)
        return;
    struct value value = {.type = map->key, .at = key, .n = bytes, .encoding = ALONE};
    struct style style = {.is_key = true, .for_terminal = print->out_is_terminal};
    text_char(text, '[');
    put_key(print, text, &value, &style, ", ");
    text_char(text, ']');
}

void map_put_json_key(struct print *print, struct print_text *text, const struct script_map *map, const void *key, size_t bytes)
{
    struct value value = {.type = map->key, .at = key, .n = bytes, .encoding = ALONE};
    const struct style plain = {.is_key = true};
    print->part.n = 0;
    put_key(print, &print->part, &value, &plain, ",");
    text_json(text, print->part.at, print->part.n, print->out_is_terminal);
}

void json_open(struct print_text *text, const char *type, const char *name)
{
    text_format(text, "{\"type\": \"%s\", \"data\": {", type);
    text_json(text, name, strlen(name), false);
    text_string(text, ": ");
}

/* ---- values ---- */

static void put_number(const struct sheet *sheet, uint64_t number, bool is_signed)
{
    struct print_text *text = &sheet->print->text;
    if (sheet->print->json)
        text_json_int(text, number, is_signed, sheet->print->dialect);
    else
        text_int(text, number, is_signed);
}

static uint64_t divided(const struct sheet *sheet, uint64_t number, bool is_signed)
{
    if (!is_signed)
        return number / sheet->divide;
    return sheet->divide > INT64_MAX ? 0 : (uint64_t)((int64_t)number / (int64_t)sheet->divide);
}

static void put_stats(const struct sheet *sheet, const struct drain_entry *entry)
{
    struct print_text *text = &sheet->print->text;
    bool json = sheet->print->json, is_signed = sheet->map->value->is_signed;
    uint64_t average = average_of(sheet, entry);
    if (sheet->print->dialect != PRINT_17)
        average = divided(sheet, average, is_signed);
    text_string(text, json ? "{\"count\": " : "count ");
    put_number(sheet, word_at(sheet, entry, 0), false);
    text_string(text, json ? ", \"average\": " : ", average ");
    put_number(sheet, average, is_signed);
    text_string(text, json ? ", \"total\": " : ", total ");
    put_number(sheet, word_at(sheet, entry, 1), is_signed);
    text_string(text, json ? "}" : "");
}

static void put_value(const struct sheet *sheet, const struct drain_entry *entry)
{
    struct print *print = sheet->print;
    const struct script_type *type = sheet->map->value;
    switch (type->kind) {
    case SCRIPT_T_COUNT:
        put_number(sheet, divided(sheet, word_at(sheet, entry, 0), false), false);
        break;
    case SCRIPT_T_SUM:
    case SCRIPT_T_MIN:
    case SCRIPT_T_MAX:
        put_number(sheet, divided(sheet, word_at(sheet, entry, 0), type->is_signed), type->is_signed);
        break;
    case SCRIPT_T_AVG:
        put_number(sheet, divided(sheet, average_of(sheet, entry), type->is_signed), type->is_signed);
        break;
    case SCRIPT_T_STATS:
        put_stats(sheet, entry);
        break;
    case SCRIPT_T_HIST:
    case SCRIPT_T_LHIST:
        histogram_put(print, &print->text, type, entry->word, sheet->words, sheet->divide);
        break;
    default: {
        struct value value = {.type = type, .at = (const uint8_t *)entry->word, .n = sheet->words * 8, .encoding = ALONE};
        struct style style = style_of(print);
        style.divide = sheet->divide;
        value_put(print, &print->text, &value, &style);
        break;
    }
    }
}

/* ---- whole maps ---- */

/* 0.17: a histogram's name is followed by a space and it by a blank line, as are maps of averages; an empty map is an empty line, or 0 for
 * a count.
 * 0.26 has the blank lines after histograms only. */
static void put_text(const struct sheet *sheet)
{
    struct print_text *text = &sheet->print->text;
    bool is_17 = sheet->print->dialect == PRINT_17, is_tall = is_histogram(sheet->map->value);
    for (size_t i = 0; i < sheet->n; i++) {
        map_put_name(sheet->print, text, sheet->map, sheet->row[i].entry->key, sheet->key_bytes);
        text_string(text, !is_tall ? ": " : is_17 ? ": \n" : ":\n");
        put_value(sheet, sheet->row[i].entry);
        text_char(text, '\n');
    }
    if (!is_17)
        return;
    if (!sheet->n && sheet->map->value->kind == SCRIPT_T_COUNT && !sheet->map->key)
        text_format(text, "%s: 0", sheet->map->name);
    if (!sheet->n)
        text_char(text, '\n');
    if (is_average(sheet->map->value))
        text_char(text, '\n');
}

static void put_json(const struct sheet *sheet)
{
    struct print_text *text = &sheet->print->text;
    const struct script_map *map = sheet->map;
    if (!sheet->n)
        return;
    json_open(text, is_histogram(map->value) ? "hist" : is_average(map->value) ? "stats" : "map", map->name);
    text_string(text, map->key ? "{" : "");
    for (size_t i = 0; i < sheet->n; i++) {
        text_string(text, i ? ", " : "");
        if (map->key) {
            map_put_json_key(sheet->print, text, map, sheet->row[i].entry->key, sheet->key_bytes);
            text_string(text, ": ");
        }
        put_value(sheet, sheet->row[i].entry);
    }
    text_string(text, map->key ? "}}}\n" : "}}\n");
}

void print_map(struct print *print, const struct script_map *map, const struct drain_contents *contents, uint64_t top, uint64_t divide)
{
    struct sheet sheet;
    sheet_init(&sheet, print, map, contents, top, divide);
    if (print->json)
        put_json(&sheet);
    else
        put_text(&sheet);
    free(sheet.row);
    text_write(&print->text, print->out);
}

static int compare_names(const void *a, const void *b, void *maps)
{
    const struct script_map *const *map = maps;
    return strcmp(map[*(const size_t *)a]->name, map[*(const size_t *)b]->name);
}

void print_end(struct print *print, const struct script_map *const *maps, const struct drain_contents *const *contents, size_t n)
{
    size_t *order = memory_zero(n, sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, n, sizeof *order, compare_names, (void *)maps);
    if (!print->json || print->dialect == PRINT_17)
        fputs("\n\n", print->out);
    for (size_t i = 0; i < n; i++)
        if (contents[order[i]])
            print_map(print, maps[order[i]], contents[order[i]], 0, 0);
    free(order);
}
