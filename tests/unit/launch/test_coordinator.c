/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher of machine 0 among those that were started by hand: who may join, who is forgotten, and when all know
 * how the job ended.  And one of another machine that looks for it. */
#include <config.h>

#include "hosts/peers/peers.h"
#include "hosts/peers/state.h"
#include "hosts/root_cause.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

enum { MACHINES = 3, PORT = 29500, STRANGERS = 40, MOST_STRANGERS = 32 };

static char host0[] = "host0", program[] = "train";
static const struct settings settings = { .grace = 1, .machine_rank = 0, .num_machines = MACHINES,
                                          .main_process_ip = host0, .main_process_port = PORT, .host_timeout = 30 };
static const struct plan plan = { .host = host0, .program = program, .world_size = MACHINES, .local_world_size = 1 };

/* Machine 0's launcher, that of machine 1, which has joined, and its connection. */
struct scene {
    struct peers peers;
    struct peers_machine all[MACHINES];
    struct failure failures[MACHINES];
    struct peer *peer;
    int other; /* end of the connection; -1: closed */
};

static void
open_scene (struct scene *scene)
{
    int fds[2] = { -1, -1 };
    *scene = (struct scene){ .peers = { .settings = &settings, .plan = &plan, .machines = MACHINES, .port = PORT,
                                        .timeout_ms = 30000, .listener = -1, .epoll = epoll_create1 (EPOLL_CLOEXEC),
                                        .start_ms = clock_ms () } };
    scene->peers.all = scene->peers.own = scene->all;
    scene->peers.failures = scene->failures;
    scene->all[0] = (struct peers_machine){ .state = MACHINE_JOINED, .host = strdup ("host0"), .ranks = 1 };
    scene->all[1] = (struct peers_machine){ .state = MACHINE_JOINED, .host = strdup ("host1"), .first_rank = 1,
                                            .ranks = 1 };
    if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds))
        exit (99);
    scene->other = fds[1];
    scene->peer = peer_add (&scene->peers, fds[0], false);
    if (!scene->peer)
        exit (99);
    scene->peer->machine = &scene->all[1];
    scene->peer->until_ms = INT64_MAX;
}

static void
close_scene (struct scene *scene)
{
    for (struct peer *peer = scene->peers.first; peer; peer = peer->next)
        peer->is_dead = true;
    peers_remove_dead (&scene->peers);
    for (int i = 0; i < MACHINES; i++) {
        peers_reset_machine (&scene->all[i]);
        free (scene->all[i].host);
    }
    peers_release_outcome (&scene->peers.outcome);
    strbuf_release (&scene->peers.to_say);
    close (scene->peers.epoll);
    close (scene->other);
}

/* ---- who joins ---- */

struct join_case {
    const char *what;
    int port, machine, machines, world_size;
    bool is_taken;
};

static const struct join_case joins[] = {
    { "a launcher of this job joins", PORT, 2, MACHINES, MACHINES, true },
    { "one of another job is refused", PORT + 1, 2, MACHINES, MACHINES, false },
    { "one of a job of more machines is refused", PORT, 2, MACHINES + 1, MACHINES, false },
    { "one of a job of more ranks is refused", PORT, 2, MACHINES, MACHINES + 1, false },
    { "a second one of a machine is refused", PORT, 1, MACHINES, MACHINES, false },
    { "one of a machine that does not exist is refused", PORT, MACHINES, MACHINES, MACHINES, false },
};

static void
test_joins (void)
{
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        const struct join_case *row = &joins[i];
        const int64_t numbers[] = { row->port, row->machine, row->machines, row->world_size, 2, 1 };
        AUTO_STRBUF struct strbuf bytes = { 0 };
        struct wire_frame frame;
        struct scene scene;
        size_t used, begin = wire_begin (&bytes, WIRE_JOIN);
        wire_put_text (&bytes, PACKAGE_VERSION);
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++)
            wire_put_number (&bytes, numbers[j]);
        wire_put_text (&bytes, "host2");
        wire_end (&bytes, begin);
        open_scene (&scene);
        scene.peer->machine = NULL;
        if (wire_next (bytes.text, bytes.length, &frame, &used) == 1)
            coordinator_take (&scene.peers, scene.peer, &frame);
        bool is_taken = scene.peer->machine == &scene.all[2] && scene.all[2].state == MACHINE_JOINED;
        ok (is_taken == row->is_taken && scene.peer->is_leaving == !row->is_taken, "%s", row->what);
        close_scene (&scene);
    }
}

