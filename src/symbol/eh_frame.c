/* .eh_frame (LSB Core, Exception Frames): which ranges are functions, whether each begins as a function does, and its LSDA.
 * CIEs are read once, before the FDEs, so that many FDEs of one huge CIE cost no more than one. */
#include "symbol/internal.h"

#include <stdlib.h>
#include <string.h>

/* LSB Core, Exception Frames, DWARF exception header encoding. */
enum {
    PE_OMIT = 0xff,
    PE_INDIRECT = 0x80,
    PE_ABSPTR = 0x00,
    PE_ULEB = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SLEB = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_PCREL = 0x10,
    PE_DATAREL = 0x30,
    PE_FUNCREL = 0x40,
};

/* ---- cursor ---- */

static bool advance(struct symbol_cursor *cursor, uint64_t bytes)
{
    if (cursor->failed || bytes > (uint64_t)(cursor->end - cursor->at)) {
        cursor->failed = true;
        return false;
    }
    cursor->at += bytes;
    cursor->va += bytes;
    return true;
}

uint64_t symbol_cursor_fixed(struct symbol_cursor *cursor, unsigned bytes)
{
    uint64_t value = 0;
    if (advance(cursor, bytes))
        memcpy(&value, cursor->at - bytes, bytes);
    return value;
}

uint64_t symbol_cursor_uleb(struct symbol_cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = (uint8_t)symbol_cursor_fixed(cursor, 1);
        if (cursor->failed)
            return 0;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

int64_t symbol_cursor_sleb(struct symbol_cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
        uint8_t byte = (uint8_t)symbol_cursor_fixed(cursor, 1);
        if (cursor->failed)
            return 0;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) {
            if (shift < 64 && (byte & 0x40))
                value |= ~0ULL << shift;
            return (int64_t)value;
        }
    }
}

uint64_t symbol_cursor_encoded(struct symbol_cursor *cursor, uint8_t encoding, int width, uint64_t data_va, uint64_t func_va)
{
    uint64_t base = 0, value;
    switch (encoding & 0x70) {
    case PE_ABSPTR:
        break;
    case PE_PCREL:
        base = cursor->va;
        break;
    case PE_DATAREL:
        base = data_va;
        break;
    case PE_FUNCREL:
        base = func_va;
        break;
    default:
        cursor->failed = true;
    }
    if (encoding & PE_INDIRECT)
        cursor->failed = true;
    switch (encoding & 0x0f) {
    case PE_ABSPTR:
        value = symbol_cursor_fixed(cursor, (unsigned)width / 8);
        break;
    case PE_ULEB:
        value = symbol_cursor_uleb(cursor);
        break;
    case PE_SLEB:
        value = (uint64_t)symbol_cursor_sleb(cursor);
        break;
    case PE_UDATA2:
        value = symbol_cursor_fixed(cursor, 2);
        break;
    case PE_UDATA4:
        value = symbol_cursor_fixed(cursor, 4);
        break;
    case PE_SDATA2:
        value = (uint64_t)(int16_t)symbol_cursor_fixed(cursor, 2);
        break;
    case PE_SDATA4:
        value = (uint64_t)(int32_t)symbol_cursor_fixed(cursor, 4);
        break;
    case PE_UDATA8:
    case PE_SDATA8:
        value = symbol_cursor_fixed(cursor, 8);
        break;
    default:
        cursor->failed = true;
        return 0;
    }
    if (cursor->failed || !value)
        return 0;
    value += base;
    return width == 64 ? value : (uint32_t)value;
}

/* ---- the CFA rule of the first row ---- */

struct rule {
    uint64_t reg, offset;
    bool is_plain; /* a register and an offset, not an expression */
};

