/* SPDX-License-Identifier: Apache-2.0 */
/* Calls with the credentials that are found first; the order of sources is botocore's. */
#include <config.h>

#include "aws/call.h"
#include "aws/endpoint.h"
#include "aws/source.h"
#include "util/cleanup.h"

#include <jansson.h>
#include <poll.h>
#include <string.h>
#include <time.h>

enum {
    RENEW_S = 600, /* before they expire */
    MOST_ROLES = 8, /* one taken with another */
};

/* The roles that are being looked for, from the one that was asked for on. */
struct path {
    const char *profiles[MOST_ROLES];
    size_t count;
};

static int profile_keys (struct aws *aws, const char *profile, struct path *path, struct found *found,
                         struct fail *fail);

static int
source_keys (struct aws *aws, const char *name, struct found *found, struct fail *fail)
{
    if (!strcasecmp (name, "Environment"))
        return source_variables (aws, found, fail);
    if (!strcasecmp (name, "Ec2InstanceMetadata"))
        return source_instance (aws, found, fail);
    if (!strcasecmp (name, "EcsContainer"))
        return source_container (aws, found, fail);
    return fail_set (fail, FAIL_GENERAL, "invalid credential_source '%.60s': expected Environment, Ec2InstanceMetadata "
                     "or EcsContainer", name);
}

static int
static_keys (struct aws *aws, const char *profile, struct found *found, struct fail *fail)
{
    int result = source_file (aws, &aws->credentials, profile, found, fail);
    return result ? result : source_file (aws, &aws->config, profile, found, fail);
}

/* The credentials that a profile's role is assumed with. A profile that names itself has keys of its own. */
static int
keys_for_role (struct aws *aws, const char *profile, struct path *path, struct found *by, struct fail *fail)
{
    const char *other = state_profile_value (aws, profile, "source_profile");
    const char *source = state_profile_value (aws, profile, "credential_source");
    if (other && source)
        return fail_set (fail, FAIL_GENERAL, "source_profile cannot be combined with credential_source");
    if (source)
        return source_keys (aws, source, by, fail);
    if (!strcmp (other, profile))
        return static_keys (aws, profile, by, fail);
    for (size_t i = 0; i < path->count; i++)
        if (!strcmp (path->profiles[i], other))
            return fail_set (fail, FAIL_GENERAL, "source_profile leads back to '%.100s'", other);
    int result = static_keys (aws, other, by, fail); /* they come before its own role, if it has one */
    if (result)
        return result;
    if (path->count == MOST_ROLES)
        return fail_set (fail, FAIL_GENERAL, "more than %d roles in a row", MOST_ROLES);
    if (!profiles_get (&aws->config, PROFILES_PROFILE, other, "")
        && !profiles_get (&aws->credentials, PROFILES_PROFILE, other, ""))
        return fail_set (fail, FAIL_GENERAL, "no AWS profile '%.100s' (source_profile)", other);
    return profile_keys (aws, other, path, by, fail);
}

/* Variables are for the profile that was asked for, unless the caller did so. */
static bool
reads_variables (const struct aws *aws, const struct path *path)
{
    return path->count == 0 && !aws->names_profile;
}

static bool
has_token (const struct aws *aws, const char *profile, const struct path *path)
{
    return state_profile_value (aws, profile, "web_identity_token_file")
           || (reads_variables (aws, path) && state_variable ("AWS_WEB_IDENTITY_TOKEN_FILE"));
}

static int
role_keys (struct aws *aws, const char *profile, struct path *path, struct found *found, struct fail *fail)
{
    struct found by = { 0 };
    if (!state_profile_value (aws, profile, "role_arn"))
        return SOURCE_NONE;
    if (!state_profile_value (aws, profile, "source_profile")
        && !state_profile_value (aws, profile, "credential_source"))
        return has_token (aws, profile, path)
                   ? SOURCE_NONE
                   : fail_set (fail, FAIL_GENERAL, "AWS profile '%.100s' has role_arn, but neither source_profile nor "
                               "credential_source", profile);
    path->profiles[path->count++] = profile;
    int result = keys_for_role (aws, profile, path, &by, fail);
    if (result == SOURCE_NONE)
        result = fail_set (fail, FAIL_GENERAL, "there are no credentials to assume the role with");
    if (result < 0)
        fail_prefix (fail, "AWS profile '%.100s'", profile);
    else
        result = source_role (aws, profile, &by, found, fail);
    found_release (&by);
    return result;
}

