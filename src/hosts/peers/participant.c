/* SPDX-License-Identifier: Apache-2.0 */
/* The part of launchers on other machines than machine 0: they connect, tell what fails, and obey; see peers.h. */
#include <config.h>

#include "hosts/peers/state.h"

#include "hosts/root_cause.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>

enum { CONNECT_MS = 2000, FIRST_PAUSE_MS = 100, LAST_PAUSE_MS = 2000 };

/* ---- the address ---- */

struct answer {
    int count, error;
    socklen_t lengths[PEERS_ADDRESSES];
    struct sockaddr_storage addresses[PEERS_ADDRESSES];
};

struct question {
    int fd;
    char name[256];
};

static void
look_up (const char *name, int flags, struct answer *answer)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags }, *found = NULL;
    *answer = (struct answer){ .error = getaddrinfo (name, NULL, &hints, &found) };
    if (answer->error)
        return;
    for (const struct addrinfo *at = found; at && answer->count < PEERS_ADDRESSES; at = at->ai_next) {
        memcpy (&answer->addresses[answer->count], at->ai_addr, at->ai_addrlen);
        answer->lengths[answer->count++] = at->ai_addrlen;
    }
    freeaddrinfo (found);
}

/* Names may come from a server that does not answer, and the supervisor must not wait for it. */
static void *
run_resolver (void *argument)
{
    struct question *question = argument;
    struct answer answer;
    look_up (question->name, 0, &answer);
    ssize_t unused = write (question->fd, &answer, sizeof answer); /* fits into a pipe, so all at once */
    (void) unused;
    close (question->fd);
    free (question);
    return NULL;
}

static void
take_answer (struct peers *peers, const struct answer *answer)
{
    struct peers_dial *dial = &peers->dial;
    if (answer->error)
        peers_set_why (peers, 1, "%s", gai_strerror (answer->error));
    dial->count = answer->count;
    memcpy (dial->addresses, answer->addresses, sizeof dial->addresses);
    memcpy (dial->lengths, answer->lengths, sizeof dial->lengths);
}

static void
begin_pause (struct peers *peers)
{
    struct peers_dial *dial = &peers->dial;
    int64_t pause_ms = (int64_t) FIRST_PAUSE_MS << (dial->rounds < 5 ? dial->rounds : 5);
    dial->rounds++;
    dial->next = 0;
    dial->count = 0; /* names may mean something else by then */
    dial->again_ms = clock_ms () + (pause_ms < LAST_PAUSE_MS ? pause_ms : LAST_PAUSE_MS);
}

static void
begin_resolving (struct peers *peers)
{
    struct answer answer;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &peers->dial };
    pthread_t thread;
    int ends[2];
    look_up (peers->settings->main_process_ip, AI_NUMERICHOST, &answer);
    if (!answer.error) {
        take_answer (peers, &answer);
        return;
    }
    struct question *question = calloc (1, sizeof *question);
    if (!question || pipe2 (ends, O_CLOEXEC)) {
        free (question);
        begin_pause (peers);
        return;
    }
    question->fd = ends[1];
    snprintf (question->name, sizeof question->name, "%s", peers->settings->main_process_ip);
    if (epoll_ctl (peers->epoll, EPOLL_CTL_ADD, ends[0], &event)
        || pthread_create (&thread, NULL, run_resolver, question)) {
        close (ends[0]);
        close (ends[1]);
        free (question);
        begin_pause (peers);
        return;
    }
    pthread_detach (thread);
    peers->dial.resolver = ends[0];
}

void
participant_resolved (struct peers *peers)
{
    struct answer answer = { .count = 0 };
    ssize_t got = read (peers->dial.resolver, &answer, sizeof answer);
    close (peers->dial.resolver);
    peers->dial.resolver = -1;
    take_answer (peers, &answer);
    if (got != sizeof answer || !answer.count)
        begin_pause (peers);
}

/* ---- the connection ---- */

static void
set_port (struct sockaddr_storage *address, int port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *) address)->sin6_port = htons ((uint16_t) port);
    else
        ((struct sockaddr_in *) address)->sin_port = htons ((uint16_t) port);
}

