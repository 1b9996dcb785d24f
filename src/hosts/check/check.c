/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a check; see check.h.  First all hosts at the same time: connection, facts, clocks.  Then each pair, in
 * rounds in which no host has part in two pairs.  At last the port of rank 0, as for a launch. */
#include <config.h>

#include "hosts/check/check.h"

#include "hosts/agent/checks.h"
#include "hosts/head/state.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

enum {
    ASKED_MS = 120000,   /* for a connection for which SSH asks the user something */
    MORE_TRIES = 2,      /* to measure a link that stalls */
    LONG_MS = 50,        /* a round trip of a link that may lose packets */
    MEASURE_MS = 6000,   /* for a pair, at most */
    EXTRA_MS = 5000,     /* for its answer to come, besides */
    SLICE_MS = 50,       /* between looks for processes that have ended */
    BEATS = 5,           /* in the time after which an agent gives us up */
    CLOCKS = 8,          /* answers of each clock */
    SURE_TIMES = 20,     /* so many times slower than usual is not an accident; other programs may explain less */
    START_MS = 30000,    /* for mpirun to connect to all hosts, besides the deadline of a step */
    HOST_MS = 2000,      /* for the pairs of each host */
    FDS = 3,             /* of a link */
};

#define CHECK_LINKS(check) ((const struct links){ &(check)->items->link, sizeof *(check)->items, (check)->count })

typedef bool is_done_function (const struct check_host *host);

/* ---- what the agents say ---- */

static void
ask_clock (struct check_host *host)
{
    wire_put_frame (&host->link.pipe.to_write, WIRE_CHECK, CHECK_CLOCK, check_clock_ns ());
}

static void
take_clock (struct check_host *host, struct wire_frame *frame)
{
    int64_t sent = wire_number (frame), theirs = wire_number (frame), trip = check_clock_ns () - sent;
    if (!host->clock_trip_ns || trip < host->clock_trip_ns) {
        host->clock_trip_ns = trip > 0 ? trip : 1;
        host->clock_ns = theirs - sent - trip / 2;
    }
    if (++host->clocks < CLOCKS)
        ask_clock (host);
}

static char *
copy (const char *text)
{
    return text ? strdup (text) : NULL;
}

static void
take_word (struct wire_frame *frame, char word[ADDRESS_TOKEN_BYTES])
{
    const char *text = wire_text (frame);
    snprintf (word, ADDRESS_TOKEN_BYTES, "%s", text ? text : "");
}

static void
take_facts (struct check_host *host, struct wire_frame *frame)
{
    if (host->has_facts)
        return;
    host->build = copy (wire_text (frame));
    host->no_engine = copy (wire_text (frame));
    host->no_gpu_engine = copy (wire_text (frame));
    host->gpus = (int) wire_number (frame);
    host->benchmark.port = (int) wire_number (frame);
    take_word (frame, host->benchmark.token);
    take_word (frame, host->benchmark.key);
    wire_list (frame, &host->addresses);
    host->has_facts = !frame->failed;
    ask_clock (host);
}

static void
take_measured (struct check_host *host, struct wire_frame *frame)
{
    struct net_benchmark_result *result = &host->result;
    if (wire_number (frame) != host->partner)
        return; /* of a pair that we have given up */
    const char *address = wire_text (frame);
    snprintf (result->address, sizeof result->address, "%s", address ? address : "");
    result->round_trip_ns = wire_number (frame);
    result->to = (double) wire_number (frame);
    result->from = (double) wire_number (frame);
    const char *why = wire_text (frame);
    snprintf (result->why, sizeof result->why, "%s", why ? why : "");
    result->trouble = (enum net_benchmark_trouble) wire_number (frame);
    double load = (double) wire_number (frame) / 1000;
    host->load = load > host->load ? load : host->load;
    host->partner = -1;
}

static void
take_checked (struct link *link, struct wire_frame *frame)
{
    struct check_host *host = (struct check_host *) link;
    switch (wire_number (frame)) {
    case CHECK_CLOCK: take_clock (host, frame); break;
    case CHECK_FACTS: take_facts (host, frame); break;
    case CHECK_MEASURE: take_measured (host, frame); break;
    default: link_lose (link, "the agent there has sent something unknown");
    }
}

/* ---- one turn, and steps of many ---- */

/* A host that has greeted gets the job, which says how long to wait for us, which network to use and which folder. */
static void
send_job (struct check *check, int i)
{
    struct link *link = &check->items[i].link;
    if (link->state != LINK_GREETED || link->has_job)
        return;
    link->has_job = true;
    check->spec.host = i;
    job_spec_put (&link->pipe.to_write, &check->spec);
}

