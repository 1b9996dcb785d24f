/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: which control message belongs to which call, and what will never end. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

#include <stdlib.h>
#include <string.h>

enum {
    DISPUTES = 3, /* looks after which it is not the ledgers that will say what ranks disagree about */
    VERDICTS = 2, /* looks in a row that say that a call waits in vain, until it is believed */
    PROBES = 64,  /* times that MPI is asked after each */
};

static void
release (struct team *team)
{
    free (team->queues);
    free (team->bundled);
    free (team->matched);
    free (team->pairs_to);
    free (team->pairs_from);
    free (team->peers);
    free (team);
}

struct team *
team_create (int size, int rank, int64_t place, uint32_t timeout_ms)
{
    struct team *team = calloc (1, sizeof *team);
    size_t ranks = (size_t) size;
    if (!team)
        return NULL;
    *team = (struct team){ .size = size, .rank = rank, .place = place, .timeout_ms = timeout_ms, .quitter = -1,
                           .queues = calloc (ranks, sizeof *team->queues),
                           .bundled = calloc (ranks, sizeof *team->bundled),
                           .matched = calloc (ranks, sizeof *team->matched),
                           .pairs_to = calloc (ranks, sizeof *team->pairs_to),
                           .pairs_from = calloc (ranks, sizeof *team->pairs_from),
                           .peers = calloc (ranks, sizeof *team->peers) };
    if (!team->queues || !team->bundled || !team->matched || !team->pairs_to || !team->pairs_from || !team->peers) {
        release (team);
        return NULL;
    }
    team->boarded = BOARD_FIRST;
    team->shared_at = FOREIGN;
    for (int i = 0; i < size; i++) {
        team->queues[i].last = &team->queues[i].first;
        team->matched[i] = BOARD_FIRST;
    }
    return team;
}

static void
empty (struct queue *queue)
{
    while (queue->first) {
        struct message *message = queue->first;
        queue->first = message->next;
        free (message);
    }
}

void
team_destroy (struct team *team)
{
    struct team **at = &mpi_world.teams;
    while (*at && *at != team)
        at = &(*at)->next;
    if (*at)
        *at = team->next;
    for (int i = 0; i < team->size; i++) {
        empty (&team->queues[i]);
        empty (&team->bundled[i]);
    }
    if (team->place && team->places) {
        share_leave (team);
        places_destroy (team->places);
    }
    release (team);
}

void
team_forget_orphans (void)
{
    while (mpi_world.orphans) {
        struct message *message = mpi_world.orphans;
        mpi_world.orphans = message->next;
        free (message);
    }
}

static void
keep_orphan (struct message *message)
{
    struct message **at = &mpi_world.orphans;
    while (*at)
        at = &(*at)->next;
    *at = message;
}

/* Find the calls to which the control messages of @rank belong.  What comes after one that differs belongs to none. */
static void
match (struct team *team, int rank)
{
    bool has_boards = mpi_host.boards && !team->place;
    struct queue *queue = &team->queues[rank];
    const struct header *header;
    const char *data;
    for (struct flight *flight = team->first; flight; flight = flight->next) {
        struct leg *leg = &flight->legs[rank];
        struct message *message = queue->first;
        if (leg->differs)
            return;
        if (!leg->is_used || leg->has_come)
            continue;
        if (has_boards && boards_peek (team, rank, &header, &data)) {
            flight_meet (flight, rank, header, data);
            boards_take (team, rank);
            continue;
        }
        if (!message || (has_boards && message->header.collectives != team->matched[rank]))
            return;
        queue->first = message->next;
        if (!queue->first)
            queue->last = &queue->first;
        team->pairs_from[rank]++;
        flight_meet (flight, rank, &message->header, message->data);
        free (message);
    }
}

static void
unpack (struct team *team, const struct message *bundle)
{
    size_t at = 0;
    int rank;
    while (boards_unpack (team, bundle, &at, &rank)) {
        match (team, rank);
        boards_keep (team);
    }
}

