/* Opening a file's DWARF, its units, and the primitives with which the other dwarf_*.c walk DIEs: everything that follows what the file
 * says is paid from the call's budget or has a limit. */
#include "symbol/dwarf_internal.h"

#include "base/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A compressed section may claim any size; zlib and zstd reach more than this only on what is no debug information. */
enum { MAX_EXPANSION = 64 };

/* ---- memory and work ---- */

void *symbol_dw_keep(struct symbol_dwarf *dwarf, size_t count, size_t bytes)
{
    enum { CHUNK = 1 << 16 };
    size_t need = (count * bytes + 16) & ~(size_t)15; /* never 0 */
    if (need > CHUNK / 4) {
        char *own = memory_zero(count, bytes);
        /* Before the current chunk, so that its room stays usable. */
        VEC_PUSH(&dwarf->chunks, own);
        if (dwarf->chunks.n > 1) {
            dwarf->chunks.at[dwarf->chunks.n - 1] = dwarf->chunks.at[dwarf->chunks.n - 2];
            dwarf->chunks.at[dwarf->chunks.n - 2] = own;
        } else {
            dwarf->chunk_room = 0;
        }
        return own;
    }
    if (need > dwarf->chunk_room) {
        VEC_PUSH(&dwarf->chunks, memory_zero(CHUNK, 1));
        dwarf->chunk_room = CHUNK;
    }
    char *at = dwarf->chunks.at[dwarf->chunks.n - 1] + CHUNK - dwarf->chunk_room;
    dwarf->chunk_room -= need;
    return at;
}

void symbol_dw_begin_call(struct symbol_dwarf *dwarf)
{
    dwarf->budget = 16 * dwarf->debug_size + (1 << 20);
}

bool symbol_dw_spend(struct symbol_dwarf *dwarf, uint64_t work)
{
    if (work > dwarf->budget)
        work = dwarf->budget;
    dwarf->budget -= work;
    return dwarf->budget;
}

struct err *symbol_dw_spent(const struct symbol_dwarf *dwarf)
{
    return err_new(ERR_FILE, "symbol: %s: damaged debug info: it leads around in it without end", dwarf->path);
}

/* ---- sections ---- */

static bool is_debug_section(const char *name)
{
    return strncmp(name, ".debug_", 7) == 0 || strncmp(name, ".zdebug_", 8) == 0;
}

/* Bytes that a section takes once it is unpacked, 0 when it is not there. ELF gABI, Section compression; .zdebug_*: "ZLIB" and a
 * big-endian size. */
static uint64_t unpacked_size(struct symbol_elf *elf, const struct symbol_section *section)
{
    const uint8_t *bytes = symbol_image_need(&elf->image, section->offset, section->size);
    uint64_t size = 0;
    if (!bytes || section->type == SHT_NOBITS)
        return 0;
    if (section->flags & SHF_COMPRESSED) {
        if (section->size < (elf->width == 64 ? sizeof(Elf64_Chdr) : sizeof(Elf32_Chdr)))
            return 0;
        memcpy(&size, bytes + (elf->width == 64 ? 8 : 4), elf->width == 64 ? 8 : 4);
    } else if (section->name[1] == 'z' && section->size >= 12) {
        for (unsigned i = 0; i < 8; i++)
            size = size << 8 | bytes[4 + i];
    } else {
        return section->size;
    }
    return size;
}

static bool has_debug_info(const struct symbol_elf *elf)
{
    for (size_t i = 0; i < elf->sections.n; i++) {
        const struct symbol_section *section = &elf->sections.at[i];
        if ((strcmp(section->name, ".debug_info") == 0 || strcmp(section->name, ".zdebug_info") == 0) && section->type != SHT_NOBITS &&
            section->size)
            return true;
    }
    return false;
}

/* Reads the sections that libdw will look at into the image; adds the sum of their sizes to *total, or gives an error when one is beyond
 * the file. */
static struct err *read_debug_sections(struct symbol_elf *elf, const char *path, uint64_t *total)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < elf->sections.n; i++) {
        const struct symbol_section *section = &elf->sections.at[i];
        if (section->type == SHT_NOBITS || section->type == SHT_NULL || !section->size)
            continue;
        if (is_debug_section(section->name)) {
            uint64_t size = unpacked_size(elf, section);
            if (!size)
                return err_new(ERR_FILE, "symbol: %s: damaged: %s lies beyond its end", path, section->name);
            if (size / MAX_EXPANSION > section->size)
                return err_new(ERR_FILE, "symbol: %s: damaged: %s unpacks to %llu bytes", path, section->name, (unsigned long long)size);
            sum += size;
        } else if (strcmp(section->name, ".eh_frame") == 0 || strcmp(section->name, ".gnu_debugaltlink") == 0 ||
                   strcmp(section->name, ".symtab") == 0 || strcmp(section->name, ".strtab") == 0) {
            symbol_image_need(&elf->image, section->offset, section->size);
        }
    }
    /* Each section is in the file, but sections may overlap. */
    if (sum / MAX_EXPANSION > elf->image.size)
        return err_new(ERR_FILE, "symbol: %s: damaged: debug sections overlap", path);
    *total += sum;
    return NULL;
}

