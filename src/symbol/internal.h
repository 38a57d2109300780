/* Shared by the files of symbol/ only.
 *
 * How a file becomes tables: image.c (bytes) -> elf.c (segments, sections) -> cfi.c, eh_frame.c (FDEs), symtab.c (symbols), debugfile.c
 * (more symbols from elsewhere), plt.c (stubs) -> funcs.c (ranges without overlap) -> fragments.c (parents), demangle.c.
 *
 * A hostile file can make tables overlap so that each of N entries leads to the same long thing. Whatever is walked once per entry is
 * therefore charged to a budget that is a small multiple of the file's size (struct symbol_file: name_budget, demangle_budget,
 * lsda budget in pointers.c); when it is spent, the rest is left out.
 */
#ifndef SYMBOL_INTERNAL_H
#define SYMBOL_INTERNAL_H

#include "base/err.h"
#include "base/memory.h"
#include "symbol/symbol.h"

#include <elf.h>

/* ---- image.c: the bytes of a file ---- */

struct symbol_image {
    uint8_t *bytes;     /* `size` bytes; pages that nobody asked for read as zero */
    uint64_t size;      /* the file's, when it was opened */
    uint64_t mapped;    /* bytes mapped, 0 when `bytes` is a memory_alloc() block */
    int fd;             /* to read from, or -1 when all is there; not owned */
    uint8_t *have;      /* one byte per page: already read */
    uint64_t read_size; /* bytes read so far */
};
/* Opens a file of the user's choice. ERR_PERMISSION, ERR_NO_MATCH (there is none) or ERR_SYSTEM. */
struct err *symbol_open_path(const char *path, int *fd);
struct err *symbol_image_init(struct symbol_image *image, int fd, const char *path);
/* Takes over `bytes` (from memory_alloc()). */
void symbol_image_init_memory(struct symbol_image *image, uint8_t *bytes, uint64_t size);
void symbol_image_deinit(struct symbol_image *image);
/* The file's bytes [offset, offset + size), read if need be; NULL when they are not all inside the file or can not be read. */
const uint8_t *symbol_image_need(struct symbol_image *image, uint64_t offset, uint64_t size);

/* ---- elf.c: headers, in one form for both classes ---- */

struct symbol_section {
    const char *name; /* "" when damaged; inside the image */
    uint32_t type, link;
    uint64_t flags, va, offset, size, entry_size;
};

struct symbol_elf {
    struct symbol_image image;
    int width;                             /* 32 or 64 */
    uint16_t type;                         /* e_type */
    uint64_t entry_va;                     /* e_entry */
    VEC(struct symbol_segment) segments;   /* by va, disjoint; bytes only when loaded with contents */
    VEC(struct symbol_section) sections;   /* as in the file, or made from PT_DYNAMIC and PT_GNU_EH_FRAME when there are none */
    uint64_t dynamic_offset, dynamic_size; /* PT_DYNAMIC in the file, or 0 */
    uint64_t interp_offset, interp_size;   /* PT_INTERP in the file, or 0 */
    uint64_t got_va;                       /* DT_PLTGOT or .got.plt: what @GOTOFF is relative to; 0 when unknown */
    uint8_t build_id[64];
    size_t build_id_size;
};
/* Parses what elf->image holds. With `contents` the segments' bytes are read too; a separate debug file has none. Without, ET_REL
 * is accepted too. */
struct err *symbol_elf_parse(struct symbol_elf *elf, const char *path, bool contents);
void symbol_elf_deinit(struct symbol_elf *elf);
const struct symbol_section *symbol_elf_section(const struct symbol_elf *elf, const char *name);
/* A section's bytes, or NULL when it has none. */
const uint8_t *symbol_elf_section_bytes(struct symbol_elf *elf, const struct symbol_section *section);
/* The loaded segment whose file contents hold `va`, or NULL. */
const struct symbol_segment *symbol_elf_segment_at(const struct symbol_elf *elf, uint64_t va);
/* File contents at `va`, with how many bytes follow in the segment; NULL when there are none. */
const uint8_t *symbol_elf_at(const struct symbol_elf *elf, uint64_t va, size_t *available);

/* One entry of .dynsym or .symtab. */
struct symbol_entry {
    uint32_t name; /* offset in the string table */
    uint8_t info;
    uint16_t section;
    uint64_t value, size;
};
struct symbol_entry symbol_elf_entry(const struct symbol_elf *elf, const uint8_t *table, size_t index);
static inline size_t symbol_elf_entry_size(const struct symbol_elf *elf)
{
    return elf->width == 64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
}

