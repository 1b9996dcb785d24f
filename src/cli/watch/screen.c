/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal by ncurses; see screen.h.  The library is loaded, not linked: each start of the command would pay for
 * that, and all but `top` do without it. */
#include <config.h>

#include "cli/watch/screen.h"

#include "cli/watch/ncurses.h"
#include "util/probe.h"

#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    ESCAPE_MS = 50,  /* the rest of a key's bytes comes at once; a lone Esc has none */
    SIDE_MAX = 1000, /* columns and lines that are used, whatever the terminal says */
};

static struct {
#define X(result, name, parameters) result (*name) parameters;
    NCURSES_FUNCTION_MAP (X)
#undef X
} curses;

static struct screen *screen; /* NULL: it is closed */
static struct _win_st *window;

static int
load (bool *is_wide, struct fail *fail)
{
    static const struct probe_symbol functions[] = {
#define X(result, name, parameters) { #name, &curses.name },
        NCURSES_FUNCTION_MAP (X)
#undef X
        { 0 },
    };
    static const char *const wide[] = { "libncursesw.so.6", NULL }, *const narrow[] = { "libncurses.so.6", NULL };
    *is_wide = true;
    if (!probe_open_library (wide, functions, fail))
        return 0;
    *is_wide = false;
    struct fail other;
    if (fail->status != FAIL_NOT_FOUND)
        return -1;
    if (!probe_open_library (narrow, functions, &other))
        return 0;
    return fail_set (fail, FAIL_NOT_FOUND, "cannot load libncursesw.so.6, with which it draws: install libncursesw6");
}

/* ncurses asks the locale which characters there are.  Only that: numbers are printed and read as in C.
 * @return whether they are those of UTF-8 */
static bool
set_characters (bool is_ascii)
{
    bool is_set = setlocale (LC_CTYPE, "") != NULL;
    if (!is_ascii && (!is_set || MB_CUR_MAX == 1)) /* a locale that is not installed */
        setlocale (LC_CTYPE, "C.UTF-8");
    return !is_ascii && MB_CUR_MAX > 1;
}

/* newterm() installs handlers for some signals, which are not wanted: screen.h says who takes signals. */
static struct screen *
open_terminal (void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGTSTP, SIGWINCH };
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    struct sigaction before[NUMBERS];
    for (int i = 0; i < NUMBERS; i++)
        sigaction (numbers[i], NULL, &before[i]);
    struct screen *opened = curses.newterm (NULL, stdout, stdin);
    for (int i = 0; i < NUMBERS; i++)
        sigaction (numbers[i], &before[i], NULL);
    return opened;
}

/* Terminals may send others than their description has, as do those with none for a key. */
static void
define_keys (void)
{
    static const struct {
        const char *bytes;
        int key;
    } keys[] = {
        { "\033[A", NCURSES_KEY_UP },     { "\033OA", NCURSES_KEY_UP },     { "\033[B", NCURSES_KEY_DOWN },
        { "\033OB", NCURSES_KEY_DOWN },   { "\033[5~", NCURSES_KEY_PPAGE }, { "\033[6~", NCURSES_KEY_NPAGE },
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        curses.define_key (keys[i].bytes, keys[i].key);
}

int
screen_open (struct view *view, struct fail *fail)
{
    bool is_wide;
    if (load (&is_wide, fail))
        return -1;
    view->is_ascii = !set_characters (view->is_ascii || !is_wide);
    fflush (stdout);
    screen = open_terminal ();
    if (!screen) {
        const char *name = getenv ("TERM");
        setlocale (LC_CTYPE, "C");
        return fail_set (fail, FAIL_GENERAL,
                         "ncurses cannot draw on a terminal of type '%.64s': set TERM to a type that infocmp(1) knows",
                         name ? name : "");
    }
    curses.cbreak ();
    curses.noecho ();
    curses.curs_set (0);
    curses.typeahead (-1); /* a picture is drawn as a whole, even if a key comes meanwhile */
    curses.set_escdelay (ESCAPE_MS);
    define_keys ();
    if (!screen_measure (view, fail))
        return 0;
    screen_close ();
    return -1;
}

void
screen_close (void)
{
    if (!screen)
        return;
    curses.endwin ();
    if (window)
        curses.delwin (window);
    curses.delscreen (screen);
    window = NULL;
    screen = NULL;
    setlocale (LC_CTYPE, "C");
}

static int
limit (unsigned side, int otherwise)
{
    return side > SIDE_MAX ? SIDE_MAX : side ? (int) side : otherwise;
}

int
screen_measure (struct view *view, struct fail *fail)
{
    struct winsize size = { 0 };
    ioctl (STDOUT_FILENO, TIOCGWINSZ, &size);
    view->columns = limit (size.ws_col, 80);
    view->lines = limit (size.ws_row, 24);
    if (window)
        curses.delwin (window);
    bool has_size = curses.resize_term (view->lines, view->columns) != NCURSES_ERR;
    window = has_size ? curses.newwin (0, 0, 0, 0) : NULL;
    if (!window)
        return fail_nomem (fail);
    curses.keypad (window, true);
    curses.nodelay (window, true);
    curses.clearok (window, true);
    return 0;
}

void
screen_draw (const struct view_lines *lines)
{
    static const int attributes[] = {
        [VIEW_TITLE] = NCURSES_REVERSE, [VIEW_STRONG] = NCURSES_BOLD, [VIEW_FAINT] = NCURSES_DIM, [VIEW_PLAIN] = 0,
    };
    for (size_t i = 0; i < lines->count; i++) {
        curses.wmove (window, (int) i, 0);
        curses.wclrtoeol (window);
        curses.wattrset (window, attributes[lines->items[i].style]);
        curses.waddnstr (window, lines->items[i].text, -1);
    }
    curses.wrefresh (window);
}

/* What follows an Esc at once is of a key that ncurses does not know, or an answer of the terminal: no commands. */
static int
skip_sequence (void)
{
    int key = curses.wgetch (window);
    if (key == NCURSES_ERR || key == 033)
        return VIEW_KEY_ESCAPE;
    if (key == 'O')
        curses.wgetch (window);
    else if (key == '[')
        while ((key = curses.wgetch (window)) >= ' ' && key < '@') /* up to the letter that ends it */
            ;
    return 0;
}

int
screen_key (void)
{
    int key = curses.wgetch (window);
    switch (key) {
    case NCURSES_ERR: return -1;
    case 033: return skip_sequence ();
    case NCURSES_KEY_UP: return VIEW_KEY_UP;
    case NCURSES_KEY_DOWN: return VIEW_KEY_DOWN;
    case NCURSES_KEY_PPAGE: return VIEW_KEY_PAGE_UP;
    case NCURSES_KEY_NPAGE: return VIEW_KEY_PAGE_DOWN;
    case NCURSES_KEY_ENTER: return '\r';
    default: return key < 0x100 ? key : 0;
    }
}

int
screen_suspend (struct view *view, struct fail *fail)
{
    curses.endwin ();
    do
        raise (SIGSTOP);
    while (tcgetpgrp (STDIN_FILENO) >= 0 && tcgetpgrp (STDIN_FILENO) != getpgrp ()); /* the shell's command bg */
    curses.def_shell_mode (); /* the shell may have changed it */
    return screen_measure (view, fail);
}
