/* USDT: static probe points that a program's authors wrote with <sys/sdt.h>. Each is a NOP in the code and a note in .note.stapsdt with its
 * address, its names and where its arguments are (SystemTap wiki, "UserSpaceProbeImplementation").
 *
 * In: a path or descriptor. Out: a table, owned by the reader object. The file is untrusted: a note that makes no sense is left out, an
 * argument that makes no sense is SYMBOL_USDT_UNKNOWN with the reason. Time and memory are bounded by the file's size.
 */
#ifndef SYMBOL_USDT_H
#define SYMBOL_USDT_H

#include "base/err.h"
#include "symbol/location.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SYMBOL_USDT_MAX_ARGS = 16 };

enum symbol_usdt_kind {
    SYMBOL_USDT_UNKNOWN,  /* `reason` says why */
    SYMBOL_USDT_CONST,    /* `value` */
    SYMBOL_USDT_REGISTER, /* `reg` */
    SYMBOL_USDT_MEMORY,   /* in memory at reg + index * scale + value, as far as there are reg and index */
};

struct symbol_usdt_arg {
    uint8_t kind;       /* enum symbol_usdt_kind */
    uint8_t size_bytes; /* of the argument: 1, 2, 4, 8 or 16 */
    bool is_signed;
    bool is_float;
    bool is_file_va;    /* `value` is (CONST) or is relative to (MEMORY) an address of the file: add the load bias */
    uint8_t reg_shift;  /* REGISTER: bits to skip; 8 for %ah to %dh, else 0 */
    uint8_t scale;      /* MEMORY: 1, 2, 4 or 8 */
    int16_t reg;        /* DWARF number (location.h) or SYMBOL_NO_REG */
    int16_t reg_high;   /* REGISTER of 8 bytes in 32 bit: has the upper half; gcc's pairs, the note does not say. Else SYMBOL_NO_REG */
    int16_t index;      /* MEMORY: DWARF number or SYMBOL_NO_REG */
    int64_t value;      /* with a symbol, its address is already in it */
    bool is_got_offset; /* parsed as symbol@GOTOFF: `value` is relative to the global offset table, which `reg` points to */
    const char *symbol; /* name in the argument string, not NUL-terminated, or NULL */
    size_t symbol_size;
    const char *reason; /* UNKNOWN */
};

struct symbol_usdt_probe {
    const char *provider, *name;
    uint64_t va;           /* of the NOP */
    uint64_t semaphore_va; /* of a 16-bit counter: the program does the work of making arguments only while it is not 0; 0: has none */
    const char *arguments; /* as in the file */
    struct symbol_usdt_arg *args;
    size_t arg_count;
};

struct symbol_usdt;

/* A file without notes gives an empty table. Errors as of symbol_file_open(). */
struct err *symbol_usdt_open(const char *path, struct symbol_usdt **out);
/* As symbol_usdt_open(), on an open descriptor (which stays the caller's); `path` is for messages and debug links. */
struct err *symbol_usdt_open_fd(int fd, const char *path, struct symbol_usdt **out);
void symbol_usdt_close(struct symbol_usdt *usdt);      /* accepts NULL */
int symbol_usdt_width(const struct symbol_usdt *usdt); /* 32 or 64 */
/* By address. One probe may be at many addresses, and one address may have many probes. */
const struct symbol_usdt_probe *symbol_usdt_probes(const struct symbol_usdt *usdt, size_t *count);

/* Parses an argument string: `-4@%edi 8@-16(%rbp) 4@$5 8f@%xmm0 8@table+8(%rip)`. Returns how many arguments there are, at most
 * SYMBOL_USDT_MAX_ARGS. Symbols are left to the caller: is_file_va and `symbol` are set, `value` lacks the address. Pure. */
size_t symbol_usdt_parse(const char *text, int width, struct symbol_usdt_arg out[SYMBOL_USDT_MAX_ARGS]);

#endif
