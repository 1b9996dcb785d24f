/* SPDX-License-Identifier: Apache-2.0 */
/* Telling of reading and writing; see traffic.h. */
#include <config.h>

#include "files/traffic.h"

#include <stddef.h>

static _Thread_local struct traffic_observer *current;

struct traffic_observer *
traffic_observe (struct traffic_observer *observer)
{
    struct traffic_observer *former = current;
    current = observer;
    return former;
}

void
traffic_moved (uint64_t bytes)
{
    if (current)
        current->moved (current, bytes);
}

void
traffic_syncing (void)
{
    if (current)
        current->syncing (current);
}
