/* Building unwind tables (unwind.h).
 *
 * Code is covered by pieces, in layers: .eh_frame, code that is known by its bytes, .debug_frame, sections of a known shape. A layer only
 * gets what those before it left. Pieces are then run in order of address, and give rows; rows give rules, of which each is kept once.
 *
 * Invariants
 *  1. Pieces and rows ascend and do not overlap; rows of unknown code have rule 0, so that each row ends where the next begins.
 *  2. Where FDEs overlap, the one that starts last counts, as in the search that C++ exceptions do.
 *  3. Work and memory are bounded by the sizes of the sections: a row costs at least one byte of them. */
#include "symbol/unwind_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RULES = UINT16_MAX };

struct builder {
    struct symbol_file *file;
    int width;
    symbol_unwind_pieces pieces;
    symbol_unwind_rows rows; /* of the piece that is being run */
    uint64_t text_va;
    uint64_t next_va; /* end of the last row */
    VEC(uint32_t) starts;
    VEC(uint16_t) row_rules;
    VEC(struct wire_unwind_rule) rules;
    uint16_t *buckets;                       /* index + 1 into rules; 2 * MAX_RULES rounded up */
    const struct symbol_unwind_piece *piece; /* that is being run */
    const struct symbol_cie *cie;            /* of its FDE */
};

/* ---- layers ---- */

static int by_va(const void *left, const void *right)
{
    const struct symbol_unwind_piece *a = left, *b = right;
    if (a->va != b->va)
        return a->va < b->va ? -1 : 1;
    return a->end > b->end ? -1 : a->end < b->end;
}

static void sort_pieces(symbol_unwind_pieces *pieces)
{
    size_t kept = 0;
    if (!pieces->n)
        return;
    qsort(pieces->at, pieces->n, sizeof *pieces->at, by_va);
    for (size_t i = 0; i < pieces->n; i++) {
        if (kept && pieces->at[kept - 1].va == pieces->at[i].va)
            continue;
        if (kept && pieces->at[kept - 1].end > pieces->at[i].va)
            pieces->at[kept - 1].end = pieces->at[i].va;
        pieces->at[kept++] = pieces->at[i];
    }
    pieces->n = kept;
}

/* Adds what of `more` lies between the pieces that are there, and frees it. */
static void add_layer(struct builder *builder, symbol_unwind_pieces *more)
{
    const symbol_unwind_pieces *old = &builder->pieces;
    symbol_unwind_pieces merged = {0};
    size_t next = 0;
    sort_pieces(more);
    for (size_t i = 0; i < more->n; i++) {
        struct symbol_unwind_piece piece = more->at[i];
        for (; next < old->n && old->at[next].va < piece.end; next++) {
            struct symbol_unwind_piece before = piece;
            before.end = old->at[next].va;
            if (before.va < before.end)
                VEC_PUSH(&merged, before);
            if (piece.va < old->at[next].end)
                piece.va = old->at[next].end;
            if (piece.va >= piece.end)
                break; /* the old piece may reach into the next new one */
            VEC_PUSH(&merged, old->at[next]);
        }
        if (piece.va < piece.end)
            VEC_PUSH(&merged, piece);
    }
    for (; next < old->n; next++)
        VEC_PUSH(&merged, old->at[next]);
    VEC_FREE(&builder->pieces);
    VEC_FREE(more);
    builder->pieces.at = merged.at;
    builder->pieces.n = merged.n;
    builder->pieces.room = merged.room;
}

static void add_cfi(struct builder *builder, const struct symbol_cfi *cfi)
{
    symbol_unwind_pieces layer = {0};
    struct symbol_cfi_fde fde;
    for (uint64_t offset = 0, at = 0; symbol_cfi_next(cfi, &offset, &fde); at = offset) {
        const struct symbol_range *range = symbol_file_code_at(builder->file, fde.va);
        if (!range)
            continue;
        uint64_t end = fde.size < range->end - fde.va ? fde.va + fde.size : range->end;
        VEC_PUSH(&layer, (struct symbol_unwind_piece){.va = fde.va, .end = end, .cfi = cfi, .fde_offset = at});
    }
    add_layer(builder, &layer);
}

static void add_known_code(struct builder *builder)
{
    const struct symbol_file *file = builder->file;
    symbol_unwind_pieces layer = {0};
    size_t next = 0;
    for (size_t i = 0; i < file->code.n; i++) {
        uint64_t va = file->code.at[i].va, end = file->code.at[i].end;
        for (; next < builder->pieces.n && builder->pieces.at[next].va < end; next++) {
            if (va < builder->pieces.at[next].va)
                symbol_unwind_find_known(builder->file, va, builder->pieces.at[next].va, &layer);
            va = builder->pieces.at[next].end;
        }
        if (va < end)
            symbol_unwind_find_known(builder->file, va, end, &layer);
    }
    add_layer(builder, &layer);
}

/* ---- rows and rules ---- */

enum { BUCKETS = 1 << 17 };

