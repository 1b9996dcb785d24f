/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks wait for each other where they cannot do so by the library: each leaves a file in the working folder, which
 * is named after the place and the parent that they share, and waits for those of the others.  A child of a rank can
 * wait too, if the rank has called meet_parent() before it forks. */
#ifndef TESTS_FAULT_MEET_H
#define TESTS_FAULT_MEET_H

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* The parent of the ranks, in them and in their later children. */
static int
meet_parent (void)
{
    static int parent;
    if (!parent)
        parent = (int) getppid ();
    return parent;
}

/* Say that @rank has come to @place. */
static void
meet_come (const char *place, int rank)
{
    char name[128];
    snprintf (name, sizeof name, "%s.%d.%d", place, meet_parent (), rank);
    close (open (name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

/* Wait until all of @size ranks but @absent have come to @place.  The caller's alarm() is the deadline. */
static void
meet_wait (const char *place, int size, int absent)
{
    char name[128];
    for (int rank = 0; rank < size; rank++) {
        snprintf (name, sizeof name, "%s.%d.%d", place, meet_parent (), rank);
        while (rank != absent && access (name, F_OK))
            usleep (5000);
    }
}

#endif
