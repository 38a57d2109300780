/* Feeds random types, bytes and formats to src/print and checks what leaves: on a terminal, no control character but newline and tab, and
 * only UTF-8; as JSON, one valid value on each line.
 *
 *   print_values --runs N [--seed S]
 *
 * What breaks an invariant is printed, and the program aborts. Build with -fsanitize=address,undefined: bytes are heap blocks of exactly
 * their size, so that one byte too far is seen. */
#include "print/print.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint64_t random_below(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

/* ---- types ---- */

static VEC(void *) owned;

static void *keep(size_t count, size_t bytes)
{
    void *memory = memory_zero(count, bytes);
    VEC_PUSH(&owned, memory);
    return memory;
}

static struct script_constant constants[] = {{"ONE", 1}, {"TWO", 2}};
static const struct script_enum enumeration = {"enum e", constants, 2};

/* Sizes and offsets are right or wild. */
static uint64_t random_size(void)
{
    return random_below(20) ? random_below(40) : random_below(3) ? random_below(1 << 20) : UINT64_MAX - random_below(20);
}

static const struct script_type *random_type(unsigned depth);

static void random_record(struct script_type *type, unsigned depth)
{
    struct script_record *record = keep(1, sizeof *record);
    record->n_members = random_below(4);
    record->members = keep(record->n_members, sizeof *record->members);
    for (size_t i = 0; i < record->n_members; i++)
        record->members[i] = (struct script_member){.name = random_below(4) ? "member" : NULL,
                                                    .type = random_type(depth),
                                                    .offset = random_size(),
                                                    .bit_offset = (uint8_t)random_below(8),
                                                    .bit_size = (uint8_t)(random_below(3) ? 0 : random_below(65))};
    type->record = record;
}

static void random_tuple(struct script_type *type, unsigned depth)
{
    type->count = 1 + random_below(3);
    struct script_item *items = keep(type->count, sizeof *items);
    for (uint64_t i = 0; i < type->count; i++)
        items[i] = (struct script_item){random_type(depth), random_size()};
    type->items = items;
}

static const struct script_type *random_type(unsigned depth)
{
    static const uint64_t sizes[] = {1, 2, 4, 8, 16};
    struct script_type *type = keep(1, sizeof *type);
    type->kind = (enum script_type_kind)random_below(SCRIPT_T_STACK + 1);
    type->is_signed = random_below(2);
    type->bytes = random_size();
    if (type->kind == SCRIPT_T_INT || type->kind == SCRIPT_T_DOUBLE || type->kind == SCRIPT_T_POINTER)
        type->bytes = sizes[random_below(5)];
    type->is_char = type->bytes == 1 && random_below(2);
    type->enumeration = type->kind == SCRIPT_T_INT && !random_below(5) ? &enumeration : NULL;
    bool is_composed = type->kind == SCRIPT_T_RECORD || type->kind == SCRIPT_T_ARRAY || type->kind == SCRIPT_T_TUPLE;
    if (is_composed && !depth)
        type->kind = SCRIPT_T_STRING;
    if (type->kind == SCRIPT_T_RECORD)
        random_record(type, depth - 1);
    if (type->kind == SCRIPT_T_TUPLE)
        random_tuple(type, depth - 1);
    if (type->kind == SCRIPT_T_ARRAY) {
        type->to = random_type(depth - 1);
        type->count = random_size();
    }
    return type;
}

/* Few kinds of bytes often, all sometimes. */
static uint8_t *random_bytes(size_t n)
{
    static const char likely[] = "ab\0\033\n\xc3\xa9\xff\x9b\xe2\x82\xac\"\\\x01";
    uint8_t *bytes = keep(n, 1);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(random_below(3) ? likely[random_below(sizeof likely)] : (char)random_below(256));
    return bytes;
}

/* ---- what must hold ---- */

static const char *text, *at;
static size_t text_n;

