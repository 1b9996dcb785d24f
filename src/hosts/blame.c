/* SPDX-License-Identifier: Apache-2.0 */
/* The order of failures; see blame.h. */
#include <config.h>

#include "hosts/blame.h"

#include "launch/status.h"

#include <signal.h>
#include <string.h>

enum { MOST_SIMULTANEOUS = 3 };

/* How much later than a failure one may be seen that came before it.  Clocks of hosts are compared through messages, a
 * busy host notices the end of a process late, and a slow link the end of a host. */
#define NEARLY_NS INT64_C (1000000000)
#define LATE_NS INT64_C (5000000000) /* of a rank that was killed: what was told to end in the meantime says so */

/* Whether a failure is the consequence of another one. */
enum certainty {
    MAY_FOLLOW,     /* a rank that has lost its connection exits, or aborts, or is ended by SIGPIPE */
    HARDLY_FOLLOWS, /* a crash while it cleans up; the end of a host, or of a launcher */
    IS_FIRST,       /* a rank that somebody has killed */
};

static enum certainty
certainty_of (const struct blame *blame)
{
    if (blame->is_lost)
        return HARDLY_FOLLOWS;
    if (blame->end == WIRE_END_DONE || blame->status <= status_of_signal (0))
        return MAY_FOLLOW;
    switch (blame->status - status_of_signal (0)) {
    case SIGABRT:
    case SIGPIPE: return MAY_FOLLOW;
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS: return HARDLY_FOLLOWS;
    default: return blame->end == WIRE_END_FAILED ? IS_FIRST : HARDLY_FOLLOWS;
    }
}

/* Of two failures at nearly the same time, the one that the other cannot have caused was first. */
bool
blame_is_before (const struct blame *a, const struct blame *b)
{
    enum certainty of_a = certainty_of (a), of_b = certainty_of (b);
    int64_t difference = a->failed_ns - b->failed_ns, distance = difference < 0 ? -difference : difference;
    int64_t limit = of_a == IS_FIRST || of_b == IS_FIRST ? LATE_NS : NEARLY_NS;
    return of_a != of_b && distance < limit ? of_a > of_b : difference < 0;
}

const char *
blame_without_prefix (const char *report)
{
    static const char prefix[] = "accelerate: ";
    return strncmp (report, prefix, sizeof prefix - 1) ? report : report + sizeof prefix - 1;
}

/* A rank that fails because another has failed may be noticed first.  With signals there is no doubt. */
void
blame_add_simultaneous (const struct blame *all, size_t count, size_t guilty, struct strbuf *out)
{
    int left = MOST_SIMULTANEOUS;
    for (size_t i = 0; i < count && certainty_of (&all[guilty]) == MAY_FOLLOW; i++) {
        const struct blame *one = &all[i];
        const char *report = one->report ? blame_without_prefix (one->report) : "";
        bool is_one = i != guilty && one->failed_ns && !one->is_lost && one->end == WIRE_END_FAILED && *report
                      && one->failed_ns - all[guilty].failed_ns < NEARLY_NS;
        if (is_one && left-- > 0)
            strbuf_printf (out, "  at nearly the same time, %.*s\n", (int) strcspn (report, "\n"), report);
    }
    if (left < 0)
        strbuf_printf (out, "  and %d more host%s\n", -left, left < -1 ? "s" : "");
}
