/* SPDX-License-Identifier: Apache-2.0 */
/* What a job's transport and a group's have in common: scratch memory, and their end. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include <stdlib.h>

void
shm_destroy (struct shm *shm)
{
    if (!shm)
        return;
    if (!shm->world) /* a group lies in the world's memory */
        shm_unmap (shm);
    free (shm->sources);
    free (shm->targets);
    free (shm->arena.extents);
    free (shm->members);
    free (shm);
}

bool
shm_make_scratch (struct shm *shm)
{
    size_t size = (size_t) shm->size;
    shm->sources = calloc (size, sizeof *shm->sources);
    shm->targets = calloc (size, sizeof *shm->targets);
    return shm->sources && shm->targets;
}