/* All addresses at the first port, then at the second: machine 0 takes the first that is free there. */
static void
try_next (struct peers *peers)
{
    struct peers_dial *dial = &peers->dial;
    int address = dial->next % dial->count, port = peers_first_port (peers->port) + dial->next / dial->count;
    struct sockaddr_storage to = dial->addresses[address];
    set_port (&to, port);
    dial->next++;
    int fd = socket (to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || (connect (fd, (struct sockaddr *) &to, dial->lengths[address]) && errno != EINPROGRESS)) {
        peers_set_why (peers, 1, "%s", strerror (errno));
        if (fd >= 0)
            close (fd);
        return;
    }
    struct peer *peer = peer_add (peers, fd, true);
    if (!peer)
        return;
    peer->until_ms = clock_ms () + CONNECT_MS;
    getnameinfo ((struct sockaddr *) &to, dial->lengths[address], peer->name, sizeof peer->name, NULL, 0,
                 NI_NUMERICHOST);
}

static bool
has_key (struct peers *peers)
{
    struct fail why = { 0 };
    if (peers->key->length)
        return true;
    if (!job_key_read (peers->key, peers->settings->job_key_file, false, &why))
        return true;
    peers_set_why (peers, PEERS_WHY_LASTS, "%s", why.text);
    return false;
}

void
participant_dial (struct peers *peers)
{
    struct peers_dial *dial = &peers->dial;
    if (peers->has_joined || peers->first || dial->resolver >= 0 || clock_ms () < dial->again_ms)
        return;
    if (dial->again_ms) {
        dial->again_ms = 0;
        dial->weight = 0; /* another round, other reasons */
    }
    if (!has_key (peers)) {
        begin_pause (peers);
        return;
    }
    if (!dial->count)
        begin_resolving (peers);
    while (dial->count && !peers->first && dial->next < dial->count * PEERS_PORTS)
        try_next (peers);
    if (dial->count && !peers->first)
        begin_pause (peers);
}

/* Without machine 0's outcome, a failure of ours is one.  @also  what else went wrong; may be NULL */
static void
failure_own (struct peers *peers, const char *also)
{
    const struct peers_machine *own = peers->own;
    peers_set_outcome (peers, &(struct job_outcome){ .machine = peers->machine, .end = own->end, .status = own->status,
                                                     .text = own->text, .also = (char *) also, .json = own->json });
}

/* Until machine 0 has taken us, the next port is tried; then it is the end of the job, unless that has come before by a
 * failure of ours on which there is no outcome yet. */
void
participant_lose (struct peers *peers, struct peer *peer, const char *why)
{
    peer->is_dead = true;
    if (!peers->has_joined) {
        peers_set_why (peers, 1, "%s", why);
        return;
    }
    if (peers->outcome.is_known)
        return;
    struct peers_machine main = { .host = peers->main_host };
    peers_lose (peers, &main, 0, peer->pipe.heard_ms, why);
    struct failure failures[] = { peers_failure_of (peers->own), peers_failure_of (&main) };
    AUTO_STRBUF struct strbuf also = { 0 };
    strbuf_printf (&also, "  %s", main.text ? root_cause_text (main.text) : "");
    if (root_cause_find (failures, 2) == 0)
        failure_own (peers, also.text);
    else
        peers_set_outcome (peers, &(struct job_outcome){ .end = main.end, .status = main.status, .text = main.text,
                                                         .json = main.json });
    free (main.text);
    free (main.json);
}

/* ---- frames ---- */

static void
join (struct peers *peers, struct peer *peer, struct wire_frame *frame)
{
    const char *version = wire_text (frame), *host = wire_text (frame);
    int64_t timeout_ms = wire_number (frame);
    AUTO_STRBUF struct strbuf join = { 0 };
    if (!version || !host || strcmp (version, PACKAGE_VERSION) != 0) {
        peers_set_why (peers, PEERS_WHY_LASTS, "it is accelerate %s, but this one is accelerate %s",
                       version ? version : "?", PACKAGE_VERSION);
        peer->is_dead = true;
        return;
    }
    peer->is_welcomed = true;
    /* Machine 0 beats as often as its own limit needs. */
    if (timeout_ms > peers->timeout_ms && timeout_ms <= PEERS_LONGEST_MS)
        peers->timeout_ms = timeout_ms;
    peer->until_ms = clock_ms () + peers->timeout_ms;
    free (peers->main_host);
    peers->main_host = strdup (host);
    size_t begin = wire_begin (&join, WIRE_JOIN);
    wire_put_text (&join, PACKAGE_VERSION);
    wire_put_number (&join, peers->port);
    wire_put_number (&join, peers->machine);
    wire_put_number (&join, peers->machines);
    wire_put_number (&join, peers->own->ranks ? peers->plan->world_size : 0);
    wire_put_number (&join, peers->own->first_rank);
    wire_put_number (&join, peers->own->ranks);
    wire_put_text (&join, peers->own->host);
    wire_end (&join, begin);
    peer_put (peer, &join);
}

