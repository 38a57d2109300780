/* What print/ makes of every kind of type, in both dialects, for terminals, and of bytes that do not fit their types. Expected text of 0.26
 * is what its manual shows or its sources say. */
#include "print/internal.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int failures, checks;

/* ---- printing into memory ---- */

static char *text;
static size_t text_bytes_n;
static struct print print;

static void start(enum print_dialect dialect, bool json, bool is_terminal)
{
    FILE *out = open_memstream(&text, &text_bytes_n);
    print = (struct print){.out = out, .err = out, .json = json, .dialect = dialect};
    print.out_is_terminal = print.err_is_terminal = is_terminal;
}

static void finish(int line, const char *wanted)
{
    print_deinit(&print);
    fclose(print.out);
    checks++;
    if (strcmp(text, wanted)) {
        failures++;
        printf("%s:%d: found:\n%s\nexpected:\n%s\n", __FILE__, line, text, wanted);
    }
    free(text);
}

#define EXPECT(dialect, json, is_terminal, call, wanted)                                                                                   \
    do {                                                                                                                                   \
        start(dialect, json, is_terminal);                                                                                                 \
        call;                                                                                                                              \
        finish(__LINE__, wanted);                                                                                                          \
    } while (0)
#define TEXT(call, wanted) EXPECT(PRINT_26, false, false, call, wanted)
#define JSON(call, wanted) EXPECT(PRINT_26, true, false, call, wanted)
#define SHOWN(call, wanted) EXPECT(PRINT_26, false, true, call, wanted)

/* ---- types ---- */

#define INT(n, sign)                                                                                                                       \
    {                                                                                                                                      \
        .kind = SCRIPT_T_INT, .bytes = n, .is_signed = sign, .align = n                                                                    \
    }
static const struct script_type int8 = INT(1, true), int16 = INT(2, true), int32 = INT(4, true), int64 = INT(8, true),
                                uint8 = INT(1, false), uint32 = INT(4, false), uint64 = INT(8, false), int128 = INT(16, true),
                                character = {.kind = SCRIPT_T_INT, .bytes = 1, .is_signed = true, .is_char = true},
                                boolean = {.kind = SCRIPT_T_BOOL, .bytes = 1},
                                pointer = {.kind = SCRIPT_T_POINTER, .bytes = 8, .to = &int8},
                                pointer32 = {.kind = SCRIPT_T_POINTER, .bytes = 4, .to = &int8},
                                number = {.kind = SCRIPT_T_DOUBLE, .bytes = 8}, small = {.kind = SCRIPT_T_DOUBLE, .bytes = 4},
                                large = {.kind = SCRIPT_T_DOUBLE, .bytes = 16}, string8 = {.kind = SCRIPT_T_STRING, .bytes = 8},
                                string64 = {.kind = SCRIPT_T_STRING, .bytes = 64}, buffer8 = {.kind = SCRIPT_T_BUFFER, .bytes = 8},
                                symbol = {.kind = SCRIPT_T_SYMBOL, .bytes = 16}, timestamp = {.kind = SCRIPT_T_TIMESTAMP, .bytes = 16},
                                mac = {.kind = SCRIPT_T_MAC, .bytes = 8}, inet = {.kind = SCRIPT_T_INET, .bytes = 24},
                                chars8 = {.kind = SCRIPT_T_ARRAY, .bytes = 8, .count = 8, .to = &character},
                                bytes3 = {.kind = SCRIPT_T_ARRAY, .bytes = 3, .count = 3, .to = &uint8},
                                ints2 = {.kind = SCRIPT_T_ARRAY, .bytes = 8, .count = 2, .to = &int32},
                                ints2x2 = {.kind = SCRIPT_T_ARRAY, .bytes = 16, .count = 2, .to = &ints2},
                                endless = {.kind = SCRIPT_T_ARRAY, .bytes = UINT64_C(1) << 42, .count = UINT64_C(1) << 40, .to = &int32},
                                flexible = {.kind = SCRIPT_T_ARRAY, .is_flexible = true, .to = &int32};

static struct script_constant constants[] = {{"ONE", 1}, {"MINUS", -1}, {"BIG", 99999}};
static const struct script_enum enumeration = {"enum e", constants, 3};
static const struct script_type of_enum = {.kind = SCRIPT_T_INT, .bytes = 4, .is_signed = true, .enumeration = &enumeration};

static void print_word(const struct script_type *type, uint64_t word)
{
    print_value(&print, type, &word, sizeof word);
}

static void print_double(double value)
{
    print_value(&print, &number, &value, sizeof value);
}

/* ---- records ---- */

struct inner {
    int x;
    short y;
};

struct outer {
    int a;
    char c[8];
    uint8_t d[3];
    char *p;
    struct inner in;
    unsigned b1 : 3;
    int b2 : 5;
    int last;
};

