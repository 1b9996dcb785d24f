/* SPDX-License-Identifier: Apache-2.0 */
/* What every launcher of a job does to watch over the others; see crew.h. */
#include <config.h>

#include "hosts/crew.h"

#include "hosts/crew_state.h"
#include "hosts/jobkey.h"
#include "launch/report.h"
#include "launch/status.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

enum { BEATS = 5, BEAT_MS = 5000, QUICK_BEATS = 8, QUICK_BEAT_MS = 25 };
enum { UNKNOWN_SIZE = 2 }; /* of a job that could not be planned: that of several machines */

/* ---- our own machine ---- */

/* A signal to a launcher, for people who have not sent it. */
static void
add_told (const struct crew *crew, const struct job *job, struct strbuf *out)
{
    const char *name = sigabbrev_np (job->signal);
    if (!job->signal || job->signal == SIGKILL) {
        strbuf_add (out, "accelerate: the launcher on ");
        crew_add_machine (crew->own, crew->machine, out);
        strbuf_add (out, " was killed\n");
        return;
    }
    strbuf_printf (out, "accelerate: ended by SIG%s on ", name ? name : "?");
    crew_add_machine (crew->own, crew->machine, out);
    strbuf_add_char (out, '\n');
}

static void
note_own_failure (struct crew *crew, const struct job *job)
{
    struct crew_machine *own = crew->own;
    AUTO_STRBUF struct strbuf text = { 0 }, json = { 0 };
    enum wire_end end = WIRE_END_FAILED;
    int status = job_status (job);
    if (job->error) {
        end = WIRE_END_ERROR;
        status = job->error->status;
        strbuf_printf (&text, "accelerate: host %s: %s\n", crew->plan->host, job->error->text);
        report_json_error (crew->plan, job->error, &json, NULL);
    } else if (job->end == JOB_TOLD) {
        end = WIRE_END_TOLD;
        add_told (crew, job, &text);
        report_json (job, &json, NULL);
    } else {
        report_text (job, &text);
        report_json (job, &json, NULL);
    }
    crew_set_failure (own, job->end == JOB_FAILED ? job->failed_ns : clock_ns (), end, status, text.text, json.text);
    crew->hook.is_final = true;
}

/* Whether it is known how our ranks were when they were told to end. */
static bool
is_settled (const struct job *job)
{
    return !job->ending || clock_ns () >= job->failed_ns + (int64_t) CREW_CAUSE_MS * 1000000;
}

/* @return whether there is something to tell machine 0 */
static bool
note_own (struct crew *crew, const struct job *job, bool own_is_over)
{
    struct crew_machine *own = crew->own;
    bool has_failed = job->end != JOB_DONE && job->end != JOB_ELSEWHERE && !own->failed_ns && is_settled (job);
    bool has_answer = crew->is_asked && job->end == JOB_ELSEWHERE && !own->has_answered && is_settled (job);
    bool has_ended = own_is_over && own->state != MACHINE_ENDED;
    if (has_failed)
        note_own_failure (crew, job);
    if (has_ended) {
        own->state = MACHINE_ENDED;
        crew->over_ms = clock_ms ();
    }
    own->has_answered = own->has_answered || has_answer;
    return has_failed || has_ended || has_answer;
}

/* ---- the verdict ---- */

void
crew_add_victim (struct crew *crew, const struct job *job)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    char how[96];
    if (job->end != JOB_FAILED || crew->verdict.is_ours || !crew->to_say.length)
        return;
    const struct job_rank *rank = &job->ranks[job->first_failed];
    jobseg_describe_exit (rank->wait_status, how, sizeof how);
    strbuf_printf (&line, "rank %d (process %d on %s) %s", rank->process->rank, (int) rank->pid, crew->plan->host, how);
    if (line.text && !(crew->verdict.also && strstr (crew->verdict.also, line.text)))
        strbuf_printf (&crew->to_say, "  after it, %s\n", line.text);
}

