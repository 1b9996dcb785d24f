/* SPDX-License-Identifier: Apache-2.0 */
/* Following CloudWatch's streams of a job; see streams.h. */
#include <config.h>

#include "sagemaker/streams.h"

#include "util/array.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define GROUP "/aws/sagemaker/TrainingJobs"

enum { PAGE = 50, MOST_PAGES = 1000, /* streams of an answer; answers of a stream in a row without its end */
       TIME_DIGITS = 8 };            /* at least, at the end of a stream's name */

struct stream {
    char *name;    /* "JOB/algo-1-1700000000" */
    char *machine; /* "algo-1" */
    char *token;   /* where the next line is; NULL: at the beginning */
};

struct line {
    const char *text;
    const char *machine;
    int64_t time;
    size_t place; /* lines of one time stay in order */
};

static bool
has_stream (const struct streams *streams, const char *name)
{
    for (size_t i = 0; i < streams->count; i++)
        if (!strcmp (streams->items[i].name, name))
            return true;
    return false;
}

static int
add_stream (struct streams *streams, const char *name, struct fail *fail)
{
    struct stream *stream = array_room (&streams->items, streams->count, sizeof *stream);
    if (!stream)
        return fail_nomem (fail);
    streams->count++;
    const char *slash = strrchr (name, '/');
    const char *machine = slash ? slash + 1 : name, *dash = strrchr (machine, '-');
    bool has_time = dash && strlen (dash) > TIME_DIGITS;
    *stream = (struct stream){ .name = strdup (name) };
    stream->machine = strndup (machine, has_time ? (size_t) (dash - machine) : strlen (machine));
    return stream->name && stream->machine ? 0 : fail_nomem (fail);
}

/* Whether the logs are still missing: the job has printed nothing. */
static bool
is_absent (const struct aws_error *error)
{
    return aws_error_is (error, "ResourceNotFoundException");
}

/* Without its token, a request would begin again. (json_pack() leaves out an optional text that it has no memory for.)
 * @param request  the result owns it  @return it; NULL: there is no memory */
static json_t *
with_token (json_t *request, const char *token)
{
    if (!token || !json_object_set_new (request, "nextToken", json_string (token)))
        return request;
    json_decref (request);
    return NULL;
}

/* Streams appear when a machine prints for the first time. */
static int
find_streams (struct streams *streams, struct session *session, struct aws_error *error, struct fail *fail)
{
    AUTO_STRBUF struct strbuf prefix = { 0 };
    AUTO_FREE char *token = NULL;
    strbuf_printf (&prefix, "%s/", session->training->name);
    for (int pages = 0; !pages || (token && pages < MOST_PAGES); pages++) {
        json_t *reply = NULL, *item, *request = json_pack ("{s:s, s:s, s:s, s:i}", "logGroupName", GROUP,
                                                    "logStreamNamePrefix", prefix.failed ? "" : prefix.text, "orderBy",
                                                    "LogStreamName", "limit", (int) PAGE);
        size_t i;
        request = with_token (request, token);
        int result = request && !prefix.failed ? 0 : fail_nomem (fail);
        if (!result)
            result = aws_json_call (session->aws, AWS_LOGS, "DescribeLogStreams", request, &reply, error, fail);
        json_decref (request);
        json_array_foreach (json_object_get (reply, "logStreams"), i, item) {
            const char *name = json_string_value (json_object_get (item, "logStreamName"));
            if (!result && name && !has_stream (streams, name))
                result = add_stream (streams, name, fail);
        }
        const char *next = json_string_value (json_object_get (reply, "nextToken"));
        free (token);
        token = next ? strdup (next) : NULL;
        if (next && !token)
            result = fail_nomem (fail);
        json_decref (reply);
        if (result)
            return is_absent (error) ? 0 : -1;
    }
    return 0;
}

