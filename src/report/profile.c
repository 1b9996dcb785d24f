/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a profile; see profile.h.  Each event has a line of its own, so neither a large file nor one that was cut off
 * is a difficulty. */
#include <config.h>

#include "report/profile.h"

#include "report/lines.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool
profile_is_data (const char *name)
{
    static const char *const words[] = { "data", "batch", "load", "fetch", "input" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr (name, words[i]))
            return true;
    return false;
}

/* @return NULL without memory */
static struct profile_rank *
find_rank (struct profile *profile, size_t rank)
{
    if (rank >= profile->count) {
        struct profile_rank *more = reallocarray (profile->ranks, rank + 1, sizeof *more);
        if (!more)
            return NULL;
        memset (more + profile->count, 0, (rank + 1 - profile->count) * sizeof *more);
        profile->ranks = more;
        profile->count = rank + 1;
    }
    return &profile->ranks[rank];
}

static int
add_call (struct profile *profile, const char *name, const char *at, double time)
{
    for (size_t tried = 0; tried < profile->call_count; tried++) {
        size_t place = (profile->hint + tried) % profile->call_count;
        struct profile_call *call = &profile->calls[place];
        if (strcmp (call->at, at) != 0 || strcmp (call->name, name) != 0)
            continue;
        call->count++;
        call->time += time;
        call->longest = time > call->longest ? time : call->longest;
        profile->hint = place + 1;
        return 0;
    }
    if (profile->call_count == PROFILE_CALLS)
        return 0;
    struct profile_call *more = reallocarray (profile->calls, profile->call_count + 1, sizeof *more);
    if (!more)
        return -1;
    profile->calls = more;
    struct profile_call *made = &more[profile->call_count++];
    *made = (struct profile_call){ strdup (name), strdup (at), 1, time, time };
    return made->name && made->at ? 0 : -1;
}

static int
add_wait (struct profile *profile, size_t rank, const char *name, double time)
{
    static const char words[] = "wait for rank ";
    char *end;
    profile->ranks[rank].wait += time;
    if (strncmp (name, words, sizeof words - 1) != 0)
        return 0;
    unsigned long late = strtoul (name + sizeof words - 1, &end, 10);
    if (*end || late >= PROFILE_RANKS)
        return 0;
    struct profile_rank *found = find_rank (profile, late);
    if (found)
        found->blamed += time;
    return found ? 0 : -1;
}

/* Events come in the order of their ends, so what is inside one comes before it.
 * @param[out] inside  the time of those that it has inside */
static int
add_part (struct profile_rank *rank, double begin, double time, double *inside)
{
    *inside = 0;
    while (rank->part_count && rank->parts[rank->part_count - 1].begin >= begin)
        *inside += rank->parts[--rank->part_count].time;
    if (!(rank->part_count & (rank->part_count - 1))) { /* it doubles */
        size_t room = rank->part_count ? 2 * rank->part_count : 1;
        struct profile_interval *more = reallocarray (rank->parts, room, sizeof *more);
        if (!more)
            return -1;
        rank->parts = more;
    }
    rank->parts[rank->part_count++] = (struct profile_interval){ begin, time };
    return 0;
}

static int
add_event (struct profile *profile, size_t rank, const json_t *event)
{
    const char *name = json_string_value (json_object_get (event, "name"));
    const char *kind = json_string_value (json_object_get (event, "cat"));
    const char *at = json_string_value (json_object_get (json_object_get (event, "args"), "at"));
    double begin = json_number_value (json_object_get (event, "ts"));
    double time = json_number_value (json_object_get (event, "dur")), inside;
    struct profile_rank *its = find_rank (profile, rank);
    if (!its)
        return -1;
    its->begin = its->is_there && its->begin < begin ? its->begin : begin;
    its->end = its->is_there && its->end > begin + time ? its->end : begin + time;
    its->is_there = true;
    if (!kind || !name)
        return 0;
    if (!strcmp (kind, "step"))
        its->steps++;
    else if (!strcmp (kind, "span") && profile_is_data (name)) {
        if (add_part (its, begin, time, &inside))
            return -1;
        its->data += time > inside ? time - inside : 0;
    } else if (!strcmp (kind, "wait"))
        return add_wait (profile, rank, name, time);
    else if (!strcmp (kind, "collective")) {
        its->collective += time;
        return add_part (its, begin, time, &inside) ? -1 : add_call (profile, name, at ? at : "", time);
    }
    return 0;
}

/* A wait lies in its collective.  Collectives of threads may overlap with the rest. */
static void
finish_rank (struct profile_rank *rank)
{
    rank->total = rank->end - rank->begin;
    rank->wait = rank->wait < rank->collective ? rank->wait : rank->collective;
    rank->collective -= rank->wait;
    rank->compute = rank->total - rank->data - rank->collective - rank->wait;
    if (rank->compute < 0) {
        rank->data = rank->data + rank->compute > 0 ? rank->data + rank->compute : 0;
        rank->compute = 0;
    }
}

static int
compare_calls (const void *a, const void *b)
{
    const struct profile_call *left = a, *right = b;
    int order = (left->time < right->time) - (left->time > right->time);
    order = order ? order : strcmp (left->at, right->at);
    return order ? order : strcmp (left->name, right->name);
}

/* The bracket of the array is on lines of its own; a comma is at the end of a line. */
static size_t
trim_line (const char *line, size_t length)
{
    while (length && strchr (" \t\r,", line[length - 1]))
        length--;
    return length == 1 && (*line == '[' || *line == ']') ? 0 : length;
}

int
profile_read (struct profile *profile, const char *path, struct fail *fail)
{
    struct lines lines;
    char *line;
    size_t length;
    int got;
    *profile = (struct profile){ 0 };
    if (lines_open (&lines, path, fail))
        return -1;
    while ((got = lines_next (&lines, &line, &length, fail)) > 0) {
        if (!(length = trim_line (line, length)))
            continue;
        json_t *event = json_loadb (line, length, 0, NULL);
        const char *phase = json_string_value (json_object_get (event, "ph"));
        json_int_t rank = json_integer_value (json_object_get (event, "pid"));
        if (!phase || rank < 0 || rank >= PROFILE_RANKS)
            profile->skipped++;
        else if (!strcmp (phase, "X") && add_event (profile, (size_t) rank, event))
            got = fail_nomem (fail);
        json_decref (event);
        if (got < 0)
            break;
    }
    lines_close (&lines);
    for (size_t i = 0; i < profile->count; i++)
        finish_rank (&profile->ranks[i]);
    if (profile->call_count)
        qsort (profile->calls, profile->call_count, sizeof *profile->calls, compare_calls);
    return got;
}

void
profile_release (struct profile *profile)
{
    for (size_t i = 0; i < profile->call_count; i++) {
        free (profile->calls[i].name);
        free (profile->calls[i].at);
    }
    free (profile->calls);
    for (size_t i = 0; i < profile->count; i++)
        free (profile->ranks[i].parts);
    free (profile->ranks);
    *profile = (struct profile){ 0 };
}
