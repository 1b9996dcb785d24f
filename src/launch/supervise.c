/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor: one epoll loop over the ends of ranks (pidfds), signals (a signalfd) and the ranks' output; deadlines
 * are its timeout.  It never polls and never waits for anything that a rank could withhold.
 *
 * pidfds, and not SIGCHLD alone, because epoll reports them in the order in which the ranks ended: when one rank's
 * death makes the others fail within microseconds, it is the first that the report has to name.  See supervise.h. */
#include <config.h>

#include "launch/supervise.h"

#include "launch/cgroup.h"
#include "launch/signals.h"
#include "launch/sweep.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

enum {
    TERMINAL_WAIT_MS = 250,     /* for the keeper to pass on what the terminal sent, when it has ended all ranks */
    LINE_WAIT_MS = 100,         /* an unfinished line (a prompt) is passed on after that */
    NAMED_LINE_WAIT_MS = 1000,  /* one that bears a name: another rank's would cut it, and busy machines pause ranks */
    REPEAT_MS = 250,            /* timeout(1) and the like send a signal to us and to our group: that is one */
    LEFTOVER_GRACE_MS = 2000,   /* for what ranks left behind */
    READER_STALL_MS = 30000,    /* at the end: a reader of ours that takes nothing for so long is given up */
    LEFTOVER_KILL_MS = 10000,   /* after which what SIGKILL does not end is left to the kernel */
};

/* What an epoll event is about; ranks are numbered from 0, streams and sinks as in job.h, those of rank 0 first. */
enum { ABOUT_RANK = 1, ABOUT_STREAM, ABOUT_SIGNAL, ABOUT_SINK, ABOUT_KEEPER };

static int
watch (struct supervisor *supervisor, int fd, uint32_t events, uint64_t about, int index)
{
    struct epoll_event event = { .events = events, .data.u64 = about << 32 | (uint32_t) index };
    return epoll_ctl (supervisor->epoll, EPOLL_CTL_ADD, fd, &event);
}

int
supervise_init (struct supervisor *supervisor, struct job *job, struct fail *fail)
{
    *supervisor = (struct supervisor){ .job = job, .epoll = -1, .signals = -1 };
    supervisor->signals = signalfd (-1, &job->keeper->signals, SFD_CLOEXEC | SFD_NONBLOCK);
    supervisor->epoll = epoll_create1 (EPOLL_CLOEXEC);
    if (supervisor->signals < 0 || supervisor->epoll < 0
        || watch (supervisor, supervisor->signals, EPOLLIN, ABOUT_SIGNAL, 0)
        || watch (supervisor, job->keeper->pidfd, EPOLLIN, ABOUT_KEEPER, 0)) {
        fail_set (fail, FAIL_GENERAL, "cannot watch processes: %s", strerror (errno));
        supervise_release (supervisor);
        return -1;
    }
    return 0;
}

int
supervise_add (struct supervisor *supervisor, int index, struct fail *fail)
{
    struct job_rank *rank = &supervisor->job->ranks[index];
    int result = watch (supervisor, rank->pidfd, EPOLLIN, ABOUT_RANK, index);
    for (int i = 0; i < JOB_STREAMS && result == 0; i++)
        if (rank->streams[i].fd >= 0)
            result = watch (supervisor, rank->streams[i].fd, EPOLLIN, ABOUT_STREAM, index * JOB_STREAMS + i);
    return result ? fail_set (fail, FAIL_GENERAL, "cannot watch rank %d: %s", rank->process->rank, strerror (errno))
                  : 0;
}

void
supervise_release (struct supervisor *supervisor)
{
    if (supervisor->epoll >= 0)
        close (supervisor->epoll);
    if (supervisor->signals >= 0)
        close (supervisor->signals);
    supervisor->epoll = supervisor->signals = -1;
    /* The mask stays: a signal that comes now must not take away the exit status that the job has earned. */
}

