/* Line tables: FILE:LINE -> addresses, address -> FILE:LINE. */
#include "symbol/dwarf_internal.h"

#include <stdlib.h>
#include <string.h>

/* One row, of a unit's table. */
struct row {
    uint64_t va;
    const char *path;
    unsigned line;
    bool is_statement, is_end;
};

/* ---- rows ---- */

/* What ends up in paths is printed: no control characters. */
static const char *good_path(struct symbol_dwarf *dwarf, const char *path)
{
    size_t size = path ? strnlen(path, SYMBOL_DW_MAX_NAME) : 0;
    if (!size || size == SYMBOL_DW_MAX_NAME || !symbol_dw_spend(dwarf, 1))
        return NULL;
    return path;
}

static bool read_row(struct symbol_dwarf *dwarf, Dwarf_Lines *lines, size_t index, struct row *out)
{
    Dwarf_Line *line = dwarf_onesrcline(lines, index);
    Dwarf_Addr va;
    int number = 0;
    if (!line || dwarf_lineaddr(line, &va) != 0 || dwarf_lineno(line, &number) != 0 ||
        dwarf_linebeginstatement(line, &out->is_statement) != 0 || dwarf_lineendsequence(line, &out->is_end) != 0)
        return false;
    out->va = va;
    out->line = number > 0 ? (unsigned)number : 0;
    out->path = out->is_end ? "" : good_path(dwarf, dwarf_linesrc(line, NULL, NULL));
    return out->path;
}

static bool unit_lines(struct symbol_dwarf *dwarf, struct symbol_dw_unit *unit, Dwarf_Lines **lines, size_t *count)
{
    return unit->is_code && symbol_dw_spend(dwarf, 64) && dwarf_getsrclines(&unit->die, lines, count) == 0 &&
           symbol_dw_spend(dwarf, *count);
}

/* Whether `path` is `file` or ends in its components; "./" at the start of either does not count. */
static bool path_fits(const char *path, const char *file)
{
    while (strncmp(file, "./", 2) == 0)
        file += 2;
    size_t have = strlen(path), want = strlen(file);
    if (want > have || !want || strcmp(path + have - want, file) != 0)
        return false;
    return have == want || file[0] == '/' || path[have - want - 1] == '/';
}

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

/* ---- FILE:LINE -> addresses ---- */

struct search {
    const char *file;
    unsigned line;
    unsigned best;    /* the nearest line at or behind `line` that has code, or UINT_MAX */
    unsigned highest; /* the last line of the file that has code */
    bool has_file;
    VEC(struct symbol_line) found; /* rows of `best` */
};

/* Rows of one unit. A block of code is a run of rows of the line: its first statement row counts; a row that follows one of the same
 * line directly is the same block. */
static void search_unit(struct symbol_dwarf *dwarf, struct symbol_dw_unit *unit, struct search *search)
{
    Dwarf_Lines *lines;
    size_t count;
    const char *last_path = NULL;
    bool last_fits = false;
    unsigned running = 0; /* the line of the block that the rows are in, 0 for another file's */
    if (!unit_lines(dwarf, unit, &lines, &count))
        return;
    for (size_t i = 0; i < count; i++) {
        struct row row;
        if (!read_row(dwarf, lines, i, &row) || row.is_end) {
            running = 0;
            continue;
        }
        if (row.path != last_path) {
            last_path = row.path;
            last_fits = symbol_dw_spend(dwarf, strlen(row.path)) && path_fits(row.path, search->file);
        }
        if (!last_fits || !row.line) {
            running = 0;
            continue;
        }
        search->has_file = true;
        if (row.line == running || !row.is_statement)
            continue;
        running = row.line;
        if (!symbol_dw_is_code(dwarf, row.va))
            continue;
        search->highest = row.line > search->highest ? row.line : search->highest;
        if (row.line < search->line || row.line > search->best)
            continue;
        if (row.line < search->best)
            search->found.n = 0;
        search->best = row.line;
        if (!has_control(row.path))
            VEC_PUSH(&search->found, (struct symbol_line){row.path, row.line, row.va});
    }
}

static int by_va(const void *left, const void *right)
{
    const struct symbol_line *a = left, *b = right;
    return a->va < b->va ? -1 : a->va > b->va;
}

/* Of the addresses in one block, or one inlined copy of a function, the lowest is where the line is entered: a loop's line has code in
 * several places, of which gdb takes one too. */
