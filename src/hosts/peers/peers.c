/* SPDX-License-Identifier: Apache-2.0 */
/* What every launcher of a job does to watch over the others; see peers.h. */
#include <config.h>

#include "hosts/peers/peers.h"

#include "hosts/peers/state.h"
#include "launch/report/report.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

enum { BEATS = 5, HEARTBEAT_MS = 5000, QUICK_BEATS = 8, QUICK_HEARTBEAT_MS = 25 };
enum { UNKNOWN_SIZE = 2 }; /* of a job that could not be planned: that of several machines */

/* ---- our own machine ---- */

/* A signal to a launcher, for people who have not sent it. */
static void
add_stop (const struct peers *peers, const struct job *job, struct strbuf *out)
{
    const char *name = sigabbrev_np (job->signal);
    if ((!job->signal && !job->stop_reason) || job->signal == SIGKILL) {
        strbuf_add (out, "accelerate: the launcher on ");
        peers_add_machine (peers->own, peers->machine, out);
        strbuf_add (out, " was killed\n");
        return;
    }
    if (job->stop_reason)
        strbuf_printf (out, "accelerate: ended %s on ", job->stop_reason);
    else
        strbuf_printf (out, "accelerate: ended by SIG%s on ", name ? name : "?");
    peers_add_machine (peers->own, peers->machine, out);
    strbuf_add_char (out, '\n');
}

static void
note_own_failure (struct peers *peers, const struct job *job)
{
    struct peers_machine *own = peers->own;
    AUTO_STRBUF struct strbuf text = { 0 }, json = { 0 };
    enum wire_end end = WIRE_END_FAILED;
    int status = job_status (job);
    if (job->error) {
        end = WIRE_END_ERROR;
        status = job->error->status;
        strbuf_printf (&text, "accelerate: host %s: %s\n", peers->plan->host, job->error->text);
        report_json_error (peers->plan->host, peers->plan->program, peers->plan->world_size, job->error, &json, NULL);
    } else if (job->end == JOB_STOPPED) {
        end = job_may_restart (job) ? WIRE_END_ASKED : WIRE_END_STOPPED;
        add_stop (peers, job, &text);
        report_json (job, &json, NULL);
    } else {
        report_text (job, &text);
        report_json (job, &json, NULL);
    }
    peers_set_failure (own, job->end == JOB_FAILED ? job->failed_ns : clock_ns (), end, status, text.text, json.text);
    peers->hook.is_final = true;
}

/* Whether it is known how our ranks were when they were told to end. */
static bool
is_settled (const struct job *job)
{
    return !job->ending || clock_ns () >= job->failed_ns + (int64_t) PEERS_CAUSE_MS * 1000000;
}

/* @return whether there is something to tell machine 0 */
static bool
note_own (struct peers *peers, const struct job *job, bool own_is_over)
{
    struct peers_machine *own = peers->own;
    peers->has_stopped = peers->notice && job->end == JOB_STOPPED && (!job->signal || job->has_asked);
    bool is_known = is_settled (job) && (own_is_over || !peers->has_stopped);
    bool has_failed = job->end != JOB_DONE && job->end != JOB_ELSEWHERE && !own->failed_ns && is_known;
    bool has_answer = peers->is_asked && job->end == JOB_ELSEWHERE && !own->has_answered && is_settled (job);
    bool has_ended = own_is_over && own->state != MACHINE_ENDED;
    if (has_failed)
        note_own_failure (peers, job);
    if (has_ended) {
        own->state = MACHINE_ENDED;
        peers->over_ms = clock_ms ();
    }
    own->has_answered = own->has_answered || has_answer;
    return has_failed || has_ended || has_answer;
}

/* ---- the outcome ---- */

void
peers_add_victim (struct peers *peers, const struct job *job)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    char how[96];
    if (job->end != JOB_FAILED || peers->outcome.is_ours || !peers->to_say.length)
        return;
    const struct job_rank *rank = &job->ranks[job->first_failed];
    jobseg_describe_exit (rank->wait_status, how, sizeof how);
    strbuf_printf (&line, "rank %d (process %d on %s) %s", rank->process->rank, (int) rank->pid, peers->plan->host,
                   how);
    if (line.text && !(peers->outcome.also && strstr (peers->outcome.also, line.text)))
        strbuf_printf (&peers->to_say, "  after it, %s\n", line.text);
}

