/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of IAM Identity Center: 'aws sso login' leaves a token in ~/.aws/sso/cache; a server gives keys for it. */
#include <config.h>

#include "aws/source.h"
#include "aws/endpoint.h"
#include "aws/request.h"
#include "aws/sha1.h"
#include "aws/when.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/printable.h"

#include <jansson.h>
#include <string.h>
#include <time.h>

enum { MOST_CACHE = 262144, MOST_ANSWER = 65536, RENEW_S = 900 };

/* Whose token it is: values of the profile or of its sso-session. */
struct sso_login {
    const char *profile;
    const char *session; /* "[sso-session NAME]"; NULL: all is in the profile, and the token cannot be renewed */
    const char *url, *region;
};

/* A file of the cache. */
struct cached {
    const struct sso_login *login;
    struct strbuf path;
    json_t *json; /* NULL: not read; has both of these: */
    const char *token;
    int64_t expires;
};

static const char *
text_of (const json_t *json, const char *name)
{
    return json_string_value (json_object_get (json, name));
}

/* Say why there is no token, and how to get one. */
static int
refuse_token (const struct sso_login *login, const char *why, struct fail *fail)
{
    AUTO_STRBUF struct strbuf profile = { 0 };
    shell_word_add (&profile, login->profile);
    if (profile.failed)
        return fail_nomem (fail);
    return fail_set (fail, FAIL_GENERAL, "%.600s; run: aws sso login --profile %.300s", why, profile.text);
}

/* @return a new reference, NULL with @fail set */
static json_t *
read_json (const char *path, struct fail *fail)
{
    char *text = NULL;
    size_t length;
    if (io_read_file (path, MOST_CACHE, &text, &length, fail))
        return NULL;
    json_t *json = keys_parse (text, length, path, fail);
    explicit_bzero (text, length);
    free (text);
    return json;
}

static int
read_cache (struct cached *cached, struct fail *fail)
{
    if (access (cached->path.text, F_OK))
        return refuse_token (cached->login, "not logged in", fail);
    json_t *json = read_json (cached->path.text, fail);
    if (!json)
        return -1;
    const char *token = text_of (json, "accessToken"), *end = text_of (json, "expiresAt");
    int64_t expires = end ? when_iso (end) : -1;
    if (!token || expires < 0) {
        json_decref (json);
        return fail_set (fail, FAIL_GENERAL, "%.300s is not a session of 'aws sso login'", cached->path.text);
    }
    json_decref (cached->json);
    cached->json = json;
    cached->token = token;
    cached->expires = expires;
    return 0;
}

/* ---- renewing ---- */

/* What the server needs to see again; missing: NULL. */
static json_t *
renewal (const struct cached *cached)
{
    const char *end = text_of (cached->json, "registrationExpiresAt");
    if (!cached->login->session || !end || when_iso (end) <= time (NULL))
        return NULL;
    return json_pack ("{s:s, s:s, s:s, s:s}", "grantType", "refresh_token", "clientId",
                      text_of (cached->json, "clientId"), "clientSecret", text_of (cached->json, "clientSecret"),
                      "refreshToken", text_of (cached->json, "refreshToken"));
}

