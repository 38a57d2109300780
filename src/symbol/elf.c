/* ELF headers, program headers and section headers of both classes in one form. A file without section headers gets the few sections
 * that the rest of symbol/ asks for from PT_DYNAMIC and PT_GNU_EH_FRAME. */
#include "symbol/internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SEGMENTS = 1024, MAX_SECTION_NAME = 64 };

static int by_va(const void *left, const void *right)
{
    uint64_t a = ((const struct symbol_segment *)left)->va, b = ((const struct symbol_segment *)right)->va;
    return a < b ? -1 : a > b;
}

/* ---- headers ---- */

struct layout {
    uint64_t phoff, shoff;
    uint64_t phnum, shnum, shstrndx;
};

static struct err *parse_header(struct symbol_elf *elf, const char *path, bool contents, struct layout *layout)
{
    const uint8_t *bytes = symbol_image_need(&elf->image, 0, sizeof(Elf32_Ehdr));
    if (!bytes || memcmp(bytes, ELFMAG, SELFMAG) != 0)
        return err_new(ERR_FILE, "symbol: %s: not an ELF file", path);
    if (bytes[EI_DATA] != ELFDATA2LSB)
        return err_new(ERR_FILE, "symbol: %s: for another architecture (big-endian)", path);
    if (bytes[EI_CLASS] == ELFCLASS64) {
        Elf64_Ehdr header;
        bytes = symbol_image_need(&elf->image, 0, sizeof header);
        if (!bytes)
            return err_new(ERR_FILE, "symbol: %s: damaged: it ends inside the ELF header", path);
        memcpy(&header, bytes, sizeof header);
        if (header.e_machine != EM_X86_64)
            return err_new(ERR_FILE, "symbol: %s: for another architecture (64-bit, machine %u)", path, header.e_machine);
        if (header.e_phentsize != sizeof(Elf64_Phdr) && header.e_phnum)
            return err_new(ERR_FILE, "symbol: %s: damaged: program headers of %u bytes", path, header.e_phentsize);
        *layout = (struct layout){header.e_phoff, header.e_shoff, header.e_phnum, header.e_shnum, header.e_shstrndx};
        if (header.e_shentsize != sizeof(Elf64_Shdr))
            layout->shoff = 0;
        elf->width = 64;
        elf->type = header.e_type;
        elf->entry_va = header.e_entry;
    } else if (bytes[EI_CLASS] == ELFCLASS32) {
        Elf32_Ehdr header;
        memcpy(&header, bytes, sizeof header);
        if (header.e_machine != EM_386)
            return err_new(ERR_FILE, "symbol: %s: for another architecture (32-bit, machine %u)", path, header.e_machine);
        if (header.e_phentsize != sizeof(Elf32_Phdr) && header.e_phnum)
            return err_new(ERR_FILE, "symbol: %s: damaged: program headers of %u bytes", path, header.e_phentsize);
        *layout = (struct layout){header.e_phoff, header.e_shoff, header.e_phnum, header.e_shnum, header.e_shstrndx};
        if (header.e_shentsize != sizeof(Elf32_Shdr))
            layout->shoff = 0;
        elf->width = 32;
        elf->type = header.e_type;
        elf->entry_va = header.e_entry;
    } else {
        return err_new(ERR_FILE, "symbol: %s: damaged: unknown ELF class %u", path, bytes[EI_CLASS]);
    }
    /* dwz's common files, which have debug info only, are ET_REL. */
    if (elf->type != ET_EXEC && elf->type != ET_DYN && (contents || elf->type != ET_REL))
        return err_new(ERR_FILE, "symbol: %s: neither a program nor a shared object (ELF type %u)", path, elf->type);
    return NULL;
}

static Elf64_Phdr program_header(const struct symbol_elf *elf, const uint8_t *table, uint64_t index)
{
    Elf64_Phdr wide;
    if (elf->width == 64) {
        memcpy(&wide, table + index * sizeof wide, sizeof wide);
        return wide;
    }
    Elf32_Phdr narrow;
    memcpy(&narrow, table + index * sizeof narrow, sizeof narrow);
    return (Elf64_Phdr){narrow.p_type,  narrow.p_flags,  narrow.p_offset, narrow.p_vaddr,
                        narrow.p_paddr, narrow.p_filesz, narrow.p_memsz,  narrow.p_align};
}

