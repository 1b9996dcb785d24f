/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials of the container or the EC2 instance that this is: from servers of this link. */
#include <config.h>

#include "aws/request.h"
#include "aws/source.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/parse.h"

#include <string.h>
#include <strings.h>

enum {
    MOST_ANSWER = 65536,
    MOST_TOKEN = 16384,
    CONTAINER_MS = 2000,
};

/* Such a server answers at once or not at all, and never over a proxy. */
static int
ask (struct aws *aws, const char *url, const char *method, const char *header, int64_t ms, unsigned attempts,
     struct http_response *response, struct fail *fail)
{
    struct http_request request = { .url = url, .method = method, .body = method ? "" : NULL, .headers = &header,
                                    .header_count = header != NULL, .most = MOST_ANSWER, .connect_ms = ms,
                                    .total_ms = ms * attempts, .attempts = attempts, .no_redirects = true,
                                    .no_proxy = true, .is_repeatable = true };
    if (state_connect (aws, fail))
        return -1;
    return http_perform (aws->http, &request, response, 1, fail);
}

static bool
is_local (const char *url)
{
    static const char *const hosts[]
        = { "127.0.0.1", "localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]" };
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        size_t length = strlen (hosts[i]);
        if (!strncasecmp (url, "http://", 7) && !strncasecmp (url + 7, hosts[i], length)
            && strchr (":/", url[7 + length]))
            return !url[strcspn (url, "@\\")];
    }
    return false;
}

