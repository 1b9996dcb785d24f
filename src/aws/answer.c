/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of AWS, in words; see answer.h. */
#include <config.h>

#include "aws/answer.h"

#include "aws/when.h"
#include "aws/xml.h"
#include "util/cleanup.h"
#include "util/printable.h"
#include "util/text.h"

#include <jansson.h>
#include <string.h>
#include <time.h>

enum { CLOCK_TOLERANCE_S = 240 }; /* AWS accepts signatures for five minutes, some services for fifteen */

/* As much of a text as there is room for, without half characters and without those that a terminal obeys. */
static void
take_text (char *to, size_t size, const char *text)
{
    AUTO_STRBUF struct strbuf shown = { 0 };
    printable_add (&shown, text ? text : "");
    *to = '\0';
    if (shown.failed || !shown.text)
        return;
    size_t length = shown.length < size ? shown.length : size - 1;
    while (length < shown.length && length && ((unsigned char) shown.text[length] & 0xc0) == 0x80)
        length--;
    memcpy (to, shown.text, length);
    to[length] = '\0';
}

/* "com.amazonaws.sagemaker#ResourceNotFound", "ResourceNotFound:http://..." */
static void
take_code (struct aws_error *error, const char *text)
{
    AUTO_FREE char *copy = strdup (text);
    if (!copy)
        return;
    copy[strcspn (copy, ": ")] = '\0';
    const char *hash = strrchr (copy, '#');
    take_text (error->code, sizeof error->code, hash ? hash + 1 : copy);
}

static void
read_json (struct aws_error *error, const struct http_response *response)
{
    static const char *const names[] = { "message", "Message", "errorMessage", "error_description" };
    json_t *json = json_loadb (response->body.text, response->body.length, 0, NULL);
    const char *code = json_string_value (json_object_get (json, "__type"));
    if (!code)
        code = json_string_value (json_object_get (json, "code"));
    if (code)
        take_code (error, code);
    for (size_t i = 0; i < sizeof names / sizeof *names && !*error->message; i++)
        take_text (error->message, sizeof error->message, json_string_value (json_object_get (json, names[i])));
    json_decref (json);
}

static void
read_xml (struct aws_error *error, const struct http_response *response)
{
    struct aws_xml *xml = xml_parse (response->body.text, response->body.length, NULL);
    if (!xml)
        return;
    bool is_plain = !strcmp (xml_root (xml), "Error"); /* S3's */
    const char *code = aws_xml_get (xml, is_plain ? "Code" : "Error/Code");
    const char *request = aws_xml_get (xml, "RequestId");
    if (code)
        take_code (error, code);
    take_text (error->message, sizeof error->message, aws_xml_get (xml, is_plain ? "Message" : "Error/Message"));
    if (request)
        take_text (error->request, sizeof error->request, request);
    aws_xml_free (xml);
}

void
answer_read (struct aws_error *error, const struct http_response *response)
{
    static const struct { int status; const char *code; } codes[]
        = { { 400, "BadRequest" }, { 403, "Forbidden" }, { 404, "NotFound" }, { 301, "PermanentRedirect" } };
    const char *type = http_header (response, "x-amzn-errortype");
    const char *request = http_header (response, "x-amzn-requestid");
    const char *body = response->body.text ? response->body.text : "";
    if (!request)
        request = http_header (response, "x-amz-request-id");
    *error = (struct aws_error) { .status = response->status, .trouble = response->trouble,
                                  .attempts = response->attempts };
    take_text (error->request, sizeof error->request, request);
    body += strspn (body, " \t\r\n");
    if (*body == '<')
        read_xml (error, response);
    else if (*body == '{')
        read_json (error, response);
    if (type)
        take_code (error, type);
    for (size_t i = 0; i < sizeof codes / sizeof *codes && !*error->code; i++)
        if (codes[i].status == response->status)
            take_text (error->code, sizeof error->code, codes[i].code);
}

bool
aws_error_is (const struct aws_error *error, const char *code)
{
    return !strcmp (error->code, code);
}

bool
aws_error_is_throttled (const struct aws_error *error)
{
    static const char *const codes[]
        = { "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottledException", "RequestThrottled",
            "TooManyRequestsException", "RequestLimitExceeded", "BandwidthLimitExceeded", "SlowDown",
            "PriorRequestNotComplete", "RequestTimeout", "RequestTimeoutException", "InternalError", NULL };
    return text_is_one_of (error->code, codes);
}

