/* SPDX-License-Identifier: Apache-2.0 */
/* What a process may ask about itself, and what runs where, as far as it needs no communication. */
#include <config.h>

#include "lib/state/state_object.h"

#include "util/cleanup.h"
#include "util/io.h"
#include "util/precisions.h"

#include <stdarg.h>
#include <string.h>

const char *
accel_distributed_type (const struct accel *acc)
{
    if (state_identity (acc).world_size < 2)
        return "NO";
    return acc->device.device_type == kDLCPU ? "MULTI_CPU" : "MULTI_GPU";
}

DLDevice
accel_device (const struct accel *acc)
{
    return acc ? acc->device : (DLDevice){ .device_type = kDLCPU };
}

int
accel_num_processes (const struct accel *acc)
{
    return state_identity (acc).world_size;
}

int
accel_process_index (const struct accel *acc)
{
    return state_identity (acc).rank;
}

int
accel_local_process_index (const struct accel *acc)
{
    return state_identity (acc).local_rank;
}

int
accel_local_num_processes (const struct accel *acc)
{
    return state_identity (acc).local_world_size;
}

bool
accel_is_main_process (const struct accel *acc)
{
    return state_identity (acc).rank == 0;
}

bool
accel_is_local_main_process (const struct accel *acc)
{
    return state_identity (acc).local_rank == 0;
}

bool
accel_is_last_process (const struct accel *acc)
{
    return state_identity (acc).rank == state_identity (acc).world_size - 1;
}

const struct precision_mode *
precision_mode_find (const char *name)
{
    static const struct precision_mode modes[] = {
#define X(text, dtype, scales, weight_bytes, gradient_bytes) { text, ACCEL_##dtype, scales },
        PRECISION_MAP (X)
#undef X
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!name || !strcmp (modes[i].name, name))
            return &modes[i];
    return NULL;
}

const char *
accel_mixed_precision (const struct accel *acc)
{
    return (acc ? acc->precision : precision_mode_find (NULL))->name;
}

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
