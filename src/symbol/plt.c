/* Names for PLT stubs. The stub's own bytes say which GOT slot it jumps through, and the relocation of that slot names the function:
 * this holds for lazy, IBT (.plt.sec), non-lazy (.plt.got) and static (IRELATIVE) stubs of every linker, where counting entries would not.
 */
#include "symbol/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    uint64_t va;      /* of the GOT entry */
    const char *name; /* of the function, or NULL: then `resolver_va` */
    uint64_t resolver_va;
};

typedef VEC(struct slot) slot_vec;

bool symbol_is_plt(const struct symbol_section *section)
{
    return strncmp(section->name, ".plt", 4) == 0 && (section->name[4] == 0 || section->name[4] == '.');
}

static int by_va(const void *left, const void *right)
{
    uint64_t a = ((const struct slot *)left)->va, b = ((const struct slot *)right)->va;
    return a < b ? -1 : a > b;
}

static void add_slots(struct symbol_file *file, const struct symbol_section *section, slot_vec *slots)
{
    struct symbol_elf *elf = &file->elf;
    bool rela = section->type == SHT_RELA;
    const uint8_t *table = symbol_elf_section_bytes(elf, section);
    if (!table)
        return;
    const uint8_t *symbols = NULL, *strings = NULL;
    size_t symbol_count = 0;
    uint64_t strings_size = 0;
    if (section->link && section->link < elf->sections.n) {
        const struct symbol_section *symtab = &elf->sections.at[section->link];
        if ((symtab->type == SHT_DYNSYM || symtab->type == SHT_SYMTAB) && symtab->link < elf->sections.n) {
            const struct symbol_section *strtab = &elf->sections.at[symtab->link];
            symbols = symbol_elf_section_bytes(elf, symtab);
            strings = symbol_elf_section_bytes(elf, strtab);
            strings_size = strtab->size;
            symbol_count = symbols && strings ? (size_t)(symtab->size / symbol_elf_entry_size(elf)) : 0;
        }
    }
    uint32_t irelative = elf->width == 64 ? R_X86_64_IRELATIVE : R_386_IRELATIVE;
    size_t count = (size_t)(section->size / symbol_elf_reloc_size(elf, rela));
    for (size_t i = 0; i < count; i++) {
        struct symbol_reloc reloc = symbol_elf_reloc(elf, table, i, rela);
        struct slot slot = {.va = reloc.va};
        if (reloc.type == irelative) {
            size_t available;
            const uint8_t *at = symbol_elf_at(elf, reloc.va, &available);
            slot.resolver_va = (uint64_t)reloc.addend;
            if (!rela && at && available >= 4)
                slot.resolver_va = symbol_elf_word(elf, at);
        } else if (reloc.type == R_X86_64_GLOB_DAT || reloc.type == R_X86_64_JUMP_SLOT) { /* R_386_ has the same numbers */
            if (reloc.symbol >= symbol_count)
                continue;
            struct symbol_entry entry = symbol_elf_entry(elf, symbols, reloc.symbol);
            slot.name = symbol_name_at(file, strings, strings_size, entry.name);
            if (!slot.name)
                continue;
        } else {
            continue;
        }
        VEC_PUSH(slots, slot);
    }
}

/* The GOT slot that a stub at `bytes` jumps through, or 0. */
static uint64_t stub_slot(const struct symbol_elf *elf, const uint8_t *bytes, size_t size, uint64_t va)
{
    size_t at = 0;
    int32_t displacement;
    /* endbr64 / endbr32 */
    if (size >= 4 && bytes[0] == 0xf3 && bytes[1] == 0x0f && bytes[2] == 0x1e && (bytes[3] == 0xfa || bytes[3] == 0xfb))
        at = 4;
    if (at < size && bytes[at] == 0xf2) /* bnd */
        at++;
    if (size < at + 6 || bytes[at] != 0xff)
        return 0;
    memcpy(&displacement, bytes + at + 2, 4);
    if (bytes[at + 1] == 0x25) /* jmp *disp(%rip), in 32-bit code jmp *disp */
        return elf->width == 64 ? va + at + 6 + (uint64_t)displacement : (uint32_t)displacement;
    if (bytes[at + 1] == 0xa3 && elf->width == 32) /* jmp *disp(%ebx) */
        return (uint32_t)(elf->got_va + (uint64_t)displacement);
    return 0;
}