/* ---- the loop's turn ---- */

static void
lose_peer (struct peers *peers, struct peer *peer, const char *why)
{
    peer->is_dead = true;
    if (peers->machine)
        participant_lose (peers, peer, why);
    else if (peer->machine)
        coordinator_lose (peers, peer, why);
    else if (peer->is_welcomed && !peer->is_leaving) /* it could not read the welcome */
        peers_set_why (peers, PEERS_WHY_LASTS, "%s disconnected at once, perhaps because it has another job key",
                     peer->name);
}

static void
end_connecting (struct peers *peers, struct peer *peer)
{
    int error = 0;
    socklen_t length = sizeof error;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = peer };
    getsockopt (peer->pipe.in, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error) {
        lose_peer (peers, peer, strerror (error));
        return;
    }
    peer->is_connecting = peer->is_write_watched = false;
    epoll_ctl (peers->epoll, EPOLL_CTL_MOD, peer->pipe.in, &event);
    peer_flush (peers, peer);
}

static void
read_peer (struct peers *peers, struct peer *peer)
{
    struct wire_frame frame;
    bool is_open = pipe_fill (&peer->pipe);
    while (!peer->is_dead && peer_next (peers, peer, &frame) > 0)
        if (peers->machine)
            participant_take (peers, peer, &frame);
        else
            coordinator_take (peers, peer, &frame);
    if (!peers->machine && channel_is_open (&peer->channel) && !peer->is_welcomed)
        coordinator_welcome (peers, peer);
    if (peer->is_dead || !is_open)
        peer->pipe.heard_ms = clock_ms (); /* that is news of it, too */
    if (peer->is_dead)
        lose_peer (peers, peer, "its launcher has sent something unknown");
    else if (!is_open)
        lose_peer (peers, peer, "lost: its launcher was killed, or the connection to it ended");
}

static void
take_events (struct peers *peers)
{
    struct epoll_event events[64];
    int count = epoll_wait (peers->epoll, events, sizeof events / sizeof *events, 0);
    for (int i = 0; i < count; i++) {
        struct peer *peer = events[i].data.ptr;
        if ((void *) peer == &peers->listener)
            coordinator_accept (peers);
        else if ((void *) peer == &peers->dial)
            participant_resolved (peers);
        else if (peer->is_dead)
            continue;
        else if (peer->is_connecting)
            end_connecting (peers, peer);
        else if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            read_peer (peers, peer);
    }
}

/* Machine 0 beats, the others answer. */
static void
heartbeat (const struct peers *peers, struct peer *peer, int64_t now)
{
    int64_t interval = peers->timeout_ms / BEATS < HEARTBEAT_MS ? peers->timeout_ms / BEATS : HEARTBEAT_MS;
    if (peers->machine || !peer->machine || now < peer->heartbeat_ms)
        return;
    peer_put_number (peer, WIRE_HEARTBEAT, clock_ns ());
    peer->heartbeat_ms = now + (peer->heartbeats++ < QUICK_BEATS ? QUICK_HEARTBEAT_MS : interval);
}

static int64_t
peer_deadline (const struct peers *peers, const struct peer *peer)
{
    return peer->until_ms != INT64_MAX ? peer->until_ms : peer->pipe.heard_ms + peers->timeout_ms;
}

static void
keep_deadlines (struct peers *peers, int64_t now)
{
    char why[64];
    snprintf (why, sizeof why, "lost: no sign of life for %g s", (double) peers->timeout_ms / 1000);
    /* After we were stopped, or the machine asleep, silence says nothing about the others. */
    int64_t late_ms = peers->timeout_ms / 4 < HEARTBEAT_MS ? peers->timeout_ms / 4 : HEARTBEAT_MS;
    bool was_away = now - peers->turn_ms > peers->timeout_ms / 2 + late_ms;
    peers->turn_ms = now;
    for (struct peer *peer = peers->first; peer; peer = peer->next) {
        if (was_away)
            peer->pipe.heard_ms = now;
        if (!peer->is_dead && now >= peer_deadline (peers, peer))
            lose_peer (peers, peer, peer->until_ms == INT64_MAX ? why : "no answer");
        if (!peer->is_dead)
            heartbeat (peers, peer, now);
    }
}

