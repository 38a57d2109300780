/* From a type DIE to a struct symbol_type, made once for each DIE. A type is complete when it is handed out except for what it points to
 * and what it holds: only typedefs and arrays look further, along a chain that is cut off at SYMBOL_DW_MAX_CHAIN. */
#include "symbol/dwarf_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct symbol_type type_void = {.kind = SYMBOL_TYPE_VOID};
static const struct symbol_type type_nowhere = {.kind = SYMBOL_TYPE_UNKNOWN, .reason = "the reference to its type leads nowhere"};
static const struct symbol_type type_endless = {.kind = SYMBOL_TYPE_UNKNOWN, .reason = "a chain of types without end"};

static const struct symbol_type *make(struct symbol_dwarf *dwarf, Dwarf_Die *die, unsigned depth);

/* ---- the table of types by DIE ---- */

static size_t slot_of(const struct symbol_dwarf *dwarf, const void *address)
{
    size_t at = (size_t)((uintptr_t)address * 0x9e3779b97f4a7c15 >> 32) & (dwarf->type_room - 1);
    while (dwarf->types[at] && dwarf->types[at]->die != address)
        at = (at + 1) & (dwarf->type_room - 1);
    return at;
}

static struct symbol_type *new_type(struct symbol_dwarf *dwarf, void *die)
{
    if (dwarf->type_count * 2 >= dwarf->type_room) {
        struct symbol_type **old = dwarf->types;
        size_t room = dwarf->type_room;
        dwarf->type_room = room ? room * 2 : 256;
        dwarf->types = memory_zero(dwarf->type_room, sizeof *dwarf->types);
        for (size_t i = 0; i < room; i++)
            if (old[i])
                dwarf->types[slot_of(dwarf, old[i]->die)] = old[i];
        free(old);
    }
    struct symbol_type *type = symbol_dw_keep(dwarf, 1, sizeof *type);
    type->die = die;
    dwarf->types[slot_of(dwarf, die)] = type;
    dwarf->type_count++;
    return type;
}

/* ---- kinds ---- */

static bool starts_with_float128(const char *name)
{
    return name && (strcmp(name, "_Float128") == 0 || strcmp(name, "__float128") == 0 || strcmp(name, "__ieee128") == 0 ||
                    strstr(name, "Float128"));
}

static void fill_base(Dwarf_Die *die, struct symbol_type *type)
{
    uint64_t encoding = 0;
    symbol_dw_own_uint(die, DW_AT_encoding, &encoding);
    type->kind = SYMBOL_TYPE_INT;
    switch (encoding) {
    case DW_ATE_boolean:
        type->kind = SYMBOL_TYPE_BOOL;
        break;
    case DW_ATE_signed:
        type->is_signed = true;
        break;
    case DW_ATE_unsigned:
    case DW_ATE_address:
        break;
    case DW_ATE_signed_char:
        type->is_signed = true;
        type->kind = SYMBOL_TYPE_CHAR;
        break;
    case DW_ATE_unsigned_char:
    case DW_ATE_UTF:
    case DW_ATE_ASCII:
    case DW_ATE_UCS:
        type->kind = SYMBOL_TYPE_CHAR;
        break;
    case DW_ATE_float:
    case DW_ATE_complex_float:
        type->kind = encoding == DW_ATE_float ? SYMBOL_TYPE_FLOAT : SYMBOL_TYPE_COMPLEX;
        type->is_float128 = starts_with_float128(type->name);
        break;
    default:
        type->kind = SYMBOL_TYPE_UNKNOWN;
        type->reason = "a base type of an encoding that is not supported";
        return;
    }
    uint64_t size = type->size_bytes, half = type->kind == SYMBOL_TYPE_COMPLEX ? size / 2 : size;
    bool is_good = type->kind == SYMBOL_TYPE_FLOAT || type->kind == SYMBOL_TYPE_COMPLEX
                       ? half == 4 || half == 8 || half == 12 || half == 16
                       : size >= 1 && size <= 16 && (size & (size - 1)) == 0;
    if (!is_good) {
        type->kind = SYMBOL_TYPE_UNKNOWN;
        type->reason = "a base type of an odd size";
    }
}

