/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher below an agent; see child.h. */
#include <config.h>

#include "hosts/agent/child.h"

#include "launch/output/terminal.h"
#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/procfs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    IDLE_MS = 100,    /* after which an unfinished line that the user may be waiting for is passed on */
    LINE_IDLE_MS = 1000, /* and any other: the launcher passes on whole lines, but may be stopped inside one */
    START_MS = 60000, /* until the supervisor's loop runs, at most */
    LAST_MS = 10000,  /* between its last words and its end; the guardian has its end to see, too */
    LATE_READS = 256, /* after the end of the launcher: more than what a pipe or a terminal holds */
};

void
agent_child_init (struct agent_child *child)
{
    *child = (struct agent_child){ .pidfd = -1, .in = -1, .said = { .in = -1, .out = -1 } };
    for (int i = 0; i < AGENT_CHILD_STREAMS; i++)
        child->streams[i] = (struct agent_stream){ .fd = -1, .type = i ? WIRE_ERR : WIRE_OUT,
                                                   .part_type = i ? WIRE_ERR_PART : WIRE_OUT_PART };
}

static void
expect_keepalive (struct agent_child *child, int64_t silence_ms)
{
    child->heard_ms = clock_ms ();
    child->alive_ms = child->heard_ms + silence_ms;
}

static struct winsize
size_of (const struct job_spec *spec)
{
    return (struct winsize){ .ws_row = (unsigned short) spec->rows, .ws_col = (unsigned short) spec->columns };
}

static void
close_ends (int ends[2])
{
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close (ends[i]);
    ends[0] = ends[1] = -1;
}

static int
open_stream (struct agent_stream *stream, const struct job_spec *spec, bool is_terminal, int *end, struct fail *fail)
{
    struct winsize size = size_of (spec);
    int ends[2] = { -1, -1 };
    /* If the head writes to a terminal, the launcher does, too: it names ranks then, and they write line by line. */
    if (is_terminal && terminal_open (ends) == 0)
        ioctl (ends[1], TIOCSWINSZ, &size);
    if (ends[0] < 0 && pipe_make (ends, fail))
        return -1;
    fcntl (ends[0], F_SETFL, O_NONBLOCK);
    stream->fd = ends[0];
    stream->length = 0;
    stream->is_terminal = is_terminal;
    stream->has_begun = false;
    *end = ends[1];
    if (!stream->text)
        stream->text = malloc (WIRE_OUTPUT_BYTES);
    return stream->text ? 0 : fail_nomem (fail);
}

