/* symbol/: from an ELF file to tables of functions, code bytes and code pointers.
 *
 * In: a path or descriptor. Out: a struct symbol_file whose tables never change after symbol_file_open() returns, so that threads may
 * share it.
 *
 * Invariants
 *  1. No byte of the file is used before it was read into our own memory (image.c): the file may change or shrink meanwhile.
 *  2. Every offset, size and count from the file is compared with what is there before it is used, without overflow.
 *  3. Time and memory are bounded by the file's size; see internal.h for budgets.
 *  4. Names point into images or chunks of the file object, end in NUL, and hold no control characters.
 *
 * Order: code ranges come before FDEs and symbols (both are checked against them); symbols before PLT stubs (an IRELATIVE stub is named
 * after its resolver); ranges before parents; parents before demangling (parents are found by the names in the file).
 */
#include "symbol/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *symbol_file_keep(struct symbol_file *file, const char *text, size_t size, const char *suffix)
{
    enum { CHUNK = 1 << 16 };
    size_t suffix_size = strlen(suffix) + 1;
    size_t need = size + suffix_size;
    char *at;
    if (need > CHUNK / 4) {
        /* Before the current chunk, so that its room stays usable. */
        at = memory_alloc(need);
        VEC_PUSH(&file->chunks, at);
        if (file->chunks.n > 1) {
            file->chunks.at[file->chunks.n - 1] = file->chunks.at[file->chunks.n - 2];
            file->chunks.at[file->chunks.n - 2] = at;
        } else {
            file->chunk_room = 0;
        }
    } else {
        if (need > file->chunk_room) {
            at = memory_alloc(CHUNK);
            VEC_PUSH(&file->chunks, at);
            file->chunk_room = CHUNK;
        }
        at = file->chunks.at[file->chunks.n - 1] + CHUNK - file->chunk_room;
        file->chunk_room -= need;
    }
    memcpy(at, text, size);
    memcpy(at + size, suffix, suffix_size);
    return at;
}

/* ---- code ranges ---- */

static int by_va(const void *left, const void *right)
{
    uint64_t a = ((const struct symbol_range *)left)->va, b = ((const struct symbol_range *)right)->va;
    return a < b ? -1 : a > b;
}

/* Linkers may put .rodata and headers into the executable segment: they are cut out, for a number in data is far more often by chance
 * an address there than one in code. */
void symbol_find_code(struct symbol_file *file)
{
    VEC(struct symbol_range) data = {0};
    for (size_t i = 0; i < file->elf.sections.n; i++) {
        const struct symbol_section *section = &file->elf.sections.at[i];
        if ((section->flags & (SHF_ALLOC | SHF_EXECINSTR)) == SHF_ALLOC && section->type != SHT_NOBITS && section->size &&
            section->size <= UINT64_MAX - section->va)
            VEC_PUSH(&data, (struct symbol_range){section->va, section->va + section->size});
    }
    if (data.n)
        qsort(data.at, data.n, sizeof *data.at, by_va);
    size_t merged = 0;
    for (size_t i = 0; i < data.n; i++) {
        struct symbol_range *last = merged ? &data.at[merged - 1] : NULL;
        if (last && data.at[i].va <= last->end)
            last->end = data.at[i].end > last->end ? data.at[i].end : last->end;
        else
            data.at[merged++] = data.at[i];
    }
    for (size_t i = 0, next = 0; i < file->elf.segments.n; i++) {
        const struct symbol_segment *segment = &file->elf.segments.at[i];
        uint64_t va = segment->va, end = segment->va + segment->size;
        if (!segment->executable)
            continue;
        while (next < merged && data.at[next].end <= va)
            next++;
        /* A range that goes on beyond this segment is looked at again for the next one. */
        for (; next < merged && data.at[next].va < end; next++) {
            if (data.at[next].va > va)
                VEC_PUSH(&file->code, (struct symbol_range){va, data.at[next].va});
            va = data.at[next].end;
            if (va >= end)
                break;
        }
        if (va < end)
            VEC_PUSH(&file->code, (struct symbol_range){va, end});
    }
    VEC_FREE(&data);
}

/* ---- open and close ---- */

static char *read_interpreter(struct symbol_elf *elf)
{
    if (!elf->interp_size || elf->interp_size > 4096)
        return NULL;
    const char *text = (const char *)symbol_image_need(&elf->image, elf->interp_offset, elf->interp_size);
    return text && memchr(text, 0, (size_t)elf->interp_size) && text[0] ? memory_text(text) : NULL;
}

