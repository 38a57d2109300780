/* Entries and rows: see cfi.h. */
#include "symbol/cfi.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_INITIAL = 256,   /* bytes of initial instructions */
    MAX_REMEMBERED = 32, /* states */
    PE_OMIT = 0xff,      /* DW_EH_PE_omit */
};

/* ---- entries ---- */

struct entry {
    uint64_t offset;
    struct symbol_cursor body; /* what follows length and id */
    bool is_cie;
    uint64_t cie_offset; /* of an FDE's CIE */
};

/* False at the end of the section. */
static bool next_entry(const struct symbol_cfi *cfi, uint64_t *offset, struct entry *out)
{
    uint64_t at = *offset;
    if (at >= cfi->size)
        return false;
    struct symbol_cursor cursor = {cfi->bytes + at, cfi->bytes + cfi->size, cfi->va + at, false};
    uint64_t length = symbol_cursor_fixed(&cursor, 4);
    bool is_long = length == 0xffffffff;
    if (is_long)
        length = symbol_cursor_fixed(&cursor, 8);
    unsigned id_bytes = is_long && (!cfi->is_eh || length >= 8) ? 8 : 4;
    if (cursor.failed || length < id_bytes || length > (uint64_t)(cursor.end - cursor.at))
        return false;
    cursor.end = cursor.at + length;
    uint64_t id_offset = (uint64_t)(cursor.at - cfi->bytes), id = symbol_cursor_fixed(&cursor, id_bytes);
    *offset = (uint64_t)(cursor.end - cfi->bytes);
    *out = (struct entry){.offset = at, .body = cursor};
    if (cfi->is_eh) {
        out->is_cie = id == 0;
        out->cie_offset = id_offset - id; /* an id beyond id_offset wraps to where no CIE is */
    } else {
        out->is_cie = id == (id_bytes == 8 ? UINT64_MAX : UINT32_MAX);
        out->cie_offset = id;
    }
    return true;
}

/* Augmentation data: what each letter says. */
static void read_augmentation(struct symbol_cie *cie, const char *letter, struct symbol_cursor data, int width)
{
    while (*++letter && !data.failed) {
        if (*letter == 'R') {
            cie->fde_encoding = (uint8_t)symbol_cursor_fixed(&data, 1);
        } else if (*letter == 'L') {
            cie->lsda_encoding = (uint8_t)symbol_cursor_fixed(&data, 1);
        } else if (*letter == 'P') {
            uint8_t encoding = (uint8_t)symbol_cursor_fixed(&data, 1);
            symbol_cursor_encoded(&data, encoding & 0x7f, width, 0, 0);
        } else if (*letter == 'S') {
            cie->is_signal = true;
        } else if (*letter != 'B' && *letter != 'G') {
            break;
        }
    }
}

static void add_cie(struct symbol_cfi *cfi, const struct entry *entry)
{
    struct symbol_cursor cursor = entry->body;
    struct symbol_cie cie = {.offset = entry->offset, .lsda_encoding = PE_OMIT};
    uint8_t version = (uint8_t)symbol_cursor_fixed(&cursor, 1);
    const char *augmentation = (const char *)cursor.at;
    const uint8_t *nul = cursor.failed ? NULL : memchr(cursor.at, 0, (size_t)(cursor.end - cursor.at));
    if (!nul || (version != 1 && version != 3 && version != 4))
        return;
    symbol_cursor_skip(&cursor, (uint64_t)(nul + 1 - cursor.at));
    if (version == 4)
        symbol_cursor_skip(&cursor, 2); /* sizes of an address and of a segment selector */
    if (strncmp(augmentation, "eh", 2) == 0)
        symbol_cursor_skip(&cursor, (unsigned)cfi->width / 8);
    cie.code_align = symbol_cursor_uleb(&cursor);
    cie.data_align = symbol_cursor_sleb(&cursor);
    cie.return_reg = version == 1 ? symbol_cursor_fixed(&cursor, 1) : symbol_cursor_uleb(&cursor);
    if (augmentation[0] == 'z') {
        cie.has_augmentation = true;
        uint64_t length = symbol_cursor_uleb(&cursor);
        struct symbol_cursor data = cursor;
        if (!symbol_cursor_skip(&cursor, length))
            return;
        data.end = cursor.at;
        read_augmentation(&cie, augmentation, data, cfi->width);
    }
    cie.initial = cursor;
    if (!cursor.failed && cursor.end - cursor.at <= MAX_INITIAL)
        VEC_PUSH(&cfi->cies, cie);
}

