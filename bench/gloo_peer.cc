/* SPDX-License-Identifier: Apache-2.0 */
/* The same all-reduces as bench_collectives, by gloo over TCP on the loopback device: its only transport in Debian that
 * needs no InfiniBand.  There is no launcher; this program forks its ranks.
 *
 *   gloo_peer in|out BUDGET_MS RANKS FOLDER     the ranks find one another through files in FOLDER, which is empty
 *
 * Both of gloo's algorithms are measured, as gloo-ring and gloo-bcube. */
#include <config.h>

#include "bench/collectives.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using Algorithm = gloo::AllreduceOptions::Algorithm;

static std::shared_ptr<gloo::rendezvous::Context> context;
static Algorithm algorithm = Algorithm::RING;
static uint32_t tag;

template <typename T>
static void
reduce_all (T *send, T *recv, size_t count, void (*function) (void *, const void *, const void *, size_t))
{
    gloo::AllreduceOptions options (context);
    options.setAlgorithm (algorithm);
    options.setReduceFunction (function);
    options.setTag (tag++);
    if (send != recv)
        options.setInput (send, count);
    options.setOutput (recv, count);
    gloo::allreduce (options);
}

static void
all_reduce (const float *send, float *recv, size_t count)
{
    reduce_all (const_cast<float *> (send), recv, count, gloo::sum<float>);
}

static void
barrier ()
{
    gloo::BarrierOptions options (context);
    options.setTag (tag++);
    gloo::barrier (options);
}

static void
slowest (double *times, size_t count)
{
    reduce_all (times, times, count, gloo::max<double>);
}

static void
run_rank (int rank, int size, bool in_place, double budget_us, const char *folder)
{
    gloo::rendezvous::FileStore store (folder);
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice ("127.0.0.1");
    context = std::make_shared<gloo::rendezvous::Context> (rank, size);
    context->connectFullMesh (store, device);
    struct buffers buffers;
    for (int i = 0; i < BUFFERS; i++) {
        buffers.send[i] = buffer_from_malloc (buffer_bytes (i));
        buffers.recv[i] = buffer_from_malloc (buffer_bytes (i));
    }
    struct peer peer = { "gloo-ring", rank, size, in_place, all_reduce, barrier, slowest };
    measure_all (&peer, &buffers, budget_us);
    peer.name = "gloo-bcube";
    algorithm = Algorithm::BCUBE;
    measure_all (&peer, &buffers, budget_us);
    barrier ();
    for (int i = 0; i < BUFFERS; i++) {
        free (buffers.send[i]);
        free (buffers.recv[i]);
    }
    context.reset ();
}

/* What a forked rank does; gloo's threads may still run when something failed, so nothing is taken down then. */
static void
be_rank (int rank, int size, char **argv)
{
    try {
        run_rank (rank, size, !strcmp (argv[1], "in"), atof (argv[2]) * 1e3, argv[4]);
    } catch (const std::exception &error) {
        fprintf (stderr, "gloo_peer: rank %d: %s\n", rank, error.what ());
        _exit (1);
    }
    exit (0);
}

int
main (int argc, char **argv)
{
    int size = argc == 5 ? atoi (argv[3]) : 0, status, failed = 0;
    if (size < 1) {
        fprintf (stderr, "usage: gloo_peer in|out BUDGET_MS RANKS FOLDER\n");
        return 2;
    }
    pid_t parent = getpid ();
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < size && !failed; rank++) {
        pid_t pid = fork ();
        if (!pid) {
            prctl (PR_SET_PDEATHSIG, SIGKILL);
            if (getppid () != parent)
                _exit (1);
            be_rank (rank, size, argv);
        }
        if (pid > 0)
            ranks.push_back (pid);
        else
            failed = 1, perror ("gloo_peer: fork");
    }
    /* A rank that fails takes the others with it, which would wait for it until gloo's own timeout. */
    for (size_t left = ranks.size (); left; left--) {
        if (failed)
            for (pid_t pid : ranks)
                kill (pid, SIGKILL);
        pid_t pid = wait (&status);
        ranks.erase (std::find (ranks.begin (), ranks.end (), pid));
        if (status)
            failed = 1;
    }
    return failed;
}