/* They connect and say nothing. */
static void
test_strangers (void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    struct scene scene;
    int fds[STRANGERS], alive = 0;
    open_scene (&scene);
    scene.peers.listener = socket (AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bind (scene.peers.listener, (struct sockaddr *) &address, length) || listen (scene.peers.listener, STRANGERS)
        || getsockname (scene.peers.listener, (struct sockaddr *) &address, &length))
        exit (99);
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect (fds[i], (struct sockaddr *) &address, length))
            exit (99);
        coordinator_accept (&scene.peers);
    }
    for (struct peer *peer = scene.peers.first; peer; peer = peer->next)
        alive += !peer->machine && !peer->is_dead;
    ok (alive == MOST_STRANGERS, "%d of %d strangers stay", alive, STRANGERS);
    ok (!scene.peer->is_dead, "the launcher stays, though it came before them");
    peers_remove_dead (&scene.peers);
    for (int i = 0; i < STRANGERS; i++)
        close (fds[i]);
    close (scene.peers.listener);
    close_scene (&scene);
}

/* ---- who leaves ---- */

static void
test_lost (void)
{
    struct scene scene;
    open_scene (&scene);
    coordinator_lose (&scene.peers, scene.peer, "lost");
    ok (scene.all[1].state == MACHINE_ABSENT && !scene.all[1].failed_ns && scene.peer->is_dead,
        "a launcher that is lost while it joins may come again");
    close_scene (&scene);

    open_scene (&scene);
    scene.peer->trip_ns = 1000;
    coordinator_lose (&scene.peers, scene.peer, "lost");
    ok (scene.all[1].state == MACHINE_LOST && scene.all[1].failed_ns
            && !strcmp (scene.all[1].text, "accelerate: host host1 (machine 1, rank 1): lost\n"),
        "one that is lost later has failed");
    close_scene (&scene);

    open_scene (&scene);
    scene.peer->trip_ns = 1000;
    scene.all[1].state = MACHINE_ENDED;
    coordinator_lose (&scene.peers, scene.peer, "lost");
    ok (scene.all[1].state == MACHINE_LOST && !scene.all[1].failed_ns, "one whose part was over has not");
    close_scene (&scene);
}

/* ---- what was sent ---- */

static void
test_flush (void)
{
    char bytes[16];
    struct scene scene;
    open_scene (&scene);
    strbuf_add (&scene.peer->pipe.to_write, "refused");
    scene.peer->is_leaving = true;
    ok (!peers_is_flushed (&scene.peers), "what is not written yet is waited for");
    peer_flush (&scene.peers, scene.peer);
    ok (peers_is_flushed (&scene.peers) && read (scene.other, bytes, sizeof bytes) == 7, "it is written");
    ok (scene.peer->is_dead, "who is refused leaves then");
    close_scene (&scene);

    open_scene (&scene);
    for (int i = 0; i < 10000; i++)
        strbuf_add (&scene.peer->pipe.to_write, "more than the buffer of a socket has room for, which stays unread");
    scene.peer->is_leaving = true;
    peer_flush (&scene.peers, scene.peer);
    ok (!scene.peer->is_dead && !peers_is_flushed (&scene.peers), "but not before it has been told why");
    close_scene (&scene);
}

static void
test_told (void)
{
    struct scene scene;
    open_scene (&scene);
    peers_set_outcome (&scene.peers, &(struct job_outcome){ .machine = -1, .end = WIRE_END_DONE });
    int64_t now = scene.peers.outcome_ms;
    ok (!coordinator_has_told_all (&scene.peers, now), "a launcher that has not answered is waited for");
    ok (!coordinator_has_told_all (&scene.peers, now + PEERS_FLUSH_MS - 1), "for its time");
    ok (coordinator_has_told_all (&scene.peers, now + PEERS_FLUSH_MS), "but not longer");
    scene.peer->has_acknowledged = true;
    ok (coordinator_has_told_all (&scene.peers, now), "one that has answered is not");
    close_scene (&scene);
}

