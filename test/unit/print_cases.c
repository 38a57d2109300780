/* Scripts of one BEGIN clause whose output bpftrace 0.17 has printed (test/print/): print/ must print the same, byte for byte, as text and
 * as JSON. The little of the language that the scripts use is interpreted here; values reach print/ as bytes and types, as in a run.
 *
 *   print_cases                        all scripts of test/print/cases against test/print/bpftrace-0.17
 *   print_cases --run text|json FILE   what one script prints */
#include "print/print.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- types and values ---- */

enum { ROOM = 64, MOST = 16 };

struct datum {
    const struct script_type *type;
    uint64_t word[64]; /* encoded as if alone */
};

static VEC(void *) owned;

static void *keep(void *memory)
{
    VEC_PUSH(&owned, memory);
    return memory;
}

static const struct script_type *type_new(enum script_type_kind kind, uint64_t bytes, bool is_signed)
{
    struct script_type *type = keep(memory_zero(1, sizeof *type));
    *type = (struct script_type){.kind = kind, .bytes = bytes, .is_signed = is_signed, .align = 8};
    return type;
}

static size_t room_of(const struct script_type *type)
{
    size_t bytes = type->kind == SCRIPT_T_BUFFER ? 8 + type->bytes : type->kind == SCRIPT_T_INT ? 8 : type->bytes;
    return (bytes + 7) & ~(size_t)7;
}

static struct datum datum_tuple(const struct datum *items, size_t n)
{
    struct datum tuple = {0};
    struct script_type *type = keep(memory_zero(1, sizeof *type));
    struct script_item *list = keep(memory_zero(n, sizeof *list));
    *type = (struct script_type){.kind = SCRIPT_T_TUPLE, .count = n, .items = list, .align = 8};
    for (size_t i = 0; i < n; i++) {
        list[i] = (struct script_item){items[i].type, type->bytes};
        if (type->bytes + room_of(items[i].type) > sizeof tuple.word)
            exit(2);
        memcpy((char *)tuple.word + type->bytes, items[i].word, room_of(items[i].type));
        type->bytes += room_of(items[i].type);
    }
    tuple.type = type;
    return tuple;
}

/* ---- the script's text ---- */

static const char *at;

static void skip_space(void)
{
    while (*at == ' ' || *at == '\n' || *at == ';')
        at++;
}

static bool accept(const char *text)
{
    skip_space();
    size_t n = strlen(text);
    if (strncmp(at, text, n))
        return false;
    at += n;
    return true;
}

static void expect(const char *text)
{
    if (!accept(text)) {
        fprintf(stderr, "print_cases: expected %s at: %.40s\n", text, at);
        exit(2);
    }
}

static int64_t read_int(void)
{
    skip_space();
    char *end;
    bool is_negative = accept("-");
    uint64_t number = strtoull(at, &end, 0);
    if (end == at)
        expect("a number");
    at = end;
    return (int64_t)(is_negative ? -number : number);
}

/* Without its quotes, and unescaped. Returns the length. */
static size_t read_string(char *out, size_t room)
{
    size_t n = 0;
    expect("\"");
    for (; *at && *at != '"' && n + 1 < room; n++) {
        if (*at != '\\') {
            out[n] = *at++;
            continue;
        }
        at += 2;
        if (at[-1] == 'x') {
            out[n] = (char)strtoul((char[]){at[0], at[1], 0}, NULL, 16);
            at += 2;
        } else {
            out[n] = at[-1] == 'n' ? '\n' : at[-1] == 't' ? '\t' : at[-1] == 'r' ? '\r' : at[-1];
        }
    }
    expect("\"");
    out[n] = 0;
    return n;
}

static struct datum read_value(void);

/* Values up to the closing one. */
static size_t read_values(struct datum *list, const char *end)
{
    size_t n = 0;
    while (!accept(end)) {
        if (n == MOST)
            exit(2);
        list[n++] = read_value();
        accept(",");
    }
    return n;
}

