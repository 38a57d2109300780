#include "report/browse.h"

#include "base/escape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { ROWS_MIN = 6, PANE_ROWS_MIN = 4, CELL = 10 };

/* ---- lines ---- */

static uint32_t decode(const uint8_t *text, unsigned length)
{
    static const uint8_t mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = text[0] & mask[length];
    for (unsigned i = 1; i < length; i++)
        c = c << 6 | (text[i] & 0x3f);
    return c;
}

/* Cuts text to the columns, and fills it up to them with blanks. What the terminal can not show is a question mark. */
static char *fit(const struct browse *browse, const char *text, unsigned columns)
{
    VEC(char) out = {0};
    unsigned used = 0;
    for (const uint8_t *at = (const uint8_t *)text; *at;) {
        unsigned length = escape_utf8_length(at, SIZE_MAX);
        bool is_shown = length == 1 || (length && browse->is_utf8);
        int wanted = length > 1 && is_shown ? wcwidth((wchar_t)decode(at, length)) : 1;
        unsigned width = wanted < 0 ? 1 : (unsigned)wanted;
        if (used + width > columns)
            break;
        used += width;
        if (!is_shown || wanted < 0)
            VEC_PUSH(&out, '?');
        else
            for (unsigned i = 0; i < length; i++)
                VEC_PUSH(&out, (char)at[i]);
        at += length ? length : 1;
    }
    for (; used < columns; used++)
        VEC_PUSH(&out, ' ');
    VEC_PUSH(&out, 0);
    return out.at;
}

struct canvas {
    struct browse *browse;
    unsigned columns;
    FILE *out; /* the line that is written */
    char *text;
    size_t bytes;
};

static FILE *begin_line(struct canvas *canvas)
{
    canvas->text = NULL;
    canvas->out = open_memstream(&canvas->text, &canvas->bytes);
    if (!canvas->out)
        abort();
    return canvas->out;
}

static void end_line(struct canvas *canvas, enum browse_style style)
{
    fclose(canvas->out);
    VEC_PUSH(&canvas->browse->line, (struct browse_line){fit(canvas->browse, canvas->text, canvas->columns), style});
    free(canvas->text);
}

static void plain_line(struct canvas *canvas, const char *text, enum browse_style style)
{
    fputs(text, begin_line(canvas));
    end_line(canvas, style);
}

/* ---- numbers ---- */

static void put_cell(FILE *out, const char *text)
{
    fprintf(out, "%*s ", CELL - 1, text);
}

static void put_count(FILE *out, uint64_t count)
{
    fprintf(out, "%*" PRIu64 " ", CELL - 1, count);
}

static void put_value(FILE *out, int64_t value, const struct grid_unit *unit)
{
    char *text = NULL;
    size_t bytes;
    FILE *cell = open_memstream(&text, &bytes);
    if (!cell)
        return;
    grid_put_value(cell, value, unit);
    fclose(cell);
    put_cell(out, text);
    free(text);
}

static void put_share(FILE *out, int64_t value, int64_t total)
{
    char text[GRID_SHARE_ROOM] = "-";
    int64_t share = grid_share(value, total);
    if (share != GRID_NONE)
        grid_share_text(text, share);
    fprintf(out, "%7s ", text);
}

/* Elapsed of time is seldom looked at; of other metrics it is what the process used, not the call alone. */
static bool has_elapsed(const struct browse *browse)
{
    return browse->metric && browse->which != ORDER_SAMPLES;
}

/* ---- the tree ---- */

static void put_heading(struct canvas *canvas)
{
    const struct browse *browse = canvas->browse;
    char name[CELL * 2];
    FILE *out = begin_line(canvas);
    put_cell(out, browse->which == ORDER_SAMPLES ? "Samples" : browse->which == ORDER_EVENTS ? "Calls" : "Calls/+");
    snprintf(name, sizeof name, "Base%s", browse->unit.suffix);
    put_cell(out, name);
    snprintf(name, sizeof name, "Cum%s", browse->unit.suffix);
    put_cell(out, name);
    snprintf(name, sizeof name, "Elapsed%s", browse->unit.suffix);
    if (has_elapsed(browse))
        put_cell(out, name);
    fputs("  Cum%  Name", out);
    end_line(canvas, BROWSE_HEADING);
}

