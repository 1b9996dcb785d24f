/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of IAM Identity Center: 'aws sso login' leaves a token in ~/.aws/sso/cache; a server gives keys for it. */
#include <config.h>

#include "aws/endpoint.h"
#include "aws/request.h"
#include "aws/sha1.h"
#include "aws/source.h"
#include "aws/when.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

enum { MOST_CACHE = 262144, MOST_ANSWER = 65536 };

struct sso {
    const char *profile;
    const char *session; /* "[sso-session NAME]", or NULL: all is in the profile */
    const char *url, *region, *account, *role;
};

static int
read_profile (const struct aws *aws, struct sso *sso, struct fail *fail)
{
    const char *profile = sso->profile;
    sso->session = state_profile_value (aws, profile, "sso_session");
    sso->account = state_profile_value (aws, profile, "sso_account_id");
    sso->role = state_profile_value (aws, profile, "sso_role_name");
    sso->url = state_profile_value (aws, profile, "sso_start_url");
    sso->region = state_profile_value (aws, profile, "sso_region");
    if (sso->session) {
        sso->url = profiles_get (&aws->config, PROFILES_SSO_SESSION, sso->session, "sso_start_url");
        sso->region = profiles_get (&aws->config, PROFILES_SSO_SESSION, sso->session, "sso_region");
        if (!profiles_get (&aws->config, PROFILES_SSO_SESSION, sso->session, ""))
            return fail_set (fail, FAIL_GENERAL, "there is no section [sso-session %.100s]", sso->session);
    }
    const char *missing = !sso->url || !*sso->url         ? "sso_start_url"
                          : !sso->region || !*sso->region ? "sso_region"
                          : !sso->account                 ? "sso_account_id"
                          : !sso->role                    ? "sso_role_name"
                                                          : NULL;
    if (missing)
        return fail_set (fail, FAIL_GENERAL, "%s is missing", missing);
    if (sso->region[strspn (sso->region, "abcdefghijklmnopqrstuvwxyz0123456789-")])
        return fail_set (fail, FAIL_GENERAL, "sso_region is not a valid region");
    return 0;
}

/* @param[out] token  for keys_wipe() */
static int
read_token (const struct sso *sso, char **token, struct fail *fail)
{
    const char *home = state_variable ("HOME"), *key = sso->session ? sso->session : sso->url;
    AUTO_STRBUF struct strbuf path = { 0 };
    char hash[SHA1_TEXT], *text = NULL;
    size_t length;
    sha1_text (key, strlen (key), hash);
    strbuf_printf (&path, "%s/.aws/sso/cache/%s.json", home ? home : "", hash);
    if (path.failed)
        return fail_nomem (fail);
    if (access (path.text, F_OK))
        return fail_set (fail, FAIL_GENERAL, "not logged in: run 'aws sso login --profile %.100s'", sso->profile);
    if (io_read_file (path.text, MOST_CACHE, &text, &length, fail))
        return -1;
    json_t *json = keys_parse (text, length, path.text, fail);
    explicit_bzero (text, length);
    free (text);
    if (!json)
        return -1;
    const char *value = json_string_value (json_object_get (json, "accessToken"));
    const char *end = json_string_value (json_object_get (json, "expiresAt"));
    int64_t expires = end ? when_iso (end) : -1;
    int result = 0;
    if (!value || expires < 0)
        result = fail_set (fail, FAIL_GENERAL, "%.300s is not a session of 'aws sso login'", path.text);
    else if (expires <= time (NULL))
        result = fail_set (fail, FAIL_GENERAL, "the session has expired: run 'aws sts get-caller-identity "
                           "--profile %.100s', which renews it, or 'aws sso login --profile %.100s'", sso->profile,
                           sso->profile);
    else if (!(*token = strdup (value)))
        result = fail_nomem (fail);
    json_decref (json);
    return result;
}

static int
ask (struct aws *aws, const struct sso *sso, const char *token, struct keys *keys, struct fail *fail)
{
    AUTO_STRBUF struct strbuf url = { 0 }, header = { 0 };
    struct http_response response = { 0 };
    struct aws_error error;
    const char *override = endpoint_override (aws, "SSO");
    if (override && endpoint_add_override (&url, override, fail))
        return -1;
    if (!override)
        strbuf_printf (&url, "https://portal.sso.%s.%s", sso->region, aws_domain (sso->region));
    strbuf_add (&url, "/federation/credentials?role_name=");
    http_encode (&url, sso->role, false);
    strbuf_add (&url, "&account_id=");
    http_encode (&url, sso->account, false);
    strbuf_printf (&header, "x-amz-sso_bearer_token: %s", token);
    if (url.failed || header.failed)
        return fail_nomem (fail);
    const char *headers[] = { header.text };
    struct request request = { .service = AWS_STS, .action = "GetRoleCredentials",
                               .http = { .url = url.text, .headers = headers, .header_count = 1,
                                         .most = MOST_ANSWER } };
    int result = request_send (aws, NULL, NULL, &request, &response, &error, fail);
    if (result && (error.status == 401 || aws_error_is (&error, "UnauthorizedException")))
        fail_set (fail, FAIL_GENERAL, "the session is no longer valid: run 'aws sso login --profile %.100s'",
                  sso->profile);
    if (!result)
        result = source_read_json (&response, &keys_names_sso, "roleCredentials", "GetRoleCredentials", keys, fail);
    explicit_bzero (header.text, header.capacity);
    request_wipe (&response);
    return result;
}

int
source_sso (struct aws *aws, const char *profile, struct found *found, struct fail *fail)
{
    struct sso sso = { .profile = profile };
    char *token = NULL;
    if (!state_profile_value (aws, profile, "sso_session") && !state_profile_value (aws, profile, "sso_start_url"))
        return SOURCE_NONE;
    int result = read_profile (aws, &sso, fail) || read_token (&sso, &token, fail)
                         || ask (aws, &sso, token, &found->keys, fail)
                     ? -1
                     : 0;
    keys_wipe (token);
    return found_end (found, result, fail, "AWS profile '%.100s' (IAM Identity Center)", profile);
}
