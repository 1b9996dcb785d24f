/* SPDX-License-Identifier: Apache-2.0 */
/* The part of launchers on other machines than machine 0: they connect, tell what fails, and obey; see crew.h. */
#include <config.h>

#include "hosts/crew_state.h"

#include "hosts/blame.h"
#include "hosts/jobkey.h"
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
    socklen_t lengths[CREW_ADDRESSES];
    struct sockaddr_storage addresses[CREW_ADDRESSES];
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
    for (const struct addrinfo *at = found; at && answer->count < CREW_ADDRESSES; at = at->ai_next) {
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
take_answer (struct crew *crew, const struct answer *answer)
{
    struct crew_dial *dial = &crew->dial;
    if (answer->error)
        crew_set_why (crew, 1, "%s", gai_strerror (answer->error));
    dial->count = answer->count;
    memcpy (dial->addresses, answer->addresses, sizeof dial->addresses);
    memcpy (dial->lengths, answer->lengths, sizeof dial->lengths);
}

static void
begin_pause (struct crew *crew)
{
    struct crew_dial *dial = &crew->dial;
    int64_t pause_ms = (int64_t) FIRST_PAUSE_MS << (dial->rounds < 5 ? dial->rounds : 5);
    dial->rounds++;
    dial->next = 0;
    dial->count = 0; /* names may mean something else by then */
    dial->again_ms = clock_ms () + (pause_ms < LAST_PAUSE_MS ? pause_ms : LAST_PAUSE_MS);
}

static void
begin_resolving (struct crew *crew)
{
    struct answer answer;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &crew->dial };
    pthread_t thread;
    int ends[2];
    look_up (crew->settings->main_process_ip, AI_NUMERICHOST, &answer);
    if (!answer.error) {
        take_answer (crew, &answer);
        return;
    }
    struct question *question = calloc (1, sizeof *question);
    if (!question || pipe2 (ends, O_CLOEXEC)) {
        free (question);
        begin_pause (crew);
        return;
    }
    question->fd = ends[1];
    snprintf (question->name, sizeof question->name, "%s", crew->settings->main_process_ip);
    if (epoll_ctl (crew->epoll, EPOLL_CTL_ADD, ends[0], &event)
        || pthread_create (&thread, NULL, run_resolver, question)) {
        close (ends[0]);
        close (ends[1]);
        free (question);
        begin_pause (crew);
        return;
    }
    pthread_detach (thread);
    crew->dial.resolver = ends[0];
}