static bool read_cast(struct datum *out)
{
    static const struct {
        const char *name;
        unsigned bytes;
        bool is_signed;
    } casts[] = {{"(uint8)", 1, 0}, {"(uint16)", 2, 0}, {"(uint32)", 4, 0}, {"(uint64)", 8, 0},
                 {"(int8)", 1, 1},  {"(int16)", 2, 1},  {"(int32)", 4, 1},  {"(int64)", 8, 1}};
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++)
        if (accept(casts[i].name)) {
            unsigned shift = 64 - 8 * casts[i].bytes;
            uint64_t word = (uint64_t)read_int() << shift;
            out->word[0] = casts[i].is_signed ? (uint64_t)((int64_t)word >> shift) : word >> shift;
            out->type = type_new(SCRIPT_T_INT, casts[i].bytes, casts[i].is_signed);
            return true;
        }
    return false;
}

static struct datum read_value(void)
{
    struct datum value = {0};
    char text[ROOM * 2] = "";
    if (read_cast(&value))
        return value;
    if (accept("buf(")) {
        read_string(text, sizeof text);
        expect(",");
        value.word[0] = (uint64_t)read_int();
        memcpy(&value.word[1], text, ROOM);
        value.type = type_new(SCRIPT_T_BUFFER, ROOM, false);
        expect(")");
    } else if (accept("ntop(")) {
        value.word[0] = 2;
        value.word[1] = (uint64_t)read_int();
        value.type = type_new(SCRIPT_T_INET, 24, false);
        expect(")");
    } else if (accept("(uint8*)")) {
        value.word[0] = (uint64_t)read_int();
        value.type = type_new(SCRIPT_T_POINTER, 8, false);
    } else if (accept("(")) {
        struct datum list[MOST];
        size_t n = read_values(list, ")");
        value = datum_tuple(list, n);
    } else if (skip_space(), *at == '"') {
        size_t n = read_string(text, sizeof text);
        value.type = type_new(SCRIPT_T_STRING, ROOM, false);
        memcpy(value.word, text, n < ROOM - 1 ? n : ROOM - 1);
    } else {
        value.word[0] = (uint64_t)read_int();
        value.type = type_new(SCRIPT_T_INT, 8, true);
    }
    return value;
}

/* ---- maps ---- */

struct map {
    struct script_map map;
    struct wire_map_type wire;
    struct drain_contents contents;
};

static VEC(struct map *) maps;

static struct map *map_find(const char *name)
{
    for (size_t i = 0; i < maps.n; i++)
        if (!strcmp(maps.at[i]->map.name, name))
            return maps.at[i];
    struct map *map = keep(memory_zero(1, sizeof *map));
    map->map.name = keep(memory_text(name));
    map->contents.type = &map->wire;
    VEC_PUSH(&maps, map);
    return map;
}

static uint64_t *map_entry(struct map *map, const struct datum *key, size_t words)
{
    size_t key_bytes = key ? room_of(key->type) : 0;
    map->map.key = key ? key->type : NULL;
    map->wire.key_bytes = (uint32_t)key_bytes;
    map->wire.value_bytes = (uint32_t)words * 8;
    for (size_t i = 0; i < map->contents.entry.n; i++)
        if (!key_bytes || !memcmp(map->contents.entry.at[i].key, key->word, key_bytes))
            return (uint64_t *)(uintptr_t)map->contents.entry.at[i].word;
    uint8_t *copy = keep(memory_zero(key_bytes + 1, 1));
    uint64_t *word = keep(memory_zero(words, 8));
    if (key)
        memcpy(copy, key->word, key_bytes);
    VEC_PUSH(&map->contents.entry, (struct drain_entry){copy, word});
    return word;
}

static size_t hist_slot(int64_t value)
{
    return value < 0 ? 0 : !value ? 1 : 65 - (size_t)__builtin_clzll((uint64_t)value);
}

