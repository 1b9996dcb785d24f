/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of ranks went, and what memory they took; see sections.h. */
#include <config.h>

#include "report/sections.h"

#include "report/html.h"
#include "report/launch.h"
#include "util/cleanup.h"
#include "util/printable.h"

#include <math.h>
#include <string.h>

enum { MOST_RANKS = 128, MOST_CALLS = 12 };

/* ---- the profile ---- */

static const struct share {
    const char *name, *style;
    size_t offset; /* in struct profile_rank */
} shares[] = {
    { "compute", "compute", offsetof (struct profile_rank, compute) },
    { "data", "data", offsetof (struct profile_rank, data) },
    { "collectives", "collective", offsetof (struct profile_rank, collective) },
    { "waiting for others", "wait", offsetof (struct profile_rank, wait) },
};
enum { SHARES = sizeof shares / sizeof *shares };

static double
percent_of (const struct profile_rank *rank, size_t share)
{
    double part;
    memcpy (&part, (const char *) rank + shares[share].offset, sizeof part);
    return rank->total > 0 ? 100 * part / rank->total : 0;
}

static void
add_time (double microseconds, struct strbuf *out)
{
    strbuf_add (out, "<td>");
    if (microseconds >= 1e6)
        launch_duration (microseconds / 1e6, out);
    else if (microseconds > 0) {
        html_number (out, microseconds / 1000);
        strbuf_add (out, "&nbsp;ms");
    }
    strbuf_add (out, "</td>");
}

static void
add_bar (const struct profile_rank *rank, struct strbuf *out)
{
    strbuf_add (out, "<td class=\"bar\"><div aria-hidden=\"true\">");
    for (size_t i = 0; i < SHARES; i++)
        strbuf_printf (out, "<i class=\"%s\" style=\"width:%.2f%%\" title=\"%s: %.1f %%\"></i>", shares[i].style,
                       percent_of (rank, i), shares[i].name, percent_of (rank, i));
    strbuf_add (out, "</div></td>");
    for (size_t i = 0; i < SHARES; i++)
        strbuf_printf (out, "<td>%.1f&nbsp;%%</td>", percent_of (rank, i));
    add_time (rank->blamed, out);
    strbuf_add (out, "</tr>\n");
}

static void
add_shares (const struct profile *profile, struct strbuf *out)
{
    strbuf_add (out, "<div class=\"scroll\" tabindex=\"0\"><table class=\"rows shares\"><thead><tr>"
                     "<th scope=\"col\">rank</th><th scope=\"col\" class=\"bar\">share of time</th>");
    for (size_t i = 0; i < SHARES; i++)
        strbuf_printf (out, "<th scope=\"col\"><i class=\"key %s\"></i>%s</th>", shares[i].style, shares[i].name);
    strbuf_add (out, "<th scope=\"col\">others waited for it</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < profile->count && i < MOST_RANKS; i++)
        if (profile->ranks[i].is_there) {
            strbuf_printf (out, "<tr><th scope=\"row\">%zu</th>", i);
            add_bar (&profile->ranks[i], out);
        }
    strbuf_add (out, "</tbody></table></div>\n");
    if (profile->count > MOST_RANKS)
        strbuf_printf (out, "<p class=\"note\">%zu more ranks are not shown.</p>\n", profile->count - MOST_RANKS);
}

static void
add_calls (const struct profile *profile, struct strbuf *out)
{
    if (!profile->call_count)
        return;
    strbuf_add (out, "<h3>Collectives that took longest</h3><div class=\"scroll\" tabindex=\"0\"><table class=\"rows\">"
                     "<thead><tr><th scope=\"col\">call</th><th scope=\"col\" class=\"text\">at</th>"
                     "<th scope=\"col\">calls</th><th scope=\"col\">in all</th><th scope=\"col\">mean</th>"
                     "<th scope=\"col\">longest</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < profile->call_count && i < MOST_CALLS; i++) {
        const struct profile_call *call = &profile->calls[i];
        strbuf_add (out, "<tr><th scope=\"row\">");
        html_text (out, call->name);
        strbuf_add (out, "</th><td class=\"text\"><code>");
        html_text (out, call->at);
        strbuf_add (out, "</code></td><td>");
        html_count (out, (int64_t) call->count);
        strbuf_add (out, "</td>");
        add_time (call->time, out);
        add_time (call->time / (double) call->count, out);
        add_time (call->longest, out);
        strbuf_add (out, "</tr>\n");
    }
    strbuf_add (out, "</tbody></table></div>\n");
}

void
section_profiles (const struct runs *runs, struct strbuf *out)
{
    bool has_any = false;
    for (size_t i = 0; i < runs->count; i++) {
        if (!runs->items[i].profile.count)
            continue;
        if (!has_any)
            section_begin ("time", "Where the time went", out);
        has_any = true;
        if (runs->count > 1) {
            strbuf_add (out, "<h3>");
            section_name (runs, i, out);
            strbuf_add (out, "</h3>\n");
        }
        add_shares (&runs->items[i].profile, out);
        add_calls (&runs->items[i].profile, out);
    }
    strbuf_add (out, has_any ? "</section>\n" : "");
}

/* ---- processes ---- */

static double
largest_peak (const struct runs *runs)
{
    double largest = 0;
    size_t index;
    json_t *process;
    for (size_t i = 0; i < runs->count; i++)
        json_array_foreach (json_object_get (runs->items[i].launch, "processes"), index, process)
            largest = fmax (largest, json_number_value (json_object_get (process, "peak_memory_bytes")));
    return largest;
}

static void
add_process (const struct runs *runs, size_t run, const json_t *process, double largest, struct strbuf *out)
{
    double peak = json_number_value (json_object_get (process, "peak_memory_bytes"));
    strbuf_add (out, "<tr><th scope=\"row\">");
    if (runs->count > 1) {
        section_name (runs, run, out);
        strbuf_add (out, ", ");
    }
    strbuf_printf (out, "rank %" JSON_INTEGER_FORMAT "</th>", json_integer_value (json_object_get (process, "rank")));
    strbuf_printf (out, "<td class=\"bar\"><div aria-hidden=\"true\"><i class=\"compute\" style=\"width:%.2f%%\"></i>"
                   "</div></td><td>", largest > 0 && peak > 0 ? 100 * peak / largest : 0);
    if (peak > 0 && peak < 1e18)
        bytes_add (out, (uint64_t) peak);
    strbuf_add (out, "</td><td>");
    launch_duration (json_number_value (json_object_get (process, "cpu_s")), out);
    strbuf_add (out, "</td></tr>\n");
}

void
section_processes (const struct runs *runs, struct strbuf *out)
{
    bool has_any = false;
    double largest = largest_peak (runs);
    size_t index;
    json_t *process;
    for (size_t i = 0; i < runs->count; i++)
        json_array_foreach (json_object_get (runs->items[i].launch, "processes"), index, process) {
            if (!has_any) {
                section_begin ("processes", "Memory and processor time", out);
                strbuf_add (out, "<div class=\"scroll\" tabindex=\"0\"><table class=\"rows shares\"><thead><tr>"
                                 "<th scope=\"col\">process</th><th scope=\"col\" class=\"bar\">peak memory</th>"
                                 "<th scope=\"col\">bytes</th><th scope=\"col\">processor time</th></tr></thead>"
                                 "<tbody>\n");
            }
            has_any = true;
            if (index < MOST_RANKS)
                add_process (runs, i, process, largest, out);
        }
    strbuf_add (out, has_any ? "</tbody></table></div></section>\n" : "");
}
