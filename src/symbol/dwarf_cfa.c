/* The canonical frame address at an instruction, from .eh_frame of the program's file or .debug_frame (DWARF 5, 6.4). Only the rule for
 * the CFA is computed; libdw would also make room for as many registers as the file names. Entries are read once and sorted. */
#include "symbol/dwarf_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_REMEMBERED = 32, MAX_REG = 63 };

struct frame_cie {
    uint64_t offset;         /* in its section */
    const uint8_t *at, *end; /* initial instructions */
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding; /* of addresses in FDEs */
    bool has_augmentation;
};

struct frame_fde {
    uint64_t va, end;
    uint32_t cie;
    const uint8_t *at, *finish; /* instructions */
};

struct symbol_dw_frames {
    VEC(struct frame_cie) cies;
    VEC(struct frame_fde) fdes; /* by va */
};

struct section {
    const uint8_t *bytes;
    uint64_t size, va, got_va;
    bool is_eh;
    size_t first_cie; /* its CIEs start here; by offset */
};

/* ---- reading the section ---- */

static void add_cie(struct symbol_dwarf *dwarf, uint64_t offset, const Dwarf_CIE *cie)
{
    struct frame_cie entry = {.offset = offset,
                              .at = cie->initial_instructions,
                              .end = cie->initial_instructions_end,
                              .code_align = cie->code_alignment_factor,
                              .data_align = cie->data_alignment_factor,
                              .has_augmentation = cie->augmentation[0] == 'z'};
    /* Augmentation data: what each letter says (LSB Core, Exception Frames). */
    const uint8_t *data = cie->augmentation_data;
    struct symbol_cursor cursor = {data, data ? data + cie->augmentation_data_size : NULL, 0, false};
    for (const char *letter = cie->augmentation; entry.has_augmentation && *++letter && !cursor.failed;) {
        if (*letter == 'R') {
            entry.encoding = (uint8_t)symbol_cursor_fixed(&cursor, 1);
        } else if (*letter == 'L') {
            symbol_cursor_fixed(&cursor, 1);
        } else if (*letter == 'P') {
            uint8_t encoding = (uint8_t)symbol_cursor_fixed(&cursor, 1);
            /* Its value does not matter, only its size. */
            symbol_cursor_encoded(&cursor, encoding & 0x0f, dwarf->width, 0, 0);
        } else if (*letter != 'S' && *letter != 'B' && *letter != 'G') {
            break;
        }
    }
    if (!cursor.failed || !entry.has_augmentation)
        VEC_PUSH(&dwarf->frames->cies, entry);
}

