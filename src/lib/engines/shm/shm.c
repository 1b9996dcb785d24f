/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "shm": its table, opening and closing. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "lib/base/error.h"
#include "lib/kernels/reduce.h"
#include "util/cleanup.h"
#include "util/threads.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>

static enum accel_status
shm_probe (const struct accel_engine_job *job, struct accel_error *err)
{
    if (job->world_size > JOBSEG_MAX_LOCAL)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "connects at most %d processes, but this job has %d",
                           JOBSEG_MAX_LOCAL, job->world_size);
    return ACCEL_OK;
}

static struct shm *
create (const struct engine_job *job)
{
    struct shm *shm = calloc (1, sizeof *shm);
    if (!shm)
        return NULL;
    shm->rank = shm->local_rank = job->base.local_rank;
    shm->size = job->base.local_world_size;
    shm->timeout_ms = job->base.timeout_ms;
    shm->generation = job->generation;
    shm->segment = job->segment;
    shm->slot = jobseg_slot (&job->segment, shm->rank);
    shm->crowded = shm->size > usable_processors ();
    /* If ranks share processors a step takes a switch, and the fewer the better. */
    shm->small_pieces = reduce_likes_small_pieces () && !shm->crowded;
    shm->pid = getpid ();
    if (shm_make_scratch (shm))
        return shm;
    shm_destroy (shm);
    return NULL;
}

/* Rank 0 sizes the file and lays out its memory; the others wait for that and map it. */
enum accel_status
shm_connect (struct shm *shm, const struct accel_engine_helpers *helpers, struct accel_error *err)
{
    unsigned char ready = 1;
    enum accel_status status = shm->rank ? ACCEL_OK : shm_lay_out (shm, err);
    AUTO_FREE unsigned char *all = calloc ((size_t) shm->size, 1);
    if (!status && !all)
        status = accel_fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
    if (!status)
        status = helpers->exchange (helpers->context, &ready, all, sizeof ready, err);
    return status ? status : shm_map (shm, err);
}

static enum accel_status
shm_open_job (void **transport, struct accel_engine_job *base, struct accel_error *err)
{
    struct engine_job *job = engine_job_of (base);
    struct shm *shm = create (job);
    if (!shm)
        return accel_fail (err, ACCEL_ERR_NOMEM, "accel_open: out of memory");
    enum accel_status status = shm_connect (shm, job->base.helpers, err);
    if (status)
        shm_destroy (shm);
    else
        *transport = shm;
    return status;
}

/* The launcher holds the segment as long as the job lives, so this rank's memory is given back here.  No peer reads it
 * any more, for every collective ends with a step of all; but where groups meet, that step may still be looked at, and
 * the memory goes back with the segment, or when its next program opens. */
static void
shm_close (void *transport)
{
    struct shm *shm = transport;
    const struct shm_layout *layout = &shm->layout;
    if (shm->world) {
        shm_destroy (shm);
        return;
    }
    shm_wake_all (shm, false);
    if (shm->arena.count && !shm->led_groups && getpid () == shm->pid)
        fallocate (shm->segment.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                   (off_t) (layout->arenas + (size_t) shm->rank * layout->arena_bytes), (off_t) layout->arena_bytes);
    shm_destroy (shm);
}

static void
shm_give_up (void *transport, const char *reason)
{
    (void) reason;
    shm_wake_all (transport, true);
}

static void
shm_set_timeout (void *transport, uint32_t timeout_ms)
{
    struct shm *shm = transport;
    shm->timeout_ms = timeout_ms;
}

const struct accel_engine engine_shm = {
    .abi = ACCEL_ENGINE_ABI,
    .size = sizeof (struct accel_engine),
    .name = "shm",
    .kinds = ACCEL_ENGINE_BITS (ACCEL_ENGINE_KIND_COUNT),
    .reduces = ACCEL_ENGINE_BITS (ACCEL_DTYPE_COUNT),
    .devices = ENGINE_HOST_DEVICES,
    .probe = shm_probe,
    .open = shm_open_job,
    .close = shm_close,
    .give_up = shm_give_up,
    .alloc = shm_alloc,
    .free = shm_free,
    .make_group = shm_make_group,
    .join_group = shm_join_group,
    .run = shm_run,
    .awaits = shm_awaits,
    .set_timeout = shm_set_timeout,
};
