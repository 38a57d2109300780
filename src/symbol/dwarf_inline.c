/* What is inlined at an address. Of a function that is asked about, the DIEs of what is inlined into it are read once, and become segments:
 * the range of the function is cut at all places where something inlined starts or ends, and each piece knows the innermost. Asking again
 * is then two binary searches. Names belong to the abstract instances, of which many copies share one.
 *
 * Memory is charged to dwarf->inline_bytes, since hostile DIEs can be led to more than once. */
#include "symbol/dwarf_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNNAMED_MAX = 48 };

struct node {
    Dwarf_Die die;   /* DW_TAG_inlined_subroutine */
    uint32_t parent; /* what it is inlined into: number + 1 in `nodes`, 0: the function */
};

struct segment {
    uint64_t va;
    uint32_t node; /* number + 1; 0: nothing is inlined */
};

struct symbol_dw_inlines {
    VEC(struct node) nodes;
    VEC(struct segment) segments; /* by va, each up to the next */
};

struct symbol_dw_origin {
    const void *die; /* address; NULL: free */
    const char *name, *declared_path;
    unsigned declared_line;
};

/* ---- segments ---- */

struct span {
    uint64_t va, end;
    uint32_t node;  /* number + 1 */
    uint32_t depth; /* how many functions it is inlined into, one into the other */
};

struct building {
    struct symbol_dwarf *dwarf;
    const struct symbol_dw_range *range;
    struct symbol_dw_inlines *inlines;
    VEC(struct span) spans;
};

static bool charge(struct symbol_dwarf *dwarf, uint64_t bytes)
{
    if (bytes > dwarf->inline_bytes)
        return false;
    dwarf->inline_bytes -= bytes;
    return true;
}