/* ---- ranks that failed because others had failed ---- */

/* Which file has the key of jobs. */
static char key_file[] = ".test_coordinator.XXXXXX";

static bool
make_key (void)
{
    int fd = mkstemp (key_file);
    return fd >= 0 && write (fd, "0123456789abcdef", 16) == 16 && !close (fd);
}

/* @return what this launcher says when its rank has exited with status 3, @p later_ns after rank 1 was aborted on
 * another machine; to be freed */
static char *
say_victim (int64_t later_ns)
{
    struct config config = { .settings = settings };
    struct plan_process process = { .rank = 0 };
    struct job_rank rank = { .process = &process, .pid = 77, .ended = true, .wait_status = 3 << 8 };
    struct job job = { .plan = &plan, .ranks = &rank, .count = 1, .end = JOB_FAILED, .port_lock = -1 };
    struct peers *peers = NULL;
    struct fail fail = { .text = "" };
    config.settings.job_key_file = key_file;
    if (peers_create (&peers, &config, &plan, &fail) || !peers) {
        diag ("%s", fail.text);
        return NULL;
    }
    peers->start_ms = peers->turn_ms = clock_ms ();
    peers->epoll = epoll_create1 (EPOLL_CLOEXEC);
    peers->all[1] = (struct peers_machine){ .state = MACHINE_ENDED, .host = strdup ("host1"), .first_rank = 1 };
    peers_set_failure (&peers->all[1], clock_ns () - later_ns, WIRE_END_FAILED, 1, "accelerate: rank 1 was first\n",
                       NULL);
    job.failed_ns = clock_ns ();
    peers->hook.serve (&peers->hook, &job, true, true);
    char *said = peers_take_rest (peers);
    peers_destroy (peers);
    return said;
}

static void
test_victim (void)
{
    AUTO_FREE char *later = say_victim (10000000000), *same = say_victim (0);
    is_text (later, "accelerate: rank 1 was first\n  after it, rank 0 (process 77 on host0) exited with status 3\n",
             "a rank that failed after another is reported");
    bool is_once = same && !strstr (same, "after it")
                   && strstr (same, "  at nearly the same time, rank 0 (process 77 on host0) exited with status 3\n");
    if (!ok (is_once, "one that may have been first is reported once"))
        diag ("%s", same ? same : "nothing");
}

/* ---- how it was on the other machines ---- */

static void
test_answers (void)
{
    struct scene scene;
    open_scene (&scene);
    peers_set_failure (&scene.all[0], clock_ns (), WIRE_END_FAILED, 1, "accelerate: rank 0\n", NULL);
    coordinator_decide (&scene.peers, false);
    ok (scene.peers.hook.must_end && !scene.peers.outcome.is_known, "the answer of a machine is waited for");
    scene.all[1].has_answered = true;
    coordinator_decide (&scene.peers, false);
    ok (scene.peers.outcome.is_known && scene.peers.outcome.machine == 0, "and nothing else");
    close_scene (&scene);
}

/* @return this launcher's machine after two turns: in the first one, a rank that may be the cause is still ending; to
 * be destroyed with its peers */
static struct peers *
settle (enum job_end end, int64_t failed_ns, bool *was_early)
{
    struct config config = { .settings = settings };
    struct plan_process process = { .rank = 0 };
    struct job_rank rank = { .process = &process, .pid = 77, .ended = true, .wait_status = 3 << 8 };
    struct job job = { .plan = &plan, .ranks = &rank, .count = 1, .end = end, .port_lock = -1, .failed_ns = failed_ns,
                       .ending = 1 };
    struct peers *peers = NULL;
    config.settings.job_key_file = key_file;
    if (peers_create (&peers, &config, &plan, NULL) || !peers)
        exit (99);
    peers->start_ms = peers->turn_ms = clock_ms ();
    peers->epoll = epoll_create1 (EPOLL_CLOEXEC);
    peers->is_asked = true;
    peers->all[1] = (struct peers_machine){ .state = MACHINE_JOINED, .host = strdup ("host1"), .first_rank = 1 };
    peers->hook.serve (&peers->hook, &job, false, false);
    *was_early = peers->own->failed_ns || peers->own->has_answered;
    job.ending = 0;
    peers->hook.serve (&peers->hook, &job, false, false);
    return peers;
}

