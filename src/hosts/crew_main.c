/* SPDX-License-Identifier: Apache-2.0 */
/* Machine 0's part: it listens, knows every machine's state, and says who is to blame; see crew.h. */
#include <config.h>

#include "hosts/crew_state.h"

#include "hosts/address.h"
#include "hosts/blame.h"
#include "launch/signals.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

enum { ACCEPTS_AT_ONCE = 16, MOST_STRANGERS = 32 };

/* If all ports are taken, the job runs without us. */
void
crew_main_begin (struct crew *crew)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &crew->listener };
    int first = crew_first_port (crew->port);
    for (int i = 0; i < CREW_PORTS && crew->listener < 0; i++)
        crew->listener = address_listen (first + i);
    if (crew->listener < 0)
        crew_set_why (crew, CREW_WHY_LASTS, "cannot listen on ports %d-%d: %s", first, first + CREW_PORTS - 1,
                      strerror (errno));
    else
        epoll_ctl (crew->epoll, EPOLL_CTL_ADD, crew->listener, &event);
}

/* ---- connections ---- */

/* Strangers cannot keep launchers out: the one that has said nothing for the longest time leaves. */
static void
drop_oldest_stranger (struct crew *crew)
{
    struct crew_peer *oldest = NULL;
    int count = 0;
    for (struct crew_peer *peer = crew->peers; peer; peer = peer->next)
        if (!peer->machine && !peer->is_dead) {
            oldest = peer; /* new ones are in front */
            count++;
        }
    if (count > MOST_STRANGERS)
        oldest->is_dead = true;
}

void
crew_main_accept (struct crew *crew)
{
    for (int i = 0, fd; i < ACCEPTS_AT_ONCE; i++) {
        fd = accept4 (crew->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        crew_peer_add (crew, fd, false);
        drop_oldest_stranger (crew);
    }
}

static void
refuse (struct crew_peer *peer, const char *why)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t begin = wire_begin (&frame, WIRE_REFUSED);
    wire_put_number (&frame, FAIL_GENERAL);
    wire_put_text (&frame, why);
    wire_end (&frame, begin);
    crew_peer_put (peer, &frame);
    peer->is_leaving = true;
}

static void
send_verdict (const struct crew *crew, struct crew_peer *peer)
{
    const struct crew_verdict *verdict = &crew->verdict;
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t begin = wire_begin (&frame, WIRE_VERDICT);
    wire_put_number (&frame, verdict->machine);
    wire_put_number (&frame, verdict->end);
    wire_put_number (&frame, verdict->status);
    wire_put_text (&frame, verdict->text);
    wire_put_text (&frame, verdict->also);
    wire_put_text (&frame, verdict->json);
    wire_end (&frame, begin);
    crew_peer_put (peer, &frame);
}