static void keep_one_per_scope(struct symbol_dwarf *dwarf, struct search *search)
{
    size_t kept = 0;
    const void **scopes = memory_zero(search->found.n, sizeof *scopes);
    for (size_t i = 0; i < search->found.n; i++) {
        const void *scope = symbol_dw_scope_at(dwarf, search->found.at[i].va);
        bool is_new = !kept || search->found.at[kept - 1].va != search->found.at[i].va;
        for (size_t k = 0; scope && k < kept && is_new && symbol_dw_spend(dwarf, 1); k++)
            is_new = scopes[k] != scope;
        if (!is_new)
            continue;
        scopes[kept] = scope;
        search->found.at[kept++] = search->found.at[i];
    }
    search->found.n = kept;
    free(scopes);
}

struct err *symbol_dwarf_line_places(struct symbol_dwarf *dwarf, const char *file, unsigned line, const struct symbol_line **out,
                                     size_t *count)
{
    struct search search = {.file = file, .line = line, .best = UINT32_MAX};
    *out = NULL;
    *count = 0;
    symbol_dw_begin_call(dwarf);
    ERR_TRY(symbol_dw_load_units(dwarf));
    for (size_t i = 0; i < dwarf->units.n; i++)
        search_unit(dwarf, &dwarf->units.at[i], &search);
    if (!search.found.n) {
        VEC_FREE(&search.found);
        if (!dwarf->budget)
            return symbol_dw_spent(dwarf);
        if (!search.has_file)
            return err_new(ERR_NO_MATCH, "symbol: %s: no code comes from a file '%s'", dwarf->path, file);
        return err_new(ERR_NO_MATCH, "symbol: %s: %s has no code at or behind line %u; the last line with code is %u", dwarf->path, file,
                       line, search.highest);
    }
    qsort(search.found.at, search.found.n, sizeof *search.found.at, by_va);
    keep_one_per_scope(dwarf, &search);
    struct symbol_line *kept = symbol_dw_keep(dwarf, search.found.n, sizeof *kept);
    memcpy(kept, search.found.at, search.found.n * sizeof *kept);
    *out = kept;
    *count = search.found.n;
    VEC_FREE(&search.found);
    return NULL;
}

/* ---- address -> FILE:LINE ---- */

bool symbol_dw_row_at(struct symbol_dwarf *dwarf, struct symbol_dw_unit *unit, uint64_t va, struct symbol_line *out)
{
    Dwarf_Lines *lines;
    size_t count, low = 0;
    struct row row;
    Dwarf_Addr at;
    if (!unit_lines(dwarf, unit, &lines, &count))
        return false;
    /* libdw sorts the rows by address. A row covers up to the next of its sequence; of several rows at one address the last counts. */
    for (size_t high = count; low < high;) {
        size_t middle = (low + high) / 2;
        if (dwarf_lineaddr(dwarf_onesrcline(lines, middle), &at) == 0 && at <= va)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || low == count || !read_row(dwarf, lines, low - 1, &row) || row.is_end || !row.line || has_control(row.path))
        return false;
    *out = (struct symbol_line){row.path, row.line, row.va};
    return true;
}

struct err *symbol_dwarf_line_at(struct symbol_dwarf *dwarf, uint64_t va, struct symbol_line *out)
{
    *out = (struct symbol_line){0};
    symbol_dw_begin_call(dwarf);
    struct symbol_dw_unit *unit = symbol_dw_unit_at(dwarf, va);
    if (unit && symbol_dw_row_at(dwarf, unit, va, out))
        return NULL;
    return dwarf->budget ? err_new(ERR_NO_MATCH, "symbol: %s: its debug info has no line for 0x%llx", dwarf->path, (unsigned long long)va)
                         : symbol_dw_spent(dwarf);
}

const char *symbol_dw_file_path(struct symbol_dwarf *dwarf, Dwarf_Die *unit, uint64_t number)
{
    Dwarf_Files *files;
    size_t count;
    if (dwarf_getsrcfiles(unit, &files, &count) != 0 || number >= count)
        return NULL;
    const char *path = good_path(dwarf, dwarf_filesrc(files, (size_t)number, NULL, NULL));
    /* What libdw says for number 0 before DWARF 5, which means no file. */
    return path && strcmp(path, "???") && !has_control(path) ? path : NULL;
}