void
crew_member_resolved (struct crew *crew)
{
    struct answer answer = { .count = 0 };
    ssize_t got = read (crew->dial.resolver, &answer, sizeof answer);
    close (crew->dial.resolver);
    crew->dial.resolver = -1;
    take_answer (crew, &answer);
    if (got != sizeof answer || !answer.count)
        begin_pause (crew);
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
try_next (struct crew *crew)
{
    struct crew_dial *dial = &crew->dial;
    int address = dial->next % dial->count, port = crew_first_port (crew->port) + dial->next / dial->count;
    struct sockaddr_storage to = dial->addresses[address];
    set_port (&to, port);
    dial->next++;
    int fd = socket (to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || (connect (fd, (struct sockaddr *) &to, dial->lengths[address]) && errno != EINPROGRESS)) {
        crew_set_why (crew, 1, "%s", strerror (errno));
        if (fd >= 0)
            close (fd);
        return;
    }
    struct crew_peer *peer = crew_peer_add (crew, fd, true);
    if (!peer)
        return;
    peer->until_ms = clock_ms () + CONNECT_MS;
    getnameinfo ((struct sockaddr *) &to, dial->lengths[address], peer->name, sizeof peer->name, NULL, 0,
                 NI_NUMERICHOST);
}

static bool
has_key (struct crew *crew)
{
    struct fail why = { 0 };
    if (crew->key->length)
        return true;
    if (!jobkey_read (crew->key, crew->settings->job_key_file, false, &why))
        return true;
    crew_set_why (crew, CREW_WHY_LASTS, "%s", why.text);
    return false;
}

void
crew_member_dial (struct crew *crew)
{
    struct crew_dial *dial = &crew->dial;
    if (crew->has_joined || crew->peers || dial->resolver >= 0 || clock_ms () < dial->again_ms)
        return;
    if (dial->again_ms) {
        dial->again_ms = 0;
        dial->weight = 0; /* another round, other reasons */
    }
    if (!has_key (crew)) {
        begin_pause (crew);
        return;
    }
    if (!dial->count)
        begin_resolving (crew);
    while (dial->count && !crew->peers && dial->next < dial->count * CREW_PORTS)
        try_next (crew);
    if (dial->count && !crew->peers)
        begin_pause (crew);
}

/* Without machine 0's verdict, a failure of ours is one.  @also  what else went wrong; may be NULL */
static void
blame_own (struct crew *crew, const char *also)
{
    const struct crew_machine *own = crew->own;
    crew_set_verdict (crew, &(struct crew_verdict){ .machine = crew->machine, .end = own->end, .status = own->status,
                                                    .text = own->text, .also = (char *) also, .json = own->json });
}

/* Until machine 0 has taken us, the next port is tried; then it is the end of the job, unless that has come before by a
 * failure of ours on which there is no verdict yet. */
void
crew_member_lose (struct crew *crew, struct crew_peer *peer, const char *why)
{
    peer->is_dead = true;
    if (!crew->has_joined) {
        crew_set_why (crew, 1, "%s", why);
        return;
    }
    if (crew->verdict.is_known)
        return;
    struct crew_machine main = { .host = crew->main_host };
    crew_lose (crew, &main, 0, peer->pipe.heard_ms, why);
    struct blame blames[] = { crew_blame_of (crew->own), crew_blame_of (&main) };
    AUTO_STRBUF struct strbuf also = { 0 };
    strbuf_printf (&also, "  %s", main.text ? blame_without_prefix (main.text) : "");
    if (blame_find_first (blames, 2) == 0)
        blame_own (crew, also.text);
    else
        crew_set_verdict (crew, &(struct crew_verdict){ .end = main.end, .status = main.status, .text = main.text,
                                                        .json = main.json });
    free (main.text);
    free (main.json);
}

/* ---- frames ---- */

static void
join (struct crew *crew, struct crew_peer *peer, struct wire_frame *frame)
{
    const char *version = wire_text (frame), *host = wire_text (frame);
    int64_t timeout_ms = wire_number (frame);
    AUTO_STRBUF struct strbuf join = { 0 };
    if (!version || !host || strcmp (version, PACKAGE_VERSION) != 0) {
        crew_set_why (crew, CREW_WHY_LASTS, "it is accelerate %s, but this one is accelerate %s",
                      version ? version : "?", PACKAGE_VERSION);
        peer->is_dead = true;
        return;
    }
    peer->is_welcomed = true;
    /* Machine 0 beats as often as its own limit needs. */
    if (timeout_ms > crew->timeout_ms && timeout_ms <= CREW_LONGEST_MS)
        crew->timeout_ms = timeout_ms;
    peer->until_ms = clock_ms () + crew->timeout_ms;
    free (crew->main_host);
    crew->main_host = strdup (host);
    size_t begin = wire_begin (&join, WIRE_JOIN);
    wire_put_text (&join, PACKAGE_VERSION);
    wire_put_number (&join, crew->port);
    wire_put_number (&join, crew->machine);
    wire_put_number (&join, crew->machines);
    wire_put_number (&join, crew->own->ranks ? crew->plan->world_size : 0);
    wire_put_number (&join, crew->own->first_rank);
    wire_put_number (&join, crew->own->ranks);
    wire_put_text (&join, crew->own->host);
    wire_end (&join, begin);
    crew_peer_put (peer, &join);
}

/* The first frame after the welcome says that we are taken.  What has happened here before is told now. */
static void
note_joined (struct crew *crew, struct crew_peer *peer)
{
    if (crew->has_joined)
        return;
    crew->has_joined = true;
    peer->machine = crew->own;
    peer->until_ms = INT64_MAX;
    if (crew->own->failed_ns || crew->over_ms)
        crew_peer_put_failure (peer, crew->over_ms ? WIRE_END : WIRE_FAILED, crew->own);
}

static void
take_verdict (struct crew *crew, struct crew_peer *peer, struct wire_frame *frame)
{
    int machine = (int) wire_number (frame);
    enum wire_end end = (enum wire_end) wire_number (frame);
    int status = (int) wire_number (frame);
    const char *text = wire_text (frame), *also = wire_text (frame), *json = wire_text (frame);
    if (frame->failed)
        return;
    crew_set_verdict (crew, &(struct crew_verdict){ .machine = machine, .end = end, .status = status,
                                                    .text = (char *) text, .also = (char *) also,
                                                    .json = (char *) json });
    crew_peer_put_number (peer, WIRE_ACK, 0);
}

void
crew_member_take (struct crew *crew, struct crew_peer *peer, struct wire_frame *frame)
{
    const char *refusal;
    if (frame->type != WIRE_WELCOME && frame->type != WIRE_REFUSED)
        note_joined (crew, peer);
    switch (frame->type) {
    case WIRE_WELCOME: join (crew, peer, frame); break;
    case WIRE_REFUSED:
        wire_number (frame);
        refusal = wire_text (frame);
        crew_set_why (crew, 2, "%s", refusal ? refusal : "it refused");
        peer->is_dead = true;
        break;
    case WIRE_BEAT: crew_peer_put_number (peer, WIRE_BEAT, wire_number (frame)); break;
    case WIRE_SIGNAL: crew->hook.must_end = crew->is_asked = true; break;
    case WIRE_VERDICT: take_verdict (crew, peer, frame); break;
    case WIRE_AGAIN: crew_reset (crew); break;
    default: peer->is_dead = true;
    }
    peer->is_dead = peer->is_dead || frame->failed;
}

/* ---- the end ---- */

void
crew_member_think (struct crew *crew)
{
    const struct crew_machine *own = crew->own;
    if (!crew->verdict.is_known && own->failed_ns && crew->has_joined
        && clock_ns () >= own->failed_ns + (int64_t) CREW_VERDICT_MS * 1000000)
        blame_own (crew, NULL);
}

bool
crew_member_is_over (struct crew *crew)
{
    int64_t now = clock_ms (), limit_ms = crew->settings->grace * 1000 + CREW_EXTRA_MS;
    if (crew->again)
        return true;
    if (!crew->has_joined && crew->peers && crew->peers->is_welcomed && now < crew->over_ms + CREW_FLUSH_MS)
        return false; /* machine 0 may have taken us already */
    if (!crew->has_joined)
        return !crew->own->failed_ns || !crew->key->length || now >= crew->start_ms + CREW_SETTLE_MS;
    if (!crew->verdict.is_known)
        return false;
    bool is_flushed = crew_is_flushed (crew) || now >= crew_settled_ms (crew) + CREW_FLUSH_MS;
    if (!crew_may_start_again (crew) || !crew->peers)
        return is_flushed;
    return now >= crew_settled_ms (crew) + limit_ms;
}