static void
test_settled (void)
{
    bool was_early;
    int64_t failed_ns = clock_ns ();
    struct peers *peers = settle (JOB_FAILED, failed_ns, &was_early);
    ok (!was_early, "a rank that is ending may be the cause, and is waited for");
    ok (peers->own->failed_ns == failed_ns, "the failure was when it was seen");
    peers_destroy (peers);
    peers = settle (JOB_ELSEWHERE, clock_ns (), &was_early);
    ok (!was_early && peers->own->has_answered, "so is it before machine 0 learns that nothing has failed here");
    peers_destroy (peers);
}

static void
test_listens (void)
{
    struct scene scene;
    open_scene (&scene);
    coordinator_begin (&scene.peers);
    ok (scene.peers.listener >= 0, "machine 0 listens at one of its ports");
    if (scene.peers.listener >= 0)
        close (scene.peers.listener);
    close_scene (&scene);
}

/* ---- restarts ---- */

/* A launcher that is alone begins the next attempt without being asked, and once. */
static void
test_restart (void)
{
    struct scene scene;
    open_scene (&scene);
    peers_set_failure (&scene.all[0], 1, WIRE_END_FAILED, 1, "accelerate: rank 0\n", NULL);
    peers_set_outcome (&scene.peers, &(struct job_outcome){ .end = WIRE_END_FAILED, .status = 1 });
    peers_restart (&scene.peers);
    ok (!scene.peers.outcome.is_known && !scene.peers.hook.must_end && !scene.all[0].failed_ns,
        "a restart knows nothing of the attempt before");
    peers_restart (&scene.peers);
    ok (scene.peers.restarts == 1 && scene.peers.last.is_known, "one on which all have agreed is not begun once more");
    peers_release_outcome (&scene.peers.last);
    close_scene (&scene);
}

/* Where a machine is lost, or its launcher was told to stop, nothing can start again. */
static void
test_ends (void)
{
    static const struct settings again = { .grace = 1, .num_machines = MACHINES, .main_process_ip = host0,
                                           .max_restarts = 1 };
    static const struct {
        const char *what;
        enum wire_end end;
        const char *notice;
        bool is_lost, may_restart;
    } rows[] = {
        { "where all have ended after a failure, the ranks start again", WIRE_END_FAILED, NULL, false, true },
        { "but not if a launcher got a signal meanwhile", WIRE_END_FAILED, "by SIGTERM on host2", false, false },
        { "there is no restart after a machine was lost", WIRE_END_FAILED, NULL, true, false },
        { "ranks that have stopped because one of them was asked to start again", WIRE_END_ASKED, NULL, false, true },
        { "but not if a launcher was asked, too", WIRE_END_ASKED, "by SIGTERM on host2", false, false },
        { "nor after another stop", WIRE_END_STOPPED, NULL, false, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool is_lost = rows[i].is_lost;
        struct scene scene;
        open_scene (&scene);
        scene.peers.settings = &again;
        scene.peers.has_joined = true;
        scene.all[0].state = MACHINE_ENDED;
        scene.all[1].state = is_lost ? MACHINE_LOST : MACHINE_ENDED;
        scene.peer->is_dead = is_lost;
        scene.peer->has_acknowledged = true;
        scene.peers.notice = rows[i].notice ? strdup (rows[i].notice) : NULL;
        peers_set_outcome (&scene.peers, &(struct job_outcome){ .end = rows[i].end, .status = FAIL_STOPPED });
        ok (coordinator_is_over (&scene.peers) && scene.peers.outcome.is_known == !rows[i].may_restart, "%s",
            rows[i].what);
        free (scene.peers.notice);
        peers_release_outcome (&scene.peers.last);
        close_scene (&scene);
    }
}

/* ---- another machine's launcher ---- */

/* Only the first port has a listener, which says nothing. */
static void
test_dial (void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    struct config config = { .settings = settings };
    struct job job = { .plan = &plan, .port_lock = -1 };
    struct peers *peers = NULL;
    static char loopback[] = "127.0.0.1";
    AUTO_CLOSE int listener = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind (listener, (struct sockaddr *) &address, length) || listen (listener, 1)
        || getsockname (listener, (struct sockaddr *) &address, &length))
        exit (99);
    config.settings.machine_rank = 1;
    config.settings.main_process_ip = loopback;
    config.settings.main_process_port = ntohs (address.sin_port) - (peers_first_port (PORT) - PORT);
    config.settings.job_key_file = key_file;
    if (!ok (!peers_create (&peers, &config, &plan, NULL) && peers, "a launcher of machine 1"))
        return;
    peers_begin (peers);
    peers->hook.serve (&peers->hook, &job, false, false);
    if (ok (peers->first && peers->first->is_connecting, "it connects"))
        peers->first->is_dead = true;
    peers->hook.serve (&peers->hook, &job, false, false);
    ok (peers->first || peers->dial.again_ms, "when that fails it continues in the same turn");
    peers_destroy (peers);
}