static int
container_url (struct strbuf *url, struct fail *fail)
{
    const char *relative = state_variable ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = state_variable ("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (relative && *relative != '/')
        return fail_set (fail, FAIL_GENERAL, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with '/'");
    if (relative)
        strbuf_printf (url, "http://169.254.170.2%s", relative);
    else if (strncasecmp (full, "https://", 8) != 0 && !is_local (full))
        return fail_set (fail, FAIL_GENERAL, "AWS_CONTAINER_CREDENTIALS_FULL_URI is not https://, and its host is not "
                         "this machine or the container's server");
    else
        strbuf_add (url, full);
    return url->failed ? fail_nomem (fail) : 0;
}

/* The header that proves to the server who asks; none: "". */
static int
container_token (struct strbuf *header, struct fail *fail)
{
    const char *path = state_variable ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = state_variable ("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    char *text = NULL;
    if (path && io_read_file (path, MOST_TOKEN, &text, NULL, fail))
        return fail_prefix (fail, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    if (text) {
        size_t length = strlen (text); /* of a file, the end of the line is not the token's */
        while (length && strchr (" \t\r\n", text[length - 1]))
            text[--length] = '\0';
    }
    if (text || token)
        strbuf_printf (header, "Authorization: %s", text ? text : token);
    keys_wipe (text);
    return header->failed ? fail_nomem (fail) : 0;
}

/* Whether the message would show the path, which is a secret. */
static bool
names_url (enum http_trouble trouble)
{
    return trouble != HTTP_FINE && trouble != HTTP_OTHER && trouble != HTTP_STOPPED;
}

int
source_container (struct aws *aws, struct found *found, struct fail *fail)
{
    static const char what[] = "the container's credentials", full[] = "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                      relative[] = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    AUTO_STRBUF struct strbuf url = { 0 }, header = { 0 };
    struct http_response response = { 0 };
    if (!state_variable (relative) && !state_variable (full))
        return SOURCE_NONE;
    int result = container_url (&url, fail) || container_token (&header, fail) ? -1 : 0;
    if (!result && ask (aws, url.text, NULL, header.text, CONTAINER_MS, 3, &response, fail))
        result = names_url (response.trouble) ? fail_set (fail, FAIL_GENERAL, "no answer from the server of %s",
                                                          state_variable (relative) ? relative : full)
                                              : -1;
    if (!result && response.status != 200)
        result = fail_set (fail, FAIL_GENERAL, "%s: the answer has status %d", what, response.status);
    if (!result)
        result = source_read_json (&response, &keys_names_metadata, NULL, what, &found->keys, fail);
    if (header.text)
        explicit_bzero (header.text, header.capacity);
    request_wipe (&response);
    if (result)
        return -1;
    return found_end (found, 0, fail, "the container");
}

/* ---- EC2 ---- */

const char *
aws_instance_endpoint (void)
{
    const char *base = state_variable ("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *mode = state_variable ("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    if (base)
        return base;
    return mode && !strcasecmp (mode, "ipv6") ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
}

static int
instance_url (struct strbuf *url, const char *path, const char *name, struct fail *fail)
{
    const char *base = aws_instance_endpoint ();
    size_t length = strlen (base);
    while (length && base[length - 1] == '/')
        length--;
    strbuf_add_bytes (url, base, length);
    strbuf_add (url, path);
    http_encode (url, name, false);
    return url->failed ? fail_nomem (fail) : 0;
}

static int64_t
number_of (const char *variable, int64_t most)
{
    int64_t value;
    const char *text = state_variable (variable);
    return text && parse_int64 (text, 1, most, &value) == PARSE_OK ? value : 1;
}

/* @return status of the answer; 0: there is no such server; -1: interrupted */
static int
ask_instance (struct aws *aws, const char *path, const char *name, const char *method, const char *header,
              struct http_response *response, struct fail *fail)
{
    AUTO_STRBUF struct strbuf url = { 0 };
    int64_t ms = 1000 * number_of ("AWS_METADATA_SERVICE_TIMEOUT", 60);
    unsigned attempts = (unsigned) number_of ("AWS_METADATA_SERVICE_NUM_ATTEMPTS", 10);
    request_wipe (response);
    if (instance_url (&url, path, name, fail))
        return -1;
    if (!ask (aws, url.text, method, header, ms, attempts, response, fail))
        return response->status;
    return response->trouble == HTTP_NO_CONNECTION || response->trouble == HTTP_TIMED_OUT
                   || response->trouble == HTTP_NO_HOST || response->trouble == HTTP_BROKEN
               ? 0
               : -1;
}

/* The token of a session (IMDSv2), which no page of a browser and no open proxy can ask for. */
static int
instance_token (struct aws *aws, struct strbuf *header, struct http_response *response, struct fail *fail)
{
    int status = ask_instance (aws, "/latest/api/token", "", "PUT", "X-aws-ec2-metadata-token-ttl-seconds: 21600",
                               response, fail);
    if (status == 200)
        strbuf_printf (header, "X-aws-ec2-metadata-token: %s", response->body.text ? response->body.text : "");
    return header->failed ? fail_nomem (fail) : status;
}

int
source_instance (struct aws *aws, struct found *found, struct fail *fail)
{
    static const char path[] = "/latest/meta-data/iam/security-credentials/";
    static const char what[] = "the EC2 instance's role";
    const char *disabled = state_variable ("AWS_EC2_METADATA_DISABLED");
    AUTO_STRBUF struct strbuf token = { 0 }, role = { 0 };
    struct http_response response = { 0 };
    if (disabled && !strcasecmp (disabled, "true"))
        return SOURCE_NONE;
    int status = instance_token (aws, &token, &response, fail);
    if (status == 400 || status == 403 || status == 405) /* another cloud's server, or it is switched off */
        status = 404;
    if (status == 200)
        status = ask_instance (aws, path, "", NULL, token.text, &response, fail);
    if (status == 200) {
        strbuf_add_bytes (&role, response.body.text, response.body.text ? strcspn (response.body.text, "\r\n") : 0);
        status = ask_instance (aws, path, role.text ? role.text : "", NULL, token.text, &response, fail);
    }
    int result = SOURCE_NONE; /* there is no such server, or the instance has no role */
    if (status < 0)
        result = -1;
    else if (status == 200 && source_read_json (&response, &keys_names_metadata, NULL, what, &found->keys, fail))
        result = -1;
    else if (status == 200)
        result = found_end (found, 0, fail, "the EC2 instance's role %.100s", role.text ? role.text : "");
    else if (status && status != 404)
        result = fail_set (fail, FAIL_GENERAL, "%s: the answer has status %d", what, status);
    request_wipe (&response);
    return result;
}
