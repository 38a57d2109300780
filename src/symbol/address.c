#include "symbol/address.h"

#include "symbol/internal.h"

#include <string.h>
#include <unistd.h>

struct search {
    const char *name;
    uint64_t va;
    bool found;
};

static void search_in(struct search *search, struct symbol_elf *elf, uint32_t type)
{
    size_t wanted = strlen(search->name) + 1;
    for (size_t i = 0; i < elf->sections.n && !search->found; i++) {
        const struct symbol_section *table = &elf->sections.at[i];
        if (table->type != type || table->link >= elf->sections.n)
            continue;
        const struct symbol_section *strings = &elf->sections.at[table->link];
        const uint8_t *entries = symbol_elf_section_bytes(elf, table), *text = symbol_elf_section_bytes(elf, strings);
        uint64_t count = table->size / symbol_elf_entry_size(elf);
        for (uint64_t k = 0; entries && text && k < count && !search->found; k++) {
            struct symbol_entry entry = symbol_elf_entry(elf, entries, (size_t)k);
            bool is_here = entry.section != SHN_UNDEF && entry.section < SHN_LORESERVE && (entry.info & 15) != STT_TLS;
            if (!is_here || entry.name >= strings->size || strings->size - entry.name < wanted ||
                memcmp(text + entry.name, search->name, wanted) != 0)
                continue;
            search->va = entry.value;
            search->found = true;
        }
    }
}

static bool search_debug_file(void *context, struct symbol_elf *debug, const char *path)
{
    struct search *search = context;
    (void)path;
    search_in(search, debug, SHT_SYMTAB);
    return search->found;
}

struct err *symbol_address(const char *path, const char *name, uint64_t *va)
{
    int fd;
    ERR_TRY(symbol_open_path(path, &fd));
    struct symbol_elf elf = {0};
    struct search search = {.name = name};
    struct err *error = symbol_image_init(&elf.image, fd, path);
    if (!error)
        error = symbol_elf_parse(&elf, path, false);
    if (!error) {
        search_in(&search, &elf, SHT_SYMTAB);
        if (!search.found)
            search_in(&search, &elf, SHT_DYNSYM);
        if (!search.found)
            symbol_find_debug_file(&elf, path, search_debug_file, &search);
    }
    symbol_elf_deinit(&elf);
    close(fd);
    *va = search.va;
    return error ? error : search.found ? NULL : err_new(ERR_NO_MATCH, "symbol: %s: no symbol %s", path, name);
}
