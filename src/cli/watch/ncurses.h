/* SPDX-License-Identifier: Apache-2.0 */
/* What screen.c uses of ncurses, declared here, so that its headers need not be installed to build: its ABI is that of
 * libncursesw.so.6.  tests/unit/command/test_screen.c compares this with <curses.h>. */
#ifndef CLI_WATCH_NCURSES_H
#define CLI_WATCH_NCURSES_H

#include <stdbool.h>
#include <stdio.h>

struct screen;  /* SCREEN */
struct _win_st; /* WINDOW */

/* X (result, name, parameters) */
#define NCURSES_FUNCTION_MAP(X)                                               \
    X (struct screen *, newterm, (const char *type, FILE *out, FILE *in))     \
    X (void, delscreen, (struct screen *screen))                              \
    X (int, resize_term, (int lines, int columns))                            \
    X (int, set_escdelay, (int milliseconds))                                 \
    X (int, define_key, (const char *bytes, int key))                         \
    X (int, cbreak, (void))                                                   \
    X (int, noecho, (void))                                                   \
    X (int, curs_set, (int visibility))                                       \
    X (int, typeahead, (int fd))                                              \
    X (int, def_shell_mode, (void))                                           \
    X (int, endwin, (void))                                                   \
    X (struct _win_st *, newwin, (int lines, int columns, int top, int left)) \
    X (int, delwin, (struct _win_st *window))                                 \
    X (int, keypad, (struct _win_st *window, bool enabled))                   \
    X (int, nodelay, (struct _win_st *window, bool enabled))                  \
    X (int, clearok, (struct _win_st *window, bool enabled))                  \
    X (int, wgetch, (struct _win_st *window))                                 \
    X (int, wmove, (struct _win_st *window, int line, int column))            \
    X (int, wattrset, (struct _win_st *window, int attributes))               \
    X (int, waddnstr, (struct _win_st *window, const char *text, int bytes))  \
    X (int, wclrtoeol, (struct _win_st *window))                              \
    X (int, wrefresh, (struct _win_st *window))

/* What they return, take as attributes, and return as keys. */
enum {
    NCURSES_ERR = -1,
    NCURSES_REVERSE = 1 << 18,
    NCURSES_DIM = 1 << 20,
    NCURSES_BOLD = 1 << 21,
    NCURSES_KEY_DOWN = 0402,
    NCURSES_KEY_UP = 0403,
    NCURSES_KEY_NPAGE = 0522,
    NCURSES_KEY_PPAGE = 0523,
    NCURSES_KEY_ENTER = 0527,
};

#endif
