/* SPDX-License-Identifier: Apache-2.0 */
/* How an agent learns that a process of MPI has ended: an MPI proxy, and the daemon that has started it. */
#include <config.h>

#include "hosts/mpi/mpi.h"
#include "hosts/net/wire.h"
#include "tests/tap.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ENDS = 10, PAUSE_NS = 10000000, TRIES = 3000 };

static char name[MPI_PROXY_NAME_BYTES];

static void
need (bool good)
{
    if (!good)
        abort ();
}

/* A process that a daemon's name and an MPI proxy's connection make both, as if the number of one had been given to the
 * other. */
static _Noreturn void
be_both (void)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    struct strlist none = { 0 };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t size = (socklen_t) (offsetof (struct sockaddr_un, sun_path) + 1 + strlen (name));
    int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    prctl (PR_SET_NAME, "orted");
    memcpy (address.sun_path + 1, name, strlen (name));
    size_t begin = wire_begin (&out, WIRE_MPI_PROXY);
    wire_put_number (&out, 1);
    wire_put_number (&out, 3);
    wire_put_number (&out, getpid ());
    wire_put_list (&out, &none);
    wire_end (&out, begin);
    need (!connect (fd, (struct sockaddr *) &address, size));
    need (send (fd, out.text, out.length, 0) == (ssize_t) out.length);
    for (;;)
        pause ();
}

static void
test_same_number (void)
{
    struct mpi_proxies proxies = MPI_PROXIES_NONE;
    struct mpi_proxy_end ends[MOST_ENDS];
    struct fail fail;
    int count = 0, daemons = 0;
    snprintf (name, sizeof name, "accel-test-%d", (int) getpid ());
    need (!mpi_proxies_listen (&proxies, name, &fail));
    pid_t pid = fork ();
    if (!pid)
        be_both ();
    for (int i = 0; i < TRIES && !proxies.count; i++) {
        mpi_proxies_accept (&proxies);
        nanosleep (&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
    }
    ok (proxies.count == 1 && proxies.process_count == 2, "an MPI proxy has come, and its daemon is known");
    ok (!mpi_proxies_take_end (&proxies, &ends[0]), "as long as they run, there is no end");
    kill (pid, SIGKILL);
    waitid (P_PID, (id_t) pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
    while (count < MOST_ENDS && mpi_proxies_take_end (&proxies, &ends[count]))
        daemons += ends[count++].is_daemon;
    ok (count == 2 && daemons == 1, "%d ends are reported, %d of a daemon", count, daemons);
    ok (strstr (ends[0].text, "was killed by signal 9 (SIGKILL)") && ends[0].status == 128 + SIGKILL, "how: %s",
        ends[0].text);
    waitpid (pid, NULL, 0);
    mpi_proxies_release (&proxies);
}

int
main (void)
{
    test_same_number ();
    return done_testing ();
}