/* The first frame after the welcome says that we are accepted.  What has happened here before is reported now. */
static void
note_joined (struct peers *peers, struct peer *peer)
{
    if (peers->has_joined)
        return;
    peers->has_joined = true;
    peer->machine = peers->own;
    peer->until_ms = INT64_MAX;
    if (peers->notice)
        peers_put_notice (peers, NULL);
    if (peers->own->failed_ns || peers->over_ms)
        peer_put_failure (peer, peers->over_ms ? WIRE_END : WIRE_FAILED, peers->own);
}

static void
take_outcome (struct peers *peers, struct peer *peer, struct wire_frame *frame)
{
    int machine = (int) wire_number (frame);
    enum wire_end end = (enum wire_end) wire_number (frame);
    int status = (int) wire_number (frame);
    const char *text = wire_text (frame), *also = wire_text (frame), *json = wire_text (frame);
    if (frame->failed)
        return;
    peers_set_outcome (peers, &(struct job_outcome){ .machine = machine, .end = end, .status = status,
                                                     .text = (char *) text, .also = (char *) also,
                                                     .json = (char *) json });
    peer_put_number (peer, WIRE_ACK, 0);
}

void
participant_take (struct peers *peers, struct peer *peer, struct wire_frame *frame)
{
    const char *refusal;
    if (frame->type != WIRE_WELCOME && frame->type != WIRE_REFUSED)
        note_joined (peers, peer);
    switch (frame->type) {
    case WIRE_WELCOME: join (peers, peer, frame); break;
    case WIRE_REFUSED:
        wire_number (frame);
        refusal = wire_text (frame);
        peers_set_why (peers, 2, "%s", refusal ? refusal : "it refused");
        peer->is_dead = true;
        break;
    case WIRE_HEARTBEAT: peer_put_number (peer, WIRE_HEARTBEAT, wire_number (frame)); break;
    case WIRE_NOTICE: peers_set_notice (peers, wire_text (frame), peer); break;
    case WIRE_SIGNAL: peers->hook.must_end = peers->is_asked = true; break;
    case WIRE_OUTCOME: take_outcome (peers, peer, frame); break;
    case WIRE_AGAIN: peers_reset (peers); break;
    default: peer->is_dead = true;
    }
    peer->is_dead = peer->is_dead || frame->failed;
}

/* ---- the end ---- */

void
participant_decide (struct peers *peers)
{
    const struct peers_machine *own = peers->own;
    if (!peers->outcome.is_known && own->failed_ns && peers->has_joined
        && clock_ns () >= own->failed_ns + (int64_t) PEERS_OUTCOME_MS * 1000000)
        failure_own (peers, NULL);
}

bool
participant_is_over (struct peers *peers)
{
    int64_t now = clock_ms (), limit_ms = peers->settings->grace * 1000 + PEERS_EXTRA_MS;
    if (peers->again)
        return true;
    if (!peers->has_joined && peers->first && peers->first->is_welcomed && now < peers->over_ms + PEERS_FLUSH_MS)
        return false; /* machine 0 may have taken us already */
    if (!peers->has_joined)
        return !peers->own->failed_ns || !peers->key->length || now >= peers->start_ms + PEERS_SETTLE_MS;
    if (!peers->outcome.is_known)
        return false;
    bool is_flushed = peers_is_flushed (peers) || now >= peers_settled_ms (peers) + PEERS_FLUSH_MS;
    if (!peers_may_start_again (peers) || !peers->first)
        return is_flushed;
    return now >= peers_settled_ms (peers) + limit_ms;
}