static void
write_all (struct check *check)
{
    bool is_time = clock_ms () >= check->heartbeat_ms;
    for (int i = 0; i < check->count; i++) {
        struct link *link = &check->items[i].link;
        send_job (check, i);
        if (is_time && link->has_job)
            link_heartbeat (link); /* or its agent would give us up */
        if (link->pipe.out >= 0 && !pipe_flush (&link->pipe)) {
            close (link->pipe.out);
            link->pipe.out = -1;
        }
    }
    if (is_time)
        check->heartbeat_ms = clock_ms () + check->spec.timeout_ms / BEATS;
}

static void
turn (struct check *check, struct pollfd *fds)
{
    write_all (check);
    for (int i = 0; i < check->count; i++) {
        const struct link *link = &check->items[i].link;
        fds[FDS * i] = (struct pollfd){ .fd = link->pipe.in, .events = POLLIN };
        fds[FDS * i + 1]
            = (struct pollfd){ .fd = pipe_has_output (&link->pipe) ? link->pipe.out : -1, .events = POLLOUT };
        fds[FDS * i + 2] = (struct pollfd){ .fd = link->err, .events = POLLIN };
    }
    int count = poll (fds, (nfds_t) (FDS * check->count), SLICE_MS);
    for (int i = 0; i < check->count; i++) {
        struct link *link = &check->items[i].link;
        if (count > 0 && fds[FDS * i + 2].revents)
            link_read_err (link);
        if (count > 0 && fds[FDS * i].revents)
            link_read (link);
        link_reap (link);
    }
}

/* Until all hosts are done or lost.  Those that are not at the deadline are lost. */
static int
run_step (struct check *check, is_done_function *is_done, int64_t limit_ms, struct fail *fail)
{
    AUTO_FREE struct pollfd *fds = calloc ((size_t) (FDS * check->count), sizeof *fds);
    int64_t until = clock_ms () + limit_ms;
    if (!fds)
        return fail_nomem (fail);
    for (;;) {
        bool is_over = true;
        for (int i = 0; i < check->count; i++)
            is_over = is_over && (check_is_lost (&check->items[i]) || is_done (&check->items[i]));
        if (is_over)
            return 0;
        if (clock_ms () >= until)
            break;
        turn (check, fds);
    }
    for (int i = 0; i < check->count; i++) {
        struct link *link = &check->items[i].link;
        if (!check_is_lost (&check->items[i]) && !is_done (&check->items[i]))
            link_lose (link, link->host ? "no answer within %g s" : "no connection within %g s",
                       (double) limit_ms / 1000);
    }
    return 0;
}

/* ---- connections and facts ---- */

static bool
has_greeted (const struct check_host *host)
{
    return host->link.state > LINK_CONNECTING;
}

static bool
is_ready (const struct check_host *host)
{
    return host->link.state >= LINK_READY;
}

static bool
has_answered (const struct check_host *host)
{
    return host->has_facts && host->clocks >= CLOCKS;
}

/* One host after the other may ask for a password, as in a launch. */
static int
ask_user (struct check *check, struct fail *fail)
{
    for (int i = 0; i < check->count; i++) {
        struct link *link = &check->items[i].link;
        if (check_is_lost (&check->items[i]) && startup_may_ask (link)
            && (startup_ask_again (link, check->hosts, fail)
                || run_step (check, is_ready, ASKED_MS, fail)))
            return -1;
    }
    return 0;
}

static int
connect_all (struct check *check, struct fail *fail)
{
    for (int i = 0; i < check->count; i++)
        if (link_start (&check->items[i].link, check->hosts, fail))
            return fail_prefix (fail, "host %s", check->items[i].link.name);
    if (run_step (check, has_greeted, startup_connect_ms (&check->spec), fail)
        || run_step (check, is_ready, check->limit_ms, fail) || ask_user (check, fail))
        return -1;
    for (int i = 0; i < check->count; i++)
        wire_put_frame (&check->items[i].link.pipe.to_write, WIRE_CHECK, CHECK_FACTS);
    return run_step (check, has_answered, check->limit_ms, fail);
}

/* ---- pairs ---- */

static bool
has_measured (const struct check_host *host)
{
    return host->partner < 0;
}

static int64_t
measure_limit_ms (const struct check *check)
{
    return check->limit_ms / 2 < MEASURE_MS ? check->limit_ms / 2 : MEASURE_MS;
}

/* Host @i is to measure the way to host @j. */
static void
ask_measure (struct check *check, int i, int j)
{
    struct check_host *host = &check->items[i];
    const struct check_host *other = &check->items[j];
    struct strbuf *out = &host->link.pipe.to_write;
    size_t begin = wire_begin (out, WIRE_CHECK);
    wire_put_number (out, CHECK_MEASURE);
    wire_put_number (out, j);
    wire_put_number (out, other->benchmark.port);
    wire_put_text (out, other->benchmark.token);
    wire_put_text (out, other->benchmark.key);
    wire_put_list (out, &other->addresses);
    wire_put_number (out, measure_limit_ms (check));
    wire_end (out, begin);
    host->partner = j;
}

