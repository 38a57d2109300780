/* Reduces a type to what the calling conventions look at (callconv.h): the scalars in it, its alignment. */
#include "symbol/dwarf_internal.h"

#include <string.h>

enum { MAX_VISITS = 4096, MAX_LEAF_SIZE = 32 };

struct visit {
    struct symbol_dwarf *dwarf;
    struct symbol_passed *out;
    unsigned visits;
};

/* Adds what is at `offset` of the value; returns the type's alignment. */
static uint32_t see(struct visit *visit, const struct symbol_type *type, uint64_t offset, unsigned depth);

static void add_leaf(struct visit *visit, enum symbol_leaf_class leaf_class, uint64_t offset, uint64_t size, uint32_t align)
{
    struct symbol_passed *out = visit->out;
    if (align && offset % align)
        out->is_memory = true;
    if ((leaf_class == SYMBOL_LEAF_FLOAT128 || leaf_class == SYMBOL_LEAF_VECTOR) && size >= 16)
        out->has_16 = true;
    if (offset >= MAX_LEAF_SIZE)
        return;
    if (out->leaf_count == SYMBOL_MAX_LEAVES || size > MAX_LEAF_SIZE)
        out->is_unknown = out->is_unknown || out->size <= 16;
    else
        out->leaves[out->leaf_count++] = (struct symbol_leaf){(uint8_t)leaf_class, (uint32_t)offset, (uint32_t)size};
}

/* Natural alignment of a scalar; i386 aligns what is wider than a word to 4 inside structs. */
static uint32_t natural(const struct visit *visit, uint64_t size)
{
    uint32_t most = visit->dwarf->width == 64 ? 16 : 4;
    return size < most ? (uint32_t)size : most;
}

/* Each struct is classified by itself before it becomes part of another (psABI 3.2.3): a union of a long double and a long goes to memory,
 * though more members around it would make integers of both halves. */
static void classify_part(struct visit *visit, const struct symbol_type *type, uint64_t offset, unsigned first_leaf)
{
    struct symbol_passed part = {.size = type->size_bytes, .align = 1, .is_aggregate = true};
    if (part.size > 16)
        return;
    for (unsigned i = first_leaf; i < visit->out->leaf_count; i++) {
        part.leaves[part.leaf_count] = visit->out->leaves[i];
        part.leaves[part.leaf_count++].offset -= (uint32_t)offset;
    }
    if (symbol_callconv_is_memory(&part))
        visit->out->is_memory = true;
}

/* DWARF does not say that a type is packed; a member or a size that does not fit its alignment does. */
static uint32_t see_members(struct visit *visit, const struct symbol_type *type, uint64_t offset, unsigned depth)
{
    const struct symbol_member *members;
    size_t count;
    struct err *error = symbol_dw_members(visit->dwarf, type, &members, &count);
    uint32_t align = 1;
    unsigned first_leaf = visit->out->leaf_count;
    bool is_packed = false;
    if (error)
        visit->out->is_unknown = true;
    for (size_t i = 0; !error && i < count && visit->visits <= MAX_VISITS; i++) {
        const struct symbol_member *member = &members[i];
        uint64_t at = offset + member->offset_bytes;
        uint32_t own = 1;
        if (member->bit_size) {
            add_leaf(visit, SYMBOL_LEAF_INT, at, ((uint64_t)member->bit_offset + member->bit_size + 7) / 8, 1);
            const struct symbol_type *bare = symbol_dw_resolve(visit->dwarf, member->type);
            own = natural(visit, bare->size_bytes);
        } else {
            own = see(visit, member->type, at, depth + 1);
            if (own && member->offset_bytes % own) {
                /* Either this type is packed, or that of the member. */
                enum symbol_type_kind kind = symbol_dw_resolve(visit->dwarf, member->type)->kind;
                is_packed |= kind != SYMBOL_TYPE_STRUCT && kind != SYMBOL_TYPE_UNION;
                own = 1;
            }
        }
        own = member->align_bytes > own ? member->align_bytes : own;
        align = own > align ? own : align;
    }
    err_free(error);
    if (offset < MAX_LEAF_SIZE)
        classify_part(visit, type, offset, first_leaf);
    return is_packed || type->size_bytes % align ? 1 : align;
}

