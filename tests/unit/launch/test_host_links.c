/* SPDX-License-Identifier: Apache-2.0 */
/* The head's side of its connections: frames and output that come in, the process that carries a connection, addresses
 * of hosts, and the start of the ranks.  The test plays the agents. */
#include <config.h>

#include "hosts/net/address.h"
#include "hosts/head/head.c"
#include "hosts/head/state.h"
#include "hosts/agent/host_job.h"
#include "hosts/samples.h"
#include "launch/watch/places.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/procfs.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { PATIENCE_MS = 20000, READ_BYTES = 4096 };

/* A connection, of which the test holds the other ends. */
struct play {
    struct link link;
    int to, from; /* the link */
    struct strbuf sent;
};

static struct labels no_labels;

static void
begin (struct play *play, const char *name)
{
    int in[2], out[2];
    *play = (struct play){ .link = { .name = name, .err = -1, .failed_rank = -1, .has_greeting = true } };
    if (pipe2 (in, O_CLOEXEC) || pipe2 (out, O_CLOEXEC)) {
        printf ("Bail out! no pipes\n");
        exit (99);
    }
    pipe_init (&play->link.pipe, in[0], out[1]);
    play->to = in[1];
    play->from = out[0];
}

static void
end (struct play *play)
{
    link_release (&play->link);
    strbuf_release (&play->sent);
    close (play->to);
    close (play->from);
}

/* Write bytes of `sent` from @first, @count of them, and let the link read them. */
static void
deliver (struct play *play, size_t first, size_t count)
{
    if (write (play->to, play->sent.text + first, count) == (ssize_t) count)
        link_read (&play->link);
}

static void
deliver_all (struct play *play)
{
    deliver (play, 0, play->sent.length);
    strbuf_truncate (&play->sent, 0);
}

static void
put_two_numbers (struct strbuf *out, enum wire_type type, int64_t first, int64_t second)
{
    size_t start = wire_begin (out, type);
    wire_put_number (out, first);
    wire_put_number (out, second);
    wire_end (out, start);
}

static void
put_texts (struct strbuf *out, enum wire_type type, const char *first, const char *second)
{
    size_t start = wire_begin (out, type);
    wire_put_text (out, first);
    wire_put_text (out, second);
    wire_end (out, start);
}

static void
put_bytes (struct strbuf *out, enum wire_type type, const char *bytes)
{
    size_t start = wire_begin (out, type);
    strbuf_add_bytes (out, bytes, strlen (bytes));
    wire_end (out, start);
}

static void
test_pipe (void)
{
    struct play play;
    struct wire_frame frame;
    begin (&play, "a");
    struct pipe_end *pipe = &play.link.pipe;
    for (int i = 0; i < 3; i++)
        wire_put_frame (&play.sent, WIRE_READY, 10 + i);
    size_t one = play.sent.length / 3;
    bool good = write (play.to, play.sent.text, 2 * one + 3) == (ssize_t) (2 * one + 3) && pipe_fill (pipe);
    for (int i = 0; i < 2; i++)
        good = good && pipe_next (pipe, &frame) == 1 && wire_number (&frame) == 10 + i;
    ok (good, "each frame comes once");
    good = pipe_next (pipe, &frame) == 0
           && write (play.to, play.sent.text + 2 * one + 3, one - 3) == (ssize_t) (one - 3) && pipe_fill (pipe);
    ok (good && pipe_next (pipe, &frame) == 1 && wire_number (&frame) == 12 && pipe_next (pipe, &frame) == 0,
        "also one that came in two pieces, after others");
    char bytes[READ_BYTES] = { 0 };
    while (pipe->to_write.length < 1 << 20)
        strbuf_add_bytes (&pipe->to_write, bytes, sizeof bytes);
    ok (pipe_flush (pipe) && pipe_has_output (pipe), "a full connection takes the rest later");
    close (play.from);
    signal (SIGPIPE, SIG_IGN);
    ok (!pipe_flush (pipe), "a closed one is noticed");
    play.from = -1;
    end (&play);
}