static void
set_text (char **place, const char *text)
{
    free (*place);
    *place = text && *text ? strdup (text) : NULL;
}

/* The best of several measurements counts. */
static void
keep_result (struct check *check, int i, int j)
{
    const struct net_benchmark_result *result = &check->items[i].result;
    int there = i * check->count + j, back = j * check->count + i;
    double to = result->to / 1e6, from = result->from / 1e6, trip = (double) result->round_trip_ns / 1e6;
    set_text (&check->whys[there], result->why);
    set_text (&check->used[there], result->address);
    check->troubles[there] = result->trouble;
    if (*result->why)
        return;
    check->rates[there] = to > check->rates[there] ? to : check->rates[there];
    check->rates[back] = from > check->rates[back] ? from : check->rates[back];
    if (check->trips[there] <= 0 || trip < check->trips[there])
        check->trips[there] = check->trips[back] = trip;
}

/* @pairs  two numbers of hosts each */
static int
measure_pairs (struct check *check, const int (*pairs)[2], int count, struct fail *fail)
{
    for (int k = 0; k < count; k++)
        if (!check_is_lost (&check->items[pairs[k][0]]) && !check_is_lost (&check->items[pairs[k][1]]))
            ask_measure (check, pairs[k][0], pairs[k][1]);
    AUTO_FREE bool *was_asked = calloc ((size_t) count + 1, sizeof *was_asked);
    for (int k = 0; was_asked && k < count; k++)
        was_asked[k] = check->items[pairs[k][0]].partner >= 0;
    if (!was_asked)
        return fail_nomem (fail);
    if (run_step (check, has_measured, measure_limit_ms (check) + EXTRA_MS, fail))
        return -1;
    for (int k = 0; k < count; k++)
        if (was_asked[k] && check->items[pairs[k][0]].partner < 0)
            keep_result (check, pairs[k][0], pairs[k][1]);
    return 0;
}

/* The pairs of round @round: one host stays where it is, the others move around it (the circle method of tournaments).
 * In the second half of the rounds the other one of each pair connects: a firewall may admit only one of the two.
 * @return how many */
static int
find_pairs (int count, int round, int (*pairs)[2])
{
    int places = count + count % 2, turning = places - 1, found = 0, at = round % turning;
    bool is_back = round >= turning;
    for (int k = 0; k < places / 2; k++) {
        int one = k ? (at + k) % turning : turning, two = (at - k + turning) % turning;
        if (one >= count || two >= count) /* has no partner in this round */
            continue;
        pairs[found][is_back] = one < two ? one : two;
        pairs[found++][!is_back] = one < two ? two : one;
    }
    return found;
}

static void
find_slow (struct check *check)
{
    for (int i = 0; i < check->count; i++)
        check->loads[i] = check->items[i].load;
    check->loads_matter = slow_links_find (check->rates, check->trips, NULL, check->count, check->slow,
                                           CHECK_SLOW_MOST);
    check->slow_count = slow_links_find (check->rates, check->trips, check->loads, check->count, check->slow,
                                         CHECK_SLOW_MOST);
    if (check->slow_count > CHECK_SLOW_MOST)
        check->slow_count = CHECK_SLOW_MOST;
}

/* Alone, and keep the best: what was slow once need not be. */
static int
measure_again (struct check *check, const struct slow_link *slow, struct fail *fail)
{
    for (int j = 0; slow->times < SURE_TIMES && j < check->count; j++) {
        bool is_meant = j != slow->from && (slow->to < 0 || slow->to == j);
        int pair[1][2] = { { slow->from, j } };
        if (is_meant && measure_pairs (check, (const int (*)[2]) pair, 1, fail))
            return -1;
    }
    return 0;
}

/* A link that loses many packets may connect at the next attempt; whether it is one, the way back may show. */
static bool
may_succeed (const struct check *check, int i, int j)
{
    enum net_benchmark_trouble trouble = check->troubles[i * check->count + j];
    bool is_long = check->trips[j * check->count + i] > LONG_MS;
    return trouble == NET_BENCHMARK_STALLED || (trouble == NET_BENCHMARK_NO_ANSWER && is_long);
}

static int
try_again (struct check *check, struct fail *fail)
{
    for (int i = 0; i < check->count; i++)
        for (int j = 0; j < check->count; j++)
            for (int tries = 0; tries < MORE_TRIES && may_succeed (check, i, j); tries++) {
                const int pair[1][2] = { { i, j } };
                if (check_is_lost (&check->items[i]) || check_is_lost (&check->items[j]))
                    break;
                if (measure_pairs (check, pair, 1, fail))
                    return -1;
            }
    return 0;
}