/* It may take long to find out what a name means. */
static void
test_name (void)
{
    static char name[] = "localhost";
    struct config config = { .settings = settings };
    struct job job = { .plan = &plan, .port_lock = -1 };
    struct peers *peers = NULL;
    config.settings.machine_rank = 1;
    config.settings.main_process_ip = name;
    config.settings.job_key_file = key_file;
    if (!ok (!peers_create (&peers, &config, &plan, NULL) && peers, "a launcher of machine 1, with a name"))
        return;
    peers_begin (peers);
    peers->hook.serve (&peers->hook, &job, false, false);
    struct pollfd answer = { .fd = peers->dial.resolver, .events = POLLIN };
    ok (answer.fd >= 0 && poll (&answer, 1, 60000) == 1, "another thread finds out what it means");
    if (answer.fd >= 0)
        participant_resolved (peers);
    ok (peers->dial.resolver < 0 && (peers->dial.count || peers->dial.again_ms), "or that it means nothing");
    peers_destroy (peers);
}

/* A failure of ours that came before machine 0 has taken us. */
static void
test_joined (void)
{
    AUTO_STRBUF struct strbuf bytes = { 0 };
    struct wire_frame frame;
    size_t used;
    wire_put_frame (&bytes, WIRE_SIGNAL, SIGTERM);
    for (int has_failed = 0; has_failed < 2; has_failed++) {
        struct scene scene;
        open_scene (&scene);
        scene.peers.machine = 1;
        scene.peers.own = &scene.all[1];
        scene.peer->channel.has_greeted = true;
        if (has_failed)
            peers_set_failure (&scene.all[1], 1, WIRE_END_FAILED, 1, "accelerate: rank 1\n", NULL);
        if (wire_next (bytes.text, bytes.length, &frame, &used) == 1)
            participant_take (&scene.peers, scene.peer, &frame);
        ok (scene.peers.has_joined && pipe_has_output (&scene.peer->pipe) == has_failed, "machine 0 learns %s",
            has_failed ? "what has failed before it took us" : "nothing, where nothing has failed");
        close_scene (&scene);
    }
}

/* Our part is over, and machine 0 has welcomed us, but has not taken us yet. */
static void
test_waits (void)
{
    struct scene scene;
    open_scene (&scene);
    scene.peers.machine = 1;
    scene.peers.own = &scene.all[1];
    scene.peers.over_ms = clock_ms ();
    scene.peer->is_welcomed = true;
    ok (!participant_is_over (&scene.peers), "machine 0's answer is waited for");
    scene.peer->is_welcomed = false;
    ok (participant_is_over (&scene.peers), "but not where it has said nothing");
    scene.peer->is_welcomed = true;
    scene.peers.over_ms -= PEERS_FLUSH_MS;
    ok (participant_is_over (&scene.peers), "nor for ever");
    close_scene (&scene);
}

