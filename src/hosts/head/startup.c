/* SPDX-License-Identifier: Apache-2.0 */
/* From the first connection to the start of the ranks; see state.h. */
#include <config.h>

#include "hosts/head/state.h"

#include "util/cleanup.h"
#include "util/clock.h"

#include <fcntl.h>
#include <string.h>

enum {
    SSH_FAILED = 255,
    CONNECT_MS = 30000, /* at least */
    STANDBY_READY_MS = 5000, /* for MPI proxies that should have come before */
};

int64_t
startup_connect_ms (const struct job_spec *spec)
{
    return spec->timeout_ms > CONNECT_MS ? spec->timeout_ms : CONNECT_MS;
}

static bool
has_terminal (void)
{
    AUTO_CLOSE int fd = open ("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    return fd >= 0;
}

bool
startup_may_ask (const struct link *link)
{
    return link->batch && WIFEXITED (link->wait_status) && WEXITSTATUS (link->wait_status) == SSH_FAILED && !link->pid
           && !link->host && has_terminal ();
}

int
startup_ask_again (struct link *link, const struct hosts *hosts, struct fail *fail)
{
    if (link->err >= 0)
        close (link->err);
    pipe_close (&link->pipe);
    strbuf_truncate (&link->said, 0);
    link->batch = false;
    link->failed_ns = 0;
    return link_start (link, hosts, fail);
}

static int
fail_link (const struct link *link, struct fail *fail)
{
    return fail_set (fail, link->status ? link->status : FAIL_GENERAL, "host %s: %s", link->name, link->why);
}

/* @return whether an agent does not know yet what it would run */
static bool
is_connecting (const struct head *head)
{
    for (int i = 0; i < head->count; i++)
        if (head->links[i].state < LINK_READY)
            return true;
    return false;
}

/* Those who have greeted get the job; those who refused end it; those who would ask are asked when the others are
 * there. */
static int
connect_all (struct head *head, struct fail *fail)
{
    for (int i = 0; i < head->count; i++) {
        struct link *link = &head->links[i];
        if (link->state == LINK_LOST && !startup_may_ask (link))
            return fail_link (link, fail);
        if (link->state != LINK_GREETED || link->has_job)
            continue;
        link->has_job = true;
        head->spec.host = i;
        job_spec_put (&link->pipe.to_write, &head->spec);
        link_heartbeat (link);
    }
    for (int i = 0; i < head->count && !is_connecting (head); i++)
        if (head->links[i].state == LINK_LOST) {
            head->asking = &head->links[i];
            return startup_ask_again (head->asking, head->hosts, fail);
        }
    return 0;
}

static int
divide (struct head *head, struct fail *fail)
{
    struct hostlist *list = &head->hosts->list;
    int64_t processes = head->spec.config.settings.num_processes;
    for (int i = 0; i < head->count; i++)
        if (!list->hosts[i].slots && !processes)
            list->hosts[i].slots = (int) head->links[i].ranks_found;
    return hostlist_divide (list, processes, fail);
}

/* A launcher that has only ranks of its own labels them itself. */
static int
begin_labels (struct head *head, struct fail *fail)
{
    if (head->count == 1 || strcmp (head->spec.config.settings.label, "auto") != 0) {
        labels_release (&head->labels);
        return 0;
    }
    return labels_begin (&head->labels, head->sink_of, hostlist_world_size (&head->hosts->list), fail);
}

static int
ask_for_port (struct head *head, struct fail *fail)
{
    struct listener random;
    if (listener_draw_token (&random, fail))
        return -1;
    memcpy (head->copies_key, random.token, sizeof head->copies_key);
    head->phase = HEAD_ADDRESS;
    head->is_reach_asked = false;
    for (int i = 0; i < head->count; i++)
        head->links[i].state = LINK_READY;
    link_ask_for_port (&head->links[0], hostlist_world_size (&head->hosts->list));
    return 0;
}

/* @return when the MPI proxies must have come: a standby's should have, but it may have begun a moment ago */
static int64_t
find_deadline (const struct head *head)
{
    int64_t now = clock_ms (), connect_ms = startup_connect_ms (&head->spec);
    if (!head->mpi_launcher.was_standby)
        return now + connect_ms;
    int64_t begun_ms = head->standby_begun_ms + connect_ms;
    return begun_ms > now + STANDBY_READY_MS ? begun_ms : now + STANDBY_READY_MS;
}

/* Each agent waits for the MPI proxies of its ranks. */
static int
ask_for_mpi_proxies (struct head *head, struct fail *fail)
{
    struct mpi_launcher *launcher = &head->mpi_launcher;
    if (!launcher->was_standby
        && mpi_launcher_start (launcher, head->hosts, head->spec.proxies, ++head->mpi_starts, fail))
        return -1;
    head->phase = HEAD_START_MPI;
    head->mpi_start_ms = find_deadline (head);
    for (int i = 0; i < head->count; i++)
        wire_put_frame (&head->links[i].pipe.to_write, WIRE_START_PROXIES, launcher->attempt,
                        head->hosts->list.hosts[i].ranks);
    return 0;
}

/* @return whether what was a standby cannot be used, so that another mpirun is started when it has ended */
static bool
is_standby_useless (struct head *head)
{
    const struct mpi_launcher *launcher = &head->mpi_launcher;
    bool is_late = head->phase == HEAD_START_MPI && clock_ms () >= head->mpi_start_ms;
    return launcher->was_standby && head->links[0].state < LINK_RUNNING && (!launcher->pid || is_late);
}

static int
await_mpi_proxies (struct head *head, struct fail *fail)
{
    bool have_all = true;
    for (int i = 0; i < head->count; i++) {
        if (head->links[i].state == LINK_LOST)
            return fail_link (&head->links[i], fail);
        have_all = have_all && head->links[i].attempt_ready == head->mpi_launcher.attempt;
    }
    if (have_all)
        return ask_for_port (head, fail);
    if (!head->mpi_launcher.pid)
        return mpi_launcher_fail (&head->mpi_launcher, head->hosts,
                                  "has ended before it started a process for each rank", fail);
    else if (clock_ms () >= head->mpi_start_ms)
        return mpi_launcher_fail (&head->mpi_launcher, head->hosts, "has not started a process for each rank in time",
                                  fail);
    return 0;
}

/* The first address that all other hosts reach.  @return NULL with @fail if there is none */
static const char *
choose_address (const struct head *head, struct fail *fail)
{
    const struct link *first = &head->links[0], *worst;
    const char *address = links_find_address (&HEAD_LINKS (head), &worst);
    if (address)
        return address;
    AUTO_STRBUF struct strbuf tried = { 0 };
    for (size_t i = 0; i < first->addresses.count && i < 4; i++)
        strbuf_printf (&tried, "%s%s", i ? ", " : "", first->addresses.items[i]);
    fail_set (fail, FAIL_GENERAL, "host %s cannot reach host %s on port %d at %s%s; is there a firewall between them? "
              "--interface or --main_process_ip choose another address, --main_process_port another port", worst->name,
              first->name, first->port, tried.text ? tried.text : "", first->addresses.count > 4 ? ", ..." : "");
    return NULL;
}

/* Where copies of checkpoints in memory go: to the next host, and from the last to the first. */
static void
put_next (const struct head *head, int index, struct strbuf *out)
{
    const struct link *next = &head->links[(index + 1) % head->count];
    wire_put_text (out, next->name);
    wire_put_number (out, head->count > 1 ? next->copies_port : 0);
    wire_put_list (out, &next->copies_addresses);
    wire_put_text (out, head->copies_key);
}

static void
start_host (struct head *head, int index)
{
    const struct hostlist_host *host = &head->hosts->list.hosts[index];
    struct link *link = &head->links[index];
    struct strbuf *out = &link->pipe.to_write;
    size_t begin = wire_begin (out, WIRE_START);
    wire_put_text (out, head->address);
    wire_put_number (out, head->links[0].port);
    wire_put_number (out, index);
    wire_put_number (out, head->count);
    wire_put_number (out, host->first_rank);
    wire_put_number (out, host->ranks);
    wire_put_number (out, hostlist_world_size (&head->hosts->list));
    wire_put_number (out, head->restarts);
    put_next (head, index, out);
    wire_end (out, begin);
    link_heartbeat (link);
    link->state = LINK_RUNNING;
    link->has_started = false;
    link->failed_rank = -1;
}

/* The others start when the agent of the first host no longer listens: their ranks would take it for rank 0. */
static void
start_others (struct head *head)
{
    if (!head->links[0].has_started && head->links[0].state == LINK_RUNNING)
        return;
    for (int i = 1; i < head->count; i++)
        start_host (head, i);
    head->phase = HEAD_RUN;
}

static int
find_address (struct head *head, struct fail *fail)
{
    for (int i = 0; i < head->count; i++)
        if (head->links[i].state == LINK_LOST)
            return fail_link (&head->links[i], fail);
    if (head->links[0].state >= LINK_RUNNING) {
        start_others (head);
        return 0;
    }
    if (head->links[0].state != LINK_LISTENING)
        return 0;
    if (head->count > 1 && !head->is_reach_asked) {
        links_ask_who_reaches (&HEAD_LINKS (head));
        head->is_reach_asked = true;
        return 0;
    }
    for (int i = 1; i < head->count; i++)
        if (head->links[i].state != LINK_REACHED)
            return 0;
    head->address = head->count > 1 ? choose_address (head, fail) : NULL;
    if (head->count > 1 && !head->address)
        return -1;
    start_host (head, 0);
    return 0;
}

int
startup_advance (struct head *head, struct fail *fail)
{
    if (head->phase == HEAD_CONNECT) {
        if (connect_all (head, fail))
            return -1;
        /* At a restart, the MPI launcher of the attempt before may still run, and agents answer what was asked then. */
        if (is_connecting (head) || (!standby_take (head) && !mpi_launcher_end (&head->mpi_launcher)))
            return 0;
        head->asking = NULL;
        if (divide (head, fail) || begin_labels (head, fail))
            return -1;
        if (head->spec.proxies ? ask_for_mpi_proxies (head, fail) : ask_for_port (head, fail))
            return -1;
    }
    if (is_standby_useless (head)) {
        mpi_launcher_hurry (&head->mpi_launcher);
        head->phase = HEAD_CONNECT;
        return 0;
    }
    if (head->phase == HEAD_START_MPI && await_mpi_proxies (head, fail))
        return -1;
    return head->phase == HEAD_ADDRESS ? find_address (head, fail) : 0;
}