static int
measure_all (struct check *check, struct fail *fail)
{
    int rounds = 2 * (check->count + check->count % 2 - 1);
    AUTO_FREE int (*pairs)[2] = calloc ((size_t) check->count + 1, sizeof *pairs);
    if (!pairs)
        return fail_nomem (fail);
    for (int round = 0; check->count > 1 && round < rounds; round++)
        if (measure_pairs (check, (const int (*)[2]) pairs, find_pairs (check->count, round, pairs), fail))
            return -1;
    if (try_again (check, fail))
        return -1;
    find_slow (check);
    for (size_t i = 0; i < check->slow_count; i++)
        if (measure_again (check, &check->slow[i], fail))
            return -1;
    find_slow (check);
    return 0;
}

/* ---- the port of rank 0 ---- */

static bool
has_port (const struct check_host *host)
{
    return host->link.state != LINK_GREETED; /* for the others, nothing is to be done */
}

static bool
has_reached (const struct check_host *host)
{
    return host->link.state != LINK_READY;
}

/* The first address that all others reach. */
static void
choose_address (struct check *check)
{
    const struct link *worst;
    set_text (&check->address, links_find_address (&CHECK_LINKS (check), &worst));
    if (!check->address)
        snprintf (check->port_why, sizeof check->port_why, "host %s cannot reach port %d of host %s", worst->name,
                  check->port, check->items[0].link.name);
}

static int
check_port (struct check *check, struct fail *fail)
{
    struct link *first = &check->items[0].link;
    if (check_is_lost (&check->items[0]))
        return 0;
    first->state = LINK_GREETED; /* until it says where it listens */
    link_ask_for_port (first, check->count);
    if (run_step (check, has_port, check->limit_ms, fail))
        return -1;
    if (first->state != LINK_LISTENING) {
        snprintf (check->port_why, sizeof check->port_why, "host %s: %s", first->name, first->why);
        first->state = first->status ? LINK_READY : LINK_LOST; /* it has refused, but it is there */
        return 0;
    }
    check->port = first->port;
    if (check->count == 1)
        return 0;
    links_ask_who_reaches (&CHECK_LINKS (check));
    if (run_step (check, has_reached, check->limit_ms, fail))
        return -1;
    choose_address (check);
    return 0;
}

/* ---- beginning and end ---- */

static int
prepare (struct check *check, struct config *config, struct fail *fail)
{
    size_t count = check->hosts->list.count, pairs = count * count;
    double *numbers = calloc (6 * pairs + count, sizeof *numbers);
    check->items = calloc (count, sizeof *check->items);
    check->rates = numbers; /* and all others */
    check->whys = calloc (2 * pairs, sizeof *check->whys);
    check->troubles = calloc (pairs, sizeof *check->troubles);
    if (!check->items || !numbers || !check->whys || !check->troubles)
        return fail_nomem (fail);
    check->trips = numbers + pairs;
    check->mpi.rates = numbers + 2 * pairs;
    check->mpi.trips = numbers + 3 * pairs;
    check->nccl.rates = numbers + 4 * pairs;
    check->nccl.trips = numbers + 5 * pairs;
    check->loads = numbers + 6 * pairs;
    check->used = check->whys + pairs;
    check->count = (int) count;
    for (int i = 0; i < check->count; i++) {
        check->items[i].partner = -1;
        link_init (&check->items[i].link, check->hosts->list.hosts[i].name);
        check->items[i].link.take_checked = take_checked;
    }
    check->limit_ms = config->settings.host_timeout * 1000;
    check->launch_ms = check->limit_ms + START_MS + HOST_MS * check->count;
    return job_spec_fill (&check->spec, config, fail);
}

int
check_run (struct check *check, struct hosts *hosts, struct config *config, struct fail *fail)
{
    *check = (struct check){ .hosts = hosts };
    signal (SIGPIPE, SIG_IGN); /* a host may be lost at any time */
    int result = prepare (check, config, fail) || connect_all (check, fail) || measure_all (check, fail)
                         || check_port (check, fail)
                     ? -1 : 0;
    if (check->items)
        links_close (&CHECK_LINKS (check), -1);
    return result;
}

void
check_release (struct check *check)
{
    size_t pairs = (size_t) check->count * (size_t) check->count;
    for (int i = 0; i < check->count; i++) {
        struct check_host *host = &check->items[i];
        link_release (&host->link);
        free (host->build);
        free (host->no_engine);
        free (host->no_gpu_engine);
        strlist_release (&host->addresses);
    }
    for (size_t i = 0; i < 2 * pairs; i++)
        free (check->whys[i]);
    free (check->items);
    free (check->rates);
    free (check->whys);
    free (check->troubles);
    free (check->address);
    free (check->advice);
    strlist_release (&check->problems);
    strlist_release (&check->notes);
    check->spec.config = (struct config){ 0 };
    job_spec_release (&check->spec);
}
