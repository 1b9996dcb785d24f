/* SPDX-License-Identifier: Apache-2.0 */
/* Forced into every C and C++ file of a build with mutants (-include): which mutant is on, and which have been reached.
 *
 * Both live in one small file, MUTANTS_CONTROL, which every process maps when it starts: no environment variable is
 * needed, so programs with a cleaned environment, of other users or started by others have it too.  Byte 0 and 1 of
 * the file are the number of the mutant that is on (0: none), byte N is 1 once mutant N was reached. */
#ifndef MUTANTS_H
#define MUTANTS_H

/* Before all other headers, of which this one is the first. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

/* One per program or shared library, however many files define it. */
__attribute__ ((weak, visibility ("hidden"))) volatile unsigned char *mutants_map;

__attribute__ ((weak, visibility ("hidden"), constructor)) void mutants_start (void);

void
mutants_start (void)
{
    if (mutants_map)
        return;
    int fd = open (MUTANTS_CONTROL, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *map = mmap (NULL, MUTANTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close (fd);
    if (map != MAP_FAILED)
        mutants_map = (volatile unsigned char *) map;
}

static inline bool
mutant_on (unsigned number)
{
    volatile unsigned char *map = mutants_map;
    if (!map)
        return false;
    if (!map[number])
        map[number] = 1;
    return (map[0] | map[1] << 8) == (int) number;
}

#endif