static void
earlier (int64_t *until, int64_t other)
{
    if (other && other < *until)
        *until = other;
}

static int64_t
find_deadline (const struct peers *peers, const struct job *job, int64_t now, bool skip_wait)
{
    int64_t until = now + peers->timeout_ms / 2; /* or was_away would be true */
    for (const struct peer *peer = peers->first; peer; peer = peer->next) {
        earlier (&until, peer_deadline (peers, peer));
        if (!peers->machine && peer->machine)
            earlier (&until, peer->heartbeat_ms);
    }
    earlier (&until, peers->outcome.is_known ? 0 : peers->decide_ms);
    earlier (&until, peers->noted >= 0 ? 0 : peers->start_ms + peers->timeout_ms);
    if (peers->machine && !peers->first)
        earlier (&until, peers->dial.again_ms);
    if (peers->own->failed_ns || peers->outcome.is_known || skip_wait || job->ending)
        earlier (&until, now + 100); /* short limits for the last things */
    bool owes_answer = peers->is_asked && peers->own->state == MACHINE_JOINED && !peers->own->failed_ns;
    if (owes_answer && !peers->own->has_answered && !job->ending && !peers->has_stopped)
        earlier (&until, now); /* as soon as our ranks have been looked at */
    return until;
}

/* Machines that are missing when they should be there.  @return false: none is */
static bool
add_absent (const struct peers *peers, struct strbuf *out)
{
    int first = peers_first_port (peers->port);
    if (peers->machine && !peers->has_joined)
        strbuf_printf (out, "to that of machine 0 (%s, ports %d-%d)", peers->settings->main_process_ip, first,
                       first + PEERS_PORTS - 1);
    for (int i = 1, told = 0; !peers->machine && i < peers->machines && told <= 8; i++)
        if (peers->all[i].state == MACHINE_ABSENT)
            strbuf_printf (out, told++ == 0 ? "from that of machine %d" : told > 8 ? ", ..." : ", %d", i);
    return out->length > 0;
}

/* Once; and again for a reason that was not known then and will not go away. */
static void
note_missing_peers (struct peers *peers, int64_t now)
{
    AUTO_STRBUF struct strbuf who = { 0 };
    int weight = *peers->why ? peers->dial.weight : 0;
    bool has_more = peers->noted < 0 || (peers->noted < PEERS_WHY_LASTS && weight >= PEERS_WHY_LASTS);
    if (!has_more || now - peers->start_ms < peers->timeout_ms)
        return;
    peers->noted = weight;
    if (!peers->outcome.is_known && add_absent (peers, &who))
        strbuf_printf (&peers->to_say, "accelerate: note: this launcher has no connection %s%s%s; if a rank fails "
                       "there, the ranks here have to notice it themselves\n", who.text, *peers->why ? ": " : "",
                       peers->why);
}

static bool
is_over (struct peers *peers, int64_t now, bool skip_wait)
{
    if (skip_wait && (peers->machine ? peers_is_flushed (peers) || now >= peers->over_ms + PEERS_FLUSH_MS
                                   : coordinator_has_told_all (peers, now)))
        return true;
    return peers->machine ? participant_is_over (peers) : coordinator_is_over (peers);
}

/* What is new about our part goes to machine 0. */
static void
tell_news (struct peers *peers, bool own_is_over)
{
    for (struct peer *peer = peers->first; peer; peer = peer->next)
        if (peers->has_joined)
            peer_put_failure (peer, own_is_over ? WIRE_END : WIRE_FAILED, peers->own);
}

static void
decide (struct peers *peers, bool skip_wait)
{
    if (peers->machine) {
        participant_decide (peers);
        participant_dial (peers);
    } else
        coordinator_decide (peers, skip_wait);
}

