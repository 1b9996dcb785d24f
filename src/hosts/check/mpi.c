/* SPDX-License-Identifier: Apache-2.0 */
/* MPI and NCCL between hosts; see check.h.  A launch of its own, in a process of its own, finds all that keeps a
 * job from starting through MPI, and can be ended at the deadline: the agents of a launch end when their head does. */
#include <config.h>

#include "hosts/check/check.h"

#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/envnames.h"
#include "util/printable.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
    SLICE_MS = 50,           /* between looks for the end of the launch */
    KEPT_BYTES = 256 * 1024, /* of what it says on each stream, at most */
    SHOWN_BYTES = 300,       /* of the reason */
};

/* A launch as a child, and what it has said. */
struct trial {
    pid_t pid;
    int status;
    int fds[2]; /* of its output and errors; -1: closed */
    struct strbuf said[2];
};

/* ---- the launch ---- */

/* One rank each.  A bare IPv6 address needs brackets. */
static void
add_hosts (const struct check *check, struct strlist *argv)
{
    AUTO_STRBUF struct strbuf hosts = { 0 };
    for (int i = 0; i < check->count; i++) {
        const char *name = check->items[i].link.name;
        strbuf_printf (&hosts, strchr (name, ':') ? "%s[%s]:1" : "%s%s:1", i ? "," : "", name);
    }
    strlist_add (argv, "--hosts");
    strlist_add (argv, hosts.text ? hosts.text : "");
    argv->failed = argv->failed || hosts.failed;
}

/* --cpu: the default file is for the jobs of the user, this one needs nothing of it.  The ranks may use GPUs all the
 * same. */
static void
add_argv (const struct check *check, const struct config *config, const char *selftest, bool on_gpus,
          struct strlist *argv)
{
    static const char *const words[] = { "launch", "--cpu", "--label=no", "--mpi", "yes", "--grace", "1", NULL };
    static const char *const without_cpu[] = { "env", "-u", ENV_USE_CPU, NULL };
    const struct settings *settings = &config->settings;
    strlist_add (argv, "accelerate");
    strlist_add_all (argv, words);
    add_hosts (check, argv);
    strlist_printf (argv, "--starter=%s", settings->starter);
    strlist_printf (argv, "--host_timeout=%lld", (long long) settings->host_timeout);
    if (settings->interface)
        strlist_printf (argv, "--interface=%s", settings->interface);
    if (settings->main_process_ip)
        strlist_printf (argv, "--main_process_ip=%s", settings->main_process_ip);
    if (settings->main_process_port)
        strlist_printf (argv, "--main_process_port=%lld", (long long) settings->main_process_port);
    strlist_add (argv, "--");
    if (on_gpus)
        strlist_add_all (argv, without_cpu);
    strlist_add (argv, selftest);
    strlist_add (argv, "--links");
    strlist_printf (argv, "%lld", (long long) check->limit_ms);
    if (on_gpus)
        strlist_add (argv, "gpu");
}

static _Noreturn void
run_child (const struct strlist *argv, const int out[2], const int err[2], pid_t parent)
{
    int null = open ("/dev/null", O_RDONLY | O_CLOEXEC);
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    dup2 (null, 0);
    dup2 (out[1], 1);
    dup2 (err[1], 2);
    signal (SIGPIPE, SIG_DFL);
    if (getppid () == parent)
        execv ("/proc/self/exe", argv->items);
    dprintf (2, "cannot start a launch: %s\n", strerror (errno));
    _exit (FAIL_GENERAL);
}

static int
start (struct trial *trial, const struct strlist *argv, struct fail *fail)
{
    int out[2] = { -1, -1 }, err[2] = { -1, -1 };
    pid_t parent = getpid ();
    if (!pipe2 (out, O_CLOEXEC) && !pipe2 (err, O_CLOEXEC))
        trial->pid = fork ();
    if (trial->pid == 0)
        run_child (argv, out, err, parent);
    int error = errno;
    for (int i = 0; i < 2; i++) {
        const int *ends = i ? err : out;
        if (ends[1] >= 0)
            close (ends[1]);
        trial->fds[i] = ends[0];
        if (ends[0] >= 0)
            fcntl (ends[0], F_SETFL, O_NONBLOCK);
    }
    return trial->pid > 0 ? 0 : status_fail_start (error, fail);
}

