/* Record layout as gcc does it on x86 (System V ABI, i386 and AMD64): gcc's stor-layout rules with PCC_BITFIELD_TYPE_MATTERS. */
#include "base/memory.h"
#include "script/internal.h"
#include "script/type.h"

#include <string.h>

const struct script_type *script_record_open(struct script_types *types, const char *name, bool is_union)
{
    if (name) {
        const struct script_type *found = table_get(&types->names, name);
        if (found && found->kind == SCRIPT_T_RECORD)
            return found;
    }
    struct script_record *record = arena_alloc(&types->arena, sizeof *record);
    record->is_union = is_union;
    record->name = name ? arena_text(&types->arena, name, strlen(name))
                        : arena_format(&types->arena, "%s (unnamed %u)", is_union ? "union" : "struct", ++types->n_unnamed);
    struct script_type *type = arena_alloc(&types->arena, sizeof *type);
    type->kind = SCRIPT_T_RECORD;
    type->align = 1;
    type->record = record;
    if (name)
        script_types_define(types, name, type);
    return type;
}

/* The running state, in bits. */
struct layout {
    uint64_t at;    /* where the next member may begin */
    uint64_t end;   /* of the furthest member */
    uint64_t align; /* of the record, in bits */
};

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static void place(struct layout *layout, const struct script_field *field, bool is_packed, struct script_member *out)
{
    uint64_t type_align = (uint64_t)field->type->align * 8, type_bits = field->type->bytes * 8, user_align = (uint64_t)field->align * 8;
    uint64_t bits = type_bits;
    if (field->bit_size == SCRIPT_ZERO_WIDTH) {
        /* Ends the current unit; not influenced by packed; does not align the record. */
        layout->at = round_up(layout->at, user_align > type_align ? user_align : type_align);
        return;
    }
    if (field->bit_size) {
        bits = field->bit_size;
        if (user_align)
            layout->at = round_up(layout->at, user_align);
        else if (!is_packed && (layout->at % type_align + bits + type_align - 1) / type_align > type_bits / type_align)
            layout->at = round_up(layout->at, type_align);
        uint64_t record_align = is_packed ? 8 : type_align;
        if (field->name && record_align > layout->align)
            layout->align = record_align;
        if (user_align > layout->align)
            layout->align = user_align;
    } else {
        uint64_t align = is_packed ? 8 : type_align;
        if (user_align > align)
            align = user_align;
        layout->at = round_up(layout->at, align);
        if (align > layout->align)
            layout->align = align;
    }
    out->offset = layout->at / 8;
    out->bit_offset = field->bit_size ? layout->at % 8 : 0;
    layout->at += bits;
}

bool script_record_close(struct script_types *types, const struct script_type *opened, const struct script_field *fields, size_t n,
                         bool is_packed, uint32_t align, uint64_t bytes)
{
    struct script_type *type = (struct script_type *)opened;
    struct script_record *record = type->record;
    struct layout layout = {.align = 8};
    record->members = arena_alloc(&types->arena, n * sizeof *record->members);
    record->n_members = 0;
    for (size_t i = 0; i < n; i++) {
        const struct script_field *field = &fields[i];
        const struct script_type *of = field->type;
        if (of->kind == SCRIPT_T_VOID || of->kind == SCRIPT_T_FUNCTION || (of->kind == SCRIPT_T_RECORD && !of->record->is_complete))
            return false;
        struct script_member member = {.type = of};
        if (field->name)
            member.name = arena_text(&types->arena, field->name, strlen(field->name));
        member.bit_size = field->bit_size == SCRIPT_ZERO_WIDTH ? 0 : (uint8_t)field->bit_size;
        if (record->is_union)
            layout.at = 0;
        if (field->offset == SCRIPT_COMPUTED) {
            place(&layout, field, is_packed || field->is_packed, &member);
        } else {
            member.offset = field->offset + field->bit_offset / 8;
            member.bit_offset = field->bit_offset % 8;
            if (of->align * UINT64_C(8) > layout.align)
                layout.align = of->align * UINT64_C(8);
        }
        if (layout.at > layout.end)
            layout.end = layout.at;
        if (layout.end / 8 > SCRIPT_LARGEST)
            return false;
        bool is_padding = field->bit_size && !field->name;
        if (!is_padding)
            record->members[record->n_members++] = member;
    }
    if (align * UINT64_C(8) > layout.align)
        layout.align = align * UINT64_C(8);
    type->align = (uint32_t)(layout.align / 8);
    type->bytes = bytes == SCRIPT_COMPUTED ? round_up(layout.end, layout.align) / 8 : bytes;
    record->is_complete = true;
    return true;
}
