/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to MLflow's REST interface, version 2.0; see requests.h. */
#include <config.h>

#include "mlflow/requests.h"

#include "util/cleanup.h"
#include "util/text.h"
#include "util/utf8.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_METRICS = 1000, MOST_PARAMS = 100, MOST_ITEMS = 1000 /* of one request */ };

void
mlflow_add_string (struct strbuf *out, const char *text)
{
    if (utf8_is_valid (text, strlen (text)))
        quote_utf8 (out, text);
    else
        quote_ascii (out, text);
}

void
mlflow_run_release (struct mlflow_run *run)
{
    free (run->experiment);
    free (run->name);
    free (run->tags);
    free (run->id);
    *run = (struct mlflow_run){ 0 };
}

/* What the server says of an error: {"error_code": ..., "message": ...}. */
static int
set_refusal (struct fail *why, const struct http_response *response)
{
    struct fail ignored;
    AUTO_STRBUF struct strbuf url = { 0 };
    json_t *json = http_json (response, &ignored);
    const char *message = json_string_value (json_object_get (json, "message"));
    http_show_url (&url, response->url ? response->url : "");
    fail_set (why, FAIL_GENERAL, "%.200s answered %d%s%.300s", url.text ? url.text : "the server", response->status,
              message ? ": " : "", message ? message : "");
    json_decref (json);
    return -1;
}

/* @param body  NULL: GET  @param[out] response  released by the caller */
static enum mlflow_answer
call (const struct mlflow_server *server, const char *path, const struct strbuf *body, struct http_response *response,
      struct fail *why)
{
    AUTO_FREE char *url = text_printf ("%s/api/2.0/mlflow/%s", server->uri, path);
    const char *headers[] = { "Content-Type: application/json", server->header };
    struct http_request request = {
        .url = url, .headers = headers, .header_count = server->header ? 2 : 1, .bearer = server->token,
        .body = body ? body->text : NULL, .body_length = body ? body->length : 0, .attempts = 1,
        .connect_ms = MLFLOW_CONNECT_MS, .total_ms = MLFLOW_TOTAL_MS,
    };
    if (!url || (body && body->failed))
        return fail_nomem (why), MLFLOW_LATER;
    if (http_perform (server->http, &request, response, 1, why))
        return MLFLOW_LATER;
    if (response->status == 200)
        return MLFLOW_DONE;
    set_refusal (why, response);
    bool later = response->status >= 500 || response->status == 401 || response->status == 403
                 || response->status == 408 || response->status == 429;
    return later ? MLFLOW_LATER : MLFLOW_REFUSED;
}

/* The same, for a text of the answer: "run.info.run_id".  @param[out] text  the caller's; NULL: none is expected */
static enum mlflow_answer
ask (const struct mlflow_server *server, const char *path, const struct strbuf *body, const char *const *keys,
     char **text, struct fail *why)
{
    struct http_response response = { 0 };
    enum mlflow_answer answer = call (server, path, body, &response, why);
    json_t *json = !answer && text ? http_json (&response, why) : NULL, *at = json;
    for (; at && keys && *keys; keys++)
        at = json_object_get (at, *keys);
    if (!answer && text) {
        *text = json_string_value (at) ? strdup (json_string_value (at)) : NULL;
        if (!*text) {
            fail_set (why, FAIL_GENERAL, "%.200s: an answer that is not MLflow's", path);
            answer = MLFLOW_LATER;
        }
    }
    json_decref (json);
    http_response_release (&response);
    return answer;
}

static enum mlflow_answer
find_experiment (const struct mlflow_server *server, const char *name, char **id, struct fail *why)
{
    AUTO_STRBUF struct strbuf path = { 0 }, body = { 0 };
    strbuf_add (&path, "experiments/get-by-name?experiment_name=");
    http_encode (&path, name, false);
    if (path.failed)
        return fail_nomem (why), MLFLOW_LATER;
    enum mlflow_answer answer
        = ask (server, path.text, NULL, (const char *const[]){ "experiment", "experiment_id", NULL }, id, why);
    if (answer != MLFLOW_REFUSED)
        return answer;
    strbuf_add (&body, "{\"name\":");
    mlflow_add_string (&body, name);
    strbuf_add (&body, "}");
    return ask (server, "experiments/create", &body, (const char *const[]){ "experiment_id", NULL }, id, why);
}

