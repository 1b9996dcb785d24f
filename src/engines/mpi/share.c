/* SPDX-License-Identifier: Apache-2.0 */
/* What a group keeps in the memory of its hosts: marks and a stage of each rank, in the rank's own arena, from the
 * group's first large call on.  Control messages say where they are, so nobody waits for anybody.
 *
 * The other ranks of the host may still read them when this rank destroys the group.  So the memory is given back in
 * the first call after each of them has destroyed it, too; if one never does, when the job is closed.  Where a rank had
 * no memory for it, none has read any, and it is given back at once. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

#include <stdlib.h>

/* Memory of a group that this rank has left. */
struct left_behind {
    struct left_behind *next;
    uint64_t at;
    uint64_t readers; /* the other ranks of the group on this host */
};

static struct left_behind *all_left_behind;

static struct marks *
marks_at (uint64_t at)
{
    return (struct marks *) (void *) (mpi_host.arenas + at);
}

void
share_collect (void)
{
    struct left_behind **at = &all_left_behind;
    while (*at) {
        struct left_behind *left = *at;
        if (atomic_load_explicit (&marks_at (left->at)->left, memory_order_acquire) < left->readers) {
            at = &left->next;
            continue;
        }
        *at = left->next;
        arena_return (left->at);
        free (left);
    }
}

void
share_forget (void)
{
    while (all_left_behind) {
        struct left_behind *left = all_left_behind;
        all_left_behind = left->next;
        arena_forget (left->at);
        free (left);
    }
}

void
share_prepare (struct team *team)
{
    if (!team->place || team->places->size == 1 || team->shared_at != FOREIGN)
        return;
    team->shared_at = arena_take (sizeof (struct marks) + STAGE_BYTES);
}

bool
share_find (const struct flight *flight)
{
    const struct team *team = flight->team;
    const struct places *places = team->places;
    if (!team->place)
        return true;
    for (int i = 0; i < team->size; i++)
        if (places_share (places, i) && flight->legs[i].shared_at == FOREIGN)
            return false;
    for (int i = 0; i < places->size && places->size > 1; i++) {
        places->marks[i] = marks_at (flight->legs[places_rank (places, places->here, i)].shared_at);
        places->stages[i] = (unsigned char *) (places->marks[i] + 1);
    }
    return true;
}

void
share_leave (struct team *team)
{
    const struct places *places = team->places;
    if (!arena_is_own ())
        return;
    bool is_found = places->marks[places->rank] || team->has_failed;
    if (!is_found && team->shared_at != FOREIGN) {
        arena_return (team->shared_at);
        team->shared_at = FOREIGN;
    }
    struct left_behind *left = team->shared_at == FOREIGN ? NULL : malloc (sizeof *left);
    for (int i = 0; i < places->size && places->size > 1; i++)
        if (i != places->rank && places->marks[i])
            atomic_fetch_add_explicit (&places->marks[i]->left, 1, memory_order_release);
    if (left) {
        *left = (struct left_behind){ all_left_behind, team->shared_at, (uint64_t) places->size - 1 };
        all_left_behind = left;
    }
    share_collect ();
}

void
share_abandon (struct team *team)
{
    if (team->shared_at != FOREIGN)
        arena_forget (team->shared_at);
    team->shared_at = FOREIGN;
    places_destroy (team->places);
    team->places = NULL;
}
