/* The browser without a terminal: what keys do, and what is on the screen then (S4.6). */
#include "report/browse.h"
#include "test/check.h"
#include "test/report/make.h"

#include <unistd.h>

static const char worked[] =
    "0 1.1 enter C\n1 1.1 enter A\n2 1.1 enter B\n3 1.1 return B\n4 1.1 enter B\n5 1.1 enter B\n6 1.1 return B\n"
    "7 1.1 return B\n8 1.1 return A\n9 1.1 enter B\n10 1.1 enter A\n11 1.1 enter B\n12 1.1 enter A\n13 1.1 return A\n"
    "14 1.1 return B\n15 1.1 enter X\n16 1.1 return X\n17 1.1 return A\n18 1.1 return B\n19 1.1 return C\n";
static const char mixed[] = "0 1.1 enter main\n5 1.1 sample main;deep;deeper 7\n6 1.1 place:bytes - 100\n10 1.1 return main\n"
                            "0 1.2 enter other\n3 1.2 return other\n";

static const struct trace_metric metrics[] = {{"bytes", "bytes"}, {NULL, NULL}};
static char directory[] = "/tmp/report_browse.XXXXXX";

struct world {
    char *path;
    struct profile *profile;
    struct browse *browse;
};

static struct world open_world(const char *lines, bool is_utf8)
{
    struct world world = {.path = memory_format("%s/trace", directory)};
    struct err *error = make_trace(world.path, lines, (struct trace_about){0}, metrics);
    if (!error)
        error = profile_open(&(struct report_options){0}, world.path, false, &world.profile);
    if (error) {
        puts(error->message);
        exit(1);
    }
    world.browse = browse_create(world.profile, is_utf8);
    return world;
}

static void close_world(struct world *world)
{
    browse_destroy(world->browse);
    profile_close(world->profile);
    free(world->path);
}

/* Presses the keys: letters, and < > for Left and Right, ^ v for Up and Down, $ for Enter, % for Escape, # for Backspace. */
static bool press(struct browse *browse, const char *keys)
{
    bool goes_on = true;
    for (; *keys; keys++) {
        static const char sign[] = "<>^v$%#";
        static const uint32_t key[] = {BROWSE_KEY_LEFT,  BROWSE_KEY_RIGHT,  BROWSE_KEY_UP,       BROWSE_KEY_DOWN,
                                       BROWSE_KEY_ENTER, BROWSE_KEY_ESCAPE, BROWSE_KEY_BACKSPACE};
        const char *at = strchr(sign, *keys);
        goes_on = browse_press(browse, at ? key[at - sign] : (uint32_t)*keys);
    }
    return goes_on;
}

/* The line of the screen, without the blanks at its end. */
static const char *line(struct browse *browse, size_t number)
{
    static char text[512];
    snprintf(text, sizeof text, "%s", number < browse->line.n ? browse->line.at[number].text : "(no such line)");
    for (size_t n = strlen(text); n && text[n - 1] == ' ';)
        text[--n] = 0;
    return text;
}

/* The name that is selected, and how many rows there are. */
static const char *state(struct browse *browse)
{
    static char text[256];
    size_t count;
    const struct tree_node *node = tree_nodes(browse_tree(browse), &count);
    snprintf(text, sizeof text, "%s %zu/%zu", tree_routine(browse->profile->set, node[browse_selected_node(browse)].routine),
             browse->selected + 1, browse->row.n);
    return text;
}

#define STATE(keys, wanted)                                                                                                                \
    do {                                                                                                                                   \
        press(world.browse, keys);                                                                                                         \
        CHECK(!strcmp(state(world.browse), wanted), "after %s: %s instead of %s", keys, state(world.browse), wanted);                      \
    } while (0)
#define LINE(number, wanted)                                                                                                               \
    do {                                                                                                                                   \
        const char *found_ = line(world.browse, number);                                                                                   \
        CHECK(!strcmp(found_, wanted), "line %d is\n  %s\ninstead of\n  %s", number, found_, wanted);                                      \
    } while (0)

static void opens_and_closes(void)
{
    struct world world = open_world(worked, false);
    STATE("", "1.1 1/2");
    STATE(">", "C 2/2");
    STATE(">", "C 2/4");
    STATE(">", "B 3/4"); /* cum 9 before A's 7 */
    STATE("v", "A 4/4");
    STATE("v", "A 4/4");
    STATE("$", "A 4/5");
    STATE("<", "A 4/4");
    STATE("<", "C 2/4");
    STATE("*", "C 2/10");
    STATE("G", "B 10/10");
    STATE("c", "C 2/2"); /* the nearest that is visible */
    STATE("<", "1.1 1/2");
    STATE("^", "1.1 1/2");
    STATE(" ", "1.1 1/1");
    close_world(&world);
}

static void draws_80_by_24(void)
{
    struct world world = open_world(worked, false);
    press(world.browse, "*v");
    browse_draw(world.browse, 80, 24);
    CHECK(world.browse->line.n == 24, "%zu lines", world.browse->line.n);
    for (size_t i = 0; i < world.browse->line.n; i++)
        CHECK(strlen(world.browse->line.at[i].text) == 80, "line %zu has %zu columns", i, strlen(world.browse->line.at[i].text));
    LINE(1, "    Calls      Base       Cum   Cum%  Name");
    LINE(2, "        1         0        19  100.0% v 1.1");
    LINE(3, "        1         3        19  100.0%   v C");
    LINE(4, "        1         2         9   47.4%     v B");
    LINE(23, "2 of 10   ? help   q quit");
    CHECK(world.browse->line.at[3].style == BROWSE_SELECTED, "style %d", world.browse->line.at[3].style);
    for (unsigned rows = 1; rows < 40; rows++)
        for (unsigned columns = 1; columns < 100; columns += 7) {
            browse_draw(world.browse, columns, rows);
            CHECK(world.browse->line.n == rows, "%zu lines instead of %u", world.browse->line.n, rows);
        }
    close_world(&world);
}

