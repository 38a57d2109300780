/* The browser without a terminal: keys change what is looked at, and what is looked at is lines of text for a screen of some size.
 * screen.c brings the keys and shows the lines.
 *
 *   browse_model.c   which rows there are, and which is selected
 *   browse_keys.c    what each key does
 *   browse_search.c  finding names
 *   browse_draw.c    rows -> lines
 *
 * Rules
 *  1. The row that is selected stays selected through sorting, opening and closing as long as it is visible; else its nearest ancestor is.
 *  2. Which nodes are open is kept for each thread. */
#ifndef REPORT_BROWSE_H
#define REPORT_BROWSE_H

#include "report/grid.h"
#include "report/order.h"
#include "report/profile.h"

/* Keys: a character (UTF-32), or one of these. */
enum browse_key {
    BROWSE_KEY_UP = 0x110000,
    BROWSE_KEY_DOWN,
    BROWSE_KEY_LEFT,
    BROWSE_KEY_RIGHT,
    BROWSE_KEY_PAGE_UP,
    BROWSE_KEY_PAGE_DOWN,
    BROWSE_KEY_HOME,
    BROWSE_KEY_END,
    BROWSE_KEY_ENTER,
    BROWSE_KEY_BACKSPACE,
    BROWSE_KEY_ESCAPE,
};

enum browse_style { BROWSE_PLAIN, BROWSE_TITLE, BROWSE_HEADING, BROWSE_SELECTED, BROWSE_UNFOCUSED, BROWSE_SAMPLED, BROWSE_STRONG };

struct browse_line {
    char *text; /* fits the columns; no control characters */
    enum browse_style style;
};

struct browse_row {
    uint32_t node;
    bool has_children;
};

enum browse_focus { BROWSE_TREE, BROWSE_PANE };

struct browse {
    struct profile *profile; /* the caller's */
    bool is_utf8;            /* of the terminal */

    /* What is looked at. tree_at is 0 for the sum of all threads, or the number of a thread, from 1 on. */
    size_t tree_at;
    enum order_which which;
    unsigned metric;
    enum report_sort sort;
    struct order order; /* of that */
    struct grid_unit unit;

    VEC(struct browse_row) row;
    size_t selected, top; /* rows */
    size_t page;          /* rows that fit, as of the last drawing */
    bool **open;          /* by tree_at: by node; NULL: only the root */

    /* The pane: callers and callees of the selected routine. */
    bool has_pane;
    enum browse_focus focus;
    tree_stanzas stanzas; /* of all routines */
    bool has_stanzas;     /* they are of what is looked at */
    enum tree_what stanzas_what;
    size_t pane_selected, pane_top;

    /* Searching. */
    bool is_asking;     /* keys are what is searched for */
    VEC(char) question; /* being typed; UTF-8, no NUL */
    char *sought;       /* or NULL */

    bool is_helping;
    char *message; /* on the last line until the next key, or NULL */

    VEC(struct browse_line) line; /* the screen */
};

struct browse *browse_create(struct profile *profile, bool is_utf8);
void browse_destroy(struct browse *browse);
/* False: it is time to leave. */
bool browse_press(struct browse *browse, uint32_t key);
/* Makes browse->line: `rows` lines of at most `columns` columns. */
void browse_draw(struct browse *browse, unsigned columns, unsigned rows);

/* ---- browse_model.c: what the files share ---- */

const struct tree *browse_tree(const struct browse *browse);
/* Something else is looked at: makes the rows anew. `node` is to be selected. */
void browse_look(struct browse *browse, uint32_t node);
/* What is open has changed, or the order: likewise. */
void browse_list(struct browse *browse, uint32_t node);
uint32_t browse_selected_node(const struct browse *browse);
bool browse_is_open(const struct browse *browse, uint32_t node);
void browse_set_open(struct browse *browse, uint32_t node, bool is_open);
/* Opens what is above the node and selects it. */
void browse_reveal(struct browse *browse, uint32_t node);
/* The stanza of the selected routine, or NULL. */
const struct tree_stanza *browse_stanza(struct browse *browse);
/* Rows of the pane: parents, self, children. The arc of a row; NULL for self. */
size_t browse_pane_rows(const struct tree_stanza *stanza);
const struct tree_arc *browse_pane_arc(const struct tree_stanza *stanza, size_t row);
void browse_say(struct browse *browse, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- browse_search.c ---- */

/* The next node, or the one before, whose name has what is sought. */
void browse_search(struct browse *browse, bool is_backward);
/* The first node of a routine, in the order of the rows. */
void browse_find_routine(struct browse *browse, uint32_t routine);

#endif
