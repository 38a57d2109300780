/* The index: names of types and functions, and the ranges of functions by unit. Units are indexed one after the other until what is asked
 * for is there, so that a type of the first units costs little; a unit that an address leads to is indexed at once.
 *
 * Only what is at the top of a unit or in namespaces and classes is seen; types inside functions have no name here. */
#include "symbol/dwarf_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16 }; /* of namespaces and classes */

/* ---- the table of names ---- */

static uint32_t hash_name(enum symbol_dw_name_kind kind, const char *name)
{
    uint32_t hash = 2166136261u ^ kind; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

static void grow_buckets(struct symbol_dwarf *dwarf)
{
    size_t count = dwarf->bucket_count ? 4 * dwarf->bucket_count : 1024;
    free(dwarf->buckets);
    dwarf->buckets = memory_zero(count, sizeof *dwarf->buckets);
    dwarf->bucket_count = count;
    /* Backwards, so that what came first is found first. */
    for (size_t i = dwarf->names.n; i > 0; i--) {
        struct symbol_dw_name *name = &dwarf->names.at[i - 1];
        uint32_t *bucket = &dwarf->buckets[name->hash & (count - 1)];
        name->next = *bucket;
        *bucket = (uint32_t)i;
    }
}

static struct symbol_dw_name *look_up(struct symbol_dwarf *dwarf, uint32_t index, enum symbol_dw_name_kind kind, const char *text,
                                      uint32_t hash)
{
    while (index) {
        struct symbol_dw_name *name = &dwarf->names.at[index - 1];
        if (name->hash == hash && name->kind == kind && strcmp(name->name, text) == 0)
            return name;
        if (!symbol_dw_spend(dwarf, 1))
            return NULL;
        index = name->next;
    }
    return NULL;
}

static struct symbol_dw_name *find(struct symbol_dwarf *dwarf, enum symbol_dw_name_kind kind, const char *text)
{
    uint32_t hash = hash_name(kind, text);
    return dwarf->bucket_count ? look_up(dwarf, dwarf->buckets[hash & (dwarf->bucket_count - 1)], kind, text, hash) : NULL;
}

static void add(struct symbol_dwarf *dwarf, struct symbol_dw_name name)
{
    if (dwarf->names.n >= UINT32_MAX - 1 || !symbol_dw_spend(dwarf, 4))
        return;
    if (dwarf->names.n >= dwarf->bucket_count)
        grow_buckets(dwarf);
    name.hash = hash_name(name.kind, name.name);
    if (name.kind != SYMBOL_DW_NAME_FUNC) {
        struct symbol_dw_name *old = find(dwarf, name.kind, name.name);
        if (old) {
            if ((old->is_declaration && !name.is_declaration) ||
                (old->is_bare && !name.is_bare && old->is_declaration == name.is_declaration)) {
                name.next = old->next;
                *old = name;
            }
            return;
        }
    }
    uint32_t *bucket = &dwarf->buckets[name.hash & (dwarf->bucket_count - 1)];
    if (!symbol_dw_spend(dwarf, 60))
        return;
    name.next = *bucket;
    VEC_PUSH(&dwarf->names, name);
    *bucket = (uint32_t)dwarf->names.n;
}

/* ---- reading a unit ---- */

/* The entry: DW_AT_low_pc, or the start of the first range (gcc: the part that is not cold). */
static void add_func(struct symbol_dwarf *dwarf, struct symbol_dw_unit *unit, Dwarf_Die *die)
{
    Dwarf_Addr base, start, end;
    ptrdiff_t offset = 0;
    uint64_t entry_va = 0;
    bool has_entry = false;
    while ((offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0 && symbol_dw_spend(dwarf, 16)) {
        if (start >= end || !symbol_dw_is_code(dwarf, start))
            continue;
        if (!has_entry)
            entry_va = start;
        has_entry = true;
        VEC_PUSH(&unit->funcs, (struct symbol_dw_range){.va = start, .end = end, .die = *die, .entry_va = entry_va});
    }
    if (!has_entry)
        return;
    Dwarf_Die origin = symbol_dw_origin_of(die);
    if (origin.addr != die->addr)
        VEC_PUSH(&unit->copies, (struct symbol_dw_copy){origin.addr, entry_va});
    const char *names[] = {symbol_dw_text(dwarf, die, DW_AT_name), symbol_dw_text(dwarf, die, DW_AT_linkage_name),
                           symbol_dw_text(dwarf, die, DW_AT_MIPS_linkage_name)};
    for (size_t i = 0; i < 3; i++)
        if (names[i])
            add(dwarf, (struct symbol_dw_name){.name = names[i], .kind = SYMBOL_DW_NAME_FUNC, .die = *die, .entry_va = entry_va});
}

static int name_kind(int tag)
{
    switch (tag) {
    case DW_TAG_base_type:
    case DW_TAG_typedef:
    case DW_TAG_unspecified_type:
        return SYMBOL_DW_NAME_PLAIN;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_interface_type:
        return SYMBOL_DW_NAME_STRUCT;
    case DW_TAG_union_type:
        return SYMBOL_DW_NAME_UNION;
    case DW_TAG_enumeration_type:
        return SYMBOL_DW_NAME_ENUM;
    }
    return -1;
}

static void add_type(struct symbol_dwarf *dwarf, Dwarf_Die *die, enum symbol_dw_name_kind kind, const char *prefix)
{
    const char *name = symbol_dw_text(dwarf, die, DW_AT_name);
    if (!name)
        return;
    struct symbol_dw_name entry = {
        .name = name, .kind = (uint8_t)kind, .is_declaration = symbol_dw_own_flag(die, DW_AT_declaration), .die = *die};
    if (prefix[0]) {
        size_t size = strlen(prefix) + strlen(name) + 1;
        char text[2 * SYMBOL_DW_MAX_NAME];
        memcpy(text, prefix, strlen(prefix));
        memcpy(text + strlen(prefix), name, strlen(name) + 1);
        /* Only what is new costs memory. */
        struct symbol_dw_name *old = find(dwarf, kind, text);
        if (!old && symbol_dw_spend(dwarf, size)) {
            char *kept = symbol_dw_keep(dwarf, size, 1);
            memcpy(kept, text, size);
            entry.name = kept;
        } else {
            entry.name = old ? old->name : name;
        }
        add(dwarf, entry);
        entry.name = name;
        entry.is_bare = true;
    }
    add(dwarf, entry);
}

/* `prefix`: the namespaces around, each with its "::"; room for SYMBOL_DW_MAX_NAME bytes. */
static void index_children(struct symbol_dwarf *dwarf, struct symbol_dw_unit *unit, Dwarf_Die *parent, char *prefix, unsigned depth)
{
    Dwarf_Die die;
    if (depth == MAX_DEPTH || !symbol_dw_first(dwarf, parent, &die))
        return;
    do {
        int tag = dwarf_tag(&die), kind = name_kind(tag);
        if (kind >= 0)
            add_type(dwarf, &die, (enum symbol_dw_name_kind)kind, prefix);
        else if (tag == DW_TAG_subprogram && unit->is_code && !symbol_dw_own_flag(&die, DW_AT_declaration))
            add_func(dwarf, unit, &die);
        if (tag == DW_TAG_namespace || tag == DW_TAG_module || kind == SYMBOL_DW_NAME_STRUCT || kind == SYMBOL_DW_NAME_UNION) {
            if (!dwarf_haschildren(&die))
                continue;
            const char *name = symbol_dw_text(dwarf, &die, DW_AT_name);
            size_t before = strlen(prefix), size = name ? strlen(name) : 0;
            if (before + size + 3 > SYMBOL_DW_MAX_NAME)
                continue;
            if (name) {
                memcpy(prefix + before, name, size);
                memcpy(prefix + before + size, "::", 3);
            }
            index_children(dwarf, unit, &die, prefix, depth + 1);
            prefix[before] = 0;
        }
    } while (symbol_dw_next(dwarf, &die));
}

static int by_number(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Those at one address in the order of the DIEs. */
static int by_start(const void *left, const void *right)
{
    const struct symbol_dw_range *a = left, *b = right;
    int order = by_number(a->va, b->va);
    return order ? order : by_number((uintptr_t)a->die.addr, (uintptr_t)b->die.addr);
}

static int by_origin(const void *left, const void *right)
{
    const struct symbol_dw_copy *a = left, *b = right;
    int order = by_number((uintptr_t)a->origin, (uintptr_t)b->origin);
    return order ? order : by_number(a->entry_va, b->entry_va);
}

static void index_unit(struct symbol_dwarf *dwarf, struct symbol_dw_unit *unit)
{
    char prefix[SYMBOL_DW_MAX_NAME] = "";
    if (unit->is_indexed)
        return;
    unit->is_indexed = true;
    index_children(dwarf, unit, &unit->die, prefix, 0);
    if (unit->funcs.n)
        qsort(unit->funcs.at, unit->funcs.n, sizeof *unit->funcs.at, by_start);
    if (unit->copies.n)
        qsort(unit->copies.at, unit->copies.n, sizeof *unit->copies.at, by_origin);
    uint64_t reach = 0;
    for (size_t i = 0; i < unit->funcs.n; i++) {
        struct symbol_dw_range *range = &unit->funcs.at[i];
        reach = range->end > reach ? range->end : reach;
        range->reach = reach;
    }
}

/* ---- looking up ---- */

const struct symbol_dw_name *symbol_dw_find_name(struct symbol_dwarf *dwarf, enum symbol_dw_name_kind kind, const char *name)
{
    err_free(symbol_dw_load_units(dwarf)); /* what was read is used */
    struct symbol_dw_name *found = find(dwarf, kind, name);
    while (dwarf->indexed_units < dwarf->units.n && (!found || found->is_declaration || found->is_bare || kind == SYMBOL_DW_NAME_FUNC)) {
        size_t before = dwarf->names.n;
        index_unit(dwarf, &dwarf->units.at[dwarf->indexed_units++]);
        if (dwarf->names.n > before || (found && (found->is_declaration || found->is_bare)))
            found = find(dwarf, kind, name);
    }
    return found;
}

const struct symbol_dw_name *symbol_dw_next_name(struct symbol_dwarf *dwarf, const struct symbol_dw_name *name)
{
    return look_up(dwarf, name->next, name->kind, name->name, name->hash);
}

struct symbol_dw_range *symbol_dw_func_range_in(struct symbol_dwarf *dwarf, struct symbol_dw_unit *unit, uint64_t va)
{
    struct symbol_dw_range *best = NULL;
    size_t low = 0, high = unit->funcs.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (unit->funcs.at[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    while (low-- > 0 && unit->funcs.at[low].reach > va && symbol_dw_spend(dwarf, 1)) {
        struct symbol_dw_range *range = &unit->funcs.at[low];
        if (va < range->end && (!best || range->end - range->va <= best->end - best->va))
            best = range;
    }
    return best;
}

struct symbol_dw_unit *symbol_dw_unit_at(struct symbol_dwarf *dwarf, uint64_t va)
{
    err_free(symbol_dw_load_units(dwarf));
    size_t low = 0, high = dwarf->unit_ranges.n, found = SIZE_MAX;
    bool has_function = false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (dwarf->unit_ranges.at[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    while (low-- > 0 && dwarf->unit_ranges.at[low].reach > va && symbol_dw_spend(dwarf, 1)) {
        size_t unit = dwarf->unit_ranges.at[low].unit;
        if (va >= dwarf->unit_ranges.at[low].end || unit == found)
            continue;
        index_unit(dwarf, &dwarf->units.at[unit]);
        bool has = symbol_dw_func_range_in(dwarf, &dwarf->units.at[unit], va);
        if (has > has_function || (has == has_function && unit < found)) {
            found = unit;
            has_function = has;
        }
    }
    return found == SIZE_MAX ? NULL : &dwarf->units.at[found];
}

struct symbol_dw_range *symbol_dw_func_range_at(struct symbol_dwarf *dwarf, uint64_t va)
{
    struct symbol_dw_unit *unit = symbol_dw_unit_at(dwarf, va);
    return unit ? symbol_dw_func_range_in(dwarf, unit, va) : NULL;
}

uint64_t symbol_dw_copy_of(const struct symbol_dw_unit *unit, const Dwarf_Die *origin)
{
    size_t low = 0, high = unit->copies.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)unit->copies.at[middle].origin < (uintptr_t)origin->addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low < unit->copies.n && unit->copies.at[low].origin == origin->addr ? unit->copies.at[low].entry_va : 0;
}

bool symbol_dw_qualified_name(struct symbol_dwarf *dwarf, Dwarf_Die *die, char out[SYMBOL_DW_MAX_NAME])
{
    Dwarf_Die at, child;
    size_t size = 0;
    if (!dwarf_diecu(die, &at, NULL, NULL))
        return false;
    for (unsigned depth = 0; depth < MAX_DEPTH; depth++) {
        /* The last child that starts at or before the DIE holds it. */
        bool has_child = false;
        Dwarf_Die holder = at;
        if (symbol_dw_first(dwarf, &at, &child))
            do {
                if ((const char *)child.addr > (const char *)die->addr)
                    break;
                holder = child;
                has_child = true;
            } while (symbol_dw_next(dwarf, &child));
        if (!has_child)
            return false;
        const char *name = symbol_dw_text(dwarf, &holder, DW_AT_name);
        size_t length = name ? strlen(name) : 0;
        if (size + length + 3 > SYMBOL_DW_MAX_NAME)
            return false;
        if (name)
            memcpy(out + size, name, length + 1);
        size += length;
        if (holder.addr == die->addr)
            return name;
        int tag = dwarf_tag(&holder), kind = name_kind(tag);
        if (tag != DW_TAG_namespace && tag != DW_TAG_module && kind != SYMBOL_DW_NAME_STRUCT && kind != SYMBOL_DW_NAME_UNION)
            return false;
        if (name) {
            memcpy(out + size, "::", 3);
            size += 2;
        }
        at = holder;
    }
    return false;
}

/* ---- clones ---- */

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static bool is_clone_name(const char *name, size_t size)
{
    static const char *const marks[] = {".isra.", ".constprop.", ".part."};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (memmem(name, size, marks[i], strlen(marks[i])))
            return true;
    return false;
}

static void load_clones(struct symbol_dwarf *dwarf, struct symbol_elf *elf)
{
    const struct symbol_section *table = symbol_elf_section(elf, ".symtab");
    if (!table || table->type != SHT_SYMTAB || table->link >= elf->sections.n)
        return;
    const struct symbol_section *strings = &elf->sections.at[table->link];
    const uint8_t *entries = symbol_elf_section_bytes(elf, table), *text = symbol_elf_section_bytes(elf, strings);
    uint64_t count = table->size / symbol_elf_entry_size(elf), budget = 4 * elf->image.size;
    for (uint64_t i = 0; entries && text && i < count; i++) {
        struct symbol_entry entry = symbol_elf_entry(elf, entries, (size_t)i);
        if ((entry.info & 15) != STT_FUNC || entry.section == SHN_UNDEF || entry.name >= strings->size)
            continue;
        uint64_t room = strings->size - entry.name;
        size_t size = strnlen((const char *)text + entry.name, (size_t)(room < SYMBOL_DW_MAX_NAME ? room : SYMBOL_DW_MAX_NAME));
        if (size + 1 > budget)
            return;
        budget -= size + 1;
        if (is_clone_name((const char *)text + entry.name, size))
            VEC_PUSH(&dwarf->clones, entry.value);
    }
}

bool symbol_dw_is_clone(struct symbol_dwarf *dwarf, uint64_t entry_va)
{
    if (!dwarf->has_clones) {
        dwarf->has_clones = true;
        load_clones(dwarf, &dwarf->main);
        if (dwarf->debug)
            load_clones(dwarf, dwarf->debug);
        if (dwarf->clones.n)
            qsort(dwarf->clones.at, dwarf->clones.n, sizeof *dwarf->clones.at, by_value);
    }
    return dwarf->clones.n && bsearch(&entry_va, dwarf->clones.at, dwarf->clones.n, sizeof entry_va, by_value);
}