struct err *symbol_file_open_fd(int fd, const char *path, struct symbol_file **out)
{
    struct symbol_file *file = memory_zero(1, sizeof *file);
    *out = NULL;
    file->path = memory_text(path);
    struct err *error = symbol_image_init(&file->elf.image, fd, path);
    if (!error)
        error = symbol_elf_parse(&file->elf, path, true);
    if (error) {
        symbol_file_close(file);
        return error;
    }
    file->name_budget = 4 * file->elf.image.size + (1 << 16);
    file->demangle_budget = 8 * file->elf.image.size + (1 << 20);
    file->interpreter = read_interpreter(&file->elf);
    symbol_find_code(file);
    symbol_load_fdes(file);
    symbol_load_symtab(file, &file->elf, SHT_SYMTAB);
    if (!file->candidates.n)
        symbol_load_debug_file(file);
    symbol_load_symtab(file, &file->elf, SHT_DYNSYM);
    symbol_load_plt(file);
    symbol_build_funcs(file);
    symbol_find_parents(file);
    symbol_demangle_all(file);
    /* Unwind tables may be asked for later. */
    const struct symbol_section *frames = symbol_elf_section(&file->elf, ".debug_frame");
    if (frames)
        symbol_elf_section_bytes(&file->elf, frames);
    file->elf.image.fd = -1;
    *out = file;
    return NULL;
}

struct err *symbol_file_open(const char *path, struct symbol_file **out)
{
    *out = NULL;
    int fd;
    ERR_TRY(symbol_open_path(path, &fd));
    struct err *error = symbol_file_open_fd(fd, path, out);
    close(fd);
    return error;
}

void symbol_file_close(struct symbol_file *file)
{
    if (!file)
        return;
    symbol_elf_deinit(&file->elf);
    if (file->extra) {
        symbol_elf_deinit(file->extra);
        free(file->extra);
    }
    for (size_t i = 0; i < file->chunks.n; i++)
        free(file->chunks.at[i]);
    VEC_FREE(&file->chunks);
    VEC_FREE(&file->code);
    VEC_FREE(&file->fdes);
    VEC_FREE(&file->candidates);
    free(file->funcs);
    free(file->interpreter);
    free(file->path);
    free(file);
}

/* ---- accessors ---- */

const char *symbol_file_path(const struct symbol_file *file)
{
    return file->path;
}

int symbol_file_width(const struct symbol_file *file)
{
    return file->elf.width;
}

bool symbol_file_is_dynamic(const struct symbol_file *file)
{
    return file->elf.type == ET_DYN;
}

uint64_t symbol_file_entry(const struct symbol_file *file)
{
    return file->elf.entry_va;
}

const char *symbol_file_interpreter(const struct symbol_file *file)
{
    return file->interpreter;
}

const uint8_t *symbol_file_build_id(const struct symbol_file *file, size_t *size)
{
    *size = file->elf.build_id_size;
    return *size ? file->elf.build_id : NULL;
}

const struct symbol_segment *symbol_file_segments(const struct symbol_file *file, size_t *count)
{
    *count = file->elf.segments.n;
    return file->elf.segments.at;
}

const uint8_t *symbol_file_text(const struct symbol_file *file, uint64_t va, size_t *available)
{
    const struct symbol_segment *segment = symbol_elf_segment_at(&file->elf, va);
    *available = 0;
    if (!segment || !segment->executable)
        return NULL;
    *available = (size_t)(segment->size - (va - segment->va));
    return segment->bytes + (va - segment->va);
}

const struct symbol_func *symbol_file_funcs(const struct symbol_file *file, size_t *count)
{
    *count = file->func_count;
    return file->funcs;
}

const struct symbol_func *symbol_file_func_at(const struct symbol_file *file, uint64_t va)
{
    size_t low = 0, high = file->func_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (file->funcs[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || va - file->funcs[low - 1].va >= file->funcs[low - 1].size)
        return NULL;
    /* Back to the first of its aliases. */
    uint64_t start = file->funcs[low - 1].va;
    for (high = low - 1, low = 0; low < high;) {
        size_t middle = (low + high) / 2;
        if (file->funcs[middle].va < start)
            low = middle + 1;
        else
            high = middle;
    }
    return &file->funcs[low];
}

static size_t leading_underscores(const char *name)
{
    return strspn(name, "_");
}

const struct symbol_func *symbol_file_usual_name(const struct symbol_file *file, const struct symbol_func *func)
{
    size_t count;
    const struct symbol_func *all = symbol_file_funcs(file, &count), *best = func, *first = func;
    while (first > all && first[-1].va == func->va)
        first--;
    for (const struct symbol_func *other = first; other < all + count && other->va == func->va; other++) {
        size_t mine = leading_underscores(best->name), his = leading_underscores(other->name);
        if (his < mine || (his == mine && strlen(other->name) < strlen(best->name)))
            best = other;
    }
    return best;
}

bool symbol_file_has_small_stacks(const struct symbol_file *file)
{
    static const char *const section[] = {".note.go.buildid", ".go.buildinfo", ".gopclntab", ".data.rel.ro.gopclntab"};
    static const char *const function[] = {"runtime.morestack", "runtime.morestack.abi0", "__morestack"};
    for (size_t i = 0; i < sizeof section / sizeof *section; i++)
        if (symbol_elf_section(&file->elf, section[i]))
            return true;
    for (size_t i = 0; i < file->func_count; i++)
        for (size_t k = 0; k < sizeof function / sizeof *function && file->funcs[i].source != SYMBOL_FROM_PLT; k++)
            if (!strcmp(file->funcs[i].name, function[k]))
                return true;
    return false;
}