static struct script_member inner_members[] = {{"x", &int32, 0, 0, 0}, {"y", &int16, 4, 0, 0}};
static struct script_record inner_record = {"struct inner", false, true, inner_members, 2};
static const struct script_type inner_type = {.kind = SCRIPT_T_RECORD, .bytes = sizeof(struct inner), .record = &inner_record};
static struct script_member outer_members[] = {{"a", &int32, 0, 0, 0},    {"c", &chars8, 4, 0, 0},       {"d", &bytes3, 12, 0, 0},
                                               {"p", &pointer, 16, 0, 0}, {"in", &inner_type, 24, 0, 0}, {"b1", &uint32, 32, 0, 3},
                                               {"b2", &int32, 32, 3, 5},  {"last", &int32, 36, 0, 0}};
static struct script_record outer_record = {"struct outer", false, true, outer_members, 8};
static const struct script_type outer_type = {.kind = SCRIPT_T_RECORD, .bytes = sizeof(struct outer), .record = &outer_record};

static void check_records(void)
{
    struct outer value = {-3, "hey", {1, 2, 3}, (char *)0x1234, {7, -8}, 5, -2, 1};
#define PRINT print_value(&print, &outer_type, &value, sizeof value)
    EXPECT(PRINT_17, false, false, PRINT,
           "{ .a = -3, .c = hey, .d = [1,2,3], .p = 4660, .in = { .x = 7, .y = -8 }, .b1 = 5, .b2 = -2, .last = 1 }\n");
    EXPECT(PRINT_17, true, false, PRINT,
           "{\"type\": \"value\", \"data\": { \"a\": -3, \"c\": \"hey\", \"d\": [1,2,3], \"p\": 4660, \"in\": { \"x\": 7, \"y\": -8 }, "
           "\"b1\": 5, "
           "\"b2\": -2, \"last\": 1 }}\n");
    TEXT(PRINT, "{ .a = -3, .c = hey, .d = [1,2,3], .p = 0x1234, .in = { .x = 7, .y = -8 }, .b1 = 5, .b2 = -2, .last = 1 }\n");
    JSON(PRINT, "{\"type\": \"value\", \"data\": {\"a\": -3, \"c\": \"hey\", \"d\": [1,2,3], \"p\": 4660, \"in\": {\"x\": 7, \"y\": -8}, "
                "\"b1\": 5, "
                "\"b2\": -2, \"last\": 1}}\n");
    /* Fewer bytes than the type has. */
    TEXT(print_value(&print, &outer_type, &value, 6),
         "{ .a = -3, .c = he, .d = [], .p = 0x0, .in = { .x = 0, .y = 0 }, .b1 = 0, .b2 = 0, .last = 0 }\n");
#undef PRINT

    /* ILP32, with an anonymous union, a bit-field over nine bytes, and what is not a value. */
    struct script_member choice[] = {{"i", &int32, 0, 0, 0}, {"f", &small, 0, 0, 0}};
    struct script_record choice_record = {"union 1", true, true, choice, 2};
    const struct script_type choice_type = {.kind = SCRIPT_T_RECORD, .bytes = 4, .record = &choice_record};
    const struct script_type nothing = {.kind = SCRIPT_T_VOID};
    struct script_member members[] = {{"p", &pointer32, 0, 0, 0}, {NULL, &choice_type, 4, 0, 0}, {"w", &uint64, 8, 7, 64},
                                      {"big", &int128, 24, 0, 0}, {"v", &nothing, 0, 0, 0},      {"none", &flexible, 40, 0, 0}};
    struct script_record record = {"struct s", false, true, members, 6};
    const struct script_type type = {.kind = SCRIPT_T_RECORD, .bytes = 40, .record = &record};
    uint64_t word[] = {0x3fc00000fffffff0, 0xffffffffffffff80, 0x7f, 0xfffffffffffffffb, UINT64_MAX};
    TEXT(print_value(&print, &type, word, sizeof word),
         "{ .p = 0xfffffff0, .i = 1069547520, .f = 1.5, .w = 18446744073709551615, .big = -5, .v = null, .none = [] }\n");
    struct script_record empty_record = {"struct e", false, true, NULL, 0};
    const struct script_type empty = {.kind = SCRIPT_T_RECORD, .record = &empty_record};
    TEXT(print_value(&print, &empty, word, 0), "{}\n");
}

/* ---- single values ---- */