static uint32_t see_array(struct visit *visit, const struct symbol_type *type, uint64_t offset, unsigned depth)
{
    uint32_t align = 1;
    if (type->is_vector) {
        uint32_t own = type->size_bytes <= 64 ? (uint32_t)type->size_bytes : 64;
        add_leaf(visit, SYMBOL_LEAF_VECTOR, offset, type->size_bytes, own);
        /* Wider than SSE: in a register or in memory, as the program was built. */
        visit->out->is_unknown |= type->size_bytes > 16;
        return own;
    }
    for (uint64_t i = 0; i < type->count && visit->visits <= MAX_VISITS; i++) {
        align = see(visit, type->target, offset + i * type->target->size_bytes, depth + 1);
        if (offset + i * type->target->size_bytes >= MAX_LEAF_SIZE) /* the rest is the same */
            break;
    }
    return align;
}

static uint32_t see_scalar(struct visit *visit, const struct symbol_type *type, uint64_t offset)
{
    uint64_t size = type->size_bytes;
    if (type->kind != SYMBOL_TYPE_FLOAT && type->kind != SYMBOL_TYPE_COMPLEX) {
        add_leaf(visit, SYMBOL_LEAF_INT, offset, size, natural(visit, size));
        return natural(visit, size);
    }
    uint64_t part = type->kind == SYMBOL_TYPE_COMPLEX ? size / 2 : size;
    enum symbol_leaf_class leaf_class = type->is_float128 ? SYMBOL_LEAF_FLOAT128 : part > 8 ? SYMBOL_LEAF_X87 : SYMBOL_LEAF_FLOAT;
    uint32_t align = type->is_float128 ? 16 : natural(visit, part);
    for (uint64_t at = 0; at < size; at += part)
        add_leaf(visit, leaf_class, offset + at, part, align);
    return align;
}

static uint32_t see(struct visit *visit, const struct symbol_type *type, uint64_t offset, unsigned depth)
{
    uint32_t declared = 0, align = 1;
    for (unsigned i = 0; i < SYMBOL_DW_MAX_CHAIN && type->kind == SYMBOL_TYPE_TYPEDEF; i++) {
        declared = declared ? declared : type->align_bytes;
        type = type->target;
    }
    type = symbol_dw_resolve(visit->dwarf, type);
    declared = declared ? declared : type->align_bytes;
    if (depth > 16 || ++visit->visits > MAX_VISITS) {
        visit->out->is_unknown = visit->out->is_unknown || visit->out->size <= 16;
        return 1;
    }
    switch (type->kind) {
    case SYMBOL_TYPE_BOOL:
    case SYMBOL_TYPE_CHAR:
    case SYMBOL_TYPE_INT:
    case SYMBOL_TYPE_ENUM:
    case SYMBOL_TYPE_POINTER:
    case SYMBOL_TYPE_FLOAT:
    case SYMBOL_TYPE_COMPLEX:
        align = see_scalar(visit, type, offset);
        break;
    case SYMBOL_TYPE_ARRAY:
        align = see_array(visit, type, offset, depth);
        break;
    case SYMBOL_TYPE_MEMBER_POINTER:
        align = natural(visit, (unsigned)visit->dwarf->width / 8);
        for (uint64_t at = 0; at < type->size_bytes; at += align)
            add_leaf(visit, SYMBOL_LEAF_INT, offset + at, align, align);
        break;
    case SYMBOL_TYPE_STRUCT:
    case SYMBOL_TYPE_UNION:
        align = see_members(visit, type, offset, depth);
        break;
    default:
        visit->out->is_unknown = true;
    }
    return declared && declared <= 4096 ? declared : align;
}

/* ---- C++ classes ---- */

/* Whether a constructor's second parameter is a reference to its own class, and it has no more: it copies or moves. */
static bool is_copy_constructor(struct symbol_dwarf *dwarf, Dwarf_Die *func, const struct symbol_type *type)
{
    Dwarf_Die child, reference, target;
    unsigned count = 0;
    bool is_own = false;
    if (!symbol_dw_first(dwarf, func, &child))
        return false;
    do {
        if (dwarf_tag(&child) != DW_TAG_formal_parameter)
            continue;
        if (++count == 2 && symbol_dw_own_ref(&child, DW_AT_type, &reference) &&
            (dwarf_tag(&reference) == DW_TAG_reference_type || dwarf_tag(&reference) == DW_TAG_rvalue_reference_type))
            is_own = symbol_dw_own_ref(&reference, DW_AT_type, &target) && symbol_dw_type_of(dwarf, &target) == type;
    } while (symbol_dw_next(dwarf, &child));
    return is_own && count == 2;
}

