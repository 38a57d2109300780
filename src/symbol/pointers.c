/* Addresses in code that data may hold, for the caller's question "may something jump here?". Over-approximates: a number that looks like
 * a code address counts as one. */
#include "symbol/internal.h"

#include <string.h>

struct walk {
    const struct symbol_file *file;
    symbol_found_fn *found;
    void *context;
    uint64_t low_va, high_va; /* of all code */
};

static void offer(const struct walk *walk, uint64_t va)
{
    if (va >= walk->low_va && va < walk->high_va && symbol_file_code_at(walk->file, va))
        walk->found(walk->context, va);
}

static uint64_t wrap(const struct symbol_elf *elf, uint64_t va)
{
    return elf->width == 64 ? va : (uint32_t)va;
}

/* ---- words of data ---- */

/* @GOTOFF words: what position-independent 32-bit jump tables hold. A table has at least TABLE_MIN entries (compilers make none for fewer
 * cases), which a stray number that happens to be an address has not. */
static void walk_got_offsets(const struct walk *walk, const uint8_t *bytes, uint64_t size)
{
    enum { TABLE_MIN = 3 };
    const struct symbol_elf *elf = &walk->file->elf;
    uint32_t run[TABLE_MIN];
    unsigned length = 0;
    for (uint64_t at = 0; at + 4 <= size; at += 4) {
        uint32_t word, va;
        memcpy(&word, bytes + at, 4);
        va = word + (uint32_t)elf->got_va;
        if (va < walk->low_va || va >= walk->high_va || !symbol_file_code_at(walk->file, va)) {
            length = 0;
            continue;
        }
        if (length < TABLE_MIN)
            run[length] = va;
        length++;
        if (length > TABLE_MIN)
            offer(walk, va);
        for (unsigned i = 0; length == TABLE_MIN && i < TABLE_MIN; i++)
            offer(walk, run[i]);
    }
}

/* Words that are addresses as they stand: only where the file is not moved when it is loaded. Elsewhere relocations tell. */
static void walk_absolute(const struct walk *walk, const uint8_t *bytes, uint64_t size)
{
    unsigned step = (unsigned)walk->file->elf.width / 8;
    for (uint64_t at = 0; at + step <= size; at += step) {
        uint64_t word = symbol_elf_word(&walk->file->elf, bytes + at);
        if (word - walk->low_va < walk->high_va - walk->low_va)
            offer(walk, word);
    }
}

static void walk_words(const struct walk *walk, const uint8_t *bytes, uint64_t va, uint64_t size)
{
    const struct symbol_elf *elf = &walk->file->elf;
    unsigned step = (unsigned)elf->width / 8;
    uint64_t skip = (step - va % step) % step;
    if (size < skip + step)
        return;
    if (!symbol_file_is_dynamic(walk->file))
        walk_absolute(walk, bytes + skip, size - skip);
    if (step == 4 && elf->got_va)
        walk_got_offsets(walk, bytes + skip, size - skip);
}

static void walk_data(const struct walk *walk)
{
    const struct symbol_file *file = walk->file;
    for (size_t i = 0, next = 0; i < file->elf.segments.n; i++) {
        const struct symbol_segment *segment = &file->elf.segments.at[i];
        if (!segment->executable) {
            walk_words(walk, segment->bytes, segment->va, segment->size);
            continue;
        }
        /* What find_code() cut out of the executable segment. */
        uint64_t va = segment->va, end = segment->va + segment->size;
        for (; next < file->code.n && file->code.at[next].va < end; next++) {
            const struct symbol_range *range = &file->code.at[next];
            if (range->va > va)
                walk_words(walk, segment->bytes + (va - segment->va), va, range->va - va);
            va = range->end;
        }
        if (va < end)
            walk_words(walk, segment->bytes + (va - segment->va), va, end - va);
    }
}

/* ---- relocations ---- */

static void offer_word_at(const struct walk *walk, uint64_t va, uint64_t base)
{
    size_t available;
    const uint8_t *at = symbol_elf_at(&walk->file->elf, va, &available);
    if (at && available >= (unsigned)walk->file->elf.width / 8)
        offer(walk, wrap(&walk->file->elf, symbol_elf_word(&walk->file->elf, at) + base));
}

static void walk_relocs(const struct walk *walk, const struct symbol_section *section)
{
    struct symbol_elf *elf = (struct symbol_elf *)&walk->file->elf;
    bool rela = section->type == SHT_RELA;
    const uint8_t *table = symbol_elf_section_bytes(elf, section);
    const struct symbol_section *symtab = section->link < elf->sections.n ? &elf->sections.at[section->link] : NULL;
    const uint8_t *symbols = NULL;
    if (symtab && (symtab->type == SHT_DYNSYM || symtab->type == SHT_SYMTAB))
        symbols = symbol_elf_section_bytes(elf, symtab);
    size_t symbol_count = symbols ? (size_t)(symtab->size / symbol_elf_entry_size(elf)) : 0;
    size_t count = table ? (size_t)(section->size / symbol_elf_reloc_size(elf, rela)) : 0;
    for (size_t i = 0; i < count; i++) {
        struct symbol_reloc reloc = symbol_elf_reloc(elf, table, i, rela);
        uint64_t base = 0;
        if (reloc.symbol && reloc.symbol < symbol_count)
            base = symbol_elf_entry(elf, symbols, reloc.symbol).value;
        if (rela) {
            offer(walk, wrap(elf, base + (uint64_t)reloc.addend));
        } else {
            offer_word_at(walk, reloc.va, base);
            if (base)
                offer(walk, base);
        }
    }
}