/* Two columns a level, up to a third of the screen; then the level is told. */
static void put_indent(FILE *out, uint32_t level, unsigned columns)
{
    uint32_t most = columns / 6;
    if (level > most)
        fprintf(out, "%*s[%" PRIu32 "] ", (int)(most * 2), "", level);
    else
        fprintf(out, "%*s", (int)(level * 2), "");
}

static const char *sign(const struct browse *browse, const struct browse_row *row)
{
    if (!row->has_children)
        return "  ";
    if (browse_is_open(browse, row->node))
        return browse->is_utf8 ? "\u25be " : "v ";
    return browse->is_utf8 ? "\u25b8 " : "> ";
}

static void put_row(struct canvas *canvas, size_t number)
{
    struct browse *browse = canvas->browse;
    const struct browse_row *row = &browse->row.at[number];
    const struct tree *tree = browse_tree(browse);
    size_t count;
    const struct tree_node *node = &tree_nodes(tree, &count)[row->node];
    enum tree_what what = order_what(&browse->order, row->node);
    int64_t cum = tree_cum(tree, row->node, what, browse->metric);
    FILE *out = begin_line(canvas);
    put_count(out, what == TREE_EVENTS ? node->calls : tree_samples(tree, row->node, browse->metric));
    put_value(out, tree_base(tree, row->node, what, browse->metric), &browse->unit);
    put_value(out, cum, &browse->unit);
    if (has_elapsed(browse) && node->is_sampled)
        put_cell(out, "-");
    else if (has_elapsed(browse))
        put_value(out, tree_elapsed(tree, row->node, browse->metric), &browse->unit);
    put_share(out, cum, tree_cum(tree, 0, what, browse->metric));
    put_indent(out, node->level, canvas->columns);
    fputs(sign(browse, row), out);
    bool is_sampled = node->is_sampled && browse->which == ORDER_ALL;
    fputs(is_sampled ? "+ " : "", out);
    escape_plain(out, tree_routine(browse->profile->set, node->routine));
    end_line(canvas, number == browse->selected ? (browse->focus == BROWSE_TREE ? BROWSE_SELECTED : BROWSE_UNFOCUSED)
                     : is_sampled               ? BROWSE_SAMPLED
                                                : BROWSE_PLAIN);
}

/* The selected row is among the `rows` that are shown from `top` on. */
static void scroll(size_t *top, size_t selected, size_t rows, size_t count)
{
    if (*top > selected)
        *top = selected;
    if (selected >= *top + rows)
        *top = selected - rows + 1;
    if (*top + rows > count)
        *top = count > rows ? count - rows : 0;
}

static void draw_tree(struct canvas *canvas, size_t rows)
{
    struct browse *browse = canvas->browse;
    browse->page = rows;
    scroll(&browse->top, browse->selected, rows, browse->row.n);
    for (size_t i = 0; i < rows; i++) {
        if (browse->top + i < browse->row.n)
            put_row(canvas, browse->top + i);
        else
            plain_line(canvas, "", BROWSE_PLAIN);
    }
}

/* ---- the pane ---- */

static void put_arc(struct canvas *canvas, const struct tree_stanza *stanza, size_t number)
{
    struct browse *browse = canvas->browse;
    const struct tree_arc *arc = browse_pane_arc(stanza, number);
    const struct tree_flat *self = &stanza->self;
    bool is_selected = browse->focus == BROWSE_PANE && number == browse->pane_selected, is_parent = number < stanza->parent.n;
    uint64_t self_count = browse->stanzas_what == TREE_EVENTS ? self->calls : self->samples;
    FILE *out = begin_line(canvas);
    put_count(out, arc ? arc->calls : self_count);
    put_value(out, arc ? arc->base : self->base, &browse->unit);
    put_value(out, arc ? arc->cum : self->cum, &browse->unit);
    put_share(out, arc ? arc->cum : self->cum, tree_cum(browse_tree(browse), 0, browse->stanzas_what, browse->metric));
    fprintf(out, "%-8s", !arc ? "Self" : is_parent ? (arc->is_recursive ? "rParent" : "Parent") : arc->is_recursive ? "rChild" : "Child");
    escape_plain(out, tree_routine(browse->profile->set, arc ? arc->routine : self->routine));
    if (!arc && self->is_recursive) {
        fputs("  (Cum2 ", out);
        grid_put_value(out, self->cum2, &browse->unit);
        fputs(")", out);
    }
    end_line(canvas, is_selected ? BROWSE_SELECTED : arc ? BROWSE_PLAIN : BROWSE_STRONG);
}

