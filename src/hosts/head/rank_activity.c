/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of all hosts together; see rank_activity.h. */
#include <config.h>

#include "hosts/head/rank_activity.h"

#include "util/array.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 16 };

static void
insert (struct rank_activity *activity, int rank, const char *text)
{
    if (!array_room (&activity->ranks, activity->count, sizeof *activity->ranks))
        return;
    size_t place = activity->count++;
    for (; place > 0 && activity->ranks[place - 1].rank > rank; place--)
        activity->ranks[place] = activity->ranks[place - 1];
    activity->ranks[place] = (struct rank_activity_rank){ .rank = rank, .text = text };
}

void
rank_activity_add (struct rank_activity *activity, const char *json, bool gave_up)
{
    static const char words[] = "gave up: ";
    size_t index;
    json_t *report = json ? json_loads (json, 0, NULL) : NULL, *item;
    if (!report)
        return;
    activity->reports = activity->reports ? activity->reports : json_array ();
    if (json_array_append_new (activity->reports, report))
        return;
    activity->killed += json_integer_value (json_object_get (report, "killed"));
    json_array_foreach (json_object_get (report, "ranks"), index, item) {
        const json_t *rank = json_object_get (item, "rank");
        const char *text = json_string_value (json_object_get (item, "doing"));
        if (json_is_integer (rank) && text && (gave_up || strncmp (text, words, sizeof words - 1) != 0))
            insert (activity, (int) json_integer_value (rank), text);
    }
}

static bool
is_alike (const struct rank_activity *activity, size_t a, size_t b)
{
    return !strcmp (activity->ranks[a].text, activity->ranks[b].text);
}

static bool
is_first (const struct rank_activity *activity, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (is_alike (activity, i, index))
            return false;
    return true;
}

/* "2, 4-7" */
static void
put_alike (const struct rank_activity *activity, size_t first, struct strbuf *out)
{
    const char *separator = "";
    for (size_t i = first; i < activity->count; i++) {
        size_t last = i;
        if (!is_alike (activity, i, first))
            continue;
        while (last + 1 < activity->count && is_alike (activity, last + 1, first)
               && activity->ranks[last + 1].rank == activity->ranks[last].rank + 1)
            last++;
        strbuf_printf (out, last > i ? "%s%d-%d" : "%s%d", separator, activity->ranks[i].rank,
                       activity->ranks[last].rank);
        separator = ", ";
        i = last;
    }
}

void
rank_activity_put (const struct rank_activity *activity, const char *title, struct strbuf *out)
{
    int lines = 0;
    for (size_t i = 0; i < activity->count; i++) {
        if (!is_first (activity, i))
            continue;
        if (lines == 0)
            strbuf_printf (out, "  %s:\n", title);
        if (lines++ == MOST_LINES) {
            strbuf_add (out, "    ...\n");
            return;
        }
        strbuf_add (out, "    rank ");
        put_alike (activity, i, out);
        strbuf_printf (out, ": %s\n", activity->ranks[i].text);
    }
}

json_t *
rank_activity_json (const struct rank_activity *activity)
{
    json_t *ranks = json_array ();
    for (size_t i = 0; i < activity->count; i++)
        json_array_append_new (ranks, json_pack ("{si ss}", "rank", activity->ranks[i].rank, "doing",
                                                 activity->ranks[i].text));
    return ranks;
}

void
rank_activity_release (struct rank_activity *activity)
{
    free (activity->ranks);
    json_decref (activity->reports);
    *activity = (struct rank_activity){ 0 };
}