/* The job's output is open until our own part is over; crew_take_rest() has what is left then. */
static void
say (struct crew *crew, struct job *job)
{
    struct strbuf *text = &crew->to_say;
    while (text->length && !crew->settings->quiet) {
        size_t length = strcspn (text->text, "\n"), used = length + (text->text[length] == '\n');
        AUTO_STRBUF struct strbuf line = { 0 };
        strbuf_add_bytes (&line, text->text, length);
        if (!line.text || !output_sink_say (job->sink_of[JOB_ERR], line.text))
            return;
        memmove (text->text, text->text + used, text->length - used);
        strbuf_truncate (text, text->length - used);
    }
}

/* ---- the loop's turn ---- */

static void
lose_peer (struct crew *crew, struct crew_peer *peer, const char *why)
{
    peer->is_dead = true;
    if (crew->machine)
        crew_member_lose (crew, peer, why);
    else if (peer->machine)
        crew_main_lose (crew, peer, why);
    else if (peer->is_welcomed && !peer->is_leaving) /* it could not read the welcome */
        crew_set_why (crew, CREW_WHY_LASTS, "%s disconnected at once, perhaps because it has another job key",
                     peer->name);
}

static void
end_connecting (struct crew *crew, struct crew_peer *peer)
{
    int error = 0;
    socklen_t length = sizeof error;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = peer };
    getsockopt (peer->pipe.in, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error) {
        lose_peer (crew, peer, strerror (error));
        return;
    }
    peer->is_connecting = peer->is_write_watched = false;
    epoll_ctl (crew->epoll, EPOLL_CTL_MOD, peer->pipe.in, &event);
    crew_peer_flush (crew, peer);
}

static void
read_peer (struct crew *crew, struct crew_peer *peer)
{
    struct wire_frame frame;
    bool is_open = pipe_fill (&peer->pipe);
    while (!peer->is_dead && crew_peer_next (crew, peer, &frame) > 0)
        if (crew->machine)
            crew_member_take (crew, peer, &frame);
        else
            crew_main_take (crew, peer, &frame);
    if (!crew->machine && seal_is_open (&peer->seal) && !peer->is_welcomed)
        crew_main_welcome (crew, peer);
    if (peer->is_dead || !is_open)
        peer->pipe.heard_ms = clock_ms (); /* that is news of it, too */
    if (peer->is_dead)
        lose_peer (crew, peer, "its launcher has sent something unknown");
    else if (!is_open)
        lose_peer (crew, peer, "lost: its launcher was killed, or the connection to it ended");
}

static void
take_events (struct crew *crew)
{
    struct epoll_event events[64];
    int count = epoll_wait (crew->epoll, events, sizeof events / sizeof *events, 0);
    for (int i = 0; i < count; i++) {
        struct crew_peer *peer = events[i].data.ptr;
        if ((void *) peer == &crew->listener)
            crew_main_accept (crew);
        else if ((void *) peer == &crew->dial)
            crew_member_resolved (crew);
        else if (peer->is_dead)
            continue;
        else if (peer->is_connecting)
            end_connecting (crew, peer);
        else if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            read_peer (crew, peer);
    }
}

/* Machine 0 beats, the others answer. */
static void
beat (const struct crew *crew, struct crew_peer *peer, int64_t now)
{
    int64_t interval = crew->timeout_ms / BEATS < BEAT_MS ? crew->timeout_ms / BEATS : BEAT_MS;
    if (crew->machine || !peer->machine || now < peer->beat_ms)
        return;
    crew_peer_put_number (peer, WIRE_BEAT, clock_ns ());
    peer->beat_ms = now + (peer->beats++ < QUICK_BEATS ? QUICK_BEAT_MS : interval);
}

static int64_t
peer_deadline (const struct crew *crew, const struct crew_peer *peer)
{
    return peer->until_ms != INT64_MAX ? peer->until_ms : peer->pipe.heard_ms + crew->timeout_ms;
}

