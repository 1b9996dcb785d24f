/* SPDX-License-Identifier: Apache-2.0 */
/* The order of failures; see blame.h. */
#include <config.h>

#include "hosts/blame.h"

#include "launch/status.h"

#include <signal.h>
#include <string.h>

enum { NEARLY_NS = 1000000000, MOST_SIMULTANEOUS = 3 };

/* What no other failure brings about: the end of a host, a signal to a launcher, or a rank or launcher that was killed.
 * Ranks that lose their connection exit, or abort, or are ended by SIGPIPE. */
static bool
was_killed (const struct blame *blame)
{
    if (blame->is_lost || blame->end == WIRE_END_TOLD)
        return true;
    if (blame->end == WIRE_END_DONE || blame->status <= status_of_signal (0))
        return false;
    return blame->status != status_of_signal (SIGABRT) && blame->status != status_of_signal (SIGPIPE);
}

/* Clocks of hosts are compared through messages, a busy host notices the end of a process late, and a slow link the end
 * of a host: of two failures at nearly the same time, the one that no other can have caused was first. */
bool
blame_is_before (const struct blame *a, const struct blame *b)
{
    int64_t difference = a->failed_ns - b->failed_ns;
    bool is_close = difference < NEARLY_NS && difference > -NEARLY_NS;
    if (is_close && was_killed (a) != was_killed (b))
        return was_killed (a);
    return difference < 0;
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
    for (size_t i = 0; i < count && !was_killed (&all[guilty]); i++) {
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