/* Before others hear of a rank of ours that has failed, they would save, and wait for it. */
static void
grant_wish (struct peers *peers, const struct job *job)
{
    if (job->end != JOB_FAILED || peers->own->failed_ns)
        peers_set_notice (peers, peers->wish, NULL);
}

static int64_t
serve (struct job_peers *hook, struct job *job, bool own_is_over, bool skip_wait)
{
    struct peers *peers = (struct peers *) hook;
    grant_wish (peers, job);
    bool has_news = note_own (peers, job, own_is_over), was_known = peers->outcome.is_known;
    if (peers->again)
        peers_release_outcome (&peers->last);
    peers->again = false;
    take_events (peers);
    int64_t now = clock_ms ();
    keep_deadlines (peers, now);
    peers_remove_dead (peers); /* the side that dials has room for the next one then */
    if (peers->machine && has_news)
        tell_news (peers, own_is_over);
    grant_wish (peers, job);
    decide (peers, skip_wait);
    for (struct peer *peer = peers->first; peer; peer = peer->next)
        peer_flush (peers, peer);
    peers_remove_dead (peers);
    note_missing_peers (peers, now);
    if (peers->outcome.is_known && !was_known)
        peers_add_victim (peers, job);
    if (!own_is_over && !peers->settings->quiet) /* then peers_take_rest() has what is left */
        output_sink_say_lines (job->sink_of[JOB_ERR], &peers->to_say);
    hook->is_over = own_is_over && is_over (peers, now, skip_wait);
    if (peers->outcome.is_known)
        job->status = peers->outcome.status;
    return hook->is_over ? INT64_MAX : find_deadline (peers, job, now, skip_wait);
}

static void
notice (struct job_peers *hook, const char *why)
{
    struct peers *peers = (struct peers *) hook;
    if (!peers->wish)
        peers->wish = strdup (why);
}

/* ---- beginning and end ---- */

static bool
has_other_launchers (const struct config *config, const struct plan *plan)
{
    const struct settings *settings = &config->settings;
    return settings->num_machines > 1 && !plan->is_external && settings->main_process_ip && plan->world_size > 1
           && plan->path != PATH_TPU && plan->path != PATH_TPU_POD;
}

static int
make_machines (struct peers *peers, struct fail *fail)
{
    size_t count = peers->machine ? 1 : (size_t) peers->machines;
    peers->all = calloc (count, sizeof *peers->all);
    peers->failures = calloc (count, sizeof *peers->failures);
    if (!peers->all || !peers->failures)
        return fail_nomem (fail);
    peers->own = peers->all;
    *peers->own = (struct peers_machine){ .state = MACHINE_JOINED, .host = strdup (peers->plan->host),
                                          .first_rank = peers->plan->first_rank,
                                          .ranks = peers->plan->local_world_size };
    return peers->own->host ? 0 : fail_nomem (fail);
}

int
peers_create (struct peers **result, const struct config *config, const struct plan *plan, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    struct fail why = { .text = "" };
    *result = NULL;
    if (!has_other_launchers (config, plan))
        return 0;
    struct peers *peers = calloc (1, sizeof *peers);
    if (!peers)
        return fail_nomem (fail);
    int port = (int) settings->main_process_port;
    *peers = (struct peers){ .settings = settings, .plan = plan, .machine = (int) settings->machine_rank,
                             .machines = (int) settings->num_machines, .port = port ? port : PLAN_USUAL_PORT,
                             .timeout_ms = settings->host_timeout * 1000, .epoll = -1, .listener = -1,
                             .noted = -1, .hook = { .fd = -1, .serve = serve, .notice = notice },
                             .dial = { .resolver = -1 } };
    /* In no core dump and, if that is permitted, not in swap. */
    peers->key = sodium_init () < 0 ? NULL : sodium_malloc (sizeof *peers->key);
    if (!peers->key)
        fail_set (fail, FAIL_GENERAL, "libsodium cannot be used here: no random numbers, or no memory");
    if (!peers->key || make_machines (peers, fail))
        goto error;
    if (job_key_read (peers->key, settings->job_key_file, peers->machine == 0, &why)) {
        peers_set_why (peers, PEERS_WHY_LASTS, "%s", why.text);
        if (settings->job_key_file) {
            fail_set (fail, FAIL_GENERAL, "--job_key_file: %s", why.text);
            goto error;
        }
    }
    *result = peers;
    return 0;
error:
    peers_destroy (peers);
    return -1;
}

