/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share a terminal: each writes to its own pseudo-terminal, so that it still writes line by line and in
 * colour, while we pass its lines on one at a time with the rank's number before each. */
#ifndef LAUNCH_OUTPUT_TERMINAL_H
#define LAUNCH_OUTPUT_TERMINAL_H

#include <stdbool.h>

/**
 * Open a pseudo-terminal that changes no byte.
 *
 * @param[out] ends  [0] for us to read, [1] for the rank to write; both are closed on exec
 * @return 0, or -1 with errno set
 */
int terminal_open (int ends[2]);

/** Give one the size of @p terminal, less @p columns. */
void terminal_resize (int fd, int terminal, int columns);

/** Whether it has colours, and the user wants them: NO_COLOR is not set or empty. */
bool terminal_has_colours (void);

/** Whether it can erase lines: TERM says that it is not a dumb one. */
bool terminal_can_erase (void);

/**
 * What comes before each line of @p rank: "[3] ".  It is padded so that lines of all @p world_size ranks begin in the
 * same column.
 *
 * @param in_colour  if the terminal has colours
 *
 * @param[out] columns  its width on the terminal
 * @return to be freed; NULL without memory
 */
char *terminal_prefix (int rank, int world_size, bool in_colour, int *columns);

/** What a launcher below an agent writes in place of that prefix, for the head, which puts it there: "\001" "3\002".
 *  Nothing that a rank writes can be taken for it, as each of its lines has one. */
char *terminal_mark (int rank, int world_size, int *columns);
#define TERMINAL_MARK '\001'
#define TERMINAL_MARK_END '\002'

#endif
