/* SPDX-License-Identifier: Apache-2.0 */
/* What a process may ask about itself. */
#include <config.h>

#include "lib/state/state_object.h"

#include "util/precisions.h"

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
