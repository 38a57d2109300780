#include "report/browse.h"

#include <stdlib.h>
#include <string.h>

/* ---- moving ---- */

static void select_row(struct browse *browse, size_t row)
{
    browse->selected = row < browse->row.n ? row : browse->row.n - 1;
    browse->pane_selected = browse->pane_top = 0;
}

static void move(struct browse *browse, uint32_t key)
{
    size_t at = browse->selected, page = browse->page ? browse->page : 1;
    switch (key) {
    case BROWSE_KEY_UP:
        select_row(browse, at ? at - 1 : 0);
        break;
    case BROWSE_KEY_DOWN:
        select_row(browse, at + 1);
        break;
    case BROWSE_KEY_PAGE_UP:
        select_row(browse, at > page ? at - page : 0);
        break;
    case BROWSE_KEY_PAGE_DOWN:
        select_row(browse, at + page);
        break;
    case BROWSE_KEY_HOME:
        select_row(browse, 0);
        break;
    default:
        select_row(browse, browse->row.n - 1);
        break;
    }
}

/* ---- opening and closing ---- */

static void open_or_enter(struct browse *browse)
{
    const struct browse_row *row = &browse->row.at[browse->selected];
    if (!row->has_children)
        return;
    if (browse_is_open(browse, row->node)) {
        select_row(browse, browse->selected + 1);
    } else {
        browse_set_open(browse, row->node, true);
        browse_list(browse, row->node);
    }
}

static void close_or_leave(struct browse *browse)
{
    uint32_t node = browse_selected_node(browse);
    size_t count;
    const struct tree_node *all = tree_nodes(browse_tree(browse), &count);
    if (browse->row.at[browse->selected].has_children && browse_is_open(browse, node))
        browse_set_open(browse, node, false);
    else if (node)
        node = all[node].parent;
    browse_list(browse, node);
}

static void toggle(struct browse *browse)
{
    uint32_t node = browse_selected_node(browse);
    browse_set_open(browse, node, !browse_is_open(browse, node));
    browse_list(browse, node);
}

/* The selected node and all below it. */
static void open_below(struct browse *browse)
{
    uint32_t node = browse_selected_node(browse);
    order_nodes waiting = {0};
    VEC_PUSH(&waiting, node);
    while (waiting.n) {
        uint32_t at = waiting.at[--waiting.n];
        browse_set_open(browse, at, true);
        order_children(&browse->order, at, &waiting);
    }
    VEC_FREE(&waiting);
    browse_list(browse, node);
}

static void close_all(struct browse *browse)
{
    free(browse->open[browse->tree_at]);
    browse->open[browse->tree_at] = NULL;
    browse_list(browse, browse_selected_node(browse));
}

/* ---- what is looked at ---- */

static void next_sort(struct browse *browse)
{
    static const char *const name[] = {
        [REPORT_SORT_ORDER] = "order of appearance", [REPORT_SORT_CUM] = "cum",  [REPORT_SORT_BASE] = "base", [REPORT_SORT_CALLS] = "calls",
        [REPORT_SORT_ELAPSED] = "elapsed",           [REPORT_SORT_NAME] = "name"};
    browse->sort = browse->sort == REPORT_SORT_NAME ? REPORT_SORT_ORDER : browse->sort + 1;
    browse->order.sort = browse->sort;
    browse_list(browse, browse_selected_node(browse));
    browse_say(browse, "sorted by %s", name[browse->sort]);
}

static void next_data(struct browse *browse)
{
    static const char *const name[] = {[ORDER_EVENTS] = "events", [ORDER_SAMPLES] = "samples", [ORDER_ALL] = "events with samples below"};
    browse->which = browse->which == ORDER_ALL ? ORDER_EVENTS : browse->which + 1;
    browse_look(browse, browse_selected_node(browse));
    browse_say(browse, "showing %s", name[browse->which]);
}

static void next_metric(struct browse *browse)
{
    browse->metric = (unsigned)((browse->metric + 1) % browse->profile->metric_count);
    browse_look(browse, browse_selected_node(browse));
    browse_say(browse, "counting %s", browse->profile->metrics[browse->metric].name);
}

static void next_thread(struct browse *browse, bool is_backward)
{
    size_t count = browse->profile->thread.n + 1;
    if (count == 2) { /* the sum is that one */
        browse_say(browse, "there is one thread only");
        return;
    }
    browse->tree_at = (browse->tree_at + (is_backward ? count - 1 : 1)) % count;
    browse->selected = browse->top = 0;
    browse_look(browse, 0);
}

/* ---- the pane ---- */

