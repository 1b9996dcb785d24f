/* SPDX-License-Identifier: Apache-2.0 */
/* An agent and the launcher below it, with the head played by the test: what ranks are given, what the head receives,
 * and that nothing outlives a connection. */
#include <config.h>

#include "hosts/agent/agent.c"
#include "hosts/agent/host_job.h"
#include "hosts/agent/child.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { PATIENCE_MS = 20000, FOREVER_MS = 600000 };

extern char **environ;

/* ---- an agent, in a process of its own ---- */

struct play {
    pid_t agent;
    struct pipe_end pipe; /* ours */
};

static void
begin (struct play *play, host_job_run *run)
{
    int to[2], from[2];
    if (pipe2 (to, O_CLOEXEC) || pipe2 (from, O_CLOEXEC)) {
        printf ("Bail out! no pipes\n");
        exit (99);
    }
    play->agent = fork ();
    if (play->agent == 0) {
        dup2 (to[0], 0);
        dup2 (from[1], 1);
        close (to[1]);
        close (from[0]);
        _exit (agent_serve (run));
    }
    close (to[0]);
    close (from[1]);
    pipe_init (&play->pipe, from[0], to[1]);
}

static bool
flush_and_fill (struct play *play, int64_t until)
{
    int64_t now = clock_ms ();
    struct pollfd ready = { .fd = play->pipe.in, .events = POLLIN };
    if (now >= until || !pipe_flush (&play->pipe))
        return false;
    poll (&ready, 1, (int) (until - now));
    return pipe_fill (&play->pipe);
}

/* Wait for the next frame of @type; others are passed over. */
static bool
await_frame (struct play *play, enum wire_type type, struct wire_frame *frame)
{
    int64_t until = clock_ms () + PATIENCE_MS;
    do {
        while (pipe_next (&play->pipe, frame) == 1)
            if (frame->type == type)
                return true;
    } while (flush_and_fill (play, until));
    return false;
}

static bool
await_greeting (struct play *play)
{
    static const char greeting[] = WIRE_GREETING;
    int64_t until = clock_ms () + PATIENCE_MS;
    while (play->pipe.input.length < sizeof greeting - 1)
        if (!flush_and_fill (play, until))
            return false;
    play->pipe.taken = sizeof greeting - 1;
    return !memcmp (play->pipe.input.text, greeting, sizeof greeting - 1);
}

static const char *proxies_name; /* of send_job(); NULL: the ranks do not use MPI */

static void
send_job (struct play *play, const char *folder, int64_t timeout_ms)
{
    struct job_spec spec = { .timeout_ms = timeout_ms, .columns = 80, .rows = 24, .host = 1 };
    struct fail fail = { 0 };
    config_init (&spec.config, &fail);
    config_set (&spec.config, option_find ("failure_report"), "report.json", (struct origin){ .kind = ORIGIN_FLAG },
                &fail);
    spec.config.program = strdup ("prog");
    spec.folder = strdup (folder);
    spec.proxies = proxies_name ? strdup (proxies_name) : NULL;
    strlist_add (&spec.environment, "AGENT_TEST=sent");
    job_spec_put (&play->pipe.to_write, &spec);
    job_spec_release (&spec);
}

static void
send_start (struct play *play)
{
    struct strbuf *out = &play->pipe.to_write;
    size_t start = wire_begin (out, WIRE_START);
    wire_put_text (out, "192.0.2.1");
    const int64_t numbers[] = { 29500, 1, 2, 1, 1, 2, 0 };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        wire_put_number (out, numbers[i]);
    wire_end (out, start);
}

/* Up to where the launcher runs. */
static bool
begin_job (struct play *play, host_job_run *run, const char *folder, int64_t timeout_ms)
{
    struct wire_frame frame;
    begin (play, run);
    if (!await_greeting (play) || !await_frame (play, WIRE_HELLO, &frame))
        return false;
    send_job (play, folder, timeout_ms);
    if (!await_frame (play, WIRE_READY, &frame))
        return false;
    send_start (play);
    return await_frame (play, WIRE_STARTED, &frame);
}

