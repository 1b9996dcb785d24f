/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of all hosts together; see doing.h. */
#include <config.h>

#include "hosts/doing.h"

#include "util/array.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 16 };

static void
insert (struct doing *doing, int rank, const char *text)
{
    if (!array_room (&doing->ranks, doing->count, sizeof *doing->ranks))
        return;
    size_t place = doing->count++;
    for (; place > 0 && doing->ranks[place - 1].rank > rank; place--)
        doing->ranks[place] = doing->ranks[place - 1];
    doing->ranks[place] = (struct doing_rank){ .rank = rank, .text = text };
}

void
doing_add (struct doing *doing, const char *json, bool gave_up)
{
    static const char words[] = "gave up: ";
    size_t index;
    json_t *report = json ? json_loads (json, 0, NULL) : NULL, *item;
    if (!report)
        return;
    doing->reports = doing->reports ? doing->reports : json_array ();
    if (json_array_append_new (doing->reports, report))
        return;
    doing->killed += json_integer_value (json_object_get (report, "killed"));
    json_array_foreach (json_object_get (report, "ranks"), index, item) {
        const json_t *rank = json_object_get (item, "rank");
        const char *text = json_string_value (json_object_get (item, "doing"));
        if (json_is_integer (rank) && text && (gave_up || strncmp (text, words, sizeof words - 1) != 0))
            insert (doing, (int) json_integer_value (rank), text);
    }
}

static bool
is_alike (const struct doing *doing, size_t a, size_t b)
{
    return !strcmp (doing->ranks[a].text, doing->ranks[b].text);
}

static bool
is_first (const struct doing *doing, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (is_alike (doing, i, index))
            return false;
    return true;
}

/* "2, 4-7" */
static void
put_alike (const struct doing *doing, size_t first, struct strbuf *out)
{
    const char *separator = "";
    for (size_t i = first; i < doing->count; i++) {
        size_t last = i;
        if (!is_alike (doing, i, first))
            continue;
        while (last + 1 < doing->count && is_alike (doing, last + 1, first)
               && doing->ranks[last + 1].rank == doing->ranks[last].rank + 1)
            last++;
        strbuf_printf (out, last > i ? "%s%d-%d" : "%s%d", separator, doing->ranks[i].rank, doing->ranks[last].rank);
        separator = ", ";
        i = last;
    }
}

void
doing_put (const struct doing *doing, const char *title, struct strbuf *out)
{
    int lines = 0;
    for (size_t i = 0; i < doing->count; i++) {
        if (!is_first (doing, i))
            continue;
        if (lines == 0)
            strbuf_printf (out, "  %s:\n", title);
        if (lines++ == MOST_LINES) {
            strbuf_add (out, "    ...\n");
            return;
        }
        strbuf_add (out, "    rank ");
        put_alike (doing, i, out);
        strbuf_printf (out, ": %s\n", doing->ranks[i].text);
    }
}

json_t *
doing_json (const struct doing *doing)
{
    json_t *ranks = json_array ();
    for (size_t i = 0; i < doing->count; i++)
        json_array_append_new (ranks, json_pack ("{si ss}", "rank", doing->ranks[i].rank, "doing",
                                                 doing->ranks[i].text));
    return ranks;
}

void
doing_release (struct doing *doing)
{
    free (doing->ranks);
    json_decref (doing->reports);
    *doing = (struct doing){ 0 };
}