/* The parts of the DIE's code that are in the range. */
static void add_spans(struct building *building, Dwarf_Die *die, uint32_t node, unsigned depth)
{
    Dwarf_Addr base, start, end;
    ptrdiff_t offset = 0;
    const struct symbol_dw_range *range = building->range;
    while ((offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0 && symbol_dw_spend(building->dwarf, 4)) {
        start = start < range->va ? range->va : start;
        end = end > range->end ? range->end : end;
        /* A span gives two segments at most. */
        if (start < end && charge(building->dwarf, sizeof(struct span) + 2 * sizeof(struct segment)))
            VEC_PUSH(&building->spans, (struct span){start, end, node, depth});
    }
}

static void add_children(struct building *building, Dwarf_Die *parent, uint32_t inlined_into, unsigned depth, unsigned inlined_depth)
{
    struct symbol_dwarf *dwarf = building->dwarf;
    Dwarf_Die die;
    if (depth == SYMBOL_DW_MAX_CHAIN || !symbol_dw_first(dwarf, parent, &die))
        return;
    do {
        int tag = dwarf_tag(&die);
        bool is_inlined = tag == DW_TAG_inlined_subroutine;
        uint32_t node = inlined_into;
        if (!is_inlined && tag != DW_TAG_lexical_block && tag != DW_TAG_try_block && tag != DW_TAG_catch_block)
            continue;
        if (is_inlined) {
            if (inlined_depth + 2 > SYMBOL_INLINES_MAX || !charge(dwarf, sizeof(struct node)))
                continue;
            VEC_PUSH(&building->inlines->nodes, (struct node){die, inlined_into});
            node = (uint32_t)building->inlines->nodes.n;
            add_spans(building, &die, node, inlined_depth);
        }
        if (dwarf_haschildren(&die))
            add_children(building, &die, node, depth + 1, inlined_depth + is_inlined);
    } while (symbol_dw_next(dwarf, &die));
}

static int by_start(const void *left, const void *right)
{
    const struct span *a = left, *b = right;
    return a->va < b->va ? -1 : a->va > b->va;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Spans that have started, as a heap with the deepest first; those that have ended leave when they come to the top. */
typedef VEC(struct span) heap;

static bool is_deeper(const struct span *a, const struct span *b)
{
    return a->depth != b->depth ? a->depth > b->depth : a->node > b->node;
}

static void heap_push(heap *open, struct span span)
{
    VEC_PUSH(open, span);
    for (size_t at = open->n - 1; at && is_deeper(&span, &open->at[(at - 1) / 2]); at = (at - 1) / 2) {
        open->at[at] = open->at[(at - 1) / 2];
        open->at[(at - 1) / 2] = span;
    }
}

static void heap_pop(heap *open)
{
    struct span last = open->at[--open->n];
    for (size_t at = 0, child; (child = 2 * at + 1) < open->n; at = child) {
        child += child + 1 < open->n && is_deeper(&open->at[child + 1], &open->at[child]);
        open->at[at] = last;
        if (!is_deeper(&open->at[child], &last))
            return;
        open->at[at] = open->at[child];
        open->at[child] = last;
    }
    open->at[0] = open->n == 1 ? last : open->at[0];
}

/* The deepest of the spans at each address counts. A function's spans need not be in one span of what it is inlined into, only in all of
 * them together. */
static void make_segments(struct building *building)
{
    heap open = {0};
    size_t count = building->spans.n, started = 0;
    struct span *spans = building->spans.at;
    if (!count)
        return;
    qsort(spans, count, sizeof *spans, by_start);
    uint64_t *borders = memory_alloc(2 * count * sizeof *borders);
    for (size_t i = 0; i < count; i++) {
        borders[2 * i] = spans[i].va;
        borders[2 * i + 1] = spans[i].end;
    }
    qsort(borders, 2 * count, sizeof *borders, by_value);
    uint32_t last = 0;
    for (size_t i = 0; i < 2 * count; i++) {
        if (i + 1 < 2 * count && borders[i] == borders[i + 1])
            continue;
        while (started < count && spans[started].va <= borders[i])
            heap_push(&open, spans[started++]);
        while (open.n && open.at[0].end <= borders[i])
            heap_pop(&open);
        uint32_t node = open.n ? open.at[0].node : 0;
        if (node != last)
            VEC_PUSH(&building->inlines->segments, (struct segment){borders[i], node});
        last = node;
    }
    free(borders);
    VEC_FREE(&open);
}

static struct symbol_dw_inlines *inlines_of(struct symbol_dwarf *dwarf, struct symbol_dw_range *range)
{
    if (range->inlines)
        return range->inlines;
    range->inlines = memory_zero(1, sizeof *range->inlines);
    struct building building = {.dwarf = dwarf, .range = range, .inlines = range->inlines};
    add_children(&building, &range->die, 0, 0, 0);
    make_segments(&building);
    VEC_FREE(&building.spans);
    return range->inlines;
}

/* Number + 1 of the innermost at `va`, or 0. */
static uint32_t innermost(const struct symbol_dw_inlines *inlines, uint64_t va)
{
    size_t low = 0, high = inlines->segments.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (inlines->segments.at[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? inlines->segments.at[low - 1].node : 0;
}

void symbol_dw_inlines_free(struct symbol_dwarf *dwarf)
{
    for (size_t i = 0; i < dwarf->units.n; i++)
        for (size_t k = 0; k < dwarf->units.at[i].funcs.n; k++) {
            struct symbol_dw_inlines *inlines = dwarf->units.at[i].funcs.at[k].inlines;
            if (!inlines)
                continue;
            VEC_FREE(&inlines->nodes);
            VEC_FREE(&inlines->segments);
            free(inlines);
        }
    free(dwarf->origins);
}

/* ---- names ---- */

/* A class without a name that can be called is a lambda. Of several in a function the line tells which. */
static const char *unnamed_class(struct symbol_dwarf *dwarf, Dwarf_Die *scope, char made[UNNAMED_MAX])
{
    Dwarf_Die child;
    uint64_t line = 0;
    for (bool more = symbol_dw_first(dwarf, scope, &child); more; more = symbol_dw_next(dwarf, &child)) {
        const char *name = dwarf_tag(&child) == DW_TAG_subprogram ? symbol_dw_text(dwarf, &child, DW_AT_name) : NULL;
        if (!name || strncmp(name, "operator()", strlen("operator()")))
            continue;
        symbol_dw_own_uint(&child, DW_AT_decl_line, &line);
        symbol_dw_own_uint(scope, DW_AT_decl_line, &line);
        snprintf(made, UNNAMED_MAX, "{lambda at line %llu}", (unsigned long long)line);
        return made;
    }
    return "{unnamed type}";
}

/* What a scope adds to the names in it; NULL: nothing. */
static const char *scope_name(struct symbol_dwarf *dwarf, Dwarf_Die *scope, char made[UNNAMED_MAX])
{
    const char *name = symbol_dw_text(dwarf, scope, DW_AT_name);
    switch (dwarf_tag(scope)) {
    case DW_TAG_namespace:
        return name ? name : "(anonymous namespace)";
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_interface_type:
        return name ? name : unnamed_class(dwarf, scope, made);
    case DW_TAG_subprogram:
    case DW_TAG_module:
        return name;
    }
    return NULL;
}

/* The name in the source with the namespaces, classes and functions around it: those of its declaration. False when it does not fit. */
static bool scoped_name(struct symbol_dwarf *dwarf, Dwarf_Die *func, char out[SYMBOL_DW_MAX_NAME])
{
    Dwarf_Die die = symbol_dw_origin_of(func), at, child;
    char made[UNNAMED_MAX];
    size_t size = 0;
    for (int i = 0; i < 4 && symbol_dw_own_ref(&die, DW_AT_specification, &child); i++)
        die = child;
    if (!dwarf_diecu(&die, &at, NULL, NULL))
        return false;
    for (unsigned depth = 0; depth < SYMBOL_DW_MAX_CHAIN; depth++) {
        /* The last child that starts at or before the DIE holds it. */
        Dwarf_Die holder = at;
        bool has_child = false;
        for (bool more = symbol_dw_first(dwarf, &at, &child); more && (const char *)child.addr <= (const char *)die.addr;
             more = symbol_dw_next(dwarf, &child)) {
            holder = child;
            has_child = true;
        }
        if (!has_child)
            return false;
        bool is_last = holder.addr == die.addr;
        const char *name = is_last ? symbol_dw_text(dwarf, &die, DW_AT_name) : scope_name(dwarf, &holder, made);
        size_t length = name ? strlen(name) : 0;
        if (size + length + 3 > SYMBOL_DW_MAX_NAME)
            return false;
        if (name) {
            memcpy(out + size, name, length);
            memcpy(out + size + length, is_last ? "" : "::", is_last ? 1 : 3);
            size += is_last ? length : length + 2;
        }
        if (is_last)
            return name;
        at = holder;
    }
    return false;
}

static const char *keep_text(struct symbol_dwarf *dwarf, const char *text)
{
    size_t size = strlen(text) + 1;
    if (!charge(dwarf, size))
        return NULL;
    return memcpy(symbol_dw_keep(dwarf, size, 1), text, size);
}

static const char *name_of(struct symbol_dwarf *dwarf, Dwarf_Die *die)
{
    const char *name = symbol_dw_text(dwarf, die, DW_AT_name), *linkage_name = symbol_dw_text(dwarf, die, DW_AT_linkage_name);
    char text[SYMBOL_DW_MAX_NAME];
    if (!linkage_name)
        linkage_name = symbol_dw_text(dwarf, die, DW_AT_MIPS_linkage_name);
    const char *kept = NULL;
    if (linkage_name) {
        char *readable = symbol_demangle(linkage_name, &dwarf->inline_bytes);
        kept = readable ? keep_text(dwarf, readable) : linkage_name;
        free(readable);
    } else if (name && scoped_name(dwarf, die, text)) {
        kept = strcmp(text, name) ? keep_text(dwarf, text) : name;
    }
    return kept ? kept : name;
}

static void find_declared(struct symbol_dwarf *dwarf, Dwarf_Die *die, struct symbol_dw_origin *origin)
{
    Dwarf_Attribute attribute;
    Dwarf_Word file, line;
    Dwarf_Die unit;
    /* A number of a file is one of the unit that says it. */
    if (symbol_dw_find_attr(die, DW_AT_decl_file, &attribute) && dwarf_formudata(&attribute, &file) == 0 &&
        dwarf_cu_die(attribute.cu, &unit, NULL, NULL, NULL, NULL, NULL, NULL))
        origin->declared_path = symbol_dw_file_path(dwarf, &unit, file);
    if (symbol_dw_find_attr(die, DW_AT_decl_line, &attribute) && dwarf_formudata(&attribute, &line) == 0 && line < INT32_MAX)
        origin->declared_line = (unsigned)line;
}

/* The cell of the DIE, or a free one. */
static struct symbol_dw_origin *origin_cell(const struct symbol_dwarf *dwarf, const void *die)
{
    size_t at = (uintptr_t)die * 0x9e3779b97f4a7c15u >> 32 & (dwarf->origin_room - 1);
    while (dwarf->origins[at].die && dwarf->origins[at].die != die)
        at = (at + 1) & (dwarf->origin_room - 1);
    return &dwarf->origins[at];
}

static void grow_origins(struct symbol_dwarf *dwarf)
{
    struct symbol_dw_origin *old = dwarf->origins;
    size_t old_room = dwarf->origin_room;
    dwarf->origin_room = old_room ? 2 * old_room : 64;
    dwarf->origins = memory_zero(dwarf->origin_room, sizeof *old);
    for (size_t i = 0; i < old_room; i++)
        if (old[i].die)
            *origin_cell(dwarf, old[i].die) = old[i];
    free(old);
}

/* There are no more of them than nodes and ranges. Valid until the next call. */
static const struct symbol_dw_origin *origin_at(struct symbol_dwarf *dwarf, Dwarf_Die *die)
{
    if (2 * dwarf->origin_count >= dwarf->origin_room)
        grow_origins(dwarf);
    struct symbol_dw_origin *origin = origin_cell(dwarf, die->addr);
    if (!origin->die) {
        *origin = (struct symbol_dw_origin){.die = die->addr, .name = name_of(dwarf, die)};
        find_declared(dwarf, die, origin);
        dwarf->origin_count++;
    }
    return origin;
}

/* ---- asking ---- */

static void put_function(struct symbol_dwarf *dwarf, Dwarf_Die *die, struct symbol_inline *out)
{
    const struct symbol_dw_origin *origin = origin_at(dwarf, die);
    out->name = origin->name;
    out->declared_path = origin->declared_path;
    out->declared_line = origin->declared_line;
}

/* Where the DIE is inlined, which is a place in the next function. */
static void put_call(struct symbol_dwarf *dwarf, const struct symbol_dw_unit *unit, Dwarf_Die *die, struct symbol_inline *out)
{
    uint64_t file, line;
    Dwarf_Die unit_die = unit->die;
    if (symbol_dw_own_uint(die, DW_AT_call_file, &file))
        out->path = symbol_dw_file_path(dwarf, &unit_die, file);
    if (out->path && symbol_dw_own_uint(die, DW_AT_call_line, &line) && line && line < INT32_MAX)
        out->line = (unsigned)line;
    else
        out->path = NULL;
}

size_t symbol_dwarf_inlines(struct symbol_dwarf *dwarf, uint64_t va, struct symbol_inline out[SYMBOL_INLINES_MAX])
{
    symbol_dw_begin_call(dwarf);
    struct symbol_dw_unit *unit = symbol_dw_unit_at(dwarf, va);
    struct symbol_dw_range *range = unit ? symbol_dw_func_range_in(dwarf, unit, va) : NULL;
    struct symbol_line line = {0};
    size_t count = 0;
    if (unit)
        symbol_dw_row_at(dwarf, unit, va, &line);
    out[0] = (struct symbol_inline){.path = line.path, .line = line.line};
    if (!range)
        return line.path ? 1 : 0;
    struct symbol_dw_inlines *inlines = inlines_of(dwarf, range);
    for (uint32_t node = innermost(inlines, va); node && count + 1 < SYMBOL_INLINES_MAX; node = inlines->nodes.at[node - 1].parent) {
        Dwarf_Die *die = &inlines->nodes.at[node - 1].die, origin = symbol_dw_origin_of(die);
        uint64_t copy_va = symbol_dw_copy_of(unit, &origin);
        put_function(dwarf, &origin, &out[count]);
        out[count].copy_va = copy_va && !symbol_dw_is_clone(dwarf, copy_va) ? copy_va : 0;
        out[count].is_inlined = true;
        out[++count] = (struct symbol_inline){0};
        put_call(dwarf, unit, die, &out[count]);
    }
    put_function(dwarf, &range->die, &out[count]);
    return count + 1;
}