static void check_numbers(void)
{
    TEXT(print_word(&int8, (uint64_t)-56), "-56\n");
    TEXT(print_word(&uint8, 300), "44\n");
    TEXT(print_word(&boolean, 1); print_word(&boolean, 0), "true\nfalse\n");
    EXPECT(PRINT_17, false, false, print_word(&boolean, 1), "1\n");
    JSON(print_word(&boolean, 1), "{\"type\": \"value\", \"data\": true}\n");
    TEXT(print_word(&pointer, 0x1234), "0x1234\n");
    TEXT(print_word(&of_enum, 1); print_word(&of_enum, (uint64_t)-1); print_word(&of_enum, 7), "ONE\nMINUS\n7\n");
    JSON(print_word(&of_enum, 99999), "{\"type\": \"value\", \"data\": 99999}\n");
    EXPECT(PRINT_17, false, false, print_word(&of_enum, 1), "1\n");
    /* Numbers that a double can not hold are strings. */
    JSON(print_word(&uint64, UINT64_MAX), "{\"type\": \"value\", \"data\": \"18446744073709551615\"}\n");
    JSON(print_word(&int64, (uint64_t)INT64_MIN), "{\"type\": \"value\", \"data\": -9223372036854775808}\n");
    JSON(print_word(&int64, (UINT64_C(1) << 53) + 1), "{\"type\": \"value\", \"data\": \"9007199254740993\"}\n");
    TEXT(print_double(1.5); print_double(0.1); print_double(3); print_double(1e300);
         print_double(1.0 / 3), "1.5\n0.1\n3\n1e+300\n0.33333333333333331\n");
    JSON(print_double(INFINITY), "{\"type\": \"value\", \"data\": null}\n");
    JSON(print_double(-2.25), "{\"type\": \"value\", \"data\": -2.25}\n");
    const struct script_type array = {.kind = SCRIPT_T_ARRAY, .bytes = 16, .count = 1, .to = &large};
    long double long_value = 2.5L;
    TEXT(print_value(&print, &array, &long_value, 16), "[2.5]\n");
    int32_t four[] = {5, 6, 7, 8};
    TEXT(print_value(&print, &ints2x2, four, sizeof four), "[[5,6],[7,8]]\n");
    TEXT(print_value(&print, &endless, four, sizeof four), "[5,6,7,8]\n");
    TEXT(print_value(&print, &int64, four, 1), "5\n");
}

static void check_strings(void)
{
    TEXT(print_value(&print, &string8, "abcdefg", 8), "abcdefg\n");
    TEXT(print_value(&print, &string8, "abcdefgh", 8), "abcdefgh..\n");
    EXPECT(PRINT_17, false, false, print_value(&print, &string8, "abcdefgh", 8), "abcdefgh\n");
    TEXT(print_value(&print, &chars8, "abcdefgh", 8), "abcdefgh\n");
    TEXT(print_value(&print, &string64, "ab", 2), "ab\n");
    TEXT(print_value(&print, &string8, "", 0), "\n");
    /* Raw where no terminal is; with nothing that one would act on where one is. */
    TEXT(print_value(&print, &string64, "a\x1b[2J\x7f\xc2\x9b\xff", 10), "a\x1b[2J\x7f\xc2\x9b\xff\n");
    SHOWN(print_value(&print, &string64, "a\x1b[2J\x7f\xc2\x9b\xff", 10), "a\\x1b[2J\\x7f\\xc2\\x9b\\xff\n");
    SHOWN(print_value(&print, &string64, "\r\a\b\t\xc3\xa9\xe2\x82\xac\xed\xa0\x80", 13),
          "\\x0d\\x07\\x08\t\xc3\xa9\xe2\x82\xac\\xed\\xa0\\x80\n");
    JSON(print_value(&print, &string64, "\x01\"\\\n\xc3\xa9\xff\x7f\xc3", 10),
         "{\"type\": \"value\", \"data\": \"\\u0001\\\"\\\\\\n\xc3\xa9\\u00ff\x7f\\u00c3\"}\n");
    EXPECT(PRINT_26, true, true, print_value(&print, &string64, "\x7f\xc2\x9b\x1b", 5),
           "{\"type\": \"value\", \"data\": \"\\u007f\\u009b\\u001b\"}\n");
}

static bool name_symbol(void *cookie, uint64_t address_va, uint32_t pid, char *out, size_t room)
{
    (void)cookie;
    if (address_va == 1)
        return false;
    snprintf(out, room, "main%u\x1b", pid);
    return true;
}

static const char *name_number(void *cookie, enum print_name what, uint32_t n)
{
    (void)cookie;
    return n > 1 ? NULL : what == PRINT_NAME_FUNCTION ? "f\x07" : what == PRINT_NAME_PROBE ? "uprobe:x:f" : "uprobe";
}

static const char *name_format(void *cookie, uint32_t n)
{
    (void)cookie;
    return n == 3 ? "%Y-%m-%d %H:%M:%S %f" : n == 4 ? "%k|%l|%%f" : n == 5 ? "" : NULL;
}