/* Takes @message. */
static void
deliver (struct message *message)
{
    const struct header *header = &message->header;
    struct team *team = mpi_world.teams;
    while (team && team->place != header->place)
        team = team->next;
    if (header->session == mpi_world.session && header->called.kind == ENDED) {
        host_note_ended ((int) header->ended - 1);
        free (message);
    } else if (header->session != mpi_world.session
               || (team
                   && (header->rank < 0 || header->rank >= team->size
                       || team->peers[header->rank] != message->from))) {
        free (message);
    } else if (!team) {
        keep_orphan (message);
    } else if (header->called.kind == BUNDLE) {
        unpack (team, message);
        free (message);
    } else if (header->called.kind == GAVE_UP) {
        size_t length = header->inline_bytes < REASON_BYTES ? header->inline_bytes : REASON_BYTES - 1;
        if (team->quitter < 0) {
            memcpy (team->its_reason, message->data, length);
            team->quitter = header->called.root;
        }
        team->queues[header->rank].is_final = true;
        if (!team->place && header->ended && header->ended <= (uint32_t) team->size)
            team->queues[header->ended - 1].is_final = true;
        free (message);
    } else {
        *team->queues[header->rank].last = message;
        team->queues[header->rank].last = &message->next;
        match (team, header->rank);
    }
}

void
team_add (struct team *team)
{
    struct message *message = mpi_world.orphans, **last = &mpi_world.orphans;
    team->next = mpi_world.teams;
    mpi_world.teams = team;
    mpi_world.orphans = NULL;
    while (message) {
        struct message *next = message->next;
        message->next = NULL;
        if (message->header.place == team->place) {
            deliver (message);
        } else {
            *last = message;
            last = &message->next;
        }
        message = next;
    }
}

struct flight *
team_oldest (const struct team *team)
{
    struct flight *flight = team->first;
    while (flight && flight->over)
        flight = flight->next;
    return flight;
}

void
team_fail (struct team *team, enum accel_status status, const struct accel_error *err)
{
    for (struct flight *flight = team->first; flight; flight = flight->next)
        if (!flight->over) {
            if (!team->has_failed)
                tiers_fail (team);
            team->has_failed = flight->over = true;
            flight->status = status;
            flight->error = *err;
            post_cancel (flight);
        }
}

void
team_start (struct team *team, struct flight *flight)
{
    struct flight **end = &team->first;
    while (*end)
        end = &(*end)->next;
    *end = flight;
    flight_begin (flight);
    boards_post (team);
    for (int i = 0; i < team->size; i++)
        match (team, i);
    flight_advance (flight);
    if (!flight->over)
        team_progress_all ();
}

/* ---- progress ---- */

/* Asked once more than there are messages, MPI may leave the processor to others; not when a call has all it needs. */
static void
poll_mpi (void)
{
    struct message *message;
    mpi_world.has_all = false;
    post_test ();
    while (!mpi_world.has_all && (message = ring_next ()))
        deliver (message);
}

static void
look_at_boards (struct team *team)
{
    boards_post (team);
    boards_publish (team);
    for (int i = 0; i < team->size; i++)
        if (boards_have (team, i))
            match (team, i);
}

/* @return whether data was moved, or a call ended */
static bool
progress (struct team *team)
{
    static const struct accel_error gave_up = { .code = ACCEL_ERR_PEER, .text = "engine mpi: this process gave up" };
    const struct flight *oldest = team_oldest (team);
    if (atomic_load (&team->gave_up)) {
        team_say_gave_up (team);
        team_fail (team, ACCEL_ERR_PEER, &gave_up);
    }
    if (mpi_host.boards && !team->place && oldest)
        look_at_boards (team);
    for (struct flight *flight = team->first; flight; flight = flight->next)
        flight_advance (flight);
    bool moved = team->moved || oldest != team_oldest (team);
    team->moved = false;
    return moved;
}

/* MPI keeps the message until the process ends. */
void
team_say_gave_up (struct team *team)
{
    size_t length = strlen (team->reason);
    struct header header = { .session = mpi_world.session, .place = team->place, .rank = team->rank,
                             .called = { .kind = GAVE_UP, .root = mpi_world.rank }, .inline_bytes = (uint32_t) length,
                             .ended = mpi_world.ended };
    char *message = team->has_said_so || *mpi_world.error ? NULL : malloc (sizeof header + length);
    team->has_said_so = true;
    if (!message)
        return;
    memcpy (message, &header, sizeof header);
    memcpy (message + sizeof header, team->reason, length);
    for (int i = 0; i < team->size; i++)
        if (i != team->rank && !host_find_ended (team->peers[i]))
            post_last_words (team->peers[i], message, sizeof header + length);
}

/* Another collective is reported at once; of messages, look() knows more, if it can see the other rank's ledger. */
static enum accel_status
look_at_dispute (struct team *team, const struct flight *flight, struct accel_error *err)
{
    const struct accel_engine_helpers *helpers = flight->call->helpers;
    bool has_looked = ++team->disputes > DISPUTES;
    for (int i = 0; i < team->size; i++)
        if (flight->legs[i].differs && (flight->legs[i].is_other || has_looked))
            return helpers->differ (helpers->context, flight->call, team->rank, i, err);
    return ACCEL_OK;
}

