/* SPDX-License-Identifier: Apache-2.0 */
/* Both sides of the socket between MPI proxies and agents; see mpi.h.  An MPI proxy sends one frame, in one
 * message. */
#include <config.h>

#include "hosts/mpi/mpi.h"

#include "hosts/net/address.h"
#include "hosts/net/wire.h"
#include "launch/process/process.h"
#include "util/array.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/jobseg.h"
#include "util/parse.h"
#include "util/peer.h"
#include "util/procfs.h"

#include <poll.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

enum {
    MESSAGE_BYTES = 256 * 1024, /* at most */
    SEND_MS = 5000,             /* for an MPI proxy to send, after it has connected */
    DAEMON_ASK_MS = 200,        /* for a process of MPI to end by itself */
    DAEMON_MS = 2000,           /* and, once it was told to, until it is killed */
    KILLED_MS = 1000,           /* and until it has ended then */
    ACCEPT_MOST = 64,           /* at once */
};

extern char **environ;

/* What MPI needs.  Names of MPI's own settings (MPICH_..., MPIR_CVAR_...) come from the user's environment, too. */
static const char *const prefixes[] = { "PMIX_", "PMI_", "PMI2_", "OMPI_", "PRTE_", "MPI_LOCAL", "MPIR_CVAR_CH3_" };
static const char *const ranks[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_ID", "SLURM_PROCID" };

int
mpi_proxy_make_name (char name[MPI_PROXY_NAME_BYTES], struct fail *fail)
{
    struct listener random = LISTENER_NONE;
    if (listener_draw_token (&random, fail))
        return -1;
    snprintf (name, MPI_PROXY_NAME_BYTES, "accelerate.%s", random.token);
    return 0;
}

/* Any user of this host can open a socket of any name. */
static bool
is_ours (int fd)
{
    struct peer peer;
    return peer_of (fd, &peer) && peer.uid == geteuid ();
}

/* ---- the MPI proxy ---- */

static int
find_rank (void)
{
    int64_t rank;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        const char *text = getenv (ranks[i]);
        if (text && parse_int64 (text, 0, INT_MAX, &rank) == PARSE_OK)
            return (int) rank;
    }
    return -1;
}

/* If mpirun has used srun, Slurm's variables are those of the daemons. */
static bool
is_of_mpi (const char *item)
{
    bool is_slurm = !getenv ("OMPI_COMM_WORLD_RANK") && !getenv ("PMI_PORT");
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp (item, prefixes[i], strlen (prefixes[i])))
            return true;
    return is_slurm && !strncmp (item, "SLURM_", 6);
}

static void
put_all (struct strbuf *out, int64_t attempt)
{
    AUTO_STRLIST struct strlist variables = { 0 };
    ompi_transports_exclude (getppid (), &variables);
    for (char **item = environ; *item; item++)
        if (is_of_mpi (*item))
            strlist_add (&variables, *item);
    size_t begin = wire_begin (out, WIRE_MPI_PROXY);
    wire_put_number (out, attempt);
    wire_put_number (out, find_rank ());
    wire_put_number (out, getppid ());
    wire_put_list (out, &variables);
    wire_end (out, begin);
    out->failed = out->failed || variables.failed;
}

static int
find_passed_fd (void)
{
    int64_t fd;
    const char *text = getenv ("PMI_FD");
    return text && parse_int64 (text, 0, INT_MAX, &fd) == PARSE_OK ? (int) fd : -1;
}

