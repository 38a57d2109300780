/* What an ELF file says about its code: functions with names and ranges, executable bytes, addresses that something may jump to.
 *
 * In: a path. Out: plain tables, sorted, owned by the file object. The file is untrusted: every offset, size and count in it is checked,
 * and a hostile file gives an error or fewer symbols, never a crash, a hang or memory beyond a small multiple of the file's size.
 *
 * Invariants
 *  1. Addresses are the file's own (p_vaddr), before any load bias.
 *  2. Function ranges lie inside executable segments and do not overlap, except that several names may share one range (aliases).
 *  3. Nothing here touches a process.
 */
#ifndef SYMBOL_SYMBOL_H
#define SYMBOL_SYMBOL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol_file;

/* ERR_FILE when it is not ELF, not for x86 (EM_X86_64 with ELFCLASS64, EM_386 with ELFCLASS32), or damaged; ERR_PERMISSION and ERR_NO_MATCH
 * (no such file) as open(2) says. Also looks for symbols in .gnu_debugdata and in separate debug files (by build-id under
 * /usr/lib/debug/.build-id, by .gnu_debuglink). */
struct err *symbol_file_open(const char *path, struct symbol_file **out);
/* As symbol_file_open(), on an open descriptor (which stays the caller's); `path` is for messages and debug links. */
struct err *symbol_file_open_fd(int fd, const char *path, struct symbol_file **out);
void symbol_file_close(struct symbol_file *file); /* accepts NULL */

const char *symbol_file_path(const struct symbol_file *file);
int symbol_file_width(const struct symbol_file *file);               /* 32 or 64 */
bool symbol_file_is_dynamic(const struct symbol_file *file);         /* ET_DYN: PIE or shared object, loaded with a bias */
uint64_t symbol_file_entry(const struct symbol_file *file);          /* e_entry */
const char *symbol_file_interpreter(const struct symbol_file *file); /* PT_INTERP or NULL */
/* Build-id bytes, or NULL with *size = 0. */
const uint8_t *symbol_file_build_id(const struct symbol_file *file, size_t *size);

/* A PT_LOAD segment with its bytes in the file. */
struct symbol_segment {
    uint64_t va;          /* p_vaddr */
    uint64_t file_offset; /* p_offset */
    uint64_t size;        /* p_filesz */
    const uint8_t *bytes; /* `size` bytes, owned by the file object */
    bool executable;
};
const struct symbol_segment *symbol_file_segments(const struct symbol_file *file, size_t *count);
/* The executable segment's bytes at `va`, with how many follow in *available; NULL when `va` is not in executable file contents. */
const uint8_t *symbol_file_text(const struct symbol_file *file, uint64_t va, size_t *available);

enum symbol_source {
    SYMBOL_FROM_SYMTAB,   /* .symtab of the file or of its separate debug file, or .gnu_debugdata */
    SYMBOL_FROM_DYNSYM,   /* .dynsym */
    SYMBOL_FROM_PLT,      /* a PLT stub, named like malloc@plt */
    SYMBOL_FROM_EH_FRAME, /* a range in .eh_frame that no symbol names; its name is sub_<hex address> */
};

struct symbol_func {
    uint64_t va;
    uint64_t size;         /* bytes; never 0: where the symbol gives none, up to the end of its FDE or the next function */
    const char *name;      /* as in the file, without a @VERSION */
    const char *demangled; /* C++ or Rust name, else equal to `name` (same pointer) */
    uint8_t source;        /* enum symbol_source */
    bool is_ifunc;         /* STT_GNU_IFUNC: the range is the resolver's */
    bool is_fragment;      /* a part of another function that was split off (.cold, .part moved away): `parent_va` says whose */
    uint64_t parent_va;    /* entry of the function this fragment belongs to, else equal to `va` */
};
/* Sorted by va, then by name. Aliases are all present. */
const struct symbol_func *symbol_file_funcs(const struct symbol_file *file, size_t *count);
/* Whether its code may run on stacks that end little below the stack pointer, as goroutines and split stacks do: it was made by Go's
 * compiler, or has what grows such a stack. */
bool symbol_file_has_small_stacks(const struct symbol_file *file);
/* The function whose range holds `va` (of several aliases the first), or NULL. */
const struct symbol_func *symbol_file_func_at(const struct symbol_file *file, uint64_t va);

/* Of the aliases of a function, the one whose name people use: malloc, not __libc_malloc. */
const struct symbol_func *symbol_file_usual_name(const struct symbol_file *file, const struct symbol_func *func);

/* Calls `found` with every address in executable segments that data may hold as a code pointer: relocation addends (RELA, REL in place,
 * RELR), in files that are loaded where they were linked every aligned pointer-sized word of non-executable contents that is an address in
 * executable contents, in 32-bit files runs of words that are GOT-relative (@GOTOFF) addresses, landing pads from .gcc_except_table, starts
 * of FDEs, the entry point, init and fini arrays. Addresses may repeat. Over-approximates on purpose. */
typedef void symbol_found_fn(void *context, uint64_t va);
void symbol_file_code_pointers(const struct symbol_file *file, symbol_found_fn *found, void *context);
/* Calls `found` with every restartable sequence (rseq) that the file describes: the kernel sends a thread that it interrupts in
 * [start_va, end_va) to abort_va. Ranges may repeat and overlap. */
typedef void symbol_sequence_fn(void *context, uint64_t start_va, uint64_t end_va, uint64_t abort_va);
void symbol_file_sequences(const struct symbol_file *file, symbol_sequence_fn *found, void *context);
/* Reads a jump table at `table_va` in non-executable contents: signed 32-bit offsets relative to the table itself. Calls `found` for each
 * entry until one does not lead into executable contents. */
void symbol_file_jump_table(const struct symbol_file *file, uint64_t table_va, symbol_found_fn *found, void *context);

#endif
