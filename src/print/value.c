/* One value: out of its bytes, and into text or JSON. */
#include "print/internal.h"

#include <arpa/inet.h>
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_SYMBOL = 4096, DEEPEST = 100 };

/* ---- reading ---- */

/* Up to 16 bytes from `offset` on; what is not there is zero. */
static void copy_out(const struct value *value, size_t offset, void *to, size_t n)
{
    size_t there = offset < value->n ? value->n - offset : 0;
    memset(to, 0, n);
    if (there)
        memcpy(to, value->at + offset, there < n ? there : n);
}

static uint64_t read_word(const struct value *value, size_t offset, size_t bytes)
{
    uint64_t word = 0;
    copy_out(value, offset, &word, bytes < 8 ? bytes : 8);
    return word;
}

static struct value part_of(const struct value *whole, const struct script_type *type, uint64_t offset, enum encoding encoding)
{
    uint64_t cut = offset < whole->n ? offset : whole->n;
    return (struct value){.type = type, .at = whole->at + cut, .n = whole->n - cut, .encoding = encoding};
}

struct value value_item(const struct value *tuple, uint64_t index)
{
    const struct script_item *item = &tuple->type->items[index];
    return part_of(tuple, item->type, item->offset, IN_TUPLE);
}

bool value_is_number(const struct script_type *type)
{
    return type->kind == SCRIPT_T_BOOL || type->kind == SCRIPT_T_INT || type->kind == SCRIPT_T_POINTER || type->kind == SCRIPT_T_DOUBLE;
}

size_t value_bytes(const struct script_type *type)
{
    uint64_t bytes = type->bytes;
    switch (type->kind) {
    case SCRIPT_T_BOOL:
    case SCRIPT_T_INT:
    case SCRIPT_T_POINTER:
    case SCRIPT_T_DOUBLE:
        return 8;
    case SCRIPT_T_BUFFER:
        bytes += 8;
        break;
    default:
        break;
    }
    return (size_t)((bytes + 7) & ~UINT64_C(7));
}

static uint64_t extend(uint64_t word, unsigned bits, bool is_signed)
{
    unsigned shift = bits && bits < 64 ? 64 - bits : 0;
    return is_signed ? (uint64_t)((int64_t)(word << shift) >> shift) : word << shift >> shift;
}

static uint64_t read_bits(const struct value *value)
{
    uint64_t low = read_word(value, 0, 8) >> value->bit_offset;
    if (value->bit_offset)
        low |= read_word(value, 8, 1) << (64 - value->bit_offset);
    return extend(low, value->bit_size, value->type->is_signed);
}

static uint64_t read_int(const struct value *value)
{
    const struct script_type *type = value->type;
    if (value->bit_size)
        return read_bits(value);
    unsigned bytes = type->bytes < 8 ? (unsigned)type->bytes : 8;
    if (type->kind == SCRIPT_T_POINTER && value->encoding != IN_MEMORY)
        bytes = 8;
    uint64_t word = read_word(value, 0, bytes);
    return type->kind == SCRIPT_T_BOOL ? word != 0 : extend(word, bytes * 8, type->kind == SCRIPT_T_INT && type->is_signed);
}

double value_double(const struct value *value)
{
    if (value->type->kind != SCRIPT_T_DOUBLE)
        return value->type->is_signed ? (double)(int64_t)read_int(value) : (double)read_int(value);
    double number = 0;
    uint64_t bytes = value->encoding == IN_MEMORY ? value->type->bytes : 8;
    if (bytes == 4) {
        float small;
        copy_out(value, 0, &small, sizeof small);
        number = small;
    } else if (bytes > 8) {
        long double large = 0; /* x87: ten bytes, whatever room the model gives it */
        copy_out(value, 0, &large, 10);
        number = (double)large;
    } else {
        copy_out(value, 0, &number, sizeof number);
    }
    return number;
}

uint64_t value_int(const struct value *value)
{
    if (!value_is_number(value->type))
        return 0;
    if (value->type->kind != SCRIPT_T_DOUBLE)
        return read_int(value);
    const double limit = 9223372036854775808.0; /* 2^63 */
    double number = value_double(value);
    return number > -limit && number < limit ? (uint64_t)(int64_t)number : UINT64_C(1) << 63;
}