static void
read_some (struct trial *trial, int i)
{
    char bytes[4096];
    ssize_t got = 0;
    while (trial->fds[i] >= 0 && (got = read (trial->fds[i], bytes, sizeof bytes)) > 0)
        if (trial->said[i].length < KEPT_BYTES)
            strbuf_add_bytes (&trial->said[i], bytes, (size_t) got);
    if (trial->fds[i] >= 0 && (got == 0 || (errno != EAGAIN && errno != EINTR))) {
        close (trial->fds[i]);
        trial->fds[i] = -1;
    }
}

/* @return whether it has ended by itself; otherwise it was killed at the deadline */
static bool
wait_for (struct trial *trial, int64_t until)
{
    bool is_late = false;
    for (;;) {
        pid_t ended = waitpid (trial->pid, &trial->status, WNOHANG);
        for (int i = 0; i < 2; i++)
            read_some (trial, i);
        if (ended == trial->pid || (ended < 0 && errno != EINTR))
            return !is_late;
        if (clock_ms () >= until && !is_late) {
            is_late = true;
            kill (trial->pid, SIGKILL);
        }
        struct pollfd fds[2] = { { .fd = trial->fds[0], .events = POLLIN }, { .fd = trial->fds[1], .events = POLLIN } };
        poll (fds, 2, SLICE_MS);
    }
}

static void
release (struct trial *trial)
{
    for (int i = 0; i < 2; i++) {
        if (trial->fds[i] >= 0)
            close (trial->fds[i]);
        strbuf_release (&trial->said[i]);
    }
}

/* ---- what it has found ---- */

static int
take_links (const struct check *check, struct check_transport *transport, const char *at)
{
    int found = 0;
    for (; at && *at; at += strcspn (at, "\n"), at += *at == '\n') {
        int i, j;
        double trip_ns, to, from;
        if (sscanf (at, "link %d %d %lf %lf %lf", &i, &j, &trip_ns, &to, &from) != 5 || i < 0 || j <= i
            || j >= check->count)
            continue;
        transport->rates[i * check->count + j] = to / 1e6;
        transport->rates[j * check->count + i] = from / 1e6;
        transport->trips[i * check->count + j] = transport->trips[j * check->count + i] = trip_ns / 1e6;
        found++;
    }
    return found;
}

/* The line that gives the reason: the library's warning, one of the self-test, of the launch, or the last one of
 * any process.  Notes are not a reason. */
static void
find_reason (const char *text, char *why, size_t size)
{
    enum { WARNING, SELFTEST, LAUNCH, MARKS };
    static const char *const marks[MARKS]
        = { "this program computes on CPUs: ", "accel_selftest: ", "accelerate: " };
    static const char note[] = "accelerate: note: ";
    const char *best = "";
    size_t best_length = 0, best_mark = MARKS + 1;
    for (size_t length; text && *text; text += length + (text[length] == '\n')) {
        length = strcspn (text, "\n");
        const char *cpus = memmem (text, length, marks[WARNING], strlen (marks[WARNING]));
        const char *at = cpus ? cpus : text + strspn (text, " ");
        size_t mark = 0;
        while (mark < MARKS && strncmp (at, marks[mark], strlen (marks[mark])) != 0)
            mark++;
        size_t left = length - (size_t) (at - text);
        bool is_better = mark < best_mark || (mark == MARKS && best_mark == MARKS);
        if (!left || !strncmp (at, note, sizeof note - 1) || !is_better)
            continue;
        best_mark = mark;
        best = at + (mark == WARNING || mark == LAUNCH ? strlen (marks[mark]) : 0);
        best_length = left - (size_t) (best - at);
    }
    AUTO_STRBUF struct strbuf line = { 0 }, shown = { 0 };
    strbuf_add_bytes (&line, best, best_length);
    printable_add (&shown, line.text ? line.text : "");
    const char *reason = shown.text && *shown.text ? shown.text : "the launch failed without a message";
    snprintf (why, size, "%.*s%s", SHOWN_BYTES, reason, strlen (reason) > SHOWN_BYTES ? " ..." : "");
}

