/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that ends is seen by the kernel of its host alone, and by the ranks of this host while they wait in a call.
 * They may be computing, though, when ranks of other hosts wait for the one that has ended.  So each rank has a thread
 * that sleeps until another rank of its host ends, and tells the other hosts.
 *
 * The thread calls MPI with the engine's lock; if no thread of the engine may, ranks of other hosts wait until a
 * rank of that host calls, or for the timeout. */
#include <config.h>

#include "engines/mpi/communicators.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { PUSHES = 20, PUSH_NS = 1000000 };

/* MPI keeps the message until the process ends. */
static void
notify_hosts (int ended)
{
    struct header *message = calloc (1, sizeof *message);
    if (!message)
        return;
    *message = (struct header){ .session = mpi.world.session, .rank = mpi.world.rank, .signature = { .kind = ENDED } };
    message->ended = (uint32_t) mpi.host.processes[ended].rank + 1;
    for (int i = 0; i < mpi.host.world_size; i++)
        if (mpi.host.processes[i].rank != mpi.world.rank && mpi.host.processes[i].fd < 0 && !host_find_ended (i))
            post_final (i, message, sizeof *message);
}

/* What MPI did not send at once, it sends in a later call. */
static void
drive_progress (void)
{
    for (int i = 0, has_come; i < PUSHES; i++) {
        pthread_mutex_lock (&mpi.world.lock);
        if (!atomic_load (&mpi.world.is_over) && !*mpi.world.error)
            MPI_Iprobe (MPI_ANY_SOURCE, TAG_HELLO, mpi.world.comm, &has_come, MPI_STATUS_IGNORE);
        pthread_mutex_unlock (&mpi.world.lock);
        nanosleep (&(struct timespec){ .tv_nsec = PUSH_NS }, NULL);
    }
}

static void *
run (void *user)
{
    (void) user;
    for (;;) {
        bool has_told = false;
        if (poll (mpi.detector.fds, (nfds_t) mpi.detector.count + 1, -1) < 0 && errno != EINTR)
            return NULL;
        if (mpi.detector.fds[mpi.detector.count].revents)
            return NULL;
        pthread_mutex_lock (&mpi.world.lock);
        for (int i = 0; i < mpi.detector.count; i++) {
            if (!mpi.detector.fds[i].revents)
                continue;
            mpi.detector.fds[i] = (struct pollfd){ .fd = -1 };
            has_told = !atomic_load (&mpi.world.is_over) && !*mpi.world.error;
            if (has_told)
                notify_hosts (mpi.detector.peers[i]);
        }
        pthread_mutex_unlock (&mpi.world.lock);
        if (has_told)
            drive_progress ();
    }
}

/* @return whether there are ranks to watch, and to tell */
static bool
prepare (void)
{
    const struct host *host = &mpi.host;
    size_t room = (size_t) host->world_size;
    mpi.detector.count = 0;
    mpi.detector.fds = calloc (room + 1, sizeof *mpi.detector.fds);
    mpi.detector.peers = calloc (room, sizeof *mpi.detector.peers);
    if (!mpi.detector.fds || !mpi.detector.peers)
        return false;
    for (int i = 0; i < host->world_size; i++)
        if (host->processes[i].fd >= 0) {
            mpi.detector.fds[mpi.detector.count] = (struct pollfd){ .fd = host->processes[i].fd, .events = POLLIN };
            mpi.detector.peers[mpi.detector.count++] = i;
        }
    return mpi.detector.count && mpi.detector.count + 1 < host->world_size;
}

static void
release (void)
{
    if (mpi.detector.stop >= 0)
        close (mpi.detector.stop);
    free (mpi.detector.fds);
    free (mpi.detector.peers);
    mpi.detector = (struct failure_detector){ .stop = -1 };
}

void
failure_detector_begin (void)
{
    if (!mpi.host.processes || !world_may_have_threads ())
        return;
    if (prepare () && world_watch_end () && (mpi.detector.stop = eventfd (0, EFD_CLOEXEC)) >= 0) {
        mpi.detector.fds[mpi.detector.count] = (struct pollfd){ .fd = mpi.detector.stop, .events = POLLIN };
        mpi.detector.pid = world_start_thread (&mpi.detector.thread, run) ? getpid () : 0;
    }
    if (!mpi.detector.pid)
        release ();
}

void
failure_detector_end (void)
{
    if (mpi.detector.pid != getpid () || eventfd_write (mpi.detector.stop, 1))
        return;
    pthread_join (mpi.detector.thread, NULL);
    release ();
}