/* Runs call frame instructions up to the first that moves the location (DWARF 5, 6.4.2). */
static void first_row(struct symbol_cursor cursor, int64_t data_align, struct rule *rule)
{
    while (cursor.at < cursor.end && !cursor.failed) {
        uint8_t op = (uint8_t)symbol_cursor_fixed(&cursor, 1);
        switch (op & 0xc0) {
        case 0x40: /* DW_CFA_advance_loc */
            return;
        case 0x80: /* DW_CFA_offset */
            symbol_cursor_uleb(&cursor);
            continue;
        case 0xc0: /* DW_CFA_restore */
            continue;
        }
        switch (op) {
        case 0x00: /* DW_CFA_nop */
        case 0x0a: /* DW_CFA_remember_state */
        case 0x0b: /* DW_CFA_restore_state */
        case 0x2d: /* DW_CFA_GNU_window_save */
            break;
        case 0x05: /* DW_CFA_offset_extended */
        case 0x09: /* DW_CFA_register */
        case 0x11: /* DW_CFA_offset_extended_sf: a LEB is skipped alike whether signed or not */
        case 0x14: /* DW_CFA_val_offset */
        case 0x15: /* DW_CFA_val_offset_sf */
        case 0x2f: /* DW_CFA_GNU_negative_offset_extended */
            symbol_cursor_uleb(&cursor);
            symbol_cursor_uleb(&cursor);
            break;
        case 0x06: /* DW_CFA_restore_extended */
        case 0x07: /* DW_CFA_undefined */
        case 0x08: /* DW_CFA_same_value */
        case 0x2e: /* DW_CFA_GNU_args_size */
            symbol_cursor_uleb(&cursor);
            break;
        case 0x0c: /* DW_CFA_def_cfa */
            rule->reg = symbol_cursor_uleb(&cursor);
            rule->offset = symbol_cursor_uleb(&cursor);
            rule->is_plain = true;
            break;
        case 0x0d: /* DW_CFA_def_cfa_register */
            rule->reg = symbol_cursor_uleb(&cursor);
            break;
        case 0x0e: /* DW_CFA_def_cfa_offset */
            rule->offset = symbol_cursor_uleb(&cursor);
            break;
        case 0x0f: /* DW_CFA_def_cfa_expression */
            rule->is_plain = false;
            advance(&cursor, symbol_cursor_uleb(&cursor));
            break;
        case 0x10: /* DW_CFA_expression */
        case 0x16: /* DW_CFA_val_expression */
            symbol_cursor_uleb(&cursor);
            advance(&cursor, symbol_cursor_uleb(&cursor));
            break;
        case 0x12: /* DW_CFA_def_cfa_sf */
            rule->reg = symbol_cursor_uleb(&cursor);
            rule->offset = (uint64_t)symbol_cursor_sleb(&cursor) * (uint64_t)data_align;
            rule->is_plain = true;
            break;
        case 0x13: /* DW_CFA_def_cfa_offset_sf */
            rule->offset = (uint64_t)symbol_cursor_sleb(&cursor) * (uint64_t)data_align;
            break;
        default: /* an advance, or unknown */
            return;
        }
    }
}

/* ---- entries ---- */

struct cie {
    uint64_t offset; /* in the section */
    struct rule rule;
    int64_t data_align;
    uint8_t fde_encoding, lsda_encoding;
    bool has_augmentation, is_signal;
};

struct reader {
    struct symbol_file *file;
    const uint8_t *bytes;
    uint64_t size, va;
    VEC(struct cie) cies; /* by offset, as they are found in this order */
};

/* Sets *body to what follows the length and id fields. False at the end of the section. */
static bool next_entry(const struct reader *reader, uint64_t *offset, struct symbol_cursor *body, uint64_t *id, uint64_t *id_offset)
{
    uint64_t at = *offset;
    struct symbol_cursor cursor = {reader->bytes + at, reader->bytes + reader->size, reader->va + at, false};
    uint64_t length = symbol_cursor_fixed(&cursor, 4);
    bool is_long = length == 0xffffffff;
    if (is_long)
        length = symbol_cursor_fixed(&cursor, 8);
    if (cursor.failed || length < 4 || length > (uint64_t)(cursor.end - cursor.at))
        return false;
    cursor.end = cursor.at + length;
    *offset = (uint64_t)(cursor.end - reader->bytes);
    *id_offset = (uint64_t)(cursor.at - reader->bytes);
    *id = symbol_cursor_fixed(&cursor, is_long && length >= 8 ? 8 : 4);
    *body = cursor;
    return true;
}

static void add_cie(struct reader *reader, uint64_t offset, struct symbol_cursor cursor)
{
    struct cie cie = {.offset = offset};
    uint8_t version = (uint8_t)symbol_cursor_fixed(&cursor, 1);
    const char *augmentation = (const char *)cursor.at;
    const uint8_t *nul = cursor.failed ? NULL : memchr(cursor.at, 0, (size_t)(cursor.end - cursor.at));
    if (!nul || (version != 1 && version != 3 && version != 4))
        return;
    advance(&cursor, (uint64_t)(nul + 1 - cursor.at));
    if (version == 4)
        advance(&cursor, 2);
    if (strncmp(augmentation, "eh", 2) == 0)
        advance(&cursor, (unsigned)reader->file->elf.width / 8);
    symbol_cursor_uleb(&cursor);
    cie.data_align = symbol_cursor_sleb(&cursor);
    if (version == 1)
        symbol_cursor_fixed(&cursor, 1);
    else
        symbol_cursor_uleb(&cursor);
    cie.fde_encoding = PE_ABSPTR;
    cie.lsda_encoding = PE_OMIT;
    if (augmentation[0] == 'z') {
        cie.has_augmentation = true;
        uint64_t length = symbol_cursor_uleb(&cursor);
        struct symbol_cursor data = cursor;
        if (!advance(&cursor, length))
            return;
        data.end = cursor.at;
        for (const char *c = augmentation + 1; *c && !data.failed; c++) {
            if (*c == 'R')
                cie.fde_encoding = (uint8_t)symbol_cursor_fixed(&data, 1);
            else if (*c == 'L')
                cie.lsda_encoding = (uint8_t)symbol_cursor_fixed(&data, 1);
            else if (*c == 'P') {
                uint8_t encoding = (uint8_t)symbol_cursor_fixed(&data, 1);
                symbol_cursor_encoded(&data, encoding & 0x7f, reader->file->elf.width, 0, 0);
            } else if (*c == 'S')
                cie.is_signal = true;
            else if (*c != 'B' && *c != 'G')
                break;
        }
    }
    if (cursor.failed)
        return;
    first_row(cursor, cie.data_align, &cie.rule);
    VEC_PUSH(&reader->cies, cie);
}

