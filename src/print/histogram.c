/* Histograms: hist(), of powers of two, each in 2^bits steps, and lhist(), linear. Slots are as wire/stream.h has them. */
#include "print/internal.h"

#include <string.h>

enum { BAR = 52 };

/* What a slot counts: low <= value < high. */
struct range {
    int64_t low, high;
    bool is_below, is_above;        /* no lower, no upper end */
    unsigned low_power, high_power; /* of hist(): by which power of two the end was scaled, for its unit */
};

/* ---- ranges ---- */

/* The first slot is for negative values, the next 2^bits for one value each. Then each 2^bits double in width. */
static uint64_t power_low(uint64_t step, unsigned bits, unsigned *power)
{
    uint64_t n = UINT64_C(1) << bits;
    *power = step < 2 * n ? 0 : (unsigned)(step >> bits) - 1;
    return step < 2 * n ? step : *power < 64 ? (n + (step & (n - 1))) << *power : 0;
}

static struct range power_range(const struct script_type *type, size_t slot)
{
    unsigned bits = type->low > 0 && type->low <= 5 ? (unsigned)type->low : 0;
    struct range range = {0};
    if (!slot) {
        range.is_below = true;
        return range;
    }
    range.low = (int64_t)power_low(slot - 1, bits, &range.low_power);
    range.high = (int64_t)power_low(slot, bits, &range.high_power);
    return range;
}

static struct range linear_range(const struct script_type *type, size_t slot, size_t n)
{
    struct range range = {.low = type->low, .high = type->low};
    uint64_t step = (uint64_t)type->step;
    if (!slot) {
        range.is_below = true;
    } else if (slot + 1 == n) {
        range.is_above = true;
        range.low = type->high;
    } else {
        range.low = (int64_t)((uint64_t)type->low + (slot - 1) * step);
        range.high = slot + 2 == n ? type->high : (int64_t)((uint64_t)range.low + step);
    }
    return range;
}

/* ---- text ---- */

/* The unit goes by the power that scaled the number of steps, so that with steps 1024 may be 1024 or 1K. */
static void put_power_label(const struct print *print, struct print_text *text, uint64_t value, unsigned power)
{
    static const char units[] = {0, 'K', 'M', 'G', 'T', 'P', 'E'};
    unsigned unit = power / 10, largest = print->dialect == PRINT_17 ? 4 : 6;
    if (unit > largest)
        unit = largest;
    text_format(text, "%llu", (unsigned long long)(value >> (10 * unit)));
    if (units[unit])
        text_char(text, units[unit]);
}

static void put_linear_label(const struct print *print, struct print_text *text, int64_t value, int64_t step)
{
    enum { KILO = 1024, MEGA = KILO * KILO };
    bool has_unit = value && (print->dialect == PRINT_17 || step % KILO == 0);
    if (has_unit && value % MEGA == 0)
        text_format(text, "%lldM", (long long)(value / MEGA));
    else if (has_unit && value % KILO == 0)
        text_format(text, "%lldK", (long long)(value / KILO));
    else
        text_format(text, "%lld", (long long)value);
}

static void put_end(const struct print *print, struct print_text *text, const struct script_type *type, int64_t value, unsigned power)
{
    if (type->kind == SCRIPT_T_LHIST)
        put_linear_label(print, text, value, type->step);
    else
        put_power_label(print, text, (uint64_t)value, power);
}

static void put_range(const struct print *print, struct print_text *text, const struct script_type *type, const struct range *range)
{
    bool is_single = !range->is_below && !range->is_above && (uint64_t)range->high - (uint64_t)range->low == 1 &&
                     (type->kind == SCRIPT_T_HIST || (print->dialect != PRINT_17 && type->step % 1024 != 0));
    text_string(text, range->is_below ? "(..." : "[");
    if (!range->is_below)
        put_end(print, text, type, range->low, range->low_power);
    if (is_single) {
        text_char(text, ']');
        return;
    }
    text_string(text, ", ");
    if (range->is_above)
        text_string(text, "...");
    else
        put_end(print, text, type, range->high, range->high_power);
    text_char(text, ')');
}

static void put_row(const struct print *print, struct print_text *text, const struct script_type *type, const struct range *range,
                    uint64_t count, unsigned bar)
{
    size_t start = text->n;
    put_range(print, text, type, range);
    size_t width = text->n - start;
    text_fill(text, ' ', width < 16 ? 16 - width : 0);
    text_format(text, "%8llu |", (unsigned long long)count);
    text_fill(text, '@', bar);
    text_fill(text, ' ', BAR - bar);
    text_string(text, "|\n");
}

/* ---- JSON ---- */

/* Ends are inclusive. */
static void put_object(const struct print *print, struct print_text *text, const struct range *range, uint64_t count)
{
    text_char(text, '{');
    if (!range->is_below) {
        text_string(text, "\"min\": ");
        text_json_int(text, (uint64_t)range->low, true, print->dialect);
        text_string(text, ", ");
    }
    if (!range->is_above) {
        text_string(text, "\"max\": ");
        text_json_int(text, (uint64_t)range->high - 1, true, print->dialect);
        text_string(text, ", ");
    }
    text_format(text, "\"count\": %llu}", (unsigned long long)count);
}

/* In single precision, as bpftrace has it, so that the length is the same. 0.26 divides first. */
static unsigned bar_length(const struct print *print, uint64_t count, uint64_t most, uint64_t divide)
{
    if (print->dialect != PRINT_17) {
        count /= divide;
        most /= divide;
    }
    return most ? (unsigned)((float)count / (float)most * BAR) : 0;
}

void histogram_put(struct print *print, struct print_text *text, const struct script_type *type, const uint64_t *slot, size_t n,
                   uint64_t divide)
{
    size_t first = n, last = 0;
    uint64_t most = 0;
    bool is_linear = type->kind == SCRIPT_T_LHIST;
    /* Linear ones are not divided. */
    if (!divide || is_linear)
        divide = 1;
    for (size_t i = 0; i < n; i++) {
        first = slot[i] && first == n ? i : first;
        last = slot[i] ? i : last;
        most = slot[i] > most ? slot[i] : most;
    }
    if (print->json)
        text_char(text, '[');
    for (size_t i = first; i < n && i <= last; i++) {
        struct range range = is_linear ? linear_range(type, i, n) : power_range(type, i);
        if (!print->json) {
            put_row(print, text, type, &range, slot[i] / divide, bar_length(print, slot[i], most, divide));
            continue;
        }
        if (i > first)
            text_string(text, print->dialect == PRINT_17 ? ", " : ",");
        put_object(print, text, &range, slot[i] / divide);
    }
    if (print->json)
        text_char(text, ']');
}