static void print_name(uint32_t what, uint32_t n)
{
    uint32_t word[2] = {n, what};
    print.names.name = name_number;
    struct value value = {.type = &uint64, .at = (const uint8_t *)word, .n = 8};
    struct style style = style_of(&print);
    value_put_name(&print, &print.text, &value, &style);
    text_write(&print.text, print.out);
}

static void print_two(const struct script_type *type, uint64_t first, uint64_t second)
{
    uint64_t word[2] = {first, second};
    print.names = (struct print_names){.symbol = name_symbol, .name = name_number, .time_format = name_format};
    print_value(&print, type, word, sizeof word);
}

static void check_names(void)
{
    TEXT(print_two(&symbol, 0x1000, 7); print_two(&symbol, 1, 7), "main7\x1b\n0x1\n");
    SHOWN(print_two(&symbol, 0x1000, 7), "main7\\x1b\n");
    JSON(print_two(&symbol, 1, 7), "{\"type\": \"value\", \"data\": \"0x1\"}\n");
    TEXT(print_word(&symbol, 2), "0x2\n");
    TEXT(print_name(PRINT_NAME_FUNCTION, 1), "f\x07");
    SHOWN(print_name(PRINT_NAME_FUNCTION, 1), "f\\x07");
    JSON(print_name(PRINT_NAME_PROBE, 0), "\"uprobe:x:f\"");
    TEXT(print_name(PRINT_NAME_PROBE_TYPE, 9), "9");
    TEXT(print_name(PRINT_NAME_USER, 0), "root");
    TEXT(print_name(PRINT_NAME_USER, 4000000001u), "");
    TEXT(print_name(PRINT_NAME_ERROR, 7), "Argument list too long");
    TEXT(print_name(77, 5), "5");

    uint64_t wall_ns = UINT64_C(1700000000123456789);
    TEXT(print_two(&timestamp, wall_ns, PRINT_CLOCK_WALL | UINT64_C(3) << 32), "2023-11-14 22:13:20 123456\n");
    TEXT(print_two(&timestamp, wall_ns, PRINT_CLOCK_WALL | UINT64_C(4) << 32), "123456789|123|%f\n");
    TEXT(print_two(&timestamp, wall_ns, PRINT_CLOCK_WALL | UINT64_C(5) << 32), "\n");
    TEXT(print_two(&timestamp, wall_ns, PRINT_CLOCK_WALL | UINT64_C(9) << 32), "(?)\n");
    TEXT(print.session_to_wall_ns = (int64_t)wall_ns;
         print_two(&timestamp, 1000, PRINT_CLOCK_SESSION | UINT64_C(3) << 32), "2023-11-14 22:13:20 123457\n");
    TEXT(print_two(&timestamp, UINT64_MAX, UINT64_MAX), "(?)\n");
    JSON(print_two(&timestamp, 0, PRINT_CLOCK_WALL | UINT64_C(3) << 32),
         "{\"type\": \"value\", \"data\": \"1970-01-01 00:00:00 000000\"}\n");

    TEXT(print_word(&mac, 0x0000bc9a78563412), "12:34:56:78:9A:BC\n");
    JSON(print_word(&mac, 0x0000bc9a78563412), "{\"type\": \"value\", \"data\": \"12:34:56:78:9A:BC\"}\n");
    uint64_t six[3] = {AF_INET6, 0, UINT64_C(1) << 56}, none[3] = {77};
    TEXT(print_value(&print, &inet, six, 24); print_value(&print, &inet, none, 24), "::1\n\n");
}

static void check_buffers(void)
{
    uint64_t word[2] = {3, 0x00000000ff0161};
    TEXT(print_value(&print, &buffer8, word, 16), "a\\x01\\xff\n");
    JSON(print_value(&print, &buffer8, word, 16), "{\"type\": \"value\", \"data\": [97,1,-1]}\n");
    /* The length is a process's word. */
    word[0] = UINT64_MAX;
    TEXT(print_value(&print, &buffer8, word, 16), "a\\x01\\xff\\x00\\x00\\x00\\x00\\x00\n");
    TEXT(print_value(&print, &buffer8, word, 10), "a\\x01\n");
    TEXT(print_value(&print, &buffer8, word, 8); print_value(&print, &buffer8, word, 0), "\n\n");
}

/* ---- formats and other actions ---- */

static void act(enum script_call call, const char *format, const struct script_type *const *types, const void *payload, size_t bytes)
{
    struct script_expr expr[8];
    const struct script_expr *list[8];
    struct script_action action = {.call = call, .text = format, .length = format ? strlen(format) : 0, .list = list};
    for (; types && types[action.n_list]; action.n_list++) {
        expr[action.n_list] = (struct script_expr){.type = types[action.n_list]};
        list[action.n_list] = &expr[action.n_list];
    }
    struct print_event event = {
        .action = &action, .payload = payload, .bytes = bytes, .name = "a.bt", .line = 2, .column = 5, .end_column = 9};
    if (!print_event(&print, &event))
        fputs("not printed", print.out);
}

