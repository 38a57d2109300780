/* The address of a symbol by its name, functions and variables alike. */
#ifndef SYMBOL_ADDRESS_H
#define SYMBOL_ADDRESS_H

#include "base/err.h"

#include <stdint.h>

/* From .symtab, .dynsym, or the separate debug file. ERR_NO_MATCH when none has it; other errors as of symbol_file_open(). */
struct err *symbol_address(const char *path, const char *name, uint64_t *va);

#endif