static struct err *begin_libdw(struct symbol_elf *elf, const char *path, Elf **libelf, Dwarf **libdw)
{
    elf_version(EV_CURRENT);
    *libelf = elf_memory((char *)elf->image.bytes, (size_t)elf->image.size);
    *libdw = *libelf ? dwarf_begin_elf(*libelf, DWARF_C_READ, NULL) : NULL;
    if (!*libdw)
        return err_new(ERR_FILE, "symbol: %s: its debug info can not be read: %s", path, dwarf_errmsg(-1));
    return NULL;
}

/* ---- dwz's common file ---- */

/* Sets dwarf->alt when .gnu_debugaltlink (a path, then a build-id) leads to the right file. The section is emptied in our memory: libdw
 * would open and map the file itself. */
static void find_alt(struct symbol_dwarf *dwarf, struct symbol_elf *elf, const char *elf_path)
{
    const struct symbol_section *section = symbol_elf_section(elf, ".gnu_debugaltlink");
    const uint8_t *bytes = section ? symbol_elf_section_bytes(elf, section) : NULL;
    const uint8_t *nul = bytes ? memchr(bytes, 0, (size_t)section->size) : NULL;
    if (!bytes)
        return;
    char *link = nul && nul > bytes ? memory_text((const char *)bytes) : NULL;
    uint8_t id[sizeof elf->build_id];
    size_t id_size = link ? (size_t)(section->size - (uint64_t)(nul + 1 - bytes)) : 0;
    if (id_size > sizeof id)
        id_size = 0;
    memcpy(id, nul ? nul + 1 : bytes, id_size);
    memset(elf->image.bytes + section->offset, 0, (size_t)section->size);
    if (!id_size)
        goto out;
    const char *slash = strrchr(elf_path, '/');
    char *path = link[0] == '/' || !slash ? memory_text(link) : memory_format("%.*s%s", (int)(slash + 1 - elf_path), elf_path, link);
    int fd = regular_open(path);
    struct symbol_elf *alt = memory_zero(1, sizeof *alt);
    alt->image.fd = -1;
    struct err *error = fd < 0 ? err_new(ERR_FILE, "not there") : symbol_image_init(&alt->image, fd, path);
    if (!error)
        error = symbol_elf_parse(alt, path, false);
    if (!error && (alt->build_id_size != id_size || memcmp(alt->build_id, id, id_size) != 0 || !has_debug_info(alt)))
        error = err_new(ERR_FILE, "another file");
    if (!error)
        error = read_debug_sections(alt, path, &dwarf->debug_size);
    alt->image.fd = -1;
    if (!error)
        error = begin_libdw(alt, path, &dwarf->alt_libelf, &dwarf->alt_libdw);
    dwarf->alt = alt;
    if (fd >= 0)
        close(fd);
    free(path);
    err_free(error); /* what refers to it is then not known */
out:
    free(link);
}

/* ---- open and close ---- */

static bool take_debug(void *context, struct symbol_elf *debug, const char *path)
{
    struct symbol_dwarf *dwarf = context;
    uint64_t size = 0;
    if (!has_debug_info(debug))
        return false;
    struct err *error = read_debug_sections(debug, path, &size);
    debug->image.fd = -1;
    if (!error) {
        dwarf->debug_path = memory_text(path);
        dwarf->debug = debug;
        dwarf->debug_size += size;
    }
    bool is_good = !error;
    err_free(error);
    return is_good;
}