static void
diagnose (const struct check *check, struct check_transport *transport, const struct trial *trial, bool has_ended)
{
    transport->state = CHECK_TRANSPORT_FAILED;
    int links = take_links (check, transport, trial->said[0].text), all = check->count * (check->count - 1) / 2;
    if (!has_ended)
        snprintf (transport->why, sizeof transport->why, "no result within %g s", (double) check->launch_ms / 1000);
    else if (trial->status || links < all)
        find_reason (trial->said[1].text, transport->why, sizeof transport->why);
    else
        transport->state = CHECK_TRANSPORT_MEASURED;
}

static int
measure (struct check *check, struct check_transport *transport, const struct config *config, const char *selftest,
         struct fail *fail)
{
    AUTO_STRLIST struct strlist argv = { 0 };
    struct trial trial = { .pid = -1, .fds = { -1, -1 } };
    add_argv (check, config, selftest, transport == &check->nccl, &argv);
    if (argv.failed)
        return fail_nomem (fail);
    int result = start (&trial, &argv, fail);
    if (!result)
        diagnose (check, transport, &trial, wait_for (&trial, clock_ms () + check->launch_ms));
    release (&trial);
    return result;
}

/* ---- whether to try ---- */

static void
leave_out (struct check_transport *transport, const char *why)
{
    transport->state = CHECK_TRANSPORT_LEFT_OUT;
    snprintf (transport->why, sizeof transport->why, "%s", why);
}

/* @return whether a launch would come to nothing, for reasons that are known already */
static bool
has_obstacle (struct check *check, const char *selftest)
{
    const struct check_host *lacking = NULL;
    int lack = 0;
    for (int i = 0; i < check->count * check->count; i++)
        if (check->whys[i] || *check->port_why || check_is_lost (&check->items[i % check->count])) {
            leave_out (&check->mpi, "there are other problems");
            return true;
        }
    for (int i = 0; i < check->count; i++)
        if (check->items[i].no_engine) {
            lacking = &check->items[i];
            lack++;
        }
    if (!lack && selftest)
        return false;
    leave_out (&check->mpi, lack ? "no host has libaccel's engine for MPI" : "the self-test is not installed here");
    if (lack && lack < check->count)
        snprintf (check->mpi.why, sizeof check->mpi.why, "libaccel's engine for MPI cannot be used on host %s: %s",
                  lacking->link.name, lacking->no_engine);
    return true;
}

int
check_mpi_run (struct check *check, const struct config *config, const char *selftest, struct fail *fail)
{
    if (check->count < 2 || !strcmp (config->settings.mpi, "no") || has_obstacle (check, selftest))
        return 0;
    return measure (check, &check->mpi, config, selftest, fail);
}

/* @return whether NCCL could work between all hosts; if some have GPUs, `why` says what is missing */
static bool
have_gpus (struct check *check)
{
    const struct check_host *without = NULL, *lacking = NULL;
    bool has_any = false;
    for (int i = 0; i < check->count; i++) {
        const struct check_host *host = &check->items[i];
        has_any = has_any || host->gpus;
        without = host->gpus || check_is_lost (host) ? without : host;
        lacking = host->no_gpu_engine ? host : lacking;
    }
    if (!has_any || (!without && !lacking && check->mpi.state == CHECK_TRANSPORT_MEASURED))
        return has_any;
    leave_out (&check->nccl, "libaccel's ranks find each other through MPI, which was not measured");
    if (without)
        snprintf (check->nccl.why, sizeof check->nccl.why, "host %s has no GPU", without->link.name);
    else if (lacking)
        snprintf (check->nccl.why, sizeof check->nccl.why, "libaccel's engine for NCCL cannot be used on host %s: %s",
                  lacking->link.name, lacking->no_gpu_engine);
    return false;
}

int
check_nccl_run (struct check *check, const struct config *config, const char *selftest, struct fail *fail)
{
    const struct check_transport *transport = &check->nccl;
    if (check->count < 2 || !strcmp (config->settings.mpi, "no") || !have_gpus (check))
        return 0;
    if (measure (check, &check->nccl, config, selftest, fail))
        return -1;
    if (transport->state != CHECK_TRANSPORT_MEASURED)
        return 0;
    check->nccl_slow_count = slow_links_find (transport->rates, transport->trips, check->loads, check->count,
                                              check->nccl_slow, CHECK_SLOW_MOST);
    if (check->nccl_slow_count > CHECK_SLOW_MOST)
        check->nccl_slow_count = CHECK_SLOW_MOST;
    return 0;
}
