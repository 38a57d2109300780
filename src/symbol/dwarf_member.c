/* What a struct, union or enum holds. */
#include "symbol/dwarf_internal.h"

#include <stdlib.h>
#include <string.h>

/* DW_AT_data_member_location: a constant, or in older DWARF an expression that adds one. */
static bool member_offset(Dwarf_Die *die, uint64_t *out)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    *out = 0;
    if (!dwarf_attr(die, DW_AT_data_member_location, &attribute) || symbol_dw_own_uint(die, DW_AT_data_member_location, out))
        return true;
    if (dwarf_getlocation(&attribute, &ops, &count) != 0 || count != 1 || ops[0].atom != DW_OP_plus_uconst)
        return false;
    *out = ops[0].number;
    return true;
}

/* The place of a bit-field as an absolute bit offset. The old DW_AT_bit_offset counts from the most significant bit of a storage unit of
 * DW_AT_byte_size bytes (DWARF 3, 5.6.6). */
static bool bit_place(Dwarf_Die *die, const struct symbol_member *member, uint64_t size, uint64_t *out)
{
    Dwarf_Attribute attribute;
    Dwarf_Sword from_top;
    uint64_t unit = member->type->size_bytes;
    if (symbol_dw_own_uint(die, DW_AT_data_bit_offset, out))
        return true;
    *out = 8 * member->offset_bytes;
    if (!dwarf_attr(die, DW_AT_bit_offset, &attribute))
        return true;
    symbol_dw_own_uint(die, DW_AT_byte_size, &unit);
    bool is_signed = dwarf_whatform(&attribute) == DW_FORM_sdata || dwarf_whatform(&attribute) == DW_FORM_implicit_const;
    Dwarf_Word unsigned_value = 0;
    if (is_signed ? dwarf_formsdata(&attribute, &from_top) != 0 : dwarf_formudata(&attribute, &unsigned_value) != 0)
        return false;
    if (!is_signed)
        from_top = (Dwarf_Sword)unsigned_value;
    if (unit > 16 || from_top < -1024 || from_top > 1024)
        return false;
    *out += (uint64_t)((int64_t)(8 * unit) - from_top - (int64_t)size);
    return true;
}

static bool read_member(struct symbol_dwarf *dwarf, Dwarf_Die *die, struct symbol_member *out)
{
    uint64_t value;
    int tag = dwarf_tag(die);
    *out = (struct symbol_member){.is_base = tag == DW_TAG_inheritance};
    if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) || symbol_dw_own_flag(die, DW_AT_declaration) ||
        symbol_dw_own_flag(die, DW_AT_external))
        return false;
    if (!member_offset(die, &out->offset_bytes) || out->offset_bytes > 1ULL << 48)
        return false;
    out->name = out->is_base ? NULL : symbol_dw_text(dwarf, die, DW_AT_name);
    out->type = symbol_dw_type_attr(dwarf, die);
    if (symbol_dw_own_uint(die, DW_AT_alignment, &value) && value && value <= 1 << 28 && (value & (value - 1)) == 0)
        out->align_bytes = (uint32_t)value;
    if (!symbol_dw_own_uint(die, DW_AT_bit_size, &value))
        return true;
    uint64_t bit;
    if (!value || value > 64 || !bit_place(die, out, value, &bit) || bit > 1ULL << 51)
        return false;
    out->bit_size = (uint8_t)value;
    out->offset_bytes = bit / 8;
    out->bit_offset = bit % 8;
    return true;
}

struct err *symbol_dw_members(struct symbol_dwarf *dwarf, const struct symbol_type *type, const struct symbol_member **out, size_t *count)
{
    Dwarf_Die die, child;
    VEC(struct symbol_member) members = {0};
    *out = NULL;
    *count = 0;
    type = symbol_dw_resolve(dwarf, type);
    if (type->members) {
        *out = type->members;
        *count = type->count;
        return NULL;
    }
    if (type->kind != SYMBOL_TYPE_STRUCT && type->kind != SYMBOL_TYPE_UNION)
        return err_new(ERR_USAGE, "symbol: %s: '%s' is no struct or union", dwarf->path, type->name ? type->name : "");
    if (type->is_incomplete || !symbol_dw_die_of(dwarf, type, &die))
        return err_new(ERR_NO_MATCH, "symbol: %s: '%s' is declared but not defined in its debug info", dwarf->path,
                       type->name ? type->name : "");
    if (symbol_dw_first(dwarf, &die, &child))
        do {
            struct symbol_member member;
            if (read_member(dwarf, &child, &member))
                VEC_PUSH(&members, member);
        } while (members.n < SYMBOL_DW_MAX_MEMBERS && symbol_dw_next(dwarf, &child));
    struct symbol_member *kept = symbol_dw_keep(dwarf, members.n, sizeof *kept);
    if (members.n)
        memcpy(kept, members.at, members.n * sizeof *kept);
    *out = kept;
    *count = members.n;
    VEC_FREE(&members);
    if (!dwarf->budget)
        return symbol_dw_spent(dwarf);
    struct symbol_type *own = (struct symbol_type *)type; /* types with a DIE are all in the reader's memory */
    own->members = kept;
    own->count = *count;
    return NULL;
}

struct err *symbol_dwarf_members(struct symbol_dwarf *dwarf, const struct symbol_type *type, const struct symbol_member **out,
                                 size_t *count)
{
    symbol_dw_begin_call(dwarf);
    return symbol_dw_members(dwarf, type, out, count);
}

struct err *symbol_dwarf_enumerators(struct symbol_dwarf *dwarf, const struct symbol_type *type, const struct symbol_enumerator **out,
                                     size_t *count)
{
    Dwarf_Die die, child;
    VEC(struct symbol_enumerator) values = {0};
    *out = NULL;
    *count = 0;
    symbol_dw_begin_call(dwarf);
    type = symbol_dw_resolve(dwarf, type);
    if (type->kind != SYMBOL_TYPE_ENUM || !symbol_dw_die_of(dwarf, type, &die))
        return err_new(ERR_USAGE, "symbol: %s: '%s' is no enum", dwarf->path, type->name ? type->name : "");
    if (symbol_dw_first(dwarf, &die, &child))
        do {
            Dwarf_Attribute attribute;
            Dwarf_Sword value;
            Dwarf_Word unsigned_value;
            const char *name = dwarf_tag(&child) == DW_TAG_enumerator ? symbol_dw_text(dwarf, &child, DW_AT_name) : NULL;
            if (!name || !dwarf_attr(&child, DW_AT_const_value, &attribute))
                continue;
            /* DW_FORM_data1 and so on are not negative here: gcc writes negative values as sdata. */
            unsigned form = dwarf_whatform(&attribute);
            if (form == DW_FORM_sdata || form == DW_FORM_implicit_const ? dwarf_formsdata(&attribute, &value) == 0
                                                                        : dwarf_formudata(&attribute, &unsigned_value) == 0) {
                if (form != DW_FORM_sdata && form != DW_FORM_implicit_const)
                    value = (Dwarf_Sword)unsigned_value;
                VEC_PUSH(&values, (struct symbol_enumerator){name, value});
            }
        } while (values.n < SYMBOL_DW_MAX_MEMBERS && symbol_dw_next(dwarf, &child));
    struct symbol_enumerator *kept = symbol_dw_keep(dwarf, values.n, sizeof *kept);
    if (values.n)
        memcpy(kept, values.at, values.n * sizeof *kept);
    *out = kept;
    *count = values.n;
    VEC_FREE(&values);
    return dwarf->budget ? NULL : symbol_dw_spent(dwarf);
}
