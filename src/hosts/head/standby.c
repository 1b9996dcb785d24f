/* SPDX-License-Identifier: Apache-2.0 */
/* The standby: the mpirun of the next start of the ranks, which runs in advance, so that a restart waits neither for
 * SSH nor for the daemons of MPI.  Its MPI proxies wait at their agents, and use no processor time.  See state.h. */
#include <config.h>

#include "hosts/head/state.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

enum { STANDBY_MS = 2000 }; /* after the start of the ranks, which need the processors themselves at first */

/* In an allocation, mpirun starts its daemons with what the scheduler has for that, which waits until the resources of
 * the ranks are free. */
static bool
is_in_allocation (void)
{
    static const char *const variables[] = { "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE" };
    const char *plm = getenv ("OMPI_MCA_plm");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv (variables[i]))
            return !plm || strcmp (plm, "rsh") != 0;
    return false;
}

/* ssh logs in to each host once more: not where it had to ask for something. */
static bool
is_wanted (const struct head *head)
{
    for (int i = 0; i < head->count; i++)
        if (!head->links[i].batch)
            return false;
    return head->spec.proxies && head->hosts->starter.mpi == STARTER_MPI_OPEN && !is_in_allocation ()
           && head->restarts < head->spec.config.settings.max_restarts;
}

void
standby_plan (struct head *head)
{
    head->standby_ms = is_wanted (head) ? clock_ms () + STANDBY_MS : INT64_MAX;
}

/* Best effort: without one, mpirun is started when it is needed.  One that has ended is not started again. */
void
standby_turn (struct head *head)
{
    struct mpi_launcher *standby = &head->standby;
    struct fail unused;
    int64_t now = clock_ms ();
    mpi_launcher_reap (standby);
    if (!standby->pid || (standby->until_ms && now >= standby->until_ms))
        mpi_launcher_end (standby);
    if (now < head->standby_ms || standby->pid)
        return;
    head->standby_ms = INT64_MAX;
    if (head->signal) /* the job is ending */
        return;
    head->standby_begun_ms = now;
    mpi_launcher_start (standby, head->hosts, head->spec.proxies, ++head->mpi_starts, &unused);
}

int64_t
standby_due (const struct head *head)
{
    if (head->standby.pid)
        return head->standby.until_ms ? head->standby.until_ms : INT64_MAX;
    return head->phase == HEAD_RUN ? head->standby_ms : INT64_MAX;
}

bool
standby_take (struct head *head)
{
    struct mpi_launcher before = head->mpi_launcher;
    head->standby_ms = INT64_MAX;
    if (!head->standby.pid || head->standby.until_ms)
        return false;
    head->mpi_launcher = head->standby;
    head->mpi_launcher.was_standby = true;
    head->standby = before;
    mpi_launcher_end (&head->standby);
    return true;
}

void
standby_drop (struct head *head)
{
    head->standby_ms = INT64_MAX;
    mpi_launcher_hurry (&head->standby);
    mpi_launcher_end (&head->standby);
}