static Elf64_Shdr section_header(const struct symbol_elf *elf, const uint8_t *table, uint64_t index)
{
    Elf64_Shdr wide;
    if (elf->width == 64) {
        memcpy(&wide, table + index * sizeof wide, sizeof wide);
        return wide;
    }
    Elf32_Shdr narrow;
    memcpy(&narrow, table + index * sizeof narrow, sizeof narrow);
    return (Elf64_Shdr){narrow.sh_name, narrow.sh_type, narrow.sh_flags, narrow.sh_addr,      narrow.sh_offset,
                        narrow.sh_size, narrow.sh_link, narrow.sh_info,  narrow.sh_addralign, narrow.sh_entsize};
}

/* ---- segments ---- */

static void find_build_id(struct symbol_elf *elf, uint64_t offset, uint64_t size)
{
    const uint8_t *notes = symbol_image_need(&elf->image, offset, size);
    for (uint64_t at = 0; notes && size - at >= 12 && !elf->build_id_size;) {
        uint32_t head[3];
        memcpy(head, notes + at, sizeof head);
        uint64_t name = at + 12;
        uint64_t value = name + (((uint64_t)head[0] + 3) & ~3ULL);
        uint64_t next = value + (((uint64_t)head[1] + 3) & ~3ULL);
        if (value > size || head[1] > size - value)
            return;
        if (head[2] == NT_GNU_BUILD_ID && head[0] == 4 && memcmp(notes + name, "GNU", 4) == 0 && head[1] <= sizeof elf->build_id) {
            memcpy(elf->build_id, notes + value, head[1]);
            elf->build_id_size = head[1];
        }
        if (next > size)
            return;
        at = next;
    }
}

static struct err *parse_segments(struct symbol_elf *elf, const char *path, const struct layout *layout, bool contents,
                                  uint64_t *eh_frame_hdr_va)
{
    size_t entry = elf->width == 64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    if (layout->phnum > MAX_SEGMENTS)
        return err_new(ERR_FILE, "symbol: %s: damaged: %llu program headers", path, (unsigned long long)layout->phnum);
    const uint8_t *table = symbol_image_need(&elf->image, layout->phoff, layout->phnum * entry);
    if (!table)
        return err_new(ERR_FILE, "symbol: %s: damaged: the program headers lie beyond its end", path);
    uint64_t total = 0;
    uint64_t limit = elf->width == 64 ? UINT64_MAX : UINT32_MAX;
    for (uint64_t i = 0; i < layout->phnum; i++) {
        Elf64_Phdr header = program_header(elf, table, i);
        switch (header.p_type) {
        case PT_LOAD: {
            struct symbol_segment segment = {header.p_vaddr, header.p_offset, header.p_filesz, NULL, header.p_flags & PF_X};
            if (!segment.size)
                break;
            if (segment.size > limit - segment.va)
                return err_new(ERR_FILE, "symbol: %s: damaged: a segment wraps around", path);
            total += segment.size;
            /* Contents of a separate debug file are cut away though its headers still describe them. */
            if (contents) {
                if (segment.size > elf->image.size || total > 4 * elf->image.size)
                    return err_new(ERR_FILE, "symbol: %s: damaged: segments larger than the file", path);
                segment.bytes = symbol_image_need(&elf->image, segment.file_offset, segment.size);
                if (!segment.bytes)
                    return err_new(ERR_FILE, "symbol: %s: damaged or too large: a segment lies beyond the file's end", path);
            }
            VEC_PUSH(&elf->segments, segment);
            break;
        }
        case PT_DYNAMIC:
            elf->dynamic_offset = header.p_offset;
            elf->dynamic_size = header.p_filesz;
            break;
        case PT_INTERP:
            elf->interp_offset = header.p_offset;
            elf->interp_size = header.p_filesz;
            break;
        case PT_NOTE:
            if (header.p_filesz < 1 << 16)
                find_build_id(elf, header.p_offset, header.p_filesz);
            break;
        case PT_GNU_EH_FRAME:
            *eh_frame_hdr_va = header.p_vaddr;
            break;
        }
    }
    if (elf->segments.n)
        qsort(elf->segments.at, elf->segments.n, sizeof *elf->segments.at, by_va);
    for (size_t i = 1; i < elf->segments.n; i++)
        if (elf->segments.at[i].va - elf->segments.at[i - 1].va < elf->segments.at[i - 1].size)
            return err_new(ERR_FILE, "symbol: %s: damaged: segments overlap", path);
    return NULL;
}

