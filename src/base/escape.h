/* Text that came from elsewhere (a file, a process), made fit for JSON and for terminals. What a terminal acts on is said here and nowhere
 * else: control characters of one byte and of two (as UTF-8), bytes that are not UTF-8, which 8-bit terminals take for control characters,
 * and marks that change the direction of writing or end lines, which show letters in another order than they are in. */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Length of the UTF-8 sequence at `text`, of which there are `bytes` > 0; 0 when it is none. Overlong forms and surrogates are none. */
unsigned escape_utf8_length(const uint8_t *text, size_t bytes);
/* Whether a terminal acts on it; `length` is what escape_utf8_length() says. Newline and tab are of these. */
bool escape_is_hostile(const uint8_t *text, unsigned length);
/* The character of a UTF-8 sequence. */
uint32_t escape_character(const uint8_t *text, unsigned length);

/* Writes a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD, and what a terminal would act on \uNNNN. */
void escape_json(FILE *out, const char *text);
/* What a terminal acts on is made visible as \xNN. */
void escape_plain(FILE *out, const char *text);
/* The same, but for newlines and tabs, which stay: text of several lines. */
void escape_lines(FILE *out, const char *text);

#endif
