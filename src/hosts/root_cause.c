/* SPDX-License-Identifier: Apache-2.0 */
/* The order of failures; see root_cause.h. */
#include <config.h>

#include "hosts/root_cause.h"

#include "launch/process/process.h"
#include "launch/report/report.h"
#include "util/cleanup.h"
#include "util/jobseg.h"

#include <signal.h>
#include <string.h>

enum {
    MOST_SIMULTANEOUS = 3,
    MOST_SIGNAL = 64, /* of Linux */
};

/* How much later than a failure one may be seen that came before it, and brought it about.  Clocks of hosts are
 * compared through messages, a busy host notices the end of a process late, and a slow link the end of a host. */
#define NEARLY_NS INT64_C (1000000000)
#define LATE_NS INT64_C (5000000000) /* of a rank that was killed: ranks told to end in the meantime report that */

enum kind {
    CUT_OFF, /* a rank that has lost MPI exits; nothing but its status and words tells it from one that fails */
    FOLLOWS, /* a rank that has lost its connection exits, or aborts, or is ended by SIGPIPE */
    CRASHED, /* or crashes while it cleans up */
    GONE,    /* a host, or a launcher */
    KILLED,  /* a rank, from outside */
};

static enum kind
kind_of (const struct failure *failure)
{
    enum kind follows = failure->has_lost_mpi ? CUT_OFF : FOLLOWS;
    if (failure->is_lost)
        return GONE;
    if (failure->end == WIRE_END_DONE || failure->status <= status_of_signal (0)
        || failure->status > status_of_signal (MOST_SIGNAL))
        return follows; /* exit (-1) is 255 */
    switch (failure->status - status_of_signal (0)) {
    case SIGABRT:
    case SIGPIPE: return follows;
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS: return CRASHED;
    default: return failure->end == WIRE_END_FAILED ? KILLED : GONE;
    }
}

/* The rank that the report of a host names; -1: none. */
static int
failed_rank (const struct failure *failure)
{
    bool has_one = !failure->is_lost && failure->end == WIRE_END_FAILED && failure->report;
    return has_one ? jobseg_read_rank (root_cause_text (failure->report), NULL) : -1;
}

/* The rank because of which that one gave up, by its own words; -1: it does not say. */
static int
lost_rank (const struct failure *failure)
{
    static const char it[] = "\n  it ";
    const char *at = failed_rank (failure) >= 0 ? strstr (failure->report, it) : NULL;
    return at ? jobseg_lost_rank (at + sizeof it - 1) : -1;
}

/* For each host, which other one has the rank because of which that host's own gave up; @count: none, or it does not
 * say.  @return NULL without memory: then no host says anything */
static size_t *
read_words (const struct failure *all, size_t count)
{
    size_t *named = calloc (count, sizeof *named);
    AUTO_FREE int *failed = calloc (count, sizeof *failed);
    for (size_t i = 0; failed && i < count; i++)
        failed[i] = failed_rank (&all[i]);
    for (size_t i = 0; named && i < count; i++) {
        int lost = failed ? lost_rank (&all[i]) : -1;
        for (named[i] = lost < 0 ? count : 0; named[i] < count && (failed[named[i]] != lost || named[i] == i);)
            named[i]++;
    }
    return named;
}

/* The host at which the words end that begin at @from; any one of those that name each other in a circle. */
static size_t
follow (const size_t *named, size_t count, size_t from)
{
    for (size_t steps = 0; named && steps < count && named[from] < count; steps++)
        from = named[from];
    return from;
}

/* Whether @a may have brought about @b, but not the other way round. */
static bool
explains (const struct failure *a, const struct failure *b)
{
    enum kind of_a = kind_of (a), of_b = kind_of (b);
    int64_t later = a->failed_ns - b->failed_ns;
    if (a->is_mpi || b->is_mpi)
        return a->is_mpi && !b->is_mpi && of_b == CUT_OFF; /* whatever clocks say */
    bool may_have = of_b <= FOLLOWS ? of_a > of_b : of_b == CRASHED && of_a == KILLED;
    return may_have && later < (of_a == KILLED ? LATE_NS : NEARLY_NS);
}