/* gABI, "Relative relocations": an even word is an address, an odd one a bitmap of the words that follow it. */
static void walk_relr(const struct walk *walk, const struct symbol_section *section)
{
    struct symbol_elf *elf = (struct symbol_elf *)&walk->file->elf;
    const uint8_t *table = symbol_elf_section_bytes(elf, section);
    unsigned step = (unsigned)elf->width / 8;
    uint64_t next_va = 0;
    for (uint64_t at = 0; table && section->size >= step && at <= section->size - step; at += step) {
        uint64_t word = symbol_elf_word(elf, table + at);
        if (!(word & 1)) {
            offer_word_at(walk, word, 0);
            next_va = word + step;
            continue;
        }
        for (unsigned bit = 1; bit < step * 8; bit++)
            if (word >> bit & 1)
                offer_word_at(walk, wrap(elf, next_va + (uint64_t)(bit - 1) * step), 0);
        next_va = wrap(elf, next_va + (uint64_t)(step * 8 - 1) * step);
    }
}

/* ---- landing pads ---- */

/* The call-site table of an LSDA (Itanium C++ ABI, Exception Handling Tables; gcc/except.cc). Returns the bytes it took. */
static uint64_t walk_lsda(const struct walk *walk, const struct symbol_fde *fde)
{
    const struct symbol_elf *elf = &walk->file->elf;
    size_t available;
    const uint8_t *at = symbol_elf_at(elf, fde->lsda_va, &available);
    if (!at)
        return 0;
    struct symbol_cursor cursor = {at, at + available, fde->lsda_va, false};
    uint64_t start_va = fde->va;
    uint8_t encoding = (uint8_t)symbol_cursor_fixed(&cursor, 1);
    if (encoding != 0xff)
        start_va = symbol_cursor_encoded(&cursor, encoding, elf->width, elf->got_va, fde->va);
    encoding = (uint8_t)symbol_cursor_fixed(&cursor, 1);
    if (encoding != 0xff)
        symbol_cursor_uleb(&cursor);
    encoding = (uint8_t)symbol_cursor_fixed(&cursor, 1);
    uint64_t length = symbol_cursor_uleb(&cursor);
    if (cursor.failed || length > (uint64_t)(cursor.end - cursor.at))
        return 8;
    cursor.end = cursor.at + length;
    while (cursor.at < cursor.end) {
        symbol_cursor_encoded(&cursor, encoding, elf->width, 0, 0);
        symbol_cursor_encoded(&cursor, encoding, elf->width, 0, 0);
        uint64_t pad = symbol_cursor_encoded(&cursor, encoding, elf->width, 0, 0);
        symbol_cursor_uleb(&cursor);
        if (cursor.failed)
            break;
        if (pad)
            offer(walk, wrap(elf, start_va + pad));
    }
    return 8 + length;
}

/* ---- all ---- */

void symbol_file_code_pointers(const struct symbol_file *file, symbol_found_fn *found, void *context)
{
    struct walk walk = {.file = file, .found = found, .context = context};
    if (!file->code.n)
        return;
    walk.low_va = file->code.at[0].va;
    walk.high_va = file->code.at[file->code.n - 1].end;
    offer(&walk, file->elf.entry_va);
    walk_data(&walk);
    uint64_t budget = 2 * file->elf.image.size;
    for (size_t i = 0; i < file->elf.sections.n; i++) {
        const struct symbol_section *section = &file->elf.sections.at[i];
        if (!(section->flags & SHF_ALLOC) || section->size > budget)
            continue;
        if (section->type == SHT_RELA || section->type == SHT_REL)
            walk_relocs(&walk, section);
        else if (section->type == SHT_RELR)
            walk_relr(&walk, section);
        else
            continue;
        budget -= section->size;
    }
    budget = 2 * file->elf.image.size;
    for (size_t i = 0; i < file->fdes.n; i++) {
        offer(&walk, file->fdes.at[i].va);
        if (!file->fdes.at[i].lsda_va)
            continue;
        uint64_t used = walk_lsda(&walk, &file->fdes.at[i]);
        budget = used < budget ? budget - used : 0;
        if (!budget)
            break;
    }
}

void symbol_file_jump_table(const struct symbol_file *file, uint64_t table_va, symbol_found_fn *found, void *context)
{
    size_t available = 0;
    const uint8_t *at = symbol_elf_at(&file->elf, table_va, &available);
    if (!at || symbol_file_code_at(file, table_va))
        return;
    for (size_t i = 0; i + 4 <= available; i += 4) {
        int32_t offset;
        memcpy(&offset, at + i, 4);
        uint64_t va = wrap(&file->elf, table_va + (uint64_t)(int64_t)offset);
        if (!symbol_file_code_at(file, va))
            return;
        found(context, va);
    }
}