const struct symbol_segment *symbol_elf_segment_at(const struct symbol_elf *elf, uint64_t va)
{
    size_t low = 0, high = elf->segments.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (elf->segments.at[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    const struct symbol_segment *segment = low ? &elf->segments.at[low - 1] : NULL;
    return segment && segment->bytes && va - segment->va < segment->size ? segment : NULL;
}

const uint8_t *symbol_elf_at(const struct symbol_elf *elf, uint64_t va, size_t *available)
{
    const struct symbol_segment *segment = symbol_elf_segment_at(elf, va);
    *available = segment ? (size_t)(segment->size - (va - segment->va)) : 0;
    return segment ? segment->bytes + (va - segment->va) : NULL;
}

/* ---- sections ---- */

static void parse_sections(struct symbol_elf *elf, const struct layout *layout)
{
    size_t entry = elf->width == 64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    uint64_t count = layout->shnum, names = layout->shstrndx;
    const uint8_t *table;
    if (!layout->shoff || !(table = symbol_image_need(&elf->image, layout->shoff, entry)))
        return;
    Elf64_Shdr first = section_header(elf, table, 0);
    if (!count) /* gABI: more than 0xff00 sections are counted in the first one */
        count = first.sh_size;
    if (names == SHN_XINDEX)
        names = first.sh_link;
    if (count > elf->image.size / entry || !(table = symbol_image_need(&elf->image, layout->shoff, count * entry)))
        return;
    const uint8_t *strings = NULL;
    uint64_t strings_size = 0;
    if (names < count) {
        Elf64_Shdr header = section_header(elf, table, names);
        strings_size = header.sh_size;
        strings = header.sh_type == SHT_STRTAB ? symbol_image_need(&elf->image, header.sh_offset, header.sh_size) : NULL;
    }
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Shdr header = section_header(elf, table, i);
        const char *name = "";
        if (strings && header.sh_name < strings_size) {
            size_t room = (size_t)(strings_size - header.sh_name);
            const char *at = (const char *)strings + header.sh_name;
            if (memchr(at, 0, room < MAX_SECTION_NAME ? room : MAX_SECTION_NAME))
                name = at;
        }
        VEC_PUSH(&elf->sections, (struct symbol_section){name, header.sh_type, header.sh_link, header.sh_flags, header.sh_addr,
                                                         header.sh_offset, header.sh_size, header.sh_entsize});
    }
}

/* The section that `va` starts, with a size that is cut to its segment. */
static struct symbol_section section_from_va(const struct symbol_elf *elf, const char *name, uint32_t type, uint64_t va, uint64_t size)
{
    size_t available = 0;
    const uint8_t *at = symbol_elf_at(elf, va, &available);
    if (!at)
        return (struct symbol_section){.name = "", .type = SHT_NULL};
    return (struct symbol_section){.name = name,
                                   .type = type,
                                   .flags = SHF_ALLOC,
                                   .va = va,
                                   .offset = (uint64_t)(at - elf->image.bytes),
                                   .size = size < available ? size : available};
}

/* How many symbols a DT_GNU_HASH table speaks of: the end of the chain of the last bucket. */
static uint64_t gnu_hash_count(const struct symbol_elf *elf, uint64_t va)
{
    size_t available;
    const uint8_t *at = symbol_elf_at(elf, va, &available);
    uint32_t head[4];
    if (!at || available < sizeof head)
        return 0;
    memcpy(head, at, sizeof head);
    uint64_t buckets = sizeof head + (uint64_t)head[2] * (unsigned)(elf->width / 8);
    uint64_t chains = buckets + (uint64_t)head[0] * 4;
    if (chains > available)
        return 0;
    uint32_t last = 0;
    for (uint64_t i = buckets; i < chains; i += 4) {
        uint32_t value;
        memcpy(&value, at + i, 4);
        last = value > last ? value : last;
    }
    if (last < head[1])
        return head[1];
    for (uint64_t i = chains + (uint64_t)(last - head[1]) * 4; available >= 4 && i <= available - 4; i += 4, last++) {
        uint32_t value;
        memcpy(&value, at + i, 4);
        if (value & 1)
            return (uint64_t)last + 1;
    }
    return 0;
}

static void sections_from_dynamic(struct symbol_elf *elf, const uint64_t *value)
{
    uint64_t count = 0;
    size_t available;
    const uint8_t *hash = value[DT_HASH] ? symbol_elf_at(elf, value[DT_HASH], &available) : NULL;
    if (hash && available >= 8) {
        uint32_t chains;
        memcpy(&chains, hash + 4, 4);
        count = chains;
    }
    if (!count && value[0])
        count = gnu_hash_count(elf, value[0]);
    bool rela = value[DT_PLTREL] == DT_RELA;
    VEC_PUSH(&elf->sections, (struct symbol_section){.name = ""});
    VEC_PUSH(&elf->sections, section_from_va(elf, ".dynsym", SHT_DYNSYM, value[DT_SYMTAB], count * symbol_elf_entry_size(elf)));
    VEC_PUSH(&elf->sections, section_from_va(elf, ".dynstr", SHT_STRTAB, value[DT_STRTAB], value[DT_STRSZ]));
    VEC_PUSH(&elf->sections, section_from_va(elf, ".rela.dyn", SHT_RELA, value[DT_RELA], value[DT_RELASZ]));
    VEC_PUSH(&elf->sections, section_from_va(elf, ".rel.dyn", SHT_REL, value[DT_REL], value[DT_RELSZ]));
    VEC_PUSH(&elf->sections, section_from_va(elf, ".rela.plt", rela ? SHT_RELA : SHT_REL, value[DT_JMPREL], value[DT_PLTRELSZ]));
    VEC_PUSH(&elf->sections, section_from_va(elf, ".relr.dyn", SHT_RELR, value[DT_RELR], value[DT_RELRSZ]));
    elf->sections.at[1].link = 2;
    for (size_t i = 3; i < 6; i++)
        elf->sections.at[i].link = 1;
}

/* Collects the d_tag values below DT_NUM; DT_GNU_HASH goes to [0], where DT_NULL would be. */
static void read_dynamic(struct symbol_elf *elf, uint64_t *value)
{
    size_t entry = elf->width == 64 ? 16 : 8;
    const uint8_t *table = symbol_image_need(&elf->image, elf->dynamic_offset, elf->dynamic_size);
    for (uint64_t at = 0; table && elf->dynamic_size >= entry && at <= elf->dynamic_size - entry; at += entry) {
        uint64_t tag = symbol_elf_word(elf, table + at);
        if (tag == DT_NULL)
            break;
        if (tag == DT_GNU_HASH)
            tag = 0;
        if (tag < DT_NUM)
            value[tag] = symbol_elf_word(elf, table + at + entry / 2);
    }
}

/* The section from PT_GNU_EH_FRAME: version, three encodings, then the pointer to .eh_frame (LSB, Exception Frames, .eh_frame_hdr). */
static void eh_frame_from_header(struct symbol_elf *elf, uint64_t va)
{
    size_t available;
    const uint8_t *at = symbol_elf_at(elf, va, &available);
    if (!at || available < 12 || at[0] != 1)
        return;
    struct symbol_cursor cursor = {at + 4, at + available, va + 4, false};
    uint64_t frame_va = symbol_cursor_encoded(&cursor, at[1], elf->width, va, 0);
    if (!cursor.failed)
        VEC_PUSH(&elf->sections, section_from_va(elf, ".eh_frame", SHT_PROGBITS, frame_va, UINT64_MAX));
}

const struct symbol_section *symbol_elf_section(const struct symbol_elf *elf, const char *name)
{
    for (size_t i = 0; i < elf->sections.n; i++)
        if (strcmp(elf->sections.at[i].name, name) == 0)
            return &elf->sections.at[i];
    return NULL;
}

const uint8_t *symbol_elf_section_bytes(struct symbol_elf *elf, const struct symbol_section *section)
{
    if (section->type == SHT_NOBITS || section->type == SHT_NULL || !section->size || (section->flags & SHF_COMPRESSED))
        return NULL;
    return symbol_image_need(&elf->image, section->offset, section->size);
}

struct err *symbol_elf_parse(struct symbol_elf *elf, const char *path, bool contents)
{
    struct layout layout = {0};
    uint64_t eh_frame_hdr_va = 0;
    ERR_TRY(parse_header(elf, path, contents, &layout));
    ERR_TRY(parse_segments(elf, path, &layout, contents, &eh_frame_hdr_va));
    parse_sections(elf, &layout);
    const struct symbol_section *note = elf->build_id_size ? NULL : symbol_elf_section(elf, ".note.gnu.build-id");
    if (note && note->type == SHT_NOTE && note->size < 1 << 16)
        find_build_id(elf, note->offset, note->size);
    uint64_t value[DT_NUM] = {0};
    if (elf->dynamic_size && contents)
        read_dynamic(elf, value);
    if (!elf->sections.n && contents) {
        if (value[DT_SYMTAB])
            sections_from_dynamic(elf, value);
        if (eh_frame_hdr_va)
            eh_frame_from_header(elf, eh_frame_hdr_va);
    }
    const struct symbol_section *got = symbol_elf_section(elf, ".got.plt");
    if (!got)
        got = symbol_elf_section(elf, ".got");
    elf->got_va = value[DT_PLTGOT] ? value[DT_PLTGOT] : got ? got->va : 0;
    return NULL;
}

void symbol_elf_deinit(struct symbol_elf *elf)
{
    VEC_FREE(&elf->segments);
    VEC_FREE(&elf->sections);
    symbol_image_deinit(&elf->image);
}

/* ---- table entries ---- */

struct symbol_entry symbol_elf_entry(const struct symbol_elf *elf, const uint8_t *table, size_t index)
{
    if (elf->width == 64) {
        Elf64_Sym wide;
        memcpy(&wide, table + index * sizeof wide, sizeof wide);
        return (struct symbol_entry){wide.st_name, wide.st_info, wide.st_shndx, wide.st_value, wide.st_size};
    }
    Elf32_Sym narrow;
    memcpy(&narrow, table + index * sizeof narrow, sizeof narrow);
    return (struct symbol_entry){narrow.st_name, narrow.st_info, narrow.st_shndx, narrow.st_value, narrow.st_size};
}

struct symbol_reloc symbol_elf_reloc(const struct symbol_elf *elf, const uint8_t *table, size_t index, bool rela)
{
    const uint8_t *at = table + index * symbol_elf_reloc_size(elf, rela);
    if (elf->width == 64) {
        Elf64_Rela wide = {0};
        memcpy(&wide, at, rela ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel));
        return (struct symbol_reloc){wide.r_offset, (uint32_t)ELF64_R_TYPE(wide.r_info), (uint32_t)ELF64_R_SYM(wide.r_info), wide.r_addend};
    }
    Elf32_Rela narrow = {0};
    memcpy(&narrow, at, rela ? sizeof(Elf32_Rela) : sizeof(Elf32_Rel));
    return (struct symbol_reloc){narrow.r_offset, ELF32_R_TYPE(narrow.r_info), ELF32_R_SYM(narrow.r_info), narrow.r_addend};
}