bool value_string(const struct value *value, const char **bytes, size_t *n)
{
    const struct script_type *type = value->type;
    bool is_array = type->kind == SCRIPT_T_ARRAY && type->to && type->to->kind == SCRIPT_T_INT && type->to->is_char;
    if (type->kind != SCRIPT_T_STRING && !is_array)
        return false;
    *bytes = (const char *)value->at;
    size_t most = type->bytes < value->n ? (size_t)type->bytes : value->n;
    *n = most ? strnlen(*bytes, most) : 0;
    return true;
}

const uint8_t *value_buffer(const struct value *value, size_t *n)
{
    uint64_t length = read_word(value, 0, 8);
    size_t there = value->n > 8 ? value->n - 8 : 0;
    if (length > value->type->bytes)
        length = value->type->bytes;
    *n = length < there ? (size_t)length : there;
    return there ? value->at + 8 : NULL;
}

/* ---- comparing ---- */

static int compare_numbers(const struct value *a, const struct value *b)
{
    if (a->type->kind == SCRIPT_T_DOUBLE) {
        double x = value_double(a), y = value_double(b);
        return x < y ? -1 : x > y;
    }
    uint64_t x = read_int(a), y = read_int(b);
    if (a->type->kind == SCRIPT_T_INT && a->type->is_signed)
        return (int64_t)x < (int64_t)y ? -1 : x != y;
    return x < y ? -1 : x > y;
}

static int compare_bytes(const void *a, size_t a_n, const void *b, size_t b_n)
{
    size_t n = a_n < b_n ? a_n : b_n;
    int order = n ? memcmp(a, b, n) : 0;
    return order ? order : a_n < b_n ? -1 : a_n > b_n;
}

int value_compare(const struct value *a, const struct value *b)
{
    const char *x, *y;
    size_t x_n, y_n;
    if (value_is_number(a->type))
        return compare_numbers(a, b);
    if (value_string(a, &x, &x_n) && value_string(b, &y, &y_n))
        return compare_bytes(x, x_n, y, y_n);
    if (a->type->kind == SCRIPT_T_TUPLE) {
        int order = 0;
        for (uint64_t i = 0; i < a->type->count && !order; i++) {
            struct value from_a = value_item(a, i), from_b = value_item(b, i);
            order = value_compare(&from_a, &from_b);
        }
        return order;
    }
    size_t bytes = value_bytes(a->type);
    return compare_bytes(a->at, a->n < bytes ? a->n : bytes, b->at, b->n < bytes ? b->n : bytes);
}

/* ---- single values ---- */

void value_put_said(struct print_text *text, const char *bytes, size_t n, const struct style *style)
{
    if (style->json)
        text_json(text, bytes, n, style->for_terminal);
    else if (style->for_terminal)
        text_visible(text, bytes, n);
    else
        text_bytes(text, bytes, n);
}

static void put_int128(struct print_text *text, const struct value *value)
{
    unsigned __int128 number;
    copy_out(value, 0, &number, sizeof number);
    bool is_negative = value->type->is_signed && (__int128)number < 0;
    if (is_negative)
        number = -number;
    char digits[48];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + (unsigned)(number % 10));
        number /= 10;
    } while (number);
    if (is_negative)
        text_char(text, '-');
    text_bytes(text, digits + at, sizeof digits - at);
}

static const char *constant_name(const struct script_enum *enumeration, uint64_t value)
{
    for (size_t i = 0; i < enumeration->n_constants; i++)
        if ((uint64_t)enumeration->constants[i].value == value)
            return enumeration->constants[i].name;
    return NULL;
}

