/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that are redrawn; see terminal.h. */
#include <config.h>

#include "lib/utility/terminal.h"

#include "util/io.h"

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

void
terminal_draw (const struct strbuf *line, bool terminal, bool last)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    size_t columns = terminal_columns (terminal);
    if (terminal)
        strbuf_add_char (&out, '\r');
    strbuf_add_bytes (&out, line->text, terminal && line->length > columns ? columns : line->length);
    if (terminal)
        strbuf_add (&out, "\033[K");
    if (last || !terminal)
        strbuf_add_char (&out, '\n');
    if (!line->failed && !out.failed)
        io_write_all (STDERR_FILENO, out.text, out.length);
}
