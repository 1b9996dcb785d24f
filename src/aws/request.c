/* SPDX-License-Identifier: Apache-2.0 */
/* Requests; see request.h. */
#include <config.h>

#include "aws/request.h"

#include "aws/endpoint.h"
#include "aws/xml.h"
#include "util/cleanup.h"

#include <string.h>

/* Hosts of Amazon do, except those for all regions; hosts that replace them do not. */
static bool
host_has (const char *url, const char *region)
{
    char label[80];
    const char *host = strstr (url, "://");
    if (!host || !region)
        return false;
    host += strlen ("://");
    snprintf (label, sizeof label, ".%s.", region);
    const char *found = strstr (host, label);
    return found && found < host + strcspn (host, "/");
}

/* There is no answer. */
static int
no_answer (const struct answer_call *call, const char *url, const char *region, const struct http_response *response,
           struct aws_error *error, struct fail *fail)
{
    *error = (struct aws_error) { .trouble = response->trouble ? response->trouble : HTTP_OTHER,
                                  .attempts = response->attempts };
    if (response->trouble == HTTP_NO_HOST && host_has (url, region))
        return fail_set (fail, FAIL_GENERAL, "%s %s: %.800s Or is there no AWS region %s?", call->service, call->action,
                         response->fail.text, region);
    return fail_prefix (fail, "%s %s", call->service, call->action);
}

int
request_send (struct aws *aws, const struct keys *keys, const char *source, const struct request *request,
              struct http_response *response, struct aws_error *error, struct fail *fail)
{
    struct aws_error ignored;
    struct http_request http = request->http;
    struct http_aws signature = { .service = endpoint_name (request->service) };
    struct answer_call call = { .service = request->name ? request->name : signature.service, .action = request->action,
                                .permission = request->permission, .keys = keys, .source = source };
    if (!error)
        error = &ignored;
    *error = (struct aws_error) { .trouble = HTTP_OTHER };
    if (keys) {
        signature.region = endpoint_region (aws, request->service, fail);
        signature.access_key = keys->access_key;
        signature.secret_key = keys->secret_key;
        signature.session_token = keys->session_token;
        http.aws = &signature;
        if (!signature.region)
            return -1;
    }
    http.is_for_aws = true;
    http.is_throttled = answer_is_throttled;
    http.no_redirects = true;
    if (state_connect (aws, fail))
        return -1;
    if (http_perform (aws->http, &http, response, 1, fail))
        return no_answer (&call, http.url, request->region ? request->region : aws->region, response, error, fail);
    if (response->status >= 200 && response->status < 300) {
        *error = (struct aws_error) { .status = response->status, .attempts = response->attempts };
        return 0;
    }
    answer_read (error, response);
    return answer_refuse (&call, error, response, fail);
}

int
request_query_body (struct strbuf *body, enum aws_service service, const char *action,
                    const char *const (*parameters)[2], size_t count, struct fail *fail)
{
    strbuf_printf (body, "Action=%s&Version=%s", action, service == AWS_IAM ? "2010-05-08" : "2011-06-15");
    for (size_t i = 0; i < count; i++) {
        strbuf_add_char (body, '&');
        http_encode (body, parameters[i][0], false);
        strbuf_add_char (body, '=');
        http_encode (body, parameters[i][1], false);
    }
    return body->failed ? fail_nomem (fail) : 0;
}

int
request_query_reply (const struct http_response *response, enum aws_service service, const char *action,
                     struct aws_xml **reply, struct fail *fail)
{
    char wanted[128];
    *reply = xml_parse (response->body.text ? response->body.text : "", response->body.length, fail);
    if (!*reply)
        return fail_prefix (fail, "%s %s: the answer is", endpoint_name (service), action);
    snprintf (wanted, sizeof wanted, "%sResponse", action);
    if (!strcmp (xml_root (*reply), wanted))
        return 0;
    fail_set (fail, FAIL_GENERAL, "%s %s: not an answer of AWS: expected <%s>, got <%s>",
              endpoint_name (service), action, wanted, xml_root (*reply));
    aws_xml_free (*reply);
    *reply = NULL;
    return -1;
}

void
request_wipe (struct http_response *response)
{
    if (response->body.text)
        explicit_bzero (response->body.text, response->body.capacity);
    http_response_release (response);
}
