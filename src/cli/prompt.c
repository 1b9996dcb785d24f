/* SPDX-License-Identifier: Apache-2.0 */
/* Questions at the terminal; see prompt.h.  The only user of readline, or libedit. */
#include <config.h>

#include "cli/prompt.h"

#include "util/cleanup.h"

#include <stdbool.h>
#include <string.h>
#ifdef HAVE_READLINE
#include <readline/readline.h>
#elif defined HAVE_LIBEDIT
#include <editline/readline.h>
#endif

static char *
trim (char *line)
{
    size_t length = strlen (line);
    while (length && strchr (" \t\r\n", line[length - 1]))
        line[--length] = '\0';
    size_t blanks = strspn (line, " \t");
    memmove (line, line + blanks, length - blanks + 1);
    return line;
}

static char *
read_plain (const char *question)
{
    char *line = NULL;
    size_t size = 0;
    fputs (question, stdout);
    fflush (stdout);
    if (getline (&line, &size, stdin) < 0) {
        free (line);
        return NULL;
    }
    return line;
}

static char *
read_line (const char *question)
{
#if defined HAVE_READLINE || defined HAVE_LIBEDIT
    if (isatty (STDIN_FILENO) && isatty (STDOUT_FILENO))
        return readline (question);
#endif
    return read_plain (question);
}

void
prompt_say (const char *text)
{
    printf ("%s\n", text);
    fflush (stdout);
}

char *
prompt_line (const char *question)
{
    char *line = read_line (question);
    if (line)
        return trim (line);
    prompt_say (""); /* the error that follows begins on a line of its own */
    return NULL;
}
