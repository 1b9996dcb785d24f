/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the head; see link.h. */
#include <config.h>

#include "hosts/head/link.h"

#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/printable.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

enum {
    BABBLE_BYTES = 64 * 1024,
    RECORD_BYTES = 5, RECORD_ERR = 1, RECORD_PART = 2,
    CLOSING_MS = 2000,    /* between the end of a connection and the end of what carried it */
    CLOSING_SLICE_MS = 5, /* between looks for that end, without a signal */
};

/* What is between the head and an agent. */
enum carrier {
    CARRIER_NONE, /* the agent is on this host */
    CARRIER_SSH,
    CARRIER_SRUN,
};

static const int ignored[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2, SIGALRM };
enum { IGNORED = sizeof ignored / sizeof *ignored };

/* SSH stays in our process group, so that it may ask on the terminal; so ^C must not reach it, or the ranks would lose
 * their connection instead of getting the signal.  It keeps signals ignored that were ignored when it was started. */
static void
ignore_signals (struct sigaction before[IGNORED])
{
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigset_t none;
    for (size_t i = 0; i < IGNORED; i++)
        sigaction (ignored[i], &ignore, &before[i]);
    sigemptyset (&none);
    sigprocmask (SIG_SETMASK, &none, NULL);
}

/* The agent of this host, and srun, which asks nothing: ^C reaches its ranks through us, once. */
static void
leave_terminal (void)
{
    sigset_t none;
    sigemptyset (&none);
    signal (SIGTERM, SIG_DFL);
    signal (SIGHUP, SIG_DFL);
    setsid ();
}

static _Noreturn void
run_child (const struct strlist *argv, enum carrier carrier, const int standard[3], pid_t head)
{
    struct sigaction before[IGNORED];
    for (int i = 0; i < 3; i++)
        dup2 (standard[i], i);
    ignore_signals (before);
    if (carrier != CARRIER_SSH)
        leave_terminal ();
    else
        prctl (PR_SET_PDEATHSIG, SIGKILL); /* then the other side sees the end of the connection */
    for (size_t i = 0; carrier == CARRIER_NONE && i < IGNORED; i++)
        if (ignored[i] != SIGTERM) /* ends its ranks, also if the head ignores it */
            sigaction (ignored[i], &before[i], NULL); /* its launcher does not pass on what it finds ignored */
    if (carrier == CARRIER_SRUN)
        starter_clean_environment (); /* it is not killed with us: the end of its input ends the agent, and it */
    if (getppid () != head)
        _exit (FAIL_GENERAL);
    execvp (argv->items[0], argv->items);
    dprintf (2, "cannot execute %s: %s\n", argv->items[0], strerror (errno));
    _exit (status_of_exec (errno));
}

static enum carrier
find_carrier (const struct hosts *hosts, const struct link *link)
{
    if (hosts_is_own (hosts, link->name))
        return CARRIER_NONE;
    return hosts->starter.agents == STARTER_SRUN ? CARRIER_SRUN : CARRIER_SSH;
}

void
link_init (struct link *link, const char *name)
{
    *link = (struct link){ .name = name, .batch = true, .err = -1, .failed_rank = -1, .pipe = { .in = -1, .out = -1 } };
}

int
link_start (struct link *link, const struct hosts *hosts, struct fail *fail)
{
    AUTO_STRLIST struct strlist argv = { 0 };
    int ends[3][2]; /* of its standard input, output and error */
    pid_t head = getpid ();
    hosts_add_argv (hosts, link->name, link->batch, &argv);
    if (argv.failed)
        return fail_nomem (fail);
    for (int i = 0; i < 3; i++)
        if (pipe_make (ends[i], fail)) {
            while (i-- > 0) {
                close (ends[i][0]);
                close (ends[i][1]);
            }
            return -1;
        }
    link->pid = fork ();
    if (link->pid == 0)
        run_child (&argv, find_carrier (hosts, link), (const int[]){ ends[0][0], ends[1][1], ends[2][1] }, head);
    int error = errno;
    close (ends[0][0]);
    close (ends[1][1]);
    close (ends[2][1]);
    pipe_init (&link->pipe, ends[1][0], ends[0][1]);
    link->err = ends[2][0];
    fcntl (link->err, F_SETFL, O_NONBLOCK);
    link->state = LINK_CONNECTING;
    link->has_greeting = link->has_job = false;
    if (link->pid > 0)
        return 0;
    link->pid = 0;
    return status_fail_start (error, fail);
}