/* Who has greeted is greeted; whether it has the key shows in its answer. */
void
crew_main_welcome (struct crew *crew, struct crew_peer *peer)
{
    AUTO_STRBUF struct strbuf frame = { 0 };
    size_t begin = wire_begin (&frame, WIRE_WELCOME);
    wire_put_text (&frame, PACKAGE_VERSION);
    wire_put_text (&frame, crew->own->host);
    wire_put_number (&frame, crew->timeout_ms);
    wire_end (&frame, begin);
    crew_peer_put (peer, &frame);
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
find_objection (const struct crew *crew, const struct join *join, char *space, size_t size)
{
    if (!join->version || strcmp (join->version, PACKAGE_VERSION) != 0)
        snprintf (space, size, "it is accelerate %s, but this one is accelerate %s", PACKAGE_VERSION,
                  join->version ? join->version : "?");
    else if (join->port != crew->port)
        return "it belongs to another job";
    else if (join->machines != crew->machines)
        snprintf (space, size, "num_machines is %d there, but %lld here", crew->machines, (long long) join->machines);
    else if (join->ranks && crew->own->ranks && join->world_size != crew->plan->world_size)
        snprintf (space, size, "it starts %d ranks in total, but this one %lld", crew->plan->world_size,
                  (long long) join->world_size);
    else if (!join->host || join->machine < 1 || join->machine >= crew->machines || join->first_rank < 0
             || join->ranks < 0 || join->ranks > INT32_MAX || join->first_rank > INT32_MAX - join->ranks)
        return "it cannot understand this one";
    else if (crew->all[join->machine].state != MACHINE_ABSENT)
        snprintf (space, size, "it has a machine %lld already, %s", (long long) join->machine,
                  crew->all[join->machine].host);
    else
        return NULL;
    return space;
}

static void
take_join (struct crew *crew, struct crew_peer *peer, struct wire_frame *frame)
{
    struct join join;
    char space[300];
    read_join (frame, &join);
    const char *objection = frame->failed ? "it cannot understand this one" : find_objection (crew, &join, space,
                                                                                             sizeof space);
    if (objection) {
        refuse (peer, objection);
        return;
    }
    peer->machine = &crew->all[join.machine];
    *peer->machine = (struct crew_machine){ .state = MACHINE_JOINED, .host = strdup (join.host),
                                            .first_rank = (int) join.first_rank, .ranks = (int) join.ranks };
    peer->until_ms = INT64_MAX;
    crew->has_joined = true;
    if (crew->verdict.is_known)
        send_verdict (crew, peer);
    else if (crew->judge_ms)
        crew_peer_put_number (peer, WIRE_SIGNAL, SIGTERM);
}

static int
number_of (const struct crew *crew, const struct crew_peer *peer)
{
    return (int) (peer->machine - crew->all);
}

/* What has failed there, was it seconds ago or still on its way. */
static void
take_failure (struct crew_peer *peer, struct wire_frame *frame, bool is_end)
{
    int64_t age_ns = wire_number (frame), now = clock_ns ();
    enum wire_end end = (enum wire_end) wire_number (frame);
    int status = (int) wire_number (frame);
    const char *text = wire_text (frame), *json = wire_text (frame);
    if (age_ns >= 0 && !frame->failed)
        crew_set_failure (peer->machine, age_ns < now ? now - age_ns - peer->trip_ns / 2 : 0, end, status, text, json);
    peer->machine->has_answered = true;
    if (is_end)
        peer->machine->state = MACHINE_ENDED;
}

static void
take_beat (struct crew_peer *peer, struct wire_frame *frame)
{
    int64_t now = clock_ns (), sent = wire_number (frame), trip = sent > 0 && sent < now ? now - sent : 0;
    if (trip && (!peer->trip_ns || trip < peer->trip_ns))
        peer->trip_ns = trip;
}

void
crew_main_take (struct crew *crew, struct crew_peer *peer, struct wire_frame *frame)
{
    if (!peer->machine) {
        if (frame->type == WIRE_JOIN && !peer->is_leaving)
            take_join (crew, peer, frame);
        else
            peer->is_dead = true;
        return;
    }
    switch (frame->type) {
    case WIRE_BEAT: take_beat (peer, frame); break;
    case WIRE_FAILED: take_failure (peer, frame, false); break;
    case WIRE_END: take_failure (peer, frame, true); break;
    case WIRE_ACK: peer->has_acknowledged = true; break;
    default: peer->is_dead = true;
    }
    peer->is_dead = peer->is_dead || frame->failed;
}

/* It has never answered, so perhaps it does not know that it was taken: it may come again. */
static void
forget (struct crew_machine *machine)
{
    crew_reset_machine (machine);
    free (machine->host);
    *machine = (struct crew_machine){ .state = MACHINE_ABSENT };
}

/* A launcher whose part was over, or that knows the verdict, may leave. */
void
crew_main_lose (struct crew *crew, struct crew_peer *peer, const char *why)
{
    struct crew_machine *machine = peer->machine;
    peer->is_dead = true;
    if (machine->state != MACHINE_JOINED && machine->state != MACHINE_ENDED)
        return;
    if (!peer->trip_ns && !machine->failed_ns && machine->state == MACHINE_JOINED)
        forget (machine);
    else if (crew->verdict.is_known || machine->state == MACHINE_ENDED)
        machine->state = MACHINE_LOST; /* no failure, but it cannot start again */
    else
        crew_lose (crew, machine, number_of (crew, peer), peer->pipe.heard_ms, why);
}

/* ---- who is to blame ---- */

static const struct crew_machine *
find_guilty (struct crew *crew)
{
    size_t count = (size_t) crew->machines;
    for (size_t i = 0; i < count; i++)
        crew->blames[i] = crew_blame_of (&crew->all[i]);
    size_t first = blame_find_first (crew->blames, count);
    return first < count ? &crew->all[first] : NULL;
}

/* @return what else may have been first; to be freed, NULL if there is nothing */
static char *
find_simultaneous (const struct crew *crew, const struct crew_machine *guilty)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    blame_add_simultaneous (crew->blames, (size_t) crew->machines, (size_t) (guilty - crew->all), &out);
    return out.length ? strbuf_take (&out) : NULL;
}

