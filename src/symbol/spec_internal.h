/* Shared by the files of symbol/ that implement spec.h. */
#ifndef SYMBOL_SPEC_INTERNAL_H
#define SYMBOL_SPEC_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a file's last component is what a short name means: the name itself, with version characters, .so and a version, or
 * -VERSION.so behind it. */
bool spec_short_name_fits(const char *name, const char *component);
/* The part of a demangled name without return type and parameters; its length. */
size_t spec_bare_name(const char *demangled, const char **start);

#endif