/* A rank that has its own group gets the signal with all its children.  One that is in the keeper's, because it reads
 * the terminal, has got a signal of the terminal already. */
static void
signal_ranks (struct supervisor *supervisor, int signal, bool of_terminal)
{
    const struct job *job = supervisor->job;
    for (int i = 0; i < job->count; i++) {
        const struct job_rank *rank = &job->ranks[i];
        if (!rank->pid || rank->ended || (!rank->own_group && of_terminal))
            continue;
        kill (rank->own_group ? -rank->pid : rank->pid, signal);
    }
}

static void
kill_ranks (struct supervisor *supervisor)
{
    supervisor->deadline_ms = 0;
    supervisor->job->killed = supervisor->job->alive;
    signal_ranks (supervisor, SIGKILL, false);
}

/* Ask all to end, and set the time when we shall no longer ask. */
static void
stop_ranks (struct supervisor *supervisor, int signal, bool of_terminal)
{
    int64_t grace_s = supervisor->job->plan->grace_s;
    if (grace_s <= 0) {
        kill_ranks (supervisor);
        return;
    }
    supervisor->deadline_ms = clock_ms () + grace_s * 1000;
    signal_ranks (supervisor, signal, of_terminal);
    signal_ranks (supervisor, SIGCONT, false); /* a stopped one could not end */
}

/* What the others were doing is of interest at the moment of the failure, not after they were told to end. */
static void
note_failure (struct supervisor *supervisor, int index)
{
    struct job *job = supervisor->job;
    const struct job_rank *failed = &job->ranks[index];
    job->end = JOB_FAILED;
    job->first_failed = index;
    if (WIFSIGNALED (failed->wait_status) && WTERMSIG (failed->wait_status) == SIGKILL)
        job->out_of_memory = job->oom_kills_before >= 0 && cgroup_oom_kills () > job->oom_kills_before;
    for (int i = 0; i < job->count; i++) {
        struct jobseg_slot *slot = jobseg_slot (&job->segment, i);
        char text[320];
        if (job->ranks[i].ended && i != index)
            continue;
        jobseg_describe (slot, text, sizeof text);
        if (atomic_load (&slot->state) != JOBSEG_EMPTY)
            job->ranks[i].doing = strdup (text);
    }
}

static struct output_stream *
stream_of (struct job *job, int number)
{
    return &job->ranks[number / JOB_STREAMS].streams[number % JOB_STREAMS];
}

static struct output_sink *
sink_of (struct job *job, int number)
{
    return job->sink_of[number % JOB_STREAMS];
}

/* Once: a full disk would have a line for each that a rank writes. */
static void
tell_of_loss (struct job *job, const struct logfile *log)
{
    char line[512];
    if (!log->error || job->told_of_loss)
        return;
    job->told_of_loss = true;
    snprintf (line, sizeof line, "accelerate: warning: %s: %s; the ranks go on, and the file lacks some of their lines",
              log->path, strerror (log->error));
    output_sink_say (job->sink_of[JOB_ERR], line);
}

static void
read_stream (struct supervisor *supervisor, int number)
{
    struct job *job = supervisor->job;
    struct output_stream *stream = stream_of (job, number);
    if (stream->fd < 0)
        return;
    /* Closing takes it out of the epoll set too: nobody else holds the reading end. */
    if (!output_stream_read (stream, sink_of (job, number), clock_ms ()))
        output_stream_end (stream, sink_of (job, number));
    tell_of_loss (job, &stream->log);
}

static void
end_rank (struct supervisor *supervisor, int index, int wait_status)
{
    struct job *job = supervisor->job;
    struct job_rank *rank = &job->ranks[index];
    rank->ended = true;
    rank->wait_status = wait_status;
    job->alive--;
    jobseg_mark_exit (&job->segment, index, wait_status);
    close (rank->pidfd);
    rank->pidfd = -1;
    if (wait_status == 0 || job->end != JOB_DONE)
        return;
    for (int i = 0; i < JOB_STREAMS; i++) /* its last words, before others write about their own end */
        read_stream (supervisor, index * JOB_STREAMS + i);
    note_failure (supervisor, index);
    stop_ranks (supervisor, SIGTERM, false);
}

