/* SPDX-License-Identifier: Apache-2.0 */
/* A job without processes: the clock, the ranks, their leftovers, the guardian and the readers of the output are the
 * test's.  Only pipes are real.  Hours pass in microseconds, and what the supervisor would wait for in vain, or look at
 * again and again, is found out.  Include it once. */
#ifndef TESTS_SUPERVISE_WORLD_H
#define TESTS_SUPERVISE_WORLD_H

#include "launch/machine/cgroup.h"
#include "launch/process/process.h"
#include "launch/job/supervisor.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/procfs.h"
#include "util/strbuf.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

enum { RANKS = 3, FIRST_PID = 1000, BEGIN_MS = 1000000, TURNS = 5000, MOST = 64, NEVER = -1 };

/* What happens by itself. */
enum what {
    END,      /* rank @who ends with wait status @value */
    SIGNAL,   /* the launcher gets signal @value, from the terminal if @who */
    GUARDIAN, /* the guardian dies */
    WRITE,    /* rank @who writes @text on its stdout */
    WRITE_ERR,
    FILL,     /* rank @who writes as much on its stdout as its pipe takes */
    TAKE,     /* the reader of stream @who takes @value bytes; 0: all, and from now on */
    LEFT,     /* the last leftover has ended */
    LOOK,     /* the test looks how much has come out on stdout */
    CUT,      /* a user truncates the file of rank @who's stdout */
};

struct happening {
    int64_t at_ms;
    enum what what;
    int who, value;
    const char *text;
    bool done;
};

static struct world {
    int64_t now;
    struct happening list[MOST];
    int count;
    struct watched {
        int fd;
        uint32_t events;
        uint64_t about;
    } watched[32];
    int watched_count, turns;
    const char *stuck; /* what went wrong in the loop itself */

    struct puppet {
        bool ended, reaped;
        bool is_unseen; /* its pidfd does not tell, but SIGCHLD, which may be one for several ends */
        int status;
        int heeds_ms; /* from a signal that asks to its end; NEVER */
        int dies_ms;  /* from SIGKILL to its end */
        int writer[JOB_STREAMS];
        size_t written;
    } ranks[RANKS];
    int guardian_dead, guardian_signal;
    int64_t oom_kills;

    bool has_left, left_is_stopped;
    int left_heeds_ms, left_kills; /* as above; how many SIGKILLs it takes; NEVER */
    int kills;

    size_t filled; /* bytes that were in the pipes before */
    int readers[JOB_STREAMS], sink_ends[JOB_STREAMS];
    bool reads[JOB_STREAMS];
    struct strbuf got[JOB_STREAMS];
    int64_t first_got_ms;
    size_t looked;
    int child_signals;
    int unseen_looks;    /* in which epoll does not yet report ends */
    bool signals_first;  /* of what happens at once, the launcher sees signals first; else last */
    int takes_after_look; /* the reader takes all just after the launcher has looked for the last time */

    struct strbuf said; /* signals sent: NAME TARGET@TIME */
    int signals[2];     /* in the place of the signalfd */
} world;

static struct supervisor loop;
static struct job the_job;
static struct plan the_plan;
static struct guardian the_guardian;

static void
at (int64_t ms, enum what what, int who, int value)
{
    if (world.count == MOST) {
        world.stuck = "too much happens";
        return;
    }
    world.list[world.count++] = (struct happening){ .at_ms = BEGIN_MS + ms, .what = what, .who = who, .value = value };
}

static void
end_all (int64_t at_ms)
{
    for (int i = 0; i < RANKS; i++)
        at (at_ms, END, i, 0);
}

/* Since the beginning. */
static int64_t
now_ms (void)
{
    return world.now - BEGIN_MS;
}

__attribute__ ((unused)) static void
at_text (int64_t ms, enum what what, int who, const char *text)
{
    at (ms, what, who, 0);
    world.list[world.count - 1].text = text;
}

static void
tell (int signal, bool of_terminal)
{
    struct signalfd_siginfo info = { .ssi_signo = (uint32_t) signal, .ssi_code = SI_QUEUE, .ssi_int = of_terminal };
    if (write (world.signals[1], &info, sizeof info) != sizeof info)
        world.stuck = "too many signals";
}

/* @return how many bytes the pipe took */
static size_t
fill (int fd)
{
    static const char text[1024] = { [0 ... 1022] = 'x', '\n' };
    size_t all = 0;
    for (ssize_t put; (put = write (fd, text, sizeof text)) > 0;)
        all += (size_t) put;
    return all;
}