/* @return whether the process ends, or it is killed */
static bool
has_ended (pid_t pid, int *status)
{
    for (int64_t until = clock_ms () + PATIENCE_MS; clock_ms () < until; usleep (5000))
        if (waitpid (pid, status, WNOHANG) == pid)
            return true;
    kill (pid, SIGKILL);
    waitpid (pid, status, 0);
    return false;
}

static bool
end (struct play *play)
{
    int status;
    pipe_close (&play->pipe);
    return has_ended (play->agent, &status) && WIFEXITED (status) && !WEXITSTATUS (status);
}

/* The next line of output; "" if there is none. */
static const char *
await_line (struct play *play, char line[256])
{
    struct wire_frame frame;
    *line = '\0';
    if (await_frame (play, WIRE_OUT, &frame))
        snprintf (line, 256, "%.*s", (int) (frame.left < 255 ? frame.left : 255), frame.at);
    line[strcspn (line, "\n")] = '\0';
    return line;
}

/* ---- what launchers do in these tests ---- */

static int
run_look (struct config *config, const struct host_job *part)
{
    char folder[4096] = "";
    int count = 0;
    for (char **item = environ; *item; item++)
        count += !strncmp (*item, "AGENT_TEST=", 11);
    printf ("%s, %d of it, %s, %s, %s, machine %d, port %d\n", getenv ("AGENT_TEST"), count, getenv ("AGENT_HERE"),
            getcwd (folder, sizeof folder) && !strcmp (folder, "/") ? "there" : folder,
            config->settings.failure_report ? "a report of its own" : "no report", part->share.machine,
            (int) config->settings.main_process_port);
    fflush (stdout);
    host_job_tell_end (part, WIRE_END_DONE, 0, NULL, NULL);
    return 0;
}

static int
run_killed (struct config *config, const struct host_job *part)
{
    (void) config, (void) part;
    kill (getpid (), SIGKILL);
    return 0;
}

static _Noreturn void
wait_forever (void)
{
    for (;;)
        pause ();
}

static int
run_forever (struct config *config, const struct host_job *part)
{
    (void) config, (void) part;
    printf ("%d\n", (int) getpid ());
    fflush (stdout);
    wait_forever ();
}

static int
run_echo (struct config *config, const struct host_job *part)
{
    char bytes[64];
    ssize_t got;
    (void) config, (void) part;
    while ((got = read (0, bytes, sizeof bytes)) > 0)
        if (write (1, bytes, (size_t) got) != got)
            return 1;
    return 0;
}

static int
run_lines (struct config *config, const struct host_job *part)
{
    (void) config, (void) part;
    if (write (1, "whole\nhalf", 10) != 10)
        return 1;
    wait_forever ();
}

static int
run_last_words (struct config *config, const struct host_job *part)
{
    (void) config;
    host_job_tell_end (part, WIRE_END_DONE, 0, NULL, NULL);
    return write (1, "last words\n", 11) != 11;
}

/* ---- tests ---- */

static void
test_job (void)
{
    struct play play;
    struct wire_frame frame;
    char line[256];
    setenv ("AGENT_TEST", "of the host", 1);
    setenv ("AGENT_HERE", "kept", 1);
    ok (begin_job (&play, run_look, "/", FOREVER_MS), "an agent greets, takes a job and starts it");
    is_text (await_line (&play, line), "sent, 1 of it, kept, there, no report, machine 1, port 29500",
             "the job's folder, its variables over those of the host, which keeps others; its place; the head alone "
             "writes a report");
    ok (await_frame (&play, WIRE_END, &frame) && wire_number (&frame) == WIRE_END_DONE && wire_number (&frame) == 0,
        "its end comes after its output");
    int64_t before = clock_ns ();
    wire_put_frame (&play.pipe.to_write, WIRE_HEARTBEAT, 42);
    bool has_come = await_frame (&play, WIRE_HEARTBEAT, &frame);
    int64_t echo = wire_number (&frame), theirs = wire_number (&frame);
    ok (has_come && echo == 42 && theirs >= before && theirs <= clock_ns (),
        "a beat is answered with the agent's clock");
    ok (end (&play), "an agent ends with its connection");
}

