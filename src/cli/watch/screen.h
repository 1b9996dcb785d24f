/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal as a screen of lines, drawn by ncurses, which is loaded when a screen is opened.  There is one, on
 * standard input and output, and one thread uses it.
 *
 * SIGTSTP, SIGWINCH and those that end a process have to be blocked, in all threads, as long as it is open: the caller
 * takes them (signalfd), and calls screen_suspend(), screen_measure() or screen_close(). */
#ifndef CLI_WATCH_SCREEN_H
#define CLI_WATCH_SCREEN_H

#include "cli/watch/watched.h"
#include "util/fail.h"

/** Begin to draw, on an empty screen, without a cursor.  Sets LC_CTYPE as the environment says.
 *  @param[out] view  `columns`, `lines` and `is_ascii`
 *  @return 0, or -1 with @p fail: ncurses is not installed, or does not know the type of the terminal, which is then
 *          as it was */
int screen_open (struct view *view, struct fail *fail);

/** The terminal as it was; nothing if no screen is open. */
void screen_close (void);

/** The terminal may have another size.  The next screen_draw() draws all of it.
 *  @param[out] view  `columns` and `lines` */
int screen_measure (struct view *view, struct fail *fail);

/** Show @p lines from the first line of the terminal on; only what has changed is sent. */
void screen_draw (const struct view_lines *lines);

/** @return what was typed, for view_key(); -1: no more.  Waits only for the rest of a key. */
int screen_key (void);

/** As the shell expects it: stop with the terminal as it was, and draw again when continued. */
int screen_suspend (struct view *view, struct fail *fail);

#endif
