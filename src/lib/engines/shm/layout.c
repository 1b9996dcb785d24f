/* SPDX-License-Identifier: Apache-2.0 */
/* Where blocks, stages and arenas lie in the segment, as local rank 0 lays them out, and where each rank maps them.
 * Arenas are sparse: they cost address space, not memory. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "lib/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SHM_ARENAS_MAX ((size_t) 16 << 40) /* all of them together: an eighth of what x86-64 has */
#define SHM_ARENA_MIN ((size_t) 2 << 20)
/* Sanitizers keep shadows of what is mapped and have little room for it. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
#define SHM_ARENA_START ((size_t) 256 << 20)
#else
#define SHM_ARENA_START ((size_t) 1 << 40)
#endif

static void
read_layout (struct shm *shm)
{
    const struct jobseg_header *header = shm->segment.header;
    struct shm_layout *layout = &shm->layout;
    size_t page = (size_t) sysconf (_SC_PAGESIZE), size = (size_t) shm->size;
    layout->blocks = header->data_offset;
    layout->stages = shm_round_up (layout->blocks + size * sizeof (struct shm_block), page);
    layout->arenas = shm_round_up (layout->stages + size * 2 * shm_piece_room (shm->size), SHM_HUGE);
    layout->arena_bytes = atomic_load (&header->arena_bytes);
    layout->end = layout->arenas + size * layout->arena_bytes;
}

/* A power of two that holds all of this host's memory, unless there are very many ranks. */
static size_t
largest_arena (int size)
{
    size_t memory = (size_t) sysconf (_SC_PHYS_PAGES) * (size_t) sysconf (_SC_PAGESIZE), arena = SHM_ARENA_MIN;
    while (arena < memory && arena < SHM_ARENA_START && arena * 2 <= SHM_ARENAS_MAX / (size_t) size)
        arena *= 2;
    return arena;
}

/* To exceed the limit would end the process by SIGXFSZ. */
static bool
may_be_written (size_t end)
{
    struct rlimit limit;
    return getrlimit (RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur;
}

/* Limits on address space and on file size both count these bytes, though they have no memory. */
static bool
fits (const struct shm *shm, size_t end)
{
    struct rlimit limit;
    if (!may_be_written (end))
        return false;
    if (!getrlimit (RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur / 2)
        return false;
    void *memory = mmap (NULL, end, PROT_NONE, MAP_SHARED | MAP_NORESERVE, shm->segment.fd, 0);
    if (memory == MAP_FAILED)
        return false;
    munmap (memory, end);
    return true;
}

enum accel_status
shm_lay_out (struct shm *shm, struct accel_error *err)
{
    struct jobseg_header *header = shm->segment.header;
    int fd = shm->segment.fd;
    if (!atomic_load (&header->arena_bytes)) {
        size_t arena = largest_arena (shm->size);
        atomic_store (&header->arena_bytes, arena);
        for (read_layout (shm); !fits (shm, shm->layout.end) && arena > SHM_ARENA_MIN; read_layout (shm))
            atomic_store (&header->arena_bytes, arena /= 2);
        atomic_store (&header->arena_offset, shm->layout.arenas);
        bool allowed = may_be_written (shm->layout.end);
        if (!allowed || jobseg_grow (&shm->segment, shm->layout.end)) {
            atomic_store (&header->arena_bytes, 0);
            errno = allowed ? errno : EFBIG;
            return accel_fail_errno (err, "accel_open: cannot resize the job segment to %zu bytes (check ulimit -f)",
                                     shm->layout.end);
        }
    }
    /* What an earlier program of this job left there goes back to the host; all of it reads as zero again. */
    read_layout (shm);
    if (fallocate (fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) shm->layout.blocks,
                   (off_t) (shm->layout.end - shm->layout.blocks)))
        return accel_fail_errno (err, "accel_open: cannot clear the job segment");
    if (fallocate (fd, 0, (off_t) shm->layout.blocks, (off_t) (shm->layout.arenas - shm->layout.blocks)))
        return accel_fail_errno (err, "accel_open: cannot allocate %zu bytes of the job segment",
                                 shm->layout.arenas - shm->layout.blocks);
    return ACCEL_OK;
}

/* ---- what a transport holds ---- */

static void *
map (const struct shm *shm, size_t from, size_t to)
{
    return mmap (NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, shm->segment.fd, (off_t) from);
}

enum accel_status
shm_map (struct shm *shm, struct accel_error *err)
{
    read_layout (shm);
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
