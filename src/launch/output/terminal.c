/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo-terminals and coloured prefixes; see terminal.h. */
#include <config.h>

#include "launch/output/terminal.h"

#include "util/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

void
terminal_resize (int fd, int terminal, int columns)
{
    struct winsize size;
    if (ioctl (terminal, TIOCGWINSZ, &size) || size.ws_col <= columns)
        return;
    size.ws_col = (unsigned short) (size.ws_col - columns);
    ioctl (fd, TIOCSWINSZ, &size);
}

/* This one only has to look like a terminal: the real one processes the output. */
static int
make_transparent (int fd)
{
    struct termios modes;
    if (tcgetattr (fd, &modes))
        return -1;
    modes.c_oflag &= ~(tcflag_t) OPOST;
    modes.c_lflag &= ~(tcflag_t) (ECHO | ECHONL);
    return tcsetattr (fd, TCSANOW, &modes);
}

int
terminal_open (int ends[2])
{
    ends[0] = posix_openpt (O_RDWR | O_NOCTTY | O_CLOEXEC);
    ends[1] = -1;
    if (ends[0] < 0)
        return -1;
    /* Not by name: /dev/pts may be another container's. */
    if (unlockpt (ends[0]) == 0)
        ends[1] = ioctl (ends[0], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[1] >= 0 && make_transparent (ends[1]) == 0)
        return 0;
    int error = errno;
    if (ends[1] >= 0)
        close (ends[1]);
    close (ends[0]);
    ends[0] = ends[1] = -1;
    errno = error;
    return -1;
}

bool
terminal_has_colours (void)
{
    const char *no_color = getenv ("NO_COLOR");
    return !(no_color && *no_color) && terminal_can_erase ();
}

bool
terminal_can_erase (void)
{
    const char *term = getenv ("TERM");
    return !term || strcmp (term, "dumb");
}

/* The width of "[3] ", padded to that of the last rank. */
static int
columns_of (int world_size)
{
    return snprintf (NULL, 0, "[%d] ", world_size - 1);
}

char *
terminal_prefix (int rank, int world_size, bool in_colour, int *columns)
{
    static const char colours[] = { 6, 3, 2, 5, 4, 1 }; /* cyan, yellow, green, magenta, blue, red */
    bool is_plain = !in_colour || !terminal_has_colours ();
    char *prefix;
    *columns = columns_of (world_size);
    int digits = *columns - 3;
    int length = is_plain
                 ? asprintf (&prefix, "[%*d] ", digits, rank)
                 : asprintf (&prefix, "\033[3%dm[%*d]\033[0m ", colours[(size_t) rank % sizeof colours], digits, rank);
    return length < 0 ? NULL : prefix;
}

char *
terminal_mark (int rank, int world_size, int *columns)
{
    char *mark;
    *columns = columns_of (world_size);
    return asprintf (&mark, "%c%d%c", TERMINAL_MARK, rank, TERMINAL_MARK_END) < 0 ? NULL : mark;
}