static void
keep_deadlines (struct crew *crew, int64_t now)
{
    char why[64];
    snprintf (why, sizeof why, "lost: no sign of life for %g s", (double) crew->timeout_ms / 1000);
    /* After we were stopped, or the machine asleep, silence says nothing about the others. */
    int64_t late_ms = crew->timeout_ms / 4 < BEAT_MS ? crew->timeout_ms / 4 : BEAT_MS;
    bool was_away = now - crew->turn_ms > crew->timeout_ms / 2 + late_ms;
    crew->turn_ms = now;
    for (struct crew_peer *peer = crew->peers; peer; peer = peer->next) {
        if (was_away)
            peer->pipe.heard_ms = now;
        if (!peer->is_dead && now >= peer_deadline (crew, peer))
            lose_peer (crew, peer, peer->until_ms == INT64_MAX ? why : "no answer");
        if (!peer->is_dead)
            beat (crew, peer, now);
    }
}

static void
earlier (int64_t *until, int64_t other)
{
    if (other && other < *until)
        *until = other;
}

static int64_t
find_deadline (const struct crew *crew, const struct job *job, int64_t now, bool is_hasty)
{
    int64_t until = now + crew->timeout_ms / 2; /* or was_away would be true */
    for (const struct crew_peer *peer = crew->peers; peer; peer = peer->next) {
        earlier (&until, peer_deadline (crew, peer));
        if (!crew->machine && peer->machine)
            earlier (&until, peer->beat_ms);
    }
    earlier (&until, crew->verdict.is_known ? 0 : crew->judge_ms);
    earlier (&until, crew->noted >= 0 ? 0 : crew->start_ms + crew->timeout_ms);
    if (crew->machine && !crew->peers)
        earlier (&until, crew->dial.again_ms);
    if (crew->own->failed_ns || crew->verdict.is_known || is_hasty || job->ending)
        earlier (&until, now + 100); /* short limits for the last things */
    bool owes_answer = crew->is_asked && crew->own->state == MACHINE_JOINED && !crew->own->failed_ns;
    if (owes_answer && !crew->own->has_answered && !job->ending)
        earlier (&until, now); /* as soon as our ranks have been looked at */
    return until;
}

/* Who is not there when it should be.  @return false: all are */
static bool
add_absent (const struct crew *crew, struct strbuf *out)
{
    int first = crew_first_port (crew->port);
    if (crew->machine && !crew->has_joined)
        strbuf_printf (out, "to that of machine 0 (%s, ports %d-%d)", crew->settings->main_process_ip, first,
                       first + CREW_PORTS - 1);
    for (int i = 1, told = 0; !crew->machine && i < crew->machines && told <= 8; i++)
        if (crew->all[i].state == MACHINE_ABSENT)
            strbuf_printf (out, told++ == 0 ? "from that of machine %d" : told > 8 ? ", ..." : ", %d", i);
    return out->length > 0;
}

/* Once; and again for a reason that was not known then and will not go away. */
static void
note_loneliness (struct crew *crew, int64_t now)
{
    AUTO_STRBUF struct strbuf who = { 0 };
    int weight = *crew->why ? crew->dial.weight : 0;
    bool has_more = crew->noted < 0 || (crew->noted < CREW_WHY_LASTS && weight >= CREW_WHY_LASTS);
    if (!has_more || now - crew->start_ms < crew->timeout_ms)
        return;
    crew->noted = weight;
    if (!crew->verdict.is_known && add_absent (crew, &who))
        strbuf_printf (&crew->to_say, "accelerate: note: this launcher has no connection %s%s%s; if a rank fails "
                       "there, the ranks here have to notice it themselves\n", who.text, *crew->why ? ": " : "",
                       crew->why);
}

static bool
is_over (struct crew *crew, int64_t now, bool is_hasty)
{
    if (is_hasty && (crew->machine ? crew_is_flushed (crew) || now >= crew->over_ms + CREW_FLUSH_MS
                                   : crew_main_is_told (crew, now)))
        return true;
    return crew->machine ? crew_member_is_over (crew) : crew_main_is_over (crew);
}