static void press_in_pane(struct browse *browse, uint32_t key)
{
    const struct tree_stanza *stanza = browse_stanza(browse);
    size_t rows = browse_pane_rows(stanza);
    switch (key) {
    case BROWSE_KEY_UP:
    case 'k':
        browse->pane_selected -= browse->pane_selected > 0;
        break;
    case BROWSE_KEY_DOWN:
    case 'j':
        browse->pane_selected += browse->pane_selected + 1 < rows;
        break;
    case BROWSE_KEY_ENTER: {
        const struct tree_arc *arc = rows ? browse_pane_arc(stanza, browse->pane_selected) : NULL;
        if (arc)
            browse_find_routine(browse, arc->routine);
        break;
    }
    default:
        browse->focus = BROWSE_TREE;
        break;
    }
}

/* ---- the question ---- */

/* UTF-8 of a character, RFC 3629. */
static void type_character(struct browse *browse, uint32_t c)
{
    enum { LIMIT = 200 };
    if (c < 0x20 || c == 0x7f || c > 0x10ffff || browse->question.n > LIMIT)
        return;
    unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    VEC_PUSH(&browse->question, (char)(lead[more] | c >> 6 * more));
    while (more--)
        VEC_PUSH(&browse->question, (char)(0x80 | (c >> 6 * more & 0x3f)));
}

static void answer(struct browse *browse)
{
    browse->is_asking = false;
    if (browse->question.n) {
        free(browse->sought);
        browse->sought = memory_format("%.*s", (int)browse->question.n, browse->question.at);
    }
    browse_search(browse, false);
}

static void press_in_question(struct browse *browse, uint32_t key)
{
    switch (key) {
    case BROWSE_KEY_ENTER:
        answer(browse);
        break;
    case BROWSE_KEY_ESCAPE:
        browse->is_asking = false;
        break;
    case BROWSE_KEY_BACKSPACE:
        while (browse->question.n && (browse->question.at[browse->question.n - 1] & 0xc0) == 0x80)
            browse->question.n--;
        browse->question.n -= browse->question.n > 0;
        break;
    default:
        type_character(browse, key);
        break;
    }
}

/* ---- all keys ---- */

static uint32_t letter_as_key(uint32_t key)
{
    switch (key) {
    case 'k':
        return BROWSE_KEY_UP;
    case 'j':
        return BROWSE_KEY_DOWN;
    case 'h':
        return BROWSE_KEY_LEFT;
    case 'l':
        return BROWSE_KEY_RIGHT;
    case 'g':
        return BROWSE_KEY_HOME;
    case 'G':
        return BROWSE_KEY_END;
    case ' ':
        return BROWSE_KEY_ENTER;
    default:
        return key;
    }
}

static void press_in_tree(struct browse *browse, uint32_t key)
{
    switch (key) {
    case BROWSE_KEY_RIGHT:
        open_or_enter(browse);
        break;
    case BROWSE_KEY_LEFT:
        close_or_leave(browse);
        break;
    case BROWSE_KEY_ENTER:
        toggle(browse);
        break;
    case '*':
        open_below(browse);
        break;
    case 'c':
        close_all(browse);
        break;
    case BROWSE_KEY_UP:
    case BROWSE_KEY_DOWN:
    case BROWSE_KEY_PAGE_UP:
    case BROWSE_KEY_PAGE_DOWN:
    case BROWSE_KEY_HOME:
    case BROWSE_KEY_END:
        move(browse, key);
        break;
    default:
        break;
    }
}

/* Keys that mean the same wherever one is. False: it is none. */
static bool press_anywhere(struct browse *browse, uint32_t key)
{
    switch (key) {
    case '?':
        browse->is_helping = true;
        return true;
    case '/':
        browse->is_asking = true;
        browse->question.n = 0;
        return true;
    case 'n':
    case 'N':
        browse_search(browse, key == 'N');
        return true;
    case 's':
        next_sort(browse);
        return true;
    case 'w':
        next_data(browse);
        return true;
    case 'm':
        next_metric(browse);
        return true;
    case 't':
    case 'T':
        next_thread(browse, key == 'T');
        return true;
    case 'a':
        browse->has_pane = !browse->has_pane;
        browse->focus = BROWSE_TREE;
        return true;
    case '\t':
        browse->has_pane = true;
        browse->focus = browse->focus == BROWSE_TREE ? BROWSE_PANE : BROWSE_TREE;
        return true;
    default:
        return false;
    }
}

bool browse_press(struct browse *browse, uint32_t key)
{
    free(browse->message);
    browse->message = NULL;
    if (browse->is_asking) {
        press_in_question(browse, key);
        return true;
    }
    if (browse->is_helping) {
        browse->is_helping = false;
        return true;
    }
    if (key == 'q')
        return false;
    if (press_anywhere(browse, key))
        return true;
    if (browse->focus == BROWSE_PANE)
        press_in_pane(browse, key);
    else
        press_in_tree(browse, letter_as_key(key));
    return true;
}
