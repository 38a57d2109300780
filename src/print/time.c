/* Times of day. */
#include "print/internal.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SECOND_NS = 1000000000, LARGEST_TIME = 65536 };

uint64_t time_wall_ns(const struct print *print, uint32_t clock, uint64_t ns)
{
    switch (clock) {
    case PRINT_CLOCK_SESSION:
        return ns + (uint64_t)print->session_to_wall_ns;
    case PRINT_CLOCK_BOOT:
        return ns + (uint64_t)print->boot_to_wall_ns;
    default:
        return ns;
    }
}

/* %f is microseconds in six digits. In 0.26, %k is nanoseconds in nine and %l milliseconds in three; before, they are strftime(3)'s. */
static void put_fractions(const struct print *print, struct print_text *text, const char *format, unsigned ns)
{
    for (const char *at = format; *at; at++) {
        if (*at != '%' || !at[1]) {
            text_char(text, *at);
            continue;
        }
        at++;
        if (*at == 'f')
            text_format(text, "%06u", ns / 1000);
        else if (*at == 'k' && print->dialect != PRINT_17)
            text_format(text, "%09u", ns);
        else if (*at == 'l' && print->dialect != PRINT_17)
            text_format(text, "%03u", ns / 1000000);
        else
            text_format(text, "%%%c", *at);
    }
    text_char(text, 0);
}

void time_put(struct print *print, struct print_text *text, const char *format, uint64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / SECOND_NS);
    struct tm local;
    if (!*format)
        return;
    if (!localtime_r(&seconds, &local)) {
        text_string(text, "(?)");
        return;
    }
    struct print_text whole = {0};
    put_fractions(print, &whole, format, (unsigned)(wall_ns % SECOND_NS));
    size_t n = 0;
    for (size_t room = 256; !n && room <= LARGEST_TIME; room *= 4) {
        char *made = memory_alloc(room);
        n = strftime(made, room, whole.at, &local);
        text_bytes(text, made, n);
        free(made);
    }
    if (!n)
        text_string(text, "(?)");
    free(whole.at);
}