#define TYPES(...) ((const struct script_type *const[]){__VA_ARGS__, NULL})

static void check_formats(void)
{
    double value = 3.14159;
    TEXT(act(SCRIPT_C_PRINTF, "%f|%.2f|%8.3f|%-8.1f|%g|%e|%d\n", TYPES(&number, &number, &number, &number, &number, &number, &number),
             (double[]){value, value, value, value, value, value, value}, 56),
         "3.141590|3.14|   3.142|3.1     |3.14159|3.141590e+00|3\n");
    TEXT(act(SCRIPT_C_PRINTF, "%d %s %5s|%-6s|%x %%\n", TYPES(&of_enum, &of_enum, &of_enum, &boolean, &boolean),
             (uint64_t[]){1, 1, 1, 1, 1}, 40),
         "1 ONE   ONE|true  |1 %\n");
    TEXT(act(SCRIPT_C_PRINTF, "%+d|% d|%#x|%i|%p|%.1f\n", TYPES(&int64, &int64, &int64, &int64, &pointer, &int64),
             (uint64_t[]){5, 5, 255, (uint64_t)-1, 0, 2}, 48),
         "+5| 5|0xff|-1|0|2.0\n");
    /* What does not fit, and what is missing. */
    TEXT(act(SCRIPT_C_PRINTF, "%d|%d|%s|%", TYPES(&string8, &int64), "abc\0\0\0\0", 8), "abc|0|%s|%");
    TEXT(act(SCRIPT_C_PRINTF, "%q%5%d%l", TYPES(&int64), NULL, 0), "%q%50%l");
    TEXT(act(SCRIPT_C_PRINTF, "%s %r\n", TYPES(&string8, &int64), "abc\0\0\0\0\0\5\0\0\0\0\0\0", 16), "abc 5\n");
    /* The format is the script's, the values are not. */
    SHOWN(act(SCRIPT_C_PRINTF, "\033[1m%s|%6s|%.2s|%c\n", TYPES(&string8, &string8, &string8, &int64),
              "a\033b\0\0\0\0\0\033\0\0\0\0\0\0\0a\033b\0\0\0\0\0\033\0\0\0\0\0\0\0", 32),
          "\033[1ma\\x1bb|  \\x1b|a\\x1b|\\x1b\n");
    JSON(act(SCRIPT_C_PRINTF, "%s\n", TYPES(&string8), "a\033\0\0\0\0\0\0", 8), "{\"type\": \"printf\", \"data\": \"a\\u001b\\n\"}\n");
    start(PRINT_26, false, true);
    struct script_action action = {.call = SCRIPT_C_SYSTEM, .text = "echo %%", .length = 7};
    char *command = print_event_text(&print, &(struct print_event){.action = &action});
    fprintf(print.out, "%s", command);
    free(command);
    /* As wide as a script may ask for. */
    struct script_expr expr = {.type = &int64};
    action = (struct script_action){.text = "%3000000000d", .length = 12, .list = (const struct script_expr *const[]){&expr}, .n_list = 1};
    command = print_event_text(&print, &(struct print_event){.action = &action});
    fprintf(print.out, " %zu", strlen(command));
    free(command);
    finish(__LINE__, "echo % 65536");
}

