/* Unwind tables: for every instruction of an ELF file, how its caller is found (wire/unwind.h).
 *
 * In: .eh_frame; where it says nothing, .debug_frame (of the separate debug file, too), then what is known without either: PLT stubs and
 * the code that signal handlers return to. Out: one block of memory that the walker of the controller and that of the agent use as it is.
 *
 * The file is untrusted: see symbol.h. A rule that the table can not express becomes WIRE_CFA_NONE, never a wrong one. */
#ifndef SYMBOL_UNWIND_H
#define SYMBOL_UNWIND_H

#include "symbol/symbol.h"
#include "wire/unwind.h"

/* Of an open file. The table is the caller's, table->bytes long, from malloc(). A file without any call frame information gives one without
 * rows. */
struct wire_unwind *symbol_unwind_build(struct symbol_file *file);

/* Where executable contents of a file go. */
struct symbol_unwind_code {
    uint64_t va, file_offset, size;
};

/* A file of which nothing but the table is wanted: symbols are not read. */
struct symbol_unwind {
    struct wire_unwind *table;
    struct symbol_unwind_code *code; /* by va */
    size_t code_count;
    uint8_t build_id[64];
    size_t build_id_size; /* 0: it has none */
};
/* The descriptor stays the caller's; `path` is for messages and debug links. Errors as symbol_file_open(). */
struct err *symbol_unwind_open_fd(int fd, const char *path, struct symbol_unwind *out);
/* Of a file's bytes in memory, which are copied: the vdso. */
struct err *symbol_unwind_open_memory(const void *bytes, size_t size, const char *path, struct symbol_unwind *out);
void symbol_unwind_deinit(struct symbol_unwind *unwind);

/* Whether `bytes` bytes at `table` are a table that is consistent in itself. */
bool symbol_unwind_is_valid(const void *table, size_t bytes);

#endif