static uint32_t find_cie(const struct symbol_dw_frames *frames, const struct section *section, uint64_t offset)
{
    size_t low = section->first_cie, high = frames->cies.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (frames->cies.at[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < frames->cies.n && frames->cies.at[low].offset == offset ? (uint32_t)low : UINT32_MAX;
}

static void add_fde(struct symbol_dwarf *dwarf, const struct section *section, const Dwarf_FDE *fde)
{
    struct symbol_dw_frames *frames = dwarf->frames;
    struct frame_fde entry = {.cie = find_cie(frames, section, fde->CIE_pointer), .finish = fde->end};
    if (entry.cie == UINT32_MAX)
        return;
    const struct frame_cie *cie = &frames->cies.at[entry.cie];
    struct symbol_cursor cursor = {fde->start, fde->end, section->va + (uint64_t)(fde->start - section->bytes), false};
    entry.va = symbol_cursor_encoded(&cursor, cie->encoding, dwarf->width, section->got_va, 0);
    uint64_t size = symbol_cursor_encoded(&cursor, cie->encoding & 0x0f, dwarf->width, 0, 0);
    if (cie->has_augmentation) {
        uint64_t skip = symbol_cursor_uleb(&cursor);
        if (cursor.failed || skip > (uint64_t)(cursor.end - cursor.at))
            return;
        cursor.at += skip;
    }
    if (cursor.failed || !size || size > UINT64_MAX - entry.va)
        return;
    entry.end = entry.va + size;
    entry.at = cursor.at;
    VEC_PUSH(&frames->fdes, entry);
}

static void read_section(struct symbol_dwarf *dwarf, struct section *section)
{
    Elf_Data data = {.d_buf = (void *)section->bytes, .d_type = ELF_T_BYTE, .d_version = EV_CURRENT, .d_size = (size_t)section->size};
    unsigned char ident[EI_NIDENT] = {ELFMAG0,     ELFMAG1,   ELFMAG2, ELFMAG3, dwarf->width == 64 ? ELFCLASS64 : ELFCLASS32,
                                      ELFDATA2LSB, EV_CURRENT};
    section->first_cie = dwarf->frames->cies.n;
    for (int pass = 0; pass < 2; pass++) {
        Dwarf_CFI_Entry entry;
        /* A damaged entry (-1) is stepped over when libdw knows where it ends. */
        for (Dwarf_Off offset = 0, next = 0;; offset = next) {
            int code = dwarf_next_cfi(ident, &data, section->is_eh, offset, &next, &entry);
            if (code > 0 || next <= offset || next > section->size || !symbol_dw_spend(dwarf, 16))
                break;
            if (code < 0)
                continue;
            if (dwarf_cfi_cie_p(&entry) && pass == 0)
                add_cie(dwarf, offset, &entry.cie);
            else if (!dwarf_cfi_cie_p(&entry) && pass == 1)
                add_fde(dwarf, section, &entry.fde);
        }
    }
}

static int by_va(const void *left, const void *right)
{
    const struct frame_fde *a = left, *b = right;
    return a->va < b->va ? -1 : a->va > b->va;
}

static void load(struct symbol_dwarf *dwarf)
{
    struct {
        struct symbol_elf *elf;
        const char *name;
    } from[] = {{&dwarf->main, ".eh_frame"}, {dwarf->debug ? dwarf->debug : &dwarf->main, ".debug_frame"}};
    dwarf->frames = memory_zero(1, sizeof *dwarf->frames);
    for (size_t i = 0; i < 2; i++) {
        const struct symbol_section *found = symbol_elf_section(from[i].elf, from[i].name);
        struct section section = {.is_eh = i == 0, .got_va = dwarf->main.got_va};
        if (!found || !(section.bytes = symbol_elf_section_bytes(from[i].elf, found)))
            continue;
        section.size = found->size;
        section.va = found->va;
        read_section(dwarf, &section);
    }
    if (dwarf->frames->fdes.n)
        qsort(dwarf->frames->fdes.at, dwarf->frames->fdes.n, sizeof *dwarf->frames->fdes.at, by_va);
}

void symbol_dw_cfa_free(struct symbol_dwarf *dwarf)
{
    if (!dwarf->frames)
        return;
    VEC_FREE(&dwarf->frames->cies);
    VEC_FREE(&dwarf->frames->fdes);
    free(dwarf->frames);
}

/* ---- running the instructions ---- */

struct rule {
    uint64_t reg;
    int64_t offset;
    const uint8_t *expression; /* NULL: reg + offset */
    uint64_t expression_size;
};

struct machine {
    struct rule rule, remembered[MAX_REMEMBERED];
    unsigned depth;
    uint64_t at_va, stop_va;
};

static void skip(struct symbol_cursor *cursor, uint64_t bytes)
{
    if (cursor->failed || bytes > (uint64_t)(cursor->end - cursor->at))
        cursor->failed = true;
    else
        cursor->at += bytes;
}

/* False when an instruction is not known or makes no sense. */
static bool run(struct machine *machine, const struct frame_cie *cie, struct symbol_cursor cursor, int width)
{
    struct rule *rule = &machine->rule;
    while (cursor.at < cursor.end && !cursor.failed && machine->at_va <= machine->stop_va) {
        uint8_t op = (uint8_t)symbol_cursor_fixed(&cursor, 1);
        uint64_t step = 0;
        switch (op & 0xc0) {
        case DW_CFA_advance_loc:
            machine->at_va += (op & 0x3f) * cie->code_align;
            continue;
        case DW_CFA_offset:
            symbol_cursor_uleb(&cursor);
            continue;
        case DW_CFA_restore:
            continue;
        }
        switch (op) {
        case DW_CFA_nop:
        case DW_CFA_GNU_window_save:
            break;
        case DW_CFA_set_loc:
            machine->at_va = symbol_cursor_fixed(&cursor, (unsigned)width / 8);
            break;
        case DW_CFA_advance_loc1:
        case DW_CFA_advance_loc2:
        case DW_CFA_advance_loc4:
            step = symbol_cursor_fixed(&cursor, 1u << (op - DW_CFA_advance_loc1));
            machine->at_va += step * cie->code_align;
            break;
        case DW_CFA_offset_extended:
        case DW_CFA_register:
        case DW_CFA_offset_extended_sf:
        case DW_CFA_val_offset:
        case DW_CFA_val_offset_sf:
        case DW_CFA_GNU_negative_offset_extended:
            symbol_cursor_uleb(&cursor);
            symbol_cursor_uleb(&cursor);
            break;
        case DW_CFA_restore_extended:
        case DW_CFA_undefined:
        case DW_CFA_same_value:
        case DW_CFA_GNU_args_size:
            symbol_cursor_uleb(&cursor);
            break;
        case DW_CFA_remember_state:
            if (machine->depth == MAX_REMEMBERED)
                return false;
            machine->remembered[machine->depth++] = *rule;
            break;
        case DW_CFA_restore_state:
            if (!machine->depth)
                return false;
            *rule = machine->remembered[--machine->depth];
            break;
        case DW_CFA_def_cfa:
            rule->reg = symbol_cursor_uleb(&cursor);
            rule->offset = (int64_t)symbol_cursor_uleb(&cursor);
            rule->expression = NULL;
            break;
        case DW_CFA_def_cfa_sf:
            rule->reg = symbol_cursor_uleb(&cursor);
            rule->offset = (int64_t)((uint64_t)symbol_cursor_sleb(&cursor) * (uint64_t)cie->data_align);
            rule->expression = NULL;
            break;
        case DW_CFA_def_cfa_register:
            rule->reg = symbol_cursor_uleb(&cursor);
            break;
        case DW_CFA_def_cfa_offset:
            rule->offset = (int64_t)symbol_cursor_uleb(&cursor);
            break;
        case DW_CFA_def_cfa_offset_sf:
            rule->offset = (int64_t)((uint64_t)symbol_cursor_sleb(&cursor) * (uint64_t)cie->data_align);
            break;
        case DW_CFA_def_cfa_expression:
            rule->expression_size = symbol_cursor_uleb(&cursor);
            rule->expression = cursor.at;
            skip(&cursor, rule->expression_size);
            break;
        case DW_CFA_expression:
        case DW_CFA_val_expression:
            symbol_cursor_uleb(&cursor);
            skip(&cursor, symbol_cursor_uleb(&cursor));
            break;
        default:
            return false;
        }
    }
    return !cursor.failed;
}

/* `register + offset`, read from memory: what functions have that align their stack. */
static bool run_expression(const struct rule *rule, struct symbol_piece *out)
{
    struct symbol_cursor cursor = {rule->expression, rule->expression + rule->expression_size, 0, false};
    uint8_t op = (uint8_t)symbol_cursor_fixed(&cursor, 1);
    if (cursor.failed || op < DW_OP_breg0 || op > DW_OP_breg31)
        return false;
    out->reg = (int16_t)(op - DW_OP_breg0);
    out->offset = symbol_cursor_sleb(&cursor);
    while (cursor.at < cursor.end && !cursor.failed) {
        op = (uint8_t)symbol_cursor_fixed(&cursor, 1);
        if (op == DW_OP_deref && out->deref_count < SYMBOL_MAX_DEREFS)
            out->deref_count++;
        else if (op == DW_OP_plus_uconst && out->deref_count)
            out->deref_offset[out->deref_count - 1] += (int64_t)(symbol_cursor_uleb(&cursor) & INT32_MAX);
        else
            return false;
    }
    return !cursor.failed;
}

bool symbol_dw_cfa_at(struct symbol_dwarf *dwarf, uint64_t va, struct symbol_piece *out)
{
    if (!dwarf->frames)
        load(dwarf);
    struct symbol_dw_frames *frames = dwarf->frames;
    size_t low = 0, high = frames->fdes.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (frames->fdes.at[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || va >= frames->fdes.at[low - 1].end)
        return false;
    const struct frame_fde *fde = &frames->fdes.at[low - 1];
    const struct frame_cie *cie = &frames->cies.at[fde->cie];
    struct machine machine = {.rule = {.reg = UINT64_MAX}, .at_va = fde->va, .stop_va = va};
    if (!run(&machine, cie, (struct symbol_cursor){cie->at, cie->end, 0, false}, dwarf->width) ||
        !run(&machine, cie, (struct symbol_cursor){fde->at, fde->finish, 0, false}, dwarf->width))
        return false;
    *out = (struct symbol_piece){.place = SYMBOL_PLACE_VALUE};
    if (machine.rule.expression)
        return run_expression(&machine.rule, out);
    if (machine.rule.reg > MAX_REG)
        return false;
    out->reg = (int16_t)machine.rule.reg;
    out->offset = machine.rule.offset;
    return true;
}