static void add_lhist(struct map *map, const struct datum *key)
{
    int64_t value = read_int(), bound[3];
    for (int i = 0; i < 3; i++) {
        expect(",");
        bound[i] = read_int();
    }
    size_t n = (size_t)((bound[1] - bound[0]) / bound[2]) + 2;
    struct script_type *type = keep(memory_zero(1, sizeof *type));
    *type = (struct script_type){.kind = SCRIPT_T_LHIST, .low = bound[0], .high = bound[1], .step = bound[2]};
    map->map.value = type;
    map_entry(map, key, n)[value < bound[0] ? 0 : value >= bound[1] ? n - 1 : (size_t)((value - bound[0]) / bound[2]) + 1]++;
}

/* What stands right of the = of @map[key] = */
static void assign(struct map *map, const struct datum *key)
{
    static const struct {
        const char *name;
        enum script_type_kind kind;
    } calls[] = {{"count(", SCRIPT_T_COUNT}, {"sum(", SCRIPT_T_SUM},     {"min(", SCRIPT_T_MIN},  {"max(", SCRIPT_T_MAX},
                 {"avg(", SCRIPT_T_AVG},     {"stats(", SCRIPT_T_STATS}, {"hist(", SCRIPT_T_HIST}};
    if (accept("lhist(")) {
        add_lhist(map, key);
        expect(")");
        return;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (!accept(calls[i].name))
            continue;
        enum script_type_kind kind = calls[i].kind;
        map->map.value = type_new(kind, 8, true);
        int64_t value = kind == SCRIPT_T_COUNT ? 1 : read_int();
        size_t before = map->contents.entry.n;
        uint64_t *word = map_entry(map, key, kind == SCRIPT_T_HIST ? 66 : 2);
        bool is_new = map->contents.entry.n > before;
        if (kind == SCRIPT_T_HIST)
            word[hist_slot(value)]++;
        else if (kind == SCRIPT_T_MIN || kind == SCRIPT_T_MAX)
            word[0] = is_new || (kind == SCRIPT_T_MIN) == (value < (int64_t)word[0]) ? (uint64_t)value : word[0];
        else if (kind == SCRIPT_T_COUNT || kind == SCRIPT_T_SUM)
            word[0] += (uint64_t)value;
        else
            word[0]++, word[1] += (uint64_t)value;
        expect(")");
        return;
    }
    struct datum value = read_value();
    map->map.value = value.type;
    memcpy(map_entry(map, key, room_of(value.type) / 8), value.word, room_of(value.type));
}

static struct map *read_map(void)
{
    char name[ROOM] = "";
    size_t n = strcspn(at, " []=,)");
    memcpy(name, at, n < ROOM ? n : ROOM - 1);
    at += n;
    return map_find(name);
}

/* ---- statements ---- */

static void run_format(struct print *print)
{
    char format[1024];
    struct datum list[MOST];
    struct script_expr expr[MOST];
    const struct script_expr *exprs[MOST];
    uint64_t payload[MOST * 64];
    struct script_action action = {.call = SCRIPT_C_PRINTF, .text = format, .list = exprs};
    size_t bytes = 0;
    action.length = read_string(format, sizeof format);
    accept(",");
    action.n_list = read_values(list, ")");
    for (size_t i = 0; i < action.n_list; i++) {
        expr[i] = (struct script_expr){.type = list[i].type};
        exprs[i] = &expr[i];
        memcpy((char *)payload + bytes, list[i].word, room_of(list[i].type));
        bytes += room_of(list[i].type);
    }
    print_event(print, &(struct print_event){.action = &action, .payload = payload, .bytes = bytes});
}

static void run_print(struct print *print)
{
    skip_space();
    if (*at != '@') {
        struct datum value = read_value();
        print_value(print, value.type, value.word, room_of(value.type));
        expect(")");
        return;
    }
    struct map *map = read_map();
    uint64_t top = accept(",") ? (uint64_t)read_int() : 0, divide = accept(",") ? (uint64_t)read_int() : 0;
    expect(")");
    print_map(print, &map->map, &map->contents, top, divide);
}

