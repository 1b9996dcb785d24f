/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of the shm engine: blocks and stages of their own, in the arena of the rank that leads them; slots, arenas
 * and their books are the world's.
 *
 * The leader cannot free that memory while others may still look at it, and waiting for them is not for closing: it
 * goes back with the arena. */
#include <config.h>

#include "lib/engines/shm/shm_private.h"

#include "lib/base/error.h"

#include <stdlib.h>

enum { PAGE = 4096 };

static size_t
block_bytes (int size)
{
    return shm_round_up ((size_t) size * sizeof (struct shm_block), PAGE);
}

/* The books of the arena are the world's, as are those of groups within groups. */
enum accel_status
shm_make_group (void *transport, int size, int64_t *group_id, struct accel_error *err)
{
    struct shm *shm = transport;
    struct shm *world = shm->world ? shm->world : shm;
    void *memory;
    size_t stages = (size_t) size * 2 * shm_piece_room (size);
    enum accel_status status = shm_alloc (world, &memory, block_bytes (size) + stages, err);
    world->led_groups += !status;
    if (!status)
        *group_id = (int64_t) ((unsigned char *) memory - shm->arenas);
    return status;
}

enum accel_status
shm_join_group (void *transport, const int *ranks, int size, int rank, int64_t group_id, void **group,
                struct accel_error *err)
{
    struct shm *shm = transport;
    struct shm *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a group");
    *made = (struct shm){
        .world = shm->world ? shm->world : shm,
        .rank = rank, .size = size, .local_rank = shm->local_rank, .generation = shm->generation,
        .timeout_ms = shm->timeout_ms, .small_pieces = shm->small_pieces, .crowded = shm->crowded, .pid = shm->pid,
        .layout = shm->layout, .segment = shm->segment, .slot = shm->slot, .arenas = shm->arenas,
        .blocks = (struct shm_block *) (void *) (shm->arenas + group_id),
        .stages = shm->arenas + group_id + block_bytes (size),
        .members = calloc ((size_t) size, sizeof *made->members),
    };
    if (!made->members || !shm_make_scratch (made)) {
        shm_destroy (made);
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a group");
    }
    for (int i = 0; i < size; i++)
        made->members[i] = shm_world_rank (shm, ranks[i]);
    *group = made;
    return ACCEL_OK;
}