void
link_lose (struct link *link, const char *why, ...)
{
    va_list arguments;
    if (link->state == LINK_LOST || link->state == LINK_ENDED)
        return;
    link->state = LINK_LOST;
    va_start (arguments, why);
    vsnprintf (link->why, sizeof link->why, why, arguments);
    va_end (arguments);
    link->failed_ns = link->pipe.heard_ms * 1000000;
}

void
link_read_err (struct link *link)
{
    char bytes[4096];
    ssize_t got = read (link->err, bytes, sizeof bytes);
    if (got > 0)
        strbuf_add_bytes (&link->said, bytes, (size_t) got);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        close (link->err);
        link->err = -1;
    }
}

/* Shells' start-up files may write, too; that is not for us.  @return whether the greeting is there */
static bool
find_greeting (struct link *link)
{
    static const char greeting[] = WIRE_GREETING;
    struct pipe_end *pipe = &link->pipe;
    size_t length = pipe->input.length - pipe->taken;
    const char *bytes = length ? pipe->input.text + pipe->taken : NULL;
    const char *at = length ? memmem (bytes, length, greeting, sizeof greeting - 1) : NULL;
    if (!at) {
        if (length > BABBLE_BYTES)
            link_lose (link, "something other than an agent answers there");
        return false;
    }
    pipe->taken += (size_t) (at - bytes) + sizeof greeting - 1;
    link->has_greeting = true;
    return true;
}

static char *
copy (const char *text)
{
    return strdup (text ? text : "");
}

static void
take_hello (struct link *link, struct wire_frame *frame)
{
    const char *version = wire_text (frame), *host = wire_text (frame);
    free (link->version);
    link->version = copy (version);
    if (!version || strcmp (version, PACKAGE_VERSION) != 0)
        link_lose (link, "accelerate %s is installed there, but this is accelerate %s; install the same version on all "
                         "hosts", version ? version : "?", PACKAGE_VERSION);
    else {
        link->host = copy (host);
        link->state = LINK_GREETED;
    }
}

static void
take_ready (struct link *link, struct wire_frame *frame)
{
    link->ranks_found = wire_number (frame);
    link->copies_port = (int) wire_number (frame);
    strlist_release (&link->copies_addresses);
    wire_list (frame, &link->copies_addresses);
    link->state = LINK_READY;
}

/* If ranks start again while a question is on its way, its answer is not that to the next one. */
static bool
is_latest_answer (struct link *link)
{
    link->answers_due -= link->answers_due > 0;
    return !link->answers_due;
}

static void
take_listening (struct link *link, struct wire_frame *frame)
{
    if (!is_latest_answer (link))
        return;
    free (link->token);
    strlist_release (&link->addresses);
    link->token = copy (wire_text (frame));
    link->port = (int) wire_number (frame);
    wire_list (frame, &link->addresses);
    link->state = LINK_LISTENING;
}

static void
take_reached (struct link *link, struct wire_frame *frame)
{
    size_t count = frame->left / 8;
    if (!is_latest_answer (link))
        return;
    free (link->reached);
    link->reached = calloc (count + 1, sizeof *link->reached);
    link->reached_count = link->reached ? count : 0;
    for (size_t i = 0; i < link->reached_count; i++)
        link->reached[i] = wire_number (frame);
    link->state = LINK_REACHED;
}

static void
take_heartbeat (struct link *link, struct wire_frame *frame)
{
    int64_t sent = wire_number (frame), theirs = wire_number (frame), trip = clock_ns () - sent;
    if (link->round_trip_ns && link->round_trip_ns <= trip)
        return;
    link->round_trip_ns = trip;
    link->offset_ns = theirs - sent - trip / 2;
}