static void
take (int which, size_t most)
{
    char bytes[4096];
    ssize_t length;
    while ((length = read (world.readers[which], bytes, most && most < sizeof bytes ? most : sizeof bytes)) > 0) {
        strbuf_add_bytes (&world.got[which], bytes, (size_t) length);
        if (!world.first_got_ms)
            world.first_got_ms = world.now;
        if (most && !(most -= (size_t) length))
            return;
    }
}

static void
end_puppet (struct puppet *puppet, int status)
{
    if (puppet->ended)
        return;
    puppet->ended = true;
    puppet->status = status;
    for (int i = 0; i < JOB_STREAMS && !world.has_left; i++) { /* what it has started holds the pipes, too */
        close (puppet->writer[i]);
        puppet->writer[i] = -1;
    }
    if (puppet->is_unseen && !world.child_signals++)
        tell (SIGCHLD, false);
}

static void
write_text (struct puppet *puppet, int which, const char *text)
{
    if (write (puppet->writer[which], text, strlen (text)) != (ssize_t) strlen (text))
        world.stuck = "a pipe is full";
    puppet->written += strlen (text);
}

static void
happen (struct happening *item)
{
    struct puppet *puppet = &world.ranks[item->what == SIGNAL || item->what == TAKE ? 0 : item->who];
    item->done = true;
    switch (item->what) {
    case END: end_puppet (puppet, item->value); break;
    case SIGNAL: tell (item->value, item->who); break;
    case GUARDIAN: world.guardian_dead = true; break;
    case WRITE: write_text (puppet, JOB_OUT, item->text); break;
    case WRITE_ERR: write_text (puppet, JOB_ERR, item->text); break;
    case FILL: puppet->written += fill (puppet->writer[JOB_OUT]); break;
    case TAKE:
        world.reads[item->who] |= !item->value;
        take (item->who, (size_t) item->value);
        break;
    case LEFT:
        world.has_left = false;
        tell (SIGCHLD, false);
        break;
    case LOOK: world.looked = world.got[JOB_OUT].length; break;
    case CUT:
        if (ftruncate (the_job.ranks[item->who].streams[JOB_OUT].log.fd, 0))
            world.stuck = "no file";
        break;
    }
}

static struct happening *
next_happening (void)
{
    struct happening *next = NULL;
    for (int i = 0; i < world.count; i++)
        if (!world.list[i].done && (!next || world.list[i].at_ms < next->at_ms))
            next = &world.list[i];
    return next;
}

/* ---- What the modules call. ---- */

static int
fake_kill (pid_t pid, int signal)
{
    int index = (pid < 0 ? -pid : pid) - FIRST_PID;
    struct puppet *puppet = &world.ranks[index];
    int after = signal == SIGKILL ? puppet->dies_ms : signal == SIGCONT ? NEVER : puppet->heeds_ms;
    strbuf_printf (&world.said, "%s %d@%lld ", sigabbrev_np (signal), (int) pid, (long long) now_ms ());
    if (!puppet->ended && after != NEVER && signals_end_job (signal))
        at (now_ms () + after, END, index, 0);
    else if (!puppet->ended && signal == SIGKILL)
        at (now_ms () + after, END, index, SIGKILL);
    return 0;
}

static pid_t
fake_waitpid (pid_t pid, int *status)
{
    *status = 0;
    for (int i = 0; i < RANKS; i++) {
        struct puppet *puppet = &world.ranks[i];
        if ((pid >= 0 && pid != FIRST_PID + i) || !puppet->ended || puppet->reaped)
            continue;
        puppet->reaped = true;
        *status = puppet->status;
        return FIRST_PID + i;
    }
    return 0;
}

/* Which child has ended, of those that are not reaped yet. */
static int
fake_waitid (siginfo_t *info)
{
    info->si_pid = 0;
    for (int i = 0; i < RANKS && !info->si_pid; i++)
        if (world.ranks[i].ended && !world.ranks[i].reaped)
            info->si_pid = FIRST_PID + i;
    return 0;
}

static bool
fake_is_ending (pid_t pid)
{
    return world.ranks[pid - FIRST_PID].ended;
}