/* One answer's lines. @param[out] is_end  there are no more at the moment */
static int
read_page (struct stream *stream, struct session *session, json_t **page, bool *is_end, struct aws_error *error,
           struct fail *fail)
{
    json_t *request = json_pack ("{s:s, s:s, s:b}", "logGroupName", GROUP, "logStreamName", stream->name,
                                 "startFromHead", 1);
    request = with_token (request, stream->token);
    int result = request ? aws_json_call (session->aws, AWS_LOGS, "GetLogEvents", request, page, error, fail)
                         : fail_nomem (fail);
    json_decref (request);
    if (result) {
        *is_end = true;
        return is_absent (error) ? 0 : -1;
    }
    const char *next = json_string_value (json_object_get (*page, "nextForwardToken"));
    *is_end = !next || (stream->token && !strcmp (next, stream->token));
    if (*is_end && next)
        json_object_del (*page, "events"); /* there are none after the same token */
    char *token = next && !*is_end ? strdup (next) : NULL;
    if (token) {
        free (stream->token);
        stream->token = token;
    }
    return token || *is_end ? 0 : fail_nomem (fail);
}

static int
by_time (const void *first, const void *second)
{
    const struct line *a = first, *b = second;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

static void
print_lines (const struct streams *streams, const struct line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen (lines[i].text);
        if (streams->machines > 1)
            printf ("[%s] ", lines[i].machine);
        fwrite (lines[i].text, 1, length, stdout);
        if (!length || lines[i].text[length - 1] != '\n')
            putchar ('\n');
    }
    fflush (stdout);
}

/* The lines of one page of each stream, in order. @param pages  [streams->count], NULL if there is none */
static int
print_pages (const struct streams *streams, json_t *const *pages, struct fail *fail)
{
    size_t count = 0, total = 0;
    for (size_t i = 0; i < streams->count; i++)
        total += json_array_size (json_object_get (pages[i], "events"));
    if (!total)
        return 0;
    AUTO_FREE struct line *lines = calloc (total, sizeof *lines);
    if (!lines)
        return fail_nomem (fail);
    for (size_t i = 0; i < streams->count; i++) {
        json_t *event, *events = json_object_get (pages[i], "events");
        size_t j;
        json_array_foreach (events, j, event) {
            const char *text = json_string_value (json_object_get (event, "message"));
            int64_t time = json_integer_value (json_object_get (event, "timestamp"));
            lines[count] = (struct line){ .text = text ? text : "", .machine = streams->items[i].machine,
                                          .place = count, .time = time };
            count++;
        }
    }
    qsort (lines, count, sizeof *lines, by_time);
    print_lines (streams, lines, count);
    return 0;
}

static int
read_all (struct streams *streams, struct session *session, struct aws_error *error, struct fail *fail)
{
    AUTO_FREE json_t **pages = calloc (streams->count, sizeof *pages);
    AUTO_FREE bool *are_read = calloc (streams->count, sizeof *are_read);
    bool is_end = false;
    int result = pages && are_read ? 0 : fail_nomem (fail);
    for (int round = 0; !result && !is_end && round < MOST_PAGES; round++) {
        is_end = true;
        for (size_t i = 0; i < streams->count && !result; i++) {
            if (!are_read[i])
                result = read_page (&streams->items[i], session, &pages[i], &are_read[i], error, fail);
            is_end = is_end && are_read[i];
        }
        int printed = print_pages (streams, pages, fail); /* also the lines before a failure */
        result = result ? result : printed;
        for (size_t i = 0; i < streams->count; i++) {
            json_decref (pages[i]);
            pages[i] = NULL;
        }
    }
    return result;
}

int
streams_read (struct streams *streams, struct session *session, struct aws_error *error, struct fail *fail)
{
    int result = 0;
    if (streams->are_forbidden)
        return 0;
    if (streams->count < streams->machines)
        result = find_streams (streams, session, error, fail);
    if (!result && streams->count)
        result = read_all (streams, session, error, fail);
    if (result && (aws_error_is (error, "AccessDeniedException") || aws_error_is (error, "AccessDenied"))) {
        session_say (session, "note: what the job prints is not shown: %s", fail->text);
        streams->are_forbidden = true;
        return 0;
    }
    return result;
}

void
streams_release (struct streams *streams)
{
    for (size_t i = 0; i < streams->count; i++) {
        free (streams->items[i].name);
        free (streams->items[i].machine);
        free (streams->items[i].token);
    }
    free (streams->items);
    *streams = (struct streams){ 0 };
}
