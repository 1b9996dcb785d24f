/* SPDX-License-Identifier: Apache-2.0 */
/* Tracker mlflow: numbers of a run as metrics, its configuration as parameters, by MLflow's REST interface.  Variables
 * have the names and meanings that MLflow's own library and Accelerate give them. */
#include <config.h>

#include "lib/track/module.h"
#include "mlflow/unsent.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/text.h"

#include <accel/utility.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_PARAM = 6000,                               /* bytes of a parameter's value: MLflow's MAX_PARAM_VAL_LENGTH */
    FIRST_PAUSE_MS = 1000, LAST_PAUSE_MS = 60000,    /* between tries */
    SLOW_MS = 1000,                                  /* of a try */
};

struct mlflow {
    const struct tracker_helpers *helpers;
    struct mlflow_server server;
    struct mlflow_run run;
    struct strbuf lines; /* not sent yet, nor in the file */
    char *folder;        /* of files with what was not sent; NULL: it stays in memory */
    struct mlflow_unsent unsent;
    int64_t retry_ms, pause_ms; /* 0: the server answers */
    bool is_slow;        /* the last try took long */
    bool has_sent_former;
};

static int64_t
now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_REALTIME, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- start ---- */

/* @return a copy, NULL if it is unset or empty */
static char *
variable (const char *name)
{
    const char *text = getenv (name);
    return text && *text ? strdup (text) : NULL;
}

/* As by MLflow: a name and a password come before a token. */
static void
read_credentials (struct mlflow_server *server)
{
    AUTO_FREE char *user = variable ("MLFLOW_TRACKING_USERNAME"), *password = variable ("MLFLOW_TRACKING_PASSWORD");
    AUTO_STRBUF struct strbuf both = { 0 }, header = { 0 };
    if (user && password) {
        strbuf_printf (&both, "%s:%s", user, password);
        strbuf_add (&header, "Authorization: Basic ");
        base64_add (&header, both.text, both.length);
        server->header = strbuf_take (&header);
    } else
        server->token = variable ("MLFLOW_TRACKING_TOKEN");
}

/* MLFLOW_TAGS is an object of JSON; MLflow has lists of pairs. */
static enum accel_status
read_tags (struct mlflow *its, struct accel_error *err)
{
    AUTO_FREE char *text = variable ("MLFLOW_TAGS");
    AUTO_STRBUF struct strbuf tags = { 0 };
    json_t *json = text ? json_loads (text, 0, NULL) : NULL, *value;
    const char *key;
    if (text && !json_is_object (json)) {
        json_decref (json);
        return its->helpers->fail (err, ACCEL_ERR_INVALID, "environment: MLFLOW_TAGS is not a JSON object");
    }
    strbuf_add_char (&tags, '[');
    json_object_foreach (json, key, value) {
        AUTO_FREE char *other = json_is_string (value) ? NULL : json_dumps (value, JSON_ENCODE_ANY);
        strbuf_add (&tags, tags.length > 1 ? ",{\"key\":" : "{\"key\":");
        mlflow_add_string (&tags, key);
        strbuf_add (&tags, ",\"value\":");
        mlflow_add_string (&tags, other ? other : json_is_string (value) ? json_string_value (value) : "");
        strbuf_add_char (&tags, '}');
    }
    strbuf_add_char (&tags, ']');
    json_decref (json);
    its->run.tags = strbuf_take (&tags);
    return its->run.tags ? ACCEL_OK : its->helpers->fail (err, ACCEL_ERR_NOMEM, "out of memory");
}

static enum accel_status
start (void *user, const struct accel_tracker_run *run, struct accel_error *err)
{
    struct mlflow *its = user;
    struct fail fail;
    its->server.uri = variable ("MLFLOW_TRACKING_URI");
    const char *uri = its->server.uri ? its->server.uri : "";
    if (strncmp (uri, "http://", 7) != 0 && strncmp (uri, "https://", 8) != 0)
        return its->helpers->fail (err, ACCEL_ERR_INVALID,
                                   "environment: MLFLOW_TRACKING_URI must be the http:// or https:// URL of a server");
    for (size_t length = strlen (uri); length && uri[length - 1] == '/'; length--)
        its->server.uri[length - 1] = '\0';
    read_credentials (&its->server);
    its->run.experiment = variable ("MLFLOW_EXPERIMENT_NAME");
    if (!its->run.experiment)
        its->run.experiment = strdup (run->project_name);
    its->run.id = variable ("MLFLOW_RUN_ID");
    its->run.name = run->run_name ? strdup (run->run_name) : NULL;
    its->run.start_ms = now_ms ();
    its->folder = !run->logging_dir ? NULL
                  : run->run_name   ? text_printf ("%s/%s/%s", run->logging_dir, run->project_name, run->run_name)
                                    : text_printf ("%s/%s", run->logging_dir, run->project_name);
    if (!its->run.experiment || (run->logging_dir && !its->folder) || (run->run_name && !its->run.name))
        return its->helpers->fail (err, ACCEL_ERR_NOMEM, "out of memory");
    enum accel_status status = read_tags (its, err);
    if (!status && http_open (&its->server.http, &(struct http_options){ .stop_fd = -1 }, &fail))
        return its->helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "%.400s", fail.text);
    return status;
}

