/* SPDX-License-Identifier: Apache-2.0 */
/* What runs where, as far as it needs no communication: print, split_between_processes, set_trigger. */
#include <config.h>

#include "lib/state/state_object.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <stdarg.h>

/* What the program printed itself comes first; then one write, which a pipe keeps whole up to PIPE_BUF bytes. */
void
accel_print (const struct accel *acc, const char *format, ...)
{
    if (!accel_is_local_main_process (acc) || !format)
        return;
    AUTO_FREE char *text = NULL;
    va_list args;
    va_start (args, format);
    int length = vasprintf (&text, format, args);
    va_end (args);
    if (length < 0) {
        text = NULL;
        return;
    }
    fflush (stdout);
    io_write_all (STDOUT_FILENO, text, (size_t) length);
}

struct accel_split
accel_split_between_processes (const struct accel *acc, size_t length, bool apply_padding)
{
    size_t processes = (size_t) state_identity (acc).world_size, rank = (size_t) state_identity (acc).rank;
    if (processes == 1)
        return (struct accel_split){ .begin = 0, .end = length };
    size_t each = length / processes, extra = length % processes;
    struct accel_split split = { .begin = rank * each + (rank < extra ? rank : extra) };
    split.end = split.begin + each + (rank < extra);
    if (apply_padding && length)
        split.padding = each + (extra > 0) - (split.end - split.begin);
    return split;
}

void
accel_set_trigger (struct accel *acc)
{
    if (acc)
        acc->trigger = true;
}