static bool is_signed_enum(struct symbol_dwarf *dwarf, Dwarf_Die *die, unsigned depth)
{
    uint64_t encoding;
    Dwarf_Die base;
    Dwarf_Attribute attribute;
    if (symbol_dw_own_uint(die, DW_AT_encoding, &encoding))
        return encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
    if (symbol_dw_own_ref(die, DW_AT_type, &base)) {
        const struct symbol_type *type = make(dwarf, &base, depth + 1);
        for (unsigned i = 0; i < SYMBOL_DW_MAX_CHAIN && type->kind == SYMBOL_TYPE_TYPEDEF; i++)
            type = type->target;
        return type->is_signed;
    }
    /* Neither (DWARF 2): a negative value tells. */
    Dwarf_Die child;
    if (symbol_dw_first(dwarf, die, &child))
        do {
            if (dwarf_tag(&child) == DW_TAG_enumerator && dwarf_attr(&child, DW_AT_const_value, &attribute) &&
                dwarf_whatform(&attribute) == DW_FORM_sdata) {
                Dwarf_Sword value;
                if (dwarf_formsdata(&attribute, &value) == 0 && value < 0)
                    return true;
            }
        } while (symbol_dw_next(dwarf, &child));
    return false;
}

/* Elements of one dimension; false when it is not a constant. */
static bool subrange_count(Dwarf_Die *die, uint64_t *count)
{
    uint64_t lower = 0, upper;
    Dwarf_Attribute attribute;
    Dwarf_Sword value;
    if (symbol_dw_own_uint(die, DW_AT_count, count))
        return true;
    symbol_dw_own_uint(die, DW_AT_lower_bound, &lower);
    if (!dwarf_attr(die, DW_AT_upper_bound, &attribute))
        return false;
    /* Of an array without elements the upper bound is -1. */
    if (dwarf_whatform(&attribute) == DW_FORM_sdata || dwarf_whatform(&attribute) == DW_FORM_implicit_const) {
        if (dwarf_formsdata(&attribute, &value) != 0)
            return false;
        upper = (uint64_t)value;
    } else if (!symbol_dw_own_uint(die, DW_AT_upper_bound, &upper)) {
        return false;
    }
    *count = upper - lower + 1; /* wraps to 0 */
    return true;
}

static void set_array(struct symbol_type *type, const struct symbol_type *element, uint64_t count, bool is_open)
{
    type->kind = SYMBOL_TYPE_ARRAY;
    type->target = element;
    type->count = is_open ? 0 : count;
    type->is_open = is_open;
    if (__builtin_mul_overflow(type->count, element->size_bytes, &type->size_bytes) || type->size_bytes > 1ULL << 48) {
        type->kind = SYMBOL_TYPE_UNKNOWN;
        type->reason = "an array of an absurd size";
        type->size_bytes = 0;
    }
}

static void fill_array(struct symbol_dwarf *dwarf, Dwarf_Die *die, struct symbol_type *type, unsigned depth)
{
    enum { MAX_DIMENSIONS = 16 };
    uint64_t counts[MAX_DIMENSIONS];
    bool opens[MAX_DIMENSIONS];
    unsigned dimensions = 0;
    Dwarf_Die child, element;
    Dwarf_Attribute attribute;
    const struct symbol_type *target = symbol_dw_own_ref(die, DW_AT_type, &element) ? make(dwarf, &element, depth + 1) : &type_nowhere;
    if (symbol_dw_first(dwarf, die, &child))
        do {
            int tag = dwarf_tag(&child);
            if ((tag != DW_TAG_subrange_type && tag != DW_TAG_enumeration_type) || dimensions == MAX_DIMENSIONS)
                continue;
            counts[dimensions] = 0;
            opens[dimensions] = !subrange_count(&child, &counts[dimensions]);
            dimensions++;
        } while (symbol_dw_next(dwarf, &child));
    uint64_t own_size = type->size_bytes; /* DW_AT_byte_size: vectors may have padding */
    if (!dimensions)
        opens[dimensions++] = true;
    if (dwarf_attr(die, DW_AT_byte_stride, &attribute) || dwarf_attr(die, DW_AT_bit_stride, &attribute) || dimensions == MAX_DIMENSIONS) {
        type->kind = SYMBOL_TYPE_UNKNOWN;
        type->reason = "an array whose elements are not one behind the other";
        return;
    }
    for (unsigned i = dimensions - 1; i > 0; i--) {
        struct symbol_type *row = symbol_dw_keep(dwarf, 1, sizeof *row);
        set_array(row, target, counts[i], opens[i]);
        target = row;
    }
    set_array(type, target, counts[0], opens[0]);
    type->is_vector = symbol_dw_own_flag(die, DW_AT_GNU_vector);
    if (type->is_vector && own_size > type->size_bytes)
        type->size_bytes = own_size;
}

