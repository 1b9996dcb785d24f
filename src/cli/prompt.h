/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a person at a terminal, or to a program at a pipe.  At a terminal typed answers are edited with
 * readline, if there is one, and choices are made with the arrow keys (menu.h); else both are plain lines.
 *
 * Between prompt_open() and prompt_close() a signal does not end the process at once: the terminal is put back
 * first. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "util/strbuf.h"

#include <stdbool.h>

enum prompt_result {
    PROMPT_ANSWER,
    PROMPT_BACK,      /* to the question before */
    PROMPT_HELP,      /* "?" */
    PROMPT_END,       /* the input has ended */
    PROMPT_INTERRUPT, /* Ctrl-C */
};

void prompt_open (void);
void prompt_close (void);

/** Whether a user can answer: standard input is a terminal. */
bool prompt_has_person (void);

/** Whether the terminal can move the cursor, so that menus can be drawn. */
bool prompt_can_draw (void);

/**
 * Print @p question and read one line; "<" alone is PROMPT_BACK, "?" PROMPT_HELP.
 *
 * @param is_path   the Tab key completes names of files; else it does nothing
 * @param[out] line  without its newline and without blanks around it; the caller frees it
 */
enum prompt_result prompt_line (const char *question, bool is_path, char **line);

/** Print a part of the dialogue that is not a question; at a terminal, long lines break between words. */
void prompt_say (const char *text);

/** The same; lines that continue it begin after @p indent columns. */
void prompt_say_indented (const char *text, size_t indent);

/** The width of the terminal, in columns; 80 if unknown. */
int prompt_columns (void);

/** Append @p text for the terminal, broken between words; lines that continue it begin after @p indent columns.  Text
 *  that is not for a terminal is unchanged. */
void prompt_wrap (const char *text, size_t indent, struct strbuf *out);

/**
 * Wait for a byte on standard input, or a signal.  For the menu.
 * @param timeout_ms  -1: none
 * @return the byte, or one of enum prompt_key
 */
int prompt_key (int timeout_ms);
enum prompt_key {
    PROMPT_KEY_END = -1,
    PROMPT_KEY_TIMEOUT = -2,
    PROMPT_KEY_INTERRUPT = -3,
    PROMPT_KEY_STOP = -4,   /* Ctrl-Z: put the terminal back and call prompt_stop() */
    PROMPT_KEY_RESIZE = -5,
    PROMPT_KEY_KILLED = -6, /* put the terminal back and call prompt_die() */
};

/** What the signal would have done without us. @{ */
void prompt_stop (void);
void prompt_die (void);
/** @} */

#endif