static void
test_hello (void)
{
    struct play play;
    begin (&play, "a");
    put_texts (&play.sent, WIRE_HELLO, "0.0.1", "node1");
    deliver_all (&play);
    ok (play.link.state == LINK_LOST && strstr (play.link.why, "accelerate 0.0.1 is installed there"),
        "an agent of another version is refused: %s", play.link.why);
    link_lose (&play.link, "another reason");
    ok (strstr (play.link.why, "0.0.1") != NULL, "the first reason for which a host is lost is kept");
    end (&play);
    begin (&play, "a");
    put_texts (&play.sent, WIRE_HELLO, PACKAGE_VERSION, "node1");
    deliver_all (&play);
    ok (play.link.state == LINK_GREETED && !strcmp (play.link.host, "node1"), "one of ours is greeted");
    end (&play);
}

/* The quicker a beat was, the better it tells how the other clock differs. */
static void
test_beats (void)
{
    enum { SLOW_NS = 1000000000 };
    struct play play;
    begin (&play, "a");
    int64_t now = clock_ns ();
    put_two_numbers (&play.sent, WIRE_HEARTBEAT, now - SLOW_NS, now + 5 * (int64_t) SLOW_NS);
    deliver_all (&play);
    int64_t slow_trip = play.link.round_trip_ns;
    now = clock_ns ();
    put_two_numbers (&play.sent, WIRE_HEARTBEAT, now, now + 100 * (int64_t) SLOW_NS);
    deliver_all (&play);
    ok (slow_trip >= SLOW_NS && play.link.round_trip_ns < slow_trip && play.link.offset_ns > 50 * (int64_t) SLOW_NS,
        "a quicker beat replaces a slow one");
    int64_t offset = play.link.offset_ns;
    put_two_numbers (&play.sent, WIRE_HEARTBEAT, clock_ns () - 60 * (int64_t) SLOW_NS, 0);
    deliver_all (&play);
    ok (play.link.offset_ns == offset, "a slower one does not");
    end (&play);
}

/* What a pipe holds, as text. */
static const char *
read_text (int fd, char text[READ_BYTES])
{
    ssize_t got = read (fd, text, READ_BYTES - 1);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

/* Host "a" is in the middle of a line that is too long for one frame; then it is lost. */
static void
test_parts (struct play plays[2], struct output_sink *sink, int reader)
{
    struct output_sink *const sinks[LINK_STREAMS] = { sink, sink };
    static const struct {
        const char *sent, *shown, *about;
        enum wire_type type;
        int who;
    } steps[] = {
        { "long", "long", "the first part of a long line", WIRE_OUT_PART, 0 },
        { "", "", "a line of another host waits for the rest", WIRE_OUT, 1 },
        { " line\n", " line\n", "which comes", WIRE_OUT, 0 },
        { "", "two\n", "then it is shown", WIRE_OUT, 1 },
        { "lost", "lost", "the first part of another", WIRE_OUT_PART, 0 },
    };
    char text[READ_BYTES];
    put_bytes (&plays[1].sent, WIRE_OUT, "two\n");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct play *play = &plays[steps[i].who];
        if (*steps[i].sent)
            put_bytes (&play->sent, steps[i].type, steps[i].sent);
        deliver_all (play);
        link_pass_on (&play->link, sinks, &no_labels);
        output_sink_drain (sink);
        is_text (read_text (reader, text), steps[i].shown, steps[i].about);
    }
    ok (!output_sink_say (sink, "ours"), "a line of the head waits, too");
    enum link_state state = plays[0].link.state;
    plays[0].link.state = LINK_LOST;
    link_pass_on (&plays[0].link, sinks, &no_labels);
    plays[0].link.state = state;
    ok (output_sink_say (sink, "ours"), "not after the end of the host");
    output_sink_drain (sink);
    is_text (read_text (reader, text), "\nours\n", "on a line of its own");
}

