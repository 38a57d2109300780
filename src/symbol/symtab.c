/* Function symbols of one symbol table. */
#include "symbol/internal.h"

#include <string.h>

enum { MAX_NAME = 1 << 16 };

const char *symbol_name_at(struct symbol_file *file, const uint8_t *strings, uint64_t size, uint64_t offset)
{
    if (offset >= size)
        return NULL;
    const char *name = (const char *)strings + offset;
    uint64_t room = size - offset < MAX_NAME ? size - offset : MAX_NAME;
    if (room > file->name_budget)
        room = file->name_budget;
    uint64_t length = 0, version = 0;
    bool is_odd = false;
    for (; length < room && name[length]; length++) {
        unsigned char c = (unsigned char)name[length];
        if (c == '@' && length && !version)
            version = length;
        /* Names are shown on terminals: no control characters. */
        is_odd |= c < 0x20 || c == 0x7f;
    }
    file->name_budget -= length;
    if (!length || length == room)
        return NULL;
    if (!version && !is_odd)
        return name;
    char *copy = symbol_file_keep(file, name, (size_t)(version ? version : length), "");
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return copy;
}

void symbol_load_symtab(struct symbol_file *file, struct symbol_elf *elf, uint32_t section_type)
{
    const struct symbol_section *section = NULL;
    for (size_t i = 0; i < elf->sections.n && !section; i++)
        if (elf->sections.at[i].type == section_type)
            section = &elf->sections.at[i];
    if (!section || section->link >= elf->sections.n)
        return;
    const struct symbol_section *string_section = &elf->sections.at[section->link];
    const uint8_t *table = symbol_elf_section_bytes(elf, section);
    const uint8_t *strings = symbol_elf_section_bytes(elf, string_section);
    if (!table || !strings)
        return;
    size_t count = (size_t)(section->size / symbol_elf_entry_size(elf));
    for (size_t i = 1; i < count; i++) {
        struct symbol_entry entry = symbol_elf_entry(elf, table, i);
        unsigned type = entry.info & 0xf; /* the same in both classes */
        if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
            continue;
        if (entry.section == SHN_UNDEF || (entry.section >= SHN_LORESERVE && entry.section != SHN_XINDEX))
            continue;
        if (!symbol_file_code_at(file, entry.value))
            continue;
        const char *name = symbol_name_at(file, strings, string_section->size, entry.name);
        if (!name)
            continue;
        VEC_PUSH(&file->candidates,
                 (struct symbol_candidate){.va = entry.value,
                                           .size = entry.size,
                                           .name = name,
                                           .source = section_type == SHT_DYNSYM ? SYMBOL_FROM_DYNSYM : SYMBOL_FROM_SYMTAB,
                                           .is_ifunc = type == STT_GNU_IFUNC,
                                           .is_notype = type == STT_NOTYPE});
    }
}
