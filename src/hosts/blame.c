/* SPDX-License-Identifier: Apache-2.0 */
/* The order of failures; see blame.h. */
#include <config.h>

#include "hosts/blame.h"

#include "launch/status.h"

#include <signal.h>
#include <string.h>

enum { MOST_SIMULTANEOUS = 3 };

/* How much later than a failure one may be seen that came before it, and brought it about.  Clocks of hosts are
 * compared through messages, a busy host notices the end of a process late, and a slow link the end of a host. */
#define NEARLY_NS INT64_C (1000000000)
#define LATE_NS INT64_C (5000000000) /* of a rank that was killed: what was told to end in the meantime says so */

enum kind {
    FOLLOWS, /* a rank that has lost its connection exits, or aborts, or is ended by SIGPIPE */
    CRASHED, /* or crashes while it cleans up */
    GONE,    /* a host, or a launcher */
    KILLED,  /* a rank, by somebody */
};

static enum kind
kind_of (const struct blame *blame)
{
    if (blame->is_lost)
        return GONE;
    if (blame->end == WIRE_END_DONE || blame->status <= status_of_signal (0))
        return FOLLOWS;
    switch (blame->status - status_of_signal (0)) {
    case SIGABRT:
    case SIGPIPE: return FOLLOWS;
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS: return CRASHED;
    default: return blame->end == WIRE_END_FAILED ? KILLED : GONE;
    }
}

/* Whether @a may have brought about @b, but not the other way round. */
static bool
explains (const struct blame *a, const struct blame *b)
{
    enum kind of_a = kind_of (a), of_b = kind_of (b);
    int64_t later = a->failed_ns - b->failed_ns;
    bool may_have = of_b == FOLLOWS ? of_a != FOLLOWS : of_b == CRASHED && of_a == KILLED;
    return may_have && later < (of_a == KILLED ? LATE_NS : NEARLY_NS);
}

bool
blame_is_before (const struct blame *a, const struct blame *b)
{
    return explains (a, b) || (!explains (b, a) && a->failed_ns < b->failed_ns);
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
    for (size_t i = 0; i < count && kind_of (&all[guilty]) == FOLLOWS; i++) {
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