/* Replace the token by that of an answer. */
static int
store (struct cached *cached, json_t *answer, struct fail *fail)
{
    const json_t *seconds = json_object_get (answer, "expiresIn");
    time_t end;
    char text[40];
    struct tm parts;
    struct io_target target;
    if (!text_of (answer, "accessToken") || !json_is_integer (seconds)
        || __builtin_add_overflow (time (NULL), json_integer_value (seconds), &end) || !gmtime_r (&end, &parts)
        || !strftime (text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) || when_iso (text) <= time (NULL))
        return fail_set (fail, FAIL_GENERAL, "sso-oidc CreateToken: the answer has no valid token");
    json_t *json = json_copy (cached->json), *refresh = json_object_get (answer, "refreshToken");
    int wrong = json_object_set (json, "accessToken", json_object_get (answer, "accessToken"))
                | json_object_set_new (json, "expiresAt", json_string (text));
    if (json_is_string (refresh)) /* otherwise, the old one stays valid */
        wrong |= json_object_set (json, "refreshToken", refresh);
    char *bytes = wrong ? NULL : json_dumps (json, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref (json);
    if (!bytes)
        return fail_nomem (fail);
    int result = io_target_find (&target, cached->path.text, 0600, fail);
    target.mode = 0600;
    if (!result)
        result = io_target_write (&target, bytes, strlen (bytes), fail);
    io_target_release (&target);
    keys_wipe (bytes);
    return result;
}

/* @param body  with secrets; is wiped */
static int
ask_for_token (struct aws *aws, struct cached *cached, char *body, struct aws_error *error, struct fail *fail)
{
    static const char *const headers[] = { "Content-Type: application/json" };
    AUTO_STRBUF struct strbuf url = { 0 };
    struct http_response response = { 0 };
    const char *region = cached->login->region, *override = endpoint_override (aws, "SSO_OIDC");
    int result = override ? endpoint_add_override (&url, override, fail) : 0;
    if (!override)
        strbuf_printf (&url, "https://oidc.%s.%s", region, aws_domain (region));
    strbuf_add (&url, "/token");
    if (!result && url.failed)
        result = fail_nomem (fail);
    if (!result) {
        struct request request = { .name = "sso-oidc", .service = AWS_STS, .action = "CreateToken", .region = region,
                                   .http = { .url = url.text, .headers = headers, .header_count = 1, .body = body,
                                             .body_length = strlen (body), .most = MOST_ANSWER } };
        result = request_send (aws, NULL, NULL, &request, &response, error, fail);
    }
    json_t *answer
        = result ? NULL : keys_parse (response.body.text, response.body.length, "sso-oidc CreateToken: the answer",
                                      fail);
    result = answer ? store (cached, answer, fail) : -1;
    json_decref (answer);
    request_wipe (&response);
    keys_wipe (body);
    return result;
}

/* Afterwards, @cached is what is in the file: an older token, unless this or another process has renewed it.
 * @why  stays empty if there is nothing to renew it with */
static void
renew (struct aws *aws, struct cached *cached, struct fail *why)
{
    struct aws_error error = { 0 };
    json_t *json = renewal (cached);
    char *body = json ? json_dumps (json, JSON_COMPACT) : NULL;
    json_decref (json);
    if (!body || io_check_writable (cached->path.text, why)) { /* the answer may be the last that the server gives */
        keys_wipe (body);
        return;
    }
    if (ask_for_token (aws, cached, body, &error, why) && error.status / 100 == 4) /* its words may quote the token */
        fail_set (why, FAIL_GENERAL, "sso-oidc CreateToken: %.95s", *error.code ? error.code : "refused");
    read_cache (cached, NULL);
}

/* The token of the cache.  One that ends within 15 minutes is renewed, as Amazon's tools do, and the file is replaced.
 * @param[out] token  for keys_wipe() */
static int
find_token (struct aws *aws, const struct sso_login *login, char **token, struct fail *fail)
{
    const char *home = state_variable ("HOME"), *key = login->session ? login->session : login->url;
    struct cached cached = { .login = login };
    struct fail why = { 0 };
    char hash[SHA1_TEXT];
    sha1_text (key, strlen (key), hash);
    strbuf_printf (&cached.path, "%s/.aws/sso/cache/%s.json", home ? home : "", hash);
    int result = cached.path.failed ? fail_nomem (fail) : read_cache (&cached, fail);
    if (!result && cached.expires < time (NULL) + RENEW_S)
        renew (aws, &cached, &why);
    if (!result && cached.expires <= time (NULL)) {
        if (*why.text)
            fail_prefix (&why, "the session has expired, and cannot be renewed");
        result = refuse_token (login, *why.text ? why.text : "the session has expired", fail);
    }
    if (!result && !(*token = strdup (cached.token)))
        result = fail_nomem (fail);
    json_decref (cached.json);
    strbuf_release (&cached.path);
    return result;
}

/* ---- keys for the token ---- */

struct sso {
    struct sso_login login;
    const char *account, *role;
};

static int
read_profile (const struct aws *aws, struct sso *sso, struct fail *fail)
{
    struct sso_login *login = &sso->login;
    const char *profile = login->profile;
    login->session = state_profile_value (aws, profile, "sso_session");
    login->url = state_profile_value (aws, profile, "sso_start_url");
    login->region = state_profile_value (aws, profile, "sso_region");
    sso->account = state_profile_value (aws, profile, "sso_account_id");
    sso->role = state_profile_value (aws, profile, "sso_role_name");
    if (login->session) {
        login->url = profiles_get (&aws->config, PROFILES_SSO_SESSION, login->session, "sso_start_url");
        login->region = profiles_get (&aws->config, PROFILES_SSO_SESSION, login->session, "sso_region");
        if (!profiles_get (&aws->config, PROFILES_SSO_SESSION, login->session, ""))
            return fail_set (fail, FAIL_GENERAL, "there is no section [sso-session %.100s]", login->session);
    }
    const char *missing = !login->url || !*login->url         ? "sso_start_url"
                          : !login->region || !*login->region ? "sso_region"
                          : !sso->account                     ? "sso_account_id"
                          : !sso->role                        ? "sso_role_name"
                                                              : NULL;
    if (missing)
        return fail_set (fail, FAIL_GENERAL, "%s is missing", missing);
    if (login->region[strspn (login->region, "abcdefghijklmnopqrstuvwxyz0123456789-")])
        return fail_set (fail, FAIL_GENERAL, "sso_region is not a valid region");
    return 0;
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
        strbuf_printf (&url, "https://portal.sso.%s.%s", sso->login.region, aws_domain (sso->login.region));
    strbuf_add (&url, "/federation/credentials?role_name=");
    http_encode (&url, sso->role, false);
    strbuf_add (&url, "&account_id=");
    http_encode (&url, sso->account, false);
    strbuf_printf (&header, "x-amz-sso_bearer_token: %s", token);
    if (url.failed || header.failed)
        return fail_nomem (fail);
    const char *headers[] = { header.text };
    struct request request = { .name = "sso", .service = AWS_STS, .action = "GetRoleCredentials",
                               .region = sso->login.region,
                               .http = { .url = url.text, .headers = headers, .header_count = 1,
                                         .most = MOST_ANSWER } };
    int result = request_send (aws, NULL, NULL, &request, &response, &error, fail);
    if (result && (error.status == 401 || aws_error_is (&error, "UnauthorizedException")))
        refuse_token (&sso->login, "the session is no longer valid", fail);
    if (!result)
        result = source_read_json (&response, &keys_names_sso, "roleCredentials", "GetRoleCredentials", keys, fail);
    explicit_bzero (header.text, header.capacity);
    request_wipe (&response);
    return result;
}

int
source_sso (struct aws *aws, const char *profile, struct found *found, struct fail *fail)
{
    struct sso sso = { .login.profile = profile };
    char *token = NULL;
    if (!state_profile_value (aws, profile, "sso_session") && !state_profile_value (aws, profile, "sso_start_url"))
        return SOURCE_NONE;
    int result = read_profile (aws, &sso, fail) || find_token (aws, &sso.login, &token, fail)
                         || ask (aws, &sso, token, &found->keys, fail)
                     ? -1
                     : 0;
    keys_wipe (token);
    return found_end (found, result, fail, "AWS profile '%.100s' (IAM Identity Center)", profile);
}