static void
test_folder (void)
{
    struct play play;
    struct wire_frame frame;
    begin (&play, run_look);
    bool is_refused = await_greeting (&play);
    send_job (&play, "/no such folder", FOREVER_MS);
    is_refused = is_refused && await_frame (&play, WIRE_REFUSED, &frame) && wire_number (&frame) > 0;
    const char *why = is_refused ? wire_text (&frame) : NULL;
    ok (why && strstr (why, "/no such folder: "), "a job whose folder is missing is refused: %s", why ? why : "no");
    end (&play);
}

static void
test_killed_launcher (void)
{
    struct play play;
    struct wire_frame frame;
    bool has_begun = begin_job (&play, run_killed, "/", FOREVER_MS);
    ok (has_begun && await_frame (&play, WIRE_END, &frame) && wire_number (&frame) == WIRE_END_ERROR
            && wire_number (&frame) == 128 + SIGKILL,
        "a launcher that was killed is a failure with its status");
    end (&play);
}

static void
test_silence (void)
{
    enum { SILENT_MS = 200 };
    struct play play;
    struct wire_frame frame;
    int status;
    begin (&play, run_forever);
    bool has_begun = await_greeting (&play);
    send_job (&play, "/", SILENT_MS);
    ok (has_begun && await_frame (&play, WIRE_READY, &frame) && has_ended (play.agent, &status),
        "an agent that hears nothing any more ends");
    pipe_close (&play.pipe);
}

/* The connection ends, or the agent is killed. */
static void
check_orphan (bool kills, const char *name)
{
    struct play play;
    char line[256];
    int status = 0;
    bool has_begun = begin_job (&play, run_forever, "/", FOREVER_MS);
    pid_t launcher = has_begun ? atoi (await_line (&play, line)) : 0;
    if (kills)
        kill (play.agent, SIGKILL);
    else
        pipe_close (&play.pipe);
    bool is_over = has_ended (play.agent, &status);
    if (kills) /* or the agent has waited for it */
        is_over = launcher > 0 && has_ended (launcher, &status) && WIFSIGNALED (status) && WTERMSIG (status) == SIGTERM;
    ok (has_begun && launcher > 0 && is_over, "%s", name);
    if (!is_over && launcher > 0)
        kill (launcher, SIGKILL);
    pipe_close (&play.pipe);
}

/* ---- the launcher by itself ---- */

struct below {
    struct agent_child child;
    struct job_spec spec;
    struct strbuf out;
};

static bool
begin_below (struct below *below, host_job_run *run, bool is_terminal)
{
    struct host_job part = { .port_lock = PORT_LOCK_NONE, .agent = -1 };
    struct fail fail = { 0 };
    sigset_t none;
    sigemptyset (&none);
    *below = (struct below){ .spec = { .is_terminal = { is_terminal }, .rows = 24, .columns = 80 } };
    agent_child_init (&below->child);
    config_init (&below->spec.config, &fail);
    fflush (NULL);
    return !agent_child_start (&below->child, &below->spec, &part, run, &none, &fail);
}

static void
end_below (struct below *below)
{
    if (below->child.pid) {
        agent_child_kill (&below->child, SIGKILL);
        waitpid (below->child.pid, NULL, 0);
    }
    for (int i = 0; i < AGENT_CHILD_STREAMS; i++)
        free (below->child.streams[i].text);
    strbuf_release (&below->out);
    job_spec_release (&below->spec);
}

/* Wait for one descriptor, and act on nothing else. */
static bool
take_one (struct below *below, int which)
{
    struct pollfd fds[AGENT_CHILD_FDS];
    agent_child_poll (&below->child, fds, false);
    if (poll (&fds[which], 1, PATIENCE_MS) != 1)
        return false;
    for (int i = 0; i < AGENT_CHILD_FDS; i++)
        fds[i].revents = i == which ? fds[i].revents : 0;
    agent_child_take (&below->child, fds, &below->out);
    return true;
}

