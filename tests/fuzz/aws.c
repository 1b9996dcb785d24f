/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzer of what AWS answers: errors and credentials in JSON and XML, headers with times. The first byte chooses. */
#include <config.h>

#include "aws/request.h"
#include "aws/source.h"
#include "aws/when.h"
#include "aws/xml.h"
#include "tests/fuzz/target.h"
#include "util/printable.h"

#include <assert.h>

/* A text that a message may show: one line. */
static void
check_text (const char *text, size_t size)
{
    assert (strlen (text) < size && printable_is_clean (text));
}

static void
try_error (struct http_response *response)
{
    struct keys keys = { .secret_key = (char[]){ "SECRETSECRET" }, .session_token = (char[]){ "TOKENTOKEN" } };
    struct answer_call call = { .service = "s3", .action = "PutObject", .keys = &keys, .source = "x" };
    struct aws_error error;
    struct fail fail = { 0 };
    answer_read (&error, response);
    check_text (error.code, sizeof error.code);
    check_text (error.message, sizeof error.message);
    check_text (error.request, sizeof error.request);
    answer_is_throttled (response);
    assert (answer_refuse (&call, &error, response, &fail) == -1 && *fail.text && !strchr (fail.text, '\n'));
    assert (!strstr (fail.text, "SECRETSECRET") && !strstr (fail.text, "TOKENTOKEN"));
}

static void
try_xml (const struct http_response *response)
{
    struct fail fail = { 0 };
    struct aws_xml *xml = NULL;
    if (request_query_reply (response, AWS_STS, "A", &xml, &fail))
        assert (*fail.text && !xml);
    else {
        const char *text = aws_xml_get (xml, "AResult/Credentials/AccessKeyId");
        assert (!text || strlen (text) <= response->body.length);
        aws_xml_get (xml, "");
        aws_xml_get (xml, "/");
    }
    aws_xml_free (xml);
}

static void
try_keys (const struct http_response *response, const struct keys_names *names, const char *member)
{
    struct fail fail = { 0 };
    struct keys keys = { 0 };
    if (source_read_json (response, names, member, "x", &keys, &fail))
        assert (*fail.text && !keys.access_key && !keys.secret_key && !keys.session_token);
    else
        assert (*keys.access_key && *keys.secret_key && !strpbrk (keys.secret_key, "\r\n") && keys.expires >= 0);
    keys_release (&keys);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    struct http_response response = { .status = 400 };
    if (!size)
        return 0;
    strbuf_add_bytes (&response.body, data + 1, size - 1);
    if (*data % 4 == 0)
        try_error (&response);
    else if (*data % 4 == 1)
        try_xml (&response);
    else if (*data % 4 == 2) {
        try_keys (&response, &keys_names_metadata, NULL);
        try_keys (&response, &keys_names_sso, "roleCredentials");
    } else if (response.body.text) {
        assert (when_iso (response.body.text) >= -1 && when_http (response.body.text) >= -1);
        strlist_printf (&response.headers, "date: %s", response.body.text);
        try_error (&response);
    }
    http_response_release (&response);
    return 0;
}
