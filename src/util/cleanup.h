/* SPDX-License-Identifier: Apache-2.0 */
/* Scoped cleanup for locals: AUTO_FREE char *text = ...; is freed when `text` goes out of scope.  errno survives. */
#ifndef UTIL_CLEANUP_H
#define UTIL_CLEANUP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void
cleanup_free (void *address)
{
    int saved = errno;
    free (*(void **) address);
    errno = saved;
}

static inline void
cleanup_close (int *fd)
{
    int saved = errno;
    if (*fd >= 0)
        close (*fd);
    errno = saved;
}

static inline void
cleanup_file (FILE **file)
{
    int saved = errno;
    if (*file)
        fclose (*file);
    errno = saved;
}

#define AUTO_FREE __attribute__ ((cleanup (cleanup_free)))
#define AUTO_CLOSE __attribute__ ((cleanup (cleanup_close)))
#define AUTO_FILE __attribute__ ((cleanup (cleanup_file)))

#endif