static void put_int(struct print *print, struct print_text *text, const struct value *value, const struct style *style)
{
    const struct script_type *type = value->type;
    if (type->bytes > 8 && value->encoding == IN_MEMORY && !value->bit_size) {
        put_int128(text, value);
        return;
    }
    uint64_t number = read_int(value);
    const char *name = type->enumeration && !style->json && print->dialect != PRINT_17 ? constant_name(type->enumeration, number) : NULL;
    if (name) {
        text_string(text, name);
        return;
    }
    if (style->divide > INT64_MAX)
        number = type->is_signed ? 0 : number / style->divide;
    else if (style->divide > 1)
        number = type->is_signed ? (uint64_t)((int64_t)number / (int64_t)style->divide) : number / style->divide;
    if (style->json)
        text_json_int(text, number, type->is_signed, print->dialect);
    else
        text_int(text, number, type->is_signed);
}

/* 0.17 shows pointers as numbers. So does all JSON. */
static void put_pointer(struct print *print, struct print_text *text, const struct value *value, const struct style *style)
{
    uint64_t address = read_int(value);
    if (style->json)
        text_json_int(text, address, false, print->dialect);
    else
        text_format(text, print->dialect == PRINT_17 ? "%llu" : "0x%llx", (unsigned long long)address);
}

/* The shortest of two forms that reads back as the same number. JSON has no infinity. */
static void put_double(struct print_text *text, const struct value *value, const struct style *style)
{
    double number = value_double(value);
    char form[40];
    if (style->json && !isfinite(number)) {
        text_string(text, "null");
        return;
    }
    snprintf(form, sizeof form, "%.15g", number);
    if (strtod(form, NULL) != number)
        snprintf(form, sizeof form, "%.17g", number);
    text_string(text, form);
}

static void put_bool(struct print *print, struct print_text *text, const struct value *value)
{
    bool is_true = read_int(value) != 0;
    if (print->dialect == PRINT_17)
        text_char(text, is_true ? '1' : '0');
    else
        text_string(text, is_true ? "true" : "false");
}

static void put_string(struct print *print, struct print_text *text, const struct value *value, const struct style *style)
{
    const char *bytes;
    size_t n;
    value_string(value, &bytes, &n);
    /* A string without its NUL was cut, or one as long as they can be: 0.26 says so. */
    bool is_cut = n >= value->type->bytes || (print->max_strlen && n + 1 == print->max_strlen);
    if (value->type->kind != SCRIPT_T_STRING || !is_cut || print->dialect == PRINT_17) {
        value_put_said(text, bytes, n, style);
        return;
    }
    struct print_text whole = {0};
    text_bytes(&whole, bytes, n);
    text_string(&whole, print->trailer ? print->trailer : "..");
    value_put_said(text, whole.at, whole.n, style);
    free(whole.at);
}

void value_put_buffer(struct print_text *text, const uint8_t *at, size_t n, char mode)
{
    for (size_t i = 0; i < n; i++)
        if (mode == 'h')
            text_format(text, "%s%02x", i ? " " : "", at[i]);
        else if (mode == 'x' || at[i] < 32 || at[i] > 126)
            text_format(text, "\\x%02x", at[i]);
        else
            text_char(text, (char)at[i]);
}

/* As JSON, 0.17 has the text in quotes, 0.26 the bytes as signed numbers. */
static void put_buffer(struct print *print, struct print_text *text, const struct value *value, const struct style *style)
{
    size_t n;
    const uint8_t *at = value_buffer(value, &n);
    if (!style->json) {
        value_put_buffer(text, at, n, 0);
    } else if (print->dialect == PRINT_17) {
        struct print_text plain = {0};
        value_put_buffer(&plain, at, n, 0);
        text_json(text, plain.at, plain.n, style->for_terminal);
        free(plain.at);
    } else {
        text_char(text, '[');
        for (size_t i = 0; i < n; i++)
            text_format(text, "%s%d", i ? "," : "", (signed char)at[i]);
        text_char(text, ']');
    }
}

static void put_symbol(struct print *print, struct print_text *text, const struct value *value, const struct style *style)
{
    uint64_t address_va = read_word(value, 0, 8);
    uint32_t pid = (uint32_t)read_word(value, 8, 4);
    char name[LARGEST_SYMBOL];
    if (!print->names.symbol || !print->names.symbol(print->names.cookie, address_va, pid, name, sizeof name))
        snprintf(name, sizeof name, "0x%llx", (unsigned long long)address_va);
    value_put_said(text, name, strnlen(name, sizeof name), style);
}

