/* SPDX-License-Identifier: Apache-2.0 */
/* The loader that runs: what accel_gather_for_metrics() and gradient accumulation look at; and the moment between two
 * steps. */
#include <config.h>

#include "lib/data/active.h"

struct loaders {
    struct part part;
    struct accel_loader *active;
    const struct accel_loader *stepped; /* the loader whose batch the latest step used; NULL: it has been asked since */
    void (*between) (const struct accel *acc);
};

static struct loaders *
loaders_of (const struct accel *acc)
{
    return (struct loaders *) (void *) part_find (acc, &part_loaders);
}

const struct part_kind part_loaders = { .size_bytes = sizeof (struct loaders) };

struct accel_loader *
loader_active (const struct accel *acc)
{
    return acc ? loaders_of (acc)->active : NULL;
}

void
loader_set_active (struct accel *acc, struct accel_loader *loader)
{
    loaders_of (acc)->active = loader;
}

void
loader_note_step (const struct accel *acc)
{
    loaders_of (acc)->stepped = loaders_of (acc)->active;
}

void
loader_set_between (const struct accel *acc, void (*between) (const struct accel *acc))
{
    loaders_of (acc)->between = between;
}

void
loader_between (struct accel_loader *loader, const struct accel *acc)
{
    struct loaders *loaders = loaders_of (acc);
    if (loaders->stepped != loader)
        return;
    loaders->stepped = NULL;
    loaders->between (acc);
}