static bool
is_output (const struct wire_frame *frame, const char *text)
{
    return frame->type == WIRE_OUT && frame->left == strlen (text) && !memcmp (frame->at, text, frame->left);
}

static void
test_lines (void)
{
    struct below below;
    struct wire_frame frame;
    size_t used = 0;
    bool has_come = begin_below (&below, run_lines, false) && take_one (&below, 0);
    ok (has_come && wire_next (below.out.text, below.out.length, &frame, &used) == 1 && is_output (&frame, "whole\n")
            && used == below.out.length,
        "whole lines are passed on first");
    int64_t until = agent_child_deadline (&below.child), now;
    ok (until == below.child.streams[0].since_ms + 1000, "the rest of a line may take a second");
    while ((now = clock_ms ()) < until)
        usleep ((useconds_t) (until - now) * 1000);
    struct pollfd nothing[AGENT_CHILD_FDS] = { { .fd = -1 } };
    strbuf_truncate (&below.out, 0);
    agent_child_take (&below.child, nothing, &below.out);
    ok (wire_next (below.out.text, below.out.length, &frame, &used) == 1 && is_output (&frame, "half"),
        "the beginning of a line when nothing follows");
    ok (below.child.unread == 10, "the head has 10 bytes to pass on");
    struct pollfd fds[AGENT_CHILD_FDS];
    below.child.unread = WIRE_WINDOW_BYTES;
    agent_child_poll (&below.child, fds, false);
    bool is_held = fds[0].fd < 0 && fds[1].fd < 0;
    agent_child_poll (&below.child, fds, true);
    ok (is_held && fds[0].fd >= 0, "what the head does not take is left where it is, unless it is gone");
    end_below (&below);
}

/* There, a user may be asked something. */
static void
test_terminal (void)
{
    struct below below;
    struct winsize size = { 0 };
    bool has_come = begin_below (&below, run_lines, true) && take_one (&below, 0);
    ok (has_come && agent_child_deadline (&below.child) == below.child.streams[0].since_ms + 100,
        "on a terminal, the beginning of a line waits for a tenth of a second");
    below.spec.columns = 132;
    agent_child_resize (&below.child, &below.spec);
    bool has_size = isatty (below.child.streams[0].fd) && !ioctl (below.child.streams[0].fd, TIOCGWINSZ, &size);
    if (isatty (below.child.streams[0].fd))
        ok (has_size && size.ws_row == 24 && size.ws_col == 132, "whose size changes with the head's");
    else
        skip ("whose size changes with the head's: there are no pseudo-terminals");
    end_below (&below);
}

/* Lines come one after the other; the launcher's input ends when the head ends it, or when the head is gone. */
static void
test_input (void)
{
    struct below below;
    struct host_job part = { .port_lock = PORT_LOCK_NONE, .agent = -1 };
    struct fail fail = { 0 };
    struct wire_frame frame;
    sigset_t none;
    size_t used = 0;
    sigemptyset (&none);
    for (int is_killed = 0; is_killed < 2; is_killed++) {
        below = (struct below){ .spec = { .has_input = true } };
        agent_child_init (&below.child);
        config_init (&below.spec.config, &fail);
        fflush (NULL);
        bool good = !agent_child_start (&below.child, &below.spec, &part, run_echo, &none, &fail);
        agent_child_feed (&below.child, "one\n", 4);
        good = good && take_one (&below, AGENT_CHILD_STREAMS + 2) && below.child.in >= 0;
        ok (good && wire_next (below.out.text, below.out.length, &frame, &used) == 1 && frame.type == WIRE_TAKEN
                && wire_number (&frame) == 4, "a line is acknowledged, and others may follow");
        if (is_killed) {
            agent_child_kill (&below.child, SIGKILL);
            take_one (&below, AGENT_CHILD_STREAMS + 1);
            ok (below.child.in < 0, "a launcher that is gone gets no more");
        } else {
            agent_child_feed (&below.child, NULL, 0);
            ok (below.child.in < 0 && take_one (&below, AGENT_CHILD_STREAMS + 1) && below.child.has_ended
                    && !below.child.wait_status, "the end of the input is passed on");
        }
        end_below (&below);
    }
}