static void broken(const char *what)
{
    fprintf(stderr, "print_values: broken: %s:\n", what);
    for (size_t i = 0; i < text_n && i < 2000; i++)
        fprintf(stderr, text[i] >= 32 && text[i] < 127 ? "%c" : "\\x%02x", (uint8_t)text[i]);
    fprintf(stderr, "\n");
    abort();
}

static size_t utf8_length(const uint8_t *c)
{
    size_t n = c[0] < 0x80 ? 1 : c[0] >= 0xc2 && c[0] < 0xe0 ? 2 : c[0] >= 0xe0 && c[0] < 0xf0 ? 3 : c[0] >= 0xf0 && c[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

static void check_terminal(void)
{
    for (size_t i = 0; i < text_n;) {
        const uint8_t *c = (const uint8_t *)text + i;
        size_t n = utf8_length(c);
        if (!n || (c[0] < 32 && c[0] != '\n' && c[0] != '\t') || c[0] == 0x7f || (n == 2 && c[0] == 0xc2 && c[1] < 0xa0))
            broken("terminal");
        i += n;
    }
}

static void expect(char c)
{
    if (*at++ != c)
        broken("JSON punctuation");
}

static void json_string(void)
{
    expect('"');
    while (*at != '"') {
        size_t n = utf8_length((const uint8_t *)at);
        if (!n || (uint8_t)*at < 32)
            broken("JSON string");
        if (*at == '\\' && at[1] == 'u' && strspn(at + 2, "0123456789abcdef") < 4)
            broken("JSON escape");
        if (*at == '\\' && !strchr("\"\\nrtu", *++at))
            broken("JSON escape");
        at += n;
    }
    at++;
}

static void json_value(void);

static void json_list(char end, bool has_names)
{
    at++;
    for (bool is_first = true; *at != end; is_first = false) {
        if (!is_first)
            expect(',');
        at += strspn(at, " ");
        if (*at == end)
            break;
        if (has_names) {
            json_string();
            expect(':');
            expect(' ');
        }
        json_value();
        at += strspn(at, " ");
    }
    at++;
}

static void json_value(void)
{
    if (*at == '{')
        json_list('}', true);
    else if (*at == '[')
        json_list(']', false);
    else if (*at == '"')
        json_string();
    else if (!strncmp(at, "true", 4) || !strncmp(at, "null", 4))
        at += 4;
    else if (!strncmp(at, "false", 5))
        at += 5;
    else {
        size_t n = strspn(at, "-+.eE0123456789");
        if (!n)
            broken("JSON number");
        at += n;
    }
}

static void check_json(void)
{
    at = text;
    while (*at) {
        json_value();
        expect('\n');
    }
}

/* ---- one run ---- */

static const char *time_format(void *cookie, uint32_t number)
{
    (void)cookie;
    return number & 1 ? "%H %f" : NULL;
}

static bool symbol(void *cookie, uint64_t address_va, uint32_t pid, char *out, size_t room)
{
    (void)cookie, (void)pid;
    snprintf(out, room, "s\033\xff");
    return address_va & 1;
}

static void run_event(struct print *print)
{
    static const char pieces[][8] = {"%d", "%5s",  "%-7s", "%.3s", "%r", "%rx", "%rh",  "%c",
                                     "%p", "%llx", "%f",   "%%",   "%",  "x",   "%05d", "%zu"};
    static const enum script_call calls[] = {SCRIPT_C_PRINTF, SCRIPT_C_PRINT, SCRIPT_C_JOIN, SCRIPT_C_ERRORF, SCRIPT_C_TIME};
    struct script_expr *expr = keep(4, sizeof *expr);
    const struct script_expr *list[4];
    char format[64] = "";
    size_t n = random_below(5), bytes = random_below(120);
    struct script_action action = {.call = calls[random_below(5)], .text = format, .list = list, .n_list = n};
    for (size_t i = 0; i < 5; i++)
        strcat(format, pieces[random_below(sizeof pieces / sizeof *pieces)]);
    for (size_t i = 0; i < n; i++) {
        expr[i].type = random_type(3);
        list[i] = &expr[i];
    }
    action.length = strlen(format);
    print_event(print, &(struct print_event){.action = &action, .payload = random_bytes(bytes), .bytes = bytes, .ns = state});
}

static void run_map(struct print *print)
{
    struct wire_map_type wire = {.key_bytes = (uint32_t)random_below(6) * 8, .value_bytes = (uint32_t)random_below(80) * 8};
    struct script_type *value = (struct script_type *)(uintptr_t)random_type(3);
    struct script_map map = {.name = "@x", .key = wire.key_bytes ? random_type(3) : NULL, .value = value};
    struct drain_contents contents = {.type = &wire};
    value->low = (int64_t)random_below(8) - 1;
    value->high = (int64_t)random_size();
    value->step = (int64_t)random_size();
    for (size_t i = random_below(5); i; i--) {
        uint64_t *word = keep(wire.value_bytes / 8, 8);
        memcpy(word, random_bytes(wire.value_bytes), wire.value_bytes);
        for (size_t k = 0; k < wire.value_bytes / 8; k++)
            word[k] = random_below(3) ? word[k] : random_below(5);
        VEC_PUSH(&contents.entry, (struct drain_entry){random_bytes(wire.key_bytes), word});
        if (!map.key)
            break;
    }
    print_map(print, &map, &contents, random_below(4), random_below(3) ? random_below(3) : UINT64_MAX - random_below(3));
    VEC_FREE(&contents.entry);
}

static size_t stack_addresses(void *cookie, uint32_t number, uint64_t *pcs, size_t room)
{
    (void)cookie, (void)number;
    size_t count = random_below(9) < 8 ? random_below(4) : room;
    for (size_t i = 0; i < count; i++)
        pcs[i] = state;
    return count;
}

/* Or none. */
static const char *random_name(void)
{
    size_t n = random_below(8);
    char *name = keep(n + 1, 1);
    memcpy(name, random_bytes(n), n);
    return random_below(4) ? name : NULL;
}

static size_t stack_frames(void *cookie, size_t index, struct print_frame *out, size_t room)
{
    (void)cookie, (void)index;
    size_t count = random_below(9) < 8 ? random_below(3) : room;
    for (size_t i = 0; i < count; i++)
        out[i] = (struct print_frame){random_name(), random_name(), state, random_name(), (unsigned)state, random_below(2)};
    return count;
}

static void one(void)
{
    char *made = NULL;
    FILE *out = open_memstream(&made, &text_n);
    struct print print = {.out = out, .err = out, .out_is_terminal = random_below(2), .json = random_below(2)};
    print.err_is_terminal = print.out_is_terminal;
    print.dialect = random_below(2) ? PRINT_17 : PRINT_26;
    print.names.symbol = random_below(2) ? symbol : NULL;
    print.names.time_format = time_format;
    print.names.stack = random_below(2) ? stack_addresses : NULL;
    print.names.frames = random_below(2) ? stack_frames : NULL;
    print.has_lines = random_below(2);
    size_t n = random_below(60);
    switch (random_below(3)) {
    case 0:
        run_event(&print);
        break;
    case 1:
        run_map(&print);
        break;
    default:
        print_value(&print, random_type(4), random_bytes(n), n);
        break;
    }
    print_deinit(&print);
    fclose(out);
    text = made;
    if (print.json)
        check_json();
    if (print.out_is_terminal)
        check_terminal();
    free(made);
    for (size_t i = 0; i < owned.n; i++)
        free(owned.at[i]);
    owned.n = 0;
}

int main(int argc, char **argv)
{
    unsigned long runs = 0;
    state = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--runs"))
            runs = strtoul(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--seed"))
            state = strtoul(argv[i + 1], NULL, 0) | 1;
    }
    for (unsigned long i = 0; i < runs; i++)
        one();
    VEC_FREE(&owned);
    printf("print_values: %lu runs\n", runs);
    return 0;
}