static void fill(struct symbol_dwarf *dwarf, Dwarf_Die *die, struct symbol_type *type, unsigned depth)
{
    uint64_t value = 0;
    Dwarf_Die target;
    type->name = symbol_dw_text(dwarf, die, DW_AT_name);
    if (symbol_dw_own_uint(die, DW_AT_byte_size, &value) && value <= 1ULL << 48)
        type->size_bytes = value;
    if (symbol_dw_own_uint(die, DW_AT_alignment, &value) && value && value <= 1 << 28 && (value & (value - 1)) == 0)
        type->align_bytes = (uint32_t)value;
    switch (dwarf_tag(die)) {
    case DW_TAG_base_type:
        fill_base(die, type);
        break;
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
        type->kind = SYMBOL_TYPE_POINTER;
        type->is_reference = dwarf_tag(die) != DW_TAG_pointer_type;
        type->size_bytes = (unsigned)dwarf->width / 8; /* the only size that programs of either width have */
        break;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_interface_type:
    case DW_TAG_union_type:
        type->kind = dwarf_tag(die) == DW_TAG_union_type ? SYMBOL_TYPE_UNION : SYMBOL_TYPE_STRUCT;
        type->is_incomplete = symbol_dw_own_flag(die, DW_AT_declaration);
        type->by_reference = symbol_dw_own_uint(die, DW_AT_calling_convention, &value) && value == DW_CC_pass_by_reference;
        break;
    case DW_TAG_enumeration_type:
        type->kind = SYMBOL_TYPE_ENUM;
        type->is_incomplete = symbol_dw_own_flag(die, DW_AT_declaration);
        type->is_signed = is_signed_enum(dwarf, die, depth);
        if (!type->is_incomplete && (!type->size_bytes || type->size_bytes > 16)) {
            type->kind = SYMBOL_TYPE_UNKNOWN;
            type->reason = "an enum of an odd size";
        }
        break;
    case DW_TAG_typedef:
        type->kind = SYMBOL_TYPE_TYPEDEF;
        type->target = symbol_dw_own_ref(die, DW_AT_type, &target) ? make(dwarf, &target, depth + 1) : &type_void;
        type->size_bytes = type->target->size_bytes;
        break;
    case DW_TAG_array_type:
        fill_array(dwarf, die, type, depth);
        break;
    case DW_TAG_subroutine_type:
    case DW_TAG_subprogram:
        type->kind = SYMBOL_TYPE_FUNCTION;
        type->size_bytes = 0;
        break;
    case DW_TAG_unspecified_type:
        type->kind = SYMBOL_TYPE_VOID;
        break;
    case DW_TAG_ptr_to_member_type:
        type->kind = SYMBOL_TYPE_MEMBER_POINTER;
        type->size_bytes = (unsigned)dwarf->width / 8;
        if (symbol_dw_own_ref(die, DW_AT_type, &target) && dwarf_tag(&target) == DW_TAG_subroutine_type)
            type->size_bytes *= 2;
        break;
    default:
        type->kind = SYMBOL_TYPE_UNKNOWN;
        type->reason = "a type of a kind that is not supported";
    }
}

/* Peels what does not change the layout. False when the chain does not end; *out without address means void. */
static bool peel(Dwarf_Die *die, Dwarf_Die *out)
{
    *out = *die;
    for (unsigned i = 0; i < SYMBOL_DW_MAX_CHAIN; i++) {
        switch (dwarf_tag(out)) {
        case DW_TAG_const_type:
        case DW_TAG_volatile_type:
        case DW_TAG_restrict_type:
        case DW_TAG_atomic_type:
        case DW_TAG_packed_type:
        case DW_TAG_immutable_type: {
            Dwarf_Die next;
            if (!symbol_dw_own_ref(out, DW_AT_type, &next)) {
                out->addr = NULL;
                return true;
            }
            *out = next;
            break;
        }
        default: {
            /* A type unit holds the definition (DWARF 5, 5.7.1). */
            Dwarf_Die next;
            if (!symbol_dw_own_ref(out, DW_AT_signature, &next))
                return true;
            *out = next;
        }
        }
    }
    return false;
}