static void read_cies(struct symbol_cfi *cfi)
{
    struct entry entry;
    for (uint64_t offset = 0; next_entry(cfi, &offset, &entry);)
        if (entry.is_cie)
            add_cie(cfi, &entry);
}

bool symbol_cfi_open(struct symbol_elf *elf, const char *name, uint64_t got_va, struct symbol_cfi *out)
{
    const struct symbol_section *section = symbol_elf_section(elf, name);
    *out = (struct symbol_cfi){.width = elf->width, .got_va = got_va, .is_eh = strcmp(name, ".eh_frame") == 0};
    if (!section || (out->is_eh && !(section->flags & SHF_ALLOC)) || !(out->bytes = symbol_elf_section_bytes(elf, section)))
        return false;
    out->size = section->size;
    out->va = section->va;
    read_cies(out);
    return true;
}

void symbol_cfi_deinit(struct symbol_cfi *cfi)
{
    VEC_FREE(&cfi->cies);
}

static uint32_t find_cie(const struct symbol_cfi *cfi, uint64_t offset)
{
    size_t low = 0, high = cfi->cies.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (cfi->cies.at[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < cfi->cies.n && cfi->cies.at[low].offset == offset ? (uint32_t)low : UINT32_MAX;
}

static bool read_fde(const struct symbol_cfi *cfi, const struct entry *entry, struct symbol_cfi_fde *out)
{
    uint32_t index = find_cie(cfi, entry->cie_offset);
    if (index == UINT32_MAX)
        return false;
    const struct symbol_cie *cie = &cfi->cies.at[index];
    struct symbol_cursor cursor = entry->body;
    *out = (struct symbol_cfi_fde){.cie = index};
    out->va = symbol_cursor_encoded(&cursor, cie->fde_encoding, cfi->width, cfi->got_va, 0);
    out->size = symbol_cursor_encoded(&cursor, cie->fde_encoding & 0x0f, cfi->width, 0, 0);
    if (cie->has_augmentation) {
        uint64_t length = symbol_cursor_uleb(&cursor);
        struct symbol_cursor data = cursor;
        if (!symbol_cursor_skip(&cursor, length))
            return false;
        data.end = cursor.at;
        if (cie->lsda_encoding != PE_OMIT)
            out->lsda_va = symbol_cursor_encoded(&data, cie->lsda_encoding, cfi->width, cfi->got_va, out->va);
        if (data.failed)
            out->lsda_va = 0;
    }
    out->program = cursor;
    return !cursor.failed && out->size && out->size <= UINT64_MAX - out->va;
}

bool symbol_cfi_next(const struct symbol_cfi *cfi, uint64_t *offset, struct symbol_cfi_fde *out)
{
    struct entry entry;
    while (next_entry(cfi, offset, &entry))
        if (!entry.is_cie && read_fde(cfi, &entry, out))
            return true;
    return false;
}

/* ---- rows ---- */

struct machine {
    const struct symbol_cfi *cfi;
    const struct symbol_cie *cie;
    struct symbol_cfi_row row;
    const struct symbol_cfi_row *initial; /* NULL while it is being made */
    struct symbol_cfi_row remembered[MAX_REMEMBERED];
    unsigned depth;
    symbol_cfi_row_fn *found;
    void *context;
    bool stopped;
};

static int64_t scaled(int64_t factor, const struct machine *machine)
{
    return (int64_t)((uint64_t)factor * (uint64_t)machine->cie->data_align);
}

static void set(struct machine *machine, uint64_t reg, enum symbol_cfi_how how, int64_t value)
{
    if (reg < SYMBOL_CFI_REGS)
        machine->row.reg[reg] = (struct symbol_cfi_rule){.how = (uint8_t)how, .value = value};
}

static void restore(struct machine *machine, uint64_t reg)
{
    if (reg < SYMBOL_CFI_REGS && machine->initial)
        machine->row.reg[reg] = machine->initial->reg[reg];
}

/* A block: how long, and its bytes. */
static const uint8_t *read_block(struct symbol_cursor *cursor, uint32_t *size)
{
    uint64_t length = symbol_cursor_uleb(cursor);
    const uint8_t *at = cursor->at;
    *size = symbol_cursor_skip(cursor, length) && length <= UINT32_MAX ? (uint32_t)length : 0;
    return at;
}

static void set_expression(struct machine *machine, struct symbol_cursor *cursor, enum symbol_cfi_how how)
{
    struct symbol_cfi_rule rule = {.how = (uint8_t)how};
    uint64_t reg = symbol_cursor_uleb(cursor);
    rule.expression = read_block(cursor, &rule.expression_size);
    if (reg < SYMBOL_CFI_REGS)
        machine->row.reg[reg] = rule;
}

/* The row that ends at `va` is complete. */
static void move_to(struct machine *machine, uint64_t va)
{
    struct symbol_cfi_row *row = &machine->row;
    uint64_t end = row->end;
    if (machine->cfi->width == 32)
        va = (uint32_t)va;
    if (!machine->initial || va <= row->va)
        return;
    row->end = va < end ? va : end;
    machine->stopped = row->va >= row->end || !machine->found(machine->context, row);
    row->end = end;
    row->va = va;
}

static bool remember(struct machine *machine)
{
    if (machine->depth == MAX_REMEMBERED)
        return false;
    machine->remembered[machine->depth++] = machine->row;
    return true;
}

static bool recall(struct machine *machine)
{
    if (!machine->depth)
        return false;
    uint64_t va = machine->row.va, end = machine->row.end;
    machine->row = machine->remembered[--machine->depth];
    machine->row.va = va;
    machine->row.end = end;
    return true;
}

static void define_cfa(struct machine *machine, uint64_t reg, int64_t offset)
{
    machine->row.cfa_reg = reg;
    machine->row.cfa_offset = offset;
    machine->row.cfa_expression = NULL;
}

static bool step_register(struct machine *machine, uint8_t op, struct symbol_cursor *cursor)
{
    uint64_t reg = symbol_cursor_uleb(cursor);
    switch (op) {
    case DW_CFA_offset_extended:
        set(machine, reg, SYMBOL_CFI_OFFSET, scaled((int64_t)symbol_cursor_uleb(cursor), machine));
        return true;
    case DW_CFA_offset_extended_sf:
        set(machine, reg, SYMBOL_CFI_OFFSET, scaled(symbol_cursor_sleb(cursor), machine));
        return true;
    case DW_CFA_GNU_negative_offset_extended:
        set(machine, reg, SYMBOL_CFI_OFFSET, scaled((int64_t)(0 - symbol_cursor_uleb(cursor)), machine));
        return true;
    case DW_CFA_val_offset:
        set(machine, reg, SYMBOL_CFI_VAL_OFFSET, scaled((int64_t)symbol_cursor_uleb(cursor), machine));
        return true;
    case DW_CFA_val_offset_sf:
        set(machine, reg, SYMBOL_CFI_VAL_OFFSET, scaled(symbol_cursor_sleb(cursor), machine));
        return true;
    case DW_CFA_register:
        set(machine, reg, SYMBOL_CFI_REGISTER, (int64_t)symbol_cursor_uleb(cursor));
        return true;
    case DW_CFA_restore_extended:
        restore(machine, reg);
        return true;
    case DW_CFA_undefined:
        set(machine, reg, SYMBOL_CFI_UNDEFINED, 0);
        return true;
    case DW_CFA_same_value:
        set(machine, reg, SYMBOL_CFI_SAME, 0);
        return true;
    case DW_CFA_def_cfa:
        define_cfa(machine, reg, (int64_t)symbol_cursor_uleb(cursor));
        return true;
    case DW_CFA_def_cfa_sf:
        define_cfa(machine, reg, scaled(symbol_cursor_sleb(cursor), machine));
        return true;
    case DW_CFA_def_cfa_register:
        define_cfa(machine, reg, machine->row.cfa_offset);
        return true;
    }
    return false;
}

/* One instruction that is not one of the three with an operand in the opcode. False when it is not known or makes no sense. */
static bool step(struct machine *machine, uint8_t op, struct symbol_cursor *cursor)
{
    struct symbol_cfi_row *row = &machine->row;
    switch (op) {
    case DW_CFA_nop:
        return true;
    case DW_CFA_set_loc:
        move_to(machine, symbol_cursor_encoded(cursor, machine->cie->fde_encoding, machine->cfi->width, machine->cfi->got_va, 0));
        return true;
    case DW_CFA_advance_loc1:
    case DW_CFA_advance_loc2:
    case DW_CFA_advance_loc4:
        move_to(machine, row->va + symbol_cursor_fixed(cursor, 1u << (op - DW_CFA_advance_loc1)) * machine->cie->code_align);
        return true;
    case DW_CFA_remember_state:
        return remember(machine);
    case DW_CFA_restore_state:
        return recall(machine);
    case DW_CFA_def_cfa_offset:
        row->cfa_offset = (int64_t)symbol_cursor_uleb(cursor);
        return true;
    case DW_CFA_def_cfa_offset_sf:
        row->cfa_offset = scaled(symbol_cursor_sleb(cursor), machine);
        return true;
    case DW_CFA_def_cfa_expression:
        row->cfa_expression = read_block(cursor, &row->cfa_expression_size);
        return true;
    case DW_CFA_expression:
        set_expression(machine, cursor, SYMBOL_CFI_EXPRESSION);
        return true;
    case DW_CFA_val_expression:
        set_expression(machine, cursor, SYMBOL_CFI_VAL_EXPRESSION);
        return true;
    case DW_CFA_GNU_args_size: /* for landing pads only: the CFA is said apart */
        symbol_cursor_uleb(cursor);
        return true;
    default:
        return step_register(machine, op, cursor);
    }
}

static bool run(struct machine *machine, struct symbol_cursor cursor)
{
    while (cursor.at < cursor.end && !cursor.failed && !machine->stopped) {
        uint8_t op = (uint8_t)symbol_cursor_fixed(&cursor, 1);
        uint8_t low = op & 0x3f;
        switch (op & 0xc0) {
        case DW_CFA_advance_loc:
            move_to(machine, machine->row.va + low * machine->cie->code_align);
            break;
        case DW_CFA_offset:
            set(machine, low, SYMBOL_CFI_OFFSET, scaled((int64_t)symbol_cursor_uleb(&cursor), machine));
            break;
        case DW_CFA_restore:
            restore(machine, low);
            break;
        default:
            if (!step(machine, op, &cursor))
                return false;
        }
    }
    return !cursor.failed;
}

bool symbol_cfi_rows(const struct symbol_cfi *cfi, const struct symbol_cfi_fde *fde, symbol_cfi_row_fn *found, void *context)
{
    struct machine machine;
    /* Not all of it: the remembered states are large, and written before they are read. */
    machine.cfi = cfi;
    machine.cie = &cfi->cies.at[fde->cie];
    memset(&machine.row, 0, sizeof machine.row);
    machine.row.cfa_reg = UINT64_MAX;
    machine.initial = NULL;
    machine.depth = 0;
    machine.found = found;
    machine.context = context;
    machine.stopped = false;
    if (!run(&machine, machine.cie->initial))
        return false;
    struct symbol_cfi_row initial = machine.row;
    machine.initial = &initial;
    machine.depth = 0;
    machine.row.va = fde->va;
    machine.row.end = fde->va + fde->size;
    if (!run(&machine, fde->program))
        return false;
    if (!machine.stopped)
        move_to(&machine, machine.row.end);
    return true;
}