static void check_actions(void)
{
    TEXT(act(SCRIPT_C_ERRORF, "bad %d", TYPES(&int64), (uint64_t[]){3}, 8), "a.bt:2:5-9: ERROR: bad 3\n");
    TEXT(act(SCRIPT_C_WARNF, "bad\n", NULL, NULL, 0), "a.bt:2:5-9: WARNING: bad\n");
    JSON(act(SCRIPT_C_ERRORF, "bad \"%d\"", TYPES(&int64), (uint64_t[]){3}, 8),
         "{\"type\": \"errorf\", \"msg\": \"bad \\\"3\\\"\", \"filename\": \"a.bt\", \"line\": 2, \"col\": 5}\n");
    TEXT(print.session_to_wall_ns = 3661000000000; act(SCRIPT_C_TIME, NULL, NULL, NULL, 0), "01:01:01\n");
    JSON(act(SCRIPT_C_TIME, "%M\n", NULL, NULL, 0), "{\"type\": \"time\", \"data\": \"00\\n\"}\n");
    TEXT(act(SCRIPT_C_PRINT, NULL, TYPES(&int64), (uint64_t[]){3}, 8), "3\n");
    TEXT(act(SCRIPT_C_EXIT, NULL, NULL, NULL, 0), "not printed");
    const struct script_type strings = {.kind = SCRIPT_T_ARRAY, .bytes = 24, .count = 3, .to = &string8};
    TEXT(act(SCRIPT_C_JOIN, NULL, TYPES(&strings), "ls\0\0\0\0\0\0-l\0\0\0\0\0\0\0\0\0\0\0\0\0", 24), "ls -l\n");
    TEXT(act(SCRIPT_C_JOIN, ",", TYPES(&string8, &string8), "ls\0\0\0\0\0\0-l\0\0\0\0\0", 16), "ls,-l\n");
    JSON(act(SCRIPT_C_JOIN, ",", TYPES(&strings), "ls\0\0\0\0\0\0-l\0\0\0\0\0", 16), "{\"type\": \"join\", \"data\": \"ls,-l\"}\n");
    struct script_action join = {.call = SCRIPT_C_JOIN};
    TEXT(print_event(&print, &(struct print_event){.action = &join, .payload = "ls\0\0-l\0\0abcd\0\0\0\0no", .bytes = 19, .join_bytes = 4}),
         "ls -l abcd\n");
    TEXT(print_event(&print, &(struct print_event){.action = &join, .payload = "ls\0\0-l", .bytes = 6, .join_bytes = 4}), "ls\n");
    TEXT(print_output(&print, PRINT_OUTPUT_CAT, "a\033\n", 3), "a\033\n");
    SHOWN(print_output(&print, PRINT_OUTPUT_CAT, "a\033\n", 3), "a\\x1b\n");
    JSON(print_output(&print, PRINT_OUTPUT_SYSTEM, "a\n", 2), "{\"type\": \"syscall\", \"data\": \"a\\n\"}\n");
    TEXT(print_attached(&print, 1); print_attached(&print, 2);
         print_lost(&print, 7), "Attached 1 probe\nAttached 2 probes\nLost 7 events\n");
    JSON(print_attached(&print, 1); print_lost(&print, 7), "{\"type\": \"attached_probes\", \"count\": 1, \"data\": {\"probes\": 1}}\n"
                                                           "{\"type\": \"lost_events\", \"count\": 7, \"data\": {\"events\": 7}}\n");
    EXPECT(PRINT_17, true, false, print_lost(&print, 7), "{\"type\": \"lost_events\", \"data\": {\"events\": 7}}\n");
    TEXT(print_run_error(&print, &(struct print_event){.name = "a.bt", .line = 1, .column = 2}, "division by zero"),
         "a.bt:1:2: WARNING: division by zero\n");
}

/* ---- maps ---- */

static void show_map(const struct script_type *key, const struct script_type *value, struct drain_entry *entries, size_t n, size_t words,
                     uint64_t top, uint64_t divide)
{
    struct wire_map_type wire = {.key_bytes = key ? (uint32_t)value_bytes(key) : 0, .value_bytes = (uint32_t)words * 8};
    struct script_map map = {.name = "@", .key = key, .value = value};
    struct drain_contents contents = {.type = &wire};
    contents.entry.at = entries;
    contents.entry.n = n;
    print_map(&print, &map, &contents, top, divide);
}

#define ENTRY(key, ...)                                                                                                                    \
    {                                                                                                                                      \
        (const uint8_t *)(key), (const uint64_t[])                                                                                         \
        {                                                                                                                                  \
            __VA_ARGS__                                                                                                                    \
        }                                                                                                                                  \
    }
#define KEY(n) ((const uint64_t[]){(uint64_t)(n)})
#define BAR "|@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n"