static void
reap_rank (struct supervisor *supervisor, int index)
{
    struct job_rank *rank = &supervisor->job->ranks[index];
    int status;
    if (!rank->ended && waitpid (rank->pid, &status, WNOHANG) == rank->pid)
        end_rank (supervisor, index, status);
}

/* Orphans of the job come to us, for we are their subreaper; as zombies they must not stay. */
static void
reap_orphans (struct supervisor *supervisor)
{
    const struct job *job = supervisor->job;
    int status;
    for (pid_t pid; (pid = waitpid (-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < job->count; i++)
            if (job->ranks[i].pid == pid && !job->ranks[i].ended) {
                end_rank (supervisor, i, status);
                break;
            }
}

/* A terminal signals the ranks itself, and the end of one may be seen before the signal is. */
static bool
died_of (const struct job *job, int signal)
{
    int status = job->ranks[job->first_failed].wait_status;
    return WIFSIGNALED (status) && WTERMSIG (status) == signal;
}

static void
end_job (struct supervisor *supervisor, int signal, bool of_terminal)
{
    struct job *job = supervisor->job;
    if (!supervisor->told_ms) {
        supervisor->told_ms = clock_ms ();
        if (job->end == JOB_DONE) {
            job->end = JOB_TOLD;
            job->signal = signal;
        }
        if (job->end == JOB_FAILED && of_terminal && died_of (job, signal)) {
            job->end = JOB_TOLD;
            job->signal = signal;
        }
        stop_ranks (supervisor, signal, of_terminal);
    } else if (clock_ms () - supervisor->told_ms > REPEAT_MS && (signal == SIGINT || signal == SIGTERM))
        kill_ranks (supervisor); /* somebody is impatient */
}

static void
take_signal (struct supervisor *supervisor, const struct signalfd_siginfo *info)
{
    int signal = (int) info->ssi_signo;
    bool of_terminal = info->ssi_code == SI_QUEUE && info->ssi_int == KEEPER_SIGNAL_OF_TERMINAL;
    if (signal == SIGCHLD)
        reap_orphans (supervisor);
    else if (signals_end_job (signal))
        end_job (supervisor, signal, of_terminal);
    else
        signal_ranks (supervisor, signal, of_terminal);
}

static void
take_signals (struct supervisor *supervisor)
{
    struct signalfd_siginfo infos[8];
    ssize_t length;
    while ((length = read (supervisor->signals, infos, sizeof infos)) > 0)
        for (size_t i = 0; i < (size_t) length / sizeof *infos; i++)
            take_signal (supervisor, &infos[i]);
}

static void
watch_sink (struct supervisor *supervisor, int which)
{
    const struct output_sink *sink = &supervisor->job->sinks[which];
    bool wanted = !output_sink_is_empty (sink);
    if (wanted == supervisor->sink_is_watched[which])
        return;
    if (wanted)
        watch (supervisor, sink->fd, EPOLLOUT, ABOUT_SINK, which);
    else
        epoll_ctl (supervisor->epoll, EPOLL_CTL_DEL, sink->fd, NULL);
    supervisor->sink_is_watched[which] = wanted;
}

/* Write what our readers take.  While they are slow, nothing more is read from ranks without files; they wait, as they
 * would have without us.  Ranks whose lines wait in files have their turn one after the other. */
static void
balance_output (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    int count = job->count * JOB_STREAMS;
    int64_t now = clock_ms ();
    for (int i = 0; i < JOB_STREAMS; i++)
        output_sink_drain (&job->sinks[i]);
    unsigned first = supervisor->turn++;
    for (int i = 0; i < count; i++) {
        int number = (int) ((first + (unsigned) i) % (unsigned) count);
        struct output_stream *stream = stream_of (job, number);
        output_stream_catch_up (stream, sink_of (job, number), now);
        bool paused = !output_stream_can_read (stream, sink_of (job, number));
        if (stream->fd < 0 || stream->paused == paused)
            continue;
        if (paused) /* watched for nothing it would still report the end of its writer, again and again */
            epoll_ctl (supervisor->epoll, EPOLL_CTL_DEL, stream->fd, NULL);
        else
            watch (supervisor, stream->fd, EPOLLIN, ABOUT_STREAM, number);
        stream->paused = paused;
    }
    for (int i = 0; i < JOB_STREAMS; i++)
        watch_sink (supervisor, i);
}

/* Pass on lines that stay unfinished, and find the time until something is due.  @return for epoll_wait() */
static int
keep_deadlines (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    int64_t now = clock_ms (), next = INT64_MAX;
    if (supervisor->deadline_ms && now >= supervisor->deadline_ms) {
        job->out_of_grace = true;
        kill_ranks (supervisor);
    }
    if (supervisor->deadline_ms)
        next = supervisor->deadline_ms;
    for (int i = 0; i < job->count * JOB_STREAMS; i++) {
        struct output_stream *stream = stream_of (job, i);
        if (!stream->line.length)
            continue;
        int64_t due = stream->line_since_ms + (stream->prefix ? NAMED_LINE_WAIT_MS : LINE_WAIT_MS);
        if (due > now)
            next = due < next ? due : next;
        else if (output_stream_is_idle (stream))
            output_stream_flush (stream, sink_of (job, i));
    }
    return next == INT64_MAX ? -1 : next - now > 3600000 ? 3600000 : (int) (next - now);
}

/* The keeper was killed: nobody waits for the job any more, and nobody else could end it. */
static void
lose_keeper (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    epoll_ctl (supervisor->epoll, EPOLL_CTL_DEL, job->keeper->pidfd, NULL);
    supervisor->keeper_is_lost = true;
    job->end = JOB_TOLD;
    job->signal = SIGKILL;
    kill_ranks (supervisor);
}

/* Ends first, in their order, so that the first failure is the first. */
static void
take_events (struct supervisor *supervisor, const struct epoll_event *events, int count)
{
    bool signals = false;
    for (int i = 0; i < count; i++) {
        uint64_t about = events[i].data.u64 >> 32;
        int index = (int) (uint32_t) events[i].data.u64;
        if (about == ABOUT_RANK)
            reap_rank (supervisor, index);
        else if (about == ABOUT_SIGNAL)
            signals = true;
        else if (about == ABOUT_KEEPER)
            lose_keeper (supervisor);
    }
    if (signals)
        take_signals (supervisor);
    for (int i = 0; i < count; i++)
        if (events[i].data.u64 >> 32 == ABOUT_STREAM)
            read_stream (supervisor, (int) (uint32_t) events[i].data.u64);
}

/* @return whether nothing is left; false at the deadline, or when a signal says that it takes too long */
static bool
wait_leftovers (int64_t deadline)
{
    sigset_t set;
    sigemptyset (&set);
    sigaddset (&set, SIGCHLD);
    sigaddset (&set, SIGINT);
    sigaddset (&set, SIGTERM);
    while (!sweep_reap ()) {
        int64_t left = deadline - clock_ms ();
        if (left <= 0)
            return false;
        struct timespec wait = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
        int signal = sigtimedwait (&set, NULL, &wait);
        if (signal == SIGINT || signal == SIGTERM)
            return false;
    }
    return true;
}

/* Processes that ranks have started and left behind.  All of them are our descendants, because orphans come to us; so
 * without a child there is nothing to end, and /proc is not read. */
static void
end_leftovers (const struct supervisor *supervisor)
{
    if (sweep_reap ())
        return;
    if (!supervisor->keeper_is_lost) {
        sweep_signal (SIGTERM);
        sweep_signal (SIGCONT);
        if (wait_leftovers (clock_ms () + LEFTOVER_GRACE_MS))
            return;
    }
    sweep_kill (LEFTOVER_KILL_MS);
}

/* @return whether the reader of @p sink took something; false when it stands still, or somebody has no patience */
static bool
wait_reader (struct supervisor *supervisor, struct output_sink *sink)
{
    size_t left = sink->pending.length - sink->written;
    struct pollfd fds[] = { { .fd = sink->fd, .events = POLLOUT }, { .fd = supervisor->signals, .events = POLLIN } };
    int64_t deadline = clock_ms () + READER_STALL_MS;
    for (int64_t now; (now = clock_ms ()) < deadline;) {
        struct signalfd_siginfo info;
        if (poll (fds, 2, (int) (deadline - now)) < 0 && errno != EINTR)
            return false;
        while (read (supervisor->signals, &info, sizeof info) == sizeof info)
            if (signals_end_job ((int) info.ssi_signo))
                return false;
        output_sink_drain (sink);
        if (sink->broken || sink->pending.length - sink->written != left)
            return !sink->broken;
    }
    return false;
}

/* All that the ranks have written is passed on, however slowly it is read. */
static void
finish_output (struct supervisor *supervisor)
{
    struct job *job = supervisor->job;
    bool goes_on = true;
    for (int i = 0; i < job->count * JOB_STREAMS; i++) {
        struct output_stream *stream = stream_of (job, i);
        struct output_sink *sink = sink_of (job, i);
        do
            read_stream (supervisor, i);
        while (stream->fd >= 0 && !output_stream_can_read (stream, sink)
               && (goes_on = goes_on && wait_reader (supervisor, sink)));
        output_stream_end (stream, sink);
        while (!output_stream_catch_up (stream, sink, 0) && (goes_on = goes_on && wait_reader (supervisor, sink)))
            ;
    }
    for (int i = 0; i < JOB_STREAMS; i++) {
        struct output_sink *sink = &job->sinks[i];
        output_sink_drain (sink);
        while (!output_sink_is_empty (sink) && goes_on)
            goes_on = wait_reader (supervisor, sink);
    }
}

static void
loop (struct supervisor *supervisor)
{
    struct epoll_event events[256];
    while (supervisor->job->alive > 0) {
        int timeout = keep_deadlines (supervisor);
        balance_output (supervisor);
        if (supervisor->job->alive == 0)
            break;
        int count = epoll_wait (supervisor->epoll, events, sizeof events / sizeof *events, timeout);
        take_events (supervisor, events, count);
    }
}

/* All ranks may be gone before the keeper has passed on what the terminal sent to all of us. */
static void
await_terminal (struct supervisor *supervisor)
{
    const struct job *job = supervisor->job;
    struct pollfd fd = { .fd = supervisor->signals, .events = POLLIN };
    int64_t deadline = clock_ms () + TERMINAL_WAIT_MS;
    while (job->end == JOB_FAILED && !supervisor->told_ms && (died_of (job, SIGINT) || died_of (job, SIGQUIT))) {
        int64_t left = deadline - clock_ms ();
        if (left <= 0 || (poll (&fd, 1, (int) left) < 0 && errno != EINTR))
            return;
        take_signals (supervisor);
    }
}

void
supervise (struct supervisor *supervisor)
{
    loop (supervisor);
    await_terminal (supervisor);
    end_leftovers (supervisor);
    finish_output (supervisor);
}

void
supervise_abandon (struct supervisor *supervisor)
{
    supervisor->job->end = JOB_TOLD; /* no rank is to blame */
    stop_ranks (supervisor, SIGTERM, false);
    supervise (supervisor);
}