static uint16_t rule_index(struct builder *builder, const struct wire_unwind_rule *rule)
{
    uint64_t words[3], hash = 0;
    _Static_assert(sizeof words == sizeof *rule, "hashed whole");
    memcpy(words, rule, sizeof words);
    for (size_t i = 0; i < 3; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15 ^ hash >> 29;
    for (size_t at = hash >> 47;; at = (at + 1) % BUCKETS) {
        uint16_t found = builder->buckets[at];
        if (found && memcmp(&builder->rules.at[found - 1], rule, sizeof *rule) == 0)
            return (uint16_t)(found - 1);
        if (found)
            continue;
        if (builder->rules.n == MAX_RULES)
            return 0;
        VEC_PUSH(&builder->rules, *rule);
        builder->buckets[at] = (uint16_t)builder->rules.n;
        return (uint16_t)(builder->rules.n - 1);
    }
}

static void push_row(struct builder *builder, uint64_t va, uint16_t rule)
{
    if (builder->starts.n && builder->row_rules.at[builder->row_rules.n - 1] == rule)
        return;
    VEC_PUSH(&builder->starts, (uint32_t)(va - builder->text_va));
    VEC_PUSH(&builder->row_rules, rule);
}

static void add_row(struct builder *builder, uint64_t va, uint64_t end, const struct wire_unwind_rule *rule)
{
    if (end - builder->text_va > UINT32_MAX)
        return;
    if (builder->next_va < va)
        push_row(builder, builder->next_va, 0);
    push_row(builder, va, rule_index(builder, rule));
    builder->next_va = end;
}

static bool take_row(void *context, const struct symbol_cfi_row *row)
{
    struct builder *builder = context;
    VEC_PUSH(&builder->rows, (struct symbol_unwind_row){row->va, row->end, symbol_unwind_rule(row, builder->cie, builder->width)});
    return row->end < builder->piece->end;
}

static void run_piece(struct builder *builder, const struct symbol_unwind_piece *piece)
{
    struct symbol_cfi_fde fde;
    uint64_t offset = piece->fde_offset;
    if (!symbol_cfi_next(piece->cfi, &offset, &fde))
        return;
    builder->piece = piece;
    builder->cie = &piece->cfi->cies.at[fde.cie];
    builder->rows.n = 0;
    symbol_cfi_rows(piece->cfi, &fde, take_row, builder);
    if (builder->width == 32)
        symbol_unwind_repair(builder->file, &builder->rows);
    for (size_t i = 0; i < builder->rows.n; i++) {
        const struct symbol_unwind_row *row = &builder->rows.at[i];
        uint64_t va = row->va > piece->va ? row->va : piece->va, end = row->end < piece->end ? row->end : piece->end;
        if (va < end)
            add_row(builder, va, end, &row->rule);
    }
}

static struct wire_unwind *make_table(const struct builder *builder)
{
    size_t rows = builder->starts.n, rules = builder->rules.n, row_rules = (rows * sizeof(uint16_t) + 3) & ~(size_t)3;
    size_t bytes = sizeof(struct wire_unwind) + rows * sizeof(uint32_t) + row_rules + rules * sizeof(struct wire_unwind_rule);
    struct wire_unwind *table = memory_zero(1, bytes);
    *table = (struct wire_unwind){.magic = WIRE_UNWIND_MAGIC,
                                  .text_va = builder->text_va,
                                  .bytes = (uint32_t)bytes,
                                  .width = (uint32_t)builder->width,
                                  .row_count = (uint32_t)rows,
                                  .rule_count = (uint32_t)rules};
    uint8_t *at = (uint8_t *)(table + 1);
    if (rows) {
        memcpy(at, builder->starts.at, rows * sizeof(uint32_t));
        memcpy(at + rows * sizeof(uint32_t), builder->row_rules.at, rows * sizeof(uint16_t));
    }
    memcpy(at + rows * sizeof(uint32_t) + row_rules, builder->rules.at, rules * sizeof(struct wire_unwind_rule));
    return table;
}

static struct wire_unwind *run_pieces(struct builder *builder)
{
    static const struct wire_unwind_rule none = {.cfa = WIRE_CFA_NONE};
    builder->buckets = memory_zero(BUCKETS, sizeof *builder->buckets);
    builder->text_va = builder->next_va = builder->file->code.n ? builder->file->code.at[0].va : 0;
    rule_index(builder, &none);
    for (size_t i = 0; i < builder->pieces.n; i++) {
        const struct symbol_unwind_piece *piece = &builder->pieces.at[i];
        if (piece->cfi)
            run_piece(builder, piece);
        else
            add_row(builder, piece->va, piece->end, &piece->rule);
    }
    if (builder->starts.n)
        push_row(builder, builder->next_va, 0);
    struct wire_unwind *table = make_table(builder);
    VEC_FREE(&builder->rows);
    VEC_FREE(&builder->starts);
    VEC_FREE(&builder->row_rules);
    VEC_FREE(&builder->rules);
    free(builder->buckets);
    return table;
}

/* ---- files ---- */

struct separate {
    struct builder *builder;
    struct symbol_elf *elf; /* taken over */
    struct symbol_cfi cfi;
};

static bool take_debug(void *context, struct symbol_elf *debug, const char *path)
{
    (void)path;
    struct separate *separate = context;
    if (!symbol_cfi_open(debug, ".debug_frame", separate->builder->file->elf.got_va, &separate->cfi))
        return false;
    separate->elf = debug;
    debug->image.fd = -1;
    return true;
}

struct wire_unwind *symbol_unwind_build(struct symbol_file *file)
{
    struct builder builder = {.file = file, .width = file->elf.width};
    struct symbol_cfi eh, debug;
    struct separate separate = {.builder = &builder};
    bool has_eh = symbol_cfi_open(&file->elf, ".eh_frame", file->elf.got_va, &eh);
    bool has_debug = symbol_cfi_open(&file->elf, ".debug_frame", file->elf.got_va, &debug);
    if (has_eh)
        add_cfi(&builder, &eh);
    add_known_code(&builder);
    if (has_debug)
        add_cfi(&builder, &debug);
    else
        symbol_find_debug_file(&file->elf, file->path, take_debug, &separate);
    if (separate.elf)
        add_cfi(&builder, &separate.cfi);
    symbol_unwind_pieces sections = {0};
    symbol_unwind_find_sections(file, &sections);
    add_layer(&builder, &sections);
    struct wire_unwind *table = run_pieces(&builder);
    VEC_FREE(&builder.pieces);
    if (has_eh)
        symbol_cfi_deinit(&eh);
    if (has_debug)
        symbol_cfi_deinit(&debug);
    if (separate.elf) {
        symbol_cfi_deinit(&separate.cfi);
        symbol_elf_deinit(separate.elf);
        free(separate.elf);
    }
    return table;
}

static void take(struct symbol_file *file, struct symbol_unwind *out)
{
    symbol_find_code(file);
    out->table = symbol_unwind_build(file);
    out->build_id_size = file->elf.build_id_size;
    memcpy(out->build_id, file->elf.build_id, sizeof out->build_id);
    out->code = memory_zero(file->elf.segments.n, sizeof *out->code);
    for (size_t i = 0; i < file->elf.segments.n; i++) {
        const struct symbol_segment *segment = &file->elf.segments.at[i];
        if (segment->executable)
            out->code[out->code_count++] = (struct symbol_unwind_code){segment->va, segment->file_offset, segment->size};
    }
}

struct err *symbol_unwind_open_fd(int fd, const char *path, struct symbol_unwind *out)
{
    struct symbol_file *file = memory_zero(1, sizeof *file);
    memset(out, 0, sizeof *out);
    file->path = memory_text(path);
    struct err *error = symbol_image_init(&file->elf.image, fd, path);
    /* Without section headers, sections are found through the contents of segments. */
    if (!error)
        error = symbol_elf_parse(&file->elf, path, false);
    if (!error && (!file->elf.sections.n || file->elf.type == ET_REL)) {
        VEC_FREE(&file->elf.segments);
        VEC_FREE(&file->elf.sections);
        error = symbol_elf_parse(&file->elf, path, true);
    }
    if (!error)
        take(file, out);
    file->elf.image.fd = -1;
    symbol_file_close(file);
    return error;
}

struct err *symbol_unwind_open_memory(const void *bytes, size_t size, const char *path, struct symbol_unwind *out)
{
    struct symbol_file *file = memory_zero(1, sizeof *file);
    memset(out, 0, sizeof *out);
    file->path = memory_text(path);
    uint8_t *copy = memory_alloc(size);
    memcpy(copy, bytes, size);
    symbol_image_init_memory(&file->elf.image, copy, size);
    struct err *error = symbol_elf_parse(&file->elf, path, true);
    if (!error)
        take(file, out);
    symbol_file_close(file);
    return error;
}

void symbol_unwind_deinit(struct symbol_unwind *unwind)
{
    free(unwind->table);
    free(unwind->code);
    memset(unwind, 0, sizeof *unwind);
}

bool symbol_unwind_is_valid(const void *table, size_t bytes)
{
    struct wire_unwind head;
    if (bytes < sizeof head || (uintptr_t)table % 8)
        return false;
    memcpy(&head, table, sizeof head);
    uint64_t row_rules = ((uint64_t)head.row_count * sizeof(uint16_t) + 3) & ~3ULL, rows = (uint64_t)head.row_count * sizeof(uint32_t);
    if (head.magic != WIRE_UNWIND_MAGIC || head.bytes != bytes || (head.width != 32 && head.width != 64) || !head.rule_count ||
        head.rule_count > MAX_RULES || bytes != sizeof head + rows + row_rules + head.rule_count * sizeof(struct wire_unwind_rule))
        return false;
    const uint32_t *start = (const uint32_t *)((const uint8_t *)table + sizeof head);
    const uint16_t *rule = (const uint16_t *)(start + head.row_count);
    for (uint32_t i = 0; i < head.row_count; i++)
        if (rule[i] >= head.rule_count || (i && start[i] <= start[i - 1]))
            return false;
    return true;
}