static const struct symbol_type *make(struct symbol_dwarf *dwarf, Dwarf_Die *die, unsigned depth)
{
    Dwarf_Die bare;
    if (depth > SYMBOL_DW_MAX_CHAIN || !peel(die, &bare))
        return &type_endless;
    if (!bare.addr)
        return &type_void;
    if (dwarf->type_room) {
        const struct symbol_type *old = dwarf->types[slot_of(dwarf, bare.addr)];
        if (old)
            return old;
    }
    if (!symbol_dw_spend(dwarf, 8))
        return &type_endless;
    /* Into the table only when it is complete: a chain that leads back to itself must not find half of it. */
    struct symbol_type type = {0};
    fill(dwarf, &bare, &type, depth);
    const struct symbol_type *old = dwarf->type_room ? dwarf->types[slot_of(dwarf, bare.addr)] : NULL;
    if (old) /* made further down the chain */
        return old;
    struct symbol_type *kept = new_type(dwarf, bare.addr);
    type.die = kept->die;
    *kept = type;
    return kept;
}

const struct symbol_type *symbol_dw_type_of(struct symbol_dwarf *dwarf, Dwarf_Die *die)
{
    return make(dwarf, die, 0);
}

const struct symbol_type *symbol_dw_type_attr(struct symbol_dwarf *dwarf, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    Dwarf_Die target;
    if (!symbol_dw_find_attr(die, DW_AT_type, &attribute))
        return &type_void;
    return dwarf_formref_die(&attribute, &target) && target.addr ? make(dwarf, &target, 0) : &type_nowhere;
}

/* ---- names ---- */

/* The two spellings of a C integer type: gcc's "long unsigned int", clang's "unsigned long". False when `name` is no such type. */
static bool spellings(const char *name, char gcc[64], char clang[64])
{
    unsigned longs = 0, shorts = 0, chars = 0, ints = 0, is_unsigned = 0, is_signed = 0;
    const char *at = name;
    while (*at) {
        size_t size = strcspn(at, " \t");
        if (size == 4 && strncmp(at, "long", 4) == 0)
            longs++;
        else if (size == 5 && strncmp(at, "short", 5) == 0)
            shorts++;
        else if (size == 4 && strncmp(at, "char", 4) == 0)
            chars++;
        else if (size == 3 && strncmp(at, "int", 3) == 0)
            ints++;
        else if (size == 8 && strncmp(at, "unsigned", 8) == 0)
            is_unsigned++;
        else if (size == 6 && strncmp(at, "signed", 6) == 0)
            is_signed++;
        else if (size)
            return false;
        at += size + strspn(at + size, " \t");
    }
    if (longs > 2 || shorts > 1 || chars > 1 || ints > 1 || is_unsigned + is_signed > 1 || (longs && shorts) ||
        (chars && (longs || shorts)))
        return false;
    const char *sign = is_unsigned ? "unsigned " : "";
    if (chars) {
        snprintf(gcc, 64, "%schar", is_signed ? "signed " : sign);
        snprintf(clang, 64, "%s", gcc);
        return true;
    }
    const char *size = longs == 2 ? "long long" : longs ? "long" : shorts ? "short" : "";
    snprintf(gcc, 64, "%s%s%sint", size, *size ? " " : "", sign);
    snprintf(clang, 64, "%s%s", sign, *size ? size : "int");
    return true;
}

static const struct symbol_dw_name *find_plain(struct symbol_dwarf *dwarf, const char *name)
{
    char gcc[64], clang[64];
    if (!spellings(name, gcc, clang))
        return symbol_dw_find_name(dwarf, SYMBOL_DW_NAME_PLAIN, name);
    const struct symbol_dw_name *found = symbol_dw_find_name(dwarf, SYMBOL_DW_NAME_PLAIN, gcc);
    return found ? found : symbol_dw_find_name(dwarf, SYMBOL_DW_NAME_PLAIN, clang);
}

