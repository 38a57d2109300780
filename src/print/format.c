/* printf() and its like: the script's format, and the values of a record's payload.
 *
 * Conversions are C's, with C's meaning of flags, width, precision and size, but that %s takes any value (as print() shows it), and %r,
 * %rx and %rh take buffers. A size that is not given is that of int, as in C, so %d cuts a 64-bit number. The script was checked against
 * its types before; a conversion that does not fit its value anyway shows the value. */
#include "print/internal.h"

#include <stdlib.h>
#include <string.h>

/* A script can ask for as much, and not for more. */
enum { WIDEST = 65536 };

struct conversion {
    bool is_left, has_plus, has_space, has_alternate, has_zero;
    int width, precision; /* precision -1: not given */
    char size;            /* 'H' for hh, 'h', 'l' for l, ll, j, z, t; 0 */
    char what;
    char buffer_mode; /* of %r: 0, x, h */
};

/* ---- the payload ---- */

void values_init(struct values *values, const struct print_event *event)
{
    *values = (struct values){.action = event->action, .at = event->payload, .left = event->payload ? event->bytes : 0};
}

bool values_next(struct values *values, struct value *out)
{
    if (values->next >= values->action->n_list)
        return false;
    const struct script_type *type = values->action->list[values->next++]->type;
    size_t bytes = value_bytes(type), there = bytes < values->left ? bytes : values->left;
    static const uint8_t nothing[1];
    *out = (struct value){.type = type, .at = there ? values->at : nothing, .n = there, .encoding = ALONE};
    if (there) {
        values->at += there;
        values->left -= there;
    }
    return true;
}

/* ---- parsing ---- */

static const char *parse_number(const char *at, const char *end, int *out)
{
    int number = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        number = number < WIDEST ? number * 10 + (*at - '0') : WIDEST;
    *out = number < WIDEST ? number : WIDEST;
    return at;
}

static const char *parse_flags(const char *at, const char *end, struct conversion *out)
{
    for (; at < end; at++) {
        bool *flag = *at == '-'   ? &out->is_left
                     : *at == '+' ? &out->has_plus
                     : *at == ' ' ? &out->has_space
                     : *at == '#' ? &out->has_alternate
                     : *at == '0' ? &out->has_zero
                                  : NULL;
        if (!flag)
            break;
        *flag = true;
    }
    return at;
}

/* What follows a %. Returns the end of it, or NULL when it is no conversion. */
static const char *parse_conversion(const char *at, const char *end, struct conversion *out)
{
    *out = (struct conversion){.precision = -1};
    at = parse_flags(at, end, out);
    at = parse_number(at, end, &out->width);
    if (at < end && *at == '.')
        at = parse_number(at + 1, end, &out->precision);
    for (; at < end && strchr("hlLjzt", *at); at++)
        out->size = *at != 'h' ? 'l' : out->size == 'h' ? 'H' : 'h';
    if (at >= end || !strchr("diouxXeEfFgGaAcspr", *at))
        return NULL;
    out->what = *at++;
    if (out->what == 'r' && at < end && (*at == 'x' || *at == 'h'))
        out->buffer_mode = *at++;
    return at;
}

/* ---- putting ---- */

static void put_padded(struct print_text *text, const struct conversion *conversion, const char *bytes, size_t n)
{
    size_t padding = (size_t)conversion->width > n ? (size_t)conversion->width - n : 0;
    if (!conversion->is_left)
        text_fill(text, ' ', padding);
    text_bytes(text, bytes, n);
    if (conversion->is_left)
        text_fill(text, ' ', padding);
}

static uint64_t cut_to_size(uint64_t number, char size, bool is_signed)
{
    switch (size) {
    case 'H':
        return is_signed ? (uint64_t)(int64_t)(int8_t)number : (uint8_t)number;
    case 'h':
        return is_signed ? (uint64_t)(int64_t)(int16_t)number : (uint16_t)number;
    case 'l':
        return number;
    default:
        return is_signed ? (uint64_t)(int64_t)(int32_t)number : (uint32_t)number;
    }
}

