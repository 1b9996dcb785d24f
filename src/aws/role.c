/* SPDX-License-Identifier: Apache-2.0 */
/* Roles: STS gives keys that last an hour for other credentials, or for a token of another identity provider. */
#include <config.h>

#include "aws/request.h"
#include "aws/source.h"
#include "aws/when.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <string.h>
#include <time.h>

enum { MOST_TOKEN = 65536, MOST_ANSWER = 65536, MOST_PARAMETERS = 6 };

struct parameters {
    const char *pairs[MOST_PARAMETERS][2];
    size_t count;
};

static void
add (struct parameters *parameters, const char *name, const char *value)
{
    if (!value)
        return;
    parameters->pairs[parameters->count][0] = name;
    parameters->pairs[parameters->count++][1] = value;
}

static int
take_answer (const struct aws_xml *xml, const char *action, struct keys *keys, struct fail *fail)
{
    static const char *const names[] = { "AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration" };
    const char *values[4];
    char path[128];
    for (size_t i = 0; i < 4; i++) {
        snprintf (path, sizeof path, "%sResult/Credentials/%s", action, names[i]);
        values[i] = aws_xml_get (xml, path);
        if (!values[i] || !*values[i])
            return fail_set (fail, FAIL_GENERAL, "sts %s: the answer has no '%s'", action, names[i]);
    }
    int64_t expires = when_iso (values[3]);
    if (expires <= 0)
        return fail_set (fail, FAIL_GENERAL, "sts %s: 'Expiration' is not a valid time", action);
    if (keys_set (keys, values[0], values[1], values[2], fail))
        return -1;
    keys->expires = expires;
    return 0;
}

/* @param by  who asks; NULL: the token says it */
static int
assume (struct aws *aws, const char *action, const struct parameters *parameters, const struct found *by,
        struct keys *keys, struct fail *fail)
{
    static const char *const headers[] = { "Content-Type: application/x-www-form-urlencoded; charset=utf-8" };
    AUTO_STRBUF struct strbuf url = { 0 }, body = { 0 };
    struct http_response response = { 0 };
    struct aws_xml *xml = NULL;
    if (aws_endpoint (aws, AWS_STS, &url, fail)
        || request_query_body (&body, AWS_STS, action, parameters->pairs, parameters->count, fail))
        return -1;
    strbuf_add_char (&url, '/');
    if (url.failed)
        return fail_nomem (fail);
    struct request request = { .service = AWS_STS, .action = action,
                               .http = { .url = url.text, .headers = headers, .header_count = 1, .body = body.text,
                                         .body_length = body.length, .most = MOST_ANSWER, .is_repeatable = true } };
    int result = request_send (aws, by ? &by->keys : NULL, by ? by->source.text : NULL, &request, &response, NULL, fail)
                         || request_query_reply (&response, AWS_STS, action, &xml, fail)
                         || take_answer (xml, action, keys, fail)
                     ? -1
                     : 0;
    explicit_bzero (body.text, body.capacity); /* perhaps with a token */
    aws_xml_free (xml);
    request_wipe (&response);
    return result;
}

/* How the session is called in the logs of the account. */
static void
name_session (char *name, size_t size)
{
    snprintf (name, size, "accelerate-%lld", (long long) time (NULL));
}

int
source_role (struct aws *aws, const char *profile, const struct found *by, struct found *found, struct fail *fail)
{
    const char *role = state_profile_value (aws, profile, "role_arn");
    const char *session = state_profile_value (aws, profile, "role_session_name");
    struct parameters parameters = { 0 };
    char name[64];
    name_session (name, sizeof name);
    if (state_profile_value (aws, profile, "mfa_serial"))
        return fail_set (fail, FAIL_GENERAL, "AWS profile '%.100s' needs a code (mfa_serial), which this command "
                         "cannot ask for: get keys with 'aws configure export-credentials', or with credential_process",
                         profile);
    add (&parameters, "RoleArn", role);
    add (&parameters, "RoleSessionName", session ? session : name);
    add (&parameters, "ExternalId", state_profile_value (aws, profile, "external_id"));
    add (&parameters, "DurationSeconds", state_profile_value (aws, profile, "duration_seconds"));
    int result = assume (aws, "AssumeRole", &parameters, by, &found->keys, fail);
    return found_end (found, result, fail, "AWS profile '%.100s' (%.200s)", profile, role);
}

int
source_web_identity (struct aws *aws, const char *token_file, const char *role, const char *session,
                     struct found *found, struct fail *fail)
{
    struct parameters parameters = { 0 };
    char name[64], *token = NULL;
    name_session (name, sizeof name);
    int result = io_read_file (token_file, MOST_TOKEN, &token, NULL, fail);
    if (!result) {
        token[strcspn (token, "\r\n")] = '\0';
        add (&parameters, "RoleArn", role);
        add (&parameters, "RoleSessionName", session ? session : name);
        add (&parameters, "WebIdentityToken", token);
        result = assume (aws, "AssumeRoleWithWebIdentity", &parameters, NULL, &found->keys, fail);
    }
    keys_wipe (token);
    return found_end (found, result, fail, "the role %.200s", role);
}