static bool
is_explained (const struct failure *all, const bool *may_be, size_t count, size_t index)
{
    for (size_t i = 0; i < count; i++)
        if (i != index && all[i].failed_ns && (!may_be || may_be[i]) && explains (&all[i], &all[index]))
            return true;
    return false;
}

/* The earliest of those that may be first; of processes of MPI, one that no other has ended comes before that. */
static size_t
find_earliest (const struct failure *all, const bool *may_be, size_t count, bool is_mpi)
{
    size_t first = count;
    for (size_t i = 0; i < count; i++) {
        if (!all[i].failed_ns || all[i].is_mpi != is_mpi || (may_be && !may_be[i])
            || is_explained (all, may_be, count, i))
            continue;
        bool is_earlier = first == count || all[i].failed_ns < all[first].failed_ns;
        bool are_alike = first == count || all[i].was_killed == all[first].was_killed;
        if (are_alike ? is_earlier : all[i].was_killed)
            first = i;
    }
    return first;
}

/* Words are surer than clocks: who names another rank was not the first.  Where ranks name each other, clocks decide.
 * No two failures explain each other, so one is left; a process of MPI is of interest only if all failures of ranks are
 * due to it. */
size_t
root_cause_find (const struct failure *all, size_t count)
{
    AUTO_FREE size_t *named = read_words (all, count);
    AUTO_FREE bool *may_be = calloc (count, sizeof *may_be);
    bool has_failed = false;
    for (size_t i = 0; i < count; i++) {
        if (may_be && all[i].failed_ns)
            may_be[follow (named, count, i)] = true;
        has_failed = has_failed || (all[i].failed_ns && !all[i].is_mpi);
    }
    size_t first = find_earliest (all, may_be, count, false);
    return first == count && has_failed ? find_earliest (all, may_be, count, true) : first;
}

bool
root_cause_may_be_first (const struct failure *first, const struct failure *other)
{
    int64_t later = other->failed_ns - first->failed_ns;
    return other->failed_ns && (other->was_killed || !first->was_killed) && later < NEARLY_NS && -later < NEARLY_NS;
}

const char *
root_cause_text (const char *report)
{
    static const char prefix[] = "accelerate: ";
    return strncmp (report, prefix, sizeof prefix - 1) ? report : report + sizeof prefix - 1;
}

/* The report's first line, and those about ranks of the same host. */
static void
add_lines (const char *report, struct strbuf *out)
{
    static const char also[] = "\n" REPORT_SIMULTANEOUS;
    strbuf_printf (out, REPORT_SIMULTANEOUS "%.*s\n", (int) strcspn (report, "\n"), report);
    for (const char *at = report; (at = strstr (at, also)); at++)
        strbuf_printf (out, "%.*s\n", (int) strcspn (at + 1, "\n"), at + 1);
}

/* A rank that fails because another has failed may be noticed first.  With signals there is no doubt. */
void
root_cause_add_simultaneous (const struct failure *all, size_t count, size_t cause, struct strbuf *out)
{
    AUTO_FREE size_t *named = read_words (all, count);
    int left = MOST_SIMULTANEOUS;
    for (size_t i = 0; i < count && kind_of (&all[cause]) <= FOLLOWS && !all[cause].is_mpi; i++) {
        const struct failure *one = &all[i];
        const char *report = one->report ? root_cause_text (one->report) : "";
        bool is_one = i != cause && one->failed_ns && !one->is_lost && !one->is_mpi
                      && one->end == WIRE_END_FAILED && *report && one->failed_ns - all[cause].failed_ns < NEARLY_NS
                      && (follow (named, count, i) != cause || named[cause] < count);
        if (is_one && left-- > 0)
            add_lines (report, out);
    }
    if (left < 0)
        strbuf_printf (out, "  and %d more host%s\n", -left, left < -1 ? "s" : "");
}