static void draw_pane(struct canvas *canvas, size_t rows)
{
    struct browse *browse = canvas->browse;
    const struct tree_stanza *stanza = browse_stanza(browse);
    size_t count = browse_pane_rows(stanza);
    plain_line(canvas, "Callers and callees (Tab goes there, Enter jumps)", BROWSE_HEADING);
    scroll(&browse->pane_top, browse->pane_selected, rows - 1, count);
    for (size_t i = 0; i + 1 < rows; i++) {
        if (browse->pane_top + i < count)
            put_arc(canvas, stanza, browse->pane_top + i);
        else
            plain_line(canvas, "", BROWSE_PLAIN);
    }
}

/* ---- the rest of the screen ---- */

static void draw_title(struct canvas *canvas)
{
    const struct browse *browse = canvas->browse;
    const struct profile *profile = browse->profile;
    static const char *const data[] = {[ORDER_EVENTS] = "events", [ORDER_SAMPLES] = "samples", [ORDER_ALL] = "merged"};
    FILE *out = begin_line(canvas);
    fputs("probity ", out);
    escape_plain(out, profile->path);
    fprintf(out, "  %s, ", data[browse->which]);
    escape_plain(out, profile->metrics[browse->metric].name);
    fputs("  ", out);
    if (browse->tree_at)
        escape_plain(out, profile->thread.at[browse->tree_at - 1].name);
    else
        fprintf(out, "all %zu thread%s", profile->thread.n, profile->thread.n == 1 ? "" : "s");
    fputs(profile->info->is_cut ? "  (cut)" : "", out);
    end_line(canvas, BROWSE_TITLE);
}

static void draw_status(struct canvas *canvas)
{
    const struct browse *browse = canvas->browse;
    FILE *out = begin_line(canvas);
    if (browse->is_asking) {
        fputs("search: ", out);
        fwrite(browse->question.at ? browse->question.at : "", 1, browse->question.n, out);
    } else if (browse->message) {
        escape_plain(out, browse->message);
    } else {
        fprintf(out, "%zu of %zu   ? help   q quit", browse->selected + 1, browse->row.n);
    }
    end_line(canvas, BROWSE_TITLE);
}

static const char *const help[] = {
    "Up Down PgUp PgDn Home End   move (also k j g G)",
    "Right, l     open; when it is open, go to the first below",
    "Left, h      close; when it is closed, go to the one above",
    "Enter        open or close",
    "*            open all below",
    "c            close all",
    "/            search names; n next, N the one before",
    "a            show callers and callees of the selected routine (ArcFlow)",
    "Tab          go to that pane and back; Enter there jumps to the routine",
    "s            sort by the next of: order, cum, base, calls, elapsed, name",
    "w            events, samples, or events with samples below (marked +)",
    "m            next metric",
    "t T          next thread, previous thread; first comes the sum of all",
    "q            quit",
    "",
    "Base is what was spent in exactly this stack, Cum with all below; Elapsed what",
    "all threads of the process used meanwhile.",
};

static void draw_help(struct canvas *canvas, size_t rows)
{
    size_t count = sizeof help / sizeof help[0];
    for (size_t i = 0; i < rows; i++)
        plain_line(canvas, i < count ? help[i] : "", BROWSE_PLAIN);
}

void browse_draw(struct browse *browse, unsigned columns, unsigned rows)
{
    struct canvas canvas = {.browse = browse, .columns = columns};
    for (size_t i = 0; i < browse->line.n; i++)
        free(browse->line.at[i].text);
    browse->line.n = 0;
    if (rows < ROWS_MIN) {
        browse->page = 1;
        for (unsigned i = 0; i < rows; i++)
            plain_line(&canvas, i ? "" : "the window is too small", BROWSE_PLAIN);
        return;
    }
    unsigned body = rows - 3, pane = browse->has_pane && body / 2 >= PANE_ROWS_MIN ? body * 2 / 5 : 0;
    pane = pane && pane < PANE_ROWS_MIN ? PANE_ROWS_MIN : pane;
    draw_title(&canvas);
    if (browse->is_helping) {
        draw_help(&canvas, body + 1);
    } else {
        put_heading(&canvas);
        draw_tree(&canvas, body - pane);
        if (pane)
            draw_pane(&canvas, pane);
    }
    draw_status(&canvas);
}