/* One entry of a SHT_REL or SHT_RELA section; addend 0 in REL. */
struct symbol_reloc {
    uint64_t va;
    uint32_t type, symbol;
    int64_t addend;
};
struct symbol_reloc symbol_elf_reloc(const struct symbol_elf *elf, const uint8_t *table, size_t index, bool rela);
static inline size_t symbol_elf_reloc_size(const struct symbol_elf *elf, bool rela)
{
    if (elf->width == 64)
        return rela ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    return rela ? sizeof(Elf32_Rela) : sizeof(Elf32_Rel);
}
static inline uint64_t symbol_elf_word(const struct symbol_elf *elf, const uint8_t *at)
{
    uint64_t wide = 0;
    __builtin_memcpy(&wide, at, elf->width == 64 ? 8 : 4);
    return wide;
}

/* ---- debugfile.c ---- */

/* Takes over `debug` (made with memory_alloc()), which was found at `path`, and returns true, or leaves it. Its image can be read until
 * this returns. */
typedef bool symbol_take_fn(void *context, struct symbol_elf *debug, const char *path);
/* Offers the separate debug files that belong to `of`, whose image must still be readable, until one is taken. */
void symbol_find_debug_file(struct symbol_elf *of, const char *path, symbol_take_fn *take, void *context);

/* ---- cursor.c ---- */

/* A place to read little-endian values from, that ends in `failed` instead of beyond the end. */
struct symbol_cursor {
    const uint8_t *at, *end;
    uint64_t va; /* address of `at` */
    bool failed;
};
/* False when there are not so many bytes. */
bool symbol_cursor_skip(struct symbol_cursor *cursor, uint64_t bytes);
uint64_t symbol_cursor_fixed(struct symbol_cursor *cursor, unsigned bytes);
uint64_t symbol_cursor_uleb(struct symbol_cursor *cursor);
int64_t symbol_cursor_sleb(struct symbol_cursor *cursor);
/* A pointer in one of the DW_EH_PE encodings; fails on indirect ones. A stored 0 gives 0 whatever it is relative to. */
uint64_t symbol_cursor_encoded(struct symbol_cursor *cursor, uint8_t encoding, int width, uint64_t data_va, uint64_t func_va);

/* ---- eh_frame.c ---- */

struct symbol_fde {
    uint64_t va, size;
    uint64_t lsda_va;   /* 0 when it has none */
    bool is_entry_rule; /* the CFA at the first instruction is that of a function entry: rsp + 8, esp + 4 */
    bool is_signal;     /* a signal frame (augmentation 'S') */
};

/* ---- the file object ---- */

struct symbol_range {
    uint64_t va, end;
};

struct symbol_candidate {
    uint64_t va, size;
    const char *name;
    uint8_t source;
    bool is_ifunc, is_notype;
};

struct symbol_file {
    char *path;
    char *interpreter;
    struct symbol_elf elf;
    struct symbol_elf *extra;                /* the separate debug file or .gnu_debugdata, or NULL */
    VEC(struct symbol_range) code;           /* executable contents without the data sections among them; by va, disjoint */
    VEC(struct symbol_fde) fdes;             /* by va; at most one per va, ranges inside `code` */
    VEC(struct symbol_candidate) candidates; /* only while opening */
    struct symbol_func *funcs;
    size_t func_count;
    VEC(char *) chunks;                    /* memory of names that are not in an image */
    size_t chunk_room;                     /* bytes left in the last chunk */
    uint64_t name_budget, demangle_budget; /* bytes */
};

/* Copies `size` bytes, then `suffix` with its NUL; lives as long as the file object. */
char *symbol_file_keep(struct symbol_file *file, const char *text, size_t size, const char *suffix);
/* The code range that holds `va`, or NULL. */
const struct symbol_range *symbol_file_code_at(const struct symbol_file *file, uint64_t va);
/* The FDE that covers `va`, or NULL. */
const struct symbol_fde *symbol_file_fde_at(const struct symbol_file *file, uint64_t va);

/* Each adds to file->code, file->candidates or file->fdes, or changes file->funcs. */
void symbol_find_code(struct symbol_file *file);
void symbol_load_fdes(struct symbol_file *file);
void symbol_load_symtab(struct symbol_file *file, struct symbol_elf *elf, uint32_t section_type);
void symbol_load_debug_file(struct symbol_file *file);
void symbol_load_plt(struct symbol_file *file);
void symbol_build_funcs(struct symbol_file *file);
void symbol_find_parents(struct symbol_file *file);
void symbol_demangle_all(struct symbol_file *file);
/* The readable form of a mangled name, to be freed; NULL when it is none, or too long for what is left of *budget (bytes). */
char *symbol_demangle(const char *name, uint64_t *budget);

/* A symbol's name, checked and without its version, or NULL. Charges the name budget. */
const char *symbol_name_at(struct symbol_file *file, const uint8_t *strings, uint64_t size, uint64_t offset);
/* Whether `section` holds PLT stubs. */
bool symbol_is_plt(const struct symbol_section *section);

#endif
