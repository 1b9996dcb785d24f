/* SPDX-License-Identifier: Apache-2.0 */
/* From what a check has found to sentences: what prevents a job, what else is worth knowing, and what to do. */
#include <config.h>

#include "hosts/check/check.h"

#include "util/cleanup.h"

#include <stdarg.h>
#include <string.h>

enum { NAMES = 4 }; /* in one note */

static const double BUSY = 2; /* processes that want to run, for each processor */

static const int64_t clock_limit_ns = 1000000000; /* times of files and logs are compared with seconds */

/* The first advice counts: what is wrong first may be the reason for the rest. */
static void __attribute__ ((format (printf, 2, 3)))
advise (struct check *check, const char *format, ...)
{
    va_list arguments;
    char text[512];
    if (check->advice)
        return;
    va_start (arguments, format);
    vsnprintf (text, sizeof text, format, arguments);
    va_end (arguments);
    check->advice = strdup (text);
}

static void
diagnose_host (struct check *check, const struct check_host *host)
{
    const struct link *link = &host->link;
    if (!check_is_lost (host))
        return;
    strlist_printf (&check->problems, "host %s: %s", link->name, link->why);
    if (link->version && strcmp (link->version, PACKAGE_VERSION) != 0)
        advise (check, "install accelerate %s on host %s", PACKAGE_VERSION, link->name);
    else if (!link->version && check->hosts->starter.agents == STARTER_SRUN)
        advise (check, "make \"srun --overlap --nodelist=%s %s --version\" work", link->name, check->hosts->program);
    else if (!link->version)
        advise (check, "make \"ssh %s %s --version\" work without a question", link->name, check->hosts->program);
    else
        advise (check, "repair host %s, or leave it out", link->name);
}

static void
diagnose_pair (struct check *check, int i, int j)
{
    const char *why = check->whys[i * check->count + j];
    const char *one = check->items[i].link.name, *two = check->items[j].link.name;
    if (!why)
        return;
    strlist_printf (&check->problems, "from %s to %s: %s", one, two, why);
    switch (check->troubles[i * check->count + j]) {
    case NET_BENCHMARK_STALLED:
        advise (check, "check the network between hosts %s and %s: it makes connections, but loses what they carry; "
                "large packets (MTU), or a bad cable or port, are usual reasons", one, two);
        break;
    case NET_BENCHMARK_NO_ROUTE:
        advise (check, "choose a network that connects hosts %s and %s with --interface", one, two);
        break;
    default:
        advise (check, "allow TCP connections between hosts %s and %s on all ports, or choose another network with "
                "--interface", one, two);
    }
}

static void
diagnose_port (struct check *check)
{
    if (!*check->port_why || check_is_lost (&check->items[0]))
        return;
    strlist_printf (&check->problems, "%s", check->port_why);
    if (!check->port)
        advise (check, "change the option that the problem names");
    advise (check, "open port %d of host %s in its firewall, or choose another with --main_process_port", check->port,
            check->items[0].link.name);
}

/* Hosts that differ from the first one, of which the build is known. */
static void
note_builds (struct check *check)
{
    const struct check_host *first = NULL;
    for (int i = 0; i < check->count; i++) {
        const struct check_host *host = &check->items[i];
        if (check_is_lost (host) || !host->build)
            continue;
        if (first && strcmp (first->build, host->build) != 0)
            strlist_printf (&check->notes, "host %s has another build of accelerate %s than host %s (%.8s, not %.8s)",
                            host->link.name, PACKAGE_VERSION, first->link.name, host->build, first->build);
        first = first ? first : host;
    }
}

static void
note_clocks (struct check *check)
{
    for (int i = 0; i < check->count; i++) {
        const struct check_host *host = &check->items[i];
        int64_t off = host->clock_ns < 0 ? -host->clock_ns : host->clock_ns;
        if (!check_is_lost (host) && off > clock_limit_ns + host->clock_trip_ns)
            strlist_printf (&check->notes, "the clock of host %s is %.1f s %s ours; keep clocks equal with NTP",
                            host->link.name, (double) off / 1e9, host->clock_ns < 0 ? "behind" : "ahead of");
    }
}

/* If no host has the engine, it is not needed. */
static void
note_engines (struct check *check)
{
    bool has_any = false;
    for (int i = 0; i < check->count; i++)
        has_any = has_any || (!check_is_lost (&check->items[i]) && !check->items[i].no_engine);
    for (int i = 0; has_any && i < check->count; i++) {
        const struct check_host *host = &check->items[i];
        if (!check_is_lost (host) && host->no_engine)
            strlist_printf (&check->notes, "host %s has no MPI engine for libaccel, but others have: %s",
                            host->link.name, host->no_engine);
    }
}