int
mpi_proxy_run (const char *name, const char *attempt, struct fail *fail)
{
    struct sockaddr_un address;
    socklen_t size = peer_address (&address, name);
    AUTO_STRBUF struct strbuf out = { 0 };
    AUTO_CLOSE int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int64_t number;
    int bytes = MESSAGE_BYTES;
    char byte;
    if (!size || parse_int64 (attempt, 0, INT64_MAX, &number) != PARSE_OK)
        return fail_set (fail, FAIL_USAGE, "--mpi-proxy: not a name and a number");
    if (fd < 0 || connect (fd, (struct sockaddr *) &address, size) || !is_ours (fd))
        return fail_set (fail, FAIL_GENERAL, "no agent of this job runs on this host");
    put_all (&out, number);
    setsockopt (fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    if (out.failed)
        return fail_nomem (fail);
    if (peer_send (fd, out.text, out.length, find_passed_fd (), 0) != (ssize_t) out.length)
        return fail_set (fail, FAIL_GENERAL, "cannot reach the agent of this host: %s", strerror (errno));
    while (read (fd, &byte, 1) < 0 && errno == EINTR)
        ;
    return 0;
}

/* ---- the agent ---- */

int
mpi_proxies_listen (struct mpi_proxies *proxies, const char *name, struct fail *fail)
{
    struct sockaddr_un address;
    socklen_t size = peer_address (&address, name);
    int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mpi_proxies_release (proxies);
    proxies->listener = fd;
    proxies->ends = epoll_create1 (EPOLL_CLOEXEC);
    if (fd < 0 || proxies->ends < 0 || !size || bind (fd, (struct sockaddr *) &address, size)
        || listen (fd, SOMAXCONN))
        return fail_set (fail, FAIL_GENERAL, "cannot listen for processes of MPI: %s", strerror (errno));
    return 0;
}

/* @return its length, -1 if none has come  @param[out] passed  -1: none */
static ssize_t
receive (int from, char *bytes, int *passed)
{
    struct pollfd ready = { .fd = from, .events = POLLIN };
    *passed = -1;
    return poll (&ready, 1, SEND_MS) == 1 ? peer_receive (from, bytes, MESSAGE_BYTES, passed) : -1;
}

/* Only those that are known to belong to one job; Slurm's and others serve more than ours. */
static bool
may_end (const char *name)
{
    static const char *const known[] = { "orted", "prted", "mpirun", "mpiexec", "orterun", "prterun",
                                         "hydra_pmi_proxy", "mpiexec.hydra" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp (name, known[i], 15)) /* as much as the kernel keeps */
            return true;
    return false;
}

/* @return false without memory, or if it has ended */
static bool
watch (struct mpi_proxies *proxies, const struct mpi_proxy_process *process)
{
    struct mpi_proxy_process *watched
        = array_room (&proxies->processes, (size_t) proxies->process_count, sizeof *watched);
    int fd = watched ? (int) syscall (SYS_pidfd_open, (pid_t) process->pid, 0) : -1;
    if (fd < 0)
        return false;
    *watched = *process;
    watched->fd = fd;
    proxies->process_count++;
    epoll_ctl (proxies->ends, EPOLL_CTL_ADD, fd, &(struct epoll_event){ .events = EPOLLIN, .data.fd = fd });
    return true;
}

/* There are few: one, for all MPI proxies of a host. */
static void
note_daemon (struct mpi_proxies *proxies, int64_t attempt, int64_t pid, const struct strlist *variables)
{
    struct mpi_proxy_process daemon = { .pid = pid, .attempt = attempt, .rank = -1 };
    for (int i = 0; i < proxies->process_count; i++)
        if (proxies->processes[i].pid == pid && proxies->processes[i].attempt == attempt)
            return;
    procfs_read ((pid_t) pid, "comm", daemon.name, sizeof daemon.name);
    daemon.name[strcspn (daemon.name, "\n")] = '\0';
    if (pid >= 2 && may_end (daemon.name) && watch (proxies, &daemon))
        ompi_session_read (&proxies->processes[proxies->process_count - 1].session, pid, daemon.name, variables);
}

static void
note_mpi_proxy (struct mpi_proxies *proxies, const struct mpi_proxy *proxy)
{
    struct mpi_proxy_process process = { .attempt = proxy->attempt, .rank = proxy->rank, .name = "MPI proxy" };
    struct peer peer;
    if (peer_of (proxy->fd, &peer) && (process.pid = peer.pid) > 0)
        watch (proxies, &process);
}

bool
mpi_proxy_read (struct mpi_proxy *proxy, int64_t *parent, const char *bytes, size_t length)
{
    struct wire_frame frame;
    size_t used;
    if (wire_next (bytes, length, &frame, &used) != 1 || frame.type != WIRE_MPI_PROXY || used != length)
        return false;
    proxy->attempt = wire_number (&frame);
    proxy->rank = (int) wire_number (&frame);
    *parent = wire_number (&frame);
    wire_list (&frame, &proxy->variables);
    return !frame.failed && !proxy->variables.failed;
}

static bool
take (struct mpi_proxies *proxies, struct mpi_proxy *proxy, const char *bytes, size_t length)
{
    int64_t parent;
    if (!mpi_proxy_read (proxy, &parent, bytes, length))
        return false;
    note_daemon (proxies, proxy->attempt, parent, &proxy->variables);
    note_mpi_proxy (proxies, proxy);
    return true;
}

static void
release_one (struct mpi_proxy *proxy)
{
    if (proxy->fd >= 0)
        close (proxy->fd);
    if (proxy->passed_fd >= 0)
        close (proxy->passed_fd);
    strlist_release (&proxy->variables);
}

static bool
is_before (const struct mpi_proxy *one, const struct mpi_proxy *other)
{
    return one->attempt != other->attempt ? one->attempt < other->attempt : one->rank < other->rank;
}

static bool
insert (struct mpi_proxies *proxies, const struct mpi_proxy *proxy)
{
    if (!array_room (&proxies->all, (size_t) proxies->count, sizeof *proxies->all))
        return false;
    int place = proxies->count++;
    for (; place > 0 && is_before (proxy, &proxies->all[place - 1]); place--)
        proxies->all[place] = proxies->all[place - 1];
    proxies->all[place] = *proxy;
    return true;
}

static void
accept_one (struct mpi_proxies *proxies, int fd, char *bytes)
{
    struct mpi_proxy proxy = { .fd = fd, .passed_fd = -1 };
    ssize_t length = is_ours (fd) ? receive (fd, bytes, &proxy.passed_fd) : -1;
    bool is_taken = length >= 0 && take (proxies, &proxy, bytes, (size_t) length);
    if (!is_taken || proxy.attempt < proxies->attempt || !insert (proxies, &proxy)) /* or of an mpirun given up */
        release_one (&proxy);
}

void
mpi_proxies_accept (struct mpi_proxies *proxies)
{
    AUTO_FREE char *bytes = malloc (MESSAGE_BYTES);
    for (int i = 0, fd; bytes && i < ACCEPT_MOST; i++) {
        fd = accept4 (proxies->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return;
        accept_one (proxies, fd, bytes);
    }
}

/* They come first, as those of earlier attempts are released. */
static int
count_of_attempt (const struct mpi_proxies *proxies)
{
    int count = 0;
    while (count < proxies->count && proxies->all[count].attempt == proxies->attempt)
        count++;
    return count;
}

static void
release_before (struct mpi_proxies *proxies, int64_t attempt)
{
    int count = 0;
    for (int i = 0; i < proxies->count; i++)
        if (proxies->all[i].attempt >= attempt)
            proxies->all[count++] = proxies->all[i];
        else
            release_one (&proxies->all[i]);
    proxies->count = count;
}

int
mpi_proxies_of (struct mpi_proxies *proxies, int64_t attempt)
{
    proxies->attempt = attempt;
    release_before (proxies, attempt);
    return count_of_attempt (proxies);
}

void
mpi_proxies_forget (struct mpi_proxies *proxies)
{
    release_before (proxies, proxies->attempt + 1);
}

/* The processes of a plan all have the same names. */
static bool
have_all (const struct mpi_proxies *proxies, const char *item)
{
    for (int i = 1; i < count_of_attempt (proxies); i++)
        if (!strlist_variable (&proxies->all[i].variables, item))
            return false;
    return true;
}

static int
apply_one (const struct mpi_proxy *proxy, const char *item, struct plan_process *process, struct fail *fail)
{
    AUTO_FREE char *name = strndup (item, strcspn (item, "="));
    char number[16];
    if (!name)
        return fail_nomem (fail);
    const char *value = strlist_variable (&proxy->variables, item);
    if (proxy->passed_fd >= 0 && !strcmp (name, "PMI_FD")) {
        snprintf (number, sizeof number, "%d", proxy->passed_fd);
        value = number;
        process->passed_fd = proxy->passed_fd;
    }
    return plan_set_variable_of (process, name, value, fail);
}

int
mpi_proxies_check (const struct mpi_proxies *proxies, int expected, struct fail *fail)
{
    int count = count_of_attempt (proxies);
    if (proxies->listener < 0 || count == expected)
        return 0;
    return fail_set (fail, FAIL_GENERAL, "%d processes of MPI run on this host, but the job has %d ranks here", count,
                     expected);
}

int
mpi_proxies_apply (const struct mpi_proxies *proxies, struct plan *plan, struct fail *fail)
{
    if (!proxies || proxies->listener < 0)
        return 0;
    if (mpi_proxies_check (proxies, plan->process_count, fail))
        return -1;
    int count = plan->process_count;
    const struct strlist *names = &proxies->all[0].variables;
    for (size_t i = 0; i < names->count; i++) {
        const char *item = names->items[i];
        for (int j = 0; j < count && have_all (proxies, item); j++)
            if (apply_one (&proxies->all[j], item, &plan->processes[j], fail))
                return -1;
    }
    return 0;
}

/* "orted (process 7 on b) was killed by signal 9 (SIGKILL)" */
static void
describe (const struct mpi_proxy_process *process, int64_t attempt, struct mpi_proxy_end *end)
{
    char host[64] = "", how[96] = "ended", who[48];
    int wait_status;
    gethostname (host, sizeof host - 1);
    *end = (struct mpi_proxy_end){ .is_daemon = process->rank < 0, .is_of_attempt = process->attempt == attempt };
    if (procfs_wait_status ((pid_t) process->pid, process->fd, &wait_status)) {
        jobseg_describe_exit (wait_status, how, sizeof how);
        end->status = status_of_wait (wait_status);
    }
    snprintf (who, sizeof who, process->rank < 0 ? "%s" : "the %s of rank %d", process->name, process->rank);
    snprintf (end->text, sizeof end->text, "%s (process %lld on %s) %s", who, (long long) process->pid, host, how);
}

/* Its variables are of no use any more. */
static void
remove_one (struct mpi_proxies *proxies, const struct mpi_proxy_process *process)
{
    int count = 0;
    for (int i = 0; i < proxies->count; i++)
        if (proxies->all[i].attempt == process->attempt && proxies->all[i].rank == process->rank)
            release_one (&proxies->all[i]);
        else
            proxies->all[count++] = proxies->all[i];
    proxies->count = count;
}

/* A daemon stays, for what it has left behind. */
bool
mpi_proxies_take_end (struct mpi_proxies *proxies, struct mpi_proxy_end *end)
{
    struct epoll_event event;
    if (proxies->ends < 0 || epoll_wait (proxies->ends, &event, 1, 0) != 1)
        return false;
    for (int i = 0; i < proxies->process_count; i++) {
        struct mpi_proxy_process *process = &proxies->processes[i];
        if (process->fd != event.data.fd) /* two may have had the same number, one after the other */
            continue;
        describe (process, proxies->attempt, end);
        epoll_ctl (proxies->ends, EPOLL_CTL_DEL, process->fd, NULL);
        if (process->rank >= 0) {
            remove_one (proxies, process);
            close (process->fd);
            *process = proxies->processes[--proxies->process_count];
        }
        return true;
    }
    return false;
}

static bool
ends_until (int pidfd, int64_t until_ms)
{
    struct pollfd ended = { .fd = pidfd, .events = POLLIN };
    for (;;) {
        int64_t left = until_ms - clock_ms ();
        int count = poll (&ended, 1, left > 0 ? (int) left : 0);
        if (count >= 0 || errno != EINTR)
            return count > 0;
    }
}

/* @return whether it has ended by @until_ms; MPI proxies are not ended */
static bool
has_ended_by (const struct mpi_proxy_process *process, int64_t until_ms)
{
    return process->rank >= 0 || ends_until (process->fd, until_ms);
}

void
mpi_proxies_end_daemons (struct mpi_proxies *proxies)
{
    static const struct {
        int until_ms, signal;
    } steps[] = { { DAEMON_ASK_MS, SIGTERM }, { DAEMON_MS, SIGKILL } };
    int64_t now = clock_ms ();
    release_before (proxies, INT64_MAX);
    for (size_t step = 0; step < sizeof steps / sizeof *steps; step++)
        for (int i = 0; i < proxies->process_count; i++)
            if (!has_ended_by (&proxies->processes[i], now + steps[step].until_ms))
                syscall (SYS_pidfd_send_signal, proxies->processes[i].fd, steps[step].signal, NULL, 0);
    for (int i = 0; i < proxies->process_count; i++)
        if (has_ended_by (&proxies->processes[i], now + DAEMON_MS + KILLED_MS))
            ompi_session_remove (&proxies->processes[i].session);
}

void
mpi_proxies_release (struct mpi_proxies *proxies)
{
    release_before (proxies, INT64_MAX);
    for (int i = 0; i < proxies->process_count; i++) {
        close (proxies->processes[i].fd);
        ompi_session_release (&proxies->processes[i].session);
    }
    if (proxies->listener >= 0)
        close (proxies->listener);
    if (proxies->ends >= 0)
        close (proxies->ends);
    free (proxies->processes);
    free (proxies->all);
    *proxies = MPI_PROXIES_NONE;
}
