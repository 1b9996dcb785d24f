/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of engine mpi that need no other rank: bundles of messages, and who is on which host. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

/* The engine asks MPI for the words, which has not begun here. */
static bool has_complained;

static bool
complain (int code, const char *call)
{
    (void) call;
    has_complained = has_complained || code != MPI_SUCCESS;
    return code == MPI_SUCCESS;
}

#define world_check complain
#include "engines/mpi/boards.c"
#include "engines/mpi/host.c"

#include "tests/tap.h"

enum { RANKS = 4, SLOT = 256, ROOM = 2048 };

static _Alignas (max_align_t) unsigned char memory[sizeof (struct message) + ROOM];
static struct message *const bundle = (struct message *) (void *) memory;

/* Add a message of a rank with so many bytes of data to the bundle. */
static void
add (int rank, uint32_t bytes)
{
    size_t at = bundle->header.inline_bytes;
    struct header header = { .rank = rank, .inline_bytes = bytes };
    memcpy (bundle->data + at, &header, sizeof header);
    bundle->header.inline_bytes += (uint32_t) round_up (data_at () + bytes, sizeof (uint64_t));
}

static void
begin_bundle (void)
{
    memset (memory, 0, sizeof memory);
    has_complained = false;
}

/* How many messages are taken, each from the rank that is next in @ranks. */
static int
take (struct team *team, const int *ranks)
{
    size_t at = 0;
    int rank, count = 0;
    while (boards_unpack (team, bundle, &at, &rank) && rank == ranks[count] && team->direct
           && team->direct->rank == rank)
        count++;
    return count;
}

/* Ranks 0 and 1 are here, 2 and 3 on another host; whoever sends, nothing behind the bundle is read. */
static void
test_bundles (void)
{
    const int labels[RANKS] = { 0, 0, 2, 2 };
    struct queue bundled[RANKS] = { 0 };
    struct team team = { .size = RANKS, .rank = 1, .bundled = bundled };
    mpi_host.places = places_create (labels, RANKS, 1);
    mpi_host.world_size = RANKS;
    mpi_host.slot_bytes = SLOT;
    if (!mpi_host.places)
        exit (99);
    for (uint32_t bytes = 0; bytes <= 9; bytes++) {
        begin_bundle ();
        add (2, bytes);
        add (3, bytes);
        ok (take (&team, (int[]){ 2, 3, -1 }) == 2 && !has_complained, "two messages of %u bytes", bytes);
    }
    begin_bundle ();
    add (3, (uint32_t) (SLOT - data_at ()));
    ok (take (&team, (int[]){ 3, -1 }) == 1 && !has_complained, "one that fills its slot");
    begin_bundle ();
    add (3, (uint32_t) (SLOT - data_at () + 1));
    ok (!take (&team, (int[]){ 3, -1 }) && has_complained, "one that does not fit");
    begin_bundle ();
    add (2, 16);
    bundle->header.inline_bytes -= 8;
    ok (!take (&team, (int[]){ 2, -1 }) && has_complained, "a bundle that ends in the data of a message");
    begin_bundle ();
    add (2, 0);
    add (3, 0);
    bundle->header.inline_bytes -= 8;
    ok (take (&team, (int[]){ 2, 3, -1 }) == 1 && !has_complained, "what is less than a message is none");
    for (int i = 0; i < 4; i++) {
        begin_bundle ();
        add ((int[]){ -1, RANKS, 0, 1 }[i], 0);
        ok (!take (&team, (int[]){ -1, -1 }) && has_complained, "a message of rank %d", (int[]){ -1, RANKS, 0, 1 }[i]);
    }
    places_destroy (mpi_host.places);
    mpi_host.places = NULL;
}

/* @hosts: of each rank, what it says: machine, rank and size on its host */
static void
test_hosts (const char *what, const struct whereabouts *all, int count, bool good, const int *wanted)
{
    int labels[RANKS] = { 0 }, counts[RANKS] = { 0 };
    bool found = find_hosts (all, count, labels, counts);
    ok (found == good && (!good || !memcmp (labels, wanted, (size_t) count * sizeof *labels)), "%s", what);
}

int
main (void)
{
#define AT(number, its_rank, its_size) { .machine = number, .rank = its_rank, .size = its_size }
    test_bundles ();
    test_hosts ("two hosts one after the other",
                (struct whereabouts[]){ AT (1, 0, 2), AT (1, 1, 2), AT (2, 0, 2), AT (2, 1, 2) }, 4, true,
                (int[]){ 0, 0, 2, 2 });
    test_hosts ("two hosts in turns", (struct whereabouts[]){ AT (1, 0, 2), AT (2, 0, 2), AT (1, 1, 2), AT (2, 1, 2) },
                4, true, (int[]){ 0, 1, 0, 1 });
    test_hosts ("two of one machine", (struct whereabouts[]){ AT (1, 0, 2), AT (1, 1, 2), AT (1, 0, 2), AT (1, 1, 2) },
                4, true, (int[]){ 0, 0, 2, 2 });
    test_hosts ("a rank whose host nobody else is on", (struct whereabouts[]){ AT (1, 0, 1), AT (2, 1, 2) }, 2, false,
                NULL);
    test_hosts ("a host that lacks a rank", (struct whereabouts[]){ AT (1, 0, 2), AT (2, 0, 1) }, 2, false, NULL);
    test_hosts ("ranks that say other sizes", (struct whereabouts[]){ AT (1, 0, 2), AT (1, 1, 3) }, 2, false, NULL);
    test_hosts ("a host whose memory cannot be opened",
                (struct whereabouts[]){ { .machine = 1, .size = 2, .fd = -1 }, AT (1, 1, 2) }, 2, false, NULL);
    test_hosts ("one of one rank needs none",
                (struct whereabouts[]){ { .machine = 1, .size = 1, .fd = -1 }, AT (2, 0, 1) }, 2, true,
                (int[]){ 0, 1 });
    return done_testing ();
}