/* ---- lines ---- */

static void
add_number (struct strbuf *out, double number)
{
    char text[40];
    snprintf (text, sizeof text, "%.17g", number);
    text_use_point (text);
    strbuf_add (out, isfinite (number) ? text
                     : isnan (number)  ? "\"NaN\""
                     : number > 0      ? "\"Infinity\""
                                       : "\"-Infinity\"");
}

/* What was added is taken back if there was no memory for it. */
static enum accel_status
keep_lines (struct mlflow *its, size_t mark, struct accel_error *err)
{
    if (!its->lines.failed)
        return ACCEL_OK;
    its->lines.failed = false;
    if (its->lines.text)
        strbuf_truncate (&its->lines, mark);
    return its->helpers->fail (err, ACCEL_ERR_NOMEM, "out of memory");
}

static enum accel_status
store_config (void *user, const struct accel_value *values, size_t count, struct accel_error *err)
{
    struct mlflow *its = user;
    size_t mark = its->lines.length;
    for (size_t i = 0; i < count; i++) {
        char number[40];
        snprintf (number, sizeof number, "%.15g", values[i].number);
        text_use_point (number);
        const char *text = values[i].kind == ACCEL_TEXT ? values[i].text : number;
        if (values[i].kind > ACCEL_TEXT || strlen (text) > MOST_PARAM) {
            its->helpers->log (NULL, ACCEL_LOG_WARNING, "tracker mlflow: parameter '%.100s' is left out: %s",
                               values[i].key, values[i].kind > ACCEL_TEXT ? "it is neither a number nor a text"
                                                                           : "MLflow's limit is 6000 bytes");
            continue;
        }
        strbuf_add (&its->lines, "p{\"key\":");
        mlflow_add_string (&its->lines, values[i].key);
        strbuf_add (&its->lines, ",\"value\":");
        mlflow_add_string (&its->lines, text);
        strbuf_add (&its->lines, "}\n");
    }
    return keep_lines (its, mark, err);
}

static enum accel_status
log_metrics (void *user, const struct accel_value *values, size_t count, int64_t step, double time,
             struct accel_error *err)
{
    struct mlflow *its = user;
    size_t mark = its->lines.length;
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind != ACCEL_NUMBER) {
            its->helpers->log (NULL, ACCEL_LOG_WARNING | ACCEL_LOG_ONCE,
                               "tracker mlflow takes numbers only: '%.100s' is left out", values[i].key);
            continue;
        }
        strbuf_add (&its->lines, "m{\"key\":");
        mlflow_add_string (&its->lines, values[i].key);
        strbuf_add (&its->lines, ",\"value\":");
        add_number (&its->lines, values[i].number);
        strbuf_printf (&its->lines, ",\"timestamp\":%" PRId64 ",\"step\":%" PRId64 "}\n", (int64_t) (time * 1000),
                       step);
    }
    return keep_lines (its, mark, err);
}

/* ---- sending ---- */

static enum mlflow_answer
send_all (struct mlflow *its, struct fail *refused, struct fail *why)
{
    size_t sent = 0;
    enum mlflow_answer answer = MLFLOW_DONE;
    if (its->unsent.fd >= 0)
        answer = mlflow_unsent_send (&its->unsent, &its->server, &its->run, 0, refused, why);
    if (!answer)
        answer = mlflow_send (&its->server, &its->run, its->lines.text, its->lines.length, &sent, refused, why);
    strbuf_drop (&its->lines, sent);
    if (!answer && its->folder && !its->has_sent_former)
        its->has_sent_former = mlflow_unsent_send_former (its->folder, &its->server, refused, why) != MLFLOW_LATER;
    return answer;
}

/* @return 0, or -1 with @p why, and the lines stay in memory */
static int
move_to_file (struct mlflow *its, struct fail *why)
{
    if (its->lines.length && mlflow_unsent_add (&its->unsent, its->folder, &its->run, &its->lines, why))
        return -1;
    strbuf_drop (&its->lines, its->lines.length);
    return 0;
}

/* To the file, for later. */
static enum accel_status
put_aside (struct mlflow *its, const struct fail *why, struct accel_error *err)
{
    struct fail fail;
    bool first = !its->retry_ms;
    if (!its->folder)
        return its->helpers->fail (err, ACCEL_ERR_SYSTEM, "%.400s", why->text);
    if (move_to_file (its, &fail))
        return its->helpers->fail (err, ACCEL_ERR_SYSTEM, "%.200s; %.250s", why->text, fail.text);
    if (first)
        its->helpers->log (NULL, ACCEL_LOG_WARNING,
                           "tracker mlflow: %s; what is logged is kept in %s, and sent later, by this run or by the "
                           "next one in its folder", why->text, its->unsent.path ? its->unsent.path : its->folder);
    return ACCEL_OK;
}