static void
test_output (void)
{
    struct play plays[2];
    struct fail fail = { 0 };
    struct output_sink sink;
    struct output_sink *const sinks[LINK_STREAMS] = { &sink, &sink };
    int ends[2];
    char text[READ_BYTES];
    if (pipe2 (ends, O_CLOEXEC | O_NONBLOCK) || output_sink_init (&sink, ends[1], "standard output", &fail))
        return;
    for (int i = 0; i < 2; i++)
        begin (&plays[i], i ? "b" : "a");
    put_bytes (&plays[0].sent, WIRE_OUT, "begun");
    put_bytes (&plays[1].sent, WIRE_OUT, "whole\n");
    put_bytes (&plays[1].sent, WIRE_OUT, "next\n");
    for (int i = 0; i < 2; i++) {
        deliver_all (&plays[i]);
        ok (link_pass_on (&plays[i].link, sinks, &no_labels), "all that has come is passed on at once");
    }
    output_sink_drain (&sink);
    is_text (read_text (ends[0], text), "begun\nwhole\nnext\n", "output of two hosts does not come into one line");
    struct strbuf *answer = &plays[1].link.pipe.to_write;
    struct wire_frame frame;
    size_t used = 0, length = answer->length;
    ok (wire_next (answer->text, length, &frame, &used) == 1 && frame.type == WIRE_ACK && wire_number (&frame) == 11,
        "the agent learns what was passed on");
    link_pass_on (&plays[1].link, sinks, &no_labels);
    ok (used == length && answer->length == length, "once");
    test_parts (plays, &sink, ends[0]);
    for (int i = 0; i < 2; i++)
        end (&plays[i]);
    output_sink_release (&sink);
    close (ends[0]);
    close (ends[1]);
}

static void
test_release (void)
{
    struct play play;
    int ends[2];
    begin (&play, "a");
    if (pipe2 (ends, O_CLOEXEC))
        return;
    play.link.err = ends[0];
    end (&play);
    ok (fcntl (ends[0], F_GETFD) < 0, "what SSH says comes no more after the end");
    close (ends[1]);
}

/* ---- the process that carries a connection ---- */

static bool
has_word (const struct strlist *argv, const char *word)
{
    for (size_t i = 0; i < argv->count; i++)
        if (!strcmp (argv->items[i], word))
            return true;
    return false;
}

static void
test_command (void)
{
    struct hosts hosts = { .own = "here", .program = (char *) "/bin/accelerate" };
    AUTO_STRLIST struct strlist batch = { 0 }, asking = { 0 }, own = { 0 };
    hosts_add_argv (&hosts, "there", true, &batch);
    hosts_add_argv (&hosts, "there", false, &asking);
    hosts_add_argv (&hosts, "here", true, &own);
    ok (has_word (&batch, "ssh") && has_word (&batch, "BatchMode=yes") && has_word (&batch, "there")
            && has_word (&batch, "/bin/accelerate --agent"), "SSH must not ask at first");
    ok (has_word (&asking, "ssh") && !has_word (&asking, "BatchMode=yes"), "it may when it is started again");
    ok (!has_word (&own, "ssh") && has_word (&own, "--agent"), "this host needs no SSH");
}

/* In a process that will be killed: start "ssh", and wait until it runs. */
static _Noreturn void
play_head (const char *mark)
{
    struct hosts hosts = { .own = "here", .program = (char *) "accelerate" };
    struct link link = { .name = "there", .batch = true, .err = -1, .pipe = { .in = -1, .out = -1 } };
    struct fail fail = { 0 };
    if (link_start (&link, &hosts, &fail))
        _exit (1);
    while (access (mark, F_OK))
        usleep (5000);
    kill (getpid (), SIGKILL);
    _exit (1);
}

/* It has orphaned "ssh", which has become our child, as has "mv", if that is about to exit. */
static bool
is_killed_too (void)
{
    int status = 0;
    for (int64_t until = clock_ms () + PATIENCE_MS; clock_ms () < until; usleep (5000)) {
        pid_t pid = waitpid (-1, &status, WNOHANG);
        if (pid > 0 && WIFSIGNALED (status))
            return WTERMSIG (status) == SIGKILL;
        if (pid < 0)
            return false;
    }
    return false;
}

