/* SPDX-License-Identifier: Apache-2.0 */
/* Questions at the terminal.  At a terminal with a line editor where there is one, else plain lines. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

/**
 * Print @p question and read one line.
 *
 * @return the line without its newline and without blanks around it, which the caller frees; NULL at the end of input
 */
char *prompt_line (const char *question);

/** Print one line of the dialogue that is not a question. */
void prompt_say (const char *text);

#endif