static void
take_end (struct link *link, struct wire_frame *frame)
{
    link->end = (enum wire_end) wire_number (frame);
    link->status = (int) wire_number (frame);
    free (link->report);
    free (link->json);
    link->report = copy (wire_text (frame));
    link->json = copy (wire_text (frame));
    link->state = LINK_ENDED;
    if ((link->end != WIRE_END_DONE || link->status) && !link->failed_ns)
        link->failed_ns = clock_ns ();
}

static void
take_output (struct link *link, const struct wire_frame *frame)
{
    bool is_err = frame->type == WIRE_ERR || frame->type == WIRE_ERR_PART;
    bool is_part = frame->type == WIRE_OUT_PART || frame->type == WIRE_ERR_PART;
    char head[RECORD_BYTES] = { (char) ((is_err ? RECORD_ERR : 0) | (is_part ? RECORD_PART : 0)) };
    uint32_t length = (uint32_t) frame->left;
    memcpy (head + 1, &length, sizeof length);
    strbuf_add_bytes (&link->output.bytes, head, sizeof head);
    strbuf_add_bytes (&link->output.bytes, frame->at, frame->left);
}

/* Others end because of the first one. */
static void
take_mpi_ended (struct link *link, struct wire_frame *frame)
{
    if (link->mpi_ns)
        return;
    link->mpi_ns = wire_number (frame) - link->offset_ns;
    link->mpi_is_daemon = wire_number (frame);
    link->mpi_status = (int) wire_number (frame);
    free (link->mpi_why);
    link->mpi_why = copy (wire_text (frame));
}

static void
take_answer (struct link *link, void (*take) (struct link *link, struct wire_frame *frame), struct wire_frame *frame)
{
    if (take)
        take (link, frame);
    else
        link_lose (link, "the agent there has sent something unknown");
}

static void
take_frame (struct link *link, struct wire_frame *frame)
{
    const char *refusal;
    switch (frame->type) {
    case WIRE_HELLO: take_hello (link, frame); break;
    case WIRE_READY: take_ready (link, frame); break;
    case WIRE_REFUSED:
        link->status = (int) wire_number (frame);
        refusal = wire_text (frame);
        link_lose (link, "%s", refusal ? refusal : "refused");
        break;
    case WIRE_PROXIES_READY: link->attempt_ready = wire_number (frame); break;
    case WIRE_LISTENING: take_listening (link, frame); break;
    case WIRE_REACHED: take_reached (link, frame); break;
    case WIRE_STARTED: link->has_started = true; break;
    case WIRE_OUT:
    case WIRE_ERR:
    case WIRE_OUT_PART:
    case WIRE_ERR_PART: take_output (link, frame); break;
    case WIRE_TAKEN: link->input_taken += wire_number (frame); break;
    case WIRE_HEARTBEAT: take_heartbeat (link, frame); break;
    case WIRE_MPI_ENDED: take_mpi_ended (link, frame); break;
    case WIRE_FAILED:
        link->failed_ns = wire_number (frame) - link->offset_ns;
        link->failed_rank = (int) wire_number (frame);
        break;
    case WIRE_NOTICE:
        if (!link->notice) /* it is repeated */
            link->notice = copy (wire_text (frame));
        break;
    case WIRE_END: take_end (link, frame); break;
    case WIRE_CHECKED: take_answer (link, link->take_checked, frame); break;
    case WIRE_SAMPLED: take_answer (link, link->take_sampled, frame); break;
    case WIRE_STACKED: take_answer (link, link->take_stacked, frame); break;
    default: take_answer (link, NULL, frame);
    }
}

void
link_read (struct link *link)
{
    struct wire_frame frame;
    int result = 0;
    bool is_open = pipe_fill (&link->pipe);
    if (link->has_greeting || find_greeting (link))
        while (link->state != LINK_LOST && (result = pipe_next (&link->pipe, &frame)) > 0)
            take_frame (link, &frame);
    if (result < 0)
        link_lose (link, "the agent there has sent something that is not a frame");
    if (!is_open) {
        close (link->pipe.in);
        link->pipe.in = -1;
    }
}