bool
answer_is_throttled (const struct http_response *response)
{
    struct aws_error error;
    if (response->status < 400)
        return false;
    answer_read (&error, response);
    return aws_error_is_throttled (&error);
}

bool
answer_is_expired (const struct aws_error *error)
{
    static const char *const codes[] = { "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", NULL };
    return text_is_one_of (error->code, codes);
}

/* Seconds that this machine's clock is ahead of AWS's. */
static int64_t
clock_lead (const struct http_response *response)
{
    const char *date = http_header (response, "date");
    int64_t theirs = date ? when_http (date) : -1;
    return theirs > 0 ? time (NULL) - theirs : 0;
}

/* What to do about a refusal of the signature or of the caller. */
static void
add_advice (struct strbuf *text, const struct answer_call *call, const struct aws_error *error, int64_t lead)
{
    static const char *const denied[] = { "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "Forbidden",
                                          "AllAccessDisabled", NULL };
    static const char *const unknown[]
        = { "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "InvalidToken", NULL };
    static const char *const wrong[] = { "SignatureDoesNotMatch", "InvalidSignatureException", NULL };
    static const char *const late[] = { "RequestTimeTooSkewed", "RequestExpired", "SignatureDoesNotMatch",
                                        "InvalidSignatureException", "RequestInTheFuture", NULL };
    const char *source = call->source && *call->source ? call->source : "the request";
    if (text_is_one_of (error->code, late) && (lead > CLOCK_TOLERANCE_S || lead < -CLOCK_TOLERANCE_S))
        strbuf_printf (text, ": this machine's clock is %lld minutes %s Amazon's: set it",
                       (long long) (lead < 0 ? -lead : lead) / 60, lead < 0 ? "behind" : "ahead of");
    else if (text_is_one_of (error->code, wrong))
        strbuf_printf (text, ": the secret key of %s does not belong to its access key", source);
    else if (text_is_one_of (error->code, unknown))
        strbuf_printf (text, ": AWS does not know the access key of %s, or not in this region", source);
    else if (text_is_one_of (error->code, denied))
        strbuf_printf (text, ": %s needs the permission %s:%s", source, call->service,
                       call->permission ? call->permission : call->action);
    else if (answer_is_expired (error))
        strbuf_printf (text, ": the credentials of %s have expired: renew them", source);
    else if (!strcmp (error->code, "OptInRequired"))
        strbuf_add (text, ": enable this service or region for the account");
}

/* @return how much of @p text is @p secret; at its end, where long texts are cut, a part of it is enough */
static size_t
secret_length (const char *text, const char *secret)
{
    size_t length = secret ? strlen (secret) : 0, left = strlen (text);
    if (left < length && left >= 4)
        length = left;
    return length && !strncmp (text, secret, length) ? length : 0;
}

/* Append the words of AWS without any text of @p keys. */
static void
add_words (struct strbuf *out, const char *words, const struct keys *keys)
{
    while (*words) {
        size_t length = keys ? secret_length (words, keys->secret_key) : 0;
        if (!length && keys)
            length = secret_length (words, keys->session_token);
        if (length)
            strbuf_add (out, "***");
        else
            strbuf_add_char (out, *words);
        words += length ? length : 1;
    }
}

int
answer_refuse (const struct answer_call *call, const struct aws_error *error, const struct http_response *response,
               struct fail *fail)
{
    /* Amazon quotes the request with its session token there. */
    static const char *const quoting[] = { "SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignature",
                                           "IncompleteSignatureException", NULL };
    AUTO_STRBUF struct strbuf text = { 0 };
    strbuf_add (&text, ": ");
    if (*error->code)
        add_words (&text, error->code, call->keys);
    else
        strbuf_printf (&text, "the answer has status %d", error->status);
    if (*error->message && !text_is_one_of (error->code, quoting)) {
        strbuf_add (&text, ": ");
        add_words (&text, error->message, call->keys);
        while (text.length && text.text[text.length - 1] == '.')
            strbuf_truncate (&text, text.length - 1);
    }
    add_advice (&text, call, error, clock_lead (response));
    if (answer_is_throttled (response))
        strbuf_printf (&text, " (tried %u times)", error->attempts);
    if (text.failed)
        return fail_nomem (fail);
    return fail_set (fail, FAIL_GENERAL, "%s %s%.850s", call->service, call->action, text.text);
}
