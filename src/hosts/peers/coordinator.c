/* SPDX-License-Identifier: Apache-2.0 */
/* Machine 0's part: it listens, knows every machine's state, and says who is to blame; see peers.h. */
#include <config.h>

#include "hosts/peers/state.h"

#include "hosts/net/address.h"
#include "hosts/root_cause.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

enum { ACCEPTS_AT_ONCE = 16, MOST_STRANGERS = 32 };

/* If all ports are in use, the job runs without us. */
void
coordinator_begin (struct peers *peers)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &peers->listener };
    int first = peers_first_port (peers->port);
    for (int i = 0; i < PEERS_PORTS && peers->listener < 0; i++)
        peers->listener = address_listen (first + i);
    if (peers->listener < 0)
        peers_set_why (peers, PEERS_WHY_LASTS, "cannot listen on ports %d-%d: %s", first, first + PEERS_PORTS - 1,
                       strerror (errno));
    else
        epoll_ctl (peers->epoll, EPOLL_CTL_ADD, peers->listener, &event);
}

/* ---- connections ---- */

/* Strangers cannot keep launchers out: the one that has said nothing for the longest time leaves. */
static void
drop_oldest_stranger (struct peers *peers)
{
    struct peer *oldest = NULL;
    int count = 0;
    for (struct peer *peer = peers->first; peer; peer = peer->next)
        if (!peer->machine && !peer->is_dead) {
            oldest = peer; /* new ones are in front */
            count++;
        }
    if (count > MOST_STRANGERS)
        oldest->is_dead = true;
}

void
coordinator_accept (struct peers *peers)
{
    for (int i = 0, fd; i < ACCEPTS_AT_ONCE; i++) {
        fd = accept4 (peers->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        peer_add (peers, fd, false);
        drop_oldest_stranger (peers);
    }
}

static void
refuse (struct peer *peer, const char *why)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t begin = wire_begin (&frame, WIRE_REFUSED);
    wire_put_number (&frame, FAIL_GENERAL);
    wire_put_text (&frame, why);
    wire_end (&frame, begin);
    peer_put (peer, &frame);
    peer->is_leaving = true;
}

static void
send_outcome (const struct peers *peers, struct peer *peer)
{
    const struct job_outcome *outcome = &peers->outcome;
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t begin = wire_begin (&frame, WIRE_OUTCOME);
    wire_put_number (&frame, outcome->machine);
    wire_put_number (&frame, outcome->end);
    wire_put_number (&frame, outcome->status);
    wire_put_text (&frame, outcome->text);
    wire_put_text (&frame, outcome->also);
    wire_put_text (&frame, outcome->json);
    wire_end (&frame, begin);
    peer_put (peer, &frame);
}

/* A machine that has greeted is greeted; its answer shows whether it has the key. */
void
coordinator_welcome (struct peers *peers, struct peer *peer)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t begin = wire_begin (&frame, WIRE_WELCOME);
    wire_put_text (&frame, PACKAGE_VERSION);
    wire_put_text (&frame, peers->own->host);
    wire_put_number (&frame, peers->timeout_ms);
    wire_end (&frame, begin);
    peer_put (peer, &frame);
    peer->is_welcomed = true;
}

struct join {
    const char *version, *host;
    int64_t port, machine, machines, world_size, first_rank, ranks;
};

static void
read_join (struct wire_frame *frame, struct join *join)
{
    join->version = wire_text (frame);
    join->port = wire_number (frame);
    join->machine = wire_number (frame);
    join->machines = wire_number (frame);
    join->world_size = wire_number (frame);
    join->first_rank = wire_number (frame);
    join->ranks = wire_number (frame);
    join->host = wire_text (frame);
}

/* @return why this launcher cannot take part; NULL: it can */
static const char *
find_objection (const struct peers *peers, const struct join *join, char *space, size_t size)
{
    if (!join->version || strcmp (join->version, PACKAGE_VERSION) != 0)
        snprintf (space, size, "it is accelerate %s, but this one is accelerate %s", PACKAGE_VERSION,
                  join->version ? join->version : "?");
    else if (join->port != peers->port)
        return "it belongs to another job";
    else if (join->machines != peers->machines)
        snprintf (space, size, "num_machines is %d there, but %lld here", peers->machines, (long long) join->machines);
    else if (join->ranks && peers->own->ranks && join->world_size != peers->plan->world_size)
        snprintf (space, size, "it starts %d ranks in total, but this one %lld", peers->plan->world_size,
                  (long long) join->world_size);
    else if (!join->host || join->machine < 1 || join->machine >= peers->machines || join->first_rank < 0
             || join->ranks < 0 || join->ranks > INT32_MAX || join->first_rank > INT32_MAX - join->ranks)
        return "it cannot understand this one";
    else if (peers->all[join->machine].state != MACHINE_ABSENT)
        snprintf (space, size, "it has a machine %lld already, %s", (long long) join->machine,
                  peers->all[join->machine].host);
    else
        return NULL;
    return space;
}