/* In the new process.  The agent's own connection was standard input and output, and is closed by what replaces it. */
static _Noreturn void
run_child (const struct job_spec *spec, const struct host_job *host_job, host_job_run *run, const sigset_t *mask,
           const int ends[2], int in, pid_t agent)
{
    dup2 (in >= 0 ? in : open ("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    dup2 (ends[0], 1);
    dup2 (ends[1], 2);
    close (ends[0]);
    if (ends[1] != ends[0])
        close (ends[1]);
    prctl (PR_SET_PDEATHSIG, SIGTERM); /* a killed agent tells no other process */
    sigprocmask (SIG_SETMASK, mask, NULL);
    if (getppid () != agent)
        _exit (FAIL_GENERAL);
    struct config config = spec->config;
    int status = run (&config, host_job);
    fflush (NULL);
    _exit (status < 0 ? FAIL_GENERAL : status);
}

static int
fork_child (struct agent_child *child, const struct job_spec *spec, struct host_job *host_job, host_job_run *run,
            const sigset_t *mask, int ends[2], int in, struct fail *fail)
{
    int said[2];
    pid_t agent = getpid ();
    if (pipe_make (said, fail))
        return -1;
    host_job->agent = said[1];
    host_job->agent_pid = agent;
    pid_t pid = fork ();
    if (pid == 0) {
        close (said[0]);
        for (int i = 0; i < AGENT_CHILD_STREAMS; i++)
            if (child->streams[i].fd >= 0)
                close (child->streams[i].fd);
        if (child->in >= 0)
            close (child->in); /* or its reader would never see its end */
        run_child (spec, host_job, run, mask, ends, in, agent);
    }
    int error = errno;
    close (said[1]);
    child->pidfd = pid > 0 ? (int) syscall (SYS_pidfd_open, pid, 0) : -1;
    if (child->pidfd < 0) {
        error = pid > 0 ? errno : error;
        close (said[0]);
        if (pid > 0) {
            kill (pid, SIGKILL);
            waitpid (pid, NULL, 0);
        }
        return status_fail_start (error, fail);
    }
    pipe_init (&child->said, said[0], said[0]);
    child->pid = pid;
    expect_keepalive (child, START_MS);
    return 0;
}

static void
close_input (struct agent_child *child)
{
    if (child->in >= 0)
        close (child->in);
    child->in = -1;
    child->fed = 0;
    child->input_has_ended = false;
    strbuf_release (&child->input);
}

/* @return the end for the launcher in @end; -1: it gets none */
static int
open_input (struct agent_child *child, const struct job_spec *spec, int *end, struct fail *fail)
{
    int ends[2];
    close_input (child);
    if (!spec->has_input || spec->host)
        return 0;
    if (pipe_make (ends, fail))
        return -1;
    fcntl (ends[1], F_SETFL, O_NONBLOCK);
    child->in = ends[1];
    *end = ends[0];
    return 0;
}

static void
close_stream (struct agent_stream *stream)
{
    if (stream->fd >= 0)
        close (stream->fd);
    stream->fd = -1;
}

/* The launcher finds that out when it writes, and closes what its ranks write to. */
void
agent_child_lose_reader (struct agent_child *child)
{
    child->lacks_reader = true;
    close_stream (&child->streams[0]);
}

int
agent_child_start (struct agent_child *child, const struct job_spec *spec, const struct host_job *given,
                   host_job_run *run, const sigset_t *mask, struct fail *fail)
{
    struct host_job host_job = *given;
    int ends[2] = { -1, -1 }, in = -1, result = 0;
    child->has_ended = false;
    child->late_reads = 0;
    child->worker = 0;
    child->silent_ms = 0;
    prctl (PR_SET_CHILD_SUBREAPER, 1); /* what a killed launcher leaves behind comes to us; not inherited */
    if (open_input (child, spec, &in, fail))
        result = -1;
    if (result == 0 && open_stream (&child->streams[0], spec, spec->is_terminal[0], &ends[0], fail))
        result = -1;
    if (result == 0 && spec->is_one_file && child->streams[0].fd >= 0)
        ends[1] = ends[0]; /* one file there, one file here: lines keep their order */
    else if (result == 0)
        result = open_stream (&child->streams[1], spec, spec->is_terminal[1], &ends[1], fail);
    if (result == 0)
        result = fork_child (child, spec, &host_job, run, mask, ends, in, fail);
    if (in >= 0)
        close (in);
    if (ends[1] == ends[0])
        ends[1] = -1;
    close_ends (ends);
    if (child->lacks_reader)
        close_stream (&child->streams[0]);
    return result;
}

/* Once it has been waited for, its number may belong to another process. */
void
agent_child_kill (const struct agent_child *child, int signal)
{
    if (child->pid && !child->has_ended)
        kill (child->pid, signal);
}

void
agent_child_fail (const struct agent_child *child, int signal)
{
    const union sigval value = { .sival_int = GUARDIAN_SIGNAL_OF_FAILURE };
    if (child->pid && !child->has_ended)
        sigqueue (child->pid, signal, value);
}

void
agent_child_resize (const struct agent_child *child, const struct job_spec *spec)
{
    struct winsize size = size_of (spec);
    for (int i = 0; i < AGENT_CHILD_STREAMS; i++)
        if (child->streams[i].is_terminal && child->streams[i].fd >= 0)
            ioctl (child->streams[i].fd, TIOCSWINSZ, &size);
}

void
agent_child_poll (const struct agent_child *child, struct pollfd fds[AGENT_CHILD_FDS], bool is_lost)
{
    for (int i = 0; i < AGENT_CHILD_STREAMS; i++) {
        const struct agent_stream *stream = &child->streams[i];
        bool may_read = is_lost || (child->unread < WIRE_WINDOW_BYTES && stream->length < WIRE_OUTPUT_BYTES);
        fds[i] = (struct pollfd){ .fd = may_read ? stream->fd : -1, .events = POLLIN };
    }
    fds[AGENT_CHILD_STREAMS] = (struct pollfd){ .fd = child->said.in, .events = POLLIN };
    fds[AGENT_CHILD_STREAMS + 1] = (struct pollfd){ .fd = child->has_ended ? -1 : child->pidfd, .events = POLLIN };
    fds[AGENT_CHILD_STREAMS + 2] = (struct pollfd){ .fd = child->fed < child->input.length ? child->in : -1,
                                                    .events = POLLOUT };
    fds[AGENT_CHILD_STREAMS + 3] = (struct pollfd){ .fd = agent_watch_fd (&child->watch), .events = POLLIN };
}

/* When its unfinished line is passed on. */
static int64_t
due_of (const struct agent_stream *stream)
{
    bool is_bar = stream->length && memchr (stream->text, '\r', stream->length);
    if (!stream->length)
        return INT64_MAX;
    return stream->since_ms + (is_bar || stream->is_terminal ? IDLE_MS : LINE_IDLE_MS);
}

int64_t
agent_child_deadline (const struct agent_child *child)
{
    int64_t watch_ms = agent_watch_deadline (&child->watch);
    int64_t until = child->pid && !child->has_ended ? child->alive_ms : INT64_MAX;
    for (int i = 0; i < AGENT_CHILD_STREAMS; i++)
        if (due_of (&child->streams[i]) < until)
            until = due_of (&child->streams[i]);
    return watch_ms < until ? watch_ms : until;
}

/* If the reader has gone, the rest is dropped, and the head need not know. */
static void
feed (struct agent_child *child, struct strbuf *out)
{
    size_t left = child->input.length - child->fed;
    ssize_t put = left ? write (child->in, child->input.text + child->fed, left) : 0;
    if (put < 0 && errno != EAGAIN && errno != EINTR)
        close_input (child);
    if (put > 0) {
        child->fed += (size_t) put;
        if (out)
            wire_put_frame (out, WIRE_TAKEN, put);
    }
    if (child->fed < child->input.length)
        return;
    strbuf_truncate (&child->input, 0);
    child->fed = 0;
    if (child->input_has_ended)
        close_input (child);
}

void
agent_child_feed (struct agent_child *child, const char *bytes, size_t length)
{
    if (child->in < 0)
        return;
    strbuf_add_bytes (&child->input, bytes, length);
    child->input_has_ended |= !length || child->input.failed;
    if (!length)
        feed (child, NULL);
}

static void
pass_on (struct agent_child *child, struct agent_stream *stream, size_t length, bool is_part, struct strbuf *out)
{
    if (!length)
        return;
    stream->has_begun = !is_part && stream->text[length - 1] != '\n';
    if (out) {
        size_t begin = wire_begin (out, is_part ? stream->part_type : stream->type);
        strbuf_add_bytes (out, stream->text, length);
        wire_end (out, begin);
        child->unread += (int64_t) length;
    }
    stream->length -= length;
    memmove (stream->text, stream->text + length, stream->length);
}

/* All if it continues a line that has been passed on already. */
static size_t
whole_lines (const struct agent_stream *stream)
{
    const char *end = memrchr (stream->text, '\n', stream->length);
    return end ? (size_t) (end + 1 - stream->text) : stream->has_begun ? stream->length : 0;
}

/* @return whether there was something */
static bool
read_stream (struct agent_child *child, struct agent_stream *stream, struct strbuf *out)
{
    ssize_t got = read (stream->fd, stream->text + stream->length, WIRE_OUTPUT_BYTES - stream->length);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) { /* EIO is the end of a terminal */
        close_stream (stream);
        pass_on (child, stream, stream->length, false, out);
        return false;
    }
    bool is_first = !stream->length;
    stream->length += (size_t) got;
    size_t lines = whole_lines (stream);
    if (is_first || lines)
        stream->since_ms = clock_ms ();
    pass_on (child, stream, lines, false, out);
    if (stream->length == WIRE_OUTPUT_BYTES)
        pass_on (child, stream, stream->length, true, out);
    return true;
}

static void
copy_frame (struct strbuf *out, const struct wire_frame *frame)
{
    size_t begin = wire_begin (out, frame->type);
    strbuf_add_bytes (out, frame->at, frame->left);
    wire_end (out, begin);
}

static void
take_alive (struct agent_child *child, struct wire_frame *frame)
{
    child->worker = (pid_t) wire_number (frame);
    expect_keepalive (child, wire_number (frame));
}

static void
take_end (struct agent_child *child, const struct wire_frame *frame)
{
    copy_frame (&child->end, frame);
    expect_keepalive (child, LAST_MS);
}

/* A failure is passed on at once, the end after the last output.  @return false at the end of what it says */
static bool
read_said (struct agent_child *child, struct strbuf *out)
{
    struct wire_frame frame;
    bool is_open = pipe_fill (&child->said);
    while (pipe_next (&child->said, &frame) > 0)
        if (frame.type == WIRE_ALIVE)
            take_alive (child, &frame);
        else if (frame.type == WIRE_END)
            take_end (child, &frame);
        else if (out)
            copy_frame (out, &frame);
    if (!is_open)
        pipe_close (&child->said);
    return is_open;
}

static bool
has_more_to_say (const struct agent_child *child)
{
    int bytes = 0;
    return child->said.in >= 0 && !ioctl (child->said.in, FIONREAD, &bytes) && bytes;
}

/* It says what has become of its ranks before the files that it shares with MPI proxies are closed. */
bool
agent_child_is_busy (struct agent_child *child, struct strbuf *out)
{
    while (has_more_to_say (child) && read_said (child, out))
        ;
    return child->pid && !child->has_ended && !child->end.length;
}

static char
state_of (pid_t pid)
{
    struct procfs_stat stat;
    return pid > 0 && procfs_read_stat (pid, &stat) ? stat.state : 0;
}

static bool
is_stopped (pid_t pid)
{
    char state = state_of (pid);
    return state == 'T' || state == 't';
}

void
agent_child_forgive (struct agent_child *child, int64_t ms)
{
    child->alive_ms += ms;
}

/* Without the launcher, and so without its report.  Ranks end, too: they are below it. */
void
agent_child_kill_all (struct agent_child *child)
{
    struct pollfd ended = { .fd = child->pidfd, .events = POLLIN };
    if (child->pid && !child->has_ended) {
        kill (child->pid, SIGKILL);
        poll (&ended, 1, DESCENDANTS_KILL_MS);
        if (waitpid (child->pid, &child->wait_status, WNOHANG) != child->pid)
            child->wait_status = SIGKILL;
        child->has_ended = true;
    }
    descendants_kill (DESCENDANTS_KILL_MS);
}

/* A file server that does not answer holds the ranks, too, and may answer again. */
static void
give_up (struct agent_child *child)
{
    int64_t now = clock_ms ();
    if (state_of (child->worker) == 'D') {
        child->alive_ms += now - child->heard_ms;
        return;
    }
    child->silent_ms = now - child->heard_ms;
    child->stopped = is_stopped (child->worker) ? child->worker : is_stopped (child->pid) ? child->pid : 0;
    agent_child_kill_all (child);
}

static void
describe_silence (const struct agent_child *child, char *text, size_t size)
{
    int length = snprintf (text, size, "accelerate: the launcher on this host gave no sign of life for %lld s",
                           (long long) child->silent_ms / 1000);
    if (child->stopped)
        snprintf (text + length, size - (size_t) length, ": its process %d was stopped, as by SIGSTOP\n",
                  (int) child->stopped);
    else
        snprintf (text + length, size - (size_t) length, "\n");
}

/* A launcher that has ended silently was killed. */
static void
make_end (struct agent_child *child)
{
    char text[160];
    int status = child->silent_ms ? FAIL_GENERAL : status_of_wait (child->wait_status);
    if (child->silent_ms)
        describe_silence (child, text, sizeof text);
    else if (WIFSIGNALED (child->wait_status))
        snprintf (text, sizeof text, "accelerate: the launcher on this host was killed by signal %d\n",
                  WTERMSIG (child->wait_status));
    else
        snprintf (text, sizeof text, "accelerate: the launcher on this host ended with status %d and no report\n",
                  status);
    wire_put_end (&child->end, WIRE_END_ERROR, status ? status : FAIL_GENERAL, text, NULL);
}

/* The launcher has ended.  What it has written is read up to its end, or to where nothing is left: processes that could
 * not be killed may still hold the pipes, and write for ever. */
static void
finish (struct agent_child *child, struct strbuf *out)
{
    for (int i = 0; i < AGENT_CHILD_STREAMS; i++) {
        struct agent_stream *stream = &child->streams[i];
        while (out && stream->fd >= 0) {
            if (child->unread >= WIRE_WINDOW_BYTES)
                return; /* the head takes no more for now */
            if (++child->late_reads > LATE_READS || !read_stream (child, stream, out))
                break;
        }
        close_stream (stream);
        pass_on (child, stream, stream->length, false, out);
    }
    while (has_more_to_say (child) && read_said (child, out))
        ;
    agent_watch_end (&child->watch, out);
    if (!child->end.length)
        make_end (child);
    if (out)
        strbuf_add_bytes (out, child->end.text, child->end.length);
    strbuf_release (&child->end);
    pipe_close (&child->said);
    close (child->pidfd);
    child->pidfd = -1;
    child->pid = 0;
    close_input (child);
}

void
agent_child_take (struct agent_child *child, const struct pollfd fds[AGENT_CHILD_FDS], struct strbuf *out)
{
    int64_t now = clock_ms ();
    if (!child->pid)
        return;
    agent_watch_turn (&child->watch, out);
    if (fds[AGENT_CHILD_STREAMS + 2].revents && child->in >= 0)
        feed (child, out);
    for (int i = 0; i < AGENT_CHILD_STREAMS; i++) {
        struct agent_stream *stream = &child->streams[i];
        if (fds[i].revents && stream->fd >= 0)
            read_stream (child, stream, out);
        if (now >= due_of (stream))
            pass_on (child, stream, stream->length, false, out);
    }
    if (fds[AGENT_CHILD_STREAMS + 1].revents && !child->has_ended)
        child->has_ended = waitpid (child->pid, &child->wait_status, WNOHANG) == child->pid;
    if (!child->has_ended && fds[AGENT_CHILD_STREAMS].revents)
        read_said (child, out);
    if (!child->has_ended && clock_ms () >= child->alive_ms && !has_more_to_say (child))
        give_up (child);
    if (child->has_ended)
        finish (child, out);
}
