/* SPDX-License-Identifier: Apache-2.0 */
/* How far a save or a load is; see meter.h. */
#include <config.h>

#include "lib/checkpoint/meter.h"

#include "util/clock.h"

#include <string.h>

/* The observer is the first member. */
static void
moved (struct traffic_observer *observer, uint64_t bytes)
{
    struct meter *meter = (struct meter *) (void *) observer;
    meter->done += bytes;
    meter->show (meter, METER_MOVED);
}

static void
syncing (struct traffic_observer *observer)
{
    struct meter *meter = (struct meter *) (void *) observer;
    meter->show (meter, METER_SYNCING);
}

static const char *
last_component (const char *path)
{
    const char *slash = strrchr (path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

void
meter_begin (struct meter *meter, meter_show show, enum meter_kind kind, const char *path, uint64_t total)
{
    *meter = (struct meter){ .kind = kind, .name = last_component (path), .total = total, .show = show };
    if (!show)
        return;
    meter->begin_ms = clock_ms ();
    meter->observer = (struct traffic_observer){ .moved = moved, .syncing = syncing };
    meter->former = traffic_observe (&meter->observer);
}

void
meter_end (struct meter *meter, enum accel_status status)
{
    if (!meter->show)
        return;
    traffic_observe (meter->former);
    meter->show (meter, status ? METER_FAILED : METER_DONE);
    meter->show = NULL;
}