static void
take_join (struct peers *peers, struct peer *peer, struct wire_frame *frame)
{
    struct join join;
    char space[300];
    read_join (frame, &join);
    const char *objection = frame->failed ? "it cannot understand this one" : find_objection (peers, &join, space,
                                                                                             sizeof space);
    if (objection) {
        refuse (peer, objection);
        return;
    }
    peer->machine = &peers->all[join.machine];
    *peer->machine = (struct peers_machine){ .state = MACHINE_JOINED, .host = strdup (join.host),
                                             .first_rank = (int) join.first_rank, .ranks = (int) join.ranks };
    peer->until_ms = INT64_MAX;
    peers->has_joined = true;
    if (peers->notice)
        peers_put_notice (peers, NULL);
    if (peers->outcome.is_known)
        send_outcome (peers, peer);
    else if (peers->decide_ms)
        peer_put_number (peer, WIRE_SIGNAL, SIGTERM);
}

static int
number_of (const struct peers *peers, const struct peer *peer)
{
    return (int) (peer->machine - peers->all);
}

/* What has failed there, was it seconds ago or still on its way. */
static void
take_failure (struct peer *peer, struct wire_frame *frame, bool is_end)
{
    int64_t age_ns = wire_number (frame), now = clock_ns ();
    enum wire_end end = (enum wire_end) wire_number (frame);
    int status = (int) wire_number (frame);
    const char *text = wire_text (frame), *json = wire_text (frame);
    if (age_ns >= 0 && !frame->failed)
        peers_set_failure (peer->machine, age_ns < now ? now - age_ns - peer->trip_ns / 2 : 0, end, status, text, json);
    peer->machine->has_answered = true;
    if (is_end)
        peer->machine->state = MACHINE_ENDED;
}

static void
take_heartbeat (struct peer *peer, struct wire_frame *frame)
{
    int64_t now = clock_ns (), sent = wire_number (frame), trip = sent > 0 && sent < now ? now - sent : 0;
    if (trip && (!peer->trip_ns || trip < peer->trip_ns))
        peer->trip_ns = trip;
}

void
coordinator_take (struct peers *peers, struct peer *peer, struct wire_frame *frame)
{
    if (!peer->machine) {
        if (frame->type == WIRE_JOIN && !peer->is_leaving)
            take_join (peers, peer, frame);
        else
            peer->is_dead = true;
        return;
    }
    switch (frame->type) {
    case WIRE_HEARTBEAT: take_heartbeat (peer, frame); break;
    case WIRE_FAILED: take_failure (peer, frame, false); break;
    case WIRE_END: take_failure (peer, frame, true); break;
    case WIRE_NOTICE: peers_set_notice (peers, wire_text (frame), peer); break;
    case WIRE_ACK: peer->has_acknowledged = true; break;
    default: peer->is_dead = true;
    }
    peer->is_dead = peer->is_dead || frame->failed;
}

/* It has never answered, so perhaps it does not know that it was accepted: it may come again. */
static void
forget (struct peers_machine *machine)
{
    peers_reset_machine (machine);
    free (machine->host);
    *machine = (struct peers_machine){ .state = MACHINE_ABSENT };
}

/* A launcher whose part was over, or that knows the outcome, may leave. */
void
coordinator_lose (struct peers *peers, struct peer *peer, const char *why)
{
    struct peers_machine *machine = peer->machine;
    peer->is_dead = true;
    if (machine->state != MACHINE_JOINED && machine->state != MACHINE_ENDED)
        return;
    if (!peer->trip_ns && !machine->failed_ns && machine->state == MACHINE_JOINED)
        forget (machine);
    else if (peers->outcome.is_known || machine->state == MACHINE_ENDED)
        machine->state = MACHINE_LOST; /* no failure, but it cannot start again */
    else
        peers_lose (peers, machine, number_of (peers, peer), peer->pipe.heard_ms, why);
}

/* ---- who is to blame ---- */