/* Only programs that use libaccel or MPI itself need it; a user who says --mpi yes has such a program. */
static void
diagnose_mpi (struct check *check, bool needs_mpi)
{
    if (check->mpi.state == CHECK_TRANSPORT_FAILED)
        strlist_printf (needs_mpi ? &check->problems : &check->notes,
                        "MPI failed between these hosts; programs that use libaccel or MPI need it: %s",
                        check->mpi.why);
    else if (needs_mpi && check->mpi.state == CHECK_TRANSPORT_LEFT_OUT && !check->problems.count)
        strlist_printf (&check->problems, "MPI was not tried: %s", check->mpi.why);
    else
        return;
    if (needs_mpi)
        advise (check, "make MPI work between these hosts, or start the job without it (--mpi no)");
}

/* Programs on CPUs do not need it. */
static void
diagnose_nccl (struct check *check)
{
    if (check->nccl.state == CHECK_TRANSPORT_FAILED)
        strlist_printf (&check->notes, "NCCL failed between the GPUs of these hosts; programs on GPUs need it: %s",
                        check->nccl.why);
}

/* What was measured there may be too low; slow_links_find() takes that into account. */
static void
note_loads (struct check *check)
{
    AUTO_STRBUF struct strbuf names = { 0 };
    int count = 0;
    double most = 0;
    for (int i = 0; check->loads_matter && i < check->count; i++) {
        const struct check_host *host = &check->items[i];
        if (check_is_lost (host) || host->load < BUSY)
            continue;
        most = host->load > most ? host->load : most;
        if (count++ < NAMES)
            strbuf_printf (&names, "%s%s", count > 1 ? ", " : "", host->link.name);
    }
    if (count > NAMES)
        strbuf_printf (&names, " and %d more", count - NAMES);
    if (count)
        strlist_printf (&check->notes, "busy hosts: %s, with up to %.3g processes for each processor; rates of their "
                        "links may be too low, so try again when they are idle", names.text ? names.text : "", most);
}

/* @through  "", or " through NCCL" */
static void
note_slow (struct check *check, const struct slow_link *all, size_t count, const char *through)
{
    for (size_t i = 0; i < count; i++) {
        const struct slow_link *slow = &all[i];
        const char *unit = slow->is_latency ? "ms there and back" : "MB/s", *one = check->items[slow->from].link.name;
        if (slow->to < 0)
            strlist_printf (&check->notes, "all links of host %s are slow%s: %.3g %s at best, usual here is %.3g", one,
                            through, slow->is, unit, slow->usual);
        else
            strlist_printf (&check->notes, "the link from host %s to host %s is slow%s: %.3g %s, usual here is %.3g",
                            one, check->items[slow->to].link.name, through, slow->is, unit, slow->usual);
    }
}

static void
advise_slow (struct check *check)
{
    const struct slow_link *slow = check->slow_count ? &check->slow[0] : &check->nccl_slow[0];
    const char *one = check->items[slow->from].link.name;
    if (slow->to < 0)
        advise (check, "a job can run, but host %s would slow it down: check its network first, or leave it out", one);
    else
        advise (check, "a job can run, but the slow link between hosts %s and %s would slow it down: check it first",
                one, check->items[slow->to].link.name);
}

int
check_diagnose (struct check *check, bool needs_mpi, struct fail *fail)
{
    for (int i = 0; i < check->count; i++)
        diagnose_host (check, &check->items[i]);
    diagnose_port (check);
    for (int i = 0; i < check->count; i++)
        for (int j = 0; j < check->count; j++)
            diagnose_pair (check, i, j);
    diagnose_mpi (check, needs_mpi);
    diagnose_nccl (check);
    note_builds (check);
    note_clocks (check);
    note_engines (check);
    note_loads (check);
    note_slow (check, check->slow, check->slow_count, "");
    note_slow (check, check->nccl_slow, check->nccl_slow_count, " through NCCL");
    if (check->slow_count || check->nccl_slow_count)
        advise_slow (check);
    advise (check, check->notes.count ? "a job can run; see the notes above" : "a job can run");
    return check->problems.failed || check->notes.failed || !check->advice ? fail_nomem (fail) : 0;
}