static void
test_killed_head (void)
{
    static const char script[] = "#!/bin/sh\necho $$ >began.new\nmv began.new began\nexec sleep 1000\n";
    AUTO_CLOSE int fd = open ("ssh", O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    bool is_written = fd >= 0 && write (fd, script, sizeof script - 1) == sizeof script - 1;
    AUTO_STRBUF struct strbuf path = { 0 };
    strbuf_printf (&path, "%s:%s", scratch_folder (), getenv ("PATH"));
    if (fd >= 0)
        close (fd);
    fd = -1;
    prctl (PR_SET_CHILD_SUBREAPER, 1);
    pid_t head = is_written ? fork () : -1;
    if (head == 0) {
        setenv ("PATH", path.text, 1);
        play_head ("began");
    }
    int status = 0;
    ok (head > 0 && waitpid (head, &status, 0) == head && WIFSIGNALED (status), "a head is killed");
    ok (is_killed_too (), "SSH ends with it, though it does not look at its input");
    FILE *file = fopen ("began", "r");
    int ssh = 0;
    if (file && fscanf (file, "%d", &ssh) == 1 && ssh > 0 && waitpid (ssh, NULL, WNOHANG) == 0)
        kill (ssh, SIGKILL);
    if (file)
        fclose (file);
}

/* ---- where hosts are ---- */

static void
test_find (void)
{
    struct config config;
    struct hosts hosts;
    struct fail fail = { 0 };
    setenv ("SLURM_JOB_NODELIST", "n1", 1);
    config_init (&config, &fail);
    ok (!hosts_find (&hosts, &config, &fail) && !hosts.list.count && !hosts.source,
        "an allocation of one host is launched without an agent");
    hosts_release (&hosts);
    setenv ("SLURM_JOB_NODELIST", "n[1-2]", 1);
    ok (!hosts_find (&hosts, &config, &fail) && hosts.list.count == 2, "one of two is used");
    hosts_release (&hosts);
    config_set (&config, option_find ("num_machines"), "2", (struct origin){ .kind = ORIGIN_FLAG }, &fail);
    ok (!hosts_find (&hosts, &config, &fail) && !hosts.list.count, "but not if --num_machines says who launches");
    hosts_release (&hosts);
    config_release (&config);
    unsetenv ("SLURM_JOB_NODELIST");
}

static bool
write_script (const char *name, const char *text)
{
    FILE *file = fopen (name, "w");
    bool good = file && fputs (text, file) >= 0;
    return file && !fclose (file) && good && !chmod (name, 0700);
}

static void
test_mpirun (void)
{
    struct config config;
    struct starter starter = { 0 };
    struct hostlist list = { 0 };
    struct fail fail = { 0 };
    AUTO_STRBUF struct strbuf path = { 0 };
    AUTO_FREE char *before = strdup (getenv ("PATH"));
    strbuf_printf (&path, "%s:%s", scratch_folder (), before);
    setenv ("PATH", path.text, 1);
    config_init (&config, &fail);
    config_set (&config, option_find ("mpi"), "yes", (struct origin){ .kind = ORIGIN_FLAG }, &fail);
    bool good = write_script ("mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
                && !hostlist_add_text (&list, "a,b", &fail) && !starter_choose (&starter, &config, &list, &fail);
    if (!ok (good && starter.mpi == STARTER_MPI_OPEN && starter.mpirun && strstr (starter.mpirun, scratch_folder ()),
             "mpirun of PATH is used"))
        diag ("%s", fail.text);
    starter_release (&starter);
    hostlist_release (&list);
    config_release (&config);
    unlink ("mpirun");
    setenv ("PATH", before, 1);
}

static void
test_addresses (void)
{
    AUTO_STRLIST struct strlist all = { 0 }, none = { 0 }, local = { 0 };
    bool has_loopback = false, reached = true;
    unsetenv ("SSH_CONNECTION");
    address_list (&all, NULL);
    for (size_t i = 0; i < all.count; i++)
        has_loopback = has_loopback || !strncmp (all.items[i], "127.", 4) || !strcmp (all.items[i], "::1");
    ok (!has_loopback, "loopback addresses are not offered to other hosts");
    address_list (&none, "no such interface");
    ok (!none.count, "an interface that does not exist has no addresses");

    struct listener listener = LISTENER_NONE;
    struct fail fail = { 0 };
    struct sockaddr_storage address;
    AUTO_CLOSE int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    if (bind (fd, (struct sockaddr *) &any, sizeof any) || getsockname (fd, (struct sockaddr *) &address, &size))
        return;
    int port = ntohs (((struct sockaddr_in *) &address)->sin_port);
    close (fd);
    fd = -1;
    if (!ok (!listener_open (&listener, port, &fail), "listening: %s", fail.text))
        return;
    strlist_add (&local, "127.0.0.1");
    pid_t answers = fork ();
    while (answers == 0) {
        struct pollfd ready = { .fd = listener.fd, .events = POLLIN };
        poll (&ready, 1, -1);
        listener_answer (&listener);
    }
    address_reach (&local, port, listener.token, PATIENCE_MS, false, &reached);
    ok (reached, "whoever answers with the token is reached");
    char other[ADDRESS_TOKEN_BYTES];
    memset (other, 'x', sizeof other);
    other[sizeof other - 1] = '\0';
    address_reach (&local, port, other, PATIENCE_MS, false, &reached);
    ok (!reached, "another program at the same port is not taken for it");
    kill (answers, SIGKILL);
    waitpid (answers, NULL, 0);
    listener_close (&listener);
}

/* ---- the start of the ranks ---- */

static void
test_startup (void)
{
    struct play plays[2];
    struct hostlist_host items[2] = { { .name = (char *) "a" }, { .name = (char *) "b" } };
    struct hosts hosts = { .list = { .hosts = items, .count = 2 } };
    struct link links[3] = { { .name = "a" }, { .name = "b" }, { .name = "of no host" } };
    struct output_sink sink = { .fd = -1 };
    struct head head = { .hosts = &hosts, .links = links, .count = 2, .mpi_launcher = MPI_LAUNCHER_NONE,
                         .sink_of = { &sink, &sink }, .spec.config.settings.label = (char *) "auto" };
    struct fail fail = { 0 };
    for (int i = 0; i < 2; i++) {
        begin (&plays[i], items[i].name);
        links[i] = plays[i].link;
        links[i].state = LINK_READY;
        links[i].host = strdup ("node");
        links[i].ranks_found = 2 + i;
    }
    ok (!startup_advance (&head, &fail) && head.phase == HEAD_ADDRESS && items[0].ranks == 2 && items[1].ranks == 3
            && items[1].first_rank == 2,
        "hosts without a number of slots run as many ranks as they have found");
    links[0].state = LINK_LISTENING;
    links[0].port = 1234;
    strlist_add (&links[0].addresses, "192.0.2.1");
    strlist_add (&links[0].addresses, "192.0.2.2");
    ok (!startup_advance (&head, &fail) && head.is_reach_asked && links[1].pipe.to_write.length
            && !links[2].pipe.to_write.length, "the others are asked which addresses they reach");
    links[1].state = LINK_REACHED;
    links[1].reached = calloc (2, sizeof *links[1].reached);
    links[1].reached_count = 2;
    links[1].reached[1] = true;
    ok (!startup_advance (&head, &fail) && head.address && !strcmp (head.address, "192.0.2.2"),
        "the first address that is reached is used");
    ok (links[0].state == LINK_RUNNING && !startup_advance (&head, &fail) && head.phase == HEAD_ADDRESS
            && links[1].state == LINK_REACHED,
        "the other hosts wait until the first one no longer listens");
    links[0].has_started = true;
    ok (!startup_advance (&head, &fail) && head.phase == HEAD_RUN && links[1].state == LINK_RUNNING, "then they start");
    for (int i = 0; i < 2; i++) {
        plays[i].link = links[i];
        end (&plays[i]);
    }
}

static void
put_listening (struct play *play, const char *token, int port)
{
    size_t start = wire_begin (&play->sent, WIRE_LISTENING);
    wire_put_text (&play->sent, token);
    wire_put_number (&play->sent, port);
    wire_put_list (&play->sent, &(const struct strlist){ 0 });
    wire_end (&play->sent, start);
    deliver_all (play);
}

/* The other host was lost before the first one said where it listens. */
static void
test_late_answer (void)
{
    struct play play;
    struct hostlist_host item = { .name = (char *) "a", .slots = 1 };
    struct hosts hosts = { .list = { .hosts = &item, .count = 1 } };
    begin (&play, "a");
    play.link.state = LINK_READY;
    play.link.pid = getpid ();
    struct output_sink sink = { .fd = -1 };
    struct head head = { .hosts = &hosts, .links = &play.link, .count = 1, .mpi_launcher = MPI_LAUNCHER_NONE,
                         .sink_of = { &sink, &sink } };
    struct fail fail = { 0 };
    AUTO_STRBUF struct strbuf text = { 0 };
    bool is_asked = !startup_advance (&head, &fail) && head.phase == HEAD_ADDRESS;
    head.phase = HEAD_CONNECT;
    is_asked = is_asked && !survivors_go_on (&head, &text, &fail);
    put_listening (&play, "early", 1);
    ok (is_asked && !startup_advance (&head, &fail) && head.phase == HEAD_ADDRESS && play.link.state == LINK_READY,
        "an answer that comes between two starts of the ranks does not hold up the second one");
    head.phase = HEAD_CONNECT;
    is_asked = !survivors_go_on (&head, &text, &fail) && !startup_advance (&head, &fail);
    put_listening (&play, "early", 1);
    ok (is_asked && play.link.state == LINK_READY, "one that comes after the next question is not its answer");
    put_listening (&play, "late", 2);
    ok (play.link.state == LINK_LISTENING && play.link.port == 2 && !strcmp (play.link.token, "late"),
        "which comes afterwards");
    end (&play);
}

static void
put_stacks (struct play *play, uint32_t number, const char *text)
{
    size_t start = wire_begin (&play->sent, WIRE_STACKED);
    wire_put_number (&play->sent, number);
    wire_put_text (&play->sent, text);
    wire_end (&play->sent, start);
    deliver_all (play);
}

/* The agent's answer: its first rank is this process, which uses the second GPU. */
static void
put_sampled (struct play *play)
{
    static struct watched_gpus gpus = { .count = 2 };
    struct watch_job job = { .segment = JOBSEG_NONE, .rank_count = 2, .holder = getpid () };
    if (jobseg_create (&job.segment, 2, 2, 0, "job", NULL))
        exit (99);
    atomic_store (&jobseg_slot (&job.segment, 0)->state, JOBSEG_READY);
    atomic_store (&jobseg_slot (&job.segment, 0)->pid, getpid ());
    atomic_store (&jobseg_slot (&job.segment, 0)->pid_space, procfs_pid_space ());
    gpus.loads[1] = (struct gpu_load){ .use = 97, .temperature = 64, .memory = 80 << 20, .memory_used = 70 << 20,
                                       .process_count = 1, .processes = { { .pid = getpid () } } };
    samples_put (&play->sent, &job, &gpus);
    deliver_all (play);
    jobseg_detach (&job.segment);
}

static void
test_watch (void)
{
    struct play play;
    struct fail fail = { 0 };
    struct hostlist_host item = { .name = (char *) "a", .slots = JOBSEG_MAX_LOCAL + 1, .ranks = JOBSEG_MAX_LOCAL + 1 };
    struct hosts hosts = { .list = { .hosts = &item, .count = 1 } };
    struct job_spec spec = { .config.program = (char *) "program" };
    struct head_watch watch = HEAD_WATCH_NONE;
    begin (&play, "a");
    const struct links links = { &play.link, sizeof play.link, 1 };
    ok (head_watch_begin (&watch, &spec, 0, &hosts, &links, &fail) && strstr (fail.text, "it has 4097 ranks"),
        "a job that has too many ranks to be watched is reported: %s", fail.text);
    item.slots = item.ranks = 2;
    play.link.state = LINK_RUNNING;
    bool began = !head_watch_begin (&watch, &spec, 0, &hosts, &links, &fail);
    put_stacks (&play, 1, "not asked for");
    ok (began && lseek (watch.answers, 0, SEEK_END) == 0, "an answer without a question is not kept");
    atomic_store (&watch.segment.header->stacks_only, -1);
    atomic_store (&watch.segment.header->stacks_asked, 7);
    head_watch_turn (&watch, &links);
    put_stacks (&play, 6, "of an earlier question");
    put_stacks (&play, 7, "stacks");
    off_t end_of_one = lseek (watch.answers, 0, SEEK_END);
    put_stacks (&play, 7, "stacks");
    ok (end_of_one == (off_t) (sizeof (struct places_answer) + strlen ("stacks"))
            && lseek (watch.answers, 0, SEEK_END) == end_of_one, "a host answers each question once");
    put_sampled (&play);
    struct jobseg_told *told[] = { &jobseg_slot (&watch.segment, 0)->told, &jobseg_slot (&watch.segment, 1)->told };
    ok (told[0]->gpu.number == 2 && told[0]->gpu.use == 97 && told[0]->gpu.temperature == 64
            && told[0]->gpu.memory_used == 70 << 20 && told[0]->count == 1 && told[1]->count == 1
            && !told[1]->gpu.number,
        "what the GPU of a rank does comes with what the rank does");
    struct strbuf *asked = &play.link.pipe.to_write;
    struct wire_frame frame = { .type = WIRE_OUT };
    size_t used = 0, before = asked->length;
    head_watch_turn (&watch, &links);
    bool is_quiet = asked->length == before && head_watch_deadline (&watch) == INT64_MAX;
    watch.is_shown = true;
    int64_t now = clock_ms ();
    for (int i = 0; i < 2; i++)
        head_watch_turn (&watch, &links);
    bool has_one = wire_next (asked->text + before, asked->length - before, &frame, &used) == 1;
    ok (is_quiet && has_one && frame.type == WIRE_SAMPLE && !wire_number (&frame) && !wire_number (&frame)
            && before + used == asked->length && head_watch_deadline (&watch) >= now + 1000,
        "a status line asks once a second, and not for GPUs");
    head_watch_end (&watch);
    end (&play);
}

/* Whether two hosts get the order to end their ranks, where the first one is in this state. */
static int
told_after (enum link_state state, enum wire_end how, int status, int failed_rank)
{
    struct play plays[2];
    struct link links[2];
    struct head head = { .links = links, .count = 2, .limit_ms = INT64_MAX };
    int told = 0;
    for (int i = 0; i < 2; i++) {
        begin (&plays[i], i ? "b" : "a");
        links[i] = plays[i].link;
        links[i].state = i ? LINK_RUNNING : state;
    }
    links[0].end = how;
    links[0].status = status;
    links[0].failed_rank = failed_rank;
    broadcast_failure (&head);
    for (int i = 0; i < 2; i++) {
        told += links[i].pipe.to_write.length ? 1 << i : 0;
        plays[i].link = links[i];
        end (&plays[i]);
    }
    return told == 0 ? 0 : head.limit_ms == INT64_MAX ? -1 : told;
}

static void
test_spread (void)
{
    static const struct {
        const char *about;
        enum link_state state;
        enum wire_end how;
        int status, failed_rank, told;
    } rows[] = {
        { "all is well", LINK_RUNNING, WIRE_END_DONE, 0, -1, 0 },
        { "the ranks of a host have ended well", LINK_ENDED, WIRE_END_DONE, 0, -1, 0 },
        { "they have ended with a status", LINK_ENDED, WIRE_END_DONE, 3, -1, 2 },
        { "they have not ended well", LINK_ENDED, WIRE_END_FAILED, 0, -1, 2 },
        { "a rank has failed, and others there have not ended yet", LINK_RUNNING, WIRE_END_DONE, 0, 0, 2 },
        { "a host is lost", LINK_LOST, WIRE_END_DONE, 0, -1, 2 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ok (told_after (rows[i].state, rows[i].how, rows[i].status, rows[i].failed_rank) == rows[i].told,
            "%s: the ranks of the other one %s", rows[i].about, rows[i].told ? "end" : "continue");
}

/* What a launcher tells its agent of the first failure. */
static void
test_failure (void)
{
    struct plan_process processes[3] = { { .rank = 4 }, { .rank = 5 }, { .rank = 6 } };
    struct job_rank ranks[3] = { { .process = &processes[0] }, { .process = &processes[1] },
                                 { .process = &processes[2] } };
    struct job job = { .ranks = ranks, .count = 3, .first_failed = 1, .failed_ns = 77 };
    struct play play;
    begin (&play, "a");
    const struct job_observer observer = { .failed = host_job_tell_failure, .fd = play.to };
    host_job_tell_failure (&job, &observer);
    link_read (&play.link);
    ok (play.link.failed_rank == 5 && play.link.failed_ns == 77, "the rank that failed first is named, and when");
    host_job_tell_notice (&observer, "because a will be taken away");
    host_job_tell_notice (&observer, "because it really will");
    link_read (&play.link);
    is_text (play.link.notice, "because a will be taken away", "and why all are to stop, once");
    end (&play);
}

int
main (void)
{
    scratch_enter ();
    test_pipe ();
    test_hello ();
    test_beats ();
    test_output ();
    test_release ();
    test_command ();
    test_killed_head ();
    test_find ();
    test_mpirun ();
    test_addresses ();
    test_startup ();
    test_late_answer ();
    test_watch ();
    test_spread ();
    test_failure ();
    return done_testing ();
}