struct err *symbol_dwarf_type(struct symbol_dwarf *dwarf, const char *name, const struct symbol_type **out)
{
    static const struct {
        const char *word;
        enum symbol_dw_name_kind kind;
    } tags[] = {{"struct", SYMBOL_DW_NAME_STRUCT},
                {"class", SYMBOL_DW_NAME_STRUCT},
                {"union", SYMBOL_DW_NAME_UNION},
                {"enum", SYMBOL_DW_NAME_ENUM}};
    const struct symbol_dw_name *found = NULL;
    bool is_tag = false;
    *out = NULL;
    symbol_dw_begin_call(dwarf);
    const char *at = name + strspn(name, " \t");
    for (size_t i = 0; i < sizeof tags / sizeof *tags && !is_tag; i++) {
        size_t size = strlen(tags[i].word);
        if (strncmp(at, tags[i].word, size) != 0 || (at[size] != ' ' && at[size] != '\t'))
            continue;
        is_tag = true;
        found = symbol_dw_find_name(dwarf, tags[i].kind, at + size + strspn(at + size, " \t"));
    }
    if (!is_tag && strcmp(at, "void") == 0) {
        *out = &type_void;
        return NULL;
    }
    if (!is_tag)
        found = find_plain(dwarf, at);
    for (int kind = SYMBOL_DW_NAME_STRUCT; !is_tag && !found && kind <= SYMBOL_DW_NAME_ENUM; kind++)
        found = symbol_dw_find_name(dwarf, (enum symbol_dw_name_kind)kind, at);
    if (!found && !dwarf->budget)
        return symbol_dw_spent(dwarf);
    if (!found)
        return err_new(ERR_NO_MATCH, "symbol: %s: its debug info has no type '%s'", dwarf->path, name);
    Dwarf_Die die = found->die;
    *out = symbol_dw_type_of(dwarf, &die);
    return NULL;
}

/* ---- further ---- */

bool symbol_dw_die_of(struct symbol_dwarf *dwarf, const struct symbol_type *type, Dwarf_Die *out)
{
    if (!type->die)
        return false;
    if (dwarf_die_addr_die(dwarf->libdw, type->die, out))
        return true;
    return dwarf->alt_libdw && dwarf_die_addr_die(dwarf->alt_libdw, type->die, out);
}

struct err *symbol_dwarf_target(struct symbol_dwarf *dwarf, const struct symbol_type *type, const struct symbol_type **out)
{
    Dwarf_Die die;
    symbol_dw_begin_call(dwarf);
    *out = &type_void;
    if (type->target) {
        *out = type->target;
        return NULL;
    }
    if (type->kind != SYMBOL_TYPE_POINTER && type->kind != SYMBOL_TYPE_FUNCTION && type->kind != SYMBOL_TYPE_ENUM)
        return err_new(ERR_USAGE, "symbol: %s: a type that leads to no other", dwarf->path);
    if (symbol_dw_die_of(dwarf, type, &die))
        *out = symbol_dw_type_attr(dwarf, &die);
    return NULL;
}

const struct symbol_type *symbol_dw_resolve(struct symbol_dwarf *dwarf, const struct symbol_type *type)
{
    for (unsigned i = 0; i < SYMBOL_DW_MAX_CHAIN && type->kind == SYMBOL_TYPE_TYPEDEF; i++)
        type = type->target;
    Dwarf_Die die;
    char name[SYMBOL_DW_MAX_NAME];
    if (!type->is_incomplete || !symbol_dw_die_of(dwarf, type, &die))
        return type;
    if (!symbol_dw_qualified_name(dwarf, &die, name))
        return type;
    enum symbol_dw_name_kind kind = type->kind == SYMBOL_TYPE_STRUCT  ? SYMBOL_DW_NAME_STRUCT
                                    : type->kind == SYMBOL_TYPE_UNION ? SYMBOL_DW_NAME_UNION
                                                                      : SYMBOL_DW_NAME_ENUM;
    const struct symbol_dw_name *found = symbol_dw_find_name(dwarf, kind, name);
    if (!found || found->is_declaration || found->is_bare)
        return type;
    die = found->die;
    return symbol_dw_type_of(dwarf, &die);
}

const struct symbol_type *symbol_dwarf_resolve(struct symbol_dwarf *dwarf, const struct symbol_type *type)
{
    symbol_dw_begin_call(dwarf);
    return symbol_dw_resolve(dwarf, type);
}