/* A method that makes the class non-trivial for calls (Itanium C++ ABI 1.1): a destructor, copy or move constructor of the program's own,
 * anything virtual. */
static bool is_nontrivial_method(struct symbol_dwarf *dwarf, Dwarf_Die *func, const struct symbol_type *type)
{
    uint64_t value;
    const char *name = symbol_dw_text(dwarf, func, DW_AT_name);
    if (symbol_dw_own_uint(func, DW_AT_virtuality, &value) && value)
        return true;
    if (!name || !type->name || symbol_dw_own_flag(func, DW_AT_artificial) || symbol_dw_own_flag(func, DW_AT_deleted) ||
        (symbol_dw_own_uint(func, DW_AT_defaulted, &value) && value == DW_DEFAULTED_in_class))
        return false;
    if (name[0] == '~')
        return true;
    size_t bare = strcspn(type->name, "<"); /* constructors are named without template arguments */
    return strncmp(name, type->name, bare) == 0 && (!name[bare] || name[bare] == '<') && is_copy_constructor(dwarf, func, type);
}

/* Whether a pointer is passed instead of a value. clang says so; of gcc's classes it follows from their methods, members and bases. */
static bool is_by_reference(struct visit *visit, const struct symbol_type *type, unsigned depth)
{
    struct symbol_dwarf *dwarf = visit->dwarf;
    const struct symbol_member *members;
    size_t count;
    Dwarf_Die die, child;
    type = symbol_dw_resolve(dwarf, type);
    for (unsigned i = 0; i < SYMBOL_DW_MAX_CHAIN && type->kind == SYMBOL_TYPE_ARRAY; i++)
        type = symbol_dw_resolve(dwarf, type->target);
    if (type->kind != SYMBOL_TYPE_STRUCT && type->kind != SYMBOL_TYPE_UNION)
        return false;
    if (type->by_reference || depth > 16 || ++visit->visits > MAX_VISITS || !symbol_dw_die_of(dwarf, type, &die))
        return type->by_reference;
    if (symbol_dw_first(dwarf, &die, &child))
        do {
            uint64_t value;
            int tag = dwarf_tag(&child);
            if ((tag == DW_TAG_inheritance && symbol_dw_own_uint(&child, DW_AT_virtuality, &value) && value) ||
                (tag == DW_TAG_subprogram && is_nontrivial_method(dwarf, &child, type)))
                return true;
        } while (symbol_dw_next(dwarf, &child));
    struct err *error = symbol_dw_members(dwarf, type, &members, &count);
    bool is_found = false;
    for (size_t i = 0; !error && i < count && !is_found; i++)
        is_found = is_by_reference(visit, members[i].type, depth + 1);
    err_free(error);
    return is_found;
}

void symbol_dw_passed(struct symbol_dwarf *dwarf, const struct symbol_type *type, struct symbol_passed *out)
{
    *out = (struct symbol_passed){.align = 1};
    struct visit visit = {.dwarf = dwarf, .out = out};
    const struct symbol_type *bare = symbol_dw_resolve(dwarf, type);
    out->size = bare->size_bytes;
    out->is_void = bare->kind == SYMBOL_TYPE_VOID;
    out->is_complex = bare->kind == SYMBOL_TYPE_COMPLEX;
    out->is_aggregate =
        bare->kind == SYMBOL_TYPE_STRUCT || bare->kind == SYMBOL_TYPE_UNION || (bare->kind == SYMBOL_TYPE_ARRAY && !bare->is_vector);
    out->by_reference = is_by_reference(&visit, bare, 0);
    visit.visits = 0;
    if (!out->is_void)
        out->align = see(&visit, type, 0, 0);
    if (out->align > 1 && out->size % out->align)
        out->align = 1;
    out->has_16 = out->has_16 && out->align >= 16;
    if (out->by_reference)
        out->is_unknown = false;
    if (!out->is_aggregate)
        out->is_memory = false;
}