static const struct cie *find_cie(const struct reader *reader, uint64_t offset)
{
    size_t low = 0, high = reader->cies.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (reader->cies.at[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < reader->cies.n && reader->cies.at[low].offset == offset ? &reader->cies.at[low] : NULL;
}

static void add_fde(struct reader *reader, const struct cie *cie, struct symbol_cursor cursor)
{
    struct symbol_file *file = reader->file;
    int width = file->elf.width;
    struct symbol_fde fde = {.is_signal = cie->is_signal};
    fde.va = symbol_cursor_encoded(&cursor, cie->fde_encoding, width, file->elf.got_va, 0);
    fde.size = symbol_cursor_encoded(&cursor, cie->fde_encoding & 0x0f, width, 0, 0);
    if (cie->has_augmentation) {
        uint64_t length = symbol_cursor_uleb(&cursor);
        struct symbol_cursor data = cursor;
        if (!advance(&cursor, length))
            return;
        data.end = cursor.at;
        if (cie->lsda_encoding != PE_OMIT && length)
            fde.lsda_va = symbol_cursor_encoded(&data, cie->lsda_encoding, width, file->elf.got_va, fde.va);
        if (data.failed)
            fde.lsda_va = 0;
    }
    const struct symbol_range *range = symbol_file_code_at(file, fde.va);
    if (cursor.failed || !fde.size || !range)
        return;
    if (fde.size > range->end - fde.va)
        fde.size = range->end - fde.va;
    struct rule rule = cie->rule;
    first_row(cursor, cie->data_align, &rule);
    fde.is_entry_rule = rule.is_plain && (width == 64 ? rule.reg == 7 && rule.offset == 8 : rule.reg == 4 && rule.offset == 4);
    VEC_PUSH(&file->fdes, fde);
}

static int by_va(const void *left, const void *right)
{
    const struct symbol_fde *a = left, *b = right;
    if (a->va != b->va)
        return a->va < b->va ? -1 : 1;
    return a->size > b->size ? -1 : a->size < b->size;
}

void symbol_load_fdes(struct symbol_file *file)
{
    const struct symbol_section *section = symbol_elf_section(&file->elf, ".eh_frame");
    struct reader reader = {.file = file};
    if (!section || !(section->flags & SHF_ALLOC) || !(reader.bytes = symbol_elf_section_bytes(&file->elf, section)))
        return;
    reader.size = section->size;
    reader.va = section->va;
    struct symbol_cursor body;
    uint64_t id, id_offset;
    for (uint64_t offset = 0, start = 0; next_entry(&reader, &offset, &body, &id, &id_offset); start = offset)
        if (id == 0)
            add_cie(&reader, start, body);
    for (uint64_t offset = 0; next_entry(&reader, &offset, &body, &id, &id_offset);) {
        if (id == 0 || id > id_offset)
            continue;
        const struct cie *cie = find_cie(&reader, id_offset - id);
        if (cie)
            add_fde(&reader, cie, body);
    }
    VEC_FREE(&reader.cies);
    if (!file->fdes.n)
        return;
    qsort(file->fdes.at, file->fdes.n, sizeof *file->fdes.at, by_va);
    size_t kept = 1;
    for (size_t i = 1; i < file->fdes.n; i++)
        if (file->fdes.at[i].va != file->fdes.at[kept - 1].va)
            file->fdes.at[kept++] = file->fdes.at[i];
    file->fdes.n = kept;
}

const struct symbol_fde *symbol_file_fde_at(const struct symbol_file *file, uint64_t va)
{
    size_t low = 0, high = file->fdes.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (file->fdes.at[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low && va - file->fdes.at[low - 1].va < file->fdes.at[low - 1].size ? &file->fdes.at[low - 1] : NULL;
}
