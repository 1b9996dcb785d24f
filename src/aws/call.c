/* SPDX-License-Identifier: Apache-2.0 */
/* Calls with the credentials that were found. */
#include <config.h>

#include "aws/call.h"

#include "aws/chain.h"
#include "aws/endpoint.h"
#include "util/cleanup.h"

#include <jansson.h>
#include <poll.h>
#include <string.h>

/* Whether the caller wants an end, also while credentials are looked for. */
static bool
is_stopped (const struct aws *aws)
{
    struct pollfd stop = { .fd = aws->options.stop_fd, .events = POLLIN };
    return stop.fd >= 0 && poll (&stop, 1, 0) > 0;
}

int
call_send (struct aws *aws, const struct request *request, struct http_response *response, struct aws_error *error,
           struct fail *fail)
{
    for (bool is_second = false;; is_second = true) {
        *error = (struct aws_error) { .trouble = HTTP_OTHER };
        if (chain_find (aws, fail)) {
            error->trouble = is_stopped (aws) ? HTTP_STOPPED : HTTP_OTHER;
            return -1;
        }
        if (!request_send (aws, &aws->keys, aws->source.text, request, response, error, fail))
            return 0;
        if (is_second || !answer_is_expired (error) || !chain_forget (aws))
            return -1;
        http_response_release (response);
    }
}

/* What only reads, and what leads to the same state however often it is done. */
static bool
is_repeatable (const char *action)
{
    static const char *const words[] = { "Describe", "Get", "List", "Filter", "Stop", "Put" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncmp (action, words[i], strlen (words[i])))
            return true;
    return false;
}

/* POST to "/". */
static int
post (struct aws *aws, struct request *request, struct http_response *response, struct aws_error *error,
      struct fail *fail)
{
    AUTO_STRBUF struct strbuf url = { 0 };
    if (aws_endpoint (aws, request->service, &url, fail))
        return -1;
    strbuf_add_char (&url, '/');
    if (url.failed)
        return fail_nomem (fail);
    request->http.url = url.text;
    request->http.is_repeatable = is_repeatable (request->action);
    return call_send (aws, request, response, error, fail);
}

static int
read_reply (const struct request *request, const struct http_response *response, json_t **reply, struct fail *fail)
{
    char what[160];
    snprintf (what, sizeof what, "%s %s: the answer", endpoint_name (request->service), request->action);
    if (response->body.length)
        *reply = keys_parse (response->body.text, response->body.length, what, fail);
    else if (!(*reply = json_object ()))
        fail_nomem (fail);
    return *reply ? 0 : -1;
}

int
aws_json_call (struct aws *aws, enum aws_service service, const char *action, const json_t *body, json_t **reply,
               struct aws_error *error, struct fail *fail)
{
    struct aws_error ignored;
    struct http_response response = { 0 };
    json_t *answer = NULL;
    char target[128];
    const char *headers[] = { "Content-Type: application/x-amz-json-1.1", target };
    AUTO_FREE char *text = json_dumps (body, JSON_COMPACT);
    if (reply)
        *reply = NULL;
    if (!text)
        return fail_nomem (fail);
    snprintf (target, sizeof target, "X-Amz-Target: %s.%s", service == AWS_LOGS ? "Logs_20140328" : "SageMaker",
              action);
    struct request request = { .service = service, .action = action,
                               .http = { .headers = headers, .header_count = 2, .body = text,
                                         .body_length = strlen (text) } };
    int result = post (aws, &request, &response, error ? error : &ignored, fail)
                         || read_reply (&request, &response, &answer, fail)
                     ? -1
                     : 0;
    http_response_release (&response);
    if (reply)
        *reply = answer;
    else
        json_decref (answer);
    return result;
}

int
aws_query_call (struct aws *aws, enum aws_service service, const char *action, const char *const (*parameters)[2],
                size_t count, struct aws_xml **reply, struct aws_error *error, struct fail *fail)
{
    static const char *const headers[] = { "Content-Type: application/x-www-form-urlencoded; charset=utf-8" };
    struct aws_error ignored;
    struct http_response response = { 0 };
    struct aws_xml *answer = NULL;
    AUTO_STRBUF struct strbuf body = { 0 };
    if (reply)
        *reply = NULL;
    if (request_query_body (&body, service, action, parameters, count, fail))
        return -1;
    struct request request = { .service = service, .action = action,
                               .http = { .headers = headers, .header_count = 1, .body = body.text,
                                         .body_length = body.length } };
    int result = post (aws, &request, &response, error ? error : &ignored, fail)
                         || request_query_reply (&response, service, action, &answer, fail)
                     ? -1
                     : 0;
    http_response_release (&response);
    if (reply)
        *reply = answer;
    else
        aws_xml_free (answer);
    return result;
}

int
aws_identity (struct aws *aws, const char **account, const char **arn, struct fail *fail)
{
    struct aws_xml *xml = NULL;
    if (!aws->account) {
        if (aws_query_call (aws, AWS_STS, "GetCallerIdentity", NULL, 0, &xml, NULL, fail))
            return -1;
        const char *number = aws_xml_get (xml, "GetCallerIdentityResult/Account");
        const char *name = aws_xml_get (xml, "GetCallerIdentityResult/Arn");
        bool is_valid = number && name && strlen (number) == 12 && strspn (number, "0123456789") == 12;
        if (is_valid) { /* both or none */
            aws->arn = strdup (name);
            aws->account = aws->arn ? strdup (number) : NULL;
        }
        if (!aws->account) {
            free (aws->arn);
            aws->arn = NULL;
        }
        aws_xml_free (xml);
        if (!is_valid)
            return fail_set (fail, FAIL_GENERAL, "sts GetCallerIdentity: the answer has no account of 12 digits");
        if (!aws->account)
            return fail_nomem (fail);
    }
    *account = aws->account;
    if (arn)
        *arn = aws->arn;
    return 0;
}
