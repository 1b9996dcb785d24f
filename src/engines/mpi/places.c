/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of a communicator are on which host.  Hosts have the order of their first ranks, and the ranks of a host
 * keep theirs, whatever ranks of other hosts are between them. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

#include <stdalign.h>
#include <stdlib.h>

/* Hosts get numbers in the order of their first ranks. */
static void
number_hosts (struct places *places, const int *labels, int size)
{
    for (int i = 0; i < size; i++) {
        int first = 0;
        while (labels[first] != labels[i])
            first++;
        places->host_of[i] = first == i ? places->hosts++ : places->host_of[first];
    }
}

static void
put_in_order (struct places *places, int size)
{
    int at = 0;
    places->is_sorted = true;
    for (int host = 0; host < places->hosts; host++) {
        places->begins[host] = at;
        for (int i = 0; i < size; i++) {
            if (places->host_of[i] != host)
                continue;
            places->is_sorted = places->is_sorted && at == i;
            places->place_of[i] = at - places->begins[host];
            places->order[at++] = i;
        }
    }
    places->begins[places->hosts] = at;
}

/* From rank to rank, the ranks of a host send their rows to all other hosts.  In the chain of hosts, each row crosses
 * the busiest link once. */
static bool
saves_scatter (const struct places *places, int size)
{
    int most = 0;
    for (int host = 0; host < places->hosts; host++) {
        int here = places_size (places, host), rows = here * (size - here);
        most = rows > most ? rows : most;
    }
    return places->hosts == 1 || most > size;
}

struct places *
places_create (const int *labels, int size, int rank)
{
    size_t ranks = (size_t) size;
    struct places *places = aligned_alloc (alignof (struct places), sizeof *places);
    int *numbers = calloc (4 * ranks + 1, sizeof *numbers);
    if (!places || !numbers) {
        free (places);
        free (numbers);
        return NULL;
    }
    *places = (struct places){ .host_of = numbers, .place_of = numbers + ranks, .order = numbers + 2 * ranks,
                               .begins = numbers + 3 * ranks };
    number_hosts (places, labels, size);
    put_in_order (places, size);
    places->saves_scatter = saves_scatter (places, size);
    places->here = places->host_of[rank];
    places->size = places_size (places, places->here);
    places->rank = places->place_of[rank];
    places->marks = calloc ((size_t) places->size, sizeof *places->marks);
    places->stages = calloc ((size_t) places->size, sizeof *places->stages);
    if (places->marks && places->stages) {
        places->marks[0] = places->size == 1 ? &places->alone : NULL;
        return places;
    }
    places_destroy (places);
    return NULL;
}

void
places_destroy (struct places *places)
{
    if (!places)
        return;
    free (places->host_of);
    free (places->marks);
    free (places->stages);
    free (places);
}

bool
places_share (const struct places *places, int rank)
{
    return places_size (places, places->host_of[rank]) > 1;
}

bool
places_share_any (const struct places *places)
{
    return places->begins[places->hosts] > places->hosts;
}
