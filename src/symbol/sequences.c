/* Restartable sequences, by the descriptors that a thread hands to the kernel (struct rseq_cs of linux/rseq.h): 32 bytes, aligned to as
 * many, that say where a sequence begins, how long it is, and where the kernel sends a thread that it has interrupted in there. In front of
 * that place stands a signature. A file without one in its code has no sequences, unless it has a section for them. */
#include "symbol/internal.h"

#include <stdlib.h>
#include <string.h>

enum { DESCRIPTOR_BYTES = 32, START_AT = 8, LENGTH_AT = 16, ABORT_AT = 24, SIGNATURE_BYTES = 4, LONGEST = 65536 };
static const uint8_t signature[SIGNATURE_BYTES] = {0x53, 0x30, 0x05, 0x53};

/* A word that a relocation of its own says. */
struct word {
    uint64_t va, value;
};

struct search {
    const struct symbol_file *file;
    const struct symbol_section *section; /* NULL: the file has none for descriptors */
    VEC(struct word) word;                /* by va */
    symbol_sequence_fn *found;
    void *context;
};

static bool has_signature(const struct symbol_file *file)
{
    for (size_t i = 0; i < file->elf.segments.n; i++) {
        const struct symbol_segment *segment = &file->elf.segments.at[i];
        if (segment->executable && memmem(segment->bytes, segment->size, signature, sizeof signature))
            return true;
    }
    return false;
}

/* ---- relocations with addends ---- */

static int by_va(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

static void collect_words(struct search *search, const struct symbol_section *section)
{
    struct symbol_elf *elf = (struct symbol_elf *)&search->file->elf;
    const uint8_t *table = symbol_elf_section_bytes(elf, section);
    size_t count = table ? (size_t)(section->size / symbol_elf_reloc_size(elf, true)) : 0;
    for (size_t i = 0; i < count; i++) {
        struct symbol_reloc reloc = symbol_elf_reloc(elf, table, i, true);
        uint64_t at = reloc.va % DESCRIPTOR_BYTES;
        if (!reloc.symbol && (at == START_AT || at == ABORT_AT))
            VEC_PUSH(&search->word, (struct word){reloc.va, (uint64_t)reloc.addend});
    }
}

static uint64_t word_at(const struct search *search, const uint8_t *bytes, uint64_t va)
{
    struct word key = {.va = va};
    const struct word *word = search->word.n ? bsearch(&key, search->word.at, search->word.n, sizeof key, by_va) : NULL;
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return word ? word->value : value;
}

/* ---- descriptors ---- */

static bool is_signed(const struct search *search, uint64_t abort_va)
{
    size_t available;
    const uint8_t *bytes = symbol_file_text(search->file, abort_va - SIGNATURE_BYTES, &available);
    return bytes && available >= SIGNATURE_BYTES && !memcmp(bytes, signature, SIGNATURE_BYTES);
}

static void look_at(const struct search *search, const uint8_t *bytes, uint64_t va)
{
    uint64_t head, length, start_va, abort_va;
    size_t available;
    memcpy(&head, bytes, sizeof head);
    memcpy(&length, bytes + LENGTH_AT, sizeof length);
    if ((uint32_t)head || head >> 32 > 7 || !length || length > LONGEST) /* version, flags */
        return;
    start_va = word_at(search, bytes + START_AT, va + START_AT);
    abort_va = word_at(search, bytes + ABORT_AT, va + ABORT_AT);
    bool is_named = search->section && va - search->section->va < search->section->size;
    if (symbol_file_text(search->file, start_va, &available) && available >= length &&
        symbol_file_text(search->file, abort_va, &available) && abort_va - start_va >= length && (is_named || is_signed(search, abort_va)))
        search->found(search->context, start_va, start_va + length, abort_va);
}

void symbol_file_sequences(const struct symbol_file *file, symbol_sequence_fn *found, void *context)
{
    struct search search = {.file = file, .section = symbol_elf_section(&file->elf, "__rseq_cs"), .found = found, .context = context};
    if (!search.section && !has_signature(file))
        return;
    uint64_t budget = 2 * file->elf.image.size;
    for (size_t i = 0; i < file->elf.sections.n; i++) {
        const struct symbol_section *section = &file->elf.sections.at[i];
        if (section->type != SHT_RELA || !(section->flags & SHF_ALLOC) || section->size > budget)
            continue;
        collect_words(&search, section);
        budget -= section->size;
    }
    if (search.word.n)
        qsort(search.word.at, search.word.n, sizeof *search.word.at, by_va);
    for (size_t i = 0; i < file->elf.segments.n; i++) {
        const struct symbol_segment *segment = &file->elf.segments.at[i];
        uint64_t skip = -segment->va % DESCRIPTOR_BYTES;
        for (uint64_t at = skip; segment->size >= DESCRIPTOR_BYTES && at <= segment->size - DESCRIPTOR_BYTES; at += DESCRIPTOR_BYTES)
            look_at(&search, segment->bytes + at, segment->va + at);
    }
    VEC_FREE(&search.word);
}