/* What is new about our part goes to machine 0. */
static void
tell_news (struct crew *crew, bool own_is_over)
{
    for (struct crew_peer *peer = crew->peers; peer; peer = peer->next)
        if (crew->has_joined)
            crew_peer_put_failure (peer, own_is_over ? WIRE_END : WIRE_FAILED, crew->own);
}

static void
think (struct crew *crew, bool is_hasty)
{
    if (crew->machine) {
        crew_member_think (crew);
        crew_member_dial (crew);
    } else
        crew_main_think (crew, is_hasty);
}

static int64_t
serve (struct job_crew *hook, struct job *job, bool own_is_over, bool is_hasty)
{
    struct crew *crew = (struct crew *) hook;
    bool has_news = note_own (crew, job, own_is_over), was_known = crew->verdict.is_known;
    if (crew->again)
        crew_release_verdict (&crew->last);
    crew->again = false;
    take_events (crew);
    int64_t now = clock_ms ();
    keep_deadlines (crew, now);
    crew_bury (crew); /* whoever dials, has room for the next one then */
    if (crew->machine && has_news)
        tell_news (crew, own_is_over);
    think (crew, is_hasty);
    for (struct crew_peer *peer = crew->peers; peer; peer = peer->next)
        crew_peer_flush (crew, peer);
    crew_bury (crew);
    note_loneliness (crew, now);
    if (crew->verdict.is_known && !was_known)
        crew_add_victim (crew, job);
    if (!own_is_over)
        say (crew, job);
    hook->is_over = own_is_over && is_over (crew, now, is_hasty);
    if (crew->verdict.is_known)
        job->status = crew->verdict.status;
    return hook->is_over ? INT64_MAX : find_deadline (crew, job, now, is_hasty);
}

/* ---- beginning and end ---- */

static bool
has_other_launchers (const struct config *config, const struct plan *plan)
{
    const struct settings *settings = &config->settings;
    return settings->num_machines > 1 && !plan->outside && settings->main_process_ip && plan->world_size > 1
           && plan->path != PATH_TPU && plan->path != PATH_TPU_POD;
}

static int
make_machines (struct crew *crew, struct fail *fail)
{
    size_t count = crew->machine ? 1 : (size_t) crew->machines;
    crew->all = calloc (count, sizeof *crew->all);
    crew->blames = calloc (count, sizeof *crew->blames);
    if (!crew->all || !crew->blames)
        return fail_nomem (fail);
    crew->own = crew->all;
    *crew->own = (struct crew_machine){ .state = MACHINE_JOINED, .host = strdup (crew->plan->host),
                                        .first_rank = crew->plan->first_rank, .ranks = crew->plan->local_world_size };
    return crew->own->host ? 0 : fail_nomem (fail);
}

int
crew_create (struct crew **result, const struct config *config, const struct plan *plan, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    struct fail why = { .text = "" };
    *result = NULL;
    if (!has_other_launchers (config, plan))
        return 0;
    struct crew *crew = calloc (1, sizeof *crew);
    if (!crew)
        return fail_nomem (fail);
    int port = (int) settings->main_process_port;
    *crew = (struct crew){ .settings = settings, .plan = plan, .machine = (int) settings->machine_rank,
                           .machines = (int) settings->num_machines, .port = port ? port : PLAN_USUAL_PORT,
                           .timeout_ms = settings->host_timeout * 1000, .epoll = -1, .listener = -1,
                           .noted = -1, .hook = { .fd = -1, .serve = serve }, .dial = { .resolver = -1 } };
    /* In no core dump and, where that is permitted, not in swap. */
    crew->key = sodium_init () < 0 ? NULL : sodium_malloc (sizeof *crew->key);
    if (!crew->key)
        fail_set (fail, FAIL_GENERAL, "libsodium cannot be used here: no random numbers, or no memory");
    if (!crew->key || make_machines (crew, fail))
        goto error;
    if (jobkey_read (crew->key, settings->job_key_file, crew->machine == 0, &why)) {
        crew_set_why (crew, CREW_WHY_LASTS, "%s", why.text);
        if (settings->job_key_file) {
            fail_set (fail, FAIL_GENERAL, "--job_key_file: %s", why.text);
            goto error;
        }
    }
    *result = crew;
    return 0;
error:
    crew_destroy (crew);
    return -1;
}