/* Variables come before the profile's own. */
static int
web_keys (struct aws *aws, const char *profile, bool with_variables, struct found *found, struct fail *fail)
{
    const char *token = with_variables ? state_variable ("AWS_WEB_IDENTITY_TOKEN_FILE") : NULL;
    const char *role = with_variables ? state_variable ("AWS_ROLE_ARN") : NULL;
    const char *session = with_variables ? state_variable ("AWS_ROLE_SESSION_NAME") : NULL;
    if (!token)
        token = state_profile_value (aws, profile, "web_identity_token_file");
    if (!token)
        return SOURCE_NONE;
    if (!role)
        role = state_profile_value (aws, profile, "role_arn");
    if (!role)
        return fail_set (fail, FAIL_GENERAL, "a web identity token needs a role: set AWS_ROLE_ARN, or role_arn in the "
                         "AWS profile '%.100s'", profile);
    if (!session)
        session = state_profile_value (aws, profile, "role_session_name");
    return source_web_identity (aws, token, role, session, found, fail);
}

/* All that a profile can have. */
static int
profile_keys (struct aws *aws, const char *profile, struct path *path, struct found *found, struct fail *fail)
{
    int result = role_keys (aws, profile, path, found, fail);
    if (!result)
        result = web_keys (aws, profile, reads_variables (aws, path), found, fail);
    if (!result)
        result = source_sso (aws, profile, found, fail);
    if (!result)
        result = source_file (aws, &aws->credentials, profile, found, fail);
    if (!result)
        result = source_process (aws, profile, found, fail);
    if (!result)
        result = source_file (aws, &aws->config, profile, found, fail);
    return result;
}

static int
find (struct aws *aws, struct found *found, struct fail *fail)
{
    struct path path = { 0 };
    int result = SOURCE_NONE;
    if (aws->given.access_key) {
        result = keys_set (&found->keys, aws->given.access_key, aws->given.secret_key, aws->given.session_token, fail);
        return found_end (found, result, fail, "the access key %s", "on the command line");
    }
    if (!aws->names_profile)
        result = source_variables (aws, found, fail);
    if (!result)
        result = profile_keys (aws, aws->profile, &path, found, fail);
    if (!result)
        result = source_container (aws, found, fail);
    if (!result)
        result = source_instance (aws, found, fail);
    if (!result)
        result = fail_set (fail, FAIL_GENERAL, "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                           "or run 'aws configure' for the AWS profile '%.100s'", aws->profile);
    return result;
}

/* Make sure that aws->keys are there and last for the next minutes. */
int
aws_find_credentials (struct aws *aws, struct fail *fail)
{
    struct found found = { 0 };
    int64_t left = aws->keys.expires - time (NULL);
    if (aws->keys.access_key && (!aws->keys.expires || left > RENEW_S))
        return 0;
    if (find (aws, &found, fail) < 0) {
        found_release (&found);
        return aws->keys.access_key && left > 0 ? 0 : -1; /* the old ones still last */
    }
    keys_release (&aws->keys);
    strbuf_release (&aws->source);
    aws->keys = found.keys;
    aws->source = found.source;
    return 0;
}

/* AWS says that the keys have expired.  @return whether it makes sense to find new ones */
static bool
forget (struct aws *aws)
{
    if (!aws->keys.session_token || aws->given.access_key)
        return false;
    keys_release (&aws->keys);
    state_read_files (aws, NULL); /* another process may have renewed them there */
    return true;
}

/* ---- calls ---- */

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
        if (aws_find_credentials (aws, fail)) {
            error->trouble = is_stopped (aws) ? HTTP_STOPPED : HTTP_OTHER;
            return -1;
        }
        if (!request_send (aws, &aws->keys, aws->source.text, request, response, error, fail))
            return 0;
        if (is_second || !answer_is_expired (error) || !forget (aws))
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