void
peers_begin (struct peers *peers)
{
    if (!peers)
        return;
    peers->start_ms = peers->turn_ms = clock_ms ();
    peers->epoll = peers->hook.fd = epoll_create1 (EPOLL_CLOEXEC);
    if (peers->machine == 0 && peers->key->length && peers->epoll >= 0)
        coordinator_begin (peers);
}

/* All machines have agreed on the restart, or this launcher is alone and decides for itself. */
void
peers_restart (struct peers *peers)
{
    if (peers && !peers->again)
        peers_reset (peers);
}

void
peers_tell (struct peers *peers, const struct fail *error)
{
    int64_t latest = clock_ms () + PEERS_SETTLE_MS + PEERS_OUTCOME_MS;
    if (!peers || peers->epoll < 0)
        return;
    struct job job = { .plan = peers->plan, .end = JOB_STOPPED, .error = error };
    struct pollfd events = { .fd = peers->epoll, .events = POLLIN };
    for (int64_t until; (until = serve (&peers->hook, &job, true, false)) < INT64_MAX;) {
        int64_t now = clock_ms ();
        if (now >= latest)
            break;
        poll (&events, 1, until > now ? (int) (until - now) : 0);
    }
}

void
peers_tell_error (const struct config *config, const struct fail *error)
{
    char host[256] = "";
    int64_t size = config->settings.num_processes;
    struct plan plan = { .host = host, .program = config->program, .world_size = size > 1 ? (int) size : UNKNOWN_SIZE,
                         .path = PATH_ELASTIC };
    struct peers *peers;
    gethostname (host, sizeof host - 1);
    if (peers_create (&peers, config, &plan, NULL) || !peers)
        return;
    signal (SIGPIPE, SIG_IGN);
    peers_begin (peers);
    peers_tell (peers, error);
    peers_destroy (peers);
}

struct job_peers *
peers_hook (struct peers *peers)
{
    return peers && peers->epoll >= 0 ? &peers->hook : NULL;
}

/* Of the attempt that runs, or that was the last one to. */
static const struct job_outcome *
find_outcome (const struct peers *peers)
{
    return peers->again ? &peers->last : &peers->outcome;
}

const struct job_outcome *
peers_outcome_of_other (const struct peers *peers)
{
    const struct job_outcome *outcome = peers ? find_outcome (peers) : NULL;
    return outcome && outcome->is_known && !outcome->is_ours && outcome->end != WIRE_END_DONE ? outcome : NULL;
}

void
peers_add_simultaneous (const struct peers *peers, struct strbuf *out)
{
    const struct job_outcome *outcome = peers ? find_outcome (peers) : NULL;
    if (outcome && outcome->is_ours && outcome->also)
        strbuf_add (out, outcome->also);
}

bool
peers_has_others (const struct peers *peers)
{
    return peers && peers->has_joined;
}

bool
peers_starts_again (const struct peers *peers)
{
    return peers->again;
}

char *
peers_take_rest (struct peers *peers)
{
    return peers && peers->to_say.length && !peers->settings->quiet ? strbuf_take (&peers->to_say) : NULL;
}

void
peers_destroy (struct peers *peers)
{
    if (!peers)
        return;
    for (struct peer *peer = peers->first, *next; peer; peer = next) {
        next = peer->next;
        peer_release (peer);
    }
    for (int i = 0; peers->all && i < (peers->machine ? 1 : peers->machines); i++) {
        peers_reset_machine (&peers->all[i]);
        free (peers->all[i].host);
    }
    free (peers->all);
    free (peers->failures);
    free (peers->main_host);
    free (peers->notice);
    free (peers->wish);
    peers_release_outcome (&peers->outcome);
    peers_release_outcome (&peers->last);
    strbuf_release (&peers->to_say);
    int fds[] = { peers->listener, peers->dial.resolver, peers->epoll };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close (fds[i]);
    sodium_free (peers->key); /* which overwrites it */
    free (peers);
}