/* The last line of what SSH has said, without a carriage return; "" if it has said nothing. */
static void
find_last_line (const struct link *link, char *line, size_t size)
{
    const char *text = link->said.length ? link->said.text : "";
    size_t length = strlen (text);
    while (length && strchr ("\r\n", text[length - 1]))
        length--;
    size_t begin = length;
    while (begin && text[begin - 1] != '\n')
        begin--;
    AUTO_STRBUF struct strbuf raw = { 0 }, shown = { 0 };
    strbuf_add_bytes (&raw, text + begin, length - begin);
    printable_add (&shown, raw.text ? raw.text : "");
    snprintf (line, size, "%s", shown.text ? shown.text : "");
}

static void
lose_ended (struct link *link)
{
    char said[300];
    int status = link->wait_status;
    find_last_line (link, said, sizeof said);
    if (!link->host && WIFEXITED (status) && WEXITSTATUS (status) == FAIL_NOT_FOUND)
        link_lose (link, "%s; install accelerate %s there, at the same place or in PATH", *said ? said : "not found",
                   PACKAGE_VERSION);
    else if (!link->host)
        link_lose (link, "cannot connect: %s", *said ? said : "the agent did not start");
    else
        link_lose (link, "lost: %s", *said ? said : "the agent there was killed, or the connection to it ended");
}

void
link_reap (struct link *link)
{
    if (!link->pid || waitpid (link->pid, &link->wait_status, WNOHANG) != link->pid)
        return;
    link->pid = 0;
    for (int reads = 0; link->pipe.in >= 0 && reads < LINK_LAST_READS; reads++)
        link_read (link);
    if (link->err >= 0)
        link_read_err (link);
    lose_ended (link);
}

bool
link_has_output (const struct link *link)
{
    return link->output.taken < link->output.bytes.length;
}

/* Text without marks, which stays together.  @return its bytes; 0: the sink has no room for it, or another host is in
 * the middle of a line */
static size_t
put_plain (struct output_line *line, struct output_sink *sink, const char *text, size_t length, bool is_part)
{
    if (!output_sink_end_foreign_line (sink, line) || !output_sink_put_whole (sink, text, length))
        return 0;
    line->continues = is_part;
    sink->unfinished = text[length - 1] == '\n' ? NULL : line;
    return length;
}

/* One frame of output.  @return false if a part of it is left */
static bool
pass_one (struct link *link, struct output_sink *const sinks[LINK_STREAMS], struct labels *labels)
{
    struct link_output *output = &link->output;
    const char *record = output->bytes.text + output->taken, *text = record + RECORD_BYTES;
    uint32_t length;
    memcpy (&length, record + 1, sizeof length);
    int which = (record[0] & RECORD_ERR) != 0;
    bool is_part = (record[0] & RECORD_PART) != 0;
    struct labels_line *line = &output->lines[which];
    while (output->begun < length) {
        size_t left = length - output->begun;
        size_t put = labels->collapses[which]
                     ? labels_put (labels, which, line, sinks[which], text + output->begun, left, is_part)
                     : put_plain (&line->line, sinks[which], text + output->begun, left, is_part);
        if (!put)
            return false;
        output->begun += put;
        link->passed_on += (int64_t) put;
    }
    output->taken += RECORD_BYTES + length;
    output->begun = 0;
    return true;
}

/* The rest of its line is lost. */
static void
end_line (struct labels_line *line)
{
    line->line.continues = false;
    line->state = LABELS_BEGIN;
}