static struct err *open_sections(struct symbol_dwarf *dwarf, int fd)
{
    ERR_TRY(symbol_image_init(&dwarf->main.image, fd, dwarf->path));
    ERR_TRY(symbol_elf_parse(&dwarf->main, dwarf->path, false));
    if (dwarf->main.type == ET_REL)
        return err_new(ERR_FILE, "symbol: %s: neither a program nor a shared object", dwarf->path);
    dwarf->width = dwarf->main.width;
    bool is_own = has_debug_info(&dwarf->main);
    if (!is_own)
        symbol_find_debug_file(&dwarf->main, dwarf->path, take_debug, dwarf);
    if (!is_own && !dwarf->debug)
        return err_new(ERR_NO_MATCH, "symbol: %s: has no debug info", dwarf->path);
    ERR_TRY(read_debug_sections(&dwarf->main, dwarf->path, &dwarf->debug_size));
    struct symbol_elf *elf = dwarf->debug ? dwarf->debug : &dwarf->main;
    find_alt(dwarf, elf, dwarf->debug ? dwarf->debug_path : dwarf->path);
    return begin_libdw(elf, dwarf->path, &dwarf->libelf, &dwarf->libdw);
}

struct err *symbol_dwarf_open_fd(int fd, const char *path, struct symbol_dwarf **out)
{
    struct symbol_dwarf *dwarf = memory_zero(1, sizeof *dwarf);
    *out = NULL;
    dwarf->path = memory_text(path);
    struct err *error = open_sections(dwarf, fd);
    dwarf->inline_bytes = 16 * dwarf->debug_size + (1 << 20);
    dwarf->main.image.fd = -1;
    if (error) {
        symbol_dwarf_close(dwarf);
        return error;
    }
    *out = dwarf;
    return NULL;
}

struct err *symbol_dwarf_open(const char *path, struct symbol_dwarf **out)
{
    *out = NULL;
    int fd = regular_open(path);
    if (fd < 0)
        return err_errno(errno == EACCES || errno == EPERM ? ERR_PERMISSION : ERR_SYSTEM, errno, "symbol: %s", path);
    struct err *error = symbol_dwarf_open_fd(fd, path, out);
    close(fd);
    return error;
}

static void free_elf(struct symbol_elf *elf)
{
    if (elf)
        symbol_elf_deinit(elf);
    free(elf);
}

void symbol_dwarf_close(struct symbol_dwarf *dwarf)
{
    if (!dwarf)
        return;
    symbol_dw_cfa_free(dwarf);
    symbol_dw_inlines_free(dwarf);
    dwarf_end(dwarf->libdw);
    elf_end(dwarf->libelf);
    dwarf_end(dwarf->alt_libdw);
    elf_end(dwarf->alt_libelf);
    symbol_elf_deinit(&dwarf->main);
    free_elf(dwarf->debug);
    free_elf(dwarf->alt);
    for (size_t i = 0; i < dwarf->units.n; i++) {
        VEC_FREE(&dwarf->units.at[i].funcs);
        VEC_FREE(&dwarf->units.at[i].copies);
    }
    VEC_FREE(&dwarf->units);
    VEC_FREE(&dwarf->unit_ranges);
    VEC_FREE(&dwarf->clones);
    VEC_FREE(&dwarf->names);
    free(dwarf->buckets);
    free(dwarf->types);
    for (size_t i = 0; i < dwarf->chunks.n; i++)
        free(dwarf->chunks.at[i]);
    VEC_FREE(&dwarf->chunks);
    free(dwarf->debug_path);
    free(dwarf->path);
    free(dwarf);
}

int symbol_dwarf_width(const struct symbol_dwarf *dwarf)
{
    return dwarf->width;
}

/* ---- units ---- */

static void add_units(struct symbol_dwarf *dwarf, Dwarf *libdw)
{
    Dwarf_CU *unit = NULL;
    Dwarf_Half version;
    uint8_t type;
    Dwarf_Die die;
    /* Without the last argument libdw does not look for split units. */
    while (dwarf->units.n < SYMBOL_DW_MAX_UNITS && dwarf_get_units(libdw, unit, &unit, &version, &type, &die, NULL) == 0) {
        if (!die.addr)
            continue;
        int tag = dwarf_tag(&die);
        if (tag != DW_TAG_compile_unit && tag != DW_TAG_partial_unit && tag != DW_TAG_type_unit)
            continue;
        VEC_PUSH(&dwarf->units, (struct symbol_dw_unit){.die = die, .is_code = tag == DW_TAG_compile_unit && libdw == dwarf->libdw});
    }
}

static int by_start(const void *left, const void *right)
{
    const struct symbol_dw_unit_range *a = left, *b = right;
    return a->va < b->va ? -1 : a->va > b->va;
}

static void sort_unit_ranges(struct symbol_dwarf *dwarf)
{
    uint64_t reach = 0;
    if (dwarf->unit_ranges.n)
        qsort(dwarf->unit_ranges.at, dwarf->unit_ranges.n, sizeof *dwarf->unit_ranges.at, by_start);
    for (size_t i = 0; i < dwarf->unit_ranges.n; i++) {
        struct symbol_dw_unit_range *range = &dwarf->unit_ranges.at[i];
        reach = range->end > reach ? range->end : reach;
        range->reach = reach;
    }
}