static void put_timestamp(struct print *print, struct print_text *text, const struct value *value, const struct style *style)
{
    uint64_t ns = read_word(value, 0, 8);
    uint32_t clock = (uint32_t)read_word(value, 8, 4), number = (uint32_t)read_word(value, 12, 4);
    const char *format = print->names.time_format ? print->names.time_format(print->names.cookie, number) : NULL;
    struct print_text made = {0};
    if (format)
        time_put(print, &made, format, time_wall_ns(print, clock, ns));
    else
        text_string(&made, "(?)");
    /* The text is the script's. */
    if (style->json)
        text_json(text, made.at, made.n, style->for_terminal);
    else
        text_bytes(text, made.at, made.n);
    free(made.at);
}

static void put_mac(struct print_text *text, const struct value *value, const struct style *style)
{
    uint8_t byte[6];
    copy_out(value, 0, byte, sizeof byte);
    const char *quote = style->json ? "\"" : "";
    text_format(text, "%s%02X:%02X:%02X:%02X:%02X:%02X%s", quote, byte[0], byte[1], byte[2], byte[3], byte[4], byte[5], quote);
}

static void put_inet(struct print_text *text, const struct value *value, const struct style *style)
{
    uint32_t family = (uint32_t)read_word(value, 0, 4);
    uint8_t address[16];
    copy_out(value, 8, address, sizeof address);
    char form[INET6_ADDRSTRLEN] = "";
    if (family == AF_INET || family == AF_INET6)
        inet_ntop((int)family, address, form, sizeof form);
    value_put_said(text, form, strlen(form), style);
}

/* As bpftrace does, /etc/passwd alone is asked: other sources of users may have to ask a server. No entry: nothing. */
static void put_user(struct print_text *text, uint32_t uid)
{
    FILE *file = fopen("/etc/passwd", "re");
    char line[1024];
    struct passwd entry, *found = NULL;
    if (!file)
        return;
    while (!fgetpwent_r(file, &entry, line, sizeof line, &found) && found->pw_uid != uid)
        found = NULL;
    if (found)
        text_string(text, found->pw_name);
    fclose(file);
}

static void put_name(struct print *print, struct print_text *text, uint32_t what, uint32_t number)
{
    char error[128];
    const char *name = NULL;
    switch (what) {
    case PRINT_NAME_USER:
        put_user(text, number);
        return;
    case PRINT_NAME_ERROR:
        text_string(text, strerror_r((int)number, error, sizeof error));
        return;
    case PRINT_NAME_FUNCTION:
    case PRINT_NAME_PROBE:
    case PRINT_NAME_PROBE_TYPE:
    case PRINT_NAME_PROCESS:
        name = print->names.name ? print->names.name(print->names.cookie, (enum print_name)what, number) : NULL;
        break;
    }
    if (name)
        text_string(text, name);
    else
        text_format(text, "%u", number);
}

void value_put_name(struct print *print, struct print_text *text, const struct value *value, const struct style *style)
{
    struct print_text name = {0};
    put_name(print, &name, (uint32_t)read_word(value, 4, 4), (uint32_t)read_word(value, 0, 4));
    value_put_said(text, name.at, name.n, style);
    free(name.at);
}

/* ---- composed values ---- */

static void put_at_depth(struct print *print, struct print_text *text, const struct value *value, const struct style *style,
                         unsigned depth);

/* Ends where the bytes end, whatever the type says. */
static void put_array(struct print *print, struct print_text *text, const struct value *value, const struct style *style, unsigned depth)
{
    const struct script_type *of = value->type->to;
    text_char(text, '[');
    for (uint64_t i = 0, offset = 0; of && of->bytes && i < value->type->count && value->n - offset >= of->bytes; i++) {
        struct value element = part_of(value, of, offset, IN_MEMORY);
        element.n = (size_t)of->bytes;
        if (i)
            text_char(text, ',');
        put_at_depth(print, text, &element, style, depth);
        offset += of->bytes;
    }
    text_char(text, ']');
}