static void
put_notice (struct scene *scene, const char *why)
{
    AUTO_STRBUF struct strbuf bytes = { 0 };
    struct wire_frame frame;
    size_t used, begin = wire_begin (&bytes, WIRE_NOTICE);
    wire_put_text (&bytes, why);
    wire_end (&bytes, begin);
    if (wire_next (bytes.text, bytes.length, &frame, &used) == 1)
        coordinator_take (&scene->peers, scene->peer, &frame);
}

/* All ranks are to save and stop: machine 0 tells all but the machine that has said so. */
static void
test_notices (void)
{
    for (int is_own = 0; is_own < 2; is_own++) {
        struct scene scene;
        open_scene (&scene);
        scene.peer->channel.has_greeted = true;
        if (is_own)
            peers_set_notice (&scene.peers, "at the time limit", NULL);
        else
            put_notice (&scene, "at the time limit");
        put_notice (&scene, "for another reason");
        is_text (scene.peers.hook.stop_reason, "at the time limit", "the first reason counts");
        ok (pipe_has_output (&scene.peer->pipe) == is_own, "machine 1 %s", is_own ? "hears of it" : "knows");
        peers_reset (&scene.peers);
        ok (scene.peers.hook.stop_reason && scene.peers.notice, "a start that has begun meanwhile is asked, too");
        free (scene.peers.notice);
        close_scene (&scene);
    }
}

static struct peers *
make_peers (void)
{
    static struct config config; /* of which the launcher keeps the settings' address */
    struct peers *peers = NULL;
    config.settings = settings;
    config.settings.job_key_file = key_file;
    if (peers_create (&peers, &config, &plan, NULL) || !peers)
        exit (99);
    peers->start_ms = peers->turn_ms = clock_ms ();
    peers->epoll = epoll_create1 (EPOLL_CLOEXEC);
    return peers;
}

/* Ranks that have been asked to save and stop are waited for before the others hear of their end. */
static void
test_stopped (void)
{
    struct job job = { .plan = &plan, .end = JOB_STOPPED, .stop_reason = "at the time limit", .port_lock = -1 };
    struct peers *peers = make_peers ();
    peers->hook.notice (&peers->hook, job.stop_reason);
    peers->hook.serve (&peers->hook, &job, false, false);
    ok (!peers->own->failed_ns && !peers->hook.must_end, "a stop that all know of ends no rank");
    peers->hook.serve (&peers->hook, &job, true, true);
    ok (peers->own->failed_ns && peers->own->end == WIRE_END_STOPPED, "it is what has become of them at the end");
    AUTO_FREE char *said = peers_take_rest (peers);
    ok (!said, "and nothing is said of it beside their own report");
    peers_destroy (peers);
}

/* A signal to stop comes while ours end after a failure that no other launcher knows yet. */
static void
test_late_signal (void)
{
    struct job_rank rank = { .process = &(struct plan_process){ .rank = 0 } };
    struct job job = { .plan = &plan, .ranks = &rank, .end = JOB_FAILED, .ending = true, .failed_ns = clock_ns (),
                       .port_lock = -1 };
    struct peers *peers = make_peers ();
    peers->hook.notice (&peers->hook, "by SIGTERM on host1");
    peers->hook.serve (&peers->hook, &job, false, false);
    ok (!peers->notice && !peers->own->failed_ns, "others are not asked to save with a rank that has failed");
    job.ending = false;
    peers->hook.serve (&peers->hook, &job, false, false);
    ok (peers->notice && peers->own->failed_ns, "they learn of the failure first, then of the signal");
    peers_destroy (peers);
}

int
main (void)
{
    signal (SIGPIPE, SIG_IGN);
    if (sodium_init () < 0)
        return 99;
    test_joins ();
    test_strangers ();
    test_lost ();
    test_flush ();
    test_told ();
    test_answers ();
    test_listens ();
    test_restart ();
    test_ends ();
    test_joined ();
    test_notices ();
    test_waits ();
    if (!make_key ())
        return 99;
    test_victim ();
    test_settled ();
    test_stopped ();
    test_late_signal ();
    test_dial ();
    test_name ();
    unlink (key_file);
    return done_testing ();
}