/* Who gives up, in whatever group, is no member of the world any more; but only the world hears of it. */
static enum accel_status
look_for_quitters_elsewhere (const struct team *team, const struct flight *flight, struct accel_error *err)
{
    const struct accel_engine_helpers *helpers = flight->call->helpers;
    const struct team *world = mpi_world.teams;
    while (world && world->place)
        world = world->next;
    if (!world || world == team || world->quitter < 0)
        return ACCEL_OK;
    for (int i = 0; i < team->size; i++)
        for (int k = 0; k < world->size && flight_awaits (flight, i); k++)
            if (world->queues[k].is_final && world->peers[k] == team->peers[i])
                return helpers->fail (err, ACCEL_ERR_PEER, "rank %d gave up: %s", world->quitter, world->its_reason);
    return ACCEL_OK;
}

/* A rank that has ended, as this host knows, or any that has given up.  Other hosts will hear of the former from this
 * rank, too. */
static enum accel_status
look_for_quitters (const struct team *team, const struct flight *flight, struct accel_error *err)
{
    const struct accel_engine_helpers *helpers = flight->call->helpers;
    struct accel_error where;
    for (int i = 0; i < team->size; i++) {
        const struct process *ended = flight_awaits (flight, i) ? host_find_ended (team->peers[i]) : NULL;
        if (!ended)
            continue;
        mpi_world.ended = (uint32_t) ended->rank + 1;
        helpers->blame (helpers->context, flight->call, i, &where); /* "rank 1 gave up; meanwhile ..." */
        return helpers->fail (err, ACCEL_ERR_PEER, "rank %d ended (process %d)%s", ended->rank, ended->pid,
                              where.text + strcspn (where.text, ";"));
    }
    if (team->quitter < 0)
        return look_for_quitters_elsewhere (team, flight, err);
    return helpers->fail (err, ACCEL_ERR_PEER, "rank %d gave up: %s", team->quitter, team->its_reason);
}

static enum accel_status
look (struct team *team, const struct flight *oldest, struct accel_error *err)
{
    const struct accel_engine_helpers *helpers = oldest->call->helpers;
    enum accel_status status = helpers->look (helpers->context, oldest->call, err);
    if (!status)
        status = look_for_quitters (team, oldest, err);
    if (!status)
        status = look_at_dispute (team, oldest, err);
    if (!status && *mpi_world.error)
        status = world_fail (helpers, err);
    if (!status && team->waited_ms >= team->timeout_ms)
        status = helpers->time_is_out (helpers->context, oldest->call, err);
    return status;
}

/* A rank that is past this call has done its part, which MPI may hand over in small portions, or late. */
static bool
moves_after_all (struct team *team, const struct flight *oldest)
{
    for (int i = 0; i < PROBES; i++) {
        poll_mpi ();
        if (progress (team) || oldest != team_oldest (team)) {
            team->waited_ms = team->disputes = team->verdicts = 0;
            return true;
        }
    }
    return false;
}

/* Time runs for the oldest call, and not while the program computes. */
static void
consider (struct team *team, bool moved)
{
    struct flight *oldest = team_oldest (team);
    struct accel_error err;
    int64_t now = now_ms (), passed = now - team->seen_ms;
    team->waited_ms += passed < PAUSE_MS ? passed : PAUSE_MS;
    if (oldest != team->oldest || moved)
        team->waited_ms = team->disputes = team->verdicts = 0;
    team->seen_ms = now;
    team->oldest = oldest;
    if (!oldest || (now < team->looked_ms + SLICE_MS && !*mpi_world.error))
        return;
    team->looked_ms = now;
    boards_flush (team);
    enum accel_status status = look (team, oldest, &err);
    team->verdicts = status ? team->verdicts + 1 : 0;
    if (status && !moves_after_all (team, oldest) && team->verdicts == VERDICTS)
        team_fail (team, status, &err);
}

bool
team_move_all (void)
{
    bool any = false;
    poll_mpi ();
    for (struct team *team = mpi_world.teams; team; team = team->next)
        if (progress (team)) {
            team->waited_ms = team->disputes = team->verdicts = 0;
            any = true;
        }
    for (struct team *team = mpi_world.teams; team && !any; team = team->next)
        boards_flush (team);
    return any;
}

bool
team_progress_all (void)
{
    bool moved = false;
    if (mpi_world.session && !world_is_mine ())
        return false;
    poll_mpi ();
    for (struct team *team = mpi_world.teams; team; team = team->next) {
        bool here = progress (team);
        moved = moved || here;
        consider (team, here);
    }
    return moved;
}