/* A launcher that says nothing for too long: stopped by a user, or not. */
static void
test_no_sign (bool is_stopped)
{
    struct below below;
    struct wire_frame frame;
    struct pollfd nothing[AGENT_CHILD_FDS] = { { .fd = -1 } };
    char wanted[200];
    const char *text = NULL;
    size_t used = 0;
    siginfo_t info;
    bool good = begin_below (&below, run_forever, false) && take_one (&below, 0);
    pid_t pid = below.child.pid;
    if (is_stopped)
        good = good && !kill (pid, SIGSTOP) && !waitid (P_PID, (id_t) pid, &info, WSTOPPED | WNOWAIT);
    strbuf_truncate (&below.out, 0);
    below.child.heard_ms = clock_ms () - 5000;
    below.child.alive_ms = clock_ms ();
    agent_child_take (&below.child, nothing, &below.out);
    while (good && !text && wire_next (below.out.text + used, below.out.length - used, &frame, &used) == 1)
        if (frame.type == WIRE_END && wire_number (&frame) == WIRE_END_ERROR && wire_number (&frame) == FAIL_GENERAL)
            text = wire_text (&frame);
    if (is_stopped)
        snprintf (wanted, sizeof wanted, "accelerate: the launcher on this host gave no sign of life for 5 s: its "
                  "process %d was stopped, as by SIGSTOP\n", (int) pid);
    else
        snprintf (wanted, sizeof wanted, "accelerate: the launcher on this host gave no sign of life for 5 s\n");
    is_text (text, wanted, is_stopped ? "a launcher that is stopped is said to be" : "one that says nothing is ended");
    end_below (&below);
}

/* When the agent has to do something next. */
static void
test_timeout (void)
{
    struct agent agent = { .head = { .heard_ms = clock_ms () } };
    agent_child_init (&agent.child);
    ok (find_timeout (&agent) > 1000, "an agent waits for a job");
    agent.kill_ms = clock_ms () + 1000;
    int timeout = find_timeout (&agent);
    ok (timeout > 0 && timeout <= 1000, "or for the time to kill what is left: %d ms", timeout);
}

static void
test_last_words (void)
{
    struct below below;
    struct wire_frame frame;
    size_t used = 0, more = 0;
    bool has_begun = begin_below (&below, run_last_words, false);
    below.child.unread = WIRE_WINDOW_BYTES;
    bool has_ended = has_begun && take_one (&below, AGENT_CHILD_STREAMS + 1) && below.child.has_ended;
    struct pollfd fds[AGENT_CHILD_FDS], nothing[AGENT_CHILD_FDS] = { { .fd = -1 } };
    agent_child_poll (&below.child, fds, false);
    ok (has_ended && !below.out.length && fds[AGENT_CHILD_STREAMS + 1].fd < 0,
        "a launcher that has ended is not watched while the head takes no more");
    below.child.unread = 0;
    agent_child_take (&below.child, nothing, &below.out);
    ok (has_ended && wire_next (below.out.text, below.out.length, &frame, &used) == 1
            && is_output (&frame, "last words\n")
            && wire_next (below.out.text + used, below.out.length - used, &frame, &more) == 1
            && frame.type == WIRE_END && wire_number (&frame) == WIRE_END_DONE && used + more == below.out.length,
        "what was written last comes before the end");
    end_below (&below);
}

/* ---- processes of MPI ---- */