void
crew_begin (struct crew *crew)
{
    if (!crew)
        return;
    crew->start_ms = crew->turn_ms = clock_ms ();
    crew->epoll = crew->hook.fd = epoll_create1 (EPOLL_CLOEXEC);
    if (crew->machine == 0 && crew->key->length && crew->epoll >= 0)
        crew_main_begin (crew);
}

/* All machines have agreed on the restart, or this launcher is alone and decides for itself. */
void
crew_restart (struct crew *crew)
{
    if (crew && !crew->again)
        crew_reset (crew);
}

void
crew_tell (struct crew *crew, const struct fail *error)
{
    int64_t latest = clock_ms () + CREW_SETTLE_MS + CREW_VERDICT_MS;
    if (!crew || crew->epoll < 0)
        return;
    struct job job = { .plan = crew->plan, .end = JOB_TOLD, .error = error };
    struct pollfd events = { .fd = crew->epoll, .events = POLLIN };
    for (int64_t until; (until = serve (&crew->hook, &job, true, false)) < INT64_MAX;) {
        int64_t now = clock_ms ();
        if (now >= latest)
            break;
        poll (&events, 1, until > now ? (int) (until - now) : 0);
    }
}

void
crew_tell_error (const struct config *config, const struct fail *error)
{
    char host[256] = "";
    int64_t size = config->settings.num_processes;
    struct plan plan = { .host = host, .program = config->program, .world_size = size > 1 ? (int) size : UNKNOWN_SIZE,
                         .path = PATH_ELASTIC };
    struct crew *crew;
    gethostname (host, sizeof host - 1);
    if (crew_create (&crew, config, &plan, NULL) || !crew)
        return;
    signal (SIGPIPE, SIG_IGN);
    crew_begin (crew);
    crew_tell (crew, error);
    crew_destroy (crew);
}

struct job_crew *
crew_hook (struct crew *crew)
{
    return crew && crew->epoll >= 0 ? &crew->hook : NULL;
}

/* Of the attempt that runs, or that was the last one to. */
static const struct crew_verdict *
find_verdict (const struct crew *crew)
{
    return crew->again ? &crew->last : &crew->verdict;
}

const struct crew_verdict *
crew_blames_other (const struct crew *crew)
{
    const struct crew_verdict *verdict = crew ? find_verdict (crew) : NULL;
    return verdict && verdict->is_known && !verdict->is_ours && verdict->end != WIRE_END_DONE ? verdict : NULL;
}

void
crew_add_simultaneous (const struct crew *crew, struct strbuf *out)
{
    const struct crew_verdict *verdict = crew ? find_verdict (crew) : NULL;
    if (verdict && verdict->is_ours && verdict->also)
        strbuf_add (out, verdict->also);
}

bool
crew_has_others (const struct crew *crew)
{
    return crew && crew->has_joined;
}

bool
crew_starts_again (const struct crew *crew)
{
    return crew->again;
}

char *
crew_take_rest (struct crew *crew)
{
    return crew && crew->to_say.length && !crew->settings->quiet ? strbuf_take (&crew->to_say) : NULL;
}

void
crew_destroy (struct crew *crew)
{
    if (!crew)
        return;
    for (struct crew_peer *peer = crew->peers, *next; peer; peer = next) {
        next = peer->next;
        crew_peer_release (peer);
    }
    for (int i = 0; crew->all && i < (crew->machine ? 1 : crew->machines); i++) {
        crew_reset_machine (&crew->all[i]);
        free (crew->all[i].host);
    }
    free (crew->all);
    free (crew->blames);
    free (crew->main_host);
    crew_release_verdict (&crew->verdict);
    crew_release_verdict (&crew->last);
    strbuf_release (&crew->to_say);
    int fds[] = { crew->listener, crew->dial.resolver, crew->epoll };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close (fds[i]);
    sodium_free (crew->key); /* which overwrites it */
    free (crew);
}