static const struct peers_machine *
find_cause (struct peers *peers)
{
    size_t count = (size_t) peers->machines;
    for (size_t i = 0; i < count; i++)
        peers->failures[i] = peers_failure_of (&peers->all[i]);
    size_t first = root_cause_find (peers->failures, count);
    return first < count ? &peers->all[first] : NULL;
}

/* @return what else may have been first; to be freed, NULL if there is nothing */
static char *
find_simultaneous (const struct peers *peers, const struct peers_machine *cause)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    root_cause_add_simultaneous (peers->failures, (size_t) peers->machines, (size_t) (cause - peers->all), &out);
    return out.length ? strbuf_take (&out) : NULL;
}

static bool
all_have (const struct peers *peers, bool ended_only)
{
    for (int i = 0; i < peers->machines; i++) {
        const struct peers_machine *machine = &peers->all[i];
        if (machine->state == MACHINE_JOINED && (ended_only || !(machine->failed_ns || machine->has_answered)))
            return false;
    }
    return true;
}

static void
tell_outcome (struct peers *peers)
{
    for (struct peer *peer = peers->first; peer; peer = peer->next)
        if (peer->machine && !peer->is_dead)
            send_outcome (peers, peer);
}

/* The ranks end at once everywhere; whose fault it was is said when each machine has said how it was there. */
static void
end_all (struct peers *peers)
{
    peers->decide_ms = clock_ms () + PEERS_DECIDE_MS;
    peers->hook.must_end = peers->is_asked = true;
    for (struct peer *peer = peers->first; peer; peer = peer->next)
        if (peer->machine && !peer->is_dead && !peer->machine->failed_ns)
            peer_put_number (peer, WIRE_SIGNAL, SIGTERM);
}

void
coordinator_decide (struct peers *peers, bool skip_wait)
{
    if (peers->outcome.is_known)
        return;
    const struct peers_machine *cause = find_cause (peers);
    if (cause && !peers->decide_ms)
        end_all (peers);
    if (cause && (skip_wait || clock_ms () >= peers->decide_ms || all_have (peers, false))) {
        AUTO_FREE char *also = find_simultaneous (peers, cause);
        peers_set_outcome (peers, &(struct job_outcome){ .machine = (int) (cause - peers->all), .end = cause->end,
                                                         .status = cause->status, .text = cause->text, .also = also,
                                                         .json = cause->json });
        tell_outcome (peers);
    } else if (!cause && peers->over_ms && all_have (peers, true)) {
        peers_set_outcome (peers, &(struct job_outcome){ .machine = -1, .end = WIRE_END_DONE });
        tell_outcome (peers);
    }
}

/* ---- the end ---- */

/* Whether all know the outcome, or it has been long enough. */
bool
coordinator_has_told_all (const struct peers *peers, int64_t now)
{
    bool is_late = now >= peers_settled_ms (peers) + PEERS_FLUSH_MS;
    for (const struct peer *peer = peers->first; peer && !is_late; peer = peer->next)
        if (peer->machine && !peer->is_dead && !peer->has_acknowledged)
            return false;
    return true;
}

static bool
has_absent (const struct peers *peers)
{
    for (int i = 1; i < peers->machines; i++)
        if (peers->all[i].state == MACHINE_ABSENT)
            return true;
    return false;
}

static void
begin_again (struct peers *peers)
{
    for (struct peer *peer = peers->first; peer; peer = peer->next)
        if (peer->machine && !peer->is_dead) {
            peer_put_number (peer, WIRE_AGAIN, peers->restarts + 1);
            peer_flush (peers, peer);
        }
    peers_reset (peers);
}

static bool
has_lost (const struct peers *peers)
{
    for (int i = 1; i < peers->machines; i++)
        if (peers->all[i].state == MACHINE_LOST)
            return true;
    return false;
}

bool
coordinator_is_over (struct peers *peers)
{
    int64_t now = clock_ms (), limit_ms = peers->settings->grace * 1000 + PEERS_EXTRA_MS;
    if (!peers->outcome.is_known)
        return false;
    if (peers->outcome.end == WIRE_END_DONE)
        return coordinator_has_told_all (peers, now);
    if (peers->listener >= 0 && has_absent (peers) && now < peers->start_ms + PEERS_SETTLE_MS)
        return false; /* their ranks may be waiting for ours */
    if (!peers->has_joined || !peers_may_start_again (peers) || has_lost (peers))
        return coordinator_has_told_all (peers, now);
    if (all_have (peers, true)) {
        begin_again (peers);
        return true;
    }
    return now >= peers_settled_ms (peers) + limit_ms;
}
