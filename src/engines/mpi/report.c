/* SPDX-License-Identifier: Apache-2.0 */
/* What `accelerate env` says about engine mpi.  It calls this function in a process of its own, which it ends if there
 * is no answer; libaccel does not know it. */
#include <config.h>

#include "engines/mpi/communicators.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ACCEL_API int accel_engine_report (char *text, size_t size);

extern char **environ;

/* Open MPI would start a daemon for a process without mpirun. */
static void
be_alone (void)
{
    static char setting[] = "OMPI_MCA_ess_singleton_isolated=1"; /* `environ` keeps it, and is not const */

    size_t count = 0;
    while (environ[count])
        count++;
    char **made = calloc (count + 2, sizeof *made);
    if (!made)
        return;
    memcpy (made, environ, count * sizeof *made);
    made[count] = setting;
    environ = made; /* until the end of this process */
}

/** Write one line: which MPI this is, the thread level that it gives, and what that costs.  @return 0 */
int
accel_engine_report (char *text, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int level = MPI_THREAD_SINGLE, length = 0;
    MPI_Get_library_version (version, &length);
    version[strcspn (version, ",\n")] = '\0';
    for (char *tab; (tab = strchr (version, '\t'));)
        *tab = ' ';
    be_alone ();
    world_export_symbols ();
    if (MPI_Init_thread (NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        snprintf (text, size, "%s, which does not start: MPI_Init_thread() failed", version);
    else if (level >= MPI_THREAD_SERIALIZED)
        snprintf (text, size, "%s, %s: any thread may call libaccel, and calls overlap with other work", version,
                  world_level_name (level));
    else
        snprintf (text, size, "%s, %s, but MPI_THREAD_SERIALIZED was asked for: only the thread that called "
                  "accel_open() may call libaccel, and non-blocking calls move on only during its calls", version,
                  world_level_name (level));
    MPI_Finalize ();
    return 0;
}