static void
test_mpi_proxies (void)
{
    struct mpi_proxy one = { .fd = -1, .passed_fd = -1 };
    struct mpi_proxies proxies = MPI_PROXIES_NONE;
    const struct mpi_proxies single = { .all = &one, .count = 1 }; /* of attempt 0 */
    struct plan plan = { .process_count = 2 };
    struct fail fail = { 0 };
    char name[MPI_PROXY_NAME_BYTES];
    ok (mpi_proxies_apply (&single, &plan, &fail), "fewer processes of MPI than ranks");
    is_text (fail.text, "1 processes of MPI run on this host, but the job has 2 ranks here", "are an error");
    if (!ok (!mpi_proxy_make_name (name, &fail) && !mpi_proxies_listen (&proxies, name, &fail), "the agent listens: %s",
             fail.text))
        return;
    enum { TOO_MUCH = 1 << 20 };
    char *large = calloc (1, TOO_MUCH);
    memset (large, 'x', TOO_MUCH - 1);
    setenv ("PMI_LARGE", large, 1);
    ok (mpi_proxy_run (name, "1", &fail), "variables that are too large for a message");
    is_text (fail.text, "cannot reach the agent of this host: Message too long", "are an error with the reason");
    unsetenv ("PMI_LARGE");
    free (large);
    mpi_proxies_release (&proxies);
}

/* All MPI proxies have ended since they were reported. */
static void
test_lost_proxies (void)
{
    struct play play;
    struct wire_frame frame;
    struct fail fail;
    char name[MPI_PROXY_NAME_BYTES];
    bool good = !mpi_proxy_make_name (name, &fail);
    begin (&play, run_look);
    proxies_name = name;
    good = await_greeting (&play) && good;
    send_job (&play, "/", FOREVER_MS);
    proxies_name = NULL;
    good = good && await_frame (&play, WIRE_READY, &frame);
    send_start (&play);
    good = good && await_frame (&play, WIRE_END, &frame) && wire_number (&frame) == WIRE_END_FAILED;
    ok (good && wire_number (&frame) == FAIL_GENERAL, "ranks do not start without MPI: this start has failed");
    const char *why = good ? wire_text (&frame) : NULL;
    is_text (why ? why : "", "accelerate: 0 processes of MPI run on this host, but the job has 1 ranks here\n", "why");
    end (&play);
}

/* Two MPI proxies of this job: what MPI has told each of them becomes variables of the rank in its place. */
static void
test_variables (void)
{
    struct mpi_proxies proxies = MPI_PROXIES_NONE;
    struct plan_process processes[2] = { { .rank = 0 }, { .rank = 1 } };
    struct plan plan = { .processes = processes, .process_count = 2 };
    struct fail fail = { 0 };
    char name[MPI_PROXY_NAME_BYTES];
    pid_t pids[2];
    bool good = !mpi_proxy_make_name (name, &fail) && !mpi_proxies_listen (&proxies, name, &fail);
    for (int i = 0; good && i < 2; i++) {
        pids[i] = fork ();
        if (pids[i] == 0) {
            setenv ("PMI_RANK", i ? "0" : "1", 1);
            setenv (i ? "PMI_SECOND" : "PMI_FIRST", "x", 1);
            _exit (mpi_proxy_run (name, "1", &fail) != 0);
        }
        struct pollfd ready = { .fd = proxies.listener, .events = POLLIN };
        good = poll (&ready, 1, PATIENCE_MS) == 1;
        mpi_proxies_accept (&proxies);
    }
    good = good && mpi_proxies_of (&proxies, 1) == 2 && !mpi_proxies_apply (&proxies, &plan, &fail);
    for (int i = 0; i < 2; i++)
        ok (good && processes[i].env.count == 1 && !strcmp (processes[i].env.items[0], i ? "PMI_RANK=1" : "PMI_RANK=0"),
            "rank %d gets what its MPI proxy has, and what all have", i);
    mpi_proxies_release (&proxies);
    for (int i = 0; i < 2; i++) {
        waitpid (pids[i], NULL, 0);
        strlist_release (&processes[i].env);
    }
}

int
main (void)
{
    scratch_enter ();
    prctl (PR_SET_CHILD_SUBREAPER, 1);
    test_job ();
    test_folder ();
    test_killed_launcher ();
    test_silence ();
    check_orphan (false, "a launcher does not outlive the connection");
    check_orphan (true, "nor a killed agent");
    test_lines ();
    test_terminal ();
    test_input ();
    test_no_sign (true);
    test_no_sign (false);
    test_timeout ();
    test_last_words ();
    test_mpi_proxies ();
    test_lost_proxies ();
    test_variables ();
    return done_testing ();
}