bool
link_pass_on (struct link *link, struct output_sink *const sinks[LINK_STREAMS], struct labels *labels)
{
    while (link_has_output (link))
        if (!pass_one (link, sinks, labels))
            break;
    bool is_all = !link_has_output (link);
    for (int i = 0; is_all && link->state >= LINK_ENDED && i < LINK_STREAMS; i++)
        end_line (&link->output.lines[i]);
    if (is_all || link->output.taken > WIRE_WINDOW_BYTES) {
        strbuf_drop (&link->output.bytes, link->output.taken);
        link->output.taken = 0;
    }
    if (link->passed_on > link->acknowledged && link->pipe.out >= 0) {
        wire_put_frame (&link->pipe.to_write, WIRE_ACK, link->passed_on - link->acknowledged);
        link->acknowledged = link->passed_on;
    }
    return is_all;
}

void
link_heartbeat (struct link *link)
{
    if (link->state > LINK_CONNECTING && link->state < LINK_LOST && link->pipe.out >= 0)
        wire_put_frame (&link->pipe.to_write, WIRE_HEARTBEAT, clock_ns ());
}

void
link_release (struct link *link)
{
    pipe_close (&link->pipe);
    if (link->err >= 0)
        close (link->err);
    strbuf_release (&link->said);
    strbuf_release (&link->output.bytes);
    strlist_release (&link->addresses);
    strlist_release (&link->copies_addresses);
    free (link->host);
    free (link->version);
    free (link->token);
    free (link->reached);
    free (link->report);
    free (link->json);
    free (link->notice);
    free (link->mpi_why);
}

/* ---- all hosts ---- */

void
link_ask_for_port (struct link *link, int64_t processes)
{
    wire_put_frame (&link->pipe.to_write, WIRE_LISTEN, processes);
    link->answers_due++;
}

void
links_ask_who_reaches (const struct links *links)
{
    const struct link *first = links->first;
    for (int i = 1; i < links->count; i++) {
        struct link *link = links_at (links, i);
        struct strbuf *out = &link->pipe.to_write;
        size_t begin = wire_begin (out, WIRE_REACH);
        link->answers_due++;
        wire_put_text (out, first->token);
        wire_put_number (out, first->port);
        wire_put_list (out, &first->addresses);
        wire_end (out, begin);
    }
}

const char *
links_find_address (const struct links *links, const struct link **worst)
{
    const struct strlist *addresses = &links->first->addresses;
    int best = 0;
    *worst = links_at (links, 1);
    for (size_t i = 0; i < addresses->count; i++) {
        int count = 0;
        const struct link *missing = NULL;
        for (int j = 1; j < links->count; j++) {
            const struct link *link = links_at (links, j);
            if (link->state != LINK_REACHED || (i < link->reached_count && link->reached[i]))
                count++;
            else if (!missing)
                missing = link;
        }
        if (!missing)
            return addresses->items[i];
        if (count >= best) {
            best = count;
            *worst = missing;
        }
    }
    return NULL;
}

/* End the process that carries the connection. */
static void
kill_carrier (const struct link *link)
{
    if (link->pid)
        kill (link->pid, SIGKILL);
}

void
link_end (struct link *link)
{
    kill_carrier (link);
    if (link->pid)
        waitpid (link->pid, NULL, 0);
    link_release (link);
}

void
links_close (const struct links *links, int signal_fd)
{
    int64_t until = clock_ms () + CLOSING_MS;
    for (int i = 0; i < links->count; i++) {
        struct link *link = links_at (links, i);
        pipe_close (&link->pipe);
        if (link->state == LINK_LOST || !link->host)
            kill_carrier (link);
    }
    for (int i = 0; i < links->count; i++)
        for (struct link *link = links_at (links, i); link->pid;) {
            struct pollfd signals = { .fd = signal_fd, .events = POLLIN };
            struct signalfd_siginfo info;
            if (waitpid (link->pid, NULL, WNOHANG) == link->pid) {
                link->pid = 0;
                break;
            }
            int64_t left = until - clock_ms ();
            if (left <= 0)
                kill_carrier (link);
            poll (&signals, 1, signal_fd < 0 ? CLOSING_SLICE_MS : left > 0 ? (int) left : 100);
            while (signal_fd >= 0 && read (signal_fd, &info, sizeof info) == sizeof info)
                ;
        }
}