/* The conversion in C's own words, with * for width and precision. */
static void spell(const struct conversion *conversion, const char *size, char out[16])
{
    snprintf(out, 16, "%%%s%s%s%s%s*.*%s%c", conversion->is_left ? "-" : "", conversion->has_plus ? "+" : "",
             conversion->has_space ? " " : "", conversion->has_alternate ? "#" : "", conversion->has_zero ? "0" : "", size,
             conversion->what);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* spelled here, out of known letters */
static void put_number(struct print_text *text, const struct conversion *conversion, const struct value *value)
{
    char spelled[16];
    bool is_signed = conversion->what == 'd' || conversion->what == 'i';
    if (strchr("eEfFgGaA", conversion->what)) {
        spell(conversion, "", spelled);
        text_format(text, spelled, conversion->width, conversion->precision, value_double(value));
        return;
    }
    uint64_t number = cut_to_size(value_int(value), conversion->size, is_signed);
    bool is_plain = !conversion->width && conversion->precision < 0 && !conversion->has_plus && !conversion->has_space;
    if (is_plain && (is_signed || conversion->what == 'u')) {
        text_int(text, number, is_signed);
        return;
    }
    spell(conversion, "ll", spelled);
    text_format(text, spelled, conversion->width, conversion->precision, (long long)number);
}
#pragma GCC diagnostic pop

/* A null pointer is (nil) where C's printf() made the text, 0 where C++ streams did. */
static void put_address(struct print *print, struct print_text *text, const struct conversion *conversion, const struct value *value)
{
    char form[32];
    uint64_t address = value_int(value);
    if (address)
        snprintf(form, sizeof form, "0x%llx", (unsigned long long)address);
    else
        snprintf(form, sizeof form, "%s", print->dialect == PRINT_17 ? "(nil)" : "0");
    put_padded(text, conversion, form, strlen(form));
}

/* The precision counts bytes of the process, the width what is shown. */
static void put_any(struct print *print, struct print_text *text, const struct conversion *conversion, const struct value *value,
                    bool for_terminal)
{
    struct print_text *part = &print->part;
    const struct style plain = {0};
    part->n = 0;
    if (conversion->what == 'c') {
        text_char(part, (char)value_int(value));
    } else if (conversion->what == 'r' && value->type->kind == SCRIPT_T_BUFFER) {
        size_t n;
        const uint8_t *at = value_buffer(value, &n);
        value_put_buffer(part, at, n, conversion->buffer_mode);
    } else {
        value_put(print, part, value, &plain);
    }
    if (conversion->what != 'c' && conversion->precision >= 0 && (size_t)conversion->precision < part->n)
        part->n = (size_t)conversion->precision;
    if (!for_terminal) {
        put_padded(text, conversion, part->at, part->n);
        return;
    }
    struct print_text shown = {0};
    text_visible(&shown, part->at, part->n);
    put_padded(text, conversion, shown.at, shown.n);
    free(shown.at);
}

static void put_conversion(struct print *print, struct print_text *text, const struct conversion *conversion, const struct value *value,
                           bool for_terminal)
{
    bool is_number = value_is_number(value->type);
    if (is_number && conversion->what == 'p')
        put_address(print, text, conversion, value);
    else if (is_number && !strchr("csr", conversion->what))
        put_number(text, conversion, value);
    else
        put_any(print, text, conversion, value, for_terminal);
}

void format_put(struct print *print, struct print_text *text, const struct print_event *event, bool for_terminal)
{
    const char *at = event->action->text, *end = at + event->action->length;
    struct values values;
    values_init(&values, event);
    while (at < end) {
        const char *percent = memchr(at, '%', (size_t)(end - at));
        text_bytes(text, at, (size_t)((percent ? percent : end) - at));
        if (!percent)
            break;
        struct conversion conversion;
        struct value value;
        const char *after = parse_conversion(percent + 1, end, &conversion);
        if (percent + 1 < end && percent[1] == '%') {
            text_char(text, '%');
            at = percent + 2;
        } else if (after && values_next(&values, &value)) {
            put_conversion(print, text, &conversion, &value, for_terminal);
            at = after;
        } else {
            text_char(text, '%');
            at = percent + 1;
        }
    }
}