struct err *symbol_dw_load_units(struct symbol_dwarf *dwarf)
{
    if (dwarf->has_units)
        return NULL;
    if (dwarf->alt_libdw)
        dwarf_setalt(dwarf->libdw, dwarf->alt_libdw);
    add_units(dwarf, dwarf->libdw);
    size_t own = dwarf->units.n;
    if (dwarf->alt_libdw)
        add_units(dwarf, dwarf->alt_libdw);
    dwarf->has_units = true;
    for (size_t i = 0; i < own; i++) {
        Dwarf_Addr base, start, end;
        ptrdiff_t offset = 0;
        struct symbol_dw_unit *unit = &dwarf->units.at[i];
        if (!unit->is_code)
            continue;
        while ((offset = dwarf_ranges(&unit->die, offset, &base, &start, &end)) > 0) {
            if (!symbol_dw_spend(dwarf, 16)) {
                sort_unit_ranges(dwarf);
                return symbol_dw_spent(dwarf);
            }
            if (start < end)
                VEC_PUSH(&dwarf->unit_ranges, (struct symbol_dw_unit_range){.va = start, .end = end, .unit = i});
        }
    }
    sort_unit_ranges(dwarf);
    return NULL;
}

bool symbol_dw_is_code(const struct symbol_dwarf *dwarf, uint64_t va)
{
    for (size_t i = 0; i < dwarf->main.segments.n; i++) {
        const struct symbol_segment *segment = &dwarf->main.segments.at[i];
        if (segment->executable && va >= segment->va && va - segment->va < segment->size)
            return true;
    }
    return false;
}

/* ---- DIEs ---- */

bool symbol_dw_first(struct symbol_dwarf *dwarf, Dwarf_Die *parent, Dwarf_Die *out)
{
    return symbol_dw_spend(dwarf, 1) && dwarf_child(parent, out) == 0 && out->addr;
}

bool symbol_dw_next(struct symbol_dwarf *dwarf, Dwarf_Die *die)
{
    const char *before = die->addr;
    /* Without DW_AT_sibling libdw walks over all that is below. */
    return dwarf_siblingof(die, die) == 0 && (const char *)die->addr > before &&
           symbol_dw_spend(dwarf, (uint64_t)((const char *)die->addr - before));
}

bool symbol_dw_own_ref(Dwarf_Die *die, unsigned name, Dwarf_Die *out)
{
    Dwarf_Attribute attribute;
    return dwarf_attr(die, name, &attribute) && dwarf_formref_die(&attribute, out) && out->addr;
}

Dwarf_Die symbol_dw_origin_of(Dwarf_Die *func)
{
    Dwarf_Die at = *func, next;
    for (int i = 0; i < 4 && symbol_dw_own_ref(&at, DW_AT_abstract_origin, &next); i++)
        at = next;
    return at;
}

bool symbol_dw_find_attr(Dwarf_Die *die, unsigned name, Dwarf_Attribute *out)
{
    Dwarf_Die at = *die;
    for (int i = 0; i < 16; i++) {
        if (dwarf_attr(&at, name, out))
            return true;
        Dwarf_Die next;
        if (!symbol_dw_own_ref(&at, DW_AT_abstract_origin, &next) && !symbol_dw_own_ref(&at, DW_AT_specification, &next))
            return false;
        at = next;
    }
    return false;
}

bool symbol_dw_own_flag(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    bool value;
    return dwarf_attr(die, name, &attribute) && dwarf_formflag(&attribute, &value) == 0 && value;
}

bool symbol_dw_find_flag(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    bool value;
    return symbol_dw_find_attr(die, name, &attribute) && dwarf_formflag(&attribute, &value) == 0 && value;
}

bool symbol_dw_own_uint(Dwarf_Die *die, unsigned name, uint64_t *out)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0)
        return false;
    *out = value;
    return true;
}

const char *symbol_dw_text(struct symbol_dwarf *dwarf, Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    const char *text = symbol_dw_find_attr(die, name, &attribute) ? dwarf_formstring(&attribute) : NULL;
    if (!text)
        return NULL;
    size_t size = strnlen(text, SYMBOL_DW_MAX_NAME);
    if (!size || size == SYMBOL_DW_MAX_NAME || !symbol_dw_spend(dwarf, size))
        return NULL;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return NULL;
    return text;
}