/* ifunc symbols as slots, by va: `va` is the resolver's. */
static void add_resolvers(const struct symbol_file *file, slot_vec *resolvers)
{
    for (size_t i = 0; i < file->candidates.n; i++)
        if (file->candidates.at[i].is_ifunc)
            VEC_PUSH(resolvers, (struct slot){.va = file->candidates.at[i].va, .name = file->candidates.at[i].name});
    if (resolvers->n)
        qsort(resolvers->at, resolvers->n, sizeof *resolvers->at, by_va);
}

static const struct slot *find_slot(const slot_vec *slots, uint64_t va)
{
    struct slot key = {.va = va};
    return va && slots->n ? bsearch(&key, slots->at, slots->n, sizeof key, by_va) : NULL;
}

static void name_stubs(struct symbol_file *file, const struct symbol_section *section, const slot_vec *slots, const slot_vec *resolvers)
{
    const uint8_t *bytes = symbol_elf_section_bytes(&file->elf, section);
    if (!bytes)
        return;
    for (uint64_t offset = 0; offset + 8 <= section->size; offset += 8) {
        uint64_t va = section->va + offset;
        const struct slot *slot = find_slot(slots, stub_slot(&file->elf, bytes + offset, (size_t)(section->size - offset), va));
        if (!slot || !symbol_file_code_at(file, va))
            continue;
        char fallback[32];
        const char *name = slot->name;
        if (!name) {
            const struct slot *resolver = find_slot(resolvers, slot->resolver_va);
            name = resolver ? resolver->name : NULL;
        }
        if (!name) {
            snprintf(fallback, sizeof fallback, "ifunc_%llx", (unsigned long long)slot->resolver_va);
            name = fallback;
        }
        size_t length = strlen(name);
        if (length + 4 > file->name_budget)
            return;
        file->name_budget -= length + 4;
        const char *text = symbol_file_keep(file, name, length, "@plt");
        uint64_t size = strcmp(section->name, ".plt.got") == 0 && bytes[offset] == 0xff ? 8 : 16;
        if (size > section->size - offset)
            size = section->size - offset;
        VEC_PUSH(&file->candidates, (struct symbol_candidate){.va = va, .size = size, .name = text, .source = SYMBOL_FROM_PLT});
    }
}

void symbol_load_plt(struct symbol_file *file)
{
    slot_vec slots = {0}, resolvers = {0};
    uint64_t budget = file->elf.image.size; /* overlapping sections are not walked again and again */
    for (size_t i = 0; i < file->elf.sections.n; i++) {
        const struct symbol_section *section = &file->elf.sections.at[i];
        if ((section->type != SHT_RELA && section->type != SHT_REL) || !(section->flags & SHF_ALLOC) || section->size > budget)
            continue;
        budget -= section->size;
        add_slots(file, section, &slots);
    }
    if (slots.n) {
        qsort(slots.at, slots.n, sizeof *slots.at, by_va);
        budget = file->elf.image.size;
        add_resolvers(file, &resolvers);
        for (size_t i = 0; i < file->elf.sections.n; i++) {
            const struct symbol_section *section = &file->elf.sections.at[i];
            if (!symbol_is_plt(section) || section->size > budget)
                continue;
            budget -= section->size;
            name_stubs(file, section, &slots, &resolvers);
        }
    }
    VEC_FREE(&slots);
    VEC_FREE(&resolvers);
}