static void put_tuple(struct print *print, struct print_text *text, const struct value *value, const struct style *style, unsigned depth)
{
    text_char(text, style->json ? '[' : '(');
    for (uint64_t i = 0; i < value->type->count; i++) {
        struct value item = value_item(value, i);
        if (i)
            text_string(text, style->json ? "," : ", ");
        put_at_depth(print, text, &item, style, depth);
    }
    text_char(text, style->json ? ']' : ')');
}

/* Members of anonymous members are shown as the record's own. Returns how many were shown before and here. */
static size_t put_members(struct print *print, struct print_text *text, const struct value *value, const struct style *style,
                          unsigned depth, size_t shown)
{
    const struct script_record *record = value->type->record;
    for (size_t i = 0; record && depth && i < record->n_members; i++) {
        const struct script_member *member = &record->members[i];
        struct value part = part_of(value, member->type, member->offset, IN_MEMORY);
        part.bit_offset = member->bit_offset & 7;
        part.bit_size = member->bit_size;
        if (!member->name) {
            if (member->type->kind == SCRIPT_T_RECORD)
                shown = put_members(print, text, &part, style, depth - 1, shown);
            continue;
        }
        if (shown++)
            text_string(text, ", ");
        if (style->json) {
            text_json(text, member->name, strlen(member->name), style->for_terminal);
            text_string(text, ": ");
        } else {
            text_format(text, ".%s = ", member->name);
        }
        put_at_depth(print, text, &part, style, depth);
    }
    return shown;
}

static void put_record(struct print *print, struct print_text *text, const struct value *value, const struct style *style, unsigned depth)
{
    size_t start = text->n;
    text_string(text, style->json && print->dialect != PRINT_17 ? "{" : "{ ");
    if (!put_members(print, text, value, style, depth, 0) && print->dialect != PRINT_17) {
        text->n = start;
        text_string(text, "{}");
        return;
    }
    text_string(text, style->json && print->dialect != PRINT_17 ? "}" : " }");
}

static void put_at_depth(struct print *print, struct print_text *text, const struct value *value, const struct style *style, unsigned depth)
{
    const struct script_type *type = value->type;
    const char *bytes;
    size_t n;
    if (!depth) {
        text_string(text, "null");
        return;
    }
    switch (type->kind) {
    case SCRIPT_T_BOOL:
        put_bool(print, text, value);
        break;
    case SCRIPT_T_INT:
        put_int(print, text, value, style);
        break;
    case SCRIPT_T_DOUBLE:
        put_double(text, value, style);
        break;
    case SCRIPT_T_POINTER:
        put_pointer(print, text, value, style);
        break;
    case SCRIPT_T_STRING:
        put_string(print, text, value, style);
        break;
    case SCRIPT_T_BUFFER:
        put_buffer(print, text, value, style);
        break;
    case SCRIPT_T_ARRAY:
        if (value_string(value, &bytes, &n))
            put_string(print, text, value, style);
        else
            put_array(print, text, value, style, depth - 1);
        break;
    case SCRIPT_T_RECORD:
        put_record(print, text, value, style, depth - 1);
        break;
    case SCRIPT_T_TUPLE:
        put_tuple(print, text, value, style, depth - 1);
        break;
    case SCRIPT_T_SYMBOL:
        put_symbol(print, text, value, style);
        break;
    case SCRIPT_T_NAME:
        value_put_name(print, text, value, style);
        break;
    case SCRIPT_T_TIMESTAMP:
        put_timestamp(print, text, value, style);
        break;
    case SCRIPT_T_MAC:
        put_mac(text, value, style);
        break;
    case SCRIPT_T_INET:
        put_inet(text, value, style);
        break;
    case SCRIPT_T_STACK:
        stack_put(print, text, read_word(value, 0, 8), style);
        break;
    default: /* has no value of its own */
        text_string(text, "null");
        break;
    }
}

void value_put(struct print *print, struct print_text *text, const struct value *value, const struct style *style)
{
    put_at_depth(print, text, value, style, DEEPEST);
}
