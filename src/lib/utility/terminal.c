/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal; see terminal.h. */
#include <config.h>

#include "lib/utility/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

enum { PLAIN_COLUMNS = 80 };

size_t
terminal_columns (bool terminal)
{
    struct winsize size;
    if (terminal && !ioctl (STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1)
        return size.ws_col - 1u; /* a full line would wrap */
    return PLAIN_COLUMNS - 1;
}