static bool
all_have (const struct crew *crew, bool ended_only)
{
    for (int i = 0; i < crew->machines; i++) {
        const struct crew_machine *machine = &crew->all[i];
        if (machine->state == MACHINE_JOINED && (ended_only || !(machine->failed_ns || machine->has_answered)))
            return false;
    }
    return true;
}

static void
tell_verdict (struct crew *crew)
{
    for (struct crew_peer *peer = crew->peers; peer; peer = peer->next)
        if (peer->machine && !peer->is_dead)
            send_verdict (crew, peer);
}

/* The ranks end at once everywhere; whose fault it was is said when each machine has said how it was there. */
static void
end_all (struct crew *crew)
{
    crew->judge_ms = clock_ms () + CREW_JUDGE_MS;
    crew->hook.must_end = crew->is_asked = true;
    for (struct crew_peer *peer = crew->peers; peer; peer = peer->next)
        if (peer->machine && !peer->is_dead && !peer->machine->failed_ns)
            crew_peer_put_number (peer, WIRE_SIGNAL, SIGTERM);
}

void
crew_main_think (struct crew *crew, bool is_hasty)
{
    if (crew->verdict.is_known)
        return;
    const struct crew_machine *guilty = find_guilty (crew);
    if (guilty && !crew->judge_ms)
        end_all (crew);
    if (guilty && (is_hasty || clock_ms () >= crew->judge_ms || all_have (crew, false))) {
        AUTO_FREE char *also = find_simultaneous (crew, guilty);
        crew_set_verdict (crew, &(struct crew_verdict){ .machine = (int) (guilty - crew->all), .end = guilty->end,
                                                        .status = guilty->status, .text = guilty->text, .also = also,
                                                        .json = guilty->json });
        tell_verdict (crew);
    } else if (!guilty && crew->over_ms && all_have (crew, true)) {
        crew_set_verdict (crew, &(struct crew_verdict){ .machine = -1, .end = WIRE_END_DONE });
        tell_verdict (crew);
    }
}

/* ---- the end ---- */

/* Whether all know the verdict, or it has been long enough. */
bool
crew_main_is_told (const struct crew *crew, int64_t now)
{
    bool is_late = now >= crew_settled_ms (crew) + CREW_FLUSH_MS;
    for (const struct crew_peer *peer = crew->peers; peer && !is_late; peer = peer->next)
        if (peer->machine && !peer->is_dead && !peer->has_acknowledged)
            return false;
    return true;
}

static bool
has_absent (const struct crew *crew)
{
    for (int i = 1; i < crew->machines; i++)
        if (crew->all[i].state == MACHINE_ABSENT)
            return true;
    return false;
}

static void
begin_again (struct crew *crew)
{
    for (struct crew_peer *peer = crew->peers; peer; peer = peer->next)
        if (peer->machine && !peer->is_dead) {
            crew_peer_put_number (peer, WIRE_AGAIN, crew->restarts + 1);
            crew_peer_flush (crew, peer);
        }
    crew_reset (crew);
}

static bool
has_lost (const struct crew *crew)
{
    for (int i = 1; i < crew->machines; i++)
        if (crew->all[i].state == MACHINE_LOST)
            return true;
    return false;
}

bool
crew_main_is_over (struct crew *crew)
{
    int64_t now = clock_ms (), limit_ms = crew->settings->grace * 1000 + CREW_EXTRA_MS;
    if (!crew->verdict.is_known)
        return false;
    if (crew->verdict.end == WIRE_END_DONE)
        return crew_main_is_told (crew, now);
    if (crew->listener >= 0 && has_absent (crew) && now < crew->start_ms + CREW_SETTLE_MS)
        return false; /* their ranks may be waiting for ours */
    if (!crew->has_joined || !crew_may_start_again (crew) || has_lost (crew))
        return crew_main_is_told (crew, now);
    if (all_have (crew, true)) {
        begin_again (crew);
        return true;
    }
    return now >= crew_settled_ms (crew) + limit_ms;
}