static void check_histograms(void)
{
    uint64_t slot[600] = {0};
    struct drain_entry entry[] = {{NULL, slot}};
    const struct script_type hist = {.kind = SCRIPT_T_HIST}, fine = {.kind = SCRIPT_T_HIST, .low = 3};
    slot[6] = 2;
    TEXT(show_map(NULL, &hist, entry, 1, 66, 0, 0), "@:\n[16, 32)               2 " BAR "\n");
    JSON(show_map(NULL, &hist, entry, 1, 66, 0, 0),
         "{\"type\": \"hist\", \"data\": {\"@\": [{\"min\": 16, \"max\": 31, \"count\": 2}]}}\n");
    slot[7] = 1;
    JSON(show_map(NULL, &hist, entry, 1, 66, 0, 0),
         "{\"type\": \"hist\", \"data\": {\"@\": [{\"min\": 16, \"max\": 31, \"count\": 2},{\"min\": 32, "
         "\"max\": 63, \"count\": 1}]}}\n");
    memset(slot, 0, sizeof slot);
    TEXT(show_map(NULL, &hist, entry, 1, 66, 0, 0), "@:\n\n");
    JSON(show_map(NULL, &hist, entry, 1, 66, 0, 0), "{\"type\": \"hist\", \"data\": {\"@\": []}}\n");
    slot[52] = 1; /* 2^50 */
    slot[65] = 1; /* the last */
    start(PRINT_26, false, false);
    show_map(NULL, &hist, entry, 1, 66, 0, 0);
    fflush(print.out);
    checks += 2;
    if (!strstr(text, "\n[1P, 2P) ") || !strstr(text, "\n[8E, ")) {
        failures++;
        printf("units: %s\n", text);
    }
    print_deinit(&print);
    fclose(print.out);
    free(text);

    /* Eight steps in each power of two: 15, then 16 and 17, then 1024 to 1151. */
    memset(slot, 0, sizeof slot);
    slot[16] = slot[17] = 1;
    TEXT(show_map(NULL, &fine, entry, 1, 497, 0, 0), "@:\n[15]                   1 " BAR "[16, 18)               1 " BAR "\n");
    JSON(show_map(NULL, &fine, entry, 1, 497, 0, 0),
         "{\"type\": \"hist\", \"data\": {\"@\": [{\"min\": 15, \"max\": 15, \"count\": 1},{\"min\": 16, \"max\": 17, \"count\": 1}]}}\n");
    slot[16] = slot[17] = 0;
    slot[65] = 1;
    TEXT(show_map(NULL, &fine, entry, 1, 497, 0, 0), "@:\n[1024, 1152)           1 " BAR "\n");
    slot[65] = 0;
    slot[89] = 1;
    TEXT(show_map(NULL, &fine, entry, 1, 497, 0, 0), "@:\n[8K, 9K)               1 " BAR "\n");

    memset(slot, 0, sizeof slot);
    const struct script_type steps = {.kind = SCRIPT_T_LHIST, .low = -10, .high = 15, .step = 10},
                             ones = {.kind = SCRIPT_T_LHIST, .high = 9, .step = 1};
    slot[0] = slot[1] = slot[2] = slot[3] = slot[4] = 1;
    TEXT(show_map(NULL, &steps, entry, 1, 5, 0, 2),
         "@:\n(..., -10)             1 " BAR "[-10, 0)               1 " BAR "[0, 10)                1 " BAR "[10, 15)               1 " BAR
         "[15, ...)              1 " BAR "\n");
    TEXT(show_map(NULL, &ones, entry, 1, 2, 0, 0), "@:\n(..., 0)               1 " BAR "[9, ...)               1 " BAR "\n");
    TEXT(show_map(NULL, &ones, entry, 1, 0, 0, 0), "@:\n\n");
    slot[0] = slot[1] = slot[2] = slot[4] = 0;
    TEXT(show_map(NULL, &ones, entry, 1, 11, 0, 0), "@:\n[2]                    1 " BAR "\n");
}

