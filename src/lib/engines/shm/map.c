/* SPDX-License-Identifier: Apache-2.0 */
/* What a transport holds: the memory that local rank 0 has laid out, mapped, and scratch of its own; and its end. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "lib/base/error.h"

#include <stdlib.h>
#include <sys/mman.h>

static void *
map (const struct shm *shm, size_t from, size_t to)
{
    return mmap (NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, shm->segment.fd, (off_t) from);
}

enum accel_status
shm_map (struct shm *shm, struct accel_error *err)
{
    shm_read_layout (shm);
    const struct shm_layout *layout = &shm->layout;
    void *control = map (shm, layout->blocks, layout->arenas), *arenas = map (shm, layout->arenas, layout->end);
    if (control != MAP_FAILED) {
        shm->blocks = control;
        shm->stages = (unsigned char *) control + (layout->stages - layout->blocks);
    }
    if (arenas != MAP_FAILED)
        shm->arenas = arenas;
    if (control == MAP_FAILED || arenas == MAP_FAILED)
        return accel_fail_errno (err, "accel_open: cannot map %zu bytes of shared memory (check ulimit -v)",
                                 layout->end - layout->blocks);
    /* Terabytes of holes in a core file are of no use; huge pages are a wish. */
    madvise (arenas, layout->end - layout->arenas, MADV_DONTDUMP);
    madvise (arenas, layout->end - layout->arenas, MADV_HUGEPAGE);
    return ACCEL_OK;
}

static void
unmap (struct shm *shm)
{
    const struct shm_layout *layout = &shm->layout;
    if (shm->blocks)
        munmap (shm->blocks, layout->arenas - layout->blocks);
    /* Memory that was not freed may still be written to, by a thread that never came back from a program's function;
     * but not that of groups, which this process calls no more. */
    if (shm->arenas && shm->arena.count == shm->led_groups)
        munmap (shm->arenas, layout->end - layout->arenas);
}

void
shm_destroy (struct shm *shm)
{
    if (!shm)
        return;
    if (!shm->world) /* a group lies in the world's memory */
        unmap (shm);
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