static void
fake_descendants_signal (int signal)
{
    int64_t now = now_ms ();
    if (signal == SIGKILL && ++world.kills == world.left_kills)
        world.has_left = false; /* and nothing reports it */
    if (signal == SIGCONT)
        world.left_is_stopped = false;
    if (signal != SIGKILL || world.kills == 1)
        strbuf_printf (&world.said, "%s all@%lld ", sigabbrev_np (signal), (long long) now);
    if (signal == SIGCONT && world.left_heeds_ms != NEVER && strstr (world.said.text, "TERM all") && world.has_left)
        at (now + world.left_heeds_ms, LEFT, 0, 0);
}

static int
fake_epoll_ctl (int operation, int fd, const struct epoll_event *event)
{
    if (operation == EPOLL_CTL_ADD) {
        world.watched[world.watched_count++] = (struct watched){ fd, event->events, event->data.u64 };
        return 0;
    }
    for (int i = 0; i < world.watched_count; i++)
        if (world.watched[i].fd == fd)
            world.watched[i] = world.watched[--world.watched_count];
    return 0;
}

__attribute__ ((unused)) static bool
is_watched (uint64_t about, int index)
{
    for (int i = 0; i < world.watched_count; i++)
        if (world.watched[i].about == (about << 32 | (uint32_t) index))
            return true;
    return false;
}

static bool
is_ready (const struct watched *item)
{
    struct pollfd fd = { .fd = item->fd, .events = (short) item->events };
    const struct puppet *puppet = &world.ranks[(uint32_t) item->about % RANKS];
    switch (item->about >> 32) {
    case EVENT_RANK: return puppet->ended && !puppet->reaped && !puppet->is_unseen && !world.unseen_looks;
    case EVENT_GUARDIAN: return world.guardian_dead;
    default: return poll (&fd, 1, 0) == 1 && !(fd.revents & POLLNVAL);
    }
}

static int
find_ready (struct epoll_event *events)
{
    int count = 0;
    for (int i = 0; i < world.watched_count; i++) {
        const struct watched *item = &world.watched[world.signals_first ? i : world.watched_count - 1 - i];
        if (is_ready (item))
            events[count++] = (struct epoll_event){ .data.u64 = item->about };
    }
    return count;
}

static int
give_up (const char *why)
{
    world.stuck = why;
    loop.phase = PHASE_OVER;
    return 0;
}

static int
fake_epoll_wait (struct epoll_event *events, int timeout)
{
    int64_t until = timeout < 0 ? INT64_MAX : world.now + timeout;
    for (;;) {
        struct happening *next = next_happening ();
        for (int i = 0; i < JOB_STREAMS; i++)
            if (world.reads[i])
                take (i, 0);
        if (next && next->at_ms <= world.now) {
            happen (next);
            continue;
        }
        int count = find_ready (events);
        if (++world.turns > TURNS)
            return give_up ("it spins");
        world.unseen_looks -= count && world.unseen_looks;
        if (count)
            return count;
        if (!next && until == INT64_MAX)
            return give_up ("it waits for ever");
        if (!next || until < next->at_ms) {
            world.turns = until > world.now ? 0 : world.turns;
            world.now = until;
            return 0;
        }
        world.now = next->at_ms;
        world.turns = 0;
    }
}

/* The real one, and perhaps a reader who waited for just that. */
static void
drain_sink (struct output_sink *sink)
{
    output_sink_drain (sink);
    if (loop.phase == PHASE_OUTPUT && sink->count && world.takes_after_look && !--world.takes_after_look)
        for (int i = 0; i < JOB_STREAMS; i++)
            take (i, 0);
}

/* The modules themselves, in this world. */
#define clock_ms() (world.now)
#define kill(pid, signal) fake_kill (pid, signal)
#define getpgid(pid) (pid)
#define waitpid(pid, status, options) fake_waitpid (pid, status)
#define wait4(pid, status, options, usage) (*(usage) = (struct rusage){ 0 }, fake_waitpid (pid, status))
#define waitid(kind, id, info, options) fake_waitid (info)
#define procfs_is_ending(pid) fake_is_ending (pid)
#define descendants_reap() (!world.has_left)
#define descendants_signal(signal) fake_descendants_signal (signal)
#define cgroup_oom_kills() (world.oom_kills)
#define guardian_death_signal(guardian) (world.guardian_signal)
#define signalfd(fd, mask, flags) (world.signals[0])
#define epoll_ctl(epoll, operation, fd, event) ((void) (epoll), fake_epoll_ctl (operation, fd, event))
#define epoll_wait(epoll, events, count, timeout) ((void) (epoll), fake_epoll_wait (events, timeout))
#define output_sink_drain(sink) drain_sink (sink)
#include "launch/job/shutdown.c"
#include "launch/job/relay.c"
#include "launch/job/supervisor.c"
#include "launch/job/supervise.c"
#undef kill
#undef getpgid
#undef waitpid
#undef wait4
#undef waitid
#undef procfs_is_ending
#undef output_sink_drain