static void check_maps(void)
{
    struct drain_entry three[] = {ENTRY(KEY(-1), 1, 10), ENTRY(KEY(5), 1, 30), ENTRY(KEY(2), 2, 40)};
    const struct script_type stats = {.kind = SCRIPT_T_STATS, .is_signed = true}, avg = {.kind = SCRIPT_T_AVG, .is_signed = true},
                             count = {.kind = SCRIPT_T_COUNT};
    TEXT(show_map(&int64, &stats, three, 3, 2, 2, 10), "@[2]: count 2, average 2, total 40\n@[5]: count 1, average 3, total 30\n");
    JSON(show_map(&int64, &avg, three, 3, 2, 0, 0), "{\"type\": \"stats\", \"data\": {\"@\": {\"-1\": 10, \"2\": 20, \"5\": 30}}}\n");
    /* Where values are equal, or do not count, keys do, with their sign. */
    TEXT(show_map(&int64, &count, three, 3, 1, 0, 0), "@[-1]: 1\n@[5]: 1\n@[2]: 2\n");
    TEXT(show_map(&int64, &string8, three, 3, 1, 0, 0), "@[-1]: \x01\n@[2]: \x02\n@[5]: \x01\n");
    SHOWN(show_map(&string8, &count, three, 1, 1, 0, 0), "@[\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff..]: 1\n");
    TEXT(show_map(&int64, &count, three, 0, 1, 0, 0), "");
    JSON(show_map(&int64, &count, three, 0, 1, 0, 0), "");
    TEXT(show_map(&boolean, &pointer, three, 1, 1, 0, 0), "@[true]: 0x1\n");
    double numbers[] = {2.5, -1, 1e9};
    struct drain_entry real[] = {{(const uint8_t *)KEY(1), (const uint64_t *)&numbers[0]},
                                 {(const uint8_t *)KEY(2), (const uint64_t *)&numbers[1]},
                                 {(const uint8_t *)KEY(3), (const uint64_t *)&numbers[2]}};
    TEXT(show_map(&int64, &number, real, 3, 1, 0, 0), "@[2]: -1\n@[1]: 2.5\n@[3]: 1000000000\n");

    struct script_item items[] = {{&string8, 0}, {&int32, 8}, {&boolean, 12}}, pair[] = {{&int64, 0}, {&int64, 8}};
    const struct script_type inside = {.kind = SCRIPT_T_TUPLE, .bytes = 16, .count = 2, .items = pair};
    struct script_item nested[] = {{&string8, 0}, {&inside, 8}};
    const struct script_type tuple = {.kind = SCRIPT_T_TUPLE, .bytes = 16, .count = 3, .items = items},
                             deep = {.kind = SCRIPT_T_TUPLE, .bytes = 24, .count = 2, .items = nested};
    struct drain_entry keyed[] = {ENTRY("b c\0\0\0\0\0\xff\xff\xff\xff\1\0\0\0", 1), ENTRY("a\0\0\0\0\0\0\0\7\0\0\0\0\0\0", 1)};
    TEXT(show_map(&tuple, &count, keyed, 2, 1, 0, 0), "@[a, 7, false]: 1\n@[b c, -1, true]: 1\n");
    JSON(show_map(&tuple, &count, keyed, 2, 1, 0, 0), "{\"type\": \"map\", \"data\": {\"@\": {\"a,7,false\": 1, \"b c,-1,true\": 1}}}\n");
    struct drain_entry nest[] = {ENTRY("a\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0", 1)};
    TEXT(show_map(&deep, &count, nest, 1, 1, 0, 0), "@[a, (1, 2)]: 1\n");

    const struct script_map map_b = {.name = "@b", .value = &int64}, map_a = {.name = "@a", .value = &int64};
    struct wire_map_type wire = {.value_bytes = 8};
    struct drain_contents contents = {.type = &wire, .entry = {.at = three, .n = 1}};
    TEXT(print_end(&print, (const struct script_map *const[]){&map_b, &map_a}, (const struct drain_contents *const[]){&contents, &contents},
                   2),
         "\n\n@a: 1\n@b: 1\n");
    JSON(print_end(&print, (const struct script_map *const[]){&map_b, &map_a}, (const struct drain_contents *const[]){&contents, NULL}, 2),
         "{\"type\": \"map\", \"data\": {\"@b\": 1}}\n");
}

/* The examples of bpftrace's tests. */
static void check_series(void)
{
    const struct script_type series = {.kind = SCRIPT_T_TSERIES, .is_signed = true};
    const struct script_map map = {.name = "@", .value = &series}, keyed = {.name = "@a", .key = &string8, .value = &series};
    struct print_point up[3], one[2];
    for (int i = 0; i < 3; i++)
        up[i] = (struct print_point){.wall_ns = UINT64_C(100000000) * (unsigned)(i + 1), .value = 5 * i - 5, .is_known = true};
    up[1].value = -4;
#define SPACES "                         "
    TEXT(print_tseries(&print, &map, &(struct print_series){NULL, 0, up, 3}, 1),
         "@:\n"
         "             -5                                                  5\n"
         "hh:mm:ss.ms  |___________________________________________________|\n"
         "00:00:00.100 *" SPACES "." SPACES "| -5\n"
         "00:00:00.200 |    *                    ." SPACES "| -4\n"
         "00:00:00.300 |" SPACES "." SPACES "* 5\n"
         "             v___________________________________________________v\n"
         "             -5                                                  5\n"
         "\n");
    one[0] = (struct print_point){.wall_ns = 500000000, .value = 4, .is_known = true};
    one[1] = (struct print_point){.wall_ns = 600000000};
    TEXT(print_tseries(&print, &keyed, &(struct print_series){"two\0\0\0\0", 8, one, 2}, 1),
         "@a[two]:\n"
         "             3                                                   5\n"
         "hh:mm:ss.ms  |___________________________________________________|\n"
         "00:00:00.500 |" SPACES "*" SPACES "| 4\n"
         "00:00:00.600 |" SPACES " " SPACES "| -\n"
         "             v___________________________________________________v\n"
         "             3                                                   5\n"
         "\n");
    JSON(print_tseries(&print, &keyed, &(struct print_series){"two\0\0\0\0", 8, one, 2}, 1),
         "{\"type\": \"tseries\", \"data\": {\"@a\": {\"two\": [{\"interval_start\":\"1970-01-01T00:00:00.500000000\",\"value\":4}]}}}\n");
    JSON(print_tseries(&print, &map, &(struct print_series){NULL, 0, one, 0}, 1), "{\"type\": \"tseries\", \"data\": {\"@\": []}}\n");
}

int main(void)
{
    setenv("TZ", "UTC", 1);
    check_records();
    check_numbers();
    check_strings();
    check_names();
    check_buffers();
    check_formats();
    check_actions();
    check_histograms();
    check_maps();
    check_series();
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
