/* SPDX-License-Identifier: Apache-2.0 */
/* How an agent learns that a process of MPI has ended: an MPI proxy, and the daemon that has started it.  Two attempts
 * at once. */
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

/* In place of the MPI proxy of @rank, which waits until its agent closes the connection. */
static pid_t
start_proxy (struct mpi_proxies *proxies, int rank, const char *attempt)
{
    struct fail fail;
    char number[16];
    pid_t pid = fork ();
    if (!pid) {
        prctl (PR_SET_PDEATHSIG, SIGKILL);
        mpi_proxies_release (proxies); /* or others would not see their connections close */
        snprintf (number, sizeof number, "%d", rank);
        setenv ("PMI_RANK", number, 1);
        _exit (mpi_proxy_run (name, attempt, &fail) != 0);
    }
    return pid;
}

static pid_t
begin_proxy (struct mpi_proxies *proxies, int rank, const char *attempt)
{
    int before = proxies->count;
    pid_t pid = start_proxy (proxies, rank, attempt);
    for (int i = 0; i < TRIES && proxies->count == before; i++) {
        mpi_proxies_accept (proxies);
        nanosleep (&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
    }
    need (proxies->count == before + 1);
    return pid;
}

/* Those of attempt 2 wait while the ranks of attempt 1 run. */
static void
test_standby (void)
{
    struct mpi_proxies proxies = MPI_PROXIES_NONE;
    struct plan_process processes[2] = { { .rank = 0 }, { .rank = 1 } };
    struct plan plan = { .processes = processes, .process_count = 2 };
    struct mpi_proxy_end end;
    struct fail fail = { 0 };
    pid_t pids[5];
    need (!mpi_proxies_listen (&proxies, name, &fail));
    pids[0] = begin_proxy (&proxies, 1, "2");
    pids[1] = begin_proxy (&proxies, 0, "1");
    pids[2] = begin_proxy (&proxies, 0, "2");
    pids[3] = begin_proxy (&proxies, 1, "1");
    pids[4] = begin_proxy (&proxies, 2, "2");
    ok (mpi_proxies_of (&proxies, 1) == 2 && !mpi_proxies_apply (&proxies, &plan, &fail) && proxies.count == 5,
        "the first attempt has two of five: %s", fail.text);
    kill (pids[4], SIGKILL);
    waitid (P_PID, (id_t) pids[4], &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
    ok (mpi_proxies_take_end (&proxies, &end) && !end.is_of_attempt && proxies.count == 4,
        "ranks that run do not need one that waits, and one that has ended is none");
    mpi_proxies_forget (&proxies);
    ok (proxies.count == 2 && waitpid (pids[1], NULL, 0) == pids[1] && waitpid (pids[3], NULL, 0) == pids[3],
        "when the first attempt ends, those of the second stay");
    ok (mpi_proxies_of (&proxies, 2) == 2 && !mpi_proxies_apply (&proxies, &plan, &fail), "which has its turn: %s",
        fail.text);
    bool is_needed = true;
    for (int i = 0; i <= 2; i += 2) {
        kill (pids[i], SIGKILL);
        waitid (P_PID, (id_t) pids[i], &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
        bool has_ended = false;
        while (mpi_proxies_take_end (&proxies, &end))
            has_ended = has_ended || end.is_of_attempt;
        is_needed = is_needed && has_ended && mpi_proxies_apply (&proxies, &plan, &fail);
    }
    ok (is_needed && !mpi_proxies_of (&proxies, 2), "and needs each of them, also if none is left");
    ok (mpi_proxies_of (&proxies, 3) == 0 && !proxies.count, "those of attempts before are released");
    for (int i = 0; i < 5; i++)
        waitpid (pids[i], NULL, 0);
    mpi_proxies_release (&proxies);
    for (int i = 0; i < 2; i++)
        strlist_release (&processes[i].env);
}

/* One of an mpirun that was given up, which comes when those of the next have. */
static void
test_late (void)
{
    struct mpi_proxies proxies = MPI_PROXIES_NONE;
    struct fail fail = { 0 };
    need (!mpi_proxies_listen (&proxies, name, &fail));
    pid_t good = begin_proxy (&proxies, 0, "2");
    need (mpi_proxies_of (&proxies, 2) == 1);
    pid_t late = start_proxy (&proxies, 0, "1"), ended = 0;
    for (int i = 0; i < TRIES && !ended; i++) {
        mpi_proxies_accept (&proxies);
        nanosleep (&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
        ended = waitpid (late, NULL, WNOHANG);
    }
    ok (ended == late && proxies.count == 1 && !mpi_proxies_check (&proxies, 1, &fail),
        "a late one of an earlier attempt is released, and hides none: %s", fail.text);
    mpi_proxies_release (&proxies);
    waitpid (good, NULL, 0);
    if (!ended) {
        kill (late, SIGKILL);
        waitpid (late, NULL, 0);
    }
}

int
main (void)
{
    test_same_number ();
    test_standby ();
    test_late ();
    return done_testing ();
}