static void
warn_of_refusal (const struct mlflow *its, const struct fail *refused)
{
    if (*refused->text)
        its->helpers->log (NULL, ACCEL_LOG_WARNING | ACCEL_LOG_ONCE, "tracker mlflow: some values are left out: %s",
                           refused->text);
}

/* The process may end while the server is silent: what could be lost then goes to the file first. */
static enum accel_status
try (struct mlflow *its, struct accel_error *err)
{
    struct fail why = { .text = "the server is away" }, refused = { 0 }, ignored;
    int64_t begin_ms = clock_ms ();
    if (its->folder && (!its->run.is_known || its->is_slow))
        move_to_file (its, &ignored);
    enum mlflow_answer answer = send_all (its, &refused, &why);
    its->is_slow = clock_ms () - begin_ms > SLOW_MS;
    warn_of_refusal (its, &refused);
    if (!answer) {
        its->retry_ms = 0;
        return ACCEL_OK;
    }
    enum accel_status status = put_aside (its, &why, err);
    its->pause_ms = !its->retry_ms                       ? FIRST_PAUSE_MS
                    : its->pause_ms < LAST_PAUSE_MS / 2 ? 2 * its->pause_ms
                                                        : LAST_PAUSE_MS;
    its->retry_ms = clock_ms () + its->pause_ms;
    return status;
}

static enum accel_status
flush (void *user, struct accel_error *err)
{
    struct mlflow *its = user;
    struct fail why = { .text = "the server is away" };
    return its->folder && its->retry_ms > clock_ms () ? put_aside (its, &why, err) : try (its, err);
}

/* ---- the end ---- */

/* @param is_kept  all is in the file */
static enum mlflow_answer
send_end (struct mlflow *its, int64_t end_ms, bool is_kept, struct fail *why)
{
    size_t sent;
    struct fail refused = { 0 };
    enum mlflow_answer answer
        = is_kept ? mlflow_unsent_send (&its->unsent, &its->server, &its->run, end_ms, &refused, why)
                  : mlflow_send (&its->server, &its->run, its->lines.text, its->lines.length, &sent, &refused, why);
    if (!answer && !is_kept && mlflow_end (&its->server, &its->run, "FINISHED", end_ms, why) == MLFLOW_LATER)
        answer = MLFLOW_LATER;
    warn_of_refusal (its, &refused);
    if (!answer && its->folder && !its->has_sent_former)
        mlflow_unsent_send_former (its->folder, &its->server, &refused, why);
    return answer;
}

/* The end is in the file before the server is asked, or the next run would take this one for killed: the process may
 * not wait as long as the server is silent. */
static void
end_run (struct mlflow *its)
{
    struct fail why;
    int64_t end_ms = now_ms ();
    size_t mark = its->lines.length;
    struct accel_error ignored;
    strbuf_printf (&its->lines, "e%" PRId64 "\n", end_ms);
    bool is_kept = !keep_lines (its, mark, &ignored) && its->folder && !move_to_file (its, &why);
    bool has_just_failed = its->retry_ms && clock_ms () - (its->retry_ms - its->pause_ms) < MLFLOW_TOTAL_MS;
    if (!has_just_failed && send_end (its, end_ms, is_kept, &why) == MLFLOW_DONE)
        return;
    if (!is_kept)
        its->helpers->log (NULL, ACCEL_LOG_WARNING, "tracker mlflow: the end of the run is not sent, and is lost");
    else if (!its->retry_ms) /* else the warning was given */
        its->helpers->log (NULL, ACCEL_LOG_WARNING,
                           "tracker mlflow: %s; %s is what was not sent; the next run in this folder sends it",
                           why.text, its->unsent.path);
}

static void
finish (void *user)
{
    struct mlflow *its = user;
    if (its->server.http)
        end_run (its);
    http_close (its->server.http);
    mlflow_unsent_close (&its->unsent);
    mlflow_run_release (&its->run);
    strbuf_release (&its->lines);
    free (its->server.uri);
    free (its->server.token);
    free (its->server.header);
    free (its->folder);
    free (its);
}

static enum accel_status
create (const struct tracker_helpers *helpers, struct accel_tracker_calls *calls, struct accel_error *err)
{
    struct mlflow *its = calloc (1, sizeof *its);
    if (!its)
        return helpers->fail (err, ACCEL_ERR_NOMEM, "out of memory");
    its->helpers = helpers;
    its->unsent.fd = -1;
    calls->user = its;
    calls->start = start;
    calls->store_init_configuration = store_config;
    calls->log = log_metrics;
    calls->flush = flush;
    calls->finish = finish;
    return ACCEL_OK;
}

extern const struct tracker_module accel_tracker_module;
__attribute__ ((__visibility__ ("default"))) const struct tracker_module accel_tracker_module
    = { .release = PACKAGE_VERSION, .calls_size = sizeof (struct accel_tracker_calls), .create = create };
