/* The browser's terminal. Signals are taken only while keys are waited for, so that none comes just before that and is not noticed. After
 * those that end programs curses puts the terminal back, and the signal does what it would have done. */
#include "report/browse.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NCURSES_WIDECHAR 1
#include <curses.h>

static volatile sig_atomic_t ending_signal;
static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void note_signal(int number)
{
    ending_signal = number;
}

/* Blocks the signals and takes note of them; `waiting` is the mask with which keys are waited for. */
static void take_signals(struct sigaction *before, sigset_t *mask_before, sigset_t *waiting)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGWINCH); /* which curses handles */
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        sigaddset(&blocked, ending[i]);
        sigaction(ending[i], &(struct sigaction){.sa_handler = note_signal}, &before[i]);
        if (before[i].sa_handler == SIG_IGN) /* as nohup has it */
            sigaction(ending[i], &before[i], NULL);
    }
    sigprocmask(SIG_BLOCK, &blocked, mask_before);
    *waiting = *mask_before;
}

static void give_signals_back(const struct sigaction *before, const sigset_t *mask_before)
{
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        sigaction(ending[i], &before[i], NULL);
    if (ending_signal)
        raise(ending_signal); /* it is blocked up to here */
    sigprocmask(SIG_SETMASK, mask_before, NULL);
}

/* ---- showing ---- */

static int attribute(enum browse_style style)
{
    switch (style) {
    case BROWSE_TITLE:
    case BROWSE_SELECTED:
        return A_REVERSE;
    case BROWSE_HEADING:
        return A_BOLD | A_UNDERLINE;
    case BROWSE_UNFOCUSED:
    case BROWSE_STRONG:
        return A_BOLD;
    case BROWSE_SAMPLED:
        return has_colors() ? COLOR_PAIR(1) : A_DIM;
    default:
        return A_NORMAL;
    }
}

static void show(struct browse *browse)
{
    browse_draw(browse, (unsigned)COLS, (unsigned)LINES);
    erase();
    for (size_t i = 0; i < browse->line.n; i++) {
        attrset(attribute(browse->line.at[i].style));
        mvaddstr((int)i, 0, browse->line.at[i].text);
    }
    attrset(A_NORMAL);
    refresh();
}

/* ---- keys ---- */

static uint32_t key_of(int kind, wint_t c)
{
    static const struct {
        int code;
        uint32_t key;
    } known[] = {{KEY_UP, BROWSE_KEY_UP},
                 {KEY_DOWN, BROWSE_KEY_DOWN},
                 {KEY_LEFT, BROWSE_KEY_LEFT},
                 {KEY_RIGHT, BROWSE_KEY_RIGHT},
                 {KEY_PPAGE, BROWSE_KEY_PAGE_UP},
                 {KEY_NPAGE, BROWSE_KEY_PAGE_DOWN},
                 {KEY_HOME, BROWSE_KEY_HOME},
                 {KEY_END, BROWSE_KEY_END},
                 {KEY_ENTER, BROWSE_KEY_ENTER},
                 {KEY_BTAB, '\t'},
                 {KEY_BACKSPACE, BROWSE_KEY_BACKSPACE}};
    if (kind == KEY_CODE_YES) {
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if ((int)c == known[i].code)
                return known[i].key;
        return 0;
    }
    return c == '\n' || c == '\r' ? BROWSE_KEY_ENTER : c == 0x7f || c == '\b' ? BROWSE_KEY_BACKSPACE : c == 0x1b ? BROWSE_KEY_ESCAPE : c;
}

/* All keys that are there. False: it is time to leave. */
static bool take_keys(struct browse *browse)
{
    wint_t c;
    int kind;
    while ((kind = get_wch(&c)) != ERR)
        if (!browse_press(browse, key_of(kind, c)))
            return false;
    return true;
}

static void run(struct browse *browse, const sigset_t *waiting)
{
    while (!ending_signal) {
        show(browse);
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        int ready = ppoll(&in, 1, NULL, waiting);
        if ((ready < 0 && errno != EINTR) || in.revents & (POLLHUP | POLLERR | POLLNVAL))
            return;                               /* the terminal is gone */
        if (!ending_signal && !take_keys(browse)) /* a changed size of the window is a key, too */
            return;
    }
}

static struct err *on_terminal(struct browse *browse)
{
    struct sigaction before[sizeof ending / sizeof ending[0]];
    sigset_t mask_before, waiting;
    ending_signal = 0;
    take_signals(before, &mask_before, &waiting);
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (screen) {
        cbreak();
        noecho();
        nonl();
        keypad(stdscr, TRUE);
        nodelay(stdscr, TRUE);
        set_escdelay(50);
        curs_set(0);
        if (has_colors()) {
            start_color();
            use_default_colors();
            init_pair(1, COLOR_CYAN, -1);
        }
        run(browse, &waiting);
        endwin();
        delscreen(screen);
    }
    give_signals_back(before, &mask_before);
    return screen ? NULL : err_new(ERR_SYSTEM, "browse: this kind of terminal is not known: set TERM");
}

struct err *report_browse(const struct report_options *options, const char *path, FILE *messages)
{
    struct profile *profile;
    ERR_TRY(profile_open(options, path, false, &profile));
    profile_warn(profile, messages);
    setlocale(LC_CTYPE, "");
    struct err *error = NULL;
    if (profile->thread.n) {
        struct browse *browse = browse_create(profile, !strcmp(nl_langinfo(CODESET), "UTF-8"));
        error = on_terminal(browse);
        browse_destroy(browse);
    } else {
        error = err_new(ERR_NO_MATCH, "browse: %s: nothing was recorded", path);
    }
    profile_close(profile);
    return error;
}
