/* SPDX-License-Identifier: Apache-2.0 */
/* The loader that runs: what accel_gather_for_metrics() and gradient accumulation look at. */
#include <config.h>

#include "lib/data/active.h"

struct loaders {
    struct part part;
    struct accel_loader *active;
};

const struct part_kind part_loaders = { .size_bytes = sizeof (struct loaders) };

struct accel_loader *
loader_active (const struct accel *acc)
{
    return acc ? ((struct loaders *) (void *) part_find (acc, &part_loaders))->active : NULL;
}

void
loader_set_active (struct accel *acc, struct accel_loader *loader)
{
    ((struct loaders *) (void *) part_find (acc, &part_loaders))->active = loader;
}