static void run_statement(struct print *print)
{
    if (accept("printf(")) {
        run_format(print);
    } else if (accept("print(")) {
        run_print(print);
    } else if (accept("clear(")) {
        read_map()->contents.entry.n = 0;
        expect(")");
    } else if (accept("zero(")) {
        struct map *map = read_map();
        for (size_t i = 0; i < map->contents.entry.n; i++)
            memset((void *)(uintptr_t)map->contents.entry.at[i].word, 0, map->wire.value_bytes);
        expect(")");
    } else if (skip_space(), *at == '@') {
        struct datum list[MOST];
        struct map *map = read_map();
        size_t n = accept("[") ? read_values(list, "]") : 0;
        struct datum key = n > 1 ? datum_tuple(list, n) : list[0];
        expect("=");
        assign(map, n ? &key : NULL);
    } else {
        expect("exit()");
    }
}

static void run_script(struct print *print, const char *script)
{
    at = script;
    print_attached(print, 1);
    expect("BEGIN {");
    while (!accept("}"))
        run_statement(print);
    const struct script_map **list = memory_zero(maps.n, sizeof *list);
    const struct drain_contents **contents = memory_zero(maps.n, sizeof *contents);
    for (size_t i = 0; i < maps.n; i++) {
        list[i] = &maps.at[i]->map;
        contents[i] = &maps.at[i]->contents;
    }
    print_end(print, list, contents, maps.n);
    free(list);
    free(contents);
    for (size_t i = 0; i < maps.n; i++)
        VEC_FREE(&maps.at[i]->contents.entry);
    VEC_FREE(&maps);
    for (size_t i = 0; i < owned.n; i++)
        free(owned.at[i]);
    VEC_FREE(&owned);
}

/* ---- comparing ---- */

static char *output_of(const char *script, bool json)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    struct print print = {.out = out, .err = out, .json = json, .dialect = PRINT_17};
    run_script(&print, script);
    print_deinit(&print);
    fclose(out);
    return text;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        exit(2);
    }
    char *text = memory_zero(1 << 20, 1);
    size_t n = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    text[n] = 0;
    return text;
}

/* The part of the golden file after the line `=== NAME FORM`, up to the next. The caller frees. */
static char *expected_of(const char *golden, const char *name, const char *form)
{
    char *line = memory_format("=== %s %s\n", name, form);
    const char *found = strstr(golden, line);
    if (!found) {
        printf("%s: no output of bpftrace is known\n", line);
        exit(1);
    }
    found += strlen(line);
    const char *end = strstr(found, "\n=== ");
    free(line);
    return strndup(found, end ? (size_t)(end - found) + 1 : strlen(found));
}

static int compare_all(void)
{
    char *cases = read_file("test/print/cases"), *golden = read_file("test/print/bpftrace-0.17"), *rest = cases, *line;
    int n = 0, failed = 0;
    while ((line = strsep(&rest, "\n"))) {
        char *script = strchr(line, ' ');
        if (*line == '#' || !script)
            continue;
        *script++ = 0;
        for (int json = 0; json < 2; json++, n++) {
            char *wanted = expected_of(golden, line, json ? "json" : "text"), *found = output_of(script, json);
            if (strcmp(found, wanted)) {
                printf("%s, %s: %s\nfound:\n%s\nexpected:\n%s\n", line, json ? "json" : "text", script, found, wanted);
                failed++;
            }
            free(wanted);
            free(found);
        }
    }
    free(cases);
    free(golden);
    printf("%d outputs, %d wrong\n", n, failed);
    return failed || n < 120;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return compare_all();
    char *script = read_file(argv[3]), *found = output_of(script, !strcmp(argv[2], "json"));
    fputs(found, stdout);
    free(found);
    free(script);
    return 0;
}