static enum mlflow_answer
create_run (const struct mlflow_server *server, struct mlflow_run *run, struct fail *why)
{
    AUTO_STRBUF struct strbuf body = { 0 };
    AUTO_FREE char *experiment = NULL;
    enum mlflow_answer answer = find_experiment (server, run->experiment, &experiment, why);
    if (answer)
        return answer;
    strbuf_add (&body, "{\"experiment_id\":");
    mlflow_add_string (&body, experiment);
    strbuf_printf (&body, ",\"start_time\":%" PRId64, run->start_ms);
    if (run->name) {
        strbuf_add (&body, ",\"run_name\":");
        mlflow_add_string (&body, run->name);
    }
    strbuf_printf (&body, ",\"tags\":%s}", run->tags);
    return ask (server, "runs/create", &body, (const char *const[]){ "run", "info", "run_id", NULL }, &run->id, why);
}

static enum mlflow_answer
update_run (const struct mlflow_server *server, const struct mlflow_run *run, const char *status, int64_t end_ms,
            struct fail *why)
{
    AUTO_STRBUF struct strbuf body = { 0 };
    strbuf_add (&body, "{\"run_id\":");
    mlflow_add_string (&body, run->id);
    strbuf_printf (&body, ",\"status\":\"%s\"", status);
    if (end_ms)
        strbuf_printf (&body, ",\"end_time\":%" PRId64, end_ms);
    strbuf_add (&body, "}");
    return ask (server, "runs/update", &body, NULL, NULL, why);
}

enum mlflow_answer
mlflow_begin (const struct mlflow_server *server, struct mlflow_run *run, struct fail *why)
{
    enum mlflow_answer answer = MLFLOW_DONE;
    if (!run->is_known)
        answer = run->id ? update_run (server, run, "RUNNING", 0, why) : create_run (server, run, why);
    run->is_known = !answer;
    return answer;
}

enum mlflow_answer
mlflow_end (const struct mlflow_server *server, const struct mlflow_run *run, const char *status, int64_t end_ms,
            struct fail *why)
{
    return update_run (server, run, status, end_ms, why);
}

struct batch {
    struct strbuf metrics, params; /* their JSON, separated by commas */
    size_t metric_count, param_count;
};

static void
add_item (struct strbuf *items, size_t *count, const char *json, size_t length)
{
    if ((*count)++)
        strbuf_add_char (items, ',');
    strbuf_add_bytes (items, json, length);
}

/* @return how many bytes of the lines are in the batch */
static size_t
fill (struct batch *batch, const char *lines, size_t length)
{
    size_t at = 0;
    while (at < length) {
        const char *end = memchr (lines + at, '\n', length - at);
        size_t whole = end ? (size_t) (end - lines) - at : 0;
        if (!end)
            return length; /* half a line, of a process that was killed */
        if (batch->metric_count + batch->param_count == MOST_ITEMS)
            break;
        if (lines[at] == 'm' && batch->metric_count < MOST_METRICS)
            add_item (&batch->metrics, &batch->metric_count, lines + at + 1, whole - 1);
        else if (lines[at] == 'p' && batch->param_count < MOST_PARAMS)
            add_item (&batch->params, &batch->param_count, lines + at + 1, whole - 1);
        else if (lines[at] == 'm' || lines[at] == 'p')
            break;
        at += whole + 1;
    }
    return at;
}

static enum mlflow_answer
send_batch (const struct mlflow_server *server, const struct mlflow_run *run, const struct batch *batch,
            struct fail *why)
{
    AUTO_STRBUF struct strbuf body = { 0 };
    if (!batch->metric_count && !batch->param_count)
        return MLFLOW_DONE;
    strbuf_add (&body, "{\"run_id\":");
    mlflow_add_string (&body, run->id);
    strbuf_printf (&body, ",\"metrics\":[%s],\"params\":[%s]}", batch->metrics.text ? batch->metrics.text : "",
                   batch->params.text ? batch->params.text : "");
    body.failed = body.failed || batch->metrics.failed || batch->params.failed;
    return ask (server, "runs/log-batch", &body, NULL, NULL, why);
}

enum mlflow_answer
mlflow_send (const struct mlflow_server *server, struct mlflow_run *run, const char *lines, size_t length, size_t *sent,
             struct fail *refused, struct fail *why)
{
    *sent = 0;
    enum mlflow_answer answer = mlflow_begin (server, run, why);
    while (!answer && *sent < length) {
        struct batch batch = { 0 };
        size_t bytes = fill (&batch, lines + *sent, length - *sent);
        answer = send_batch (server, run, &batch, why);
        if (answer == MLFLOW_REFUSED) { /* the rest may be better */
            *refused = *why;
            answer = MLFLOW_DONE;
        }
        if (!answer)
            *sent += bytes;
        strbuf_release (&batch.metrics);
        strbuf_release (&batch.params);
    }
    return answer;
}