static void scrolls(void)
{
    struct world world = open_world(worked, false);
    press(world.browse, "*G");
    browse_draw(world.browse, 80, 7); /* 4 rows of the tree */
    LINE(5, "        1         1         1    5.3%           B");
    CHECK(world.browse->top == 6, "top %zu", world.browse->top);
    press(world.browse, "g");
    browse_draw(world.browse, 80, 7);
    LINE(2, "        1         0        19  100.0% v 1.1");
    browse_press(world.browse, BROWSE_KEY_PAGE_DOWN);
    CHECK(world.browse->selected == 4, "row %zu", world.browse->selected);
    close_world(&world);
}

static void sorts(void)
{
    struct world world = open_world(worked, false);
    STATE("vv>>", "B 3/4");
    press(world.browse, "sssss"); /* base, calls, elapsed, name, order */
    STATE("", "B 4/4");           /* stays selected; A appeared first */
    close_world(&world);
}

static void searches_what_is_closed(void)
{
    struct world world = open_world(worked, false);
    STATE("/x$", "X 6/7");
    STATE("n", "X 6/7");
    CHECK(world.browse->message, "no message");
    STATE("/ab#%", "X 6/7"); /* given up */
    STATE("/ac#$", "A 7/7"); /* what was typed wrongly can be taken back */
    STATE("N", "A 6/8");
    press(world.browse, "/nowhere$");
    browse_draw(world.browse, 80, 24);
    LINE(23, "no name has nowhere in it");
    close_world(&world);
}

static void shows_callers_and_callees(void)
{
    struct world world = open_world(worked, false);
    STATE("/A$a", "A 4/5");
    browse_draw(world.browse, 80, 24);
    LINE(15, "Callers and callees (Tab goes there, Enter jumps)");
    LINE(16, "        1         3         7   36.8% Parent  C");
    LINE(17, "        1         3         7   36.8% Parent  B");
    LINE(18, "        1         1         1    5.3% rParent B");
    LINE(19, "        3         7        14   73.7% Self    A  (Cum2 15)");
    LINE(20, "        2         3         4   21.1% Child   B");
    LINE(21, "        1         2         3   15.8% rChild  B");
    LINE(22, "        1         1         1    5.3% Child   X");
    press(world.browse, "\tvvvvvv");
    STATE("$", "X 6/7");
    CHECK(world.browse->focus == BROWSE_PANE, "the pane has lost the keys");
    press(world.browse, "\t");
    CHECK(world.browse->focus == BROWSE_TREE, "the tree has not got the keys");
    close_world(&world);
}

static void switches_what_is_looked_at(void)
{
    struct world world = open_world(mixed, false);
    browse_draw(world.browse, 80, 24);
    CHECK(strstr(line(world.browse, 0), "events, time  all 2 threads"), "%s", line(world.browse, 0));
    STATE("*", "2 threads 1/3");
    STATE("w", "2 threads 1/3"); /* samples: main, which is open, and deep, which is not */
    STATE("*", "2 threads 1/4");
    press(world.browse, "w");
    browse_draw(world.browse, 80, 24);
    LINE(4, "        0         0         7  100.0%     v + deep");
    CHECK(world.browse->line.at[4].style == BROWSE_SAMPLED, "style %d", world.browse->line.at[4].style);
    press(world.browse, "wm");
    browse_draw(world.browse, 80, 24);
    LINE(2, "        2         0       100       100  100.0% v 2 threads");
    press(world.browse, "a"); /* the root has callees */
    browse_draw(world.browse, 80, 24);
    bool has_self = false, has_child = false;
    for (size_t i = 0; i < world.browse->line.n; i++) {
        has_self |= strstr(line(world.browse, i), "Self    2 threads") != NULL;
        has_child |= strstr(line(world.browse, i), "Child   main") != NULL;
    }
    CHECK(has_self && has_child, "the pane of the root");
    press(world.browse, "a");
    STATE("mt", "1.1 1/2");
    STATE("t", "1.2 1/2");
    STATE("T", "1.1 1/2");
    STATE("T", "2 threads 1/3"); /* what was open there still is */
    close_world(&world);
}

static void fits_any_name(void)
{
    struct world world = open_world("0 1.1 enter a\033[1m\303\244\346\274\242\n1 1.1 return a\033[1m\303\244\346\274\242\n", false);
    browse_draw(world.browse, 80, 24);
    LINE(3, "        1         1         1  100.0%     a\\x1b[1m??");
    close_world(&world);
}

static void helps_and_quits(void)
{
    struct world world = open_world(worked, false);
    press(world.browse, "?");
    browse_draw(world.browse, 80, 24);
    CHECK(strstr(line(world.browse, 1), "move"), "%s", line(world.browse, 1));
    CHECK(press(world.browse, "q"), "q in the help ends the program");
    CHECK(!press(world.browse, "q"), "q does not end it");
    close_world(&world);
}

int main(void)
{
    if (!mkdtemp(directory))
        return 1;
    opens_and_closes();
    draws_80_by_24();
    scrolls();
    sorts();
    searches_what_is_closed();
    shows_callers_and_callees();
    switches_what_is_looked_at();
    fits_any_name();
    helps_and_quits();
    char *command = memory_format("rm -rf '%s'", directory);
    failures += system(command) != 0;
    free(command);
    return failures ? 1 : 0;
}