/* ---- Making and ending it. ---- */

static void
make_pipe (int ends[2], int bytes)
{
    if (pipe2 (ends, O_NONBLOCK | O_CLOEXEC) || (bytes && fcntl (ends[1], F_SETPIPE_SZ, bytes) < 0))
        exit (99);
}

static void
make_rank (int index)
{
    struct job_rank *rank = &the_job.ranks[index];
    struct puppet *puppet = &world.ranks[index];
    *puppet = (struct puppet){ .heeds_ms = 5 };
    the_plan.processes[index].rank = index;
    *rank = (struct job_rank){ .process = &the_plan.processes[index], .pid = FIRST_PID + index, .own_group = true };
    rank->pidfd = open ("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < JOB_STREAMS; i++) {
        int ends[2];
        make_pipe (ends, 0);
        rank->streams[i] = (struct output_stream){ .log.fd = -1 };
        if (output_stream_init (&rank->streams[i], ends[0], &the_job.pool, NULL))
            exit (99);
        puppet->writer[i] = ends[1];
    }
}

/* Three ranks that end 5 ms after they are asked to; readers that take everything. */
static void
make_world (void)
{
    static struct plan_process processes[RANKS];
    static struct job_rank ranks[RANKS];
    world = (struct world){ .now = BEGIN_MS, .oom_kills = 0, .guardian_signal = SIGKILL };
    the_plan = (struct plan){ .processes = processes, .process_count = RANKS, .world_size = RANKS, .grace_s = 30 };
    the_guardian = (struct guardian){ .pid = 1, .pidfd = open ("/dev/null", O_RDONLY | O_CLOEXEC) };
    the_job = (struct job){ .plan = &the_plan, .guardian = &the_guardian, .count = RANKS, .alive = RANKS,
                            .ranks = ranks, .port_lock = -1, .first_failed = -1,
                        .segment = JOBSEG_NONE, .pool.left = OUTPUT_POOL_BYTES };
    strbuf_add (&world.said, "");
    make_pipe (world.signals, 0);
    for (int i = 0; i < JOB_STREAMS; i++) {
        int ends[2];
        make_pipe (ends, 4096);
        world.readers[i] = ends[0];
        world.sink_ends[i] = ends[1];
        world.reads[i] = true;
        strbuf_add (&world.got[i], "");
        if (output_sink_init (&the_job.sinks[i], ends[1], "a pipe", NULL))
            exit (99);
        the_job.sink_of[i] = &the_job.sinks[i];
    }
    if (jobseg_create (&the_job.segment, RANKS, RANKS, 0, "test", NULL) || supervisor_init (&loop, &the_job, NULL))
        exit (99);
    for (int i = 0; i < RANKS; i++) {
        processes[i] = (struct plan_process){ .rank = i, .local_rank = i };
        make_rank (i);
        if (supervisor_add (&loop, i, NULL))
            exit (99);
    }
}

/* All that the readers have not taken yet, they take now. */
static void
run_world (void)
{
    supervise (&loop);
    for (int i = 0; i < JOB_STREAMS; i++)
        take (i, 0);
}

static void
end_world (const char *name)
{
    ok (!world.stuck, "%s: %s", name, world.stuck ? world.stuck : "it neither spins nor waits in vain");
    for (int i = 0; i < RANKS; i++) {
        for (int j = 0; j < JOB_STREAMS; j++) {
            output_stream_release (&the_job.ranks[i].streams[j]);
            if (world.ranks[i].writer[j] >= 0)
                close (world.ranks[i].writer[j]);
        }
        if (the_job.ranks[i].pidfd >= 0)
            close (the_job.ranks[i].pidfd);
        free (the_job.ranks[i].doing);
    }
    for (int i = 0; i < JOB_STREAMS; i++) {
        output_sink_release (&the_job.sinks[i]);
        close (world.readers[i]);
        close (world.sink_ends[i]);
        strbuf_release (&world.got[i]);
    }
    supervisor_release (&loop); /* signals[0], too */
    close (world.signals[1]);
    close (the_guardian.pidfd);
    jobseg_detach (&the_job.segment);
    strbuf_release (&world.said);
}

#endif
