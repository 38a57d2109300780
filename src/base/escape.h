/* Text that came from elsewhere (a file, a process), made fit for JSON and for terminals. */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include <stdint.h>
#include <stdio.h>

/* Length of the UTF-8 sequence at `text`, 0 when it is none. Overlong forms and surrogates are none. */
unsigned escape_utf8_length(const uint8_t *text);
/* Writes a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void escape_json(FILE *out, const char *text);
/* Control characters, the marks that reverse the direction of writing, and bytes that are not UTF-8 are made visible as \xNN. */
void escape_plain(FILE *out, const char *text);

#endif
