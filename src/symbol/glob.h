/* Shell patterns over bytes. fnmatch(3) depends on the locale, fails on bytes that are no characters in it, and is slow. */
#ifndef SYMBOL_GLOB_H
#define SYMBOL_GLOB_H

#include <stdbool.h>

/* Whether `text` holds any of * ? [ */
bool symbol_glob_is(const char *text);
/* Matches the whole of `text`: * any bytes, ? any byte, [...] [!...] [a-z] a set; a backslash takes the next byte as it is; a [ without its
 * ] is itself. With `is_path` none of them matches a slash. Time is at most the product of both lengths. */
bool symbol_glob_match(const char *pattern, const char *text, bool is_path);

#endif
